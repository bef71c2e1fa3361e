/* The parts of the server that need no socket: heads, chunked bodies, routes, fields, multipart. */
#include "net/conn.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_head_scan(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\nrest";
    for (size_t n = 0; n < sizeof(text); n++) {
        assert_int_equal(head_scan(text, n, 0), n >= 27 ? 27 : 0);
        for (size_t from = 0; from <= n; from++)
            if (from < 27)
                assert_int_equal(head_scan(text, n, from), n >= 27 ? 27 : 0);
    }
    static const char *const bad[] = {"GET / HTTP/1.1\n", "GET\rX", "GET /\x7f", "GET /\x02",
                                      "GET / HTTP/1.1\r\nA: b\r\n\tc"};
    for (size_t i = 0; i < array_len(bad); i++)
        assert_int_equal(head_scan(bad[i], strlen(bad[i]), 0), -1);
}

static void test_head_target(void **state)
{
    static const struct {
        const char *target, *path, *query;
    } good[] = {
        {"/", "/", ""},
        {"/a?b", "/a", "b"},
        {"/a?b?c#d", "/a", "b?c"},
        {"http://h", "/", ""},
        {"HTTPS://h:1/p?q", "/p", "q"},
        {"*", "*", ""},
        {"//x", "//x", ""},
    };
    struct str path, query;
    for (size_t i = 0; i < array_len(good); i++) {
        assert_true(head_target(str_c(good[i].target), &path, &query));
        assert_true(str_eqz(path, good[i].path));
        assert_true(str_eqz(query, good[i].query));
    }
    static const char *const bad[] = {"",   "a",        "http:///x", "host:80",
                                      "?x", "ftp://h/", "http://h?x"};
    for (size_t i = 0; i < array_len(bad); i++)
        assert_false(head_target(str_c(bad[i]), &path, &query));
}

/* Whole, and cut into two at each byte, and byte by byte. */
static enum chunked_result decode(struct str in, size_t cut, size_t max, struct buf *out,
                                  size_t *taken)
{
    struct chunked ck = {0};
    size_t used = 0;
    *out = BUF(max);
    *taken = 0;
    enum chunked_result r = CHUNKED_MORE;
    while (*taken < in.n && r == CHUNKED_MORE) {
        size_t n = cut == 0 ? 1 : *taken < cut ? cut - *taken : in.n - *taken;
        r = chunked_feed(&ck, in.p + *taken, n, &used, out);
        if (r == CHUNKED_MORE || r == CHUNKED_END)
            *taken += used;
    }
    return r;
}

static void test_chunked(void **state)
{
    static const struct {
        const char *in, *out;
        enum chunked_result result;
        size_t rest;
    } cases[] = {
        {"0\r\n\r\n", "", CHUNKED_END, 0},
        {"3\r\nabc\r\n0\r\n\r\nGET", "abc", CHUNKED_END, 3},
        {"03;a=b\r\nabc\r\n2 \r\nde\r\n000\r\nX: y\r\nZ:\r\n\r\n", "abcde", CHUNKED_END, 0},
        {"a\r\n0123456789\r\n", "0123456789", CHUNKED_MORE, 0},
        {"B\r\n0123456789a\r\n0\r\n\r\n", "", CHUNKED_FULL, 0},
        {"6\r\nabcdef\r\n6\r\nabcdef\r\n", "abcdef", CHUNKED_FULL, 0},
        {"ffffffffffff\r\n", "", CHUNKED_FULL, 0},
        {"0000000000001\r\n", "", CHUNKED_BAD, 0},
        {"g\r\n", "", CHUNKED_BAD, 0},
        {"-1\r\n", "", CHUNKED_BAD, 0},
        {"0x1\r\n", "", CHUNKED_BAD, 0},
        {" 1\r\n", "", CHUNKED_BAD, 0},
        {";\r\n", "", CHUNKED_BAD, 0},
        {"1\na\r\n", "", CHUNKED_BAD, 0},
        {"1\r\nab\r\n", "a", CHUNKED_BAD, 0},
        {"1\r\na\n", "a", CHUNKED_BAD, 0},
        {"1;\x01\r\n", "", CHUNKED_BAD, 0},
        {"0\r\n\n", "", CHUNKED_BAD, 0},
        {"0\r\nA: b\n\r\n", "", CHUNKED_BAD, 0},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        struct str in = str_c(cases[i].in);
        for (size_t cut = 0; cut <= in.n; cut++) {
            struct buf out;
            size_t taken;
            enum chunked_result r = decode(in, cut, 10, &out, &taken);
            if (r != cases[i].result)
                fail_msg("case %zu cut %zu: %d", i, cut, r);
            if (r == CHUNKED_END)
                assert_int_equal(in.n - taken, cases[i].rest);
            if (r == CHUNKED_END || r == CHUNKED_MORE)
                assert_true(str_eqz(buf_view(&out), cases[i].out) || out.n == 0);
            buf_free(&out);
        }
    }
    /* What is ignored is bounded too. */
    auto_buf big = BUF(100000);
    buf_z(&big, "1;");
    while (big.n < 20000)
        buf_c(&big, 'x');
    struct buf out;
    size_t taken;
    assert_int_equal(decode(buf_view(&big), big.n, 10, &out, &taken), CHUNKED_BAD);
    buf_free(&out);
}

