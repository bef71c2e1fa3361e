/* WebSockets: the server's side byte by byte, the client's side against it. */
#include "net/raw_client.h"
#include "net/ws_private.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct http_server *server;
static uint16_t port;
static struct ws_opts options;
static struct ws *live;     /* the socket of the handler that runs */
static enum err_code ended; /* how its loop ended */
static size_t drains;

static void h_echo(struct http_request *r)
{
    struct error err;
    struct ws_msg m;
    struct ws *w = ws_accept(r, &options, &err);
    if (!w) {
        http_answer(r, err_http(&err), "text/plain", str_dup(r->arena, str_c(err.msg)));
        return;
    }
    live = w;
    while (ws_recv(w, &m, &err))
        if (!ws_send(w, m.type, m.data, &err))
            break;
    ended = err.code;
    live = NULL;
    ws_close(w);
}

static void on_drain(void *arg)
{
    drains++;
}

/* Sends until the queue is full, then waits for the drain. */
static void h_flood(struct http_request *r)
{
    struct error err;
    struct ws *w = ws_accept(r, &options, &err);
    assert_non_null(w);
    static char block[100000];
    ws_on_drain(w, on_drain, NULL);
    size_t sent = 0;
    while (ws_send(w, WS_BINARY, str_n(block, sizeof(block)), &err))
        sent++;
    ended = err.code;
    assert_true(sent > 5 && ws_queued(w) > options.queue_max - sizeof(block));
    for (int i = 0; i < 500 && drains == 0; i++)
        if (!task_sleep_ms(10, &err))
            break;
    assert_int_equal(ws_queued(w), 0);
    ws_close(w);
}

/* One large frame is taken on top of what waits; nothing behind it, and none that is larger. */
static void h_large(struct http_request *r)
{
    struct error err;
    struct ws *w = ws_accept(r, &options, &err);
    assert_non_null(w);
    static char block[16000001];
    assert_false(ws_send(w, WS_BINARY, str_n(block, sizeof(block)), &err));
    assert_int_equal(err.code, ERR_CAPACITY);
    for (int i = 0; i < 9; i++)
        assert_true(ws_send(w, WS_BINARY, str_n(block, 100000), &err));
    assert_true(ws_send(w, WS_BINARY, str_n(block, 16000000), &err));
    assert_false(ws_send(w, WS_BINARY, str_n(block, 1), &err));
    ended = err.code;
    for (int i = 0; i < 1000 && ws_queued(w) > 0; i++)
        if (!task_sleep_ms(10, &err))
            break;
    assert_true(ws_send(w, WS_BINARY, str_n(block, 16000000), &err));
    ws_close(w);
}

static void h_deny(struct http_request *r)
{
    http_answer(r, 401, "text/plain", S("no"));
}

static const struct http_route routes[] = {
    {HTTP_M_GET, "/ws", .handler = h_echo},
    {HTTP_M_GET, "/flood", .handler = h_flood},
    {HTTP_M_GET, "/large", .handler = h_large},
    {HTTP_M_GET, "/deny", .handler = h_deny},
    {.pattern = NULL},
};
static const struct http_route *const tables[] = {routes, NULL};

struct test {
    void (*fn)(void);
    struct ws_opts opts;
};

static int in_task(void *arg)
{
    struct test *t = arg;
    struct error err;
    struct http_server_opts o = {.host = "127.0.0.1", .tables = tables};
    options = t->opts;
    ended = ERR_NONE;
    drains = 0;
    server = http_server_new(&o, &err);
    assert_non_null(server);
    port = http_server_port(server);
    t->fn();
    if (server)
        http_server_stop(server, 2000);
    server = NULL;
    return 0;
}

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

#define UPGRADE(path)                                                                   \
    "GET " path                                                                         \
    " HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n" \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

