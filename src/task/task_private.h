/* What the files of task/ share with each other only. */
#ifndef PARLEY_TASK_PRIVATE_H
#define PARLEY_TASK_PRIVATE_H

#include "task/task.h"

#include <assert.h>
#include <stdatomic.h>
#include <uv.h>

#if defined(__has_feature)
#define TASK_FEATURE(f) __has_feature(f)
#else
#define TASK_FEATURE(f) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || TASK_FEATURE(address_sanitizer)
#define TASK_ASAN 1
#else
#define TASK_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || TASK_FEATURE(thread_sanitizer)
#define TASK_TSAN 1
#else
#define TASK_TSAN 0
#endif

/* The assembly switch exists for two CPUs; the thread sanitizer cannot follow it. */
#if !defined(PARLEY_UCONTEXT) && !TASK_TSAN && (defined(__x86_64__) || defined(__aarch64__))
#define TASK_ASM 1
#else
#define TASK_ASM 0
#include <ucontext.h>
#endif

/* ---- fiber.c: stacks and the switch ---------------------------------------------------------- */

struct fiber {
#if TASK_ASM
    void *sp; /* while it does not run */
#else
    ucontext_t context;
#endif
#if TASK_ASAN
    void (*entry)(struct task *t);
    void *fake_stack;
    const void *bottom;
    size_t size;
#endif
#if TASK_TSAN
    void *tsan;
#endif
};

enum task_state { TASK_READY, TASK_RUNNING, TASK_PARKED, TASK_ENDED };

/* One fiber. Lies at the upper end of its own stack, so that an idle fiber costs one page or
 * two. */
struct task {
    struct fiber fiber;
    struct list queue;  /* in task_rt.ready or task_rt.parked */
    struct list member; /* in group->tasks */
    struct task_group *group;
    const char *name;
    void (*fn)(void *arg);
    void *arg;
    char *stack; /* lowest usable byte */
    struct task_deadline *deadline;
    struct task_timer timer; /* in the heap only while the fiber is parked with a time limit */
    uint32_t parked_epoch;
    enum task_state state;
    bool shielded;
    bool wake_token; /* task_wake came */
    bool in_park;    /* parked by task_park, not by another wait */
};

/* A new stack with a task on it, made to run entry(task) at its first switch. NULL: no memory. */
struct task *fiber_make(void (*entry)(struct task *t));
/* Gives back the stack of an ended fiber; the task is gone after it. */
void fiber_drop(struct task *t);
void fiber_enter(struct task *t); /* from the loop's stack */
void fiber_leave(struct task *t); /* back to the loop's stack; returns when t is entered again */
void fiber_pass(struct task *from, struct task *to); /* straight from one to another */
/* Gives back the pages of a parked fiber that lie below its stack pointer. */
void fiber_trim(struct task *t);
/* The same for the running fiber, below `used`, an address of its present frame. */
void fiber_trim_below(struct task *t, const void *used);
/* Gives back the pages of pooled stacks but for some. True: to be called again later, stacks may
 * come back until then. */
bool fiber_pool_trim(void);
void fiber_pool_clear(void);
size_t fiber_pooled(void);
/* At start-up. From then on the end of the process by a stack overflow says which fiber it was. */
void fiber_setup(void);

/* ---- loop.c ---------------------------------------------------------------------------------- */

/* The list functions of base for initialised heads and nodes, inline: each switch uses two. */
static inline void queue_push(struct list *head, struct list *node)
{
    node->next = head;
    node->prev = head->prev;
    head->prev->next = node;
    head->prev = node;
}
static inline void queue_del(struct list *node)
{
    node->next->prev = node->prev;
    node->prev->next = node->next;
    node->next = node->prev = node;
}

struct task_runtime {
    bool active, done;
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;
    uv_async_t async;
    uv_timer_t timer;
    uv_poll_t poll;
    bool idling;
    struct list ready, parked; /* heads always initialised */
    int phase_left;            /* fibers that this phase may still run */
    int64_t phase_began_us;
    struct task_group *root;
    size_t limit, count, peak;
    uint64_t switches;
    uint32_t epoch; /* counts the sweeps over parked fibers */
    struct task_timer sweep;
    bool sweeping;
    /* For the watchdog's thread. */
    _Atomic(const char *) running; /* name of the fiber that runs, NULL between fibers */
    _Atomic uint64_t beat;         /* changes with each step: turns and fibers run */
    uint64_t beat_count;
    _Atomic bool polling;    /* the loop waits for events */
    _Atomic int64_t beat_us; /* when the last turn began */
};
extern struct task_runtime task_rt;

