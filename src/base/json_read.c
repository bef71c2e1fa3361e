/* json_read: the quick way from a text to jansson's values. It takes plain, valid texts; for whatever else it gives up, and
 * jansson's parser decides and finds the words (json.c). jansson's own reads a text character by character through a callback. */
#include "base/base_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct reader {
    const char *p, *end;
    size_t groups, values;
    bool allow_nul;
};

static json_t *read_value(struct reader *r, int depth);

static void skip_space(struct reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r')) {
        r->p++;
    }
}

/* The four digits of a \u escape; -1: not such. */
static int hex4(const char *p)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0) {
            return -1;
        }
        v = v << 4 | d;
    }
    return v;
}

static char *put_utf8(char *out, int c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 63));
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    }
    return out;
}

/* Behind "\u": the character, both halves of a pair. -1: jansson shall judge. */
static int unicode_escape(const char **at, const char *end, bool allow_nul)
{
    int c = end - *at < 4 ? -1 : hex4(*at);
    *at += 4;
    if (c >= 0xd800 && c <= 0xdbff && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        int low = hex4(*at + 2);
        *at += 6;
        return low >= 0xdc00 && low <= 0xdfff ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00)
                                              : -1;
    }
    return (c >= 0xd800 && c <= 0xdfff) || (c == 0 && !allow_nul) ? -1 : c;
}

/* Writes `raw` (the bytes between the quotation marks) without its escapes to `out`, which has room for raw.n. */
static bool unescape(struct str raw, bool allow_nul, char *out, size_t *n)
{
    static const char what[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    char *to = out;
    for (const char *p = raw.p, *end = raw.p + raw.n; p < end;) {
        if (*p != '\\') {
            *to++ = *p++;
            continue;
        }
        char c = p[1]; /* the scan went over an escape as a pair */
        p += 2;
        if (c == 'u') {
            int v = unicode_escape(&p, end, allow_nul);
            if (v < 0) {
                return false;
            }
            to = put_utf8(to, v);
            continue;
        }
        const char *at = c ? strchr(what, c) : NULL;
        if (!at) {
            return false;
        }
        *to++ = means[at - what];
    }
    *n = (size_t)(to - out);
    return true;
}

/* The bytes up to the closing quotation mark, which is passed over. */
static bool scan_string(struct reader *r, struct str *raw, bool *escaped, bool *ascii)
{
    const char *from = r->p, *p = from, *end = r->end;
    unsigned char all = 0;
    *escaped = false;
    for (;;) {
        size_t run = json_plain_run(p, (size_t)(end - p), &all);
        p += run;
        if (p == end || (unsigned char)*p < 0x20) {
            return false;
        }
        if (*p == '"') {
            break;
        }
        *escaped = true;
        p += 2;
        if (p > end) {
            return false;
        }
    }
    *raw = str_n(from, (size_t)(p - from));
    *ascii = !(all & 0x80);
    r->p = p + 1;
    return true;
}

/* Decodes into `*own` (to be freed) where there are escapes. */
static bool read_text(struct reader *r, bool allow_nul, struct str *out, char **own)
{
    bool escaped, ascii;
    *own = NULL;
    if (!scan_string(r, out, &escaped, &ascii)) {
        return false;
    }
    if (escaped) {
        char *to = *own = mem_raw(out->n + 1);
        size_t n = 0;
        if (!to || !unescape(*out, allow_nul, to, &n)) {
            return false;
        }
        *out = str_n(to, n);
    }
    return ascii || utf8_valid(*out);
}

static json_t *read_string(struct reader *r)
{
    struct str text;
    char *own;
    json_t *j = read_text(r, r->allow_nul, &text, &own)
                    ? json_stringn_nocheck(text.p ? text.p : "", text.n)
                    : NULL;
    mem_free(own);
    return j;
}

static json_t *read_real(const char *p, size_t n)
{
    char z[64];
    if (n >= sizeof(z)) {
        return NULL;
    }
    memcpy(z, p, n);
    z[n] = '\0';
    char *end;
    errno = 0;
    double v = strtod(z, &end);
    return *end || errno == ERANGE || !isfinite(v) ? NULL : json_real(v);
}

static const char *digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9') {
        p++;
    }
    return p;
}

