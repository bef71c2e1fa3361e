/* Giving up: the identity, capabilities, file access (Landlock), system calls (filter.c). */
#include "box/jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>

/* ---- identity -------------------------------------------------------------------------------- */
static bool put(int proc, const char *path, const char *text)
{
    int fd = openat(proc, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int e = errno;
    close(fd);
    errno = e;
    return ok;
}

bool jail_map_self(int proc, uid_t outside, gid_t outside_gid, char *why)
{
    char text[64];
    if (!put(proc, "self/setgroups", "deny") && errno != ENOENT)
        return jail_why(why, "setgroups");
    snprintf(text, sizeof text, "%d %u 1\n", JAIL_LOCAL_ID, outside);
    if (!put(proc, "self/uid_map", text))
        return jail_why(why, "uid_map");
    snprintf(text, sizeof text, "%d %u 1\n", JAIL_LOCAL_ID, outside_gid);
    return put(proc, "self/gid_map", text) || jail_why(why, "gid_map");
}

bool jail_become(bool privileged, uid_t uid, int proc, char *why)
{
    if (!privileged) /* it was made in its user namespace */
        return true;
    /* By number: the C library would have the threads of the runtime do it too, of which this process
     * is a copy without them, and wait for ever for one that was just being made. */
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, uid, uid, uid) < 0 ||
        syscall(SYS_setresuid, uid, uid, uid) < 0)
        return jail_why(why, "the session's user");
    /* The files of /proc/self are root's until the process counts as an ordinary one again. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 || unshare(CLONE_NEWUSER) < 0)
        return jail_why(why, "user namespace");
    return jail_map_self(proc, uid, uid, why);
}

static bool limit(int what, rlim_t n, char *why)
{
    struct rlimit now, want = {n, n};
    if (getrlimit(what, &now) < 0)
        return jail_why(why, "getrlimit");
    if (now.rlim_max != RLIM_INFINITY && (n == RLIM_INFINITY || n > now.rlim_max))
        want = (struct rlimit){now.rlim_max, now.rlim_max};
    return setrlimit(what, &want) == 0 || jail_why(why, "setrlimit");
}

bool jail_limits(const struct jail_start *s, char *why)
{
    rlim_t file = s->file_bytes > 0 ? (rlim_t)s->file_bytes : RLIM_INFINITY;
    return limit(RLIMIT_CORE, 0, why) && limit(RLIMIT_NOFILE, 4096, why) &&
           limit(RLIMIT_NPROC, s->pids + 1, why) && limit(RLIMIT_MEMLOCK, 8 << 20, why) &&
           limit(RLIMIT_MSGQUEUE, 819200, why) && limit(RLIMIT_RTPRIO, 0, why) &&
           limit(RLIMIT_NICE, 0, why) && limit(RLIMIT_SIGPENDING, 1024, why) &&
           limit(RLIMIT_FSIZE, file, why);
}

/* ---- capabilities ---------------------------------------------------------------------------- */
static bool no_capabilities(char *why)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    /* Root means nothing here, and no program file can change that. */
    unsigned bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                    SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                    SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
        return jail_why(why, "securebits");
    for (int cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
            return jail_why(why, "bounding set");
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return jail_why(why, "ambient set");
    return syscall(SYS_capset, &head, none) == 0 || jail_why(why, "capset");
}

/* ---- Landlock -------------------------------------------------------------------------------- */
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15)
#endif
/* The attributes with all that is known today; the kernel is told how much of it there is. */
struct ruleset {
    uint64_t fs, net, scoped;
};
#define FS_READ \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_SPECIAL (LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO)
#define FS_CHANGE                                                                                 \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                              \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | \
     LANDLOCK_ACCESS_FS_MAKE_SYM | FS_SPECIAL | LANDLOCK_ACCESS_FS_REFER |                        \
     LANDLOCK_ACCESS_FS_TRUNCATE)
#define FS_DEVICE                                                                                 \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_TRUNCATE | \
     LANDLOCK_ACCESS_FS_IOCTL_DEV)
#define FS_ALL                                                                           \
    (FS_READ | FS_CHANGE | LANDLOCK_ACCESS_FS_IOCTL_DEV | LANDLOCK_ACCESS_FS_MAKE_CHAR | \
     LANDLOCK_ACCESS_FS_MAKE_BLOCK)

int jail_landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi > 0 ? (int)abi : 0;
}

static bool allow(int rules, const char *path, uint64_t what, uint64_t known, bool must)
{
    struct landlock_path_beneath_attr a = {.allowed_access = what & known};
    a.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (a.parent_fd < 0)
        return !must;
    bool ok = syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &a, 0) == 0;
    int e = errno;
    close(a.parent_fd);
    errno = e;
    return ok;
}

static bool allow_paths(int rules, uint64_t known, const struct jail_tree *t)
{
    static const char *const changed[] = {"/tmp", "/home", "/var/tmp"};
    static const char *const devices[] = {"/dev/null",    "/dev/zero", "/dev/full", "/dev/random",
                                          "/dev/urandom", "/dev/tty",  "/dev/pts"};
    if (!allow(rules, "/", t->start->read_only_root ? FS_READ : FS_READ | FS_CHANGE, known, true))
        return false;
    for (size_t i = 0; i < array_len(changed); i++)
        if (!allow(rules, changed[i], FS_READ | FS_CHANGE, known, true))
            return false;
    /* Shared memory is for files and semaphores. */
    if (!allow(rules, "/dev/shm", (FS_READ | FS_CHANGE) & ~FS_SPECIAL, known, true))
        return false;
    for (size_t i = 0; i < array_len(devices); i++)
        if (!allow(rules, devices[i], FS_DEVICE, known, false))
            return false;
    if (!t->start->primary && !allow(rules, t->workspace, FS_READ | FS_CHANGE, known, true))
        return false;
    for (uint32_t i = 0; i < t->start->mounts; i++)
        if (!allow(rules, t->mounts[i].target, t->mounts[i].rw ? FS_READ | FS_CHANGE : FS_READ,
                   known, true))
            return false;
    return true;
}

static bool landlock(const struct jail_tree *t, int abi)
{
    if (abi <= 0)
        return true;
    struct ruleset r = {.fs = FS_ALL};
    size_t size = sizeof r.fs;
    if (abi < 2)
        r.fs &= ~LANDLOCK_ACCESS_FS_REFER;
    if (abi < 3)
        r.fs &= ~LANDLOCK_ACCESS_FS_TRUNCATE;
    if (abi < 5)
        r.fs &= ~LANDLOCK_ACCESS_FS_IOCTL_DEV;
    if (abi >= 6) { /* abstract sockets and signals end at the session */
        r.scoped = 3;
        size = sizeof r;
    }
    int rules = (int)syscall(SYS_landlock_create_ruleset, &r, size, 0);
    if (rules < 0)
        return false;
    bool ok = allow_paths(rules, r.fs, t) && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    int e = errno;
    close(rules);
    errno = e;
    return ok;
}

bool jail_restrict(const struct jail_tree *t, const struct sock_fprog *filter, int abi, char *why)
{
    if (!no_capabilities(why))
        return false;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return jail_why(why, "no_new_privs");
    if (!landlock(t, abi))
        return jail_why(why, "Landlock");
    /* Nobody inside may look into this process: it has the runtime's memory at the time of the fork. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return jail_why(why, "dumpable");
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) == 0 ||
           jail_why(why, "seccomp");
}
