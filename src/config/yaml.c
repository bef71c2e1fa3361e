/* yaml: libfyaml's events as a tree, and the tree as JSON.
 *
 * Events and not libfyaml's own document: with them depth, size and aliases have our bounds, each value knows its bytes
 * in the text, and a template of 450 lines takes a third of a millisecond. */
#include "config/yaml.h"

#include <libfyaml.h>
#include <stdlib.h>

#define NODES_MAX 200000 /* of the JSON: an alias counts each time it is followed */
#define TREE_MAX  ((size_t)64 << 20)

struct reader {
    struct arena *a;
    const char *name;
    struct str text;
    struct fy_diag *diag;
    struct fy_parser *parser;
    struct yaml_node *root;
    struct yaml_node *stack[YAML_DEPTH_MAX];
    struct yaml_node *key[YAML_DEPTH_MAX]; /* read, its value not yet */
    size_t depth, nodes;
    struct map anchors;
    struct error *err;
};

static bool broken(struct reader *r, int line, const char *what)
{
    return err_set(r->err, ERR_INVALID, "%s: line %d: %s", r->name, line > 0 ? line : 1, what);
}

static bool no_memory(struct error *err)
{
    return err_set(err, ERR_NOMEM, "out of memory");
}

/* The parser reports through the list of collected errors; nothing goes to the error stream. */
static void silent(struct fy_diag *diag, void *user, const char *p, size_t n) {}

static bool reader_open(struct reader *r)
{
    struct fy_diag_cfg how;
    fy_diag_cfg_default(&how);
    how.fp = NULL;
    how.output_fn = silent;
    how.colorize = false;
    r->diag = fy_diag_create(&how);
    if (!r->diag) {
        return no_memory(r->err);
    }
    fy_diag_set_collect_errors(r->diag, true);
    struct fy_parse_cfg cfg = {.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG, .diag = r->diag};
    r->parser = fy_parser_create(&cfg);
    if (!r->parser || fy_parser_set_string(r->parser, r->text.p, r->text.n) != 0) {
        return no_memory(r->err);
    }
    return true;
}

static void reader_close(struct reader *r)
{
    if (r->parser) {
        fy_parser_destroy(r->parser);
    }
    if (r->diag) {
        fy_diag_destroy(r->diag);
    }
    map_free(&r->anchors);
}

static bool parser_failed(struct reader *r)
{
    void *at = NULL;
    const struct fy_diag_error *e = fy_diag_errors_iterate(r->diag, &at);
    return broken(r, e && e->line > 0 ? e->line : 1, e && e->msg ? e->msg : "not valid YAML");
}

/* Puts a finished or opened node where it belongs. */
static bool place(struct reader *r, struct yaml_node *n)
{
    if (!r->depth) {
        if (r->root) {
            return broken(r, n->line, "more than one document");
        }
        r->root = n;
        return true;
    }
    struct yaml_node *in = r->stack[r->depth - 1];
    if (in->kind == YAML_MAP) {
        struct yaml_node **key = &r->key[r->depth - 1];
        if (!*key) {
            const struct yaml_node *real = n->kind == YAML_ALIAS ? n->target : n;
            if (real->kind != YAML_SCALAR) {
                return broken(r, n->line, "a key must be a text");
            }
            *key = n;
            return true;
        }
        n->key = *key;
        *key = NULL;
    }
    if (in->last) {
        in->last->next = n;
    } else {
        in->first = n;
    }
    in->last = n;
    in->count++;
    return true;
}

static bool token_text(struct reader *r, struct fy_token *token, struct str *out)
{
    size_t n = 0;
    const char *p = fy_token_get_text(token, &n);
    if (!p && n) {
        return no_memory(r->err);
    }
    *out = str_dup(r->a, str_n(p ? p : "", n));
    return out->p || no_memory(r->err);
}

/* True if the text of a scalar is its bytes in the document as they stand. */
static bool stands_as_it_is(const struct reader *r, const struct yaml_node *n)
{
    if (!n->marked || n->style == YAML_BLOCK) {
        return false;
    }
    struct str raw = str_sub(r->text, n->from, n->to - n->from);
    if (n->style == YAML_QUOTED) {
        raw = str_sub(raw, 1, raw.n - 2);
    }
    for (size_t i = 0; i < raw.n; i++) {
        unsigned char c = (unsigned char)raw.p[i];
        if (c == '\'' || c == '"' || c == '\\' || c == '\n' || c == '\r' || c >= 0x80) {
            return false;
        }
    }
    return true;
}

