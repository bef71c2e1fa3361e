/* What the files of db/ share with each other only. */
#ifndef PARLEY_DB_PRIVATE_H
#define PARLEY_DB_PRIVATE_H

#include "db/db.h"

#include <stdatomic.h>

enum {
    DB_GROUPS = 32,
    DB_SCOPE_MAX = 512,
    DB_TX_ARENA_MAX = 64 << 20, /* all rows that one transaction reads */
    DB_TEXTS_MAX = 2048,        /* statements cached by their text, each connection */
};

struct sq;      /* SQLite: file, threads, queues */
struct sq_conn; /* one SQLite connection */
struct pg;      /* PostgreSQL: pool */
struct pg_conn; /* one PostgreSQL connection */

/* Loop thread. */
struct db_trouble {
    int64_t since_us; /* monotonic; 0: the database works */
    int64_t wait_ms;  /* until the next small write */
    struct task_timer timer;
    struct task_cond changed;
    struct list waiting, owed;
    size_t waiting_n, owed_n;
    uint64_t count;
    void (*on_over)(void *arg);
    void *arg;
    bool armed, probing, closing;
};

struct db {
    enum db_kind kind;
    size_t queue_max;
    uint64_t versions[DB_GROUPS]; /* loop thread */
    uint64_t commits, transactions, rollbacks, timeouts;
    size_t queued; /* units of work that wait or run, loop thread */
    struct db_trouble trouble;
    bool left_open; /* see db_left_open */
    struct sq *sq;
    struct pg *pg;
};

struct db_tx {
    struct db *db;
    enum db_kind kind;
    struct db_scope scope;
    struct arena *arena;
    uint32_t touched;
    bool failed;            /* rollback-only */
    struct error cause;     /* of the first failure */
    unsigned long failures; /* mem_failures() at the beginning */
    struct sq_conn *sq;
    struct pg_conn *pg;
    bool writes;
};

/* A statement number for the per-connection tables; given at the first use, callable from any thread. */
size_t db_slot(struct db_sql *sql);
/* Marks rollback-only and keeps the first cause; returns false. */
bool db_tx_fail(struct db_tx *tx, const struct error *err);
/* What a function made of its transaction: false where one of its statements failed. A failed allocation is ERR_NOMEM whatever the
 * function says: where it went unnoticed, half would be kept of what was written or given of what was read. */
bool db_tx_settle(const struct db_tx *tx, bool ok, struct error *err);
/* Loop thread: counts the declared groups of a committed transaction. */
void db_count_touched(struct db *db, uint32_t touched);
/* Prepares a result whose rows follow one by one; cells of the new row, or NULL when the arena is full. */
struct db_val *db_rows_add(struct db_tx *tx, struct db_rows *rows, size_t *cap);
bool db_rows_full(struct error *err); /* ERR_TOO_LARGE; false */
/* Waits for a descriptor inside a task_hold. False: the loop refuses it. */
bool db_wait_fd(int fd, int events) warn_unused;
bool db_scope_ok(const struct db_scope *scope, struct error *err) warn_unused;

/* ---- trouble.c ---- */
void db_trouble_open(struct db *db);
/* Nothing is tried again from now on; what is owed is given up. */
void db_trouble_close(struct db *db);
void db_trouble_begin(struct db *db, const struct error *err);
/* Of each unit of work that failed: ERR_IO and ERR_UNAVAILABLE begin it. */
void db_trouble_note(struct db *db, const struct error *err);

/* ---- sqlite_conn.c: one connection, used by one thread at a time ---- */
/* `lax`: commits do not wait for the disk until sq_conn_settle. */
enum sq_role { SQ_READER, SQ_WRITER, SQ_WRITER_LAX };
struct sq_conn *sq_conn_open(const char *path, enum sq_role role, size_t cache_kib,
                             struct error *err);
/* Brings all of the file to the disk and makes every later commit wait for it. */
bool sq_conn_settle(struct sq_conn *c, const char *path, struct error *err) warn_unused;
/* Fills the log up with zeros, which SQLite takes for its end: a commit that overwrites bytes is brought
 * to the disk in one step, one that makes the file longer takes the file system's journal too. By the
 * writer between two batches; a failure costs speed only. */
void sq_conn_pad(const char *path);
void sq_conn_close(struct sq_conn *c);
bool sq_begin(struct sq_conn *c, bool immediate, struct error *err) warn_unused;
bool sq_commit(struct sq_conn *c, struct error *err) warn_unused;
void sq_rollback(struct sq_conn *c);
bool sq_savepoint(struct sq_conn *c, struct error *err) warn_unused;
bool sq_release(struct sq_conn *c, struct error *err) warn_unused;
bool sq_rollback_to(struct sq_conn *c, struct error *err) warn_unused;
bool sq_in_tx(struct sq_conn *c);
bool sq_foreign_keys(struct sq_conn *c, bool on, struct error *err) warn_unused;
int sq_wal_pages(const struct sq_conn *c); /* after the last commit */
void sq_checkpoint(struct sq_conn *c, bool restart);
bool sq_run(struct db_tx *tx, struct db_sql *sql, const char *text, const struct db_val *args,
            size_t n, int64_t *changed, struct db_rows *out, struct error *err) warn_unused;
bool sq_script(struct db_tx *tx, const char *sql, struct error *err) warn_unused;
int64_t sq_last_id(struct sq_conn *c);

/* ---- sqlite.c: threads and queues ---- */
/* Takes the lock file of a database; -1 on failure. Closing the descriptor releases it. */
int sq_lock_file(const char *path, struct error *err);
bool sq_open(struct db *db, const struct db_opts *opts, struct error *err) warn_unused;
void sq_close(struct db *db);
bool sq_unit(struct db *db, struct db_scope scope, db_fn *fn, void *arg, bool write, bool again,
             struct error *err) warn_unused;
bool sq_unit_async(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
                   void (*done)(void *arg, bool ok, const struct error *err), bool again,
                   struct error *err) warn_unused;
bool sq_drain(struct db *db, struct error *err) warn_unused;
bool sq_settle_later(struct db *db, struct error *err) warn_unused;
bool sq_wanted(const struct db_tx *tx);
void sq_set_foreign_keys(struct db *db, bool on);
const char *sq_path(const struct db *db);
size_t sq_readers_busy(const struct db *db);

/* ---- backup.c ---- */
/* Writes the end of the story into the manifest next to the backup: "migration_succeeded" with the revision, or
 * "restored_after_failure". Blocking; worker thread. */
bool db_backup_mark(const char *backup_path, bool succeeded, const char *revision,
                    struct error *err) warn_unused;

/* ---- postgres.c: pool and units of work ---- */
bool pg_open(struct db *db, const struct db_opts *opts, struct error *err) warn_unused;
void pg_close(struct db *db);
bool pg_unit(struct db *db, struct db_scope scope, db_fn *fn, void *arg, bool write,
             struct error *err) warn_unused;
bool pg_unit_async(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
                   void (*done)(void *arg, bool ok, const struct error *err),
                   struct error *err) warn_unused;
bool pg_drain(struct db *db, struct error *err) warn_unused;
bool pg_run(struct db_tx *tx, struct db_sql *sql, const char *text, const struct db_val *args,
            size_t n, int64_t *changed, struct db_rows *out, struct error *err) warn_unused;
bool pg_script(struct db_tx *tx, const char *sql, struct error *err) warn_unused;
void pg_stats(const struct db *db, struct db_stats *out);

#endif