static void handler(struct http_request *r) {}

static const struct http_route routes[] = {
    {HTTP_M_GET, "/", .handler = handler, .summary = "root"},
    {HTTP_M_GET, "/bots", .handler = handler, .summary = "list"},
    {HTTP_M_POST, "/bots", .handler = handler, .summary = "add"},
    {HTTP_M_GET, "/bots/{uuid}", .handler = handler, .summary = "get"},
    {HTTP_M_GET, "/bots/{uuid}/logs", .handler = handler, .summary = "logs"},
    {HTTP_M_POST, "/bots/test", .handler = handler, .summary = "test"},
    {HTTP_M_GET, "/bots/{n:int}/x", .handler = handler, .summary = "int"},
    {HTTP_M_GET, "/bots/{any}/x", .handler = handler, .summary = "any"},
    {HTTP_M_GET, "/deep/a/b", .handler = handler, .summary = "literal"},
    {HTTP_M_GET, "/deep/{x}/c", .handler = handler, .summary = "back"},
    {HTTP_M_GET, "/files/{rest:path}", .handler = handler, .summary = "rest"},
    {HTTP_M_DELETE, "/files/one", .handler = handler, .summary = "one"},
    {HTTP_M_GET, "/{a}/{b}/{c}", .handler = handler, .summary = "three"},
    {HTTP_M_GET, "/slash/", .handler = handler, .summary = "slash"},
    {.pattern = NULL},
};

static void test_routes(void **state)
{
    static const struct {
        enum http_method method;
        const char *path, *summary, *p0, *p1;
        bool known;
    } cases[] = {
        {HTTP_M_GET, "/", "root"},
        {HTTP_M_HEAD, "/bots", "list"},
        {HTTP_M_POST, "/bots", "add"},
        {HTTP_M_PUT, "/bots", NULL, .known = true},
        {HTTP_M_OTHER, "/bots", NULL, .known = true},
        {HTTP_M_GET, "/b%6fts", "list"},
        {HTTP_M_GET, "/bots/", NULL},
        {HTTP_M_GET, "/bots/abc", "get", "abc"},
        {HTTP_M_GET, "/bots/a%2Fb", "get", "a/b"},
        {HTTP_M_GET, "/bots/test", "get", "test"},
        {HTTP_M_POST, "/bots/test", "test"},
        {HTTP_M_POST, "/bots/abc", NULL, .known = true},
        {HTTP_M_GET, "/bots/12/x", "int", "12"},
        {HTTP_M_GET, "/bots/12a/x", "any", "12a"},
        {HTTP_M_GET, "/bots/1234567890123456789/x", "any", "1234567890123456789"},
        {HTTP_M_GET, "/bots/abc/logs", "logs", "abc"},
        {HTTP_M_GET, "/deep/a/b", "literal"},
        {HTTP_M_GET, "/deep/a/c", "back", "a"},
        {HTTP_M_GET, "/deep/a/d", "three", "deep", "a"},
        {HTTP_M_GET, "/files/a/b%20c", "rest", "a/b c"},
        {HTTP_M_GET, "/files/one", "rest", "one"},
        {HTTP_M_DELETE, "/files/one", "one"},
        {HTTP_M_GET, "/files/", NULL},
        {HTTP_M_GET, "/files//x", "rest", "/x"},
        {HTTP_M_GET, "/files/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5",
         "rest"},
        {HTTP_M_GET, "/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5",
         NULL},
        {HTTP_M_GET, "/slash/", "slash"},
        {HTTP_M_GET, "/slash", NULL},
        {HTTP_M_GET, "//b/c", NULL},
        {HTTP_M_GET, "*", NULL},
    };
    static const struct http_route *const tables[] = {routes, NULL};
    struct error err;
    struct router *rt = router_new(tables, &err);
    assert_non_null(rt);
    for (size_t i = 0; i < array_len(cases); i++) {
        auto_arena a = arena_new(1 << 20);
        struct http_request r = {
            .method = cases[i].method, .raw_path = str_c(cases[i].path), .arena = a};
        assert_true(router_match(rt, &r));
        const char *got = r.route ? r.route->summary : NULL;
        if ((got == NULL) != (cases[i].summary == NULL) || (got && strcmp(got, cases[i].summary)))
            fail_msg("%s: %s", cases[i].path, got ? got : "none");
        assert_int_equal(r.path_known, got || cases[i].known);
        if (!got)
            assert_int_equal(r.param_count, 0);
        if (cases[i].p0)
            assert_true(str_eqz(http_param(&r, 0), cases[i].p0));
        if (cases[i].p1)
            assert_true(str_eqz(http_param(&r, 1), cases[i].p1));
        assert_null(http_param(&r, 7).p);
    }
    router_free(rt);
}

