/* Tool calls on their way into the web chats: the debug chat shows and keeps them, the widget of a web page does not. */
#include "platform/lab.h"
#include "platform/webchat_private.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define PIPE    "0b8a4c0e-2222-4222-8222-000000000002"
#define SESSION "0b8a4c0e-3333-4333-8333-000000000003"

static json_t *call_of(const char *status)
{
    return json_pack("{s:s,s:s,s:s,s:s}", "id", "c1", "name", "exec", "arguments", "{}", "status",
                     status);
}

static enum reply_result answer(struct bot *b, const json_t *context, const json_t *tools)
{
    struct error err = {0};
    auto_json chain = chain_of_text(S("done"));
    struct chat_event e = {.launcher = LAUNCHER_PERSON, .sender_id = "ann"};
    struct reply rep = {.event = &e,
                        .launcher_id = "ann",
                        .context = context,
                        .chain = chain,
                        .turn_id = "turn",
                        .response_id = "response",
                        .is_chunk = true,
                        .is_final = true,
                        .tools = tools};
    auto_json running = call_of("running");
    bot_activity(b, &rep, running); /* nobody is connected: it is only told */
    return bot_reply(b, &rep, &err);
}

static void debug_chat(struct lab *l)
{
    struct error err = {0};
    struct bot *b = platform_proxy_bot(l->platform, &l->scope, &err);
    auto_json context =
        json_pack("{s:s,s:s,s:s}", "pipeline", PIPE, "session", "", "type", "person");
    auto_json tools = json_pack("[o]", call_of("success"));
    check(l, answer(b, context, tools) == REPLY_SENT);
    struct webchat_room at = {.scope = l->scope, .pipeline = PIPE, .type = LAUNCHER_PERSON};
    auto_json history = webchat_messages(platform_webchat(l->platform), &at, &err);
    const json_t *kept = json_object_get(json_array_get(history, 0), "tool_calls");
    check(l, json_array_size(history) == 1 && json_equal(kept, tools) && kept != tools);
    /* Turns without calls stay as they were. */
    check(l, answer(b, context, NULL) == REPLY_SENT);
    auto_json again = webchat_messages(platform_webchat(l->platform), &at, &err);
    check(l, json_array_size(again) == 1);
}

static void widget(struct lab *l)
{
    struct error err = {0};
    auto_json row =
        json_pack("{s:s,s:s,s:s,s:{},s:b}", "uuid", "0b8a4c0e-1111-4111-8111-00000000000d", "name",
                  "Page", "adapter", "web_page_bot", "adapter_config", "enable", 1);
    check(l, platform_load(l->platform, &l->scope, row, &err));
    struct bot *b = platform_bot(l->platform, &l->scope, "0b8a4c0e-1111-4111-8111-00000000000d");
    auto_json context =
        json_pack("{s:s,s:s,s:s}", "pipeline", PIPE, "session", SESSION, "type", "person");
    auto_json tools = json_pack("[o]", call_of("success"));
    check(l, b && answer(b, context, tools) == REPLY_SENT);
    struct webchat_room at = {
        .scope = l->scope, .pipeline = PIPE, .session_id = SESSION, .type = LAUNCHER_PERSON};
    auto_json history = webchat_messages(platform_webchat(l->platform), &at, &err);
    check(l, json_array_size(history) == 1 &&
                 !json_object_get(json_array_get(history, 0), "tool_calls"));
}

static void test_debug_chat(void **state)
{
    lab_run(debug_chat);
}

static void test_widget(void **state)
{
    lab_run(widget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_debug_chat),
                                       cmocka_unit_test(test_widget)};
    return cmocka_run_group_tests_name("platform/activity", tests, NULL, NULL);
}
