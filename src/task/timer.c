/* timer: one binary heap for timers, sleeps and deadlines.  Starting a timer cannot fail, so the
 * heap's array is address space reserved at start-up; its pages come into being when they are
 * first used. */
#include "task/task_private.h"

#include <stdlib.h>
#include <sys/mman.h>

struct entry {
    int64_t at_us; /* copied out of the timer: sifting touches this array only */
    struct task_timer *timer;
};

enum { ENTRIES_MAX = 1 << 21 };

static struct entry *heap;
static size_t heap_n;

/* heap_at is the index + 1; 0 means that the timer does not run. */
static void place(size_t i, struct entry e)
{
    heap[i] = e;
    e.timer->heap_at = i + 1;
}

static void sift_up(size_t i, struct entry e)
{
    while (i > 0 && heap[(i - 1) / 2].at_us > e.at_us) {
        place(i, heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    place(i, e);
}

static void sift_down(size_t i, struct entry e)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= heap_n) {
            break;
        }
        if (child + 1 < heap_n && heap[child + 1].at_us < heap[child].at_us) {
            child++;
        }
        if (heap[child].at_us >= e.at_us) {
            break;
        }
        place(i, heap[child]);
        i = child;
    }
    place(i, e);
}

void timer_start_at(struct task_timer *t, int64_t at_us, void (*fn)(void *arg), void *arg)
{
    assert(heap);
    task_timer_stop(t);
    if (heap_n == ENTRIES_MAX) {
        log_error("task", "more than %d timers", ENTRIES_MAX);
        abort(); /* a hundred times what the other limits allow */
    }
    t->at_us = at_us;
    t->fn = fn;
    t->arg = arg;
    sift_up(heap_n++, (struct entry){at_us, t});
}

void task_timer_start(struct task_timer *t, int64_t ms, void (*fn)(void *arg), void *arg)
{
    timer_start_at(t, time_after_ms(ms), fn, arg);
}

void task_timer_stop(struct task_timer *t)
{
    if (t->heap_at == 0) {
        return;
    }
    size_t i = t->heap_at - 1;
    t->heap_at = 0;
    struct entry last = heap[--heap_n];
    if (last.timer == t) {
        return;
    }
    if (i > 0 && heap[(i - 1) / 2].at_us > last.at_us) {
        sift_up(i, last);
    } else {
        sift_down(i, last);
    }
}

void timer_run_due(int64_t now_us)
{
    /* A timer that starts itself again with 0 ms is not due before the next turn. */
    size_t most = heap_n;
    while (most-- > 0 && heap_n > 0 && heap[0].at_us <= now_us) {
        struct task_timer *t = heap[0].timer;
        task_timer_stop(t);
        t->fn(t->arg);
    }
}

int64_t timer_next_us(void)
{
    return heap_n ? heap[0].at_us : WAIT_FOREVER;
}

bool timer_setup(void)
{
    void *p = mmap(NULL, ENTRIES_MAX * sizeof(struct entry), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    heap = p == MAP_FAILED ? NULL : p;
    heap_n = 0;
    return heap != NULL;
}

void timer_teardown(void)
{
    if (heap_n) {
        log_warn("task", "%zu timers were still running at the end", heap_n);
    }
    while (heap_n) {
        heap[--heap_n].timer->heap_at = 0;
    }
    munmap(heap, ENTRIES_MAX * sizeof(struct entry));
    heap = NULL;
}
