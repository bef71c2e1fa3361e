/* The HTTP server as a client sees it: framing, answers, bodies, streams. */
#include "net/http_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

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
    for (size_t i = 0; i < id.n; i++)
        assert_true(i == 8 || i == 13 || i == 18 || i == 23
                        ? id.p[i] == '-'
                        : strchr("0123456789abcdef", id.p[i]) != NULL);
    assert_non_null(strchr("89ab", id.p[19]));
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

int main(void)
{
    warm_up();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_basics),      cmocka_unit_test(test_request_ids),
        cmocka_unit_test(test_keep_alive),  cmocka_unit_test(test_head_and_options),
        cmocka_unit_test(test_pipelining),  cmocka_unit_test(test_split_everywhere),
        cmocka_unit_test(test_bodies),      cmocka_unit_test(test_json_bodies),
        cmocka_unit_test(test_parameters),  cmocka_unit_test(test_streams),
        cmocka_unit_test(test_slow_reader), cmocka_unit_test(test_large_answers),
        cmocka_unit_test(test_client_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
