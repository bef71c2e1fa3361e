/* str, utf8, errors. */
#include "base/base_private.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>

static void test_compare(void **state)
{
    assert_true(str_eq(STR_NONE, S("")));
    assert_true(str_eqz(S("abc"), "abc"));
    assert_false(str_eqz(S("abc"), "abcd"));
    assert_true(str_eqz(STR_NONE, NULL));
    assert_true(str_ieqz(S("Content-TYPE"), "content-type"));
    assert_false(str_ieqz(S("\xc3\x84"), "\xc3\xa4")); /* ASCII only */
    assert_true(str_starts(S("abc"), S("ab")));
    assert_true(str_starts(S("abc"), S("")));
    assert_true(str_starts(STR_NONE, STR_NONE));
    assert_false(str_starts(S("a"), S("ab")));
    assert_true(str_ends(S("abc"), S("bc")));
    assert_false(str_ends(S("c"), S("bc")));
    assert_true(str_istarts(S("BEARER x"), S("bearer ")));
    assert_int_equal(str_hash(S("abc")), str_hash(str_n("abcd", 3)));
    assert_int_not_equal(str_hash(S("abc")), str_hash(S("abd")));
    assert_int_not_equal(str_hash(S("12345678")), str_hash(S("123456780")));
}

static void test_find_and_cut(void **state)
{
    assert_int_equal(str_find(S("hello"), S("ll")), 2);
    assert_int_equal(str_find(S("hello"), S("x")), -1);
    assert_int_equal(str_find(S("hello"), S("")), 0);
    assert_int_equal(str_find(STR_NONE, S("x")), -1);
    assert_int_equal(str_find(S("a"), S("ab")), -1);
    assert_int_equal(str_chr(S("a=b"), '='), 1);
    assert_int_equal(str_chr(STR_NONE, '='), -1);
    assert_true(str_eqz(str_sub(S("hello"), 1, 3), "ell"));
    assert_true(str_eqz(str_sub(S("hello"), 4, 100), "o"));
    assert_true(str_eqz(str_sub(S("hello"), 9, 1), ""));
    assert_null(str_sub(STR_NONE, 0, 1).p);
    assert_true(str_eqz(str_trim(S(" \t\r\n a b \v\f")), "a b"));
    assert_true(str_eqz(str_trim(S("   ")), ""));
}

static void test_split(void **state)
{
    struct str rest = S("a,,b,"), part;
    const char *expect[] = {"a", "", "b", ""};
    for (size_t i = 0; i < array_len(expect); i++) {
        assert_true(str_split(&rest, ',', &part));
        assert_true(str_eqz(part, expect[i]));
    }
    assert_false(str_split(&rest, ',', &part));
    assert_null(part.p);
    rest = S("");
    assert_true(str_split(&rest, ',', &part)); /* an empty text is one empty part */
    assert_int_equal(part.n, 0);
    assert_false(str_split(&rest, ',', &part));
    rest = STR_NONE;
    assert_false(str_split(&rest, ',', &part));
}

static void test_numbers(void **state)
{
    int64_t i;
    double d;
    assert_true(str_to_i64(S("9223372036854775807"), &i) && i == INT64_MAX);
    assert_true(str_to_i64(S("-9223372036854775808"), &i) && i == INT64_MIN);
    assert_true(str_to_i64(S("+0012"), &i) && i == 12);
    const char *bad[] = {"",
                         "-",
                         "+",
                         "9223372036854775808",
                         "-9223372036854775809",
                         "1 ",
                         " 1",
                         "1.0",
                         "0x10",
                         "--1",
                         "12345678901234567890123",
                         "\xd9\xa1"};
    for (size_t k = 0; k < array_len(bad); k++) {
        assert_false(str_to_i64(str_c(bad[k]), &i));
    }
    assert_true(str_to_f64(S("-1.5e3"), &d) && fabs(d + 1500) < 1e-9);
    assert_true(str_to_f64(S("7"), &d) && fabs(d - 7) < 1e-9);
    const char *not_real[] = {"",    ".",  "nan", "inf", "0x1p3", "1e999",
                              "1,5", " 1", "1 ",  "1e",  "-"};
    for (size_t k = 0; k < array_len(not_real); k++) {
        assert_false(str_to_f64(str_c(not_real[k]), &d));
    }
    char zeros[600];
    memset(zeros, '0', sizeof(zeros));
    assert_false(str_to_f64(str_n(zeros, sizeof(zeros)), &d));
    assert_false(str_to_i64(str_n("1\0", 2), &i));
}

