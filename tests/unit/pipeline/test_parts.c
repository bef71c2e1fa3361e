/* Single parts of the pipeline: coercion of settings, routing, regular expressions, lines of pictures, history. pipeline.md §4.2, §6.3,
 * §7.2, §7.9. */
#include "pipeline/lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static json_t *parse(const char *text)
{
    struct error err = {0};
    json_t *j = json_parse_words(str_c(text), &err);
    if (!j)
        fail_msg("%s: %s", text, err.msg);
    return j;
}

/* ---- settings ---------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *in, *out;
} coercions[] = {
    /* integer */
    {"{\"safety\":{\"rate-limit\":{\"window-length\":\"60\"}}}",
     "{\"safety\":{\"rate-limit\":{\"window-length\":60}}}"},
    {"{\"safety\":{\"rate-limit\":{\"window-length\":2.9}}}",
     "{\"safety\":{\"rate-limit\":{\"window-length\":2}}}"},
    {"{\"safety\":{\"rate-limit\":{\"window-length\":true}}}",
     "{\"safety\":{\"rate-limit\":{\"window-length\":1}}}"},
    {"{\"safety\":{\"rate-limit\":{\"window-length\":null}}}",
     "{\"safety\":{\"rate-limit\":{\"window-length\":null}}}"},
    {"{\"safety\":{\"rate-limit\":{\"window-length\":\"soon\"}}}",
     "{\"safety\":{\"rate-limit\":{\"window-length\":\"soon\"}}}"},
    {"{\"safety\":{\"rate-limit\":{\"window-length\":1e300}}}",
     "{\"safety\":{\"rate-limit\":{\"window-length\":1e300}}}"},
    {"{\"safety\":{\"rate-limit\":{\"window-length\":\"1e300\"}}}",
     "{\"safety\":{\"rate-limit\":{\"window-length\":\"1e300\"}}}"},
    {"{\"safety\":{\"rate-limit\":{\"window-length\":[1]}}}",
     "{\"safety\":{\"rate-limit\":{\"window-length\":[1]}}}"},
    /* float */
    {"{\"trigger\":{\"message-aggregation\":{\"delay\":2}}}",
     "{\"trigger\":{\"message-aggregation\":{\"delay\":2.0}}}"},
    {"{\"trigger\":{\"message-aggregation\":{\"delay\":\" 2.5 \"}}}",
     "{\"trigger\":{\"message-aggregation\":{\"delay\":2.5}}}"},
    {"{\"trigger\":{\"message-aggregation\":{\"delay\":\"inf\"}}}",
     "{\"trigger\":{\"message-aggregation\":{\"delay\":\"inf\"}}}"},
    /* boolean */
    {"{\"trigger\":{\"message-aggregation\":{\"enabled\":\"TRUE\"}}}",
     "{\"trigger\":{\"message-aggregation\":{\"enabled\":true}}}"},
    {"{\"trigger\":{\"message-aggregation\":{\"enabled\":\"False\"}}}",
     "{\"trigger\":{\"message-aggregation\":{\"enabled\":false}}}"},
    {"{\"trigger\":{\"message-aggregation\":{\"enabled\":\"yes\"}}}",
     "{\"trigger\":{\"message-aggregation\":{\"enabled\":\"yes\"}}}"},
    {"{\"trigger\":{\"message-aggregation\":{\"enabled\":1}}}",
     "{\"trigger\":{\"message-aggregation\":{\"enabled\":true}}}"},
    {"{\"trigger\":{\"message-aggregation\":{\"enabled\":0.0}}}",
     "{\"trigger\":{\"message-aggregation\":{\"enabled\":false}}}"},
    {"{\"trigger\":{\"message-aggregation\":{\"enabled\":[]}}}",
     "{\"trigger\":{\"message-aggregation\":{\"enabled\":false}}}"},
    /* several documents, other types, what no form knows */
    {"{\"output\":{\"force-delay\":{\"min\":\"1\"}},\"ai\":{\"runner\":{\"expire-time\":\"5\",\"runner\":7}},\"mine\":{\"x\":\"1\"},\"safety\":3}",
     "{\"output\":{\"force-delay\":{\"min\":1}},\"ai\":{\"runner\":{\"expire-time\":5,\"runner\":7}},\"mine\":{\"x\":\"1\"},\"safety\":3}"},
    {"{}", "{}"},
};

