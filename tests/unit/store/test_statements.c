/* The hand-written statements of store/ on both engines, each also from a foreign workspace. */
#include "store/fixture.h"

#include <setjmp.h>
#include <stdio.h>
#include <cmocka.h>

static enum db_kind kind;

static void on_engine(enum db_kind k, int (*fn)(void *arg))
{
    const struct pg_server *pg = k == DB_POSTGRES ? fixture_server() : NULL;
    if (k == DB_POSTGRES && !pg) {
        skip();
    }
    kind = k;
    base_init();
    assert_int_equal(task_run(fn, (void *)(uintptr_t)pg), 0);
}

#define BOTH(name)                            \
    static void name##_sqlite(void **state)   \
    {                                         \
        on_engine(DB_SQLITE, name);           \
    }                                         \
    static void name##_postgres(void **state) \
    {                                         \
        on_engine(DB_POSTGRES, name);         \
    }

#define MUST(call)                            \
    do {                                      \
        if (!(call)) {                        \
            fail_msg("%s: %s", #call, e.msg); \
        }                                     \
    } while (0)

/* ---- ledger ---- */

struct step {
    const struct scope *scope;
    const char *state;
    const json_t *ids;
    const struct delivery *d;
};

static bool do_state(struct db_tx *tx, void *arg, struct error *err)
{
    const struct step *s = arg;
    return ledger_state(tx, s->scope, s->ids, s->state, NULL, err);
}

static bool do_reply(struct db_tx *tx, void *arg, struct error *err)
{
    const struct step *s = arg;
    return ledger_reply(tx, s->scope, s->d, err);
}

static size_t open_messages(struct fixture *f, const struct scope *s)
{
    struct error e;
    auto_json rows = ledger_open_messages(&f->st, s, 0, 100, &e);
    MUST(rows);
    return json_array_size(rows);
}

static size_t open_deliveries(struct fixture *f, const struct scope *s)
{
    struct error e;
    auto_json rows = ledger_open_deliveries(&f->st, s, 0, 100, &e);
    MUST(rows);
    return json_array_size(rows);
}

static int ledger(void *arg)
{
    struct fixture f;
    struct error e;
    fixture_open(&f, kind, arg);
    struct inbound m = {.id = "in_1",
                        .bot = "bot",
                        .pipeline = "p",
                        .dedupe_key = "k1",
                        .launcher_type = "person",
                        .launcher_id = "u",
                        .sender_id = "u",
                        .routed = true,
                        .payload = S("{\"a\":1}")};
    MUST(ledger_accept(&f.st, &f.a, &m, &e));
    m.id = "in_2";
    assert_false(ledger_accept(&f.st, &f.a, &m, &e));
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_string_equal(e.tag, "duplicate");
    m.dedupe_key = NULL;
    MUST(ledger_accept(&f.st, &f.a, &m, &e));
    m.id = "in_3";
    m.dedupe_key = "k1";
    MUST(ledger_accept(&f.st, &f.b, &m, &e)); /* another workspace's key */
    assert_int_equal(open_messages(&f, &f.a), 2);
    assert_int_equal(open_messages(&f, &f.b), 1);
    /* A foreign state change changes nothing. */
    auto_json ids = json_pack("[s, s]", "in_1", "in_2");
    struct step s = {.scope = &f.b, .state = "done", .ids = ids};
    MUST(db_write(f.st.db, scope_db(&f.b), do_state, &s, &e));
    assert_int_equal(open_messages(&f, &f.a), 2);
    s.scope = &f.a;
    s.state = "running";
    MUST(db_write(f.st.db, scope_db(&f.a), do_state, &s, &e));
    assert_int_equal(open_messages(&f, &f.a), 2);
    s.state = "done";
    MUST(db_write(f.st.db, scope_db(&f.a), do_state, &s, &e));
    assert_int_equal(open_messages(&f, &f.a), 0);
    struct delivery d = {.id = "d1",
                         .bot = "bot",
                         .message_id = "in_1",
                         .session_key = "person_u",
                         .number = 1,
                         .is_final = true,
                         .payload = S("{\"chain\":[]}")};
    s.d = &d;
    MUST(db_write(f.st.db, scope_db(&f.a), do_reply, &s, &e));
    assert_int_equal(open_deliveries(&f, &f.a), 1);
    assert_int_equal(open_deliveries(&f, &f.b), 0);
    MUST(ledger_delivered(&f.st, &f.b, "d1", "sent", 1, NULL, &e));
    MUST(db_drain(f.st.db, &e));
    assert_int_equal(open_deliveries(&f, &f.a), 1);
    MUST(ledger_delivered(&f.st, &f.a, "d1", "sent", 1, NULL, &e));
    MUST(db_drain(f.st.db, &e));
    assert_int_equal(open_deliveries(&f, &f.a), 0);
    auto_json health = ledger_health(&f.st, &f.a, "bot", &e);
    MUST(health);
    assert_int_equal(json_i_or(health, "received", -1), 2);
    assert_int_equal(json_i_or(health, "delivered", -1), 1);
    assert_int_equal(json_i_or(health, "pending", -1), 0);
    assert_true(json_is_string(json_object_get(health, "last_message_at")));
    auto_json list = ledger_list(&f.st, &f.a, "bot", NULL, NULL, 10, 0, &e);
    MUST(list);
    assert_int_equal(json_i_or(list, "total", -1), 2);
    auto_json sent = ledger_list(&f.st, &f.a, "bot", "sent", NULL, 10, 0, &e);
    MUST(sent);
    /* Received messages that the process says it runs are shown so; others never are. */
    auto_json waits = ledger_list(&f.st, &f.a, "bot", "received", NULL, 10, 0, &e);
    MUST(waits);
    int64_t open = json_i_or(waits, "total", -1);
    auto_json listed = json_array();
    size_t i;
    json_t *row;
    json_array_foreach (json_object_get(list, "deliveries"), i, row)
        json_array_append(listed, json_object_get(row, "id"));
    json_array_append_new(listed, json_string("one more"));
    auto_json runs = ledger_list(&f.st, &f.a, "bot", "running", listed, 10, 0, &e);
    MUST(runs);
    assert_int_equal(json_i_or(runs, "total", -1), open);
    assert_int_equal(json_array_size(json_object_get(runs, "deliveries")), (size_t)open);
    json_array_foreach (json_object_get(runs, "deliveries"), i, row)
        assert_string_equal(json_z_or(row, "state", ""), "running");
    auto_json none = ledger_list(&f.st, &f.a, "bot", "received", listed, 10, 0, &e);
    MUST(none);
    assert_int_equal(json_i_or(none, "total", -1), 0);
    auto_json nobody = ledger_list(&f.st, &f.b, "none", NULL, NULL, 10, 0, &e);
    MUST(nobody);
    assert_int_equal(json_i_or(nobody, "total", -1), 0);
    /* Kept while a repetition may come, gone afterwards. */
    int64_t deleted = -1;
    MUST(ledger_prune(&f.st, &f.a, 0, 100, &deleted, &e));
    assert_int_equal(deleted, 0);
    time_shift_us(INT64_C(3600) * 1000000, 0);
    MUST(ledger_prune(&f.st, &f.a, 0, 100, &deleted, &e));
    assert_int_equal(deleted, 3);
    assert_int_equal(open_messages(&f, &f.b), 1);
    time_shift_us(INT64_C(-3600) * 1000000, 0);
    fixture_close(&f);
    return 0;
}
BOTH(ledger)

/* ---- sessions ---- */

struct talk {
    const struct scope *scope;
    json_t *session, *conversation, *turn;
};

static bool do_talk(struct db_tx *tx, void *arg, struct error *err)
{
    const struct talk *t = arg;
    return session_save(tx, t->scope, t->session, t->conversation, err) &&
           session_append_turn(tx, t->scope, "c1", t->turn, err) &&
           session_cut_turns(tx, t->scope, "c1", 2, err);
}

static int sessions(void *arg)
{
    struct fixture f;
    struct error e;
    fixture_open(&f, kind, arg);
    auto_json session =
        json_pack("{s:s, s:s, s:s, s:s, s:s}", "bot_uuid", "b", "launcher_type", "person",
                  "launcher_id", "l", "sender_id", "s", "conversation_id", "c1");
    auto_json conversation =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:{s:s}}", "id", "c1", "bot_uuid", "b",
                  "pipeline_uuid", "p", "launcher_type", "person", "launcher_id", "l", "uuid",
                  "pub", "prompt", "role", "system");
    for (int i = 0; i < 3; i++) {
        auto_json turn = json_pack("[{s:i}]", "n", i);
        struct talk t = {
            .scope = &f.a, .session = session, .conversation = conversation, .turn = turn};
        MUST(db_write(f.st.db, scope_db(&f.a), do_talk, &t, &e));
    }
    auto_json got = session_load(&f.st, &f.a, "b", "person", "l", 10, &e);
    MUST(got);
    json_t *turns = json_object_get(got, "turns");
    assert_int_equal(json_array_size(turns), 2);
    assert_int_equal(json_i_or(json_array_get(json_array_get(turns, 1), 0), "n", -1), 2);
    assert_string_equal(json_z(json_object_get(got, "conversation"), "uuid"), "pub");
    assert_null(session_load(&f.st, &f.b, "b", "person", "l", 10, &e));
    assert_int_equal(e.code, ERR_NOT_FOUND);
    int64_t n = -1, c = -1;
    MUST(session_counts(&f.st, &f.a, &n, &c, &e));
    assert_int_equal(n, 1);
    assert_int_equal(c, 1);
    bool removed = true;
    MUST(session_remove(&f.st, &f.b, "b", "person", "l", &removed, &e));
    assert_false(removed);
    MUST(session_remove(&f.st, &f.a, "b", "person", "l", &removed, &e));
    assert_true(removed);
    assert_null(session_load(&f.st, &f.a, "b", "person", "l", 10, &e));
    fixture_close(&f);
    return 0;
}
BOTH(sessions)