static void test_bad_routes(void **state)
{
    static const char *const bad[] = {
        "no/slash", "/{x",        "/a{x}",          "/{}",
        "/{:int}",  "/{x:float}", "/{r:path}/more", "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}"};
    struct error err;
    long blocks = mem_live();
    for (size_t i = 0; i < array_len(bad); i++) {
        struct http_route one[] = {{HTTP_M_GET, "/ok/{x}", .handler = handler},
                                   {HTTP_M_GET, bad[i], .handler = handler},
                                   {.pattern = NULL}};
        const struct http_route *const tables[] = {one, NULL};
        if (router_new(tables, &err))
            fail_msg("%s was taken", bad[i]);
        assert_int_equal(err.code, ERR_INTERNAL);
    }
    static const struct http_route *const tables[] = {routes, NULL};
    for (long nth = 1; nth < 60; nth++) {
        mem_fail_after(nth, false);
        struct router *rt = router_new(tables, &err);
        mem_fail_after(0, false);
        router_free(rt);
    }
    assert_int_equal(mem_live(), blocks);
}

static void test_fields(void **state)
{
    static const struct http_field fields[] = {
        {"name", HTTP_STR, .required = true, .min = 1, .max = 4},
        {"mode", HTTP_STR, .one_of = "on|off", .nullable = true},
        {"count", HTTP_INT, .min = 1, .max = 100},
        {"ratio", HTTP_NUM, .min = -1, .max = 1},
        {"flag", HTTP_BOOL},
        {"list", HTTP_ARR, .max = 2},
        {"map", HTTP_OBJ},
        {"both", HTTP_STR_OR_ARR},
        {"any", HTTP_ANY},
        {"least", HTTP_INT, .min = 5},
        {.name = NULL},
    };
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"{\"name\":\"a\"}", NULL},
        {"{\"name\":\"äöüß\",\"mode\":null,\"count\":100,\"ratio\":0.5,\"flag\":false,\"list\":[1,2],\"map\":{},\"both\":[],"
         "\"any\":null,\"extra\":1,\"least\":900}",
         NULL},
        {"[]", "the body must be a JSON object"},
        {"{}", "name is required"},
        {"{\"name\":null}", "name must be a string, not null"},
        {"{\"name\":3}", "name must be a string"},
        {"{\"name\":\"\"}", "name must not be empty"},
        {"{\"name\":\"abcde\"}", "name must be at most 4 characters"},
        {"{\"name\":\"a\",\"mode\":\"x\"}", "mode must be one of on, off"},
        {"{\"name\":\"a\",\"count\":0}", "count must be between 1 and 100"},
        {"{\"name\":\"a\",\"count\":101}", "count must be between 1 and 100"},
        {"{\"name\":\"a\",\"count\":1.5}", "count must be an integer"},
        {"{\"name\":\"a\",\"ratio\":1.5}", "ratio must be between -1 and 1"},
        {"{\"name\":\"a\",\"ratio\":\"1\"}", "ratio must be a number"},
        {"{\"name\":\"a\",\"flag\":1}", "flag must be true or false"},
        {"{\"name\":\"a\",\"list\":[1,2,3]}", "list must be at most 2 entries"},
        {"{\"name\":\"a\",\"list\":{}}", "list must be an array"},
        {"{\"name\":\"a\",\"map\":[]}", "map must be an object"},
        {"{\"name\":\"a\",\"both\":1}", "both must be a string or an array"},
        {"{\"name\":\"a\",\"least\":4}", "least must be at least 5"},
    };
    struct error err;
    for (size_t i = 0; i < array_len(cases); i++) {
        auto_json j = json_parse(str_c(cases[i].json), &err);
        assert_non_null(j);
        bool ok = http_fields_check(fields, j, false, &err);
        assert_int_equal(ok, cases[i].message == NULL);
        if (!ok) {
            assert_string_equal(err.msg, cases[i].message);
            assert_int_equal(err.code, ERR_INVALID);
        }
    }
    auto_json extra = json_parse(S("{\"name\":\"a\",\"extra\":1}"), &err);
    assert_false(http_fields_check(fields, extra, true, &err));
    assert_string_equal(err.msg, "unknown field extra");
}

