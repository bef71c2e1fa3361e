/* net: HTTP/1.1 server and client, WebSocket both ways, server-sent events, multipart, URLs. Fibers
 * wait, callbacks don't leak out. All on the loop thread. design.md §7; limits: http-api.md §1. */
#ifndef PARLEY_NET_H
#define PARLEY_NET_H

#include "base/base.h"
#include "task/task.h"

/* ---- URLs and small syntax ----------------------------------------------------------------- */
struct url {
    struct str scheme, user, host, path, query,
        fragment;  /* views into the text; host without brackets */
    uint16_t port; /* 0: not given */
};
/* http, https, ws, wss only; rejects control characters, spaces, empty host. */
bool url_parse(struct str text, struct url *out, struct error *err) warn_unused;
struct str url_decode(struct arena *a, struct str s,
                      bool plus_is_space); /* bad escapes stay as they are; may hold NUL */
struct str url_encode(struct arena *a, struct str s); /* RFC 3986 unreserved stay */
/* First value of a query or form key, decoded; STR_NONE if absent. `index`-th with query_nth. */
struct str query_get(struct arena *a, struct str query, const char *key);
struct str query_nth(struct arena *a, struct str query, const char *key, size_t index);
size_t query_count(struct str query, const char *key);
const char *mime_of_path(struct str path); /* by suffix; "application/octet-stream" otherwise */

struct http_header {
    struct str name, value;
};

/* ---- server --------------------------------------------------------------------------------
 * A connection is parsed by llhttp; each complete request runs its handler in a fiber with an arena
 * of its own. */
struct http_server;
struct http_request;

enum http_method {
    HTTP_M_GET,
    HTTP_M_POST,
    HTTP_M_PUT,
    HTTP_M_DELETE,
    HTTP_M_PATCH,
    HTTP_M_OPTIONS,
    HTTP_M_HEAD,
    HTTP_M_OTHER
};
const char *http_method_name(enum http_method m);

/* Bodies are read whole before the handler runs (bounded by the route's body_max, at most the
 * server's), multipart included. */
struct http_request {
    enum http_method method;
    struct str target;   /* as sent */
    struct str path;     /* decoded; no NUL, no control characters; starts with '/' */
    struct str raw_path; /* not decoded, without query */
    struct str query;    /* not decoded */
    struct str body;
    const struct http_header *headers; /* names as sent */
    size_t header_count;
    struct str params[8]; /* path parameters of the matched route, decoded, in order */
    size_t param_count;
    const struct http_route *route; /* NULL in the fallback handler */
    bool path_known; /* fallback: the path has a route, but not for this method (405) */
    unsigned
        allowed; /* then: bits (1 << enum http_method) of those it has; the answer's Allow header is set */
    json_t *json; /* body of HTTP_BODY_JSON (never NULL in the handler) and _LENIENT (NULL: none or
                     invalid); borrowed */
    struct arena *arena;    /* lives until the answer is written */
    const char *request_id; /* §1.3: from the client or a fresh UUIDv4; NUL-terminated */
    const char *peer;       /* numeric address, "" if unknown */
    int64_t start_us;
    void *user;             /* set by the gate: request context of api/ */
    struct http_conn *conn; /* private */
    int status;             /* of the answer once given, else 0 */
};
struct str http_header_get(const struct http_request *r,
                           const char *name); /* case-insensitive; STR_NONE if absent */
struct str http_param(const struct http_request *r, size_t index);
struct str http_query(const struct http_request *r,
                      const char *key);            /* first, decoded (plus is space); STR_NONE */
bool http_peer_gone(const struct http_request *r); /* the client closed while the handler works */
/* json_parse or json_parse_words, large texts on a worker, since nothing may hold up the loop. May
 * wait. */
json_t *net_json_parse(struct str text, bool words, struct error *err);

/* Answers. Exactly one of these ends a handler; without one the server answers 500. Later calls are
 * ignored (and logged). */
void http_answer(struct http_request *r, int status, const char *content_type, struct str body);
void http_answer_header(struct http_request *r, const char *name,
                        struct str value); /* before the answer; copies; rejects CR LF */
/* Body that outlives the request (static or an asset): not copied. */
void http_answer_static(struct http_request *r, int status, const char *content_type,
                        const void *body, size_t n);
