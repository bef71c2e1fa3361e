/* yaml_edit: writes values as YAML, and changes a document without touching what did not change.
 *
 * libfyaml can emit comments, but moves and drops some and re-flows the rest; the owner's file is the owner's. So a change
 * is made in the text, at the bytes where the parser saw the value, and the result is parsed again and compared with what
 * was wanted before it is trusted. */
#include "config/yaml.h"

#include <stdio.h>
#include <stdlib.h>

#define OUT_MAX   (YAML_TEXT_MAX * 2)
#define EDITS_MAX 4096
#define INDENT    4

/* ---- rendering ---------------------------------------------------------------------------------------------------- */

/* Texts that every YAML reader takes as the same plain text. Anything that could be a number, a boolean, a date, a
 * comment or an indicator is quoted. */
static bool plain_is_safe(struct str s)
{
    static const char *const words[] = {"y",   "n",    "yes",   "no",  "on",
                                        "off", "true", "false", "null"};
    if (!s.n || s.n > 200) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || !((c >= '0' && c <= '9') || c == '-' || c == '.' || c == '/'))) {
            return false;
        }
    }
    for (size_t i = 0; i < array_len(words); i++) {
        if (str_ieqz(s, words[i])) {
            return false;
        }
    }
    return true;
}

/* The code point at *p (valid UTF-8); moves *p behind it. */
static uint32_t code_point(const unsigned char **p)
{
    uint32_t c = *(*p)++;
    int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
    c &= more == 3 ? 0x07u : more == 2 ? 0x0fu : more == 1 ? 0x1fu : 0x7fu;
    while (more--) {
        c = c << 6 | (*(*p)++ & 0x3fu);
    }
    return c;
}

static void render_text(struct buf *b, struct str s)
{
    if (plain_is_safe(s)) {
        buf_str(b, s);
        return;
    }
    const unsigned char *p = (const unsigned char *)s.p, *end = p + s.n;
    buf_c(b, '"');
    while (p < end) {
        const unsigned char *from = p;
        uint32_t c = code_point(&p);
        if (c == '"' || c == '\\') {
            buf_fmt(b, "\\%c", (int)c);
        } else if (c == '\n') {
            buf_z(b, "\\n");
        } else if (c == '\t') {
            buf_z(b, "\\t");
        } else if (c < 0x20 || (c >= 0x7f && c <= 0xa0)) {
            buf_fmt(b, "\\x%02X", (unsigned)c);
        } else if (c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe || c == 0xffff) {
            buf_fmt(b, "\\u%04X", (unsigned)c);
        } else {
            buf_add(b, from, (size_t)(p - from));
        }
    }
    buf_c(b, '"');
}

static void render_real(struct buf *b, double value)
{
    char text[64];
    int digits = 15;
    /* The shortest form that reads back as the same number. */
    do {
        snprintf(text, sizeof(text), "%.*g", digits, value);
    } while (strtod(text, NULL) != value && ++digits <= 17);
    const char *e = strchr(text, 'e');
    size_t mantissa = e ? (size_t)(e - text) : strlen(text);
    buf_add(b, text, mantissa);
    if (!memchr(text, '.', mantissa)) {
        /* Without a point YAML 1.1 reads a text or an integer. */
        buf_z(b, ".0");
    }
    buf_z(b, e ? e : "");
}

/* On one line: what stands in brackets, or behind a key. */
static void render_flow(struct buf *b, const json_t *value)
{
    const char *key;
    const json_t *item;
    size_t i;
    bool first = true;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        buf_c(b, '{');
        for (void *it = json_object_iter((json_t *)(uintptr_t)value); it;
             it = json_object_iter_next((json_t *)(uintptr_t)value, it)) {
            key = json_object_iter_key(it);
            buf_z(b, first ? "" : ", ");
            render_text(b, str_n(key, json_object_iter_key_len(it)));
            buf_z(b, ": ");
            render_flow(b, json_object_iter_value(it));
            first = false;
        }
        buf_c(b, '}');
        break;
    case JSON_ARRAY:
        buf_c(b, '[');
        json_array_foreach (value, i, item) {
            buf_z(b, i ? ", " : "");
            render_flow(b, item);
        }
        buf_c(b, ']');
        break;
    case JSON_STRING: render_text(b, json_sv(value)); break;
    case JSON_INTEGER: buf_fmt(b, "%lld", (long long)json_integer_value(value)); break;
    case JSON_REAL: render_real(b, json_real_value(value)); break;
    case JSON_TRUE: buf_z(b, "true"); break;
    case JSON_FALSE: buf_z(b, "false"); break;
    case JSON_NULL: buf_z(b, "null"); break;
    }
}

