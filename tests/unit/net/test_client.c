#include "net/client_run.h"

#include <sys/resource.h>
#include <unistd.h>

/* ---- plain answers --------------------------------------------------------------------------- */

static void body_fetch(struct run *r)
{
    struct http_result res;
    struct error err;
    const struct http_header headers[] = {
        {S("X-One"), S("1")}, {S("X-Empty"), S("")}, {S("Content-Type"), S("application/json")}};
    struct http_call call = {.method = "POST",
                             .url = r->url,
                             .total_ms = 5000,
                             .headers = headers,
                             .header_count = 3,
                             .body = S("{\"a\":1}")};
    check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
    check(r, res.status == 200 && str_eqz(res.body, "hello"));
    check(r, str_eqz(http_result_header(&res, "content-LENGTH"), "5"));
    check(r, http_result_header(&res, "nope").p == NULL);
    const char *sent = r->peer.last;
    check(r, strncmp(sent, "POST /x?y=1 HTTP/1.1\r\n", 22) == 0);
    check(r, strstr(sent, "\r\nX-One: 1\r\n") && strstr(sent, "\r\nX-Empty:\r\n"));
    check(r, strstr(sent, "\r\nContent-Type: application/json\r\n") &&
                 strstr(sent, "\r\n\r\n{\"a\":1}"));
    check(r, !strstr(sent, "Expect") && strstr(sent, "\r\nUser-Agent: parley/"));

    /* The pooled handle has kept nothing. */
    check_ok(r, client_get(r, &res, &err), err);
    check(r, strncmp(r->peer.last, "GET /x?y=1 HTTP/1.1\r\n", 21) == 0);
    check(r, !strstr(r->peer.last, "X-One") && !strstr(r->peer.last, "Content-"));
    call = (struct http_call){.method = "DELETE", .url = r->url, .total_ms = 5000};
    check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
    check(r, strncmp(r->peer.last, "DELETE /x", 9) == 0 && !strstr(r->peer.last, "Content-"));
    call = (struct http_call){.method = "PUT", .url = r->url, .total_ms = 5000, .body = S("z")};
    check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
    check(r, strncmp(r->peer.last, "PUT /x", 6) == 0 && strstr(r->peer.last, "\r\n\r\nz"));
    check(r, !strstr(r->peer.last, "Content-Type"));
    call = (struct http_call){.method = "POST", .url = r->url, .total_ms = 5000};
    check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
    check(r, strstr(r->peer.last, "\r\nContent-Length: 0\r\n") != NULL);
    check(r, atomic_load(&r->peer.accepted) == 1 && atomic_load(&r->peer.requests) == 5);
}

static void test_fetch(void **state)
{
    client_run(serve_hello, body_fetch);
}

static void serve_head(struct fake_peer *p, int conn, int index)
{
    peer_read(p, conn);
    peer_send(conn, "HTTP/1.1 204 No Content\r\nContent-Length: 99999999\r\n\r\n");
}

static void body_head(struct run *r)
{
    struct http_result res;
    struct error err;
    struct http_call call = {.method = "HEAD", .url = r->url, .total_ms = 5000, .body_max = 10};
    check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
    check(r, res.status == 204 && res.body.n == 0 && res.body.p);
}

static void test_head(void **state)
{
    client_run(serve_head, body_head);
}

static void body_invalid(struct run *r)
{
    static const char *const urls[] = {"", "ws://127.0.0.1/", "http://a b/", "ftp://x/", "x"};
    struct http_result res;
    for (size_t i = 0; i < array_len(urls); i++) {
        struct error err = {0};
        struct http_call call = {.method = "GET", .url = urls[i], .total_ms = 100};
        check(r, !http_fetch(r->arena, &call, &res, &err) && err.code == ERR_INVALID);
    }
    static const struct http_header bad[] = {
        {{"A\r\nB", 4}, {"1", 1}}, {{"A", 1}, {"1\r\nB: 2", 7}}, {{"", 0}, {"1", 1}},
        {{"A:", 2}, {"1", 1}},     {{"A", 1}, {"x\0y", 3}},
    };
    for (size_t i = 0; i < array_len(bad); i++) {
        struct error err = {0};
        struct http_call call = {
            .method = "GET", .url = r->url, .total_ms = 100, .headers = &bad[i], .header_count = 1};
        check(r, !http_fetch(r->arena, &call, &res, &err) && err.code == ERR_INVALID);
    }
    check(r, atomic_load(&r->peer.accepted) == 0);
}

