/* HTTP bot, requests: order of the checks, signatures, fields, idempotency, /sync, /reset. platforms.md §2.19. */
#include "platform/lab.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define HELLO "{\"session_id\":\"s1\",\"message\":[{\"type\":\"Plain\",\"text\":\"hi\"}]}"

static int code_of(const json_t *answer)
{
    return (int)json_i_or(answer, "code", -1);
}

static bool refused(struct lab *l, const char *sub, const char *body, const char *secret,
                    const char *key, int status, int code)
{
    auto_json a = NULL;
    int got = lab_post(l, sub, body, secret, key, &a);
    bool ok = got == status && code_of(a) == code && json_is_null(json_object_get(a, "data")) &&
              *json_z_or(a, "msg", "");
    if (!ok)
        print_error("%s: %d %d %s\n", body, got, code_of(a), json_z_or(a, "msg", ""));
    return ok;
}

static void accepts(struct lab *l)
{
    auto_json a = NULL;
    check(l, lab_post(l, "", HELLO, LAB_SECRET, NULL, &a) == 202);
    const json_t *data = json_object_get(a, "data");
    check(l, code_of(a) == 0 && str_eqz(json_s(a, "msg"), "accepted") &&
                 json_b_or(data, "aggregating", false));
    check(l, str_eqz(json_s(data, "session_id"), "s1") &&
                 strncmp(json_z_or(data, "accepted_message_id", ""), "in_", 3) == 0);
    check(l, strcmp(json_z_or(data, "accepted_message_id", ""), l->last_id) == 0 &&
                 strlen(l->last_id) == 35);
    const json_t *e = l->last_event, *chain = json_object_get(e, "message_chain");
    check(l, str_eqz(json_s(e, "type"), "FriendMessage") &&
                 str_eqz(json_s(json_object_get(e, "sender"), "id"), "s1"));
    check(l, json_array_size(chain) == 2 &&
                 str_eqz(json_s(json_array_get(chain, 0), "id"), l->last_id));
    check(l, !l->last_ephemeral && !l->last_key[0]);
}

static void group_events(struct lab *l)
{
    const char *body =
        "{\"session_id\":\"g1\",\"session_type\":\"group\",\"sender\":{\"id\":7,\"name\":\"Seven\",\"group_name\":\"G\"},"
        "\"message\":[{\"type\":\"Source\",\"id\":\"fake\",\"timestamp\":1},{\"type\":\"Plain\",\"text\":\"a\\u0000b\"}]}";
    check(l, lab_post(l, "", body, LAB_SECRET, NULL, NULL) == 202);
    const json_t *sender = json_object_get(l->last_event, "sender"),
                 *chain = json_object_get(l->last_event, "message_chain");
    check(l, str_eqz(json_s(sender, "id"), "7") && str_eqz(json_s(sender, "member_name"), "Seven"));
    check(l, str_eqz(json_s(json_object_get(sender, "group"), "id"), "g1") &&
                 str_eqz(json_s(json_object_get(sender, "group"), "name"), "G"));
    check(l, json_array_size(chain) == 2 &&
                 str_eqz(json_s(json_array_get(chain, 0), "id"), l->last_id));
    check(l, str_eq(json_s(json_array_get(chain, 1), "text"), str_n("a\0b", 3)));
    check(
        l,
        lab_post(
            l, "",
            "{\"session_id\":\"g1\",\"session_type\":\"group\",\"message\":[{\"type\":\"AtAll\"}]}",
            LAB_SECRET, NULL, NULL) == 202);
    check(l, str_eqz(json_s(json_object_get(l->last_event, "sender"), "id"), "g1"));
}

