/* loop: the runtime: libuv's loop, the queue of ready fibers, posts from other threads.
 *
 * Ready fibers run before the loop polls and after it; timers too. A phase is bounded in number and
 * time, so that fibers that wake each other do not keep the loop from its descriptors. */
#include "task/task_private.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

enum {
    PHASE_FIBERS = 256,
    PHASE_US = 2000,
    CLOCK_EVERY = 16, /* fibers between two looks at the clock */
    SWEEP_MS = 250,
    LONG_PARK = 2, /* sweeps after which a parked fiber gives back unused pages */
    DEFAULT_LIMIT = 20000,
};

struct task_runtime task_rt = {.limit = DEFAULT_LIMIT};
static _Thread_local struct task *current;
static _Thread_local bool on_loop_thread;

static pthread_mutex_t posts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list posts;   /* under posts_lock */
static bool posts_can_wake; /* under posts_lock: the async handle is open */

/* ---- parked fibers --------------------------------------------------------------------------- */

static void sweep(void *arg)
{
    (void)arg;
    task_rt.epoch++;
    bool again = fiber_pool_trim();
    /* In the order of their parking, so the first young one ends it. A trimmed fiber leaves the
     * list and costs nothing until it parks again. */
    while (!list_empty(&task_rt.parked)) {
        struct task *t = container_of(task_rt.parked.next, struct task, queue);
        if (task_rt.epoch - t->parked_epoch < LONG_PARK) {
            again = true;
            break;
        }
        queue_del(&t->queue);
        fiber_trim(t);
    }
    task_rt.sweeping = again;
    if (again) {
        task_timer_start(&task_rt.sweep, SWEEP_MS, sweep, NULL);
    }
}

static inline void start_sweeping(void)
{
    if (!task_rt.sweeping) {
        task_rt.sweeping = true;
        task_timer_start(&task_rt.sweep, SWEEP_MS, sweep, NULL);
    }
}

void task_make_ready(struct task *t)
{
    assert(on_loop_thread && "other threads wake fibers by task_post_from_thread");
    if (t->state == TASK_PARKED) {
        queue_del(&t->queue);
        t->state = TASK_READY;
        queue_push(&task_rt.ready, &t->queue);
    }
}

/* ---- running fibers -------------------------------------------------------------------------- */

struct task *task_self(void)
{
    return current;
}

bool task_in_fiber(void)
{
    return current != NULL;
}

/* The next fiber of this phase, made the running one; NULL when none is ready or the phase is
 * over. */
static inline struct task *take_next(void)
{
    if (task_rt.ready.next == &task_rt.ready || task_rt.phase_left == 0) {
        return NULL;
    }
    if (--task_rt.phase_left % CLOCK_EVERY == 0 &&
        time_mono_us() - task_rt.phase_began_us > PHASE_US) {
        task_rt.phase_left = 0;
        return NULL;
    }
    struct task *t = container_of(task_rt.ready.next, struct task, queue);
    queue_del(&t->queue);
    t->state = TASK_RUNNING;
    current = t;
    task_rt.switches++;
    atomic_store_explicit(&task_rt.running, t->name, memory_order_relaxed);
    atomic_store_explicit(&task_rt.beat, task_rt.beat_count++, memory_order_relaxed);
    return t;
}

void task_leave(struct task *t)
{
    if (t->state == TASK_READY) {
        queue_push(&task_rt.ready, &t->queue);
    } else {
        t->parked_epoch = task_rt.epoch;
        queue_push(&task_rt.parked, &t->queue);
        start_sweeping();
    }
    struct task *next = take_next();
    if (!next) {
        fiber_leave(t);
    } else if (next != t) {
        fiber_pass(t, next);
    }
}

