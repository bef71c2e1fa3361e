/* Shared by the three files of the HTTP client: client.c (curl on the loop), client_call.c (one
 * call), client_policy.c (where a call may go). Not for anybody else. */
#ifndef PARLEY_NET_CLIENT_PRIVATE_H
#define PARLEY_NET_CLIENT_PRIVATE_H

#include "net/net.h"

#include <curl/curl.h>
#include <sys/socket.h>

/* One transfer, pooled together with its easy handle and buffers. It is what `struct
 * http_stream` points to. */
struct http_stream {
    struct list node;        /* in the pool, or among those that end in the background */
    struct task_timer limit; /* in the background */
    CURL *easy;
    struct curl_slist *headers; /* of the request; curl reads them until the transfer ends */
    struct task *waiter;
    struct buf head;     /* of the last answer: lines without CRLF, NUL between them */
    struct buf rx;       /* come, not yet given to the reader; a fetch: the whole body */
    struct buf cur;      /* given to the reader */
    struct arena *arena; /* of a fetch: the body goes there at once when its size is known */
    char *direct;
    size_t direct_n, direct_cap;
    size_t head_count, body_max, body_n, request_n;
    int64_t last_us, total_at_us;
    int idle_ms, total_ms, connect_ms;
    unsigned flags;
    int status;
    CURLcode code;
    bool added, head_done, done, fetch, started, paused, too_large, head_too_large, bodyless,
        via_proxy, no_memory, left;
    char denied[64];  /* the address that the policy refused */
    char origin[128]; /* "http://host:port"; never path or query, which may hold secrets */
    char curl_error[CURL_ERROR_SIZE];
};

enum {
    XFER_BUFFERED_MAX = 256 * 1024,
    XFER_HEAD_MAX = 64 * 1024,
    XFER_READ = 8 * 1024,       /* bytes of curl's buffer, one for each running transfer … */
    XFER_READ_SMALL = 2 * 1024, /* … with HTTP_CALL_SMALL */
};

/* ---- client.c -------------------------------------------------------------------------------- */
/* A pooled or new transfer with the constant options set; NULL with ERR_NOMEM or ERR_INTERNAL
 * (client not started). */
struct http_stream *client_take(struct error *err);
void client_give_back(struct http_stream *x); /* aborts it if it runs */
/* Nobody reads it any more: it is given back by itself when it ends, or after ms. */
void client_leave(struct http_stream *x, int64_t ms);
bool client_start(struct http_stream *x, struct error *err);
void client_abort(struct http_stream *x);
/* A socket of ours, watched from now on. CURL_SOCKET_BAD on failure. */
curl_socket_t client_socket(const struct curl_sockaddr *address);
/* The proxy for this URL, "" for none. */
/* With what the operator's settings make of them. */
unsigned client_flags(unsigned flags);
const char *client_proxy(const struct url *url, unsigned flags);

/* The CA bundle set at http_client_init, or NULL. For ws_connect. */
const char *client_ca_file(void);

/* ---- client_call.c: callbacks of curl -------------------------------------------------------- */
size_t call_on_head(char *p, size_t size, size_t n, void *arg);
size_t call_on_body(char *p, size_t size, size_t n, void *arg);

/* ---- client_policy.c ------------------------------------------------------------------------- */
struct policy_cidr {
    uint8_t bits[16]; /* IPv4 as ::ffff:a.b.c.d */
    unsigned prefix;
};
bool policy_cidr_parse(struct str text, struct policy_cidr *out) warn_unused;
/* Sets the list that policy_refuses allows; takes over `list`. */
void policy_allow(struct policy_cidr *list, size_t count);
bool policy_refuses(const struct sockaddr *address);
bool policy_refuses_text(
    const char *numeric); /* "10.0.0.1", "::1"; what is no address is refused */
/* A name or literal that means this machine or a private network without asking DNS; "127.1"
 * too. */
bool policy_refuses_host(struct str host);
bool policy_is_loopback(struct str host);
/* Does the comma-separated NO_PROXY list name this host? */
bool policy_no_proxy(const char *list, struct str host);

#endif
