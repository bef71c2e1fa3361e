/* serve: requests of the peer, each in a fiber of its own, and the answers to them. */
#include "rpc/rpc_private.h"

#include <ctype.h>

enum { ARENA_MAX = 32 << 20, ANSWER_ROOM = 512, LAST_WORD_MS = 1000 };

/* A request that runs. Its group exists so that it can be cancelled alone; a fiber cannot release
 * its own group, so an ended one waits for the next sweep. */
struct served {
    struct rpc_request face;
    struct list node;
    struct task_group *group;
    json_t *message;
    const struct error *aborted; /* in the arena; what it is answered with at its end */
    bool answered, ended;
};

static struct served *served_of(struct rpc_request *r)
{
    return r->impl;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* False: the answer did not fit or memory ended; nothing was sent then. */
static bool send_answer(struct rpc *c, const json_t *seq, int code, struct str message,
                        const json_t *data, const char *chunk_status, struct error *err)
{
    auto_buf out = BUF(RPC_MESSAGE_MAX);
    auto_json text = json_strn(message);
    bool ok = text && buf_z(&out, "{\"seq_id\":") && json_put(&out, seq) &&
              buf_fmt(&out, ",\"code\":%d,\"message\":", code) && json_put(&out, text) &&
              buf_z(&out, ",\"data\":") && (data ? json_put(&out, data) : buf_z(&out, "{}")) &&
              buf_fmt(&out, ",\"chunk_status\":\"%s\"}", chunk_status);
    if (!ok)
        return err_set(err, ERR_TOO_LARGE, "the answer does not fit into %d bytes",
                       RPC_MESSAGE_MAX);
    return c->transport->send(c->transport, buf_view(&out), err);
}

static void send_failure(struct rpc *c, const json_t *seq, const char *class_name, struct str text)
{
    struct error ignored;
    auto_buf out = BUF(RPC_ERROR_CHARS * 4 + ANSWER_ROOM);
    struct str head = utf8_cut(text, RPC_ERROR_CHARS);
    if (class_name) {
        buf_z(&out, class_name);
        buf_z(&out, ": ");
    }
    buf_str(&out, head);
    if (head.n < text.n)
        buf_z(&out, "... [protocol error truncated]");
    if (!send_answer(c, seq, 1, buf_view(&out), NULL, "continue", &ignored) &&
        ignored.code != ERR_CLOSED && ignored.code != ERR_CANCELED)
        log_warn("rpc", "%s: an error was not delivered: %s", c->name, ignored.msg);
}

static const char *class_of(const struct error *err)
{
    if (err->tag && isupper((unsigned char)err->tag[0]))
        return err->tag;
    switch (err->code) {
    case ERR_INVALID:
    case ERR_TOO_LARGE: return "ValueError";
    case ERR_DENIED:
    case ERR_UNAUTHORIZED: return "PermissionError";
    case ERR_NOT_FOUND: return "LookupError";
    case ERR_TIMEOUT: return "TimeoutError";
    case ERR_NOMEM: return "MemoryError";
    case ERR_IO: return "OSError";
    case ERR_CANCELED:
    case ERR_CLOSED: return "CancelledError";
    default: return "RuntimeError";
    }
}

void rpc_reply(struct rpc_request *r, json_t *data_stolen)
{
    auto_json data = data_stolen;
    struct served *s = served_of(r);
    struct error err = {0};
    if (s->answered || s->aborted)
        return;
    s->answered = true;
    if (!data)
        err_set(&err, ERR_NOMEM, "out of memory for the answer");
    else if (send_answer(r->rpc, json_object_get(s->message, "seq_id"), 0, S("success"), data,
                         "continue", &err))
        return;
    if (err.code == ERR_CANCELED || err.code == ERR_CLOSED)
        return;
    s->answered = false;
    rpc_fail(r, &err);
}

bool rpc_emit(struct rpc_request *r, json_t *data_stolen, struct error *err)
{
    auto_json data = data_stolen;
    struct served *s = served_of(r);
    if (s->answered || s->aborted)
        return err_set(err, ERR_CLOSED, "the request has been answered");
    if (!data)
        return err_set(err, ERR_NOMEM, "out of memory for a part of the answer");
    return send_answer(r->rpc, json_object_get(s->message, "seq_id"), 0, S("success"), data,
                       "continue", err);
}

void rpc_stream_end(struct rpc_request *r)
{
    struct served *s = served_of(r);
    struct error ignored;
    if (s->answered || s->aborted)
        return;
    s->answered = true;
    if (!send_answer(r->rpc, json_object_get(s->message, "seq_id"), 0, S("success"), NULL, "end",
                     &ignored) &&
        ignored.code != ERR_CLOSED && ignored.code != ERR_CANCELED)
        log_warn("rpc", "%s: the end of a stream was not delivered: %s", r->rpc->name, ignored.msg);
}

void rpc_fail(struct rpc_request *r, const struct error *err)
{
    rpc_fail_text(r, class_of(err), str_c(err->msg));
}

void rpc_fail_text(struct rpc_request *r, const char *class_name, struct str text)
{
    struct served *s = served_of(r);
    if (s->answered || s->aborted)
        return;
    s->answered = true;
    send_failure(r->rpc, json_object_get(s->message, "seq_id"), class_name, text);
}

void rpc_fail_unknown(struct rpc_request *r)
{
    auto_buf text = BUF(RPC_MESSAGE_MAX);
    buf_fmt(&text, "Action %s not found", r->action);
    rpc_fail_text(r, "ValueError", buf_view(&text));
}

void rpc_abort(struct rpc_request *r, const struct error *err)
{
    struct served *s = served_of(r);
    struct error *kept = s->answered || s->aborted ? NULL : arena_new_of(r->arena, struct error);
    if (kept)
        *kept = *err;
    s->aborted = s->aborted ? s->aborted : kept;
    task_group_cancel(s->group);
}

const json_t *rpc_need(const struct rpc_request *r, const char *name, struct error *err)
{
    const json_t *value = json_object_get(r->data, name);
    if (!value)
        err_tag(err, ERR_INVALID, 0, "KeyError", "'%s'", name);
    return value;
}

/* ---- running --------------------------------------------------------------------------------- */

static void release(struct served *s)
{
    task_group_free(s->group);
    list_del(&s->node);
    json_decref(s->face.context);
    json_decref(s->message);
    arena_free(s->face.arena);
    mem_free(s);
}

/* An answer for a request whose handler gave none. The fiber may be cancelled: the peer is told all the
 * same, if it takes the message in time. */
static void last_word(struct served *s)
{
    struct task_deadline d;
    struct error why = {0};
    bool canceled = task_canceled();
    err_tag(&why, ERR_INTERNAL, 0, "CancelledError", "%s",
            canceled ? "the request was cancelled" : "the request was not answered");
    if (s->aborted)
        why = *s->aborted;
    s->aborted = NULL;
    task_shield(true);
    task_deadline_push(&d, LAST_WORD_MS);
    rpc_fail(&s->face, &why);
    task_deadline_pop(&d);
    task_shield(false);
}

static void run(void *arg)
{
    struct served *s = arg;
    struct rpc *c = s->face.rpc;
    if (c->serve) {
        c->serve(&s->face, c->arg);
    } else {
        rpc_fail_unknown(&s->face);
    }
    if (!s->answered)
        last_word(s);
    c->running--;
    s->ended = true;
}

/* The members of a request; the message of the error names the one that is wrong. */
static bool check(struct served *s, bool missing, struct error *err)
{
    const json_t *action = json_object_get(s->message, "action");
    const json_t *seq = json_object_get(s->message, "seq_id");
    s->face.data = json_object_get(s->message, "data");
    if (missing || !json_is_integer(seq))
        return err_tag(err, ERR_INVALID, 0, "ValidationError", "seq_id must be an integer");
    if (!json_is_string(action) || strlen(json_string_value(action)) != json_string_length(action))
        return err_tag(err, ERR_INVALID, 0, "ValidationError", "action must be a text");
    if (!json_is_object(s->face.data))
        return err_tag(err, ERR_INVALID, 0, "ValidationError", "data must be an object");
    s->face.seq = json_integer_value(seq);
    s->face.action = json_string_value(action);
    return rpc_context_check(json_object_get(s->message, "context"), &s->face.context, err);
}

/* What answers carry: the number as it came, or -1. */
static const json_t *echoed(json_t *message, bool *missing)
{
    *missing = !json_object_get(message, "seq_id");
    if (*missing)
        json_set(message, "seq_id", json_integer(-1));
    return json_object_get(message, "seq_id");
}

void rpc_dispatch_request(struct rpc *c, json_t *message, struct error *err)
{
    bool missing;
    const json_t *seq = echoed(message, &missing);
    if (c->running >= RPC_INFLIGHT_MAX) {
        send_failure(c, seq, NULL, S("Runtime connection is busy (max 128 concurrent actions)"));
        return;
    }
    struct served *s = new (struct served);
    if (!s) {
        send_failure(c, seq, "MemoryError", S("out of memory for a request"));
        return;
    }
    s->message = json_incref(message);
    s->face.rpc = c;
    s->face.impl = s;
    list_push(&c->requests, &s->node);
    if (!check(s, missing, err)) {
        send_failure(c, seq, class_of(err), str_c(err->msg));
        err->code = ERR_NONE;
        s->ended = true;
        return;
    }
    s->face.arena = arena_new(ARENA_MAX);
    s->group = task_group_new(NULL, "rpc request");
    c->running++;
    if (!s->face.arena || !s->group) {
        err_set(err, ERR_NOMEM, "out of memory for a request");
    } else if (task_spawn(s->group, "rpc request", run, s, err)) {
        return;
    }
    c->running--;
    s->ended = true;
    send_failure(c, seq, class_of(err), str_c(err->msg));
    err->code = ERR_NONE;
}

void rpc_sweep(struct rpc *c)
{
    list_each(node, &c->requests)
    {
        struct served *s = container_of(node, struct served, node);
        if (s->ended)
            release(s);
    }
}

void rpc_end_requests(struct rpc *c)
{
    list_each(node, &c->requests)
    {
        struct served *s = container_of(node, struct served, node);
        s->answered = true; /* nobody is there to hear it */
        if (s->group)
            task_group_cancel(s->group);
    }
    struct list *node;
    while ((node = list_empty(&c->requests) ? NULL : c->requests.next))
        release(container_of(node, struct served, node));
}
