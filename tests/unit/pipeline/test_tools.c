/* Turns with calls of tools: what is shown, recorded, kept and cut. pipeline.md §7, §11, providers.md §16, §18. */
#include "pipeline/lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static json_t *call_message(const char *text, const char *const *ids)
{
    json_t *calls = json_array();
    for (; *ids; ids++)
        json_array_append_new(calls,
                              json_pack("{s:s,s:s,s:{s:s,s:s}}", "id", *ids, "type", "function",
                                        "function", "name", "look", "arguments", "{}"));
    return json_pack("{s:s,s:s,s:o}", "role", "assistant", "content", text, "tool_calls", calls);
}

static bool give(const struct agent_run *r, json_t *message_stolen, struct error *err)
{
    auto_json m = message_stolen;
    struct agent_output out = {.message = m, .is_chunk = r->stream, .is_final = true};
    return r->emit(r->arg, &out, err);
}

static bool give_result(const struct agent_run *r, const char *id, const char *text,
                        struct error *err)
{
    struct error failed = {0};
    bool bad = strncmp(text, "err", 3) == 0;
    if (bad)
        err_set(&failed, ERR_INTERNAL, "%s", text + 5);
    struct agent_tool t = {.id = id, .name = S("look"), .arguments = S("{\"k\":1}")};
    r->on_tool(r->arg, &t);
    t.ended = true;
    t.source = "mcp";
    t.result = str_c(text);
    t.err = bad ? &failed : NULL;
    t.duration_ms = 7;
    r->on_tool(r->arg, &t);
    return give(r, json_pack("{s:s,s:s,s:s}", "role", "tool", "content", text, "tool_call_id", id),
                err);
}

#define IDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Two calls with words beside them, then the answer. */
static bool two_calls(struct lab *l, const struct agent_run *r, struct error *err)
{
    return give(r, call_message("One moment.", IDS("c1", "c2")), err) &&
           give_result(r, "c1", "found 1", err) && give_result(r, "c2", "err: gone", err) &&
           give(r, llm_message("assistant", S("done")), err);
}

/* Roles of the kept history, joined. */
static const char *roles(struct lab *l)
{
    static char out[4096];
    size_t i, n = 0;
    json_t *m;
    out[0] = '\0';
    json_array_foreach (l->messages, i, m)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", i ? " " : "", json_z(m, "role"));
    return out;
}

static void next_turn_of(struct lab *l, const char *who)
{
    l->run = NULL;
    lab_clear(l);
    check(l, lab_say(l, who, NULL, "next"));
    lab_idle(l);
}

static void next_turn(struct lab *l)
{
    next_turn_of(l, "ann");
}

static void streamed_turn(struct lab *l)
{
    l->adapter.streaming = true;
    l->run = two_calls;
    lab_pipe(l, LAB_PIPE, "{}");
    check(l, lab_say(l, "ann", NULL, "go"));
    lab_idle(l);
    check(l, l->n == 2);
    check_text(l, lab_text(l, 0), "One moment.");
    check(l, l->parts[0].is_final && l->parts[0].tool_calls && l->parts[0].delivery[0] == '\0');
    check_text(l, lab_text(l, 1), "done");
    check(l, l->parts[1].is_final && !l->parts[1].tool_calls && l->parts[1].delivery[0]);
    check(l, l->parts[0].tools == 0 && l->parts[1].tools == 2);
    next_turn(l);
    check_text(l, roles(l), "user assistant tool tool assistant");
}

static void whole_turn(struct lab *l)
{
    l->run = two_calls;
    lab_pipe(l, LAB_PIPE, "{}");
    check(l, lab_say(l, "ann", NULL, "go"));
    lab_idle(l);
    check(l, l->n == 2);
    check_text(l, lab_text(l, 0), "One moment.");
    check(l, !l->parts[0].is_final && l->parts[0].delivery[0] == '\0');
    check_text(l, lab_text(l, 1), "done");
    check(l, l->parts[1].is_final && l->parts[1].delivery[0]);
    check(l, lab_count(l, "SELECT COUNT(*) FROM parley_deliveries") == 1);
    next_turn(l);
    check_text(l, roles(l), "user assistant tool tool assistant");
}

