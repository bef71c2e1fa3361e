/* db: SQLite (embedded) and PostgreSQL behind one interface. Knows nothing of tables; store/ holds all SQL. design.md §6,
 * persistence-and-ops.md §1, §3.1, tenancy.md §10. */
#ifndef PARLEY_DB_H
#define PARLEY_DB_H

#include "base/base.h"
#include "task/task.h"

struct db;
struct db_tx; /* one transaction on one connection, handed to the function that runs in it */

enum db_kind { DB_SQLITE, DB_POSTGRES };

/* The scope a transaction is bound to (tenancy.md §10): on PostgreSQL it becomes the transaction-local setting that row-level
 * security reads; on SQLite store/ binds it in every statement. Values: trimmed, non-empty, <= 512 bytes. */
enum db_scope_kind {
    DB_SCOPE_NONE, /* instance-global tables only */
    DB_SCOPE_WORKSPACE,
    DB_SCOPE_ACCOUNT,
    DB_SCOPE_API_KEY,
    DB_SCOPE_INVITATION,
    DB_SCOPE_INSTANCE,
    DB_SCOPE_IDENTITY,
    DB_SCOPE_DIRECTORY,
    DB_SCOPE_SYSTEM, /* background work over all workspaces of this process: allowed only to the owner role */
};
struct db_scope {
    enum db_scope_kind kind;
    const char *value; /* copied */
};

/* ---- values -------------------------------------------------------------------------------------------------------------- */
enum db_type { DB_NULL, DB_INT, DB_FLOAT, DB_TEXT, DB_BLOB };
struct db_val {
    enum db_type type;
    int64_t i;
    double f;
    struct str s;
};
#define DB_V_NULL    ((struct db_val){.type = DB_NULL})
#define DB_V_I(x)    ((struct db_val){.type = DB_INT, .i = (int64_t)(x)})
#define DB_V_B(x)    ((struct db_val){.type = DB_INT, .i = (x) ? 1 : 0})
#define DB_V_F(x)    ((struct db_val){.type = DB_FLOAT, .f = (x)})
#define DB_V_S(x)    ((struct db_val){.type = DB_TEXT, .s = (x)})
#define DB_V_Z(x)    db_val_z(x)
#define DB_V_BLOB(x) ((struct db_val){.type = DB_BLOB, .s = (x)})
struct db_val db_val_z(const char *z); /* NULL becomes SQL NULL */

/* A prepared statement, static storage, shared by all connections (each prepares it once). Portable SQL with '?' placeholders
 * (rewritten to $n); `pg` replaces the text on PostgreSQL where the dialects differ. Boolean parameters are integers: columns
 * declared BOOLEAN are given and read as 0/1 on both. */
struct db_sql {
    const char *text;
    const char *pg; /* NULL: same text */
    int slot;       /* private: 0 until first used */
};

struct db_rows {
    size_t n, cols;
    struct db_val *v; /* n * cols, in the transaction's arena; see db_at */
    const char *const *names;
};
const struct db_val *db_at(const struct db_rows *r, size_t row, size_t col);

/* Inside a transaction. Rows and texts live in db_tx_arena(tx) and end with the transaction: copy out what is kept.
 * A failed statement marks the transaction rollback-only, even if the error is ignored. */
bool db_exec(struct db_tx *tx, struct db_sql *sql, const struct db_val *args, size_t n,
             int64_t *changed, struct error *err) warn_unused;
bool db_query(struct db_tx *tx, struct db_sql *sql, const struct db_val *args, size_t n,
              struct db_rows *out, struct error *err) warn_unused;
/* Text made by store/'s column tables at run time (bounded set); cached per connection by its text. Never from request data. */
bool db_exec_text(struct db_tx *tx, const char *text, const struct db_val *args, size_t n,
                  int64_t *changed, struct error *err) warn_unused;
bool db_query_text(struct db_tx *tx, const char *text, const struct db_val *args, size_t n,
                   struct db_rows *out, struct error *err) warn_unused;
/* Several statements without parameters (migrations). */
bool db_script(struct db_tx *tx, const char *sql, struct error *err) warn_unused;
int64_t db_last_id(
    struct db_tx *
        tx); /* of the last INSERT on SQLite; use RETURNING where both matter (SQLite >= 3.35 has it) */
struct arena *db_tx_arena(struct db_tx *tx);
enum db_kind db_tx_kind(const struct db_tx *tx);
const struct db_scope *db_tx_scope(const struct db_tx *tx);
/* Somebody waits for the end of this writing transaction (SQLite, which has one writer for all): work that can be cut stops here and
 * goes on in a transaction of its own. */
