/* Attempts to get out of a sandbox, one for each name.   attempts NAME [ARGUMENT]   attempts --list
 *
 * Runs inside, as an ordinary command. Ends with 0 when the attempt was refused, with 1 when it worked,
 * which is printed; being killed for it is a refusal as well. Needs nothing but the C library. The test
 * (tests/unit/box/test_jail_escape.c) looks from outside as well whether anything has changed. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/fsuid.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static const char *argument = "";

/* An attempt gives 1 when it worked. */
#define ATTEMPT(name)     static int name(void)
#define WORKS(expression) ((expression) >= 0)

/* ---- mounts ---------------------------------------------------------------------------------- */
ATTEMPT(mount_tmpfs)
{
    return WORKS(mount("x", "/tmp", "tmpfs", 0, NULL));
}
ATTEMPT(mount_proc)
{
    return WORKS(mount("x", "/tmp", "proc", 0, NULL));
}
ATTEMPT(mount_bind)
{
    return WORKS(mount("/", "/tmp", NULL, MS_BIND | MS_REC, NULL));
}
ATTEMPT(remount_root)
{
    return WORKS(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
}
ATTEMPT(remount_usr)
{
    return WORKS(mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
}
ATTEMPT(unmount_proc)
{
    return WORKS(umount2("/proc", MNT_DETACH));
}
ATTEMPT(unmount_workspace)
{
    return WORKS(umount2("/workspace", MNT_DETACH));
}
ATTEMPT(new_mount_api)
{
    int fd = fsopen("tmpfs", 0);
    int tree = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE);
    struct mount_attr a = {.attr_clr = MOUNT_ATTR_RDONLY};
    return fd >= 0 || tree >= 0 || WORKS(mount_setattr(AT_FDCWD, "/", 0, &a, sizeof a)) ||
           WORKS(move_mount(AT_FDCWD, "/tmp", AT_FDCWD, "/home", 0));
}
ATTEMPT(pivot)
{
    return WORKS(syscall(SYS_pivot_root, "/tmp", "/tmp"));
}
ATTEMPT(change_root)
{
    return WORKS(chroot("/tmp")) || WORKS(chroot("."));
}

/* ---- namespaces ------------------------------------------------------------------------------ */
ATTEMPT(unshare_user)
{
    return WORKS(unshare(CLONE_NEWUSER));
}
ATTEMPT(unshare_each)
{
    static const int kinds[] = {CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWNET, CLONE_NEWIPC,
                                CLONE_NEWUTS, CLONE_NEWCGROUP, 0x80 /* time */};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (WORKS(unshare(kinds[i])))
            return 1;
    return 0;
}
static int clone_child(void *arg)
{
    return 0;
}
ATTEMPT(clone_user)
{
    static char stack[65536] __attribute__((aligned(16)));
    return WORKS(clone(clone_child, stack + sizeof stack, CLONE_NEWUSER | SIGCHLD, NULL));
}
ATTEMPT(clone3_user)
{
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    } a = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &a, sizeof a);
    if (pid == 0)
        _exit(0);
    return pid > 0;
}
ATTEMPT(join_namespaces)
{
    static const char *const kinds[] = {"mnt", "net", "pid", "user", "uts", "ipc"};
    char path[64];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(path, sizeof path, "/proc/1/ns/%s", kinds[i]);
        int fd = open(path, O_RDONLY);
        if (fd >= 0 && WORKS(setns(fd, 0)))
            return 1;
        snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i]);
        fd = open(path, O_RDONLY);
        if (fd >= 0 && WORKS(setns(fd, 0)))
            return 1;
    }
    return 0;
}
ATTEMPT(map_ids)
{
    int fd = open("/proc/self/uid_map", O_WRONLY);
    return fd >= 0 && write(fd, "0 0 1\n", 6) == 6;
}

