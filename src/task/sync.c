/* sync: mutex, semaphore, condition, channel. What is handed over goes straight to the first
 * waiter, so all are FIFO and nothing is lost when a waiter is cancelled in the moment that its
 * turn comes. */
#include "task/task_private.h"

/* ---- mutex ----------------------------------------------------------------------------------- */

bool task_lock(struct task_mutex *m, struct error *err)
{
    if (!wait_begin(err)) {
        return false;
    }
    assert(m->owner != task_self() && "the mutex is not recursive");
    if (!m->owner) {
        m->owner = task_self();
        return true;
    }
    struct waiter w;
    return wait_result(waiter_wait(&m->waiters, &w, 0), err);
}

void task_unlock(struct task_mutex *m)
{
    assert(m->owner == task_self());
    struct waiter *w = waiter_first(&m->waiters);
    m->owner = w ? w->task : NULL;
    if (w) {
        waiter_finish(w);
    }
}

/* ---- semaphore ------------------------------------------------------------------------------- */

void task_sem_init(struct task_sem *s, long n)
{
    *s = (struct task_sem){.free = n};
}

bool task_sem_try(struct task_sem *s)
{
    /* Who waits has come first; with somebody waiting nothing is free anyway. */
    if (s->free <= 0) {
        return false;
    }
    s->free--;
    return true;
}

bool task_sem_take(struct task_sem *s, struct error *err)
{
    if (!wait_begin(err)) {
        return false;
    }
    if (task_sem_try(s)) {
        return true;
    }
    struct waiter w;
    return wait_result(waiter_wait(&s->waiters, &w, 0), err);
}

void task_sem_give(struct task_sem *s)
{
    struct waiter *w = s->free >= 0 ? waiter_first(&s->waiters) : NULL;
    if (w) {
        waiter_finish(w);
    } else {
        s->free++;
    }
}

/* ---- condition ------------------------------------------------------------------------------- */

bool task_cond_wait(struct task_cond *c, struct error *err)
{
    if (!wait_begin(err)) {
        return false;
    }
    struct waiter w;
    return wait_result(waiter_wait(&c->waiters, &w, 0), err);
}

void task_cond_notify_one(struct task_cond *c)
{
    struct waiter *w = waiter_first(&c->waiters);
    if (w) {
        waiter_finish(w);
    }
}

void task_cond_notify_all(struct task_cond *c)
{
    struct waiter *w;
    while ((w = waiter_first(&c->waiters))) {
        waiter_finish(w);
    }
}

/* ---- channel --------------------------------------------------------------------------------- */

struct task_chan {
    struct list senders, receivers;
    size_t capacity, at, n; /* n items from ring[at] on */
    bool closed;
    void *ring[];
};

struct task_chan *task_chan_new(size_t capacity)
{
    assert(capacity >= 1);
    if (capacity > (SIZE_MAX - sizeof(struct task_chan)) / sizeof(void *)) {
        return NULL;
    }
    struct task_chan *c = mem_alloc(sizeof(*c) + capacity * sizeof(void *));
    if (c) {
        c->capacity = capacity;
    }
    return c;
}

void task_chan_free(struct task_chan *c)
{
    if (c) {
        assert(list_empty(&c->senders) && list_empty(&c->receivers));
        mem_free(c);
    }
}

static void enqueue(struct task_chan *c, void *item)
{
    size_t i = c->at + c->n++;
    c->ring[i < c->capacity ? i : i - c->capacity] = item;
}

bool task_chan_try_send(struct task_chan *c, void *item)
{
    if (c->closed) {
        return false;
    }
    struct waiter *w = waiter_first(&c->receivers);
    if (w) { /* then the ring is empty */
        w->item = item;
        waiter_finish(w);
        return true;
    }
    if (c->n == c->capacity) {
        return false;
    }
    enqueue(c, item);
    return true;
}

/* Result of a wait in a channel's queue. */
static bool finish(const struct waiter *w, enum err_code code, struct error *err)
{
    return wait_result(code == ERR_NONE && w->closed ? ERR_CLOSED : code, err);
}

bool task_chan_send(struct task_chan *c, void *item, struct error *err)
{
    if (!wait_begin(err)) {
        return false;
    }
    if (c->closed) {
        return wait_result(ERR_CLOSED, err);
    }
    if (task_chan_try_send(c, item)) {
        return true;
    }
    struct waiter w = {.item = item};
    enum err_code code = waiter_wait(&c->senders, &w, 0);
    return finish(&w, code, err);
}

bool task_chan_recv(struct task_chan *c, void **item, struct error *err)
{
    if (!wait_begin(err)) {
        return false;
    }
    if (c->n) {
        *item = c->ring[c->at];
        c->at = c->at + 1 < c->capacity ? c->at + 1 : 0;
        c->n--;
        struct waiter *w = waiter_first(&c->senders);
        if (w) {
            enqueue(c, w->item);
            waiter_finish(w);
        }
        return true;
    }
    if (c->closed) {
        return wait_result(ERR_CLOSED, err);
    }
    struct waiter w = {.item = NULL};
    enum err_code code = waiter_wait(&c->receivers, &w, 0);
    if (!finish(&w, code, err)) {
        return false;
    }
    *item = w.item;
    return true;
}

static void close_queue(struct list *queue)
{
    struct waiter *w;
    while ((w = waiter_first(queue))) {
        w->closed = true;
        waiter_finish(w);
    }
}

void task_chan_close(struct task_chan *c)
{
    c->closed = true;
    close_queue(&c->senders);
    close_queue(&c->receivers);
}
