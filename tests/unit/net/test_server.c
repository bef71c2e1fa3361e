/* The HTTP server as a client sees it: framing, limits, time-outs, answers, streams, stop. */
#include "net/raw_client.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct http_server *server;
static uint16_t port;
static size_t after_count, after_bytes;
static int after_status, gone_seen;
static char after_id[600];
static bool stream_failed;
static struct task_cond gate_open;

static void h_hello(struct http_request *r)
{
    http_answer(r, 200, "text/plain", S("hello"));
}

static void h_echo(struct http_request *r)
{
    http_answer_header(r, "X-Path", r->path);
    http_answer_header(r, "X-Query", r->query);
    http_answer_header(r, "X-Method", str_c(http_method_name(r->method)));
    http_answer_header(r, "X-Peer", str_c(r->peer));
    http_answer(r, 200, "application/octet-stream", r->body);
}

static void h_json(struct http_request *r)
{
    assert_true(json_is_object(r->json));
    http_answer(r, 200, "application/json", json_text(r->arena, r->json));
}

static void h_lenient(struct http_request *r)
{
    http_answer(r, 200, "text/plain", r->json ? S("json") : S("none"));
}

static void h_param(struct http_request *r)
{
    http_answer(r, 200, "text/plain",
                str_fmt(r->arena, STR_FMT "|" STR_FMT, STR_ARG(http_param(r, 0)),
                        STR_ARG(http_param(r, 1))));
}

static void h_nothing(struct http_request *r) {}

static void h_twice(struct http_request *r)
{
    http_answer(r, 201, NULL, S("one"));
    http_answer(r, 202, NULL, S("two"));
}

static void h_slow(struct http_request *r)
{
    struct error err;
    if (!task_sleep_ms(60, &err))
        http_answer(r, 503, "text/plain", S("stopped"));
    else
        http_answer(r, 200, "text/plain", S("slow"));
}

static void h_wait(struct http_request *r)
{
    struct error err;
    bool ok = task_cond_wait(&gate_open, &err);
    gone_seen = http_peer_gone(r);
    http_answer(r, ok ? 200 : 503, "text/plain", S("waited"));
}

static void h_stream(struct http_request *r)
{
    struct error err;
    if (http_stream_start(r, 200, "text/event-stream", &err) &&
        http_stream_write(r, S("one,"), &err) && task_sleep_ms(5, &err) &&
        http_stream_write(r, S("two,"), &err) && http_stream_write(r, S(""), &err) &&
        http_stream_write(r, S("three"), &err))
        http_stream_end(r);
}

static void h_cut(struct http_request *r)
{
    struct error err;
    if (http_stream_start(r, 200, "text/plain", &err) && !http_stream_write(r, S("half"), &err))
        stream_failed = true;
}

enum { FLOOD = 24 << 20 };
static size_t flood_written;

static void h_flood(struct http_request *r)
{
    struct error err;
    char *block = arena_alloc(r->arena, 1 << 20);
    memset(block, 'x', 1 << 20);
    flood_written = 0;
    stream_failed = !http_stream_start(r, 200, "text/plain", &err);
    while (!stream_failed && flood_written < FLOOD) {
        if (!http_stream_write(r, str_n(block, 1 << 20), &err)) {
            assert_int_equal(err.code, ERR_CLOSED);
            stream_failed = true;
        } else {
            flood_written += 1 << 20;
        }
    }
    http_stream_end(r);
}

static char big_static[3 << 20];

static void h_static(struct http_request *r)
{
    http_answer_static(r, 200, "application/octet-stream", big_static, sizeof(big_static));
}

static void h_big(struct http_request *r)
{
    char *block = arena_alloc(r->arena, sizeof(big_static));
    memcpy(block, big_static, sizeof(big_static));
    http_answer(r, 200, "application/octet-stream", str_n(block, sizeof(big_static)));
}

static void h_headers(struct http_request *r)
{
    http_answer_header(r, "Set-Cookie", S("a=1"));
    http_answer_header(r, "Bad", S("x\r\nEvil: 1"));
    http_answer_header(r, "Bad Name", S("x"));
    http_answer_header(r, "Content-Length", S("3"));
    http_answer(r, 204, NULL, S("ignored"));
}

static const struct http_field fields[] = {
    {"name", HTTP_STR, .required = true, .min = 1, .max = 5},
    {.name = NULL},
};