static void bad_requests(struct lab *l)
{
    static const char *const bad[] = {
        "",
        "[]",
        "\"x\"",
        "null",
        "1",
        "{\"session_id\":",
        "{}{}",
        "session_id=a",
        "{}",
        "{\"session_id\":\"s\"}",
        "{\"message\":[{\"type\":\"AtAll\"}]}",
        "{\"session_id\":\"\",\"message\":[{\"type\":\"AtAll\"}]}",
        "{\"session_id\":[],\"message\":[{\"type\":\"AtAll\"}]}",
        "{\"session_id\":\"a\\u0000\",\"message\":[{\"type\":\"AtAll\"}]}",
        "{\"session_id\":\"s\",\"message\":null}",
        "{\"session_id\":\"s\",\"message\":\"x\"}",
        "{\"session_id\":\"s\",\"message\":[]}",
        "{\"session_id\":\"s\",\"message\":[{\"type\":\"Plain\"}]}",
        "{\"session_id\":\"s\",\"message\":[{\"type\":\"Quote\"}]}",
        "{\"session_id\":\"s\",\"session_type\":\"room\",\"message\":[{\"type\":\"AtAll\"}]}",
        "{\"session_id\":\"s\",\"sender\":[],\"message\":[{\"type\":\"AtAll\"}]}",
        "{\"session_id\":\"s\",\"sender\":{\"id\":{}},\"message\":[{\"type\":\"AtAll\"}]}",
    };
    for (size_t i = 0; i < array_len(bad); i++) {
        check(l, refused(l, "", bad[i], LAB_SECRET, NULL, 400, 40001));
        check(l, refused(l, "/sync", bad[i], LAB_SECRET, NULL, 400, 40001));
    }
    check(l, refused(l, "/reset", "{}", LAB_SECRET, NULL, 400, 40001));
    check(l, refused(l, "/nope", HELLO, LAB_SECRET, NULL, 400, 40001));
    check(l, refused(l, "/sync/more", HELLO, LAB_SECRET, NULL, 400, 40001));
    check(l, refused(l, "", "not json", NULL, NULL, 401, 40101));
    check(l, l->accepted_n == 0);
}

static void sizes(struct lab *l)
{
    char *big = malloc((1 << 20) + 2);
    memset(big, ' ', (1 << 20) + 1);
    memcpy(big, HELLO, sizeof HELLO - 1);
    big[(1 << 20) + 1] = '\0';
    check(l, refused(l, "", big, NULL, NULL, 413, 41301));
    check(l, refused(l, "/reset", big, LAB_SECRET, NULL, 413, 41301));
    big[1 << 20] = '\0';
    check(l, lab_post(l, "", big, LAB_SECRET, NULL, NULL) == 202);
    free(big);
}

static bool reason(struct lab *l, const char *ts, const char *signature, const char *wanted)
{
    struct http_header headers[2];
    size_t n = 0;
    char msg[80];
    if (ts)
        headers[n++] = (struct http_header){S("X-LB-Timestamp"), str_c(ts)};
    if (signature)
        headers[n++] = (struct http_header){S("X-LB-Signature"), str_c(signature)};
    auto_json a = NULL;
    int status = lab_raw(l, "POST", "/bots/" LAB_BOT, headers, n, S(HELLO), &a);
    snprintf(msg, sizeof msg, "invalid signature: %s", wanted);
    bool ok = status == 401 && code_of(a) == 40101 && str_eqz(json_s(a, "msg"), msg);
    if (!ok)
        print_error("%s: %d %s\n", wanted, status, json_z_or(a, "msg", ""));
    return ok;
}

static void signatures(struct lab *l)
{
    char ts[32], good[80], other[80], many[400];
    int64_t now = time_wall_us() / 1000000;
    lab_sign(S(HELLO), LAB_SECRET, now, ts, good);
    check(l, reason(l, NULL, NULL, "missing_headers") && reason(l, ts, NULL, "missing_headers"));
    check(l, reason(l, NULL, good, "missing_headers") && reason(l, ts, "", "missing_headers"));
    static const char *const odd[] = {"abc", "12x",  "nan",   "0x10", "2026-01-01T00:00:00Z",
                                      "inf", "-inf", "1e400", "-",    "1.5"};
    for (size_t i = 0; i < array_len(odd); i++)
        check(l, reason(l, odd[i], good, "bad_timestamp"));
    memset(many, '9', sizeof many - 1);
    many[sizeof many - 1] = '\0';
    check(l, reason(l, many, good, "expired") && reason(l, "0", good, "expired") &&
                 reason(l, "-9999999999", "x", "expired"));
    check(l, reason(l, ts, good + 7, "signature_mismatch") &&
                 reason(l, ts, "sha256=", "signature_mismatch"));
    lab_sign(S(HELLO), "outbound", now, ts, other);
    check(l, reason(l, ts, other, "signature_mismatch"));
    good[70] = good[70] == '0' ? '1' : '0';
    check(l, reason(l, ts, good, "signature_mismatch"));
    lab_sign(S(HELLO), LAB_SECRET, now - 302, ts, good);
    check(l, reason(l, ts, good, "expired"));
    lab_sign(S(HELLO), LAB_SECRET, now + 310, ts, good);
    check(l, reason(l, ts, good, "expired"));
    check(l, l->accepted_n == 0);
    struct error err = {0};
    check(l, lab_load(l, true, json_pack("{s:b}", "signature_required", 0), &err));
    check(l, lab_post(l, "", HELLO, NULL, NULL, NULL) == 202);
}

