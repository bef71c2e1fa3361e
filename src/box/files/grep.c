/* The tool grep. The dialect is that of PCRE2 with Unicode classes, in which Python's common patterns mean the same; what
 * differs is listed in docs/tools.md. box.md §10.9. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "box/files/files.h"

#include <fcntl.h>
#include <pcre2.h>
#include <unistd.h>

enum {
    PATTERN_CHARS = 1024,
    LINE_CHARS = 1 << 20,
    FILE_CHARS = 10 << 20,
    ALL_CHARS = 50 << 20,
    SHOWN_CHARS = 500,
    MATCH_LIMIT = 1000000,
    HEAP_KIB = 32768,
    NAME_BYTES = 40, /* of a match in JSON besides its texts */
};

struct grep {
    const struct files_path *path;
    struct str include; /* p NULL: all */
    pcre2_code *re;
    pcre2_match_data *data;
    pcre2_match_context *context;
    struct buf line, text, name;
    json_t *matches;
    size_t bytes; /* of them as JSON, about */
    int64_t chars, files, used_us;
    const char *by; /* why it ends early, or "line" */
    bool ends, timed_out, no_memory;
};

static bool compile(struct grep *g, struct str pattern, json_t **result, struct error *err)
{
    int code;
    PCRE2_SIZE at;
    *result = NULL;
    g->re = pcre2_compile((PCRE2_SPTR)pattern.p, pattern.n,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_ALT_BSUX, &code,
                          &at, NULL);
    if (!g->re) {
        PCRE2_UCHAR why[256];
        pcre2_get_error_message(code, why, sizeof why);
        *result = files_failed(err, "Invalid regex: %s at offset %zu", (const char *)why,
                               utf8_count(str_sub(pattern, 0, at)));
        return false;
    }
    g->data = pcre2_match_data_create(1, NULL);
    g->context = pcre2_match_context_create(NULL);
    if (!g->data || !g->context)
        return err_set(err, ERR_NOMEM, "out of memory");
    pcre2_set_match_limit(g->context, MATCH_LIMIT);
    pcre2_set_heap_limit(g->context, HEAP_KIB);
    return true;
}

static bool finish(struct grep *g, const char *by)
{
    g->by = by;
    g->ends = true;
    return false;
}

/* Unicode white space at the end goes, as Python's rstrip has it. */
static struct str without_end(struct str s)
{
    static const char *const spaces[] = {"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80",
                                         "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF",
                                         "\xE2\x81\x9F", "\xE3\x80\x80"};
    for (;;) {
        size_t n = s.n;
        while (s.n > 0 && (s.p[s.n - 1] == ' ' || (s.p[s.n - 1] >= '\t' && s.p[s.n - 1] <= '\r') ||
                           (s.p[s.n - 1] >= 0x1C && s.p[s.n - 1] <= 0x1F)))
            s.n--;
        for (size_t i = 0; i < array_len(spaces); i++)
            if (str_ends(s, str_c(spaces[i])))
                s.n -= strlen(spaces[i]);
        if (s.n >= 3 && memcmp(s.p + s.n - 3, "\xE2\x80", 2) == 0 &&
            (unsigned char)s.p[s.n - 1] >= 0x80 && (unsigned char)s.p[s.n - 1] <= 0x8A)
            s.n -= 3;
        if (s.n == n)
            return s;
    }
}

static bool add_match(struct grep *g, int64_t number)
{
    if (json_array_size(g->matches) == BOX_FILE_GREP_MATCHES)
        return finish(g, "matches");
    struct str shown = without_end(buf_view(&g->text)), cut = utf8_cut(shown, SHOWN_CHARS);
    auto_buf content = BUF(SHOWN_CHARS * 4 + 64);
    buf_str(&content, cut);
    if (cut.n < shown.n) {
        buf_z(&content, "... [truncated]");
        g->by = "line";
    }
    auto_json m = json_pack("{s:o,s:I,s:o}", "file", json_strn(buf_view(&g->name)), "line",
                            (json_int_t)number, "content", json_strn(buf_view(&content)));
    auto_buf text = BUF(1 << 20);
    g->no_memory = !m || content.failed || !json_put(&text, m);
    if (g->no_memory)
        return finish(g, NULL);
    if (g->bytes + text.n + 2 > BOX_FILE_OUTPUT_MAX)
        return finish(g, "bytes");
    g->bytes += text.n + 2;
    g->no_memory = json_array_append(g->matches, m) != 0;
    return !g->no_memory || finish(g, NULL);
}

static bool one_line(struct grep *g, int64_t number)
{
    struct str s = buf_view(&g->text);
    int64_t start = time_mono_us();
    int rc = pcre2_match(g->re, (PCRE2_SPTR)(s.p ? s.p : ""), s.n, 0, PCRE2_NO_UTF_CHECK, g->data,
                         g->context);
    g->used_us += time_mono_us() - start;
    if ((rc < 0 && rc != PCRE2_ERROR_NOMATCH) || g->used_us > BOX_FILE_GREP_BUDGET_US) {
        g->timed_out = true;
        return finish(g, NULL);
    }
    return rc < 0 || add_match(g, number);
}

