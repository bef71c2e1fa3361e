/* The runtime: event logs, manifests, the proxy bot, generations, adapters that are switched off, start from the database. */
#include "platform/lab.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define PNG \
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

/* ---- event log ------------------------------------------------------------------------------------------------------------ */

static int64_t total(struct lab *l)
{
    auto_json j = bot_logs(lab_bot(l), -1, 1000);
    return json_i_or(j, "total_count", -1);
}

static void log_ring(struct lab *l)
{
    struct bot *b = lab_bot(l);
    check(l, total(l) == 0);
    for (int i = 0; i < 230; i++)
        bot_log(b, LOG_INFO, NULL, i % 2 ? "person_s" : NULL, "entry %d", i);
    auto_json all = bot_logs(b, -1, 1000);
    const json_t *logs = json_object_get(all, "logs");
    size_t n = json_array_size(logs);
    check(l, n == 180 && json_i_or(all, "total_count", 0) == 180);
    for (size_t i = 0; i < n; i++)
        check(l, json_i_or(json_array_get(logs, i), "seq_id", -1) == 50 + (int64_t)i);
    check(l, str_eqz(json_s(json_array_get(logs, n - 1), "text"), "entry 229"));
    check(l, str_eqz(json_s(json_array_get(logs, n - 1), "message_session_id"), "person_s"));
    check(l, str_eqz(json_s(json_array_get(logs, n - 1), "level"), "info"));
    check(l, json_i_or(json_array_get(logs, 0), "timestamp", 0) > 1700000000);
    auto_json page = bot_logs(b, 100, 3);
    const json_t *p = json_object_get(page, "logs");
    check(l, json_array_size(p) == 3 && json_i_or(json_array_get(p, 2), "seq_id", 0) == 100);
    auto_json none = bot_logs(b, 3, 3);
    check(l, json_array_size(json_object_get(none, "logs")) == 0);
    auto_json zero = bot_logs(b, -1, -4);
    check(l, json_array_size(json_object_get(zero, "logs")) == 0 &&
                 json_i_or(zero, "total_count", 0) == 180);
    struct error err = {0};
    check(l, lab_load(l, true, NULL, &err) && total(l) == 0);
}

static void long_texts(struct lab *l)
{
    char *text = malloc(60001);
    for (size_t i = 0; i < 20000; i++)
        memcpy(text + 3 * i, "\xe4\xbd\xa0", 3);
    text[60000] = '\0';
    bot_log(lab_bot(l), LOG_INFO, NULL, NULL, "%s", text);
    bot_log(lab_bot(l), LOG_INFO, NULL, NULL, "%sx", text);
    auto_json j = bot_logs(lab_bot(l), -1, 10);
    const json_t *logs = json_object_get(j, "logs");
    check(l, str_eqz(json_s(json_array_get(logs, 0), "text"), text));
    struct str cut = json_s(json_array_get(logs, 1), "text");
    check(l, utf8_count(cut) == 20000 && str_ends(cut, S("\n[log truncated]")) && utf8_valid(cut));
    free(text);
}

static void pictures(struct lab *l)
{
    struct bot *b = lab_bot(l);
    static const char *const owners[] = {"bot_log", NULL};
    auto_json images =
        json_pack("[o,o]", comp_image("", PNG), comp_image("http://127.0.0.1/x.png", ""));
    bot_log(b, LOG_INFO, images, "person_s", "pic[Image]");
    auto_json j = bot_logs(b, -1, 10);
    const json_t *keys = json_object_get(json_array_get(json_object_get(j, "logs"), 0), "images");
    check(l, json_array_size(keys) == 1);
    struct error err = {0};
    struct str data = STR_NONE;
    auto_arena a = arena_new(1 << 20);
    struct str key = json_sv(json_array_get(keys, 0));
    check(l, objects_get(l->objects, &l->scope, key, owners, a, &data, &err) && data.n > 8 &&
                 memcmp(data.p, "\x89PNG", 4) == 0);
    check(l, str_ends(key, S(".png")));
    /* Gone with its entry. */
    for (int i = 0; i < 200; i++)
        bot_log(b, LOG_INFO, NULL, NULL, "more");
    bool there = true;
    for (int i = 0; i < 100 && there; i++) {
        lab_pause(10);
        err = (struct error){0};
        there = objects_get(l->objects, &l->scope, key, owners, a, &data, &err);
    }
    check(l, !there && err.code == ERR_NOT_FOUND);
    auto_json bad =
        json_pack("[o,{s:i}]", comp_image("", "data:image/png;base64,***"), "base64", 5);
    bot_log(b, LOG_INFO, bad, NULL, "broken picture");
    auto_json k = bot_logs(b, -1, 1);
    check(l, json_array_size(
                 json_object_get(json_array_get(json_object_get(k, "logs"), 0), "images")) == 0);
}

