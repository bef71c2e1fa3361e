/* multipart/form-data (RFC 7578) of a whole body. Everything is bounded: parts, header bytes,
 * boundary. */
#include "net/net.h"

enum { PARTS_MAX = 64, BOUNDARY_MAX = 70, PART_HEAD_MAX = 8 * 1024 };

static bool bad(struct error *err, const char *what)
{
    return err_set(err, ERR_INVALID, "invalid multipart body: %s", what);
}

/* Cuts the next parameter `; name=value` off *rest. The value is a token or a quoted string; its
 * quotes are removed and \" and \\ undone (other backslashes stay: some clients send whole Windows
 * paths). False at the end or on nonsense. */
static bool next_param(struct arena *a, struct str *rest, struct str *name, struct str *value)
{
    while (rest->n > 0 && (*rest->p == ';' || *rest->p == ' ' || *rest->p == '\t'))
        *rest = str_sub(*rest, 1, rest->n);
    ptrdiff_t eq = str_chr(*rest, '=');
    if (eq <= 0)
        return false;
    *name = str_trim(str_sub(*rest, 0, (size_t)eq));
    *rest = str_sub(*rest, (size_t)eq + 1, rest->n);
    if (!str_starts(*rest, S("\""))) {
        ptrdiff_t end = str_chr(*rest, ';');
        *value = str_trim(end < 0 ? *rest : str_sub(*rest, 0, (size_t)end));
        *rest = end < 0 ? STR_NONE : str_sub(*rest, (size_t)end, rest->n);
        return true;
    }
    size_t i = 1, o = 0;
    char *out = NULL;
    while (i < rest->n && rest->p[i] != '"') {
        bool escape = rest->p[i] == '\\' && i + 1 < rest->n &&
                      (rest->p[i + 1] == '"' || rest->p[i + 1] == '\\');
        if (escape && !out) {
            out = arena_alloc(a, rest->n);
            if (!out)
                return false;
            memcpy(out, rest->p + 1, i - 1);
            o = i - 1;
        }
        i += escape;
        if (out)
            out[o++] = rest->p[i];
        i++;
    }
    if (i >= rest->n)
        return false;
    *value = out ? str_n(out, o) : str_sub(*rest, 1, i - 1);
    *rest = str_sub(*rest, i + 1, rest->n);
    return true;
}

static bool find_boundary(struct arena *a, struct str content_type, struct str *boundary)
{
    ptrdiff_t semicolon = str_chr(content_type, ';');
    if (semicolon < 0 ||
        !str_ieqz(str_trim(str_sub(content_type, 0, (size_t)semicolon)), "multipart/form-data"))
        return false;
    struct str rest = str_sub(content_type, (size_t)semicolon, content_type.n), name, value;
    while (next_param(a, &rest, &name, &value)) {
        if (str_ieqz(name, "boundary")) {
            *boundary = value;
            return value.n > 0 && value.n <= BOUNDARY_MAX;
        }
    }
    return false;
}

/* Browsers send quotes and line ends of names as %22, %0D and %0A and nothing else so. */
static struct str undo_percent(struct arena *a, struct str s)
{
    if (str_find(s, S("%22")) < 0 && str_find(s, S("%0D")) < 0 && str_find(s, S("%0A")) < 0)
        return s;
    char *out = arena_alloc(a, s.n);
    size_t o = 0;
    for (size_t i = 0; out && i < s.n; i++) {
        struct str at = str_sub(s, i, 3);
        char c = str_eqz(at, "%22")   ? '"'
                 : str_eqz(at, "%0D") ? '\r'
                 : str_eqz(at, "%0A") ? '\n'
                                      : 0;
        out[o++] = c ? c : s.p[i];
        i += c ? 2 : 0;
    }
    return str_n(out, o);
}

static void disposition(struct arena *a, struct str value, struct http_part *part)
{
    ptrdiff_t semicolon = str_chr(value, ';');
    if (semicolon < 0 || !str_ieqz(str_trim(str_sub(value, 0, (size_t)semicolon)), "form-data"))
        return;
    struct str rest = str_sub(value, (size_t)semicolon, value.n), name, v, extended = STR_NONE;
    while (next_param(a, &rest, &name, &v)) {
        if (str_ieqz(name, "name"))
            part->name = undo_percent(a, v);
        else if (str_ieqz(name, "filename"))
            part->filename = undo_percent(a, v);
        else if (str_ieqz(name, "filename*") && str_istarts(v, S("utf-8'")))
            extended = str_sub(v, 6, v.n);
    }
    ptrdiff_t quote = str_chr(extended, '\'');
    struct str decoded =
        quote < 0 ? STR_NONE
                  : url_decode(a, str_sub(extended, (size_t)quote + 1, extended.n), false);
    if (decoded.p && utf8_valid(decoded))
        part->filename = decoded;
}

