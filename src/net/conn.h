/* Private to net/: connections of the HTTP server and the requests on them.
 * A connection (struct http_conn) is small and lives as long as its socket; a request (struct
 * http_run) exists from the end of its head until its answer is given. Both are touched on the loop
 * thread only. */
#ifndef PARLEY_NET_CONN_H
#define PARLEY_NET_CONN_H

#include "net/net.h"

#include <sys/uio.h>
#include <uv.h>

enum {
    CONN_READ_SIZE = 64 * 1024,   /* one receive; the buffer is shared by all connections */
    CONN_AHEAD_MAX = 64 * 1024,   /* bytes taken from a client while its request is being handled */
    CONN_STREAM_ROOM = 64 * 1024, /* bytes of a streamed answer that may wait for the socket */
    CONN_HEADERS_MAX = 128,       /* header lines of a request */
    CONN_LINGER_MS = 1000,        /* how long a refused client may go on sending before the close */
    RUN_SPARES = 64,              /* blocks of ended requests that are kept for the next ones */
    RUN_SPARE_SIZE = 2048,        /* their size; larger requests are allocated for themselves */
    CONN_BODIES_MAX = 256 << 20,  /* memory of all bodies; over it only small ones are taken */
    CONN_BODY_SMALL = 64 * 1024,
    CONN_SIDE_MAX = 16 * 1024, /* bytes of chunk extensions and trailers, which are ignored */
};

/* Bytes on their way out: copied ones, then at most one block that outlives the connection. */
struct outq {
    struct buf b;
    size_t off;       /* of b: already sent */
    const char *tail; /* static block behind b */
    size_t tail_n;
};
size_t outq_size(const struct outq *q);
/* Writes to the socket what it takes. False: the connection is broken. Memory is released once the
 * queue is empty. */
bool outq_flush(struct outq *q, int fd);
/* Sends the parts at once as far as the socket takes them (if nothing waits already) and queues
 * copies of the rest; the last part is kept by reference if `last_static`. False: broken or out of
 * memory. */
bool outq_send(struct outq *q, int fd, struct iovec *parts, size_t n, bool last_static);
void outq_free(struct outq *q);

/* Strict decoder of chunked bodies (RFC 9112 §7.1): bare line feeds, empty sizes and signs are
 * errors. */
struct chunked {
    uint8_t state;
    uint8_t digits;
    uint32_t side; /* bytes of extensions and trailers so far */
    uint64_t left; /* data bytes of the current chunk still to come */
};
enum chunked_result { CHUNKED_MORE, CHUNKED_END, CHUNKED_BAD, CHUNKED_FULL };
/* Takes bytes from p up to the end of the body; *used says how many. Data is added to `body`, whose
 * maximum gives CHUNKED_FULL. Split at any byte gives the same result. */
enum chunked_result chunked_feed(struct chunked *ck, const char *p, size_t n, size_t *used,
                                 struct buf *body);

/* The head of a request, as views into the text that was parsed. */
struct head {
    enum http_method method;
    struct str target;
    struct http_header headers[CONN_HEADERS_MAX];
    size_t header_count;
    uint64_t content_length;
    bool has_length, chunked, keep_alive, http10, expect_continue;
};
/* Looks for the blank line that ends a head. `from`: bytes already looked at. Returns its whole
 * length, 0 if it has not come yet, -1 on bytes that no head may hold (control characters, line
 * ends other than CR LF). */
ptrdiff_t head_scan(const char *p, size_t n, size_t from);
/* Parses a whole head. Returns 0 or the HTTP status to refuse it with. */
int head_parse(const char *p, size_t n, struct head *h);
/* Splits a request target: path (raw) and query. False for what is neither origin nor absolute form
 * nor "*". */
bool head_target(struct str target, struct str *path, struct str *query);

enum conn_state {
    CONN_HEAD,   /* between requests or inside a head */
    CONN_BODY,   /* run exists, body is coming */
    CONN_RUN,    /* a fiber works on run */
    CONN_FLUSH,  /* answer given, bytes still to be sent */
    CONN_LINGER, /* our side is shut down, input is thrown away */
    CONN_GIVEN,  /* socket handed to a WebSocket */
    CONN_DEAD,   /* closed; waits for the loop's callback and the end of run */
};
/* What a connection waits for; each has a list ordered by the time of entry. */
enum conn_wait {
    WAIT_IDLE,
    WAIT_HEAD,
    WAIT_BODY,
    WAIT_WRITE,
    WAIT_LINGER,
    WAIT_KINDS,
    WAIT_NONE = WAIT_KINDS
};

