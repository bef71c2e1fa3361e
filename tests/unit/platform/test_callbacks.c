/* HTTP bot, callbacks: content, signature, order, coalescing, retries, what a crash leaves. spec/README.md, platforms.md §2.19. */
#include "platform/lab.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static void script(struct lab *l, const struct lab_answer *answers, size_t n)
{
    memcpy(l->answers, answers, n * sizeof *answers);
    l->answer_count = n;
    l->answer_at = 0;
}

/* A whole answer that the ledger keeps. */
static void answer(struct lab *l, const char *session, const char *message, const char *text,
                   const char *delivery)
{
    char turn[80];
    snprintf(turn, sizeof turn, "turn %s", message);
    check(l, lab_reply(l, &(struct lab_part){.session = session,
                                             .message = message,
                                             .turn = turn,
                                             .text = text,
                                             .final = true,
                                             .kept = true,
                                             .delivery = delivery}) == REPLY_QUEUED);
}

static void stream(struct lab *l, const char *turn, const char *text, bool final,
                   const char *delivery)
{
    check(l, lab_reply(l, &(struct lab_part){.session = "s",
                                             .message = "m",
                                             .turn = turn,
                                             .text = text,
                                             .response = turn,
                                             .chunk = true,
                                             .final = final,
                                             .kept = final,
                                             .delivery = delivery}) == REPLY_QUEUED);
}

static bool settled(struct lab *l, int64_t sent)
{
    for (int i = 0; i < 300; i++) {
        if (lab_deliveries(l, "sent") == sent && lab_deliveries(l, "pending") == 0)
            return true;
        lab_pause(10);
    }
    return false;
}

static void content(struct lab *l)
{
    answer(l, "s1", "in_1", "hello", "d1");
    check(l, lab_wait(l, 1) && settled(l, 1));
    const json_t *j = l->got[0].json;
    check(l, str_eqz(json_s(j, "session_id"), "s1") && str_eqz(json_s(j, "reply_to"), "in_1") &&
                 lab_sequence(l, 0) == 1);
    check(l, json_b_or(j, "is_final", false) && !json_b_or(j, "stream", true) &&
                 strcmp(lab_text(l, 0), "hello") == 0);
    int64_t when;
    check(l, time_parse(json_s(j, "timestamp"), &when) && llabs(when - time_wall_us()) < 5000000);
    char ts[32], signature[80];
    lab_sign(str_c(l->got[0].body), "outbound", atoll(l->got[0].timestamp), ts, signature);
    check(l, strcmp(signature, l->got[0].signature) == 0);
    struct error err = {0};
    check(l, lab_load(l, true, json_pack("{s:s}", "outbound_secret", ""), &err));
    auto_json chain = chain_of_text(S("news"));
    check(l, bot_send(lab_bot(l), "group", "s9", chain, &err) && lab_wait(l, 2));
    j = l->got[1].json;
    check(l, str_eqz(json_s(j, "session_id"), "s9") && str_eqz(json_s(j, "reply_to"), "") &&
                 lab_sequence(l, 1) == 1);
    check(l, json_b_or(j, "is_final", false));
    lab_sign(str_c(l->got[1].body), LAB_SECRET, atoll(l->got[1].timestamp), ts, signature);
    check(l, strcmp(signature, l->got[1].signature) == 0);
}

/* An endpoint that keeps up gets each snapshot once the first moment is over; numbers count what was sent. */
static void quick_stream(struct lab *l)
{
    stream(l, "t1", "a", false, NULL);
    check(l, lab_wait(l, 1));
    for (int i = 0; i < 5; i++) {
        char text[8] = "abcdefg";
        text[i + 2] = '\0';
        stream(l, "t1", text, false, NULL);
        check(l, lab_wait(l, (size_t)i + 2));
    }
    stream(l, "t1", "abcdefgh", true, "d1");
    check(l, lab_wait(l, 7) && settled(l, 1));
    for (size_t i = 0; i < 7; i++)
        check(l, lab_sequence(l, i) == (int64_t)i + 1 &&
                     json_b_or(l->got[i].json, "is_final", false) == (i == 6));
    check(l, strcmp(lab_text(l, 6), "abcdefgh") == 0 && json_b_or(l->got[6].json, "stream", false));
    stream(l, "t2", "next", true, "d2");
    check(l, lab_wait(l, 8) && lab_sequence(l, 7) == 1);
}

