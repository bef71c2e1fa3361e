/* Output queues of connections and WebSockets. */
#include "net/conn.h"

#include <errno.h>
#include <sys/socket.h>

size_t outq_size(const struct outq *q)
{
    return q->b.n - q->off + q->tail_n;
}

void outq_free(struct outq *q)
{
    buf_free(&q->b);
    *q = (struct outq){.b.max = q->b.max};
}

/* MSG_NOSIGNAL: a client that has gone must not raise SIGPIPE. Returns -1 when broken, else the
 * bytes taken. */
static ssize_t send_parts(int fd, struct iovec *parts, size_t n)
{
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = n};
    ssize_t r;
    do
        r = n == 1 ? send(fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL)
                   : sendmsg(fd, &m, MSG_NOSIGNAL);
    while (r < 0 && errno == EINTR);
    if (r < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS))
        return 0;
    return r;
}

bool outq_flush(struct outq *q, int fd)
{
    while (outq_size(q) > 0) {
        struct iovec parts[2];
        size_t n = 0;
        if (q->b.n > q->off)
            parts[n++] = (struct iovec){q->b.p + q->off, q->b.n - q->off};
        if (q->tail_n > 0)
            parts[n++] = (struct iovec){(char *)(uintptr_t)q->tail, q->tail_n};
        size_t want = outq_size(q);
        ssize_t r = send_parts(fd, parts, n);
        if (r < 0)
            return false;
        size_t done = (size_t)r, copied = q->b.n - q->off;
        if (done <= copied) {
            q->off += done;
        } else {
            q->off = q->b.n;
            q->tail += done - copied;
            q->tail_n -= done - copied;
        }
        if ((size_t)r < want)
            break;
    }
    if (q->off == q->b.n) {
        buf_free(&q->b);
        q->off = 0;
    } else if (q->off > q->b.n / 2 && q->off > 65536) {
        /* Only when more is gone than stays, so that the copying is linear in what was sent. */
        buf_eat(&q->b, q->off);
        q->off = 0;
    }
    return true;
}

bool outq_send(struct outq *q, int fd, struct iovec *parts, size_t n, bool last_static)
{
    size_t done = 0;
    if (outq_size(q) == 0) {
        ssize_t r = send_parts(fd, parts, n);
        if (r < 0)
            return false;
        done = (size_t)r;
    }
    for (size_t i = 0; i < n; i++) {
        char *p = parts[i].iov_base;
        size_t len = parts[i].iov_len, skip = done < len ? done : len;
        done -= skip;
        if (len == skip)
            continue;
        if (last_static && i == n - 1 && q->tail_n == 0) {
            q->tail = p + skip;
            q->tail_n = len - skip;
        } else if (q->tail_n > 0 || !buf_add(&q->b, p + skip, len - skip)) {
            return false;
        }
    }
    return true;
}
