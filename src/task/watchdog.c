/* watchdog: notices a loop that does not come round, and samples its lag. */
#include "task/task_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { SAMPLE_MS = 100, SAMPLES = 600, HOPELESS_MS = 10000 };

/* The thread. */
static pthread_t thread;
static bool started;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static bool stopping; /* under lock */
static int stall_ms;

/* Set by the thread when it sees a stall, taken by the loop when the stall is over. */
static _Atomic(const char *) stalled;

/* Lag: how much later than asked a timer of SAMPLE_MS comes. */
static struct task_timer timer;
static float samples[SAMPLES];
static size_t samples_n;
static double lag_last, lag_max;
static double ranked;   /* the 95th percentile of the samples … */
static size_t ranked_n; /* … when there had been this many */

void watchdog_beat(int64_t now_us)
{
    const char *name = atomic_load_explicit(&stalled, memory_order_relaxed);
    if (name && atomic_exchange(&stalled, NULL)) {
        int64_t began = atomic_load_explicit(&task_rt.beat_us, memory_order_relaxed);
        log_warn("task", "the event loop stood still for %lld ms in \"%s\"",
                 (long long)(now_us - began) / 1000, name);
    }
    atomic_store_explicit(&task_rt.beat_us, now_us, memory_order_relaxed);
    atomic_store_explicit(&task_rt.polling, false, memory_order_relaxed);
    atomic_store_explicit(&task_rt.beat, task_rt.beat_count++, memory_order_relaxed);
}

/* Waits; false when the thread has to end. */
static bool nap(int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t ns = until.tv_nsec + (int64_t)ms * 1000000;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&lock);
    while (!stopping && pthread_cond_timedwait(&wake, &lock, &until) != ETIMEDOUT) {
    }
    bool go_on = !stopping;
    pthread_mutex_unlock(&lock);
    return go_on;
}

static void *watch(void *arg)
{
    (void)arg;
    int step = stall_ms / 4 > 0 ? stall_ms / 4 : 1;
    uint64_t beat = 0, idle = 0;
    int still_ms = 0;
    while (nap(step)) {
        uint64_t beat_now = atomic_load_explicit(&task_rt.beat, memory_order_relaxed);
        /* Grows while the loop sleeps in its poll; stands still when a callback of the poll
         * blocks. */
        uint64_t idle_now = uv_metrics_idle_time(&task_rt.loop);
        bool sleeping =
            atomic_load_explicit(&task_rt.polling, memory_order_relaxed) && idle_now != idle;
        if (beat_now != beat || sleeping) {
            still_ms = 0;
        } else {
            still_ms += step;
        }
        beat = beat_now;
        idle = idle_now;
        if (still_ms < stall_ms) {
            continue;
        }
        const char *name = atomic_load_explicit(&task_rt.running, memory_order_relaxed);
        name = name ? name : "a callback of the loop";
        if (!atomic_load(&stalled)) {
            atomic_store(&stalled, name);
        }
        if (still_ms >= HOPELESS_MS && still_ms < HOPELESS_MS + step) {
            log_error("task", "the event loop has stood still for %d s in \"%s\" and still does",
                      HOPELESS_MS / 1000, name);
        }
    }
    return NULL;
}

static void sample(void *arg)
{
    (void)arg;
    double lag = (double)(time_mono_us() - timer.at_us) / 1000;
    lag_last = lag < 0 ? 0 : lag;
    if (lag_last > lag_max) {
        lag_max = lag_last;
    }
    samples[samples_n++ % SAMPLES] = (float)lag_last;
    task_timer_start(&timer, SAMPLE_MS, sample, NULL);
}

void task_watchdog_start(int ms)
{
    assert(task_rt.active && !started && ms > 0);
    stall_ms = ms;
    stopping = false;
    samples_n = ranked_n = 0;
    lag_last = lag_max = ranked = 0;
    task_timer_start(&timer, SAMPLE_MS, sample, NULL);
    uv_loop_configure(&task_rt.loop, UV_METRICS_IDLE_TIME);
    started = pthread_create(&thread, NULL, watch, NULL) == 0;
    if (!started) {
        log_warn("task", "no thread for the watchdog: stalls of the event loop go unreported");
    }
}

void watchdog_teardown(void)
{
    task_timer_stop(&timer);
    if (started) {
        pthread_mutex_lock(&lock);
        stopping = true;
        pthread_cond_signal(&wake);
        pthread_mutex_unlock(&lock);
        pthread_join(thread, NULL);
        started = false;
    }
    atomic_store(&stalled, NULL);
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Sorted once for each new sample: whoever asks for the health asks more often than that. */
static double lag_p95(void)
{
    float sorted[SAMPLES];
    size_t n = samples_n < SAMPLES ? samples_n : SAMPLES;
    if (ranked_n == samples_n) {
        return ranked;
    }
    memcpy(sorted, samples, n * sizeof(float));
    qsort(sorted, n, sizeof(float), ascending);
    ranked_n = samples_n;
    ranked = (double)sorted[(n - 1) * 95 / 100];
    return ranked;
}

void watchdog_stats(struct task_stats *out)
{
    out->lag_last_ms = lag_last;
    out->lag_max_ms = lag_max;
    out->lag_p95_ms = lag_p95();
}

void task_stats_get(struct task_stats *out)
{
    *out = (struct task_stats){.fibers = task_rt.count,
                               .fibers_peak = task_rt.peak,
                               .stacks_pooled = fiber_pooled(),
                               .switches = task_rt.switches};
    work_stats(out);
    watchdog_stats(out);
}
