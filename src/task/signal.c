/* signal: signals as something that a fiber waits for.  Handlers, not a blocked mask with
 * signalfd: a mask would have to be set before the first thread is made, and children would
 * inherit it. */
#include "task/task_private.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct signal_waiter {
    struct waiter waiter;
    uint32_t mask;
    int signo;
};

static _Atomic uint32_t pending; /* bit = number of the signal */
static atomic_int event_fd = -1;
static uint32_t caught;
static struct list waiters;
static struct fd_watch watch;

static void on_signal(int signo)
{
    int saved = errno;
    uint64_t one = 1;
    atomic_fetch_or(&pending, 1u << signo);
    ssize_t n = write(atomic_load(&event_fd), &one, sizeof(one));
    (void)n; /* full means that the loop has been told already */
    errno = saved;
}

/* Takes one pending signal of `mask`; 0 without any. */
static int take(uint32_t mask)
{
    uint32_t bits = atomic_load(&pending) & mask;
    if (!bits) {
        return 0;
    }
    int signo = __builtin_ctz(bits);
    atomic_fetch_and(&pending, ~(1u << signo));
    return signo;
}

static void on_event(void *arg, int events)
{
    (void)arg;
    (void)events;
    uint64_t count;
    int fd = atomic_load(&event_fd);
    ssize_t n = read(fd, &count, sizeof(count));
    (void)n;
    list_each(node, &waiters)
    {
        struct waiter *w = container_of(node, struct waiter, node);
        struct signal_waiter *s = container_of(w, struct signal_waiter, waiter);
        s->signo = take(s->mask);
        if (s->signo) {
            waiter_finish(w);
        }
    }
    struct error err;
    if (!fd_watch_start(&watch, fd, TASK_READ, on_event, NULL, &err)) {
        log_error("task", "signals are no longer noticed: %s", err.msg);
    }
}

static bool open_event(struct error *err)
{
    if (atomic_load(&event_fd) >= 0) {
        return true;
    }
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        return err_sys(err, errno, "cannot watch for signals");
    }
    if (!fd_watch_start(&watch, fd, TASK_READ, on_event, NULL, err)) {
        close(fd);
        return false;
    }
    atomic_store(&event_fd, fd);
    return true;
}

static bool catch_all(uint32_t mask, struct error *err)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (int signo = 1; signo < 32; signo++) {
        if (mask & ~caught & 1u << signo) {
            if (sigaction(signo, &action, NULL) != 0) {
                return err_sys(err, errno, "cannot catch signal %d", signo);
            }
            caught |= 1u << signo;
        }
    }
    return true;
}

bool task_signal_catch(uint32_t mask, struct error *err)
{
    return open_event(err) && catch_all(mask, err);
}

int task_signal_wait(uint32_t mask, struct error *err)
{
    if (!wait_begin(err) || !open_event(err) || !catch_all(mask, err)) {
        return 0;
    }
    int signo = take(mask);
    if (signo) {
        return signo;
    }
    struct signal_waiter s = {.mask = mask};
    return wait_result(waiter_wait(&waiters, &s.waiter, 0), err) ? s.signo : 0;
}

void signal_teardown(void)
{
    for (int signo = 1; signo < 32; signo++) {
        if (caught & 1u << signo) {
            signal(signo, SIG_DFL);
        }
    }
    caught = 0;
    atomic_store(&pending, 0);
    int fd = atomic_exchange(&event_fd, -1);
    if (fd >= 0) {
        fd_watch_stop(&watch);
        close(fd);
    }
}