/* Chunked answer. A handler that returns without http_stream_end cuts the connection, so that the
 * client sees the answer was not whole. write waits for room (64 KiB in flight) and fails with
 * ERR_CLOSED when the client is gone or too slow. */
bool http_stream_start(struct http_request *r, int status, const char *content_type,
                       struct error *err) warn_unused;
bool http_stream_write(struct http_request *r, struct str data, struct error *err) warn_unused;
void http_stream_end(struct http_request *r);

/* JSON bodies are validated against the declared list before the handler runs; it is also what
 * OpenAPI is made from. */
enum http_type {
    HTTP_ANY,
    HTTP_STR,
    HTTP_INT,
    HTTP_NUM,
    HTTP_BOOL,
    HTTP_OBJ,
    HTTP_ARR,
    HTTP_STR_OR_ARR
};
struct http_field {
    const char *name; /* NULL ends a list */
    enum http_type type;
    bool required, nullable;
    int64_t min, max; /* numbers: bounds; strings and arrays: length in code points / entries; both
                         0: none */
    const char *one_of; /* "a|b|c" for strings, or NULL */
    const char *help;   /* for OpenAPI */
};
/* ERR_INVALID whose sentence names field and limit. Unknown fields pass unless `closed`. */
bool http_fields_check(const struct http_field *fields, const json_t *body, bool closed,
                       struct error *err) warn_unused;

enum http_body_kind {
    HTTP_BODY_NONE,
    HTTP_BODY_JSON,
    HTTP_BODY_JSON_LENIENT,
    HTTP_BODY_MULTIPART,
    HTTP_BODY_RAW
};

/* One route. Patterns: "/api/v1/platform/bots/{uuid}", "{n:int}" matches digits only, "{rest:path}"
 * matches slashes and must be last. Literals beat parameters. `auth` and `permission` are numbers
 * of the layer above (api/), handed to its gate. */
struct http_route {
    enum http_method method;
    const char *pattern;
    unsigned auth;
    unsigned permission;
    void (*handler)(struct http_request *r);
    enum http_body_kind body;
    size_t body_max;                 /* 0: the server's default */
    const struct http_field *fields; /* JSON body; NULL: none declared */
    bool fields_late;                /* the handler checks them, after what has to be said first */
    bool words; /* strings of the body may hold U+0000: the handler reads them with json_s only */
    const char *query;   /* "limit,offset,botId*" for OpenAPI; NULL */
    const char *summary; /* one line, for OpenAPI */
    bool hidden;         /* not in OpenAPI */
};

struct http_server_opts {
    const char *host; /* "0.0.0.0" */
    uint16_t port;    /* 0: any; see http_server_port */
    const struct http_route *const
        *tables; /* NULL-terminated list of arrays, each ended by a NULL pattern */
    /* Runs in the request's fiber before body validation; false: it has answered (401, 403 …). */
    bool (*gate)(struct http_request *r, void *arg);
    /* The JSON body was invalid: answers in the API's envelope. */
    void (*reject)(struct http_request *r, const struct error *err, void *arg);
    /* No route matched (static files, 404). */
    void (*fallback)(struct http_request *r, void *arg);
    /* After each answer: access log and metrics; must not wait. */
    void (*after)(const struct http_request *r, int status, size_t bytes, void *arg);
    void *arg;
    size_t body_max; /* bytes; default 10 MiB; over it: `too_large` is answered and the connection
                        closed */
    void (*too_large)(struct http_request *r,
                      void *arg); /* answers status and body for a request over the limit */
    size_t header_max;            /* bytes of request line and headers; default 32 KiB → 431 */
    size_t connections_max;       /* default 8192; more are accepted and closed with 503 */
    int header_timeout_ms;        /* from first byte to the end of headers; default 15000 → 408 */
    int body_timeout_ms; /* without progress of at least 1 KiB/s on average; default 30000 → 408 */
    int idle_timeout_ms;  /* keep-alive; default 75000 */
    int write_timeout_ms; /* a client that takes nothing; default 30000 → closed */
    size_t arena_max;     /* per request; default 64 MiB */
    bool cors; /* Access-Control-Allow-Origin: * and preflight answers for all routes (http-api.md
                  §1.1) */
};
struct http_server *http_server_new(const struct http_server_opts *opts,
                                    struct error *err); /* listens at once */
