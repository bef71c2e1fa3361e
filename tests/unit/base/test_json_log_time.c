/* json, log, time, assets. */
#include "base/base.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- json ------------------------------------------------------------------------------------ */

static json_t *parse(const char *z)
{
    struct error err;
    return json_parse(str_c(z), &err);
}

static void refuse(struct str text)
{
    struct error err = {0};
    assert_null(json_parse(text, &err));
    assert_int_equal(err.code, ERR_INVALID);
    assert_memory_equal(err.msg, "invalid JSON: ", 14);
}

static void nested(struct buf *b, int depth, char open, char shut)
{
    buf_clear(b);
    for (int i = 0; i < depth; i++) {
        buf_c(b, open);
        if (open == '{') {
            buf_z(b, "\"a[[{\\\"\":");
        }
    }
    buf_z(b, "1");
    for (int i = 0; i < depth; i++) {
        buf_c(b, shut);
    }
}

static void test_parse_limits(void **state)
{
    auto_buf b = BUF(1 << 20);
    struct error err;
    for (int kind = 0; kind < 2; kind++) {
        nested(&b, JSON_DEPTH_MAX, kind ? '{' : '[', kind ? '}' : ']');
        json_t *j = json_parse(buf_view(&b), &err);
        assert_non_null(j);
        json_decref(j);
        nested(&b, JSON_DEPTH_MAX + 1, kind ? '{' : '[', kind ? '}' : ']');
        refuse(buf_view(&b));
        nested(&b, 50000, kind ? '{' : '[', kind ? '}' : ']');
        refuse(buf_view(&b));
    }
    /* Three bytes of an empty object take some hundred in memory. */
    auto_buf wide = BUF(4 << 20);
    for (int kind = 0; kind < 2; kind++) {
        int most = kind ? JSON_VALUES_MAX + 1 : JSON_GROUPS_MAX - 1;
        for (int over = 0; over < 2; over++) {
            buf_clear(&wide);
            buf_c(&wide, '[');
            for (int i = 0; i < most + over; i++)
                buf_z(&wide, kind ? &",0"[i == 0] : &",{}"[i == 0]);
            buf_c(&wide, ']');
            if (over) {
                refuse(buf_view(&wide));
            } else {
                json_t *j = json_parse(buf_view(&wide), &err);
                assert_int_equal(json_array_size(j), most);
                json_decref(j);
            }
        }
    }
    auto_json many = parse("[[],[],[],{},{},[[]],\"]]]}\"]"); /* width is not depth */
    assert_int_equal(json_array_size(many), 7);
}

static void test_parse_refuses(void **state)
{
    const char *bad[] = {"",          " ",           "{",
                         "[1,]",      "{\"a\":1,}",  "nul",
                         "\"\xff\"",  "\"\\ud800\"", "1 2",
                         "{} x",      "'a'",         "[1",
                         "{\"a\" 1}", "NaN",         "\"\xed\xa0\x80\"",
                         "\"a",       "\"\t\"",      "01",
                         "+1",        "1e999",       "]",
                         "\"\\x\"",   "--1",         "\"\\u0000\"",
                         "{1:2}",     ",",           "12345678901234567890123"};
    for (size_t i = 0; i < array_len(bad); i++) {
        refuse(str_c(bad[i]));
    }
    refuse(str_n("1\0", 2));
    refuse(str_n("{}\0{}", 5));
    refuse(STR_NONE);
}

static void test_parse_accepts(void **state)
{
    auto_json j = parse(" {\"a\":1,\"a\":2,\"b\":\"\\u4f60\\ud83d\\ude00\"} ");
    assert_int_equal(json_i_or(j, "a", 0), 2); /* the last one wins */
    assert_string_equal(json_z(j, "b"), "\xe4\xbd\xa0\xf0\x9f\x98\x80");
    auto_json text = parse("\"x\"");
    assert_true(str_eqz(json_sv(text), "x"));
    auto_json number = parse("-0.5");
    assert_true(json_is_real(number));
    auto_json low = parse("-9223372036854775808");
    assert_true(json_integer_value(low) == INT64_MIN);
}