static struct raw shake(const char *request)
{
    struct raw c = raw_open(port);
    raw_send(&c, str_c(request));
    struct raw_answer a = raw_answer(&c, true);
    assert_int_equal(a.status, 101);
    assert_true(str_eqz(raw_header(&a, "sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_true(str_ieqz(raw_header(&a, "upgrade"), "websocket"));
    raw_answer_free(&a);
    return c;
}

/* A masked frame; first is the whole first byte. */
static void frame_into(struct buf *b, unsigned first, struct str data)
{
    static const unsigned char mask[4] = {0x12, 0x34, 0x56, 0x78};
    buf_c(b, (char)first);
    if (data.n < 126) {
        buf_c(b, (char)(0x80 | data.n));
    } else if (data.n < 65536) {
        buf_c(b, (char)(0x80 | 126));
        buf_c(b, (char)(data.n >> 8));
        buf_c(b, (char)data.n);
    } else {
        buf_c(b, (char)(0x80 | 127));
        for (int shift = 56; shift >= 0; shift -= 8)
            buf_c(b, (char)((uint64_t)data.n >> shift));
    }
    buf_add(b, mask, 4);
    for (size_t i = 0; i < data.n; i++)
        buf_c(b, (char)(data.p[i] ^ mask[i & 3]));
}

static void put_frame(struct raw *c, unsigned first, struct str data)
{
    auto_buf b = BUF(64 << 20);
    frame_into(&b, first, data);
    raw_send(c, buf_view(&b));
}

/* The next frame from the server; its first byte, or -1 at the end. data is valid until the next
 * call on c. */
static int take_frame(struct raw *c, struct buf *data)
{
    buf_clear(data);
    if (!raw_fill(c, 2))
        return -1;
    unsigned char *p = (unsigned char *)c->in.p;
    int first = p[0];
    size_t n = p[1], head = 2;
    assert_true(n < 128); /* not masked */
    if (n >= 126) {
        head += n == 126 ? 2 : 8;
        assert_true(raw_fill(c, head));
        p = (unsigned char *)c->in.p;
        n = 0;
        for (size_t i = 2; i < head; i++)
            n = n << 8 | p[i];
    }
    assert_true(raw_fill(c, head + n));
    buf_add(data, c->in.p + head, n);
    buf_eat(&c->in, head + n);
    return first;
}

static void expect_frame(struct raw *c, int first, struct str data)
{
    auto_buf got = BUF(64 << 20);
    assert_int_equal(take_frame(c, &got), first);
    assert_int_equal(got.n, data.n);
    if (data.n)
        assert_memory_equal(got.p, data.p, data.n);
}

static void expect_close(struct raw *c, unsigned code)
{
    auto_buf got = BUF(1 << 20);
    assert_int_equal(take_frame(c, &got), 0x88);
    assert_true(got.n >= 2);
    assert_int_equal((unsigned char)got.p[0] << 8 | (unsigned char)got.p[1], code);
}

static void handshake(void)
{
    static const char *const bad[] = {
        "GET /ws HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\r\n",
        "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: short\r\n\r\n",
        "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    };
    struct raw c = raw_open(port);
    for (size_t i = 0; i < array_len(bad); i++) {
        raw_send(&c, str_c(bad[i]));
        struct raw_answer a = raw_answer(&c, false);
        assert_int_equal(a.status, 400);
        raw_answer_free(&a);
    }
    raw_close(&c);
    c = shake(UPGRADE("/ws") "Sec-WebSocket-Protocol: other, mcp\r\n\r\n");
    struct http_server_stats st;
    http_server_stats_get(server, &st);
    assert_int_equal(st.websockets, 1);
    put_frame(&c, 0x88, S("\x03\xe8"));
    expect_close(&c, 1000);
    assert_true(raw_at_end(&c));
    raw_close(&c);
    http_server_stats_get(server, &st);
    assert_int_equal(st.websockets, 0);
}
SERVE(handshake, .subprotocol = "mcp")

static void echo_lengths(void)
{
    static const size_t lengths[] = {0, 1, 125, 126, 127, 65535, 65536, 300000, 1048576};
    struct raw c = shake(UPGRADE("/ws") "\r\n");
    char *text = mem_alloc(1048576);
    for (size_t i = 0; i < 1048576; i++)
        text[i] = (char)('a' + i % 26);
    for (size_t i = 0; i < array_len(lengths); i++) {
        put_frame(&c, 0x81, str_n(text, lengths[i]));
        expect_frame(&c, 0x81, str_n(text, lengths[i]));
        put_frame(&c, 0x82, str_n(text, lengths[i]));
        expect_frame(&c, 0x82, str_n(text, lengths[i]));
        assert_null(live->wslay); /* nothing is kept between messages */
    }
    mem_free(text);
    raw_close(&c);
}
SERVE(echo_lengths)

static void split_everywhere(void)
{
    auto_buf b = BUF(1 << 20);
    /* Text in two fragments that cut a code point, a ping between them, then an empty binary
     * message. */
    frame_into(&b, 0x01, S("gr\xc3"));
    frame_into(&b, 0x89, S("?"));
    frame_into(&b, 0x80, S("\xbc\xc3\x9f"));
    frame_into(&b, 0x82, STR_NONE);
    for (size_t cut = 0; cut <= b.n; cut++) {
        struct raw c = shake(UPGRADE("/ws") "\r\n");
        raw_send(&c, str_n(b.p, cut));
        for (int i = 0; i < 3; i++)
            task_yield();
        raw_send(&c, str_n(b.p + cut, b.n - cut));
        expect_frame(&c, 0x8a, S("?"));
        expect_frame(&c, 0x81, S("gr\xc3\xbc\xc3\x9f"));
        expect_frame(&c, 0x82, STR_NONE);
        assert_null(live->wslay);
        raw_close(&c);
        while (live)
            task_yield();
    }
    /* The first message in one packet with the handshake. */
    struct raw c = raw_open(port);
    auto_buf all = BUF(1 << 20);
    buf_z(&all, UPGRADE("/ws") "\r\n");
    buf_add(&all, b.p, b.n);
    raw_send(&c, buf_view(&all));
    struct raw_answer a = raw_answer(&c, true);
    assert_int_equal(a.status, 101);
    raw_answer_free(&a);
    expect_frame(&c, 0x8a, S("?"));
    expect_frame(&c, 0x81, S("gr\xc3\xbc\xc3\x9f"));
    raw_close(&c);
}
SERVE(split_everywhere)

static void many_at_once(void)
{
    struct raw c = shake(UPGRADE("/ws") "\r\n");
    auto_buf b = BUF(1 << 20), got = BUF(1 << 20);
    for (int i = 0; i < 3000; i++) {
        char text[16];
        int n = snprintf(text, sizeof(text), "%d", i);
        frame_into(&b, 0x81, str_n(text, (size_t)n));
    }
    raw_send(&c, buf_view(&b));
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(take_frame(&c, &got), 0x81);
        assert_int_equal(atoi(buf_cstr(&got)), i);
    }
    raw_close(&c);
}
SERVE(many_at_once)

static void violations(void)
{
    static const struct {
        struct str bytes;
        unsigned code;
    } cases[] = {
        {S("\x81\x03"
           "abc"),
         1002},                                          /* not masked */
        {S("\xc1\x80\0\0\0\0"), 1002},                   /* reserved bit */
        {S("\x83\x80\0\0\0\0"), 1002},                   /* unknown opcode */
        {S("\x80\x80\0\0\0\0"), 1002},                   /* continues nothing */
        {S("\x01\x80\0\0\0\0\x81\x80\0\0\0\0"), 1002},   /* new message inside another */
        {S("\x09\x80\0\0\0\0"), 1002},                   /* fragmented ping */
        {S("\x89\xfe\x00\x7e\0\0\0\0"), 1002},           /* long ping */
        {S("\x81\xfe\x00\x05\0\0\0\0abcde"), 1002},      /* length not minimal */
        {S("\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0"), 1002}, /* length over 2^63 */
        {S("\x88\x82\0\0\0\0\x03\xed"), 1002},           /* 1005 in a frame */
        {S("\x81\x82\0\0\0\0\xc3\x28"), 1007},
        {S("\x81\x81\0\0\0\0\xc3"), 1007},         /* ends inside a code point */
        {S("\x81\x83\0\0\0\0\xed\xa0\x80"), 1007}, /* a surrogate */
        {S("\x82\xfe\x04\x01\0\0\0\0x"), 1009},    /* 1025 bytes */
        {S("\x02\xfe\x04\x00\0\0\0\0"), 0},        /* 1024 of them … */
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        struct raw c = shake(UPGRADE("/ws") "\r\n");
        raw_send(&c, cases[i].bytes);
        auto_buf got = BUF(1 << 20);
        if (cases[i].code == 0) {
            static char zeros[1024];
            raw_send(&c, str_n(zeros, sizeof(zeros)));
            raw_send(&c, S("\x80\x81\0\0\0\0x")); /* … and one more in a second fragment */
        }
        int first = take_frame(&c, &got);
        unsigned code =
            got.n >= 2 ? (unsigned)((unsigned char)got.p[0] << 8 | (unsigned char)got.p[1]) : 0;
        if (first != 0x88 || code != (cases[i].code ? cases[i].code : 1009))
            fail_msg("case %zu: frame %x code %u", i, (unsigned)first, code);
        assert_true(raw_at_end(&c));
        if (ended != ERR_PROTOCOL)
            fail_msg("case %zu: error %d", i, ended);
        raw_close(&c);
        while (live)
            task_yield();
        ended = ERR_NONE;
    }
}
SERVE(violations, .message_max = 1024)

static void exact_limit(void)
{
    struct raw c = shake(UPGRADE("/ws") "\r\n");
    static char text[1024];
    memset(text, 'x', sizeof(text));
    put_frame(&c, 0x81, str_n(text, 1024));
    expect_frame(&c, 0x81, str_n(text, 1024));
    put_frame(&c, 0x01, str_n(text, 1000));
    put_frame(&c, 0x80, str_n(text, 24));
    expect_frame(&c, 0x81, str_n(text, 1024));
    raw_close(&c);
}
SERVE(exact_limit, .message_max = 1024)

/* Frames of one message are counted, empty ones too; control frames between them are not. */
static void fragments_limit(void)
{
    struct raw c = shake(UPGRADE("/ws") "\r\n");
    for (int round = 0; round < 2; round++) {
        put_frame(&c, 0x01, S("a"));
        put_frame(&c, 0x00, S(""));
        put_frame(&c, 0x8a, S("pong"));
        put_frame(&c, 0x80, S("b"));
        expect_frame(&c, 0x81, S("ab"));
    }
    put_frame(&c, 0x01, S("a"));
    for (int i = 0; i < 3; i++)
        put_frame(&c, 0x00, S(""));
    auto_buf got = BUF(1 << 10);
    assert_int_equal(take_frame(&c, &got), 0x88);
    assert_int_equal((unsigned char)got.p[0] << 8 | (unsigned char)got.p[1], 1009);
    raw_close(&c);
}
SERVE(fragments_limit, .fragments_max = 3)

static void peer_vanishes(void)
{
    struct error err;
    struct raw c = shake(UPGRADE("/ws") "\r\n");
    raw_send(&c, S("\x81\x85\0\0"));
    assert_true(task_sleep_ms(5, &err));
    assert_non_null(live);
    raw_close(&c);
    for (int i = 0; i < 100 && live; i++)
        assert_true(task_sleep_ms(5, &err));
    assert_null(live);
    assert_int_equal(ended, ERR_CLOSED);
}
SERVE(peer_vanishes)

static void shutdown_by_us(void)
{
    struct error err;
    struct raw c = shake(UPGRADE("/ws") "\r\n");
    assert_true(task_sleep_ms(5, &err));
    assert_true(ws_is_open(live));
    ws_shutdown(live, 4001, S("replaced"));
    auto_buf got = BUF(1000);
    assert_int_equal(take_frame(&c, &got), 0x88);
    assert_true(str_eq(buf_view(&got), S("\x0f\xa1replaced")));
    assert_true(task_sleep_ms(20, &err));
    assert_int_equal(ended, ERR_CLOSED);
    put_frame(&c, 0x81, S("late")); /* ignored */
    put_frame(&c, 0x88, S("\x0f\xa1"));
    int64_t start = time_mono_us();
    assert_true(raw_at_end(&c));
    assert_true(time_mono_us() - start < 500000);
    raw_close(&c);
    /* A peer that never answers is waited for one second at most. */
    c = shake(UPGRADE("/ws") "\r\n");
    assert_true(task_sleep_ms(5, &err));
    start = time_mono_us();
    ws_shutdown(live, 1000, STR_NONE);
    expect_close(&c, 1000);
    assert_true(raw_at_end(&c));
    assert_true(time_mono_us() - start < 2000000);
    raw_close(&c);
}
SERVE(shutdown_by_us)

static void server_stops(void)
{
    struct error err;
    struct raw c = shake(UPGRADE("/ws") "\r\n");
    put_frame(&c, 0x81, S("x"));
    expect_frame(&c, 0x81, S("x"));
    int64_t start = time_mono_us();
    http_server_stop(server, 5000);
    server = NULL;
    assert_true(time_mono_us() - start < 3000000);
    expect_close(&c, 1001);
    assert_true(raw_at_end(&c));
    raw_close(&c);
    assert_true(task_sleep_ms(1, &err));
}
SERVE(server_stops)

static void slow_peer(void)
{
    auto_buf got = BUF(1 << 20);
    struct error err;
    struct raw c = shake(UPGRADE("/flood") "\r\n");
    assert_true(task_sleep_ms(20, &err));
    assert_int_equal(ended, ERR_CAPACITY);
    assert_int_equal(drains, 0);
    size_t frames = 0;
    int first;
    while ((first = take_frame(&c, &got)) == 0x82) {
        assert_int_equal(got.n, 100000);
        frames++;
    }
    assert_int_equal(first, 0x88);
    assert_true(frames > 5);
    assert_int_equal(drains, 1);
    put_frame(&c, 0x88, S("\x03\xe8"));
    assert_true(raw_at_end(&c));
    raw_close(&c);
}
SERVE(slow_peer, .queue_max = 1000000)

static void a_large_frame(void)
{
    auto_buf got = BUF(17 << 20);
    struct error err;
    struct raw c = shake(UPGRADE("/large") "\r\n");
    assert_true(task_sleep_ms(20, &err));
    assert_int_equal(ended, ERR_CAPACITY);
    for (int i = 0; i < 9; i++)
        assert_true(take_frame(&c, &got) == 0x82 && got.n == 100000);
    for (int i = 0; i < 2; i++)
        assert_true(take_frame(&c, &got) == 0x82 && got.n == 16000000);
    expect_close(&c, 1000);
    put_frame(&c, 0x88, S("\x03\xe8"));
    assert_true(raw_at_end(&c));
    raw_close(&c);
}
SERVE(a_large_frame, .queue_max = 1000000, .frame_max = 16000000)

static void pings(void)
{
    auto_buf got = BUF(1000);
    struct error err;
    struct raw c = shake(UPGRADE("/ws") "\r\n");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(take_frame(&c, &got), 0x89);
        put_frame(&c, 0x8a, STR_NONE);
    }
    assert_non_null(live);
    /* No pong any more: the socket is given up. */
    for (int i = 0; i < 100 && live; i++)
        assert_true(task_sleep_ms(10, &err));
    assert_null(live);
    assert_int_equal(ended, ERR_CLOSED);
    raw_close(&c);
}
SERVE(pings, .ping_ms = 40)

static const char *url(const char *path)
{
    static char text[80];
    snprintf(text, sizeof(text), "ws://127.0.0.1:%u%s", port, path);
    return text;
}

static void client(void)
{
    struct error err = {0};
    struct ws_msg m;
    struct http_header headers[] = {{S("X-Test"), S("1")}};
    struct ws *w = ws_connect(url("/ws?x=1"), headers, 1, NULL, NULL, &err);
    if (!w)
        fail_msg("%s", err.msg);
    char *text = mem_alloc(3 << 20);
    memset(text, 't', 3 << 20);
    static const size_t lengths[] = {0, 5, 126, 70000, 3 << 20};
    for (size_t i = 0; i < array_len(lengths); i++) {
        assert_true(ws_send(w, i % 2 ? WS_TEXT : WS_BINARY, str_n(text, lengths[i]), &err));
        if (!ws_recv(w, &m, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(m.type, i % 2 ? WS_TEXT : WS_BINARY);
        assert_int_equal(m.data.n, lengths[i]);
        if (m.data.n)
            assert_memory_equal(m.data.p, text, m.data.n);
    }
    mem_free(text);
    for (int i = 0; i < 600; i++)
        assert_true(ws_send(w, WS_TEXT, S("many"), &err));
    for (int i = 0; i < 600; i++) {
        assert_true(ws_recv(w, &m, &err));
        assert_true(str_eqz(m.data, "many"));
    }
    struct task_deadline d;
    task_deadline_push(&d, 20);
    assert_false(ws_recv(w, &m, &err));
    assert_int_equal(err.code, ERR_TIMEOUT);
    task_deadline_pop(&d);
    assert_true(ws_is_open(w));
    /* The other side begins to close. */
    ws_shutdown(live, 1000, STR_NONE);
    assert_false(ws_recv(w, &m, &err));
    assert_int_equal(err.code, ERR_CLOSED);
    assert_false(ws_is_open(w));
    assert_false(ws_send(w, WS_TEXT, S("x"), &err));
    assert_int_equal(err.code, ERR_CLOSED);
    ws_close(w);
    /* This side. */
    w = ws_connect(url("/ws"), NULL, 0, NULL, NULL, &err);
    assert_non_null(w);
    int64_t start = time_mono_us();
    ws_close(w);
    assert_true(time_mono_us() - start < 500000);
    assert_true(task_sleep_ms(10, &err));
    assert_int_equal(ended, ERR_CLOSED);
}
SERVE(client)

static void client_subprotocol(void)
{
    struct error err = {0};
    struct ws *w = ws_connect(url("/ws"), NULL, 0, "mcp", NULL, &err);
    assert_non_null(w);
    ws_close(w);
    assert_null(ws_connect(url("/ws"), NULL, 0, "other", NULL, &err));
    assert_int_equal(err.code, ERR_UPSTREAM);
}
SERVE(client_subprotocol, .subprotocol = "mcp")

static const char *canned; /* answer of the false server */

static void false_server(void *arg)
{
    int fd = *(int *)arg;
    struct error err;
    char text[2000];
    while (task_fd_wait(fd, TASK_READ, &err)) {
        int c = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (task_read(c, text, sizeof(text), &err) > 0 && canned &&
            task_write_all(c, canned, strlen(canned), &err))
            shutdown(c, SHUT_WR);
        if (!canned && !task_sleep_ms(60000, &err))
            (void)err;
        close(c);
    }
}

static void client_refused(void)
{
    struct error err = {0};
    assert_null(ws_connect(url("/deny"), NULL, 0, NULL, NULL, &err));
    assert_int_equal(err.code, ERR_UPSTREAM);
    assert_non_null(strstr(err.msg, "401"));
    assert_null(ws_connect("ws://127.0.0.1:1/", NULL, 0, NULL, NULL, &err));
    assert_int_equal(err.code, ERR_UPSTREAM);
    assert_string_equal(err.tag, "connect");
    assert_null(ws_connect("ftp://127.0.0.1/", NULL, 0, NULL, NULL, &err));
    assert_int_equal(err.code, ERR_INVALID);
    struct http_header bad = {S("X"), S("a\r\nb")};
    assert_null(ws_connect(url("/ws"), &bad, 1, NULL, NULL, &err));
    assert_int_equal(err.code, ERR_INVALID);
    assert_null(ws_connect("ws://no-such-host.invalid/", NULL, 0, NULL, NULL, &err));
    assert_int_equal(err.code, ERR_UPSTREAM);

    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, 8) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    port = ntohs(a.sin_port);
    struct task_group *g = task_group_new(NULL, "false");
    assert_true(task_spawn(g, "false", false_server, &fd, &err));
    static const char *const answers[] = {
        "HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 S\r\nUpgrade: websocket\r\n",
        "SSH-2.0-x\r\n\r\n",
        "",
    };
    for (size_t i = 0; i < array_len(answers); i++) {
        canned = answers[i];
        assert_null(ws_connect(url("/"), NULL, 0, NULL, NULL, &err));
        assert_int_equal(err.code, ERR_UPSTREAM);
    }
    canned = NULL;
    struct task_deadline d;
    task_deadline_push(&d, 50);
    assert_null(ws_connect(url("/"), NULL, 0, NULL, NULL, &err));
    assert_int_equal(err.code, ERR_TIMEOUT);
    task_deadline_pop(&d);
    task_group_free(g);
    close(fd);
}
SERVE(client_refused)

static void out_of_memory(void)
{
    for (long nth = 1; nth < 10; nth++) {
        struct error err;
        struct raw c = shake(UPGRADE("/ws") "\r\n");
        assert_true(task_sleep_ms(2, &err));
        auto_buf b = BUF(1000), got = BUF(1000);
        frame_into(&b, 0x01, S("one"));
        frame_into(&b, 0x80, S("two"));
        buf_reserve(&c.in, 20000);
        buf_reserve(&got, 100);
        mem_fail_after(nth, false);
        raw_send(&c, buf_view(&b));
        int first = take_frame(&c, &got);
        mem_fail_after(0, false);
        assert_true(first == 0x81 || first == 0x88 || first == -1);
        raw_close(&c);
        while (live)
            task_yield();
    }
    /* During the handshake of either side. */
    for (long nth = 1; nth < 25; nth++) {
        struct error err;
        char text[512];
        struct raw c = raw_open(port);
        mem_fail_after(nth, false);
        raw_put(&c, UPGRADE("/ws") "\r\n");
        ssize_t n = task_read(c.fd, text, sizeof(text), &err);
        mem_fail_after(0, false);
        assert_true(n <= 0 || memcmp(text, "HTTP/1.1 ", 9) == 0);
        raw_close(&c);
        mem_fail_after(nth, false);
        struct ws *w = ws_connect(url("/ws"), NULL, 0, NULL, NULL, &err);
        mem_fail_after(0, false);
        ws_close(w);
    }
    struct raw c = shake(UPGRADE("/ws") "\r\n");
    put_frame(&c, 0x81, S("still here"));
    expect_frame(&c, 0x81, S("still here"));
    raw_close(&c);
}
SERVE(out_of_memory)

static int nothing(void *arg)
{
    struct error err;
    CURL *warm = curl_easy_init();
    curl_easy_cleanup(warm);
    assert_true(http_client_init(&(struct http_client_opts){0}, &err));
    http_client_end();
    return 0;
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, 2);
    curl_global_init(CURL_GLOBAL_ALL);
    task_run(nothing, NULL); /* what stays open for good is opened here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handshake),          cmocka_unit_test(test_echo_lengths),
        cmocka_unit_test(test_split_everywhere),   cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_violations),         cmocka_unit_test(test_exact_limit),
        cmocka_unit_test(test_peer_vanishes),      cmocka_unit_test(test_shutdown_by_us),
        cmocka_unit_test(test_server_stops),       cmocka_unit_test(test_slow_peer),
        cmocka_unit_test(test_a_large_frame),      cmocka_unit_test(test_pings),
        cmocka_unit_test(test_fragments_limit),    cmocka_unit_test(test_client),
        cmocka_unit_test(test_client_subprotocol), cmocka_unit_test(test_client_refused),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
