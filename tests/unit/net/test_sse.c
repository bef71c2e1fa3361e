#include "net/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* Events as one text: "<name>|<data>;" each. */
static bool collect(void *arg, struct str event, struct str data)
{
    struct buf *b = arg;
    buf_str(b, event);
    buf_c(b, '|');
    buf_str(b, data);
    return buf_c(b, ';');
}

static bool collect_one(void *arg, struct str event, struct str data)
{
    collect(arg, event, data);
    return false;
}

static const char *const text = "\xef\xbb\xbf"
                                "data: one\r\n\r\n"
                                ": comment\r"
                                "event: up\r"
                                "data: a\r"
                                "data:b\r\r"
                                "id: 7\nretry: 10\nunknown\n\n"
                                "data\n\n"
                                "event:lost\n\n"
                                "data:  two spaces\nevent:x\nevent:y\n\n"
                                "data: \xe4\xbd\xa0\xe5\xa5\xbd: {\"a\":1}\r\n\r\n"
                                "data: [DONE]";
static const char *const expected = "|one;up|a\nb;|;y| two spaces;|\xe4\xbd\xa0\xe5\xa5\xbd: "
                                    "{\"a\":1};|[DONE];";

static void run_split(size_t first, size_t step, struct buf *out)
{
    struct sse s;
    struct error err;
    size_t n = strlen(text), at = 0;
    sse_init(&s, 4096);
    while (at < n) {
        size_t part = at == 0 && first ? first : step;
        if (part > n - at)
            part = n - at;
        struct str in = str_n(text + at, part);
        assert_true(sse_feed(&s, &in, collect, out, &err));
        assert_int_equal(in.n, 0);
        at += part;
    }
    assert_true(sse_end(&s, collect, out, &err));
    sse_free(&s);
}

static void test_every_split(void **state)
{
    size_t n = strlen(text);
    for (size_t step = 1; step <= n; step++) {
        auto_buf out = BUF(1 << 16);
        run_split(0, step, &out);
        assert_string_equal(buf_cstr(&out), expected);
    }
    for (size_t first = 1; first < n; first++) {
        auto_buf out = BUF(1 << 16);
        run_split(first, n, &out);
        assert_string_equal(buf_cstr(&out), expected);
    }
}

static void test_stop(void **state)
{
    struct sse s;
    struct error err;
    auto_buf out = BUF(1 << 16);
    sse_init(&s, 4096);
    struct str in = S("data: 1\r\n\r\ndata: 2\n\ndata: 3\n");
    assert_true(sse_feed(&s, &in, collect_one, &out, &err));
    assert_string_equal(buf_cstr(&out), "|1;");
    assert_int_equal(in.n, strlen("\ndata: 2\n\ndata: 3\n"));
    assert_true(sse_feed(&s, &in, collect_one, &out, &err));
    assert_string_equal(buf_cstr(&out), "|1;|2;");
    assert_true(sse_feed(&s, &in, collect_one, &out, &err));
    assert_true(sse_end(&s, collect_one, &out, &err));
    assert_string_equal(buf_cstr(&out), "|1;|2;|3;");
    assert_true(sse_end(&s, collect, &out, &err)); /* nothing twice */
    assert_string_equal(buf_cstr(&out), "|1;|2;|3;");
    sse_free(&s);
}

static bool feed_all(struct sse *s, const char *z, size_t step, struct buf *out, struct error *err)
{
    for (size_t at = 0, n = strlen(z); at < n; at += step) {
        struct str in = str_n(z + at, step < n - at ? step : n - at);
        if (!sse_feed(s, &in, collect, out, err))
            return false;
    }
    return true;
}

static void test_limit(void **state)
{
    /* 16 bytes of one event, wherever they are: line, data, name. */
    static const struct {
        const char *text;
        bool ok;
    } cases[] = {
        {"data: 0123456789\n\n", true},
        {"data: 01234567890\n\n", false},
        {"data: 0123456789a", false},
        {":0123456789abcde", true},
        {":0123456789abcdef", false},
        {"data:12345\ndata:1234\n\n", true},
        {"data:123456\ndata:123456\n\n", false},
        {"event:abcdef\ndata:1\n", true},
        {"event:abcdefgh\ndata:1234\n", false},
        {"data\ndata\ndata\ndata\ndata\ndata\ndata\n", true},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        for (size_t step = 1; step < 40; step++) {
            struct sse s;
            struct error err = {0};
            auto_buf out = BUF(1 << 16);
            sse_init(&s, 16);
            assert_int_equal(feed_all(&s, cases[i].text, step, &out, &err), cases[i].ok);
            if (!cases[i].ok)
                assert_int_equal(err.code, ERR_TOO_LARGE);
            sse_free(&s);
        }
    }
    /* Not of all events together. */
    struct sse s;
    struct error err;
    auto_buf out = BUF(1 << 20);
    sse_init(&s, 16);
    for (int i = 0; i < 1000; i++) {
        struct str in = S("data: 0123456789\n\n");
        assert_true(sse_feed(&s, &in, collect, &out, &err));
    }
    assert_int_equal(out.n, 12000);
    sse_free(&s);
}

/* Whole events are handed out from where they lie; what the next feed needs is kept. */
static bool inside(void *arg, struct str event, struct str data)
{
    const struct str *in = arg;
    return data.p >= in->p && data.p + data.n <= in->p + in->n && event.n == 0;
}

static void test_in_place(void **state)
{
    struct sse s;
    struct error err;
    auto_buf out = BUF(1 << 16);
    sse_init(&s, 64);
    long live = mem_live();
    struct str whole = S("data: one\n\ndata: two\r\n\r\n: ping\n\nid: 3\ndata:three\n\n"),
               in = whole;
    assert_true(sse_feed(&s, &in, inside, &whole, &err));
    assert_int_equal(in.n, 0);
    assert_int_equal(mem_live(), live);
    char first[] = "data: kept\n";
    in = str_c(first);
    assert_true(sse_feed(&s, &in, collect, &out, &err));
    memset(first, 'x', sizeof(first) - 1);
    in = S("data: too\n\n");
    assert_true(sse_feed(&s, &in, collect, &out, &err));
    assert_string_equal(buf_cstr(&out), "|kept\ntoo;");
    sse_free(&s);
}

static void test_empty(void **state)
{
    struct sse s;
    struct error err;
    auto_buf out = BUF(1 << 16);
    sse_init(&s, 64);
    assert_true(sse_end(&s, collect, &out, &err));
    struct str in = S("\n\r\r\n\n: only\nevent: x\nid: 1");
    assert_true(sse_feed(&s, &in, collect, &out, &err));
    assert_true(sse_end(&s, collect, &out, &err));
    assert_int_equal(out.n, 0);
    sse_free(&s);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_split), cmocka_unit_test(test_stop),
        cmocka_unit_test(test_limit),       cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