static void told_and_recorded(struct lab *l)
{
    char text[256];
    l->run = two_calls;
    lab_pipe(l, LAB_PIPE, "{}");
    check(l, lab_say(l, "ann", NULL, "go"));
    lab_idle(l);
    check(l, l->activity_n == 4);
    check_text(l, json_z_or(l->activity[0], "status", ""), "running");
    check_text(l, json_z_or(l->activity[0], "name", ""), "look");
    check(l, !json_object_get(l->activity[0], "result"));
    check_text(l, json_z_or(l->activity[1], "status", ""), "success");
    check_text(l, json_z_or(l->activity[1], "result", ""), "found 1");
    check_text(l, json_z_or(l->activity[3], "status", ""), "error");
    check_text(l, json_z_or(l->activity[3], "source", ""), "mcp");
    check(l, json_i_or(l->activity[3], "duration_ms", 0) == 7);
    check(l, lab_count(l, "SELECT COUNT(*) FROM monitoring_tool_calls WHERE tool_source = 'mcp' "
                          "AND session_id = 'person_ann' AND duration = 7") == 2);
    check_text(l,
               lab_value(l, "SELECT result FROM monitoring_tool_calls WHERE status = 'success'",
                         text, sizeof text),
               "found 1");
    check_text(l,
               lab_value(l,
                         "SELECT error_message FROM monitoring_tool_calls WHERE status = 'error'",
                         text, sizeof text),
               "gone");
    check_text(l,
               lab_value(l,
                         "SELECT t.arguments FROM monitoring_tool_calls t JOIN monitoring_messages "
                         "m ON m.id = t.message_id WHERE t.status = 'error'",
                         text, sizeof text),
               "{\"k\":1}");
}

static void tracked(struct lab *l)
{
    l->adapter.streaming = true;
    l->run = two_calls;
    lab_pipe(l, LAB_PIPE, "{\"output\":{\"misc\":{\"track-function-calls\":true}}}");
    check(l, lab_say(l, "ann", NULL, "go"));
    lab_idle(l);
    check(l, l->n == 3);
    check_text(l, lab_text(l, 1), "Call look.look...");
    check(l, l->parts[1].tool_calls && !l->parts[1].delivery[0]);
}

/* The results of tools are no answers: nothing is replaced in them. */
static void results_are_not_filtered(struct lab *l)
{
    l->run = two_calls;
    lab_pipe(l, LAB_PIPE, "{}");
    lab_ask(l,
            "{\"safety\":{\"content-filter\":{\"scope\":\"output-msg\","
            "\"check-sensitive-words\":true}}}",
            NULL, "go");
    next_turn(l);
    check_text(l, json_z_or(json_array_get(l->messages, 2), "content", ""), "found 1");
}

/* ---- turns that end without an answer of their own: the cap of rounds ------------------------------------------------- */

static bool capped(struct lab *l, const struct agent_run *r, struct error *err)
{
    return give(r, call_message("", IDS("c1")), err) && give_result(r, "c1", "found 1", err) &&
           give(r, call_message("Still looking.", IDS("c2")), err);
}

static void capped_stream(struct lab *l)
{
    l->adapter.streaming = true;
    l->run = capped;
    lab_pipe(l, LAB_PIPE, "{}");
    check(l, lab_say(l, "ann", NULL, "go"));
    lab_idle(l);
    check(l, l->n == 2);
    check_text(l, lab_text(l, 1), "Still looking.");
    check(l, l->parts[1].is_final && !l->parts[1].tool_calls && l->parts[1].delivery[0]);
    check(l, lab_count(l, "SELECT COUNT(*) FROM parley_deliveries WHERE is_final") == 1);
    next_turn(l);
    check_text(l, roles(l), "user assistant tool");
}

static bool capped_silent(struct lab *l, const struct agent_run *r, struct error *err)
{
    return give(r, call_message("", IDS("c1")), err) && give_result(r, "c1", "found 1", err) &&
           give(r, call_message("", IDS("c2")), err);
}

static void capped_without_words(struct lab *l)
{
    for (int stream = 0; stream < 2; stream++) {
        l->adapter.streaming = stream;
        l->run = capped_silent;
        lab_clear(l);
        lab_pipe(l, LAB_PIPE, stream ? "{\"trigger\":{}}" : "{}");
        check(l, lab_say(l, stream ? "ann" : "ben", NULL, "go"));
        lab_idle(l);
        check(l, l->n == 0);
        check(l,
              lab_count(l, "SELECT COUNT(*) FROM parley_messages WHERE state = 'received'") == 0);
        next_turn_of(l, stream ? "ann" : "ben");
        check_text(l, roles(l), "user assistant tool");
    }
}