static void keys(struct lab *l)
{
    auto_json first = NULL;
    check(l, refused(l, "", HELLO, "wrong", "k1", 401, 40101));
    check(l, refused(l, "", "{\"session_id\":\"s\",\"message\":[{\"type\":\"Plain\"}]}", LAB_SECRET,
                     "k1", 400, 40001));
    l->refuse = ERR_UNAVAILABLE;
    check(l, refused(l, "", HELLO, LAB_SECRET, "k1", 503, 50301));
    l->refuse = ERR_INTERNAL;
    check(l, refused(l, "", HELLO, LAB_SECRET, "k1", 500, 50001));
    l->refuse = ERR_NONE;
    check(l, lab_post(l, "", HELLO, LAB_SECRET, "k1", &first) == 202);
    check(l, strlen(l->last_key) == 64);
    check(l, refused(l, "", HELLO, LAB_SECRET, "k1", 409, 40901));
    check(l, refused(l, "/sync", HELLO, LAB_SECRET, "k1", 409, 40901));
    /* Fields before the key, the chain after it. */
    check(l, refused(l, "", "{\"session_id\":\"s\"}", LAB_SECRET, "k1", 400, 40001));
    check(l, refused(l, "", "{\"session_id\":\"s\",\"message\":[{\"type\":\"Plain\"}]}", LAB_SECRET,
                     "k1", 409, 40901));
    check(l, lab_post(l, "", HELLO, LAB_SECRET, "K1", NULL) == 202);
    check(l, lab_post(l, "", HELLO, LAB_SECRET, "", NULL) == 202 &&
                 lab_post(l, "", HELLO, LAB_SECRET, "", NULL) == 202);
    check(l, lab_post(l, "/reset", "{\"session_id\":\"s1\"}", LAB_SECRET, "k1", NULL) == 200);
    /* What only the ledger knows. */
    l->duplicate = true;
    check(l, refused(l, "", HELLO, LAB_SECRET, "k2", 409, 40901));
    l->duplicate = false;
    check(l, refused(l, "", HELLO, LAB_SECRET, "k2", 409, 40901));
    time_shift_us(0, 601000000);
    check(l, lab_post(l, "", HELLO, LAB_SECRET, "k1", NULL) == 202);
}

static void routes_of_bots(struct lab *l)
{
    struct error err = {0};
    auto_json a = NULL;
    check(l, lab_raw(l, "POST", "/bots/0b8a4c0e-1111-4111-8111-00000000000f", NULL, 0, S("{}"),
                     &a) == 404);
    check(l, str_eqz(json_s(a, "error"), "Bot not found"));
    check(l, lab_raw(l, "POST", "/bots/websocket-proxy-bot", NULL, 0, S("{}"), NULL) == 404);
    check(l, lab_raw(l, "GET", "/bots/" LAB_BOT, NULL, 0, S(""), NULL) == 401);
    check(l, lab_load(l, false, NULL, &err));
    check(l, lab_post(l, "/sync", HELLO, LAB_SECRET, NULL, NULL) == 403);
    check(l, lab_load(l, true, NULL, &err));
    check(l, lab_post(l, "", HELLO, LAB_SECRET, NULL, NULL) == 202);
    check(l, fence_set(l->fence, l->scope.workspace, 1, false, &err));
    check(l, lab_post(l, "", HELLO, LAB_SECRET, NULL, NULL) == 404);
    check(l, fence_set(l->fence, l->scope.workspace, 1, true, &err));
    platform_unload(l->platform, &l->scope, LAB_BOT);
    check(l, lab_post(l, "", HELLO, LAB_SECRET, NULL, NULL) == 404 &&
                 platform_count(l->platform) == 0);
}

