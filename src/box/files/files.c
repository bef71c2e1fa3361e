/* Which operation is which; arguments and results in the forms that all of them share. */
#include "box/files/files.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { ARENA_MAX = 96 << 20, SHOWN = 400 };

static const struct {
    const char *name;
    json_t *(*run)(int root, struct arena *a, const json_t *args, struct error *err);
} tools[BOX_FILE_TOOLS] = {
    [BOX_FILE_READ] = {"read", files_read}, [BOX_FILE_WRITE] = {"write", files_write},
    [BOX_FILE_EDIT] = {"edit", files_edit}, [BOX_FILE_GLOB] = {"glob", files_glob},
    [BOX_FILE_GREP] = {"grep", files_grep},
};

const char *box_file_tool_name(enum box_file_tool t)
{
    return tools[t].name;
}

json_t *box_file_run(int root, enum box_file_tool tool, const json_t *args, struct error *err)
{
    auto_arena a = arena_new(ARENA_MAX);
    *err = (struct error){0};
    json_t *result = a ? tools[tool].run(root, a, args, err) : NULL;
    if (!result && err->code == ERR_NONE)
        err_set(err, ERR_NOMEM, "out of memory");
    return result;
}

static void put_length(struct buf *b, const json_t *args, const char *key)
{
    const json_t *v = json_object_get(args, key);
    if (json_is_string(v))
        buf_fmt(b, " %s_bytes=%zu", key, json_string_length(v));
}

static void put_text(struct buf *b, const json_t *args, const char *key)
{
    struct str s = utf8_cut(json_s(args, key), SHOWN);
    if (json_is_string(json_object_get(args, key)))
        buf_fmt(b, " %s=\"" STR_FMT "\"", key, STR_ARG(s));
}

struct str box_file_summary(struct arena *a, enum box_file_tool tool, const json_t *args)
{
    auto_buf b = BUF(SHOWN * 16);
    put_text(&b, args, "path");
    if (tool == BOX_FILE_GLOB || tool == BOX_FILE_GREP)
        put_text(&b, args, "pattern");
    put_length(&b, args, "content");
    put_length(&b, args, "old_string");
    put_length(&b, args, "new_string");
    return str_dup(a, str_trim(buf_view(&b)));
}

int64_t files_int(const json_t *args, const char *key, int64_t fallback, int64_t lo, int64_t hi)
{
    const json_t *v = json_object_get(args, key);
    double n = (double)fallback;
    double real;
    if (json_is_number(v))
        n = json_number_value(v);
    else if (json_is_boolean(v))
        n = json_is_true(v);
    else if (json_is_string(v) && str_to_f64(str_trim(json_sv(v)), &real))
        n = real;
    if (isnan(n))
        return fallback;
    return n < (double)lo ? lo : n > (double)hi ? hi : (int64_t)n;
}

bool files_is(const json_t *args, const char *key, const char *word)
{
    return str_eqz(json_s(args, key), word);
}

json_t *files_done(json_t *result, struct error *err)
{
    if (!result)
        err_set(err, ERR_NOMEM, "out of memory");
    return result;
}

json_t *files_failed(struct error *err, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return files_done(json_pack("{s:b,s:o}", "ok", 0, "error", json_strn(str_c(text))), err);
}

json_t *files_not_found(const struct files_path *p, struct error *err)
{
    return files_failed(err, "File not found: %s", p->given);
}

const char *box_file_place(struct arena *a, const json_t *path)
{
    struct files_path p;
    struct error err;
    return files_path(a, path, FILES_ROOT, &p, &err) ? p.below : NULL;
}