static void test_write(void **state)
{
    auto_arena a = arena_new(1 << 16);
    auto_json j = parse("{\"z\":[1,2.5,null,true],\"a\":\"\xe4\xbd\xa0\\n\"}");
    const char *expect =
        "{\"z\":[1,2.5,null,true],\"a\":\"\xe4\xbd\xa0\\n\"}"; /* order kept, not escaped */
    assert_string_equal(json_text(a, j).p, expect);
    auto_buf b = BUF(1000);
    assert_true(json_put(&b, j) && json_put(&b, json_object_get(j, "a")));
    assert_int_equal(b.n, strlen(expect) + 7);
    assert_false(json_put(&b, NULL));
    assert_true(b.failed);
    auto_buf small = BUF(10);
    assert_false(json_put(&small, j));
    auto_arena full = arena_new(1024);
    assert_non_null(arena_alloc(full, 1024));
    assert_null(json_text(full, j).p);
}

static void test_reals_are_short(void **state)
{
    auto_arena a = arena_new(1 << 16);
    auto_json j =
        parse("[0.1,0.7,-0.3,1.0,1e22,1e300,5e-324,1764510000.123456,0.1234567890123456789,"
              "3.141592653589793,123456789012345680.0,\"0.10000000000000001\","
              "\"a\\\"0.10000000000000001\",{\"0.10000000000000001\":2.5},-0.0]");
    assert_string_equal(json_text(a, j).p,
                        "[0.1,0.7,-0.3,1.0,1e+22,1e+300,4.94065645841247e-324,1764510000.123456,"
                        "0.12345678901234568,3.141592653589793,1.2345678901234568e+17,"
                        "\"0.10000000000000001\",\"a\\\"0.10000000000000001\","
                        "{\"0.10000000000000001\":2.5},-0.0]");
    unsigned seed = 1;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = 0;
        for (int k = 0; k < 4; k++) {
            seed = seed * 1103515245u + 12345u;
            bits = bits << 16 | seed >> 16;
        }
        double x, back;
        memcpy(&x, &bits, sizeof(x));
        if (!isfinite(x)) {
            continue;
        }
        auto_buf b = BUF(100);
        auto_json real = json_real(x);
        assert_true(json_put(&b, real));
        assert_true(str_to_f64(buf_view(&b), &back));
        assert_memory_equal(&x, &back, sizeof(x));
    }
}

static void test_members(void **state)
{
    auto_json j =
        parse("{\"s\":\"x\",\"i\":3,\"f\":1.5,\"t\":true,\"n\":null,\"o\":{\"p\":{\"q\":7}}}");
    assert_string_equal(json_z(j, "s"), "x");
    assert_null(json_z(j, "i"));
    assert_null(json_z(NULL, "s"));
    assert_string_equal(json_z_or(j, "n", "d"), "d");
    assert_null(json_s(j, "none").p);
    assert_int_equal(json_i_or(j, "i", 9), 3);
    assert_int_equal(json_i_or(j, "f", 9), 9);
    assert_true(fabs(json_f_or(j, "i", 0) - 3) < 1e-9 && fabs(json_f_or(j, "f", 0) - 1.5) < 1e-9);
    assert_true(json_b_or(j, "t", false));
    assert_true(json_b_or(j, "i", true)); /* not a boolean: the fallback */
    assert_int_equal(json_integer_value(json_at(j, "o.p.q")), 7);
    assert_null(json_at(j, "o.x.q"));
    assert_null(json_at(j, "s.x"));
    assert_null(json_at(j, ""));
    assert_null(json_at(NULL, "a"));
    assert_true(json_set(j, "k", json_integer(1)));
    assert_false(json_set(j, "k", NULL));
    long live = mem_live();
    assert_false(json_set(NULL, "k", json_string("dropped")));
    assert_int_equal(mem_live(), live);
    auto_json dirty = json_strn(S("a\xff"));
    assert_string_equal(json_string_value(dirty), "a\xef\xbf\xbd");
    int64_t before = time_wall_us(), told = 0;
    auto_json now = json_now();
    assert_true(time_parse(json_sv(now), &told) && told >= before && told <= time_wall_us());
    auto_json empty = json_strn(STR_NONE);
    assert_string_equal(json_string_value(empty), "");
}

/* ---- log ------------------------------------------------------------------------------------- */

static char captured[200000];

static char *capture(int fd)
{
    ssize_t n = pread(fd, captured, sizeof(captured) - 1, 0);
    captured[n > 0 ? n : 0] = '\0';
    return captured;
}

