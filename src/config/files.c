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

bool writes_add(struct writes *w, const char *path, struct str content, int mode, bool durable,
                struct error *err)
{
    char real[PATH_MAX];
    if (w->n == array_len(w->jobs)) {
        return err_set(err, ERR_INTERNAL, "too many files to write");
    }
    if (!realpath(path, real)) {
        if (errno != ENOENT || snprintf(real, sizeof(real), "%s", path) >= (int)sizeof(real)) {
            return err_sys(err, errno, "%s", path);
        }
    }
    struct write_job *job = &w->jobs[w->n++];
    *job = (struct write_job){.path = mem_strndup(real, strlen(real)),
                              .content = mem_strndup(content.n ? content.p : "", content.n),
                              .size = content.n,
                              .mode = mode,
                              .durable = durable,
                              .fd = -1};
    return (job->path && job->content) || err_set(err, ERR_NOMEM, "out of memory");
}

/* Makes the temporary file beside the real one and writes it, without waiting for the disk. */
static bool job_write(struct write_job *job, struct error *err)
{
    size_t size = strlen(job->path) + 16;
    char *temp = mem_alloc(size), id[9];
    if (!temp) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    random_text("abcdefghijklmnopqrstuvwxyz0123456789", 8, id);
    snprintf(temp, size, "%s.%s.tmp", job->path, id);
    job->fd = task_sys_open(temp, O_WRONLY | O_CREAT | O_EXCL, (mode_t)job->mode);
    if (job->fd < 0) {
        err_sys(err, errno, "%s", temp);
        mem_free(temp);
        return false;
    }
    job->temp = temp;
    /* fchmod: the mode asked for, not what the umask leaves of it. */
    return (write_all(job->fd, str_n(job->content, job->size)) &&
            fchmod(job->fd, (mode_t)job->mode) == 0) ||
           err_sys(err, errno, "%s", job->path);
}

static bool job_rename(struct write_job *job, struct error *err)
{
    if (task_sys_rename(job->temp, job->path) != 0) {
        return err_sys(err, errno, "%s", job->path);
    }
    mem_free(job->temp);
    job->temp = NULL;
    return true;
}

/* Waits until the new name is on the disk; skips a directory that an earlier job stands in. */
static bool job_sync_name(const struct writes *w, size_t at, struct error *err)
{
    char dir[PATH_MAX], other[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s", w->jobs[at].path);
    const char *parent = dirname(dir);
    for (size_t i = 0; i < at; i++) {
        snprintf(other, sizeof(other), "%s", w->jobs[i].path);
        if (w->jobs[i].durable && strcmp(dirname(other), parent) == 0) {
            return true;
        }
    }
    auto_fd fd = task_sys_open(parent, O_RDONLY | O_DIRECTORY, 0);
    return (fd >= 0 && task_sys_fsync(fd) == 0) || err_sys(err, errno, "%s", parent);
}

bool writes_run(struct writes *w, struct error *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < w->n; i++) {
        ok = job_write(&w->jobs[i], err);
    }
    for (size_t i = 0; ok && i < w->n; i++) {
        ok = !w->jobs[i].durable || task_sys_fsync(w->jobs[i].fd) == 0 ||
             err_sys(err, errno, "%s", w->jobs[i].path);
    }
    for (size_t i = 0; ok && i < w->n; i++) {
        ok = job_rename(&w->jobs[i], err);
    }
    for (size_t i = 0; ok && i < w->n; i++) {
        ok = !w->jobs[i].durable || job_sync_name(w, i, err);
    }
    return ok;
}

void writes_free(struct writes *w)
{
    for (size_t i = 0; i < w->n; i++) {
        struct write_job *job = &w->jobs[i];
        if (job->fd >= 0) {
            close(job->fd);
        }
        if (job->temp) {
            task_sys_unlink(job->temp);
        }
        if (job->content) {
            /* The secret key and the token secret are among them. */
            explicit_bzero(job->content, job->size);
        }
        mem_free(job->temp);
        mem_free(job->content);
        mem_free(job->path);
    }
    w->n = 0;
}

bool config_write_file(const char *path, struct str content, int mode, struct error *err)
{
    struct writes w = {.n = 0};
    bool ok = writes_add(&w, path, content, mode, true, err) && writes_run(&w, err);
    writes_free(&w);
    return ok;
}
