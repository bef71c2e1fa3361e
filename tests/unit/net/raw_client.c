#include "net/raw_client.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct raw raw_open(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    struct error err;
    int one = 1;
    struct raw c = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
                    .in = BUF(64 << 20)};
    assert_true(c.fd >= 0);
    setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(c.fd, (struct sockaddr *)&a, sizeof(a)) != 0) {
        assert_int_equal(errno, EINPROGRESS);
        assert_true(task_fd_wait(c.fd, TASK_WRITE, &err));
    }
    return c;
}

void raw_close(struct raw *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    buf_free(&c->in);
}

void raw_send(struct raw *c, struct str s)
{
    struct error err;
    assert_true(task_write_all(c->fd, s.p, s.n, &err));
}

/* More bytes; false at the end or after 5 s. */
static bool more(struct raw *c)
{
    struct error err;
    struct task_deadline d;
    assert_true(buf_reserve(&c->in, 16384));
    task_deadline_push(&d, 5000);
    ssize_t n = task_read(c->fd, c->in.p + c->in.n, 16384, &err);
    task_deadline_pop(&d);
    if (n <= 0)
        return false;
    c->in.n += (size_t)n;
    return true;
}

bool raw_fill(struct raw *c, size_t n)
{
    while (c->in.n < n)
        if (!more(c))
            return false;
    return true;
}

bool raw_at_end(struct raw *c)
{
    return c->in.n == 0 && !more(c) && c->in.n == 0;
}

struct str raw_header(const struct raw_answer *a, const char *name)
{
    struct str rest = a->head, line;
    while (str_split(&rest, '\n', &line)) {
        ptrdiff_t colon = str_chr(line, ':');
        if (colon > 0 && str_ieqz(str_sub(line, 0, (size_t)colon), name))
            return str_trim(str_sub(line, (size_t)colon + 1, line.n));
    }
    return STR_NONE;
}

/* One line without its CR LF. */
static bool take_line(struct raw *c, struct arena *a, struct str *line)
{
    ptrdiff_t at;
    while ((at = str_find(buf_view(&c->in), S("\r\n"))) < 0)
        if (!more(c))
            return false;
    *line = str_dup(a, str_n(c->in.p, (size_t)at));
    buf_eat(&c->in, (size_t)at + 2);
    return true;
}

static bool take_chunks(struct raw *c, struct raw_answer *a)
{
    struct buf all = BUF(64 << 20);
    struct str line;
    bool ok = false;
    while (take_line(c, a->keep, &line)) {
        size_t n = strtoul(line.p, NULL, 16);
        if (n == 0) {
            ok = take_line(c, a->keep, &line) && line.n == 0;
            break;
        }
        if (!raw_fill(c, n + 2))
            break;
        assert_memory_equal(c->in.p + n, "\r\n", 2);
        buf_add(&all, c->in.p, n);
        buf_eat(&c->in, n + 2);
    }
    a->body = str_dup(a->keep, buf_view(&all));
    buf_free(&all);
    return ok;
}

struct raw_answer raw_answer(struct raw *c, bool no_body)
{
    struct raw_answer a = {.keep = arena_new(256 << 20)};
    ptrdiff_t at;
    int64_t n = 0;
    assert_non_null(a.keep);
    while ((at = str_find(buf_view(&c->in), S("\r\n\r\n"))) < 0) {
        if (!more(c)) {
            a.cut = true;
            return a;
        }
    }
    a.head = str_dup(a.keep, str_n(c->in.p, (size_t)at + 2));
    buf_eat(&c->in, (size_t)at + 4);
    assert_true(str_starts(a.head, S("HTTP/1.1 ")));
    a.status = atoi(a.head.p + 9);
    a.body = S("");
    if (no_body || a.status < 200 || a.status == 204 || a.status == 304)
        return a;
    if (str_eqz(raw_header(&a, "transfer-encoding"), "chunked")) {
        a.cut = !take_chunks(c, &a);
    } else if (str_to_i64(raw_header(&a, "content-length"), &n)) {
        a.cut = !raw_fill(c, (size_t)n);
        n = a.cut ? (int64_t)c->in.n : n;
        a.body = str_dup(a.keep, str_n(c->in.p ? c->in.p : "", (size_t)n));
        buf_eat(&c->in, (size_t)n);
    } else {
        while (more(c))
            ;
        a.body = str_dup(a.keep, buf_view(&c->in));
        buf_clear(&c->in);
    }
    return a;
}

void raw_answer_free(struct raw_answer *a)
{
    arena_free(a->keep);
    *a = (struct raw_answer){0};
}

size_t raw_fd_count(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}
