/* WebSockets of both roles: sending, receiving, closing. Frames to send are built here (a header
 * and, as client, a mask); received ones are parsed by wslay (ws_parse.c). */
#include "net/ws_private.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    OP_TEXT = 1,
    OP_BINARY = 2,
    OP_CLOSE = 8,
    OP_PING = 9,
    CLOSE_WAIT_MS = 1000,
    BLOCK_SIZE = 16384,
    DRAIN_WAIT_MS = 250
};

/* All sockets are read on the loop thread, one at a time. */
static char read_buffer[64 * 1024];

bool ws_random(void *p, size_t n)
{
    return getrandom(p, n, 0) == (ssize_t)n;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct ws *w = h->data;
    struct http_server *s = w->server;
    mem_free(w);
    if (!s)
        return;
    s->handles--;
    if (s->handles == 0 && s->stopper)
        task_wake(s->stopper);
}

void ws_gone(struct ws *w)
{
    if (w->eof)
        return;
    w->eof = w->over = true;
    uv_poll_stop(&w->poll);
    w->watched = 0;
    if (w->reader)
        task_wake(w->reader);
    if (w->closer)
        task_wake(w->closer);
}

/* -1: broken, 0: would block or the peer's last byte was seen (then eof is set). */
static ssize_t ws_read(struct ws *w)
{
    if (w->easy) {
        size_t n = 0;
        CURLcode rc = curl_easy_recv(w->easy, read_buffer, sizeof(read_buffer), &n);
        if (rc == CURLE_AGAIN)
            return 0;
        if (rc != CURLE_OK || n == 0)
            return -1;
        return (ssize_t)n;
    }
    ssize_t n = recv(w->fd, read_buffer, sizeof(read_buffer), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return n > 0 ? n : -1;
}

/* libcurl's twin of outq_flush: the bytes may have to go through TLS. OpenSSL insists that a write
 * that would block is repeated with the same pointer, which the growing queue cannot promise, so
 * blocks go out by way of a buffer that stays in place until its block is taken. */
static bool flush_curl(struct ws *w)
{
    struct outq *q = &w->out;
    while (q->off < q->b.n) {
        if (!w->block && !(w->block = mem_alloc(BLOCK_SIZE)))
            return false;
        if (w->block_n == 0) {
            w->block_n = q->b.n - q->off < BLOCK_SIZE ? q->b.n - q->off : BLOCK_SIZE;
            memcpy(w->block, q->b.p + q->off, w->block_n);
        }
        size_t n = 0;
        CURLcode rc = curl_easy_send(w->easy, w->block, w->block_n, &n);
        if (rc == CURLE_AGAIN)
            return true;
        if (rc != CURLE_OK)
            return false;
        q->off += n;
        w->block_n = 0;
    }
    mem_free(steal(w->block));
    outq_free(q);
    return true;
}

static bool flush(struct ws *w)
{
    bool ok = w->easy ? flush_curl(w) : outq_flush(&w->out, w->fd);
    if (!ok)
        ws_gone(w);
    return ok;
}

static bool inbox_full(const struct ws *w)
{
    return !w->over && !w->shut && (w->inbox_n >= WS_INBOX_MAX || w->inbox_bytes >= WS_INBOX_BYTES);
}

static void on_readable(struct ws *w)
{
    do {
        ssize_t n = ws_read(w);
        if (n < 0) {
            ws_gone(w);
            return;
        }
        if (n == 0)
            return;
        ws_feed(w, read_buffer, (size_t)n);
        /* Decrypted bytes may wait inside TLS, where poll does not see them. */
    } while (w->easy && !w->eof && !inbox_full(w));
}

void ws_pump(struct ws *w)
{
    on_readable(w);
    ws_watch(w);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
    struct ws *w = h->data;
    if (status < 0) {
        ws_gone(w);
        return;
    }
    if (events & UV_WRITABLE) {
        bool had = outq_size(&w->out) > 0;
        if (!flush(w))
            return;
        if (had && outq_size(&w->out) == 0) {
            if (w->closer)
                task_wake(w->closer);
            if (w->drain)
                w->drain(w->drain_arg);
        }
    }
    if ((events & UV_READABLE) && !w->eof)
        on_readable(w);
    ws_watch(w);
}

void ws_watch(struct ws *w)
{
    if (w->eof)
        return;
    int want = (inbox_full(w) ? 0 : UV_READABLE) | (outq_size(&w->out) > 0 ? UV_WRITABLE : 0);
    if (want == w->watched)
        return;
    w->watched = (uint8_t)want;
    if (want == 0)
        uv_poll_stop(&w->poll);
    else
        uv_poll_start(&w->poll, want, on_poll);
}

static void on_ping(void *arg)
{
    struct ws *w = arg;
    if (w->eof)
        return;
    if (time_mono_us() - w->last_us > (int64_t)w->ping_ms * 2000) {
        ws_gone(w);
        return;
    }
    /* A close frame is the last one; a peer that does not answer it is still found dead. */
    if (!w->close_sent)
        ws_frame(w, OP_PING, STR_NONE);
    task_timer_start(&w->ping, w->ping_ms, on_ping, w);
}

struct ws *ws_new(int fd, const struct ws_opts *opts, struct http_server *server, CURL *easy,
                  CURLM *multi, struct error *err)
{
    struct ws *w = new (struct ws);
    if (!w || uv_poll_init(task_loop(), &w->poll, fd) != 0) {
        mem_free(w);
        err_set(err, ERR_NOMEM, "no memory for a WebSocket");
        return NULL;
    }
    w->poll.data = w;
    w->fd = fd;
    w->server = server;
    w->easy = easy;
    w->multi = multi;
    w->message_max = opts && opts->message_max ? opts->message_max : (size_t)10 << 20;
    w->queue_max = opts && opts->queue_max ? opts->queue_max : (size_t)8 << 20;
    w->frame_max = opts ? opts->frame_max : 0;
    w->ping_ms = opts ? opts->ping_ms : 0;
    w->fragments_max = opts ? opts->fragments_max : 0;
    w->message = BUF(w->message_max);
    w->out.b.max = w->queue_max + w->frame_max + WS_CONTROL_ROOM;
    w->last_us = time_mono_us();
    list_init(&w->inbox);
    if (server) {
        server->handles++;
        server->sockets++;
        list_push(&server->websockets, &w->node);
    }
    if (w->ping_ms > 0)
        task_timer_start(&w->ping, w->ping_ms, on_ping, w);
    ws_watch(w);
    return w;
}

bool ws_send_raw(struct ws *w, const char *p, size_t n)
{
    struct iovec part = {(char *)(uintptr_t)p, n};
    bool ok = w->easy ? buf_add(&w->out.b, p, n) && flush_curl(w)
                      : outq_send(&w->out, w->fd, &part, 1, false);
    if (!ok)
        ws_gone(w);
    else
        ws_watch(w);
    return ok;
}

/* Client frames are masked, in the queue itself so that the data is copied once. */
static bool frame_masked(struct ws *w, const unsigned char *head, size_t head_n, struct str data)
{
    struct buf *b = &w->out.b;
    unsigned char mask[4];
    if (!ws_random(mask, sizeof(mask)) || !buf_reserve(b, head_n + 4 + data.n))
        return false;
    buf_add(b, head, head_n);
    buf_add(b, mask, 4);
    char *o = b->p + b->n;
    for (size_t i = 0; i < data.n; i++)
        o[i] = (char)(data.p[i] ^ mask[i & 3]);
    b->n += data.n;
    return flush_curl(w);
}

bool ws_frame(struct ws *w, unsigned opcode, struct str data)
{
    unsigned char head[10];
    size_t n = 2;
    if (w->eof || w->close_sent)
        return false;
    head[0] = (unsigned char)(0x80 | opcode);
    if (data.n <= 125) {
        head[1] = (unsigned char)data.n;
    } else if (data.n <= 65535) {
        head[1] = 126;
        head[n++] = (unsigned char)(data.n >> 8);
        head[n++] = (unsigned char)data.n;
    } else {
        head[1] = 127;
        for (int shift = 56; shift >= 0; shift -= 8)
            head[n++] = (unsigned char)((uint64_t)data.n >> shift);
    }
    bool ok;
    if (w->easy) {
        head[1] |= 0x80;
        ok = frame_masked(w, head, n, data);
    } else {
        struct iovec parts[2] = {{head, n}, {(char *)(uintptr_t)data.p, data.n}};
        ok = outq_send(&w->out, w->fd, parts, data.n ? 2 : 1, false);
    }
    if (!ok)
        ws_gone(w);
    else
        ws_watch(w);
    return ok;
}

void ws_close_frame(struct ws *w, unsigned code, struct str reason)
{
    char text[125] = {(char)(code >> 8), (char)code};
    size_t n = reason.n < 123 ? reason.n : utf8_border(reason.p, 123);
    if (n)
        memcpy(text + 2, reason.p, n);
    ws_frame(w, OP_CLOSE, str_n(text, n + 2));
    w->close_sent = true;
}

bool ws_send(struct ws *w, enum ws_type type, struct str data, struct error *err)
{
    if (w->eof || w->close_sent || w->close_received)
        return err_set(err, ERR_CLOSED, "the WebSocket is closed");
    size_t waits = outq_size(&w->out);
    bool fits = data.n <= w->queue_max && waits <= w->queue_max - data.n;
    if (!fits && (data.n > w->frame_max || waits > w->queue_max))
        return err_set(err, ERR_CAPACITY, "the WebSocket's queue is full");
    if (!ws_frame(w, type == WS_TEXT ? OP_TEXT : OP_BINARY, data))
        return err_set(err, ERR_CLOSED, "the WebSocket is closed");
    return true;
}

size_t ws_queued(const struct ws *w)
{
    return outq_size(&w->out);
}

void ws_on_drain(struct ws *w, void (*fn)(void *arg), void *arg)
{
    w->drain = fn;
    w->drain_arg = arg;
}

bool ws_is_open(const struct ws *w)
{
    return !w->eof && !w->close_sent && !w->close_received;
}

static void drop_in(struct ws_in *in)
{
    if (!in)
        return;
    buf_free(&in->data);
    mem_free(in);
}

bool ws_recv(struct ws *w, struct ws_msg *msg, struct error *err)
{
    drop_in(steal(w->current));
    for (;;) {
        struct list *node = w->shut ? NULL : list_pop(&w->inbox);
        if (node) {
            struct ws_in *in = container_of(node, struct ws_in, node);
            w->inbox_n--;
            w->inbox_bytes -= in->data.n;
            w->current = in;
            *msg = (struct ws_msg){in->type, in->data.n ? buf_view(&in->data) : S("")};
            if (w->easy && w->inbox_n == 0 && !w->eof)
                ws_pump(w);
            else
                ws_watch(w);
            return true;
        }
        if (w->broken_rules && !w->shut && !w->eof)
            return err_set(err, ERR_PROTOCOL,
                           w->too_big ? "the message is too big"
                                      : "the peer broke the WebSocket protocol");
        if (w->over || w->shut || w->eof)
            return err_set(err, ERR_CLOSED, "the WebSocket is closed");
        w->reader = task_self();
        bool ok = task_park(err);
        w->reader = NULL;
        if (!ok)
            return false;
    }
}

void ws_shutdown(struct ws *w, int code, struct str reason)
{
    w->shut = true;
    if (!w->close_sent && !w->eof)
        ws_close_frame(w, (unsigned)code, reason);
    if (w->reader)
        task_wake(w->reader);
    ws_watch(w);
}

static bool drained(const struct ws *w)
{
    return w->eof || outq_size(&w->out) == 0;
}

static bool finished(const struct ws *w)
{
    return w->eof || w->close_received;
}

static void wait_until(struct ws *w, bool (*done)(const struct ws *), int64_t ms)
{
    struct error err;
    struct task_deadline d;
    task_deadline_push(&d, ms);
    w->closer = task_self();
    while (!done(w) && task_park(&err))
        ;
    w->closer = NULL;
    task_deadline_pop(&d);
}

static void ws_free(struct ws *w)
{
    struct list *node;
    task_timer_stop(&w->ping);
    ws_parse_end(w);
    while ((node = list_pop(&w->inbox)))
        drop_in(container_of(node, struct ws_in, node));
    drop_in(w->current);
    ws_uncount(w);
    buf_free(&w->message);
    outq_free(&w->out);
    mem_free(w->block);
    if (w->server) {
        list_del(&w->node);
        w->server->sockets--;
    }
    uv_close((uv_handle_t *)&w->poll, on_handle_closed);
    if (w->easy) {
        curl_multi_remove_handle(w->multi, w->easy);
        curl_easy_cleanup(w->easy);
        curl_multi_cleanup(w->multi);
    } else {
        close(w->fd);
    }
}

void ws_close(struct ws *w)
{
    if (!w)
        return;
    /* Shielded: the peer is owed its close frame even when the fiber was cancelled; the wait is
     * short. */
    task_shield(true);
    w->shut = true;
    ws_watch(w);
    if (!w->close_sent && !w->eof)
        ws_close_frame(w, 1000, STR_NONE);
    wait_until(w, drained, DRAIN_WAIT_MS);
    if (!finished(w) && drained(w)) {
        /* A peer that broke the rules is not listened to any more: it sees the end of the stream
         * behind the close frame. */
        if (w->over && !w->easy)
            shutdown(w->fd, SHUT_WR);
        wait_until(w, finished, CLOSE_WAIT_MS);
    }
    task_shield(false);
    ws_free(w);
}
