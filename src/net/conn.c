/* Connections of the HTTP server: reading, framing, writing and their timeouts' bookkeeping. */
#include "net/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONN_OVER = 256 }; /* connections over the limit that are told so */

static void conn_next(struct http_conn *c);

static void conn_free_if_done(struct http_conn *c)
{
    if (!c->handle_closed || c->run || c->state != CONN_DEAD)
        return;
    list_del(&c->node);
    mem_free(c);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct http_conn *c = h->data;
    struct http_server *s = c->server;
    c->handle_closed = true;
    s->handles--;
    conn_free_if_done(c);
    if (s->handles == 0 && s->stopper)
        task_wake(s->stopper);
}

void conn_wait(struct http_conn *c, enum conn_wait w)
{
    list_del(&c->wait);
    c->waiting = (uint8_t)w;
    if (w == WAIT_NONE)
        return;
    /* Between requests the time of the last event will do: each sweep renews it, so it is half a
     * second old at most. */
    if (w != WAIT_IDLE)
        c->server->now_us = time_mono_us();
    c->since_us = c->server->now_us;
    list_push(&c->server->waits[w], &c->wait);
}

static void release_io(struct http_conn *c)
{
    conn_wait(c, WAIT_NONE);
    buf_free(&c->in);
    outq_free(&c->out);
}

void conn_kill(struct http_conn *c)
{
    if (c->state == CONN_DEAD)
        return;
    bool had_socket = c->state != CONN_GIVEN, running = c->run && c->state != CONN_BODY;
    release_io(c);
    c->state = CONN_DEAD;
    c->eof = true;
    c->server->open--;
    if (had_socket) {
        uv_close((uv_handle_t *)&c->poll, on_handle_closed);
        close(c->fd);
        c->fd = -1;
    }
    if (c->run && !running)
        run_free(steal(c->run));
    else if (c->run && c->run->waiter)
        task_wake(c->run->waiter);
}

static void on_poll(uv_poll_t *h, int status, int events);

void conn_watch(struct http_conn *c)
{
    int want = 0;
    switch (c->state) {
    case CONN_RUN:
    case CONN_FLUSH:
        /* Read ahead, also to notice a client that leaves; but never without bound. */
        if (!c->eof && c->in.n < CONN_AHEAD_MAX)
            want = UV_READABLE;
        break;
    case CONN_HEAD:
    case CONN_BODY:
    case CONN_LINGER: want = c->eof ? 0 : UV_READABLE; break;
    default: return;
    }
    if (outq_size(&c->out) > 0)
        want |= UV_WRITABLE;
    if (want == c->watched)
        return;
    c->watched = (uint8_t)want;
    if (want == 0)
        uv_poll_stop(&c->poll);
    else
        uv_poll_start(&c->poll, want, on_poll);
}

int conn_give(struct http_conn *c, struct buf *ahead)
{
    int fd = c->fd;
    *ahead = c->in;
    c->in = (struct buf){0};
    release_io(c);
    c->state = CONN_GIVEN;
    c->fd = -1;
    uv_close((uv_handle_t *)&c->poll, on_handle_closed);
    return fd;
}

/* The last answer is on its way or sent: half-close, and wait a moment for a client that may still
 * be sending, because closing a socket with unread input would destroy the answer on its way. */
static void conn_end(struct http_conn *c)
{
    if (!c->linger || c->eof) {
        conn_kill(c);
        return;
    }
    shutdown(c->fd, SHUT_WR);
    c->state = CONN_LINGER;
    c->got = 0;
    buf_free(&c->in);
    conn_wait(c, WAIT_LINGER);
    conn_watch(c);
}

void conn_sent(struct http_conn *c, bool progress)
{
    if (c->state != CONN_RUN && c->state != CONN_FLUSH) {
        conn_watch(c);
        return;
    }
    bool empty = outq_size(&c->out) == 0;
    if (c->state == CONN_FLUSH && empty) {
        conn_next(c);
        return;
    }
    if (empty)
        conn_wait(c, WAIT_NONE);
    else if (progress || c->waiting != WAIT_WRITE)
        conn_wait(c, WAIT_WRITE);
    if (c->run && c->run->waiter && outq_size(&c->out) < CONN_STREAM_ROOM / 2)
        task_wake(c->run->waiter);
    conn_watch(c);
}

