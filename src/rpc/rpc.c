/* rpc: a connection: reads messages and hands them to whoever they are for (box.md §1.6). */
#include "rpc/rpc_private.h"

struct rpc *rpc_new(const struct rpc_opts *opts, struct error *err)
{
    struct rpc *c = new (struct rpc);
    if (!c) {
        opts->transport->free(opts->transport);
        err_set(err, ERR_NOMEM, "out of memory for a connection");
        return NULL;
    }
    uint32_t start;
    crypto_random(&start, sizeof(start));
    c->transport = opts->transport;
    c->serve = opts->serve;
    c->arg = opts->arg;
    c->name = opts->name;
    c->seq = start % 100000;
    list_init(&c->requests);
    list_init(&c->pending);
    return c;
}

/* New reference or NULL. */
static json_t *read_message(struct str text)
{
    struct error err;
    json_t *j = net_json_parse(text, true, &err);
    if (!j && err.code == ERR_CAPACITY) /* no worker is free: better late here than lost */
        j = json_parse_words(text, &err);
    if (j || err.code != ERR_INVALID)
        return j;
    auto_buf mended = BUF(2 * (size_t)RPC_MESSAGE_MAX);
    return rpc_mend(text, &mended) ? net_json_parse(buf_view(&mended), true, &err) : NULL;
}

static void dispatch(struct rpc *c, struct str text)
{
    struct error err = {0};
    auto_json message = read_message(text);
    if (!json_is_object(message)) {
        log_warn("rpc", "%s: a message is no JSON object bytes=%zu", c->name, text.n);
    } else if (json_object_get(message, "code")) {
        rpc_dispatch_response(c, message);
    } else if (!json_object_get(message, "action")) {
        log_warn("rpc", "%s: a message has neither action nor code", c->name);
    } else {
        rpc_dispatch_request(c, message, &err);
        if (err.code != ERR_NONE)
            log_warn("rpc", "%s: a request was lost: %s", c->name, err.msg);
    }
}

bool rpc_run(struct rpc *c, struct error *err)
{
    struct str text;
    for (;;) {
        rpc_sweep(c);
        if (!c->transport->recv(c->transport, &text, err))
            break;
        dispatch(c, text);
    }
    struct error why = *err;
    c->closed = true;
    rpc_end_calls(c);
    rpc_end_requests(c);
    *err = why;
    return false;
}

void rpc_shut(struct rpc *c, int code, struct str reason)
{
    c->transport->shut(c->transport, code, reason);
}

void rpc_free(struct rpc *c)
{
    if (!c)
        return;
    c->closed = true;
    rpc_end_calls(c);
    rpc_end_requests(c);
    c->transport->free(c->transport);
    mem_free(c);
}

size_t rpc_inflight(const struct rpc *c)
{
    return c->running;
}
