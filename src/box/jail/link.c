/* Sessions as the runtime sees them: orders to the zygote, one reading fiber for each session. */
#include "box/jail/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HELLO_MS = 20000, READY_MS = 60000, GONE_MS = 10000 };

int jail_memory_file(struct str text, struct error *err)
{
    auto_fd fd = memfd_create("box", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text.p, text.n) != (ssize_t)text.n || lseek(fd, 0, SEEK_SET) < 0) {
        err_sys(err, errno, "a file in memory");
        return -1;
    }
    return steal_fd(&fd);
}

/* Sends on a non-blocking socket, waiting for room. */
static bool send_all(int sock, const void *head, size_t n, struct str body, const int *fds,
                     int count, struct error *err)
{
    while (!jail_send(sock, head, n, body.p, body.n, fds, count)) {
        if (errno != EAGAIN)
            return err_sys(err, errno, "the sandbox cannot be reached");
        if (!task_fd_wait(sock, TASK_WRITE, err))
            return false;
    }
    return true;
}

/* ---- the zygote ------------------------------------------------------------------------------ */
void jail_zygote_end(struct jail_self *self)
{
    if (self->sock >= 0)
        close(self->sock);
    self->sock = -1;
    self->greeted = false;
    if (self->zygote > 0) {
        /* It kills its sessions and ends; that takes a moment only. */
        auto_fd fd = (int)syscall(SYS_pidfd_open, self->zygote, 0);
        struct task_hold hold;
        struct task_deadline d;
        struct error err;
        task_hold_begin(&hold);
        task_deadline_push(&d, GONE_MS);
        if (fd < 0 || !task_fd_wait(fd, TASK_READ, &err))
            kill(self->zygote, SIGKILL);
        task_deadline_pop(&d);
        task_hold_end(&hold);
        waitpid(self->zygote, NULL, 0);
    }
    self->zygote = 0;
}

static bool greet(struct jail_self *self, struct error *err)
{
    struct task_deadline d;
    struct error why = {0};
    int none = 0;
    task_deadline_push(&d, HELLO_MS);
    ssize_t n = -1;
    if (task_fd_wait(self->sock, TASK_READ, &why))
        n = jail_recv(self->sock, &self->hello, sizeof self->hello, NULL, &none, MSG_DONTWAIT);
    task_deadline_pop(&d);
    self->greeted = n == (ssize_t)sizeof self->hello && self->hello.kind == JAIL_HELLO;
    if (self->greeted)
        return true;
    if (why.code == ERR_CANCELED) {
        *err = why;
        return false;
    }
    jail_zygote_end(self);
    return err_set(err, ERR_UNAVAILABLE, "the process that makes sandboxes did not start");
}

static bool zygote_ready(struct jail_self *self, struct error *err)
{
    if (self->sock >= 0 && self->greeted) {
        struct pollfd p = {self->sock, 0, 0};
        if (poll(&p, 1, 0) == 0)
            return true;
        log_warn("box", "jail: the zygote has ended, a new one is started");
        jail_zygote_end(self);
    }
    if (self->sock < 0) {
        self->sock = jail_zygote_start(self->env->instance, &self->groups, &self->zygote, err);
        if (self->sock < 0)
            return false;
        fcntl(self->sock, F_SETFL, O_NONBLOCK);
    }
    return greet(self, err);
}

bool jail_zygote_ready(struct jail_self *self, struct error *err)
{
    if (!task_lock(&self->lock, err))
        return false;
    bool ok = zygote_ready(self, err);
    task_unlock(&self->lock);
    return ok;
}

/* ---- messages of a session ------------------------------------------------------------------- */
static struct jail_call *find_call(struct jail_session *s, uint32_t id)
{
    list_each(it, &s->calls)
    {
        struct jail_call *c = container_of(it, struct jail_call, node);
        if (c->id == id)
            return c;
    }
    return NULL;
}

static void take_fd(int *place, int *fds, int count)
{
    if (count > 0 && *place < 0) {
        *place = fds[0];
        fds[0] = -1;
    }
}

