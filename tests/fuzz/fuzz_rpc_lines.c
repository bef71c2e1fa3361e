/* The line framing: the same messages however the bytes are cut, bounded, and what is written is read back. The first byte says
 * how the bytes are cut. */
#include "rpc/rpc_private.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Hash over the messages; the sign of a broken sequence is part of it. */
static uint64_t messages(struct str in, size_t step)
{
    struct rpc_lines l;
    struct error err = {0};
    struct str text;
    uint64_t hash = 0;
    rpc_lines_init(&l);
    for (size_t at = 0; at < in.n; at += step) {
        struct str piece = str_sub(in, at, step);
        if (!rpc_lines_add(&l, piece.p, piece.n, &err))
            abort();
        while (rpc_lines_next(&l, &text, &err)) {
            if (text.n > RPC_MESSAGE_MAX)
                abort();
            hash = hash * 31 + str_hash(text) + 1;
        }
        if (err.code != ERR_NONE) {
            hash = hash * 31 + 7;
            break;
        }
    }
    rpc_lines_free(&l);
    return hash;
}

/* A message survives the way through the lines; the mended text of one that the parser refused is no worse than before. */
static void round_trip(struct str text)
{
    struct error err = {0};
    struct buf out = BUF(1 << 20), mended = BUF(1 << 20);
    struct rpc_lines l;
    struct str got;
    json_t *j = json_parse_words(text, &err);
    if (json_is_object(j) && json_put(&out, j)) {
        struct buf lines = BUF(1 << 20);
        rpc_lines_init(&l);
        if (!rpc_lines_put(&lines, buf_view(&out), &err) ||
            !rpc_lines_add(&l, lines.p, lines.n, &err))
            abort();
        bool chunk = str_find(buf_view(&out), S("\"chunk_")) >= 0;
        if (!chunk && (!rpc_lines_next(&l, &got, &err) || !str_eq(got, buf_view(&out))))
            abort();
        rpc_lines_free(&l);
        buf_free(&lines);
    } else if (!j && rpc_mend(text, &mended)) {
        json_decref(json_parse_words(buf_view(&mended), &err));
    }
    json_t *context = NULL;
    if (json_is_object(j) && rpc_context_check(j, &context, &err) &&
        (!*json_z_or(context, "instance_uuid", "") ||
         json_i_or(context, "placement_generation", 0) < 1))
        abort();
    json_decref(context);
    json_decref(j);
    buf_free(&out);
    buf_free(&mended);
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
    if (messages(in, (size_t)data[0] + 1) != messages(in, in.n))
        abort();
    round_trip(in);
    if (mem_live() != blocks)
        abort();
    return 0;
}
