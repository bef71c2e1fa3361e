/* System calls of a session: an allow-list, made into a program by libseccomp when the zygote starts.
 * docs/sandbox.md tells what it means for common tools; a change of the lists changes
 * JAIL_FILTER_VERSION.
 *
 * What is in neither list gives ENOSYS, as on a kernel that does not know it, so that the C library
 * takes its older ways. What is refused by name gives EPERM. Calls of another architecture end the
 * process. */
#include "box/jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>

/* clang-format off */
static const char *const allowed[] = {
    /* files */
    "access", "chdir", "chmod*", "chown", "close", "close_range", "copy_file_range", "creat*", "dup",
    "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod*",
    "fchmodat*", "fchmodat2*", "fchown", "fchownat", "fcntl", "fcntl64", "fdatasync", "fgetxattr",
    "flistxattr", "flock", "fremovexattr", "fsetxattr", "fstat", "fstat64", "fstatat64", "fstatfs",
    "fstatfs64", "fsync", "ftruncate", "ftruncate64", "futimesat", "getcwd", "getdents",
    "getdents64", "getxattr", "inotify_add_watch", "inotify_init", "inotify_init1",
    "inotify_rm_watch", "ioctl*", "lchown", "lgetxattr", "link", "linkat", "listxattr", "llistxattr",
    "lremovexattr", "lseek", "_llseek", "lsetxattr", "lstat", "lstat64", "mkdir*", "mkdirat*",
    "mknod*", "mknodat*", "newfstatat", "open*", "openat*", "pread64", "preadv", "preadv2", "pwrite64",
    "pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv", "removexattr",
    "rename", "renameat", "renameat2", "rmdir", "sendfile", "sendfile64", "setxattr", "splice", "stat",
    "stat64", "statfs", "statfs64", "statx", "symlink", "symlinkat", "sync", "sync_file_range", "syncfs",
    "tee", "truncate", "truncate64", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimes",
    "vmsplice", "write", "writev", "cachestat", "_newselect", "pipe", "pipe2",
    /* waiting */
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old", "epoll_pwait", "epoll_pwait2",
    "epoll_wait", "epoll_wait_old", "eventfd", "eventfd2", "poll", "ppoll", "pselect6", "select",
    "signalfd", "signalfd4", "timerfd_create", "timerfd_gettime", "timerfd_settime",
    /* memory */
    "brk", "madvise", "mbind", "membarrier", "memfd_create", "mincore", "mlock", "mlock2", "mlockall",
    "mmap", "mmap2", "mprotect", "mremap", "mseal", "msync", "munlock", "munlockall", "munmap",
    "pkey_alloc", "pkey_free", "pkey_mprotect", "remap_file_pages", "get_mempolicy", "set_mempolicy",
    "shmat", "shmctl", "shmdt", "shmget", "semctl", "semget", "semop", "semtimedop", "msgctl", "msgget",
    "msgrcv", "msgsnd", "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend",
    "mq_unlink",
    /* processes */
    "arch_prctl", "capget", "capset", "clone*", "execve", "execveat", "exit", "exit_group", "fork",
    "futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake", "get_robust_list",
    "get_thread_area", "getcpu", "getegid", "geteuid", "getgid", "getgroups", "getpgid", "getpgrp",
    "getpid", "getppid", "getpriority", "getresgid", "getresuid", "getrlimit", "getrusage", "getsid",
    "gettid", "getuid", "ioprio_get", "ioprio_set", "kill", "landlock_add_rule",
    "landlock_create_ruleset", "landlock_restrict_self", "pause", "personality*", "pidfd_open",
    "pidfd_send_signal", "prctl", "prlimit64", "restart_syscall", "rseq", "rt_sigaction",
    "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend",
    "rt_sigtimedwait", "rt_tgsigqueueinfo", "sched_get_priority_max", "sched_get_priority_min",
    "sched_getaffinity", "sched_getattr", "sched_getparam", "sched_getscheduler",
    "sched_rr_get_interval", "sched_setaffinity", "sched_setattr", "sched_setparam",
    "sched_setscheduler", "sched_yield", "seccomp*", "set_robust_list", "set_thread_area",
    "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups", "setpgid", "setpriority",
    "setregid", "setresgid", "setresuid", "setreuid", "setrlimit", "setsid", "setuid", "sigaltstack",
    "sysinfo", "tgkill", "time", "times", "tkill", "ugetrlimit", "uname", "vfork", "wait4", "waitid",
    "waitpid",
    /* time */
    "alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "getitimer", "gettimeofday",
    "nanosleep", "setitimer", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime",
    "timer_settime",
    /* sockets */
    "accept", "accept4", "bind", "connect", "getpeername", "getrandom", "getsockname", "getsockopt",
    "listen", "recv", "recvfrom", "recvmmsg", "recvmsg", "send", "sendmmsg", "sendmsg", "sendto",
    "setsockopt", "shutdown", "socket*", "socketpair*",
};
/* Known and refused: the error is the one that programs expect of a call without the privilege. */
static const char *const refused[] = {
    "_sysctl", "acct", "add_key", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime",
    "create_module", "delete_module", "fanotify_init", "fanotify_mark", "finit_module", "fsconfig",
    "fsmount", "fsopen", "fspick", "get_kernel_syms", "init_module", "ioperm", "iopl", "kcmp",
    "kexec_file_load", "kexec_load", "keyctl", "lookup_dcookie", "memfd_secret", "migrate_pages",
    "modify_ldt", "mount", "mount_setattr", "move_mount", "move_pages", "name_to_handle_at",
    "nfsservctl", "open_by_handle_at", "open_tree", "open_tree_attr", "perf_event_open",
    "pidfd_getfd", "pivot_root", "process_madvise", "process_mrelease", "process_vm_readv",
    "process_vm_writev", "ptrace", "query_module", "quotactl", "quotactl_fd", "reboot",
    "request_key", "set_mempolicy_home_node", "setdomainname", "sethostname", "setns", "settimeofday",
    "stime", "swapoff", "swapon", "sysfs", "syslog", "umount", "umount2", "unshare", "uselib",
    "userfaultfd", "ustat", "vhangup", "vm86", "vm86old",
};
/* clang-format on */

