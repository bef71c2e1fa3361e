/* Each allocation of loading a bot and of handing out an answer fails once: an error, no leak, and it works the next time. */
#include "platform/http_bot.h"
#include "platform/lab.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static void loading(struct lab *l)
{
    auto_json row =
        json_pack("{s:s,s:s,s:s,s:{s:s,s:s},s:b}", "uuid", "0b8a4c0e-1111-4111-8111-000000000009",
                  "name", "N", "adapter", "http_bot", "adapter_config", "inbound_secret", "s",
                  "callback_url", "http://127.0.0.1:9/", "enable", 1);
    size_t failed = 0;
    bool ok = false;
    for (long n = 1; n < 400 && !ok; n++) {
        struct error err = {0};
        mem_fail_after(n, false);
        ok = platform_load(l->platform, &l->scope, row, &err);
        mem_fail_after(0, false);
        failed += !ok;
        check(l, ok || err.code != ERR_NONE);
        check(l, platform_count(l->platform) == (ok ? 2 : 1));
    }
    check(l, ok && failed > 10);
    /* Replacing it: the old one stays until the new one stands. */
    ok = false;
    for (long n = 1; n < 400 && !ok; n++) {
        struct error err = {0};
        mem_fail_after(n, false);
        ok = platform_load(l->platform, &l->scope, row, &err);
        mem_fail_after(0, false);
        struct bot *b =
            platform_bot(l->platform, &l->scope, "0b8a4c0e-1111-4111-8111-000000000009");
        check(l, b && bot_instance(b) && bot_enabled(b));
    }
    check(l, ok);
}

static void answers(struct lab *l)
{
    struct hb_state *st = ((struct http_bot *)bot_instance(lab_bot(l)))->state;
    size_t failed = 0, sent = 0;
    auto_json chain = chain_of_text(S("text"));
    auto_json incoming = json_pack("[o]", comp_source("m", 1));
    struct chat_event e = {.sender_id = "s", .chain = incoming};
    for (long n = 1; n < 120; n++) {
        struct error err = {0};
        char id[32];
        snprintf(id, sizeof id, "d%ld", n);
        struct reply r = {.message_id = "m",
                          .turn_id = id,
                          .delivery_id = id,
                          .event = &e,
                          .launcher_id = "s",
                          .chain = chain};
        struct reply chunk = r;
        r.is_final = chunk.is_chunk = true;
        chunk.response_id = id;
        chunk.delivery_id = NULL;
        mem_fail_after(n, false);
        enum reply_result first = hb_out_reply(st, "ps", &chunk, &err);
        json_t *payload = hb_out_payload(st, "ps", &r);
        enum reply_result last = payload ? hb_out_reply(st, "ps", &r, &err) : REPLY_FAILED;
        mem_fail_after(0, false);
        check(l, last == REPLY_QUEUED || !payload || err.code == ERR_NOMEM);
        failed += first == REPLY_FAILED || last == REPLY_FAILED;
        sent += last == REPLY_QUEUED;
        json_decref(payload);
    }
    check(l, failed > 5 && sent > 50 && lab_wait(l, sent));
}

#define CASE(name)                        \
    static void test_##name(void **state) \
    {                                     \
        lab_run(name);                    \
    }
CASE(loading)
CASE(answers)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loading),
                                       cmocka_unit_test(test_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