/* ---- monitoring ---- */

struct record {
    const struct scope *scope;
    const char *kind;
    json_t *row;
};

static bool do_record(struct db_tx *tx, void *arg, struct error *err)
{
    const struct record *r = arg;
    return monitor_write(tx, r->scope, r->kind, r->row, err);
}

static void record(struct fixture *f, const char *what, json_t *row)
{
    struct error e;
    struct record r = {.scope = &f->a, .kind = what, .row = row};
    assert_non_null(row);
    if (!db_write(f->st.db, scope_db(&f->a), do_record, &r, &e)) {
        fail_msg("%s: %s", what, e.msg);
    }
    json_decref(row);
}

static json_t *common(const char *id)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "id", id, "timestamp",
                     "2026-01-02T03:04:05.5", "bot_id", "b", "bot_name", "B", "pipeline_id", "p",
                     "pipeline_name", "P", "session_id", "person_1", "status", "success");
}

static json_t *with(json_t *row, json_t *more)
{
    json_object_update(row, more);
    json_decref(more);
    return row;
}

static void record_all(struct fixture *f)
{
    record(f, "message",
           with(common("m1"), json_pack("{s:s, s:s}", "message_content", "hi", "level", "info")));
    record(f, "message",
           with(common("m2"), json_pack("{s:s, s:s, s:s}", "message_content", "ho", "level", "info",
                                        "role", "assistant")));
    record(f, "message_update", json_pack("{s:s, s:s}", "id", "m1", "status", "error"));
    record(f, "llm_call",
           with(common("l1"), json_pack("{s:s, s:i, s:i, s:i, s:i, s:f, s:s}", "model_name", "gpt",
                                        "input_tokens", 1, "output_tokens", 2, "total_tokens", 3,
                                        "duration", 40, "cost", 0.5, "message_id", "m1")));
    record(f, "tool_call",
           with(common("t1"), json_pack("{s:s, s:s, s:i, s:s}", "tool_name", "exec", "tool_source",
                                        "native", "duration", 3, "message_id", "m1")));
    json_t *e = common("e1");
    json_object_del(e, "status");
    record(f, "error",
           with(e, json_pack("{s:s, s:s, s:s}", "error_type", "Boom", "error_message", "x",
                             "message_id", "m1")));
    record(f, "embedding_call",
           json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:s}", "id", "v1", "timestamp",
                     "2026-01-02T03:04:05", "model_name", "e", "prompt_tokens", 1, "total_tokens",
                     1, "duration", 1, "input_count", 1, "status", "success", "knowledge_base_id",
                     "k"));
    for (int i = 0; i < 2; i++) {
        record(f, "session",
               json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "bot_id", "b", "session_id",
                         "person_1", "bot_name", "B", "pipeline_id", "p", "pipeline_name", "P",
                         "start_time", "2026-01-02T03:04:05", "last_activity",
                         "2026-01-02T03:04:06"));
        record(f, "feedback",
               json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:s}", "pipeline_id", "p", "timestamp",
                         "2026-01-02T03:04:05", "feedback_id", "f1", "feedback_type", i + 1,
                         "message_id", "m1", "bot_id", "b", "session_id", "person_1"));
    }
}