static void coercion(void **state)
{
    for (size_t i = 0; i < array_len(coercions); i++) {
        auto_json in = parse(coercions[i].in);
        auto_json want = parse(coercions[i].out);
        pipe_coerce(in);
        if (!json_equal(in, want)) {
            char *got = json_dump_z(in, JSON_COMPACT);
            print_error("%s became %s\n", coercions[i].in, got);
            mem_free(got);
            fail();
        }
    }
}

static void config_readers(void **state)
{
    auto_json c =
        parse("{\"a\":{\"i\":3,\"f\":2.5,\"big\":1e300,\"low\":-1e300,\"s\":\"x\",\"b\":true}}");
    assert_int_equal(conf_int(c, "a.i", 9), 3);
    assert_int_equal(conf_int(c, "a.f", 9), 2);
    assert_true(conf_int(c, "a.big", 9) > 1000000 && conf_int(c, "a.low", 9) < -1000000);
    assert_int_equal(conf_int(c, "a.s", 9), 9);
    assert_int_equal(conf_int(c, "a.none", 9), 9);
    assert_int_equal(conf_int(NULL, "a", 9), 9);
    assert_true(conf_num(c, "a.i", 0) == 3.0 && conf_bool(c, "a.b", false) &&
                !conf_bool(c, "a.i", false));
    assert_string_equal(conf_str(c, "a.s", "y"), "x");
    assert_string_equal(conf_str(c, "a.i", "y"), "y");
    assert_int_equal(conf_bounded(5, 1, 3), 3);
    assert_int_equal(conf_bounded(-5, 1, 3), 1);
}

/* ---- routing ------------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *rules; /* single quotes stand for double ones */
    const char *pipeline;
    bool routed;
} routes[] = {
    {"[]", "default", false},
    {"null", "default", false},
    {"[{'type':'launcher_type','operator':'eq','value':'person','pipeline_uuid':'p'}]", "p", true},
    {"[{'type':'launcher_type','value':'person','pipeline_uuid':'p'}]", "p", true},
    {"[{'type':'launcher_type','value':'group','pipeline_uuid':'p'}]", "default", false},
    {"[{'type':'launcher_type','operator':'neq','value':'group','pipeline_uuid':'p'}]", "p", true},
    {"[{'type':'launcher_id','value':'77','pipeline_uuid':'p'}]", "p", true},
    {"[{'type':'launcher_id','value':77,'pipeline_uuid':'p'}]", "p", true},
    {"[{'type':'launcher_id','operator':'starts_with','value':'7','pipeline_uuid':'p'}]", "p",
     true},
    {"[{'type':'message_content','operator':'contains','value':'world','pipeline_uuid':'p'}]", "p",
     true},
    {"[{'type':'message_content','operator':'contains','value':'mars','pipeline_uuid':'p'}]",
     "default", false},
    {"[{'type':'message_content','operator':'not_contains','value':'mars','pipeline_uuid':'p'}]",
     "p", true},
    {"[{'type':'message_content','operator':'starts_with','value':'hello','pipeline_uuid':'p'}]",
     "p", true},
    {"[{'type':'message_content','operator':'eq','value':'hello','pipeline_uuid':'p'}]", "default",
     false},
    {"[{'type':'message_content','operator':'regex','value':'w.r','pipeline_uuid':'p'}]", "p",
     true},
    {"[{'type':'message_content','operator':'regex','value':'^w.r','pipeline_uuid':'p'}]",
     "default", false},
    {"[{'type':'message_content','operator':'regex','value':'(','pipeline_uuid':'p'}]", "default",
     false},
    {"[{'type':'message_content','operator':'sounds_like','value':'hello','pipeline_uuid':'p'}]",
     "default", false},
    {"[{'type':'message_has_element','operator':'eq','value':'Image','pipeline_uuid':'p'}]", "p",
     true},
    {"[{'type':'message_has_element','operator':'eq','value':'Voice','pipeline_uuid':'p'}]",
     "default", false},
    {"[{'type':'message_has_element','operator':'neq','value':'Voice','pipeline_uuid':'p'}]", "p",
     true},
    {"[{'type':'message_has_element','operator':'contains','value':'Image','pipeline_uuid':'p'}]",
     "default", false},
    {"[{'type':'nothing','value':'','pipeline_uuid':'p'}]", "default", false},
    /* order, broken rules, the discarding target */
    {"[{'value':'person','pipeline_uuid':'a'},{'type':'launcher_type','value':'person'},7,{'type':'launcher_type','value':'person',"
     "'pipeline_uuid':'b'},{'type':'launcher_type','value':'person','pipeline_uuid':'c'}]",
     "b", true},
    {"[{'type':'launcher_type','value':'person','pipeline_uuid':'__discard__'}]", "__discard__",
     true},
};

