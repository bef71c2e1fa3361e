/* What is masked, and what a mask that comes back stands for (http-api.md §15). */
#include "tenant/tenant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

static int setup(void **state)
{
    base_init();
    return 0;
}

static json_t *json(const char *text)
{
    json_error_t e;
    json_t *j = json_loads(text, JSON_DECODE_ANY, &e);
    if (!j) {
        fail_msg("%s: %s", text, e.text);
    }
    return j;
}

static void same(const json_t *have, const char *wanted)
{
    auto_json j = json(wanted);
    if (!have || !json_equal(have, j)) {
        fail_msg("%s\nis not\n%s", have ? json_dump_z(have, JSON_ENCODE_ANY) : "nothing", wanted);
    }
}

static void masked(const char *value, const char *wanted)
{
    auto_json j = json(value);
    auto_json copy = json_deep_copy(j);
    auto_json out = redact(j);
    same(out, wanted);
    assert_true(json_equal(j, copy));
}

static void test_names(void **state)
{
    static const char *const secret[] = {
        "api_key",
        "apiKey",
        "API-Key",
        "X-Api-Key",
        "apikey",
        "apikeys",
        "api_keys",
        "auth",
        "Authorization",
        "cookie",
        "Set-Cookie",
        "credentials",
        "databaseUrl",
        "dsn",
        "header_value",
        "key",
        "proxy-authorization",
        "webhook_url",
        "token",
        "access_token",
        "accessToken",
        "tokenValue",
        "client.secret",
        "my secret",
        "passwd",
        "dbPassword",
        "credential_file",
        "access_key",
        "client-key",
        "debug keys",
        "encryptionKey",
        "private_key",
        "signing_keys",
        "bearer_key",
        "auth-keys",
        "__token__",
        "keyOf2ndClient",
        "v2Token",
        "key_that_is_long_and_has_many_parts_but_is_for_the_client",
    };
    static const char *const plain[] = {
        "tokens",     "max_tokens",
        "monkey",     "keys",
        "public_key", "keyboard",
        "author",     "secretary",
        "passwords",  "cookies",
        "model",      "authority",
        "host_key",   "primary_key",
        "url_path",   "keyname",
        "TOKENS",     "",
        "_",          "日本",
        "the_api",    "averylongnamethatholdstokeninside",
        "key_key",    "webhook_url_list",
    };
    for (size_t i = 0; i < array_len(secret); i++) {
        if (!redact_is_secret_key(str_c(secret[i]))) {
            fail_msg("%s is not taken for secret", secret[i]);
        }
    }
    for (size_t i = 0; i < array_len(plain); i++) {
        if (redact_is_secret_key(str_c(plain[i]))) {
            fail_msg("%s is taken for secret", plain[i]);
        }
    }
}

static void test_structure(void **state)
{
    masked(
        "{\"secret\": {\"a\": [\"x\", \"\", null, 5, 0, true, false, 1.5], \"b\": {\"host\": \"h\", \"empty\": {}, \"none\": []}},"
        " \"list\": [{\"token\": \"t\"}, {\"deep\": [{\"password\": \"p\"}]}, \"text\"], \"n\": null}",
        "{\"secret\": {\"a\": [\"***\", \"\", null, \"***\", \"***\", \"***\", \"***\", \"***\"], \"b\": {\"host\": \"***\", \"empty\": {}, \"none\": []}},"
        " \"list\": [{\"token\": \"***\"}, {\"deep\": [{\"password\": \"***\"}]}, \"text\"], \"n\": null}");
    masked("\"token\"", "\"token\"");
    auto_json list = json("[\"sk-one\", \"\", {\"a\": null, \"b\": 1}]");
    auto_json out = redact_leaves(list);
    same(out, "[\"***\", \"\", {\"a\": null, \"b\": \"***\"}]");
}

