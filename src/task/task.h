/* task: fibers with structured concurrency on one loop thread (libuv), and what they wait for.
 * Everything here but task_work's functions and the *_from_thread calls runs on the loop thread.
 * design.md §4. */
#ifndef PARLEY_TASK_H
#define PARLEY_TASK_H

#include "base/base.h"

#include <sys/types.h>

struct uv_loop_s;
struct task;       /* a fiber */
struct task_group; /* owns fibers; ends when they have ended */

/* ---- the loop -------------------------------------------------------------------------------- */
/* Runs fn(arg) as the first fiber and the loop until fn has returned and its group is empty;
 * returns fn's value. One at a time per process; may be called again afterwards (tests). Aborts
 * when memory for the loop cannot be had. */
int task_run(int (*fn)(void *arg), void *arg);
struct uv_loop_s *task_loop(void); /* for net/ and db/ only */
/* True on the loop thread inside a fiber. */
bool task_in_fiber(void);

/* ---- groups and fibers ----------------------------------------------------------------------- */
/* A group below `parent` (NULL: below the group of task_run). Cancelling the parent cancels it.
 * NULL when memory ends. `name` is a literal for logs. */
struct task_group *task_group_new(struct task_group *parent, const char *name);
/* Cancels what still runs, waits for it (cancelling and deadlines of the caller don't end that
 * wait), releases. Must be called from a fiber outside the group. Groups below stay valid for their
 * owners, cancelled, below the group's parent. NULL is fine. */
void task_group_free(struct task_group *g);
/* Every wait in the group (and below) returns ERR_CANCELED from now on. Does not wait.
 * Idempotent. */
void task_group_cancel(struct task_group *g);
/* Waits until no fiber is left in the group and below. Must be called from outside the group.
 * False: cancelled or deadline of the caller. */
bool task_group_wait(struct task_group *g, struct error *err) warn_unused;
size_t task_group_count(const struct task_group *g); /* fibers, with those of groups below */
/* Starts fn(arg) as a fiber of g (runs soon, not now). False: group cancelled, memory, or too
 * many fibers (task_limit). Ownership of arg passes only on success. `name` is a literal. */
bool task_spawn(struct task_group *g, const char *name, void (*fn)(void *arg), void *arg,
                struct error *err) warn_unused;
struct task_group *task_own_group(void); /* of the running fiber */
void task_limit(size_t max_fibers);      /* default 20000 */
size_t task_count(void);                 /* live fibers */

/* ---- waiting ---------------------------------------------------------------------------------
 * ----------------------- Each wait returns false with ERR_CANCELED (group cancelled) or
 * ERR_TIMEOUT (deadline passed). */
bool task_sleep_ms(int64_t ms, struct error *err) warn_unused;
void task_yield(void); /* lets others run; never fails */
/* Gives back the pages of the running fiber's stack that lie below what it uses now. For a fiber
 * that has been deep and will wait often and long, each time too shortly to be trimmed by itself.
 * Nothing outside of a fiber. */
void task_trim(void);
bool task_canceled(void);
/* Deadlines nest; the earliest counts. ms from now. Pop in reverse order; use the scoped form. */
struct task_deadline {
    int64_t at_us; /* time_mono_us() */
    struct task_deadline *outer;
};
void task_deadline_push(struct task_deadline *d, int64_t ms);
void task_deadline_pop(struct task_deadline *d);
/* While on, waits of this fiber ignore cancellation (deadlines still count): for the few steps
 * that must be finished. */
void task_shield(bool on);
/* As the shield, and the deadlines around it don't count either (those pushed inside do): for
 * work that is finished once it has begun and whose memory the other side still uses. Nests; end
 * in reverse order, with what was pushed inside popped. */
struct task_hold { /* private */
    bool shielded;
    struct task_deadline *deadline;
};
void task_hold_begin(struct task_hold *h);
void task_hold_end(const struct task_hold *h);

/* Park and wake: the primitive below all others. A wake before the park is remembered once. */
struct task *task_self(void);
bool task_park(struct error *err) warn_unused; /* until task_wake; false: cancelled or deadline */
void task_wake(struct task *t);                /* from the loop thread */
/* Runs fn(arg) soon on the loop thread, outside any fiber; callable from any thread. Never fails
 * after start-up. fn must not wait. `node` is storage owned by the caller until fn is called. */
struct task_post {
    struct list node;
    void (*fn)(void *arg);
    void *arg;
};
void task_post_from_thread(struct task_post *p, void (*fn)(void *arg), void *arg);

/* Waits until fd is readable/writable. One waiter per fd and direction. */
enum { TASK_READ = 1, TASK_WRITE = 2 };
bool task_fd_wait(int fd, int events, struct error *err) warn_unused;

/* Timer without a fiber: fn(arg) on the loop after ms; must not wait. Reusable; stop is
 * idempotent. 48 bytes, embedded; must not
 * move or go while it runs. */
struct task_timer {
    struct list node; /* private */
    int64_t at_us;
    size_t heap_at;
    void (*fn)(void *arg);
    void *arg;
};
void task_timer_start(struct task_timer *t, int64_t ms, void (*fn)(void *arg),
                      void *arg); /* restarts if running */
void task_timer_stop(struct task_timer *t);

/* ---- between fibers -------------------------------------------------------------------------- */
/* FIFO mutex; say at each use why a wait inside is needed. Zero-initialised is unlocked. */
struct task_mutex {
    struct task *owner;
    struct list waiters;
};
bool task_lock(struct task_mutex *m, struct error *err) warn_unused;
void task_unlock(struct task_mutex *m);

