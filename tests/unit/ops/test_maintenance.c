/* Retention and the analysis of the storage. persistence-and-ops.md §11 */
#include "ops/lab.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const int64_t day_us = 86400LL * 1000000;

static char sql[2048];
static char when_text[TIME_ISO_SIZE];

/* Time of the database, `ago_s` seconds ago. */
static const char *ago(int64_t ago_s)
{
    return time_sql(time_wall_us() - ago_s * 1000000, when_text);
}

static void add_session(struct lab *l, const char *launcher, int64_t idle_s)
{
    const char *t = ago(idle_s), *w = l->scope.workspace;
    snprintf(
        sql, sizeof sql,
        "INSERT INTO parley_sessions (workspace_uuid, bot_uuid, launcher_type, launcher_id, conversation_id, created_at, updated_at) "
        "VALUES ('%s','b','person','%s','c-%s','%s','%s')",
        w, launcher, launcher, t, t);
    lab_sql(l, sql);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO parley_conversations (id, workspace_uuid, bot_uuid, pipeline_uuid, launcher_type, launcher_id, created_at, updated_at) "
        "VALUES ('c-%s','%s','b','p','person','%s','%s','%s')",
        launcher, w, launcher, t, t);
    lab_sql(l, sql);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO parley_turns (workspace_uuid, conversation_id, messages, created_at) VALUES ('%s','c-%s','[]','%s')",
        w, launcher, t);
    lab_sql(l, sql);
}

static void add_chat(struct lab *l, const char *key, int number, int64_t idle_s)
{
    snprintf(
        sql, sizeof sql,
        "INSERT INTO parley_chat_messages (workspace_uuid, conversation_key, number, data, updated_at) VALUES ('%s','%s',%d,'{}','%s')",
        l->scope.workspace, key, number, ago(idle_s));
    lab_sql(l, sql);
}

static void add_ledger(struct lab *l, const char *id, const char *state, int64_t idle_s)
{
    const char *t = ago(idle_s);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO parley_messages (id, workspace_uuid, bot_uuid, pipeline_uuid, state, launcher_type, launcher_id, sender_id, payload, "
        "received_at, updated_at) VALUES ('%s','%s','b','p','%s','person','u','u','{}','%s','%s')",
        id, l->scope.workspace, state, t, t);
    lab_sql(l, sql);
}

static void add_error(struct lab *l, int64_t days)
{
    struct error err = {0};
    char iso[TIME_ISO_SIZE];
    auto_json row =
        json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "bot_id", "b", "bot_name", "B", "pipeline_id",
                  "p", "pipeline_name", "P", "error_type", "E", "error_message", "m", "timestamp",
                  time_iso(time_wall_us() - days * day_us, iso));
    auto_json stored = store_do_insert(&l->st, &table_mon_errors, &l->scope, row, &err);
    MUST(stored);
}

static const char *add_upload(struct lab *l, struct arena *a, const char *owner, int days)
{
    struct error err = {0};
    struct str key;
    char path[512];
    MUST(objects_put(l->objects, &l->scope, "upload_document", str_c(owner), S(".txt"),
                     S("some words"), a, &key, &err));
    snprintf(path, sizeof path, "%s/data/storage/" STR_FMT, l->dir, STR_ARG(key));
    time_t t = time(NULL) - days * 86400;
    struct timespec times[2] = {{.tv_sec = t}, {.tv_sec = t}};
    CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
    return str_z(a, key);
}

static bool upload_there(struct lab *l, const char *key)
{
    char path[512];
    snprintf(path, sizeof path, "data/storage/%s", key);
    return file_there(l->dir, path);
}

FIBER_TEST(idle_chats_and_sessions_go)
{
    struct lab l;
    lab_open(&l, NULL);
    add_session(&l, "idle", 90000);
    add_session(&l, "live", 80000);
    add_chat(&l, "idle", 1, 90001);
    add_chat(&l, "idle", 2, 90000);
    add_chat(&l, "live", 1, 90000);
    add_chat(&l, "live", 2, 10);
    maintenance_pass(&l.env, MAINTAIN_STORAGE | MAINTAIN_MONITORING);
    CHECK(lab_count(&l, &table_sessions) == 2 && lab_count(&l, &table_chat_messages) == 4);
    maintenance_pass(&l.env, MAINTAIN_HOURLY);
    CHECK(lab_count(&l, &table_sessions) == 1 && lab_count(&l, &table_conversations) == 1 &&
          lab_count(&l, &table_turns) == 1);
    CHECK(lab_count(&l, &table_chat_messages) == 2); /* a conversation goes whole or not at all */
    struct error err = {0};
    auto_json kept =
        store_do_list(&l.st, &table_sessions, &l.scope, NULL, 0, NULL, -1, 0, true, &err);
    CHECK(strcmp(json_z(json_array_get(kept, 0), "launcher_id"), "live") == 0);
    lab_close(&l);
}

