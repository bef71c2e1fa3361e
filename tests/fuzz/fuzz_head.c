/* The head of a request and a chunked body behind it, without a connection: the same verdict however the bytes are cut (the first
 * byte says how), views inside the text, and nothing in a name or value that could start another line. */
#include "net/conn.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY_MAX = 600 };

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void clean_text(struct str part, struct str whole, bool spaces)
{
    check(part.n == 0 || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n));
    for (size_t i = 0; i < part.n; i++) {
        unsigned char c = (unsigned char)part.p[i];
        check(c != 0x7f && (c > ' ' || (spaces && (c == ' ' || c == '\t'))));
    }
}

static uint64_t body(struct str in, size_t step)
{
    struct chunked ck = {0};
    auto_buf out = BUF(BODY_MAX);
    enum chunked_result r = CHUNKED_MORE;
    size_t off = 0;
    while (r == CHUNKED_MORE && off < in.n) {
        size_t used = 0;
        struct str part = str_sub(in, off, step);
        r = chunked_feed(&ck, part.p, part.n, &used, &out);
        check(r != CHUNKED_MORE || used == part.n);
        check(used <= part.n && out.n <= BODY_MAX);
        off += used;
    }
    if (r == CHUNKED_BAD || r == CHUNKED_FULL)
        return (uint64_t)r;
    return ((uint64_t)off * 31 + str_hash(buf_view(&out))) * 8 + (uint64_t)r;
}

static void check_head(struct str text)
{
    static struct head h, again;
    struct str path, query;
    int status = head_parse(text.p, text.n, &h);
    check(status == 0 || (status >= 400 && status < 600));
    check(head_parse(text.p, text.n, &again) == status && again.header_count == h.header_count);
    if (status != 0)
        return;
    clean_text(h.target, text, false);
    for (size_t i = 0; i < h.header_count; i++) {
        check(h.headers[i].name.n > 0 && str_chr(h.headers[i].name, ':') < 0);
        clean_text(h.headers[i].name, text, false);
        clean_text(h.headers[i].value, text, true);
    }
    if (!head_target(h.target, &path, &query))
        return;
    check(path.n > 0 && (path.p[0] == '/' || str_eqz(path, "*")) && str_chr(path, '?') < 0);
    auto_arena a = arena_new(1 << 16);
    check(url_decode(a, path, false).n <= path.n);
    check(query_count(query, "a") == 0 || query_get(a, query, "a").p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t step = (size_t)data[0] % 40 + 1;
    struct str in = str_n((const char *)data + 1, size - 1);
    ptrdiff_t whole = head_scan(in.p, in.n, 0), cut = 0;
    for (size_t have = step, before = 0; cut == 0 && before < in.n; have += step) {
        have = have < in.n ? have : in.n;
        cut = head_scan(in.p, have, before);
        before = have;
    }
    check(whole == cut && whole <= (ptrdiff_t)in.n);
    if (whole > 0)
        check_head(str_n(in.p, (size_t)whole));
    struct str rest = whole > 0 ? str_sub(in, (size_t)whole, in.n) : in;
    check(body(rest, rest.n) == body(rest, step));
    return 0;
}
