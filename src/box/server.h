/* Private to box/: the HTTP surface: probes, control connections, relays (box.md §0.3, §2). */
#ifndef PARLEY_BOX_SERVER_H
#define PARLEY_BOX_SERVER_H

#include "box/runtime.h"

/* A WebSocket that is open, so that shutdown can tell it. On its fiber's stack. */
struct live {
    struct list node;
    struct ws *ws;
};
void box_server_enter(struct http_request *r, struct live *l, struct ws *ws);
void box_server_leave(struct live *l);

/* A control connection: what its actions are served with. */
struct connection {
    struct runtime *rt;
    const char *instance; /* of the handshake; the context of a call must be of it */
    struct rpc_files *files;
};

/* handshake.c: who may connect (§2.1). */
bool token_ok(struct str token); /* as a configured one: at least 32 characters, none blank */
bool instance_ok(struct str instance);
/* Token and instance are right; pins the instance. */
bool handshake_control(struct runtime *rt, const struct http_request *r);
/* Token, instance, workspace and generation are right and current; NULL: not. */
struct place *handshake_relay(struct runtime *rt, const struct http_request *r,
                              int64_t *generation);
void handshake_refuse(struct runtime *rt, struct http_request *r); /* 401, counted */
void control_opened(struct runtime *rt);
void control_closed(struct runtime *rt);
void control_refused(struct runtime *rt); /* passed the handshake, but was not opened */
bool canonical_generation(struct str text, int64_t *out);

struct box_server_opts {
    const char *host;
    uint16_t port;
    bool stdio; /* control comes over the standard streams */
};
bool box_server_start(struct runtime *rt, const struct box_server_opts *o, struct error *err);
uint16_t box_server_port(void); /* 0: it does not listen */
/* Tells all WebSockets with 1001 and closes. */
void box_server_stop(void);

/* Serves one control connection until it ends; takes the transport. `name` is for the log. */
bool control_run(struct runtime *rt, struct rpc_transport *stolen, const char *instance,
                 const char *name, struct rpc **out, struct error *err);

/* The next whole line of what a process wrote, without its end: `from` is where it begins, *scanned what
 * was searched already, and behind the line afterwards. False: none is whole. */
bool relay_line(const struct buf *b, size_t from, size_t *scanned, struct str *line);

#endif
