/* json: what every folder needs on top of jansson. */
#include "base/base_private.h"

#include <stdio.h>

/* True when brackets outside of strings nest deeper than JSON_DEPTH_MAX, or there are more of them
 * or of values than may be. jansson's own limit of depth is made for a larger stack than a fiber
 * has, and an empty object of three bytes takes some hundred in memory. Malformed text may give any
 * answer; the parser refuses it then. */
static bool over_limits(struct str text, struct error *err)
{
    size_t depth = 0, groups = 0, values = 0;
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
            groups++;
            if (++depth > JSON_DEPTH_MAX) {
                return !err_set(err, ERR_INVALID, "invalid JSON: nested deeper than %d levels",
                                JSON_DEPTH_MAX);
            }
        } else if (c == ',') {
            values++;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    if (groups > JSON_GROUPS_MAX || values > JSON_VALUES_MAX) {
        return !err_set(err, ERR_INVALID,
                        "invalid JSON: more than %d objects and lists or %d values",
                        JSON_GROUPS_MAX, JSON_VALUES_MAX);
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
    unsigned long before = mem_failures();
    json_t *quick = json_read(text, flags & JSON_ALLOW_NUL);
    if (quick) {
        return quick;
    }
    if (mem_failures() != before) {
        err_set(err, ERR_NOMEM, "out of memory while reading JSON");
        return NULL;
    }
    if (over_limits(text, err)) {
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
    /* Seventeen digits without a point would be read back as an integer. */
    return buf_str(out, text) &&
           (str_find(text, S(".")) >= 0 || str_find(text, S("e")) >= 0 || buf_z(out, ".0"));
}

static bool put_char(struct buf *b, char c)
{
    if (!b->p || b->failed || b->n >= b->cap)
        return buf_c(b, c);
    b->p[b->n++] = c;
    return true;
}

/* Whether one of eight bytes is a control character, a quotation mark or a backslash: bit 7 of such a byte is set, and of no byte
 * before the first such. */
static uint64_t special(uint64_t w)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    uint64_t quote = w ^ (ones * '"'), slash = w ^ (ones * '\\');
    return (((w - ones * 0x20) & ~w) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) &
           high;
}

size_t json_plain_run(const char *p, size_t n, unsigned char *seen)
{
    size_t i = 0;
    uint64_t all = 0;
    for (uint64_t w; i + 8 <= n; i += 8) {
        memcpy(&w, p + i, 8);
        if (special(w)) {
            break;
        }
        all |= w;
    }
    unsigned char some = (all & UINT64_C(0x8080808080808080)) != 0 ? 0x80 : 0;
    for (; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c < 0x20 || c == '"' || c == '\\') {
            break;
        }
        some |= c;
    }
    *seen |= some;
    return i;
}

/* Copies what can stand as it is; how many bytes that was. `to` has room for all. */
static size_t copy_plain(char *to, const char *p, size_t n)
{
    size_t i = 0;
    for (uint64_t w; i + 8 <= n; i += 8) {
        memcpy(&w, p + i, 8);
        if (special(w)) {
            break;
        }
        memcpy(to + i, &w, 8);
    }
    for (; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c < 0x20 || c == '"' || c == '\\') {
            break;
        }
        to[i] = (char)c;
    }
    return i;
}