static void test_copies(void **state)
{
    auto_arena a = arena_new(4096);
    assert_string_equal(str_dup(a, S("abc")).p, "abc");
    assert_non_null(str_dup(a, STR_NONE).p);
    assert_string_equal(str_z(a, str_n("abc", 2)), "ab");
    assert_true(str_eqz(str_fmt(a, "%s-%d", "x", 5), "x-5"));
    assert_string_equal(z_fmt(a, STR_FMT "!", STR_ARG(S("hi"))), "hi!");
    assert_string_equal(z_fmt(a, STR_FMT "!", STR_ARG(STR_NONE)), "!");
    for (int n = 250; n < 260; n++) { /* around the length that is written once */
        struct str s = str_fmt(a, "%0*d", n, 7);
        assert_int_equal(s.n, n);
        assert_int_equal(strlen(s.p), n);
        assert_true(s.p[0] == '0' && s.p[n - 1] == '7');
    }
    assert_true(str_eqz(str_lower(a, S("ÄBC-Xyz")), "Äbc-xyz"));
    while (arena_alloc(a, 64)) {
    }
    while (arena_alloc(a, 1)) {
    }
    assert_null(str_dup(a, S("no room")).p);
    assert_string_equal(str_z(a, S("no room")), "");
    assert_null(str_lower(a, S("no room")).p);
}

static void test_utf8_valid(void **state)
{
    const char *good[] = {"",
                          "ascii only and longer than one word",
                          "\xc2\x80",
                          "\xdf\xbf",
                          "\xe0\xa0\x80",
                          "\xed\x9f\xbf",
                          "\xee\x80\x80",
                          "\xef\xbf\xbf",
                          "\xf0\x90\x80\x80",
                          "\xf4\x8f\xbf\xbf",
                          "12345678\xe4\xbd\xa0\xe5\xa5\xbd"};
    const char *bad[] = {"\x80",
                         "\xbf",
                         "\xc0\x80",
                         "\xc1\xbf",
                         "\xc2",
                         "\xc2\x7f",
                         "\xe0\x9f\xbf",
                         "\xed\xa0\x80",
                         "\xed\xbf\xbf",
                         "\xe4\xbd",
                         "\xf0\x8f\xbf\xbf",
                         "\xf4\x90\x80\x80",
                         "\xf5\x80\x80\x80",
                         "\xff",
                         "1234567\xff",
                         "\xf0\x9f\x98",
                         "12345678\xe4\xbd"};
    for (size_t i = 0; i < array_len(good); i++) {
        assert_true(utf8_valid(str_c(good[i])));
    }
    for (size_t i = 0; i < array_len(bad); i++) {
        assert_false(utf8_valid(str_c(bad[i])));
    }
}

