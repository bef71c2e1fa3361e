/* The way of a message through the engine: acceptance, gathering, lanes, turns, crashes. pipeline.md §4, §5, §12. */
#include "pipeline/lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define LAB_TEST(name, yaml)                \
    static void name##_body(struct lab *l); \
    static void name(void **state)          \
    {                                       \
        lab_run_with(name##_body, yaml);    \
    }                                       \
    static void name##_body(struct lab *l)

#define GATHER "{\"trigger\":{\"message-aggregation\":{\"enabled\":true,\"delay\":1.0}}}"

LAB_TEST(one_message, "{}")
{
    check(l, lab_say(l, "ann", NULL, "hi"));
    check(l, lab_wait(l, 1));
    lab_idle(l);
    check(l, l->n == 1);
    check_text(l, lab_text(l, 0), "echo: hi");
    const struct lab_part *p = &l->parts[0];
    check(l, p->is_final && !p->is_chunk && p->number == 1 && p->delivery[0] && !p->response[0]);
    check_text(l, p->launcher, "ann");
    check(l, lab_count(l, "SELECT count(*) FROM parley_messages WHERE state = 'done'") == 1);
    check(l,
          lab_count(
              l, "SELECT count(*) FROM parley_deliveries WHERE state = 'sent' AND is_final = 1") ==
              1);
    check(l, lab_count(l, "SELECT count(*) FROM parley_turns") == 1);
    check(l,
          lab_count(l, "SELECT count(*) FROM monitoring_messages WHERE status = 'success'") == 2);
    check(
        l,
        lab_count(
            l,
            "SELECT count(*) FROM monitoring_messages WHERE role = 'user' AND variables LIKE '%user_message_text%' AND "
            "instr(variables, '\"_') = 0") == 1);
    check(l, lab_count(l, "SELECT message_count FROM monitoring_sessions") == 1);
    struct engine_stats s;
    engine_stats_get(l->engine, &s);
    check(l, s.accepted == 1 && s.answered == 1 && s.failed == 0 && s.queued == 0 &&
                 s.workspaces == 0 && s.sessions == 1);
    struct error err = {0};
    auto_json basic = engine_basic_stats(l->engine, &l->scope, &err);
    check(l, json_i_or(basic, "query_count", -1) == 1 &&
                 json_i_or(basic, "conversation_count", -1) == 1);
    auto_json other = engine_basic_stats(l->engine, &l->scope2, &err);
    check(l, json_i_or(other, "query_count", -1) == 0);
}

LAB_TEST(streamed, "{}")
{
    l->adapter.streaming = true;
    check(l, lab_say(l, "ann", NULL, "hi") && lab_wait(l, 3));
    lab_idle(l);
    check(l, l->n == 3 && l->cards == 1);
    for (size_t i = 0; i < l->n; i++) {
        check(l, l->parts[i].is_chunk && l->parts[i].is_final == (i == 2));
        check(l, (l->parts[i].delivery[0] != 0) ==
                     (i == 2)); /* only the whole answer is in the ledger */
        check_text(l, l->parts[i].response, l->parts[0].response);
    }
    check(l, l->parts[0].response[0] != 0);
    check_text(l, lab_text(l, 2), "echo: hi");
    check(l, lab_count(l, "SELECT count(*) FROM parley_deliveries") == 1);
    check(l, lab_count(l, "SELECT count(*) FROM parley_turns") == 1);
    /* A message that wants none gets none. */
    struct accepted out;
    struct error err;
    check(l, lab_accept(l, &(struct lab_say){.sender = "ann", .text = "x", .no_stream = true}, &out,
                        &err));
    lab_idle(l);
    check(l, l->n == 4 && !l->parts[3].is_chunk && l->parts[3].is_final);
}

static bool long_stream(struct lab *l, const struct agent_run *r, struct error *err)
{
    auto_buf text = BUF(1 << 20);
    size_t most = 0;
    for (int i = 1; i <= 4000; i++) {
        buf_z(&text, "word ");
        auto_json m = llm_message("assistant", buf_view(&text));
        struct agent_output o = {
            .message = m, .is_chunk = true, .is_final = i == 4000, .sequence = i};
        long before = mem_live();
        if (!r->emit(r->arg, &o, err))
            return false;
        /* the lab keeps what it saw: text, chain, component and two strings; no more may stay */
        if (i > 10 && i < 3900 && mem_live() - before > (long)most)
            most = (size_t)(mem_live() - before);
    }
    lab_check(l, most <= 16, "a part leaves nothing behind", __FILE__, __LINE__);
    lab_check(l, arena_used(r->query->arena) < 64 << 10, "the arena does not grow with the stream",
              __FILE__, __LINE__);
    return true;
}

LAB_TEST(long_streams_stay_small, "{}")
{
    l->adapter.streaming = true;
    l->run = long_stream;
    lab_pipe(l, LAB_PIPE, "{\"output\":{\"long-text-processing\":{\"strategy\":\"forward\"}}}");
    check(l, lab_say(l, "ann", NULL, "hi"));
    lab_idle(l);
    check(l, l->n == 4000);
    check(l, chain_has(l->parts[3999].chain, "Forward"));
    check(l, !chain_has(l->parts[3998].chain, "Forward"));
}

/* ---- gathering ------------------------------------------------------------------------------------------------------- */

LAB_TEST(gathers, "{}")
{
    lab_pipe(l, LAB_PIPE, GATHER);
    struct accepted out;
    struct error err;
    check(
        l,
        lab_accept(
            l,
            &(struct lab_say){
                .sender = "ann",
                .chain =
                    "[{\"type\":\"Source\",\"id\":\"s1\",\"timestamp\":1},{\"type\":\"Plain\",\"text\":\"a\"}]",
                .id = "in_1"},
            &out, &err));
    check(l, out.aggregating && !out.duplicate);
    check(
        l,
        lab_accept(
            l,
            &(struct lab_say){
                .sender = "ann",
                .chain =
                    "[{\"type\":\"Source\",\"id\":\"s2\",\"timestamp\":1},{\"type\":\"Plain\",\"text\":\"b\"}]",
                .id = "in_2"},
            &out, &err));
    check(l, lab_say(l, "bob", NULL, "other"));
    struct engine_stats s;
    engine_stats_get(l->engine, &s);
    check(l, s.aggregating == 2 && s.queued == 3 && s.running == 0);
    check(l, lab_wait(l, 2));
    lab_idle(l);
    check(l, l->n == 2);
    bool swapped = strcmp(l->parts[0].launcher, "bob") == 0;
    check_text(l, lab_text(l, swapped), "echo: a\nb");
    check_text(l, l->parts[swapped].message, "in_1");
    check_text(l, lab_text(l, !swapped), "echo: other");
    check(l, lab_count(l, "SELECT count(*) FROM parley_messages WHERE state = 'done'") == 3);
    check(l, lab_count(l, "SELECT count(*) FROM parley_deliveries") == 2);
}

LAB_TEST(ten_are_enough, "{}")
{
    lab_pipe(l, LAB_PIPE,
             "{\"trigger\":{\"message-aggregation\":{\"enabled\":true,\"delay\":10}}}");
    for (int i = 0; i < 10; i++)
        check(l, lab_say(l, "ann", NULL, "x"));
    check(l, lab_wait(l, 1));
    check_text(l, lab_text(l, 0), "echo: x\nx\nx\nx\nx\nx\nx\nx\nx\nx");
    struct engine_stats s;
    engine_stats_get(l->engine, &s);
    check(l, s.aggregating == 0);
    lab_idle(l);
}

LAB_TEST(groups_gather_together, "{}")
{
    lab_pipe(
        l, LAB_PIPE,
        "{\"trigger\":{\"message-aggregation\":{\"enabled\":true,\"delay\":1},\"group-respond-rules\":{\"random\":1.0}}}");
    check(l, lab_say(l, "ann", "g", "a") && lab_say(l, "bob", "g", "b") &&
                 lab_say(l, "bob", "h", "c"));
    check(l, lab_wait(l, 2));
    lab_idle(l);
    check(l, l->n == 2);
    int at = strcmp(l->parts[0].sender, "bob") == 0; /* the groups do not wait for each other */
    check_text(l, l->parts[at].sender, "ann");       /* of the first */
    check(l, strstr(lab_text(l, at), "a\nb") != NULL);
}

LAB_TEST(merge_keeps_routed, "{}")
{
    lab_pipe(l, LAB_PIPE, "{\"trigger\":{\"message-aggregation\":{\"enabled\":true,\"delay\":1}}}");
    auto_json rules = json_pack("[{s:s,s:s,s:s,s:s}]", "type", "message_content", "operator",
                                "contains", "value", "now", "pipeline_uuid", LAB_PIPE);
    json_object_set(lab_bot(l, 0)->row, "pipeline_routing_rules", rules);
    check(l, lab_say(l, "ann", "g", "first")); /* alone it would not be for the bot */
    check(l, lab_say(l, "ann", "g", "now"));
    check(l, lab_wait(l, 1));
    lab_idle(l);
    check(l, l->n == 1 && json_is_true(json_object_get(l->variables, "_routed_by_rule")));
}

LAB_TEST(a_stop_flushes, "{}")
{
    lab_pipe(l, LAB_PIPE,
             "{\"trigger\":{\"message-aggregation\":{\"enabled\":true,\"delay\":10}}}");
    check(l, lab_say(l, "ann", NULL, "a") && lab_say(l, "ann", NULL, "b") &&
                 lab_say(l, "bob", NULL, "c"));
    lab_pipe(l, LAB_PIPE, "{}");
    lab_restart(l);
    check(l, lab_wait(l, 3)); /* from the ledger, in order */
    lab_idle(l);
    check(l, l->n == 3 && l->runs == 3);
    check(l, lab_count(l, "SELECT count(*) FROM parley_messages WHERE state = 'done'") == 3);
}

/* ---- admission --------------------------------------------------------------------------------------------------------- */

LAB_TEST(admission, "concurrency: {pending_queries: 3, pending_queries_per_workspace: 2}")
{
    struct accepted out;
    struct error err;
    l->hold = true;
    check(l, lab_say(l, "a", NULL, "1") && lab_say(l, "b", NULL, "2"));
    check(l, !lab_accept(l, &(struct lab_say){.sender = "c", .text = "3"}, &out, &err));
    check(l, err.code == ERR_UNAVAILABLE && err_http(&err) == 503 &&
                 strcmp(err.tag, "overloaded") == 0);
    check(l, strstr(err.msg, "concurrency.pending_queries_per_workspace") != NULL);
    struct bot *other = lab_bot(l, 2); /* another workspace has its own share */
    check(l,
          lab_accept(l, &(struct lab_say){.bot = other, .sender = "a", .text = "x"}, &out, &err));
    check(l,
          !lab_accept(l, &(struct lab_say){.bot = other, .sender = "b", .text = "y"}, &out, &err));
    struct engine_stats s;
    engine_stats_get(l->engine, &s);
    check(l, s.refused == 2 && s.accepted == 3);
    check(l, lab_count(l, "SELECT count(*) FROM parley_messages") <= 3);
    lab_release(l);
    lab_idle(l);
    check(l, l->n == 2); /* the other workspace has no such pipeline: closed without an answer */
    check(l, lab_count(l, "SELECT count(*) FROM parley_messages WHERE state = 'discarded'") == 1);
    check(l, lab_say(l, "c", NULL, "4"));
    lab_idle(l);
    check(l, l->n == 3);
}

LAB_TEST(duplicates, "{}")
{
    struct accepted out;
    struct error err;
    struct lab_say m = {.sender = "ann", .text = "hi", .key = "k1"};
    check(l, lab_accept(l, &m, &out, &err) && !out.duplicate);
    check(l, lab_accept(l, &m, &out, &err) && out.duplicate);
    lab_idle(l);
    check(l, l->n == 1);
    m.bot = lab_bot(l, 1); /* the key is the bot's own */
    check(l, lab_accept(l, &m, &out, &err) && !out.duplicate);
    lab_idle(l);
    check(l, l->n == 2);
    struct engine_stats s;
    engine_stats_get(l->engine, &s);
    check(l, s.duplicates == 1 && s.accepted == 2 && s.queued == 0);
}

LAB_TEST(ephemeral, "{}")
{
    struct accepted out;
    struct error err;
    check(l, lab_accept(l, &(struct lab_say){.sender = "ann", .text = "hi", .ephemeral = true},
                        &out, &err));
    lab_idle(l);
    check(l, l->n == 1 && !l->parts[0].delivery[0]);
    check(l, lab_count(l, "SELECT count(*) FROM parley_messages") == 0 &&
                 lab_count(l, "SELECT count(*) FROM parley_deliveries") == 0);
    check(l, lab_count(l, "SELECT count(*) FROM parley_turns") == 1); /* the history knows it */
}

LAB_TEST(fenced, "{}")
{
    struct accepted out;
    struct error err;
    l->hold = true;
    check(l, lab_say(l, "a", NULL, "1") && lab_runs(l, 1));
    check(l, lab_say(l, "a", NULL, "2")); /* waits in the lane */
    check(l, fence_set(l->fence, l->scope.workspace, 2, true, &err));
    check(l, !lab_accept(l, &(struct lab_say){.sender = "b", .text = "x"}, &out, &err));
    lab_release(l);
    lab_idle(l);
    check(l, l->runs == 1); /* the second was dropped before anything of it was done */
}

/* ---- lanes ---------------------------------------------------------------------------------------------------------------- */

LAB_TEST(order_within_a_session, "{}")
{
    l->run_ms = 5;
    for (int i = 0; i < 6; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        check(l, lab_say(l, "ann", NULL, text));
    }
    lab_idle(l);
    check(l, l->runs == 6 && l->most_running == 1);
    for (int i = 0; i < 6; i++)
        check(l, l->order[i][0] == '0' + i);
}

LAB_TEST(a_busy_session_delays_no_other, "{}")
{
    l->hold = true;
    check(l, lab_say(l, "ann", NULL, "a1") && lab_runs(l, 1));
    check(l, lab_say(l, "ann", NULL, "a2") && lab_say(l, "bob", NULL, "b1") && lab_runs(l, 2));
    check_text(l, l->order[1], "b1");
    lab_sleep(20);
    check(l, l->runs == 2);
    lab_release(l);
    lab_idle(l);
    check_text(l, l->order[2], "a2");
    check(l, l->n == 3);
}

LAB_TEST(sessions_of_two_bots_differ, "{}")
{
    struct accepted out;
    struct error err;
    l->hold = true;
    check(l,
          lab_say(l, "ann", NULL, "a") &&
              lab_accept(l, &(struct lab_say){.bot = lab_bot(l, 1), .sender = "ann", .text = "b"},
                         &out, &err));
    check(l, lab_runs(l, 2));
    lab_release(l);
    lab_idle(l);
    check(l, lab_count(l, "SELECT count(*) FROM parley_sessions") == 2);
}

LAB_TEST(slots, "concurrency: {pipeline: 2, session: 2}")
{
    l->run_ms = 10;
    for (int i = 0; i < 4; i++)
        check(l, lab_say(l, "ann", NULL, "x") && lab_say(l, "bob", NULL, "y"));
    lab_idle(l);
    check(l, l->runs == 8 && l->most_running == 2);
}

/* One workspace with many sessions does not keep another from its turn. */
LAB_TEST(fair_between_workspaces, "concurrency: {pipeline: 1}")
{
    struct accepted out;
    struct error err;
    auto_json config = json_deep_copy(pipeline_default_config());
    auto_json row =
        json_pack("{s:s,s:s,s:s,s:O,s:[],s:s}", "uuid", "0b8a4c0e-5555-4555-8555-000000000005",
                  "name", "P2", "description", "", "config", config, "stages", "for_version", "1");
    auto_json made = store_do_insert(&l->store, &table_pipelines, &l->scope2, row, &err);
    check(l, made != NULL);
    json_set(lab_bot(l, 2)->row, "use_pipeline_uuid",
             json_string("0b8a4c0e-5555-4555-8555-000000000005"));
    l->hold = true;
    for (int i = 0; i < 8; i++) {
        char who[16];
        snprintf(who, sizeof who, "u%d", i);
        check(l, lab_say(l, who, NULL, "many"));
    }
    check(l, lab_runs(l, 1));
    check(l, lab_accept(l, &(struct lab_say){.bot = lab_bot(l, 2), .sender = "z", .text = "few"},
                        &out, &err));
    lab_release(l);
    lab_idle(l);
    check(l, l->runs == 9);
    check(l, strcmp(l->order[1], "few") == 0 || strcmp(l->order[2], "few") == 0);
}

/* ---- turns and crashes --------------------------------------------------------------------------------------------------- */

LAB_TEST(a_crash_before_the_answer, "{}")
{
    l->hold = true;
    check(l, lab_say(l, "ann", NULL, "hi") && lab_runs(l, 1));
    lab_restart(l);
    check(l, lab_count(l, "SELECT count(*) FROM parley_deliveries") == 0);
    lab_release(l);
    lab_idle(l);
    check(l, l->n == 1 && l->runs == 2); /* the turn was repeated, the answer came once */
    check(l, lab_count(l, "SELECT count(*) FROM parley_messages WHERE state = 'done'") == 1);
    check(l, lab_count(l, "SELECT count(*) FROM parley_turns") == 1);
    /* And went on with its record. */
    check(l, lab_count(l, "SELECT count(*) FROM monitoring_messages WHERE role = 'user'") == 1);
    check(l,
          lab_count(l, "SELECT count(*) FROM monitoring_messages WHERE status = 'success'") == 2);
    lab_restart(l);
    lab_idle(l);
    check(l, l->n == 1 && l->redelivered == 0);
}

/* The database as a killed process leaves it: the file and its log. */
static void leave(struct lab *l, const char *end)
{
    static char block[65536];
    char from[128], to[128];
    snprintf(from, sizeof from, "%s/a.db%s", l->dir, end);
    snprintf(to, sizeof to, "%s/b.db%s", l->dir, end);
    FILE *in = fopen(from, "re"), *out = fopen(to, "we");
    check(l, in && out);
    for (size_t n; in && out && (n = fread(block, 1, sizeof block, in)) > 0;)
        check(l, fwrite(block, 1, n, out) == n);
    check(l, in && fclose(in) == 0 && out && fclose(out) == 0);
}

static bool make_pending(struct db_tx *tx, void *arg, struct error *err)
{
    return db_script(tx, "UPDATE monitoring_messages SET status = 'pending' WHERE role = 'user'",
                     err);
}

LAB_TEST(records_of_a_killed_process, "{}")
{
    struct error err = {0};
    struct accepted got;
    check(l, lab_say(l, "ann", NULL, "answered"));
    check(l, lab_accept(
                 l, &(struct lab_say){.sender = "eve", .text = "on the line", .ephemeral = true},
                 &got, &err));
    lab_idle(l);
    l->hold = true;
    check(l, lab_say(l, "bob", NULL, "open") && lab_runs(l, 3));
    check(l, engine_flush(l->engine, &err));
    /* As if the batch that held the ends of the turns had never been written. */
    check(l, db_write(l->store.db, scope_db(&l->scope), make_pending, NULL, &err));
    leave(l, "");
    leave(l, "-wal");
    char path[128], text[64];
    snprintf(path, sizeof path, "%s/b.db", l->dir);
    struct db_opts o = {.kind = DB_SQLITE, .path = path};
    struct db *first = l->store.db;
    check(l, !db_left_open(first));
    int64_t n = -1;
    check(l, monitor_settle(&l->store, &l->scope, &n, &err) && n == 0);
    l->store.db = db_open(&o, &err);
    if (check(l, l->store.db != NULL)) {
        check(l, db_left_open(l->store.db));
        check(l, monitor_settle(&l->store, &l->scope, &n, &err) && n == 2);
        static const char *const want[][2] = {
            {"ann", "success"}, {"eve", "error"}, {"bob", "pending"}};
        for (size_t i = 0; i < array_len(want); i++) {
            char sql[200];
            snprintf(
                sql, sizeof sql,
                "SELECT status FROM monitoring_messages WHERE role = 'user' AND user_id = '%s'",
                want[i][0]);
            check_text(l, lab_value(l, sql, text, sizeof text), want[i][1]);
        }
        db_close(l->store.db);
    }
    l->store.db = first;
    auto_json running = engine_running(l->engine, &l->scope, LAB_BOT);
    check(l, json_array_size(running) == 1);
    lab_release(l);
    lab_idle(l);
}

LAB_TEST(a_crash_before_the_delivery, "{}")
{
    l->answer = REPLY_QUEUED; /* the adapter took it, and never reported */
    check(l, lab_say(l, "ann", NULL, "hi"));
    lab_idle(l);
    check(l, lab_count(l, "SELECT count(*) FROM parley_deliveries WHERE state = 'pending'") == 1);
    lab_restart(l);
    lab_idle(l);
    check(l, l->runs == 1 && l->redelivered == 1);
    check(l,
          lab_count(
              l, "SELECT count(*) FROM parley_deliveries WHERE state = 'sent' AND attempts = 1") ==
              1);
    lab_restart(l);
    check(l, l->redelivered == 1);
}

LAB_TEST(an_answer_of_a_bot_that_went, "{}")
{
    l->answer = REPLY_QUEUED;
    check(l, lab_say(l, "ann", NULL, "hi"));
    lab_idle(l);
    lab_bot(l, 0)->gone = true;
    lab_restart(l);
    lab_idle(l);
    check(l, l->redelivered == 0);
    check(
        l,
        lab_count(
            l,
            "SELECT count(*) FROM parley_deliveries WHERE state = 'failed' AND last_error LIKE '%no longer exists%'") ==
            1);
}

LAB_TEST(a_failed_delivery, "{}")
{
    l->fail_part = 1;
    check(l, lab_say(l, "ann", NULL, "hi"));
    lab_idle(l);
    check(
        l,
        lab_count(
            l,
            "SELECT count(*) FROM parley_deliveries WHERE state = 'failed' AND last_error = 'the peer refused'") ==
            1);
    check(l, lab_count(l, "SELECT count(*) FROM monitoring_errors") == 1);
    struct engine_stats s;
    engine_stats_get(l->engine, &s);
    check(l, s.failed == 1 && s.answered == 0);
    lab_restart(l);
    lab_idle(l);
    check(l, l->runs == 1); /* it was answered: no second turn */
}

LAB_TEST(the_bot_goes_while_a_run_waits, "{}")
{
    l->hold = true;
    check(l, lab_say(l, "ann", NULL, "hi") && lab_runs(l, 1));
    check(l, lab_say(l, "ann", NULL, "later"));
    lab_bot(l, 0)->gone = true;
    lab_release(l);
    lab_idle(l);
    check(l, l->runs == 1);
    check(l, lab_count(l, "SELECT count(*) FROM parley_deliveries WHERE state = 'failed'") == 1);
    check(l, lab_count(l, "SELECT count(*) FROM parley_messages WHERE state = 'discarded'") == 1);
}

LAB_TEST(the_pipeline_changes_while_a_run_waits, "{}")
{
    struct error err = {0};
    l->hold = true;
    check(l, lab_say(l, "ann", NULL, "hi") && lab_runs(l, 1));
    auto_json body = json_pack("{s:s}", "name", "Other");
    check(l, pipeline_update(l->engine, &l->scope, LAB_PIPE, body, &err));
    check(l, lab_say(l, "bob", NULL, "x") && lab_runs(l, 2));
    lab_release(l);
    lab_idle(l);
    check(l, l->n == 2);
    check(l, pipeline_delete(l->engine, &l->scope, LAB_PIPE, &err));
    check(l, lab_say(l, "ann", NULL, "y"));
    lab_idle(l);
    check(
        l,
        l->n == 2 &&
            lab_count(
                l,
                "SELECT count(*) FROM parley_messages WHERE error LIKE 'its pipeline no longer exists'") ==
                1);
}

/* ---- sessions ---------------------------------------------------------------------------------------------------------------- */

static size_t history(struct lab *l, const char *who)
{
    lab_say(l, who, NULL, "q");
    lab_idle(l);
    return json_array_size(l->messages);
}

LAB_TEST(history_grows_and_survives, "{}")
{
    check(l, history(l, "ann") == 0);
    check(l, history(l, "ann") == 2);
    check(l, history(l, "bob") == 0);
    lab_restart(l);
    check(l, history(l, "ann") == 4);
    json_t *first = json_array_get(l->messages, 0);
    check_text(l, json_z_or(first, "role", ""), "user");
    check(l, json_is_array(json_object_get(first, "content")));
    check_text(l, json_z_or(json_array_get(l->messages, 1), "content", ""), "echo: q");
    char a[80], b[80];
    lab_value(l, "SELECT uuid FROM parley_conversations WHERE launcher_id = 'ann'", a, sizeof a);
    check_text(l, json_z_or(l->variables, "conversation_id", ""), a);
    lab_value(l, "SELECT uuid FROM parley_conversations WHERE launcher_id = 'bob'", b, sizeof b);
    check(l, strcmp(a, b) != 0);
}

LAB_TEST(rounds, "{}")
{
    lab_pipe(l, LAB_PIPE, "{\"ai\":{\"local-agent\":{\"max-round\":2}}}");
    for (int i = 0; i < 20; i++)
        history(l, "ann");
    check(l, json_array_size(l->messages) == 4);
    check(l, lab_count(l, "SELECT count(*) FROM parley_turns") <
                 20); /* old ones go from time to time */
    lab_restart(l);
    check(l, history(l, "ann") == 4);
    lab_pipe(l, LAB_PIPE, "{\"ai\":{\"local-agent\":{\"max-round\":1}}}");
    check(l, history(l, "ann") == 2);
}

LAB_TEST(few_sessions_in_memory, "system: {session_retention: {max_entries: 2}}")
{
    check(l, history(l, "a") == 0 && history(l, "b") == 0 && history(l, "c") == 0);
    struct engine_stats s;
    engine_stats_get(l->engine, &s);
    check(l, s.sessions == 2);
    check(l, history(l, "a") == 2); /* read back */
    check(l, history(l, "a") == 4);
}

LAB_TEST(few_messages_kept, "system: {session_retention: {max_messages_per_conversation: 4}}")
{
    for (int i = 0; i < 5; i++)
        history(l, "a");
    check(l, json_array_size(l->messages) == 4);
    lab_restart(l);
    check(l, history(l, "a") == 4);
}

LAB_TEST(few_conversations_kept, "system: {session_retention: {max_conversations_per_session: 2}}")
{
    struct error err = {0};
    for (int i = 0; i < 4; i++) {
        check(l, history(l, "a") == 0);
        check(l, engine_bot_changed(l->engine, &l->scope, LAB_BOT, &err));
    }
    check(l, lab_count(l, "SELECT count(*) FROM parley_conversations") == 2);
    check(l, lab_count(l, "SELECT count(*) FROM parley_turns") == 2);
}

LAB_TEST(edits_begin_conversations, "{}")
{
    struct error err = {0};
    check(l, history(l, "a") == 0 && history(l, "a") == 2);
    check(l, engine_bot_changed(l->engine, &l->scope, LAB_OTHER, &err));
    check(l, history(l, "a") == 4);
    check(l, engine_bot_changed(l->engine, &l->scope, LAB_BOT, &err));
    check(l, history(l, "a") == 0);
    check(l, history(l, "a") == 2);
    auto_json body = json_pack("{s:s}", "description", "d");
    check(l, pipeline_update(l->engine, &l->scope, LAB_PIPE, body, &err));
    lab_restart(l); /* also when the session is not in memory any more */
    check(l, history(l, "a") == 0);
    /* in the middle of a run: that run keeps its conversation, the next has a new one */
    l->hold = true;
    size_t before = l->runs;
    check(l, lab_say(l, "a", NULL, "q") && lab_runs(l, before + 1));
    check(l, pipeline_update(l->engine, &l->scope, LAB_PIPE, body, &err));
    lab_release(l);
    lab_idle(l);
    check(l, history(l, "a") == 0);
}

LAB_TEST(resets, "{}")
{
    struct platform_host h = engine_host(l->engine);
    struct error err = {0};
    bool removed = true;
    check(l,
          h.reset_session(h.arg, lab_bot(l, 0), LAUNCHER_PERSON, "a", &removed, &err) && !removed);
    check(l, history(l, "a") == 0 && history(l, "a") == 2);
    check(l,
          h.reset_session(h.arg, lab_bot(l, 1), LAUNCHER_PERSON, "a", &removed, &err) && !removed);
    check(l,
          h.reset_session(h.arg, lab_bot(l, 0), LAUNCHER_GROUP, "a", &removed, &err) && !removed);
    check(l,
          h.reset_session(h.arg, lab_bot(l, 0), LAUNCHER_PERSON, "a", &removed, &err) && removed);
    check(l, lab_count(l, "SELECT count(*) FROM parley_turns") == 0);
    check(l, history(l, "a") == 0);
    /* while a run uses it: the answer is given, nothing of it comes back */
    l->hold = true;
    size_t n = l->n, runs = l->runs;
    check(l, lab_say(l, "a", NULL, "x") && lab_runs(l, runs + 1));
    check(l,
          h.reset_session(h.arg, lab_bot(l, 0), LAUNCHER_PERSON, "a", &removed, &err) && removed);
    lab_release(l);
    lab_idle(l);
    check(l, l->n == n + 1);
    check(l, lab_count(l, "SELECT count(*) FROM parley_turns") == 0 &&
                 lab_count(l, "SELECT count(*) FROM parley_sessions") == 0);
    check(l, history(l, "a") == 0);
}

LAB_TEST(expiry, "{}")
{
    char a[80], b[80], c[80];
    static const char sql[] = "SELECT uuid FROM parley_conversations";
    lab_pipe(l, LAB_PIPE, "{\"ai\":{\"runner\":{\"expire-time\":60}}}");
    history(l, "a");
    lab_value(l, sql, a, sizeof a);
    history(l, "a");
    check_text(l, lab_value(l, sql, b, sizeof b), a);
    time_shift_us(61000000, 0);
    check(l, history(l, "a") == 4); /* the history stays */
    lab_value(l, sql, c, sizeof c);
    check(l, c[0] && strcmp(a, c) != 0);
    check_text(l, json_z_or(l->variables, "conversation_id", ""), c);
    time_shift_us(-61000000, 0);
    lab_pipe(l, LAB_PIPE, "{\"ai\":{\"runner\":{\"runner\":\"dify-service-api\"}}}");
    history(l, "z");
    check(l, json_is_null(json_object_get(l->variables,
                                          "conversation_id"))); /* other runners set their own */
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, -1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_message),
        cmocka_unit_test(streamed),
        cmocka_unit_test(long_streams_stay_small),
        cmocka_unit_test(gathers),
        cmocka_unit_test(ten_are_enough),
        cmocka_unit_test(groups_gather_together),
        cmocka_unit_test(merge_keeps_routed),
        cmocka_unit_test(a_stop_flushes),
        cmocka_unit_test(admission),
        cmocka_unit_test(duplicates),
        cmocka_unit_test(ephemeral),
        cmocka_unit_test(fenced),
        cmocka_unit_test(order_within_a_session),
        cmocka_unit_test(a_busy_session_delays_no_other),
        cmocka_unit_test(sessions_of_two_bots_differ),
        cmocka_unit_test(slots),
        cmocka_unit_test(fair_between_workspaces),
        cmocka_unit_test(a_crash_before_the_answer),
        cmocka_unit_test(records_of_a_killed_process),
        cmocka_unit_test(a_crash_before_the_delivery),
        cmocka_unit_test(an_answer_of_a_bot_that_went),
        cmocka_unit_test(a_failed_delivery),
        cmocka_unit_test(the_bot_goes_while_a_run_waits),
        cmocka_unit_test(the_pipeline_changes_while_a_run_waits),
        cmocka_unit_test(history_grows_and_survives),
        cmocka_unit_test(rounds),
        cmocka_unit_test(few_sessions_in_memory),
        cmocka_unit_test(few_messages_kept),
        cmocka_unit_test(few_conversations_kept),
        cmocka_unit_test(edits_begin_conversations),
        cmocka_unit_test(resets),
        cmocka_unit_test(expiry),
    };
    return cmocka_run_group_tests_name("pipeline/flow", tests, NULL, NULL);
}
