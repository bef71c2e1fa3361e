/* fd: waiting for descriptors.  An epoll set of our own, polled by the loop as one descriptor: a
 * wait costs one epoll_ctl and no memory, and a descriptor that is closed needs no goodbye.
 * Entries are one-shot, so an entry is armed only while somebody waits; what is left in the set
 * after a wait reports nothing. */
#include "task/task_private.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { BATCH = 256, FD_MAX = 1 << 20 };

struct slot {
    struct fd_watch *read, *write;
};

static int epoll_fd = -1;
static struct slot *slots; /* by descriptor */
static size_t slots_n;

static int arm(int fd)
{
    struct epoll_event ev = {.events = EPOLLONESHOT, .data.fd = fd};
    if (slots[fd].read) {
        ev.events |= EPOLLIN | EPOLLRDHUP;
    }
    if (slots[fd].write) {
        ev.events |= EPOLLOUT;
    }
    if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &ev) == 0) {
        return 0;
    }
    if (errno == ENOENT && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0) {
        return 0;
    }
    return errno;
}

static void dispatch(int fd, uint32_t events)
{
    int fired = 0;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        fired |= TASK_READ;
    }
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) {
        fired |= TASK_WRITE;
    }
    struct fd_watch *watch[2] = {fired & TASK_READ ? slots[fd].read : NULL,
                                 fired & TASK_WRITE ? slots[fd].write : NULL};
    if (watch[1] == watch[0]) {
        watch[1] = NULL;
    }
    for (int i = 0; i < 2; i++) {
        struct fd_watch *w = watch[i];
        if (w) {
            if (slots[fd].read == w) {
                slots[fd].read = NULL;
            }
            if (slots[fd].write == w) {
                slots[fd].write = NULL;
            }
        }
    }
    if (slots[fd].read || slots[fd].write) {
        arm(fd); /* the entry is one-shot for both directions */
    }
    for (int i = 0; i < 2; i++) {
        struct fd_watch *w = watch[i];
        if (w) {
            w->fd = -1;
            w->fn(w->arg, fired & w->events); /* may grow `slots` */
        }
    }
}

static void on_poll(uv_poll_t *h, int status, int events)
{
    (void)h;
    (void)status;
    (void)events;
    struct epoll_event ev[BATCH];
    int n = epoll_wait(epoll_fd, ev, BATCH, 0);
    for (int i = 0; i < n; i++) {
        if ((size_t)ev[i].data.fd < slots_n) {
            dispatch(ev[i].data.fd, ev[i].events);
        }
    }
}

static bool grow(int fd)
{
    if ((size_t)fd < slots_n) {
        return true;
    }
    size_t n = slots_n ? slots_n : 64;
    while (n <= (size_t)fd) {
        n *= 2;
    }
    struct slot *p = fd < FD_MAX ? mem_realloc(slots, n * sizeof(*p)) : NULL;
    if (!p) {
        return false;
    }
    memset(p + slots_n, 0, (n - slots_n) * sizeof(*p));
    slots = p;
    slots_n = n;
    return true;
}

/* 0 or an errno; EPERM: the descriptor (a regular file) is always ready. */
static int start(struct fd_watch *w)
{
    if (w->fd < 0) {
        return EBADF;
    }
    if (!grow(w->fd)) {
        return ENOMEM;
    }
    struct slot *s = &slots[w->fd];
    if ((w->events & TASK_READ && s->read) || (w->events & TASK_WRITE && s->write)) {
        return EBUSY;
    }
    if (w->events & TASK_READ) {
        s->read = w;
    }
    if (w->events & TASK_WRITE) {
        s->write = w;
    }
    int error = arm(w->fd);
    if (error) {
        if (s->read == w) {
            s->read = NULL;
        }
        if (s->write == w) {
            s->write = NULL;
        }
        w->fd = -1;
    }
    return error;
}

static bool cannot_wait(int error, int fd, struct error *err)
{
    return error == ENOMEM ? err_set(err, ERR_NOMEM, "out of memory for waiting on a descriptor")
                           : err_sys(err, error, "cannot wait for descriptor %d", fd);
}

bool fd_watch_start(struct fd_watch *w, int fd, int events, void (*fn)(void *arg, int events),
                    void *arg, struct error *err)
{
    *w = (struct fd_watch){.fd = fd, .events = events, .fn = fn, .arg = arg};
    int error = start(w);
    return error == 0 || cannot_wait(error, fd, err);
}

void fd_watch_stop(struct fd_watch *w)
{
    if (w->fd < 0 || (size_t)w->fd >= slots_n) {
        return;
    }
    struct slot *s = &slots[w->fd];
    if (s->read == w) {
        s->read = NULL;
    }
    if (s->write == w) {
        s->write = NULL;
    }
    if (s->read || s->write) {
        arm(w->fd);
    } else {
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, w->fd, NULL); /* errors and hang-ups cannot be masked */
    }
    w->fd = -1;
}

struct fd_wait {
    struct task *task;
    bool done;
};

static void on_ready(void *arg, int events)
{
    (void)events;
    struct fd_wait *wait = arg;
    wait->done = true;
    task_make_ready(wait->task);
}

bool task_fd_wait(int fd, int events, struct error *err)
{
    if (!wait_begin(err)) {
        return false;
    }
    struct fd_wait wait = {.task = task_self()};
    struct fd_watch w = {.fd = fd, .events = events, .fn = on_ready, .arg = &wait};
    int error = start(&w);
    if (error == EPERM) {
        return true;
    }
    if (error) {
        return cannot_wait(error, fd, err);
    }
    enum err_code code = wait_for(&wait.done, WAIT_FOREVER, 0);
    fd_watch_stop(&w);
    return wait_result(code, err);
}

ssize_t task_read(int fd, void *p, size_t n, struct error *err)
{
    if (!wait_begin(err)) {
        return -1;
    }
    for (;;) {
        ssize_t got = task_sys_read(fd, p, n);
        if (got >= 0) {
            return got;
        }
        if (errno == EAGAIN) {
            if (!task_fd_wait(fd, TASK_READ, err)) {
                return -1;
            }
        } else if (errno != EINTR) {
            err_sys(err, errno, "read failed");
            return -1;
        }
    }
}

bool task_write_all(int fd, const void *p, size_t n, struct error *err)
{
    if (!wait_begin(err)) {
        return false;
    }
    const char *at = p;
    while (n) {
        ssize_t put = task_sys_write(fd, at, n);
        if (put >= 0) {
            at += put;
            n -= (size_t)put;
        } else if (errno == EAGAIN) {
            if (!task_fd_wait(fd, TASK_WRITE, err)) {
                return false;
            }
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return err_set(err, ERR_CLOSED, "the other side has closed the connection");
        } else if (errno != EINTR) {
            return err_sys(err, errno, "write failed");
        }
    }
    return true;
}

bool fd_setup(void)
{
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return epoll_fd >= 0 && uv_poll_init(&task_rt.loop, &task_rt.poll, epoll_fd) == 0 &&
           uv_poll_start(&task_rt.poll, UV_READABLE, on_poll) == 0;
}

static void on_closed(uv_handle_t *h)
{
    (void)h;
    close(epoll_fd);
    epoll_fd = -1;
}

void fd_teardown(void)
{
    uv_close((uv_handle_t *)&task_rt.poll, on_closed);
    mem_free(slots);
    slots = NULL;
    slots_n = 0;
}
