/* The tool read: text by lines, bytes as base64, directories by names. box.md §10.5. */
#include "box/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { LINES_DEFAULT = 2000, LINES_MAX = 10000, PASSED_MAX = 256 << 20 };

/* ---- directories ------------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static json_t *names_result(const char **names, size_t n, bool more, struct error *err)
{
    auto_buf text = BUF(BOX_FILE_OUTPUT_MAX);
    auto_buf one = BUF(1024);
    bool full = false;
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n && !full; i++) {
        buf_clear(&one);
        files_utf8(&one, str_c(names[i]), true);
        full = text.n + one.n + (i > 0) > BOX_FILE_OUTPUT_MAX;
        if (full)
            break;
        if (i > 0)
            buf_c(&text, '\n');
        buf_str(&text, buf_view(&one));
    }
    return files_done(json_pack("{s:b,s:o,s:b,s:I,s:b,s:o}", "ok", 1, "content",
                                json_strn(buf_view(&text)), "is_directory", 1, "total",
                                (json_int_t)(n + more), "truncated", more || full, "truncated_by",
                                more   ? json_string("entries")
                                : full ? json_string("bytes")
                                       : json_null()),
                      err);
}

static json_t *read_directory(int fd, struct arena *a, const struct files_path *p,
                              struct error *err)
{
    const char **names = arena_alloc(a, BOX_FILE_LIST_MAX * sizeof *names);
    int own = dup(fd);
    DIR *d = own >= 0 ? fdopendir(own) : NULL;
    size_t n = 0;
    bool more = false;
    if (!names || !d) {
        err_sys(err, errno, "%s", p->given);
        if (own >= 0 && !d)
            close(own);
        if (d)
            closedir(d);
        return NULL;
    }
    for (struct dirent *e; !more && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        more = n == BOX_FILE_LIST_MAX;
        if (!more)
            names[n++] = str_z(a, str_c(e->d_name));
    }
    closedir(d);
    return names_result(names, n, more, err);
}

/* ---- text ---------------------------------------------------------------------------------------------- */

struct text {
    int64_t offset, limit, max_bytes;
    struct buf content; /* lines joined */
    int64_t taken;      /* lines */
    int64_t bytes;      /* of them, each end counted */
    const char *by;     /* "lines", "bytes" or NULL */
};

static json_t *text_result(const struct text *t, struct error *err)
{
    int64_t end = t->offset + t->taken - 1;
    return files_done(json_pack("{s:b,s:o,s:b,s:o,s:I,s:I,s:o,s:I,s:I}", "ok", 1, "content",
                                json_strn(buf_view(&t->content)), "truncated", t->by != NULL,
                                "truncated_by", t->by ? json_string(t->by) : json_null(),
                                "start_line", (json_int_t)t->offset, "end_line", (json_int_t)end,
                                "next_offset", t->by ? json_integer(end + 1) : json_null(),
                                "max_lines", (json_int_t)t->limit, "max_bytes",
                                (json_int_t)t->max_bytes),
                      err);
}

/* Of a line that alone is more than may be shown. */
static bool too_long(struct text *t)
{
    t->by = "bytes";
    if (t->taken > 0)
        return true;
    buf_clear(&t->content);
    t->taken = 1; /* so that the next offset leads behind it */
    return buf_fmt(&t->content,
                   "[Line %lld is longer than the limit of %lld bytes. Read it in parts with "
                   "encoding \"base64\" and byte_offset, or cut it with exec.]",
                   (long long)t->offset, (long long)t->max_bytes);
}

/* A line into the content; false: it did not fit. */
static bool take(struct text *t, struct buf *shown, struct str line, bool ended)
{
    buf_clear(shown);
    if (!files_utf8(shown, line, true) || t->bytes + (int64_t)shown->n + ended > t->max_bytes)
        return false;
    if (t->taken > 0)
        buf_c(&t->content, '\n');
    buf_str(&t->content, buf_view(shown));
    t->taken++;
    t->bytes += (int64_t)shown->n + ended;
    return true;
}

