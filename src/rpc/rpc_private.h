/* Private to rpc/: a connection and what is under way on it. */
#ifndef PARLEY_RPC_PRIVATE_H
#define PARLEY_RPC_PRIVATE_H

#include "rpc/rpc.h"

struct rpc {
    struct rpc_transport *transport;
    rpc_serve serve;
    void *arg;
    const char *name;
    struct list requests; /* struct served: running, and ended ones until they are swept */
    size_t running;
    struct list pending; /* struct pending */
    int64_t seq;
    bool closed; /* nothing comes any more: calls fail at once */
};

/* Someone who waits for answers to one request of ours. */
struct pending {
    struct list node;
    int64_t seq;
    bool stream;
    struct list parts; /* struct part, of a stream */
    size_t parts_n;
    json_t *data; /* of the one answer */
    bool done;    /* no more will come: data, or failure, or the end of the stream */
    bool ok;
    struct error failure;
    struct task_cond news;
};
struct part {
    struct list node;
    json_t *data;
};

/* serve.c: a message that is a request, of which it takes a reference. */
void rpc_dispatch_request(struct rpc *c, json_t *message, struct error *err);
void rpc_sweep(struct rpc *c);        /* releases requests that have ended */
void rpc_end_requests(struct rpc *c); /* cancels and waits for all */
/* call.c */
void rpc_dispatch_response(struct rpc *c, const json_t *message);
void rpc_end_calls(struct rpc *c); /* fails all with ERR_CLOSED */
/* context.c: the checked envelope as a new reference; *out NULL: none was given. */
bool rpc_context_check(const json_t *context, json_t **out, struct error *err);
/* mend.c: JSON that jansson cannot hold (lone surrogates, integers over 64 bits), made readable.
 * False: nothing to mend, or memory. */
bool rpc_mend(struct str text, struct buf *out);

#endif
