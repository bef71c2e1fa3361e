/* db on SQLite: units of work that may run twice, alone and among others, in one commit. */
#include "db/db.h"
#include "support/pg_server.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static char dir[64], path[128];
static const struct db_scope nowhere = {.kind = DB_SCOPE_NONE};

static int setup(void **state)
{
    snprintf(dir, sizeof(dir), "/tmp/parley-db-XXXXXX");
    if (!mkdtemp(dir)) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/a.db", dir);
    return 0;
}

static int teardown(void **state)
{
    remove_tree(dir);
    return 0;
}

struct work {
    int64_t id;
    int runs;
    bool fails, done, ok;
    char why[100];
};

static bool put(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {.text = "INSERT INTO t (id) VALUES (?)"};
    struct work *w = arg;
    struct db_val v = DB_V_I(w->id);
    w->runs++;
    db_touch(tx, 3);
    return db_exec(tx, &sql, &v, 1, NULL, err) &&
           (!w->fails || err_set(err, ERR_INVALID, "number %d is refused", (int)w->id));
}

static void finished(void *arg, bool ok, const struct error *err)
{
    struct work *w = arg;
    w->done = true;
    w->ok = ok;
    snprintf(w->why, sizeof(w->why), "%.99s", ok ? "" : err->msg);
}

static bool make_table(struct db_tx *tx, void *arg, struct error *err)
{
    return db_script(tx, "CREATE TABLE t (id INTEGER PRIMARY KEY)", err);
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

enum { WORKS = 40, REFUSED = 23 };

/* `each`: every so many units is one that runs once only (0: none). */
static void run_many(struct db *db, struct work *w, bool fails, int each)
{
    struct error e;
    for (int i = 0; i < WORKS; i++) {
        bool again = !each || i % each;
        w[i] = (struct work){.id = w[i].id, .fails = fails && i == REFUSED};
        bool ok = again ? db_write_twice_async(db, nowhere, put, &w[i], finished, &e)
                        : db_write_async(db, nowhere, put, &w[i], finished, &e);
        assert_true(ok);
    }
    assert_true(db_drain(db, &e));
    for (int i = 0; i < WORKS; i++) {
        bool again = !each || i % each;
        assert_true(w[i].done);
        assert_int_equal(w[i].ok, !w[i].fails);
        assert_true(w[i].runs >= 1 && w[i].runs <= (again ? 2 : 1));
        assert_string_equal(w[i].why, w[i].fails ? "number 23 is refused" : "");
    }
}

static struct db *open_table(void)
{
    struct error e;
    struct db_opts o = {.kind = DB_SQLITE, .path = path};
    struct db *db = db_open(&o, &e);
    if (!db || !db_write(db, nowhere, make_table, NULL, &e)) {
        fail_msg("%s", e.msg);
    }
    return db;
}

/* A failed one takes back its own changes only; the others are kept and counted once. */
static int mixed(void *arg)
{
    struct error e;
    for (int each = 0; each < 4; each += 3) {
        struct db *db = open_table();
        struct work w[WORKS];
        int64_t rows = 0;
        for (int i = 0; i < WORKS; i++) {
            w[i].id = i;
        }
        uint64_t version = db_version_of(db, 3);
        run_many(db, w, true, each);
        assert_true(db_read(db, nowhere, count, &rows, &e));
        assert_int_equal(rows, WORKS - 1);
        assert_true(db_version_of(db, 3) > version);
        for (int i = 0; i < WORKS; i++) {
            w[i].id = WORKS + i;
        }
        run_many(db, w, false, each);
        assert_true(db_read(db, nowhere, count, &rows, &e));
        assert_int_equal(rows, 2 * WORKS - 1);
        db_close(db);
        remove_tree(dir);
        setup(NULL);
    }
    return 0;
}

/* One alone that fails leaves nothing and is told why. */
static int alone(void *arg)
{
    struct error e;
    struct db *db = open_table();
    struct work w = {.id = 1, .fails = true};
    int64_t rows = -1;
    assert_false(db_write_twice(db, nowhere, put, &w, &e));
    assert_string_equal(e.msg, "number 1 is refused");
    assert_int_equal(w.runs, 1);
    w.fails = false;
    assert_true(db_write_twice(db, nowhere, put, &w, &e));
    assert_false(db_write_twice(db, nowhere, put, &w, &e));
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_true(db_read(db, nowhere, count, &rows, &e));
    assert_int_equal(rows, 1);
    db_close(db);
    return 0;
}

static void test_mixed(void **state)
{
    assert_int_equal(task_run(mixed, NULL), 0);
}

static void test_alone(void **state)
{
    assert_int_equal(task_run(alone, NULL), 0);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mixed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_alone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