struct http_conn {
    uv_poll_t poll;
    struct http_server *server;
    struct http_run *run;
    struct list node; /* of all connections */
    struct list wait; /* of its conn_wait */
    int64_t since_us; /* entry into wait */
    size_t got;       /* body bytes as sent; bytes thrown away while lingering */
    struct buf in;    /* unparsed input */
    struct outq out;
    int fd;
    uint32_t scanned; /* of in: looked at by head_scan */
    uint8_t state, waiting, watched;
    uint8_t family; /* 4, 6 or 0 */
    unsigned char addr[16];
    bool eof;         /* the client sent its last byte */
    bool close_after; /* of the answer */
    bool linger;      /* input may still come after it */
    bool handle_closed;
};

struct http_run {
    struct http_request r;
    struct http_conn *conn;
    struct http_server *server;
    struct task *waiter; /* in http_stream_write */
    struct buf body;
    struct buf extra; /* header lines of the answer */
    struct chunked ck;
    uint64_t left; /* of a body with a declared length */
    size_t bytes;  /* of the answer */
    bool chunked, keep, http10, head_only, too_large;
    bool answered, streaming, ended, preflight;
    bool recyclable; /* of RUN_SPARE_SIZE */
    char peer[46];
    /* headers, head text and request id follow in the same block */
};

struct router;
/* Builds the trie; the tables must outlive it. NULL: two routes collide, a pattern is malformed or
 * memory ended. */
struct router *router_new(const struct http_route *const *tables, struct error *err);
void router_free(struct router *rt);
/* Fills r->route, r->params and r->path_known from r->method and r->raw_path. False: no memory for
 * the parameters. */
bool router_match(const struct router *rt, struct http_request *r);

struct http_server {
    struct http_server_opts opts;
    struct router *router;
    struct task_group *group;
    struct list conns, websockets;
    struct list waits[WAIT_KINDS];
    struct task_timer sweep;
    struct task *stopper; /* waits for handles to become 0 */
    uv_poll_t listener;
    size_t handles; /* libuv handles not yet closed */
    size_t open, running, sockets;
    size_t bodies; /* bytes of memory in buffers of bodies and half WebSocket messages */
    uint64_t accepted, requests, refused;
    int listen_fd, spare_fd; /* spare_fd: given up for a moment when descriptors run out */
    uint16_t port;
    bool stopping, deaf;
    int64_t now_us;        /* monotonic, as of the last event that looked at the clock */
    int64_t date_until_us; /* date is right until then */
    char date[40];         /* "Mon, 02 Jan 2006 15:04:05 GMT" */
    size_t date_n;
    uint64_t random[4]; /* state of the generator of request ids */
    struct http_run *spare[RUN_SPARES];
    size_t spare_n;
    struct head head;
    char head_text[16 * 1024];
    char read[CONN_READ_SIZE];
};

/* conn.c */
void conn_accept(struct http_server *s, int fd, uint8_t family, const unsigned char *addr);
void conn_kill(
    struct http_conn *c); /* closes at once; the struct goes when its run has ended too */
void conn_run_ended(struct http_conn *c); /* the fiber of c->run is done; run is still linked and is
                                             released here */
void conn_refuse(struct http_conn *c, int status);
void conn_watch(struct http_conn *c); /* tells libuv what the state needs */
void conn_wait(struct http_conn *c, enum conn_wait w);
/* Takes the socket away (for a WebSocket) with what was read ahead of it; the connection stays
 * until its run ends. */
int conn_give(struct http_conn *c, struct buf *ahead);
/* Bytes were queued or (progress) taken by the socket. */
void conn_sent(struct http_conn *c, bool progress);

/* ws_accept.c */
void ws_server_stop(struct list *node); /* of s->websockets: the server goes away */

/* server_run.c */
bool run_start(struct http_run *run); /* in a fiber; false: it could not be started */
/* The memory of its body goes back, and out of the sum. */
void run_drop_body(struct http_run *run);
void run_free(struct http_run *run);
void run_free_spares(struct http_server *s);
/* New request from the head in s->head, whose text is p[0..n). NULL: memory. */
struct http_run *run_new(struct http_conn *c, const char *p, size_t n);

/* server_answer.c */
const char *http_reason(int status);
struct str server_date(struct http_server *s);
bool server_seed(struct http_server *s); /* of server_uuid */
void server_uuid(struct http_server *s, char out[37]);
/* Refusal without a request: the whole answer into `out` (at least 512 bytes); returns its length.
 */
size_t server_refusal(struct http_server *s, int status, char *out, size_t size);
/* Status line and headers up to the blank line in s->head_text (status and `extra` headers of run
 * included). length < 0: chunked or until close; SIZE_MAX answers have no length (101). Returns the
 * bytes, 0 if it does not fit. */
size_t answer_head(struct http_run *run, int status, const char *content_type, int64_t length);

static inline struct http_run *run_of(const struct http_request *r)
{
    return container_of((void *)(uintptr_t)r, struct http_run, r);
}

#endif