static void routing_body(struct lab *l)
{
    auto_json chain = parse("[{\"type\":\"Plain\",\"text\":\"hello world\"},{\"type\":\"Image\"}]");
    struct chat_event ev = {.launcher = LAUNCHER_PERSON, .sender_id = "77", .chain = chain};
    struct bot *b = lab_bot(l, 0);
    json_set(b->row, "use_pipeline_uuid", json_string("default"));
    for (size_t i = 0; i < array_len(routes); i++) {
        auto_arena a = arena_new(1 << 16);
        char text[500];
        snprintf(text, sizeof text, "{\"r\":%s}", routes[i].rules);
        for (char *c = text; *c; c++)
            *c = *c == '\'' ? '"' : *c;
        auto_json holder = parse(text);
        json_object_set(b->row, "pipeline_routing_rules", json_object_get(holder, "r"));
        bool routed = !routes[i].routed;
        const char *got = route_pipeline(b, &ev, "77", a, &routed);
        if (!lab_check(l, strcmp(got, routes[i].pipeline) == 0 && routed == routes[i].routed,
                       "route", __FILE__, __LINE__))
            print_error("  %s gives %s\n", routes[i].rules, got);
    }
}

static void routing(void **state)
{
    lab_run(routing_body);
}

static void discard_body(struct lab *l)
{
    struct accepted out;
    struct error err;
    auto_json rules = json_pack("[{s:s,s:s,s:s,s:s}]", "type", "message_content", "operator",
                                "contains", "value", "spam", "pipeline_uuid", "__discard__");
    json_object_set(lab_bot(l, 0)->row, "pipeline_routing_rules", rules);
    check(l, lab_accept(l, &(struct lab_say){.sender = "ann", .group = "g", .text = "spam"}, &out,
                        &err) &&
                 out.discarded);
    lab_idle(l);
    check(l, l->n == 0 && lab_count(l, "SELECT count(*) FROM parley_messages") == 0);
    char text[64];
    check_text(
        l,
        lab_value(
            l,
            "SELECT status || ' ' || pipeline_id || ' ' || pipeline_name || ' ' || session_id FROM monitoring_messages",
            text, sizeof text),
        "discarded __discard__ Discarded group_g");
    /* A caller that names the pipeline (debug chat, widget) is not routed, and the bot's own stays as it is. */
    check(l, lab_accept(l, &(struct lab_say){.sender = "ann", .text = "spam", .pipeline = LAB_PIPE},
                        &out, &err) &&
                 !out.discarded);
    lab_idle(l);
    check(l, l->n == 1 && json_is_false(json_object_get(l->variables, "_routed_by_rule")));
    check_text(l, json_z_or(lab_bot(l, 0)->row, "use_pipeline_uuid", ""), LAB_PIPE);
    json_set(lab_bot(l, 0)->row, "use_pipeline_uuid", json_string(""));
    check(l, lab_accept(l, &(struct lab_say){.sender = "ann", .text = "hi"}, &out, &err));
    lab_idle(l);
    check(l,
          l->n == 1 &&
              lab_count(
                  l,
                  "SELECT count(*) FROM parley_messages WHERE error = 'the bot has no pipeline'") ==
                  1);
}

static void discarding(void **state)
{
    lab_run(discard_body);
}

/* ---- regular expressions -------------------------------------------------------------------------------------------------- */

static enum regex_answer any(const char *patterns, struct str subject, enum regex_mode mode)
{
    const char *why = NULL;
    auto_json p = parse(patterns);
    enum regex_answer a = regex_any(p, subject, mode, &why);
    assert_true((a == REGEX_REJECTED) == (why != NULL) || a == REGEX_YES);
    return a;
}

