/* The first process of a session: builds it, gives up everything, then starts commands and reaps. */
#include "box/jail/jail.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    pid_t pid;
    uint32_t id;
    bool guarded;
} running[JAIL_RUNNING_MAX];

static noreturn void fail(int sock, const char *why)
{
    struct jail_msg m = {.kind = JAIL_FAILED};
    jail_send(sock, &m, sizeof m, why, strlen(why), NULL, 0);
    _exit(1);
}

/* ---- making ---------------------------------------------------------------------------------- */
/* A new network namespace with its loopback up, or the one of a session that has ended. */
static bool network(const struct jail_zygote *z, const struct jail_tree *t, int *listener)
{
    const struct jail_start *s = t->start;
    char *why = t->why;
    if (t->netns >= 0)
        return setns(t->netns, CLONE_NEWNET) == 0 || jail_why(why, "network namespace");
    if (unshare(CLONE_NEWNET) < 0)
        return jail_why(why, "network namespace");
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return jail_why(why, "socket");
    struct ifreq r = {.ifr_flags = IFF_UP};
    memcpy(r.ifr_name, "lo", 3);
    bool ok = ioctl(fd, SIOCSIFFLAGS, &r) == 0 || jail_why(why, "loopback");
    if (ok && s->network) {
        /* Born in here, served by the runtime outside: the only way out. */
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_port = htons(JAIL_PROXY_PORT),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        ok = (bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 64) == 0) ||
             jail_why(why, "the way out");
        fcntl(fd, F_SETFL, O_NONBLOCK);
        *listener = fd;
        return ok;
    }
    close(fd);
    int own =
        ok && t->privileged && !s->network ? open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC) : -1;
    if (own >= 0) {
        struct jail_loan loan = {t->serial};
        jail_send(z->pool[1], &loan, sizeof loan, NULL, 0, &own, 1);
        close(own);
    }
    return ok;
}

static void make(const struct jail_zygote *z, struct jail_tree *t, int sock, int *listener)
{
    static char why[JAIL_TEXT_MAX];
    t->why = why;
    int proc = -1;
    if (!t->privileged) {
        proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (proc < 0 || !jail_map_self(proc, z->outer_uid, z->outer_gid, why))
            fail(sock, why);
        close(proc);
    }
    if (!jail_cgroups_join(&z->groups, t->id, t->start, why))
        fail(sock, why);
    if (t->privileged && !jail_tree_clone(t))
        fail(sock, why);
    if (!network(z, t, listener))
        fail(sock, why);
    if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) < 0) {
        jail_why(why, "namespaces");
        fail(sock, why);
    }
    if (!t->privileged && !jail_tree_clone(t))
        fail(sock, why);
    if (sethostname("box", 3) < 0 || !jail_tree_enter(t) || !jail_limits(t->start, why) ||
        !jail_become(t->privileged, t->uid, t->proc, why))
        fail(sock, why);
    jail_command_data = z->hello.memory ? 0 : t->start->memory;
    /* Changing the user has taken this back. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    close(t->proc);
    close(t->root);
    if (!jail_restrict(t, jail_filter(), z->hello.landlock, why))
        fail(sock, why);
}

/* ---- commands -------------------------------------------------------------------------------- */
size_t jail_read_numbers(int dir, pid_t *out, size_t max)
{
    char block[2048] __attribute__((aligned(8)));
    size_t n = 0;
    ssize_t got;
    while ((got = syscall(SYS_getdents64, dir, block, sizeof block)) > 0)
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *e = (const void *)(block + at);
            if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && n < max)
                out[n++] = (pid_t)strtol(e->d_name, NULL, 10);
            at += e->d_reclen;
        }
    return n;
}

static void tell(int sock, uint32_t kind, uint32_t id, int status, const char *text)
{
    struct jail_msg m = {kind, id, status};
    jail_send(sock, &m, sizeof m, text, text ? strlen(text) : 0, NULL, 0);
}

static void remember(pid_t pid, uint32_t id, bool guarded)
{
    for (size_t i = 0; i < JAIL_RUNNING_MAX; i++)
        if (!running[i].pid) {
            running[i].pid = pid;
            running[i].id = id;
            running[i].guarded = guarded;
            return;
        }
}

/* Splits the texts of a request. False: they are not what the head says. */
static bool words(char **p, char *end, char **out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        char *nul = *p < end ? memchr(*p, '\0', (size_t)(end - *p)) : NULL;
        if (!nul)
            return false;
        out[i] = *p;
        *p = nul + 1;
    }
    out[n] = NULL;
    return true;
}

static void start(int sock, const struct jail_run *r, char *text, size_t n, int *fds, int count)
{
    static char *argv[JAIL_WORDS_MAX + 1], *env[JAIL_WORDS_MAX + 1], *cwd[2];
    char *end = text + n;
    struct jail_command c = {.run = r, .argv = argv, .env = env, .fds = {-1, -1, -1, -1}};
    if (r->args == 0 || r->args > JAIL_WORDS_MAX || r->env > JAIL_WORDS_MAX ||
        !words(&text, end, cwd, 1) || !words(&text, end, argv, r->args) ||
        !words(&text, end, env, r->env)) {
        tell(sock, JAIL_FAILED, r->id, EINVAL, "the command cannot be understood");
        return;
    }
    c.cwd = cwd[0];
    for (int i = 0; i < count && i < 4; i++)
        c.fds[i] = fds[i];
    if (!r->script)
        c.fds[3] = -1;
    pid_t pid = r->managed ? jail_guard_start(&c, sock)
                : r->probe ? jail_probe_start(&c)
                           : jail_command_start(&c);
    if (pid < 0)
        tell(sock, JAIL_FAILED, r->id, c.failed, strerrordesc_np(c.failed));
    else
        remember(pid, r->id, r->managed);
}

