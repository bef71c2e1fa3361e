/* work: functions on libuv's thread pool. */
#include "task/task_private.h"

#include <stdlib.h>

struct work {
    uv_work_t request; /* on the stack of the fiber, which stays until the end */
    struct task *task;
    void (*fn)(void *arg);
    void *arg;
    bool done, ran;
};

static size_t submitted; /* running or waiting for a thread */
static uint64_t finished, rejected;
static atomic_size_t running;

void work_setup(void)
{
    /* libuv reads it when the first work comes; no other thread runs yet that could read the
     * environment. */
    setenv("UV_THREADPOOL_SIZE", TASK_WORKERS_TEXT, 1);
    submitted = 0;
    finished = rejected = 0;
}

static void on_worker(uv_work_t *request)
{
    struct work *w = container_of(request, struct work, request);
    atomic_fetch_add(&running, 1);
    w->fn(w->arg);
    atomic_fetch_sub(&running, 1);
}

static void on_end(uv_work_t *request, int status)
{
    struct work *w = container_of(request, struct work, request);
    submitted--;
    w->ran = status != UV_ECANCELED;
    w->done = true;
    task_make_ready(w->task);
}

bool task_work(void (*fn)(void *arg), void *arg, struct error *err)
{
    if (!wait_begin(err)) {
        return false;
    }
    if (submitted >= TASK_WORKERS + TASK_WORK_PENDING) {
        rejected++;
        return err_tag(err, ERR_CAPACITY, 0, "blocking_work_capacity_exceeded",
                       "more than %d blocking calls wait for a worker", TASK_WORK_PENDING);
    }
    struct work w = {.task = task_self(), .fn = fn, .arg = arg};
    if (uv_queue_work(&task_rt.loop, &w.request, on_worker, on_end) != 0) {
        return err_set(err, ERR_INTERNAL, "the worker pool does not take work");
    }
    submitted++;
    enum err_code code = wait_for(&w.done, WAIT_FOREVER, 0);
    if (code != ERR_NONE) {
        uv_cancel((uv_req_t *)&w.request); /* fails when a thread has begun */
        wait_for(&w.done, WAIT_FOREVER, WAIT_NO_CANCEL | WAIT_NO_DEADLINE);
        if (!w.ran) {
            return wait_result(code, err);
        }
    }
    finished++;
    return true;
}

void work_stats(struct task_stats *out)
{
    size_t busy = atomic_load(&running);
    out->work_running = busy < submitted ? busy : submitted;
    out->work_pending = submitted - out->work_running;
    out->work_done = finished;
    out->work_rejected = rejected;
}
