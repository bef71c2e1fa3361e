#include "net/client_run.h"

#include <sys/resource.h>
#include <unistd.h>

/* ---- streams --------------------------------------------------------------------------------- */

static void serve_stream(struct fake_peer *p, int conn, int index)
{
    if (!peer_read(p, conn))
        return;
    peer_send(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n");
    peer_sleep_ms(30);
    for (int i = 0; i < 5; i++) {
        char part[32];
        snprintf(part, sizeof(part), "4\r\nev%d\n\r\n", i);
        peer_send(conn, part);
        /* The next one waits until the reader has had this one: a byte that came is given out at
         * once. */
        for (int t = 0; t < 2000 && atomic_load(&p->note) <= i; t++)
            peer_sleep_ms(1);
    }
    if (strstr(p->last, "/cut"))
        return;
    peer_send(conn, "0\r\n\r\n");
    peer_wait_closed(conn, 3000);
}

static void read_events(struct run *r, struct http_stream *s)
{
    struct error err;
    struct str chunk;
    check(r, http_stream_status(s) == 200);
    check(r, str_eqz(http_stream_header(s, "content-type"), "text/event-stream"));
    for (int i = 0; i < 5; i++) {
        char want[32];
        snprintf(want, sizeof(want), "ev%d\n", i);
        int64_t from = time_mono_us();
        check_ok(r, http_stream_read(s, &chunk, &err), err);
        check(r, str_eqz(chunk, want) && time_mono_us() - from < 500000);
        atomic_store(&r->peer.note, i + 1);
    }
}

static void body_stream(struct run *r)
{
    struct error err;
    struct str chunk;
    struct http_call call = {.method = "GET", .url = r->url, .idle_ms = 5000};
    struct http_stream *s = http_open(&call, &err);
    check_ok(r, s, err);
    read_events(r, s);
    check_ok(r, http_stream_read(s, &chunk, &err), err);
    check(r, chunk.n == 0);
    check_ok(r, http_stream_read(s, &chunk, &err), err); /* still the end */
    check(r, chunk.n == 0);
    http_stream_close(s);
    if (r->failed[0])
        return;

    char url[128];
    call.url = fake_peer_url(&r->peer, "/cut", url, sizeof(url));
    atomic_store(&r->peer.note, 0);
    s = http_open(&call, &err);
    check_ok(r, s, err);
    read_events(r, s);
    check(r, !http_stream_read(s, &chunk, &err) && err.code == ERR_UPSTREAM && !err.tag);
    http_stream_close(s);
    http_stream_close(NULL);
}

static void test_stream(void **state)
{
    client_run(serve_stream, body_stream);
}

struct cancelled {
    struct run *r;
    struct error err;
    bool opened, ended, in_fetch;
};

static void cancelled_fiber(void *arg)
{
    struct cancelled *c = arg;
    struct http_call call = {.method = "GET", .url = c->r->url, .idle_ms = 60000};
    struct http_result res;
    struct str chunk;
    if (c->in_fetch) {
        c->ended = !http_fetch(c->r->arena, &call, &res, &c->err);
        return;
    }
    struct http_stream *s = http_open(&call, &c->err);
    c->opened = s != NULL;
    if (s) {
        while (http_stream_read(s, &chunk, &c->err) && chunk.n > 0)
            continue;
    }
    http_stream_close(s);
    c->ended = true;
}

static void serve_never(struct fake_peer *p, int conn, int index)
{
    if (!peer_read(p, conn))
        return;
    peer_send(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
    atomic_store(&p->note, peer_wait_closed(conn, 5000) ? 1 : 2);
}

static void body_cancel(struct run *r)
{
    for (int fetch = 0; fetch < 2; fetch++) {
        struct error err;
        struct cancelled c = {.r = r, .in_fetch = fetch};
        struct task_group *g = task_group_new(NULL, "calls");
        atomic_store(&r->peer.note, 0);
        check_ok(r, task_spawn(g, "call", cancelled_fiber, &c, &err), err);
        check_ok(r, task_sleep_ms(100, &err), err);
        check(r, http_client_running() == 1);
        task_group_free(g);
        check(r, c.ended && c.err.code == ERR_CANCELED && (fetch || c.opened));
        check(r, http_client_running() == 0);
        for (int i = 0; i < 200 && atomic_load(&r->peer.note) == 0; i++)
            check_ok(r, task_sleep_ms(10, &err), err);
        check(r, atomic_load(&r->peer.note) == 1);
    }
}

static void test_cancel(void **state)
{
    client_run(serve_never, body_cancel);
}

/* A peer that sends 64 MiB as fast as it can to a reader that reads nothing for a while. */
static void serve_flood(struct fake_peer *p, int conn, int index)
{
    static char block[65536];
    if (!peer_read(p, conn))
        return;
    memset(block, 'x', sizeof(block));
    peer_send(conn, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
    for (int i = 0; i < 1024 && peer_send_n(conn, block, sizeof(block)); i++)
        atomic_store(&p->note, i + 1);
    peer_wait_closed(conn, 3000);
}

static void body_flood(struct run *r)
{
    struct error err;
    struct str chunk;
    struct http_call call = {.method = "GET", .url = r->url, .idle_ms = 100};
    long before = resident_kib();
    struct http_stream *s = http_open(&call, &err);
    check_ok(r, s, err);
    check_ok(r, task_sleep_ms(400, &err),
             err); /* longer than idle_ms: that is not the peer's fault */
    long grown = resident_kib() - before;
    int sent = atomic_load(&r->peer.note);
    check(r, grown < 4096 && sent < 1024);
    size_t total = 0, largest = 0;
    for (;;) {
        check_ok(r, http_stream_read(s, &chunk, &err), err);
        if (chunk.n == 0)
            break;
        check(r, chunk.p[0] == 'x' && chunk.p[chunk.n - 1] == 'x');
        largest = chunk.n > largest ? chunk.n : largest;
        total += chunk.n;
    }
    http_stream_close(s);
    check(r, total == 67108864 && largest <= 256 * 1024 + 16384);
}

static void test_flood(void **state)
{
    client_run(serve_flood, body_flood);
}

static void body_stream_limit(struct run *r)
{
    struct error err;
    struct str chunk;
    struct http_call call = {.method = "GET", .url = r->url, .idle_ms = 1000, .body_max = 1 << 20};
    check(r, !http_open(&call, &err) && err.code == ERR_TOO_LARGE); /* the declared size says so */
    char url[128];
    call.url = fake_peer_url(&r->peer, "/open", url, sizeof(url));
    fake_peer_stop(&r->peer);
    fake_peer_start(&r->peer, serve_big);
    call.url = fake_peer_url(&r->peer, "/open", url, sizeof(url));
    struct http_stream *s = http_open(&call, &err);
    check_ok(r, s, err);
    size_t total = 0;
    while (http_stream_read(s, &chunk, &err)) {
        check(r, chunk.n > 0);
        total += chunk.n;
    }
    check(r, err.code == ERR_TOO_LARGE && total <= 1 << 20);
    http_stream_close(s);
}

static void test_stream_limit(void **state)
{
    client_run(serve_flood, body_stream_limit);
}

/* The reader has what it wants before the peer ends the answer. */
static void serve_late_end(struct fake_peer *p, int conn, int index)
{
    while (peer_read(p, conn)) {
        peer_send(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndone\r\n");
        peer_sleep_ms(strstr(p->last, "/slow") ? 3000 : 30);
        if (!peer_send(conn, "2\r\n\n\n\r\n0\r\n\r\n"))
            return;
    }
}

static void body_finish(struct run *r)
{
    struct error err;
    struct str chunk;
    char url[128];
    struct http_call call = {
        .method = "POST", .url = r->url, .idle_ms = 5000, .body = S("question")};
    for (int i = 0; i < 4; i++) {
        call.url = i == 3 ? fake_peer_url(&r->peer, "/slow", url, sizeof(url)) : r->url;
        struct http_stream *s = http_open(&call, &err);
        check_ok(r, s, err);
        check_ok(r, http_stream_read(s, &chunk, &err), err);
        check(r, str_eqz(chunk, "done"));
        int64_t from = time_mono_us();
        http_stream_finish(s);
        check(r, time_mono_us() - from < 20000 && http_client_running() == 1);
        check_ok(r, task_sleep_ms(i == 3 ? 1200 : 100, &err), err);
        check(r, http_client_running() == 0);
    }
    check(r, atomic_load(&r->peer.accepted) == 1);
    /* The client may end while one is left. */
    struct http_stream *s = http_open(&call, &err);
    check_ok(r, s, err);
    http_stream_finish(s);
    http_client_end();
    check_ok(r, http_client_init(NULL, &err), err);
    http_stream_finish(NULL);
}

static void test_finish(void **state)
{
    client_run(serve_late_end, body_finish);
}

/* ---- cost ------------------------------------------------------------------------------------ */

static double cpu_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void body_cost(struct run *r)
{
    struct http_result res;
    struct error err;
    for (int round = 0; round < 3; round++) {
        enum { N = 2000 };
        double before = cpu_us();
        for (int i = 0; i < N; i++) {
            struct arena *a = arena_new(1 << 20);
            struct http_call call = {
                .method = "POST", .url = r->url, .total_ms = 5000, .body = S("{\"a\":1}")};
            bool ok = http_fetch(a, &call, &res, &err);
            arena_free(a);
            check_ok(r, ok, err);
        }
        print_message("# %.1f us of CPU for a small request on a kept connection\n",
                      (cpu_us() - before) / N);
    }
}

static void test_cost(void **state)
{
    client_run(serve_hello, body_cost);
}

enum { MANY = 1000 };

static void serve_many(struct fake_peer *p, int conn, int index)
{
    if (!peer_read(p, conn))
        return;
    peer_send(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "c\r\ndata: hello\n\r\n");
    while (!atomic_load(&p->note))
        peer_sleep_ms(20);
    peer_send(conn, "2\r\n\n\n\r\n0\r\n\r\n");
    peer_wait_closed(conn, 100);
}

struct many {
    struct run *r;
    int open, done, failed;
};

static void many_fiber(void *arg)
{
    struct many *m = arg;
    struct error err;
    struct str chunk;
    struct http_call call = {.method = "GET", .url = m->r->url, .idle_ms = 60000};
    struct http_stream *s = http_open(&call, &err);
    if (s && http_stream_read(s, &chunk, &err) && str_eqz(chunk, "data: hello\n"))
        m->open++;
    else
        m->failed++;
    size_t rest = 0;
    while (s && http_stream_read(s, &chunk, &err) && chunk.n > 0)
        rest += chunk.n;
    if (rest == 2)
        m->done++;
    http_stream_close(s);
}

static void body_many(struct run *r)
{
    struct error err;
    struct many m = {.r = r};
    struct task_group *g = task_group_new(NULL, "many");
    long before = resident_kib();
    for (int i = 0; i < MANY; i++)
        check_ok(r, task_spawn(g, "stream", many_fiber, &m, &err), err);
    for (int i = 0; i < 2000 && m.open + m.failed < MANY; i++)
        check_ok(r, task_sleep_ms(10, &err), err);
    long grown = resident_kib() - before;
    print_message("# %d open streams: %.1f KiB each (the fiber and the peer's thread included)\n",
                  m.open, (double)grown / MANY);
    check(r, m.failed == 0 && m.open == MANY && http_client_running() == MANY);
    atomic_store(&r->peer.note, 1);
    check_ok(r, task_group_wait(g, &err), err);
    task_group_free(g);
    check(r, m.done == MANY);
}

static void test_many(void **state)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 4096) {
        files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (files.rlim_cur < 2 * MANY + 100)
        skip();
    client_run(serve_many, body_many);
}

/* ---- memory that ends ------------------------------------------------------------------------ */

static void body_torture(struct run *r)
{
    for (long nth = 1; nth < 40; nth++) {
        struct http_result res;
        struct error err = {0};
        struct arena *a = arena_new(1 << 20);
        check(r, a);
        mem_fail_after(nth, false);
        struct http_call call = {.method = "GET", .url = r->url, .total_ms = 3000};
        bool ok = http_fetch(a, &call, &res, &err);
        mem_fail_after(0, false);
        check(r, ok ? str_eqz(res.body, "hello") : err.code != ERR_NONE);
        arena_free(a);
    }
    struct http_result res;
    struct error err;
    check_ok(r, client_get(r, &res, &err), err);
}

static void test_torture(void **state)
{
    client_run(serve_hello, body_torture);
}

int main(void)
{
    base_init();
    unset_proxies();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream), cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_flood),  cmocka_unit_test(test_stream_limit),
        cmocka_unit_test(test_finish), cmocka_unit_test(test_cost),
        cmocka_unit_test(test_many),   cmocka_unit_test(test_torture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