/* One phase: due timers, then ready fibers within the bound. */
static void run_phase(void)
{
    task_rt.phase_began_us = time_mono_us();
    task_rt.phase_left = PHASE_FIBERS;
    watchdog_beat(task_rt.phase_began_us);
    timer_run_due(task_rt.phase_began_us);
    struct task *t;
    while ((t = take_next())) {
        fiber_enter(t);
        t = current; /* fibers may have passed the turn on */
        current = NULL;
        if (t->state == TASK_ENDED) {
            fiber_drop(t);
        }
    }
    atomic_store_explicit(&task_rt.running, NULL, memory_order_relaxed);
    if (task_rt.done) {
        uv_stop(&task_rt.loop);
    }
}

static void on_idle(uv_idle_t *h)
{
    (void)h; /* its being active alone keeps the loop from sleeping */
}

static void on_timer(uv_timer_t *h)
{
    (void)h; /* bounds the sleep; the phase looks for what is due */
}

/* Before the poll. This handle was started first, so libuv calls it after all other prepare
 * handles. */
static void on_prepare(uv_prepare_t *h)
{
    (void)h;
    run_phase();
    bool more = task_rt.ready.next != &task_rt.ready;
    if (more && !task_rt.idling) {
        uv_idle_start(&task_rt.idle, on_idle);
    } else if (!more && task_rt.idling) {
        uv_idle_stop(&task_rt.idle);
    }
    task_rt.idling = more;
    int64_t next = timer_next_us();
    if (next == WAIT_FOREVER) {
        uv_timer_stop(&task_rt.timer);
    } else {
        int64_t left = next - time_mono_us();
        uv_update_time(&task_rt.loop);
        uv_timer_start(&task_rt.timer, on_timer, left > 0 ? (uint64_t)(left + 999) / 1000 : 0, 0);
    }
    atomic_store_explicit(&task_rt.polling, true, memory_order_relaxed);
}

static void on_check(uv_check_t *h)
{
    (void)h;
    run_phase();
}

/* ---- posts ----------------------------------------------------------------------------------- */

static void run_posts(void)
{
    for (;;) {
        pthread_mutex_lock(&posts_lock);
        struct list *node = list_pop(&posts);
        pthread_mutex_unlock(&posts_lock);
        if (!node) {
            return;
        }
        struct task_post *p = container_of(node, struct task_post, node);
        p->fn(p->arg); /* p may be gone now */
    }
}

static void on_async(uv_async_t *h)
{
    (void)h;
    run_posts();
}

void task_post_from_thread(struct task_post *p, void (*fn)(void *arg), void *arg)
{
    p->fn = fn;
    p->arg = arg;
    pthread_mutex_lock(&posts_lock);
    bool first = list_empty(&posts);
    list_push(&posts, &p->node);
    /* Inside the lock, so that the handle cannot be closed in between. */
    if (first && posts_can_wake) {
        uv_async_send(&task_rt.async);
    }
    pthread_mutex_unlock(&posts_lock);
}

static void posts_open(bool on)
{
    pthread_mutex_lock(&posts_lock);
    posts_can_wake = on;
    if (on && !list_empty(&posts)) {
        uv_async_send(&task_rt.async);
    }
    pthread_mutex_unlock(&posts_lock);
}

/* ---- fibers ---------------------------------------------------------------------------------- */

static void fiber_main(struct task *t)
{
    t->fn(t->arg);
    assert(!t->deadline && "a deadline was pushed and not popped");
    task_end_of_fiber(t);
    task_rt.count--;
    t->state = TASK_ENDED;
    start_sweeping(); /* for the pool, where the stack goes */
    fiber_leave(t);
}

bool task_spawn(struct task_group *g, const char *name, void (*fn)(void *arg), void *arg,
                struct error *err)
{
    if (!group_may_spawn(g, err)) {
        return false;
    }
    if (task_rt.count >= task_rt.limit) {
        return err_tag(err, ERR_CAPACITY, 0, "too_many_tasks",
                       "%zu tasks are running, the most that are allowed", task_rt.count);
    }
    struct task *t = fiber_make(fiber_main);
    if (!t) {
        return err_set(err, ERR_NOMEM, "out of memory for a new task");
    }
    t->name = name;
    t->fn = fn;
    t->arg = arg;
    group_add(g, t);
    queue_push(&task_rt.ready, &t->queue);
    if (++task_rt.count > task_rt.peak) {
        task_rt.peak = task_rt.count;
    }
    return true;
}

