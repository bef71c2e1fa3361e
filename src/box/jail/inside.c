/* The inner half of a probe: tries what must not be possible, in a session with small limits, and
 * prints a line for each thing that was seen. Runs where a command would; needs no program inside. */
#include "box/jail/jail.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/capability.h>

static void say(const char *name, bool yes)
{
    dprintf(1, "%s=%d\n", name, yes);
}

/* ---- files ----------------------------------------------------------------------------------- */
/* errno of making a file, 0 if it was made (and removed again). */
static int make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return errno;
    close(fd);
    unlink(path);
    return 0;
}

static bool read_only(const char *path)
{
    int e = make_file(path);
    return e == EROFS || e == EACCES;
}

static void mounts(const char *host_path)
{
    int fd = open("mark", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    bool wrote = fd >= 0 && write(fd, "seen\n", 5) == 5;
    if (fd >= 0)
        close(fd);
    say("wrote", wrote);
    say("ro_mount", make_file("ro/mark") == EROFS);
    struct stat st;
    say("hidden", stat(host_path, &st) < 0 && errno == ENOENT && stat("/etc/shadow", &st) < 0 &&
                      open("/proc/1/root", O_RDONLY) < 0);
    say("ro_root", read_only("/mark") && read_only("/usr/mark") && read_only("/etc/mark"));
}

/* Fills /tmp up to the bound of the store. */
static void storage(int64_t bytes, int64_t files)
{
    static char block[64 << 10];
    int64_t n = 0;
    ssize_t put = 0;
    int fd = open("/tmp/fill", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    while (fd >= 0 && n <= 2 * bytes && (put = write(fd, block, sizeof block)) > 0)
        n += put;
    say("store_bytes", fd >= 0 && put < 0 && errno == ENOSPC && n <= bytes);
    if (fd >= 0)
        close(fd);
    unlink("/tmp/fill");
    char path[32];
    int64_t made = 0;
    int e = 0;
    while (made <= 2 * files && !e) {
        snprintf(path, sizeof path, "/tmp/f%lld", (long long)made);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        e = fd < 0 ? errno : 0;
        made += fd >= 0;
        if (fd >= 0)
            close(fd);
    }
    say("store_files", e == ENOSPC && made <= files);
    for (int64_t i = 0; i < made; i++) {
        snprintf(path, sizeof path, "/tmp/f%lld", (long long)i);
        unlink(path);
    }
}

/* ---- privileges ------------------------------------------------------------------------------ */
static bool no_caps(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2];
    if (syscall(SYS_capget, &head, have) < 0)
        return false;
    for (int i = 0; i < 2; i++)
        if (have[i].effective | have[i].permitted | have[i].inheritable)
            return false;
    for (int cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) > 0)
            return false;
    return true;
}

static void privileges(void)
{
    say("no_caps", no_caps());
    say("no_new_privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    bool refused = unshare(CLONE_NEWUSER) < 0 && errno == EPERM;
    refused = refused && syscall(SYS_keyctl, 0, -3, 1) < 0 && errno == EPERM;
    say("seccomp", refused && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
    /* Nothing but Landlock forbids a pipe there. */
    say("landlock", mkfifo("/dev/shm/pipe", 0600) < 0 && errno == EACCES);
    say("not_root", getuid() != 0 && geteuid() != 0);
}

static void network(void)
{
    struct sockaddr_in far = {.sin_family = AF_INET,
                              .sin_port = htons(53),
                              .sin_addr.s_addr = htonl(0xc0000201)}; /* 192.0.2.1: nowhere */
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    say("no_route",
        fd >= 0 && connect(fd, (struct sockaddr *)&far, sizeof far) < 0 && errno == ENETUNREACH);
    if (fd >= 0)
        close(fd);
}

static void namespaces(void)
{
    static const char *const kinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
    char path[64], text[64];
    for (size_t i = 0; i < array_len(kinds); i++) {
        snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i]);
        ssize_t n = readlink(path, text, sizeof text - 1);
        dprintf(1, "ns=%.*s\n", n > 0 ? (int)n : 0, text);
    }
}

/* ---- limits ---------------------------------------------------------------------------------- */
static int status_of(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

static void memory(int64_t limit)
{
    pid_t pid = _Fork();
    if (pid == 0) {
        size_t n = (size_t)limit * 2;
        volatile char *p =
            mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            _exit(3);
        for (size_t i = 0; i < n; i += 4096)
            p[i] = 1;
        _exit(0);
    }
    int status = pid > 0 ? status_of(pid) : 0;
    say("memory", WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void processes(uint32_t limit)
{
    static pid_t made[512];
    size_t n = 0;
    pid_t pid = 0;
    while (n < array_len(made) && (pid = _Fork()) > 0)
        made[n++] = pid;
    if (pid == 0) {
        pause();
        _exit(0);
    }
    say("pids", pid < 0 && errno == EAGAIN && n <= limit);
    for (size_t i = 0; i < n; i++) {
        kill(made[i], SIGKILL);
        status_of(made[i]);
    }
}

/* Uses the processor for longer than one period allows, once the share has been made small; what the
 * group says of it is read outside. */
static int64_t used_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void processor(void)
{
    char c;
    dprintf(1, "processor=1\n");
    while (read(0, &c, 1) < 0 && errno == EINTR)
        continue;
    int64_t end = used_us() + 2500;
    while (used_us() < end)
        continue;
}

void jail_probe_inside(const struct jail_probe_limits *l, const char *host_path)
{
    namespaces();
    mounts(host_path);
    storage(l->store_bytes, l->store_inodes);
    privileges();
    network();
    processes(l->pids);
    memory(l->memory);
    processor();
    dprintf(1, "end=1\n");
}
