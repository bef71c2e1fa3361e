/* The HTTP server on one connection: the first byte says into how many pieces the rest is cut. The
 * server must answer or close, release everything, and see the same requests however the bytes are
 * cut. */
#include "net/conn.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t seen; /* hash over the requests in their order */

static void handle(struct http_request *r)
{
    seen = seen * 31 + str_hash(r->path) + str_hash(r->body) + str_hash(r->query) + r->method;
    for (size_t i = 0; i < r->path.n; i++)
        if ((unsigned char)r->path.p[i] < 0x20)
            abort();
    for (size_t i = 0; i < r->param_count; i++)
        seen = seen * 31 + str_hash(http_param(r, i));
    http_answer(r, 200, "text/plain", r->body);
}

static void fallback(struct http_request *r, void *arg)
{
    handle(r);
}

struct input {
    const uint8_t *data;
    size_t size, pieces;
};

static int run(void *arg)
{
    static const struct http_route routes[] = {
        {HTTP_M_GET, "/a/{x}/{n:int}", .handler = handle},
        {HTTP_M_POST, "/j", .handler = handle, .body = HTTP_BODY_JSON},
        {HTTP_M_POST, "/r/{rest:path}", .handler = handle, .body_max = 100},
        {.pattern = NULL},
    };
    static const struct http_route *const tables[] = {routes, NULL};
    static char drop[65536];
    const struct input *in = arg;
    struct http_server_opts o = {.host = "127.0.0.1",
                                 .tables = tables,
                                 .fallback = fallback,
                                 .body_max = 4096,
                                 .header_max = 1024,
                                 .cors = true};
    struct error err;
    int pair[2];
    struct http_server *s = http_server_new(&o, &err);
    if (!s || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        abort();
    conn_accept(s, pair[0], 0, NULL);
    size_t step = in->size / in->pieces + 1;
    for (size_t off = 0; off < in->size; off += step) {
        size_t n = in->size - off < step ? in->size - off : step;
        if (send(pair[1], in->data + off, n, MSG_NOSIGNAL) != (ssize_t)n)
            break;
        for (int i = 0; i < 4; i++)
            task_yield();
        while (read(pair[1], drop, sizeof(drop)) > 0)
            ;
    }
    /* Pipelined requests go on one by one; nothing may be left running when the client is gone. */
    for (int i = 0; i < 200 && (i < 4 || s->running > 0); i++) {
        while (read(pair[1], drop, sizeof(drop)) > 0)
            ;
        task_yield();
    }
    close(pair[1]);
    http_server_stop(s, 1000);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 60000)
        return 0;
    base_init();
    log_setup(LOG_ERROR, false, -1);
    long blocks = mem_live();
    struct input in = {data + 1, size - 1, (size_t)data[0] % 16 + 1};
    seen = 0;
    task_run(run, &in);
    uint64_t cut = seen;
    in.pieces = 1;
    seen = 0;
    task_run(run, &in);
    if (seen != cut || mem_live() != blocks)
        abort();
    return 0;
}