static void indent(struct buf *b, size_t blanks)
{
    while (blanks--) {
        buf_c(b, ' ');
    }
}

/* "key: value" with its line end, `blanks` in front. */
static void render_entry(struct buf *b, struct str key, const json_t *value, size_t blanks)
{
    indent(b, blanks);
    render_text(b, key);
    buf_c(b, ':');
    if (!json_is_object(value) || !json_object_size(value)) {
        buf_c(b, ' ');
        render_flow(b, value);
        buf_c(b, '\n');
        return;
    }
    buf_c(b, '\n');
    json_t *object = (json_t *)(uintptr_t)value;
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        render_entry(b, str_n(json_object_iter_key(it), json_object_iter_key_len(it)),
                     json_object_iter_value(it), blanks + INDENT);
    }
}

void yaml_render(struct buf *b, const json_t *value)
{
    if (!json_is_object(value) || !json_object_size(value)) {
        render_flow(b, value);
        buf_c(b, '\n');
        return;
    }
    json_t *object = (json_t *)(uintptr_t)value;
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        render_entry(b, str_n(json_object_iter_key(it), json_object_iter_key_len(it)),
                     json_object_iter_value(it), 0);
    }
}

/* ---- changes ------------------------------------------------------------------------------------------------------ */

struct edit {
    size_t from, to; /* bytes of the old text that go */
    struct str with;
    size_t order; /* of two at the same place the first made comes first */
};

struct editor {
    struct arena *a;
    struct str text;
    struct edit edits[EDITS_MAX];
    size_t n;
    bool lost; /* a change could not be placed */
};

static void add(struct editor *e, size_t from, size_t to, const struct buf *with)
{
    struct str copy = with->failed ? STR_NONE : str_dup(e->a, buf_view(with));
    if (e->n == EDITS_MAX || !copy.p || from > to || to > e->text.n) {
        e->lost = true;
        return;
    }
    e->edits[e->n] = (struct edit){from, to, copy, e->n};
    e->n++;
}

/* The byte behind the ':' of a value's key; 0 if it is not found on the key's own line. */
static size_t behind_colon(const struct editor *e, const struct yaml_node *value)
{
    const struct yaml_node *key = value->key;
    if (!key || !key->marked || key->kind != YAML_SCALAR) {
        return 0;
    }
    size_t at = key->to;
    while (at < e->text.n && e->text.p[at] == ' ') {
        at++;
    }
    return at < e->text.n && e->text.p[at] == ':' ? at + 1 : 0;
}

/* Where a new line behind `map`'s last value begins; *newline says that the text lacks the line end before it. */
static size_t line_behind(const struct editor *e, const struct yaml_node *map, bool *newline)
{
    size_t at = map->to;
    *newline = false;
    if (at && e->text.p[at - 1] == '\n') {
        return at;
    }
    while (at < e->text.n && e->text.p[at] != '\n') {
        at++;
    }
    if (at == e->text.n) {
        *newline = true;
        return at;
    }
    return at + 1;
}

static void add_key(struct editor *e, const struct yaml_node *map, struct str key,
                    const json_t *value)
{
    auto_buf b = BUF(OUT_MAX);
    if (!map->marked) {
        e->lost = true;
    } else if (map->flow) {
        buf_z(&b, map->count ? ", " : "");
        render_text(&b, key);
        buf_z(&b, ": ");
        render_flow(&b, value);
        add(e, map->to - 1, map->to - 1, &b);
    } else {
        bool newline;
        size_t at = line_behind(e, map, &newline);
        buf_z(&b, newline ? "\n" : "");
        render_entry(&b, key, value, (size_t)map->first->key->column);
        if (newline) {
            /* The text had no last line end; two keys appended here must still stand on lines of their own. */
            b.n--;
        }
        add(e, at, at, &b);
    }
}