static void regex_budget(void **state)
{
    assert_int_equal(any("[]", S("x"), REGEX_SEARCH), REGEX_NO);
    assert_int_equal(any("[\"b\"]", S("abc"), REGEX_SEARCH), REGEX_YES);
    assert_int_equal(any("[\"b\"]", S("abc"), REGEX_MATCH_START), REGEX_NO);
    assert_int_equal(any("[\"a\"]", S("abc"), REGEX_MATCH_START), REGEX_YES);
    assert_int_equal(any("[\"(\"]", S("abc"), REGEX_SEARCH), REGEX_REJECTED);
    assert_int_equal(any("[7]", S("abc"), REGEX_SEARCH), REGEX_REJECTED);
    assert_int_equal(any("[\"(\",\"b\"]", S("abc"), REGEX_SEARCH), REGEX_YES);
    assert_int_equal(any("[\"é.\"]", S("café!"), REGEX_SEARCH), REGEX_YES);
    assert_int_equal(any("[\"^$\"]", STR_NONE, REGEX_SEARCH), REGEX_YES);
    assert_int_equal(any("[\"x\"]", S("\xff"), REGEX_SEARCH), REGEX_REJECTED);
    auto_json many = json_array();
    for (int i = 0; i < 64; i++)
        json_array_append_new(many, json_string("q"));
    const char *why;
    assert_int_equal(regex_any(many, S("x"), REGEX_SEARCH, &why), REGEX_NO);
    json_array_append_new(many, json_string("x"));
    assert_int_equal(regex_any(many, S("x"), REGEX_SEARCH, &why), REGEX_REJECTED);
    char pattern[1100];
    memset(pattern, 'a', sizeof pattern);
    pattern[1024] = 0;
    auto_json just = json_pack("[s]", pattern);
    assert_int_equal(regex_any(just, S("x"), REGEX_SEARCH, &why), REGEX_NO);
    pattern[1024] = 'a';
    pattern[1025] = 0;
    auto_json over = json_pack("[s]", pattern);
    assert_int_equal(regex_any(over, S("x"), REGEX_SEARCH, &why), REGEX_REJECTED);
    auto_buf text = BUF(4 << 20);
    assert_true(buf_reserve(&text, 2 << 20));
    memset(text.p, 'a', 1 << 20);
    text.n = 1 << 20;
    assert_int_equal(any("[\"b\"]", buf_view(&text), REGEX_SEARCH), REGEX_NO);
    buf_c(&text, 'a');
    assert_int_equal(any("[\"b\"]", buf_view(&text), REGEX_SEARCH), REGEX_REJECTED);
}

/* The classic that never ends: it is given up within the budget. */
static void regex_time(void **state)
{
    int64_t start = time_mono_us();
    assert_int_equal(any("[\"^(a+)+$\",\"^(a|aa)+$\",\"(x+x+)+y\"]",
                         S("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"),
                         REGEX_SEARCH),
                     REGEX_REJECTED);
    assert_true(time_mono_us() - start < 1500000); /* 50 ms and one match, under sanitizers */
}

static void masking(void **state)
{
    static const struct {
        const char *patterns, *in, *mask, *word, *out;
        enum regex_answer answer;
    } cases[] = {
        {"[\"bad\"]", "a bad bad day", "*", "", "a *** *** day", REGEX_YES},
        {"[\"bäd\"]", "bäd", "*", "", "***", REGEX_YES},
        {"[\"bad\"]", "a bad day", "*", "[x]", "a [x] day", REGEX_YES},
        {"[\"bad\"]", "fine", "*", "", "fine", REGEX_NO},
        {"[\"x*\"]", "axxb", "#", "", "a##b", REGEX_YES},
        {"[\"a\",\"b\"]", "abc", "b", "", "bbc", REGEX_YES},
        {"[\"bad\"]", "bad", "", "", "", REGEX_YES},
        {"[\"(\"]", "bad", "*", "", NULL, REGEX_REJECTED},
        {"[\"bad\"]", "bad",
         "0123456789012345678901234567890123456789012345678901234567890123456789", "", NULL,
         REGEX_REJECTED},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        auto_arena a = arena_new(1 << 20);
        auto_json p = parse(cases[i].patterns);
        struct str out = S("");
        assert_int_equal(
            regex_mask(p, str_c(cases[i].in), str_c(cases[i].mask), str_c(cases[i].word), a, &out),
            cases[i].answer);
        if (cases[i].out && !str_eqz(out, cases[i].out))
            fail_msg("%s gives " STR_FMT, cases[i].in, STR_ARG(out));
    }
    /* many matches in a long text: no quadratic work */
    auto_arena a = arena_new(8 << 20);
    auto_buf text = BUF(1 << 20);
    for (int i = 0; i < 2000; i++)
        buf_z(&text, "bad day ");
    auto_json p = parse("[\"bad\"]");
    struct str out;
    assert_int_equal(regex_mask(p, buf_view(&text), S("*"), S(""), a, &out), REGEX_YES);
    assert_int_equal(out.n, text.n);
}

