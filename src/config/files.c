/* files: whole files, read with a bound and replaced in one step. */
#include "config/config_private.h"
#include "crypto/crypto.h"
#include "task/task.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool config_read_file(struct arena *a, const char *path, size_t max, struct str *out,
                      struct error *err)
{
    struct stat st;
    /* Not blocking: a pipe in the place of a file must not hold the start up. */
    auto_fd fd = task_sys_open(path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0) {
        int e = errno;
        err_sys(err, e, "%s", path);
        err->code = e == ENOENT ? ERR_NOT_FOUND : ERR_IO;
        return false;
    }
    if (fstat(fd, &st) != 0) {
        return err_sys(err, errno, "%s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ERR_INVALID, "%s: not a file", path);
    }
    if ((uintmax_t)st.st_size > max) {
        return err_set(err, ERR_TOO_LARGE, "%s: larger than %zu bytes", path, max);
    }
    size_t size = (size_t)st.st_size, n = 0;
    char *p = arena_alloc(a, size + 1);
    if (!p) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    while (n < size) {
        ssize_t got = task_sys_read(fd, p + n, size - n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_sys(err, errno, "%s", path);
        }
        if (got == 0) {
            break;
        }
        n += (size_t)got;
    }
    p[n] = '\0';
    *out = str_n(p, n);
    return true;
}

static bool write_all(int fd, struct str s)
{
    while (s.n) {
        ssize_t n = task_sys_write(fd, s.p, s.n);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return false;
        }
        s = str_sub(s, (size_t)n, s.n);
    }
    return true;
}

/* Writes the temporary file; on failure it is gone again. */
static bool write_temp(const char *temp, struct str content, int mode, struct error *err)
{
    auto_fd fd = task_sys_open(temp, O_WRONLY | O_CREAT | O_EXCL, (mode_t)mode);
    if (fd < 0) {
        return err_sys(err, errno, "%s", temp);
    }
    /* fchmod: the mode asked for, not what the umask leaves of it. */
    if (write_all(fd, content) && fchmod(fd, (mode_t)mode) == 0 && task_sys_fsync(fd) == 0) {
        return true;
    }
    err_sys(err, errno, "%s", temp);
    task_sys_unlink(temp);
    return false;
}

bool config_write_file(const char *path, struct str content, int mode, struct error *err)
{
    char real[PATH_MAX], temp[PATH_MAX], dir[PATH_MAX], id[9];
    /* A link stays a link: what it points to is replaced. */
    if (!realpath(path, real)) {
        if (errno != ENOENT || snprintf(real, sizeof(real), "%s", path) >= (int)sizeof(real)) {
            return err_sys(err, errno, "%s", path);
        }
    }
    random_text("abcdefghijklmnopqrstuvwxyz0123456789", 8, id);
    if (snprintf(temp, sizeof(temp), "%s.%s.tmp", real, id) >= (int)sizeof(temp)) {
        return err_sys(err, ENAMETOOLONG, "%s", path);
    }
    snprintf(dir, sizeof(dir), "%s", real);
    const char *parent = dirname(dir);
    if (!write_temp(temp, content, mode, err)) {
        return false;
    }
    if (task_sys_rename(temp, real) != 0) {
        err_sys(err, errno, "%s", path);
        task_sys_unlink(temp);
        return false;
    }
    /* The new name must survive a power cut too. */
    auto_fd fd = task_sys_open(parent, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 || task_sys_fsync(fd) != 0) {
        return err_sys(err, errno, "%s", parent);
    }
    return true;
}
