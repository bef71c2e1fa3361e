/* json: what every folder needs on top of jansson. */
#include "base/base_private.h"

#include <stdio.h>

/* True when brackets outside of strings nest deeper than JSON_DEPTH_MAX. jansson's own limit is
 * made for a larger stack than a fiber has. Malformed text may give any answer; the parser
 * refuses it then. */
static bool too_deep(struct str text)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > JSON_DEPTH_MAX) {
                return true;
            }
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return false;
}

/* Bytes that the longest token of the text takes at most. */
static size_t longest_token(struct str text)
{
    size_t longest = 0, run = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        run++;
        if (in_string && c == '\\' && i + 1 < text.n) {
            i++;
            run++;
        } else if (c == '"') {
            in_string = !in_string;
        }
        longest = run > longest ? run : longest;
        if (!in_string && (c == '"' || (c && strchr(" \t\r\n,:[]{}", c)))) {
            run = 0;
        }
    }
    return longest;
}

/* json_loadb that ends with an error when memory does. */
static json_t *load(struct str text, size_t flags, json_error_t *why, bool *starved)
{
    size_t longest = longest_token(text), n = longest < 15 ? 0 : 4 * (longest + 2) + 64;
    auto_mem char *spare = n ? mem_raw(n) : NULL;
    unsigned long failures = mem_failures();
    json_t *j = NULL;
    *starved = n && !spare;
    if (!*starved) {
        mem_reserve(spare, n);
        j = json_loadb(text.p, text.n, JSON_DECODE_ANY | flags, why);
        *starved = mem_failures() != failures; /* jansson often blames the text then, or nothing */
        if (*starved) {
            json_decref(j); /* while the reserve can be told from other memory */
            j = NULL;
        }
        mem_reserve(NULL, 0);
    }
    return j;
}

static json_t *parse(struct str text, size_t flags, struct error *err)
{
    if (text.n == 0) {
        err_set(err, ERR_INVALID, "invalid JSON: the text is empty");
        return NULL;
    }
    if (too_deep(text)) {
        err_set(err, ERR_INVALID, "invalid JSON: nested deeper than %d levels", JSON_DEPTH_MAX);
        return NULL;
    }
    if (memchr(text.p, '\0', text.n)) {
        err_set(err, ERR_INVALID, "invalid JSON: the text contains a NUL byte");
        return NULL; /* jansson passes over some of them */
    }
    json_error_t why = {.line = -1};
    bool starved;
    json_t *j = load(text, flags, &why, &starved);
    if (j) {
        return j;
    }
    if (starved) {
        err_set(err, ERR_NOMEM, "out of memory while reading JSON");
    } else {
        err_set(err, ERR_INVALID, "invalid JSON: %s (line %d, column %d)", why.text, why.line,
                why.column);
    }
    return NULL;
}

json_t *json_parse(struct str text, struct error *err)
{
    return parse(text, 0, err);
}

json_t *json_parse_words(struct str text, struct error *err)
{
    return parse(text, JSON_ALLOW_NUL, err);
}

struct writer {
    struct buf *out;
    bool in_string;
};

/* A real number as jansson writes it (17 digits) in the fewest digits that read back as the same:
 * 0.1, not 0.10000000000000001. People and language models get to see these. */
static bool put_real(struct buf *out, struct str text)
{
    double value;
    if (!str_to_f64(text, &value)) {
        return buf_str(out, text);
    }
    for (int digits = 15; digits < 17; digits++) {
        char z[40];
        double back;
        int n = snprintf(z, sizeof(z), "%.*g", digits, value);
        if (str_to_f64(str_n(z, (size_t)n), &back) && memcmp(&back, &value, sizeof(value)) == 0) {
            return buf_add(out, z, (size_t)n) && (strpbrk(z, ".e") || buf_z(out, ".0"));
        }
    }
    return buf_str(out, text);
}

/* jansson hands over a quotation mark, a number or a run of characters of a string at a time. */
static int put_chunk(const char *p, size_t n, void *arg)
{
    struct writer *w = arg;
    if (n == 1 && *p == '"') {
        w->in_string = !w->in_string;
    } else if (!w->in_string && n > 16 && (*p == '-' || (*p >= '0' && *p <= '9')) &&
               (memchr(p, '.', n) || memchr(p, 'e', n))) {
        return put_real(w->out, str_n(p, n)) ? 0 : -1;
    }
    return buf_add(w->out, p, n) ? 0 : -1;
}

bool json_put(struct buf *b, const json_t *j)
{
    struct writer w = {.out = b};
    if (!j || json_dump_callback(j, put_chunk, &w, JSON_COMPACT | JSON_ENCODE_ANY) != 0) {
        b->failed = true; /* half a value may be in the buffer */
        return false;
    }
    return true;
}

struct str json_text(struct arena *a, const json_t *j)
{
    auto_buf b = BUF(SIZE_MAX);
    return json_put(&b, j) ? str_dup(a, buf_view(&b)) : STR_NONE;
}

const char *json_z(const json_t *obj, const char *key)
{
    return json_string_value(json_object_get(obj, key));
}

const char *json_z_or(const json_t *obj, const char *key, const char *fallback)
{
    const char *z = json_z(obj, key);
    return z ? z : fallback;
}

struct str json_sv(const json_t *j)
{
    return json_is_string(j) ? str_n(json_string_value(j), json_string_length(j)) : STR_NONE;
}

struct str json_s(const json_t *obj, const char *key)
{
    return json_sv(json_object_get(obj, key));
}

int64_t json_i_or(const json_t *obj, const char *key, int64_t fallback)
{
    const json_t *j = json_object_get(obj, key);
    return json_is_integer(j) ? (int64_t)json_integer_value(j) : fallback;
}

double json_f_or(const json_t *obj, const char *key, double fallback)
{
    const json_t *j = json_object_get(obj, key);
    return json_is_number(j) ? json_number_value(j) : fallback;
}

bool json_b_or(const json_t *obj, const char *key, bool fallback)
{
    const json_t *j = json_object_get(obj, key);
    return json_is_boolean(j) ? json_is_true(j) : fallback;
}

json_t *json_at(const json_t *obj, const char *dotted)
{
    struct str rest = str_c(dotted), step;
    json_t *at = NULL;
    while (str_split(&rest, '.', &step)) {
        at = json_object_getn(obj, step.p, step.n);
        if (!at) {
            return NULL;
        }
        obj = at;
    }
    return at;
}

json_t *json_strn(struct str s)
{
    if (utf8_valid(s)) {
        return json_stringn_nocheck(s.p ? s.p : "", s.n);
    }
    auto_arena a = arena_new(SIZE_MAX);
    struct str clean = a ? utf8_clean(a, s) : STR_NONE;
    return clean.p ? json_stringn_nocheck(clean.p, clean.n) : NULL;
}

bool json_set(json_t *obj, const char *key, json_t *value_stolen)
{
    return json_object_set_new(obj, key, value_stolen) == 0;
}