static void resets(struct lab *l)
{
    auto_json a = NULL;
    l->had_session = true;
    check(l, lab_post(l, "/reset", "{\"session_id\":\"s1\",\"session_type\":\"group\"}", LAB_SECRET,
                      NULL, &a) == 200);
    check(l, json_b_or(json_object_get(a, "data"), "removed", false) &&
                 strcmp(l->reset_id, "s1") == 0);
    check(l, l->reset_launcher == LAUNCHER_GROUP);
    json_decref(steal(a));
    check(l, lab_post(l, "/reset", "{\"session_id\":\"s1\"}", LAB_SECRET, NULL, &a) == 200);
    check(l, !json_b_or(json_object_get(a, "data"), "removed", true) &&
                 l->reset_launcher == LAUNCHER_PERSON);
    check(l, refused(l, "/reset", "{\"session_id\":\"s1\"}", "wrong", NULL, 401, 40101));
}

/* ---- /sync ------------------------------------------------------------------------------------------------------------------ */

struct call {
    struct lab *l;
    const char *body, *key;
    int status;
    json_t *answer;
    bool done;
};

static void call_sync(void *arg)
{
    struct call *c = arg;
    c->status = lab_post(c->l, "/sync", c->body, LAB_SECRET, c->key, &c->answer);
    c->done = true;
}

static void begin(struct lab *l, struct call *c, const char *body, const char *key)
{
    struct error err = {0};
    size_t n = l->accepted_n;
    *c = (struct call){.l = l, .body = body, .key = key};
    check(l, task_spawn(l->group, "sync", call_sync, c, &err));
    for (int i = 0; i < 300 && l->accepted_n == n; i++)
        lab_pause(10);
    check(l, l->accepted_n == n + 1);
}

static void ended(struct lab *l, struct call *c)
{
    for (int i = 0; i < 600 && !c->done; i++)
        lab_pause(10);
    check(l, c->done);
}

static void syncs(struct lab *l)
{
    struct call c, d;
    char id[64];
    begin(l, &c, HELLO, NULL);
    check(l, l->last_ephemeral);
    memcpy(id, l->last_id, sizeof id);
    check(l, refused(l, "/sync", HELLO, LAB_SECRET, "fresh", 409, 40901));
    begin(l, &d,
          "{\"session_id\":\"s1\",\"session_type\":\"group\",\"message\":[{\"type\":\"AtAll\"}]}",
          "kept");
    check(l, !l->last_ephemeral);
    /* Another message's answer goes by callback; of the own one each response counts once, with its last snapshot. */
    check(l, lab_reply(l, &(struct lab_part){.session = "s1",
                                             .message = "in_other",
                                             .turn = "t0",
                                             .text = "other",
                                             .final = true}) == REPLY_QUEUED);
    struct lab_part p = {
        .session = "s1", .message = id, .turn = "t1", .text = "a", .response = "r", .chunk = true};
    check(l, lab_reply(l, &p) == REPLY_SENT);
    p.text = "ab";
    check(l, lab_reply(l, &p) == REPLY_SENT);
    p.final = p.tool_calls = true;
    check(l, lab_reply(l, &p) == REPLY_SENT && !c.done);
    p.tool_calls = false;
    p.text = "cd";
    check(l, lab_reply(l, &p) == REPLY_SENT);
    ended(l, &c);
    const json_t *data = json_object_get(c.answer, "data"), *m = json_object_get(data, "message");
    check(l, c.status == 200 && str_eqz(json_s(c.answer, "msg"), "ok") &&
                 str_eqz(json_s(data, "reply_to"), id));
    check(l, json_array_size(m) == 2 && str_eqz(json_s(json_array_get(m, 0), "text"), "ab"));
    check(l, str_eqz(json_s(json_array_get(m, 1), "text"), "cd"));
    memcpy(id, l->last_id, sizeof id);
    check(l, lab_reply(l, &(struct lab_part){.session = "s1",
                                             .group = true,
                                             .message = id,
                                             .turn = "t2",
                                             .text = "g",
                                             .final = true,
                                             .kept = true,
                                             .delivery = "d1"}) == REPLY_SENT);
    ended(l, &d);
    check(l, d.status == 200 && lab_wait(l, 1) && l->got_n == 1 &&
                 strcmp(lab_text(l, 0), "other") == 0);
    check(l, lab_post(l, "", HELLO, LAB_SECRET, "fresh", NULL) ==
                 202); /* the refused one left its key alone */
    json_decref(c.answer);
    json_decref(d.answer);
}