/* `fds`: in, out, err, [script], [texts]. */
static void request(int sock, const struct jail_run *r, char *text, size_t n, int *fds, int count)
{
    if (!r->payload) {
        start(sock, r, text, n, fds, count);
    } else if (count < 1 || r->payload > JAIL_PAYLOAD_MAX) {
        tell(sock, JAIL_FAILED, r->id, EINVAL, "the command cannot be understood");
    } else {
        char *p = mmap(NULL, r->payload, PROT_READ | PROT_WRITE, MAP_PRIVATE, fds[count - 1], 0);
        if (p == MAP_FAILED) {
            tell(sock, JAIL_FAILED, r->id, errno, strerrordesc_np(errno));
        } else {
            start(sock, r, p, r->payload, fds, count - 1);
            munmap(p, r->payload);
        }
    }
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

static bool is_ours(pid_t pid)
{
    for (size_t i = 0; i < JAIL_RUNNING_MAX; i++)
        if (running[i].pid == pid)
            return true;
    return false;
}

static void pass_signal(uint32_t id, int sig)
{
    for (size_t i = 0; i < JAIL_RUNNING_MAX; i++)
        if (running[i].pid && running[i].id == id) {
            pid_t pid = running[i].pid;
            if (running[i].guarded)
                jail_signal_tree(pid, sig, false);
            else if (sig == SIGKILL)
                jail_kill_command(pid, is_ours);
            else
                kill(-pid, sig);
            return;
        }
}

/* A guardian that is not needed any more, with all below it. */
static void forget(uint32_t id)
{
    for (size_t i = 0; i < JAIL_RUNNING_MAX; i++)
        if (running[i].pid && running[i].id == id) {
            jail_signal_tree(running[i].pid, SIGKILL, false);
            kill(running[i].pid, SIGKILL);
        }
}

static void reap(int sock)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (size_t i = 0; i < JAIL_RUNNING_MAX; i++)
            if (running[i].pid == pid) {
                running[i].pid = 0;
                /* A guardian has told how it ended before, unless somebody inside killed it. */
                tell(sock, running[i].guarded ? JAIL_GONE : JAIL_EXITED, running[i].id,
                     jail_exit_code(status), NULL);
                break;
            }
}

static bool one_message(int sock)
{
    /* The buffer is mapped for the time of a message only: idle sessions have none. */
    char *p = mmap(NULL, JAIL_INLINE_MAX + 4096, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fds[JAIL_FDS_MAX], count = JAIL_FDS_MAX;
    if (p == MAP_FAILED)
        return true;
    ssize_t n = jail_recv(sock, p, JAIL_INLINE_MAX + 4095, fds, &count, 0);
    struct jail_msg m = {0};
    if (n >= (ssize_t)sizeof m)
        memcpy(&m, p, sizeof m);
    if (m.kind == JAIL_EXEC && n >= (ssize_t)sizeof(struct jail_run)) {
        request(sock, (const struct jail_run *)(void *)p, p + sizeof(struct jail_run),
                (size_t)n - sizeof(struct jail_run), fds, count);
    } else {
        while (count > 0)
            close(fds[--count]);
        if (m.kind == JAIL_SIGNAL && m.status)
            pass_signal(m.id, m.status);
        else if (m.kind == JAIL_SIGNAL)
            forget(m.id);
    }
    munmap(p, JAIL_INLINE_MAX + 4096);
    return n > 0;
}

noreturn void jail_init(const struct jail_zygote *z, struct jail_tree *t, int sock)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    prctl(PR_SET_NAME, "box-init", 0, 0, 0);
    int listener = -1;
    make(z, t, sock, &listener);
    /* What else the zygote has open is not for a session. */
    if (dup3(sock, 3, O_CLOEXEC) < 0 || (listener >= 0 && dup3(listener, 4, O_CLOEXEC) < 0))
        _exit(1);
    sock = 3;
    listener = listener >= 0 ? 4 : -1;
    close_range(listener >= 0 ? 5 : 4, ~0u, 0);
    struct jail_msg ready = {.kind = JAIL_READY};
    if (!jail_send(sock, &ready, sizeof ready, NULL, 0, &listener, listener >= 0))
        _exit(1);
    if (listener >= 0)
        close(listener);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_SETMASK, &child, NULL);
    int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    for (;;) {
        struct pollfd p[2] = {{sock, POLLIN, 0}, {signals, POLLIN, 0}};
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            _exit(1);
        if (p[1].revents) {
            struct signalfd_siginfo info;
            while (read(signals, &info, sizeof info) > 0)
                continue;
            reap(sock);
        }
        /* The runtime has gone or wants an end: the kernel ends everybody with us. */
        if (p[0].revents && !one_message(sock))
            _exit(0);
    }
}