/* ---- manifests ---------------------------------------------------------------------------------------------------------------- */

static void manifests(struct lab *l)
{
    for (size_t i = 0; adapters[i]; i++) {
        const json_t *m = adapter_manifest(adapters[i]->name);
        check(l, m && str_eqz(json_s(m, "name"), adapters[i]->name) &&
                     json_z(json_object_get(m, "label"), "en_US"));
        check(l, json_z(m, "icon") && json_is_object(json_object_get(m, "spec")));
        check(l, json_b_or(json_object_get(m, "spec"), "hidden", false) == adapters[i]->hidden);
        check(l, adapter_manifest(adapters[i]->name) == m &&
                     adapter_find(adapters[i]->name) == adapters[i]);
    }
    check(l, !adapter_manifest("telegraph") && !adapter_find("HTTP_BOT") && !adapter_find(""));
    struct error err = {0};
    auto_json given = json_pack("{s:s,s:s,s:s,s:n}", "inbound_secret", "s", "callback_timeout",
                                "20", "signature_required", "False", "callback_max_retries");
    auto_json c = manifest_config(adapter_find("http_bot"), given, &err);
    check(l,
          json_i_or(c, "callback_timeout", 0) == 20 && !json_b_or(c, "signature_required", true));
    check(l, json_i_or(c, "callback_max_retries", 0) == 3 &&
                 str_eqz(json_s(c, "default_session_type"), "person"));
    check(l, str_eqz(json_s(given, "callback_timeout"), "20")); /* the stored row stays as it is */
    auto_json list = json_array();
    check(l, !manifest_config(adapter_find("http_bot"), list, &err) && err.code == ERR_INVALID);
}

/* ---- bots ------------------------------------------------------------------------------------------------------------------------ */

static json_t *row_of(const char *uuid, const char *adapter, bool enable)
{
    return json_pack("{s:s,s:s,s:s,s:{s:s,s:s},s:b,s:s}", "uuid", uuid, "name", "N", "adapter",
                     adapter, "adapter_config", "inbound_secret", "s", "callback_url",
                     "http://127.0.0.1:9/", "enable", (int)enable, "use_pipeline_uuid", "p");
}

