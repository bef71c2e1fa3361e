/* The quick reader of stream events: what it takes it reads as the full parser does, the rest it leaves. */
#include "model/model_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define CHOICE(inside) "{\"id\":\"c\",\"created\":1,\"choices\":[{\"index\":0," inside "}]}"
#define DELTA(inside)  CHOICE("\"delta\":{" inside "},\"finish_reason\":null")
#define SAID(inside)   DELTA("\"content\":\"" inside "\"")

static const struct {
    const char *text, *role, *content;
} taken[] = {
    {SAID("x"), "", "x"},
    {SAID(""), "", ""},
    {SAID("\xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80"), "",
     "\xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80"},
    {SAID("a\\nb\\t\\\"\\\\\\/\\b\\f\\r"), "", "a\nb\t\"\\/\b\f\r"},
    {SAID("\\u0041\\u00e9\\u4f60\\uD83D\\ude00."), "", "A\xc3\xa9\xe4\xbd\xa0\xf0\x9f\x98\x80."},
    {DELTA("\"role\":\"assistant\",\"content\":\"\""), "assistant", ""},
    {DELTA("\"role\":\"assistant\",\"content\":null,\"refusal\":null"), "assistant", ""},
    {DELTA("\"role\":null,\"content\":\"a\",\"tool_calls\":null,\"reasoning_content\":null"), "",
     "a"},
    {DELTA(""), "", ""},
    {CHOICE("\"delta\":{\"content\":\"a\"}"), "", "a"},
    {CHOICE(
         "\"logprobs\":{\"content\":[{\"token\":\"a\",\"bytes\":[97]}]},\"delta\":{\"content\":\"a\"}"),
     "", "a"},
    {" {\"model\" : \"m\" ,\t\"usage\":\r\n null, \"error\":null, \"ok\": true, \"n\": -12, \"list\": [],"
     " \"choices\" : [ { \"delta\" : { \"content\" : \"a\" } } ] }",
     "", "a"},
    {"{}", "", ""},
};

static const char *const left[] = {
    "",
    "{",
    "null",
    "[]",
    SAID("x") " ",
    SAID("x") "x",
    SAID("\\"),
    SAID("\\x"),
    SAID("\\u12"),
    SAID("\\u0000"),
    SAID("\\ud800"),
    SAID("\\ud800\\u0041"),
    SAID("\\udc00"),
    SAID("\n"),
    SAID("\xff"),
    SAID("\xed\xa0\x80"),
    SAID("\xc0\x80"),
    DELTA("\"content\":[]"),
    DELTA("\"content\":\"a\",\"content\":\"b\""),
    DELTA("\"content\":\"a\",\"reasoning\":\"b\""),
    DELTA("\"tool_calls\":[]"),
    DELTA("\"c\\u006fntent\":\"a\""),
    CHOICE("\"delta\":{},\"finish_reason\":\"stop\""),
    CHOICE("\"delta\":null"),
    CHOICE("\"delta\":{},\"delta\":{}"),
    CHOICE("\"delta\":{},\"x\":1.5"),
    CHOICE("\"delta\":{},\"x\":01"),
    CHOICE("\"delta\":{},\"x\":1234567890123456789"),
    CHOICE("\"delta\":{},\"x\":[[[[[[]]]]]]"),
    CHOICE("\"delta\":{},\"x\":[1,]"),
    CHOICE("\"delta\":{},\"x\":{\"y\"}"),
    CHOICE("\"delta\":{},\"x\":\"\\n\""),
    "{\"choices\":[]}",
    "{\"choices\":[{},{}]}",
    "{\"choices\":[{}],\"choices\":[{}]}",
    "{\"choices\":[{}],\"usage\":{}}",
    "{\"choices\":[{}],\"error\":\"no\"}",
};

/* What the full parser makes of it. False: not the usual event. */
static bool read_fully(struct str text, struct str *role, struct str *content, json_t **keep)
{
    static const char *const foreign[] = {"reasoning_content", "reasoning", "thinking_blocks",
                                          "tool_calls", "provider_specific_fields"};
    struct error err;
    json_t *j = *keep = json_parse_words(text, &err), *choices = json_object_get(j, "choices");
    const json_t *choice = json_array_get(choices, 0), *delta = json_object_get(choice, "delta");
    const json_t *error = json_object_get(j, "error"), *words = json_object_get(delta, "content");
    bool usual = json_is_object(j) && !json_is_object(error) && !json_is_string(error) &&
                 !json_is_object(json_object_get(j, "usage")) &&
                 json_s(choice, "finish_reason").n == 0 &&
                 (!words || json_is_null(words) || json_is_string(words));
    for (size_t i = 0; i < array_len(foreign); i++) {
        const json_t *f = json_object_get(delta, foreign[i]);
        usual = usual && (!f || json_is_null(f));
    }
    *role = json_s(delta, "role");
    *content = json_sv(words);
    return usual;
}

