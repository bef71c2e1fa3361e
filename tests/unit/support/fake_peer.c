#include "support/fake_peer.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct connection {
    struct fake_peer *peer;
    int fd, index;
};

static void *serve_one(void *arg)
{
    struct connection *c = arg;
    c->peer->serve(c->peer, c->fd, c->index);
    close(c->fd);
    atomic_fetch_sub(&c->peer->running, 1);
    free(c);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct fake_peer *p = arg;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    while (!atomic_load(&p->stop)) {
        struct pollfd poller = {.fd = p->fd, .events = POLLIN};
        if (poll(&poller, 1, 20) <= 0)
            continue;
        int fd = accept4(p->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        struct connection *c = malloc(sizeof(*c));
        *c = (struct connection){p, fd, atomic_fetch_add(&p->accepted, 1)};
        atomic_fetch_add(&p->running, 1);
        pthread_t thread;
        if (pthread_create(&thread, &attr, serve_one, c) != 0)
            abort();
    }
    pthread_attr_destroy(&attr);
    return NULL;
}

void fake_peer_start(struct fake_peer *p, void (*serve)(struct fake_peer *, int, int))
{
    memset(p, 0, sizeof(*p));
    p->serve = serve;
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    if (p->fd < 0 || bind(p->fd, (struct sockaddr *)&a, n) != 0 || listen(p->fd, 1024) != 0 ||
        getsockname(p->fd, (struct sockaddr *)&a, &n) != 0)
        abort();
    p->port = ntohs(a.sin_port);
    if (pthread_create(&p->thread, NULL, accept_all, p) != 0)
        abort();
}

void fake_peer_stop(struct fake_peer *p)
{
    atomic_store(&p->stop, true);
    pthread_join(p->thread, NULL);
    close(p->fd);
    for (int i = 0; i < 1000 && atomic_load(&p->running) > 0; i++)
        peer_sleep_ms(10);
    if (atomic_load(&p->running) > 0)
        abort();
}

const char *fake_peer_url(const struct fake_peer *p, const char *path, char *out, size_t size)
{
    snprintf(out, size, "http://127.0.0.1:%u%s", p->port, path);
    return out;
}

/* As recv, but ends when the peer is stopped. */
static ssize_t take(struct fake_peer *p, int conn, void *into, size_t n)
{
    struct pollfd poller = {.fd = conn, .events = POLLIN};
    while (poll(&poller, 1, 20) == 0) {
        if (atomic_load(&p->stop))
            return -1;
    }
    return recv(conn, into, n, 0);
}

static _Thread_local char request[sizeof(((struct fake_peer *)NULL)->last)];

const char *peer_request(void)
{
    return request;
}

bool peer_read(struct fake_peer *p, int conn)
{
    char *const buf = request;
    size_t n = 0;
    char *end = NULL;
    while (!end) {
        ssize_t got = take(p, conn, buf + n, sizeof(request) - 1 - n);
        if (got <= 0)
            return false;
        n += (size_t)got;
        buf[n] = '\0';
        end = strstr(buf, "\r\n\r\n");
    }
    const char *length = strcasestr(buf, "\r\ncontent-length:");
    size_t body = length && length < end ? (size_t)strtoul(length + 17, NULL, 10) : 0;
    size_t have = n - (size_t)(end + 4 - buf);
    while (have < body) {
        char sink[16384];
        size_t room = sizeof(request) - 1 - n;
        char *into = room > 0 ? buf + n : sink;
        ssize_t got = take(p, conn, into, room > 0 ? room : sizeof(sink));
        if (got <= 0)
            return false;
        have += (size_t)got;
        n += room > 0 ? (size_t)got : 0;
        buf[n] = '\0';
    }
    memcpy(p->last, buf, n + 1);
    atomic_fetch_add(&p->requests, 1);
    return true;
}

bool peer_send_n(int conn, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t sent = send(conn, at, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

bool peer_send(int conn, const char *text)
{
    return peer_send_n(conn, text, strlen(text));
}

bool peer_answer(int conn, const char *body)
{
    char head[256];
    snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", strlen(body));
    return peer_send(conn, head) && peer_send(conn, body);
}

void peer_sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

void peer_reset(int conn)
{
    struct linger l = {1, 0};
    setsockopt(conn, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

bool peer_wait_closed(int conn, int ms)
{
    struct pollfd p = {.fd = conn, .events = POLLIN};
    char c[4096];
    while (poll(&p, 1, ms) > 0) {
        if (recv(conn, c, sizeof(c), 0) <= 0)
            return true;
    }
    return false;
}