static void lookups(struct lab *l)
{
    struct error err = {0};
    struct bot *b = lab_bot(l);
    check(l,
          b && platform_public_bot(l->platform, LAB_BOT) == b && platform_count(l->platform) == 1);
    check(l, strcmp(bot_name(b), "Lab") == 0 && bot_enabled(b) &&
                 strcmp(bot_default_pipeline(b), "") == 0);
    struct scope other = l->scope;
    other.generation = 2;
    check(l, !platform_bot(l->platform, &other, LAB_BOT));
    snprintf(other.workspace, sizeof other.workspace, "elsewhere");
    check(l, !platform_bot(l->platform, &other, LAB_BOT));
    static const char *const unknown[] = {"telegraph", "HTTP_BOT", "", "websocket"};
    for (size_t i = 0; i < array_len(unknown); i++) {
        auto_json row = row_of("u", unknown[i], true);
        err = (struct error){0};
        check(l, !platform_load(l->platform, &l->scope, row, &err) && err.code == ERR_INVALID);
        check(l, !platform_check(l->platform, &l->scope, row, &err));
    }
    auto_json off = row_of("0b8a4c0e-1111-4111-8111-000000000009", "http_bot", false);
    check(l, platform_load(l->platform, &l->scope, off, &err));
    b = platform_bot(l->platform, &l->scope, "0b8a4c0e-1111-4111-8111-000000000009");
    auto_json health = bot_health(b);
    check(l, !bot_enabled(b) && str_eqz(json_s(health, "state"), "disabled") &&
                 json_is_null(json_object_get(health, "last_error")));
    check(l, strcmp(bot_default_pipeline(b), "p") == 0);
    auto_json chain = chain_of_text(S("x"));
    check(l, !bot_send(b, "person", "s", chain, &err) && err.code == ERR_UNAVAILABLE);
    platform_unload(l->platform, &l->scope, bot_uuid(b));
    platform_unload(l->platform, &l->scope, "no such bot");
    check(l, platform_count(l->platform) == 1);
    /* Who still holds it gets errors, not a crash. */
    struct reply r = {.launcher_id = "s", .chain = chain};
    check(l, bot_reply(b, &r, &err) == REPLY_FAILED && !bot_enabled(b) && !bot_instance(b) &&
                 strcmp(bot_name(b), "N") == 0);
}

/* A bot of a platform that is not built is kept and says why it does not run. */
static void unbuilt(struct lab *l)
{
    static const char uuid[] = "0b8a4c0e-1111-4111-8111-000000000008";
    struct error err = {0};
    auto_json row = row_of(uuid, "discord", true);
    json_set(row, "adapter_config", json_pack("{s:s}", "client_id", "77"));
    check(l, !platform_check(l->platform, &l->scope, row, &err) && err.code == ERR_INVALID &&
                 strcmp(err.msg, "adapter_config.token is required") == 0);
    json_set(json_object_get(row, "adapter_config"), "token", json_string("t"));
    check(l, !adapter_find("discord") && !adapter_manifest("discord"));
    check(l, !platform_adapter_enabled(l->platform, "discord"));
    check(l, platform_check(l->platform, &l->scope, row, &err));
    check(l, platform_load(l->platform, &l->scope, row, &err));
    struct bot *b = platform_bot(l->platform, &l->scope, uuid);
    check(l, b && strcmp(bot_account_id(b), "77") == 0);
    check(l, task_sleep_ms(20, &err));
    auto_json health = bot_health(b);
    check(l, str_eqz(json_s(health, "state"), "failed") &&
                 str_find(json_s(health, "last_error"), S("cannot connect")) >= 0);
    auto_json chain = chain_of_text(S("x"));
    check(l, !bot_send(b, "person", "s", chain, &err) && err.code == ERR_INVALID);
    check(l, lab_raw(l, "POST", "/bots/0b8a4c0e-1111-4111-8111-000000000008", NULL, 0, S("{}"),
                     NULL) == 501);
    platform_unload(l->platform, &l->scope, uuid);
}

/* What was asked before a crash and answered after it is in the history, though only the message itself was on disk. */
static void words_before_a_crash(struct lab *l)
{
    static const char uuid[] = "0b8a4c0e-1111-4111-8111-000000000007";
    struct error err = {0};
    auto_json row = row_of(uuid, "web_page_bot", true);
    json_set(row, "adapter_config", json_object());
    check(l, platform_load(l->platform, &l->scope, row, &err));
    auto_json context = json_pack("{s:s, s:s, s:s, s:s, s:{s:i, s:s, s:s, s:s, s:s}}", "pipeline",
                                  "p", "session", "s", "type", "person", "connection", "c", "user",
                                  "id", 1, "role", "user", "content", "lost words", "timestamp",
                                  "2020-01-01T00:00:00", "connection_id", "c");
    auto_json chain = chain_of_text(S("the answer"));
    struct reply r = {.launcher_id = "s", .chain = chain, .context = context, .is_final = true};
    struct webchat_room at = {
        .scope = l->scope, .pipeline = "p", .session_id = "s", .type = LAUNCHER_PERSON};
    check(l, bot_reply(platform_bot(l->platform, &l->scope, uuid), &r, &err) == REPLY_SENT);
    auto_json told = webchat_messages(platform_webchat(l->platform), &at, &err);
    check(l, json_array_size(told) == 2);
    check(l, str_eqz(json_s(json_array_get(told, 0), "content"), "lost words"));
    check(l, str_eqz(json_s(json_array_get(told, 1), "content"), "the answer"));
    /* A second answer to it does not repeat the words. */
    check(l, bot_reply(platform_bot(l->platform, &l->scope, uuid), &r, &err) == REPLY_SENT);
    auto_json again = webchat_messages(platform_webchat(l->platform), &at, &err);
    check(l, json_array_size(again) == 3);
    platform_unload(l->platform, &l->scope, uuid);
}

