/* Migrations: fresh, repeated, failing with a backup, a newer record, another program's tables, two at once. */
#include "db/db.h"
#include "support/pg_server.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static struct pg_server server;
static char dir[64], path[128];
static enum db_kind kind;
static const struct db_scope nowhere = {.kind = DB_SCOPE_NONE};

static struct db *open_db(void)
{
    struct error e;
    struct db_opts o = {
        .kind = kind, .path = path, .host = server.dir, .user = "app", .database = "app"};
    struct db *db = db_open(&o, &e);
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

static bool ask(struct db_tx *tx, void *arg, struct error *err)
{
    struct db_rows rows;
    if (!db_query_text(tx, *(const char **)arg, NULL, 0, &rows, err)) {
        return false;
    }
    return db_at(&rows, 0, 0)->i == 1 || err_set(err, ERR_NOT_FOUND, "not 1");
}

static bool is_one(struct db *db, const char *sql)
{
    struct error e;
    return db_read(db, nowhere, ask, &sql, &e);
}

/* Status of the only manifest below migration-backups; NULL when there is none. */
static json_t *manifest(void)
{
    char name[512];
    json_t *found = NULL;
    snprintf(name, sizeof(name), "%s/migration-backups", dir);
    DIR *d = opendir(name);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        if (str_ends(str_c(entry->d_name), S(".json"))) {
            assert_null(found);
            snprintf(name, sizeof(name), "%s/migration-backups/%s", dir, entry->d_name);
            found = json_load_file(name, 0, NULL);
        }
    }
    if (d) {
        closedir(d);
    }
    return found;
}

static int fresh_main(void *arg)
{
    struct db *db = open_db();
    struct error e;
    struct db_migration_state s;
    int applied = 0;
    assert_true(db_migration_state(db, &s, &e));
    assert_int_equal(s.stored, 0);
    assert_true(s.newest > 0);
    assert_true(db_migrate(db, &applied, &e));
    assert_int_equal(applied, s.newest);
    assert_true(db_migrate(db, &applied, &e));
    assert_int_equal(applied, 0);
    assert_true(db_migration_state(db, &s, &e));
    assert_int_equal(s.stored, s.newest);
    assert_null(manifest()); /* an empty database needs no backup */
    assert_true(is_one(
        db, "SELECT count(*) FROM alembic_version WHERE version_num = '0023_bot_scoped_sessions'"));
    assert_true(is_one(
        db, "SELECT count(*) FROM metadata WHERE key = 'database_version' AND value = '25'"));
    /* A file that fails: its tables exist already. Nothing changes, and on SQLite a verified copy was made. */
    must_script(
        db,
        "INSERT INTO metadata (key, value) VALUES ('mine', 'x'); UPDATE parley_migrations SET number = -1 "
        "WHERE number = 1; DELETE FROM parley_migrations WHERE number > 1");
    assert_false(db_migrate(db, &applied, &e));
    assert_non_null(strstr(e.msg, "0001_"));
    assert_int_equal(applied, 0);
    assert_true(is_one(db, "SELECT count(*) FROM metadata WHERE key = 'mine'"));
    assert_true(is_one(db, "SELECT count(*) FROM parley_migrations"));
    auto_json m = manifest();
    if (kind == DB_SQLITE) {
        assert_string_equal(json_z(m, "status"), "restored_after_failure");
        assert_string_equal(json_z(m, "database_path"), path);
        assert_non_null(json_z(m, "restored_at"));
    } else {
        assert_null(m);
    }
    /* Rows from a newer program. */
    must_script(db, "UPDATE parley_migrations SET number = 9999");
    assert_false(db_migrate(db, &applied, &e));
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_non_null(strstr(e.msg, "9999"));
    db_close(db);
    return 0;
}

static int foreign_main(void *arg)
{
    struct db *db = open_db();
    struct error e;
    must_script(db, "CREATE TABLE somebodys (x INTEGER)");
    assert_false(db_migrate(db, NULL, &e));
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_non_null(strstr(e.msg, "another program"));
    must_script(db, "DROP TABLE somebodys");
    db_close(db);
    return 0;
}

struct rival {
    struct db *db;
    bool ok;
    struct error err;
};

static bool hold(struct db_tx *tx, void *arg, struct error *err)
{
    struct rival *r = arg;
    struct db_rows rows;
    struct db_val key = DB_V_I(INT64_C(0x4C414E47424F5432));
    if (!db_query_text(tx, "SELECT pg_advisory_xact_lock(?)::text", &key, 1, &rows, err)) {
        return false;
    }
    r->ok = db_migrate(r->db, NULL, &r->err); /* on PostgreSQL the work is done in this fiber */
    return true;
}

static int rival_main(void *arg)
{
    struct rival r = {.db = open_db()};
    struct error e;
    assert_true(db_write(r.db, nowhere, hold, &r, &e));
    assert_false(r.ok);
    assert_int_equal(r.err.code, ERR_CONFLICT);
    db_close(r.db);
    return 0;
}

static void on(enum db_kind k, int (*fn)(void *arg))
{
    kind = k;
    if (k == DB_POSTGRES && server.skip) {
        print_message("skipped: %s\n", server.skip);
        skip();
    }
    base_init();
    assert_int_equal(task_run(fn, NULL), 0);
}

static void test_foreign_sqlite(void **state)
{
    on(DB_SQLITE, foreign_main);
}

static void test_fresh_sqlite(void **state)
{
    on(DB_SQLITE, fresh_main);
}

static void test_foreign_postgres(void **state)
{
    on(DB_POSTGRES, foreign_main);
}

static void test_rival_postgres(void **state)
{
    on(DB_POSTGRES, rival_main);
}

static void test_fresh_postgres(void **state)
{
    on(DB_POSTGRES, fresh_main);
}

static int start(void **state)
{
    snprintf(dir, sizeof(dir), "/tmp/parley-db-XXXXXX");
    if (!mkdtemp(dir)) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/a.db", dir);
    return pg_server_start(&server) || server.skip ? 0 : -1;
}

/* The backups of the SQLite tests are not those of the PostgreSQL ones. */
static int clear(void **state)
{
    remove_tree(dir);
    snprintf(dir, sizeof(dir), "/tmp/parley-db-XXXXXX");
    if (!mkdtemp(dir)) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/a.db", dir);
    return 0;
}

static int stop(void **state)
{
    remove_tree(dir);
    if (!server.skip) {
        pg_server_stop(&server);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_foreign_sqlite),
        cmocka_unit_test_teardown(test_fresh_sqlite, clear),
        cmocka_unit_test(test_foreign_postgres),
        cmocka_unit_test(test_rival_postgres),
        cmocka_unit_test(test_fresh_postgres),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
