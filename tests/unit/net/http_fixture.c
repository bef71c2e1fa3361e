#include "net/http_fixture.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct http_server *server;
uint16_t port;
size_t after_count, after_bytes;
int after_status, gone_seen;
char after_id[600];
bool stream_failed;
struct task_cond gate_open;

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

size_t flood_written;

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

char big_static[BIG];

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

const struct http_route routes[] = {
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
const struct http_route *const tables[] = {routes, NULL};
const size_t route_count = array_len(routes);

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

void serve(struct test t)
{
    long blocks = mem_live();
    size_t fds = raw_fd_count();
    assert_int_equal(task_run(in_task, &t), 0);
    assert_int_equal(raw_fd_count(), fds);
    assert_int_equal(mem_live(), blocks);
}

void expect(struct raw *c, int status, const char *body)
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

void once(const char *request, int status, const char *body)
{
    struct raw c = raw_open(port);
    raw_send(&c, str_c(request));
    expect(&c, status, body);
    raw_close(&c);
}

static int nothing(void *arg)
{
    return 0;
}

void warm_up(void)
{
    base_init();
    log_setup(LOG_ERROR, false, 2);
    task_run(nothing, NULL);
}
