/* The event-stream reader: the same events however the bytes are cut, and never more than the limit. */
#include "net/net.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX = 512 };

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

/* Cuts of `step` bytes; 0: sizes from `cuts`. False: over the limit. */
static bool feed(struct str in, size_t step, uint8_t cuts, struct digest *d)
{
    struct sse s;
    struct error err;
    bool ok = true;
    sse_init(&s, MAX);
    while (ok && in.n > 0) {
        size_t n = step ? step : 1 + cuts % 23;
        cuts = (uint8_t)(cuts * 5 + 7);
        struct str part = str_sub(in, 0, n);
        in = str_sub(in, n, in.n);
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
    if (size < 1)
        return 0;
    struct str in = str_n((const char *)data + 1, size - 1);
    struct digest whole = {0}, bytes = {0}, mixed = {0};
    bool a = feed(in, size, 0, &whole), b = feed(in, 1, 0, &bytes),
         c = feed(in, 0, data[0], &mixed);
    if (a != b || a != c)
        abort();
    if (whole.hash != bytes.hash || whole.hash != mixed.hash || whole.count != bytes.count ||
        whole.count != mixed.count)
        abort();
    return 0;
}