static int fresh_file(void)
{
    char path[] = "/tmp/parley-log-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC | O_APPEND);
    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

static void test_log_text(void **state)
{
    auto_fd fd = fresh_file();
    log_setup(LOG_INFO, false, fd);
    log_debug("net", "not seen");
    log_warn("net", "peer %s\nsent \x1b[31m\xc2\x9b %d \xff\x7f", "a\tb", 5);
    int month, day, hour, minute, second, ms, line, at = 0;
    char *text = capture(fd);
    assert_int_equal(
        sscanf(text, "[%2d-%2d %2d:%2d:%2d.%3d] test_json_log_time.c (%d) - [WARNING] : net: %n",
               &month, &day, &hour, &minute, &second, &ms, &line, &at),
        7);
    assert_string_equal(text + at, "peer a\\tb\\nsent \\x1b[31m\\x9b 5 \xef\xbf\xbd\\x7f\n");
    log_setup(LOG_INFO, false, 2);
}

static void test_log_json(void **state)
{
    auto_fd fd = fresh_file();
    log_setup(LOG_DEBUG, true, fd);
    log_debug("bot", "say \"hi\"\\\n\x01 \xe4\xbd\xa0");
    log_setup(LOG_INFO, false, 2);
    struct error err;
    char *text = capture(fd);
    assert_int_equal(strchr(text, '\n') - text, strlen(text) - 1);
    auto_json j = json_parse(str_c(text), &err);
    assert_non_null(j);
    assert_string_equal(json_z(j, "level"), "DEBUG");
    assert_string_equal(json_z(j, "area"), "bot");
    assert_string_equal(json_z(j, "file"), "test_json_log_time.c");
    assert_true(json_i_or(j, "line", 0) > 0);
    assert_string_equal(json_z(j, "msg"), "say \"hi\"\\\n\x01 \xe4\xbd\xa0");
    int64_t when;
    assert_true(time_parse(json_s(j, "time"), &when));
    assert_true(llabs(when - time_wall_us()) < 60 * 1000000LL);
}

static void test_log_long_lines(void **state)
{
    char *big = mem_alloc(100001);
    for (int json = 0; json < 2; json++) {
        auto_fd fd = fresh_file();
        memset(big, json ? 1 : 'x', 100000); /* six times as long when escaped */
        log_setup(LOG_INFO, json, fd);
        log_error("net", "%s", big);
        log_setup(LOG_INFO, false, 2);
        char *text = capture(fd);
        size_t n = strlen(text);
        assert_true(n > 20000 && n < 50000);
        assert_int_equal(text[n - 1], '\n');
        if (json) {
            struct error err;
            auto_json j = json_parse(str_c(text), &err);
            assert_non_null(j);
        }
    }
    mem_free(big);
}

static void on_line(void *arg, enum log_level level, struct str line)
{
    struct buf *b = arg;
    buf_fmt(b, "%d:", (int)level);
    buf_str(b, str_sub(line, (size_t)str_find(line, S("x: ")), line.n));
}

static void *log_much(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        log_info("x", "thread line %d of some length to be torn apart if it could", i);
    }
    return arg;
}