/* False: the search ends. */
static bool search(struct grep *g, int fd, struct error *err)
{
    struct files_lines l;
    int64_t number = 0, chars = 0;
    bool ended, on = true;
    if (++g->files > BOX_FILE_GREP_FILES)
        return finish(g, "scan");
    if (!files_lines_open(&l, fd, err)) {
        g->no_memory = true;
        return finish(g, NULL);
    }
    while (on) {
        enum files_line got = files_next_line(&l, &g->line, &ended);
        if (got == LINE_END || got == LINE_FAILED)
            break;
        number++;
        buf_clear(&g->text);
        files_utf8(&g->text, buf_view(&g->line), false);
        size_t n = utf8_count(buf_view(&g->text));
        if (got == LINE_LONG || n > LINE_CHARS) { /* the rest of the file is passed over */
            g->by = "line";
            break;
        }
        chars += (int64_t)n + 1;
        g->chars += (int64_t)n + 1;
        if (g->chars > ALL_CHARS) {
            on = finish(g, "scan");
        } else if (chars > FILE_CHARS) {
            g->by = "scan";
            break;
        } else {
            on = one_line(g, number);
        }
    }
    files_lines_close(&l);
    return on;
}

static bool visit(void *arg, int dir, const char *name, struct str rel, const struct stat *st)
{
    struct grep *g = arg;
    struct error err = {0};
    struct stat now;
    if (!S_ISREG(st->st_mode) || (g->include.p && !files_match(g->include, rel)))
        return true;
    auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &now) != 0 || !S_ISREG(now.st_mode))
        return true;
    struct str base = str_c(g->path->given);
    if (base.n == 0)
        base = S(FILES_ROOT);
    while (base.n > 1 && base.p[base.n - 1] == '/')
        base.n--;
    buf_clear(&g->name);
    buf_str(&g->name, base);
    buf_c(&g->name, '/');
    files_utf8(&g->name, rel, true);
    return search(g, fd, &err);
}

static json_t *result_of(struct grep *g, struct error *err)
{
    if (g->no_memory)
        return files_done(NULL, err);
    if (g->timed_out)
        return files_failed(err, "Regex search timed out");
    return files_done(json_pack("{s:b,s:O,s:I,s:b,s:o}", "ok", 1, "matches", g->matches, "total",
                                (json_int_t)json_array_size(g->matches), "truncated", g->by != NULL,
                                "truncated_by", g->by ? json_string(g->by) : json_null()),
                      err);
}

static json_t *search_path(int root, struct grep *g, const struct files_path *p, struct error *err)
{
    struct stat st;
    auto_fd fd = files_open(root, p, O_RDONLY, err);
    if (fd < 0)
        return err->code == ERR_NOT_FOUND ? files_failed(err, "Path not found: %s", p->given)
                                          : NULL;
    if (fstat(fd, &st) != 0 || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))) {
        err_set(err, ERR_INVALID, "Not a regular file or directory: %s", p->given);
        return NULL;
    }
    if (S_ISREG(st.st_mode)) {
        buf_z(&g->name, p->given);
        search(g, fd, err);
        return result_of(g, err);
    }
    struct files_walk w = {.visit = visit, .arg = g};
    if (!files_walk(fd, &w, err))
        return NULL;
    if (w.cut && !g->ends)
        g->by = "scan";
    return result_of(g, err);
}

json_t *files_grep(int root, struct arena *a, const json_t *args, struct error *err)
{
    struct files_path p;
    const json_t *pattern = json_object_get(args, "pattern"),
                 *include = json_object_get(args, "include");
    struct str text = json_sv(pattern);
    if (!json_is_string(pattern) || utf8_count(text) > PATTERN_CHARS)
        return files_failed(err, "pattern must be a string of at most %d characters",
                            PATTERN_CHARS);
    struct grep g = {.path = &p,
                     .line = BUF((size_t)LINE_CHARS * 4 + 4),
                     .text = BUF((size_t)LINE_CHARS * 4 + 4),
                     .name = BUF(1 << 18),
                     .matches = json_array()};
    if (json_string_length(include) > 0)
        g.include = json_sv(include);
    json_t *result = NULL;
    if (g.matches && compile(&g, text.p ? text : S(""), &result, err) &&
        files_path(a, json_object_get(args, "path"), FILES_ROOT, &p, err))
        result = search_path(root, &g, &p, err);
    pcre2_match_data_free(g.data);
    pcre2_match_context_free(g.context);
    pcre2_code_free(g.re);
    buf_free(&g.line);
    buf_free(&g.text);
    buf_free(&g.name);
    json_decref(g.matches);
    return result;
}