/* ---- other processes ------------------------------------------------------------------------- */
ATTEMPT(trace_me)
{
    return WORKS(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}
ATTEMPT(trace_init)
{
    return WORKS(ptrace(PTRACE_SEIZE, 1, NULL, NULL)) ||
           WORKS(ptrace(PTRACE_ATTACH, 1, NULL, NULL));
}
ATTEMPT(trace_child)
{
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    int worked = WORKS(ptrace(PTRACE_SEIZE, pid, NULL, NULL));
    kill(pid, SIGKILL);
    return worked;
}
ATTEMPT(read_memory)
{
    char block[16];
    struct iovec here = {block, sizeof block}, there = {(void *)0x400000, sizeof block};
    int fd = open("/proc/1/mem", O_RDONLY);
    return WORKS(process_vm_readv(1, &here, 1, &there, 1, 0)) || fd >= 0;
}
ATTEMPT(write_memory)
{
    char block[16] = "";
    struct iovec here = {block, sizeof block}, there = {(void *)0x400000, sizeof block};
    int fd = open("/proc/1/mem", O_WRONLY);
    return WORKS(process_vm_writev(getppid(), &here, 1, &there, 1, 0)) || fd >= 0;
}
ATTEMPT(steal_descriptor)
{
    int fd = (int)syscall(SYS_pidfd_open, 1, 0);
    return fd >= 0 && WORKS(syscall(SYS_pidfd_getfd, fd, 0, 0));
}
ATTEMPT(look_at_init)
{
    static const char *const files[] = {"environ", "maps",   "stack", "io",  "fd",
                                        "auxv",    "root/.", "cwd/.", "exe", "map_files"};
    char path[64];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "/proc/1/%s", files[i]);
        char block[16];
        int fd = open(path, O_RDONLY);
        if (fd >= 0 && (read(fd, block, sizeof block) > 0 || errno == EISDIR))
            return 1;
    }
    return 0;
}
ATTEMPT(kill_init)
{
    kill(1, SIGKILL);
    kill(1, SIGSTOP);
    kill(1, SIGTERM);
    kill(1, SIGSEGV);
    return kill(1, 0) != 0; /* it must still be there */
}
ATTEMPT(kill_outside)
{
    return WORKS(kill(atoi(argument), SIGKILL)) && atoi(argument) > 1000;
}
ATTEMPT(set_priority)
{
    return WORKS(setpriority(PRIO_PROCESS, 0, -10));
}
ATTEMPT(real_time)
{
    struct sched_param p = {.sched_priority = 10};
    return WORKS(sched_setscheduler(0, SCHED_FIFO, &p));
}
ATTEMPT(raise_limits)
{
    struct rlimit r;
    getrlimit(RLIMIT_NPROC, &r);
    r.rlim_cur = r.rlim_max = r.rlim_max + 1000;
    int procs = WORKS(setrlimit(RLIMIT_NPROC, &r));
    r.rlim_cur = r.rlim_max = RLIM_INFINITY;
    return procs || WORKS(setrlimit(RLIMIT_NOFILE, &r)) || WORKS(setrlimit(RLIMIT_CORE, &r));
}
ATTEMPT(escape_oom)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY);
    return fd >= 0 && write(fd, "-1000", 5) == 5;
}