static void test_utf8_count_and_cut(void **state)
{
    struct str s = S("a\xc3\xa4\xe4\xbd\xa0\xf0\x9f\x98\x80z");
    assert_int_equal(utf8_count(s), 5);
    assert_int_equal(utf8_cut(s, 0).n, 0);
    assert_int_equal(utf8_cut(s, 2).n, 3);
    assert_int_equal(utf8_cut(s, 4).n, 10);
    assert_int_equal(utf8_cut(s, 99).n, s.n);
    assert_int_equal(utf8_count(S("\xff\xe4\xbd")), 3);
    /* Every cut by bytes keeps whole characters. */
    const size_t borders[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    for (size_t n = 0; n <= s.n; n++) {
        assert_int_equal(utf8_border(s.p, n), borders[n]);
    }
    assert_int_equal(utf8_border("\x80\x80\x80\x80", 4), 4); /* broken anyway */
}

static void test_utf8_clean(void **state)
{
    auto_arena a = arena_new(4096);
    struct str s = S("fine");
    assert_ptr_equal(utf8_clean(a, s).p, s.p);
    assert_true(
        str_eqz(utf8_clean(a, S("a\xff\xe4\xbd")), "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"));
    assert_true(
        str_eqz(utf8_clean(a, S("\xed\xa0\x80!")), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd!"));
}

static void test_errors(void **state)
{
    struct error err = {0};
    assert_false(err_set(&err, ERR_INVALID, "field %s", "x"));
    assert_int_equal(err.code, ERR_INVALID);
    assert_string_equal(err.msg, "field x");
    assert_int_equal(err_http(&err), 400);
    assert_false(err_tag(&err, ERR_CAPACITY, 402, "quota", "full"));
    assert_false(err_wrap(&err, "while %d", 3));
    assert_string_equal(err.msg, "while 3: full");
    assert_string_equal(err.tag, "quota");
    assert_int_equal(err_http(&err), 402);
    assert_false(err_set(&err, ERR_IO, "again: %s", err.msg)); /* its own text as argument */
    assert_string_equal(err.msg, "again: while 3: full");
    assert_null(err.tag);
    assert_false(err_sys(&err, ENOENT, "open %s", "/x"));
    assert_string_equal(err.msg, "open /x: No such file or directory");
    const struct {
        enum err_code code;
        int http;
    } map[] = {{ERR_NONE, 200},        {ERR_UNAUTHORIZED, 401}, {ERR_DENIED, 403},
               {ERR_NOT_FOUND, 404},   {ERR_CONFLICT, 409},     {ERR_TOO_LARGE, 413},
               {ERR_CAPACITY, 429},    {ERR_UPSTREAM, 502},     {ERR_PROTOCOL, 502},
               {ERR_UNAVAILABLE, 503}, {ERR_TIMEOUT, 504},      {ERR_INTERNAL, 500},
               {ERR_IO, 500}};
    for (size_t i = 0; i < array_len(map); i++) {
        err_set(&err, map[i].code, "x");
        assert_int_equal(err_http(&err), map[i].http);
    }
}

static void test_long_errors_are_cut_between_characters(void **state)
{
    struct error err;
    char text[2000] = "";
    for (size_t lead = 0; lead < 3; lead++) {
        memset(text, 'x', lead);
        for (size_t i = lead; i + 3 < sizeof(text); i += 3) {
            memcpy(text + i, "\xe4\xbd\xa0", 4);
        }
        err_set(&err, ERR_INVALID, "%s", text);
        size_t n = strlen(err.msg);
        assert_true(n >= 997 && n <= 999);
        assert_true(utf8_valid(str_c(err.msg)));
        err_wrap(&err, "context");
        assert_true(utf8_valid(str_c(err.msg)));
        assert_memory_equal(err.msg, "context: ", 9);
    }
}

static void printf_like(1, 2) compare_format(const char *fmt, ...)
{
    char theirs[2000];
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    vsnprintf(theirs, sizeof theirs, fmt, ap);
    va_end(ap);
    size_t n = 0;
    char text[2000];
    if (format_plain(text, sizeof text, &n, fmt, again))
        assert_true(str_eqz(str_n(text, n), theirs));
    else
        assert_non_null(strpbrk(fmt, "f5-"));
    va_end(again);
}

/* What we format by hand reads as the C library's. */
static void test_format_equals_printf(void **state)
{
    (void)state;
    auto_arena a = arena_new(1 << 16);
    compare_format("plain");
    compare_format("%s|%s|%%", "a", "");
    compare_format("%.*s.", 3, "abcdef");
    compare_format("%.*s.", 0, "x");
    compare_format("%d %d %d %u", 0, INT32_MIN, INT32_MAX, UINT32_MAX);
    compare_format("%ld %lld %lu %llu", LONG_MIN, LLONG_MIN, ULONG_MAX, ULLONG_MAX);
    compare_format("%zu %c %x", SIZE_MAX, 'q', 48879u);
    compare_format("%5d", 3);
    compare_format("%f", 1.5);
    compare_format("%-4s", "x");
    assert_true(str_eqz(str_fmt(a, "%s-%05d-%s", "x", 5, "y"), "x-00005-y"));
    auto_buf b = BUF(1000);
    for (int i = 0; i < 100; i++)
        assert_true(buf_fmt(&b, "%d,", i));
    assert_int_equal(b.n, 290);
    struct buf tight = BUF(8);
    assert_true(buf_fmt(&tight, "%s", "12345678"));
    assert_false(buf_fmt(&tight, "%d", 1));
    buf_free(&tight);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_find_and_cut),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_utf8_valid),
        cmocka_unit_test(test_utf8_count_and_cut),
        cmocka_unit_test(test_utf8_clean),
        cmocka_unit_test(test_format_equals_printf),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_long_errors_are_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
