/* db: what both engines share, and the choice between them. */
#include "db/db_private.h"

#include <pthread.h>

struct db_val db_val_z(const char *z)
{
    return z ? DB_V_S(str_c(z)) : DB_V_NULL;
}

const struct db_val *db_at(const struct db_rows *r, size_t row, size_t col)
{
    static const struct db_val none = {.type = DB_NULL};
    return row < r->n && col < r->cols ? &r->v[row * r->cols + col] : &none;
}

size_t db_slot(struct db_sql *sql)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int last;
    int slot = __atomic_load_n(&sql->slot, __ATOMIC_ACQUIRE);
    if (slot == 0) {
        pthread_mutex_lock(&lock);
        slot = sql->slot;
        if (slot == 0) {
            slot = ++last;
            __atomic_store_n(&sql->slot, slot, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&lock);
    }
    return (size_t)slot;
}

bool db_tx_fail(struct db_tx *tx, const struct error *err)
{
    if (!tx->failed) {
        tx->failed = true;
        tx->cause = *err;
    }
    return false;
}

bool db_tx_settle(const struct db_tx *tx, bool ok, struct error *err)
{
    if (mem_failures() != tx->failures) {
        return err_set(err, ERR_NOMEM, "out of memory in a transaction");
    }
    if (!ok && err->code == ERR_NONE) {
        return err_set(err, ERR_INTERNAL, "a transaction failed without a reason");
    }
    if (ok && tx->failed) {
        *err = tx->cause;
        return err_wrap(err, "transaction rolled back");
    }
    return ok;
}

void db_count_touched(struct db *db, uint32_t touched)
{
    for (; touched; touched &= touched - 1) {
        db->versions[__builtin_ctz(touched)]++;
    }
}

bool db_rows_full(struct error *err)
{
    return err_set(err, ERR_TOO_LARGE, "a database result is larger than %d MiB",
                   DB_TX_ARENA_MAX >> 20);
}

struct db_val *db_rows_add(struct db_tx *tx, struct db_rows *rows, size_t *cap)
{
    if (rows->n == *cap) {
        size_t more = *cap ? *cap * 2 : 4;
        if (rows->cols && more > SIZE_MAX / sizeof(struct db_val) / rows->cols) {
            return NULL;
        }
        struct db_val *v = arena_alloc(tx->arena, more * rows->cols * sizeof(*v));
        if (!v) {
            return NULL;
        }
        if (rows->n) {
            memcpy(v, rows->v, rows->n * rows->cols * sizeof(*v));
        }
        rows->v = v;
        *cap = more;
    }
    return &rows->v[rows->n++ * rows->cols];
}

bool db_scope_ok(const struct db_scope *scope, struct error *err)
{
    if (scope->kind == DB_SCOPE_NONE || scope->kind == DB_SCOPE_SYSTEM) {
        return true;
    }
    struct str value = str_c(scope->value);
    if (value.n == 0 || value.n > DB_SCOPE_MAX || !str_eq(str_trim(value), value)) {
        return err_set(err, ERR_INTERNAL, "a database scope must be trimmed and 1 to %d bytes long",
                       DB_SCOPE_MAX);
    }
    return true;
}

bool db_wait_fd(int fd, int events)
{
    struct error e;
    return task_fd_wait(fd, events, &e);
}

/* ---- inside a transaction ---- */

static bool run(struct db_tx *tx, struct db_sql *sql, const char *text, const struct db_val *args,
                size_t n, int64_t *changed, struct db_rows *out, struct error *err)
{
    if (tx->failed) {
        return err_set(err, ERR_INTERNAL, "the transaction failed before: %s", tx->cause.msg);
    }
    if (out) {
        *out = (struct db_rows){.n = 0};
    }
    bool ok = tx->kind == DB_SQLITE ? sq_run(tx, sql, text, args, n, changed, out, err)
                                    : pg_run(tx, sql, text, args, n, changed, out, err);
    return ok ? true : db_tx_fail(tx, err);
}

bool db_exec(struct db_tx *tx, struct db_sql *sql, const struct db_val *args, size_t n,
             int64_t *changed, struct error *err)
{
    return run(tx, sql, NULL, args, n, changed, NULL, err);
}

bool db_query(struct db_tx *tx, struct db_sql *sql, const struct db_val *args, size_t n,
              struct db_rows *out, struct error *err)
{
    return run(tx, sql, NULL, args, n, NULL, out, err);
}

bool db_exec_text(struct db_tx *tx, const char *text, const struct db_val *args, size_t n,
                  int64_t *changed, struct error *err)
{
    return run(tx, NULL, text, args, n, changed, NULL, err);
}

bool db_query_text(struct db_tx *tx, const char *text, const struct db_val *args, size_t n,
                   struct db_rows *out, struct error *err)
{
    return run(tx, NULL, text, args, n, NULL, out, err);
}

bool db_script(struct db_tx *tx, const char *sql, struct error *err)
{
    if (tx->failed) {
        return err_set(err, ERR_INTERNAL, "the transaction failed before: %s", tx->cause.msg);
    }
    bool ok = tx->kind == DB_SQLITE ? sq_script(tx, sql, err) : pg_script(tx, sql, err);
    return ok ? true : db_tx_fail(tx, err);
}

int64_t db_last_id(struct db_tx *tx)
{
    return tx->kind == DB_SQLITE ? sq_last_id(tx->sq) : 0;
}

struct arena *db_tx_arena(struct db_tx *tx)
{
    return tx->arena;
}

enum db_kind db_tx_kind(const struct db_tx *tx)
{
    return tx->kind;
}

