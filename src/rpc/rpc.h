/* rpc: the action protocol that Box and plugin runtimes speak (box.md §1, plugins.md). JSON
 * messages over a line stream (stdio) or a WebSocket; each side may serve and call. Everything
 * runs in fibers of the loop thread. */
#ifndef PARLEY_RPC_H
#define PARLEY_RPC_H

#include "base/base.h"
#include "task/task.h"
#include "net/net.h"
#include "crypto/crypto.h"

enum {
    RPC_MESSAGE_MAX = 16 << 20, /* bytes of UTF-8, both directions */
    RPC_FRAGMENTS_MAX = 4096,   /* lines of a chunk sequence; frames of a WebSocket message */
    RPC_CHUNK = 16384,          /* bytes of text in one chunk, and of a message sent as one line */
    RPC_LINE_MAX = 65536,       /* bytes of a line with its LF: never sent longer */
    RPC_LINE_READ_MAX = RPC_MESSAGE_MAX + RPC_LINE_MAX, /* a longer one ends the connection */
    RPC_INFLIGHT_MAX = 128,                             /* inbound actions of a connection */
    RPC_QUEUE_MAX = 128, /* chunks that wait for a reader of a stream */
    RPC_ERROR_CHARS = 4096,
    RPC_FILE_CHUNK = 16384,
    RPC_FILES_MAX = 128, /* inbound file transfers of a connection */
    RPC_CALL_MS = 15000  /* default timeout of a call */
};

/* ---- transports ------------------------------------------------------------------------------
 * A transport carries whole messages. `recv` gives the next one (valid until the next recv);
 * ERR_CLOSED at the end, ERR_PROTOCOL when the peer broke the framing. `send` may be called by
 * several fibers; messages are never mixed; ERR_TOO_LARGE before a byte was sent. */
struct rpc_transport {
    bool (*recv)(struct rpc_transport *t, struct str *text, struct error *err);
    bool (*send)(struct rpc_transport *t, struct str text, struct error *err);
    /* Makes recv and send fail with ERR_CLOSED; does not wait. Idempotent. */
    void (*shut)(struct rpc_transport *t, int code, struct str reason);
    void (*free)(struct rpc_transport *t); /* closes what it owns; nobody may wait on it */
};
/* Two descriptors, made non-blocking. `owned`: closed at the end. NULL when memory ends. */
struct rpc_transport *rpc_stdio(int in, int out, bool owned, struct error *err);
/* Text messages of a socket, which it takes over; a binary one is ERR_PROTOCOL. The socket should
 * have been opened with rpc_ws_opts. */
struct rpc_transport *rpc_websocket(struct ws *stolen, struct error *err);
extern const struct ws_opts rpc_ws_opts;

/* The reader of the line framing alone: bytes in, messages out (for tests and fuzzing). */
struct rpc_lines {
    struct buf in; /* unread bytes; complete lines are taken from `at` on */
    size_t at, scanned;
    struct buf message; /* of a chunk sequence */
    bool chunked;
    int64_t total;
    unsigned lines; /* of the sequence */
};
void rpc_lines_init(struct rpc_lines *l);
void rpc_lines_free(struct rpc_lines *l);
bool rpc_lines_add(struct rpc_lines *l, const void *p, size_t n, struct error *err) warn_unused;
/* Next whole message; *text is valid until the next call. False without an error (err->code ==
 * ERR_NONE): more bytes are needed. ERR_PROTOCOL: the connection is to be closed. */
bool rpc_lines_next(struct rpc_lines *l, struct str *text, struct error *err) warn_unused;
/* The lines of a message, to be written under one lock. ERR_TOO_LARGE. */
bool rpc_lines_put(struct buf *out, struct str text, struct error *err) warn_unused;

/* ---- connections ----------------------------------------------------------------------------- */
struct rpc;
struct rpc_request {
    struct rpc *rpc;
    int64_t seq;
    const char *action;
    json_t *data;    /* object; borrowed */
    json_t *context; /* checked envelope (§1.4) or NULL; borrowed */
    struct arena *arena;
    void *impl; /* private */
};
/* Serves one request in a fiber of its own and ends with rpc_reply, rpc_stream_end or rpc_fail;
 * one that returns without is answered with an error. A cancelled one is answered by the layer. */