static bool parse(struct arena *a, const char *type, const char *body, struct http_part **parts,
                  size_t *n)
{
    struct error err = {0};
    bool ok = multipart_parse(a, str_c(type), str_c(body), parts, n, &err);
    if (!ok)
        assert_int_equal(err.code, ERR_INVALID);
    return ok;
}

static void test_multipart(void **state)
{
    auto_arena a = arena_new(1 << 20);
    struct http_part *p;
    size_t n;
    assert_true(parse(
        a, "multipart/form-data; boundary=\"b d\"",
        "preamble\r\n--b d\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nva\r\n--b dx\r\nlue\r\n"
        "--b d \r\nContent-Type: image/png\r\ncontent-disposition: FORM-DATA; filename=\"a \\\"b\\\" c%22.png\"; "
        "name=file\r\n\r\n\r\n--b d\r\nContent-Disposition: form-data; name=u; filename=\"x\"; "
        "filename*=UTF-8''na%C3%AFve.txt\r\n\r\n\r\n\r\n--b d--\r\nepilogue",
        &p, &n));
    assert_int_equal(n, 3);
    assert_true(str_eqz(p[0].name, "text"));
    assert_true(str_eqz(p[0].data, "va\r\n--b dx\r\nlue"));
    assert_null(p[0].filename.p);
    assert_true(str_eqz(p[1].name, "file"));
    assert_true(str_eqz(p[1].filename, "a \"b\" c\".png"));
    assert_true(str_eqz(p[1].content_type, "image/png"));
    assert_int_equal(p[1].data.n, 0);
    assert_true(str_eqz(p[2].filename, "na\xc3\xafve.txt"));
    assert_true(str_eqz(p[2].data, "\r\n"));
    assert_true(parse(a, "Multipart/Form-Data;charset=utf-8;boundary=x", "--x--", &p, &n));
    assert_int_equal(n, 0);
    assert_true(parse(
        a, "multipart/form-data; boundary=x",
        "--x\r\nContent-Disposition: form-data; name=a; filename=\"C:\\dir\\f.txt\"\r\n\r\n1\r\n--x--",
        &p, &n));
    assert_true(str_eqz(p[0].filename, "C:\\dir\\f.txt"));
    assert_true(str_eqz(p[0].data, "1"));
    static const char *const bad[] = {
        "",
        "--x",
        "--x\r\n",
        "--y--",
        "--x\r\nContent-Disposition: form-data; name=a\r\n\r\nno end",
        "--x\r\nContent-Disposition: form-data; name=a\r\n\r\nno end\r\n--x",
        "--x\r\n\r\nno name\r\n--x--",
        "--x\r\nContent-Disposition: attachment; name=a\r\n\r\n\r\n--x--",
        "--x\r\nno colon\r\n\r\n\r\n--x--",
        "--x\r\nContent-Disposition: form-data; name=\"open\r\n\r\n\r\n--x--",
    };
    for (size_t i = 0; i < array_len(bad); i++)
        if (parse(a, "multipart/form-data; boundary=x", bad[i], &p, &n))
            fail_msg("case %zu was taken", i);
    assert_false(parse(a, "multipart/form-data", "--x--", &p, &n));
    assert_false(parse(a, "multipart/mixed; boundary=x", "--x--", &p, &n));
    assert_false(parse(a, "multipart/form-data; boundary=", "--x--", &p, &n));
    assert_false(parse(a,
                       "multipart/form-data; boundary="
                       "12345678901234567890123456789012345678901234567890123456789012345678901",
                       "--x--", &p, &n));
    auto_buf many = BUF(1 << 20);
    for (int i = 0; i < 65; i++) {
        buf_z(&many, "--x\r\nContent-Disposition: form-data; name=a\r\n\r\nv\r\n");
        if (i == 63)
            assert_true(parse(a, "multipart/form-data; boundary=x",
                              z_fmt(a, "%s--x--", buf_cstr(&many)), &p, &n));
    }
    assert_int_equal(n, 64);
    buf_z(&many, "--x--");
    assert_false(parse(a, "multipart/form-data; boundary=x", buf_cstr(&many), &p, &n));
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_scan),  cmocka_unit_test(test_head_target),
        cmocka_unit_test(test_chunked),    cmocka_unit_test(test_routes),
        cmocka_unit_test(test_bad_routes), cmocka_unit_test(test_fields),
        cmocka_unit_test(test_multipart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
