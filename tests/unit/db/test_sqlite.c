/* db on SQLite: units of work, group commit, failures inside a batch, durability under kill -9,
 * lock, versions, scopes. */
#include "db/db.h"
#include "support/pg_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
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

static struct db *open_db(void)
{
    struct error e;
    struct db_opts o = {.kind = DB_SQLITE, .path = path};
    struct db *db = db_open(&o, &e);
    if (!db) {
        print_error("%s\n", e.msg);
    }
    assert_non_null(db);
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
    static struct db_sql sql = {.text = "INSERT INTO t (id, v) VALUES (?, ?)"};
    struct db_val args[] = {DB_V_I(*(int64_t *)arg), DB_V_S(S("text"))};
    int64_t changed = 0;
    db_touch(tx, 3);
    return db_exec(tx, &sql, args, 2, &changed, err) &&
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

/* Each test body runs as the first fiber. */
static void in_fiber(int (*fn)(void *arg))
{
    base_init();
    assert_int_equal(task_run(fn, NULL), 0);
}

/* ---- values ---------------------------------------------------------------------------------- */

struct values {
    bool checked;
};

static bool values_body(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql in = {.text = "INSERT INTO v (a, b, c, d, e) VALUES (?, ?, ?, ?, ?)"};
    static struct db_sql out = {.text = "SELECT a, b, c, d, e FROM v"};
    struct db_val args[] = {DB_V_I(INT64_MIN), DB_V_F(2.5), DB_V_S(str_n("a\0b", 3)),
                            DB_V_BLOB(str_n("\0\1", 2)), DB_V_NULL};
    struct db_rows rows;
    if (!db_exec(tx, &in, args, 5, NULL, err) || !db_query(tx, &out, NULL, 0, &rows, err)) {
        return false;
    }
    ((struct values *)arg)->checked =
        rows.n == 1 && rows.cols == 5 && db_at(&rows, 0, 0)->i == INT64_MIN &&
        db_at(&rows, 0, 1)->f == 2.5 && str_eq(db_at(&rows, 0, 2)->s, str_n("a\0b", 3)) &&
        db_at(&rows, 0, 3)->type == DB_BLOB && str_eq(db_at(&rows, 0, 3)->s, str_n("\0\1", 2)) &&
        db_at(&rows, 0, 4)->type == DB_NULL && strcmp(rows.names[3], "d") == 0 &&
        db_at(&rows, 1, 0)->type == DB_NULL && db_tx_kind(tx) == DB_SQLITE &&
        strcmp(db_tx_scope(tx)->value, "w1") == 0;
    return true;
}

static int values_main(void *arg)
{
    struct db *db = open_db();
    struct values v = {false};
    struct error e;
    must_script(db, "CREATE TABLE v (a INTEGER, b FLOAT, c TEXT, d BLOB, e TEXT)");
    assert_true(db_write(db, (struct db_scope){DB_SCOPE_WORKSPACE, "w1"}, values_body, &v, &e));
    assert_true(v.checked);
    assert_false(db_write(db, (struct db_scope){DB_SCOPE_WORKSPACE, " w1"}, values_body, &v, &e));
    assert_false(db_write(db, (struct db_scope){DB_SCOPE_WORKSPACE, ""}, values_body, &v, &e));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    db_close(db);
    return 0;
}

static void test_values(void **state)
{
    in_fiber(values_main);
}

/* ---- conflicts and rollback-only ------------------------------------------------------------- */

static bool swallow(struct db_tx *tx, void *arg, struct error *err)
{
    struct error inner;
    int64_t one = 1, two = 2;
    bool first = insert(tx, &two, &inner);
    bool again = insert(tx, &one, &inner); /* id 1 exists: ignored by this careless code */
    bool later = insert(tx, &two, &inner); /* refused: the transaction has failed */
    *(bool *)arg = first && !again && !later;
    return true;
}

static bool orphan(struct db_tx *tx, void *arg, struct error *err)
{
    return db_exec_text(tx, "INSERT INTO c (t) VALUES (99)", NULL, 0, NULL, err);
}

static bool wrong_count(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {.text = "INSERT INTO t (id, v) VALUES (?, ?)"};
    return db_exec(tx, &sql, NULL, 0, NULL, err);
}

static bool no_reason(struct db_tx *tx, void *arg, struct error *err)
{
    return false;
}

static int conflicts_main(void *arg)
{
    struct db *db = open_db();
    struct error e;
    int64_t one = 1;
    bool seen = false;
    must_script(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL CHECK (v <> ''));"
                    "CREATE TABLE c (t INTEGER REFERENCES t (id))");
    assert_true(db_write(db, nowhere, insert, &one, &e));
    assert_int_equal(db_version_of(db, 3), 1);
    assert_false(db_write(db, nowhere, insert, &one, &e));
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_string_equal(e.tag, "unique");
    assert_int_equal(db_version_of(db, 3), 1);
    assert_false(db_write(db, nowhere, swallow, &seen, &e));
    assert_true(seen);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_int_equal(rows_of(db), 1);
    assert_false(db_write(db, nowhere, orphan, NULL, &e));
    assert_string_equal(e.tag, "foreign_key");
    assert_true(db_foreign_keys(db, false, &e));
    assert_true(db_write(db, nowhere, orphan, NULL, &e));
    assert_false(db_write(db, nowhere, wrong_count, NULL, &e));
    assert_int_equal(e.code, ERR_INTERNAL);
    assert_false(db_write(db, nowhere, no_reason, NULL, &e));
    assert_int_equal(e.code, ERR_INTERNAL);
    assert_false(db_read(db, nowhere, insert, &one, &e)); /* readers do not write */
    db_close(db);
    return 0;
}

