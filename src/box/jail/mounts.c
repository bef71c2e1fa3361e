/* Directories of the host in a session: the workspace and extra mounts (box.md §7.2, S5). */
#include "box/jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/openat2.h>

/* Without the privilege a mount can be cloned in the own namespace only, so the directory is opened there
 * once more, never through a link, and must be the very one that the runtime checked. */
static int reopen(const struct jail_mount *m)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    struct stat ours, theirs;
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, m->host, &how, sizeof how);
    if (fd < 0)
        return -1;
    if (fstat(fd, &ours) < 0 || fstat(m->fd, &theirs) < 0 || ours.st_dev != theirs.st_dev ||
        ours.st_ino != theirs.st_ino) {
        close(fd);
        errno = ESTALE;
        return -1;
    }
    return fd;
}

static int clone_mount(const struct jail_tree *t, const struct jail_mount *m)
{
    unsigned flags = AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
    if (t->privileged)
        return open_tree(m->fd, "", flags);
    int fd = reopen(m);
    if (fd < 0)
        return -1;
    int tree = open_tree(fd, "", flags | AT_RECURSIVE);
    int e = errno;
    close(fd);
    errno = e;
    return tree;
}

bool jail_tree_clone(struct jail_tree *t)
{
    for (uint32_t i = 0; i < t->start->mounts; i++) {
        struct jail_mount *m = &t->mounts[i];
        m->tree = clone_mount(t, m);
        if (m->tree < 0)
            return jail_why(t->why, m->target);
        struct mount_attr a = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                           (m->rw ? 0 : MOUNT_ATTR_RDONLY)};
        if (mount_setattr(m->tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof a) < 0)
            return jail_why(t->why, m->target);
        if (m->idmap >= 0) {
            /* Where the file system knows no mapping, owners stay what they are. */
            a = (struct mount_attr){.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)m->idmap};
            mount_setattr(m->tree, "", AT_EMPTY_PATH, &a, sizeof a);
        }
    }
    return true;
}

/* ---- places in a read-only workspace ---------------------------------------------------------- */
/* An extra mount needs a directory to lie on. In a workspace of the host that is mounted read-only none
 * is made: those that are missing come from a directory of ours, laid over it. */
#define PLACES "run/places"

/* The part of a target below the workspace, with its slash; NULL: it is not below. */
static const char *below(const struct jail_tree *t, const char *target)
{
    size_t n = strlen(t->workspace);
    return !strncmp(target, t->workspace, n) && target[n] == '/' ? target + n : NULL;
}

static bool places_wanted(const struct jail_tree *t)
{
    return t->start->primary && !t->mounts[0].rw && t->start->mounts > 1;
}

bool jail_mounts_prepare(struct jail_tree *t)
{
    char path[BOX_DIR_MAX + sizeof PLACES];
    for (uint32_t i = 1; places_wanted(t) && i < t->start->mounts; i++) {
        const char *rest = below(t, t->mounts[i].target);
        if (!rest)
            continue;
        if (snprintf(path, sizeof path, PLACES "%s", rest) >= (int)sizeof path)
            return errno = ENAMETOOLONG, jail_why(t->why, rest);
        int at = jail_make_dir(t, path);
        if (at < 0)
            return jail_why(t->why, t->mounts[i].target);
        close(at);
    }
    return true;
}

/* True when all targets are there already. */
static bool places_found(const struct jail_tree *t)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve =
                               RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    for (uint32_t i = 1; i < t->start->mounts; i++) {
        int fd = (int)syscall(SYS_openat2, t->root, t->mounts[i].target, &how, sizeof how);
        if (fd < 0)
            return false;
        close(fd);
    }
    return true;
}

static bool lay_over(struct jail_tree *t)
{
    char lower[2 * BOX_DIR_MAX];
    if (strpbrk(t->workspace, ":,\\")) {
        errno = EINVAL;
        return jail_why(t->why, "a mount_path with a colon, comma or backslash");
    }
    int fs = fsopen("overlay", FSOPEN_CLOEXEC), tree = -1;
    snprintf(lower, sizeof lower, JAIL_TREE_AT "/" PLACES ":" JAIL_TREE_AT "%s", t->workspace);
    if (fs >= 0 && fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", lower, 0) == 0 &&
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        tree =
            fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    int at = tree < 0 ? -1 : jail_make_dir(t, t->workspace);
    bool ok = at >= 0 &&
              move_mount(tree, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
    if (!ok)
        jail_why(t->why, "places for mounts in a read-only workspace");
    if (fs >= 0)
        close(fs);
    if (tree >= 0)
        close(tree);
    if (at >= 0)
        close(at);
    return ok;
}

bool jail_mounts_attach(struct jail_tree *t)
{
    for (uint32_t i = 0; i < t->start->mounts; i++) {
        struct jail_mount *m = &t->mounts[i];
        int at = jail_make_dir(t, m->target);
        if (at < 0)
            return jail_why(t->why, m->target);
        bool ok =
            move_mount(m->tree, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
        if (!ok)
            jail_why(t->why, m->target);
        close(at);
        close(m->tree);
        if (!ok || (i == 0 && places_wanted(t) && !places_found(t) && !lay_over(t)))
            return false;
    }
    return true;
}
