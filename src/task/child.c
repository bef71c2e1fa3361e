/* child: processes with a group of their own, reaped through a pidfd as soon as they end. */
#include "task/task_private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
    struct list node; /* in `living` until reaped */
    pid_t pid;
    int pidfd;
    int fds[3];
    bool ended;
    int status;
    struct list waiters;
    struct fd_watch watch;
};

static struct list living;

/* All that the new process needs between vfork and exec, where it shares our memory. */
struct plan {
    const char *path;
    char *const *argv;
    char *const *envp;
    const char *cwd;
    int fds[3]; /* what becomes 0, 1, 2; all > 2 */
    bool inherit[3];
    pid_t parent;
    int failure; /* errno, set by the child */
};

/* ---- in the child: system calls only, no memory, no locks, no return ------------------------- */

static _Noreturn void fail(volatile struct plan *p)
{
    p->failure = errno;
    _exit(127);
}

static _Noreturn void become(struct plan *p)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int signo = 1; signo < 32; signo++) {
        sigaction(signo, &standard,
                  NULL); /* handlers must not run here; SIGPIPE is ignored in us */
    }
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        fail(p);
    }
    if (getppid() != p->parent) {
        _exit(127); /* it died before the line above could take effect */
    }
    for (int i = 0; i < 3; i++) {
        if (p->inherit[i] ? fcntl(i, F_SETFD, 0) != 0 : dup2(p->fds[i], i) < 0) {
            fail(p);
        }
    }
    close_range(3, ~0u, CLOSE_RANGE_CLOEXEC); /* in case a library opened something without it */
    if (p->cwd && chdir(p->cwd) != 0) {
        fail(p);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* By number: a coverage build replaces execve by a function that ends the count of the memory we
     * share with our parent. */
    syscall(SYS_execve, p->path, p->argv, p->envp);
    fail(p);
}

/* ---- in the parent --------------------------------------------------------------------------- */

/* Runs the plan; the pid or -1 with errno. Signals are blocked meanwhile: a handler would run on
 * shared memory. */
static pid_t launch(struct plan *p)
{
    if (task_sys_fails(TASK_SYS_SPAWN)) {
        return -1;
    }
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    p->parent = getpid();
    pid_t pid = vfork();
    if (pid == 0) {
        become(p);
    }
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (pid > 0 && *(volatile int *)&p->failure) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
        error = p->failure;
        pid = -1;
    }
    errno = error;
    return pid;
}