/* The parts of an answer are one message of the room, whatever its chain holds. */
static void parts_grow(struct lab *l)
{
    static const char uuid[] = "0b8a4c0e-1111-4111-8111-000000000017";
    static const struct {
        const char *chain, *content;
    } parts[] = {
        {"[{\"type\":\"Plain\",\"text\":\"one\"}]", "one"},
        {"[{\"type\":\"Plain\",\"text\":\"one two\"}]", "one two"},
        {"[]", ""},
        {"[{\"type\":\"Plain\",\"text\":\"one \"},{\"type\":\"Plain\",\"text\":\"two three\"}]",
         "one two three"},
    };
    struct error err = {0};
    auto_json row = row_of(uuid, "web_page_bot", true);
    json_set(row, "adapter_config", json_object());
    check(l, platform_load(l->platform, &l->scope, row, &err));
    auto_json context = json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s}}", "pipeline", "p", "session",
                                  "grow", "type", "person", "user", "content", "asked", "timestamp",
                                  "2020-01-01T00:00:00", "connection_id", "c");
    struct webchat_room at = {
        .scope = l->scope, .pipeline = "p", .session_id = "grow", .type = LAUNCHER_PERSON};
    for (size_t i = 0; i < array_len(parts); i++) {
        auto_json chain = json_loads(parts[i].chain, 0, NULL);
        bool last = i + 1 == array_len(parts);
        struct reply r = {.launcher_id = "s",
                          .chain = chain,
                          .context = context,
                          .response_id = "r1",
                          .is_chunk = true,
                          .is_final = last};
        check(l, bot_reply(platform_bot(l->platform, &l->scope, uuid), &r, &err) == REPLY_SENT);
        auto_json told = webchat_messages(platform_webchat(l->platform), &at, &err);
        const json_t *m = json_array_get(told, 1);
        check(l,
              json_array_size(told) == 2 && json_equal(json_object_get(m, "message_chain"), chain));
        check(l, str_eqz(json_s(m, "content"), parts[i].content));
        check(l, json_b_or(m, "is_final", !last) == last && !json_object_get(m, "_response"));
    }
    platform_unload(l->platform, &l->scope, uuid);
}

static void generations(struct lab *l)
{
    struct error err = {0};
    struct scope next = l->scope;
    next.generation = 2;
    auto_json row = row_of("0b8a4c0e-1111-4111-8111-000000000009", "http_bot", true);
    check(l, !platform_load(l->platform, &next, row, &err)); /* the fence does not know it yet */
    check(l, fence_set(l->fence, next.workspace, 2, true, &err));
    check(l, platform_load(l->platform, &next, row, &err) && platform_count(l->platform) == 1);
    check(l,
          !lab_bot(l) && platform_bot(l->platform, &next, "0b8a4c0e-1111-4111-8111-000000000009"));
    check(l, !lab_load(l, true, NULL, &err));
}

static void proxy(struct lab *l)
{
    struct error err = {0};
    struct bot *b = platform_proxy_bot(l->platform, &l->scope, &err);
    check(l, b && strcmp(bot_uuid(b), "websocket-proxy-bot") == 0 &&
                 strcmp(bot_name(b), "WebSocket") == 0);
    check(l, platform_proxy_bot(l->platform, &l->scope, &err) == b &&
                 platform_count(l->platform) == 1);
    check(l, !platform_public_bot(l->platform, "websocket-proxy-bot"));
}