static bool fails_late(struct lab *l, const struct agent_run *r, struct error *err)
{
    return give(r, call_message("", IDS("c1")), err) && give_result(r, "c1", "found 1", err) &&
           err_set(err, ERR_UPSTREAM, "overloaded");
}

static void failure_after_a_tool(struct lab *l)
{
    for (int stream = 0; stream < 2; stream++) {
        l->adapter.streaming = stream;
        l->run = fails_late;
        lab_clear(l);
        lab_pipe(l, LAB_PIPE,
                 stream
                     ? "{\"output\":{\"misc\":{\"exception-handling\":\"show-error\"}}}"
                     : "{\"output\":{\"misc\":{\"exception-handling\":\"show-error\"}},\"x\":1}");
        check(l, lab_say(l, stream ? "ann" : "ben", NULL, "go"));
        lab_idle(l);
        check(l, l->n == 1);
        check_text(l, lab_text(l, 0), "overloaded");
        check(l, l->parts[0].is_final);
        next_turn_of(l, stream ? "ann" : "ben");
        check_text(l, roles(l), "");
    }
}

/* ---- long turns --------------------------------------------------------------------------------------------------------- */

static bool sixty_rounds(struct lab *l, const struct agent_run *r, struct error *err)
{
    bool ok = true;
    for (int i = 0; ok && i < 60; i++)
        ok = give(r, call_message("", IDS("c1")), err) && give_result(r, "c1", "found", err);
    return ok && give(r, llm_message("assistant", S("counted")), err);
}

static void cut_between_calls(struct lab *l)
{
    l->run = sixty_rounds;
    lab_pipe(l, LAB_PIPE, "{}");
    check(l, lab_say(l, "ann", NULL, "go"));
    lab_idle(l);
    next_turn(l);
    size_t n = json_array_size(l->messages);
    check(l, n <= 100 && n > 95);
    check_text(l, json_z_or(json_array_get(l->messages, 0), "role", ""), "user");
    check(l, json_object_get(json_array_get(l->messages, 1), "tool_calls") != NULL);
    check_text(l, json_z_or(json_array_get(l->messages, n - 1), "content", ""), "counted");
}

static bool big_result(struct lab *l, const struct agent_run *r, struct error *err)
{
    static char big[300001];
    memset(big, 'x', sizeof big - 1);
    return give(r, call_message("", IDS("c1")), err) && give_result(r, "c1", big, err) &&
           give(r, llm_message("assistant", S("done")), err);
}

static void big_results_are_cut_in_the_history(struct lab *l)
{
    l->run = big_result;
    lab_pipe(l, LAB_PIPE, "{}");
    check(l, lab_say(l, "ann", NULL, "go"));
    lab_idle(l);
    next_turn(l);
    struct str kept = json_s(json_array_get(l->messages, 2), "content");
    check(l, kept.n > 200000 && kept.n < 200100 && str_ends(kept, S("is not kept]")));
}

#define TEST(f)                    \
    static void test_##f(void **s) \
    {                              \
        lab_run(f);                \
    }
TEST(streamed_turn)
TEST(whole_turn)
TEST(told_and_recorded)
TEST(tracked)
TEST(results_are_not_filtered)
TEST(capped_stream)
TEST(capped_without_words)
TEST(failure_after_a_tool)
TEST(cut_between_calls)
TEST(big_results_are_cut_in_the_history)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streamed_turn),
        cmocka_unit_test(test_whole_turn),
        cmocka_unit_test(test_told_and_recorded),
        cmocka_unit_test(test_tracked),
        cmocka_unit_test(test_results_are_not_filtered),
        cmocka_unit_test(test_capped_stream),
        cmocka_unit_test(test_capped_without_words),
        cmocka_unit_test(test_failure_after_a_tool),
        cmocka_unit_test(test_cut_between_calls),
        cmocka_unit_test(test_big_results_are_cut_in_the_history),
    };
    return cmocka_run_group_tests_name("pipeline/tools", tests, NULL, NULL);
}