static void dispatch(struct jail_session *s, const struct jail_msg *m, struct str text, int *fds,
                     int count)
{
    struct jail_call *c = m->id ? find_call(s, m->id) : NULL;
    switch (m->kind) {
    case JAIL_PID:
        take_fd(&s->pidfd, fds, count);
        s->pid = m->status;
        break;
    case JAIL_READY:
        s->ready = true;
        take_fd(&s->listener, fds, count);
        break;
    case JAIL_FAILED:
        if (!m->id)
            snprintf(s->why, sizeof s->why, STR_FMT, STR_ARG(text));
        if (c) {
            c->failed = true;
            c->code = m->status;
            snprintf(c->why, sizeof c->why, STR_FMT, STR_ARG(text));
        }
        break;
    case JAIL_STARTED:
        if (c)
            c->started = true;
        break;
    case JAIL_EXITED:
    case JAIL_GONE:
        if (c && !c->ended) {
            c->ended = true;
            c->code = m->status;
        }
        if (c && m->kind == JAIL_GONE)
            c->gone = true;
        break;
    default: break;
    }
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    task_cond_notify_all(&s->news);
}

static void read_session(void *arg)
{
    struct jail_session *s = arg;
    struct error err = {0};
    struct {
        struct jail_msg head;
        char text[JAIL_TEXT_MAX];
    } m;
    for (;;) {
        int fds[4], count = array_len(fds);
        ssize_t n = jail_recv(s->sock, &m, sizeof m, fds, &count, MSG_DONTWAIT);
        if (n >= (ssize_t)sizeof m.head)
            dispatch(s, &m.head, str_n(m.text, (size_t)n - sizeof m.head), fds, count);
        else if (n >= 0 || errno != EAGAIN || !task_fd_wait(s->sock, TASK_READ, &err))
            break;
    }
    s->gone = true;
    task_cond_notify_all(&s->news);
}

bool jail_link_send(struct jail_session *s, const void *head, size_t n, struct str body,
                    const int *fds, int count, struct error *err)
{
    return send_all(s->sock, head, n, body, fds, count, err);
}

/* ---- sessions -------------------------------------------------------------------------------- */
void jail_session_drop(struct jail_session *s)
{
    if (--s->refs > 0)
        return;
    mem_free(s);
}