static void short_stream_is_one(struct lab *l)
{
    stream(l, "t1", "a", false, NULL);
    stream(l, "t1", "ab", false, NULL);
    lab_pause(10);
    stream(l, "t1", "ab", true, "d1");
    check(l, lab_wait(l, 1) && settled(l, 1));
    lab_pause(100);
    check(l, l->got_n == 1 && lab_sequence(l, 0) == 1 && strcmp(lab_text(l, 0), "ab") == 0);
}

/* A slow one gets the newest; what was begun is finished first. */
static void slow_stream(struct lab *l)
{
    script(l, (struct lab_answer[]){{200, 300}, {200, 0}}, 2);
    stream(l, "t1", "a", false, NULL);
    check(l, lab_wait(l, 1));
    for (int i = 0; i < 20; i++)
        stream(l, "t1", "ab", false, NULL);
    stream(l, "t1", "abc", false, NULL);
    check(l, lab_wait(l, 2) && strcmp(lab_text(l, 1), "abc") == 0 && lab_sequence(l, 1) == 2);
    check(l, l->got[1].came_us >= l->got[0].done_us);
    script(l, (struct lab_answer[]){{200, 300}, {200, 0}}, 2);
    stream(l, "t1", "abcd", false, NULL);
    check(l, lab_wait(l, 3));
    stream(l, "t1", "abcde", false, NULL);
    stream(l, "t1", "abcdef", true, "d1");
    check(l, lab_wait(l, 4) && settled(l, 1) && l->got_n == 4);
    check(l, lab_sequence(l, 3) == 4 && strcmp(lab_text(l, 3), "abcdef") == 0 && l->most_open == 1);
}

/* Text before a tool call is held by nothing that follows. */
static void tool_rounds(struct lab *l)
{
    script(l, (struct lab_answer[]){{200, 200}, {200, 0}}, 2);
    struct lab_part p = {.session = "s",
                         .message = "m",
                         .turn = "t",
                         .text = "think",
                         .response = "r",
                         .chunk = true};
    check(l, lab_reply(l, &p) == REPLY_QUEUED && lab_wait(l, 1));
    p.text = "thinking";
    p.final = p.tool_calls = true;
    check(l, lab_reply(l, &p) == REPLY_QUEUED);
    p.final = p.tool_calls = false;
    p.text = "done";
    check(l, lab_reply(l, &p) == REPLY_QUEUED);
    p = (struct lab_part){.session = "s", .message = "m", .turn = "t", .text = "whole"};
    check(l, lab_reply(l, &p) == REPLY_QUEUED);
    stream(l, "t", "done!", true, "d1");
    check(l, lab_wait(l, 5) && settled(l, 1));
    static const char *const texts[] = {"think", "thinking", "done", "whole", "done!"};
    for (size_t i = 0; i < 5; i++)
        check(l, strcmp(lab_text(l, i), texts[i]) == 0 && lab_sequence(l, i) == (int64_t)i + 1);
}

static void retries(struct lab *l)
{
    script(l, (struct lab_answer[]){{500, 0}, {503, 0}, {200, 0}}, 3);
    answer(l, "s1", "in_1", "one", "d1");
    answer(l, "s1", "in_2", "two", "d2");
    answer(l, "s2", "in_3", "three", "d3"); /* does not wait for s1 */
    check(l, lab_wait(l, 5) && settled(l, 3));
    check(l,
          l->got[1].came_us - l->got[0].came_us < 500000 && strcmp(lab_text(l, 1), "three") == 0);
    size_t n = 0;
    int64_t last = 0;
    for (size_t i = 0; i < l->got_n; i++) {
        if (strcmp(lab_text(l, i), "one") == 0) {
            check(l, n == 0 || l->got[i].came_us - last >= 900000);
            check(l, strcmp(l->got[i].body, l->got[0].body) == 0);
            last = l->got[i].came_us;
            n++;
        }
        if (strcmp(lab_text(l, i), "two") == 0)
            check(l, l->got[i].came_us >= last && i > 0);
    }
    check(l, n >= 2);
}

