/* What each stage does with a message, from the outside. pipeline.md §7, §12. */
#include "pipeline/lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#define LAB_TEST(name)                      \
    static void name##_body(struct lab *l); \
    static void name(void **state)          \
    {                                       \
        lab_run(name##_body);               \
    }                                       \
    static void name##_body(struct lab *l)

#define NO_AT "\"output\":{\"misc\":{\"at-sender\":false}}"
/* Group rules, and answers without a mention. */
#define RULES(json) "{\"trigger\":{\"group-respond-rules\":{" json "}}," NO_AT "}"

/* What a chain gives; "" when the bot stays silent. */
static const char *ask_chain(struct lab *l, const char *patch, const char *group, const char *chain)
{
    lab_clear(l);
    lab_pipe(l, LAB_PIPE, patch);
    lab_chain(l, "ann", group, chain);
    lab_idle(l);
    return lab_text(l, 0);
}

/* ---- group rules --------------------------------------------------------------------------------------------------- */

#define AT_BOT  "{\"type\":\"At\",\"target\":\"thebot\"}"
#define AT_ELSE "{\"type\":\"At\",\"target\":\"somebody\"}"
#define SAY(t)  "{\"type\":\"Plain\",\"text\":\"" t "\"}"

LAB_TEST(group_at)
{
    const char *at = RULES("\"at\":true,\"prefix\":[],\"regexp\":[]"),
               *off = RULES("\"at\":false,\"prefix\":[],\"regexp\":[]");
    check_text(l, ask_chain(l, at, "g", "[" AT_BOT "," SAY("hi") "]"), "echo: hi");
    check_text(l, ask_chain(l, at, "g", "[" AT_BOT "," SAY("hi") "," AT_BOT "," AT_BOT "]"),
               "echo: hi");
    check_text(l, ask_chain(l, at, "g", "[" AT_ELSE "," SAY("hi") "]"), "");
    check_text(l, ask_chain(l, at, "g", "[{\"type\":\"AtAll\"}," SAY("hi") "]"), "");
    check_text(l, ask_chain(l, at, "g", "[" SAY("hi") "]"), "");
    check(l, lab_count(l, "SELECT count(*) FROM parley_messages WHERE state = 'done'") ==
                 5); /* silence closes a message too */
    check_text(l, ask_chain(l, off, "g", "[" AT_BOT "," SAY("hi") "]"), "");
    check_text(l, ask_chain(l, off, NULL, "[" SAY("hi") "]"),
               "echo: hi"); /* a person needs no mention */
    /* the mention is gone before the next rule looks */
    check_text(l,
               ask_chain(l, RULES("\"at\":false,\"prefix\":[\"hi\"],\"regexp\":[]"), "g",
                         "[" AT_BOT "," SAY("hi you") "]"),
               "echo: you");
}

LAB_TEST(group_prefix)
{
    const char *p = RULES("\"at\":false,\"prefix\":[\"ai\",\"机\"],\"regexp\":[]");
    check_text(l, ask_chain(l, p, "g", "[" SAY("ai what") "]"), "echo: what");
    check_text(l, ask_chain(l, p, "g", "[" SAY("机器") "]"), "echo: 器");
    check_text(l, ask_chain(l, p, "g", "[" SAY("ai x") "," SAY("ai y") "]"),
               "echo: xai y"); /* only the first */
    check_text(l, ask_chain(l, p, "g", "[" SAY("the ai") "]"), "");
    check_text(l, ask_chain(l, RULES("\"at\":false,\"prefix\":[\"\"]"), "g", "[" SAY("any") "]"),
               "echo: any"); /* nothing begins everything */
}

LAB_TEST(group_regexp_and_random)
{
    const char *r = RULES("\"at\":false,\"prefix\":[],\"regexp\":[\"(\",\"w[aeiou]+t\"]");
    check_text(l, ask_chain(l, r, "g", "[" SAY("wait for me") "]"), "echo: wait for me");
    check_text(l, ask_chain(l, r, "g", "[" SAY("do wait") "]"),
               ""); /* at the beginning, not anywhere */
    check_text(
        l, ask_chain(l, RULES("\"at\":false,\"prefix\":[],\"random\":1.0"), "g", "[" SAY("x") "]"),
        "echo: x");
    check_text(
        l, ask_chain(l, RULES("\"at\":false,\"prefix\":[],\"random\":0"), "g", "[" SAY("x") "]"),
        "");
    auto_json rules = json_pack("[{s:s,s:s,s:s}]", "type", "launcher_type", "value", "group",
                                "pipeline_uuid", LAB_PIPE);
    json_object_set(lab_bot(l, 0)->row, "pipeline_routing_rules", rules);
    check_text(l, ask_chain(l, RULES("\"at\":false,\"prefix\":[]"), "g", "[" SAY("x") "]"),
               "echo: x"); /* routed: no rule is asked */
}

/* ---- access ---------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *mode, *entry, *group;
    bool answered;
} access_cases[] = {
    {"blacklist", "person_ann", NULL, false}, {"blacklist", "person_bob", NULL, true},
    {"blacklist", "person_*", NULL, false},   {"blacklist", "group_*", NULL, true},
    {"blacklist", "*_ann", NULL, false},      {"blacklist", "*_ann", "g_1", false},
    {"blacklist", "*_g_1", "g_1", false},     {"blacklist", "group_g_1", "g_1", false},
    {"blacklist", "group_g", "g_1", true},    {"whitelist", "person_ann", NULL, true},
    {"whitelist", "person_bob", NULL, false}, {"whitelist", "person_*", NULL, true},
    {"whitelist", "group_*", "g_1", true},    {"whitelist", "*_ann", "g_1", true},
    {"whitelist", "group_*", NULL, false},    {"whitelist", "nonsense", NULL, false},
    {"blacklist", "nonsense", NULL, true},
};

LAB_TEST(access)
{
    for (size_t i = 0; i < array_len(access_cases); i++) {
        char patch[400];
        snprintf(
            patch, sizeof patch,
            "{\"trigger\":{\"access-control\":{\"mode\":\"%s\",\"%s\":[\"%s\"]},\"group-respond-rules\":{\"random\":1}}," NO_AT
            "}",
            access_cases[i].mode, access_cases[i].mode, access_cases[i].entry);
        const char *got = lab_ask(l, patch, access_cases[i].group, "x");
        if (!lab_check(l, (*got != 0) == access_cases[i].answered, "access", __FILE__, __LINE__))
            print_error("  case %zu: %s\n", i, patch);
    }
}

/* ---- filters ----------------------------------------------------------------------------------------------------------- */

#define MASKED "消息中存在不合适的内容, 请修改"
#define BROKEN "内容检查规则执行失败，请联系管理员"

/* Words of this process: the constant object of the configuration, filled by the test. */
static void words(struct lab *l, const char *list)
{
    struct error err = {0};
    json_t *all = (json_t *)(uintptr_t)config_sensitive_words(l->config);
    json_set(all, "words", json_parse_words(str_c(list), &err));
}

LAB_TEST(ignore_rules)
{
    const char *p =
        "{\"trigger\":{\"ignore-rules\":{\"prefix\":[\"\",\"//\"],\"regexp\":[\"^no+$\"]}}}";
    check_text(l, lab_ask(l, p, NULL, "// private"), "");
    check_text(l, lab_ask(l, p, NULL, "nooo"), "");
    check_text(l, lab_ask(l, p, NULL, "nooo not"), "echo: nooo not");
    check_text(l, lab_ask(l, p, NULL, "  padded  "), "echo: padded");
    check_text(l, ask_chain(l, p, NULL, "[" SAY("// with") ",{\"type\":\"Image\"}]"),
               "echo: // with"); /* only texts are checked */
    check_text(l, lab_ask(l, "{\"trigger\":{\"ignore-rules\":{\"regexp\":[\"(\"]}}}", NULL, "x"),
               ""); /* a broken rule ignores */
    check_text(
        l,
        lab_ask(
            l,
            "{\"safety\":{\"content-filter\":{\"scope\":\"output-msg\"}},\"trigger\":{\"ignore-rules\":{\"prefix\":[\"//\"]}}}",
            NULL, "//x"),
        "echo: //x");
}

LAB_TEST(sensitive_words)
{
    words(l, "[\"b[aä]d\",\"worse\"]");
    const char *all =
        "{\"safety\":{\"content-filter\":{\"scope\":\"all\",\"check-sensitive-words\":true}}}";
    const char *in =
        "{\"safety\":{\"content-filter\":{\"scope\":\"income-msg\",\"check-sensitive-words\":true}}}";
    const char *out =
        "{\"safety\":{\"content-filter\":{\"scope\":\"output-msg\",\"check-sensitive-words\":true}}}";
    const char *off = "{\"safety\":{\"content-filter\":{\"check-sensitive-words\":false}}}";
    check_text(l, lab_ask(l, all, NULL, "a bad word"), MASKED);
    check(l, l->runs == 0 && l->parts[0].is_final);
    check_text(l, lab_ask(l, all, NULL, "a good word"), "echo: a good word");
    check_text(l, lab_ask(l, in, NULL, "worse"), MASKED);
    check_text(l, lab_ask(l, off, NULL, "worse"), "echo: worse");
    check_text(l, lab_ask(l, out, NULL, "bäd and worse"), "echo: *** and *****");
    lab_idle(l);
    lab_ask(l, out, NULL, "then"); /* what was hidden is hidden in the history too */
    check_text(
        l, json_z_or(json_array_get(l->messages, json_array_size(l->messages) - 1), "content", ""),
        "echo: *** and *****");
    l->adapter.streaming = true;
    lab_ask(l, out, NULL, "bad");
    check(l, l->n == 3);
    check_text(l, lab_text(l, 2), "echo: ***");
    check(l, l->parts[2].is_final);
    lab_ask(l, all, NULL, "bad"); /* a notice instead of a stream */
    check(l, l->n == 1);
    check_text(l, lab_text(l, 0), MASKED);
    words(l, "[\"(\"]");
    check_text(l, lab_ask(l, all, NULL, "x"), BROKEN);
    lab_ask(l, out, NULL, "x");
    check_text(l, lab_text(l, l->n - 1), BROKEN);
    check(l, l->parts[l->n - 1].is_final &&
                 l->parts[l->n - 1].is_chunk); /* the stream that was begun ends with it */
}

/* ---- preprocessor -------------------------------------------------------------------------------------------------------- */

#define QUOTE                               \
    "{\"type\":\"Quote\",\"origin\":[" SAY( \
        "earlier") ",{\"type\":\"Image\",\"base64\":\"data:image/png;base64,QQ==\"}]}"
#define MEDIA                                                                                                                               \
    "[{\"type\":\"Source\",\"id\":\"s\",\"timestamp\":1}," SAY(                                                                             \
        "look") ",{\"type\":\"Image\",\"base64\":\"data:image/png;base64,AA==\"},"                                                          \
                "{\"type\":\"Image\",\"url\":\"http://x/y.png\"},{\"type\":\"Voice\",\"url\":\"http://v\"},{\"type\":\"Voice\",\"base64\":" \
                "\"data:a/b;base64,VV\"},{\"type\":\"File\",\"name\":\"f.txt\",\"url\":\"http://f\"}," QUOTE                                \
                "]"

static char *types_of(const json_t *message, char *out, size_t size)
{
    size_t i, n = 0;
    json_t *part;
    out[0] = '\0';
    json_array_foreach (json_object_get(message, "content"), i, part)
        n += (size_t)snprintf(out + n, size - n, "%s ", json_z_or(part, "type", "?"));
    return out;
}

LAB_TEST(user_message)
{
    char t[256];
    const char *local = "{\"ai\":{\"local-agent\":{\"model\":{\"primary\":\"m\"}}}}";
    l->models = " m ";
    ask_chain(l, local, NULL, MEDIA);
    check_text(l, types_of(l->user, t, sizeof t), "text file_url file_base64 file_url text ");
    l->model_vision = true;
    ask_chain(l, local, NULL, MEDIA);
    check_text(l, types_of(l->user, t, sizeof t),
               "text image_base64 file_url file_base64 file_url text image_base64 ");
    const json_t *parts = json_object_get(l->user, "content");
    check_text(l, json_z_or(json_array_get(parts, 2), "file_name", ""), "voice");
    check_text(l, json_z_or(json_array_get(parts, 3), "file_name", ""), "voice.silk");
    check_text(l, json_z_or(json_array_get(parts, 4), "file_name", ""), "f.txt");
    ask_chain(
        l,
        "{\"ai\":{\"local-agent\":{\"model\":{\"primary\":\"m\"}}},\"trigger\":{\"misc\":{\"combine-quote-message\":false}}}",
        NULL, MEDIA);
    check_text(l, types_of(l->user, t, sizeof t),
               "text image_base64 file_url file_base64 file_url ");
    l->model_vision = false;
    ask_chain(l, "{\"ai\":{\"runner\":{\"runner\":\"dify-service-api\"}}}", NULL,
              MEDIA); /* other runners see for themselves */
    check_text(l, types_of(l->user, t, sizeof t),
               "text image_base64 file_url file_base64 file_url text image_base64 ");
    ask_chain(l, local, NULL, "[]");
    check(l, json_is_array(json_object_get(l->user, "content")) &&
                 json_array_size(json_object_get(l->user, "content")) == 0);
    check_text(l, json_z_or(l->user, "role", ""), "user");
    /* payloads don't stay in the history */
    ask_chain(l, local, NULL, "[" SAY("again") "]");
    char *text = json_dump_z(l->messages, 0);
    check(l, strstr(text, "AA==") == NULL && strstr(text, "VV") == NULL);
    mem_free(text);
    char stored[4000];
    lab_value(l, "SELECT group_concat(messages) FROM parley_turns", stored, sizeof stored);
    check(l, strstr(stored, "AA==") == NULL && strstr(stored, "look") != NULL);
    lab_value(l, "SELECT group_concat(message_content) FROM monitoring_messages", stored,
              sizeof stored);
    check(l, strstr(stored, "AA==") == NULL);
}

LAB_TEST(variables)
{
    l->models = " m f2 ";
    ask_chain(
        l,
        "{\"ai\":{\"local-agent\":{\"model\":{\"primary\":\"m\",\"fallbacks\":[\"gone\",\"f2\"]},\"knowledge-base\":\"kb1\"}},\"trigger\":"
        "{\"group-respond-rules\":{\"random\":1}}}",
        "g1",
        "[{\"type\":\"Source\",\"id\":1,\"timestamp\":1}," SAY("a") ",{\"type\":\"AtAll\"}," SAY(
            "b") "]");
    const json_t *v = l->variables;
    check_text(l, json_z_or(v, "launcher_type", ""), "group");
    check_text(l, json_z_or(v, "launcher_id", ""), "g1");
    check_text(l, json_z_or(v, "sender_id", ""), "ann");
    check_text(l, json_z_or(v, "session_id", ""), "group_g1");
    check_text(l, json_z_or(v, "group_name", ""), "The group");
    check_text(l, json_z_or(v, "sender_name", ""), "Ann");
    check_text(l, json_z_or(v, "user_message_text", ""), "ab");
    check(l, json_i_or(v, "msg_create_time", 0) == 1700000000);
    check(l, json_is_false(json_object_get(v, "_routed_by_rule")));
    const json_t *f = json_object_get(v, "_fallback_model_uuids");
    check(l, json_array_size(f) == 1 && str_eqz(json_sv(json_array_get(f, 0)), "f2"));
    const json_t *kb = json_object_get(v, "_knowledge_base_uuids");
    check(l, json_array_size(kb) == 1 && str_eqz(json_sv(json_array_get(kb, 0)), "kb1"));
    lab_ask(l, "{\"ai\":{\"local-agent\":{\"model\":\"m\",\"knowledge-base\":\"__none__\"}}}", NULL,
            "x");
    check(l, json_array_size(json_object_get(l->variables, "_knowledge_base_uuids")) == 0);
    check(l, !json_object_get(l->variables, "_fallback_model_uuids"));
    check_text(l, json_z_or(l->variables, "group_name", "?"), "");
}

static size_t dates(const char *text)
{
    size_t n = 0;
    while ((text = strstr(text, "Current date: "))) {
        n++;
        text++;
    }
    return n;
}

LAB_TEST(date_line)
{
    char today[40];
    time_t now = (time_t)(time_wall_us() / 1000000);
    struct tm tm;
    localtime_r(&now, &tm);
    strftime(today, sizeof today, "Current date: %Y-%m-%d (%A).", &tm);
    const char *p =
        "{\"ai\":{\"local-agent\":{\"prompt\":[{\"role\":\"system\",\"content\":\"Be kind.\"}]}}}";
    for (int i = 0; i < 3; i++) { /* once in each request, however long the conversation */
        lab_ask(l, p, NULL, "x");
        const char *system = json_z_or(json_array_get(l->prompt, 0), "content", "");
        check(l, strncmp(system, "Be kind.\n\nCurrent date: ", 24) == 0 && strstr(system, today) &&
                     dates(system) == 1);
    }
    check(l,
          lab_count(
              l, "SELECT count(*) FROM parley_conversations WHERE prompt LIKE '%Current date%'") ==
              0);
    lab_pipe(l, LAB_PIPE, "{\"ai\":{\"local-agent\":{\"prompt\":[]}}}");
    lab_say(l, "new1", NULL, "x");
    lab_idle(l);
    check(l, json_array_size(l->prompt) == 1 &&
                 strncmp(json_z_or(json_array_get(l->prompt, 0), "content", ""), today,
                         strlen(today)) == 0);
    lab_pipe(
        l, LAB_PIPE,
        "{\"ai\":{\"local-agent\":{\"prompt\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"system\",\"content\":[{\"type\":"
        "\"text\",\"text\":\"T\"}]}]}}}");
    lab_say(l, "new2", NULL, "x");
    lab_idle(l);
    const json_t *parts = json_object_get(json_array_get(l->prompt, 1), "content");
    check(l, dates(json_z_or(json_array_get(parts, 0), "text", "")) == 1);
    lab_pipe(
        l, LAB_PIPE,
        "{\"ai\":{\"runner\":{\"runner\":\"dify-service-api\"},\"local-agent\":{\"prompt\":[{\"role\":\"system\",\"content\":\"S\"}]}}}");
    lab_say(l, "new3", NULL, "x");
    lab_idle(l);
    check_text(l, json_z_or(json_array_get(l->prompt, 0), "content", ""), "S");
}

/* ---- rate limit ------------------------------------------------------------------------------------------------------------ */

#define LIMIT "请求数超过限速器设定值，已丢弃本消息。"

LAB_TEST(rate_drop)
{
    const char *p =
        "{\"safety\":{\"rate-limit\":{\"window-length\":3600,\"limitation\":2,\"strategy\":\"drop\"}}}";
    check_text(l, lab_ask(l, p, NULL, "1"), "echo: 1");
    check_text(l, lab_ask(l, p, NULL, "2"), "echo: 2");
    check_text(l, lab_ask(l, p, NULL, "3"), LIMIT);
    check(l, l->runs == 0);
    lab_clear(l);
    lab_say(l, "bob", NULL, "4"); /* each conversation has its own */
    lab_idle(l);
    check_text(l, lab_text(l, 0), "echo: 4");
    time_shift_us(3600000000LL, 0); /* a new window */
    check_text(l, lab_ask(l, p, NULL, "5"), "echo: 5");
    time_shift_us(-3600000000LL, 0);
    check_text(l,
               lab_ask(l, "{\"safety\":{\"rate-limit\":{\"window-length\":-5,\"limitation\":9}}}",
                       NULL, "6"),
               "echo: 6");
    check_text(
        l,
        lab_ask(
            l,
            "{\"safety\":{\"rate-limit\":{\"window-length\":9007199254740993,\"limitation\":0}}}",
            NULL, "7"),
        LIMIT);
}

LAB_TEST(rate_wait)
{
    lab_pipe(
        l, LAB_PIPE,
        "{\"safety\":{\"rate-limit\":{\"window-length\":1,\"limitation\":1,\"strategy\":\"wait\"}}}");
    int64_t start = time_wall_us();
    check(l, lab_say(l, "ann", NULL, "1") && lab_say(l, "ann", NULL, "2") &&
                 lab_say(l, "ann", NULL, "3"));
    check(l, lab_wait(l, 3));
    int64_t windows = time_wall_us() / 1000000 - start / 1000000;
    check(l, windows >= 2 && windows <= 4);
    check_text(l, lab_text(l, 2), "echo: 3");
    lab_idle(l);
}

/* ---- answers and failures --------------------------------------------------------------------------------------------------- */

static bool emit(const struct agent_run *r, json_t *message, bool chunk, bool final,
                 struct error *err)
{
    auto_json m = message;
    struct agent_output o = {.message = m, .is_chunk = chunk, .is_final = final, .sequence = 1};
    return r->emit(r->arg, &o, err);
}

static bool fails(struct lab *l, const struct agent_run *r, struct error *err)
{
    return err_set(err, ERR_UPSTREAM, "no luck today");
}

static bool breaks_off(struct lab *l, const struct agent_run *r, struct error *err)
{
    return emit(r, llm_message("assistant", S("half an ans")), r->stream, false, err) &&
           err_set(err, ERR_UPSTREAM, "cut");
}

LAB_TEST(failures)
{
    l->run = fails;
    check_text(l, lab_ask(l, "{}", NULL, "x"), "Request failed.");
    check_text(l, lab_ask(l, "{\"output\":{\"misc\":{\"failure-hint\":\"Oh no\"}}}", NULL, "x"),
               "Oh no");
    check_text(
        l, lab_ask(l, "{\"output\":{\"misc\":{\"exception-handling\":\"show-error\"}}}", NULL, "x"),
        "no luck today");
    check_text(
        l, lab_ask(l, "{\"output\":{\"misc\":{\"exception-handling\":\"hide\"}}}", NULL, "x"), "");
    check(l, l->n == 0);
    check(
        l,
        lab_count(
            l,
            "SELECT count(*) FROM monitoring_errors WHERE error_type = 'PipelineError' AND error_message = 'no luck today'") ==
            4);
    check(
        l,
        lab_count(
            l,
            "SELECT count(*) FROM monitoring_messages WHERE status = 'error' AND level = 'error'") ==
            4);
    check(l, lab_count(l, "SELECT count(*) FROM parley_turns") ==
                 0); /* a failed turn leaves nothing */
    check(l, lab_count(l, "SELECT count(*) FROM parley_messages WHERE state = 'received'") == 0);
    check_text(
        l,
        lab_ask(
            l,
            "{\"ai\":{\"runner\":{\"runner\":\"no-such\"}},\"output\":{\"misc\":{\"exception-handling\":\"show-error\"}}}",
            NULL, "x"),
        "Request Runner not found: no-such");
}

LAB_TEST(failing_streams_end)
{
    l->adapter.streaming = true;
    l->run = breaks_off;
    lab_ask(l, "{}", NULL, "x");
    check(l, l->n == 2);
    check_text(l, lab_text(l, 0), "half an ans");
    check_text(l, lab_text(l, 1), "Request failed.");
    check(l, l->parts[1].is_chunk && l->parts[1].is_final && l->parts[1].delivery[0]);
    check_text(l, l->parts[1].response, l->parts[0].response);
    lab_ask(l, "{\"output\":{\"misc\":{\"exception-handling\":\"hide\"}}}", NULL,
            "x"); /* nothing is said, but nobody waits for ever */
    check(l, l->n == 2);
    check_text(l, lab_text(l, 1), "half an ans");
    check(l, l->parts[1].is_chunk && l->parts[1].is_final);
    check(l, lab_count(l, "SELECT count(*) FROM parley_turns") == 0);
    l->run = fails; /* before the first part: an ordinary notice */
    lab_ask(l, "{}", NULL, "x");
    check(l, l->n == 1 && !l->parts[0].is_chunk && l->parts[0].is_final);
}

static bool says_nothing(struct lab *l, const struct agent_run *r, struct error *err)
{
    return emit(r, llm_message("assistant", S("")), r->stream, true, err);
}

static bool calls_tools(struct lab *l, const struct agent_run *r, struct error *err)
{
    json_t *m = json_pack("{s:s,s:s,s:[{s:s,s:{s:s}},{s:s,s:{s:s}}]}", "role", "assistant",
                          "content", "let me see", "tool_calls", "id", "1", "function", "name", "a",
                          "id", "2", "function", "name", "b");
    return emit(r, m, r->stream, true, err) &&
           emit(r, json_pack("{s:s,s:s,s:s}", "role", "tool", "content", "42", "tool_call_id", "1"),
                r->stream, true, err) &&
           emit(r, json_pack("{s:s,s:s,s:s}", "role", "tool", "content", "43", "tool_call_id", "2"),
                r->stream, true, err) &&
           emit(r, llm_message("assistant", S("it is 42")), r->stream, true, err);
}

LAB_TEST(wrapping)
{
    l->run = says_nothing;
    lab_ask(l, "{}", NULL, "x");
    check(l, l->n == 0 &&
                 lab_count(l, "SELECT count(*) FROM parley_messages WHERE state = 'done'") == 1);
    l->adapter.streaming = true;
    lab_ask(l, "{}", NULL, "x"); /* a stream always gets its end */
    check(l, l->n == 1 && l->parts[0].is_final && json_array_size(l->parts[0].chain) == 0);
    l->adapter.streaming = false;
    l->run = calls_tools;
    lab_ask(l, "{}", NULL, "x");
    check(l, l->n == 2 && !l->parts[0].is_final && l->parts[1].is_final && l->parts[1].number == 2);
    check_text(l, lab_text(l, 0), "let me see");
    check_text(l, lab_text(l, 1), "it is 42");
    lab_ask(l, "{\"output\":{\"misc\":{\"track-function-calls\":true}}}", NULL, "x");
    check(l, l->n == 3);
    check_text(l, lab_text(l, 1), "Call a.b...");
    check(l, json_array_size(l->messages) ==
                 5); /* question, calls, two results, answer of the turn before */
    l->adapter.streaming = true;
    lab_ask(l, "{}", NULL, "x");
    check(l,
          l->n == 2 && l->parts[0].is_final && l->parts[0].tool_calls && !l->parts[0].delivery[0]);
    check(l, l->parts[1].is_final && !l->parts[1].tool_calls && l->parts[1].delivery[0]);
}

LAB_TEST(commands)
{
    check_text(l, lab_ask(l, "{}", NULL, "!nope a b"), "[bot] 未知命令: nope");
    check(l, l->runs == 0 && l->parts[0].is_final);
    check_text(l, lab_ask(l, "{}", NULL, " ！nope"), "[bot] 未知命令: nope");
    check_text(l, lab_ask(l, "{}", NULL, "!"), "[bot] 未知命令:");
    check_text(l, lab_ask(l, "{}", NULL, "/nope"), "echo: /nope");
    check(l, lab_count(l, "SELECT count(*) FROM parley_turns") ==
                 1); /* commands are not part of the talk */
}

static void slash_body(struct lab *l)
{
    check_text(l, lab_ask(l, "{}", NULL, "/x"), "[bot] 未知命令: x");
    check_text(l, lab_ask(l, "{}", NULL, "!x"), "echo: !x");
}

static void no_commands_body(struct lab *l)
{
    check_text(l, lab_ask(l, "{}", NULL, "!x"), "echo: !x");
}

static void command_settings(void **state)
{
    lab_run_with(slash_body, "command: {prefix: ['/']}");
    lab_run_with(no_commands_body, "command: {enable: false}");
}

LAB_TEST(sending)
{
    const char *p =
        "{\"trigger\":{\"group-respond-rules\":{\"random\":1}},\"output\":{\"misc\":{\"at-sender\":true,\"quote-origin\":true}}}";
    lab_ask(l, p, "g", "x");
    const json_t *at = json_array_get(l->parts[0].chain, 0);
    check_text(l, json_z_or(at, "type", ""), "At");
    check_text(l, json_z_or(at, "target", ""), "ann");
    check_text(l, json_z_or(json_array_get(l->parts[0].chain, 1), "text", ""), "echo: x");
    check(l, l->parts[0].quote);
    check_text(l, l->parts[0].launcher, "g");
    lab_ask(l, p, NULL, "x");
    check(l, json_array_size(l->parts[0].chain) == 1); /* nobody is mentioned in a talk of two */
    l->adapter.streaming = true;
    lab_ask(l, p, "g", "x");
    for (size_t i = 0; i < l->n; i++)
        check(l, json_array_size(l->parts[i].chain) == 2);
    l->adapter.streaming = false;
    int64_t start = time_mono_us();
    lab_ask(
        l, "{\"output\":{\"force-delay\":{\"min\":1,\"max\":1},\"misc\":{\"quote-origin\":false}}}",
        NULL, "x");
    check(l, time_mono_us() - start >= 1000000 && !l->parts[0].quote);
    /* notices mention too */
    l->run = fails;
    lab_ask(l, p, "g", "x");
    check(l, chain_has(l->parts[0].chain, "At"));
}

/* ---- long texts ----------------------------------------------------------------------------------------------------------------- */

LAB_TEST(long_texts)
{
    const char *forward =
        "{\"output\":{\"long-text-processing\":{\"threshold\":10,\"strategy\":\"forward\"}}}";
    check_text(l, lab_ask(l, forward, NULL, "ééé"), "echo: ééé"); /* characters count */
    lab_ask(l, forward, NULL, "something longer");
    const json_t *f = json_array_get(l->parts[0].chain, 0);
    check(l, json_array_size(l->parts[0].chain) == 1);
    check_text(l, json_z_or(f, "type", ""), "Forward");
    check_text(l, json_z_or(json_object_get(f, "display"), "title", ""), "Group chat history");
    check_text(l, json_z_or(json_object_get(f, "display"), "summary", ""),
               "View 1 forwarded message");
    const json_t *node = json_array_get(json_object_get(f, "node_list"), 0);
    check_text(l, json_z_or(node, "sender_id", ""), "thebot");
    check_text(l, json_z_or(node, "sender_name", ""), "User");
    check_text(l, json_z_or(json_array_get(json_object_get(node, "message_chain"), 0), "text", ""),
               "echo: something longer");
    struct error err = {0};
    auto_json again = chain_decode(l->parts[0].chain, &err);
    check(l, json_equal(again, l->parts[0].chain));
    lab_ask(
        l,
        "{\"output\":{\"long-text-processing\":{\"threshold\":10,\"strategy\":\"image\",\"font-path\":\"/no/such\"}}}",
        NULL, "something longer");
    check(l, chain_has(l->parts[0].chain, "Forward"));
    check_text(
        l,
        lab_ask(l,
                "{\"output\":{\"long-text-processing\":{\"threshold\":10,\"strategy\":\"none\"}}}",
                NULL, "something longer"),
        "echo: something longer");
    lab_ask(l,
            "{\"output\":{\"long-text-processing\":{\"threshold\":10,\"strategy\":\"telegram\"}}}",
            NULL, "something longer");
    check(l, l->n == 0 &&
                 lab_count(l, "SELECT count(*) FROM parley_messages WHERE state = 'failed'") == 1);
}

LAB_TEST(pictures)
{
    static const char font[] = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
    struct stat st;
    if (stat(font, &st) != 0) {
        print_message("skipped: no font here\n");
        return;
    }
    char patch[300];
    snprintf(
        patch, sizeof patch,
        "{\"output\":{\"long-text-processing\":{\"threshold\":10,\"strategy\":\"image\",\"font-path\":\"%s\"}}}",
        font);
    lab_ask(l, patch, NULL, "something longer, with ümlauts");
    const char *data = json_z_or(json_array_get(l->parts[0].chain, 0), "base64", "");
    check(l, strncmp(data, "data:image/png;base64,iVBORw0KGgo", 33) == 0);
    auto_buf many = BUF(1 << 20);
    for (int i = 0; i < 300; i++)
        buf_z(&many, "line\n");
    lab_ask(l, patch, NULL, buf_cstr(&many)); /* more than fits in one */
    check(l, chain_has(l->parts[0].chain, "Forward"));
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, -1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_at),
        cmocka_unit_test(group_prefix),
        cmocka_unit_test(group_regexp_and_random),
        cmocka_unit_test(access),
        cmocka_unit_test(ignore_rules),
        cmocka_unit_test(sensitive_words),
        cmocka_unit_test(user_message),
        cmocka_unit_test(variables),
        cmocka_unit_test(date_line),
        cmocka_unit_test(rate_drop),
        cmocka_unit_test(rate_wait),
        cmocka_unit_test(failures),
        cmocka_unit_test(failing_streams_end),
        cmocka_unit_test(wrapping),
        cmocka_unit_test(commands),
        cmocka_unit_test(command_settings),
        cmocka_unit_test(sending),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(pictures),
    };
    return cmocka_run_group_tests_name("pipeline/stages", tests, NULL, NULL);
}