static bool insert_all(struct db_tx *tx, void *arg, struct error *err)
{
    struct lab *l = arg;
    static const struct {
        const char *uuid, *adapter;
    } rows[] = {{"0b8a4c0e-1111-4111-8111-00000000000a", "http_bot"},
                {"0b8a4c0e-1111-4111-8111-00000000000b", "telegraph"},
                {"0b8a4c0e-1111-4111-8111-00000000000c", "web_page_bot"}};
    for (size_t i = 0; i < array_len(rows); i++) {
        auto_json row = row_of(rows[i].uuid, rows[i].adapter, true);
        json_object_set_new(row, "description", json_string(""));
        if (rows[i].adapter[0] == 'w')
            json_object_set_new(row, "adapter_config", json_object());
        auto_json stored = store_insert(tx, &l->store, &table_bots, &l->scope, row, err);
        if (!stored)
            return false;
    }
    return true;
}

/* One that cannot be loaded keeps no other from running. */
static void start(struct lab *l)
{
    struct error err = {0};
    check(l, db_write(l->db, scope_db(&l->scope), insert_all, l, &err));
    check(l, platform_start(l->platform, &err));
    if (err.code)
        print_error("%s\n", err.msg);
    check(l, platform_count(l->platform) == 3);
    struct bot *b = platform_bot(l->platform, &l->scope, "0b8a4c0e-1111-4111-8111-00000000000a");
    check(l,
          b && bot_enabled(b) && strcmp(json_z_or(bot_config(b), "inbound_secret", ""), "s") == 0);
    check(l, !platform_bot(l->platform, &l->scope, "0b8a4c0e-1111-4111-8111-00000000000b"));
    check(l, lab_raw(l, "POST", "/bots/0b8a4c0e-1111-4111-8111-00000000000c", NULL, 0, S("{}"),
                     NULL) == 501);
    platform_stop(l->platform);
    auto_json health = bot_health(b);
    check(l, str_eqz(json_s(health, "state"), "stopped"));
    struct chat_event e = {.sender_id = "s"};
    struct accept_opts o = {0};
    struct accepted out;
    check(l, !bot_accept(b, &e, &o, &out, &err) && err.code == ERR_UNAVAILABLE);
}

static void disabled_adapters(struct lab *l)
{
    struct error err = {0};
    static const char *const env[] = {"SYSTEM__DISABLED_ADAPTERS=discord,http_bot", NULL};
    struct config *c = config_of_text(S("{}"), env, &err);
    struct platform_opts o = {
        .store = &l->store, .config = c, .fence = l->fence, .group = l->group};
    struct platform *p = platform_new(&o, &err);
    auto_json row = row_of("0b8a4c0e-1111-4111-8111-00000000000a", "http_bot", true);
    check(l, p && !platform_load(p, &l->scope, row, &err) && err.code == ERR_INVALID &&
                 strstr(err.msg, "not available"));
    check(l,
          !platform_adapter_enabled(p, "http_bot") && platform_adapter_enabled(p, "web_page_bot"));
    check(l, platform_adapter_enabled(l->platform, "http_bot") &&
                 !platform_adapter_enabled(p, "nope"));
    check(l, !platform_bot(p, &l->scope, "0b8a4c0e-1111-4111-8111-00000000000a") &&
                 platform_count(p) == 0);
    platform_free(p);
    config_free(c);
}

#define CASE(name)                        \
    static void test_##name(void **state) \
    {                                     \
        lab_run(name);                    \
    }
CASE(log_ring)
CASE(long_texts)
CASE(pictures)
CASE(manifests)
CASE(lookups)
CASE(unbuilt)
CASE(words_before_a_crash)
CASE(parts_grow)
CASE(generations)
CASE(proxy)
CASE(start)
CASE(disabled_adapters)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_ring),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_manifests),
        cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_unbuilt),
        cmocka_unit_test(test_words_before_a_crash),
        cmocka_unit_test(test_parts_grow),
        cmocka_unit_test(test_generations),
        cmocka_unit_test(test_proxy),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_disabled_adapters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