/* As token_text, through the library's iterator: its fy_token_get_text loses memory when a text has many pieces (escapes, lines). */
static bool long_text(struct reader *r, struct fy_token *token, struct str *out)
{
    auto_buf b = BUF(YAML_TEXT_MAX * 2);
    const struct fy_iter_chunk *chunk = NULL;
    int failed = 0;
    struct fy_token_iter *it = fy_token_iter_create(token);
    while (it && (chunk = fy_token_iter_chunk_next(it, chunk, &failed))) {
        buf_add(&b, chunk->str, chunk->len);
    }
    if (it) {
        fy_token_iter_destroy(it);
    }
    *out = !it || failed || b.failed ? STR_NONE : str_dup(r->a, buf_view(&b));
    return out->p || no_memory(r->err);
}

static void mark(struct reader *r, struct yaml_node *n, struct fy_event *e)
{
    const struct fy_mark *from = fy_event_start_mark(e), *to = fy_event_end_mark(e);
    if (from) {
        n->line = from->line + 1;
        n->column = from->column;
    } else if (r->depth && r->key[r->depth - 1]) {
        n->line = r->key[r->depth - 1]->line;
    }
    if (from && to && from->input_pos <= to->input_pos && to->input_pos <= r->text.n) {
        n->marked = true;
        n->from = from->input_pos;
        n->to = to->input_pos;
    }
}

/* libfyaml's marks of a quoted scalar leave its quotes out. */
static void include_quotes(struct reader *r, struct yaml_node *n)
{
    const char *p = r->text.p;
    if (!n->marked || n->from == 0 || n->to >= r->text.n || p[n->from - 1] != p[n->to] ||
        (p[n->to] != '"' && p[n->to] != '\'')) {
        n->marked = false;
        return;
    }
    n->from--;
    n->to++;
    n->column--;
}

static struct yaml_node *node(struct reader *r, struct fy_event *e, enum yaml_kind kind)
{
    struct yaml_node *n = arena_new_of(r->a, struct yaml_node);
    if (!n) {
        no_memory(r->err);
        return NULL;
    }
    n->kind = kind;
    mark(r, n, e);
    if (++r->nodes > NODES_MAX) {
        broken(r, n->line, "too many values");
        return NULL;
    }
    struct fy_token *tag = kind == YAML_ALIAS ? NULL : fy_event_get_tag_token(e);
    if (tag && !token_text(r, tag, &n->tag)) {
        return NULL;
    }
    struct fy_token *anchor = kind == YAML_ALIAS ? NULL : fy_event_get_anchor_token(e);
    if (anchor) {
        struct str name;
        if (!token_text(r, anchor, &name) ||
            !(map_put(&r->anchors, name, n) || no_memory(r->err))) {
            return NULL;
        }
    }
    return n;
}

static bool scalar(struct reader *r, struct fy_event *e)
{
    struct yaml_node *n = node(r, e, YAML_SCALAR);
    if (!n) {
        return false;
    }
    struct fy_token *token = e->scalar.value;
    switch (token ? fy_token_scalar_style(token) : FYSS_PLAIN) {
    case FYSS_SINGLE_QUOTED:
    case FYSS_DOUBLE_QUOTED:
        n->style = YAML_QUOTED;
        include_quotes(r, n);
        break;
    case FYSS_LITERAL:
    case FYSS_FOLDED: n->style = YAML_BLOCK; break;
    default: n->style = YAML_PLAIN;
    }
    if (!token) {
        n->text = S("");
    } else if (!(stands_as_it_is(r, n) ? token_text : long_text)(r, token, &n->text)) {
        return false;
    }
    return place(r, n);
}

static bool alias(struct reader *r, struct fy_event *e)
{
    struct yaml_node *n = node(r, e, YAML_ALIAS);
    struct str name;
    if (!n || !token_text(r, e->alias.anchor, &name)) {
        return false;
    }
    n->target = map_get(&r->anchors, name);
    if (!n->target) {
        return broken(r, n->line, "an alias without its anchor");
    }
    if (n->target->open) {
        return broken(r, n->line, "an alias of what it stands in");
    }
    if (n->target->kind == YAML_ALIAS) {
        n->target = n->target->target;
    }
    return place(r, n);
}