static void test_invalid(void **state)
{
    client_run(serve_hello, body_invalid);
}

/* ---- how the bytes come ---------------------------------------------------------------------- */

static void serve_bytewise(struct fake_peer *p, int conn, int index)
{
    static const char answer[] = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                                 "HTTP/1.1 200 OK\r\nX-A:  b \r\nTransfer-Encoding: chunked\r\n\r\n"
                                 "5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nX-Trailer: 1\r\n\r\n";
    if (!peer_read(p, conn))
        return;
    for (size_t i = 0; i + 1 < sizeof(answer); i++) {
        peer_send_n(conn, answer + i, 1);
        if (i % 16 == 0)
            peer_sleep_ms(1);
    }
    peer_wait_closed(conn, 2000);
}

static void body_bytewise(struct run *r)
{
    struct http_result res;
    struct error err;
    check_ok(r, client_get(r, &res, &err), err);
    check(r, res.status == 200 && str_eqz(res.body, "hello world"));
    check(r, str_eqz(http_result_header(&res, "x-a"), "b"));
    check(r, !http_result_header(&res, "Link").p && !http_result_header(&res, "X-Trailer").p);
}

static void test_bytewise(void **state)
{
    client_run(serve_bytewise, body_bytewise);
}

static void body_big(struct run *r)
{
    struct http_result res;
    char url[256];
    const char *paths[] = {"/sized", "/open"};
    for (int i = 0; i < 2; i++) {
        struct error err = {0};
        struct http_call call = {.method = "GET",
                                 .url = fake_peer_url(&r->peer, paths[i], url, sizeof(url)),
                                 .total_ms = 10000};
        check(r, !http_fetch(r->arena, &call, &res, &err) && err.code == ERR_TOO_LARGE);
        call.body_max = 20971520;
        check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
        check(r, res.body.n == 20971520);
    }
}

static void test_big(void **state)
{
    client_run(serve_big, body_big);
}

static void serve_huge_head(struct fake_peer *p, int conn, int index)
{
    peer_read(p, conn);
    peer_send(conn, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 3000; i++) {
        if (!peer_send(conn, "X-Header-With-A-Name: 0123456789012345678901234567890123456789\r\n"))
            return;
    }
    peer_send(conn, "Content-Length: 0\r\n\r\n");
}

static void body_huge_head(struct run *r)
{
    struct http_result res;
    struct error err = {0};
    check(r, !client_get(r, &res, &err) && err.code == ERR_TOO_LARGE);
}

