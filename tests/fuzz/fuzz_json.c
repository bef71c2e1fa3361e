/* Lines of JSON: each is read or refused, what is read is written back so that it reads the same, and stays in memory that is
 * returned. */
#include "base/base.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void one(struct str line)
{
    struct error err = {0};
    auto_json strict = json_parse(line, &err);
    check(strict || err.msg[0]);
    auto_json j = json_parse_words(line, &err);
    check(j || !strict);
    check(!strict || json_equal(strict, j));
    if (!j)
        return;
    auto_buf out = BUF(1 << 20);
    check(json_put(&out, j) && utf8_valid(buf_view(&out)) && str_chr(buf_view(&out), '\n') < 0);
    auto_json back = json_parse_words(buf_view(&out), &err);
    check(json_equal(back, j));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready) {
        base_init();
        ready = true;
    }
    struct str rest = str_n((const char *)data, size), line;
    for (int n = 0; n < 8 && str_split(&rest, '\n', &line); n++)
        one(line);
    return 0;
}