static void compare(struct str text, struct quick *q)
{
    struct quick_delta d;
    struct str role, content;
    if (!openai_quick(q, text, &d))
        return;
    json_t *j = NULL;
    bool same =
        read_fully(text, &role, &content, &j) && str_eq(role, d.role) && str_eq(content, d.content);
    json_decref(j);
    if (!same)
        fail_msg("read otherwise: " STR_FMT, STR_ARG(text));
}

static void test_taken(void **state)
{
    struct quick q;
    openai_quick_init(&q);
    for (size_t i = 0; i < array_len(taken); i++) {
        struct quick_delta d;
        if (!openai_quick(&q, str_c(taken[i].text), &d))
            fail_msg("not taken: %s", taken[i].text);
        assert_true(str_eqz(d.role, taken[i].role));
        assert_true(str_eqz(d.content, taken[i].content));
        compare(str_c(taken[i].text), &q);
    }
    openai_quick_free(&q);
}

static void test_left(void **state)
{
    struct quick q;
    openai_quick_init(&q);
    struct quick_delta d;
    for (size_t i = 0; i < array_len(left); i++) {
        if (openai_quick(&q, str_c(left[i]), &d))
            fail_msg("taken: %s", left[i]);
    }
    auto_buf large = BUF(1 << 20);
    buf_z(&large, "{\"choices\":[{\"delta\":{\"content\":\"");
    while (large.n < 20000)
        buf_c(&large, 'x');
    buf_z(&large, "\"}}]}");
    assert_false(openai_quick(&q, buf_view(&large), &d));
    openai_quick_free(&q);
}

/* Each text cut, and with each byte made another one. */
static void test_as_the_full_parser(void **state)
{
    static const char bytes[] = "\"\\{}[],: \t0-1.eunx\x01\x7f\xc3\xa9\xff";
    struct quick q;
    openai_quick_init(&q);
    for (size_t i = 0; i < array_len(taken) + array_len(left); i++) {
        struct str text = str_c(i < array_len(taken) ? taken[i].text : left[i - array_len(taken)]);
        auto_buf b = BUF(4096);
        for (size_t at = 0; at < text.n; at++) {
            compare(str_n(text.p, at), &q);
            for (size_t k = 0; k < sizeof(bytes) - 1; k++) {
                buf_clear(&b);
                buf_str(&b, text);
                b.p[at] = bytes[k];
                compare(buf_view(&b), &q);
            }
        }
    }
    openai_quick_free(&q);
}

/* Events of one stream: what stood around the words of one is known at the next, and changes nothing. */
static void test_stream(void **state)
{
    static const struct {
        const char *text, *content; /* NULL: left */
    } events[] = {
        {DELTA("\"role\":\"assistant\",\"content\":\"\""), ""},
        {SAID("a"), "a"},
        {SAID("b c"), "b c"},
        {SAID(""), ""},
        {SAID("\xc3\xa9"), "\xc3\xa9"},
        {SAID("\xc3"), NULL},
        {SAID("\\n"), "\n"},
        {SAID("\x01"), NULL},
        {SAID("\",\"reasoning\":\"r"), NULL},
        {SAID("\",\"x\":\"y"), ""},
        {SAID("\",\"x\":\"y"), ""},
        {CHOICE("\"delta\":{},\"finish_reason\":\"stop\""), NULL},
        {CHOICE("\"delta\":{\"content\":\"a\"}"), "a"},
        {SAID("z"), "z"},
    };
    struct quick q;
    struct quick_delta d;
    openai_quick_init(&q);
    for (size_t i = 0; i < array_len(events); i++) {
        bool ok = openai_quick(&q, str_c(events[i].text), &d);
        if (ok != (events[i].content != NULL) || (ok && !str_eqz(d.content, events[i].content)))
            fail_msg("event %zu", i);
        assert_true(!ok || str_eqz(d.role, i == 0 ? "assistant" : ""));
    }
    openai_quick_free(&q);
}

static void test_no_memory(void **state)
{
    struct quick q;
    openai_quick_init(&q);
    struct quick_delta d;
    mem_fail_after(1, true);
    bool ok = openai_quick(&q, S(SAID("a\\n")), &d);
    mem_fail_after(0, false);
    assert_false(ok);
    mem_fail_after(1, true);
    ok = openai_quick(&q, S(SAID("a")), &d) && openai_quick(&q, S(SAID("b")), &d);
    mem_fail_after(0, false);
    assert_true(ok && str_eqz(d.content, "b"));
    openai_quick_free(&q);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_as_the_full_parser),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