/* ---- lines of a picture ------------------------------------------------------------------------------------------------------ */

static double one_each(void *arg, struct str c)
{
    return 1;
}

static void lines_are(const char *text, double width, const char *want)
{
    struct str lines[64];
    auto_buf got = BUF(4096);
    size_t n = picture_lines(str_c(text), width, one_each, NULL, lines, 64);
    for (size_t i = 0; i < n; i++) {
        buf_str(&got, lines[i]);
        buf_c(&got, '|');
    }
    if (!str_eqz(buf_view(&got), want))
        fail_msg("\"%s\" at %g: %s", text, width, buf_cstr(&got));
}

static void picture_splitting(void **state)
{
    lines_are("", 5, "");
    lines_are("abc", 5, "abc|");
    lines_are("abcdefgh", 5, "abcde|fgh|");
    lines_are("ab\n\ncd\n", 5, "ab||cd|");
    lines_are("ééééé", 2, "éé|éé|é|");
    lines_are(
        "ab 123456", 5,
        "ab |12345|6|"); /* the number begins the next line, and is torn only where it must be */
    lines_are("12345678", 3, "123|456|78|");
    lines_are("abc", 0.1, "a|b|c|"); /* narrower than a character: still one each */
    lines_are("a1", 0.1, "a|1|");
    struct str lines[4];
    assert_int_equal(picture_lines(S("a\nb\nc\nd\ne"), 9, one_each, NULL, lines, 4), 5);
    assert_int_equal(picture_lines(S("a\nb\nc\nd"), 9, one_each, NULL, lines, 4), 4);
}

/* ---- history ------------------------------------------------------------------------------------------------------------------ */

static void trimming(void **state)
{
    auto_json turns = parse("[[1,2],[1,2,3,4],[1,2],[1,2]]");
    session_trim(turns, 10, 100);
    assert_int_equal(json_array_size(turns), 4);
    session_trim(turns, 3, 100);
    assert_int_equal(json_array_size(turns), 3);
    session_trim(turns, 10, 7); /* the long turn goes as a whole */
    assert_int_equal(json_array_size(turns), 2);
    session_trim(turns, 10, 1); /* the last one stays, whatever its length */
    assert_int_equal(json_array_size(turns), 1);
    session_trim(turns, 0, 1);
    assert_int_equal(json_array_size(turns), 0);
    session_trim(turns, 1, 1);
}

/* ---- rows ----------------------------------------------------------------------------------------------------------------------- */