void conn_refuse(struct http_conn *c, int status)
{
    char text[640];
    c->server->refused++;
    if (c->run)
        run_free(steal(c->run));
    size_t n = server_refusal(c->server, status, text, sizeof(text));
    c->close_after = c->linger = true;
    c->state = CONN_FLUSH;
    struct iovec part = {text, n};
    if (!outq_send(&c->out, c->fd, &part, 1, false))
        conn_kill(c);
    else
        conn_sent(c, true);
}

/* The request on c is complete (or refused by size): its fiber starts. */
static void conn_start(struct http_conn *c)
{
    conn_wait(c, WAIT_NONE);
    c->state = CONN_RUN;
    if (!run_start(c->run))
        conn_refuse(c, 503);
}

static void too_large(struct http_conn *c)
{
    c->run->too_large = true;
    c->run->keep = false;
    c->linger = true;
    run_drop_body(c->run);
    conn_start(c);
}

/* A whole head: makes the request, decides about its body. */
static void conn_head(struct http_conn *c, const char *p, size_t n)
{
    struct http_server *s = c->server;
    struct head *h = &s->head;
    int status = head_parse(p, n, h);
    if (status) {
        conn_refuse(c, status);
        return;
    }
    struct http_run *run = run_new(c, p, n);
    if (!run) {
        conn_refuse(c, 503);
        return;
    }
    c->run = run;
    if (!run->r.path.p) {
        conn_refuse(c, 400);
        return;
    }
    c->state = CONN_BODY;
    c->got = 0;
    if (run->left > run->body.max) {
        too_large(c);
    } else if (run->left == 0 && !run->chunked) {
        conn_start(c);
    } else {
        conn_wait(c, WAIT_BODY);
        struct iovec part = {(char *)(uintptr_t) "HTTP/1.1 100 Continue\r\n\r\n", 25};
        if (h->expect_continue && !h->http10 && !outq_send(&c->out, c->fd, &part, 1, false))
            conn_kill(c);
    }
}

/* Bytes of a body; returns how many were taken. */
static size_t conn_body(struct http_conn *c, const char *p, size_t n)
{
    struct http_server *s = c->server;
    struct http_run *run = c->run;
    size_t used = 0, had = run->body.cap;
    if (s->bodies > CONN_BODIES_MAX && run->body.n + n > CONN_BODY_SMALL) {
        conn_refuse(c, 503);
        return n;
    }
    if (!run->chunked) {
        used = run->left < n ? (size_t)run->left : n;
        bool added = buf_add(&run->body, p, used);
        s->bodies += run->body.cap - had;
        if (!added) {
            conn_refuse(c, 503);
            return n;
        }
        run->left -= used;
        c->got += used;
        if (run->left == 0)
            conn_start(c);
        return used;
    }
    enum chunked_result result = chunked_feed(&run->ck, p, n, &used, &run->body);
    s->bodies += run->body.cap - had;
    switch (result) {
    case CHUNKED_MORE: c->got += used; break;
    case CHUNKED_END: conn_start(c); break;
    case CHUNKED_BAD: conn_refuse(c, 400); return n;
    case CHUNKED_FULL: too_large(c); return n;
    }
    return used;
}

/* Parses as much of p[0..n) as the state allows; returns the bytes used. */
static size_t conn_consume(struct http_conn *c, const char *p, size_t n)
{
    size_t off = 0;
    while (off < n && (c->state == CONN_HEAD || c->state == CONN_BODY)) {
        if (c->state == CONN_BODY) {
            off += conn_body(c, p + off, n - off);
            continue;
        }
        /* Empty lines before a request are skipped (RFC 9112 §2.2). */
        if (c->scanned == 0 && (p[off] == '\r' || p[off] == '\n')) {
            off++;
            continue;
        }
        if (c->scanned == 0 && !(p[off] >= 'A' && p[off] <= 'Z')) {
            conn_refuse(c, 400);
            return n;
        }
        size_t max = c->server->opts.header_max, have = n - off;
        ptrdiff_t len = head_scan(p + off, have, c->scanned);
        if (len < 0 || (len == 0 && have > max) || len > (ptrdiff_t)max) {
            conn_refuse(c, len < 0 ? 400 : 431);
            return n;
        }
        if (len == 0) {
            c->scanned = (uint32_t)have;
            if (c->waiting != WAIT_HEAD)
                conn_wait(c, WAIT_HEAD);
            return off;
        }
        c->scanned = 0;
        conn_head(c, p + off, (size_t)len);
        off += (size_t)len;
    }
    return off < n ? off : n;
}