static bool container(struct reader *r, struct fy_event *e, enum yaml_kind kind)
{
    struct yaml_node *n = node(r, e, kind);
    if (!n) {
        return false;
    }
    n->flow = fy_event_get_node_style(e) == FYNS_FLOW;
    n->open = true;
    if (!place(r, n)) {
        return false;
    }
    if (r->depth == YAML_DEPTH_MAX) {
        return broken(r, n->line, "nested too deeply");
    }
    r->key[r->depth] = NULL;
    r->stack[r->depth++] = n;
    return true;
}

static void close_container(struct reader *r, struct fy_event *e)
{
    struct yaml_node *n = r->stack[--r->depth];
    const struct fy_mark *to = fy_event_end_mark(e);
    n->open = false;
    if (n->flow) {
        n->marked = n->marked && to && to->input_pos <= r->text.n;
        n->to = to ? to->input_pos : 0;
    } else if (n->last) {
        /* The mark of a block's end is somewhere behind it, past comments and blank lines. */
        n->marked = n->marked && (n->last->marked || n->last->key);
        n->to = n->last->marked ? n->last->to : n->last->key ? n->last->key->to : 0;
    }
}

static bool take(struct reader *r, struct fy_event *e)
{
    switch (e->type) {
    case FYET_SCALAR: return scalar(r, e);
    case FYET_ALIAS: return alias(r, e);
    case FYET_SEQUENCE_START: return container(r, e, YAML_SEQ);
    case FYET_MAPPING_START: return container(r, e, YAML_MAP);
    case FYET_SEQUENCE_END:
    case FYET_MAPPING_END: close_container(r, e); return true;
    default: return true;
    }
}

static bool read_all(struct reader *r)
{
    bool ok = reader_open(r), ended = false;
    while (ok && !ended) {
        struct fy_event *e = fy_parser_parse(r->parser);
        if (!e) {
            return parser_failed(r);
        }
        ended = e->type == FYET_STREAM_END;
        ok = take(r, e);
        fy_parser_event_free(r->parser, e);
    }
    if (ok && fy_parser_get_stream_error(r->parser)) {
        return parser_failed(r);
    }
    return ok;
}

static bool is_text(struct str s)
{
    return utf8_valid(s) && str_chr(s, '\0') < 0;
}

static int bad_line(struct str text)
{
    struct str rest = text, row;
    int line = 1;
    while (str_split(&rest, '\n', &row) && is_text(row)) {
        line++;
    }
    return line;
}

struct yaml_node *yaml_parse(struct arena *a, struct str text, const char *name, struct error *err)
{
    struct reader r = {.a = a, .name = name, .text = text, .err = err};
    if (text.n > YAML_TEXT_MAX) {
        err_set(err, ERR_TOO_LARGE, "%s: larger than %zu bytes", name, YAML_TEXT_MAX);
        return NULL;
    }
    if (!is_text(text)) {
        err_set(err, ERR_INVALID, "%s: line %d: not UTF-8 text", name, bad_line(text));
        return NULL;
    }
    bool ok = read_all(&r);
    reader_close(&r);
    if (ok && !r.root) {
        ok = broken(&r, 1, "the document is empty");
    }
    return ok ? r.root : NULL;
}

struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
    if (!map || map->kind != YAML_MAP) {
        return NULL;
    }
    for (struct yaml_node *n = map->first; n; n = n->next) {
        const struct yaml_node *k = n->key->kind == YAML_ALIAS ? n->key->target : n->key;
        if (str_eqz(k->text, key)) {
            return n;
        }
    }
    return NULL;
}

/* ---- scalars ------------------------------------------------------------------------------------------------------ */

static bool one_of(struct str s, const char *const *words)
{
    for (; *words; words++) {
        if (str_eqz(s, *words)) {
            return true;
        }
    }
    return false;
}

/* Copies s without underscores; false when it does not fit. */
static bool digits_of(struct str s, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '_') {
            if (n + 1 >= size) {
                return false;
            }
            out[n++] = s.p[i];
        }
    }
    out[n] = '\0';
    return n > 0;
}

static bool only(struct str s, const char *set)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!s.p[i] || !strchr(set, s.p[i])) {
            return false;
        }
    }
    return s.n > 0;
}

