/* transport: what carries messages: two descriptors, or a WebSocket. */
#include "rpc/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum {
    QUEUE_MAX = 64 << 20,  /* bytes that wait to be written */
    QUEUE_ROOM = 16 << 20, /* a sender waits while more are queued */
    READ_SIZE = 64 * 1024,
    FLUSH_MS = 1000
};

/* ---- lines over descriptors ------------------------------------------------------------------- */

struct stdio_end {
    struct rpc_transport face;
    int in, out;
    bool owned, shut, broken;
    struct rpc_lines lines;
    char *block;
    /* Senders only append; one fiber writes, so that a sender which is cancelled never leaves half a
     * message behind. */
    struct buf queue;
    bool writing; /* the writer holds bytes that it took out of the queue */
    struct task_cond news, room;
    struct task_group *group, *reading;
};

static struct stdio_end *stdio_of(struct rpc_transport *t)
{
    return container_of(t, struct stdio_end, face);
}

static void writer(void *arg)
{
    struct stdio_end *s = arg;
    struct error err;
    while (!s->broken) {
        if (s->queue.n == 0) {
            if (!task_cond_wait(&s->news, &err))
                return;
            continue;
        }
        auto_buf out = s->queue;
        s->queue = BUF(QUEUE_MAX);
        s->writing = true;
        bool ok = task_write_all(s->out, out.p, out.n, &err);
        s->writing = false;
        if (!ok) {
            s->broken = true;
            task_group_cancel(s->reading);
        }
        task_cond_notify_all(&s->room);
    }
}

static bool stdio_send(struct rpc_transport *t, struct str text, struct error *err)
{
    struct stdio_end *s = stdio_of(t);
    while (!s->shut && !s->broken && s->queue.n > QUEUE_ROOM)
        if (!task_cond_wait(&s->room, err))
            return false;
    if (s->shut || s->broken)
        return err_set(err, ERR_CLOSED, "the stream is closed");
    size_t had = s->queue.n;
    if (!rpc_lines_put(&s->queue, text, err)) {
        s->queue.n = had;
        s->queue.failed = false;
        return false;
    }
    task_cond_notify_all(&s->news);
    return true;
}

struct reading {
    struct stdio_end *s;
    ssize_t n;
    bool done;
    struct error err;
    struct task_cond end;
};

/* The read runs in a fiber of its own so that shut() and a broken writer can end it. */
static void reader(void *arg)
{
    struct reading *r = arg;
    r->n = task_read(r->s->in, r->s->block, READ_SIZE, &r->err);
    r->done = true;
    task_cond_notify_all(&r->end);
}

static bool stdio_recv(struct rpc_transport *t, struct str *text, struct error *err)
{
    struct stdio_end *s = stdio_of(t);
    for (;;) {
        if (s->shut || s->broken)
            return err_set(err, ERR_CLOSED, "the stream is closed");
        if (rpc_lines_next(&s->lines, text, err))
            return true;
        if (err->code != ERR_NONE)
            return false;
        struct reading r = {.s = s};
        if (!task_spawn(s->reading, "rpc read", reader, &r, err))
            return false;
        while (!r.done) {
            if (!task_cond_wait(&r.end, err)) {
                task_group_cancel(s->reading);
                struct error ignored;
                task_shield(true);
                while (!r.done && task_cond_wait(&r.end, &ignored))
                    ;
                task_shield(false);
                return false;
            }
        }
        if (s->shut || s->broken || r.n == 0)
            return err_set(err, ERR_CLOSED, "the stream has ended");
        if (r.n < 0) {
            *err = r.err;
            return false;
        }
        if (!rpc_lines_add(&s->lines, s->block, (size_t)r.n, err))
            return false;
    }
}

static void stdio_shut(struct rpc_transport *t, int code, struct str reason)
{
    struct stdio_end *s = stdio_of(t);
    s->shut = true;
    task_group_cancel(s->reading);
    task_cond_notify_all(&s->room);
}

