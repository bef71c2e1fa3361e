/* What becomes a command: between fork and exec, and the guardian of a managed process. */
#include "box/jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int64_t jail_command_data;

/* ---- the child ------------------------------------------------------------------------------- */
/* mkdir -p and cd, as the user inside and with the file system that it sees. */
static bool enter_dir(const char *path)
{
    char part[BOX_DIR_MAX];
    if (chdir(path) == 0)
        return true;
    size_t n = strlen(path);
    if (errno != ENOENT || n >= sizeof part)
        return false;
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char c = part[i];
        part[i] = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return false;
        part[i] = c;
    }
    return chdir(path) == 0;
}

static const char *value_of(char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; *env; env++)
        if (!strncmp(*env, name, n) && (*env)[n] == '=')
            return *env + n + 1;
    return NULL;
}

/* execve with a look-up of the name in the PATH that the command is given. */
static void run(char **argv, char **env)
{
    char path[BOX_DIR_MAX];
    if (strchr(argv[0], '/')) {
        execve(argv[0], argv, env);
        return;
    }
    const char *list = value_of(env, "PATH");
    bool denied = false;
    for (const char *p = list ? list : "/usr/bin:/bin"; *p;) {
        size_t n = strcspn(p, ":");
        if (snprintf(path, sizeof path, "%.*s/%s", (int)n, p, argv[0]) < (int)sizeof path) {
            execve(path, argv, env);
            if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
                return;
            denied = denied || errno == EACCES;
        }
        p += n + (p[n] == ':');
    }
    errno = denied ? EACCES : ENOENT;
}

static bool streams(const struct jail_command *c)
{
    int fds[4];
    for (int i = 0; i < 4; i++) { /* out of the way of their places */
        fds[i] = c->fds[i] < 0 ? -1 : fcntl(c->fds[i], F_DUPFD, 10);
        if (c->fds[i] >= 0 && fds[i] < 0)
            return false;
    }
    if (fds[0] < 0)
        fds[0] = open("/dev/null", O_RDONLY);
    for (int i = 0; i < 4; i++)
        if (fds[i] >= 0 && dup2(fds[i], i) < 0)
            return false;
    return close_range(fds[3] >= 0 ? 4 : 3, ~0u, 0) == 0;
}

static int child(void *arg)
{
    struct jail_command *c = arg;
    sigset_t none;
    sigemptyset(&none);
    setsid();
    if (streams(c)) {
        int64_t data = c->run->data_bytes > 0 ? c->run->data_bytes : jail_command_data;
        if (data > 0) {
            rlim_t n = (rlim_t)data;
            setrlimit(RLIMIT_DATA, &(struct rlimit){n, n});
        }
        if (!enter_dir(c->cwd)) {
            /* As mkdir -p and cd would: a result of the command, not a failure to start it. */
            dprintf(2, "cannot enter %s: %s\n", c->cwd, strerrordesc_np(errno));
            _exit(1);
        }
        sigprocmask(SIG_SETMASK, &none, NULL);
        run(c->argv, c->env);
    }
    c->failed = errno ? errno : EIO; /* the memory is the parent's (vfork) */
    _exit(127);
}

pid_t jail_command_start(struct jail_command *c)
{
    /* The child runs on a stack of its own in our memory, and we stand still until it has called
     * execve: nothing is copied. One at a time. */
    static char stack[128 << 10] __attribute__((aligned(16)));
    c->failed = 0;
    pid_t pid = clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, c);
    if (pid < 0)
        c->failed = errno;
    if (pid > 0 && c->failed)
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    return c->failed ? -1 : pid;
}

const struct jail_probe_limits jail_probe_limits = {
    .memory = 16 << 20, .store_bytes = 1 << 20, .store_inodes = 512, .pids = 12};

pid_t jail_probe_start(struct jail_command *c)
{
    pid_t pid = _Fork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        setsid();
        if (streams(c) && enter_dir(c->cwd))
            jail_probe_inside(&jail_probe_limits, c->argv[0]);
        _exit(0);
    }
    c->failed = pid < 0 ? errno : 0;
    return pid;
}

int jail_exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- the guardian ---------------------------------------------------------------------------- */
/* It stands above a managed process, and what its descendants leave behind becomes its own, so that a
 * signal reaches all of them. It ends by SIGKILL only. */
