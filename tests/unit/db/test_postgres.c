/* db on PostgreSQL: values, scopes, conflicts, pool, lost connections, asynchronous writes,
 * addresses. */
#include "db/db.h"
#include "support/pg_server.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static struct pg_server server;
static const struct db_scope nowhere = {.kind = DB_SCOPE_NONE};

static struct db_opts options(void)
{
    return (struct db_opts){
        .kind = DB_POSTGRES, .host = server.dir, .user = "app", .database = "app", .pool_size = 3};
}

static struct db *open_db(const struct db_opts *o)
{
    struct error e;
    struct db *db = db_open(o, &e);
    if (!db) {
        fail_msg("%s", e.msg);
    }
    return db;
}

static bool script(struct db_tx *tx, void *arg, struct error *err)
{
    return db_script(tx, arg, err);
}

static void must_script(struct db *db, const char *sql)
{
    struct error e;
    char text[1024];
    snprintf(text, sizeof(text), "%s", sql);
    if (!db_write(db, nowhere, script, text, &e)) {
        fail_msg("%s", e.msg);
    }
}

static bool insert(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {.text = "INSERT INTO t (id, v) VALUES (?, 'what?') -- ? stays\n"};
    struct db_val v = DB_V_I(*(int64_t *)arg);
    int64_t changed = 0;
    db_touch(tx, 3);
    return db_exec(tx, &sql, &v, 1, &changed, err) &&
           (changed == 1 || err_set(err, ERR_INTERNAL, "changed"));
}

static bool count(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {.text = "SELECT count(*) FROM t"};
    struct db_rows rows;
    if (!db_query(tx, &sql, NULL, 0, &rows, err)) {
        return false;
    }
    *(int64_t *)arg = db_at(&rows, 0, 0)->i;
    return true;
}

static int64_t rows_of(struct db *db)
{
    struct error e;
    int64_t n = -1;
    if (!db_read(db, nowhere, count, &n, &e)) {
        fail_msg("%s", e.msg);
    }
    return n;
}