/* Makes a parked fiber ready; nothing when it is not parked. */
void task_make_ready(struct task *t);
/* Lets others run. t, the running fiber, is TASK_READY or TASK_PARKED; returns when its turn
 * comes again. */
void task_leave(struct task *t);

/* ---- group.c --------------------------------------------------------------------------------- */

struct task_group *group_root_new(void);
void group_root_free(struct task_group *g);
bool group_may_spawn(struct task_group *g, struct error *err);
void group_add(struct task_group *g, struct task *t);
bool group_canceled(const struct task_group *g);
/* Takes an ending fiber out of its group and wakes who waits for that. */
void task_end_of_fiber(struct task *t);

/* ---- wait.c ---------------------------------------------------------------------------------- */

enum { WAIT_NO_CANCEL = 1, WAIT_NO_DEADLINE = 2 };
#define WAIT_FOREVER INT64_MAX
/* Parks until *flag, cancellation, the fiber's deadline or `until_us`. ERR_NONE: *flag is true
 * (which beats the rest) or, when flag is NULL, until_us has come. ERR_TIMEOUT: deadline or,
 * with a flag, until_us. Else ERR_CANCELED. */
enum err_code wait_for(const bool *flag, int64_t until_us, int mode);
/* False with ERR_CANCELED or ERR_TIMEOUT when a wait that begins now must not. */
bool wait_begin(struct error *err);
/* Fills err for a result of wait_for; true for ERR_NONE. */
bool wait_result(enum err_code code, struct error *err);

/* A fiber in the queue of something; lies on that fiber's stack. */
struct waiter {
    struct list node;
    struct task *task;
    void *item;
    bool done;
    bool closed;
};
/* Queues the running fiber and waits until waiter_finish; unlinks it when the wait fails. */
enum err_code waiter_wait(struct list *queue, struct waiter *w, int mode);
/* The same with a time limit: ERR_TIMEOUT. */
enum err_code waiter_wait_until(struct list *queue, struct waiter *w, int64_t until_us, int mode);
void waiter_finish(struct waiter *w);
struct waiter *waiter_first(struct list *queue); /* NULL when empty */

/* time_mono_us() + ms, saturated below WAIT_FOREVER. */
int64_t time_after_ms(int64_t ms);

/* ---- timer.c --------------------------------------------------------------------------------- */

bool timer_setup(void);
void timer_teardown(void);
void timer_start_at(struct task_timer *t, int64_t at_us, void (*fn)(void *arg), void *arg);
void timer_run_due(int64_t now_us);
/* When the next one is due; WAIT_FOREVER without any. */
int64_t timer_next_us(void);

/* ---- fd.c ------------------------------------------------------------------------------------ */

/* Calls fn(arg, events) once on the loop when fd has one of `events`. One watch per fd and
 * direction. */
struct fd_watch {
    int fd, events;
    void (*fn)(void *arg, int events);
    void *arg;
};
bool fd_setup(void);
void fd_teardown(void);
bool fd_watch_start(struct fd_watch *w, int fd, int events, void (*fn)(void *arg, int events),
                    void *arg, struct error *err);
void fd_watch_stop(struct fd_watch *w); /* idempotent */

/* ---- sys.c ----------------------------------------------------------------------------------- */

/* Private anonymous memory for stacks; NULL on failure. */
void *task_sys_mmap(size_t size);
/* True, with errno set, when a test wants this call to fail. */
bool task_sys_fails(enum task_sys_op op);

/* ---- work.c, watchdog.c, child.c, signal.c --------------------------------------------------- */

#define TASK_WORKERS_TEXT "8" /* TASK_WORKERS for the environment */
void work_setup(void);
void work_stats(struct task_stats *out);
void watchdog_setup(void);
void watchdog_teardown(void);
/* At the start of each phase: reports a stall that has just ended. */
void watchdog_beat(int64_t now_us);
void watchdog_stats(struct task_stats *out);
void child_teardown(void);
void signal_teardown(void);

#endif