/* Header lines of a part up to and with the blank line; *rest starts behind it afterwards. */
static bool part_head(struct arena *a, struct str *rest, struct http_part *part, struct error *err)
{
    for (size_t used = 0;;) {
        ptrdiff_t end = str_find(str_sub(*rest, 0, PART_HEAD_MAX - used), S("\r\n"));
        if (end < 0)
            return bad(err, "the headers of a part are cut off or too long");
        struct str line = str_sub(*rest, 0, (size_t)end);
        used += (size_t)end + 2;
        *rest = str_sub(*rest, (size_t)end + 2, rest->n);
        if (line.n == 0)
            break;
        ptrdiff_t colon = str_chr(line, ':');
        if (colon <= 0)
            return bad(err, "a part has a header without colon");
        struct str name = str_sub(line, 0, (size_t)colon),
                   value = str_trim(str_sub(line, (size_t)colon + 1, line.n));
        if (str_ieqz(name, "content-disposition"))
            disposition(a, value, part);
        else if (str_ieqz(name, "content-type"))
            part->content_type = value;
        if (used >= PART_HEAD_MAX)
            return bad(err, "the headers of a part are cut off or too long");
    }
    if (!part->name.p)
        return bad(err, "a part has no name");
    return true;
}

enum after { AFTER_PART, AFTER_END, AFTER_OTHER };

/* What stands behind a boundary: a line end (skipped), "--", or other text, which makes it no
 * boundary. */
static enum after behind_boundary(struct str *rest)
{
    if (str_starts(*rest, S("--")))
        return AFTER_END;
    size_t i = 0;
    while (i < rest->n && (rest->p[i] == ' ' || rest->p[i] == '\t'))
        i++;
    if (!str_starts(str_sub(*rest, i, 2), S("\r\n")))
        return AFTER_OTHER;
    *rest = str_sub(*rest, i + 2, rest->n);
    return AFTER_PART;
}

/* Cuts data up to the next boundary off *rest. */
static bool cut_data(struct str *rest, struct str delimiter, struct str *data, enum after *after)
{
    size_t from = 0;
    for (;;) {
        ptrdiff_t at = str_find(str_sub(*rest, from, rest->n), delimiter);
        if (at < 0)
            return false;
        size_t end = from + (size_t)at;
        struct str behind = str_sub(*rest, end + delimiter.n, rest->n);
        *after = behind_boundary(&behind);
        if (*after != AFTER_OTHER) {
            *data = str_sub(*rest, 0, end);
            *rest = behind;
            return true;
        }
        from = end + 1;
    }
}

bool multipart_parse(struct arena *a, struct str content_type, struct str body,
                     struct http_part **parts, size_t *count, struct error *err)
{
    struct str boundary, rest = body, data;
    enum after after;
    if (!find_boundary(a, content_type, &boundary))
        return err_set(err, ERR_INVALID,
                       "Content-Type must be multipart/form-data with a boundary");
    struct str delimiter = str_fmt(a, "\r\n--" STR_FMT, STR_ARG(boundary));
    struct http_part *list = arena_alloc(a, PARTS_MAX * sizeof(*list));
    if (!delimiter.p || !list)
        return err_set(err, ERR_NOMEM, "out of memory");
    *parts = list;
    *count = 0;
    /* The first boundary may stand at the very beginning, without a line end before it. */
    struct str first = str_sub(delimiter, 2, delimiter.n), start = str_sub(body, first.n, body.n);
    if (str_starts(body, first) && (after = behind_boundary(&start)) != AFTER_OTHER)
        rest = start;
    else if (!cut_data(&rest, delimiter, &data, &after))
        return bad(err, "no boundary");
    while (after == AFTER_PART) {
        if (*count == PARTS_MAX)
            return err_set(err, ERR_INVALID, "a multipart body may have at most %d parts",
                           PARTS_MAX);
        struct http_part *part = &list[*count];
        if (!part_head(a, &rest, part, err))
            return false;
        /* An empty part: its boundary's line end is that of the blank line. */
        rest = str_n(rest.p - 2, rest.n + 2);
        struct str with_end = rest;
        if (!cut_data(&with_end, delimiter, &data, &after))
            return bad(err, "the last boundary is missing");
        rest = with_end;
        part->data = data.n >= 2 ? str_sub(data, 2, data.n) : str_n(data.p, 0);
        (*count)++;
    }
    if (arena_failed(a))
        return err_set(err, ERR_NOMEM, "out of memory");
    return true;
}
