/* Mutex, semaphore, condition, channel: order, cancelling, time limits. */
#include "unit/task/run.h"

enum kind { LOCK, SEM, COND, SEND, RECV, KINDS };

struct room {
    struct task_mutex mutex;
    struct task_sem sem;
    struct task_cond cond;
    struct task_chan *full, *empty;
    int order[64];
    int n;
};

struct guest {
    struct room *room;
    enum kind kind;
    int number;
    int64_t limit_ms; /* -1: none */
    bool ok;
    struct error err;
};

static void room_open(struct room *r)
{
    struct error err;
    *r = (struct room){.full = task_chan_new(1), .empty = task_chan_new(4)};
    task_sem_init(&r->sem, 0);
    MUST(task_lock(&r->mutex, &err));
    CHECK(task_chan_try_send(r->full, r));
}

static void room_close(struct room *r)
{
    task_unlock(&r->mutex);
    CHECK(!r->mutex.owner && list_empty(&r->mutex.waiters) && list_empty(&r->sem.waiters) &&
          list_empty(&r->cond.waiters));
    task_chan_free(r->full);
    task_chan_free(r->empty);
}

static void guest_main(void *arg)
{
    struct guest *g = arg;
    struct room *r = g->room;
    struct task_deadline d;
    void *item = NULL;
    if (g->limit_ms >= 0) {
        task_deadline_push(&d, g->limit_ms);
    }
    switch (g->kind) {
    case LOCK: g->ok = task_lock(&r->mutex, &g->err); break;
    case SEM: g->ok = task_sem_take(&r->sem, &g->err); break;
    case COND: g->ok = task_cond_wait(&r->cond, &g->err); break;
    case SEND: g->ok = task_chan_send(r->full, g, &g->err); break;
    default: g->ok = task_chan_recv(r->empty, &item, &g->err); break;
    }
    if (g->ok) {
        r->order[r->n++] = g->number;
        if (g->kind == LOCK) {
            task_unlock(&r->mutex);
        }
    }
    if (g->limit_ms >= 0) {
        task_deadline_pop(&d);
    }
}

/* One waiting guest may go on. */
static void admit(struct room *r, enum kind kind)
{
    struct error err;
    void *item;
    switch (kind) {
    case LOCK:
        task_unlock(&r->mutex); /* the guests pass it on */
        settle();
        MUST(task_lock(&r->mutex, &err));
        break;
    case SEM: task_sem_give(&r->sem); break;
    case COND: task_cond_notify_one(&r->cond); break;
    case SEND: MUST(task_chan_recv(r->full, &item, &err)); break;
    default: MUST(task_chan_send(r->empty, r, &err)); break;
    }
}

FIBER_TEST(test_first_come_first_served)
{
    struct error err;
    for (int kind = 0; kind < KINDS; kind++) {
        struct room room;
        struct guest guests[10];
        struct task_group *g = group("g");
        room_open(&room);
        for (int i = 0; i < 10; i++) {
            guests[i] = (struct guest){&room, kind, i, -1, false, {0}};
            start(g, "guest", guest_main, &guests[i]);
        }
        settle();
        CHECK(room.n == 0);
        for (int i = 0; i < 10; i++) {
            admit(&room, kind);
            settle();
            CHECK(room.n == (kind == LOCK ? 10 : i + 1));
        }
        MUST(task_group_wait(g, &err));
        for (int i = 0; i < 10; i++) {
            CHECK(room.order[i] == i);
        }
        task_group_free(g);
        if (kind == SEND) { /* the last item is still queued */
            void *item;
            MUST(task_chan_recv(room.full, &item, &err));
            CHECK(item == &guests[9]);
        }
        room_close(&room);
    }
}

/* The middle one of three is cancelled or runs out of time; the others keep their turns. */
static void leave_early(bool by_deadline)
{
    struct error err;
    for (int kind = 0; kind < KINDS; kind++) {
        struct room room;
        struct guest guests[3];
        struct task_group *g = group("g"), *h = group("h");
        room_open(&room);
        for (int i = 0; i < 3; i++) {
            guests[i] = (struct guest){&room, kind, i, i == 1 && by_deadline ? 10 : -1, true, {0}};
            start(i == 1 ? h : g, "guest", guest_main, &guests[i]);
        }
        settle();
        if (!by_deadline) {
            task_group_cancel(h);
        }
        MUST(task_group_wait(h, &err));
        CHECK(!guests[1].ok && guests[1].err.code == (by_deadline ? ERR_TIMEOUT : ERR_CANCELED));
        for (int i = 0; i < 2; i++) {
            admit(&room, kind);
            settle();
        }
        MUST(task_group_wait(g, &err));
        CHECK(guests[0].ok && guests[2].ok && room.n == 2 && room.order[0] == 0);
        task_group_free(g);
        task_group_free(h);
        room_close(&room);
    }
}

FIBER_TEST(test_cancel_in_a_queue)
{
    leave_early(false);
}

FIBER_TEST(test_timeout_in_a_queue)
{
    leave_early(true);
}

/* What was handed over is not lost when the cancel comes before the waiter runs. */
FIBER_TEST(test_handed_over_beats_cancelled)
{
    struct error err;
    for (int kind = 0; kind < KINDS; kind++) {
        if (kind == LOCK) {
            continue; /* below */
        }
        struct room room;
        room_open(&room);
        struct task_group *g = group("g");
        struct guest guest = {&room, kind, 7, 5, false, {0}};
        start(g, "guest", guest_main, &guest);
        settle();
        admit(&room, kind);
        task_group_cancel(g);
        time_shift_us(0, 1000000); /* the deadline passes too */
        task_group_free(g);
        CHECK(guest.ok);
        time_shift_us(0, -1000000);
        room_close(&room);
    }
    struct room room;
    room_open(&room);
    struct task_group *g = group("g");
    struct guest guest = {&room, LOCK, 7, -1, false, {0}};
    start(g, "guest", guest_main, &guest);
    settle();
    task_unlock(&room.mutex);
    CHECK(room.mutex.owner != task_self() && room.mutex.owner);
    task_group_cancel(g);
    task_group_free(g);
    CHECK(guest.ok && !room.mutex.owner);
    MUST(task_lock(&room.mutex, &err));
    room_close(&room);
}