static void expect_rows(struct fixture *f, const struct table *t, int64_t want)
{
    struct error e;
    struct monitor_filter all = {.limit = 50, .active = -1};
    auto_json a = monitor_list(&f->st, &f->a, t, &all, &e);
    if (!a) {
        fail_msg("%s: %s", t->name, e.msg);
    }
    assert_int_equal(json_i_or(a, "total", -1), want);
    auto_json b = monitor_list(&f->st, &f->b, t, &all, &e);
    MUST(b);
    assert_int_equal(json_i_or(b, "total", -1), 0);
}

static int monitoring(void *arg)
{
    struct fixture f;
    struct error e;
    fixture_open(&f, kind, arg);
    record_all(&f);
    expect_rows(&f, &table_mon_messages, 2);
    expect_rows(&f, &table_mon_llm_calls, 1);
    expect_rows(&f, &table_mon_tool_calls, 1);
    expect_rows(&f, &table_mon_sessions, 1);
    expect_rows(&f, &table_mon_errors, 1);
    expect_rows(&f, &table_mon_embedding_calls, 1);
    expect_rows(&f, &table_mon_feedback, 1);
    auto_json bots = json_pack("[s, s]", "b", "other");
    auto_json pipelines = json_pack("[s]", "p");
    auto_json ids = json_pack("[s]", "person_1");
    int64_t from, to;
    assert_true(time_parse(S("2026-01-01T00:00:00"), &from));
    assert_true(time_parse(S("2026-01-03T00:00:00"), &to));
    struct monitor_filter some = {.bots = bots,
                                  .pipelines = pipelines,
                                  .sessions = ids,
                                  .from_us = from,
                                  .to_us = to,
                                  .limit = 10,
                                  .active = 1,
                                  .feedback_type = 2,
                                  .knowledge_base = "k"};
    const struct table *const tables[] = {&table_mon_messages,   &table_mon_llm_calls,
                                          &table_mon_tool_calls, &table_mon_sessions,
                                          &table_mon_errors,     &table_mon_feedback};
    for (size_t i = 0; i < array_len(tables); i++) {
        auto_json found = monitor_list(&f.st, &f.a, tables[i], &some, &e);
        MUST(found);
        assert_int_equal(json_i_or(found, "total", -1), tables[i] == &table_mon_messages ? 2 : 1);
    }
    auto_json overview = monitor_overview(&f.st, &f.a, &some, &e);
    MUST(overview);
    auto_json hours = monitor_tokens(&f.st, &f.a, &some, false, 100, &e);
    auto_json days = monitor_tokens(&f.st, &f.a, &some, true, 100, &e);
    MUST(hours);
    MUST(days);
    auto_json analysis = monitor_session_analysis(&f.st, &f.a, "person_1", 100, &e);
    MUST(analysis);
    auto_json details = monitor_message_details(&f.st, &f.a, "m1", 100, &e);
    MUST(details);
    assert_null(monitor_message_details(&f.st, &f.b, "m1", 100, &e));
    assert_int_equal(e.code, ERR_NOT_FOUND);
    auto_json feedback = monitor_feedback_stats(&f.st, &f.a, &some, &e);
    MUST(feedback);
    auto_json counts = monitor_counts(&f.st, &f.a, &e);
    MUST(counts);
    int64_t deleted = -1;
    MUST(monitor_prune(&f.st, &f.b, time_wall_us(), 10, 10, &deleted, &e));
    assert_int_equal(deleted, 0);
    MUST(monitor_prune(&f.st, &f.a, time_wall_us(), 10, 10, &deleted, &e));
    assert_true(deleted >= 6);
    expect_rows(&f, &table_mon_messages, 0);
    fixture_close(&f);
    return 0;
}
BOTH(monitoring)