static void test_conflicts(void **state)
{
    in_fiber(conflicts_main);
}

/* ---- group commit ---------------------------------------------------------------------------- */

enum { WRITERS = 300 };

struct item {
    struct db *db;
    int64_t id;
    int how; /* 0 good, 1 fails by itself, 2 statement fails, 3 fails and pretends not to, 4 memory ends inside */
    bool ok;
};

static bool item_body(struct db_tx *tx, void *arg, struct error *err)
{
    struct item *it = arg;
    int64_t twin = it->id + 100000;
    struct error inner;
    if (!insert(tx, &it->id, err) || !insert(tx, &twin, err)) {
        return false;
    }
    if (it->how == 1) {
        return err_set(err, ERR_INVALID, "changed its mind");
    }
    if (it->how == 2) {
        return insert(tx, &it->id, err);
    }
    if (it->how == 3) {
        if (insert(tx, &it->id, &inner)) {
            return err_set(err, ERR_INTERNAL, "a duplicate went in");
        }
        return true;
    }
    if (it->how == 4) {
        mem_fail_after(1, true);
        int64_t n;
        struct db_rows rows;
        bool ok =
            db_query_text(tx, "SELECT id, v FROM t", NULL, 0, &rows, err) && count(tx, &n, err);
        mem_fail_after(0, false);
        return ok;
    }
    return true;
}

static void item_fiber(void *arg)
{
    struct item *it = arg;
    struct error e;
    it->ok = db_write(it->db, nowhere, item_body, it, &e);
}

static int group_main(void *arg)
{
    static struct item items[WRITERS];
    struct db *db = open_db();
    struct error e;
    must_script(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
    struct task_group *g = task_group_new(NULL, "test");
    int good = 0;
    for (int i = 0; i < WRITERS; i++) {
        items[i] = (struct item){.db = db, .id = i + 1, .how = i % 7 < 5 ? i % 7 : 0};
        good += items[i].how == 0;
        assert_true(task_spawn(g, "writer", item_fiber, &items[i], &e));
    }
    assert_true(task_group_wait(g, &e));
    task_group_free(g);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(items[i].ok, items[i].how == 0);
    }
    assert_int_equal(rows_of(db), 2 * good);
    struct db_stats s;
    db_stats_get(db, &s);
    assert_true(s.commits < s.transactions / 2); /* they did share commits */
    assert_int_equal(s.queued, 0);
    assert_int_equal(db_version_of(db, 3), good);
    db_close(db);
    return 0;
}

