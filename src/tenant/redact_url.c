/* redact_url: the secret parts of an address, masked and put back. Any scheme: a database's address holds a password as well
 * as a web page's, so net's parser for the web does not fit. All work is on the text: what is not secret stays byte for byte. */
#include "tenant/redact_private.h"

#include "net/net.h"

#define URL_MAX   ((size_t)8192) /* a longer one is masked as a whole */
#define ARENA_MAX ((size_t)2 << 20)

struct parts {
    struct str front;    /* up to and with "//"; empty if there is none */
    struct str user;     /* before the '@'; p NULL: no '@' */
    struct str host;     /* rest of the authority and path, up to the query */
    struct str query;    /* without '?'; p NULL: none */
    struct str fragment; /* with '#' or empty */
};

static bool port_ok(struct str port)
{
    for (size_t i = 0; i < port.n; i++) {
        if (port.p[i] < '0' || port.p[i] > '9') {
            return false;
        }
    }
    return port.n <= 5;
}

/* host[:port] or [v6][:port]. A colon that leads no port is what a password with a slash in it looks like. */
static bool authority_ok(struct str s)
{
    if (s.n && s.p[0] == '[') {
        ptrdiff_t end = str_chr(s, ']');
        if (end < 0) {
            return false;
        }
        struct str rest = str_sub(s, (size_t)end + 1, s.n);
        return !rest.n || (rest.p[0] == ':' && port_ok(str_sub(rest, 1, rest.n)));
    }
    if (str_chr(s, '[') >= 0 || str_chr(s, ']') >= 0) {
        return false;
    }
    ptrdiff_t colon = str_chr(s, ':');
    return colon < 0 || port_ok(str_sub(s, (size_t)colon + 1, s.n));
}

/* The first of the bytes in `set`; s.n if there is none. */
static size_t first_of(struct str s, const char *set)
{
    size_t at = 0;
    while (at < s.n && (!s.p[at] || !strchr(set, s.p[at]))) {
        at++;
    }
    return at;
}

static bool cut(struct str url, struct parts *out)
{
    *out = (struct parts){.host = url};
    for (size_t i = 0; i < url.n; i++) {
        if ((unsigned char)url.p[i] < 0x20 || url.p[i] == 0x7f) {
            return false;
        }
    }
    size_t end = first_of(url, "#");
    out->fragment = str_sub(url, end, url.n);
    struct str rest = str_sub(url, 0, end);
    end = first_of(rest, "?");
    if (end < rest.n) {
        out->query = str_sub(rest, end + 1, rest.n);
        rest = str_sub(rest, 0, end);
    }
    out->host = rest;
    /* "//" counts at the front or behind "scheme:"; elsewhere it is part of a path. */
    ptrdiff_t slashes = str_find(rest, S("//"));
    if (slashes < 0 || !(slashes == 0 || first_of(rest, ":/") == (size_t)slashes - 1)) {
        return true;
    }
    out->front = str_sub(rest, 0, (size_t)slashes + 2);
    rest = str_sub(rest, (size_t)slashes + 2, rest.n);
    struct str authority = str_sub(rest, 0, first_of(rest, "/"));
    for (size_t i = authority.n; i > 0; i--) {
        if (authority.p[i - 1] == '@') {
            out->user = str_sub(authority, 0, i - 1);
            authority = str_sub(authority, i, authority.n);
            rest = str_sub(rest, i, rest.n);
            break;
        }
    }
    out->host = rest;
    return authority_ok(authority);
}

struct pair {
    struct str raw_key, raw_value; /* as they stand */
    struct str key;                /* decoded */
    bool has_value;                /* there is a '=' */
};

struct query {
    struct pair *pairs;
    size_t n;
};

static bool query_parse(struct arena *a, struct str text, struct query *out)
{
    struct str rest = text, part;
    size_t most = text.p ? 1 : 0;
    for (size_t i = 0; i < text.n; i++) {
        most += text.p[i] == '&';
    }
    *out = (struct query){.pairs = arena_alloc(a, most * sizeof(struct pair))};
    while (out->pairs && str_split(&rest, '&', &part)) {
        size_t eq = first_of(part, "=");
        struct pair *p = &out->pairs[out->n++];
        *p = (struct pair){.raw_key = str_sub(part, 0, eq), .has_value = eq < part.n};
        p->key = url_decode(a, p->raw_key, true);
        if (p->has_value) {
            p->raw_value = str_sub(part, eq + 1, part.n);
        }
    }
    return !arena_failed(a);
}