static void refusals(struct lab *l)
{
    struct error err = {0};
    script(l, (struct lab_answer[]){{429, 0}, {302, 0}, {500, 0}, {500, 0}, {200, 0}}, 5);
    check(l, lab_load(l, true, json_pack("{s:i}", "callback_max_retries", 1), &err));
    answer(l, "s1", "in_1", "one", "d1");
    answer(l, "s1", "in_2", "two", "d2");
    answer(l, "s1", "in_3", "three", "d3");
    answer(l, "s1", "in_4", "four", "d4");
    check(l, lab_wait(l, 5) && settled(l, 1));
    static const char *const texts[] = {"one", "two", "three", "three", "four"};
    for (size_t i = 0; i < 5; i++)
        check(l, strcmp(lab_text(l, i), texts[i]) == 0);
    check(l, lab_deliveries(l, "failed") == 3);
    auto_json health = bot_health(lab_bot(l));
    auto_json logs = bot_logs(lab_bot(l), -1, 50);
    check(l, strstr(json_z_or(health, "last_error", ""), "status 500") &&
                 str_eqz(json_s(health, "state"), "running"));
    check(l, json_array_size(json_object_get(logs, "logs")) == 3);
}

static void too_late_counts_as_failed(struct lab *l)
{
    struct error err = {0};
    script(l, (struct lab_answer[]){{200, 1500}, {200, 0}}, 2);
    check(l, lab_load(l, true, json_pack("{s:i}", "callback_timeout", 1), &err));
    answer(l, "s1", "in_1", "one", "d1");
    check(l, lab_wait(l, 2) && settled(l, 1) && strcmp(l->got[0].body, l->got[1].body) == 0);
}

/* The process died with answers that were not handed over: the same come again, in their order and before new ones. */
static void redelivery(struct lab *l)
{
    script(l, (struct lab_answer[]){{503, 0}}, 1);
    stream(l, "t1", "a", false, NULL);
    check(l, lab_wait(l, 1));
    stream(l, "t1", "ab", true, "d1");
    answer(l, "s", "in_2", "two", "d2");
    lab_pause(50);
    check(l, lab_deliveries(l, "pending") == 2);
    lab_restart(l, false);
    size_t n = l->got_n;
    script(l, (struct lab_answer[]){{200, 50}, {200, 0}}, 2);
    answer(l, "s", "in_3", "three", "d3");
    check(l, lab_wait(l, n + 3) && settled(l, 3));
    check(l, strcmp(lab_text(l, n), "ab") == 0 && lab_sequence(l, n) == 2 &&
                 json_b_or(l->got[n].json, "stream", false));
    check(l, strcmp(lab_text(l, n + 1), "two") == 0 && strcmp(lab_text(l, n + 2), "three") == 0);
    lab_restart(l, false);
    lab_pause(50);
    check(l, l->got_n == n + 3);
}

/* Content is fixed when the turn is committed: what comes after a crash equals what would have been sent before it. */
static void the_same_again(struct lab *l)
{
    script(l, (struct lab_answer[]){{500, 0}}, 1);
    answer(l, "s", "in_1", "one", "d1");
    check(l, lab_wait(l, 1));
    lab_restart(l, false);
    script(l, (struct lab_answer[]){{200, 0}}, 1);
    check(l, lab_wait(l, 2) && settled(l, 1) &&
                 strcmp(l->got[0].body, l->got[l->got_n - 1].body) == 0);
}