static void test_group_commit(void **state)
{
    in_fiber(group_main);
}

/* ---- asynchronous writes, capacity, cancellation --------------------------------------------- */

static int async_done;

static void on_done(void *arg, bool ok, const struct error *err)
{
    async_done += ok ? 1 : 1000;
}

static bool slow_insert(struct db_tx *tx, void *arg, struct error *err)
{
    struct timespec pause = {.tv_nsec = 30 * 1000 * 1000};
    nanosleep(&pause, NULL);
    return insert(tx, arg, err);
}

struct late {
    struct db *db;
    int64_t id;
    bool ok;
};

static void late_fiber(void *arg)
{
    struct late *l = arg;
    struct error e;
    struct task_deadline d;
    task_deadline_push(&d, 1);
    l->ok = db_write(l->db, nowhere, slow_insert, &l->id, &e);
    task_deadline_pop(&d);
}

static int async_main(void *arg)
{
    struct error e;
    struct db_opts o = {.kind = DB_SQLITE, .path = path, .queue_max = 50};
    struct db *db = db_open(&o, &e);
    assert_non_null(db);
    static int64_t ids[60];
    must_script(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
    int accepted = 0;
    for (int i = 0; i < 60; i++) {
        ids[i] = i + 1;
        accepted += db_write_async(db, nowhere, insert, &ids[i], on_done, &e);
    }
    assert_int_equal(accepted, 50);
    assert_int_equal(e.code, ERR_CAPACITY);
    assert_true(db_drain(db, &e));
    assert_int_equal(async_done, 50);
    assert_int_equal(rows_of(db), 50);
    /* Late and cancelled callers get the true result. */
    struct late l = {.db = db, .id = 1000};
    struct task_group *g = task_group_new(NULL, "late");
    assert_true(task_spawn(g, "late", late_fiber, &l, &e));
    task_yield();
    task_group_cancel(g);
    task_group_free(g);
    assert_true(l.ok);
    assert_int_equal(rows_of(db), 51);
    assert_true(db_write_async(db, nowhere, insert, &(int64_t){2000}, NULL, &e));
    db_close(db); /* finishes what is queued */
    db = open_db();
    assert_int_equal(rows_of(db), 52);
    db_close(db);
    return 0;
}

static void test_async(void **state)
{
    async_done = 0;
    in_fiber(async_main);
}

/* ---- lock ------------------------------------------------------------------------------------ */

static int lock_main(void *arg)
{
    struct error e;
    struct db_opts o = {.kind = DB_SQLITE, .path = path};
    struct db *db = open_db();
    assert_null(db_open(&o, &e));
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_string_equal(e.msg, "database is in use by another process");
    assert_false(db_restore(path, "nothing", &e));
    db_close(db);
    db = open_db();
    db_close(db);
    o.path = ":memory:";
    assert_null(db_open(&o, &e));
    assert_int_equal(e.code, ERR_INVALID);
    char missing[256];
    snprintf(missing, sizeof(missing), "%s/none/a.db", dir);
    o.path = missing;
    assert_null(db_open(&o, &e));
    db_close(NULL);
    return 0;
}

static void test_lock(void **state)
{
    in_fiber(lock_main);
}

/* ---- kill -9 --------------------------------------------------------------------------------- */

enum { KILL_FIBERS = 20 };

struct killer {
    struct db *db;
    int out;
    int number;
};

static void kill_fiber(void *arg)
{
    const struct killer *k = arg;
    struct error e;
    for (int32_t i = 0; i < 100000; i++) {
        int64_t id = (int64_t)k->number * 1000000 + i;
        if (!db_write(k->db, nowhere, insert, &id, &e)) {
            _exit(3);
        }
        if (write(k->out, &id, sizeof(id)) != (ssize_t)sizeof(id)) { /* acknowledged */
            _exit(4);
        }
    }
}

static int kill_main(void *arg)
{
    static struct killer k[KILL_FIBERS];
    struct error e;
    struct db_opts o = {.kind = DB_SQLITE, .path = path};
    struct db *db = db_open(&o, &e);
    struct task_group *g = task_group_new(NULL, "kill");
    for (int i = 0; i < KILL_FIBERS && db; i++) {
        k[i] = (struct killer){.db = db, .out = *(int *)arg, .number = i};
        if (!task_spawn(g, "writer", kill_fiber, &k[i], &e)) {
            _exit(5);
        }
    }
    return db && task_group_wait(g, &e) ? 0 : 1;
}

static int make_main(void *arg)
{
    struct db *db = open_db();
    must_script(db, "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, v TEXT)");
    must_script(db, "DELETE FROM t");
    db_close(db);
    return 0;
}

static int64_t *acked;
static size_t nacked;

static bool all_there(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {.text = "SELECT v FROM t WHERE id = ?"};
    size_t *missing = arg;
    for (size_t i = 0; i < nacked; i++) {
        struct db_val v = DB_V_I(acked[i]);
        struct db_rows rows;
        if (!db_query(tx, &sql, &v, 1, &rows, err)) {
            return false;
        }
        *missing += rows.n != 1;
    }
    return true;
}

static int check_main(void *arg)
{
    struct db *db = open_db();
    struct error e;
    size_t missing = 0;
    assert_true(db_read(db, nowhere, all_there, &missing, &e));
    assert_int_equal(missing, 0);
    db_close(db);
    return 0;
}

static void test_kill(void **state)
{
    base_init();
    for (int round = 0; round < 4; round++) {
        int ends[2];
        assert_int_equal(task_run(make_main, NULL), 0);
        assert_int_equal(pipe(ends), 0);
        fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            close(ends[0]);
            _exit(task_run(kill_main, &ends[1]));
        }
        close(ends[1]);
        struct pollfd first = {.fd = ends[0], .events = POLLIN};
        assert_int_equal(poll(&first, 1, 30000), 1);
        struct timespec pause = {.tv_nsec = (20 + round * 83) * 1000 * 1000};
        nanosleep(&pause, NULL);
        kill(pid, SIGKILL);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        acked = mem_alloc(sizeof(int64_t) * 200000);
        nacked = 0;
        while (nacked < 200000 &&
               read(ends[0], &acked[nacked], sizeof(int64_t)) == (ssize_t)sizeof(int64_t)) {
            nacked++;
        }
        close(ends[0]);
        assert_true(nacked > 0);
        assert_int_equal(task_run(check_main, NULL), 0);
        mem_free(acked);
    }
}

