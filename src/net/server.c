/* The HTTP server: listening, accepting, timeouts, stop. */
#include "net/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPT_BATCH = 64, SWEEP_MS = 500, BACKLOG = 4096, BODY_RATE = 1024 };

static void on_accept(uv_poll_t *h, int status, int events);

static void listen_again(struct http_server *s)
{
    if (s->deaf && !s->stopping) {
        s->deaf = false;
        uv_poll_start(&s->listener, UV_READABLE, on_accept);
    }
}

/* No descriptor is left: one is kept in reserve so that the waiting client can be turned away, and
 * the listener rests until the next sweep instead of waking the loop without end. */
static void accept_starved(struct http_server *s)
{
    if (s->spare_fd >= 0) {
        close(s->spare_fd);
        int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            close(fd);
        s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    s->refused++;
    s->deaf = true;
    uv_poll_stop(&s->listener);
    log_warn("net", "out of file descriptors connections=%zu", s->open);
}

static void on_accept(uv_poll_t *h, int status, int events)
{
    struct http_server *s = h->data;
    for (int i = 0; i < ACCEPT_BATCH && !s->stopping; i++) {
        struct sockaddr_storage ss;
        socklen_t n = sizeof(ss);
        int fd = accept4(s->listen_fd, (struct sockaddr *)&ss, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
                accept_starved(s);
            if (errno == ECONNABORTED || errno == EINTR)
                continue;
            return;
        }
        if (ss.ss_family == AF_INET6)
            conn_accept(s, fd, 6, (const unsigned char *)&((struct sockaddr_in6 *)&ss)->sin6_addr);
        else
            conn_accept(s, fd, 4, (const unsigned char *)&((struct sockaddr_in *)&ss)->sin_addr);
    }
}

/* Closes or refuses what has waited longer than `ms` in a list that is ordered by time. */
static void sweep_list(struct http_server *s, enum conn_wait w, int ms, int64_t now)
{
    struct list *head = &s->waits[w];
    while (!list_empty(head)) {
        struct http_conn *c = container_of(head->next, struct http_conn, wait);
        if (now - c->since_us < (int64_t)ms * 1000)
            return;
        if (w == WAIT_HEAD)
            conn_refuse(c, 408);
        else
            conn_kill(c);
    }
}

/* Bodies: the clock starts with the head and is pushed on by what has come, at 1 KiB a second. */
static void sweep_bodies(struct http_server *s, int64_t now)
{
    list_each(it, &s->waits[WAIT_BODY])
    {
        struct http_conn *c = container_of(it, struct http_conn, wait);
        int64_t allowed =
            (int64_t)s->opts.body_timeout_ms * 1000 + (int64_t)c->got * (1000000 / BODY_RATE);
        if (now - c->since_us >= allowed)
            conn_refuse(c, 408);
    }
}

static void on_sweep(void *arg)
{
    struct http_server *s = arg;
    int64_t now = s->now_us = time_mono_us();
    sweep_list(s, WAIT_IDLE, s->opts.idle_timeout_ms, now);
    sweep_list(s, WAIT_HEAD, s->opts.header_timeout_ms, now);
    sweep_list(s, WAIT_WRITE, s->opts.write_timeout_ms, now);
    sweep_list(s, WAIT_LINGER, CONN_LINGER_MS, now);
    sweep_bodies(s, now);
    listen_again(s);
    task_timer_start(&s->sweep, SWEEP_MS, on_sweep, s);
}

static int or_default(int value, int fallback)
{
    return value > 0 ? value : fallback;
}

static void fill_defaults(struct http_server_opts *o)
{
    o->host = o->host && *o->host ? o->host : "0.0.0.0";
    o->body_max = o->body_max ? o->body_max : (size_t)10 << 20;
    o->header_max = o->header_max ? o->header_max : 32 * 1024;
    o->connections_max = o->connections_max ? o->connections_max : 8192;
    o->arena_max = o->arena_max ? o->arena_max : (size_t)64 << 20;
    o->header_timeout_ms = or_default(o->header_timeout_ms, 15000);
    o->body_timeout_ms = or_default(o->body_timeout_ms, 30000);
    o->idle_timeout_ms = or_default(o->idle_timeout_ms, 75000);
    o->write_timeout_ms = or_default(o->write_timeout_ms, 30000);
}

static bool address_of(const char *host, uint16_t port, struct sockaddr_storage *ss, socklen_t *n)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)ss;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ss;
    memset(ss, 0, sizeof(*ss));
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        *n = sizeof(*v4);
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        *n = sizeof(*v6);
        return true;
    }
    return false;
}