const struct db_scope *db_tx_scope(const struct db_tx *tx)
{
    return &tx->scope;
}

bool db_tx_wanted(const struct db_tx *tx)
{
    return tx->kind == DB_SQLITE && tx->writes && sq_wanted(tx);
}

void db_touch(struct db_tx *tx, unsigned group)
{
    if (group < DB_GROUPS) {
        tx->touched |= UINT32_C(1) << group;
    }
}

/* ---- units of work ---- */

static bool unit(struct db *db, struct db_scope scope, db_fn *fn, void *arg, bool write, bool again,
                 struct error *err)
{
    if (!task_in_fiber()) {
        return err_set(err, ERR_INTERNAL,
                       "a unit of work must be opened by a fiber, not inside another one");
    }
    if (!db_scope_ok(&scope, err)) {
        return false;
    }
    if (db->queued >= db->queue_max) {
        return err_tag(err, ERR_CAPACITY, 503, "database_busy",
                       "%zu database transactions wait already", db->queue_max);
    }
    struct task_hold hold;
    db->queued++;
    task_hold_begin(&hold);
    bool ok = db->kind == DB_SQLITE ? sq_unit(db, scope, fn, arg, write, again, err)
                                    : pg_unit(db, scope, fn, arg, write, err);
    task_hold_end(&hold);
    db->queued--;
    if (!ok)
        db_trouble_note(db, err);
    return ok;
}

bool db_write(struct db *db, struct db_scope scope, db_fn *fn, void *arg, struct error *err)
{
    return unit(db, scope, fn, arg, true, false, err);
}

bool db_write_twice(struct db *db, struct db_scope scope, db_fn *fn, void *arg, struct error *err)
{
    return unit(db, scope, fn, arg, true, true, err);
}

bool db_read(struct db *db, struct db_scope scope, db_fn *fn, void *arg, struct error *err)
{
    return unit(db, scope, fn, arg, false, false, err);
}

static bool unit_async(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
                       void (*done)(void *arg, bool ok, const struct error *err), bool again,
                       struct error *err)
{
    if (!db_scope_ok(&scope, err)) {
        return false;
    }
    if (db->queued >= db->queue_max) {
        return err_tag(err, ERR_CAPACITY, 503, "database_busy",
                       "%zu database transactions wait already", db->queue_max);
    }
    return db->kind == DB_SQLITE ? sq_unit_async(db, scope, fn, arg, done, again, err)
                                 : pg_unit_async(db, scope, fn, arg, done, err);
}

bool db_write_async(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
                    void (*done)(void *arg, bool ok, const struct error *err), struct error *err)
{
    return unit_async(db, scope, fn, arg, done, false, err);
}

bool db_write_twice_async(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
                          void (*done)(void *arg, bool ok, const struct error *err),
                          struct error *err)
{
    return unit_async(db, scope, fn, arg, done, true, err);
}

bool db_drain(struct db *db, struct error *err)
{
    if (!task_in_fiber()) {
        return err_set(err, ERR_INTERNAL, "only a fiber can wait for the database");
    }
    struct task_hold hold;
    task_hold_begin(&hold);
    bool ok = db->kind == DB_SQLITE ? sq_drain(db, err) : pg_drain(db, err);
    task_hold_end(&hold);
    return ok;
}

bool db_settle(struct db *db, struct error *err)
{
    return db->kind != DB_SQLITE || sq_settle_later(db, err);
}

uint64_t db_version_of(const struct db *db, unsigned group)
{
    return group < DB_GROUPS ? db->versions[group] : 0;
}

bool db_cacheable(const struct db *db)
{
    return db->kind == DB_SQLITE;
}

/* ---- opening ---- */

struct db *db_open(const struct db_opts *opts, struct error *err)
{
    struct db *db = new (struct db);
    if (!db) {
        err_set(err, ERR_NOMEM, "no memory for the database");
        return NULL;
    }
    db->kind = opts->kind;
    db->queue_max = opts->queue_max ? opts->queue_max : 20000;
    db_trouble_open(db);
    bool ok = opts->kind == DB_SQLITE ? sq_open(db, opts, err) : pg_open(db, opts, err);
    if (!ok) {
        mem_free(db);
        return NULL;
    }
    return db;
}

void db_close(struct db *db)
{
    if (!db) {
        return;
    }
    db_trouble_close(db);
    if (db->kind == DB_SQLITE) {
        sq_close(db);
    } else {
        pg_close(db);
    }
    mem_free(db);
}

bool db_left_open(const struct db *db)
{
    return db->kind != DB_SQLITE || db->left_open;
}

enum db_kind db_kind_of(const struct db *db)
{
    return db->kind;
}

bool db_foreign_keys(struct db *db, bool on, struct error *err)
{
    if (db->kind != DB_SQLITE) {
        return true; /* PostgreSQL always enforces them */
    }
    sq_set_foreign_keys(db, on);
    return db_drain(db, err);
}

void db_stats_get(const struct db *db, struct db_stats *out)
{
    *out = (struct db_stats){
        .queued = db->queued,
        .commits = db->commits,
        .transactions = db->transactions,
        .rollbacks = db->rollbacks,
        .timeouts = db->timeouts,
        .failing_s =
            db->trouble.since_us ? (double)(time_mono_us() - db->trouble.since_us) / 1e6 + 1e-6 : 0,
        .failing_waits = db->trouble.waiting_n,
        .owed = db->trouble.owed_n,
        .failures = db->trouble.count,
    };
    if (db->kind == DB_SQLITE) {
        out->readers_busy = sq_readers_busy(db);
    } else {
        pg_stats(db, out);
    }
}