typedef void (*rpc_serve)(struct rpc_request *r, void *arg);

struct rpc_opts {
    struct rpc_transport *transport; /* taken over */
    rpc_serve serve;                 /* NULL: every action is unknown */
    void *arg;
    const char *name; /* for logs: "box control" */
};
struct rpc *rpc_new(const struct rpc_opts *opts, struct error *err);
/* Reads and dispatches until the connection ends, in the calling fiber; afterwards all calls have
 * failed and all handlers have ended. ERR_CLOSED is the normal end. */
bool rpc_run(struct rpc *c, struct error *err);
void rpc_shut(struct rpc *c, int code, struct str reason); /* makes rpc_run end; does not wait */
/* rpc_run has ended, or was never called. */
void rpc_free(struct rpc *c);
size_t rpc_inflight(const struct rpc *c);

/* ---- serving --------------------------------------------------------------------------------- */
void rpc_reply(struct rpc_request *r,
               json_t *data_stolen); /* NULL: memory ended, an error is sent */
/* One part of a streaming answer; waits for room. */
bool rpc_emit(struct rpc_request *r, json_t *data_stolen, struct error *err) warn_unused;
void rpc_stream_end(struct rpc_request *r);
/* "<class>: <text>". The class is err->tag, or follows from its code (ValueError, PermissionError,
 * RuntimeError …). */
void rpc_fail(struct rpc_request *r, const struct error *err);
void rpc_fail_text(struct rpc_request *r, const char *class_name, struct str text);
/* ValueError: Action <name> not found. */
void rpc_fail_unknown(struct rpc_request *r);
/* Ends a request from outside its fiber, which is cancelled; what it is answered with is this error,
 * whatever its handler says then. Does not wait. */
void rpc_abort(struct rpc_request *r, const struct error *err);
/* KeyError: '<name>' with class and text as err. Member of data that must be there. */
const json_t *rpc_need(const struct rpc_request *r, const char *name, struct error *err);

/* ---- calling --------------------------------------------------------------------------------- */
/* The data of the answer (new reference), or NULL: ERR_UPSTREAM with the peer's text, ERR_TIMEOUT
 * "Action <name> call timed out", ERR_CLOSED. timeout_ms 0: RPC_CALL_MS. Context may be NULL. */
json_t *rpc_call(struct rpc *c, const char *action, json_t *data_stolen, const json_t *context,
                 int64_t timeout_ms, struct error *err);
/* Streaming. next: true with a part (new reference), or with *data NULL at the end. A reader that
 * falls RPC_QUEUE_MAX parts behind gets ERR_CAPACITY. timeout_ms: for each part. */
struct rpc_stream;
struct rpc_stream *rpc_open(struct rpc *c, const char *action, json_t *data_stolen,
                            const json_t *context, int64_t timeout_ms, struct error *err);
bool rpc_next(struct rpc_stream *s, json_t **data, struct error *err) warn_unused;
void rpc_stream_close(struct rpc_stream *s); /* NULL is fine */

/* ---- file transfer (§1.10) -------------------------------------------------------------------- */
/* Sends bytes with __file_chunk; `ext` without dot or NULL. The key (64 bytes at least) names it. */
bool rpc_file_send(struct rpc *c, struct str bytes, const char *ext, const json_t *context,
                   char key[128], struct error *err) warn_unused;
/* Receiving side, one for each connection. `dir` is made with 0700 (and its parents). */
struct rpc_files;
struct rpc_files *rpc_files_new(const char *dir, size_t file_max);
void rpc_files_limit(struct rpc_files *f, size_t file_max);
/* Serves one __file_chunk: stores it and replies. */
void rpc_files_chunk(struct rpc_files *f, struct rpc_request *r);
/* Reads a finished file into `out` and removes it. ERR_NOT_FOUND. */
bool rpc_files_take(struct rpc_files *f, struct str key, struct buf *out,
                    struct error *err) warn_unused;
void rpc_files_free(struct rpc_files *f); /* removes what was left */

#endif