static void in_fiber(int (*fn)(void *arg))
{
    if (server.skip) {
        print_message("skipped: %s\n", server.skip);
        skip();
    }
    base_init();
    assert_int_equal(task_run(fn, NULL), 0);
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool values_body(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql in = {
        .text = "INSERT INTO v (a, b, c, d, e, f, g, h, i) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"};
    static struct db_sql out = {
        .text = "SELECT a, b, c, d, e, f, g, h, i, f AS f2 FROM v WHERE e = ? ORDER BY a"};
    struct db_val args[] = {DB_V_I(INT64_MIN),
                            DB_V_F(2.5),
                            DB_V_S(S("it's ? \xc3\xa4")),
                            DB_V_BLOB(str_n("\0\1\xff", 3)),
                            DB_V_B(true),
                            DB_V_S(S("2026-01-02 03:04:05.5")),
                            DB_V_S(S("{\"a\": [1]}")),
                            DB_V_NULL,
                            DB_V_S(S("2026-01-02 03:04:05"))};
    struct db_val yes = DB_V_B(true);
    struct db_rows r;
    if (!db_exec(tx, &in, args, array_len(args), NULL, err) ||
        !db_query(tx, &out, &yes, 1, &r, err)) {
        return false;
    }
    *(bool *)arg =
        r.n == 1 && r.cols == 10 && db_at(&r, 0, 0)->i == INT64_MIN && db_at(&r, 0, 1)->f == 2.5 &&
        str_eqz(db_at(&r, 0, 2)->s, "it's ? \xc3\xa4") && db_at(&r, 0, 3)->type == DB_BLOB &&
        str_eq(db_at(&r, 0, 3)->s, str_n("\0\1\xff", 3)) && db_at(&r, 0, 4)->type == DB_INT &&
        db_at(&r, 0, 4)->i == 1 && str_eqz(db_at(&r, 0, 5)->s, "2026-01-02 03:04:05.500000") &&
        str_eqz(db_at(&r, 0, 6)->s, "{\"a\": [1]}") && db_at(&r, 0, 7)->type == DB_NULL &&
        str_eqz(db_at(&r, 0, 8)->s, "2026-01-02 03:04:05.000000") && strcmp(r.names[9], "f2") == 0;
    return true;
}

static bool zero_byte(struct db_tx *tx, void *arg, struct error *err)
{
    struct db_val v = DB_V_S(str_n("a\0b", 3));
    struct db_rows r;
    return db_query_text(tx, "SELECT ?::text", &v, 1, &r, err);
}

static int values_main(void *arg)
{
    struct db_opts o = options();
    struct db *db = open_db(&o);
    struct error e;
    bool right = false;
    must_script(
        db,
        "CREATE TABLE v (a BIGINT, b DOUBLE PRECISION, c TEXT, d BYTEA, e BOOLEAN, f TIMESTAMP, g JSON, h TEXT, "
        "i TIMESTAMP WITH TIME ZONE)");
    if (!db_write(db, nowhere, values_body, &right, &e)) {
        fail_msg("%s", e.msg);
    }
    assert_true(right);
    assert_false(db_write(db, nowhere, zero_byte, NULL, &e));
    assert_int_equal(e.code, ERR_INVALID);
    assert_false(db_cacheable(db));
    db_close(db);
    return 0;
}

static void test_values(void **state)
{
    in_fiber(values_main);
}

/* ---- conflicts, rollback-only, read-only ----------------------------------------------------- */

static bool swallow(struct db_tx *tx, void *arg, struct error *err)
{
    struct error inner;
    int64_t one = 1, two = 2;
    return insert(tx, &two, err) && (insert(tx, &one, &inner) || true);
}

static bool orphan(struct db_tx *tx, void *arg, struct error *err)
{
    return db_exec_text(tx, "INSERT INTO c (t) VALUES (99)", NULL, 0, NULL, err);
}

static bool broken_sql(struct db_tx *tx, void *arg, struct error *err)
{
    return db_exec_text(tx, "INSERT INTO nowhere VALUES (?)", &DB_V_I(1), 1, NULL, err);
}

static bool broken_script(struct db_tx *tx, void *arg, struct error *err)
{
    int64_t id = 50;
    return insert(tx, &id, err) && db_script(tx, "SELECT 1; SELEKT 2;", err);
}

static int conflicts_main(void *arg)
{
    struct db_opts o = options();
    struct db *db = open_db(&o);
    struct error e;
    int64_t one = 1, three = 3;
    must_script(
        db,
        "CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT NOT NULL); CREATE TABLE c (t BIGINT REFERENCES t (id))");
    assert_true(db_write(db, nowhere, insert, &one, &e));
    assert_int_equal(db_version_of(db, 3), 1);
    assert_false(db_write(db, nowhere, insert, &one, &e));
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_string_equal(e.tag, "unique");
    assert_false(db_write(db, nowhere, swallow, NULL, &e));
    assert_string_equal(e.tag, "unique");
    assert_int_equal(rows_of(db), 1);
    assert_false(db_write(db, nowhere, orphan, NULL, &e));
    assert_string_equal(e.tag, "foreign_key");
    assert_false(db_write(db, nowhere, broken_sql, NULL, &e));
    assert_int_equal(e.code, ERR_INTERNAL);
    assert_false(db_write(db, nowhere, broken_script, NULL, &e));
    assert_false(db_read(db, nowhere, insert, &three, &e));
    assert_true(db_write(db, nowhere, insert, &three, &e)); /* the connection is still good */
    assert_int_equal(rows_of(db), 2);
    struct db_stats s;
    db_stats_get(db, &s);
    assert_int_equal(s.pool_open, 1);
    assert_int_equal(s.pool_idle, 1);
    assert_int_equal(s.rollbacks, 6);
    db_close(db);
    return 0;
}

static void test_conflicts(void **state)
{
    in_fiber(conflicts_main);
}

/* ---- scopes ---------------------------------------------------------------------------------- */

struct setting {
    const char *name;
    char value[64];
};

static bool read_setting(struct db_tx *tx, void *arg, struct error *err)
{
    struct setting *s = arg;
    struct db_val v = DB_V_Z(s->name);
    struct db_rows r;
    if (!db_query_text(tx, "SELECT coalesce(current_setting(?, true), '')", &v, 1, &r, err)) {
        return false;
    }
    snprintf(s->value, sizeof(s->value), STR_FMT, STR_ARG(db_at(&r, 0, 0)->s));
    return true;
}

static const char *setting(struct db *db, struct db_scope scope, const char *name, char *out)
{
    struct setting s = {.name = name};
    struct error e;
    if (!db_read(db, scope, read_setting, &s, &e)) {
        fail_msg("%s", e.msg);
    }
    snprintf(out, sizeof(s.value), "%s", s.value);
    return out;
}

static int scopes_main(void *arg)
{
    struct db_opts o = options();
    struct db *db = open_db(&o);
    struct error e;
    char out[64];
    static const char *const names[] = {"langbot.workspace_uuid",         "langbot.account_uuid",
                                        "langbot.api_key_hash",           "langbot.invitation_hash",
                                        "langbot.instance_uuid",          "langbot.identity_digest",
                                        "langbot.directory_instance_uuid"};
    for (size_t i = 0; i < array_len(names); i++) {
        struct db_scope s = {.kind = (enum db_scope_kind)(DB_SCOPE_WORKSPACE + (int)i),
                             .value = "it's x"};
        assert_string_equal(setting(db, s, names[i], out), "it's x");
        assert_string_equal(setting(db, nowhere, names[i], out),
                            ""); /* gone with the transaction */
    }
    assert_true(db_default_scope(db, "single", &e));
    assert_string_equal(setting(db, nowhere, names[0], out), "single");
    assert_string_equal(setting(db, (struct db_scope){.kind = DB_SCOPE_SYSTEM}, names[0], out),
                        "single");
    assert_true(db_default_scope(db, NULL, &e));
    assert_string_equal(setting(db, nowhere, names[0], out), "");
    db_close(db);
    return 0;
}

static void test_scopes(void **state)
{
    in_fiber(scopes_main);
}

/* ---- lost connections ------------------------------------------------------------------------ */

static void kill_backends(void)
{
    assert_true(pg_server_sql(
        &server, "postgres",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'"));
}

static bool killed_inside(struct db_tx *tx, void *arg, struct error *err)
{
    int64_t a = 1000, b = 1001;
    if (!insert(tx, &a, err)) {
        return false;
    }
    kill_backends();
    return insert(tx, &b, err);
}

static bool killed_before_commit(struct db_tx *tx, void *arg, struct error *err)
{
    int64_t a = 1002;
    bool ok = insert(tx, &a, err);
    kill_backends();
    return ok;
}

static bool killed_before_first(struct db_tx *tx, void *arg, struct error *err)
{
    int64_t a = 1003;
    kill_backends();
    return insert(tx, &a, err);
}

static int lost_main(void *arg)
{
    struct db_opts o = options();
    struct db *db = open_db(&o);
    struct error e;
    struct db_stats s;
    int64_t before = rows_of(db);
    /* Idle connection closed: noticed before it is used. */
    kill_backends();
    assert_int_equal(rows_of(db), before);
    /* Taken, then closed before the first statement: nothing was done, so it is sent again on a
     * new one. */
    assert_true(db_write(db, nowhere, killed_before_first, NULL, &e));
    /* In the middle: nothing of it stays. */
    assert_false(db_write(db, nowhere, killed_inside, NULL, &e));
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_string_equal(e.tag, "connection");
    assert_false(db_write(db, nowhere, killed_before_commit, NULL, &e));
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_string_equal(e.tag, "commit_unknown");
    assert_int_equal(rows_of(db), before + 1);
    db_stats_get(db, &s);
    assert_int_equal(s.pool_open, 1);
    db_close(db);
    return 0;
}

static void test_lost(void **state)
{
    in_fiber(lost_main);
}

/* ---- pool ------------------------------------------------------------------------------------ */

static bool nap(struct db_tx *tx, void *arg, struct error *err)
{
    struct db_rows r;
    return db_query_text(tx, "SELECT pg_sleep(1.5)", NULL, 0, &r, err);
}

static bool short_nap(struct db_tx *tx, void *arg, struct error *err)
{
    struct db_rows r;
    return db_query_text(tx, "SELECT pg_sleep(0.05)", NULL, 0, &r, err);
}

struct sleeper {
    struct db *db;
    db_fn *fn;
    int *ok, *late;
};

static void sleep_fiber(void *arg)
{
    const struct sleeper *s = arg;
    struct error e;
    if (db_read(s->db, nowhere, s->fn, NULL, &e)) {
        ++*s->ok;
    } else {
        *s->late += e.code == ERR_UNAVAILABLE;
    }
}

static int pool_main(void *arg)
{
    struct db_opts o = options();
    struct error e;
    o.pool_size = 1;
    o.pool_overflow = 1;
    o.pool_timeout_s = 1;
    struct db *db = open_db(&o);
    int ok = 0, late = 0;
    struct sleeper s = {.db = db, .fn = nap, .ok = &ok, .late = &late};
    struct task_group *g = task_group_new(NULL, "pool");
    for (int i = 0; i < 3; i++) {
        assert_true(task_spawn(g, "nap", sleep_fiber, &s, &e));
    }
    assert_true(task_group_wait(g, &e));
    assert_int_equal(ok, 2); /* two connections, the third waited a second in vain */
    assert_int_equal(late, 1);
    struct db_stats st;
    db_stats_get(db, &st);
    assert_int_equal(st.timeouts, 1);
    assert_int_equal(st.pool_open, 1); /* the overflow is closed again */
    s.fn = short_nap;
    for (int i = 0; i < 20; i++) {
        assert_true(task_spawn(g, "nap", sleep_fiber, &s, &e));
    }
    assert_true(task_group_wait(g, &e));
    assert_int_equal(ok, 22);
    /* A cancelled caller still gets the true result. */
    assert_true(task_spawn(g, "nap", sleep_fiber, &s, &e));
    task_yield();
    task_group_cancel(g);
    task_group_free(g);
    assert_int_equal(ok, 23);
    db_close(db);
    return 0;
}

static void test_pool(void **state)
{
    in_fiber(pool_main);
}

/* ---- asynchronous writes --------------------------------------------------------------------- */

static int good, bad;

static void on_done(void *arg, bool ok, const struct error *err)
{
    good += ok;
    bad += !ok;
}

static int async_main(void *arg)
{
    static int64_t ids[100];
    struct db_opts o = options();
    struct db *db = open_db(&o);
    struct error e;
    int64_t before = rows_of(db);
    good = bad = 0;
    for (int i = 0; i < 100; i++) {
        ids[i] = 5000 + (i % 10 == 9 ? 0 : i); /* each tenth is there already */
        struct db_scope s = {.kind = DB_SCOPE_WORKSPACE, .value = i < 50 ? "a" : "b"};
        assert_true(db_write_async(db, s, insert, &ids[i], on_done, &e));
    }
    assert_true(db_drain(db, &e));
    assert_int_equal(good, 90);
    assert_int_equal(bad, 10);
    assert_int_equal(rows_of(db), before + 90);
    struct db_stats s;
    db_stats_get(db, &s);
    assert_int_equal(s.queued, 0);
    assert_true(s.commits < 20);
    int64_t last = 9999;
    assert_true(db_write_async(db, nowhere, insert, &last, on_done, &e));
    db_close(db);
    assert_int_equal(good, 91);
    return 0;
}

static void test_async(void **state)
{
    in_fiber(async_main);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void refused(const char *url, const char *word)
{
    struct error e;
    struct db_opts o = {.kind = DB_POSTGRES, .url = url};
    assert_null(db_open(&o, &e));
    assert_null(strstr(e.msg, "s3cret"));
    assert_null(strstr(e.msg, "someone"));
    if (!strstr(e.msg, word)) {
        fail_msg("%s: no %s in: %s", url, word, e.msg);
    }
}

static int address_main(void *arg)
{
    struct error e;
    char url[256];
    snprintf(url, sizeof(url), "postgresql+asyncpg://app:p%%40ss@/app?host=%s&ssl=disable",
             server.dir);
    struct db_opts o = {.kind = DB_POSTGRES, .url = url};
    db_close(open_db(&o));
    o = options();
    o.password = "any 'th\\ing=@:/?%";
    db_close(open_db(&o));
    refused("mysql://someone:s3cret@localhost/x", "postgresql://");
    refused("postgresql://someone:s3cret@localhost/x?ssl=require&sslmode=disable", "both");
    refused("postgresql://someone:s3cret@localhost/x?ssl=perhaps", "ssl");
    refused("postgresql://someone:s3cret@localhost:badport/x", "cannot connect");
    refused("postgresql://someone:s3cret@127.0.0.1:1/x", "cannot connect");
    refused("postgresql://someone:s3cret@localhost/x?s3cret=1", "not a valid");
    o = options();
    o.pool_size = 101;
    assert_null(db_open(&o, &e));
    assert_int_equal(e.code, ERR_INVALID);
    o.pool_size = 60;
    o.pool_overflow = 60;
    assert_null(db_open(&o, &e));
    assert_non_null(strstr(e.msg, "100"));
    return 0;
}

static void test_address(void **state)
{
    in_fiber(address_main);
}

/* ---- memory ends inside a statement ---------------------------------------------------------- */

struct nth {
    long n;
    bool failed;
};

static bool starved(struct db_tx *tx, void *arg, struct error *err)
{
    struct nth *x = arg;
    struct db_rows r;
    struct db_val v = DB_V_S(S("text"));
    mem_fail_after(x->n, false);
    bool ok = db_query_text(tx, "SELECT ?::text, 2, 'x'", &v, 1, &r, err);
    mem_fail_after(0, false);
    return ok;
}

static int starved_main(void *arg)
{
    struct db_opts o = options();
    struct db *db = open_db(&o);
    struct error e;
    (void)rows_of(db); /* the loop keeps something for the descriptor */
    long before = mem_live();
    int failed = 0;
    for (long n = 1; n < 30; n++) {
        struct nth x = {.n = n};
        failed += !db_read(db, nowhere, starved, &x, &e);
    }
    assert_true(failed > 0);
    assert_int_equal(mem_live(), before + 4); /* the statement that the connection keeps */
    db_close(db);
    return 0;
}

static void test_starved(void **state)
{
    in_fiber(starved_main);
}

static int start(void **state)
{
    return pg_server_start(&server) || server.skip ? 0 : -1;
}

static int stop(void **state)
{
    if (!server.skip) {
        pg_server_stop(&server);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_conflicts),
        cmocka_unit_test(test_scopes),  cmocka_unit_test(test_lost),
        cmocka_unit_test(test_pool),    cmocka_unit_test(test_async),
        cmocka_unit_test(test_address), cmocka_unit_test(test_starved),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