FIBER_TEST(test_sem_counts)
{
    struct error err;
    struct task_sem s;
    task_sem_init(&s, 2);
    CHECK(task_sem_try(&s));
    MUST(task_sem_take(&s, &err));
    CHECK(!task_sem_try(&s));
    struct task_deadline d;
    task_deadline_push(&d, 5);
    MUST_FAIL(task_sem_take(&s, &err), ERR_TIMEOUT);
    task_deadline_pop(&d);
    task_sem_give(&s);
    task_sem_give(&s);
    CHECK(s.free == 2);
}

FIBER_TEST(test_cond_notify)
{
    struct error err;
    struct room room;
    struct guest guests[5];
    struct task_group *g = group("g");
    room_open(&room);
    task_cond_notify_all(&room.cond); /* nobody there: not remembered */
    task_cond_notify_one(&room.cond);
    for (int i = 0; i < 5; i++) {
        guests[i] = (struct guest){&room, COND, i, -1, false, {0}};
        start(g, "guest", guest_main, &guests[i]);
    }
    settle();
    CHECK(room.n == 0);
    task_cond_notify_all(&room.cond);
    MUST(task_group_wait(g, &err));
    CHECK(room.n == 5);
    task_group_free(g);
    room_close(&room);
}

FIBER_TEST(test_channel_close)
{
    struct error err;
    void *item;
    int a, b;
    struct task_chan *c = task_chan_new(2);
    CHECK(task_chan_try_send(c, &a) && task_chan_try_send(c, &b) && !task_chan_try_send(c, &a));
    task_chan_close(c);
    task_chan_close(c);
    CHECK(!task_chan_try_send(c, &a));
    MUST_FAIL(task_chan_send(c, &a, &err), ERR_CLOSED);
    MUST(task_chan_recv(c, &item, &err)); /* what is queued can still be had */
    CHECK(item == &a);
    MUST(task_chan_recv(c, &item, &err));
    CHECK(item == &b);
    MUST_FAIL(task_chan_recv(c, &item, &err), ERR_CLOSED);
    task_chan_free(c);
    task_chan_free(NULL);

    struct room room;
    struct guest guests[4];
    struct task_group *g = group("g");
    room_open(&room);
    for (int i = 0; i < 4; i++) {
        guests[i] = (struct guest){&room, i % 2 ? SEND : RECV, i, -1, true, {0}};
        start(g, "guest", guest_main, &guests[i]);
    }
    settle();
    task_chan_close(room.full);
    task_chan_close(room.empty);
    MUST(task_group_wait(g, &err));
    for (int i = 0; i < 4; i++) {
        CHECK(!guests[i].ok && guests[i].err.code == ERR_CLOSED);
    }
    task_group_free(g);
    room_close(&room);
}

/* ---- many to many ---------------------------------------------------------------------------- */

enum { SENDERS = 50, EACH = 200 };
static char numbers[SENDERS * EACH];
static int received[SENDERS * EACH];

static void produce(void *arg)
{
    struct error err;
    static int next;
    int mine = next++ % SENDERS;
    for (int i = 0; i < EACH; i++) {
        MUST(task_chan_send(arg, &numbers[mine * EACH + i], &err));
    }
}

static void consume(void *arg)
{
    struct error err;
    void *item;
    int last[SENDERS];
    memset(last, 0xff, sizeof(last));
    while (task_chan_recv(arg, &item, &err)) {
        int n = (int)((char *)item - numbers);
        received[n]++;
        CHECK(last[n / EACH] < n % EACH); /* a sender's items stay in order */
        last[n / EACH] = n % EACH;
        if (n % 7 == 0) {
            task_yield();
        }
    }
    CHECK(err.code == ERR_CLOSED);
}

FIBER_TEST(test_channel_many_to_many)
{
    struct error err;
    for (size_t capacity = 1; capacity <= 64; capacity *= 8) {
        struct task_chan *c = task_chan_new(capacity);
        struct task_group *out = group("out"), *in = group("in");
        memset(received, 0, sizeof(received));
        for (int i = 0; i < SENDERS; i++) {
            start(out, "produce", produce, c);
        }
        for (int i = 0; i < 7; i++) {
            start(in, "consume", consume, c);
        }
        MUST(task_group_wait(out, &err));
        task_chan_close(c);
        MUST(task_group_wait(in, &err));
        for (size_t i = 0; i < array_len(received); i++) {
            CHECK(received[i] == 1);
        }
        task_group_free(out);
        task_group_free(in);
        task_chan_free(c);
    }
}

FIBER_TEST(test_channel_memory)
{
    mem_fail_after(1, false);
    CHECK(!task_chan_new(1));
    CHECK(!task_chan_new(SIZE_MAX));
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_come_first_served),
        cmocka_unit_test(test_cancel_in_a_queue),
        cmocka_unit_test(test_timeout_in_a_queue),
        cmocka_unit_test(test_handed_over_beats_cancelled),
        cmocka_unit_test(test_sem_counts),
        cmocka_unit_test(test_cond_notify),
        cmocka_unit_test(test_channel_close),
        cmocka_unit_test(test_channel_many_to_many),
        cmocka_unit_test(test_channel_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