static const struct http_route routes[] = {
    {HTTP_M_GET, "/hello", .handler = h_hello},
    {HTTP_M_POST, "/echo", .handler = h_echo, .body = HTTP_BODY_RAW},
    {HTTP_M_GET, "/echo", .handler = h_echo},
    {HTTP_M_POST, "/small", .handler = h_echo, .body = HTTP_BODY_RAW, .body_max = 10},
    {HTTP_M_POST, "/json", .handler = h_json, .body = HTTP_BODY_JSON, .fields = fields},
    {HTTP_M_POST, "/lenient", .handler = h_lenient, .body = HTTP_BODY_JSON_LENIENT},
    {HTTP_M_GET, "/p/{a}/x/{b:int}", .handler = h_param},
    {HTTP_M_GET, "/files/{rest:path}", .handler = h_param},
    {HTTP_M_GET, "/nothing", .handler = h_nothing},
    {HTTP_M_GET, "/twice", .handler = h_twice},
    {HTTP_M_GET, "/slow", .handler = h_slow},
    {HTTP_M_GET, "/wait", .handler = h_wait},
    {HTTP_M_GET, "/stream", .handler = h_stream},
    {HTTP_M_GET, "/cut", .handler = h_cut},
    {HTTP_M_GET, "/flood", .handler = h_flood},
    {HTTP_M_GET, "/static", .handler = h_static},
    {HTTP_M_GET, "/big", .handler = h_big},
    {HTTP_M_GET, "/headers", .handler = h_headers},
    {HTTP_M_GET, "/secret", .auth = 7, .handler = h_hello},
    {.pattern = NULL},
};
static const struct http_route *const tables[] = {routes, NULL};

static bool on_gate(struct http_request *r, void *arg)
{
    if (r->route->auth != 7)
        return true;
    http_answer(r, 401, "text/plain", S("no"));
    return false;
}

static void on_reject(struct http_request *r, const struct error *err, void *arg)
{
    http_answer(r, err_http(err), "text/plain", str_dup(r->arena, str_c(err->msg)));
}

static void on_fallback(struct http_request *r, void *arg)
{
    assert_null(r->route);
    http_answer(r, r->path_known ? 405 : 404, "text/plain", r->path);
}

static void on_after(const struct http_request *r, int status, size_t bytes, void *arg)
{
    after_count++;
    after_status = status;
    after_bytes = bytes;
    snprintf(after_id, sizeof(after_id), "%s", r->request_id);
}

static void on_too_large(struct http_request *r, void *arg)
{
    http_answer(r, 400, "application/json", S("{\"code\":400,\"msg\":\"too large\"}"));
}

struct test {
    void (*fn)(void);
    struct http_server_opts opts;
};

static int in_task(void *arg)
{
    struct test *t = arg;
    struct error err = {0};
    t->opts.host = "127.0.0.1";
    t->opts.tables = tables;
    t->opts.gate = on_gate;
    t->opts.reject = on_reject;
    t->opts.fallback = on_fallback;
    t->opts.after = on_after;
    t->opts.too_large = on_too_large;
    t->opts.cors = true;
    server = http_server_new(&t->opts, &err);
    if (!server)
        fail_msg("%s", err.msg);
    port = http_server_port(server);
    assert_int_not_equal(port, 0);
    t->fn();
    if (server)
        http_server_stop(server, 1000);
    server = NULL;
    return 0;
}

/* Runs a test body on a loop of its own; nothing may be left of it. */
static void serve(struct test t)
{
    long blocks = mem_live();
    size_t fds = raw_fd_count();
    assert_int_equal(task_run(in_task, &t), 0);
    assert_int_equal(raw_fd_count(), fds);
    assert_int_equal(mem_live(), blocks);
}
#define SERVE(fn, ...)                           \
    static void test_##fn(void **state)          \
    {                                            \
        serve((struct test){fn, {__VA_ARGS__}}); \
    }

static void expect(struct raw *c, int status, const char *body)
{
    struct raw_answer a = raw_answer(c, false);
    assert_false(a.cut);
    assert_int_equal(a.status, status);
    if (body) {
        assert_int_equal(a.body.n, strlen(body));
        assert_memory_equal(a.body.p, body, a.body.n);
    }
    raw_answer_free(&a);
}

/* One request on a connection of its own. */
static void once(const char *request, int status, const char *body)
{
    struct raw c = raw_open(port);
    raw_send(&c, str_c(request));
    expect(&c, status, body);
    raw_close(&c);
}
#define H "Host: x\r\n"