static void rows_body(struct lab *l)
{
    struct error err = {0};
    char uuid[UUID_SIZE], copy[UUID_SIZE];
    auto_json body = json_pack("{s:s,s:s,s:s}", "name", "Mine", "description", "d", "emoji", "x");
    check(l, pipeline_create(l->engine, &l->scope, body, uuid, &err));
    auto_json got = pipeline_get(l->engine, &l->scope, uuid, true, &err);
    check_text(l, json_z_or(got, "name", ""), "Mine");
    check(l, json_array_size(json_object_get(got, "stages")) == 12 &&
                 json_is_false(json_object_get(got, "is_default")));
    check(l, json_equal(json_object_get(got, "config"), pipeline_default_config()));
    /* protected fields are dropped, the caller's object stays as it was */
    auto_json change = parse(
        "{\"uuid\":\"x\",\"workspace_uuid\":\"y\",\"for_version\":\"z\",\"stages\":[],\"is_default\":true,\"description\":\"new\"}");
    auto_json before = json_deep_copy(change);
    check(l,
          pipeline_update(l->engine, &l->scope, uuid, change, &err) && json_equal(change, before));
    auto_json after = pipeline_get(l->engine, &l->scope, uuid, true, &err);
    check_text(l, json_z_or(after, "description", ""), "new");
    check(l, json_array_size(json_object_get(after, "stages")) == 12 &&
                 json_is_false(json_object_get(after, "is_default")));
    check(l, pipeline_copy(l->engine, &l->scope, uuid, copy, &err));
    auto_json twin = pipeline_get(l->engine, &l->scope, copy, true, &err);
    check_text(l, json_z_or(twin, "name", ""), "Mine (Copy)");
    /* another workspace sees none of them */
    check(l, !pipeline_get(l->engine, &l->scope2, uuid, true, &err) && err.code == ERR_NOT_FOUND);
    err = (struct error){0};
    check(l, !pipeline_update(l->engine, &l->scope2, uuid, change, &err));
    err = (struct error){0};
    check(l, !pipeline_delete(l->engine, &l->scope2, uuid, &err) && err_http(&err) == 404);
    err = (struct error){0};
    auto_json ext = parse(
        "{\"enable_all_plugins\":false,\"bound_plugins\":[{\"author\":\"a\",\"name\":\"n\"}],\"bound_mcp_servers\":[\"m\"]}");
    check(l, pipeline_extensions_set(l->engine, &l->scope, uuid, ext, &err));
    auto_json e = pipeline_extensions_get(l->engine, &l->scope, uuid, &err);
    check(l, json_is_false(json_object_get(e, "enable_all_plugins")) &&
                 json_is_true(json_object_get(e, "enable_all_mcp_servers")));
    check(l, json_array_size(json_object_get(e, "bound_plugins")) == 1 &&
                 json_array_size(json_object_get(e, "bound_mcp_servers")) == 1);
    auto_json list = pipeline_list(l->engine, &l->scope, "created_at", true, false, &err);
    check(l, json_array_size(list) == 3);
    check(l, pipeline_delete(l->engine, &l->scope, uuid, &err));
    check(l, !pipeline_delete(l->engine, &l->scope, uuid, &err));
    /* the cache knows at once */
    err = (struct error){0};
    check(l, !pipe_get(l->engine, &l->scope, uuid, &err) && err.code == ERR_NOT_FOUND);
    struct pipe *p = pipe_get(l->engine, &l->scope, copy, &err),
                *again = pipe_get(l->engine, &l->scope, copy, &err);
    check(l, p && p == again && !p->aggregate && p->aggregate_ms == 1500);
    lab_pipe(l, copy,
             "{\"trigger\":{\"message-aggregation\":{\"enabled\":\"true\",\"delay\":\"99\"}}}");
    struct pipe *fresh = pipe_get(l->engine, &l->scope, copy, &err);
    check(l, fresh && fresh != p && fresh->aggregate && fresh->aggregate_ms == 10000);
    pipe_unref(p);
    pipe_unref(again);
    pipe_unref(fresh);
    lab_pipe(l, copy,
             "{\"trigger\":{\"message-aggregation\":{\"enabled\":true,\"delay\":\"soon\"}}}");
    fresh = pipe_get(l->engine, &l->scope, copy, &err);
    check(l, fresh && fresh->aggregate_ms == 1500);
    pipe_unref(fresh);
}

static void rows(void **state)
{
    lab_run(rows_body);
}

/* ---- without memory --------------------------------------------------------------------------------------------------------------- */

/* Each allocation of the loop fails once: a message that was accepted is answered, closed, or still there for the next start. */
static void memory_body(struct lab *l)
{
    l->adapter.streaming = true;
    l->models = " m ";
    int64_t accepted = 0;
    for (long n = 1; n < 1600; n += n < 60 ? 1 : 13) {
        struct accepted out;
        struct error err;
        char who[32];
        snprintf(who, sizeof who, "u%ld", n % 5);
        lab_clear(l);
        mem_fail_after(n, false);
        bool ok = lab_accept(l, &(struct lab_say){.sender = who, .text = "hi"}, &out, &err);
        if (!ok && err.code == ERR_NONE)
            lab_check(l, false, "a refusal says why", __FILE__, __LINE__);
        accepted += ok;
        for (int i = 0; i < 8; i++)
            lab_sleep(1);
        mem_fail_after(0, false);
        lab_idle(l);
    }
    lab_restart(l);
    lab_idle(l);
    check(l, accepted > 50);
    check(l, lab_count(
                 l, "SELECT count(*) FROM parley_messages WHERE state IN ('received','running')") ==
                 0);
    check(l, lab_count(l, "SELECT count(*) FROM parley_messages") >= accepted);
}

static void without_memory(void **state)
{
    lab_run(memory_body);
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, -1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coercion),       cmocka_unit_test(config_readers),
        cmocka_unit_test(routing),        cmocka_unit_test(discarding),
        cmocka_unit_test(regex_budget),   cmocka_unit_test(regex_time),
        cmocka_unit_test(masking),        cmocka_unit_test(picture_splitting),
        cmocka_unit_test(trimming),       cmocka_unit_test(rows),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests_name("pipeline/parts", tests, NULL, NULL);
}
