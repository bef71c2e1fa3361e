/* The way out of a session that asked for network: an HTTP proxy (CONNECT, and plain requests). It
 * listens inside, at a socket that was born in the session's network namespace, and connects from
 * here; there is no other interface inside. Names are resolved here, once, and the address that was
 * judged is the one that is connected to: nothing private, local or special (net_refuses). */
#include "box/jail/link.h"
#include "net/net.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 48, /* of a session at one time */
    HEAD_MAX = 16 << 10,
    BLOCK = 16 << 10,
    HEAD_MS = 15000,
    CONNECT_MS = 15000,
    IDLE_MS = 300000,
    ADDRESSES_MAX = 6
};

struct egress {
    struct jail_session *session;
    int connections;
};
struct passage {
    struct egress *egress;
    int client, server;
    struct buf head;
    size_t head_n; /* bytes of the head; what is behind them belongs to the body or the tunnel */
};
struct target {
    char host[256], port[8];
    struct sockaddr_storage list[ADDRESSES_MAX];
    socklen_t sizes[ADDRESSES_MAX];
    size_t count;
    bool refused; /* there were addresses, but none that may be reached */
};

/* ---- where to -------------------------------------------------------------------------------- */
static void resolve(void *arg)
{
    struct target *t = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *found = NULL;
    if (getaddrinfo(t->host, t->port, &hints, &found) != 0)
        return;
    for (struct addrinfo *a = found; a && t->count < ADDRESSES_MAX; a = a->ai_next) {
        if (net_refuses(a->ai_addr)) {
            t->refused = true;
            continue;
        }
        memcpy(&t->list[t->count], a->ai_addr, a->ai_addrlen);
        t->sizes[t->count++] = a->ai_addrlen;
    }
    freeaddrinfo(found);
}

/* The operator's list of names: exact, or "*.example.org" for all below. Empty: every name. */
static bool name_allowed(const struct jail_self *self, const char *host)
{
    size_t n = strlen(host);
    for (size_t i = 0; i < self->host_count; i++) {
        const char *h = self->hosts[i];
        size_t m = strlen(h);
        if (*h == '*' ? n > m - 1 && str_ieqz(str_n(host + n - (m - 1), m - 1), h + 1)
                      : str_ieqz(str_n(host, n), h))
            return true;
    }
    return self->host_count == 0;
}

static bool set_target(struct target *t, struct str host, unsigned port)
{
    if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
        host = str_sub(host, 1, host.n - 2);
    if (!host.n || host.n >= sizeof t->host || memchr(host.p, '\0', host.n) || !port ||
        port > 65535)
        return false;
    snprintf(t->host, sizeof t->host, STR_FMT, STR_ARG(host));
    snprintf(t->port, sizeof t->port, "%u", port);
    return true;
}

/* "host:port" of CONNECT. */
static bool authority(struct str text, struct target *t)
{
    ptrdiff_t colon = -1;
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] == ':')
            colon = (ptrdiff_t)i;
    int64_t port;
    return colon > 0 && str_to_i64(str_sub(text, (size_t)colon + 1, text.n), &port) && port > 0 &&
           port < 65536 && set_target(t, str_sub(text, 0, (size_t)colon), (unsigned)port);
}

static bool open_to(struct passage *p, const struct target *t, struct error *err)
{
    for (size_t i = 0; i < t->count; i++) {
        auto_fd fd = socket(t->list[i].ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            continue;
        int failed = connect(fd, (const void *)&t->list[i], t->sizes[i]) < 0 ? errno : 0;
        struct task_deadline d;
        task_deadline_push(&d, CONNECT_MS);
        bool ready = failed != EINPROGRESS || task_fd_wait(fd, TASK_WRITE, err);
        task_deadline_pop(&d);
        if (!ready && err->code == ERR_CANCELED)
            return false;
        socklen_t n = sizeof failed;
        if (ready && failed == EINPROGRESS)
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &n);
        if (ready && !failed) {
            p->server = steal_fd(&fd);
            return true;
        }
    }
    return err_set(err, ERR_UPSTREAM, "no connection");
}

/* ---- heads ----------------------------------------------------------------------------------- */
static bool read_head(struct passage *p, struct error *err)
{
    struct task_deadline d;
    bool ok = true;
    task_deadline_push(&d, HEAD_MS);
    while (ok && !p->head_n) {
        ok = p->head.n < HEAD_MAX && buf_reserve(&p->head, 2048);
        ssize_t n = ok ? task_read(p->client, p->head.p + p->head.n, 2048, err) : -1;
        ok = n > 0;
        if (ok) {
            p->head.n += (size_t)n;
            ptrdiff_t end = str_find(buf_view(&p->head), S("\r\n\r\n"));
            p->head_n = end >= 0 ? (size_t)end + 4 : 0;
        }
    }
    task_deadline_pop(&d);
    return ok;
}