bool db_tx_wanted(const struct db_tx *tx);
/* Unique violation and foreign key violation are ERR_CONFLICT with tag "unique" / "foreign_key". */

/* ---- units of work ------------------------------------------------------------------------------------------------------
 * fn runs once (db_write_twice: once or twice), from BEGIN to COMMIT, on SQLite on the writer or a reader THREAD, on PostgreSQL in the
 * calling fiber: so it touches nothing but tx, its arg and err, and never waits for anything else. Returning false rolls back and passes err on.
 * The call returns when the commit is durable (SQLite: WAL, synchronous=FULL, one fsync for all transactions that queued
 * meanwhile: group commit; each has its own savepoint). Even when the caller is cancelled the work is finished first and its true
 * result returned. ERR_CAPACITY when more than `queue_max` transactions wait. */
typedef bool db_fn(struct db_tx *tx, void *arg,
                   struct error *err); /* function type, not a struct: see design.md §13 */
bool db_write(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
              struct error *err) warn_unused;
bool db_read(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
             struct error *err) warn_unused;
/* As db_write, but does not wait; done(arg, ok, err) runs on the loop after the commit (must not wait). On SQLite it is begun after
 * 5 ms or with the next work that somebody waits for, so that it shares a commit. For records whose loss in a crash is acceptable
 * only because a later step repeats them. `arg` belongs to the work until done was called. */
bool db_write_async(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
                    void (*done)(void *arg, bool ok, const struct error *err),
                    struct error *err) warn_unused;
/* The same for an `fn` that may run a second time, after all that its first run did was taken back: only what its last run leaves
 * in `arg` counts, and nothing of an earlier one may leak. Such units share a commit without a savepoint each. */
bool db_write_twice(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
                    struct error *err) warn_unused;
bool db_write_twice_async(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
                          void (*done)(void *arg, bool ok, const struct error *err),
                          struct error *err) warn_unused;
bool db_drain(struct db *db,
              struct error *err) warn_unused; /* waits until all queued writes are durable */
/* ---- when the database fails (trouble.c) -------------------------------------------------------------------------------
 * A full disk or a server that went away is waited out: nothing that was accepted may depend on the next start. */
/* ERR_IO, ERR_UNAVAILABLE, ERR_CAPACITY: of a unit of work, worth another try later. */
bool db_is_trouble(const struct error *err);
/* As db_write, but such a failure is waited out: until the database works again (seconds at first, half a minute later) and, as long
 * as it takes other writes, 8 times. `fn` may run several times, also after a commit whose success was not heard of. */
bool db_write_again(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
                    struct error *err) warn_unused;
/* For other calls: true: the call that failed with *err may be made again, after a wait. db_worked after one that succeeded. */
struct db_retry {
    struct list node;
    unsigned tries;
    bool go, ahead;
};
bool db_again(struct db *db, struct db_retry *r, struct error *err) warn_unused;
void db_worked(struct db *db, struct db_retry *r);
/* As db_write_async, repeated until it is stored. `release` ends arg, which is taken in any case; `what` is a literal for the log.
 * False: memory. Given up, with a line in the log, by db_close and where only this one write fails again and again. */
bool db_write_owed(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
                   void (*release)(void *arg), const char *what, struct error *err) warn_unused;
bool db_fails(const struct db *db); /* between a failure and the next success */
/* One listener, on the loop, when db_fails has become false. NULL: none. */
void db_on_recovery(struct db *db, void (*fn)(void *arg), void *arg);

/* A SQLite file that db_open has just made is filled without waiting for the disk, so that a first
 * start is quick: a power cut may cost all of it, which is then nothing but a fresh schema. This
 * call ends that: whatever is queued after it (it does not wait itself) is durable when it returns,
 * as always else. Called by the end of the start, by db_close, and by itself one second after
 * opening. Nothing to do for a file with rows and on PostgreSQL. */
bool db_settle(struct db *db, struct error *err) warn_unused;

/* Change counters for caches: writes that commit bump the counters of the table names they declared. On SQLite this process is
 * the only writer (checked by a lock file), so an unchanged counter means unchanged rows; on PostgreSQL db_cacheable is false. */
void db_touch(struct db_tx *tx, unsigned group);             /* group 0..31; counted at commit */
uint64_t db_version_of(const struct db *db, unsigned group); /* loop thread */
bool db_cacheable(const struct db *db);