void jail_kill(struct jail_session *s)
{
    if (s->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
    else if (s->sock >= 0)
        shutdown(s->sock, SHUT_RDWR);
}

/* Of a user id, among all runtimes of this machine: two sessions of one id would count each other's processes. The lock ends with
 * this process. Where the file cannot be had (an ordinary user, whose sessions all have its own id) the ids are ours alone. */
static bool lock_slot(struct jail_self *self, int slot, short type)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    if (self->ids < 0)
        self->ids = open("/run/parley-jail.ids", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return self->ids < 0 || fcntl(self->ids, F_OFD_SETLK, &range) == 0 ||
           (errno != EAGAIN && errno != EACCES);
}

static void give_slot(struct jail_self *self, int slot)
{
    self->used[slot / 8] &= (uint8_t) ~(1u << slot % 8);
    lock_slot(self, slot, F_UNLCK);
}

static int take_slot(struct jail_self *self)
{
    for (int i = 0; i < JAIL_SLOTS; i++)
        if (!(self->used[i / 8] & 1u << i % 8) && lock_slot(self, i, F_WRLCK)) {
            self->used[i / 8] |= (uint8_t)(1u << i % 8);
            return i;
        }
    return -1;
}

void jail_session_stop(struct jail_session *s)
{
    struct task_hold hold;
    struct task_deadline d;
    struct error err = {0};
    task_hold_begin(&hold);
    jail_kill(s);
    task_deadline_push(&d, GONE_MS);
    /* Readable when the first process and, before it, all others have ended. */
    bool ended = s->pidfd < 0 || task_fd_wait(s->pidfd, TASK_READ, &err);
    task_deadline_pop(&d);
    task_hold_end(&hold);
    if (!ended)
        log_error("box", "jail: processes of %s do not end", s->id);
    task_group_free(s->group);
    s->group = NULL;
    mem_free(s->egress);
    s->egress = NULL;
    s->gone = true;
    task_cond_notify_all(&s->news);
    close(s->sock);
    if (s->pidfd >= 0)
        close(s->pidfd);
    if (s->listener >= 0)
        close(s->listener);
    if (s->quota_dir >= 0)
        close(s->quota_dir);
    s->sock = s->pidfd = s->listener = s->quota_dir = -1;
    if (s->slot >= 0 && ended)
        give_slot(s->self, s->slot);
    jail_session_drop(s);
}

static struct jail_session *new_session(struct jail_self *self, int *theirs, struct error *err)
{
    int pair[2];
    struct jail_session *s = new (struct jail_session);
    if (!s) {
        err_set(err, ERR_NOMEM, "out of memory for a session");
        return NULL;
    }
    *s = (struct jail_session){.self = self,
                               .refs = 1,
                               .slot = -1,
                               .sock = -1,
                               .pidfd = -1,
                               .listener = -1,
                               .quota_dir = -1};
    list_init(&s->calls);
    s->group = task_group_new(self->env->group, "jail session");
    if (!s->group || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        err_sys(err, s->group ? errno : ENOMEM, "a session");
        task_group_free(s->group);
        mem_free(s);
        return NULL;
    }
    s->sock = pair[0];
    *theirs = pair[1];
    fcntl(s->sock, F_SETFL, O_NONBLOCK);
    return s;
}

static bool order(struct jail_session *s, const struct jail_start *start, struct str texts,
                  const int *fds, int count, struct error *err)
{
    struct jail_self *self = s->self;
    if (!task_lock(&self->lock, err)) /* two that wait for room on one socket */
        return false;
    bool ok = zygote_ready(self, err) &&
              send_all(self->sock, start, sizeof *start, texts, fds, count, err);
    task_unlock(&self->lock);
    return ok;
}

static bool await_ready(struct jail_session *s, struct error *err)
{
    struct task_deadline d;
    bool ok = true;
    task_deadline_push(&d, READY_MS);
    while (ok && !s->ready && !*s->why && !s->gone)
        ok = task_cond_wait(&s->news, err);
    task_deadline_pop(&d);
    if (!ok)
        return err->code == ERR_TIMEOUT
                   ? err_set(err, ERR_TIMEOUT, "the sandbox was not ready in %d s", READY_MS / 1000)
                   : false;
    return s->ready || err_set(err, ERR_IO, "the sandbox cannot be made: %s",
                               *s->why ? s->why : "its process ended");
}

struct jail_session *jail_session_start(struct jail_self *self, struct jail_start *start,
                                        const char *id, struct str texts, const int *fds, int count,
                                        struct error *err)
{
    int all[JAIL_FDS_MAX];
    auto_fd theirs = -1;
    if (count + 1 > JAIL_FDS_MAX || texts.n + sizeof *start > JAIL_INLINE_MAX) {
        err_tag(err, ERR_TOO_LARGE, 0, "BoxValidationError", "too many or too long mounts");
        return NULL;
    }
    struct jail_session *s = new_session(self, &theirs, err);
    if (!s)
        return NULL;
    snprintf(s->id, sizeof s->id, "%s", id);
    s->slot = take_slot(self);
    if (s->slot < 0) {
        err_tag(err, ERR_CAPACITY, 0, "BoxCapacityExceededError",
                "all %d user ids of this machine's sessions are in use", JAIL_SLOTS);
        jail_session_stop(s);
        return NULL;
    }
    s->network = start->network;
    start->uid = JAIL_SLOT_BASE + (uint32_t)s->slot;
    all[0] = theirs;
    for (int i = 0; i < count; i++)
        all[i + 1] = fds[i];
    bool ok = order(s, start, texts, all, count + 1, err);
    close(steal_fd(&theirs)); /* the end of the other side must be seen */
    ok = ok && task_spawn(s->group, "jail session", read_session, s, err) && await_ready(s, err) &&
         (s->listener < 0 || jail_egress_start(s, err));
    if (!ok) {
        jail_session_stop(s);
        return NULL;
    }
    return s;
}

/* ---- commands -------------------------------------------------------------------------------- */
void jail_call_begin(struct jail_session *s, struct jail_call *c)
{
    *c = (struct jail_call){.id = ++s->last_id ? s->last_id : ++s->last_id};
    list_push(&s->calls, &c->node);
}

void jail_call_end(struct jail_session *s, struct jail_call *c)
{
    (void)s;
    list_del(&c->node);
}

void jail_send_signal(struct jail_session *s, uint32_t id, int sig)
{
    struct jail_msg m = {JAIL_SIGNAL, id, sig};
    struct error err;
    if (!s->gone && !send_all(s->sock, &m, sizeof m, STR_NONE, NULL, 0, &err) &&
        err.code != ERR_CANCELED)
        log_warn("box", "jail: a signal did not reach %s: %s", s->id, err.msg);
}

void jail_end_call(struct jail_session *s, struct jail_call *c, int sig)
{
    struct task_hold hold;
    struct task_deadline d;
    struct error err = {0};
    task_hold_begin(&hold);
    task_deadline_push(&d, GONE_MS);
    jail_send_signal(s, c->id, sig);
    bool ok = true;
    while (ok && !s->gone && !c->failed && !(sig ? c->ended : c->gone))
        ok = task_cond_wait(&s->news, &err);
    task_deadline_pop(&d);
    task_hold_end(&hold);
    if (!ok)
        log_warn("box", "jail: a process of %s does not end", s->id);
}