static bool put_escaped(struct buf *b, unsigned char c)
{
    static const char short_form[32] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    if (c >= 0x20 || short_form[c]) {
        char two[2] = {'\\', c >= 0x20 ? (char)c : short_form[c]};
        return buf_add(b, two, 2);
    }
    static const char hex[] = "0123456789ABCDEF";
    char six[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    return buf_add(b, six, 6);
}

static bool put_string(struct buf *b, struct str s)
{
    for (size_t i = 0;;) {
        size_t left = s.n - i;
        if ((!b->p || b->failed || b->cap - b->n < left + 2) && !buf_reserve(b, left + 2))
            return false;
        char *to = b->p + b->n;
        if (i == 0)
            *to++ = '"';
        size_t n = copy_plain(to, s.p + i, left);
        i += n;
        to += n;
        b->n = (size_t)(to - b->p);
        if (i == s.n)
            return put_char(b, '"');
        put_escaped(b, (unsigned char)s.p[i++]);
        if (i == s.n)
            return put_char(b, '"');
    }
}

static bool put_integer(struct buf *b, int64_t v)
{
    char digits[24];
    size_t at = sizeof digits;
    uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (v < 0)
        digits[--at] = '-';
    return buf_add(b, digits + at, sizeof digits - at);
}

/* A number of at most six decimals below 2^32, such as a time in seconds: no other decimal of so few digits is the same double, so
 * that this is the shortest. False: another number. */
static bool put_moment(struct buf *b, double v)
{
    if (!(v >= 1 && v < 4294967296.0))
        return false;
    int64_t micro = (int64_t)(v * 1e6 + 0.5);
    if ((double)micro / 1e6 != v)
        return false;
    char text[8] = ".000000";
    int n = 7;
    int64_t rest = micro % 1000000;
    for (int i = 6; i > 0; i--, rest /= 10)
        text[i] = (char)('0' + rest % 10);
    while (n > 2 && text[n - 1] == '0')
        n--;
    return put_integer(b, micro / 1000000) && buf_add(b, text, (size_t)n);
}

static bool put_value(struct buf *b, const json_t *j, int depth);

static bool put_object(struct buf *b, const json_t *j, int depth)
{
    const char *key;
    json_t *value;
    char sep = '{';
    json_object_foreach ((json_t *)(uintptr_t)j, key, value) {
        put_char(b, sep);
        sep = ',';
        put_string(b, str_c(key));
        put_char(b, ':');
        if (!put_value(b, value, depth + 1))
            return false;
    }
    if (sep == '{')
        put_char(b, '{');
    return put_char(b, '}');
}

static bool put_array(struct buf *b, const json_t *j, int depth)
{
    size_t n = json_array_size(j);
    put_char(b, '[');
    for (size_t i = 0; i < n; i++) {
        if (i)
            put_char(b, ',');
        if (!put_value(b, json_array_get(j, i), depth + 1))
            return false;
    }
    return put_char(b, ']');
}

static bool put_value(struct buf *b, const json_t *j, int depth)
{
    if (depth > 4 * JSON_DEPTH_MAX) /* only a value that holds itself gets here */
        return false;
    switch (json_typeof(j)) {
    case JSON_OBJECT: return put_object(b, j, depth);
    case JSON_ARRAY: return put_array(b, j, depth);
    case JSON_STRING: return put_string(b, str_n(json_string_value(j), json_string_length(j)));
    case JSON_INTEGER: return put_integer(b, json_integer_value(j));
    case JSON_REAL: {
        char z[40];
        if (put_moment(b, json_real_value(j)))
            return true;
        int n = snprintf(z, sizeof z, "%.17g", json_real_value(j));
        return put_real(b, str_n(z, (size_t)n));
    }
    case JSON_TRUE: return buf_add(b, "true", 4);
    case JSON_FALSE: return buf_add(b, "false", 5);
    case JSON_NULL: return buf_add(b, "null", 4);
    }
    return false;
}

/* Written here, not by jansson: its writer hands over each character run through a callback, which was a sixth of the CPU of a
 * message. Strings inside a json_t are valid UTF-8 already. tests/unit/base compares the two. */
bool json_put(struct buf *b, const json_t *j)
{
    if (!j || !put_value(b, j, 0) || b->failed) {
        b->failed = true; /* half a value may be in the buffer */
        return false;
    }
    return true;
}

static int put_run(const char *p, size_t n, void *arg)
{
    return buf_add(arg, p, n) ? 0 : -1;
}

char *json_dump_z(const json_t *j, size_t flags)
{
    struct buf b = BUF(SIZE_MAX);
    if (json_dump_callback(j, put_run, &b, flags) != 0 || !buf_add(&b, "", 1)) {
        buf_free(&b);
        return NULL;
    }
    return b.p; /* a buf's memory is mem_*'s */
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

json_t *json_now(void)
{
    char iso[TIME_ISO_SIZE];
    return json_string(time_iso(time_wall_us(), iso));
}