/* A polite stop lets a callback on its way end, so that it does not come twice; what waits stays in the ledger. */
static void polite_stop(struct lab *l)
{
    script(l, (struct lab_answer[]){{200, 400}, {500, 0}}, 2);
    answer(l, "s", "in_1", "one", "d1");
    answer(l, "s", "in_2", "two", "d2");
    check(l, lab_wait(l, 1));
    int64_t from = time_mono_us();
    lab_restart(l, true);
    check(l, time_mono_us() - from < 2500000 && lab_deliveries(l, "sent") == 1);
    script(l, (struct lab_answer[]){{200, 0}}, 1);
    check(l, settled(l, 2));
    size_t ones = 0;
    for (size_t i = 0; i < l->got_n; i++)
        ones += strcmp(lab_text(l, i), "one") == 0;
    check(l, ones == 1);
}

/* A changed configuration counts for what is on its way; a removed bot gives it up. */
static void reload_and_removal(struct lab *l)
{
    struct error err = {0};
    script(l, (struct lab_answer[]){{500, 0}, {200, 0}}, 2);
    answer(l, "s", "in_1", "one", "d1");
    check(l, lab_wait(l, 1));
    check(l, lab_load(l, true, json_pack("{s:s}", "outbound_secret", "changed"), &err));
    check(l, lab_wait(l, 2) && settled(l, 1));
    char ts[32], signature[80];
    lab_sign(str_c(l->got[1].body), "changed", atoll(l->got[1].timestamp), ts, signature);
    check(l, strcmp(signature, l->got[1].signature) == 0);
    script(l, (struct lab_answer[]){{500, 0}}, 1);
    answer(l, "s", "in_2", "two", "d2");
    answer(l, "s", "in_3", "three", "d3");
    check(l, lab_wait(l, 3));
    platform_unload(l->platform, &l->scope, LAB_BOT);
    check(l, lab_deliveries(l, "failed") == 1 && !lab_bot(l));
}

/* Whoever brings more than an endpoint takes has to wait; nothing is dropped. */
struct flood {
    struct lab *l;
    int done;
};

static void flood(void *arg)
{
    struct flood *f = arg;
    for (int i = 0; i < 120; i++) {
        char message[32];
        snprintf(message, sizeof message, "in_%d", i);
        if (lab_reply(f->l, &(struct lab_part){.session = "s",
                                               .message = message,
                                               .turn = message,
                                               .text = message,
                                               .final = true}) == REPLY_QUEUED)
            f->done++;
    }
}

static void backpressure(struct lab *l)
{
    struct error err = {0};
    struct flood f = {l, 0};
    script(l, (struct lab_answer[]){{200, 500}, {200, 0}}, 2);
    check(l, task_spawn(l->group, "flood", flood, &f, &err) && lab_wait(l, 1));
    lab_pause(100);
    check(l, f.done >= 100 && f.done < 110);
    check(l, lab_wait(l, 120) && f.done == 120);
    for (size_t i = 0; i < 120; i++) {
        char message[32];
        snprintf(message, sizeof message, "in_%zu", i);
        check(l, strcmp(lab_text(l, i), message) == 0);
    }
}

#define CASE(name)                        \
    static void test_##name(void **state) \
    {                                     \
        lab_run(name);                    \
    }
CASE(content)
CASE(quick_stream)
CASE(short_stream_is_one)
CASE(slow_stream)
CASE(tool_rounds)
CASE(retries)
CASE(refusals)
CASE(too_late_counts_as_failed)
CASE(redelivery)
CASE(the_same_again)
CASE(polite_stop)
CASE(reload_and_removal)
CASE(backpressure)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content),
        cmocka_unit_test(test_quick_stream),
        cmocka_unit_test(test_short_stream_is_one),
        cmocka_unit_test(test_slow_stream),
        cmocka_unit_test(test_tool_rounds),
        cmocka_unit_test(test_retries),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_too_late_counts_as_failed),
        cmocka_unit_test(test_redelivery),
        cmocka_unit_test(test_the_same_again),
        cmocka_unit_test(test_polite_stop),
        cmocka_unit_test(test_reload_and_removal),
        cmocka_unit_test(test_backpressure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
