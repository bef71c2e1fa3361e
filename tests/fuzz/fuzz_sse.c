/* The event-stream reader: the same events however the bytes are cut, and never more than the limit. */
#include "net/net.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX = 256 };

struct digest {
    uint64_t hash;
    size_t count;
};

static bool take(void *arg, struct str event, struct str data)
{
    struct digest *d = arg;
    if (event.n + data.n > MAX)
        abort();
    d->hash = (d->hash * 31 + str_hash(event)) * 31 + str_hash(data) + event.n;
    d->count++;
    return true;
}

/* Pieces of `step` bytes at most, all alike or (uneven) of many sizes. False: over the limit. */
static bool feed(struct str in, size_t step, bool uneven, struct digest *d)
{
    struct sse s;
    struct error err;
    bool ok = true;
    size_t turn = step;
    sse_init(&s, MAX);
    while (ok && in.n > 0) {
        struct str part = str_sub(in, 0, uneven ? 1 + turn % step : step);
        in = str_sub(in, part.n, in.n);
        turn = turn * 5 + 7;
        ok = sse_feed(&s, &part, take, d, &err);
        if (ok && part.n > 0)
            abort();
    }
    ok = ok && sse_end(&s, take, d, &err);
    sse_free(&s);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct str in = str_n((const char *)data + 1, size - 1);
    struct digest whole = {0}, cut = {0};
    bool a = feed(in, in.n, false, &whole);
    bool b = feed(in, 1 + data[0] % 32, data[0] >= 128, &cut);
    if (a != b || whole.hash != cut.hash || whole.count != cut.count)
        abort();
    return 0;
}
