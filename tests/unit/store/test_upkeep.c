/* What maintenance and its analysis ask of the database, on both engines; another workspace's rows stay. */
#include "store/fixture.h"

#include <setjmp.h>
#include <stdio.h>
#include <cmocka.h>

static enum db_kind kind;

static void on_engine(enum db_kind k, int (*fn)(void *arg))
{
    const struct pg_server *pg = k == DB_POSTGRES ? fixture_server() : NULL;
    if (k == DB_POSTGRES && !pg)
        skip();
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
        if (!(call))                          \
            fail_msg("%s: %s", #call, e.msg); \
    } while (0)

static bool script(struct db_tx *tx, void *arg, struct error *err)
{
    return db_script(tx, arg, err);
}

static void run_sql(struct fixture *f, const struct scope *s, const char *fmt, ...)
{
    struct error e = {0};
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    MUST(db_write(f->st.db, scope_db(s), script, text, &e));
}

static int64_t count(struct fixture *f, const struct scope *s, const struct table *t)
{
    struct error e = {0};
    int64_t n = -1;
    MUST(store_do_count(&f->st, t, s, NULL, 0, &n, &e));
    return n;
}

static const char *ago(int64_t s)
{
    static char text[TIME_ISO_SIZE];
    return time_sql(time_wall_us() - s * 1000000, text);
}

static void add(struct fixture *f, const struct scope *s, const char *who, int64_t idle_s)
{
    const char *t = ago(idle_s), *w = s->workspace;
    run_sql(
        f, s,
        "INSERT INTO parley_sessions (workspace_uuid, bot_uuid, launcher_type, launcher_id, created_at, updated_at) VALUES "
        "('%s','b','person','%s','%s','%s')",
        w, who, t, t);
    run_sql(
        f, s,
        "INSERT INTO parley_conversations (id, workspace_uuid, bot_uuid, pipeline_uuid, launcher_type, launcher_id, created_at, "
        "updated_at) VALUES ('%.8s-%s','%s','b','p','person','%s','%s','%s')",
        w, who, w, who, t, t);
    run_sql(
        f, s,
        "INSERT INTO parley_turns (workspace_uuid, conversation_id, messages, created_at) VALUES ('%s','%.8s-%s','[]','%s')",
        w, w, who, t);
    for (int i = 0; i < 2; i++)
        run_sql(
            f, s,
            "INSERT INTO parley_chat_messages (workspace_uuid, conversation_key, number, data, updated_at) VALUES ('%s','%s',%d,'{}','%s')",
            w, who, i, t);
}

static int prunes(void *arg)
{
    struct fixture f;
    struct error e = {0};
    int64_t n = -1;
    fixture_open(&f, kind, arg);
    add(&f, &f.a, "one", 500);
    add(&f, &f.a, "two", 400);
    add(&f, &f.a, "live", 50);
    add(&f, &f.b, "foreign", 500);
    /* Not more than told at a time, the longest idle first. */
    MUST(sessions_prune(&f.st, &f.a, 100, 1, &n, &e));
    assert_int_equal(n, 1);
    assert_int_equal(count(&f, &f.a, &table_sessions), 2);
    MUST(sessions_prune(&f.st, &f.a, 100, 10, &n, &e));
    assert_int_equal(n, 1);
    MUST(sessions_prune(&f.st, &f.a, 100, 10, &n, &e));
    assert_int_equal(n, 0);
    assert_int_equal(count(&f, &f.a, &table_sessions), 1);
    assert_int_equal(count(&f, &f.a, &table_conversations), 1);
    assert_int_equal(count(&f, &f.a, &table_turns), 1);
    MUST(chats_prune(&f.st, &f.a, 100, 1, &n, &e));
    assert_int_equal(n, 2); /* one conversation of two messages */
    MUST(chats_prune(&f.st, &f.a, 100, 10, &n, &e));
    assert_int_equal(n, 2);
    assert_int_equal(count(&f, &f.a, &table_chat_messages), 2);
    assert_int_equal(count(&f, &f.b, &table_sessions), 1);
    assert_int_equal(count(&f, &f.b, &table_turns), 1);
    assert_int_equal(count(&f, &f.b, &table_chat_messages), 2);
    fixture_close(&f);
    return 0;
}
BOTH(prunes)

static int sizes(void *arg)
{
    struct fixture f;
    struct error e = {0};
    struct store_sizes z;
    fixture_open(&f, kind, arg);
    MUST(store_sizes(&f.st, &f.a, &z, &e));
    assert_int_equal(z.binary_count, 0);
    assert_int_equal(z.binary_bytes, 0);
    assert_true(z.database_bytes > 4096);
    auto_json row = fixture_insert(&f, &table_binary_storages, &f.a, 1);
    assert_non_null(row);
    run_sql(&f, &f.a,
            kind == DB_POSTGRES ? "UPDATE binary_storages SET \"value\" = '\\x00010203'::bytea"
                                : "UPDATE binary_storages SET \"value\" = x'00010203'");
    MUST(store_sizes(&f.st, &f.a, &z, &e));
    assert_int_equal(z.binary_count, 1);
    assert_int_equal(z.binary_bytes, 4);
    MUST(store_sizes(&f.st, &f.b, &z, &e));
    assert_int_equal(z.binary_count, 0);
    fixture_close(&f);
    return 0;
}
BOTH(sizes)

static int summary(void *arg)
{
    struct fixture f;
    struct error e = {0};
    fixture_open(&f, kind, arg);
    add(&f, &f.a, "one", 1);
    MUST(db_default_scope(f.st.db, f.a.workspace, &e));
    auto_json s = store_summary(&f.st, &e);
    MUST(s);
    const json_t *workspaces = json_object_get(s, "workspaces"),
                 *tables = json_object_get(s, "tables");
    bool seen = false;
    size_t i;
    json_t *row;
    json_array_foreach (workspaces, i, row)
        seen |= strcmp(json_z_or(row, "uuid", ""), f.a.workspace) == 0;
    assert_true(seen);
    assert_true(json_array_size(json_object_get(s, "accounts")) >= 1);
    seen = false;
    json_array_foreach (tables, i, row) {
        assert_int_equal(json_i_or(row, "without_workspace", -1), 0);
        if (strcmp(json_z(row, "name"), "parley_chat_messages") == 0) {
            assert_int_equal(json_i_or(row, "rows", -1), 2);
            seen = true;
        }
    }
    assert_true(seen);
    fixture_close(&f);
    return 0;
}
BOTH(summary)

static int stop(void **state)
{
    fixture_server_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prunes_sqlite),  cmocka_unit_test(sizes_sqlite),
        cmocka_unit_test(summary_sqlite), cmocka_unit_test(prunes_postgres),
        cmocka_unit_test(sizes_postgres), cmocka_unit_test(summary_postgres),
    };
    return cmocka_run_group_tests(tests, NULL, stop);
}
