/* The zygote: clones the first process of each session and cleans up behind it. */
#include "box/jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>

enum {
    STACK = 256 << 10,
    ID_SIZE = 200,
    LIVE_MAX = 6000,
    IDMAPS = 256,
    GONE_MAX = 512,
    SPARE_MAX = 64
};

static struct sock_filter program[JAIL_FILTER_MAX];
static struct sock_fprog filter = {0, program};

const struct sock_fprog *jail_filter(void)
{
    return &filter;
}

/* Sessions whose first process lives, and cgroups that could not be removed at once. */
static struct {
    pid_t pid;
    uint32_t serial;
    int netns; /* to be used again, -1: not */
    char id[ID_SIZE];
} live[LIVE_MAX];
static uint32_t serials;
static int spare[SPARE_MAX]; /* network namespaces that nobody is in */
static size_t spare_n;
static char gone[GONE_MAX][ID_SIZE];
static size_t gone_n;

/* User namespaces that map the owner of a directory of the host to the user of a session and back.
 * Made once for each pair; sessions take the lowest free user, so that there are few. */
static struct {
    uid_t user, owner;
    gid_t group;
    int fd;
} idmaps[IDMAPS];
static size_t idmap_n;

/* ---- mapping of owners ----------------------------------------------------------------------- */
static noreturn int sleeper(void *arg)
{
    for (;;)
        pause();
}

/* All ids stay what they are, but a and b are exchanged. */
static bool write_map(pid_t pid, const char *file, uint32_t a, uint32_t b)
{
    char path[64], text[256];
    uint32_t lo = a < b ? a : b, hi = a < b ? b : a;
    size_t n = 0;
    if (lo > 0)
        n += (size_t)snprintf(text + n, sizeof text - n, "0 0 %u\n", lo);
    n += (size_t)snprintf(text + n, sizeof text - n, "%u %u 1\n", lo, hi);
    if (hi - lo > 1)
        n += (size_t)snprintf(text + n, sizeof text - n, "%u %u %u\n", lo + 1, lo + 1, hi - lo - 1);
    if (hi != lo)
        n += (size_t)snprintf(text + n, sizeof text - n, "%u %u 1\n", hi, lo);
    n += (size_t)snprintf(text + n, sizeof text - n, "%u %u %u\n", hi + 1, hi + 1,
                          UINT32_MAX - hi - 1);
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, n) == (ssize_t)n;
    if (fd >= 0)
        close(fd);
    return ok;
}