static json_t *integer(struct str s)
{
    struct str body = s;
    bool negative = s.n && s.p[0] == '-';
    if (s.n && (s.p[0] == '-' || s.p[0] == '+')) {
        body = str_sub(s, 1, s.n);
    }
    int base = 10;
    if (str_starts(body, S("0b")) && only(str_sub(body, 2, body.n), "01_")) {
        base = 2;
    } else if (str_starts(body, S("0x")) &&
               only(str_sub(body, 2, body.n), "0123456789abcdefABCDEF_")) {
        base = 16;
    } else if (body.n > 1 && body.p[0] == '0' && only(body, "01234567_")) {
        base = 8;
    } else if (!(str_eqz(body, "0") ||
                 (only(body, "0123456789_") && body.p[0] >= '1' && body.p[0] <= '9'))) {
        return NULL;
    }
    char text[80];
    if (!digits_of(str_sub(body, base == 2 || base == 16 ? 2 : 0, body.n), text, sizeof(text))) {
        return NULL;
    }
    int64_t value = 0;
    double wide = 0;
    bool overflow = false;
    for (const char *c = text; *c; c++) {
        int d = *c <= '9' ? *c - '0' : (*c | 0x20) - 'a' + 10;
        wide = wide * base + d;
        overflow = overflow || __builtin_mul_overflow(value, (int64_t)base, &value) ||
                   __builtin_add_overflow(value, (int64_t)d, &value);
    }
    if (overflow) {
        /* Too wide for jansson's integers; its magnitude is kept. */
        wide = base == 10 ? strtod(text, NULL) : wide;
        return json_real(negative ? -wide : wide);
    }
    return json_integer(negative ? -value : value);
}

/* YAML 1.1's rule as readers have it: the point is needed, the exponent's sign too, and ".5" has no sign. */
static json_t *real(struct str s)
{
    struct str body = s;
    if (s.n && (s.p[0] == '-' || s.p[0] == '+')) {
        body = str_sub(s, 1, s.n);
    }
    ptrdiff_t dot = str_chr(body, '.');
    if (dot < 0) {
        return NULL;
    }
    struct str whole = str_sub(body, 0, (size_t)dot), rest = str_sub(body, (size_t)dot + 1, body.n);
    size_t e = 0;
    while (e < rest.n && rest.p[e] != 'e' && rest.p[e] != 'E') {
        e++;
    }
    struct str fraction = str_sub(rest, 0, e), exponent = str_sub(rest, e, rest.n);
    if ((whole.n && !(only(whole, "0123456789_") && whole.p[0] != '_')) ||
        (fraction.n && !only(fraction, "0123456789_")) ||
        (!whole.n && (body.n != s.n || !fraction.n || fraction.p[0] == '_'))) {
        return NULL;
    }
    if (exponent.n && (exponent.n < 3 || (exponent.p[1] != '+' && exponent.p[1] != '-') ||
                       !only(str_sub(exponent, 2, exponent.n), "0123456789"))) {
        return NULL;
    }
    char text[80];
    /* NULL for an overflow: JSON has no infinity, the text stays. */
    return digits_of(s, text, sizeof(text)) ? json_real(strtod(text, NULL)) : NULL;
}

/* A plain scalar by the rules of YAML 1.1 as the original's files were read; sexagesimal numbers, dates and the
 * infinities stay texts. New reference. */
static json_t *plain(struct str s)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes",
                                      "YES",  "on",   "On",   "ON",  NULL};
    static const char *const no[] = {"false", "False", "FALSE", "no",  "No",
                                     "NO",    "off",   "Off",   "OFF", NULL};
    if (s.n <= 5) {
        if (one_of(s, nulls)) {
            return json_null();
        }
        if (one_of(s, yes)) {
            return json_true();
        }
        if (one_of(s, no)) {
            return json_false();
        }
    }
    json_t *j = NULL;
    if (s.n < 80 && s.n && strchr("+-.0123456789", s.p[0])) {
        j = integer(s);
        if (!j) {
            j = real(s);
        }
    }
    return j ? j : json_strn(s);
}

/* ---- JSON --------------------------------------------------------------------------------------------------------- */

struct writer {
    const char *name;
    size_t nodes;
    struct error *err;
};

static json_t *to_json(struct writer *w, const struct yaml_node *n, int depth);

static json_t *fail(struct writer *w, const struct yaml_node *n, const char *what)
{
    err_set(w->err, ERR_INVALID, "%s: line %d: %s", w->name, n->line, what);
    return NULL;
}

