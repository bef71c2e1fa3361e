/* call: our requests to the peer, and the answers on their way back. */
#include "rpc/rpc_private.h"

/* ---- receiving ------------------------------------------------------------------------------- */

static void finish(struct pending *p, bool ok)
{
    p->done = true;
    p->ok = ok;
    task_cond_notify_all(&p->news);
}

static void fail(struct pending *p, enum err_code code, struct str text)
{
    err_set(&p->failure, code, STR_FMT, STR_ARG(text));
    finish(p, false);
}

static void add_part(struct pending *p, json_t *data)
{
    struct part *part = p->parts_n < RPC_QUEUE_MAX ? new (struct part) : NULL;
    if (!part) {
        fail(p, p->parts_n < RPC_QUEUE_MAX ? ERR_NOMEM : ERR_CAPACITY,
             S("the reader of a stream is too slow"));
        return;
    }
    part->data = json_incref(data);
    p->parts_n++;
    list_push(&p->parts, &part->node);
    task_cond_notify_all(&p->news);
}

static struct pending *find(struct rpc *c, const json_t *seq)
{
    list_each(node, &c->pending)
    {
        struct pending *p = container_of(node, struct pending, node);
        if (json_is_integer(seq) && p->seq == json_integer_value(seq))
            return p;
    }
    return NULL;
}

void rpc_dispatch_response(struct rpc *c, const json_t *message)
{
    const json_t *code = json_object_get(message, "code");
    json_t *data = json_object_get(message, "data");
    struct pending *p = find(c, json_object_get(message, "seq_id"));
    if (!p || p->done || !json_is_integer(code)) {
        log_debug("rpc", "%s: an answer that nobody waits for", c->name);
    } else if (json_integer_value(code) != 0) {
        fail(p, ERR_UPSTREAM, json_s(message, "message"));
    } else if (!json_is_object(data)) {
        log_warn("rpc", "%s: an answer without data", c->name);
    } else if (!p->stream) {
        p->data = json_incref(data);
        finish(p, true);
    } else if (str_eqz(json_s(message, "chunk_status"), "end")) {
        finish(p, true);
    } else {
        add_part(p, data);
    }
}

void rpc_end_calls(struct rpc *c)
{
    list_each(node, &c->pending)
    {
        struct pending *p = container_of(node, struct pending, node);
        if (!p->done)
            fail(p, ERR_CLOSED, S("the connection to the peer was lost"));
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

static bool send_request(struct rpc *c, struct pending *p, const char *action, json_t *data,
                         const json_t *context, struct error *err)
{
    auto_buf out = BUF(RPC_MESSAGE_MAX);
    auto_json name = json_string(action);
    p->seq = ++c->seq;
    bool ok = name && data && buf_fmt(&out, "{\"seq_id\":%lld,\"action\":", (long long)p->seq) &&
              json_put(&out, name) && buf_z(&out, ",\"data\":") && json_put(&out, data) &&
              (!context || (buf_z(&out, ",\"context\":") && json_put(&out, context))) &&
              buf_c(&out, '}');
    if (!ok)
        return err_set(err, ERR_TOO_LARGE, "the request %s does not fit into %d bytes", action,
                       RPC_MESSAGE_MAX);
    if (c->closed)
        return err_set(err, ERR_CLOSED, "the connection to the peer was lost");
    /* Listed before it is sent: the answer may come while the sender still waits for room. */
    list_push(&c->pending, &p->node);
    if (c->transport->send(c->transport, buf_view(&out), err))
        return true;
    list_del(&p->node);
    return false;
}

/* Waits for news until the deadline of the call; its passing is told from that of the caller. */
static bool wait_news(struct pending *p, const char *action, int64_t timeout_ms, struct error *err)
{
    struct task_deadline d;
    int64_t end = time_mono_us() + timeout_ms * 1000;
    task_deadline_push(&d, timeout_ms);
    bool ok = task_cond_wait(&p->news, err);
    task_deadline_pop(&d);
    if (!ok && err->code == ERR_TIMEOUT && time_mono_us() >= end - 1000)
        err_set(err, ERR_TIMEOUT, "Action %s call timed out", action);
    return ok;
}

json_t *rpc_call(struct rpc *c, const char *action, json_t *data_stolen, const json_t *context,
                 int64_t timeout_ms, struct error *err)
{
    auto_json data = data_stolen;
    struct pending p = {0};
    int64_t left = timeout_ms > 0 ? timeout_ms : RPC_CALL_MS;
    int64_t end = time_mono_us() + left * 1000;
    if (!send_request(c, &p, action, data, context, err))
        return NULL;
    while (!p.done) {
        left = (end - time_mono_us()) / 1000;
        if (!wait_news(&p, action, left > 0 ? left : 0, err))
            break;
    }
    list_del(&p.node);
    if (!p.done)
        return NULL;
    if (!p.ok) {
        *err = p.failure;
        return NULL;
    }
    return p.data;
}

struct rpc_stream {
    struct rpc *rpc;
    struct pending pending;
    const char *action;
    int64_t timeout_ms;
};

struct rpc_stream *rpc_open(struct rpc *c, const char *action, json_t *data_stolen,
                            const json_t *context, int64_t timeout_ms, struct error *err)
{
    auto_json data = data_stolen;
    struct rpc_stream *s = new (struct rpc_stream);
    if (!s) {
        err_set(err, ERR_NOMEM, "out of memory for a stream");
        return NULL;
    }
    s->rpc = c;
    s->pending.stream = true;
    list_init(&s->pending.parts);
    s->action = action;
    s->timeout_ms = timeout_ms > 0 ? timeout_ms : RPC_CALL_MS;
    if (!send_request(c, &s->pending, action, data, context, err)) {
        mem_free(s);
        return NULL;
    }
    return s;
}

bool rpc_next(struct rpc_stream *s, json_t **data, struct error *err)
{
    struct pending *p = &s->pending;
    *data = NULL;
    while (list_empty(&p->parts) && !p->done)
        if (!wait_news(p, s->action, s->timeout_ms, err))
            return false;
    struct list *node = list_pop(&p->parts);
    if (node) {
        struct part *part = container_of(node, struct part, node);
        *data = part->data;
        p->parts_n--;
        mem_free(part);
        return true;
    }
    if (!p->ok)
        *err = p->failure;
    return p->ok;
}

void rpc_stream_close(struct rpc_stream *s)
{
    if (!s)
        return;
    struct list *node;
    list_del(&s->pending.node);
    while ((node = list_pop(&s->pending.parts))) {
        struct part *part = container_of(node, struct part, node);
        json_decref(part->data);
        mem_free(part);
    }
    mem_free(s);
}