/* ---- privileges ------------------------------------------------------------------------------ */
ATTEMPT(become_root)
{
    return WORKS(setuid(0)) || WORKS(setreuid(0, 0)) || WORKS(setresuid(0, 0, 0)) ||
           WORKS(setgid(0)) || (setfsuid(0), setfsuid(-1) == 0);
}
ATTEMPT(other_groups)
{
    gid_t zero = 0;
    return WORKS(syscall(SYS_setgroups, 1, &zero));
}
ATTEMPT(raise_capability)
{
    struct {
        uint32_t version;
        int pid;
    } head = {0x20080522, 0};
    uint32_t data[6] = {1u << 21, 1u << 21, 1u << 21, 0, 0, 0};
    return WORKS(syscall(SYS_capset, &head, data)) ||
           WORKS(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0));
}
ATTEMPT(privileges_again)
{
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 ||
           WORKS(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)) ||
           WORKS(prctl(PR_SET_SECUREBITS, 0, 0, 0, 0));
}
ATTEMPT(setuid_file)
{
    int fd = open("suid", O_CREAT | O_WRONLY, 0755);
    int open_mode = open("suid2", O_CREAT | O_WRONLY, 04755);
    return fd < 0 || WORKS(fchmod(fd, 04755)) || WORKS(chmod("suid", 02755)) ||
           WORKS(fchmodat(AT_FDCWD, "suid", 06755, 0)) || open_mode >= 0 ||
           WORKS(mknod("suid3", S_IFREG | 04755, 0)) ||
           WORKS(syscall(452 /* fchmodat2 */, AT_FDCWD, "suid", 04755, 0));
}
ATTEMPT(setuid_by_openat2)
{
    struct open_how how = {.flags = O_CREAT | O_WRONLY, .mode = 04755};
    return WORKS(syscall(SYS_openat2, AT_FDCWD, "suid4", &how, sizeof how));
}
ATTEMPT(file_capability)
{
    uint32_t caps[5] = {0x02000001, 1u << 21, 0, 0, 0};
    close(open("capable", O_CREAT | O_WRONLY, 0755));
    return WORKS(setxattr("capable", "security.capability", caps, sizeof caps, 0)) ||
           WORKS(setxattr("capable", "trusted.x", "x", 1, 0));
}
ATTEMPT(give_away)
{
    close(open("mine", O_CREAT | O_WRONLY, 0644));
    return WORKS(chown("mine", 0, 0)) || WORKS(chown("mine", 1001, 1001)) ||
           WORKS(chown("mine", 65534, 65534));
}

/* ---- dangerous calls ------------------------------------------------------------------------- */
ATTEMPT(load_bpf)
{
    union bpf_attr a = {
        .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return WORKS(syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a));
}
ATTEMPT(uring)
{
    struct io_uring_params p = {0};
    return WORKS(syscall(SYS_io_uring_setup, 4, &p)) || errno == EINVAL;
}
ATTEMPT(keys)
{
    return WORKS(syscall(SYS_keyctl, 0, -3, 1)) ||
           WORKS(syscall(SYS_add_key, "user", "x", "y", 1, -3)) ||
           WORKS(syscall(SYS_request_key, "user", "x", NULL, -3));
}
ATTEMPT(perf)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .disabled = 1};
    return WORKS(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0));
}
ATTEMPT(page_faults)
{
    return WORKS(syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY)) ||
           WORKS(syscall(SYS_userfaultfd, 0));
}
ATTEMPT(handles)
{
    struct {
        struct file_handle head;
        unsigned char bytes[128];
    } h = {.head.handle_bytes = 128};
    int id;
    return WORKS(name_to_handle_at(AT_FDCWD, "/", &h.head, &id, 0)) ||
           WORKS(open_by_handle_at(AT_FDCWD, &h.head, O_RDONLY));
}
ATTEMPT(modules)
{
    return WORKS(syscall(SYS_init_module, "", 0, "")) ||
           WORKS(syscall(SYS_finit_module, 0, "", 0)) || WORKS(syscall(SYS_delete_module, "x", 0));
}
ATTEMPT(kexec)
{
    return WORKS(syscall(SYS_kexec_load, 0, 0, NULL, 0)) ||
           WORKS(syscall(SYS_reboot, 0xfee1dead, 672274793, 0, NULL));
}
ATTEMPT(ports)
{
#ifdef SYS_iopl
    return WORKS(syscall(SYS_iopl, 3)) || WORKS(syscall(SYS_ioperm, 0x80, 1, 1));
#else
    return 0;
#endif
}
ATTEMPT(kernel_log)
{
    char block[64];
    return WORKS(klogctl(3, block, sizeof block)) || open("/dev/kmsg", O_RDONLY) >= 0;
}
ATTEMPT(accounting)
{
    return WORKS(acct(NULL)) || WORKS(swapon("/tmp/x", 0)) || WORKS(swapoff("/tmp/x"));
}
ATTEMPT(quotas)
{
    struct dqblk q;
    return WORKS(quotactl(QCMD(Q_GETQUOTA, USRQUOTA), "/dev/vda", 0, (void *)&q));
}
ATTEMPT(set_clock)
{
    struct timeval t;
    gettimeofday(&t, NULL);
    struct timex x = {.modes = ADJ_OFFSET_SINGLESHOT, .offset = 1};
    struct timespec s = {t.tv_sec, 0};
    return WORKS(settimeofday(&t, NULL)) || WORKS(adjtimex(&x)) ||
           WORKS(clock_settime(CLOCK_REALTIME, &s));
}
ATTEMPT(host_name)
{
    return WORKS(sethostname("escaped", 7)) || WORKS(setdomainname("escaped", 7));
}
ATTEMPT(listener_filter)
{
    return WORKS(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                         NULL)) ||
           errno == EFAULT;
}
ATTEMPT(other_architecture)
{
#ifdef __x86_64__
    /* getpid by the call gate of 32-bit programs: the filter must not see another number there. */
    pid_t pid = fork();
    if (pid == 0) {
        long r;
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory");
        _exit(r > 0 ? 42 : 0);
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 42;
#else
    return 0;
#endif
}
ATTEMPT(secret_memory)
{
    return WORKS(syscall(447 /* memfd_secret */, 0));
}

/* ---- terminals ------------------------------------------------------------------------------- */
ATTEMPT(type_into_terminal)
{
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    char c = 'x';
    return fd >= 0 && (WORKS(ioctl(fd, TIOCSTI, &c)) || errno != EPERM);
}
ATTEMPT(type_with_high_bits)
{
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    char c = 'x';
    return fd >= 0 &&
           (WORKS(syscall(SYS_ioctl, fd, 0x100000000ul | TIOCSTI, &c)) || errno != EPERM);
}
ATTEMPT(terminal_discipline)
{
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY), n = 2;
    return fd >= 0 && (WORKS(ioctl(fd, TIOCSETD, &n)) || WORKS(ioctl(fd, TIOCCONS)));
}