const char *jail_filter_name(bool yes, size_t i)
{
    size_t n = yes ? array_len(allowed) : array_len(refused);
    return i < n ? (yes ? allowed : refused)[i] : NULL;
}

/* ---- calls with conditions ("name*" above) --------------------------------------------------- */
static int call(const char *name)
{
    return seccomp_syscall_resolve_name(name);
}

/* Calls that this architecture or library does not know are passed over. */
static int add(scmp_filter_ctx c, uint32_t action, const char *name, unsigned n,
               const struct scmp_arg_cmp *args)
{
    int nr = call(name);
    if (nr == __NR_SCMP_ERROR)
        return 0;
    int r = seccomp_rule_add_array(c, action, nr, n, args);
    return r == -EDOM ? 0 : r;
}

/* Allowed where none of the bits is set in the argument. */
static int without(scmp_filter_ctx c, const char *name, unsigned arg, uint64_t bits)
{
    struct scmp_arg_cmp none = {arg, SCMP_CMP_MASKED_EQ, bits, 0};
    return add(c, SCMP_ACT_ALLOW, name, 1, &none);
}

#define CREATES (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
/* No set-user-id and set-group-id files: in a directory of the host they would belong to the owner of
 * that directory. What can't be looked at (openat2, io_uring) is not allowed at all. */
static int modes(scmp_filter_ctx c)
{
    static const struct {
        const char *name;
        unsigned arg;
    } calls[] = {{"chmod", 1}, {"fchmod", 1},  {"fchmodat", 2}, {"fchmodat2", 2}, {"creat", 1},
                 {"mkdir", 1}, {"mkdirat", 2}, {"open", 2},     {"openat", 3}};
    int r = 0;
    for (size_t i = 0; i < array_len(calls) && r == 0; i++)
        r = without(c, calls[i].name, calls[i].arg, S_ISUID | S_ISGID);
    /* open ignores the mode where it creates nothing. */
    struct scmp_arg_cmp plain = {1, SCMP_CMP_MASKED_EQ, CREATES, 0};
    struct scmp_arg_cmp at = {2, SCMP_CMP_MASKED_EQ, CREATES, 0};
    r = r ? r : add(c, SCMP_ACT_ALLOW, "open", 1, &plain);
    return r ? r : add(c, SCMP_ACT_ALLOW, "openat", 1, &at);
}

static int nodes(scmp_filter_ctx c)
{
    static const uint64_t kinds[] = {0, S_IFREG, S_IFIFO, S_IFSOCK};
    int r = 0;
    for (size_t i = 0; i < array_len(kinds) && r == 0; i++) {
        struct scmp_arg_cmp is = {1, SCMP_CMP_MASKED_EQ, S_IFMT | S_ISUID | S_ISGID, kinds[i]};
        struct scmp_arg_cmp at = {2, SCMP_CMP_MASKED_EQ, S_IFMT | S_ISUID | S_ISGID, kinds[i]};
        r = add(c, SCMP_ACT_ALLOW, "mknod", 1, &is);
        r = r ? r : add(c, SCMP_ACT_ALLOW, "mknodat", 1, &at);
    }
    return r;
}

