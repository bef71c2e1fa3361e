/* db on SQLite: work that nobody waits for shares commits, and makes room for work that somebody waits for. */
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
    base_init();
    return 0;
}

static int teardown(void **state)
{
    remove_tree(dir);
    return 0;
}

static bool make(struct db_tx *tx, void *arg, struct error *err)
{
    return db_script(tx, "CREATE TABLE t (id INTEGER PRIMARY KEY)", err);
}

static struct db *open_db(void)
{
    struct error e;
    struct db_opts o = {.kind = DB_SQLITE, .path = path};
    struct db *db = db_open(&o, &e);
    assert_non_null(db);
    assert_true(db_write(db, nowhere, make, NULL, &e));
    return db;
}

static bool insert(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {.text = "INSERT INTO t (id) VALUES (NULL)"};
    return db_exec(tx, &sql, NULL, 0, NULL, err);
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

static uint64_t commits(const struct db *db)
{
    struct db_stats s;
    db_stats_get(db, &s);
    return s.commits;
}

static int done;
static struct task_cond all_done;

static void on_done(void *arg, bool ok, const struct error *err)
{
    done += ok ? 1 : 1000;
    task_cond_notify_all(&all_done);
}

static int share_main(void *arg)
{
    struct error e;
    int64_t n = 0;
    struct db *db = open_db();
    done = 0;
    /* Alone it is written all the same, within a moment. */
    assert_true(db_write_async(db, nowhere, insert, NULL, on_done, &e));
    while (done < 1) {
        assert_true(task_cond_wait(&all_done, &e));
    }
    /* Queued without a pause in between, so that all are there before the first has waited for its company. */
    uint64_t before = commits(db);
    for (int i = 0; i < 20; i++) {
        assert_true(db_write_async(db, nowhere, insert, NULL, on_done, &e));
    }
    assert_true(db_write(db, nowhere, insert, NULL, &e));
    assert_int_equal(done, 21); /* they came first, so they are done first */
    assert_true(commits(db) - before <= 5);
    assert_true(db_read(db, nowhere, count, &n, &e));
    assert_int_equal(n, 22);
    db_close(db);
    return 0;
}

static void test_share(void **state)
{
    assert_int_equal(task_run(share_main, NULL), 0);
}

/* ---- work that can be cut -------------------------------------------------------------------- */

struct long_work {
    bool wanted_alone, wanted;
};

static bool work(struct db_tx *tx, void *arg, struct error *err)
{
    struct long_work *w = arg;
    int64_t until = time_mono_us() + 20 * 1000 * 1000;
    w->wanted_alone = db_tx_wanted(tx);
    while (!w->wanted && time_mono_us() < until) {
        w->wanted = db_tx_wanted(tx);
    }
    return insert(tx, NULL, err);
}

static bool ask(struct db_tx *tx, void *arg, struct error *err)
{
    *(bool *)arg = db_tx_wanted(tx);
    return true;
}

static int wanted_main(void *arg)
{
    struct error e;
    struct db *db = open_db();
    static struct long_work w;
    bool reader = true;
    done = 0;
    assert_true(db_write_async(db, nowhere, work, &w, on_done, &e));
    assert_true(task_sleep_ms(50, &e)); /* it has begun; nobody waits */
    assert_int_equal(done, 0);
    assert_true(
        db_write(db, nowhere, insert, NULL, &e)); /* returns at all because the work saw it */
    assert_int_equal(done, 1);
    assert_true(w.wanted && !w.wanted_alone);
    assert_true(db_read(db, nowhere, ask, &reader, &e));
    assert_false(reader);
    db_close(db);
    return 0;
}

static void test_wanted(void **state)
{
    assert_int_equal(task_run(wanted_main, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_share, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wanted, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