/* ---- files ----------------------------------------------------------------------------------- */
ATTEMPT(devices)
{
    const dev_t numbers[] = {makedev(1, 1), makedev(8, 0), makedev(254, 0), makedev(7, 0), 0};
    char path[32];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(path, sizeof path, "node%zu", i);
        if (WORKS(mknod(path, S_IFBLK | 0666, numbers[i])) ||
            WORKS(mknod(path, S_IFCHR | 0666, numbers[i])))
            return 1;
    }
    return 0;
}
ATTEMPT(foreign_devices)
{
    static const char *const paths[] = {"/dev/mem",   "/dev/kmem",         "/dev/sda",
                                        "/dev/vda",   "/dev/loop0",        "/dev/kvm",
                                        "/dev/fuse",  "/dev/loop-control", "/dev/net/tun",
                                        "/dev/vsock", "/dev/console",      "/proc/kcore"};
    char c;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        int fd = open(paths[i], O_RDONLY);
        if (fd >= 0 && read(fd, &c, 1) != 0)
            return 1;
    }
    return 0;
}
ATTEMPT(kernel_settings)
{
    static const char *const paths[] = {
        "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
        "/proc/sys/vm/drop_caches",      "/proc/sysrq-trigger",
        "/proc/sys/kernel/hostname",     "/proc/sys/net/ipv4/ip_forward",
        "/proc/self/setgroups",          "/proc/self/coredump_filter",
        "/proc/irq/default_smp_affinity"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (open(paths[i], O_WRONLY) >= 0)
            return 1;
    return 0;
}
ATTEMPT(change_system)
{
    static const char *const paths[] = {"/x",     "/usr/x",  "/etc/x", "/bin/x",
                                        "/dev/x", "/proc/x", "/sys/x"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (open(paths[i], O_WRONLY | O_CREAT, 0644) >= 0)
            return 1;
    return WORKS(unlink("/bin/sh")) || WORKS(rename("/usr/bin", "/usr/nib")) ||
           WORKS(truncate("/usr/bin/env", 0)) || WORKS(link("/usr/bin/env", "/tmp/env"));
}
ATTEMPT(outside_path)
{
    char path[4200];
    struct stat st;
    snprintf(path, sizeof path, "/workspace/../../../../..%s", argument);
    if (stat(argument, &st) == 0 || stat(path, &st) == 0)
        return 1;
    unlink("planted");
    if (symlink(argument, "planted") == 0 && open("planted", O_RDONLY) >= 0)
        return 1;
    snprintf(path, sizeof path, "/proc/1/root%s", argument);
    return open(path, O_RDONLY) >= 0;
}
/* A directory is moved away while a path through it is walked with "..". */
ATTEMPT(rename_race)
{
    char path[4300];
    mkdir("a", 0755), mkdir("a/b", 0755), mkdir("a/b/c", 0755), mkdir("z", 0755);
    snprintf(path, sizeof path, "a/b/c/../../../../../../../..%s", argument);
    pid_t pid = fork();
    if (pid == 0)
        for (;;) {
            rename("a/b", "z/b");
            rename("z/b", "a/b");
        }
    int worked = 0;
    for (int i = 0; i < 20000 && !worked; i++) {
        int fd = open(path, O_RDONLY);
        worked = fd >= 0;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return worked;
}
ATTEMPT(open_descriptors)
{
    char path[64], to[256];
    for (int fd = 3; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, to, sizeof to - 1);
        if (n > 0)
            return 1;
    }
    return 0;
}
ATTEMPT(control_groups)
{
    struct stat st;
    return stat("/sys/fs/cgroup", &st) == 0 || stat("/sys/kernel", &st) == 0 ||
           WORKS(mkdir("/sys/x", 0755));
}
ATTEMPT(core_file)
{
    struct rlimit r = {1 << 20, 1 << 20};
    return WORKS(setrlimit(RLIMIT_CORE, &r));
}

/* ---- network --------------------------------------------------------------------------------- */
static int reaches(int family, const void *at, socklen_t n)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return 0;
    int r = connect(fd, at, n);
    int worked = r == 0 || errno == EINPROGRESS;
    close(fd);
    return worked;
}
ATTEMPT(connect_out)
{
    static const uint32_t hosts[] = {0x01010101, 0x0a000001, 0xc0a80001, 0xa9fea9fe, 0x08080808};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct sockaddr_in a = {
            .sin_family = AF_INET, .sin_port = htons(80), .sin_addr.s_addr = htonl(hosts[i])};
        if (reaches(AF_INET, &a, sizeof a))
            return 1;
    }
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
    six.sin6_addr.s6_addr[0] = 0x20;
    return reaches(AF_INET6, &six, sizeof six);
}
/* A port of the machine's loopback. */
ATTEMPT(connect_host)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)atoi(argument)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return WORKS(connect(fd, (struct sockaddr *)&a, sizeof a));
}
ATTEMPT(send_datagram)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(0x08080808)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    return WORKS(sendto(fd, "x", 1, 0, (struct sockaddr *)&a, sizeof a));
}
ATTEMPT(abstract_socket)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(argument);
    memcpy(a.sun_path + 1, argument, n);
    return reaches(AF_UNIX, &a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n));
}
ATTEMPT(odd_sockets)
{
    static const int kinds[][3] = {{AF_PACKET, SOCK_RAW, 0},
                                   {AF_INET, SOCK_RAW, 1},
                                   {AF_INET6, SOCK_RAW, 58},
                                   {38 /* ALG */, SOCK_SEQPACKET, 0},
                                   {AF_VSOCK, SOCK_STREAM, 0},
                                   {AF_KEY, SOCK_RAW, 2},
                                   {AF_NETLINK, SOCK_RAW, 12 /* netfilter */},
                                   {AF_NETLINK, SOCK_RAW, 9 /* audit */},
                                   {AF_NETLINK, SOCK_RAW, 15 /* uevent */},
                                   {44 /* XDP */, SOCK_RAW, 0},
                                   {21 /* RDS */, SOCK_SEQPACKET, 0},
                                   {30 /* TIPC */, SOCK_STREAM, 0},
                                   {AF_BLUETOOTH, SOCK_RAW, 1}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (socket(kinds[i][0], kinds[i][1], kinds[i][2]) >= 0)
            return 1;
    return 0;
}
ATTEMPT(change_interface)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq r = {.ifr_flags = 0};
    strcpy(r.ifr_name, "lo");
    struct ifreq a = r;
    struct sockaddr_in *at = (struct sockaddr_in *)(void *)&a.ifr_addr;
    at->sin_family = AF_INET;
    at->sin_addr.s_addr = htonl(0x0a090909);
    return WORKS(ioctl(fd, SIOCSIFFLAGS, &r)) || WORKS(ioctl(fd, SIOCSIFADDR, &a));
}