static void basics(void)
{
    struct raw c = raw_open(port);
    raw_put(&c, "GET /hello HTTP/1.1\r\n" H "X-Request-Id: abc \r\n\r\n");
    struct raw_answer a = raw_answer(&c, false);
    assert_int_equal(a.status, 200);
    assert_true(str_eqz(a.body, "hello"));
    assert_true(str_eqz(raw_header(&a, "content-type"), "text/plain"));
    assert_true(str_eqz(raw_header(&a, "x-request-id"), "abc"));
    assert_true(str_eqz(raw_header(&a, "access-control-allow-origin"), "*"));
    assert_true(str_ends(raw_header(&a, "date"), S(" GMT")));
    assert_null(raw_header(&a, "connection").p);
    raw_answer_free(&a);
    assert_int_equal(after_status, 200);
    assert_int_equal(after_bytes, 5);
    assert_string_equal(after_id, "abc");
    raw_put(&c, "GET /nothing HTTP/1.1\r\n" H "\r\n");
    a = raw_answer(&c, false);
    assert_int_equal(a.status, 500);
    struct str id = raw_header(&a, "x-request-id");
    assert_int_equal(id.n, 36);
    assert_int_equal(id.p[14], '4');
    assert_true(str_find(a.body, id) > 0);
    raw_answer_free(&a);
    raw_put(&c, "GET /twice HTTP/1.1\r\n" H "\r\n");
    expect(&c, 201, "one");
    raw_put(&c, "GET /secret HTTP/1.1\r\n" H "\r\n");
    expect(&c, 401, "no");
    raw_put(&c, "GET /missing%20page HTTP/1.1\r\n" H "\r\n");
    expect(&c, 404, "/missing page");
    raw_put(&c, "DELETE /hello HTTP/1.1\r\n" H "\r\n");
    expect(&c, 405, "/hello");
    raw_put(&c, "GET /headers HTTP/1.1\r\n" H "\r\n");
    a = raw_answer(&c, false);
    assert_int_equal(a.status, 204);
    assert_true(str_eqz(raw_header(&a, "set-cookie"), "a=1"));
    assert_null(raw_header(&a, "bad").p);
    assert_null(raw_header(&a, "evil").p);
    assert_null(raw_header(&a, "content-length").p);
    raw_answer_free(&a);
    raw_put(&c, "GET http://other.example/echo?a=b#frag HTTP/1.1\r\n" H "\r\n");
    a = raw_answer(&c, false);
    assert_true(str_eqz(raw_header(&a, "x-path"), "/echo"));
    assert_true(str_eqz(raw_header(&a, "x-query"), "a=b"));
    assert_true(str_eqz(raw_header(&a, "x-peer"), "127.0.0.1"));
    raw_answer_free(&a);
    struct http_server_stats st;
    http_server_stats_get(server, &st);
    assert_int_equal(st.connections, 1);
    assert_int_equal(st.accepted, 1);
    assert_int_equal(st.requests, 8);
    assert_int_equal(st.requests_running, 0);
    raw_close(&c);
}
SERVE(basics)

static void request_ids(void)
{
    struct raw c = raw_open(port);
    char line[600];
    memset(line, 'i', sizeof(line));
    for (int n = 127; n < 131; n++) {
        raw_put(&c, "GET /hello HTTP/1.1\r\n" H "X-Request-Id:");
        raw_send(&c, str_n(line, (size_t)n));
        raw_put(&c, "\r\n\r\n");
        struct raw_answer a = raw_answer(&c, false);
        assert_int_equal(raw_header(&a, "x-request-id").n, n <= 128 ? (size_t)n : 36);
        raw_answer_free(&a);
    }
    static const char *const bad[] = {"", "   ", "a\tb", "\xff\xfe"};
    for (size_t i = 0; i < array_len(bad); i++) {
        raw_put(&c, "GET /hello HTTP/1.1\r\n" H "X-Request-Id: ");
        raw_send(&c, str_c(bad[i]));
        raw_put(&c, "\r\n\r\n");
        struct raw_answer a = raw_answer(&c, false);
        assert_int_equal(raw_header(&a, "x-request-id").n, 36);
        raw_answer_free(&a);
    }
    raw_close(&c);
}
SERVE(request_ids)

