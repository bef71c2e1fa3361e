/* What a session sees: a tree of its own on a store with a size, the host's system directories
 * read-only in it, and nothing else of the host.
 *
 * Everything is put together with descriptors (fsopen, open_tree, move_mount), so no path of the host
 * is resolved twice, and no path inside through a link. */
#include "box/jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <linux/openat2.h>

#define MASKED "run/masked"

/* ---- directories of every session ------------------------------------------------------------ */
static const struct {
    const char *path;
    mode_t mode;
    bool own; /* of the session's user, and stays writable */
} skeleton[] = {
    {"dev", 0755, false},     {"dev/pts", 0755, false},   {"etc", 0755, false},
    {"etc/ssl", 0755, false}, {"proc", 0555, false},      {"sys", 0555, false},
    {"root", 0700, false},    {"var", 0755, false},       {"var/lib", 0755, false},
    {"var/log", 0755, false}, {"var/cache", 0755, false}, {"run", 0755, false},
    {"opt", 0755, false},     {"mnt", 0755, false},       {"srv", 0755, false},
    {"tmp", 01777, true},     {"home", 0755, true},       {"dev/shm", 01777, true},
    {"var/tmp", 01777, true},
};

/* The host's system: links are made anew, directories are bound. */
static const char *const system_dirs[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};
/* Of the host's /etc and /var what programs need and no secret is in; missing ones are passed over. */
static const char *const system_files[] = {
    "etc/alternatives", "etc/ld.so.cache", "etc/ld.so.conf",
    "etc/ld.so.conf.d", "etc/ssl/certs",   "etc/ssl/openssl.cnf",
    "etc/localtime",    "etc/mime.types",  "etc/services",
    "etc/protocols",    "etc/os-release",  "etc/debian_version",
    "etc/fonts",        "etc/dpkg",        "etc/apt",
    "etc/perl",         "var/lib/dpkg",    "var/lib/apt",
    "var/cache/apt",
};
static const struct {
    const char *path, *text;
} files[] = {
    {"etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n"
                   "box:x:1000:1000:box:/home:/bin/sh\n"
                   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", "root:x:0:\nbox:x:1000:\nnogroup:x:65534:\n"},
    {"etc/hosts", "127.0.0.1 localhost box\n::1 localhost\n"},
    {"etc/hostname", "box\n"},
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
    {"etc/host.conf", "multi on\n"},
    {"etc/resolv.conf", ""},
    {MASKED, ""},
};
static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
static const struct {
    const char *to, *at;
} links[] = {
    {"/proc/self/fd", "dev/fd"},
    {"/proc/self/fd/0", "dev/stdin"},
    {"/proc/self/fd/1", "dev/stdout"},
    {"/proc/self/fd/2", "dev/stderr"},
    {"pts/ptmx", "dev/ptmx"},
    {"/proc/self/mounts", "etc/mtab"},
    {"/run", "var/run"},
};
/* What /proc says of the host rather than of the session, hidden behind an empty file. sysrq-trigger is
 * left to the read-only mount: there is nothing to read in it. */
static const char *const hidden_files[] = {
    "kcore",       "keys",        "key-users",     "kmsg",        "timer_list", "kallsyms",
    "modules",     "config.gz",   "cmdline",       "diskstats",   "partitions", "kpagecount",
    "kpageflags",  "kpagecgroup", "latency_stats", "sched_debug", "interrupts", "softirqs",
    "vmallocinfo", "slabinfo",    "iomem",         "ioports",     "swaps",      "locks",
};
static const char *const hidden_dirs[] = {"acpi", "asound", "bus",  "driver",  "dynamic_debug",
                                          "fs",   "irq",    "scsi", "sysvipc", "tty"};

/* ---- helpers --------------------------------------------------------------------------------- */
static bool set_attr(int fd, uint64_t set, bool below)
{
    struct mount_attr a = {.attr_set = set};
    return mount_setattr(fd, "", AT_EMPTY_PATH | (below ? AT_RECURSIVE : 0), &a, sizeof a) == 0;
}

/* Moves a detached mount onto a directory or file below root, never through a link. */
static bool attach(int tree, int root, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
                           .resolve =
                               RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    int at = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    if (at < 0)
        return false;
    bool ok = move_mount(tree, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
    int e = errno;
    close(at);
    errno = e;
    return ok;
}

/* Binds `from` of directory `dir` at root/path. Without the privilege a tree with mounts below it
 * can only be taken whole. */
static bool bind_path(int dir, const char *from, int root, const char *path, uint64_t set)
{
    int tree = open_tree(dir, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (tree < 0)
        return false;
    bool ok = (!set || set_attr(tree, set, true)) && attach(tree, root, path);
    int e = errno;
    close(tree);
    errno = e;
    return ok;
}

static bool write_file(int root, const char *path, const char *text)
{
    int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return false;
    size_t n = strlen(text);
    bool ok = write(fd, text, n) == (ssize_t)n;
    close(fd);
    return ok;
}

static int new_tmpfs(int64_t bytes, int64_t inodes, mode_t mode)
{
    char size[32], count[32], bits[16];
    int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -1;
    snprintf(size, sizeof size, "%lld", (long long)bytes);
    snprintf(count, sizeof count, "%lld", (long long)inodes);
    snprintf(bits, sizeof bits, "%o", mode);
    int fd = -1;
    if (fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0) == 0 &&
        fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", count, 0) == 0 &&
        fsconfig(fs, FSCONFIG_SET_STRING, "mode", bits, 0) == 0 &&
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    int e = errno;
    close(fs);
    errno = e;
    return fd;
}

/* Makes one directory below `at`; in a directory of the host as the session's user, so that it belongs
 * to the owner of what it lies in and nothing is done there that the user could not do. */
static bool make_one(const struct jail_tree *t, int at, const char *name, dev_t root)
{
    struct stat st;
    if (fstat(at, &st) < 0)
        return false;
    bool host = t->privileged && st.st_dev != root;
    if (host)
        setfsgid(t->gid), setfsuid(t->uid);
    bool ok = mkdirat(at, name, 0755) == 0 || errno == EEXIST;
    int e = errno;
    if (host)
        setfsuid(0), setfsgid(0);
    errno = e;
    return ok;
}

int jail_make_dir(const struct jail_tree *t, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
                           .resolve =
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    char part[256];
    struct stat root;
    int at = fstat(t->root, &root) == 0 ? fcntl(t->root, F_DUPFD_CLOEXEC, 3) : -1;
    for (const char *p = path; at >= 0 && *(p += strspn(p, "/"));) {
        size_t n = strcspn(p, "/");
        int next = -1;
        if (n < sizeof part) {
            memcpy(part, p, n);
            part[n] = '\0';
            next = (int)syscall(SYS_openat2, at, part, &how, sizeof how);
            if (next < 0 && errno == ENOENT && make_one(t, at, part, root.st_dev))
                next = (int)syscall(SYS_openat2, at, part, &how, sizeof how);
        } else {
            errno = ENAMETOOLONG;
        }
        int e = errno;
        close(at);
        errno = e;
        at = next;
        p += n;
    }
    return at;
}

/* ---- parts of the tree ----------------------------------------------------------------------- */
static bool make_skeleton(struct jail_tree *t)
{
    if (!t->start->read_only_root && fchownat(t->root, "", t->uid, t->gid, AT_EMPTY_PATH) < 0)
        return jail_why(t->why, "the root directory");
    for (size_t i = 0; i < array_len(skeleton); i++) {
        if (mkdirat(t->root, skeleton[i].path, 0755) < 0 ||
            fchmodat(t->root, skeleton[i].path, skeleton[i].mode, 0) < 0)
            return jail_why(t->why, skeleton[i].path);
        bool own = skeleton[i].own || !t->start->read_only_root;
        if (own && fchownat(t->root, skeleton[i].path, t->uid, t->gid, 0) < 0)
            return jail_why(t->why, skeleton[i].path);
    }
    for (size_t i = 0; i < array_len(links); i++)
        if (symlinkat(links[i].to, t->root, links[i].at) < 0)
            return jail_why(t->why, links[i].at);
    for (size_t i = 0; i < array_len(files); i++)
        if (!write_file(t->root, files[i].path, files[i].text))
            return jail_why(t->why, files[i].path);
    char path[32];
    for (size_t i = 0; i < array_len(devices); i++) {
        snprintf(path, sizeof path, "dev/%s", devices[i]);
        if (!write_file(t->root, path, ""))
            return jail_why(t->why, path);
    }
    return true;
}

/* Makes the place for a bind of the same kind as `st` of the host. */
static bool make_place(int root, const char *path, const struct stat *st)
{
    if (S_ISDIR(st->st_mode))
        return mkdirat(root, path, 0755) == 0 || errno == EEXIST;
    return write_file(root, path, "");
}

/* One entry of the host at the same place inside. Missing ones are no failure. */
static bool bind_entry(struct jail_tree *t, int host, const char *path)
{
    struct stat st;
    char to[256];
    if (fstatat(host, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT || errno == ENOTDIR || jail_why(t->why, path);
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(host, path, to, sizeof to - 1);
        if (n < 0)
            return jail_why(t->why, path);
        to[n] = '\0';
        return symlinkat(to, t->root, path) == 0 || jail_why(t->why, path);
    }
    if (!make_place(t->root, path, &st) || !bind_path(host, path, t->root, path, 0))
        return jail_why(t->why, path);
    return true;
}

/* An image is a directory with a system of its own; all of its top is taken, what every session has
 * of its own excepted. */
static bool bind_system(struct jail_tree *t)
{
    int host = open(*t->image ? t->image : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (host < 0)
        return jail_why(t->why, "the directory of the image");
    bool ok = true;
    for (size_t i = 0; ok && i < array_len(system_dirs); i++)
        ok = bind_entry(t, host, system_dirs[i]);
    for (size_t i = 0; ok && i < array_len(system_files); i++)
        ok = bind_entry(t, host, system_files[i]);
    if (ok && *t->image) {
        struct stat st;
        if (fstatat(host, "opt", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
            ok = bind_path(host, "opt", t->root, "opt", 0) || jail_why(t->why, "opt of the image");
    }
    close(host);
    return ok;
}

static bool bind_devices(struct jail_tree *t)
{
    char from[32], to[32];
    for (size_t i = 0; i < array_len(devices); i++) {
        snprintf(from, sizeof from, "/dev/%s", devices[i]);
        snprintf(to, sizeof to, "dev/%s", devices[i]);
        struct stat st;
        if (stat(from, &st) < 0 || !S_ISCHR(st.st_mode))
            continue;
        if (!bind_path(AT_FDCWD, from, t->root, to, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC))
            return jail_why(t->why, from);
    }
    int fs = fsopen("devpts", FSOPEN_CLOEXEC);
    if (fs < 0)
        return jail_why(t->why, "devpts");
    int pts = -1;
    if (fsconfig(fs, FSCONFIG_SET_FLAG, "newinstance", NULL, 0) == 0 &&
        fsconfig(fs, FSCONFIG_SET_STRING, "ptmxmode", "0666", 0) == 0 &&
        fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0620", 0) == 0 &&
        fsconfig(fs, FSCONFIG_SET_STRING, "max", "64", 0) ==
            0 && /* the kernel's pool is one for all */
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        pts = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    bool ok = pts >= 0 && attach(pts, t->root, "dev/pts");
    if (!ok)
        jail_why(t->why, "devpts");
    if (pts >= 0)
        close(pts);
    close(fs);
    return ok;
}

/* A /proc of the session's pid namespace. Two mounts of it: the visible one is read-only as a whole
 * and masked, the other serves the set-up and goes with its descriptor. */
static bool new_proc(struct jail_tree *t)
{
    int fs = fsopen("proc", FSOPEN_CLOEXEC);
    if (fs < 0)
        return jail_why(t->why, "proc");
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        t->proc =
            fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    bool ok = t->proc >= 0 || jail_why(t->why, "proc");
    close(fs);
    return ok;
}

static bool mask(struct jail_tree *t, const char *name, bool dir)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "proc/%s", name);
    if (fstatat(t->root, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return true;
    /* /sys of the session is an empty directory on a read-only mount. */
    return bind_path(t->root, dir ? "sys" : MASKED, t->root, path, 0) || jail_why(t->why, path);
}

static bool attach_proc(struct jail_tree *t)
{
    if (!attach(t->proc, t->root, "proc"))
        return jail_why(t->why, "proc");
    /* The attached mount is made the visible one; a clone stays behind for us. */
    int visible = t->proc;
    t->proc = open_tree(visible, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    bool ok = t->proc >= 0 && set_attr(visible, MOUNT_ATTR_RDONLY, false);
    if (!ok)
        jail_why(t->why, "proc");
    close(visible);
    for (size_t i = 0; ok && i < array_len(hidden_files); i++)
        ok = mask(t, hidden_files[i], false);
    for (size_t i = 0; ok && i < array_len(hidden_dirs); i++)
        ok = mask(t, hidden_dirs[i], true);
    return ok;
}

/* The writable directories are mounts of the store beside its read-only root. */
static bool open_store(struct jail_tree *t)
{
    for (size_t i = 0; i < array_len(skeleton); i++)
        if (skeleton[i].own) {
            int tree = open_tree(t->root, skeleton[i].path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
            struct mount_attr a = {.attr_clr = MOUNT_ATTR_RDONLY};
            bool ok = tree >= 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof a) == 0 &&
                      attach(tree, t->root, skeleton[i].path);
            if (!ok)
                jail_why(t->why, skeleton[i].path);
            if (tree >= 0)
                close(tree);
            if (!ok)
                return false;
        }
    return true;
}

/* The workspace that goes with the session: a part of the store, or a store of its own where it has
 * a size of its own. */
static bool own_workspace(struct jail_tree *t)
{
    int at = jail_make_dir(t, t->workspace);
    if (at < 0)
        return jail_why(t->why, "making the workspace");
    int tree;
    if (t->start->workspace_bytes > 0) {
        tree = new_tmpfs(t->start->workspace_bytes, t->start->store_inodes, 0755);
    } else {
        tree = open_tree(at, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        struct mount_attr a = {.attr_clr = MOUNT_ATTR_RDONLY};
        if (tree >= 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof a) < 0)
            close(tree), tree = -1;
    }
    bool ok = tree >= 0 && fchownat(tree, "", t->uid, t->gid, AT_EMPTY_PATH) == 0 &&
              move_mount(tree, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
    if (!ok)
        jail_why(t->why, "the workspace");
    if (tree >= 0)
        close(tree);
    close(at);
    return ok;
}

/* ---- all of it ------------------------------------------------------------------------------- */
static bool become_root(struct jail_tree *t)
{
    if (fchdir(t->root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
        return jail_why(t->why, "pivot_root");
    if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return jail_why(t->why, "leaving the host's tree");
    return true;
}

static bool build(struct jail_tree *t)
{
    if (!make_skeleton(t) || !bind_system(t))
        return false;
    int at = jail_make_dir(t, t->workspace);
    if (at < 0)
        return jail_why(t->why, "making the place of the workspace");
    close(at);
    if (!jail_mounts_prepare(t))
        return false;
    if (!set_attr(t->root, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, true))
        return jail_why(t->why, "read-only mounts");
    if (!bind_devices(t) || !attach_proc(t) || !open_store(t))
        return false;
    if (!t->start->primary && !own_workspace(t))
        return false;
    if (!jail_mounts_attach(t))
        return false;
    struct mount_attr a = {.attr_clr = MOUNT_ATTR_RDONLY};
    if (!t->start->read_only_root && mount_setattr(t->root, "", AT_EMPTY_PATH, &a, sizeof a) < 0)
        return jail_why(t->why, "the writable root");
    return true;
}

bool jail_tree_enter(struct jail_tree *t)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return jail_why(t->why, "private mounts");
    umask(0022);
    if (!new_proc(t))
        return false;
    t->root = new_tmpfs(t->start->store_bytes, t->start->store_inodes, 0755);
    if (t->root < 0)
        return jail_why(t->why, "tmpfs");
    if (move_mount(t->root, "", AT_FDCWD, JAIL_TREE_AT, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return jail_why(t->why, "attaching the tree");
    return build(t) && become_root(t);
}
