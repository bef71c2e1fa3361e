/* Heads of requests: framing by our own strict scan, syntax and semantics by llhttp. The scan makes
 * sure that llhttp sees a whole head with nothing but CR LF as line ends, so that no two servers
 * can disagree about where a request ends. */
#include "net/conn.h"

#include <llhttp.h>

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

/* What must not follow: a carriage return alone, a folded header line (RFC 9112 §5.2). */
static bool bad_pair(char before, char c)
{
    return (before == '\r' && c != '\n') || (before == '\n' && blank(c));
}

/* Bytes of p that need no look: text, eight at a time as long as there are eight. */
static size_t skip_text(const char *p, size_t n)
{
    static const uint64_t ones = 0x0101010101010101U, high = 0x8080808080808080U;
    size_t i = 0;
    uint64_t v;
    for (; i + 8 <= n; i += 8) {
        memcpy(&v, p + i, 8);
        uint64_t control = (v - ones * 0x20) & ~v & high; /* some byte is below 0x20 */
        uint64_t x = v ^ ones * 0x7f, del = (x - ones) & ~x & high;
        if (control | del)
            break;
    }
    while (i < n && ((unsigned char)p[i] >= 0x20 && p[i] != 0x7f))
        i++;
    return i;
}

ptrdiff_t head_scan(const char *p, size_t n, size_t from)
{
    size_t i = from;
    if (i > 0 && i < n && bad_pair(p[i - 1], p[i]))
        return -1;
    for (;;) {
        i += skip_text(p + i, n - i);
        if (i >= n)
            return 0;
        char c = p[i];
        if (c == '\n') {
            if (i == 0 || p[i - 1] != '\r')
                return -1;
            if (i >= 3 && p[i - 2] == '\n')
                return (ptrdiff_t)i + 1;
        } else if (c != '\r' && c != '\t') {
            return -1;
        }
        i++;
        if (i < n && bad_pair(c, p[i]))
            return -1;
    }
}

struct parse {
    struct head *h;
    struct str name, value;
    bool too_many;
};

static int on_url(llhttp_t *l, const char *at, size_t n)
{
    struct parse *ps = l->data;
    struct str *t = &ps->h->target;
    *t = t->p ? str_n(t->p, (size_t)(at + n - t->p)) : str_n(at, n);
    return 0;
}

static int on_field(llhttp_t *l, const char *at, size_t n)
{
    struct parse *ps = l->data;
    ps->name = ps->name.p ? str_n(ps->name.p, (size_t)(at + n - ps->name.p)) : str_n(at, n);
    return 0;
}

static int on_value(llhttp_t *l, const char *at, size_t n)
{
    struct parse *ps = l->data;
    ps->value = ps->value.p ? str_n(ps->value.p, (size_t)(at + n - ps->value.p)) : str_n(at, n);
    return 0;
}

static int on_value_end(llhttp_t *l)
{
    struct parse *ps = l->data;
    if (ps->h->header_count == CONN_HEADERS_MAX) {
        ps->too_many = true;
        return HPE_USER;
    }
    struct str value = ps->value.p ? str_trim(ps->value) : S("");
    ps->h->headers[ps->h->header_count++] = (struct http_header){ps->name, value};
    ps->name = ps->value = STR_NONE;
    return 0;
}

static int on_head(llhttp_t *l)
{
    return HPE_PAUSED;
}

static enum http_method method_of(unsigned m)
{
    switch (m) {
    case HTTP_GET: return HTTP_M_GET;
    case HTTP_POST: return HTTP_M_POST;
    case HTTP_PUT: return HTTP_M_PUT;
    case HTTP_DELETE: return HTTP_M_DELETE;
    case HTTP_PATCH: return HTTP_M_PATCH;
    case HTTP_OPTIONS: return HTTP_M_OPTIONS;
    case HTTP_HEAD: return HTTP_M_HEAD;
    default: return HTTP_M_OTHER;
    }
}

/* What llhttp leaves to its user. Returns 0 or a status. */
static int head_check(struct head *h)
{
    int hosts = 0, encodings = 0;
    /* llhttp takes a tab for a part of the target; others end the target there. The scan has refused every other control. */
    if (str_chr(h->target, '\t') >= 0)
        return 400;
    for (size_t i = 0; i < h->header_count; i++) {
        struct http_header *hd = &h->headers[i];
        /* Spaces in and behind names (RFC 9112 §5.1): llhttp lets them pass, and others drop them.
         */
        if (hd->name.n == 0 || hd->name.p[hd->name.n] != ':' || str_chr(hd->name, ' ') >= 0)
            return 400;
        if (str_ieqz(hd->name, "host")) {
            hosts++;
        } else if (str_ieqz(hd->name, "transfer-encoding")) {
            /* Only "chunked" itself: a list of codings is legal but nobody sends it and proxies
             * disagree about it. */
            if (++encodings > 1 || !str_ieqz(hd->value, "chunked"))
                return 400;
        } else if (str_ieqz(hd->name, "expect")) {
            if (!str_ieqz(hd->value, "100-continue"))
                return 417;
            h->expect_continue = true;
        }
    }
    h->chunked = encodings > 0;
    if (h->chunked && (h->has_length || h->http10))
        return 400;
    if (hosts > 1 || (hosts == 0 && !h->http10))
        return 400;
    return 0;
}

int head_parse(const char *p, size_t n, struct head *h)
{
    static const llhttp_settings_t settings = {
        .on_url = on_url,
        .on_header_field = on_field,
        .on_header_value = on_value,
        .on_header_value_complete = on_value_end,
        .on_headers_complete = on_head,
    };
    struct parse ps = {.h = h};
    llhttp_t l;
    llhttp_init(&l, HTTP_REQUEST, (llhttp_settings_t *)(uintptr_t)&settings);
    l.data = &ps;
    h->header_count = 0;
    h->target = STR_NONE;
    h->expect_continue = false;
    llhttp_errno_t e = llhttp_execute(&l, p, n);
    if (ps.too_many)
        return 431;
    if (e != HPE_PAUSED)
        return 400;
    if (l.http_major != 1 || !h->target.p)
        return 400;
    h->http10 = l.http_minor == 0;
    h->method = method_of(l.method);
    h->has_length = (l.flags & F_CONTENT_LENGTH) != 0;
    h->content_length = h->has_length ? l.content_length : 0;
    h->keep_alive =
        h->http10 ? (l.flags & F_CONNECTION_KEEP_ALIVE) != 0 && !(l.flags & F_CONNECTION_CLOSE)
                  : (l.flags & F_CONNECTION_CLOSE) == 0;
    return head_check(h);
}

bool head_target(struct str target, struct str *path, struct str *query)
{
    if (str_istarts(target, S("http://")) || str_istarts(target, S("https://"))) {
        target = str_sub(target, (size_t)str_find(target, S("://")) + 3, target.n);
        size_t end = 0;
        while (end < target.n && target.p[end] != '/' && target.p[end] != '?')
            end++;
        if (end == 0)
            return false;
        target = str_sub(target, end, target.n);
        if (target.n == 0)
            target = S("/");
    }
    ptrdiff_t hash = str_chr(target, '#');
    if (hash >= 0)
        target.n = (size_t)hash;
    ptrdiff_t q = str_chr(target, '?');
    *path = q < 0 ? target : str_sub(target, 0, (size_t)q);
    *query = q < 0 ? S("") : str_sub(target, (size_t)q + 1, target.n);
    return str_starts(*path, S("/")) || str_eqz(*path, "*");
}