/* A plain request as its server wants it: the path alone, one request on the connection. */
static bool rewrite(struct passage *p, struct str method, const struct url *u, struct buf *out)
{
    struct str rest = str_sub(buf_view(&p->head), 0, p->head_n), line;
    str_split(&rest, '\n', &line);
    buf_fmt(out, STR_FMT " ", STR_ARG(method));
    buf_str(out, u->path.n ? u->path : S("/"));
    if (u->query.n)
        buf_fmt(out, "?" STR_FMT, STR_ARG(u->query));
    buf_z(out, " HTTP/1.1\r\nConnection: close\r\n");
    while (str_split(&rest, '\n', &line) && line.n > 1)
        if (!str_istarts(line, S("proxy-")) && !str_istarts(line, S("connection:"))) {
            buf_str(out, line);
            buf_c(out, '\n');
        }
    buf_z(out, "\r\n");
    return !out->failed;
}

static void say(struct passage *p, const char *status, const char *why)
{
    struct error err;
    char text[400];
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nConnection: close\r\n"
                     "Content-Length: %zu\r\n\r\n%s\n",
                     status, strlen(why) + 1, why);
    if (!task_write_all(p->client, text, (size_t)n, &err))
        log_debug("box", "jail: an answer of the way out was not read");
}

/* Judges the request and opens the connection; false: it has been answered. */
static bool begin(struct passage *p, struct error *err)
{
    struct str head = str_sub(buf_view(&p->head), 0, p->head_n), method, where;
    struct target t = {0};
    struct url u = {0};
    struct error bad;
    str_split(&head, ' ', &method);
    str_split(&head, ' ', &where);
    bool tunnel = str_eqz(method, "CONNECT");
    bool known = tunnel ? authority(where, &t)
                        : str_istarts(where, S("http://")) && url_parse(where, &u, &bad) &&
                              set_target(&t, u.host, u.port ? u.port : 80);
    if (!known)
        return say(p, "400 Bad Request", "This proxy takes CONNECT and http:// requests."), false;
    if (!name_allowed(p->egress->session->self, t.host) || !strcmp(t.port, "25"))
        return say(p, "403 Forbidden", "The sandbox may not reach this host."), false;
    if (!task_work(resolve, &t, err))
        return false;
    if (!t.count && t.refused)
        return say(p, "403 Forbidden", "The sandbox may not reach private addresses."), false;
    if (!t.count || !open_to(p, &t, err))
        return say(p, "502 Bad Gateway", "No connection to the host."), false;
    auto_buf out = BUF(2 * HEAD_MAX);
    static const char yes[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    if (tunnel ? !task_write_all(p->client, yes, sizeof yes - 1, err)
               : !rewrite(p, method, &u, &out))
        return false;
    buf_add(&out, p->head.p + p->head_n, p->head.n - p->head_n);
    return !out.failed && (!out.n || task_write_all(p->server, out.p, out.n, err));
}

/* ---- passing on ------------------------------------------------------------------------------ */
static void pass(int from, int to)
{
    struct error err;
    auto_mem char *block = mem_alloc(BLOCK);
    ssize_t n = 1;
    while (block && n > 0) {
        struct task_deadline d;
        task_deadline_push(&d, IDLE_MS);
        n = task_read(from, block, BLOCK, &err);
        if (n > 0 && !task_write_all(to, block, (size_t)n, &err))
            n = -1;
        task_deadline_pop(&d);
    }
    /* The other direction goes on; an error ends both. */
    shutdown(to, n == 0 ? SHUT_WR : SHUT_RDWR);
    if (n != 0)
        shutdown(from, SHUT_RDWR);
}

static void pass_up(void *arg)
{
    struct passage *p = arg;
    pass(p->client, p->server);
}

static void serve(void *arg)
{
    struct passage *p = arg;
    struct error err = {0};
    if (read_head(p, &err) && begin(p, &err)) {
        struct task_group *g = task_group_new(task_own_group(), "jail egress");
        if (g && task_spawn(g, "jail egress", pass_up, p, &err)) {
            pass(p->server, p->client);
            if (!task_group_wait(g, &err))
                log_debug("box", "jail: a connection was ended with its session");
        }
        task_group_free(g);
    }
    close(p->client);
    if (p->server >= 0)
        close(p->server);
    buf_free(&p->head);
    p->egress->connections--;
    mem_free(p);
}

static void listen_inside(void *arg)
{
    struct egress *e = arg;
    struct jail_session *s = e->session;
    struct error err;
    while (task_fd_wait(s->listener, TASK_READ, &err)) {
        int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct passage *p =
            fd >= 0 && e->connections < CONNECTIONS_MAX ? new (struct passage) : NULL;
        if (!p) {
            if (fd >= 0)
                close(fd);
            continue;
        }
        *p = (struct passage){e, fd, -1, BUF(2 * HEAD_MAX), 0};
        e->connections++;
        if (!task_spawn(s->group, "jail egress", serve, p, &err)) {
            e->connections--;
            close(fd);
            mem_free(p);
        }
    }
}

bool jail_egress_start(struct jail_session *s, struct error *err)
{
    struct egress *e = new (struct egress);
    if (!e)
        return err_set(err, ERR_NOMEM, "out of memory for a session");
    e->session = s;
    s->egress = e;
    return task_spawn(s->group, "jail egress", listen_inside, e, err);
}