static bool executable(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* argv[0] by PATH into `a`; NULL when there is none. Empty entries (the working directory) are
 * passed over. */
static const char *look_up(struct arena *a, const char *name)
{
    if (strchr(name, '/')) {
        return name;
    }
    const char *path = getenv("PATH");
    struct str rest = str_c(path ? path : "/usr/local/bin:/usr/bin:/bin"), dir;
    while (str_split(&rest, ':', &dir)) {
        const char *full = dir.n ? z_fmt(a, STR_FMT "/%s", STR_ARG(dir), name) : "";
        if (*full && executable(full)) {
            return full;
        }
    }
    return NULL;
}

/* Our environment without what we set for ourselves. NULL: no memory. */
static char *const *own_environment(struct arena *a)
{
    size_t n = 0, kept = 0;
    while (environ[n]) {
        n++;
    }
    char **copy = arena_alloc(a, (n + 1) * sizeof(*copy));
    for (size_t i = 0; copy && i < n; i++) {
        if (!str_starts(str_c(environ[i]), S("UV_THREADPOOL_SIZE="))) {
            copy[kept++] = environ[i];
        }
    }
    return copy;
}

/* A descriptor of the child must not be one of 0..2: dup2 would overwrite it before its turn.
 * Takes fd. */
static int lift(int fd)
{
    if (fd < 0 || fd > 2) {
        return fd;
    }
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int error = errno;
    close(fd);
    errno = error;
    return high;
}

/* One pipe: the child's end into *theirs, ours (non-blocking) into *ours; -1 in both before. */
static bool make_pipe(bool child_reads, int *theirs, int *ours)
{
    int p[2];
    if (task_sys_pipe(p) != 0) {
        return false;
    }
    *theirs = lift(p[child_reads ? 0 : 1]);
    *ours = lift(p[child_reads ? 1 : 0]);
    return *theirs >= 0 && *ours >= 0 && fcntl(*ours, F_SETFL, O_NONBLOCK) == 0;
}

static void shut(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static bool make_fds(const struct child_spec *spec, struct plan *p, int ours[3])
{
    bool piped[3] = {spec->pipe_in, spec->pipe_out, spec->pipe_err};
    p->inherit[1] = spec->inherit_out && !spec->pipe_out;
    p->inherit[2] = spec->inherit_err && !spec->pipe_err;
    for (int i = 0; i < 3; i++) {
        if (piped[i]) {
            if (!make_pipe(i == 0, &p->fds[i], &ours[i])) {
                return false;
            }
        } else if (!p->inherit[i]) {
            p->fds[i] = lift(task_sys_open("/dev/null", O_RDWR, 0));
            if (p->fds[i] < 0) {
                return false;
            }
        }
    }
    return true;
}

/* The process has ended and is a zombie still, so its number and that of its group are still its
 * own. */
static void reap(struct child *c)
{
    kill(-c->pid, SIGKILL); /* what it left behind in its group */
    int status = 0;
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
    }
    c->status = status;
    c->ended = true;
    shut(&c->pidfd);
    list_del(&c->node);
    struct waiter *w;
    while ((w = waiter_first(&c->waiters))) {
        waiter_finish(w);
    }
}

static void on_exit_of(void *arg, int events)
{
    (void)events;
    reap(arg);
}

/* Watches the started process. On failure it is killed and reaped. */
static bool adopt(struct child *c, pid_t pid, struct error *err)
{
    c->pid = pid;
    c->pidfd = pidfd_open(pid, 0);
    bool ok = c->pidfd >= 0 || err_sys(err, errno, "cannot watch process %d", (int)pid);
    ok = ok && fd_watch_start(&c->watch, c->pidfd, TASK_READ, on_exit_of, c, err);
    if (!ok) {
        kill(pid, SIGKILL);
        reap(c);
        return false;
    }
    list_push(&living, &c->node);
    return true;
}

struct child *child_start(const struct child_spec *spec, struct error *err)
{
    assert(task_rt.active && spec->argv && spec->argv[0]);
    auto_arena a = arena_new(4 << 20);
    struct child *c = new (struct child);
    struct plan p = {.argv = (char *const *)(uintptr_t)spec->argv,
                     .envp = (char *const *)(uintptr_t)spec->envp,
                     .cwd = spec->cwd,
                     .fds = {-1, -1, -1}};
    bool ok = a && c;
    if (ok && !p.envp) {
        p.envp = own_environment(a);
    }
    if (ok) {
        p.path = look_up(a, spec->argv[0]);
        memset(c->fds, 0xff, sizeof(c->fds));
        c->pidfd = -1;
    }
    if (!ok || arena_failed(a)) {
        mem_free(c);
        err_set(err, ERR_NOMEM, "out of memory for a new process");
        return NULL;
    }
    errno = ENOENT;
    pid_t pid = p.path && make_fds(spec, &p, c->fds) ? launch(&p) : -1;
    int error = errno;
    for (int i = 0; i < 3; i++) {
        shut(&p.fds[i]);
    }
    ok = pid > 0 || err_sys(err, error, "cannot start \"%s\"", spec->argv[0]);
    if (!ok || !adopt(c, pid, err)) {
        for (int i = 0; i < 3; i++) {
            shut(&c->fds[i]);
        }
        mem_free(c);
        return NULL;
    }
    return c;
}

pid_t child_pid(const struct child *c)
{
    return c->pid;
}

int child_fd(const struct child *c, int which)
{
    return c->fds[which];
}

void child_close(struct child *c, int which)
{
    shut(&c->fds[which]);
}

bool child_wait(struct child *c, int *status, struct error *err)
{
    if (!wait_begin(err)) {
        return false;
    }
    if (!c->ended) {
        struct waiter w;
        if (!wait_result(waiter_wait(&c->waiters, &w, 0), err)) {
            return false;
        }
    }
    *status = c->status;
    return true;
}

bool child_signal(struct child *c, int sig)
{
    return !c->ended && kill(-c->pid, sig) == 0;
}

static void wait_end(struct child *c, int64_t until_us)
{
    if (!c->ended) {
        struct waiter w;
        waiter_wait_until(&c->waiters, &w, until_us, WAIT_NO_CANCEL | WAIT_NO_DEADLINE);
    }
}

void child_stop(struct child *c, int64_t grace_ms)
{
    if (!c) {
        return;
    }
    if (grace_ms > 0 && child_signal(c, SIGTERM)) {
        child_signal(c, SIGCONT); /* a stopped process would not see it */
        wait_end(c, time_after_ms(grace_ms));
    }
    child_signal(c, SIGKILL);
    wait_end(c, WAIT_FOREVER);
    assert(list_empty(&c->waiters) && "somebody still waits for the child");
    for (int i = 0; i < 3; i++) {
        shut(&c->fds[i]);
    }
    mem_free(c);
}

void child_teardown(void)
{
    while (!list_empty(&living)) {
        struct child *c = container_of(living.next, struct child, node);
        log_error("task", "process %d was left running; killing it", (int)c->pid);
        fd_watch_stop(&c->watch);
        kill(-c->pid, SIGKILL);
        reap(c);
    }
}