static void keep_alive(void)
{
    struct raw c = raw_open(port);
    for (int i = 0; i < 20; i++) {
        raw_put(&c, "\r\nGET /hello HTTP/1.1\r\n" H "\r\n");
        expect(&c, 200, "hello");
    }
    raw_put(&c, "GET /hello HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
    struct raw_answer a = raw_answer(&c, false);
    assert_true(str_eqz(raw_header(&a, "connection"), "close"));
    raw_answer_free(&a);
    assert_true(raw_at_end(&c));
    raw_close(&c);
    c = raw_open(port);
    raw_put(&c, "GET /hello HTTP/1.0\r\n\r\n");
    expect(&c, 200, "hello");
    assert_true(raw_at_end(&c));
    raw_close(&c);
    c = raw_open(port);
    raw_put(&c, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /hello HTTP/1.0\r\n\r\n");
    a = raw_answer(&c, false);
    assert_true(str_eqz(raw_header(&a, "connection"), "keep-alive"));
    raw_answer_free(&a);
    expect(&c, 200, "hello");
    assert_true(raw_at_end(&c));
    raw_close(&c);
}
SERVE(keep_alive)

static void head_and_options(void)
{
    struct raw c = raw_open(port);
    raw_put(&c, "HEAD /hello HTTP/1.1\r\n" H "\r\n");
    struct raw_answer a = raw_answer(&c, true);
    assert_int_equal(a.status, 200);
    assert_true(str_eqz(raw_header(&a, "content-length"), "5"));
    raw_answer_free(&a);
    raw_put(&c, "HEAD /stream HTTP/1.1\r\n" H "\r\n");
    a = raw_answer(&c, true);
    assert_int_equal(a.status, 200);
    raw_answer_free(&a);
    raw_put(&c,
            "OPTIONS /secret HTTP/1.1\r\n" H "Access-Control-Request-Headers: x-a, x-b\r\n\r\n");
    a = raw_answer(&c, false);
    assert_int_equal(a.status, 200);
    assert_true(str_eqz(raw_header(&a, "access-control-allow-headers"), "x-a, x-b"));
    assert_true(str_find(raw_header(&a, "access-control-allow-methods"), S("DELETE")) >= 0);
    raw_answer_free(&a);
    raw_put(&c, "OPTIONS * HTTP/1.1\r\n" H "\r\n");
    expect(&c, 200, "");
    raw_close(&c);
}
SERVE(head_and_options)

static void pipelining(void)
{
    struct raw c = raw_open(port);
    raw_put(&c, "GET /slow HTTP/1.1\r\n" H "\r\nPOST /echo HTTP/1.1\r\n" H
                "Content-Length: 3\r\n\r\nabc"
                "GET /hello HTTP/1.1\r\n" H "\r\nPOST /echo HTTP/1.1\r\n" H
                "Transfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\n\r\n"
                "GET /hello HT");
    expect(&c, 200, "slow");
    expect(&c, 200, "abc");
    expect(&c, 200, "hello");
    expect(&c, 200, "xy");
    raw_put(&c, "TP/1.1\r\n" H "\r\n");
    expect(&c, 200, "hello");
    raw_close(&c);
    /* More pipelined bytes than are read ahead while a handler works. */
    c = raw_open(port);
    raw_put(&c, "GET /slow HTTP/1.1\r\n" H "\r\n");
    struct buf many = BUF(1 << 20);
    for (int i = 0; i < 5000; i++)
        buf_z(&many, "GET /hello HTTP/1.1\r\n" H "X-Filler: 0123456789\r\n\r\n");
    struct error err;
    int n = 1 << 20;
    setsockopt(c.fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof(n));
    assert_true(task_write_all(c.fd, many.p, many.n, &err));
    expect(&c, 200, "slow");
    for (int i = 0; i < 5000; i++)
        expect(&c, 200, "hello");
    buf_free(&many);
    raw_close(&c);
}
SERVE(pipelining)

static void split_everywhere(void)
{
    static const char request[] = "POST /echo?q=1 HTTP/1.1\r\n" H
                                  "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "5;ext=1\r\nhello\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
    for (size_t cut = 1; cut < sizeof(request) - 1; cut++) {
        struct raw c = raw_open(port);
        raw_send(&c, str_n(request, cut));
        task_yield();
        task_yield();
        raw_send(&c, str_n(request + cut, sizeof(request) - 1 - cut));
        expect(&c, 200, "hello0123456789");
        raw_close(&c);
    }
    struct raw c = raw_open(port);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(request) - 1; i++) {
            raw_send(&c, str_n(request + i, 1));
            task_yield();
        }
        expect(&c, 200, "hello0123456789");
    }
    raw_close(&c);
}
SERVE(split_everywhere)

static void bodies(void)
{
    struct raw c = raw_open(port);
    raw_put(&c, "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    expect(&c, 100, NULL);
    raw_put(&c, "body");
    expect(&c, 200, "body");
    raw_put(&c, "POST /small HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\n0123456789");
    expect(&c, 200, "0123456789");
    raw_put(&c, "POST /small HTTP/1.1\r\n" H "Content-Length: 11\r\n\r\n01234567890");
    expect(&c, 400, "{\"code\":400,\"msg\":\"too large\"}");
    raw_close(&c);
    /* Exactly the limit of the server, and chunked over that of the route. */
    size_t max = (size_t)10 << 20;
    char *big = mem_alloc(max);
    memset(big, 'b', max);
    c = raw_open(port);
    raw_put(&c, "POST /echo HTTP/1.1\r\n" H "Content-Length: 10485760\r\n\r\n");
    raw_send(&c, str_n(big, max));
    struct raw_answer a = raw_answer(&c, false);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.body.n, max);
    raw_answer_free(&a);
    mem_free(big);
    raw_put(&c,
            "POST /small HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n6\r\n");
    a = raw_answer(&c, false);
    assert_int_equal(a.status, 400);
    assert_true(str_eqz(raw_header(&a, "connection"), "close"));
    raw_answer_free(&a);
    raw_close(&c);
}
SERVE(bodies)