static void sync_ends(struct lab *l)
{
    struct error err = {0};
    struct call c;
    check(l, lab_load(l, true, json_pack("{s:i}", "callback_timeout", 1), &err));
    l->discard = true;
    begin(l, &c, HELLO, NULL);
    ended(l, &c);
    check(l, c.status == 200 && json_array_size(json_at(c.answer, "data.message")) == 0);
    json_decref(c.answer);
    l->discard = false;
    int64_t from = time_mono_us();
    begin(l, &c, HELLO, NULL);
    ended(l, &c);
    check(l, c.status == 200 && time_mono_us() - from >= 3900000);
    check(l, json_is_array(json_at(c.answer, "data.message")) &&
                 json_array_size(json_at(c.answer, "data.message")) == 0);
    /* The late answer is not lost. */
    check(l, lab_reply(l, &(struct lab_part){.session = "s1",
                                             .message = l->last_id,
                                             .turn = "t",
                                             .text = "late",
                                             .final = true}) == REPLY_QUEUED);
    check(l, lab_wait(l, 1) && strcmp(lab_text(l, 0), "late") == 0);
    json_decref(c.answer);
    /* An answer that will not come is no empty success. */
    begin(l, &c, HELLO, NULL);
    platform_unload(l->platform, &l->scope, LAB_BOT);
    ended(l, &c);
    check(l, c.status == 503);
    json_decref(c.answer);
}

static void configurations(struct lab *l)
{
    struct error err = {0};
    static const struct {
        const char *key;
        const char *value; /* JSON */
        const char *says;
    } bad[] = {
        {"inbound_secret", "\"\"", "inbound_secret is required"},
        {"callback_url", "\"\"", "callback_url is required"},
        {"callback_url", "\"ftp://x\"", "callback_url must be"},
        {"callback_url", "5", "callback_url must be a text"},
        {"default_session_type", "\"room\"", "default_session_type must be one of"},
        {"signature_required", "5", "signature_required must be true or false"},
        {"callback_timeout", "\"soon\"", "callback_timeout must be an integer"},
        {"callback_timeout", "0", "callback_timeout must be 1 to"},
        {"callback_max_retries", "-1", "callback_max_retries must be 0 to"},
    };
    for (size_t i = 0; i < array_len(bad); i++) {
        err = (struct error){0};
        bool ok = lab_load(
            l, true,
            json_pack("{s:o}", bad[i].key, json_loads(bad[i].value, JSON_DECODE_ANY, NULL)), &err);
        check(l, !ok && err.code == ERR_INVALID && strstr(err.msg, bad[i].says) != NULL);
        if (!strstr(err.msg, bad[i].says))
            print_error("%s\n", err.msg);
    }
    check(l, lab_post(l, "", HELLO, LAB_SECRET, NULL, NULL) == 202); /* the old one goes on */
    check(l, lab_load(l, false, json_pack("{s:s}", "callback_url", ""),
                      &err)); /* may be filled in later */
    auto_json off = json_pack("{s:s,s:s,s:{s:s},s:b}", "uuid", "x", "adapter", "http_bot",
                              "adapter_config", "inbound_secret", "s", "enable", 0);
    check(l, platform_check(l->platform, &l->scope, off, &err));
    json_object_set_new(off, "enable", json_true());
    check(l, !platform_check(l->platform, &l->scope, off, &err));
    const json_t *c = bot_config(lab_bot(l));
    check(l, json_i_or(c, "callback_timeout", 0) == 15 &&
                 json_i_or(c, "callback_max_retries", 0) == 3);
    check(l, strcmp(bot_account_id(lab_bot(l)), "http_bot") == 0 && bot_streams(lab_bot(l)));
}

#define CASE(name)                        \
    static void test_##name(void **state) \
    {                                     \
        lab_run(name);                    \
    }
CASE(accepts)
CASE(group_events)
CASE(bad_requests)
CASE(sizes)
CASE(signatures)
CASE(keys)
CASE(routes_of_bots)
CASE(resets)
CASE(syncs)
CASE(sync_ends)
CASE(configurations)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),        cmocka_unit_test(test_group_events),
        cmocka_unit_test(test_bad_requests),   cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_signatures),     cmocka_unit_test(test_keys),
        cmocka_unit_test(test_routes_of_bots), cmocka_unit_test(test_resets),
        cmocka_unit_test(test_syncs),          cmocka_unit_test(test_sync_ends),
        cmocka_unit_test(test_configurations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