static const struct {
    const char *url, *wanted;
} urls[] = {
    {"https://user:pw@h.example:8080/p?q=1#f", "https://***@h.example:8080/p?q=1#f"},
    {"https://user@h.example/", "https://***@h.example/"},
    {"https://h.example/p?token=1&token=2&q=3", "https://h.example/p?token=***&token=***&q=3"},
    {"https://h.example/?api_key=a&apiKey=b&max_tokens=5",
     "https://h.example/?api_key=***&apiKey=***&max_tokens=5"},
    {"https://h.example/?code=1&sig=2&signature=3&x_sig=4&credential=5&passwd=6",
     "https://h.example/?code=***&sig=***&signature=***&x_sig=***&credential=***&passwd=***"},
    {"https://h.example/?design=1&assign=2&barcode=3",
     "https://h.example/?design=1&assign=2&barcode=3"},
    {"https://h.example/?token=&x&=y&token", "https://h.example/?token=&x&=y&token"},
    {"https://h.example/?%74oken=a%20b&a%5Fkey=2&auth+key=1",
     "https://h.example/?%74oken=***&a%5Fkey=2&auth+key=***"},
    {"https://h.example/plain", "https://h.example/plain"},
    {"http://[::1", "***"},
    {"http://[::1]:80/x", "http://[::1]:80/x"},
    {"http://u:p@[::1]/", "http://***@[::1]/"},
    {"redis://:pw@h:6379/0", "redis://***@h:6379/0"},
    {"postgresql+asyncpg://a:b@h/db?password=x", "postgresql+asyncpg://***@h/db?password=***"},
    {"//u:p@h/", "//***@h/"},
    {"https://a@b@h/", "https://***@h/"},
    {"https://user:pa/ss@h/", "***"},
    {"https://h/\nx", "***"},
    {"h.example/path?token=x", "h.example/path?token=***"},
    {"sqlite:///data/x.db", "sqlite:///data/x.db"},
    {"/p//u:p@h", "/p//u:p@h"},
    {"not an address", "not an address"},
    {"https://h/#token=x", "https://h/#token=x"},
    {"", ""},
};

static void test_addresses(void **state)
{
    for (size_t i = 0; i < array_len(urls); i++) {
        auto_json j = json_pack("{s:s, s:[s], s:s, s:s}", "url", urls[i].url, "base_url",
                                urls[i].url, "callbackUrl", urls[i].url, "link", urls[i].url);
        auto_json wanted =
            json_pack("{s:s, s:[s], s:s, s:s}", "url", urls[i].wanted, "base_url", urls[i].wanted,
                      "callbackUrl", urls[i].wanted, "link", urls[i].url);
        auto_json out = redact(j);
        if (!out || !json_equal(out, wanted)) {
            fail_msg("%s gives %s", urls[i].url, json_z(out, "url"));
        }
    }
    masked(
        "{\"url\": {\"token\": \"x\", \"url\": \"http://u@h/\", \"other\": \"http://u@h/\"}, \"base_url\": 5}",
        "{\"url\": {\"token\": \"***\", \"url\": \"http://***@h/\", \"other\": \"http://u@h/\"}, \"base_url\": 5}");
    char longer[9000];
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    auto_json j = json_pack("{s:s}", "url", longer);
    auto_json out = redact(j);
    same(out, "{\"url\": \"***\"}");
}

static void test_other_rules(void **state)
{
    auto_json j = json(
        "{\"api_keys\": [\"a\"], \"apikey\": \"b\", \"header_value\": \"c\", \"webhook_url\": \"http://u@h/\", \"my_apikey\": \"d\","
        " \"auth_keys\": \"e\", \"auth_key\": \"f\", \"url\": \"http://u@h/\", \"token\": \"t\"}");
    auto_json mcp = redact_with(j, REDACT_MCP);
    same(
        mcp,
        "{\"api_keys\": [\"a\"], \"apikey\": \"b\", \"header_value\": \"c\", \"webhook_url\": \"http://***@h/\", \"my_apikey\": \"d\","
        " \"auth_keys\": \"e\", \"auth_key\": \"***\", \"url\": \"http://***@h/\", \"token\": \"***\"}");
    auto_json plugin = redact_with(j, REDACT_PLUGIN);
    same(
        plugin,
        "{\"api_keys\": [\"a\"], \"apikey\": \"b\", \"header_value\": \"c\", \"webhook_url\": \"http://u@h/\", \"my_apikey\": \"d\","
        " \"auth_keys\": \"e\", \"auth_key\": \"***\", \"url\": \"http://u@h/\", \"token\": \"***\"}");
}

static const char stored_text[] =
    "{\"api_key\": \"one\", \"list\": [{\"token\": \"t0\"}, {\"token\": \"t1\"}], \"secret\": {\"a\": [\"s0\", \"s1\"], \"n\": 5},"
    " \"note\": \"plain\", \"url\": \"https://u:p@h.example/?token=1&token=2&q=3\", \"base_url\": \"http://[::1\","
    " \"empty\": {\"token\": \"\", \"password\": null}}";

static void test_unchanged(void **state)
{
    struct error err;
    auto_json stored = json(stored_text);
    auto_json shown = redact(stored);
    assert_false(json_equal(shown, stored));
    auto_json back = redact_restore(shown, stored, &err);
    assert_true(json_equal(back, stored));
    for (size_t i = 0; i < array_len(urls); i++) {
        auto_json one = json_pack("{s:s, s:[s]}", "url", urls[i].url, "base_url", urls[i].url);
        auto_json seen = redact(one);
        auto_json again = redact_restore(seen, one, &err);
        if (!again || !json_equal(again, one)) {
            fail_msg("%s: %s", urls[i].url, again ? json_z(again, "url") : err.msg);
        }
    }
}