/* ---- opening -------------------------------------------------------------------------------------------------------------- */
struct db_opts {
    enum db_kind kind;
    const char *path; /* SQLite file; directories must exist */
    int readers;      /* SQLite reader threads, default 2 */
    size_t cache_kib; /* page cache, default 2048: twice of it for the writer, half for a reader */
    const char *
        url; /* PostgreSQL: URL wins over the parts; postgresql:// and postgresql+asyncpg:// (spec §1) */
    const char *host, *user, *password, *database;
    int port;
    int pool_size, pool_overflow, pool_timeout_s, pool_recycle_s;
    size_t queue_max; /* waiting transactions, default 20000 */
    const char *
        system_scope_workspace; /* PostgreSQL single-workspace default scope for DB_SCOPE_NONE, may be NULL */
};
/* Errors never hold the DSN or a password. SQLite: WAL, foreign_keys as told by db_foreign_keys, busy timeout 30 s, lock against a
 * second process (ERR_CONFLICT "database is in use by another process"). */
struct db *db_open(const struct db_opts *opts, struct error *err);
void db_close(struct db *db); /* finishes queued writes first; NULL is fine */
/* PostgreSQL: the workspace that DB_SCOPE_NONE and DB_SCOPE_SYSTEM stand for from now on (single-workspace mode; NULL: none).
 * Nothing to do on SQLite. */
bool db_default_scope(struct db *db, const char *workspace, struct error *err) warn_unused;
/* Makes this the only serving process of the database until db_close: two would take up the same ledger. PostgreSQL: a session's
 * advisory lock on a connection of its own, asked for over `wait_ms` (the server needs a moment to notice that a killed process is
 * gone); ERR_CONFLICT when another holds it. SQLite has its lock file since db_open: nothing to do. */
bool db_hold(struct db *db, int64_t wait_ms, struct error *err) warn_unused;
enum db_kind db_kind_of(const struct db *db);
/* The process before did not close it (SQLite: its log is there). True on PostgreSQL, which cannot tell. */
bool db_left_open(const struct db *db);
bool db_foreign_keys(struct db *db, bool on,
                     struct error *err) warn_unused; /* SQLite: all connections */
struct db_stats {
    size_t queued, readers_busy, pool_open, pool_idle, pool_waiting;
    uint64_t commits, transactions, rollbacks, timeouts;
    double failing_s;           /* since when it fails; 0: it works */
    size_t failing_waits, owed; /* runs that wait for it; states that are still to be written */
    uint64_t failures;          /* times that it began to fail */
};
void db_stats_get(const struct db *db, struct db_stats *out);

/* ---- migrations: numbered SQL files from the assets "migrations/<sqlite|postgres>/NNNN_name.sql" -------------------------------
 * Kept in table parley_migrations(number, name, sha256, applied_at). Each file in one transaction; before the first pending one
 * SQLite takes a verified backup (persistence-and-ops.md §5.4; an empty database needs none), PostgreSQL takes advisory lock
 * 0x4C414E47424F5432. Unknown newer numbers: ERR_CONFLICT. */
bool db_migrate(struct db *db, int *applied, struct error *err) warn_unused;
struct db_migration_state {
    int stored, newest;
    const char *newest_name;
};
bool db_migration_state(struct db *db, struct db_migration_state *out,
                        struct error *err) warn_unused;
/* What can be seen of a SQLite database without touching it (no lock, no journal): for diagnosis. Blocking, any thread.
 * ERR_NOT_FOUND: no such file. `newest_name` is not filled. */
struct db_peek {
    struct db_migration_state state;
    bool in_use;     /* by a process that runs; the state is that of its last checkpoint */
    bool unfinished; /* a journal waits to be taken up */
    bool foreign;    /* tables, but none of ours */
    bool
        unclear; /* malformed as it lies there, but a journal waits: only taking that up will tell */
};
bool db_peek(const char *path, struct db_peek *out, struct error *err) warn_unused;
/* Online backup with quick_check and manifest; path of the copy in `out` (arena). SQLite only. */
bool db_backup(struct db *db, struct arena *a, const char *source_rev, const char *target_rev,
               const char **out, struct error *err) warn_unused;

/* Puts a backup back in place of a database that nobody has open (ERR_CONFLICT otherwise): verified, copied beside it, the side
 * files removed, swapped atomically, verified again. Blocking: for the command line or a worker. */
bool db_restore(const char *path, const char *backup_path, struct error *err) warn_unused;

#endif
