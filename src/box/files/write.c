/* The tools write and edit. box.md §10.6, §10.7. */
#include "box/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static bool put_all(int fd, struct str data)
{
    while (data.n > 0) {
        ssize_t n = write(fd, data.p, data.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data = str_sub(data, (size_t)n, data.n);
    }
    return true;
}

static json_t *written(const struct files_path *p, struct error *err)
{
    return files_done(json_pack("{s:b,s:s}", "ok", 1, "path", p->given), err);
}

/* ---- write ----------------------------------------------------------------------------------------- */

/* What is to be written. False: *result is the answer, or NULL with err. */
static bool content_of(struct arena *a, const json_t *args, struct str *out, json_t **result,
                       struct error *err)
{
    const json_t *content = json_object_get(args, "content");
    *result = NULL;
    if (!json_is_string(content))
        return err_set(err, ERR_INVALID, "content must be a string");
    *out = json_sv(content);
    if (files_is(args, "encoding", "base64")) {
        struct error why = {0};
        if (!base64_decode(a, *out, BOX_FILE_WRITE_MAX, out, &why)) {
            *result = files_failed(err, "invalid base64 content: %s", why.msg);
            return false;
        }
    }
    if (out->n > BOX_FILE_WRITE_MAX) {
        *result = files_failed(err, "Content exceeds the %d-byte limit of one write.",
                               BOX_FILE_WRITE_MAX);
        return false;
    }
    return true;
}

static int open_to_write(int dir, const char *name, const struct files_path *p, bool append,
                         struct error *err)
{
    struct stat before, st;
    bool is_new = fstatat(dir, name, &before, AT_SYMLINK_NOFOLLOW) != 0;
    int fd = files_open_at(dir, name, p, O_WRONLY | O_CREAT | (append ? O_APPEND : 0), 0666, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (append || ftruncate(fd, 0) == 0)) {
        if (is_new)
            files_adopt(dir, fd);
        return fd;
    }
    err_set(err, ERR_INVALID, "Not a regular file: %s", p->given);
    close(fd);
    return -1;
}

json_t *files_write(int root, struct arena *a, const json_t *args, struct error *err)
{
    struct files_path p;
    struct str data;
    json_t *result;
    const char *name;
    if (!files_path(a, json_object_get(args, "path"), NULL, &p, err))
        return NULL;
    if (!*p.below) {
        err_set(err, ERR_INVALID, "Path must reference a file under " FILES_ROOT ".");
        return NULL;
    }
    if (!content_of(a, args, &data, &result, err))
        return result;
    auto_fd dir = files_open_parent(root, &p, true, &name, err);
    auto_fd fd =
        dir >= 0 ? open_to_write(dir, name, &p, files_is(args, "mode", "append"), err) : -1;
    if (fd < 0)
        return NULL;
    if (!put_all(fd, data)) {
        err_sys(err, errno, "%s could not be written", p.given);
        return NULL;
    }
    return written(&p, err);
}

/* ---- edit ------------------------------------------------------------------------------------------ */

static size_t occurrences(struct str in, struct str what, size_t *first)
{
    if (what.n == 0)
        return *first = 0, utf8_count(in) + 1;
    size_t n = 0;
    for (size_t at = 0;;) {
        ptrdiff_t i = str_find(str_sub(in, at, in.n), what);
        if (i < 0)
            return n;
        if (n++ == 0)
            *first = at + (size_t)i;
        at += (size_t)i + what.n;
    }
}

/* Line ends as `read` shows them, in the form of a file with CR LF. */
static struct str with_cr(struct arena *a, struct str s)
{
    char *out = arena_alloc(a, s.n * 2 + 1);
    size_t n = 0;
    for (size_t i = 0; out && i < s.n; i++) {
        if (s.p[i] == '\n' && (i == 0 || s.p[i - 1] != '\r'))
            out[n++] = '\r';
        out[n++] = s.p[i];
    }
    return out ? str_n(out, n) : STR_NONE;
}

struct edit {
    struct files_path path;
    const char *name;
    int dir, fd; /* of the file: readable */
    struct stat st;
    struct str before, after;
};

/* A file of its own beside the old one takes its place at once; who reads meanwhile sees one or the other. */
static bool replace(const struct edit *e, struct error *err)
{
    char random[16], hex[33], temp[64];
    crypto_random(random, sizeof random);
    hex_encode(random, sizeof random, hex);
    snprintf(temp, sizeof temp, ".parley-edit-%s", hex);
    struct stat now;
    auto_fd fd = files_open_at(e->dir, temp, &e->path, O_WRONLY | O_CREAT | O_EXCL, 0600, err);
    if (fd < 0)
        return false;
    bool ok = put_all(fd, e->after) &&
              ((e->st.st_uid == geteuid() && e->st.st_gid == getegid()) ||
               fchown(fd, e->st.st_uid, e->st.st_gid) == 0) &&
              fchmod(fd, e->st.st_mode & 07777) == 0 && fdatasync(fd) == 0;
    if (!ok) {
        err_sys(err, errno, "%s could not be written", e->path.given);
    } else if (fstatat(e->dir, e->name, &now, AT_SYMLINK_NOFOLLOW) != 0 ||
               now.st_ino != e->st.st_ino || now.st_dev != e->st.st_dev ||
               now.st_size != e->st.st_size || now.st_mtim.tv_sec != e->st.st_mtim.tv_sec ||
               now.st_mtim.tv_nsec != e->st.st_mtim.tv_nsec) {
        ok = err_set(err, ERR_CONFLICT, "The file was changed while it was edited; read it again.");
    } else if (renameat(e->dir, temp, e->dir, e->name) != 0) {
        ok = err_sys(err, errno, "%s could not be written", e->path.given);
    }
    if (!ok)
        unlinkat(e->dir, temp, 0);
    return ok;
}

/* Where the other file would not be the same one: further names of it, or an owner that we cannot give it. */
static bool rewrite(const struct edit *e, struct error *err)
{
    struct stat now;
    auto_fd fd = files_open_at(e->dir, e->name, &e->path, O_WRONLY, 0, err);
    if (fd < 0)
        return false;
    if (fstat(fd, &now) != 0 || now.st_ino != e->st.st_ino || now.st_dev != e->st.st_dev)
        return err_set(err, ERR_CONFLICT,
                       "The file was changed while it was edited; read it again.");
    return (ftruncate(fd, 0) == 0 && put_all(fd, e->after)) ||
           err_sys(err, errno, "%s could not be written", e->path.given);
}

static bool store(const struct edit *e, struct error *err)
{
    if (e->st.st_nlink > 1)
        return rewrite(e, err);
    return replace(e, err) || (err->code == ERR_IO && rewrite(e, err));
}

/* The file as a whole. NULL with *result set where the model is told why. */
static bool load(struct edit *e, struct arena *a, json_t **result, struct error *err)
{
    *result = NULL;
    if (fstat(e->fd, &e->st) != 0)
        return err_sys(err, errno, "%s", e->path.given);
    if (!S_ISREG(e->st.st_mode))
        return err_set(err, ERR_INVALID, "Not a regular file: %s", e->path.given);
    char *text = arena_alloc(a, BOX_FILE_EDIT_MAX + 1);
    size_t n = 0;
    ssize_t got = 0;
    if (!text)
        return err_set(err, ERR_NOMEM, "out of memory");
    while (n <= BOX_FILE_EDIT_MAX && (got = read(e->fd, text + n, BOX_FILE_EDIT_MAX + 1 - n)) > 0)
        n += (size_t)got;
    if (got < 0)
        return err_sys(err, errno, "%s", e->path.given);
    if (n > BOX_FILE_EDIT_MAX) {
        *result = files_failed(err, "File exceeds the %d-byte edit limit.", BOX_FILE_EDIT_MAX);
        return false;
    }
    e->before = str_n(text, n);
    return true;
}

static json_t *change(struct edit *e, struct arena *a, struct str old, struct str new_text,
                      struct error *err)
{
    size_t at = 0, n = occurrences(e->before, old, &at);
    if (n == 0 && str_chr(old, '\n') >= 0 && str_find(e->before, S("\r\n")) >= 0) {
        old = with_cr(a, old);
        new_text = with_cr(a, new_text);
        n = old.n ? occurrences(e->before, old, &at) : 0;
    }
    if (n == 0)
        return files_failed(err, "old_string not found in file.");
    if (n > 1)
        return files_failed(err, "old_string matches %zu locations; provide a more unique string.",
                            n);
    size_t size = e->before.n - old.n + new_text.n;
    if (size > BOX_FILE_EDIT_MAX)
        return files_failed(err, "Edited file exceeds the %d-byte limit.", BOX_FILE_EDIT_MAX);
    auto_buf out = BUF(BOX_FILE_EDIT_MAX);
    buf_add(&out, e->before.p, at);
    buf_str(&out, new_text);
    buf_str(&out, str_sub(e->before, at + old.n, e->before.n));
    if (out.failed)
        return files_done(NULL, err);
    e->after = buf_view(&out);
    if (store(e, err))
        return written(&e->path, err);
    return err->code == ERR_CONFLICT ? files_failed(err, "%s", err->msg) : NULL;
}

json_t *files_edit(int root, struct arena *a, const json_t *args, struct error *err)
{
    struct edit e = {.dir = -1, .fd = -1};
    const json_t *old = json_object_get(args, "old_string"),
                 *new_text = json_object_get(args, "new_string");
    if (!files_path(a, json_object_get(args, "path"), NULL, &e.path, err))
        return NULL;
    if (!json_is_string(old) || !json_is_string(new_text)) {
        err_set(err, ERR_INVALID, "old_string and new_string must be strings");
        return NULL;
    }
    auto_fd dir = files_open_parent(root, &e.path, false, &e.name, err);
    auto_fd fd = dir >= 0 ? files_open_at(dir, e.name, &e.path, O_RDONLY, 0, err) : -1;
    json_t *result;
    if (fd < 0)
        return err->code == ERR_NOT_FOUND ? files_not_found(&e.path, err) : NULL;
    e.dir = dir;
    e.fd = fd;
    if (!load(&e, a, &result, err))
        return result;
    return change(&e, a, json_sv(old), json_sv(new_text), err);
}