static void test_some_changed(void **state)
{
    struct error err;
    auto_json stored = json(stored_text);
    auto_json sent = json(
        "{\"api_key\": \"***\", \"list\": [{\"token\": \"new\"}, {\"token\": \"***\"}, {\"token\": \"third\"}], \"secret\": {\"a\": [\"***\", \"\"], \"n\": \"***\"},"
        " \"note\": \"***\", \"url\": \"https://***@other.example/?token=***&token=new&q=4\", \"stop\": [\"***\"], \"dsn\": \"**\"}");
    auto_json out = redact_restore(sent, stored, &err);
    same(
        out,
        "{\"api_key\": \"one\", \"list\": [{\"token\": \"new\"}, {\"token\": \"t1\"}, {\"token\": \"third\"}], \"secret\": {\"a\": [\"s0\", \"\"], \"n\": 5},"
        " \"note\": \"***\", \"url\": \"https://u:p@other.example/?token=1&token=new&q=4\", \"stop\": [\"***\"], \"dsn\": \"**\"}");
    auto_json second = json("{\"url\": \"https://h.example/?q=3&token=new&token=%2A%2A%2A\"}");
    auto_json kept = redact_restore(second, stored, &err);
    same(kept, "{\"url\": \"https://h.example/?q=3&token=new&token=2\"}");
}

static void test_nothing_to_keep(void **state)
{
    static const struct {
        const char *sent, *path;
    } cases[] = {
        {"{\"private_key\": \"***\"}", "(private_key)"},
        {"{\"list\": [{\"token\": \"***\"}, {\"token\": \"***\"}, {\"token\": \"***\"}]}",
         "(list.2.token)"},
        {"{\"secret\": {\"b\": \"***\"}}", "(secret.b)"},
        {"{\"secret\": {\"a\": [\"***\", \"***\", \"***\"]}}", "(secret.a.2)"},
        {"{\"nested\": {\"api_key\": \"***\"}}", "(nested.api_key)"},
        {"{\"url\": \"https://h.example/?token=***&token=***&token=***\"}", "(url)"},
        {"{\"callback_url\": \"https://***@h.example/\"}", "(callback_url)"},
        {"{\"callback_url\": \"***\"}", "(callback_url)"},
        {"{\"empty\": {\"token\": \"***\"}}", "(empty.token)"},
        {"{\"empty\": {\"password\": \"***\"}}", "(empty.password)"},
        {"{\"base_url\": \"https://***@h.example/\"}", "(base_url)"},
        {"{\"list\": {\"token\": \"***\"}}", "(list.token)"},
    };
    auto_json stored = json(stored_text);
    for (size_t i = 0; i < array_len(cases); i++) {
        struct error err = {.code = ERR_NONE};
        auto_json sent = json(cases[i].sent);
        assert_null(redact_restore(sent, stored, &err));
        assert_int_equal(err.code, ERR_INVALID);
        assert_int_equal(err_http(&err), 400);
        assert_true(str_starts(str_c(err.msg), S("Masked secret has no existing value ")));
        if (!strstr(err.msg, cases[i].path)) {
            fail_msg("%s", err.msg);
        }
        assert_null(redact_restore(sent, NULL, &err));
    }
}

static void test_depth(void **state)
{
    struct error err;
    json_t *j = json_string("x");
    for (int i = 0; i < 500; i++) {
        j = json_pack("{s:o}", "a", j);
    }
    auto_json deep = j;
    auto_json out = redact(deep);
    assert_non_null(out);
    assert_null(redact_restore(deep, deep, &err));
    assert_int_equal(err.code, ERR_INVALID);
}

static void test_failing_allocations(void **state)
{
    auto_json stored = json(stored_text);
    auto_json shown = redact(stored);
    bool done = false;
    for (long nth = 1; !done; nth++) {
        struct error err = {.code = ERR_NONE};
        long before = mem_live();
        mem_fail_after(nth, true);
        json_t *a = redact(stored);
        json_t *b = a ? redact_restore(shown, stored, &err) : NULL;
        mem_fail_after(0, false);
        done = a && b;
        if (a && !b) {
            assert_int_equal(err.code, ERR_NOMEM);
        }
        json_decref(a);
        json_decref(b);
        assert_int_equal(mem_live(), before);
        assert_true(nth < 5000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_structure),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_other_rules),
        cmocka_unit_test(test_unchanged),
        cmocka_unit_test(test_some_changed),
        cmocka_unit_test(test_nothing_to_keep),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