FIBER_TEST(a_live_session_keeps_its_old_conversations)
{
    struct lab l;
    lab_open(&l, NULL);
    add_session(&l, "u", 90000);
    snprintf(sql, sizeof sql, "UPDATE parley_sessions SET updated_at = '%s'", ago(5));
    lab_sql(&l, sql);
    maintenance_pass(&l.env, MAINTAIN_HOURLY);
    CHECK(lab_count(&l, &table_sessions) == 1 && lab_count(&l, &table_conversations) == 1 &&
          lab_count(&l, &table_turns) == 1);
    lab_close(&l);
}

FIBER_TEST(the_idle_time_is_configured)
{
    static const char *const settings[] = {
        "SYSTEM__SESSION_RETENTION__IDLE_TTL_SECONDS=100",
        "SYSTEM__WEBSOCKET_RETENTION__CONVERSATION_IDLE_TTL_SECONDS=nonsense", NULL};
    struct lab l;
    lab_open(&l, settings);
    add_session(&l, "idle", 200);
    add_chat(&l, "chat", 1, 200); /* an unusable number is the default, one day */
    maintenance_pass(&l.env, MAINTAIN_HOURLY);
    CHECK(lab_count(&l, &table_sessions) == 0 && lab_count(&l, &table_chat_messages) == 1);
    lab_close(&l);
}

FIBER_TEST(finished_messages_stay_a_day_and_open_ones_for_ever)
{
    struct lab l;
    lab_open(&l, NULL);
    add_ledger(&l, "old-done", "done", 86400 + 60);
    add_ledger(&l, "old-open", "received", 10 * 86400);
    add_ledger(&l, "new-done", "done", 3600);
    maintenance_pass(&l.env, MAINTAIN_HOURLY);
    struct error err = {0};
    auto_json rows =
        store_do_list(&l.st, &table_inbound, &l.scope, NULL, 0, NULL, -1, 0, true, &err);
    CHECK(json_array_size(rows) == 2);
    CHECK(strcmp(json_z(json_array_get(rows, 0), "id"), "old-open") == 0 &&
          strcmp(json_z(json_array_get(rows, 1), "id"), "new-done") == 0);
    lab_close(&l);
}

FIBER_TEST(old_monitoring_rows_go)
{
    struct lab l;
    lab_open(&l, NULL);
    add_error(&l, 31);
    add_error(&l, 29);
    maintenance_pass(&l.env, MAINTAIN_HOURLY | MAINTAIN_STORAGE);
    CHECK(lab_count(&l, &table_mon_errors) == 2);
    maintenance_pass(&l.env, MAINTAIN_MONITORING);
    CHECK(lab_count(&l, &table_mon_errors) == 1);
    lab_close(&l);
}

FIBER_TEST(cleaning_can_be_bounded_and_switched_off)
{
    static const char *const off[] = {"MONITORING__AUTO_CLEANUP__ENABLED=false",
                                      "STORAGE__CLEANUP__ENABLED=false", NULL};
    static const char *const few[] = {"MONITORING__AUTO_CLEANUP__DELETE_BATCH_SIZE=2",
                                      "MONITORING__AUTO_CLEANUP__MAX_BATCHES_PER_TABLE_PER_RUN=2",
                                      NULL};
    static const char *const *const settings[] = {off, few};
    static const int64_t left[] = {7, 3};
    for (int i = 0; i < 2; i++) {
        struct lab l;
        auto_arena a = arena_new(16 << 10);
        lab_open(&l, settings[i]);
        for (int k = 0; k < 7; k++)
            add_error(&l, 40);
        const char *key = add_upload(&l, a, "owner", 30);
        maintenance_pass(&l.env, MAINTAIN_MONITORING | MAINTAIN_STORAGE);
        CHECK(lab_count(&l, &table_mon_errors) == left[i]);
        CHECK(upload_there(&l, key) == (i == 0));
        lab_close(&l);
    }
}

