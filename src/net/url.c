/* URLs, percent encoding and query strings (RFC 3986). Everything is a view into the caller's
 * text or in its arena. */
#include "net/net.h"

static bool is_alnum(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool host_valid(struct str host, bool bracketed)
{
    if (host.n == 0 || host.n > 255)
        return false;
    for (size_t i = 0; i < host.n; i++) {
        unsigned char c = (unsigned char)host.p[i];
        bool ok = bracketed ? (hex_value((char)c) >= 0 || c == ':' || c == '.')
                            : (is_alnum(c) || c == '-' || c == '.' || c == '_' || c >= 0x80);
        if (!ok)
            return false;
    }
    return true;
}

static bool port_parse(struct str text, uint16_t *port)
{
    *port = 0;
    if (text.n == 0)
        return true;
    if (text.n > 5)
        return false;
    unsigned value = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text.p[i] - '0');
    }
    *port = (uint16_t)value;
    return value > 0 && value <= 65535;
}

/* user@host:port; the last '@' ends the user, as browsers and curl have it. */
static bool authority_parse(struct str text, struct url *out, struct error *err)
{
    for (size_t i = text.n; i > 0; i--) {
        if (text.p[i - 1] == '@') {
            out->user = str_n(text.p, i - 1);
            text = str_sub(text, i, text.n);
            break;
        }
    }
    bool bracketed = text.n > 0 && text.p[0] == '[';
    struct str rest;
    if (bracketed) {
        ptrdiff_t end = str_chr(text, ']');
        if (end < 0)
            return err_set(err, ERR_INVALID, "URL: '[' without ']'");
        out->host = str_sub(text, 1, (size_t)end - 1);
        rest = str_sub(text, (size_t)end + 1, text.n);
    } else {
        ptrdiff_t colon = str_chr(text, ':');
        size_t end = colon < 0 ? text.n : (size_t)colon;
        out->host = str_n(text.p, end);
        rest = str_sub(text, end, text.n);
    }
    if (!host_valid(out->host, bracketed))
        return err_set(err, ERR_INVALID, "URL: the host is missing or not valid");
    if (rest.n > 0 && (rest.p[0] != ':' || !port_parse(str_sub(rest, 1, rest.n), &out->port)))
        return err_set(err, ERR_INVALID, "URL: the port must be a number from 1 to 65535");
    return true;
}

bool url_parse(struct str text, struct url *out, struct error *err)
{
    static const char *const schemes[] = {"http", "https", "ws", "wss"};

    *out = (struct url){0};
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c <= 0x20 || c == 0x7f)
            return err_set(err, ERR_INVALID, "URL: spaces and control characters are not allowed");
    }
    ptrdiff_t colon = str_find(text, S("://"));
    if (colon <= 0)
        return err_set(err, ERR_INVALID, "URL: must start with http:// or https://");
    out->scheme = str_n(text.p, (size_t)colon);
    bool known = false;
    for (size_t i = 0; i < array_len(schemes); i++)
        known |= str_ieqz(out->scheme, schemes[i]);
    if (!known)
        return err_set(err, ERR_INVALID, "URL: the scheme must be http, https, ws or wss");

    struct str rest = str_sub(text, (size_t)colon + 3, text.n);
    size_t end = 0;
    while (end < rest.n && !memchr("/?#\\", rest.p[end], 4))
        end++;
    if (end < rest.n &&
        rest.p[end] == '\\') /* some clients read it as '/': two readings of one host */
        return err_set(err, ERR_INVALID, "URL: '\\' is not allowed in the host");
    if (!authority_parse(str_n(rest.p, end), out, err))
        return false;
    rest = str_sub(rest, end, rest.n);

    ptrdiff_t hash = str_chr(rest, '#');
    if (hash >= 0) {
        out->fragment = str_sub(rest, (size_t)hash + 1, rest.n);
        rest = str_n(rest.p, (size_t)hash);
    }
    ptrdiff_t mark = str_chr(rest, '?');
    if (mark >= 0) {
        out->query = str_sub(rest, (size_t)mark + 1, rest.n);
        rest = str_n(rest.p, (size_t)mark);
    }
    out->path = rest;
    return true;
}

/* One decoded byte from s at *pos, which moves on. */
static char decode_at(struct str s, size_t *pos, bool plus_is_space)
{
    char c = s.p[*pos];
    if (c == '%' && s.n - *pos >= 3) {
        int hi = hex_value(s.p[*pos + 1]), lo = hex_value(s.p[*pos + 2]);
        if (hi >= 0 && lo >= 0) {
            *pos += 3;
            return (char)(hi * 16 + lo);
        }
    }
    *pos += 1;
    return c == '+' && plus_is_space ? ' ' : c;
}

struct str url_decode(struct arena *a, struct str s, bool plus_is_space)
{
    char *out = arena_alloc(a, s.n + 1);
    if (!out)
        return STR_NONE;
    size_t n = 0;
    for (size_t pos = 0; pos < s.n;)
        out[n++] = decode_at(s, &pos, plus_is_space);
    return str_n(out, n);
}

struct str url_encode(struct arena *a, struct str s)
{
    static const char digits[] = "0123456789ABCDEF";

    char *out = arena_alloc(a, s.n * 3 + 1);
    if (!out)
        return STR_NONE;
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~') {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = digits[c >> 4];
            out[n++] = digits[c & 15];
        }
    }
    return str_n(out, n);
}

static bool key_matches(struct str encoded, const char *key)
{
    size_t pos = 0, i = 0;
    while (pos < encoded.n) {
        char c = decode_at(encoded, &pos, true);
        if (key[i] == '\0' || key[i] != c)
            return false;
        i++;
    }
    return key[i] == '\0';
}

/* The next pair of *rest whose key is `key`; its value, not decoded, in *value. */
static bool query_next(struct str *rest, const char *key, struct str *value)
{
    struct str pair;
    while (str_split(rest, '&', &pair)) {
        ptrdiff_t eq = str_chr(pair, '=');
        struct str name = eq < 0 ? pair : str_n(pair.p, (size_t)eq);
        if (pair.n == 0 || !key_matches(name, key))
            continue;
        *value = eq < 0 ? S("") : str_sub(pair, (size_t)eq + 1, pair.n);
        return true;
    }
    return false;
}

struct str query_nth(struct arena *a, struct str query, const char *key, size_t index)
{
    struct str value;
    while (query_next(&query, key, &value)) {
        if (index-- == 0)
            return url_decode(a, value, true);
    }
    return STR_NONE;
}

struct str query_get(struct arena *a, struct str query, const char *key)
{
    return query_nth(a, query, key, 0);
}

size_t query_count(struct str query, const char *key)
{
    struct str value;
    size_t n = 0;
    while (query_next(&query, key, &value))
        n++;
    return n;
}