static json_t *scalar_json(struct writer *w, const struct yaml_node *n)
{
    json_t *j = NULL;
    if (!n->tag.n) {
        j = n->style == YAML_PLAIN ? plain(n->text) : json_strn(n->text);
    } else if (str_ends(n->tag, S(":str")) || str_eqz(n->tag, "!")) {
        j = json_strn(n->text);
    } else if (str_starts(n->tag, S("tag:yaml.org,2002:"))) {
        j = plain(n->text);
    } else {
        return fail(w, n, "unknown tag");
    }
    if (!j) {
        err_set(w->err, ERR_NOMEM, "out of memory");
    }
    return j;
}

/* Gives `into` the keys of a merged mapping that it does not have. */
static bool merge(struct writer *w, const struct yaml_node *from, json_t *into, int depth)
{
    const struct yaml_node *real = from->kind == YAML_ALIAS ? from->target : from;
    if (real->kind == YAML_SEQ) {
        for (const struct yaml_node *n = real->first; n; n = n->next) {
            const struct yaml_node *item = n->kind == YAML_ALIAS ? n->target : n;
            if (item->kind != YAML_MAP) {
                return fail(w, n, "only mappings can be merged") != NULL;
            }
            if (!merge(w, item, into, depth)) {
                return false;
            }
        }
        return true;
    }
    if (real->kind != YAML_MAP) {
        return fail(w, from, "only mappings can be merged") != NULL;
    }
    auto_json j = to_json(w, real, depth);
    if (!j) {
        return false;
    }
    return json_object_update_missing(into, j) == 0 || no_memory(w->err);
}

static json_t *map_json(struct writer *w, const struct yaml_node *map, int depth)
{
    auto_json j = json_object();
    if (!j) {
        no_memory(w->err);
        return NULL;
    }
    for (const struct yaml_node *n = map->first; n; n = n->next) {
        const struct yaml_node *key = n->key->kind == YAML_ALIAS ? n->key->target : n->key;
        if (key->style == YAML_PLAIN && str_eqz(key->text, "<<")) {
            continue;
        }
        if (json_object_getn(j, key->text.p, key->text.n)) {
            err_set(w->err, ERR_INVALID, "%s: line %d: the key \"" STR_FMT "\" is there twice",
                    w->name, n->key->line, STR_ARG(utf8_cut(key->text, 100)));
            return NULL;
        }
        json_t *value = to_json(w, n, depth);
        if (!value) {
            return NULL;
        }
        if (json_object_setn_new(j, key->text.p, key->text.n, value) != 0) {
            no_memory(w->err);
            return NULL;
        }
    }
    for (const struct yaml_node *n = map->first; n; n = n->next) {
        if (n->key->kind == YAML_SCALAR && n->key->style == YAML_PLAIN &&
            str_eqz(n->key->text, "<<") && !merge(w, n, j, depth)) {
            return NULL;
        }
    }
    return steal(j);
}

static json_t *seq_json(struct writer *w, const struct yaml_node *seq, int depth)
{
    auto_json j = json_array();
    if (!j) {
        no_memory(w->err);
        return NULL;
    }
    for (const struct yaml_node *n = seq->first; n; n = n->next) {
        json_t *value = to_json(w, n, depth);
        if (!value) {
            return NULL;
        }
        if (json_array_append_new(j, value) != 0) {
            no_memory(w->err);
            return NULL;
        }
    }
    return steal(j);
}

static json_t *to_json(struct writer *w, const struct yaml_node *n, int depth)
{
    if (depth == YAML_DEPTH_MAX) {
        return fail(w, n, "nested too deeply");
    }
    if (++w->nodes > NODES_MAX) {
        return fail(w, n, "too many values");
    }
    switch (n->kind) {
    case YAML_ALIAS: return to_json(w, n->target, depth + 1);
    case YAML_SEQ: return seq_json(w, n, depth + 1);
    case YAML_MAP: return map_json(w, n, depth + 1);
    case YAML_SCALAR: break;
    }
    return scalar_json(w, n);
}

json_t *yaml_json(const struct yaml_node *root, const char *name, struct error *err)
{
    struct writer w = {.name = name, .err = err};
    return to_json(&w, root, 0);
}

json_t *config_yaml_to_json(struct str yaml, const char *name, struct error *err)
{
    auto_arena a = arena_new(TREE_MAX);
    if (!a) {
        no_memory(err);
        return NULL;
    }
    struct yaml_node *root = yaml_parse(a, yaml, name, err);
    return root ? yaml_json(root, name, err) : NULL;
}
