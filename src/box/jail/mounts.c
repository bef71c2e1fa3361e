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
        if (!ok)
            return false;
    }
    return true;
}