static const struct {
    const char *name;
    int (*run)(void);
} attempts[] = {
#define ONE(name)   \
    {               \
#name, name \
    }
    ONE(mount_tmpfs),
    ONE(mount_proc),
    ONE(mount_bind),
    ONE(remount_root),
    ONE(remount_usr),
    ONE(unmount_proc),
    ONE(unmount_workspace),
    ONE(new_mount_api),
    ONE(pivot),
    ONE(change_root),
    ONE(unshare_user),
    ONE(unshare_each),
    ONE(clone_user),
    ONE(clone3_user),
    ONE(join_namespaces),
    ONE(map_ids),
    ONE(trace_me),
    ONE(trace_init),
    ONE(trace_child),
    ONE(read_memory),
    ONE(write_memory),
    ONE(steal_descriptor),
    ONE(look_at_init),
    ONE(kill_init),
    ONE(kill_outside),
    ONE(set_priority),
    ONE(real_time),
    ONE(raise_limits),
    ONE(escape_oom),
    ONE(become_root),
    ONE(other_groups),
    ONE(raise_capability),
    ONE(privileges_again),
    ONE(setuid_file),
    ONE(setuid_by_openat2),
    ONE(file_capability),
    ONE(give_away),
    ONE(load_bpf),
    ONE(uring),
    ONE(keys),
    ONE(perf),
    ONE(page_faults),
    ONE(handles),
    ONE(modules),
    ONE(kexec),
    ONE(ports),
    ONE(kernel_log),
    ONE(accounting),
    ONE(quotas),
    ONE(set_clock),
    ONE(host_name),
    ONE(listener_filter),
    ONE(other_architecture),
    ONE(secret_memory),
    ONE(type_into_terminal),
    ONE(type_with_high_bits),
    ONE(terminal_discipline),
    ONE(devices),
    ONE(foreign_devices),
    ONE(kernel_settings),
    ONE(change_system),
    ONE(outside_path),
    ONE(rename_race),
    ONE(open_descriptors),
    ONE(control_groups),
    ONE(core_file),
    ONE(connect_out),
    ONE(connect_host),
    ONE(send_datagram),
    ONE(abstract_socket),
    ONE(odd_sockets),
    ONE(change_interface),
};

int main(int argc, char **argv)
{
    size_t n = sizeof attempts / sizeof *attempts;
    if (argc > 1 && !strcmp(argv[1], "--list")) {
        for (size_t i = 0; i < n; i++)
            puts(attempts[i].name);
        return 0;
    }
    if (argc > 2)
        argument = argv[2];
    for (size_t i = 0; argc > 1 && i < n; i++)
        if (!strcmp(attempts[i].name, argv[1])) {
            errno = 0;
            int worked = attempts[i].run();
            printf("%s: %s (%s)\n", argv[1], worked ? "ESCAPED" : "refused", strerror(errno));
            return worked;
        }
    fprintf(stderr, "attempts: no such attempt\n");
    return 2;
}
