/* Watches how much a session adds to a directory of the host where the kernel has no quota for it. A
 * single file is bounded by RLIMIT_FSIZE; this bounds their sum and number, after the fact: what is
 * over the limit ends the session. It claims nothing (BOX_CHECK_HARD_WORKSPACE_QUOTA stays false). */
#include "box/jail/link.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { LOOK_MS = 50, DEPTH_MAX = 64, FILES_LEAST = 20000 };

struct scan {
    int dir;
    int64_t bytes, files, bytes_max, files_max;
};

/* Adds up what is below; stops as soon as it is too much. Never follows a link or leaves the file
 * system. */
static void add_dir(struct scan *s, int fd, dev_t dev, int depth)
{
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return;
    }
    for (struct dirent *e;
         s->bytes <= s->bytes_max && s->files <= s->files_max && (e = readdir(d));) {
        struct stat st;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != dev)
            continue;
        s->files++;
        s->bytes += (int64_t)st.st_blocks * 512;
        int below =
            S_ISDIR(st.st_mode) && depth < DEPTH_MAX
                ? openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                : -1;
        if (below >= 0)
            add_dir(s, below, dev, depth + 1);
    }
    closedir(d);
}

static void scan_tree(void *arg)
{
    struct scan *s = arg;
    struct stat st;
    int fd = openat(s->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0)
        add_dir(s, fd, st.st_dev, 0);
    else if (fd >= 0)
        close(fd);
}

/* What the file system as a whole has used; cheap, and tells when it is worth a look. */
static bool used(int dir, int64_t *bytes, int64_t *files)
{
    struct statvfs v;
    if (fstatvfs(dir, &v) < 0)
        return false;
    *bytes = (int64_t)(v.f_blocks - v.f_bfree) * (int64_t)v.f_frsize;
    *files = (int64_t)(v.f_files - v.f_ffree);
    return true;
}

static void watch(void *arg)
{
    struct jail_session *s = arg;
    struct error err = {0};
    int64_t bytes_max = s->quota_bytes;
    int64_t files_max = bytes_max / 1024 > FILES_LEAST ? bytes_max / 1024 : FILES_LEAST;
    int64_t bytes = 0, files = 0, now_bytes = 0, now_files = 0;
    /* As if much had been added: the first look counts. */
    int64_t next_bytes = INT64_MIN, next_files = INT64_MIN;
    while (task_sleep_ms(LOOK_MS, &err) && !s->gone && used(s->quota_dir, &now_bytes, &now_files)) {
        if (now_bytes < next_bytes && now_files < next_files)
            continue;
        struct scan scan = {s->quota_dir, 0, 0, bytes_max, files_max};
        if (!task_work(scan_tree, &scan, &err) && err.code == ERR_CANCELED)
            return;
        bytes = scan.bytes;
        files = scan.files;
        if (bytes > bytes_max || files > files_max) {
            s->over_quota = true;
            log_warn("box", "jail: %s is over its quota of %lld MiB and %lld files", s->id,
                     (long long)(bytes_max >> 20), (long long)files_max);
            jail_kill(s);
            return;
        }
        /* The session can't be over before the file system has taken up what it has left. */
        next_bytes = now_bytes + (bytes_max - bytes);
        next_files = now_files + (files_max - files);
    }
}

bool jail_quota_watch(struct jail_session *s, int dir, int64_t bytes, struct error *err)
{
    s->quota_dir = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    s->quota_bytes = bytes;
    if (s->quota_dir < 0)
        return err_sys(err, errno, "the workspace");
    return task_spawn(s->group, "jail quota", watch, s, err);
}
