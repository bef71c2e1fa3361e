/* Thoughts are taken out of an answer: the same text remains however the answer was cut (the first byte says how), and no more than
 * came. Answers here are shorter than what is held back, so that an orphan close tag is always seen in time. */
#include "model/model_private.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void visible(struct str in, size_t step, bool patient, struct buf *out)
{
    struct think t;
    think_init(&t, patient ? SIZE_MAX : THINK_HOLD);
    for (size_t off = 0; off < in.n; off += step) {
        if (!think_feed(&t, str_sub(in, off, step), out))
            abort();
    }
    if (!think_end(&t, out) || out->n > in.n)
        abort();
    think_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > THINK_HOLD)
        return 0;
    struct str in = str_n((const char *)data + 1, size - 1);
    auto_buf whole = BUF(THINK_HOLD), cut = BUF(THINK_HOLD), hasty = BUF(THINK_HOLD),
             strip = BUF(THINK_HOLD);
    visible(in, in.n, true, &whole);
    visible(in, 1 + data[0] % 32, true, &cut);
    visible(in, 1 + data[0] % 32, false, &hasty);
    if (!think_strip(in, &strip))
        abort();
    if (!str_eq(buf_view(&whole), buf_view(&cut)) || !str_eq(buf_view(&whole), buf_view(&hasty)) ||
        !str_eq(buf_view(&whole), buf_view(&strip)))
        abort();
    return 0;
}
