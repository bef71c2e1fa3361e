/* What the HTTP server refuses, its limits and time-outs, start and stop. */
#include "net/http_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

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
        {"GET /hello HTTP/1.1\r\nHost: x\rY: z\r\n\r\n", 400}, /* bare CR */
        {"GET /hello\t HTTP/1.1\r\n" H "\r\n", 400},           /* tab in the target */
        {"GET /hello?a=\tb HTTP/1.1\r\n" H "\r\n", 400},
        {"GET /hello HTTP/1.1\r\n" H "A: b\r\n c\r\n\r\n", 400}, /* folded */
        {"GET /hello HTTP/1.1\r\n" H "A : b\r\n\r\n", 400},      /* space before colon */
        {"GET /hello HTTP/1.1\r\n" H "A B: c\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\n" H "A\x01: b\r\n\r\n", 400},
        {"GET /a%01b HTTP/1.1\r\n" H "\r\n", 400},
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
    /* An escaped U+0000 is a character that no name has; nothing is found by what stands before it. */
    once("GET /hello%00 HTTP/1.1\r\n" H "\r\n", 404, NULL);
    once("GET /%00hello HTTP/1.1\r\n" H "\r\n", 404, NULL);
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

static void h_never(struct http_request *r) {}

static int start_bad(void *arg)
{
    static const struct http_route twice[] = {{HTTP_M_GET, "/a/{x}", .handler = h_never},
                                              {HTTP_M_GET, "/a/{y}", .handler = h_never},
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
    assert_null(http_server_routes(s, 0, route_count - 1));
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

int main(void)
{
    warm_up();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_large),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_header_limits), cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_too_many),      cmocka_unit_test(test_graceful_stop),
        cmocka_unit_test(test_hard_stop),     cmocka_unit_test(test_starved),
        cmocka_unit_test(test_start),         cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
