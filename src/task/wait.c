/* wait: parking, deadlines, sleep, and the queue that every primitive waits in. */
#include "task/task_private.h"

bool task_canceled(void)
{
    const struct task *t = task_self();
    return !t->shielded && group_canceled(t->group);
}

void task_shield(bool on)
{
    task_self()->shielded = on;
}

static void on_limit(void *arg)
{
    task_make_ready(arg);
}

static void park(struct task *t, int64_t until_us)
{
    if (until_us != WAIT_FOREVER) {
        timer_start_at(&t->timer, until_us, on_limit, t);
    }
    t->state = TASK_PARKED;
    task_leave(t);
    if (until_us != WAIT_FOREVER) {
        task_timer_stop(&t->timer);
    }
}

enum err_code wait_for(const bool *flag, int64_t until_us, int mode)
{
    struct task *t = task_self();
    assert(t);
    for (;;) {
        if (flag && *flag) {
            return ERR_NONE;
        }
        if (!(mode & WAIT_NO_CANCEL) && task_canceled()) {
            return ERR_CANCELED;
        }
        int64_t deadline =
            t->deadline && !(mode & WAIT_NO_DEADLINE) ? t->deadline->at_us : WAIT_FOREVER;
        int64_t limit = deadline < until_us ? deadline : until_us;
        if (limit != WAIT_FOREVER && time_mono_us() >= limit) {
            return limit == until_us && !flag ? ERR_NONE : ERR_TIMEOUT;
        }
        park(t, limit);
    }
}

bool wait_result(enum err_code code, struct error *err)
{
    switch (code) {
    case ERR_NONE: return true;
    case ERR_CANCELED: return err_set(err, code, "the operation was cancelled");
    case ERR_TIMEOUT: return err_set(err, code, "the operation took too long");
    case ERR_CLOSED: return err_set(err, code, "the channel is closed");
    default: return err_set(err, ERR_INTERNAL, "unexpected end of a wait");
    }
}

bool wait_begin(struct error *err)
{
    const struct task *t = task_self();
    assert(t);
    if (task_canceled()) {
        return wait_result(ERR_CANCELED, err);
    }
    if (t->deadline && time_mono_us() >= t->deadline->at_us) {
        return wait_result(ERR_TIMEOUT, err);
    }
    return true;
}

/* ---- queues ---------------------------------------------------------------------------------- */

enum err_code waiter_wait_until(struct list *queue, struct waiter *w, int64_t until_us, int mode)
{
    w->task = task_self();
    w->done = false;
    w->closed = false;
    list_push(queue, &w->node);
    enum err_code code = wait_for(&w->done, until_us, mode);
    if (code != ERR_NONE) {
        list_del(&w->node);
    }
    return code;
}

enum err_code waiter_wait(struct list *queue, struct waiter *w, int mode)
{
    return waiter_wait_until(queue, w, WAIT_FOREVER, mode);
}

void waiter_finish(struct waiter *w)
{
    list_del(&w->node);
    w->done = true;
    task_make_ready(w->task); /* w may be gone once that fiber runs */
}

struct waiter *waiter_first(struct list *queue)
{
    return list_empty(queue) ? NULL : container_of(queue->next, struct waiter, node);
}

/* ---- public ---------------------------------------------------------------------------------- */

bool task_park(struct error *err)
{
    struct task *t = task_self();
    t->in_park = true;
    enum err_code code = wait_for(&t->wake_token, WAIT_FOREVER, 0);
    t->in_park = false;
    if (code == ERR_NONE) {
        t->wake_token = false;
    }
    return wait_result(code, err);
}

void task_wake(struct task *t)
{
    t->wake_token = true;
    if (t->in_park) {
        task_make_ready(t);
    }
}

void task_yield(void)
{
    struct task *t = task_self();
    t->state = TASK_READY;
    task_leave(t);
}

void task_trim(void)
{
    char here = 0;
    if (task_self()) {
        fiber_trim_below(task_self(), &here);
    }
}

bool task_sleep_ms(int64_t ms, struct error *err)
{
    if (ms <= 0) {
        if (!wait_begin(err)) {
            return false;
        }
        task_yield();
        return true;
    }
    return wait_result(wait_for(NULL, time_after_ms(ms), 0), err);
}

int64_t time_after_ms(int64_t ms)
{
    int64_t now = time_mono_us();
    if (ms > (WAIT_FOREVER - 1 - now) / 1000) {
        return WAIT_FOREVER - 1;
    }
    return ms <= 0 ? now : now + ms * 1000;
}

void task_deadline_push(struct task_deadline *d, int64_t ms)
{
    struct task *t = task_self();
    d->outer = t->deadline;
    d->at_us = time_after_ms(ms);
    if (d->outer && d->outer->at_us < d->at_us) {
        d->at_us = d->outer->at_us;
    }
    t->deadline = d;
}

void task_deadline_pop(struct task_deadline *d)
{
    struct task *t = task_self();
    assert(t->deadline == d);
    t->deadline = d->outer;
}