static noreturn void guard(struct jail_command *c, int sock)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    prctl(PR_SET_NAME, "box-guard", 0, 0, 0);
    struct jail_msg m = {.kind = JAIL_STARTED, .id = c->run->id};
    pid_t pid = jail_command_start(c);
    for (int i = 0; i < 4; i++)
        if (c->fds[i] >= 0)
            close(c->fds[i]);
    if (pid < 0) {
        const char *text = strerrordesc_np(c->failed);
        m.kind = JAIL_FAILED;
        m.status = c->failed;
        jail_send(sock, &m, sizeof m, text, strlen(text), NULL, 0);
        _exit(0);
    }
    jail_send(sock, &m, sizeof m, NULL, 0, NULL, 0);
    for (;;) {
        int status;
        pid_t got = waitpid(-1, &status, 0);
        if (got == pid) {
            m = (struct jail_msg){JAIL_EXITED, c->run->id, jail_exit_code(status)};
            jail_send(sock, &m, sizeof m, NULL, 0, NULL, 0);
        } else if (got < 0 && errno == ECHILD) {
            pause();
        }
    }
}

pid_t jail_guard_start(struct jail_command *c, int sock)
{
    pid_t pid = _Fork(); /* without the handlers of libuv, which close descriptors by number */
    if (pid == 0)
        guard(c, sock);
    c->failed = pid < 0 ? errno : 0;
    return pid;
}

/* ---- signals to all that descends from a process --------------------------------------------- */
enum { TREE_MAX = 4096 };

/* Children of one process by /proc/<pid>/task/<tid>/children, added to `list`. */
static size_t add_children(pid_t pid, pid_t *list, size_t n)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return n;
    pid_t tids[64];
    size_t count = jail_read_numbers(dir, tids, array_len(tids));
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%d/children", tids[i]);
        int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
        ssize_t got;
        char *p, *end;
        size_t left = 0;
        while (fd >= 0 && (got = read(fd, text + left, sizeof text - 1 - left)) > 0) {
            text[left + (size_t)got] = '\0';
            for (p = text; (end = strchr(p, ' ')); p = end + 1)
                if (n < TREE_MAX)
                    list[n++] = (pid_t)strtol(p, NULL, 10);
            left = strlen(p);
            memmove(text, p, left);
        }
        if (fd >= 0)
            close(fd);
    }
    close(dir);
    return n;
}

/* Field `n` (from 3 on) of /proc/<pid>/stat into `text`; NULL: the process is gone. */
static const char *stat_field(pid_t pid, int n, char *text, size_t max)
{
    snprintf(text, max, "/proc/%d/stat", pid);
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    ssize_t got = read(fd, text, max - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *p = strrchr(text, ')');
    for (int i = 2; p && i < n; i++)
        p = strchr(p + 1, ' ');
    return p ? p + 1 : NULL;
}

static bool is_zombie(pid_t pid)
{
    char text[512];
    const char *state = stat_field(pid, 3, text, sizeof text);
    return !state || *state == 'Z' || *state == 'X';
}

unsigned long long jail_start_time(pid_t pid)
{
    char text[512];
    const char *p = stat_field(pid, 22, text, sizeof text);
    return p ? strtoull(p, NULL, 10) : 0;
}

void jail_signal_tree(pid_t pid, int sig, bool self)
{
    static pid_t list[TREE_MAX];
    /* New ones may be born while the list is read; who was killed bears none. */
    for (int round = 0; round < 10000; round++) {
        size_t n = add_children(pid, list, 0), living = 0;
        for (size_t i = 0; i < n; i++)
            n = add_children(list[i], list, n);
        for (size_t i = 0; i < n; i++)
            if (!is_zombie(list[i])) {
                living++;
                kill(list[i], sig);
            }
        if (self && round == 0)
            kill(pid, sig);
        if (sig != SIGKILL || living == 0)
            return;
        sched_yield();
    }
}

void jail_kill_command(pid_t pid, bool (*kept)(pid_t pid))
{
    static pid_t orphans[TREE_MAX];
    unsigned long long since = jail_start_time(pid);
    jail_signal_tree(pid, SIGKILL, false);
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    /* What had lost its parent before has become ours, and is younger than the command. */
    for (int round = 0; since && round < 10000; round++) {
        size_t n = add_children(1, orphans, 0), living = 0;
        for (size_t i = 0; i < n; i++) {
            if (orphans[i] == pid || kept(orphans[i]) || is_zombie(orphans[i]) ||
                jail_start_time(orphans[i]) < since)
                continue;
            living++;
            jail_signal_tree(orphans[i], SIGKILL, false);
            kill(orphans[i], SIGKILL);
        }
        if (living == 0)
            return;
        sched_yield();
    }
}