/* Parses what is buffered in c->in. */
static void conn_consume_in(struct http_conn *c)
{
    size_t used = conn_consume(c, c->in.p, c->in.n);
    if (c->in.n == 0)
        return; /* killed or lingering: released */
    if (used >= c->in.n)
        buf_free(&c->in);
    else
        buf_eat(&c->in, used);
}

static void conn_feed(struct http_conn *c, const char *p, size_t n)
{
    if (c->in.n == 0) {
        size_t used = conn_consume(c, p, n);
        if (c->state == CONN_DEAD || c->state == CONN_LINGER)
            return;
        p += used;
        n -= used;
        c->in.max = (size_t)CONN_READ_SIZE + CONN_AHEAD_MAX + c->server->opts.header_max;
        if (n > 0 && !buf_add(&c->in, p, n))
            conn_kill(c);
        return;
    }
    if (!buf_add(&c->in, p, n))
        conn_kill(c);
    else
        conn_consume_in(c);
}

static void conn_eof(struct http_conn *c)
{
    c->eof = true;
    if (c->state == CONN_RUN || c->state == CONN_FLUSH) {
        /* A half-closed client still gets its answer; a streaming handler learns that nobody may be
         * listening. */
        if (c->run && c->run->waiter)
            task_wake(c->run->waiter);
        conn_watch(c);
        return;
    }
    conn_kill(c);
}

static void conn_read(struct http_conn *c)
{
    struct http_server *s = c->server;
    ssize_t n = recv(c->fd, s->read, sizeof(s->read), 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            conn_kill(c);
        return;
    }
    if (n == 0) {
        conn_eof(c);
        return;
    }
    switch (c->state) {
    case CONN_HEAD:
    case CONN_BODY: conn_feed(c, s->read, (size_t)n); break;
    case CONN_LINGER:
        c->got += (size_t)n;
        if (c->got > s->opts.body_max * 4)
            conn_kill(c);
        break;
    default: /* read ahead, unless nothing will come of it */
        c->in.max = (size_t)CONN_READ_SIZE + CONN_AHEAD_MAX + s->opts.header_max;
        if (!c->linger && !buf_add(&c->in, s->read, (size_t)n))
            conn_kill(c);
        break;
    }
    conn_watch(c);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
    struct http_conn *c = h->data;
    if (status < 0) {
        conn_kill(c);
        return;
    }
    if (events & UV_WRITABLE) {
        size_t before = outq_size(&c->out);
        if (!outq_flush(&c->out, c->fd)) {
            conn_kill(c);
            return;
        }
        conn_sent(c, outq_size(&c->out) < before);
    }
    if ((events & UV_READABLE) && c->state != CONN_DEAD && (c->watched & UV_READABLE))
        conn_read(c);
}

/* Answer given and sent: the next request or the end. */
static void conn_next(struct http_conn *c)
{
    if (c->close_after || c->eof || c->server->stopping) {
        c->linger = c->linger || c->in.n > 0;
        conn_end(c);
        return;
    }
    c->state = CONN_HEAD;
    c->scanned = 0;
    conn_wait(c, WAIT_IDLE);
    if (c->in.n > 0)
        conn_consume_in(c);
    conn_watch(c);
}

void conn_run_ended(struct http_conn *c)
{
    struct http_run *run = steal(c->run);
    c->close_after = c->close_after || !run->keep;
    run_free(run);
    if (c->state == CONN_GIVEN) {
        c->state = CONN_DEAD;
        c->server->open--;
    }
    if (c->state == CONN_DEAD) {
        conn_free_if_done(c);
        return;
    }
    c->state = CONN_FLUSH;
    conn_sent(c, false);
}

void conn_accept(struct http_server *s, int fd, uint8_t family, const unsigned char *addr)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    struct http_conn *c = new (struct http_conn);
    if (!c || uv_poll_init(task_loop(), &c->poll, fd) != 0) {
        mem_free(c);
        close(fd);
        return;
    }
    c->poll.data = c;
    c->server = s;
    c->fd = fd;
    c->family = family;
    if (family)
        memcpy(c->addr, addr, family == 6 ? 16 : 4);
    c->out.b.max = SIZE_MAX / 2;
    s->handles++;
    s->open++;
    s->accepted++;
    list_push(&s->conns, &c->node);
    conn_wait(c, WAIT_IDLE);
    if (s->open > s->opts.connections_max + CONN_OVER)
        conn_kill(c); /* not even a refusal: each lingers for up to a second */
    else if (s->open > s->opts.connections_max || s->stopping)
        conn_refuse(c, 503);
    else
        conn_watch(c);
}
