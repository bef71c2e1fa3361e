/* URLs and query strings: views stay inside the text, what is encoded decodes to itself. */
#include "net/net.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(struct str part, struct str whole)
{
    if (part.p && (part.p < whole.p || part.n > whole.n || part.p + part.n > whole.p + whole.n))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_n((const char *)data, size);
    struct error err;
    struct url u;
    if (url_parse(text, &u, &err)) {
        struct str parts[] = {u.scheme, u.user, u.host, u.path, u.query, u.fragment};
        for (size_t i = 0; i < array_len(parts); i++)
            inside(parts[i], text);
        if (u.host.n == 0 || u.scheme.n == 0 || memchr(text.p, '\0', text.n))
            abort();
        if (u.path.n > 0 && u.path.p[0] != '/')
            abort();
    }
    auto_arena a = arena_new(16 + size * 64 + 4096);
    struct str back = url_decode(a, url_encode(a, text), size % 2);
    if (!back.p || !str_eq(back, text))
        abort();
    struct str plain = url_decode(a, text, true);
    if (plain.n > text.n)
        abort();
    size_t n = query_count(text, "a");
    for (size_t i = 0; i < n && i < 8; i++) {
        if (!query_nth(a, text, "a", i).p)
            abort();
    }
    if (query_nth(a, text, "a", n).p)
        abort();
    return 0;
}
