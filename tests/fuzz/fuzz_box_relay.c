/* The relay's lines and the preview of stderr: however the output of a process is cut, the same lines come, joined they are the
 * output, and the preview is bounded valid text. */
#include "box/server.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* What the lines, each with its end, and the rest make together must be the input. */
static size_t lines(struct str in, size_t step)
{
    struct buf b = BUF(1 << 20), all = BUF(1 << 20);
    size_t scanned = 0, count = 0;
    for (size_t at = 0; at < in.n; at += step) {
        struct str piece = str_sub(in, at, step), line;
        size_t from = 0;
        must(buf_str(&b, piece));
        while (relay_line(&b, from, &scanned, &line)) {
            must(str_chr(line, '\n') < 0);
            buf_str(&all, line);
            buf_c(&all, '\n');
            from = scanned;
            count++;
        }
        buf_eat(&b, from);
        scanned -= from;
    }
    buf_str(&all, buf_view(&b));
    must(str_eq(buf_view(&all), in));
    buf_free(&b);
    buf_free(&all);
    return count;
}

static void preview(struct str in, size_t step)
{
    struct preview v = {0};
    for (int i = 0; i < 9; i++) {
        for (size_t at = 0; at < in.n; at += step) {
            struct arena *a = arena_new(1 << 16);
            preview_add(&v, utf8_clean(a, str_sub(in, at, step)));
            arena_free(a);
        }
    }
    json_t *text = preview_text(&v);
    must(text && utf8_count(json_sv(text)) <= PREVIEW_MAX);
    json_decref(text);
    preview_free(&v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready) {
        base_init();
        log_setup(LOG_ERROR, false, -1);
        ready = true;
    }
    if (size < 2)
        return 0;
    struct str in = str_n((const char *)data + 1, size - 1);
    long blocks = mem_live();
    must(lines(in, (size_t)data[0] + 1) == lines(in, in.n));
    preview(in, in.n > 64 ? in.n / 4 : in.n);
    must(mem_live() == blocks);
    return 0;
}