FIBER_TEST(old_uploads_and_logs_are_named_then_removed)
{
    struct lab l;
    struct error err = {0};
    auto_arena a = arena_new(64 << 10);
    char logs[96];
    lab_open(&l, NULL);
    snprintf(logs, sizeof logs, "%s/data/logs", l.dir);
    put_file(logs, "langbot-2020-02-03.log.2", "12345");
    const char *old = add_upload(&l, a, "one", 8), *young = add_upload(&l, a, "two", 6);

    auto_json j = storage_analysis(&l.env, &l.scope, &err);
    MUST(j);
    CHECK(json_array_size(json_at(j, "cleanup_candidates.uploaded_files")) == 1);
    const json_t *upload = json_array_get(json_at(j, "cleanup_candidates.uploaded_files"), 0);
    CHECK(strcmp(json_z(upload, "key"), old) == 0 && json_i_or(upload, "size_bytes", 0) == 10 &&
          json_z(upload, "modified_at"));
    CHECK(json_array_size(json_at(j, "cleanup_candidates.log_files")) == 1);
    const json_t *log = json_array_get(json_at(j, "cleanup_candidates.log_files"), 0);
    CHECK(strcmp(json_z(log, "name"), "langbot-2020-02-03.log.2") == 0 &&
          strcmp(json_z(log, "date"), "2020-02-03") == 0 && json_i_or(log, "size_bytes", 0) == 5);
    CHECK(upload_there(&l, old) &&
          file_there(logs, "langbot-2020-02-03.log.2")); /* naming deletes nothing */

    maintenance_pass(&l.env, MAINTAIN_STORAGE);
    CHECK(!upload_there(&l, old) && upload_there(&l, young) &&
          !file_there(logs, "langbot-2020-02-03.log.2"));
    lab_close(&l);
}

FIBER_TEST(the_analysis_adds_up)
{
    static const char *const keys[] = {"database", "logs", "storage", "vector_store",
                                       "plugins",  "mcp",  "temp"};
    struct lab l;
    struct error err = {0};
    char dir[96];
    lab_open(&l, NULL);
    add_error(&l, 1);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO binary_storages (workspace_uuid, unique_key, \"key\", owner_type, owner, \"value\") VALUES ('%s','u','k','plugin','o',x'000102')",
        l.scope.workspace);
    lab_sql(&l, sql);
    snprintf(dir, sizeof dir, "%s/data/temp", l.dir);
    mkdir(dir, 0700);
    put_file(dir, "a", "1234567");
    snprintf(dir, sizeof dir, "%s/data/temp/below", l.dir);
    CHECK(mkdir(dir, 0700) == 0);
    put_file(dir, "b", "123");
    snprintf(dir, sizeof dir, "%s/data/temp/link", l.dir);
    CHECK(symlink("/etc", dir) == 0); /* what a link points to is not counted */

    auto_json j = storage_analysis(&l.env, &l.scope, &err);
    MUST(j);
    int64_t at;
    CHECK(time_parse(json_s(j, "generated_at"), &at));
    CHECK(json_i_or(json_at(j, "cleanup_policy"), "uploaded_file_retention_days", 0) == 7 &&
          json_i_or(json_at(j, "cleanup_policy"), "log_retention_days", 0) == 3);
    const json_t *sections = json_object_get(j, "sections");
    CHECK(json_array_size(sections) == array_len(keys));
    for (size_t i = 0; i < array_len(keys); i++)
        CHECK(strcmp(json_z(json_array_get(sections, i), "key"), keys[i]) == 0);
    const json_t *database = json_array_get(sections, 0), *temp = json_array_get(sections, 6);
    CHECK(json_b_or(database, "exists", false) && json_i_or(database, "size_bytes", 0) > 4096 &&
          json_i_or(database, "file_count", 0) >= 1);
    CHECK(json_b_or(temp, "exists", false) && json_i_or(temp, "size_bytes", 0) == 10 &&
          json_i_or(temp, "file_count", 0) == 2);
    CHECK(strcmp(json_string_value(json_at(j, "database.type")), "sqlite") == 0);
    CHECK(json_i_or(json_at(j, "database.monitoring_counts"), "errors", 0) == 1);
    CHECK(json_i_or(json_at(j, "database.binary_storage"), "count", 0) == 1 &&
          json_i_or(json_at(j, "database.binary_storage"), "size_bytes", 0) == 3);
    CHECK(json_i_or(json_object_get(j, "tasks"), "total", -1) == 0);
    lab_close(&l);
}

FIBER_TEST(the_loop_waits_its_interval_and_ends_when_told)
{
    struct lab l;
    struct error err = {0};
    lab_open(&l, NULL);
    add_chat(&l, "idle", 1, 90000);
    MUST(task_spawn(l.group, "maintenance", maintenance_run, &l.env, &err));
    MUST(task_sleep_ms(50, &err));
    CHECK(lab_count(&l, &table_chat_messages) == 1); /* not at the start */
    CHECK(task_group_count(l.group) == 1);
    task_group_cancel(l.group);
    MUST(task_group_wait(l.group, &err));
    lab_close(&l);
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_chats_and_sessions_go),
        cmocka_unit_test(a_live_session_keeps_its_old_conversations),
        cmocka_unit_test(the_idle_time_is_configured),
        cmocka_unit_test(finished_messages_stay_a_day_and_open_ones_for_ever),
        cmocka_unit_test(old_monitoring_rows_go),
        cmocka_unit_test(cleaning_can_be_bounded_and_switched_off),
        cmocka_unit_test(old_uploads_and_logs_are_named_then_removed),
        cmocka_unit_test(the_analysis_adds_up),
        cmocka_unit_test(the_loop_waits_its_interval_and_ends_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