static void test_huge_head(void **state)
{
    client_run(serve_huge_head, body_huge_head);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void serve_failures(struct fake_peer *p, int conn, int index)
{
    if (!peer_read(p, conn))
        return;
    if (strstr(p->last, "/short")) {
        peer_send(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    } else if (strstr(p->last, "/chunk")) {
        peer_send(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc");
    } else if (strstr(p->last, "/junk")) {
        peer_send(conn, "SSH-2.0-x\r\n\r\n");
    } else if (strstr(p->last, "/silent")) {
        peer_wait_closed(conn, 5000);
    } else if (strstr(p->last, "/stall")) {
        peer_send(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
        peer_wait_closed(conn, 5000);
    } else if (strstr(p->last, "/drip")) {
        peer_send(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
        for (int i = 0; i < 10; i++) {
            peer_send(conn, "x");
            peer_sleep_ms(30);
        }
    } /* else: closed without an answer */
}

static void body_failures(struct run *r)
{
    static const char *const broken[] = {"/short", "/chunk", "/junk", "/none"};
    struct http_result res;
    struct error err;
    for (size_t i = 0; i < array_len(broken); i++) {
        check(r, !client_get_path(r, broken[i], (struct http_call){.total_ms = 5000}, &res, &err));
        check(r, err.code == ERR_UPSTREAM && !err.tag && strstr(err.msg, "http://127.0.0.1:"));
        check(r, !strstr(err.msg, broken[i]));
    }
    int64_t from = time_mono_us();
    check(r, !client_get_path(r, "/silent", (struct http_call){.total_ms = 100}, &res, &err));
    check(r, err.code == ERR_TIMEOUT && !err.tag);
    check(r, !client_get_path(r, "/silent", (struct http_call){.idle_ms = 100}, &res, &err));
    check(r, err.code == ERR_TIMEOUT && !err.tag);
    check(r, !client_get_path(r, "/stall", (struct http_call){.idle_ms = 100}, &res, &err));
    check(r, err.code == ERR_TIMEOUT && strstr(err.msg, "100 ms"));
    struct task_deadline d;
    task_deadline_push(&d, 100);
    bool ok = client_get_path(r, "/stall", (struct http_call){.idle_ms = 5000}, &res, &err);
    task_deadline_pop(&d);
    check(r, !ok && err.code == ERR_TIMEOUT);
    int64_t took = time_mono_us() - from;
    check(r, took > 390000 && took < 2000000);
    /* Slower than idle_ms in all, never silent for so long. */
    check_ok(r, client_get_path(r, "/drip", (struct http_call){.idle_ms = 150}, &res, &err), err);
    check(r, str_eqz(res.body, "xxxxxxxxxx"));
    check(r, !client_get_path(r, "/drip", (struct http_call){.idle_ms = 150, .total_ms = 150}, &res,
                              &err));
    check(r, err.code == ERR_TIMEOUT);
}

static void test_failures(void **state)
{
    client_run(serve_failures, body_failures);
}

static void body_refused(struct run *r)
{
    struct http_result res;
    struct error err = {0};
    struct http_call call = {.method = "POST", .url = r->url, .total_ms = 5000, .body = S("x")};
    fake_peer_stop(&r->peer);
    check(r, !http_fetch(r->arena, &call, &res, &err));
    check(r, err.code == ERR_UPSTREAM && err.tag && strcmp(err.tag, "connect") == 0);
    call.url = "http://no-such-host.invalid/";
    check(r, !http_fetch(r->arena, &call, &res, &err));
    check(r, (err.code == ERR_UPSTREAM || err.code == ERR_TIMEOUT) && err.tag &&
                 strcmp(err.tag, "connect") == 0);
    check(r, !http_open(&call, &err) && err.tag && strcmp(err.tag, "connect") == 0);
    fake_peer_start(&r->peer, serve_hello); /* for client_run() to stop */
}

static void test_refused(void **state)
{
    client_run(serve_hello, body_refused);
}

/* Aborted while curl's thread asks DNS: the loop must not wait for that thread. */
static void body_resolving(struct run *r)
{
    struct http_result res;
    for (int i = 0; i < 5; i++) {
        struct error err = {0};
        struct task_deadline d;
        struct http_call call = {
            .method = "GET", .url = "http://no-such-host.invalid/", .total_ms = 5000};
        int64_t from = time_mono_us();
        task_deadline_push(&d, i);
        bool ok = http_fetch(r->arena, &call, &res, &err);
        task_deadline_pop(&d);
        check(r, !ok && err.code != ERR_NONE && time_mono_us() - from < 500000);
        check(r, err.tag && strcmp(err.tag, "connect") == 0);
    }
}

static void test_resolving(void **state)
{
    client_run(serve_hello, body_resolving);
}

/* TLS: what is behind the port speaks no TLS, so nothing of the request has been sent. */
static void serve_close(struct fake_peer *p, int conn, int index)
{
    char c[16];
    if (read(conn, c, sizeof(c)) > 0)
        peer_send(conn, "not tls at all, sorry\r\n");
}

static void body_tls(struct run *r)
{
    struct http_result res;
    struct error err = {0};
    char url[64];
    snprintf(url, sizeof(url), "https://127.0.0.1:%u/", r->peer.port);
    struct http_call call = {.method = "POST", .url = url, .total_ms = 5000, .body = S("x")};
    check(r, !http_fetch(r->arena, &call, &res, &err));
    check(r, err.code == ERR_UPSTREAM && err.tag && strcmp(err.tag, "connect") == 0);
}

static void test_tls_refused(void **state)
{
    client_run(serve_close, body_tls);
}

/* ---- kept connections ------------------------------------------------------------------------ */

static void body_reuse(struct run *r)
{
    struct http_result res;
    struct error err;
    for (int i = 0; i < 200; i++) {
        struct http_call call = {
            .method = i % 2 ? "POST" : "GET", .url = r->url, .total_ms = 5000, .body = S("b")};
        if (i % 2 == 0)
            call.body = STR_NONE;
        check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
    }
    check(r, atomic_load(&r->peer.accepted) == 1 && atomic_load(&r->peer.requests) == 200);
}

static void test_reuse(void **state)
{
    client_run(serve_hello, body_reuse);
}

/* The first connection answers once; its second request finds the connection dead in one of
 * several ways. */
static void serve_dead(struct fake_peer *p, int conn, int index)
{
    if (!peer_read(p, conn) || !peer_answer(conn, "hello"))
        return;
    int way = atomic_load(&p->note);
    if (index > 0) {
        while (peer_read(p, conn)) {
            if (!peer_answer(conn, "hello"))
                return;
        }
        return;
    }
    if (way == 0)
        return; /* closed while idle */
    if (way == 1) {
        peer_reset(conn); /* reset while idle */
        return;
    }
    peer_read(p, conn); /* the race: it read the request, or a part of it, and closed */
    if (way == 3)
        peer_reset(conn);
}

static void body_dead(struct run *r)
{
    struct http_result res;
    struct error err;
    for (int way = 0; way < 4; way++) {
        fake_peer_stop(&r->peer);
        fake_peer_start(&r->peer, serve_dead);
        fake_peer_url(&r->peer, "/x", r->url, sizeof(r->url));
        atomic_store(&r->peer.note, way);
        struct http_call call = {
            .method = "POST", .url = r->url, .total_ms = 5000, .body = S("body")};
        check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
        if (way < 2)
            check(r, task_sleep_ms(50, &err));
        check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
        check(r, res.status == 200 && str_eqz(res.body, "hello"));
        check(r, strstr(r->peer.last, "\r\n\r\nbody") != NULL);
        check(r, atomic_load(&r->peer.accepted) == 2);
    }
}

static void test_dead(void **state)
{
    client_run(serve_hello, body_dead);
}

/* ---- redirects ------------------------------------------------------------------------------- */

static void serve_redirect(struct fake_peer *p, int conn, int index)
{
    while (peer_read(p, conn)) {
        bool ok;
        if (strstr(p->last, "GET /end"))
            ok = peer_answer(conn, "end");
        else if (strstr(p->last, "GET /loop"))
            ok = peer_send(conn,
                           "HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n");
        else if (strstr(p->last, "GET /file"))
            ok = peer_send(conn, "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n"
                                 "Content-Length: 0\r\n\r\n");
        else
            ok = peer_send(conn, "HTTP/1.1 302 Found\r\nLocation: /end\r\nX-Old: 1\r\n"
                                 "Content-Length: 4\r\n\r\ngone");
        if (!ok)
            return;
    }
}

static void body_redirect(struct run *r)
{
    struct http_result res;
    struct error err;
    check_ok(r, client_get_path(r, "/x", (struct http_call){.total_ms = 5000}, &res, &err), err);
    check(r, res.status == 302 && str_eqz(res.body, "gone"));
    struct http_call follow = {.total_ms = 5000, .flags = HTTP_CALL_FOLLOW};
    check_ok(r, client_get_path(r, "/x", follow, &res, &err), err);
    check(r, res.status == 200 && str_eqz(res.body, "end"));
    check(r, !http_result_header(&res, "X-Old").p);
    check(r, !client_get_path(r, "/loop", follow, &res, &err) && err.code == ERR_UPSTREAM);
    check(r, !client_get_path(r, "/file", follow, &res, &err) && err.code != ERR_NONE);

    struct http_call call = {
        .method = "GET", .url = r->url, .total_ms = 5000, .flags = HTTP_CALL_FOLLOW};
    struct http_stream *s = http_open(&call, &err);
    check_ok(r, s, err);
    check(r, http_stream_status(s) == 200);
    struct str chunk;
    check_ok(r, http_stream_read(s, &chunk, &err), err);
    check(r, str_eqz(chunk, "end"));
    http_stream_close(s);
}

static void test_redirect(void **state)
{
    client_run(serve_redirect, body_redirect);
}

/* ---- where calls may go ---------------------------------------------------------------------- */

static void body_private(struct run *r)
{
    struct http_result res;
    char url[128];
    static const char *const names[] = {
        "127.0.0.1", "localhost", "127.1",    "0x7f000001",         "2130706433",
        "0",         "[::1]",     "10.0.0.1", "[::ffff:127.0.0.1]", "169.254.169.254",
    };
    for (size_t i = 0; i < array_len(names); i++) {
        struct error err = {0};
        snprintf(url, sizeof(url), "http://%s:%u/", names[i], r->peer.port);
        struct http_call call = {
            .method = "GET", .url = url, .total_ms = 2000, .flags = HTTP_CALL_NO_PRIVATE};
        check(r, !http_fetch(r->arena, &call, &res, &err) && err.code == ERR_INVALID);
        check(r, strstr(err.msg, "private"));
    }
    check(r, atomic_load(&r->peer.accepted) == 0);

    /* A connection that was opened without the policy is not lent to a call with it. */
    struct error err = {0};
    struct http_call call = {.method = "GET", .url = r->url, .total_ms = 2000};
    check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
    call.flags = HTTP_CALL_NO_PRIVATE;
    check(r, !http_fetch(r->arena, &call, &res, &err) && err.code == ERR_INVALID);
    check(r, atomic_load(&r->peer.requests) == 1);
}

static void test_private(void **state)
{
    client_run(serve_hello, body_private);
}

/* A public-looking name whose address is private: this machine's own host name. */
static void body_rebind(struct run *r)
{
    struct http_result res;
    struct error err = {0};
    char host[128] = "", url[256];
    check(r, gethostname(host, sizeof(host) - 1) == 0);
    snprintf(url, sizeof(url), "http://%s:%u/", host, r->peer.port);
    struct http_call call = {
        .method = "GET", .url = url, .total_ms = 3000, .flags = HTTP_CALL_NO_PRIVATE};
    check(r, !http_fetch(r->arena, &call, &res, &err));
    check(r, err.code == ERR_INVALID || (err.tag && strcmp(err.tag, "connect") == 0));
    if (err.code == ERR_INVALID)
        check(r, strstr(err.msg, "leads to the private address"));
    check(r, atomic_load(&r->peer.accepted) == 0);
}

static void test_rebind(void **state)
{
    client_run(serve_hello, body_rebind);
}

static void body_allowed(struct run *r)
{
    struct http_result res;
    struct error err = {0};
    struct http_call call = {
        .method = "GET", .url = r->url, .total_ms = 2000, .flags = HTTP_CALL_NO_PRIVATE};
    check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
    call.url = "http://127.0.1.1:1/";
    check(r, !http_fetch(r->arena, &call, &res, &err) && err.code == ERR_INVALID);
    struct http_client_opts bad = {.allow_private =
                                       (const char *const[]){"10.0.0.0/8", "300.1.1.1/8", NULL}};
    http_client_end();
    check(r, !http_client_init(&bad, &err) && err.code == ERR_INVALID);
    check(r, !http_fetch(r->arena, &call, &res, &err) && err.code == ERR_INTERNAL);
    check_ok(r, http_client_init(NULL, &err), err);
}

static void test_allowed(void **state)
{
    const struct http_client_opts opts = {
        .allow_private = (const char *const[]){"127.0.0.1/32", "fd00::/8", NULL}};
    client_run_with(serve_hello, body_allowed, &opts);
}

/* URLs of tenants: as the operator says. */
static void body_tenant(struct run *r)
{
    struct http_result res;
    struct error err = {0};
    struct http_call call = {
        .method = "GET", .url = r->url, .total_ms = 2000, .flags = HTTP_CALL_TENANT};
    check(r, !http_fetch(r->arena, &call, &res, &err) && err.code == ERR_INVALID);
    check(r, strstr(err.msg, "private") && atomic_load(&r->peer.accepted) == 0);
    call.flags = 0;
    check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
    call.flags = HTTP_CALL_TENANT; /* the kept connection is not lent to it */
    check(r, !http_fetch(r->arena, &call, &res, &err));
    http_client_end();
    check_ok(r, http_client_init(NULL, &err), err);
    check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
    http_client_end();
    const struct http_client_opts some = {
        .refuse_private = true, .allow_private = (const char *const[]){"127.0.0.0/8", NULL}};
    check_ok(r, http_client_init(&some, &err), err);
    check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
}

static void test_tenant(void **state)
{
    const struct http_client_opts opts = {.refuse_private = true};
    client_run_with(serve_hello, body_tenant, &opts);
}

/* ---- proxies --------------------------------------------------------------------------------- */

static void body_proxy(struct run *r)
{
    struct http_result res;
    struct error err = {0};
    struct http_call call = {.method = "GET", .url = "http://api.example/v1", .total_ms = 2000};
    check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
    check(r, strncmp(r->peer.last, "GET http://api.example/v1 HTTP/1.1\r\n", 36) == 0);
    call.flags = HTTP_CALL_NO_PRIVATE;
    check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
    call.url = "http://10.1.2.3/";
    check(r, !http_fetch(r->arena, &call, &res, &err) && err.code == ERR_INVALID);
    check(r, atomic_load(&r->peer.requests) == 2);
    call = (struct http_call){.method = "GET", .url = r->url, .total_ms = 2000};
    check_ok(r, http_fetch(r->arena, &call, &res, &err), err);
    check(r, strncmp(r->peer.last, "GET /x?y=1 ", 11) == 0); /* this machine: direct */
    call.url = "http://in.corp.example:1/";
    check(r, !http_fetch(r->arena, &call, &res, &err) && err.tag); /* NO_PROXY */
    call.url = "http://other.invalid/";
    call.flags = HTTP_CALL_NO_PROXY;
    check(r, !http_fetch(r->arena, &call, &res, &err) && err.tag);
    check(r, atomic_load(&r->peer.requests) == 3);
}

static void outer_proxy(struct run *r)
{
    struct error err;
    char proxy[64];
    http_client_end();
    fake_peer_url(&r->peer, "", proxy, sizeof(proxy));
    setenv("no_proxy", "x.example, .corp.example", 1);
    struct http_client_opts opts = {.proxy_http = proxy};
    check_ok(r, http_client_init(&opts, &err), err);
    body_proxy(r);
    if (r->failed[0])
        return;
    http_client_end();
    setenv("HTTP_PROXY", proxy, 1);
    check_ok(r, http_client_init(NULL, &err), err);
    atomic_store(&r->peer.requests, 0);
    body_proxy(r);
    unsetenv("HTTP_PROXY");
    unsetenv("no_proxy");
}

static void test_proxy(void **state)
{
    client_run(serve_hello, outer_proxy);
}

int main(void)
{
    base_init();
    unset_proxies();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fetch),     cmocka_unit_test(test_head),
        cmocka_unit_test(test_invalid),   cmocka_unit_test(test_bytewise),
        cmocka_unit_test(test_big),       cmocka_unit_test(test_huge_head),
        cmocka_unit_test(test_failures),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_resolving), cmocka_unit_test(test_tls_refused),
        cmocka_unit_test(test_reuse),     cmocka_unit_test(test_dead),
        cmocka_unit_test(test_redirect),  cmocka_unit_test(test_private),
        cmocka_unit_test(test_tenant),    cmocka_unit_test(test_rebind),
        cmocka_unit_test(test_allowed),   cmocka_unit_test(test_proxy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
