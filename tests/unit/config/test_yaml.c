/* YAML read as the original read it, and changed in place without touching its neighbours. */
#include "config/conf.h"

#include <stdio.h>
#include <stdlib.h>

static json_t *json(const char *text)
{
    json_error_t e;
    json_t *j = json_loads(text, JSON_DECODE_ANY, &e);
    if (!j) {
        fail_msg("%s: %s", text, e.text);
    }
    return j;
}

static json_t *yaml(const char *text)
{
    struct error err;
    json_t *j = config_yaml_to_json(str_c(text), "test", &err);
    if (!j) {
        fail_msg("%s: %s", text, err.msg);
    }
    return j;
}

static void test_scalars(void **state)
{
    static const struct {
        const char *yaml, *json;
    } cases[] = {
        {"5", "5"},
        {"-5", "-5"},
        {"+5", "5"},
        {"0", "0"},
        {"1_000", "1000"},
        {"0x1F", "31"},
        {"-0b101", "-5"},
        {"0o17", "\"0o17\""},
        {"017", "15"},
        {"08", "\"08\""},
        {"1.5", "1.5"},
        {".5", "0.5"},
        {"-.5", "\"-.5\""},
        {"._", "\"._\""},
        {"5.", "5.0"},
        {"1e5", "\"1e5\""},
        {"1.0e5", "\"1.0e5\""},
        {"1.0e+5", "100000.0"},
        {"-1.5E-3", "-0.0015"},
        {".", "\".\""},
        {"1.2.3", "\"1.2.3\""},
        {"10.0.0.1", "\"10.0.0.1\""},
        {"true", "true"},
        {"Yes", "true"},
        {"ON", "true"},
        {"off", "false"},
        {"No", "false"},
        {"yEs", "\"yEs\""},
        {"y", "\"y\""},
        {"null", "null"},
        {"~", "null"},
        {"NULL", "null"},
        {"nULL", "\"nULL\""},
        {"'5'", "\"5\""},
        {"\"true\"", "\"true\""},
        {"12:30:45", "\"12:30:45\""},
        {"2001-01-01", "\"2001-01-01\""},
        {".inf", "\".inf\""},
        {".nan", "\".nan\""},
        {"-", "[null]"},
        {"+", "\"+\""},
        {"!!str 5", "\"5\""},
        {"!!int 5", "5"},
        {"! 5", "\"5\""},
        {"_", "\"_\""},
        {"1__", "1"},
        {"0x", "\"0x\""},
        {"9223372036854775807", "9223372036854775807"},
        {"9223372036854775808", "9.2233720368547758e+18"},
        {"-9223372036854775808", "-9.2233720368547758e+18"},
        {"'it''s'", "\"it's\""},
        {"\"a\\u00e9\\n\"", "\"aé\\n\""},
        {"|\n  one\n  two\n", "\"one\\ntwo\\n\""},
        {">-\n  one\n  two\n", "\"one two\""},
        {"日本", "\"日本\""},
        {"a: |\nb: >-\n", "{\"a\": \"\", \"b\": \"\"}"},
        {"\"\\L\\_\\N\"", "\"\\u2028\\u00a0\\u0085\""},
        {"1.e+400", "\"1.e+400\""},
        {"[]", "[]"},
        {"{}", "{}"},
        {"[a, {b: 1}]", "[\"a\", {\"b\": 1}]"},
        {"a: &x {b: 1}\nc: *x", "{\"a\": {\"b\": 1}, \"c\": {\"b\": 1}}"},
        {"1: x\ntrue: y", "{\"1\": \"x\", \"true\": \"y\"}"},
        {"a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}",
         "{\"a\": {\"b\": 1, \"c\": 2}, \"d\": {\"b\": 1, \"c\": 3}}"},
        {"a: &x {b: 1}\nd: {<<: [*x, {b: 2, e: 3}]}",
         "{\"a\": {\"b\": 1}, \"d\": {\"b\": 1, \"e\": 3}}"},
        {"a:\nb: ''", "{\"a\": null, \"b\": \"\"}"},
        {"&k a: 1\nb: *k", "{\"a\": 1, \"b\": \"a\"}"},
        {"- !!str\n- x", "[\"\", \"x\"]"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        auto_json have = yaml(cases[i].yaml);
        auto_json wanted = json(cases[i].json);
        if (!json_equal(have, wanted)) {
            char *text = json_dump_z(have, JSON_ENCODE_ANY);
            fail_msg("%s gives %s", cases[i].yaml, text);
        }
    }
}

/* Applies changes to a copy of what `text` means: a JSON object merged over it. */
static const char *updated(struct arena *a, const char *text, const char *changes, bool kept_wanted)
{
    struct error err;
    bool kept;
    struct str out;
    struct yaml_node *root = yaml_parse(a, str_c(text), "test", &err);
    assert_non_null(root);
    auto_json old = yaml_json(root, "test", &err);
    auto_json wanted = json_deep_copy(old);
    auto_json more = json(changes);
    assert_int_equal(json_object_update_recursive(wanted, more), 0);
    if (!yaml_update(a, str_c(text), root, old, wanted, &out, &kept, &err)) {
        fail_msg("%s: %s", text, err.msg);
    }
    auto_json again = yaml(out.p);
    assert_true(json_equal(again, wanted));
    if (kept != kept_wanted) {
        fail_msg("%s\nbecame\n%s", text, out.p);
    }
    return out.p;
}

static void test_changes_in_place(void **state)
{
    static const struct {
        const char *text, *changes, *wanted;
    } cases[] = {
        {"a: 1 # one\nb: 2\n", "{\"a\": 3}", "a: 3 # one\nb: 2\n"},
        {"a: 'x' # one\n", "{\"a\": \"it's\"}", "a: \"it's\" # one\n"},
        {"a: \"x\"", "{\"a\": null}", "a: null"},
        {"a:\nb: 1\n", "{\"a\": \"t\"}", "a: t\nb: 1\n"},
        {"a: # later\nb: 1\n", "{\"a\": 1}", "a: 1 # later\nb: 1\n"},
        {"a: {}\n", "{\"a\": {\"b\": {\"c\": [1, \"x\"]}}}", "a: {b: {c: [1, x]}}\n"},
        {"a: {b: 1} # c\n", "{\"a\": {\"d\": true}}", "a: {b: 1, d: true} # c\n"},
        {"a: {b: 1\n  } # c\n", "{\"a\": {\"d\": true}}", "a: {b: 1\n  , d: true} # c\n"},
        {"a:\n  b: 1\n# end", "{\"a\": {\"c\": {\"d\": 1.0}}}",
         "a:\n  b: 1\n  c:\n      d: 1.0\n# end"},
        {"a:\n  b: 1", "{\"a\": {\"c\": 2}, \"d\": 3}", "a:\n  b: 1\n  c: 2\nd: 3"},
        {"a: [1, 2] # l\n", "{\"a\": [3]}", "a: [3] # l\n"},
        {"a:\n    # items\n    - 1\n    - 2 # two\nb: 1\n", "{\"a\": [\"x\", \"5\"]}",
         "a:\n    # items\n    - x\n    - \"5\" # two\nb: 1\n"},
        {"a:\n- 1\n- 2\nb: 1\n", "{\"a\": []}", "a: []\nb: 1\n"},
        {"a: |\n  text\n  more\nb: 1\n", "{\"a\": \"one\"}", "a: one\nb: 1\n"},
        {"a: |\n  text\nb:\n  - |\n    x\n", "{\"b\": [\"z\"], \"c\": 1}",
         "a: |\n  text\nb:\n  - z\nc: 1\n"},
        {"'a b': 1\n\"c\": 2\n", "{\"a b\": 5, \"c\": 6}", "'a b': 5\n\"c\": 6\n"},
        {"a: 1\r\nb: 2\r\n", "{\"a\": 7}", "a: 7\r\nb: 2\r\n"},
        {"---\na: 1\n...\n", "{\"a\": 2}", "---\na: 2\n...\n"},
        {"a: {b: {c: 1}}\n", "{\"a\": {\"b\": {\"c\": 2, \"d\": 3}, \"e\": 4}}",
         "a: {b: {c: 2, d: 3}, e: 4}\n"},
        {"日本: 1 # 語\n", "{\"日本\": \"語\"}", "日本: \"語\" # 語\n"},
        {"a: long\n  plain\n  text\nb: 1\n", "{\"a\": 1}", "a: 1\nb: 1\n"},
        {"a: 1\n", "{\"a\": 0.1, \"b\": 1e300, \"c\": -0.0, \"d\": 123456789012345680}",
         "a: 0.1\nb: 1.0e+300\nc: -0.0\nd: 123456789012345680\n"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        auto_arena a = arena_new(1 << 24);
        const char *out = updated(a, cases[i].text, cases[i].changes, true);
        if (strcmp(out, cases[i].wanted) != 0) {
            fail_msg("case %zu:\n%s\nnot\n%s", i, out, cases[i].wanted);
        }
    }
}

/* Where a change in place would mean something else, the meaning wins. */
static void test_changes_by_writing_anew(void **state)
{
    static const struct {
        const char *text, *changes;
    } cases[] = {
        {"a: &x {b: 1}\nc: *x\n", "{\"c\": {\"b\": 2}}"},
        {"a: &x 1\nc: *x\n", "{\"a\": 2}"},
        {"a: {b: 1,}\n", "{\"a\": {\"c\": 2}}"},
        {"a: !!str 5\n", "{\"a\": 6}"},
        {"a: &x {b: 1}\nc: {<<: *x}\n", "{\"c\": {\"b\": 2}}"},
        {"? a\n: {}\n? b\n:\n", "{\"b\": 5}"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        auto_arena a = arena_new(1 << 24);
        assert_non_null(updated(a, cases[i].text, cases[i].changes, false));
    }
}

/* Texts of every kind come back as they were, through our reader; quoted whenever another reader could see more in them. */
static void test_texts_survive(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "a",
        "yes",
        "No",
        "null",
        "~",
        "5",
        "1.5",
        "0x1F",
        "1e5",
        "- a",
        "a: b",
        "a #b",
        "#a",
        "'",
        "\"",
        "\\",
        "\n",
        "a\nb\n",
        "\t",
        "\x01\x7f",
        "\xc2\x85",
        "\xc2\xa0",
        "\xe2\x80\xa8",
        "\xef\xbb\xbf",
        "日本語 🙂",
        "@x",
        "`x",
        "%x",
        "&a",
        "*a",
        "!x",
        "|",
        ">",
        "{",
        "}",
        "[",
        "]",
        ",",
        "?",
        ":",
        "-",
        "---",
        "...",
        "2001-01-01",
        "12:30",
        "=",
        "<<",
        "y",
        "N",
        ".5",
        "./a",
        "https://h.example/?a=b&c#d",
        "23456789",
        "2E345678",
        "end ",
        "a,b",
    };
    for (size_t i = 0; i < array_len(texts); i++) {
        auto_buf b = BUF(1 << 16);
        auto_json j =
            json_pack("{s:s, s:{s:[s, s]}}", "k", texts[i], texts[i], "l", texts[i], texts[i]);
        yaml_render(&b, j);
        auto_json back = yaml(buf_cstr(&b));
        if (!json_equal(j, back)) {
            fail_msg("%s", buf_cstr(&b));
        }
    }
}

static void test_rendering(void **state)
{
    auto_buf b = BUF(1 << 16);
    auto_json j = json(
        "{\"a\": {\"b\": {\"c\": true, \"d\": []}, \"e\": {}}, \"f\": [{\"g\": null}], \"h\": 180.0}");
    yaml_render(&b, j);
    assert_string_equal(buf_cstr(&b), "a:\n    b:\n        c: true\n        d: []\n    e: {}\n"
                                      "f: [{g: null}]\nh: 180.0\n");
}

static void test_positions_in_errors(void **state)
{
    struct error err;
    assert_null(config_yaml_to_json(S("a: 1\nb:\n  - x\n - y\n"), "forms/one.yaml", &err));
    assert_true(strncmp(err.msg, "forms/one.yaml: line ", 21) == 0);
    assert_int_equal(err.code, ERR_INVALID);
    assert_null(config_yaml_to_json(S("a: \"unfinished\n"), "x", &err));
    assert_null(config_yaml_to_json(S("a: 1\nb: \"\0\"\n"), "x", &err));
    assert_string_equal(err.msg, "x: line 2: not UTF-8 text");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, conf_setup, conf_teardown)
    const struct CMUnitTest tests[] = {
        T(test_scalars),       T(test_changes_in_place), T(test_changes_by_writing_anew),
        T(test_texts_survive), T(test_rendering),        T(test_positions_in_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
