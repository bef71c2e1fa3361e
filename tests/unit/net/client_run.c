#include "net/client_run.h"

#include <unistd.h>

static int in_fiber(void *arg)
{
    struct run *r = arg;
    struct error err;
    if (!http_client_init(&r->opts, &err)) {
        snprintf(r->failed, sizeof(r->failed), "%s", err.msg);
        return 1;
    }
    r->arena = arena_new(64 << 20);
    r->body(r);
    if (!r->failed[0] && http_client_running() != 0)
        snprintf(r->failed, sizeof(r->failed), "%zu calls left", http_client_running());
    http_client_end();
    arena_free(r->arena);
    return 0;
}

static struct run shared; /* too large for a stack */

void client_run_with(void (*serve)(struct fake_peer *, int, int), void (*body)(struct run *r),
                     const struct http_client_opts *opts)
{
    struct run *r = &shared;
    memset(r, 0, sizeof(*r));
    if (opts)
        r->opts = *opts;
    r->body = body;
    long live = mem_live();
    fake_peer_start(&r->peer, serve);
    fake_peer_url(&r->peer, "/x?y=1", r->url, sizeof(r->url));
    task_run(in_fiber, r);
    fake_peer_stop(&r->peer);
    if (r->failed[0])
        fail_msg("%s", r->failed);
    assert_int_equal(mem_live(), live);
}

void client_run(void (*serve)(struct fake_peer *, int, int), void (*body)(struct run *r))
{
    client_run_with(serve, body, NULL);
}

bool client_get(struct run *r, struct http_result *out, struct error *err)
{
    struct http_call call = {.method = "GET", .url = r->url, .total_ms = 5000};
    return http_fetch(r->arena, &call, out, err);
}

bool client_get_path(struct run *r, const char *path, struct http_call call,
                     struct http_result *res, struct error *err)
{
    char url[256];
    *err = (struct error){0};
    call.method = "GET";
    call.url = fake_peer_url(&r->peer, path, url, sizeof(url));
    return http_fetch(r->arena, &call, res, err);
}

long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

void serve_hello(struct fake_peer *p, int conn, int index)
{
    while (peer_read(p, conn)) {
        if (!peer_answer(conn, "hello"))
            return;
    }
}

void serve_big(struct fake_peer *p, int conn, int index)
{
    static char block[65536];
    if (!peer_read(p, conn))
        return;
    bool sized = strstr(p->last, "/sized") != NULL;
    peer_send(conn, sized ? "HTTP/1.1 200 OK\r\nContent-Length: 20971520\r\n\r\n"
                          : "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    for (int i = 0; i < 320; i++) {
        if (!peer_send_n(conn, block, sizeof(block)))
            return;
    }
}

void unset_proxies(void)
{
    unsetenv("http_proxy");
    unsetenv("HTTP_PROXY");
    unsetenv("all_proxy");
    unsetenv("ALL_PROXY");
}
