/* Private to net/: WebSockets of both roles. */
#ifndef PARLEY_NET_WS_PRIVATE_H
#define PARLEY_NET_WS_PRIVATE_H

#include "net/conn.h"

#include <curl/curl.h>

enum { WS_INBOX_BYTES = 1 << 20, WS_INBOX_MAX = 256, WS_CONTROL_ROOM = 64 * 1024 };

struct wslay_event_context;

/* Received message that waits for ws_recv. */
struct ws_in {
    struct list node;
    enum ws_type type;
    struct buf data;
};

struct ws {
    uv_poll_t poll;
    int fd;
    struct http_server *server; /* NULL: client */
    struct list node;           /* of the server's sockets */
    CURL *easy;                 /* client: owns fd, and TLS if there is any */
    CURLM *multi;

    /* Receiving. The wslay context (about 5 KiB) exists only between the first byte of a message
     * and its last: `fed` counts the bytes given to it, `framed` the bytes of the frames it has
     * announced, so equal means no frame is half-way. */
    struct wslay_event_context *wslay;
    const char *feed;
    size_t feed_n;
    uint64_t fed, framed;
    struct buf message;
    struct list inbox;
    size_t inbox_n, inbox_bytes;
    struct ws_in *current; /* what ws_recv returned last */
    struct task *reader, *closer;

    struct outq out;
    char *block; /* client: the part of out that is being written */
    size_t block_n;
    void (*drain)(void *arg);
    void *drain_arg;
    struct task_timer ping;
    int64_t last_us; /* last byte received */
    size_t message_max, queue_max, frame_max;
    unsigned fragments, fragments_max; /* of the message that is coming */
    int ping_ms;
    uint8_t watched;
    uint8_t type; /* opcode of the message that is coming */
    bool in_control, in_message;
    bool too_big, no_memory;
    bool over;         /* nothing more is parsed: close frame or protocol error */
    bool broken_rules; /* by the peer: ws_recv says ERR_PROTOCOL */
    bool close_sent, close_received;
    bool shut; /* ws_shutdown was called */
    bool eof;  /* the connection is gone */
};

/* Around a connected non-blocking socket, which it owns from now on (client: with easy and multi).
 * NULL: nothing was taken. */
struct ws *ws_new(int fd, const struct ws_opts *opts, struct http_server *server, CURL *easy,
                  CURLM *multi, struct error *err);
/* Bytes that came with the handshake. */
void ws_feed(struct ws *w, const char *p, size_t n);
/* Puts raw bytes in front of the first frame (the 101 answer). */
bool ws_send_raw(struct ws *w, const char *p, size_t n);
void ws_watch(struct ws *w);
void ws_pump(struct ws *w); /* reads what is there already */
/* The connection is over: no more reads or writes; waiters wake. */
void ws_gone(struct ws *w);
bool ws_frame(struct ws *w, unsigned opcode, struct str data);
void ws_close_frame(struct ws *w, unsigned code, struct str reason);

bool ws_random(void *p, size_t n);

/* ws_parse.c */
void ws_parse_end(struct ws *w); /* drops the wslay context */
void ws_uncount(struct ws *w);   /* the half message leaves the sum of the server's bodies */

/* base64(SHA-1(key + GUID)) of RFC 6455 §4.2.2; out holds 29 bytes. */
bool ws_accept_key(struct str key, char out[29]);

#endif
