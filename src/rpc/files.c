/* files: transfer of files in pieces (box.md §1.10). */
#include "rpc/rpc_private.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_MAX = 255, BASE64_MAX = 21848, EXT_MAX = 32 };

struct rpc_files {
    char *dir;
    size_t file_max;
    struct map files; /* key → struct file */
};
struct file {
    size_t size;
    bool busy; /* a worker writes to it */
};

/* ---- sending --------------------------------------------------------------------------------- */

static bool is_name_char(char c, const char *more)
{
    return c && (isalnum((unsigned char)c) || strchr(more, c));
}

static bool ext_ok(struct str ext)
{
    if (ext.n == 0 || ext.n > EXT_MAX || !isalnum((unsigned char)ext.p[0]))
        return false;
    for (size_t i = 0; i < ext.n; i++)
        if (!is_name_char(ext.p[i], "_-"))
            return false;
    return true;
}

static bool make_key(struct str bytes, const char *ext, char key[128], struct error *err)
{
    char digest[65], random_hex[33];
    unsigned char random[16];
    struct str e = str_c(ext);
    while (str_starts(e, S(".")))
        e = str_sub(e, 1, e.n - 1);
    if (e.n && !ext_ok(e))
        return err_set(err, ERR_INVALID, "Invalid file transfer extension");
    sha256_hex(bytes, digest);
    crypto_random(random, sizeof(random));
    hex_encode(random, sizeof(random), random_hex);
    snprintf(key, 128, "%.16s-%s%s" STR_FMT, digest, random_hex, e.n ? "." : "", STR_ARG(e));
    return true;
}

bool rpc_file_send(struct rpc *c, struct str bytes, const char *ext, const json_t *context,
                   char key[128], struct error *err)
{
    if (!make_key(bytes, ext, key, err))
        return false;
    size_t amount = bytes.n ? (bytes.n + RPC_FILE_CHUNK - 1) / RPC_FILE_CHUNK : 1;
    for (size_t i = 0; i < amount; i++) {
        auto_arena a = arena_new(64 << 10);
        struct str piece = str_sub(bytes, i * RPC_FILE_CHUNK, RPC_FILE_CHUNK);
        struct str text = a ? base64_encode(a, piece) : STR_NONE;
        if (!text.p)
            return err_set(err, ERR_NOMEM, "out of memory for a piece of a file");
        json_t *data = json_pack("{s:s,s:I,s:s%,s:I,s:I,s:I}", "file_key", key, "file_length",
                                 (json_int_t)bytes.n, "chunk_base64", text.p, text.n, "chunk_index",
                                 (json_int_t)i, "chunk_amount", (json_int_t)amount, "chunk_size",
                                 (json_int_t)piece.n);
        auto_json answer = rpc_call(c, "__file_chunk", data, context, 0, err);
        if (!answer)
            return false;
    }
    return true;
}

/* ---- receiving ------------------------------------------------------------------------------- */

struct rpc_files *rpc_files_new(const char *dir, size_t file_max)
{
    struct rpc_files *f = new (struct rpc_files);
    if (!f)
        return NULL;
    f->dir = mem_strndup(dir, strlen(dir));
    f->file_max = file_max;
    f->files.max = RPC_FILES_MAX;
    if (!f->dir) {
        mem_free(f);
        return NULL;
    }
    return f;
}

void rpc_files_limit(struct rpc_files *f, size_t file_max)
{
    f->file_max = file_max;
}

static bool key_ok(struct str key)
{
    if (key.n == 0 || key.n > KEY_MAX || !isalnum((unsigned char)key.p[0]) ||
        str_find(key, S("..")) >= 0)
        return false;
    for (size_t i = 0; i < key.n; i++)
        if (!is_name_char(key.p[i], "._-"))
            return false;
    return true;
}

/* Standard alphabet, padded, nothing else in it. */
static bool strict_base64(struct str s)
{
    if (s.n % 4 != 0)
        return false;
    size_t n = s.n;
    while (n > 0 && s.n - n < 2 && s.p[n - 1] == '=')
        n--;
    for (size_t i = 0; i < n; i++)
        if (!is_name_char(s.p[i], "+/"))
            return false;
    return true;
}

struct piece {
    struct str key, data;
    int64_t index;
};

static bool read_piece(struct rpc_request *r, struct piece *p, struct error *err)
{
    const json_t *key = rpc_need(r, "file_key", err);
    const json_t *text = key ? rpc_need(r, "chunk_base64", err) : NULL;
    const json_t *index = text ? rpc_need(r, "chunk_index", err) : NULL;
    const json_t *amount = index ? rpc_need(r, "chunk_amount", err) : NULL;
    if (!amount)
        return false;
    p->key = json_sv(key);
    if (!key_ok(p->key))
        return err_set(err, ERR_INVALID, "Invalid file transfer key");
    if (!json_is_integer(index) || !json_is_integer(amount) || json_integer_value(index) < 0 ||
        json_integer_value(index) >= json_integer_value(amount))
        return err_set(err, ERR_INVALID, "Invalid file transfer chunk index");
    p->index = json_integer_value(index);
    struct str s = json_sv(text);
    if (!json_is_string(text) || s.n > BASE64_MAX)
        return err_set(err, ERR_INVALID, "A file chunk must be base64 of at most %d bytes",
                       RPC_FILE_CHUNK);
    if (!strict_base64(s) || !base64_decode(r->arena, s, RPC_FILE_CHUNK, &p->data, err))
        return err_set(err, ERR_INVALID, "A file chunk must be strict base64 of at most %d bytes",
                       RPC_FILE_CHUNK);
    return true;
}