static int sockets(scmp_filter_ctx c)
{
    static const uint64_t families[] = {AF_UNIX, AF_INET, AF_INET6};
    int r = 0;
    for (size_t i = 0; i < array_len(families) && r == 0; i++) {
        struct scmp_arg_cmp is = {0, SCMP_CMP_MASKED_EQ, 0xffffffff, families[i]};
        r = add(c, SCMP_ACT_ALLOW, "socket", 1, &is);
        if (r == 0 && families[i] == AF_UNIX)
            r = add(c, SCMP_ACT_ALLOW, "socketpair", 1, &is);
    }
    /* Lists of interfaces and addresses. */
    struct scmp_arg_cmp route[] = {{0, SCMP_CMP_MASKED_EQ, 0xffffffff, AF_NETLINK},
                                   {2, SCMP_CMP_MASKED_EQ, 0xffffffff, NETLINK_ROUTE}};
    return r ? r : add(c, SCMP_ACT_ALLOW, "socket", 2, route);
}

static int others(scmp_filter_ctx c)
{
    /* A new namespace is the one thing that clone must not make; clone3 hides its flags. */
    int r = without(c, "clone", 0,
                    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                        CLONE_NEWUTS | CLONE_NEWCGROUP);
    static const uint64_t personas[] = {0, 8, 0x20000, 0x20008, 0x40000, 0xffffffff};
    for (size_t i = 0; i < array_len(personas) && r == 0; i++) {
        struct scmp_arg_cmp is = {0, SCMP_CMP_EQ, personas[i], 0};
        r = add(c, SCMP_ACT_ALLOW, "personality", 1, &is);
    }
    /* More filters may be added, but not one that has others decide. */
    return r ? r : without(c, "seccomp", 1, SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

static int fill(scmp_filter_ctx c)
{
    int r = seccomp_attr_set(c, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    for (size_t i = 0; i < array_len(allowed) && r == 0; i++)
        if (!strchr(allowed[i], '*'))
            r = add(c, SCMP_ACT_ALLOW, allowed[i], 0, NULL);
    for (size_t i = 0; i < array_len(refused) && r == 0; i++)
        r = add(c, SCMP_ACT_ERRNO(EPERM), refused[i], 0, NULL);
    r = r ? r : modes(c);
    r = r ? r : nodes(c);
    r = r ? r : sockets(c);
    r = r ? r : others(c);
    /* A tree instead of a list: few steps for each call. Old libraries don't know it. */
    seccomp_attr_set(c, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    return r;
}

/* ---- the program ----------------------------------------------------------------------------- */
/* In front of libseccomp's part: all ioctl requests but those that type into a terminal or give it
 * another nature. The kernel looks at the lower half of the argument only, so this does as well;
 * the library can compare one argument once in a rule. */
static size_t ioctls(struct sock_filter *out)
{
    static const uint32_t bad[] = {0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */,
                                   0x541d /* TIOCCONS */, 0x5423 /* TIOCSETD */};
    const uint8_t n = array_len(bad);
    size_t at = 0;
    const uint32_t low =
        offsetof(struct seccomp_data, args[1]) + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0);
    out[at++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    out[at++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_ioctl, 0, (uint8_t)(n + 2));
    out[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low);
    for (uint8_t i = 0; i < n; i++)
        out[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bad[i],
                                                 (uint8_t)(n - 1 - i), i == n - 1 ? 1 : 0);
    out[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    return at;
}

size_t jail_filter_make(struct sock_filter *out, size_t max)
{
    size_t at = ioctls(out);
    size_t bytes = 0;
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int fd = memfd_create("filter", MFD_CLOEXEC);
    if (c && fd >= 0 && fill(c) == 0 && add(c, SCMP_ACT_ALLOW, "ioctl", 0, NULL) == 0 &&
        seccomp_export_bpf(c, fd) == 0) {
        off_t size = lseek(fd, 0, SEEK_END);
        if (size > 0 && (size_t)size <= (max - at) * sizeof *out &&
            pread(fd, out + at, (size_t)size, 0) == size)
            bytes = (size_t)size;
    }
    if (fd >= 0)
        close(fd);
    if (c)
        seccomp_release(c);
    return bytes ? at + bytes / sizeof *out : 0;
}