/* A client that sends 20 MB whatever it is told still reads the answer. */
static void too_large(void)
{
    struct raw c = raw_open(port);
    struct error err;
    static char block[65536];
    raw_put(&c, "POST /echo HTTP/1.1\r\n" H "Content-Length: 20971520\r\n\r\n");
    size_t sent = 0;
    while (sent < 20971520 && task_write_all(c.fd, block, sizeof(block), &err))
        sent += sizeof(block);
    assert_int_equal(sent, 20971520);
    expect(&c, 400, "{\"code\":400,\"msg\":\"too large\"}");
    assert_true(raw_at_end(&c));
    raw_close(&c);
    once("POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n",
         400, NULL);
}
SERVE(too_large)

static void refused(void)
{
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {"GET /hello HTTP/1.1\r\n\r\n", 400},        /* no Host */
        {"GET /hello HTTP/1.1\r\n" H H "\r\n", 400}, /* two */
        {"GET /hello HTTP/2.0\r\n" H "\r\n", 400},
        {"GET /hello HTTP/1.1\n" H "\r\n\r\n", 400}, /* bare LF */
        {"GET /hello HTTP/1.1\r\nHost: x\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: x\rY: z\r\n\r\n", 400},   /* bare CR */
        {"GET /hello HTTP/1.1\r\n" H "A: b\r\n c\r\n\r\n", 400}, /* folded */
        {"GET /hello HTTP/1.1\r\n" H "A : b\r\n\r\n", 400},      /* space before colon */
        {"GET /hello HTTP/1.1\r\n" H "A B: c\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\n" H "A\x01: b\r\n\r\n", 400},
        {"GET /a%00b HTTP/1.1\r\n" H "\r\n", 400},
        {"GET /a%0ab HTTP/1.1\r\n" H "\r\n", 400},
        {"GET /a%ffb HTTP/1.1\r\n" H "\r\n", 400}, /* not UTF-8 */
        {"GET hello HTTP/1.1\r\n" H "\r\n", 400},
        {"GET * HTTP/1.1\r\n" H "\r\n", 400},
        {"CONNECT x:80 HTTP/1.1\r\n" H "\r\n", 400},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
        {"\x16\x03\x01", 400}, /* TLS */
        {"GET /hello HTTP/1.1\r\n" H "Expect: magic\r\n\r\n", 417},
        {"POST /echo HTTP/1.1\r\n" H
         "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         400},
        {"POST /echo HTTP/1.1\r\n" H
         "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
         400},
        {"POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
        {"POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400},
        {"POST /echo HTTP/1.1\r\n" H "Content-Length: -3\r\n\r\nabc", 400},
        {"POST /echo HTTP/1.1\r\n" H "Content-Length: +3\r\n\r\nabc", 400},
        {"POST /echo HTTP/1.1\r\n" H "Content-Length: 3,3\r\n\r\nabc", 400},
        {"POST /echo HTTP/1.1\r\n" H "Content-Length: 0x3\r\n\r\nabc", 400},
        {"POST /echo HTTP/1.1\r\n" H "Content-Length: 99999999999999999999999\r\n\r\nabc", 400},
        {"POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\n" H
         "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         400},
        {"POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n", 400},
        {"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
        {"POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n", 400},
        {"POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\na\r\n", 400},
        {"POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400},
        {"POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\nbad\x01: x\r\n\r\n",
         400},
        {"POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
         400},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        struct raw c = raw_open(port);
        raw_send(&c, str_c(cases[i].request));
        struct raw_answer a = raw_answer(&c, false);
        if (a.status != cases[i].status)
            fail_msg("case %zu: %d", i, a.status);
        assert_true(str_eqz(raw_header(&a, "connection"), "close"));
        raw_answer_free(&a);
        assert_true(raw_at_end(&c));
        raw_close(&c);
    }
    struct raw c = raw_open(port);
    raw_send(&c, str_n("GET /a\0b HTTP/1.1\r\n" H "\r\n", 29));
    expect(&c, 400, NULL);
    raw_close(&c);
}
SERVE(refused)

static void header_limits(void)
{
    struct raw c = raw_open(port);
    static char text[33 * 1024];
    memset(text, 'h', sizeof(text));
    raw_put(&c, "GET /hello HTTP/1.1\r\n" H "X: ");
    raw_send(&c, str_n(text, sizeof(text)));
    expect(&c, 431, NULL);
    raw_close(&c);
    c = raw_open(port);
    raw_put(&c, "GET /hello HTTP/1.1\r\n" H "X: ");
    raw_send(&c, str_n(text, 31 * 1024));
    raw_put(&c, "\r\n\r\n");
    expect(&c, 200, "hello");
    for (int count = 127; count <= 128; count++) {
        raw_put(&c, "GET /hello HTTP/1.1\r\n" H);
        for (int i = 0; i < count; i++)
            raw_put(&c, "A: b\r\n");
        raw_put(&c, "\r\n");
        expect(&c, count == 127 ? 200 : 431, NULL);
    }
    raw_close(&c);
}
SERVE(header_limits)

static void json_bodies(void)
{
#define POST_JSON(path, type, text) \
    "POST " path " HTTP/1.1\r\n" H "Content-Type: " type "\r\nContent-Length: " text
    once(POST_JSON("/json", "application/json; charset=utf-8", "14\r\n\r\n{\"name\":\"abc\"}"), 200,
         "{\"name\":\"abc\"}");
    once(POST_JSON("/json", "application/json", "17\r\n\r\n{\"name\":\"abcdef\"}"), 400,
         "name must be at most 5 characters");
    once(POST_JSON("/json", "application/json", "2\r\n\r\n{}"), 400, "name is required");
    once(POST_JSON("/json", "application/json", "2\r\n\r\n[]"), 400,
         "the body must be a JSON object");
    once(POST_JSON("/json", "application/json", "2\r\n\r\n{x"), 400, NULL);
    once(POST_JSON("/json", "application/json", "0\r\n\r\n"), 400, "a JSON body is needed");
    once(POST_JSON("/json", "text/plain", "2\r\n\r\n{}"), 400,
         "Content-Type must be application/json");
    once(POST_JSON("/lenient", "text/plain", "2\r\n\r\n{}"), 200, "json");
    once(POST_JSON("/lenient", "text/plain", "2\r\n\r\n{x"), 200, "none");
    once(POST_JSON("/lenient", "text/plain", "0\r\n\r\n"), 200, "none");
    /* Large enough for a worker. */
    struct raw c = raw_open(port);
    static char text[200 * 1024];
    memset(text, ' ', sizeof(text));
    memcpy(text, "{\"name\":\"abc\"", 13);
    text[sizeof(text) - 1] = '}';
    raw_put(&c, "POST /json HTTP/1.1\r\n" H
                "Content-Type: application/json\r\nContent-Length: 204800\r\n\r\n");
    raw_send(&c, str_n(text, sizeof(text)));
    expect(&c, 200, "{\"name\":\"abc\"}");
    text[5] = '\n';
    raw_put(&c, "POST /json HTTP/1.1\r\n" H
                "Content-Type: application/json\r\nContent-Length: 204800\r\n\r\n");
    raw_send(&c, str_n(text, sizeof(text)));
    expect(&c, 400, NULL);
    raw_close(&c);
}
SERVE(json_bodies)

static void parameters(void)
{
    once("GET /p/one%2Ftwo/x/42 HTTP/1.1\r\n" H "\r\n", 200, "one/two|42");
    once("GET /p/a/x/4b HTTP/1.1\r\n" H "\r\n", 404, NULL);
    once("GET /files/a/b%20c/d HTTP/1.1\r\n" H "\r\n", 200, "a/b c/d|");
    once("GET /files/ HTTP/1.1\r\n" H "\r\n", 404, NULL);
}
SERVE(parameters)

static void streams(void)
{
    struct raw c = raw_open(port);
    raw_put(&c, "GET /stream HTTP/1.1\r\n" H "\r\nGET /hello HTTP/1.1\r\n" H "\r\n");
    struct raw_answer a = raw_answer(&c, false);
    assert_true(str_eqz(a.body, "one,two,three"));
    assert_false(a.cut);
    assert_true(str_eqz(raw_header(&a, "transfer-encoding"), "chunked"));
    raw_answer_free(&a);
    expect(&c, 200, "hello");
    raw_put(&c, "GET /cut HTTP/1.1\r\n" H "\r\n");
    a = raw_answer(&c, false);
    assert_true(a.cut);
    assert_true(str_eqz(a.body, "half"));
    raw_answer_free(&a);
    raw_close(&c);
    c = raw_open(port);
    raw_put(&c, "GET /stream HTTP/1.0\r\n\r\n");
    a = raw_answer(&c, false);
    assert_null(raw_header(&a, "transfer-encoding").p);
    assert_true(str_eqz(a.body, "one,two,three"));
    raw_answer_free(&a);
    raw_close(&c);
}
SERVE(streams)

static void slow_reader(void)
{
    struct error err;
    struct raw c = raw_open(port);
    raw_put(&c, "GET /flood HTTP/1.1\r\n" H "\r\n");
    assert_true(task_sleep_ms(100, &err));
    size_t early = flood_written;
    assert_true(early < FLOOD / 2); /* the writer waits for us */
    struct raw_answer a = raw_answer(&c, false);
    assert_false(a.cut);
    assert_int_equal(a.body.n, FLOOD);
    assert_false(stream_failed);
    raw_answer_free(&a);
    /* And a client that goes away in the middle. */
    raw_put(&c, "GET /flood HTTP/1.1\r\n" H "\r\n");
    assert_true(raw_fill(&c, 100000));
    raw_close(&c);
    for (int i = 0; i < 100 && !stream_failed; i++)
        assert_true(task_sleep_ms(10, &err));
    assert_true(stream_failed);
}
SERVE(slow_reader)

static void large_answers(void)
{
    struct error err;
    for (size_t i = 0; i < sizeof(big_static); i++)
        big_static[i] = (char)(i * 31 + i / 251);
    struct raw c = raw_open(port);
    raw_put(&c, "GET /static HTTP/1.1\r\n" H "\r\nGET /big HTTP/1.1\r\n" H "\r\n");
    assert_true(task_sleep_ms(20, &err));
    for (int i = 0; i < 2; i++) {
        struct raw_answer a = raw_answer(&c, false);
        assert_int_equal(a.body.n, sizeof(big_static));
        assert_memory_equal(a.body.p, big_static, sizeof(big_static));
        raw_answer_free(&a);
    }
    raw_close(&c);
}
SERVE(large_answers)

static void client_gone(void)
{
    struct error err;
    struct raw c = raw_open(port);
    gone_seen = -1;
    raw_put(&c, "GET /wait HTTP/1.1\r\n" H "\r\n");
    assert_true(task_sleep_ms(10, &err));
    raw_close(&c);
    assert_true(task_sleep_ms(10, &err));
    task_cond_notify_all(&gate_open);
    assert_true(task_sleep_ms(10, &err));
    assert_int_equal(gone_seen, 1);
    /* A half-closed client gets its answer. */
    c = raw_open(port);
    raw_put(&c, "GET /slow HTTP/1.1\r\n" H "\r\n");
    assert_true(task_sleep_ms(10, &err));
    shutdown(c.fd, SHUT_WR);
    expect(&c, 200, "slow");
    assert_true(raw_at_end(&c));
    raw_close(&c);
    /* One that resets. */
    c = raw_open(port);
    raw_put(&c, "GET /wait HTTP/1.1\r\n" H "\r\n");
    assert_true(task_sleep_ms(10, &err));
    struct linger l = {1, 0};
    setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
    raw_close(&c);
    assert_true(task_sleep_ms(10, &err));
    gone_seen = -1;
    task_cond_notify_all(&gate_open);
    assert_true(task_sleep_ms(10, &err));
    assert_int_equal(gone_seen, 1);
}
SERVE(client_gone)

/* Clocks are shifted; the sweep comes within half a second. */
static void timeouts(void)
{
    struct error err;
    struct raw idle = raw_open(port), slow = raw_open(port), body = raw_open(port),
               busy = raw_open(port);
    raw_put(&slow, "GET /hel");
    raw_put(&body, "POST /echo HTTP/1.1\r\n" H "Content-Length: 200000\r\n\r\nabc");
    raw_put(&busy, "POST /echo HTTP/1.1\r\n" H "Content-Length: 40960\r\n\r\n");
    static char text[20480];
    raw_send(&busy, str_n(text, sizeof(text)));
    assert_true(task_sleep_ms(20, &err));
    time_shift_us(0, 16000000);
    expect(&slow, 408, NULL);
    time_shift_us(0, 15000000);
    expect(&body, 408, NULL);
    raw_send(&busy, str_n(text, sizeof(text))); /* it was faster than 1 KiB/s */
    expect(&busy, 200, NULL);
    time_shift_us(0, 45000000);
    assert_true(raw_at_end(&idle));
    raw_put(&busy, "GET /hello HTTP/1.1\r\n" H "\r\n");
    expect(&busy, 200, "hello");
    raw_put(&busy, "GET /flood HTTP/1.1\r\n" H "\r\n");
    assert_true(task_sleep_ms(50, &err));
    stream_failed = false;
    time_shift_us(0, 31000000);
    assert_true(task_sleep_ms(700, &err));
    assert_true(stream_failed);
    raw_close(&idle);
    raw_close(&slow);
    raw_close(&body);
    raw_close(&busy);
}
SERVE(timeouts)

static void too_many(void)
{
    struct raw a = raw_open(port), b = raw_open(port);
    raw_put(&a, "GET /hello HTTP/1.1\r\n" H "\r\n");
    expect(&a, 200, "hello");
    raw_put(&b, "GET /hello HTTP/1.1\r\n" H "\r\n");
    expect(&b, 200, "hello");
    struct raw c = raw_open(port);
    expect(&c, 503, NULL);
    raw_close(&c);
    raw_close(&b);
    struct error err;
    assert_true(task_sleep_ms(10, &err));
    once("GET /hello HTTP/1.1\r\n" H "\r\n", 200, "hello");
    struct http_server_stats st;
    http_server_stats_get(server, &st);
    assert_int_equal(st.refused, 1);
    raw_close(&a);
}
SERVE(too_many, .connections_max = 2)

static void graceful_stop(void)
{
    struct error err;
    struct raw idle = raw_open(port), slow = raw_open(port);
    raw_put(&slow, "GET /slow HTTP/1.1\r\n" H "\r\n");
    assert_true(task_sleep_ms(10, &err));
    http_server_stop(server, 5000);
    server = NULL;
    struct raw_answer a = raw_answer(&slow, false);
    assert_true(str_eqz(a.body, "slow"));
    assert_true(str_eqz(raw_header(&a, "connection"), "close"));
    raw_answer_free(&a);
    assert_true(raw_at_end(&idle));
    raw_close(&idle);
    raw_close(&slow);
}
SERVE(graceful_stop)

static void hard_stop(void)
{
    struct error err;
    struct raw c = raw_open(port);
    raw_put(&c, "GET /wait HTTP/1.1\r\n" H "\r\n");
    assert_true(task_sleep_ms(10, &err));
    http_server_stop(server, 20);
    server = NULL;
    raw_close(&c);
}
SERVE(hard_stop)

/* Descriptors run out: the server goes on when there are some again. */
static void starved(void)
{
    struct error err;
    static int fds[4096];
    size_t n = 0;
    struct raw c = raw_open(port);
    raw_put(&c, "GET /hello HTTP/1.1\r\n" H "\r\n");
    expect(&c, 200, "hello");
    struct raw d = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)};
    while (n < array_len(fds) && (fds[n] = open("/dev/null", O_RDONLY)) >= 0)
        n++;
    close(d.fd);
    d = raw_open(port);
    assert_true(raw_at_end(&d));
    raw_put(&c, "GET /hello HTTP/1.1\r\n" H "\r\n");
    expect(&c, 200, "hello");
    while (n > 0)
        close(fds[--n]);
    raw_close(&d);
    once("GET /hello HTTP/1.1\r\n" H "\r\n", 200, "hello");
    raw_close(&c);
    assert_true(task_sleep_ms(1, &err));
}

static void test_starved(void **state)
{
    struct rlimit old, low;
    getrlimit(RLIMIT_NOFILE, &old);
    low = old;
    low.rlim_cur = 200;
    setrlimit(RLIMIT_NOFILE, &low);
    serve((struct test){starved, {0}});
    setrlimit(RLIMIT_NOFILE, &old);
}

static int start_bad(void *arg)
{
    static const struct http_route twice[] = {{HTTP_M_GET, "/a/{x}", .handler = h_hello},
                                              {HTTP_M_GET, "/a/{y}", .handler = h_hello},
                                              {.pattern = NULL}};
    static const struct http_route *const bad_tables[] = {twice, NULL};
    struct error err;
    struct http_server_opts o = {.host = "127.0.0.1", .tables = bad_tables};
    assert_null(http_server_new(&o, &err));
    o.tables = tables;
    o.host = "no.such.host";
    assert_null(http_server_new(&o, &err));
    assert_int_equal(err.code, ERR_INVALID);
    o.host = "127.0.0.1";
    struct http_server *s = http_server_new(&o, &err);
    assert_non_null(s);
    assert_ptr_equal(http_server_routes(s, 0, 1), &routes[1]);
    assert_null(http_server_routes(s, 0, array_len(routes) - 1));
    assert_null(http_server_routes(s, 1, 0));
    o.port = http_server_port(s);
    assert_null(http_server_new(&o, &err)); /* taken */
    assert_int_equal(err.code, ERR_IO);
    http_server_stop(s, 0);
    return 0;
}

static void test_start(void **state)
{
    long blocks = mem_live();
    assert_int_equal(task_run(start_bad, NULL), 0);
    assert_int_equal(mem_live(), blocks);
}

/* The nth allocation fails, for each n: never a crash, and the server works again afterwards. */
static void out_of_memory(void)
{
    for (long nth = 1; nth < 12; nth++) {
        struct raw c = raw_open(port);
        raw_put(&c, "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhel");
        struct error err;
        assert_true(task_sleep_ms(2, &err));
        char text[512];
        raw_put(&c, "lo\r\n0\r\n\r\nGET /p/%41/x/1 HTTP/1.1\r\n" H "\r\n");
        mem_fail_after(nth, false);
        ssize_t n = task_read(c.fd, text, sizeof(text), &err);
        mem_fail_after(0, false);
        assert_true(n >= 0 || err.code != ERR_NONE);
        raw_close(&c);
        once("GET /hello HTTP/1.1\r\n" H "\r\n", 200, "hello");
    }
}
SERVE(out_of_memory)

static int nothing(void *arg)
{
    return 0;
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, 2);
    task_run(nothing, NULL); /* what stays open for good is opened here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_basics),        cmocka_unit_test(test_request_ids),
        cmocka_unit_test(test_keep_alive),    cmocka_unit_test(test_head_and_options),
        cmocka_unit_test(test_pipelining),    cmocka_unit_test(test_split_everywhere),
        cmocka_unit_test(test_bodies),        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_header_limits),
        cmocka_unit_test(test_json_bodies),   cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_streams),       cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_large_answers), cmocka_unit_test(test_client_gone),
        cmocka_unit_test(test_timeouts),      cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_graceful_stop), cmocka_unit_test(test_hard_stop),
        cmocka_unit_test(test_starved),       cmocka_unit_test(test_start),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
