/* Received frames through wslay, with a context that lives only as long as a message is half-way.
 */
#include "net/ws_private.h"

#include <wslay/wslay.h>

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, int flags, void *arg)
{
    struct ws *w = arg;
    if (w->feed_n == 0) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    size_t n = len < w->feed_n ? len : w->feed_n;
    memcpy(buf, w->feed, n);
    w->feed += n;
    w->feed_n -= n;
    return (ssize_t)n;
}

/* Frames that wslay sends by itself: pongs, close frames. */
static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *data, size_t len, int flags,
                       void *arg)
{
    struct ws *w = arg;
    if (!w->close_sent && !w->eof && !ws_send_raw(w, (const char *)data, len)) {
        wslay_event_set_error(ctx, WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
    }
    return (ssize_t)len;
}

static int on_mask(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, void *arg)
{
    return ws_random(buf, len) ? 0 : -1;
}

static void on_start(wslay_event_context_ptr ctx,
                     const struct wslay_event_on_frame_recv_start_arg *f, void *arg)
{
    struct ws *w = arg;
    w->framed += 2 +
                 (f->payload_length > 65535 ? 8
                  : f->payload_length > 125 ? 2
                                            : 0) +
                 (w->server ? 4 : 0);
    w->framed += f->payload_length;
    w->in_control = wslay_is_ctrl_frame(f->opcode);
    if (w->in_control)
        return;
    w->in_message = true;
    if (f->opcode != WSLAY_CONTINUATION_FRAME) {
        w->type = f->opcode;
        w->fragments = 0;
    }
    w->fragments++;
    if (f->payload_length > w->message_max - w->message.n ||
        (w->fragments_max && w->fragments > w->fragments_max)) {
        w->too_big = true;
        wslay_event_shutdown_read(ctx);
    }
}

void ws_uncount(struct ws *w)
{
    if (w->server)
        w->server->bodies -= w->message.cap;
}

static void on_chunk(wslay_event_context_ptr ctx,
                     const struct wslay_event_on_frame_recv_chunk_arg *c, void *arg)
{
    struct ws *w = arg;
    if (w->in_control || w->too_big || w->shut)
        return;
    /* Half a message may stay for ever: it counts like the body of a request. */
    bool full = w->server && w->server->bodies > CONN_BODIES_MAX &&
                w->message.n + c->data_length > CONN_BODY_SMALL;
    size_t had = w->message.cap;
    if (full || !buf_add(&w->message, c->data, c->data_length)) {
        w->no_memory = true;
        wslay_event_shutdown_read(ctx);
    }
    if (w->server)
        w->server->bodies += w->message.cap - had;
}

static void take_message(struct ws *w)
{
    struct ws_in *in = w->shut ? NULL : new (struct ws_in);
    ws_uncount(w);
    if (!in) {
        w->no_memory = w->no_memory || !w->shut;
        buf_free(&w->message);
    } else {
        in->type = w->type == WSLAY_TEXT_FRAME ? WS_TEXT : WS_BINARY;
        in->data = w->message;
        list_push(&w->inbox, &in->node);
        w->inbox_n++;
        w->inbox_bytes += in->data.n;
    }
    w->message = BUF(w->message_max);
    w->in_message = false;
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *m,
                       void *arg)
{
    struct ws *w = arg;
    if (m->opcode == WSLAY_CONNECTION_CLOSE)
        w->close_received = true;
    else if (!wslay_is_ctrl_frame(m->opcode) && !w->too_big && !w->no_memory)
        take_message(w);
}

static bool begin(struct ws *w)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_recv,
        .send_callback = on_send,
        .genmask_callback = on_mask,
        .on_frame_recv_start_callback = on_start,
        .on_frame_recv_chunk_callback = on_chunk,
        .on_msg_recv_callback = on_message,
    };
    int rc = w->server ? wslay_event_context_server_init(&w->wslay, &callbacks, w)
                       : wslay_event_context_client_init(&w->wslay, &callbacks, w);
    if (rc != 0) {
        w->wslay = NULL;
        return false;
    }
    /* Message bytes are collected here, once, instead of in wslay's own list of chunks. */
    wslay_event_config_set_no_buffering(w->wslay, 1);
    w->fed = w->framed = 0;
    return true;
}

void ws_parse_end(struct ws *w)
{
    if (w->wslay)
        wslay_event_context_free(w->wslay);
    w->wslay = NULL;
}

/* The verdict after some bytes were parsed. */
static void conclude(struct ws *w, int rc)
{
    while (rc == 0 && wslay_event_want_write(w->wslay))
        rc = wslay_event_send(w->wslay);
    w->close_sent = w->close_sent || wslay_event_get_close_sent(w->wslay);
    if (w->too_big) {
        ws_close_frame(w, WSLAY_CODE_MESSAGE_TOO_BIG, S("message too big"));
    } else if (w->no_memory || rc == WSLAY_ERR_NOMEM) {
        ws_close_frame(w, WSLAY_CODE_INTERNAL_SERVER_ERROR, STR_NONE);
    } else if (rc != 0) {
        /* Of its callbacks only the sending one can fail, and then the connection is gone already.
         */
        ws_close_frame(w, WSLAY_CODE_PROTOCOL_ERROR, STR_NONE);
    } else if (wslay_event_get_read_enabled(w->wslay)) {
        return;
    }
    w->over = true;
    w->broken_rules = !w->close_received;
}

void ws_feed(struct ws *w, const char *p, size_t n)
{
    if (w->over)
        return;
    w->last_us = time_mono_us();
    if (!w->wslay && !begin(w)) {
        w->over = true;
        ws_close_frame(w, WSLAY_CODE_INTERNAL_SERVER_ERROR, STR_NONE);
    } else {
        w->feed = p;
        w->feed_n = n;
        w->fed += n;
        conclude(w, wslay_event_recv(w->wslay));
        if (w->over || (w->fed == w->framed && !w->in_message))
            ws_parse_end(w);
    }
    if (w->reader && (w->inbox_n > 0 || w->over))
        task_wake(w->reader);
    if (w->closer && w->over)
        task_wake(w->closer);
}