static json_t *read_number(struct reader *r)
{
    const char *from = r->p, *p = from, *end = r->end;
    p += *p == '-';
    const char *first = p;
    p = digits(p, end);
    size_t n = (size_t)(p - first);
    if (n == 0 || (n > 1 && *first == '0')) {
        return NULL;
    }
    bool real = false;
    if (p < end && *p == '.') {
        const char *to = digits(p + 1, end);
        if (to == p + 1) {
            return NULL;
        }
        p = to;
        real = true;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        const char *to = digits(p, end);
        if (to == p) {
            return NULL;
        }
        p = to;
        real = true;
    }
    r->p = p;
    if (real) {
        return read_real(from, (size_t)(p - from));
    }
    if (n > 18) {
        return NULL;
    }
    json_int_t v = 0;
    for (const char *d = first; d < p; d++) {
        v = v * 10 + (*d - '0');
    }
    return json_integer(*from == '-' ? -v : v);
}

static json_t *read_word(struct reader *r, const char *word, size_t n, json_t *value)
{
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0) {
        return NULL;
    }
    r->p += n;
    return value;
}

/* Behind a member or an item: false at the closing bracket. *ok is false where neither is there. */
static bool goes_on(struct reader *r, char closing, bool *ok)
{
    skip_space(r);
    char c = r->p < r->end ? *r->p++ : '\0';
    if (c == ',') {
        skip_space(r);
        *ok = ++r->values <= JSON_VALUES_MAX; /* before more of it is built */
        return *ok;
    }
    *ok = c == closing;
    return false;
}

static bool read_member(struct reader *r, json_t *object, int depth)
{
    struct str key;
    char *own = NULL;
    bool ok = r->p < r->end && *r->p++ == '"' && read_text(r, false, &key, &own);
    skip_space(r);
    ok = ok && r->p < r->end && *r->p++ == ':';
    json_t *value = ok ? read_value(r, depth) : NULL;
    ok = value && json_object_setn_new_nocheck(object, key.p ? key.p : "", key.n, value) == 0;
    mem_free(own);
    return ok;
}

static json_t *read_group(struct reader *r, char closing, int depth)
{
    if (depth > JSON_DEPTH_MAX || r->groups == JSON_GROUPS_MAX) {
        return NULL;
    }
    r->p++;
    r->groups++;
    json_t *j = closing == '}' ? json_object() : json_array();
    skip_space(r);
    if (j && r->p < r->end && *r->p == closing) {
        r->p++;
        return j;
    }
    bool ok = j != NULL, more = ok;
    while (more) {
        ok = closing == '}' ? read_member(r, j, depth)
                            : json_array_append_new(j, read_value(r, depth)) == 0;
        more = ok && goes_on(r, closing, &ok);
    }
    if (ok) {
        return j;
    }
    json_decref(j);
    return NULL;
}

static json_t *read_value(struct reader *r, int depth)
{
    skip_space(r);
    if (r->p == r->end) {
        return NULL;
    }
    switch (*r->p) {
    case '{': return read_group(r, '}', depth + 1);
    case '[': return read_group(r, ']', depth + 1);
    case '"': r->p++; return read_string(r);
    case 't': return read_word(r, "true", 4, json_true());
    case 'f': return read_word(r, "false", 5, json_false());
    case 'n': return read_word(r, "null", 4, json_null());
    default: return read_number(r);
    }
}

json_t *json_read(struct str text, bool allow_nul)
{
    struct reader r = {.p = text.p, .end = text.p + text.n, .allow_nul = allow_nul};
    json_t *j = read_value(&r, 0);
    skip_space(&r);
    if (j && r.p == r.end) {
        return j;
    }
    json_decref(j);
    return NULL;
}
