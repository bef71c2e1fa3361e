/* lines: the byte level of the protocol over streams (box.md §1.2): one line is one message, and
 * what is larger comes as a sequence of chunks. */
#include "rpc/rpc.h"

#include <stdio.h>

enum {
    PIECE_ESCAPED =
        60000,       /* bytes of a chunk's text once escaped: with its frame below RPC_LINE_MAX */
    KEEP = 64 * 1024 /* bytes of an idle read buffer that are not given back */
};

void rpc_lines_init(struct rpc_lines *l)
{
    *l = (struct rpc_lines){.in = BUF(RPC_LINE_READ_MAX + RPC_LINE_MAX),
                            .message = BUF(RPC_MESSAGE_MAX)};
}

void rpc_lines_free(struct rpc_lines *l)
{
    buf_free(&l->in);
    buf_free(&l->message);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Drops what was taken, so that `in` begins with unread bytes. */
static void settle(struct rpc_lines *l)
{
    if (l->at == 0)
        return;
    buf_eat(&l->in, l->at);
    l->scanned -= l->at;
    l->at = 0;
    if (l->in.n == 0 && l->in.cap > KEEP)
        buf_free(&l->in);
}

bool rpc_lines_add(struct rpc_lines *l, const void *p, size_t n, struct error *err)
{
    settle(l);
    if (!buf_add(&l->in, p, n))
        return err_set(err, ERR_NOMEM, "out of memory for received bytes");
    return true;
}

/* The next line without its LF, trimmed. False: none is whole yet. */
static bool next_line(struct rpc_lines *l, struct str *line)
{
    const char *from = l->in.p + l->scanned;
    const char *end = l->in.n > l->scanned ? memchr(from, '\n', l->in.n - l->scanned) : NULL;
    if (!end) {
        l->scanned = l->in.n;
        return false;
    }
    size_t stop = (size_t)(end - l->in.p);
    *line = str_trim(str_n(l->in.p + l->at, stop - l->at));
    l->at = l->scanned = stop + 1;
    return true;
}

static bool chunk_start(struct rpc_lines *l, const json_t *j, struct error *err)
{
    const json_t *total = json_object_get(j, "total_size");
    l->total = json_is_integer(total) ? json_integer_value(total) : -1;
    if (l->total < 0 || l->total > RPC_MESSAGE_MAX)
        return err_set(err, ERR_PROTOCOL, "total_size of a chunk sequence must be 0 to %d",
                       RPC_MESSAGE_MAX);
    l->chunked = true;
    l->lines = 0;
    buf_clear(&l->message);
    return true;
}

static bool chunk_data(struct rpc_lines *l, const json_t *j, struct error *err)
{
    const json_t *offset = json_object_get(j, "offset"), *data = json_object_get(j, "data");
    struct str text = json_sv(data);
    if (!json_is_string(data) || !json_is_integer(offset) ||
        json_integer_value(offset) != (json_int_t)l->message.n)
        return err_set(err, ERR_PROTOCOL, "a chunk must have its data at offset %zu", l->message.n);
    if (text.n > (size_t)l->total - l->message.n)
        return err_set(err, ERR_PROTOCOL, "the chunks hold more than the declared %lld bytes",
                       (long long)l->total);
    if (!buf_str(&l->message, text))
        return err_set(err, ERR_NOMEM, "out of memory for a message in chunks");
    return true;
}

/* One line inside a sequence; *done when it was the last. */
static bool chunk_line(struct rpc_lines *l, struct str line, bool *done, struct error *err)
{
    struct error ignored;
    *done = false;
    if (++l->lines > RPC_FRAGMENTS_MAX)
        return err_set(err, ERR_PROTOCOL, "a chunk sequence has more than %d lines",
                       RPC_FRAGMENTS_MAX);
    if (line.n == 0)
        return true;
    auto_json j = json_parse_words(line, &ignored);
    struct str type = json_s(j, "type");
    if (str_eqz(type, "chunk_data"))
        return chunk_data(l, j, err);
    if (!str_eqz(type, "chunk_end"))
        return true;
    if ((json_int_t)l->message.n != l->total)
        return err_set(err, ERR_PROTOCOL, "the chunks hold %zu of the declared %lld bytes",
                       l->message.n, (long long)l->total);
    l->chunked = false;
    *done = true;
    return true;
}

/* A line outside of a sequence: true if it is a message; a chunk_start begins a sequence. */
static bool plain_line(struct rpc_lines *l, struct str line, struct error *err)
{
    if (line.n < 2 || line.p[0] != '{' || line.p[line.n - 1] != '}')
        return false;
    if (line.n > RPC_LINE_MAX || str_find(line, S("\"chunk_")) < 0)
        return true;
    struct error ignored;
    auto_json j = json_parse_words(line, &ignored);
    struct str type = json_s(j, "type");
    if (str_eqz(type, "chunk_start")) {
        if (!chunk_start(l, j, err))
            return false;
    } else if (!str_eqz(type, "chunk_data") && !str_eqz(type, "chunk_end")) {
        return true;
    }
    return false;
}

bool rpc_lines_next(struct rpc_lines *l, struct str *text, struct error *err)
{
    struct str line;
    err->code = ERR_NONE;
    if (!l->chunked)
        buf_free(&l->message); /* handed out by the last call */
    while (next_line(l, &line)) {
        if (l->chunked) {
            bool done;
            if (!chunk_line(l, line, &done, err))
                return false;
            if (done) {
                *text = l->message.n ? buf_view(&l->message) : S("");
                return true;
            }
        } else if (plain_line(l, line, err)) {
            *text = line;
            return true;
        } else if (err->code != ERR_NONE) {
            return false;
        }
    }
    if (l->in.n - l->at > RPC_LINE_READ_MAX)
        return err_set(err, ERR_PROTOCOL, "a line is longer than %d bytes", RPC_LINE_READ_MAX);
    settle(l);
    return false;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Bytes of the next chunk: whole characters, bounded as they are and once escaped. */
static size_t piece_of(struct str text)
{
    size_t n = 0, escaped = 0;
    while (n < text.n && n < RPC_CHUNK) {
        unsigned char c = (unsigned char)text.p[n];
        escaped += c < 0x20 ? 6 : c == '"' || c == '\\' ? 2 : 1;
        if (escaped > PIECE_ESCAPED)
            break;
        n++;
    }
    while (n < text.n && n > 1 && ((unsigned char)text.p[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static bool put_piece(struct buf *out, struct str piece, size_t offset)
{
    auto_json data = json_strn(piece);
    return data && buf_z(out, "{\"type\":\"chunk_data\",\"data\":") && json_put(out, data) &&
           buf_fmt(out, ",\"offset\":%zu}\n", offset);
}

bool rpc_lines_put(struct buf *out, struct str text, struct error *err)
{
    if (text.n > RPC_MESSAGE_MAX)
        return err_set(err, ERR_TOO_LARGE, "a message must not be longer than %d bytes",
                       RPC_MESSAGE_MAX);
    if (text.n <= RPC_CHUNK) {
        if (buf_str(out, text) && buf_c(out, '\n'))
            return true;
        return err_set(err, ERR_NOMEM, "out of memory for a message");
    }
    size_t had = out->n, pieces = 0;
    buf_fmt(out, "{\"type\":\"chunk_start\",\"total_size\":%zu}\n", text.n);
    for (size_t at = 0; at < text.n; pieces++) {
        struct str rest = str_sub(text, at, text.n - at);
        size_t n = piece_of(rest);
        if (pieces + 1 >= RPC_FRAGMENTS_MAX) {
            out->n = had;
            return err_set(err, ERR_TOO_LARGE, "a message must not need more than %d chunks",
                           RPC_FRAGMENTS_MAX);
        }
        if (!put_piece(out, str_n(rest.p, n), at))
            return err_set(err, ERR_NOMEM, "out of memory for a message");
        at += n;
    }
    if (!buf_z(out, "{\"type\":\"chunk_end\"}\n"))
        return err_set(err, ERR_NOMEM, "out of memory for a message");
    return true;
}