static void test_log_tap_and_threads(void **state)
{
    auto_buf b = BUF(10000);
    auto_fd fd = fresh_file();
    log_setup(LOG_INFO, false, fd);
    log_tap(on_line, &b);
    log_info("x", "one");
    log_error("x", "two");
    log_tap(NULL, NULL);
    log_info("x", "three");
    assert_string_equal(buf_cstr(&b), "1:x: one3:x: two");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, log_much, NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    log_setup(LOG_INFO, false, 2);
    FILE *f = fdopen(dup(fd), "r");
    rewind(f);
    char line[300];
    int n = 0;
    while (fgets(line, sizeof(line), f)) {
        assert_int_equal(line[0], '[');
        assert_int_equal(line[strlen(line) - 1], '\n');
        n++;
    }
    fclose(f);
    assert_int_equal(n, 4003);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void check_time(const char *text, int64_t expect)
{
    int64_t us = 0;
    assert_true(time_parse(str_c(text), &us));
    assert_true(us == expect);
}

static void test_time_text(void **state)
{
    char out[TIME_ISO_SIZE];
    assert_string_equal(time_iso(0, out), "1970-01-01T00:00:00");
    assert_string_equal(time_iso(1500000, out), "1970-01-01T00:00:01.500000");
    assert_string_equal(time_sql(0, out), "1970-01-01 00:00:00.000000");
    assert_string_equal(time_iso(-1, out), "1969-12-31T23:59:59.999999");
    assert_string_equal(time_iso(951782400LL * 1000000, out), "2000-02-29T00:00:00");
    assert_string_equal(time_sql(4107542399LL * 1000000, out), "2100-02-28 23:59:59.000000");
    assert_string_equal(time_sql(4107542400LL * 1000000, out), "2100-03-01 00:00:00.000000");
    assert_string_equal(time_iso(INT64_MAX, out), "9999-12-31T23:59:59.999999");
    assert_string_equal(time_iso(INT64_MIN, out), "0001-01-01T00:00:00");
}

static void test_time_round_trip(void **state)
{
    /* Against the C library, through the whole range in steps of some days. */
    for (int64_t s = -62135596800LL; s < 253402300800LL; s += 86400 * 13 + 4321) {
        char out[TIME_ISO_SIZE], expect[64];
        struct tm tm;
        time_t t = (time_t)s;
        gmtime_r(&t, &tm);
        snprintf(expect, sizeof(expect), "%04d-%02d-%02d %02d:%02d:%02d.000123", tm.tm_year + 1900,
                 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        assert_string_equal(time_sql(s * 1000000 + 123, out), expect);
        check_time(out, s * 1000000 + 123);
    }
}

static void test_time_parse(void **state)
{
    check_time("1970-01-01T00:00:00", 0);
    check_time("1970-01-01 00:00:00.5", 500000);
    check_time("1970-01-01T00:00:00.1234567Z", 123456);
    check_time("1970-01-01T01:00:00+01:00", 0);
    check_time("1970-01-01T01:00:00+0100", 0);
    check_time("1970-01-01 01:00:00.25+01", 250000);
    check_time("1969-12-31T18:30:00-05:30", 0);
    check_time("2024-02-29T00:00:00z", 1709164800LL * 1000000);
    const char *bad[] = {"",
                         "1970-01-01",
                         "1970-01-01T00:00",
                         "1970-13-01T00:00:00",
                         "1970-00-01T00:00:00",
                         "2023-02-29T00:00:00",
                         "1970-01-32T00:00:00",
                         "1970-01-01T24:00:00",
                         "1970-01-01T00:60:00",
                         "1970-01-01T00:00:60",
                         "1970-01-01T00:00:00.",
                         "1970-01-01T00:00:00Zx",
                         "1970-01-01T00:00:00+1",
                         "1970-01-01T00:00:00+01:",
                         "1970-01-01T00:00:00+24:00",
                         "1970-1-1T00:00:00",
                         "1970-01-01X00:00:00",
                         "0000-01-01T00:00:00",
                         "1970-01-01T00:00:00 ",
                         "-970-01-01T00:00:00"};
    for (size_t i = 0; i < array_len(bad); i++) {
        int64_t us;
        assert_false(time_parse(str_c(bad[i]), &us));
    }
}

static void test_time_shift(void **state)
{
    int64_t wall = time_wall_us(), mono = time_mono_us();
    time_shift_us(3600 * 1000000LL, 60 * 1000000LL);
    assert_true(time_wall_us() - wall >= 3600 * 1000000LL);
    assert_true(time_mono_us() - mono >= 60 * 1000000LL && time_mono_us() - mono < 120 * 1000000LL);
    time_shift_us(-3600 * 1000000LL, -60 * 1000000LL);
    assert_true(time_wall_us() - wall < 60 * 1000000LL);
}

static void test_assets(void **state)
{
    assert_null(base_asset_find(""));
    assert_null(base_asset_find("no/such/file"));
    assert_null(base_asset_find("~~~~"));
    assert_true(base_asset_count > 0);
    for (size_t i = 0; i < base_asset_count; i++) {
        assert_ptr_equal(base_asset_find(base_assets[i].path), &base_assets[i]);
        if (i > 0) {
            assert_true(strcmp(base_assets[i - 1].path, base_assets[i].path) < 0);
        }
        if (!base_assets[i].gzip) {
            assert_int_equal(base_assets[i].data[base_assets[i].size], 0);
        }
    }
}

/* Our writer and jansson's give the same text for everything but reals (ours are shorter). */
static void test_json_put_equals_jansson(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "[]",
        "\"\"",
        "null",
        "true",
        "false",
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "[[],{},[{}],{\"a\":[1,2,{\"b\":null}]}]",
        "{\"q\":\"\\\"\\\\ / \\b\\f\\n\\r\\t \\u0001 \\u001f \\u007f \\u00e9 \\ud83e\\udd9c \\u2028\"}",
    };
    for (size_t i = 0; i < array_len(texts); i++) {
        struct error err = {0};
        json_t *j = json_parse(str_c(texts[i]), &err);
        assert_non_null(j);
        char *theirs = json_dump_z(j, JSON_COMPACT | JSON_ENCODE_ANY);
        struct buf ours = BUF(4096);
        assert_true(json_put(&ours, j));
        assert_string_equal(buf_cstr(&ours), theirs);
        buf_free(&ours);
        mem_free(theirs);
        json_decref(j);
    }
}

static void same_text(struct str s)
{
    auto_json j = json_strn(s);
    char *theirs = json_dump_z(j, JSON_COMPACT | JSON_ENCODE_ANY);
    auto_buf ours = BUF(4096);
    assert_true(json_put(&ours, j));
    assert_string_equal(buf_cstr(&ours), theirs);
    mem_free(theirs);
}

/* Strings are looked through eight bytes at a time: each byte that matters, and its neighbours, at each place. */
static void test_json_put_each_place(void **state)
{
    (void)state;
    static const char bytes[] = "\"\\\x1f\x20\x21\x23\x5b\x5d\x7f\x01\n";
    char text[33];
    for (size_t at = 0; at < sizeof text; at++) {
        for (size_t k = 0; k < sizeof bytes; k++) {
            memset(text, 'a', sizeof text);
            text[at] = bytes[k]; /* U+0000 too */
            same_text(str_n(text, sizeof text));
            same_text(str_n(text, at + 1));
            memset(text, bytes[k], at);
            same_text(str_n(text, sizeof text));
        }
        memset(text, 'a', sizeof text);
        memcpy(text + (at < 31 ? at : 31), "\xc3\xa9", 2);
        same_text(str_n(text, sizeof text));
    }
}

/* The same verdict and the same value from us and from jansson. */
static void compare_reading(struct str text, bool nul)
{
    struct error err = {0};
    json_error_t why;
    json_t *ours = nul ? json_parse_words(text, &err) : json_parse(text, &err);
    json_t *theirs =
        memchr(text.p, '\0', text.n)
            ? NULL
            : json_loadb(text.p, text.n, JSON_DECODE_ANY | (nul ? JSON_ALLOW_NUL : 0), &why);
    if ((ours == NULL) != (theirs == NULL) || (ours && !json_equal(ours, theirs)))
        fail_msg("not read as jansson does: %.*s", (int)text.n, text.p);
    json_decref(ours);
    json_decref(theirs);
}

/* Texts, and what becomes of them when a byte changes or the end is missing. */
static void test_reading_equals_jansson(void **state)
{
    static const char *const texts[] = {
        "{\"a\":1,\"b\":[true,false,null],\"c\":{\"d\":\"e\"},\"a\":2}",
        " [ 1 , -2 , 0 , -0 , 1.5 , -1e3 , 2E+4 , 3e-5 , 0.1 ] ",
        "\"plain text of some length, \\u00e9 \\ud83e\\udd9c \\n\\t\\\"\\\\ \\/ \\b\\f\\r\"",
        "\"\\u0000 and \\ud800 alone\"",
        "{\"\\u0000\":1}",
        "{\"\\u00e4\\n\":\"\xc3\xa4\xe2\x82\xac\xf0\x9f\xa6\x9c\"}",
        "\"\xed\xa0\x80\"",
        "[9223372036854775807,-9223372036854775808,999999999999999999]",
        "9223372036854775808",
        "[1e400,1e-400,1764520000.123456,01,1.,.5,+1,- 1,1e,0x1]",
        "tru",
        "nullx",
        "[1,]",
        "{\"a\":1,}",
        "[]]",
        "{\"a\" :\t1\r\n}",
    };
    static const char change[] = "\"\\{}[]:,0a \x01\x7f\x80\xc3u";
    for (size_t i = 0; i < array_len(texts); i++) {
        size_t n = strlen(texts[i]);
        char copy[200];
        assert_true(n < sizeof copy);
        for (size_t k = 0; k < n; k++) {
            for (size_t c = 0; c < sizeof change; c++) {
                memcpy(copy, texts[i], n);
                copy[k] = change[c];
                compare_reading(str_n(copy, n), c % 2);
            }
            if (k)
                compare_reading(str_n(texts[i], k), true);
        }
        compare_reading(str_n(texts[i], n), false);
        compare_reading(str_n(texts[i], n), true);
    }
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_put_equals_jansson),
        cmocka_unit_test(test_json_put_each_place),
        cmocka_unit_test(test_reading_equals_jansson),
        cmocka_unit_test(test_parse_limits),
        cmocka_unit_test(test_parse_refuses),
        cmocka_unit_test(test_parse_accepts),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_reals_are_short),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_log_text),
        cmocka_unit_test(test_log_json),
        cmocka_unit_test(test_log_long_lines),
        cmocka_unit_test(test_log_tap_and_threads),
        cmocka_unit_test(test_time_text),
        cmocka_unit_test(test_time_round_trip),
        cmocka_unit_test(test_time_parse),
        cmocka_unit_test(test_time_shift),
        cmocka_unit_test(test_assets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