uint16_t http_server_port(const struct http_server *s);
/* Stops accepting; running requests may finish until ms have passed, then they are cancelled;
 * closes all; releases. */
void http_server_stop(struct http_server *s, int64_t grace_ms);
struct http_server_stats {
    size_t connections, requests_running, websockets;
    uint64_t accepted, requests, refused;
};
void http_server_stats_get(const struct http_server *s, struct http_server_stats *out);
/* Route tables again, for OpenAPI and the isolation test. */
const struct http_route *http_server_routes(const struct http_server *s, size_t table,
                                            size_t index);

/* Multipart/form-data of a whole body. Parts are views. At most 64 parts. */
struct http_part {
    struct str name, filename, content_type, data; /* filename.p == NULL: a plain field */
};
bool multipart_parse(struct arena *a, struct str content_type, struct str body,
                     struct http_part **parts, size_t *count, struct error *err) warn_unused;

/* ---- WebSocket (server and client) ---------------------------------------------------------
 * Frames by wslay. An idle server socket costs a few hundred bytes besides its fiber. */
struct ws;
enum ws_type { WS_TEXT, WS_BINARY };
struct ws_msg {
    enum ws_type type;
    struct str data; /* valid until the next ws_recv on this socket; text is valid UTF-8 */
};
struct ws_opts {
    size_t message_max; /* bytes of a received message; default 10 MiB; over it: closed with 1009 */
    size_t queue_max;   /* bytes queued to send; default 8 MiB; over it ws_send fails with
                           ERR_CAPACITY */
    unsigned fragments_max; /* frames of a received message; over it: closed with 1009; 0: any */
    size_t frame_max; /* a frame of this size at most is taken whole while no more than queue_max
                           waits, so that one message cannot fill the queue; default 0: none */
    int ping_ms;      /* own pings and dead-peer check; 0: none */
    const char *subprotocol; /* ws_accept: selected when the client offers it; NULL: none is */
    bool no_proxy;           /* ws_connect: straight to the host */
};
/* Takes over the connection of an upgrade request (101 sent). The handler's fiber goes on with the
 * socket and calls ws_close at its end; r->arena stays valid. A missing Origin is fine. ERR_INVALID
 * if the request is no upgrade (answer it yourself). */
struct ws *ws_accept(struct http_request *r, const struct ws_opts *opts, struct error *err);
bool http_is_upgrade(const struct http_request *r);
/* ERR_CLOSED at the end (close frame or connection), ERR_TIMEOUT by the fiber's deadline,
 * ERR_PROTOCOL. */
bool ws_recv(struct ws *w, struct ws_msg *msg, struct error *err) warn_unused;
/* Queues a copy and writes at once what the socket takes; never waits. ERR_CLOSED, ERR_CAPACITY. */
bool ws_send(struct ws *w, enum ws_type type, struct str data, struct error *err) warn_unused;
size_t ws_queued(const struct ws *w); /* bytes not yet taken by the kernel */
/* fn(arg) on the loop each time the queue becomes empty after it was not; must not wait; may
 * ws_send. NULL removes it. */
void ws_on_drain(struct ws *w, void (*fn)(void *arg), void *arg);
/* Makes a waiting ws_recv return ERR_CLOSED and starts the closing handshake; does not wait. */
void ws_shutdown(struct ws *w, int code, struct str reason);
/* Close handshake for at most 1 s (queue is drained for 250 ms), then releases. */
void ws_close(struct ws *w);
bool ws_is_open(const struct ws *w);
/* Client: ws:// or wss://, headers may be NULL; subprotocol NULL. Connect deadline: the fiber's,
 * else 30 s. */
struct ws *ws_connect(const char *url, const struct http_header *headers, size_t header_count,
                      const char *subprotocol, const struct ws_opts *opts, struct error *err);

