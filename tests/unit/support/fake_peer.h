/* A raw TCP server in a thread of its own: each test says byte for byte what the peer does. */
#ifndef PARLEY_TEST_FAKE_PEER_H
#define PARLEY_TEST_FAKE_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_peer {
    int fd;
    uint16_t port;
    /* Serves one connection (number `index`, from 0) and returns; the connection is closed then. */
    void (*serve)(struct fake_peer *p, int conn, int index);
    atomic_int accepted, running, requests, note;
    atomic_bool stop;
    pthread_t thread;
    char last[65536]; /* head and body of the last request read */
};

void fake_peer_start(struct fake_peer *p, void (*serve)(struct fake_peer *p, int conn, int index));
void fake_peer_stop(struct fake_peer *p); /* waits for its connections */
/* "http://127.0.0.1:<port><path>"; a static buffer per call site is the caller's. */
const char *fake_peer_url(const struct fake_peer *p, const char *path, char *out, size_t size);

/* Reads one request with its body into p->last. False: the client closed. */
bool peer_read(struct fake_peer *p, int conn);
/* The last request that this connection's thread has read: `last` is everybody's. */
const char *peer_request(void);
bool peer_send(int conn, const char *text);
bool peer_send_n(int conn, const void *bytes, size_t n);
/* "HTTP/1.1 200 OK" with Content-Length. */
bool peer_answer(int conn, const char *body);
void peer_sleep_ms(int ms);
void peer_reset(int conn); /* makes the close an RST */
/* Waits until the client has closed, at most ms. */
bool peer_wait_closed(int conn, int ms);

#endif