/* What a worker does with one piece. */
struct store {
    const char *dir, *path;
    struct str data;
    bool first;
    int error;
};

static void make_dirs(const char *dir)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", dir);
    for (char *p = path + 1; *p; p++) {
        if (*p == '/') {
            *p = '\0';
            task_sys_mkdir(path, 0755);
            *p = '/';
        }
    }
    task_sys_mkdir(path, 0700);
}

static void store_piece(void *arg)
{
    struct store *s = arg;
    int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | (s->first ? O_TRUNC : O_APPEND);
    auto_fd fd = task_sys_open(s->path, flags, 0600);
    if (fd < 0 && errno == ENOENT) {
        make_dirs(s->dir);
        fd = task_sys_open(s->path, flags, 0600);
    }
    if (fd < 0) {
        s->error = errno;
        return;
    }
    for (size_t at = 0; at < s->data.n;) {
        ssize_t n = task_sys_write(fd, s->data.p + at, s->data.n - at);
        if (n < 0 && errno != EINTR) {
            s->error = errno;
            return;
        }
        at += n > 0 ? (size_t)n : 0;
    }
}

static const char *path_of(const struct rpc_files *f, struct arena *a, struct str key)
{
    return z_fmt(a, "%s/" STR_FMT, f->dir, STR_ARG(key));
}

static bool admit(struct rpc_files *f, const struct piece *p, struct file **out, struct error *err)
{
    struct file *file = map_get(&f->files, p->key);
    if (file && file->busy)
        return err_set(err, ERR_INVALID, "A chunk of this file is being stored");
    if (!file && p->index > 0)
        return err_set(err, ERR_INVALID, "A file transfer must begin with its first chunk");
    if ((p->index ? file->size : 0) + p->data.n > f->file_max)
        return err_set(err, ERR_INVALID, "File transfer exceeds %zu bytes", f->file_max);
    if (!file) {
        if (f->files.n >= RPC_FILES_MAX)
            return err_set(err, ERR_INVALID, "Active file transfer capacity reached");
        file = new (struct file);
        if (!file || !map_put(&f->files, p->key, file)) {
            mem_free(file);
            return err_set(err, ERR_NOMEM, "out of memory for a file transfer");
        }
    }
    *out = file;
    return true;
}

static bool take_piece(struct rpc_files *f, struct rpc_request *r, struct error *err)
{
    struct piece p;
    struct file *file = NULL;
    if (!read_piece(r, &p, err) || !admit(f, &p, &file, err))
        return false;
    struct store s = {
        .dir = f->dir, .path = path_of(f, r->arena, p.key), .data = p.data, .first = p.index == 0};
    file->busy = true;
    bool ok = task_work(store_piece, &s, err);
    file->busy = false;
    if (ok && s.error)
        ok = err_sys(err, s.error, "cannot store a chunk of a file");
    if (ok)
        file->size = (p.index ? file->size : 0) + p.data.n;
    return ok;
}

void rpc_files_chunk(struct rpc_files *f, struct rpc_request *r)
{
    struct error err = {0};
    if (take_piece(f, r, &err))
        rpc_reply(r, json_object());
    else
        rpc_fail(r, &err);
}

/* ---- using ----------------------------------------------------------------------------------- */

struct load {
    const char *path;
    struct buf *out;
    int error;
};

static void load_file(void *arg)
{
    struct load *l = arg;
    auto_fd fd = task_sys_open(l->path, O_RDONLY | O_NOFOLLOW, 0);
    ssize_t n = fd < 0 ? -1 : 1;
    while (n > 0 && buf_reserve(l->out, RPC_FILE_CHUNK)) {
        n = task_sys_read(fd, l->out->p + l->out->n, RPC_FILE_CHUNK);
        l->out->n += n > 0 ? (size_t)n : 0;
    }
    l->error = n < 0 ? errno : n > 0 ? ENOMEM : 0;
    task_sys_unlink(l->path);
}

bool rpc_files_take(struct rpc_files *f, struct str key, struct buf *out, struct error *err)
{
    struct file *file = map_get(&f->files, key);
    if (!file || file->busy)
        return err_set(err, ERR_NOT_FOUND, "there is no transferred file of this key");
    auto_arena a = arena_new(8 << 10);
    struct load l = {.path = a ? path_of(f, a, key) : "", .out = out};
    map_del(&f->files, key);
    mem_free(file);
    if (!*l.path)
        return err_set(err, ERR_NOMEM, "out of memory for a file");
    if (!task_work(load_file, &l, err))
        return false;
    return l.error == 0 || err_sys(err, l.error, "cannot read a transferred file");
}

static void remove_files(void *arg)
{
    struct rpc_files *f = arg;
    auto_arena a = arena_new(1 << 20);
    struct str key;
    void *file;
    size_t pos = 0;
    while (a && map_next(&f->files, &pos, &key, &file))
        task_sys_unlink(path_of(f, a, key));
}

void rpc_files_free(struct rpc_files *f)
{
    if (!f)
        return;
    struct error ignored;
    struct task_hold hold;
    struct str key;
    void *file;
    size_t pos = 0;
    task_hold_begin(&hold);
    if (f->files.n > 0 && !task_work(remove_files, f, &ignored))
        log_warn("rpc", "transferred files were not removed: %s", ignored.msg);
    task_hold_end(&hold);
    while (map_next(&f->files, &pos, &key, &file))
        mem_free(file);
    map_free(&f->files);
    mem_free(f->dir);
    mem_free(f);
}