/* Counting semaphore, FIFO. */
struct task_sem {
    long free;
    struct list waiters;
};
void task_sem_init(struct task_sem *s, long n);
bool task_sem_take(struct task_sem *s, struct error *err) warn_unused;
bool task_sem_try(struct task_sem *s);
void task_sem_give(struct task_sem *s);

/* Condition: waits for the next notify. Zero-initialised is ready. */
struct task_cond {
    struct list waiters;
};
bool task_cond_wait(struct task_cond *c, struct error *err) warn_unused;
void task_cond_notify_all(struct task_cond *c);
void task_cond_notify_one(struct task_cond *c);

/* Bounded channel of pointers. Closing wakes everybody; what is queued can still be received,
 * then ERR_CLOSED. */
struct task_chan;
struct task_chan *task_chan_new(size_t capacity); /* >= 1 */
void task_chan_free(
    struct task_chan
        *c); /* nobody may wait on it; queued pointers are the caller's to drain before */
bool task_chan_send(struct task_chan *c, void *item,
                    struct error *err) warn_unused;       /* waits for room */
bool task_chan_try_send(struct task_chan *c, void *item); /* false: full or closed */
bool task_chan_recv(struct task_chan *c, void **item, struct error *err) warn_unused;
void task_chan_close(struct task_chan *c);

/* ---- workers --------------------------------------------------------------------------------- */
/* Runs fn(arg) on the worker pool and waits for its end even when cancelled or late (the work
 * owns `arg` until then); then reports ERR_CANCELED / ERR_TIMEOUT only if the work itself was
 * never started. The pool has TASK_WORKERS threads; more than TASK_WORK_PENDING waiting calls
 * give ERR_CAPACITY with tag "blocking_work_capacity_exceeded". */
enum { TASK_WORKERS = 8, TASK_WORK_PENDING = 128 };
bool task_work(void (*fn)(void *arg), void *arg, struct error *err) warn_unused;
/* Counters for /healthz. */
struct task_stats {
    size_t fibers, fibers_peak, stacks_pooled, work_running, work_pending;
    uint64_t switches, work_done, work_rejected;
    double lag_last_ms, lag_p95_ms,
        lag_max_ms; /* loop lag, sampled every 100 ms by task_watchdog_start */
};
void task_stats_get(struct task_stats *out);
/* A thread that notices when the loop does not come round for `stall_ms` and logs the name of
 * the fiber that runs. */
void task_watchdog_start(int stall_ms);

/* ---- child processes and signals ------------------------------------------------------------- */
/* Watched by pidfd and reaped as soon as it ends, then the rest of its process group is killed;
 * killed with this process too. To be released by child_stop. */
struct child;
struct child_spec {
    const char *const *argv;          /* NULL-terminated, argv[0] looked up in PATH */
    const char *const *envp;          /* NULL-terminated; NULL: inherit */
    const char *cwd;                  /* NULL: inherit */
    bool pipe_in, pipe_out, pipe_err; /* otherwise /dev/null, except: */
    bool inherit_out, inherit_err;
};
struct child *child_start(const struct child_spec *spec, struct error *err);
pid_t child_pid(const struct child *c);
int child_fd(const struct child *c,
             int which); /* 0, 1, 2: our end, non-blocking, or -1; owned by the child */
void child_close(struct child *c, int which); /* closes our end of one pipe */
/* Waits for its end; *status as of waitpid. */
bool child_wait(struct child *c, int *status, struct error *err) warn_unused;
bool child_signal(struct child *c, int sig); /* to the process group */
/* TERM, after grace_ms KILL, waits, closes the pipes, releases. */
void child_stop(struct child *c, int64_t grace_ms);
/* Reads/writes on a non-blocking descriptor, waiting as a fiber. Read: 0 = end. */
ssize_t task_read(int fd, void *p, size_t n, struct error *err) warn_unused; /* -1 on error */
bool task_write_all(int fd, const void *p, size_t n, struct error *err) warn_unused;
/* Waits for one of the signals (a bit mask 1u << signo below 32); returns its number, 0 on
 * cancel or deadline. From the first call to the end of task_run they have no other effect on the
 * process, and one that comes while nobody waits is kept; delivered once, to the first waiter. */
int task_signal_wait(uint32_t mask, struct error *err) warn_unused;
/* Keeps these signals for task_signal_wait from now on. */
bool task_signal_catch(uint32_t mask, struct error *err) warn_unused;

/* ---- system calls that tests can make fail
 * ------------------------------------------------------ As the calls they are named after (-1
 * and errno on failure); open always adds O_CLOEXEC, write does not raise SIGPIPE while task_run
 * runs. Usable from any thread. */
enum task_sys_op {
    TASK_SYS_READ,
    TASK_SYS_WRITE,
    TASK_SYS_OPEN,
    TASK_SYS_FSYNC,
    TASK_SYS_RENAME,
    TASK_SYS_UNLINK,
    TASK_SYS_MKDIR,
    TASK_SYS_MMAP, /* the stack of a new fiber */
    TASK_SYS_PIPE,
    TASK_SYS_SPAWN, /* vfork in child_start */
    TASK_SYS_OPS
};
ssize_t task_sys_read(int fd, void *p, size_t n);
ssize_t task_sys_write(int fd, const void *p, size_t n);
int task_sys_open(const char *path, int flags, mode_t mode);
int task_sys_fsync(int fd);
int task_sys_rename(const char *from, const char *to);
int task_sys_unlink(const char *path);
int task_sys_mkdir(const char *path, mode_t mode);
int task_sys_pipe(int fds[2]); /* O_CLOEXEC */
/* Fails the nth call of `op` from now (1 = next) with errno_value and, if `repeat`, all after
 * it; 0 turns it off. In all threads. */
void task_sys_fail_after(enum task_sys_op op, long nth, bool repeat, int errno_value);

#endif