static json_t *take_lines(struct files_lines *l, struct text *t, const struct files_path *p,
                          struct error *err)
{
    auto_buf line = BUF((size_t)t->max_bytes + 1);
    auto_buf shown = BUF((size_t)t->max_bytes * 3 + 16);
    for (;;) {
        bool ended;
        if (t->taken == t->limit) {
            t->by = files_more(l) ? "lines" : NULL;
            return text_result(t, err);
        }
        switch (files_next_line(l, &line, &ended)) {
        case LINE_END: return text_result(t, err);
        case LINE_FAILED: err_set(err, ERR_IO, "%s could not be read", p->given); return NULL;
        case LINE_TEXT:
            if (take(t, &shown, buf_view(&line), ended))
                break;
            __attribute__((fallthrough));
        case LINE_LONG: return too_long(t) ? text_result(t, err) : files_done(NULL, err);
        }
    }
}

static json_t *read_text(int fd, const json_t *args, const struct files_path *p, struct error *err)
{
    struct text t = {
        .offset = files_int(args, "offset", 1, 1, INT64_C(1) << 52),
        .limit = files_int(args, "limit", LINES_DEFAULT, 1, LINES_MAX),
        .max_bytes = files_int(args, "max_bytes", BOX_FILE_OUTPUT_MAX, 1, BOX_FILE_OUTPUT_MAX),
        .content = BUF(BOX_FILE_OUTPUT_MAX + 1024),
    };
    struct files_lines l;
    if (!files_lines_open(&l, fd, err))
        return NULL;
    json_t *result = NULL;
    bool ended, beyond = false;
    for (int64_t i = 1; i < t.offset && !beyond; i++) {
        beyond = l.read > PASSED_MAX;
        if (files_next_line(&l, NULL, &ended) != LINE_TEXT)
            break;
    }
    result = beyond ? files_failed(err,
                                   "Line %lld lies behind the first %d bytes, which are the most "
                                   "that are passed over; use exec.",
                                   (long long)t.offset, PASSED_MAX)
                    : take_lines(&l, &t, p, err);
    buf_free(&t.content);
    files_lines_close(&l);
    return result;
}

/* ---- bytes ---------------------------------------------------------------------------------------------- */

static json_t *read_bytes(int fd, struct arena *a, const json_t *args, const struct files_path *p,
                          int64_t size, struct error *err)
{
    int64_t max = files_int(args, "max_bytes", BOX_FILE_OUTPUT_MAX, 1, BOX_FILE_OUTPUT_MAX);
    int64_t at = files_int(args, "byte_offset", 0, 0, INT64_C(1) << 62);
    char *bytes = arena_alloc(a, (size_t)max);
    ssize_t n = 0, got = 0;
    while (bytes && got < max &&
           (n = pread(fd, bytes + got, (size_t)(max - got), (off_t)(at + got))) > 0)
        got += n;
    if (!bytes || n < 0) {
        err_set(err, bytes ? ERR_IO : ERR_NOMEM, "%s could not be read", p->given);
        return NULL;
    }
    bool more = at + got < size;
    json_t *r =
        json_pack("{s:b,s:o,s:s,s:I,s:I,s:I,s:b,s:I}", "ok", 1, "content",
                  json_strn(base64_encode(a, str_n(bytes, (size_t)got))), "encoding", "base64",
                  "byte_offset", (json_int_t)at, "length", (json_int_t)got, "size_bytes",
                  (json_int_t)size, "has_more", more, "max_bytes", (json_int_t)max);
    if (more)
        json_set(r, "next_byte_offset", json_integer(at + got));
    return files_done(r, err);
}

json_t *files_read(int root, struct arena *a, const json_t *args, struct error *err)
{
    struct files_path p;
    if (!files_path(a, json_object_get(args, "path"), NULL, &p, err))
        return NULL;
    auto_fd fd = files_open(root, &p, O_RDONLY, err);
    struct stat st;
    if (fd < 0)
        return err->code == ERR_NOT_FOUND ? files_not_found(&p, err) : NULL;
    if (fstat(fd, &st) != 0) {
        err_sys(err, errno, "%s", p.given);
        return NULL;
    }
    if (S_ISDIR(st.st_mode))
        return read_directory(fd, a, &p, err);
    if (!S_ISREG(st.st_mode)) {
        err_set(err, ERR_INVALID, "Not a regular file or directory: %s", p.given);
        return NULL;
    }
    return files_is(args, "encoding", "base64") ? read_bytes(fd, a, args, &p, st.st_size, err)
                                                : read_text(fd, args, &p, err);
}