static int make_idmap(uid_t user, uid_t owner, gid_t group)
{
    static char stack[4096] __attribute__((aligned(16)));
    char path[64];
    pid_t pid = clone(sleeper, stack + sizeof stack, CLONE_NEWUSER | CLONE_VM | SIGCHLD, NULL);
    if (pid < 0)
        return -1;
    int fd = -1;
    if (write_map(pid, "uid_map", user, owner) && write_map(pid, "gid_map", user, group)) {
        snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        continue;
    return fd;
}

/* A descriptor that stays the cache's, or -1: owners stay what they are. */
static int idmap_of(uid_t user, int dir)
{
    struct stat st;
    if (fstat(dir, &st) < 0)
        return -1;
    for (size_t i = 0; i < idmap_n; i++)
        if (idmaps[i].user == user && idmaps[i].owner == st.st_uid && idmaps[i].group == st.st_gid)
            return idmaps[i].fd;
    int fd = make_idmap(user, st.st_uid, st.st_gid);
    if (fd < 0)
        return -1;
    size_t at = idmap_n < IDMAPS ? idmap_n++ : (size_t)user % IDMAPS;
    if (idmaps[at].fd > 0)
        close(idmaps[at].fd);
    idmaps[at].user = user;
    idmaps[at].owner = st.st_uid;
    idmaps[at].group = st.st_gid;
    idmaps[at].fd = fd;
    return fd;
}

/* ---- starting -------------------------------------------------------------------------------- */
static bool next(char **p, char *end, const char **out)
{
    char *nul = *p < end ? memchr(*p, '\0', (size_t)(end - *p)) : NULL;
    if (!nul)
        return false;
    *out = *p;
    *p = nul + 1;
    return true;
}

static bool parse(struct jail_tree *t, char *text, size_t n, const int *fds, int count)
{
    char *end = text + n;
    const struct jail_start *s = t->start;
    if (s->mounts > JAIL_MOUNTS_MAX || count != (int)s->mounts || !next(&text, end, &t->id) ||
        !next(&text, end, &t->workspace) || !next(&text, end, &t->image) ||
        strlen(t->id) >= ID_SIZE)
        return false;
    for (uint32_t i = 0; i < s->mounts; i++) {
        const char *mode;
        struct jail_mount *m = &t->mounts[i];
        if (!next(&text, end, &mode) || !next(&text, end, &m->target) ||
            !next(&text, end, &m->host))
            return false;
        m->rw = *mode == 'w';
        m->fd = fds[i];
        m->tree = m->idmap = -1;
    }
    return true;
}

static void refuse(int sock, const char *text)
{
    struct jail_msg m = {.kind = JAIL_FAILED, .status = errno};
    jail_send(sock, &m, sizeof m, text, strlen(text), NULL, 0);
}

static pid_t clone_init(const struct jail_zygote *z, int *pidfd)
{
    struct clone_args a = {.flags = CLONE_NEWPID | CLONE_PIDFD | CLONE_NEWTIME,
                           .pidfd = (uint64_t)(uintptr_t)pidfd,
                           .exit_signal = SIGCHLD};
    if (!z->hello.privileged)
        a.flags |= CLONE_NEWUSER;
    long pid = syscall(SYS_clone3, &a, sizeof a);
    if (pid < 0 && errno == EINVAL) { /* a kernel without time namespaces */
        a.flags &= ~(uint64_t)CLONE_NEWTIME;
        pid = syscall(SYS_clone3, &a, sizeof a);
    }
    return (pid_t)pid;
}

static void start_session(const struct jail_zygote *z, struct jail_tree *t, int sock)
{
    static char why[JAIL_TEXT_MAX];
    size_t slot = 0;
    while (slot < LIVE_MAX && live[slot].pid)
        slot++;
    if (slot == LIVE_MAX) {
        errno = EAGAIN;
        refuse(sock, "too many sessions");
        return;
    }
    t->privileged = z->hello.privileged;
    t->uid = t->privileged ? t->start->uid : z->outer_uid;
    t->gid = t->privileged ? t->start->uid : z->outer_gid;
    if (!t->privileged) /* inside of its user namespace everything has the one id */
        t->uid = t->gid = JAIL_LOCAL_ID;
    for (uint32_t i = 0; t->privileged && i < t->start->mounts; i++)
        t->mounts[i].idmap = idmap_of(t->uid, t->mounts[i].fd);
    bool reuse = t->privileged && !t->start->network && spare_n > 0;
    t->netns = reuse ? spare[--spare_n] : -1;
    t->serial = ++serials;
    int pidfd = -1;
    pid_t pid = clone_init(z, &pidfd);
    if (pid == 0)
        jail_init(z, t, sock);
    if (pid < 0) {
        if (reuse)
            spare_n++;
        jail_why(why, "clone");
        refuse(sock, why);
        return;
    }
    live[slot].pid = pid;
    live[slot].serial = t->serial;
    live[slot].netns = t->netns;
    snprintf(live[slot].id, sizeof live[slot].id, "%s", t->id);
    struct jail_msg m = {.kind = JAIL_PID, .status = pid};
    jail_send(sock, &m, sizeof m, NULL, 0, &pidfd, 1);
    close(pidfd);
}

static bool one_request(const struct jail_zygote *z)
{
    static char text[JAIL_INLINE_MAX] __attribute__((aligned(16)));
    static struct jail_tree tree;
    int fds[JAIL_FDS_MAX], count = JAIL_FDS_MAX;
    ssize_t n = jail_recv(z->sock, text, sizeof text, fds, &count, 0);
    if (n == 0 || (n < 0 && errno != EMSGSIZE))
        return false;
    const struct jail_start *s = (const void *)text;
    if (count > 0 && n >= (ssize_t)sizeof *s && s->kind == JAIL_START) {
        tree = (struct jail_tree){.start = s, .root = -1, .proc = -1};
        if (parse(&tree, text + sizeof *s, (size_t)n - sizeof *s, fds + 1, count - 1))
            start_session(z, &tree, fds[0]);
        else
            refuse(fds[0], "the order of a session cannot be understood");
    }
    while (count > 0)
        close(fds[--count]);
    return true;
}

/* Takes the namespaces that new sessions have made. */
static void take_loans(const struct jail_zygote *z)
{
    struct jail_loan loan;
    for (;;) {
        int fd = -1, count = 1;
        if (jail_recv(z->pool[0], &loan, sizeof loan, &fd, &count, MSG_DONTWAIT) !=
            (ssize_t)sizeof loan)
            return;
        for (size_t i = 0; count && i < LIVE_MAX; i++)
            if (live[i].pid && live[i].serial == loan.serial) {
                live[i].netns = fd;
                fd = -1;
                break;
            }
        if (count && fd >= 0)
            close(fd);
    }
}

static void keep_netns(int *fd)
{
    if (*fd >= 0 && spare_n < SPARE_MAX)
        spare[spare_n++] = *fd;
    else if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- ending ---------------------------------------------------------------------------------- */
static void reap(const struct jail_zygote *z)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        for (size_t i = 0; i < LIVE_MAX; i++)
            if (live[i].pid == pid) {
                live[i].pid = 0;
                keep_netns(&live[i].netns);
                if (!jail_cgroups_remove(&z->groups, live[i].id) && gone_n < GONE_MAX)
                    memcpy(gone[gone_n++], live[i].id, ID_SIZE);
                break;
            }
}

static void retry(const struct jail_zygote *z)
{
    for (size_t i = gone_n; i-- > 0;)
        if (jail_cgroups_remove(&z->groups, gone[i]))
            memmove(gone[i], gone[--gone_n], ID_SIZE);
}

/* The runtime is gone. Its sessions see that by themselves, but need not be waited for. */
static noreturn void leave(const struct jail_zygote *z)
{
    for (size_t i = 0; i < LIVE_MAX; i++)
        if (live[i].pid)
            kill(live[i].pid, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        continue;
    for (size_t i = 0; i < LIVE_MAX; i++)
        if (*live[i].id)
            jail_cgroups_remove(&z->groups, live[i].id);
    for (int i = 0; i < 100 && gone_n; i++) {
        retry(z);
        usleep(10000);
    }
    jail_cgroups_leave(&z->groups);
    _exit(0);
}

/* ---- beginning ------------------------------------------------------------------------------- */
/* The runtime's environment holds its token; arguments and environment lie next to each other and become
 * the zygote's name. */
static void forget_environment(void)
{
    char *from = program_invocation_name, *to = from + strlen(from) + 1;
    for (char **e = environ; e && *e; e++)
        if (*e >= from && *e < from + (4 << 20) && *e + strlen(*e) + 1 > to)
            to = *e + strlen(*e) + 1;
    for (char **e = environ; e && *e; e++)
        explicit_bzero(*e, strlen(*e));
    if (environ)
        *environ = NULL;
    /* Arguments that were replaced by others are not touched. */
    static const char name[] = "parley-box-zygote";
    size_t room = (size_t)(to - from);
    explicit_bzero(from, room);
    memcpy(from, name, room < sizeof name ? room - 1 : sizeof name);
    prctl(PR_SET_NAME, "box-zygote", 0, 0, 0);
}

static void forget_signals(void)
{
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    /* Too long a file is an error of write for commands, not their end. */
    signal(SIGXFSZ, SIG_IGN);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_SETMASK, &child, NULL);
}

/* libseccomp allocates, and what it allocates would be part of each session: a child of its own. */
static bool make_filter(void)
{
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0)
        return false;
    pid_t pid = _Fork(); /* without the handlers of libuv, which close descriptors by number */
    if (pid == 0) {
        size_t n = jail_filter_make(program, JAIL_FILTER_MAX) * sizeof *program;
        for (size_t at = 0; at < n;) {
            ssize_t put = write(p[1], (char *)program + at, n - at);
            if (put <= 0)
                _exit(1);
            at += (size_t)put;
        }
        _exit(0);
    }
    close(p[1]);
    size_t n = 0;
    ssize_t got;
    while (n < sizeof program && (got = read(p[0], (char *)program + n, sizeof program - n)) > 0)
        n += (size_t)got;
    close(p[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    filter.len = (unsigned short)(n / sizeof *program);
    return n > 0 && n % sizeof *program == 0;
}

static bool has_capabilities(void)
{
    static const int needed[] = {CAP_SYS_ADMIN, CAP_SETUID, CAP_SETGID, CAP_CHOWN,
                                 CAP_DAC_OVERRIDE};
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2] = {{0}};
    if (geteuid() != 0 || syscall(SYS_capget, &head, have) < 0)
        return false;
    for (size_t i = 0; i < array_len(needed); i++)
        if (!(have[needed[i] / 32].effective & 1u << needed[i] % 32))
            return false;
    return true;
}

static void look(struct jail_zygote *z)
{
    struct jail_hello *h = &z->hello;
    h->kind = JAIL_HELLO;
    h->privileged = has_capabilities();
    h->memory = z->groups.usable[JAIL_MEMORY];
    h->pids = z->groups.usable[JAIL_PIDS];
    h->cpu = z->groups.usable[JAIL_CPU];
    h->cgroup_v2 = z->groups.v2;
    h->ids = h->privileged;
    h->landlock = jail_landlock_abi();
    h->seccomp = make_filter();
    snprintf(h->why, sizeof h->why, "%s", z->groups.why);
    z->outer_uid = geteuid();
    z->outer_gid = getegid();
}

static int serve(void *arg)
{
    struct jail_zygote *z = arg;
    forget_signals();
    setsid();
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    if (z->sock != 3)
        dup3(z->sock, 3, O_CLOEXEC), z->sock = 3;
    close_range(4, ~0u, 0);
    if (chdir("/") < 0)
        _exit(1);
    forget_environment();
    look(z);
    int signals = -1;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, z->pool) < 0 ||
        !jail_send(z->sock, &z->hello, sizeof z->hello, NULL, 0, NULL, 0))
        leave(z);
    for (;;) {
        struct pollfd p[] = {{z->sock, POLLIN, 0}, {signals, POLLIN, 0}, {z->pool[0], POLLIN, 0}};
        poll(p, array_len(p), gone_n ? 20 : -1);
        take_loans(z); /* before the end of who made them */
        if (p[1].revents) {
            struct signalfd_siginfo info;
            while (read(signals, &info, sizeof info) > 0)
                continue;
            reap(z);
        }
        if (gone_n)
            retry(z);
        if (p[0].revents && !one_request(z))
            leave(z);
    }
}

int jail_zygote_start(const char *instance, struct jail_cgroups *groups, pid_t *pid,
                      struct error *err)
{
    /* In the child's copy; the parent needs it for the time of the call. */
    static struct jail_zygote z;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        err_sys(err, errno, "socketpair");
        return -1;
    }
    int room = 4 << 20;
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    z = (struct jail_zygote){.sock = pair[1]};
    jail_cgroups_find(&z.groups, instance);
    *groups = z.groups;
    /* A stack of its own: the caller may be a fiber. */
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *pid = stack == MAP_FAILED ? -1 : clone(serve, stack + STACK, SIGCHLD, &z);
    int e = errno;
    if (stack != MAP_FAILED)
        munmap(stack, STACK);
    close(pair[1]);
    if (*pid < 0) {
        close(pair[0]);
        err_sys(err, e, "fork");
        return -1;
    }
    return pair[0];
}
