#include "net/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define assert_str(s, z)                                   \
    do {                                                   \
        struct str got = (s);                              \
        assert_int_equal(got.n, strlen(z));                \
        assert_memory_equal(got.p ? got.p : "", z, got.n); \
    } while (0)

static void test_parts(void **state)
{
    struct url u;
    struct error err;
    assert_true(url_parse(S("HTTPS://me:pa@ss@Host.example:8443/a/b%20c?x=1&y#frag?"), &u, &err));
    assert_str(u.scheme, "HTTPS");
    assert_str(u.user, "me:pa@ss");
    assert_str(u.host, "Host.example");
    assert_int_equal(u.port, 8443);
    assert_str(u.path, "/a/b%20c");
    assert_str(u.query, "x=1&y");
    assert_str(u.fragment, "frag?");

    assert_true(url_parse(S("ws://[::1]:80?q"), &u, &err));
    assert_str(u.host, "::1");
    assert_int_equal(u.port, 80);
    assert_str(u.path, "");
    assert_str(u.query, "q");
    assert_null(u.fragment.p);

    assert_true(url_parse(S("http://h"), &u, &err));
    assert_str(u.host, "h");
    assert_int_equal(u.port, 0);
    assert_null(u.query.p);
    assert_null(u.user.p);
    assert_true(url_parse(S("http://h:/"), &u, &err));
    assert_int_equal(u.port, 0);
    assert_true(url_parse(S("http://\xe4\xbe\x8b.example/\xe4\xbe\x8b"), &u, &err));
}

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "http",
        "http:/h",
        "://h",
        "ftp://h/",
        "file:///etc/passwd",
        "http://",
        "http:///p",
        "http://?q",
        "http://u@",
        "http://h:0/",
        "http://h:65536/",
        "http://h:1x/",
        "http://h:000080/",
        "http://h h/",
        "http://h/\n",
        "http://h/\x7f",
        "http://a\\@b/",
        "http://[::1/",
        "http://[::1]x/",
        "http://[g::]/",
        "http://[]/",
        "http://h%41/",
        "http://h<x>/",
        " http://h/",
    };
    for (size_t i = 0; i < array_len(bad); i++) {
        struct url u;
        struct error err = {0};
        if (url_parse(str_c(bad[i]), &u, &err))
            fail_msg("accepted: %s", bad[i]);
        assert_int_equal(err.code, ERR_INVALID);
        assert_true(err.msg[0] != '\0');
    }
    struct url u;
    struct error err;
    assert_false(url_parse(str_n("http://h\0x/", 11), &u, &err));
}

static void test_coding(void **state)
{
    auto_arena a = arena_new(1 << 20);
    assert_str(url_decode(a, S("a%20b+c%zz%4"), false), "a b+c%zz%4");
    assert_str(url_decode(a, S("a+b%2B"), true), "a b+");
    struct str nul = url_decode(a, S("x%00y"), false);
    assert_int_equal(nul.n, 3);
    assert_memory_equal(nul.p, "x\0y", 3);
    assert_str(url_encode(a, S("Az09-._~ /?&=+%\xe4")), "Az09-._~%20%2F%3F%26%3D%2B%25%E4");
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    struct str back = url_decode(a, url_encode(a, str_n(all, 256)), true);
    assert_int_equal(back.n, 256);
    assert_memory_equal(back.p, all, 256);
    assert_non_null(url_decode(a, S(""), false).p);
}

static void test_query(void **state)
{
    auto_arena a = arena_new(1 << 20);
    struct str q = S("a=1&b=&a=2%26x&c&&a%5B%5D=z&aa=3&d=x+y=z");
    assert_str(query_get(a, q, "a"), "1");
    assert_str(query_nth(a, q, "a", 1), "2&x");
    assert_null(query_nth(a, q, "a", 2).p);
    assert_int_equal(query_count(q, "a"), 2);
    assert_int_equal(query_count(q, "b"), 1);
    assert_non_null(query_get(a, q, "b").p);
    assert_str(query_get(a, q, "b"), "");
    assert_str(query_get(a, q, "c"), "");
    assert_non_null(query_get(a, q, "c").p);
    assert_str(query_get(a, q, "a[]"), "z");
    assert_str(query_get(a, q, "d"), "x y=z");
    assert_null(query_get(a, q, "e").p);
    assert_null(query_get(a, STR_NONE, "e").p);
    assert_int_equal(query_count(S(""), ""), 0);
}

static void test_mime(void **state)
{
    assert_string_equal(mime_of_path(S("a/b.HTML")), "text/html; charset=utf-8");
    assert_string_equal(mime_of_path(S("x.tar.gz")), "application/gzip");
    assert_string_equal(mime_of_path(S("a.png/b")), "application/octet-stream");
    assert_string_equal(mime_of_path(S("png")), "application/octet-stream");
    assert_string_equal(mime_of_path(S("")), "application/octet-stream");
    assert_string_equal(mime_of_path(S("x.")), "application/octet-stream");
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts), cmocka_unit_test(test_refused), cmocka_unit_test(test_coding),
        cmocka_unit_test(test_query), cmocka_unit_test(test_mime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