/* A listening socket, or -1. */
static int listen_on(const char *host, uint16_t port, uint16_t *bound, struct error *err)
{
    struct sockaddr_storage ss;
    socklen_t n;
    int one = 1, zero = 0;
    if (!address_of(host, port, &ss, &n)) {
        err_set(err, ERR_INVALID, "listen address %s is no numeric address", host);
        return -1;
    }
    auto_fd fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        err_sys(err, errno, "socket");
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (ss.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    if (bind(fd, (struct sockaddr *)&ss, n) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&ss, &n) != 0) {
        err_sys(err, errno, "listen on %s port %u", host, port);
        return -1;
    }
    *bound = ntohs(ss.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&ss)->sin6_port
                                            : ((struct sockaddr_in *)&ss)->sin_port);
    int out = fd;
    fd = -1;
    return out;
}

static void server_free(struct http_server *s)
{
    router_free(s->router);
    run_free_spares(s);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->spare_fd >= 0)
        close(s->spare_fd);
    mem_free(s);
}

struct http_server *http_server_new(const struct http_server_opts *opts, struct error *err)
{
    struct http_server *s = new (struct http_server);
    if (!s) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    s->opts = *opts;
    fill_defaults(&s->opts);
    s->listen_fd = -1;
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    list_init(&s->conns);
    list_init(&s->websockets);
    for (int i = 0; i < WAIT_KINDS; i++)
        list_init(&s->waits[i]);
    s->now_us = time_mono_us();
    bool seeded = server_seed(s) || err_set(err, ERR_INTERNAL, "no random bytes");
    s->router = seeded ? router_new(opts->tables, err) : NULL;
    if (s->router)
        s->listen_fd = listen_on(s->opts.host, s->opts.port, &s->port, err);
    if (s->listen_fd >= 0 && !(s->group = task_group_new(NULL, "http")))
        err_set(err, ERR_NOMEM, "out of memory");
    if (!s->group) {
        server_free(s);
        return NULL;
    }
    int rc = uv_poll_init(task_loop(), &s->listener, s->listen_fd);
    if (rc != 0) {
        err_set(err, ERR_IO, "poll: %s", uv_strerror(rc));
        task_group_free(s->group);
        server_free(s);
        return NULL;
    }
    s->listener.data = s;
    s->handles = 1;
    uv_poll_start(&s->listener, UV_READABLE, on_accept);
    task_timer_start(&s->sweep, SWEEP_MS, on_sweep, s);
    return s;
}

uint16_t http_server_port(const struct http_server *s)
{
    return s->port;
}

static void on_listener_closed(uv_handle_t *h)
{
    struct http_server *s = h->data;
    s->handles--;
    if (s->handles == 0 && s->stopper)
        task_wake(s->stopper);
}

/* True while a given answer has not been taken by its client. */
static bool flushing(const struct http_server *s)
{
    list_each(it, &s->conns) if (container_of(it, struct http_conn, node)->state ==
                                 CONN_FLUSH) return true;
    return false;
}

void http_server_stop(struct http_server *s, int64_t grace_ms)
{
    struct error err;
    struct task_deadline d;
    if (!s)
        return;
    s->stopping = true;
    uv_close((uv_handle_t *)&s->listener, on_listener_closed);
    close(s->listen_fd);
    s->listen_fd = -1;
    /* Shielded: the stop of a cancelled program must still release everything. */
    task_shield(true);
    list_each(it, &s->websockets) ws_server_stop(it);
    list_each(it, &s->conns)
    {
        struct http_conn *c = container_of(it, struct http_conn, node);
        if (c->state == CONN_HEAD || c->state == CONN_BODY)
            conn_kill(c);
    }
    task_deadline_push(&d, grace_ms);
    if (!task_group_wait(s->group, &err))
        log_warn("net", "requests cancelled at stop running=%zu", s->running);
    while (flushing(s) && task_sleep_ms(10, &err))
        ;
    task_deadline_pop(&d);
    task_group_free(s->group);
    task_timer_stop(&s->sweep);
    list_each(it, &s->conns) conn_kill(container_of(it, struct http_conn, node));
    s->stopper = task_self();
    while (s->handles > 0)
        if (!task_park(&err))
            task_yield(); /* the deadline of the caller has passed: handles close within the next
                             turns of the loop */
    task_shield(false);
    server_free(s);
}

void http_server_stats_get(const struct http_server *s, struct http_server_stats *out)
{
    *out = (struct http_server_stats){
        .connections = s->open,
        .requests_running = s->running,
        .websockets = s->sockets,
        .accepted = s->accepted,
        .requests = s->requests,
        .refused = s->refused,
    };
}

const struct http_route *http_server_routes(const struct http_server *s, size_t table, size_t index)
{
    for (size_t t = 0; s->opts.tables && s->opts.tables[t]; t++) {
        if (t < table)
            continue;
        for (size_t i = 0; s->opts.tables[t][i].pattern; i++)
            if (i == index)
                return &s->opts.tables[t][i];
        return NULL;
    }
    return NULL;
}