static void replace(struct editor *e, const struct yaml_node *node, const json_t *value)
{
    auto_buf b = BUF(OUT_MAX);
    size_t colon = behind_colon(e, node), item;
    const json_t *j;
    if (node->kind == YAML_SEQ && !node->flow && node->marked && json_is_array(value) &&
        json_array_size(value)) {
        json_array_foreach (value, item, j) {
            if (item) {
                buf_c(&b, '\n');
                indent(&b, (size_t)node->column);
            }
            buf_z(&b, "- ");
            render_flow(&b, j);
        }
        if (node->to && e->text.p[node->to - 1] == '\n') {
            buf_c(&b, '\n');
        }
        add(e, node->from, node->to, &b);
        return;
    }
    bool own_lines = node->kind == YAML_SEQ ? !node->flow : node->style == YAML_BLOCK;
    if (node->kind == YAML_ALIAS || node->kind == YAML_MAP ||
        (!colon && (own_lines || !node->marked))) {
        e->lost = true;
    } else if (!node->marked) {
        buf_c(&b, ' ');
        render_flow(&b, value);
        add(e, colon, colon, &b);
    } else if (own_lines) {
        buf_c(&b, ' ');
        render_flow(&b, value);
        if (node->to && e->text.p[node->to - 1] == '\n') {
            buf_c(&b, '\n');
        }
        add(e, colon, node->to, &b);
    } else {
        render_flow(&b, value);
        add(e, node->from, node->to, &b);
    }
}

static void compare(struct editor *e, const struct yaml_node *map, const json_t *old,
                    const json_t *wanted, int depth)
{
    json_t *object = (json_t *)(uintptr_t)wanted;
    if (depth == YAML_DEPTH_MAX) {
        e->lost = true;
        return;
    }
    for (void *it = json_object_iter(object); it && !e->lost;
         it = json_object_iter_next(object, it)) {
        const char *key = json_object_iter_key(it);
        const json_t *now = json_object_iter_value(it), *before = json_object_get(old, key);
        if (before && json_equal(before, now)) {
            continue;
        }
        const struct yaml_node *node = yaml_get(map, key);
        if (!before && !node) {
            add_key(e, map, str_n(key, json_object_iter_key_len(it)), now);
        } else if (!node) {
            e->lost = true; /* it came through a merge key */
        } else if (json_is_object(before) && json_is_object(now) && node->kind == YAML_MAP) {
            compare(e, node, before, now, depth + 1);
        } else {
            replace(e, node, now);
        }
    }
}

static int by_place(const void *pa, const void *pb)
{
    const struct edit *x = pa, *y = pb;
    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    return x->order < y->order ? -1 : 1;
}

static bool apply(struct editor *e, struct buf *out)
{
    size_t at = 0;
    qsort(e->edits, e->n, sizeof(e->edits[0]), by_place);
    for (size_t i = 0; i < e->n; i++) {
        const struct edit *x = &e->edits[i];
        if (x->from < at) {
            return false;
        }
        buf_add(out, e->text.p + at, x->from - at);
        buf_str(out, x->with);
        at = x->to;
    }
    return buf_add(out, e->text.p + at, e->text.n - at);
}

static bool means(struct arena *a, struct str text, const json_t *wanted, struct error *err)
{
    struct yaml_node *root = yaml_parse(a, text, "", err);
    auto_json j = root ? yaml_json(root, "", err) : NULL;
    return j && json_equal(j, wanted);
}

bool yaml_update(struct arena *a, struct str text, const struct yaml_node *root, const json_t *old,
                 const json_t *wanted, struct str *out, bool *kept, struct error *err)
{
    struct editor *e = arena_new_of(a, struct editor);
    auto_buf b = BUF(OUT_MAX);
    if (!e) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    e->a = a;
    e->text = text;
    *err = (struct error){.code = ERR_NONE};
    *kept = root->kind == YAML_MAP && (compare(e, root, old, wanted, 0), !e->lost) &&
            apply(e, &b) && means(a, buf_view(&b), wanted, err);
    if (err->code == ERR_NOMEM || arena_failed(a) || b.failed) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (!*kept) {
        buf_clear(&b);
        yaml_render(&b, wanted);
        if (b.failed) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
        if (!means(a, buf_view(&b), wanted, err)) {
            return err->code == ERR_NOMEM
                       ? false
                       : err_set(err, ERR_INTERNAL, "the document cannot be written anew");
        }
    }
    *out = str_dup(a, buf_view(&b));
    return out->p || err_set(err, ERR_NOMEM, "out of memory");
}