static bool is_mask(struct arena *a, struct str raw)
{
    return str_eqz(raw, MASK) || (raw.n <= 9 && str_eqz(url_decode(a, raw, true), MASK));
}

/* The value that stands in `old` at the same occurrence of the key as pair `at` does in `q`. */
static bool old_value(const struct query *q, size_t at, const struct query *old, struct str *out)
{
    struct str key = q->pairs[at].key;
    size_t before = 0;
    for (size_t i = 0; i < at; i++) {
        before += str_eq(q->pairs[i].key, key);
    }
    for (size_t i = 0; i < old->n; i++) {
        if (str_eq(old->pairs[i].key, key) && before-- == 0) {
            *out = old->pairs[i].raw_value;
            return out->n > 0;
        }
    }
    return false;
}

/* Writes the query with its secret values masked (old NULL) or put back; false: one has no old value. */
static bool query_put(struct arena *a, struct buf *b, const struct query *q,
                      const struct query *old, enum redact_rules rules)
{
    for (size_t i = 0; i < q->n; i++) {
        const struct pair *p = &q->pairs[i];
        struct str value = p->raw_value;
        if (p->has_value && value.n && key_class(p->key, rules).query_secret) {
            if (!old) {
                value = S(MASK);
            } else if (is_mask(a, value) && !old_value(q, i, old, &value)) {
                return false;
            }
        }
        buf_z(b, i ? "&" : "");
        buf_str(b, p->raw_key);
        buf_z(b, p->has_value ? "=" : "");
        buf_str(b, value);
    }
    return true;
}

/* Puts the address together again; `user` instead of its own. */
static bool put(struct arena *a, struct buf *b, const struct parts *p, struct str user,
                const struct query *q, const struct query *old, enum redact_rules rules)
{
    buf_str(b, p->front);
    buf_str(b, user);
    buf_z(b, user.p ? "@" : "");
    buf_str(b, p->host);
    buf_z(b, p->query.p ? "?" : "");
    if (!query_put(a, b, q, old, rules)) {
        return false;
    }
    buf_str(b, p->fragment);
    return true;
}

json_t *redact_url(struct str url, enum redact_rules rules)
{
    struct parts p;
    struct query q;
    auto_arena a = arena_new(ARENA_MAX);
    auto_buf b = BUF(URL_MAX * 2);
    if (!url.n) {
        return json_string("");
    }
    if (url.n > URL_MAX || !cut(url, &p)) {
        return json_string(MASK);
    }
    if (!a || !query_parse(a, p.query, &q)) {
        return NULL;
    }
    put(a, &b, &p, p.user.p ? S(MASK) : STR_NONE, &q, NULL, rules);
    return b.failed || arena_failed(a) ? NULL : json_strn(buf_view(&b));
}

static json_t *out_of_memory(struct error *err)
{
    err_set(err, ERR_NOMEM, "out of memory");
    return NULL;
}

json_t *restore_url(struct str submitted, struct str stored, enum redact_rules rules,
                    const char *path, struct error *err)
{
    struct parts p, old;
    struct query q, old_query;
    auto_arena a = arena_new(ARENA_MAX);
    auto_buf b = BUF(URL_MAX * 2);
    if (submitted.n > URL_MAX || !cut(submitted, &p)) {
        json_t *same = json_strn(submitted);
        return same ? same : out_of_memory(err);
    }
    if (stored.n > URL_MAX || !cut(stored, &old)) {
        old = (struct parts){.host = STR_NONE};
    }
    if (!a || !query_parse(a, p.query, &q) || !query_parse(a, old.query, &old_query)) {
        return out_of_memory(err);
    }
    struct str user = p.user;
    if (user.p && is_mask(a, user)) {
        user = old.user;
    }
    if ((p.user.p && !user.p) || !put(a, &b, &p, user, &q, &old_query, rules)) {
        no_existing(err, path);
        return NULL;
    }
    json_t *out = b.failed || arena_failed(a) ? NULL : json_strn(buf_view(&b));
    return out ? out : out_of_memory(err);
}
