/* redact: secrets are masked for those who may not see them, and a mask that comes back means "unchanged" (http-api.md §15). */
#include "tenant/redact_private.h"

#include <stdio.h>

/* ---- names -------------------------------------------------------------------------------------------------------- */

/* Rules that a set of names obeys. */
#define FULL_ONLY 1u

struct word {
    const char *text;
    unsigned when;
};

/* Whole names, after normalisation. */
static const struct word names[] = {
    {"api_key", 0},
    {"auth", 0},
    {"authorization", 0},
    {"cookie", 0},
    {"credentials", 0},
    {"database_url", 0},
    {"dsn", 0},
    {"key", 0},
    {"proxy_authorization", 0},
    {"set_cookie", 0},
    {"api_keys", FULL_ONLY},
    {"apikey", FULL_ONLY},
    {"apikeys", FULL_ONLY},
    {"header_value", FULL_ONLY},
    {"webhook_url", FULL_ONLY},
};
/* Parts of a name. */
static const struct word parts[] = {
    {"credential", 0}, {"credentials", 0}, {"passwd", 0},         {"password", 0},
    {"secret", 0},     {"token", 0},       {"apikey", FULL_ONLY},
};
static const struct word key_parts[] = {{"key", 0}, {"keys", FULL_ONLY}};
static const struct word key_kinds[] = {
    {"access", 0}, {"api", 0},        {"auth", 0},    {"bearer", 0},  {"client", 0},
    {"debug", 0},  {"encryption", 0}, {"private", 0}, {"signing", 0},
};
/* Whole names of query values beyond those. */
static const struct word query_names[] = {
    {"code", 0}, {"credential", 0}, {"credentials", 0}, {"password", 0}, {"passwd", 0},
};

#define HAS(table, text, rules) has(table, array_len(table), text, rules)

static bool has(const struct word *table, size_t n, const char *text, enum redact_rules rules)
{
    for (size_t i = 0; i < n; i++) {
        if ((!table[i].when || rules == REDACT_FULL) && strcmp(table[i].text, text) == 0) {
            return true;
        }
    }
    return false;
}

/* Longer parts and names are in no table. */
#define PART_SIZE 24
#define NAME_SIZE 48

/* A name on its way through the normalisation: parts are looked at as they end, so a name may have any length. */
struct name_state {
    char part[PART_SIZE], whole[NAME_SIZE];
    size_t part_n, whole_n, count;
    bool secret, key, key_kind, url, signature;
    enum redact_rules rules;
};

static void part_end(struct name_state *s)
{
    if (!s->part_n) {
        return;
    }
    const char *part = s->part;
    s->part[s->part_n < PART_SIZE ? s->part_n : 0] = '\0';
    s->secret = s->secret || HAS(parts, part, s->rules);
    s->key = s->key || HAS(key_parts, part, s->rules);
    s->key_kind = s->key_kind || HAS(key_kinds, part, s->rules);
    s->url = strcmp(part, "url") == 0;
    s->signature = strcmp(part, "sig") == 0 || strcmp(part, "signature") == 0;
    s->part_n = 0;
    s->count++;
}

static void put(char *text, size_t size, size_t *n, char c)
{
    if (*n < size) {
        text[*n] = c;
    }
    *n += *n < size;
}

static void letter(struct name_state *s, char c)
{
    if (!s->part_n && s->count) {
        put(s->whole, NAME_SIZE, &s->whole_n, '_');
    }
    put(s->part, PART_SIZE, &s->part_n, c);
    put(s->whole, NAME_SIZE, &s->whole_n, c);
}

struct key_class key_class(struct str key, enum redact_rules rules)
{
    struct name_state s = {.rules = rules};
    char before = '\0';
    for (size_t i = 0; i < key.n; i++) {
        char c = key.p[i];
        bool upper = c >= 'A' && c <= 'Z', digit = c >= '0' && c <= '9';
        if (!upper && !digit && !(c >= 'a' && c <= 'z')) {
            part_end(&s);
        } else {
            if (upper && ((before >= 'a' && before <= 'z') || (before >= '0' && before <= '9'))) {
                part_end(&s);
            }
            letter(&s, upper ? (char)(c | 0x20) : c);
        }
        before = c;
    }
    part_end(&s);
    s.whole[s.whole_n < NAME_SIZE ? s.whole_n : 0] = '\0';
    bool secret = s.secret || (s.key && s.key_kind) || HAS(names, s.whole, rules);
    return (struct key_class){
        .secret = secret,
        .url = s.url && !secret && rules != REDACT_PLUGIN,
        .query_secret = secret || s.signature || HAS(query_names, s.whole, rules),
    };
}

bool redact_is_secret_key(struct str key)
{
    return key_class(key, REDACT_FULL).secret;
}

/* ---- masking ------------------------------------------------------------------------------------------------------ */

enum mode { OPEN, URLS, SECRET };

static json_t *mask(const json_t *value, enum mode mode, enum redact_rules rules, int depth);

static enum mode mode_of(struct str key, enum mode outer, enum redact_rules rules)
{
    if (outer == SECRET) {
        return SECRET;
    }
    struct key_class c = key_class(key, rules);
    return c.secret ? SECRET : c.url ? URLS : OPEN;
}

static json_t *mask_object(const json_t *value, enum mode mode, enum redact_rules rules, int depth)
{
    auto_json out = json_object();
    json_t *object = (json_t *)(uintptr_t)value;
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        struct str key = str_n(json_object_iter_key(it), json_object_iter_key_len(it));
        json_t *item =
            mask(json_object_iter_value(it), mode_of(key, mode, rules), rules, depth + 1);
        /* Takes the item over in any case, also when it is NULL. */
        if (json_object_setn_new_nocheck(out, key.p, key.n, item) != 0) {
            return NULL;
        }
    }
    return steal(out);
}