/* ---- the log is moved into the file ---------------------------------------------------------- */

static bool big_insert(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {.text = "INSERT INTO t (id, v) VALUES (?, ?)"};
    static char text[3000];
    memset(text, 'x', sizeof(text));
    int64_t *id = arg;
    for (int i = 0; i < 50; i++) {
        struct db_val args[] = {DB_V_I(++*id), DB_V_S(str_n(text, sizeof(text)))};
        if (!db_exec(tx, &sql, args, 2, NULL, err)) {
            return false;
        }
    }
    return true;
}

static int wal_main(void *arg)
{
    struct db *db = open_db();
    struct error e;
    int64_t id = 0;
    must_script(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
    for (int i = 0; i < 400; i++) { /* about 80 MB through the log */
        assert_true(db_write(db, nowhere, big_insert, &id, &e));
    }
    char wal[160];
    snprintf(wal, sizeof(wal), "%s-wal", path);
    struct stat st;
    assert_int_equal(stat(wal, &st), 0);
    assert_true(st.st_size < 80 << 20);
    assert_int_equal(rows_of(db), 20000);
    db_close(db);
    assert_int_equal(stat(wal, &st), -1); /* moved into the file and removed */
    return 0;
}

static void test_wal(void **state)
{
    in_fiber(wal_main);
}

/* ---- backup and restore ---------------------------------------------------------------------- */

static int backup_main(void *arg)
{
    struct db *db = open_db();
    struct error e;
    auto_arena a = arena_new(1 << 20);
    const char *copy = NULL;
    int64_t one = 1, two = 2;
    must_script(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
    assert_true(db_write(db, nowhere, insert, &one, &e));
    assert_true(db_backup(db, a, "0001", "0002_next", &copy, &e));
    assert_non_null(strstr(copy, "/migration-backups/a-pre-0002_next-from-0001-"));
    assert_true(db_write(db, nowhere, insert, &two, &e));
    db_close(db);
    char name[512];
    snprintf(name, sizeof(name), "%s.json", copy);
    auto_json manifest = json_load_file(name, 0, NULL);
    assert_string_equal(json_z(manifest, "status"), "verified");
    assert_string_equal(json_z(manifest, "quick_check"), "ok");
    struct stat st;
    assert_int_equal(stat(copy, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    snprintf(name, sizeof(name), "%s/migration-backups", dir);
    assert_int_equal(stat(name, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_true(db_restore(path, copy, &e));
    snprintf(name, sizeof(name), "%s.json", copy);
    auto_json after = json_load_file(name, 0, NULL);
    assert_string_equal(json_z(after, "status"), "restored_after_failure");
    db = open_db();
    assert_int_equal(rows_of(db), 1);
    db_close(db);
    /* A damaged copy is refused and the database stays. */
    auto_fd fd = open(copy, O_WRONLY);
    assert_int_equal(pwrite(fd, "garbage!", 8, 4096), 8);
    assert_false(db_restore(path, copy, &e));
    db = open_db();
    assert_int_equal(rows_of(db), 1);
    db_close(db);
    return 0;
}

static void test_backup(void **state)
{
    in_fiber(backup_main);
}

/* ---- calls that fail ---- */

static size_t files_in(const char *folder)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        n += entry->d_name[0] != '.';
    }
    if (d) {
        closedir(d);
    }
    return n;
}

static int failing_calls_main(void *arg)
{
    static const enum task_sys_op ops[] = {TASK_SYS_OPEN,   TASK_SYS_FSYNC, TASK_SYS_WRITE,
                                           TASK_SYS_RENAME, TASK_SYS_MKDIR, TASK_SYS_UNLINK};
    struct db *db = open_db();
    struct error e;
    char folder[160];
    int64_t one = 1, two = 2;
    size_t good = 0, failed = 0;
    const char *copy = NULL;
    auto_arena a = arena_new(4 << 20);
    snprintf(folder, sizeof(folder), "%s/migration-backups", dir);
    must_script(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
    assert_true(db_write(db, nowhere, insert, &one, &e));
    assert_true(db_settle(db, &e) && db_drain(db, &e));
    for (size_t i = 0; i < array_len(ops); i++) {
        for (long nth = 1; nth < 8; nth++) {
            task_sys_fail_after(ops[i], nth, false, ENOSPC);
            bool ok = db_backup(db, a, "a", "b", &copy, &e);
            task_sys_fail_after(ops[i], 0, false, 0);
            good += ok;
            failed += !ok;
            /* A copy and its manifest, or neither. */
            assert_int_equal(files_in(folder), 2 * good);
        }
    }
    assert_true(failed >= 8);
    assert_true(db_write(db, nowhere, insert, &two, &e));
    db_close(db);
    failed = 0;
    for (size_t i = 0; i < array_len(ops); i++) {
        for (long nth = 1; nth < 12; nth++) {
            task_sys_fail_after(ops[i], nth, false, EIO);
            failed += !db_restore(path, copy, &e);
            task_sys_fail_after(ops[i], 0, false, 0);
            db = open_db();
            int64_t rows = rows_of(db);
            assert_true(rows == 1 || rows == 2);
            db_close(db);
        }
    }
    assert_true(failed >= 5);
    assert_true(db_restore(path, copy, &e));
    db = open_db();
    assert_int_equal(rows_of(db), 1);
    db_close(db);
    return 0;
}

static void test_failing_calls(void **state)
{
    in_fiber(failing_calls_main);
}

/* A fresh file that cannot be brought to the disk acknowledges nothing. */
static int settle_main(void *arg)
{
    struct db *db = open_db();
    struct error e;
    int64_t one = 1;
    must_script(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
    task_sys_fail_after(TASK_SYS_FSYNC, 1, true, EIO);
    assert_true(db_settle(db, &e));
    assert_false(db_drain(db, &e));
    time_shift_us(0, 2000000);
    assert_false(db_write(db, nowhere, insert, &one, &e));
    assert_int_equal(e.code, ERR_IO);
    task_sys_fail_after(TASK_SYS_FSYNC, 0, false, 0);
    assert_true(db_write(db, nowhere, insert, &one, &e));
    assert_int_equal(rows_of(db), 1);
    time_shift_us(0, -2000000);
    db_close(db);
    return 0;
}

static void test_settle(void **state)
{
    in_fiber(settle_main);
}

/* ---- the disk is full ---- */

static atomic_int full; /* 1: every write of SQLite fails */
static ssize_t (*real_pwrite)(int fd, const void *p, size_t n, off_t at);

static ssize_t full_pwrite(int fd, const void *p, size_t n, off_t at)
{
    if (atomic_load(&full)) {
        errno = ENOSPC;
        return -1;
    }
    return real_pwrite(fd, p, n, at);
}

static void hook_writes(bool on)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    static const char *const names[] = {"pwrite", "pwrite64"};
    real_pwrite = pwrite;
    for (size_t i = 0; i < array_len(names); i++) {
        vfs->xSetSystemCall(vfs, names[i], on ? (sqlite3_syscall_ptr)full_pwrite : NULL);
    }
}

static int full_main(void *arg)
{
    static struct item items[100];
    struct db *db = open_db();
    struct error e;
    int64_t want = 0;
    must_script(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
    for (int round = 0; round < 3; round++) {
        struct task_group *g = task_group_new(NULL, "full");
        atomic_store(&full, round == 1);
        for (int i = 0; i < 100; i++) {
            items[i] = (struct item){.db = db, .id = round * 1000 + i + 1};
            assert_true(task_spawn(g, "writer", item_fiber, &items[i], &e));
        }
        assert_true(task_group_wait(g, &e));
        task_group_free(g);
        for (int i = 0; i < 100; i++) {
            assert_int_equal(items[i].ok, round != 1);
        }
        want += round == 1 ? 0 : 200;
        assert_int_equal(rows_of(db), want);
    }
    db_close(db);
    return 0;
}

static void test_full(void **state)
{
    hook_writes(true);
    in_fiber(full_main);
    hook_writes(false);
}

/* ---- memory ends while opening: an error, no leak -------------------------------------------- */

static int open_failing(void *arg)
{
    long before = mem_live();
    for (long nth = 1; nth < 40; nth++) {
        struct error e;
        struct db_opts o = {.kind = DB_SQLITE, .path = path};
        mem_fail_after(nth, true);
        struct db *db = db_open(&o, &e);
        mem_fail_after(0, false);
        if (db) {
            db_close(db);
        } else {
            assert_int_equal(e.code, ERR_NOMEM);
        }
    }
    assert_int_equal(mem_live(), before);
    return 0;
}

static void test_open_failing(void **state)
{
    in_fiber(open_failing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_conflicts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_async, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kill, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_backup, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failing_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(test_settle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full, setup, teardown),
        cmocka_unit_test_setup_teardown(test_open_failing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