/* ---- identity: a store without the fixture's people ---- */

static int identity(void *arg)
{
    struct fixture f;
    struct error e;
    bool any = true;
    int64_t n;
    fixture_open(&f, kind, arg);
    snprintf(f.st.instance, sizeof(f.st.instance), "instance_0b1e1f06-9f0e-4b62-9a53-111111111111");
    MUST(store_do_delete(&f.st, &table_users, NULL, NULL, 0, &n, &e));
    MUST(store_start(&f.st, &e));
    MUST(account_any(&f.st, &any, &e));
    assert_false(any);
    struct scope s;
    memset(&e, 0x5a, sizeof(e)); /* what a stack holds */
    assert_null(account_find(&f.st, NULL, "nobody@example.org", &e));
    assert_int_equal(e.code, ERR_NOT_FOUND);
    auto_json account = account_create_first(&f.st, S("First@Example.org"), "phc", &s, &e);
    MUST(account);
    auto_json second = account_create_first(&f.st, S("b@example.org"), "phc", &s, &e);
    assert_null(second);
    assert_string_equal(e.tag, "registration_closed");
    const char *uuid = json_z(account, "uuid");
    memset(&e, 0x5a, sizeof(e));
    auto_json found = account_find(&f.st, NULL, "first@example.org", &e);
    MUST(found);
    assert_string_equal(json_z(found, "uuid"), uuid);
    int64_t revision = -1;
    MUST(account_set_password(&f.st, uuid, "phc2", &revision, &e));
    assert_int_equal(revision, 1);
    auto_json flags = account_flags(&f.st, &e);
    MUST(flags);
    struct principal p = {.kind = PRINCIPAL_ACCOUNT};
    snprintf(p.account, sizeof(p.account), "%s", uuid);
    MUST(identity_resolve(&f.st, uuid, s.workspace, &p, &e));
    assert_int_equal(p.role, ROLE_OWNER);
    assert_false(identity_resolve(&f.st, uuid, f.a.workspace, &p, &e));
    assert_int_equal(e.code, ERR_NOT_FOUND);
    MUST(identity_resolve(&f.st, uuid, s.workspace, &p, &e));
    auto_json boot = identity_bootstrap(&f.st, uuid, &e);
    MUST(boot);
    assert_int_equal(json_array_size(json_object_get(boot, "workspaces")), 1);
    auto_json current = identity_current(&f.st, &p, &e);
    MUST(current);
    struct fence *fence = fence_new(f.st.instance);
    MUST(identity_load_fence(&f.st, fence, &e));
    struct scope single;
    MUST(fence_singleton(fence, &single, &e));
    assert_string_equal(single.workspace, s.workspace);
    fence_free(fence);
    /* Keys. */
    static const char hash[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    auto_json key = json_pack("{s:s, s:s, s:[s]}", "name", "k", "key_hash", hash, "scopes", "*");
    auto_json stored = store_do_insert(&f.st, &table_api_keys, &s, key, &e);
    MUST(stored);
    struct principal q = {0};
    MUST(identity_api_key(&f.st, hash, &q, &e));
    assert_string_equal(q.scope.workspace, s.workspace);
    assert_false(identity_api_key(&f.st, "ff", &q, &e));
    assert_int_equal(e.code, ERR_UNAUTHORIZED);
    /* Invitations and members. */
    auto_json invitation =
        invitation_create(&f.st, &p, S("new@example.org"), S("viewer"), "hash1", &e);
    MUST(invitation);
    auto_json pending = invitations_pending(&f.st, &s, &e);
    MUST(pending);
    auto_json inspected = invitation_inspect(&f.st, "hash1", &e);
    MUST(inspected);
    auto_json joined = invitation_register(&f.st, "hash1", S("new@example.org"), "phc", &e);
    MUST(joined);
    auto_json members = members_list(&f.st, &s, &e);
    MUST(members);
    auto_json other = account_find(&f.st, NULL, "new@example.org", &e);
    MUST(other);
    auto_json role = member_set_role(&f.st, &p, json_z(other, "uuid"), S("operator"), &e);
    MUST(role);
    MUST(member_remove(&f.st, &p, json_z(other, "uuid"), &e));
    auto_json again =
        invitation_create(&f.st, &p, S("third@example.org"), S("viewer"), "hash2", &e);
    MUST(again);
    const char *id = json_z(again, "uuid");
    auto_json revoked = invitation_revoke(
        &f.st, &p, id ? id : json_z(json_object_get(again, "invitation"), "uuid"), &e);
    MUST(revoked);
    MUST(invitations_expire(&f.st, &s, &n, &e));
    /* Workspace metadata. */
    MUST(workspace_meta_set(&f.st, &s, "wizard_status", "skipped", &e));
    MUST(workspace_meta_set(&f.st, &s, "wizard_status", "completed", &e));
    auto_json meta = workspace_meta_get(&f.st, &s, "wizard_status", &e);
    MUST(meta);
    assert_string_equal(json_string_value(meta), "completed");
    auto_json none = workspace_meta_get(&f.st, &f.a, "wizard_status", &e);
    MUST(none);
    assert_true(json_is_null(none));
    MUST(workspace_meta_set(&f.st, &s, "wizard_status", NULL, &e));
    /* The database stays with its instance. */
    struct store stranger = f.st;
    snprintf(stranger.instance, sizeof(stranger.instance),
             "instance_0b1e1f06-9f0e-4b62-9a53-222222222222");
    assert_false(store_start(&stranger, &e));
    assert_int_equal(e.code, ERR_CONFLICT);
    MUST(store_start(&f.st, &e));
    fixture_close(&f);
    return 0;
}
BOTH(identity)

static int stop(void **state)
{
    fixture_server_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ledger_sqlite),       cmocka_unit_test(sessions_sqlite),
        cmocka_unit_test(monitoring_sqlite),   cmocka_unit_test(identity_sqlite),
        cmocka_unit_test(ledger_postgres),     cmocka_unit_test(sessions_postgres),
        cmocka_unit_test(monitoring_postgres), cmocka_unit_test(identity_postgres),
    };
    return cmocka_run_group_tests(tests, NULL, stop);
}
