/* The HTTP server on one connection: the first byte says into how many pieces the rest is cut. The
 * server must answer or close, release everything, and see the same requests however the bytes are
 * cut. */
#include "loop.h"
#include "net/conn.h"

#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t seen[2]; /* hash over the requests of each connection in their order */

static void handle(struct http_request *r)
{
    uint64_t *sum = &seen[run_of(r)->conn->addr[3]];
    *sum = *sum * 31 + str_hash(r->path) + str_hash(r->body) + str_hash(r->query) + r->method;
    for (size_t i = 0; i < r->path.n; i++)
        if ((unsigned char)r->path.p[i] < 0x20)
            abort();
    for (size_t i = 0; i < r->param_count; i++)
        *sum = *sum * 31 + str_hash(http_param(r, i));
    http_answer(r, 200, "text/plain", r->body);
}

static void fallback(struct http_request *r, void *arg)
{
    handle(r);
}

static struct http_server *server_start(void)
{
    static const struct http_route routes[] = {
        {HTTP_M_GET, "/a/{x}/{n:int}", .handler = handle},
        {HTTP_M_POST, "/j", .handler = handle, .body = HTTP_BODY_JSON},
        {HTTP_M_POST, "/r/{rest:path}", .handler = handle, .body_max = 100},
        {.pattern = NULL},
    };
    static const struct http_route *const tables[] = {routes, NULL};
    struct http_server_opts o = {.host = "127.0.0.1",
                                 .tables = tables,
                                 .fallback = fallback,
                                 .body_max = 4096,
                                 .header_max = 1024,
                                 .cors = true};
    struct error err;
    struct http_server *s = http_server_new(&o, &err);
    if (!s)
        abort();
    return s;
}

static void drain(const int *fds)
{
    static char drop[65536];
    for (int i = 0; i < 2; i++)
        while (read(fds[i], drop, sizeof(drop)) == (ssize_t)sizeof(drop))
            ;
}

/* A connection with number `i` as the last byte of its address; returns the client's end. */
static int client(struct http_server *s, unsigned char i)
{
    int pair[2];
    unsigned char addr[4] = {127, 0, 0, i};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        abort();
    conn_accept(s, pair[0], 4, addr);
    return pair[1];
}

/* Two clients at a time, as half as many turns of the loop: one sends all at once, the other in so many pieces. Returns when the
 * server has let go of both. */
static void requests(struct http_server *s, const uint8_t *data, size_t size, size_t pieces)
{
    size_t listening = s->handles, step = size / pieces + 1;
    int fds[] = {client(s, 0), client(s, 1)};
    seen[0] = seen[1] = 0;
    if (send(fds[0], data, size, MSG_NOSIGNAL) != (ssize_t)size)
        abort();
    for (size_t off = 0; off < size; off += step) {
        size_t n = size - off < step ? size - off : step;
        if (send(fds[1], data + off, n, MSG_NOSIGNAL) != (ssize_t)n)
            break;
        fuzz_loop_turn();
    }
    /* Pipelined requests go on one by one; nothing may be left running when the client is gone. */
    for (int i = 0; i < 200 && (i < 2 || s->running > 0); i++) {
        fuzz_loop_turn();
        drain(fds);
    }
    close(fds[0]);
    close(fds[1]);
    for (int i = 0; s->handles > listening || s->running > 0; i++) {
        if (i == 100000)
            abort();
        fuzz_loop_turn();
    }
}

static void both(const uint8_t *data, size_t size)
{
    static struct http_server *server;
    static long resting = -1; /* blocks of a server without connections */
    if (!server)
        server = server_start();
    requests(server, data + 1, size - 1, (size_t)data[0] % 8 + 1);
    run_free_spares(server);
    if (seen[0] != seen[1] || (resting >= 0 && mem_live() != resting))
        abort();
    resting = mem_live();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready) {
        base_init();
        log_setup(LOG_ERROR, false, -1);
        ready = true;
    }
    if (size >= 2 && size <= 60000)
        fuzz_loop_run(both, data, size);
    return 0;
}