static void stdio_free(struct rpc_transport *t)
{
    struct stdio_end *s = stdio_of(t);
    struct error ignored;
    struct task_deadline d;
    s->shut = true;
    task_shield(true);
    task_deadline_push(&d, FLUSH_MS);
    while (!s->broken && (s->queue.n > 0 || s->writing) && task_cond_wait(&s->room, &ignored))
        ;
    task_deadline_pop(&d);
    task_shield(false);
    task_group_free(s->reading);
    task_group_free(s->group);
    if (s->owned) {
        close(s->in);
        close(s->out);
    }
    rpc_lines_free(&s->lines);
    buf_free(&s->queue);
    mem_free(s->block);
    mem_free(s);
}

static bool non_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

struct rpc_transport *rpc_stdio(int in, int out, bool owned, struct error *err)
{
    struct stdio_end *s = new (struct stdio_end);
    if (!s) {
        err_set(err, ERR_NOMEM, "out of memory for a connection");
        return NULL;
    }
    s->face = (struct rpc_transport){stdio_recv, stdio_send, stdio_shut, stdio_free};
    s->in = in;
    s->out = out;
    rpc_lines_init(&s->lines);
    s->queue = BUF(QUEUE_MAX);
    s->block = mem_alloc(READ_SIZE);
    s->group = task_group_new(NULL, "rpc writer");
    s->reading = task_group_new(NULL, "rpc reader");
    bool ok = s->block && s->group && s->reading
                  ? non_blocking(in) && non_blocking(out)
                        ? task_spawn(s->group, "rpc writer", writer, s, err)
                        : err_sys(err, errno, "cannot use the descriptors of a connection")
                  : err_set(err, ERR_NOMEM, "out of memory for a connection");
    if (!ok) {
        s->broken = true;
        stdio_free(&s->face);
        return NULL;
    }
    s->owned = owned;
    return &s->face;
}

/* ---- WebSocket ---------------------------------------------------------------------------------- */

const struct ws_opts rpc_ws_opts = {.message_max = RPC_MESSAGE_MAX,
                                    .queue_max = QUEUE_MAX,
                                    .fragments_max = RPC_FRAGMENTS_MAX,
                                    .no_proxy = true};

struct ws_end {
    struct rpc_transport face;
    struct ws *ws;
    struct task_cond room;
    bool shut;
};

static struct ws_end *ws_of(struct rpc_transport *t)
{
    return container_of(t, struct ws_end, face);
}

static void on_drain(void *arg)
{
    struct ws_end *w = arg;
    task_cond_notify_all(&w->room);
}

static bool ws_end_recv(struct rpc_transport *t, struct str *text, struct error *err)
{
    struct ws_msg m;
    if (!ws_recv(ws_of(t)->ws, &m, err))
        return false;
    if (m.type != WS_TEXT)
        return err_set(err, ERR_PROTOCOL, "Unexpected message type");
    *text = m.data;
    return true;
}

static bool ws_end_send(struct rpc_transport *t, struct str text, struct error *err)
{
    struct ws_end *w = ws_of(t);
    if (text.n > RPC_MESSAGE_MAX)
        return err_set(err, ERR_TOO_LARGE, "a message must not be longer than %d bytes",
                       RPC_MESSAGE_MAX);
    while (!w->shut && ws_is_open(w->ws) && ws_queued(w->ws) > QUEUE_ROOM)
        if (!task_cond_wait(&w->room, err))
            return false;
    return ws_send(w->ws, WS_TEXT, text, err);
}

static void ws_end_shut(struct rpc_transport *t, int code, struct str reason)
{
    struct ws_end *w = ws_of(t);
    w->shut = true;
    ws_shutdown(w->ws, code, reason);
    task_cond_notify_all(&w->room);
}

static void ws_end_free(struct rpc_transport *t)
{
    struct ws_end *w = ws_of(t);
    ws_on_drain(w->ws, NULL, NULL);
    ws_close(w->ws);
    mem_free(w);
}

struct rpc_transport *rpc_websocket(struct ws *stolen, struct error *err)
{
    struct ws_end *w = new (struct ws_end);
    if (!w) {
        ws_close(stolen);
        err_set(err, ERR_NOMEM, "out of memory for a connection");
        return NULL;
    }
    w->face = (struct rpc_transport){ws_end_recv, ws_end_send, ws_end_shut, ws_end_free};
    w->ws = stolen;
    ws_on_drain(stolen, on_drain, w);
    return &w->face;
}