static json_t *mask_array(const json_t *value, enum mode mode, enum redact_rules rules, int depth)
{
    auto_json out = json_array();
    const json_t *item;
    size_t i;
    json_array_foreach (value, i, item) {
        if (!out || json_array_append_new(out, mask(item, mode, rules, depth + 1)) != 0) {
            return NULL;
        }
    }
    return steal(out);
}

static bool is_empty(const json_t *leaf)
{
    return json_is_null(leaf) || (json_is_string(leaf) && json_string_length(leaf) == 0);
}

static json_t *mask(const json_t *value, enum mode mode, enum redact_rules rules, int depth)
{
    if (depth > JSON_DEPTH_MAX) {
        /* Nothing so deep is let in; if it is here all the same, it is not shown. */
        return json_string(MASK);
    }
    if (json_is_object(value)) {
        return mask_object(value, mode == URLS ? OPEN : mode, rules, depth);
    }
    if (json_is_array(value)) {
        return mask_array(value, mode, rules, depth);
    }
    if (mode == SECRET && !is_empty(value)) {
        return json_string(MASK);
    }
    if (mode == URLS && json_is_string(value)) {
        return redact_url(json_sv(value), rules);
    }
    return json_deep_copy(value);
}

json_t *redact_with(const json_t *value, enum redact_rules rules)
{
    return mask(value, OPEN, rules, 0);
}

json_t *redact(const json_t *value)
{
    return redact_with(value, REDACT_FULL);
}

json_t *redact_leaves(const json_t *value)
{
    return mask(value, SECRET, REDACT_FULL, 0);
}

/* ---- restoring ---------------------------------------------------------------------------------------------------- */

struct restorer {
    enum redact_rules rules;
    struct buf path;
    struct error *err;
};

bool no_existing(struct error *err, const char *path)
{
    return err_set(err, ERR_INVALID, "Masked secret has no existing value (%s)", path);
}

static json_t *restore(struct restorer *r, const json_t *value, const json_t *stored,
                       enum mode mode, int depth);

static json_t *out_of_memory(struct restorer *r)
{
    err_set(r->err, ERR_NOMEM, "out of memory");
    return NULL;
}

static json_t *restore_object(struct restorer *r, const json_t *value, const json_t *stored,
                              enum mode mode, int depth)
{
    auto_json out = json_object();
    json_t *object = (json_t *)(uintptr_t)value;
    size_t before = r->path.n;
    if (!out) {
        return out_of_memory(r);
    }
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        struct str key = str_n(json_object_iter_key(it), json_object_iter_key_len(it));
        buf_fmt(&r->path, "%s" STR_FMT, before ? "." : "", STR_ARG(utf8_cut(key, 64)));
        json_t *item =
            restore(r, json_object_iter_value(it), json_object_getn(stored, key.p, key.n),
                    mode_of(key, mode, r->rules), depth + 1);
        if (!item) {
            return NULL;
        }
        if (json_object_setn_new_nocheck(out, key.p, key.n, item) != 0) {
            return out_of_memory(r);
        }
        r->path.n = before;
    }
    return steal(out);
}

static json_t *restore_array(struct restorer *r, const json_t *value, const json_t *stored,
                             enum mode mode, int depth)
{
    auto_json out = json_array();
    const json_t *item;
    size_t i, before = r->path.n;
    if (!out) {
        return out_of_memory(r);
    }
    json_array_foreach (value, i, item) {
        buf_fmt(&r->path, "%s%zu", before ? "." : "", i);
        json_t *made = restore(r, item, json_array_get(stored, i), mode, depth + 1);
        if (!made) {
            return NULL;
        }
        if (json_array_append_new(out, made) != 0) {
            return out_of_memory(r);
        }
        r->path.n = before;
    }
    return steal(out);
}

static json_t *restore(struct restorer *r, const json_t *value, const json_t *stored,
                       enum mode mode, int depth)
{
    if (depth > JSON_DEPTH_MAX) {
        err_set(r->err, ERR_INVALID, "nested too deeply");
        return NULL;
    }
    if (json_is_object(value)) {
        return restore_object(r, value, stored, mode == URLS ? OPEN : mode, depth);
    }
    if (json_is_array(value)) {
        return restore_array(r, value, stored, mode, depth);
    }
    if (mode != OPEN && str_eqz(json_sv(value), MASK)) {
        if (!stored || is_empty(stored)) {
            no_existing(r->err, buf_cstr(&r->path));
            return NULL;
        }
        json_t *copy = json_deep_copy(stored);
        return copy ? copy : out_of_memory(r);
    }
    if (mode == URLS && json_is_string(value)) {
        return restore_url(json_sv(value), json_sv(stored), r->rules, buf_cstr(&r->path), r->err);
    }
    json_t *copy = json_deep_copy(value);
    return copy ? copy : out_of_memory(r);
}

json_t *redact_restore_with(const json_t *submitted, const json_t *stored, enum redact_rules rules,
                            struct error *err)
{
    struct restorer r = {.rules = rules, .path = BUF(1 << 15), .err = err};
    json_t *out = restore(&r, submitted, stored, OPEN, 0);
    buf_free(&r.path);
    return out;
}

json_t *redact_restore(const json_t *submitted, const json_t *stored, struct error *err)
{
    return redact_restore_with(submitted, stored, REDACT_FULL, err);
}
