/* Multipart bodies: the first line is the content type, the rest the body. All parts must lie
 * inside the body. */
#include "net/net.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err;
    struct http_part *parts;
    size_t n;
    struct str rest = str_n((const char *)data, size), type;
    auto_arena a = arena_new(1 << 20);
    if (!str_split(&rest, '\n', &type) || !a)
        return 0;
    if (!multipart_parse(a, type, rest, &parts, &n, &err))
        return 0;
    if (n > 64)
        abort();
    for (size_t i = 0; i < n; i++) {
        struct str d = parts[i].data;
        if (!parts[i].name.p || d.p < rest.p || d.p + d.n > rest.p + rest.n)
            abort();
    }
    return 0;
}