void task_limit(size_t max_fibers)
{
    task_rt.limit = max_fibers;
}

size_t task_count(void)
{
    return task_rt.count;
}

/* ---- the run --------------------------------------------------------------------------------- */

struct uv_loop_s *task_loop(void)
{
    return task_rt.active ? &task_rt.loop : NULL;
}

struct main_call {
    int (*fn)(void *arg);
    void *arg;
    int value;
};

static void run_main(void *arg)
{
    struct main_call *call = arg;
    call->value = call->fn(call->arg);
}

static void must(bool ok, const char *what)
{
    if (!ok) {
        log_error("task", "cannot start the event loop: %s failed", what);
        abort();
    }
}

static void set_up(void)
{
    struct task_runtime *rt = &task_rt;
    size_t limit = rt->limit;
    *rt = (struct task_runtime){.limit = limit, .active = true};
    list_init(&rt->ready);
    list_init(&rt->parked);
    signal(SIGPIPE, SIG_IGN); /* a peer that went away is an error of write, not the end of us */
    must(uv_loop_init(&rt->loop) == 0, "uv_loop_init");
    must(uv_async_init(&rt->loop, &rt->async, on_async) == 0, "uv_async_init");
    uv_prepare_init(&rt->loop, &rt->prepare);
    uv_check_init(&rt->loop, &rt->check);
    uv_idle_init(&rt->loop, &rt->idle);
    uv_timer_init(&rt->loop, &rt->timer);
    uv_prepare_start(&rt->prepare, on_prepare);
    uv_check_start(&rt->check, on_check);
    must(timer_setup(), "the timers' reservation");
    must(fd_setup(), "epoll");
    work_setup();
    fiber_setup();
    posts_open(true);
}

static void close_stray(uv_handle_t *h, void *arg)
{
    size_t *n = arg;
    if (!uv_is_closing(h)) {
        ++*n;
        uv_close(h, NULL);
    }
}

static void tear_down(void)
{
    struct task_runtime *rt = &task_rt;
    posts_open(false);
    run_posts();
    watchdog_teardown();
    signal_teardown();
    child_teardown();
    fd_teardown();
    task_timer_stop(&rt->sweep);
    timer_teardown();
    uv_handle_t *own[] = {(uv_handle_t *)&rt->prepare, (uv_handle_t *)&rt->check,
                          (uv_handle_t *)&rt->idle, (uv_handle_t *)&rt->timer,
                          (uv_handle_t *)&rt->async};
    for (size_t i = 0; i < array_len(own); i++) {
        uv_close(own[i], NULL);
    }
    uv_run(&rt->loop, UV_RUN_NOWAIT);
    if (uv_loop_close(&rt->loop) != 0) {
        size_t strays = 0;
        uv_walk(&rt->loop, close_stray, &strays);
        log_error("task", "%zu handles were left open on the event loop", strays);
        uv_run(&rt->loop, UV_RUN_NOWAIT);
        uv_loop_close(&rt->loop);
    }
    fiber_pool_clear();
    rt->active = false;
}

int task_run(int (*fn)(void *arg), void *arg)
{
    assert(!task_rt.active);
    set_up();
    on_loop_thread = true;
    struct main_call call = {.fn = fn, .arg = arg};
    struct error err;
    task_rt.root = group_root_new();
    must(task_rt.root != NULL, "memory");
    must(task_spawn(task_rt.root, "main", run_main, &call, &err), "the first fiber");
    while (!task_rt.done) {
        uv_run(&task_rt.loop, UV_RUN_DEFAULT);
    }
    group_root_free(task_rt.root);
    tear_down();
    on_loop_thread = false;
    return call.value;
}