/* ---- HTTP client (libcurl multi on the loop) ----------------------------------------------- */
enum http_call_flags {
    /* Refuse loopback, private, link-local… addresses unless allow-listed. */
    HTTP_CALL_NO_PRIVATE = 1,
    HTTP_CALL_NO_PROXY = 2,
    HTTP_CALL_FOLLOW = 4,  /* up to 5 redirects, same policy for each */
    HTTP_CALL_SMALL = 8,   /* the answer comes little by little: a small buffer does */
    HTTP_CALL_TENANT = 16, /* a URL that a workspace gave: NO_PRIVATE where the operator wants it */
};
struct http_call {
    const char *method; /* "GET", "POST" … */
    const char *url;
    const struct http_header *headers;
    size_t header_count;
    struct str body; /* not copied: must live until the call has returned / the stream is closed */
    int connect_ms;  /* default 10000 */
    int total_ms;    /* whole call; 0: none (then idle_ms must be given) */
    int idle_ms;     /* without a byte; 0: none */
    size_t body_max; /* of the answer; default 10 MiB; over it ERR_TOO_LARGE */
    unsigned flags;
};
struct http_result {
    int status;
    struct http_header *headers; /* in the arena */
    size_t header_count;
    struct str body; /* in the arena */
};
/* True for any complete HTTP answer, whatever its status. ERR_TIMEOUT, ERR_UPSTREAM (resolve,
 * refused, TLS, cut off: `err->tag` is "connect" when no byte of the request can have been
 * processed), ERR_TOO_LARGE, ERR_INVALID (URL). */
bool http_fetch(struct arena *a, const struct http_call *call, struct http_result *out,
                struct error *err) warn_unused;
struct str http_result_header(const struct http_result *r, const char *name);
/* Streaming: returns when the headers have come. */
struct http_stream;
struct http_stream *http_open(const struct http_call *call, struct error *err);
int http_stream_status(const struct http_stream *s);
struct str http_stream_header(const struct http_stream *s, const char *name);
/* Next bytes (a view, valid until the next call); n == 0 and true: end. Backpressure: at most 256
 * KiB are buffered. */
bool http_stream_read(struct http_stream *s, struct str *chunk, struct error *err) warn_unused;
void http_stream_close(struct http_stream *s); /* aborts if not at the end; NULL is fine */
/* Instead of close, by a reader that has all it wants of an answer about to end: the rest (at most
 * 64 KiB within 1 s) is taken in the background, so that the connection can be used again. Returns
 * at once; `body` of the call is not touched any more. */
void http_stream_finish(struct http_stream *s);
/* The whole request has gone out and an answer has come: the request's body is not read again. */
bool http_stream_sent(const struct http_stream *s);
/* Process-wide settings: proxies (NULL or "": from the environment), CA bundle (NULL: system or
 * SSL_CERT_FILE), CIDR allow-list for HTTP_CALL_NO_PRIVATE, most idle connections kept. */
struct http_client_opts {
    const char *proxy_http, *proxy_https, *ca_file;
    const char *const *allow_private; /* NULL-terminated CIDRs or NULL */
    bool refuse_private;              /* HTTP_CALL_TENANT means HTTP_CALL_NO_PRIVATE */
    size_t keep_idle;                 /* default 256 */
};
bool http_client_init(const struct http_client_opts *opts, struct error *err) warn_unused;
struct sockaddr;
/* The judgement of HTTP_CALL_NO_PRIVATE on an address: private, local or special, and not on the
 * allow-list. From any thread. */
bool net_refuses(const struct sockaddr *address);
void http_client_end(void); /* closes everything; all calls must have ended */
size_t http_client_running(void);

/* ---- server-sent events and JSON lines: incremental readers -------------------------------- */
struct sse {
    struct buf line, data, event;
    struct str lone; /* the event's only data so far; in the input, not copied yet */
    size_t max;      /* bytes of one event; over it sse_feed fails */
    bool cr, bom_done, has_data;
};
void sse_init(struct sse *s, size_t max);
void sse_free(struct sse *s);
/* Consumes *in; calls fn for each complete event (event name "" if none; data joined by \n). fn
 * returning false stops (the rest of *in is kept) and makes sse_feed return true. False:
 * ERR_TOO_LARGE. Split at any byte gives the same events. */
bool sse_feed(struct sse *s, struct str *in,
              bool (*fn)(void *arg, struct str event, struct str data), void *arg,
              struct error *err) warn_unused;
/* End of input: an unfinished last line/event is delivered if it holds data (servers that forget
 * the blank line). */
bool sse_end(struct sse *s, bool (*fn)(void *arg, struct str event, struct str data), void *arg,
             struct error *err) warn_unused;

#endif
