/* One SQLite connection with its prepared statements. Used by one thread at a time; knows no queues. */
#include "db/db_private.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAL_BYTES = 1024 * (4096 + 24) + 32 }; /* the log as long as it is before a checkpoint */

struct sq_stmt {
    sqlite3_stmt *st;
    int params, cols;
    const char **names; /* one block with their texts; made at the first query */
};

enum fixed {
    F_BEGIN,
    F_BEGIN_NOW,
    F_COMMIT,
    F_ROLLBACK,
    F_SAVEPOINT,
    F_RELEASE,
    F_ROLLBACK_TO,
    F_COUNT
};

static const char *const fixed_text[F_COUNT] = {
    "BEGIN",         "BEGIN IMMEDIATE", "COMMIT",          "ROLLBACK",
    "SAVEPOINT one", "RELEASE one",     "ROLLBACK TO one",
};

struct sq_conn {
    sqlite3 *h;
    sqlite3_stmt *fixed[F_COUNT];
    struct sq_stmt **slots;
    size_t nslots;
    struct map texts;
    int wal_pages;
};

/* ---- errors ---- */

static enum err_code code_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_NOMEM: return ERR_NOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return ERR_UNAVAILABLE;
    case SQLITE_TOOBIG: return ERR_TOO_LARGE;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM: return ERR_IO;
    case SQLITE_CONSTRAINT: return ERR_INVALID;
    default: return ERR_INTERNAL;
    }
}

/* SQLite's own text names columns and constraints, never values. */
static bool fail(const struct sq_conn *c, int rc, const char *what, struct error *err)
{
    int full = c->h ? sqlite3_extended_errcode(c->h) : rc;
    const char *text = c->h ? sqlite3_errmsg(c->h) : sqlite3_errstr(rc);
    if ((full & 0xff) != (rc & 0xff)) {
        full = rc;
        text = sqlite3_errstr(rc);
    }
    switch (full) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
        return err_tag(err, ERR_CONFLICT, 0, "unique", "%s: %s", what, text);
    case SQLITE_CONSTRAINT_FOREIGNKEY:
    case SQLITE_CONSTRAINT_TRIGGER:
        return err_tag(err, ERR_CONFLICT, 0, "foreign_key", "%s: %s", what, text);
    default: return err_set(err, code_of(full), "%s: %s", what, text);
    }
}

/* ---- opening ---- */

static void *lib_alloc(int n)
{
    return mem_lib_alloc((size_t)n);
}

static void *lib_realloc(void *p, int n)
{
    return mem_lib_realloc(p, (size_t)n);
}

static int lib_size(void *p)
{
    return (int)mem_lib_size(p);
}

static int lib_round(int n)
{
    return (n + 7) & ~7;
}

static int lib_init(void *unused)
{
    return SQLITE_OK;
}

static void lib_end(void *unused) {}

static void configure(void)
{
    static const sqlite3_mem_methods memory = {lib_alloc, mem_lib_free, lib_realloc, lib_size,
                                               lib_round, lib_init,     lib_end,     NULL};
    (void)sqlite3_config(SQLITE_CONFIG_MALLOC, &memory);
    /* Each connection belongs to one thread at a time, and the counters would cost a lock at each allocation. */
    (void)sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    (void)sqlite3_initialize();
}

static int on_wal(void *arg, sqlite3 *h, const char *name, int pages)
{
    struct sq_conn *c = arg;
    c->wal_pages = pages;
    return SQLITE_OK;
}

static bool set(struct sq_conn *c, const char *sql, struct error *err)
{
    int rc = sqlite3_exec(c->h, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? true : fail(c, rc, "cannot set up the database", err);
}

static bool use_wal(struct sq_conn *c, struct error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(c->h, "PRAGMA journal_mode=WAL", -1, &st, NULL);
    const char *mode = rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW
                           ? (const char *)sqlite3_column_text(st, 0)
                           : NULL;
    bool wal = mode && strcmp(mode, "wal") == 0;
    rc = sqlite3_finalize(st);
    if (!wal && rc != SQLITE_OK) {
        return fail(c, rc, "cannot read the database", err);
    }
    return wal ? true : err_set(err, ERR_IO, "the file system of the database cannot hold a WAL");
}

static bool pragmas(struct sq_conn *c, enum sq_role role, size_t cache_kib, struct error *err)
{
    char text[400];
    /* Checkpoints are made beside the writer (sqlite.c), not inside a commit that somebody waits for. */
    snprintf(
        text, sizeof(text),
        "PRAGMA cache_size=-%zu; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=0;"
        "PRAGMA trusted_schema=OFF; PRAGMA synchronous=%s; PRAGMA journal_size_limit=33554432;%s",
        cache_kib, role == SQ_WRITER_LAX ? "OFF" : "FULL",
        role == SQ_READER ? "PRAGMA query_only=ON;" : "");
    return set(c, text, err) && (role == SQ_READER || use_wal(c, err));
}

/* A file that is not there has nothing to bring to the disk: a log that nothing was written to. */
static bool sync_file(const char *path, int flags, struct error *err)
{
    auto_fd fd = task_sys_open(path, flags, 0);
    if (fd < 0 && errno == ENOENT) {
        return true;
    }
    return fd >= 0 && task_sys_fsync(fd) == 0
               ? true
               : err_sys(err, errno, "cannot write the database to the disk");
}

/* By SQLite's own descriptor: closing another one would end all locks that this process has on the file. */
static bool sync_main(struct sq_conn *c, struct error *err)
{
    sqlite3_file *file = NULL;
    int rc = sqlite3_file_control(c->h, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (rc == SQLITE_OK && file && file->pMethods) {
        rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
    }
    return rc == SQLITE_OK ||
           err_set(err, ERR_INTERNAL, "cannot write the database to the disk: %s",
                   sqlite3_errstr(rc));
}

bool sq_conn_settle(struct sq_conn *c, const char *path, struct error *err)
{
    char name[4096 + 8];
    const char *slash = strrchr(path, '/');
    snprintf(name, sizeof(name), "%s-wal", path);
    if (!set(c, "PRAGMA synchronous=FULL", err) || !sync_file(name, O_RDWR, err) ||
        !sync_main(c, err)) {
        return false;
    }
    snprintf(name, sizeof(name), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    return sync_file(name, O_RDONLY | O_DIRECTORY, err);
}

void sq_conn_pad(const char *path)
{
    static const char zeros[65536];
    char name[4096 + 8];
    struct stat st;
    snprintf(name, sizeof(name), "%s-wal", path);
    auto_fd fd = task_sys_open(name, O_WRONLY, 0);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0) {
        return;
    }
    ssize_t n = 1;
    for (off_t at = st.st_size; n > 0 && at < WAL_BYTES; at += n) {
        size_t left = (size_t)(WAL_BYTES - at);
        n = pwrite(fd, zeros, left < sizeof(zeros) ? left : sizeof(zeros), at);
    }
    if (n <= 0 || task_sys_fsync(fd) != 0) {
        log_warn("db", "cannot prepare the log of the database: %s", strerror(errno));
    }
}

struct sq_conn *sq_conn_open(const char *path, enum sq_role role, size_t cache_kib,
                             struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, configure);
    struct sq_conn *c = new (struct sq_conn);
    if (!c) {
        err_set(err, ERR_NOMEM, "no memory for a database connection");
        return NULL;
    }
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                (role == SQ_READER ? 0 : SQLITE_OPEN_CREATE);
    int rc = sqlite3_open_v2(path, &c->h, flags, NULL);
    bool ok = rc == SQLITE_OK;
    if (!ok) {
        fail(c, rc, "cannot open the database", err);
    } else {
        sqlite3_extended_result_codes(c->h, 1);
        sqlite3_busy_timeout(c->h, 30000);
        sqlite3_limit(c->h, SQLITE_LIMIT_ATTACHED, 0);
        ok = pragmas(c, role, cache_kib ? cache_kib : 2048, err);
        sqlite3_wal_hook(c->h, on_wal, c);
    }
    if (!ok) {
        sq_conn_close(c);
        return NULL;
    }
    return c;
}

static void stmt_free(struct sq_stmt *s)
{
    if (s) {
        sqlite3_finalize(s->st);
        mem_free(s->names);
        mem_free(s);
    }
}

static void texts_clear(struct sq_conn *c)
{
    size_t pos = 0;
    struct str key;
    void *value;
    while (map_next(&c->texts, &pos, &key, &value)) {
        stmt_free(value);
    }
    map_free(&c->texts);
    c->texts = (struct map){.n = 0};
}

void sq_conn_close(struct sq_conn *c)
{
    if (!c) {
        return;
    }
    for (size_t i = 0; i < F_COUNT; i++) {
        sqlite3_finalize(c->fixed[i]);
    }
    for (size_t i = 0; i < c->nslots; i++) {
        stmt_free(c->slots[i]);
    }
    mem_free(c->slots);
    texts_clear(c);
    sqlite3_close_v2(c->h);
    mem_free(c);
}

/* ---- transactions ---- */

static bool fixed(struct sq_conn *c, enum fixed which, const char *what, struct error *err)
{
    int rc = SQLITE_OK;
    if (!c->fixed[which]) {
        rc = sqlite3_prepare_v3(c->h, fixed_text[which], -1, SQLITE_PREPARE_PERSISTENT,
                                &c->fixed[which], NULL);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(c->fixed[which]);
        if (rc == SQLITE_DONE) {
            sqlite3_reset(c->fixed[which]);
            return true;
        }
        fail(c, rc, what, err);
        sqlite3_reset(c->fixed[which]);
        return false;
    }
    return fail(c, rc, what, err);
}

bool sq_begin(struct sq_conn *c, bool immediate, struct error *err)
{
    return fixed(c, immediate ? F_BEGIN_NOW : F_BEGIN, "cannot begin a transaction", err);
}

bool sq_commit(struct sq_conn *c, struct error *err)
{
    return fixed(c, F_COMMIT, "cannot commit", err);
}

void sq_rollback(struct sq_conn *c)
{
    struct error ignored;
    if (sq_in_tx(c) && !fixed(c, F_ROLLBACK, "cannot roll back", &ignored)) {
        log_error("db", "%s", ignored.msg);
    }
}

bool sq_savepoint(struct sq_conn *c, struct error *err)
{
    return fixed(c, F_SAVEPOINT, "cannot set a savepoint", err);
}

bool sq_release(struct sq_conn *c, struct error *err)
{
    return fixed(c, F_RELEASE, "cannot release a savepoint", err);
}

bool sq_rollback_to(struct sq_conn *c, struct error *err)
{
    return fixed(c, F_ROLLBACK_TO, "cannot roll back to a savepoint", err);
}

bool sq_in_tx(struct sq_conn *c)
{
    return !sqlite3_get_autocommit(c->h);
}

bool sq_foreign_keys(struct sq_conn *c, bool on, struct error *err)
{
    int now = -1;
    int rc = sqlite3_db_config(c->h, SQLITE_DBCONFIG_ENABLE_FKEY, on ? 1 : 0, &now);
    if (rc != SQLITE_OK || now != (on ? 1 : 0)) {
        return fail(c, rc != SQLITE_OK ? rc : SQLITE_MISUSE, "cannot switch foreign keys", err);
    }
    return true;
}

int sq_wal_pages(const struct sq_conn *c)
{
    return c->wal_pages;
}

void sq_checkpoint(struct sq_conn *c, bool restart)
{
    int log = 0, done = 0;
    int mode = restart ? SQLITE_CHECKPOINT_RESTART : SQLITE_CHECKPOINT_PASSIVE;
    int rc = sqlite3_wal_checkpoint_v2(c->h, NULL, mode, &log, &done);
    if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY && (rc & 0xff) != SQLITE_LOCKED) {
        log_warn("db", "checkpoint failed: %s", sqlite3_errstr(rc));
    }
    c->wal_pages = log > done ? log : 0;
}

int64_t sq_last_id(struct sq_conn *c)
{
    return sqlite3_last_insert_rowid(c->h);
}

/* ---- statements ---- */

static struct sq_stmt *stmt_make(struct sq_conn *c, const char *text, struct error *err)
{
    struct sq_stmt *s = new (struct sq_stmt);
    if (!s) {
        err_set(err, ERR_NOMEM, "no memory for a statement");
        return NULL;
    }
    const char *tail = NULL;
    int rc = sqlite3_prepare_v3(c->h, text, -1, SQLITE_PREPARE_PERSISTENT, &s->st, &tail);
    if (rc != SQLITE_OK || !s->st) {
        fail(c, rc, "cannot prepare a statement", err);
        stmt_free(s);
        return NULL;
    }
    s->params = sqlite3_bind_parameter_count(s->st);
    return s;
}

static struct sq_stmt *stmt_of_slot(struct sq_conn *c, struct db_sql *sql, struct error *err)
{
    size_t slot = db_slot(sql);
    if (slot >= c->nslots) {
        size_t want = (slot | 63) + 1;
        struct sq_stmt **more = mem_realloc(c->slots, want * sizeof(*more));
        if (!more) {
            err_set(err, ERR_NOMEM, "no memory for a statement");
            return NULL;
        }
        memset(more + c->nslots, 0, (want - c->nslots) * sizeof(*more));
        c->slots = more;
        c->nslots = want;
    }
    if (!c->slots[slot]) {
        c->slots[slot] = stmt_make(c, sql->text, err);
    }
    return c->slots[slot];
}

static struct sq_stmt *stmt_of_text(struct sq_conn *c, const char *text, struct error *err)
{
    struct sq_stmt *s = map_get(&c->texts, str_c(text));
    if (s) {
        return s;
    }
    if (c->texts.n >= DB_TEXTS_MAX) {
        texts_clear(c);
    }
    s = stmt_make(c, text, err);
    if (s && !map_put(&c->texts, str_c(text), s)) {
        stmt_free(s);
        err_set(err, ERR_NOMEM, "no memory for a statement");
        return NULL;
    }
    return s;
}

static int bind(sqlite3_stmt *st, int at, const struct db_val *v)
{
    const char *p = v->s.p ? v->s.p : "";
    switch (v->type) {
    case DB_NULL: return sqlite3_bind_null(st, at);
    case DB_INT: return sqlite3_bind_int64(st, at, v->i);
    case DB_FLOAT: return sqlite3_bind_double(st, at, v->f);
    /* Static: the caller's bytes outlive the run of the statement, and no later run reads them. */
    case DB_TEXT: return sqlite3_bind_text64(st, at, p, v->s.n, SQLITE_STATIC, SQLITE_UTF8);
    case DB_BLOB: return sqlite3_bind_blob64(st, at, p, v->s.n, SQLITE_STATIC);
    }
    return SQLITE_MISUSE;
}

/* Names are kept with the statement: rows of a later run share them. */
static bool make_names(struct sq_stmt *s, int cols, struct error *err)
{
    size_t bytes = (size_t)cols * sizeof(char *);
    for (int i = 0; i < cols; i++) {
        const char *name = sqlite3_column_name(s->st, i);
        if (!name) {
            return err_set(err, ERR_NOMEM, "no memory for column names");
        }
        bytes += strlen(name) + 1;
    }
    const char **names = mem_alloc(bytes);
    if (!names) {
        return err_set(err, ERR_NOMEM, "no memory for column names");
    }
    char *at = (char *)(names + cols);
    for (int i = 0; i < cols; i++) {
        const char *name = sqlite3_column_name(s->st, i);
        size_t n = strlen(name ? name : "") + 1;
        memcpy(at, name ? name : "", n);
        names[i] = at;
        at += n;
    }
    mem_free(s->names);
    s->names = names;
    s->cols = cols;
    return true;
}

static bool cell(struct db_tx *tx, sqlite3_stmt *st, int i, struct db_val *out)
{
    switch (sqlite3_column_type(st, i)) {
    case SQLITE_INTEGER: *out = DB_V_I(sqlite3_column_int64(st, i)); return true;
    case SQLITE_FLOAT: *out = DB_V_F(sqlite3_column_double(st, i)); return true;
    case SQLITE_NULL: *out = DB_V_NULL; return true;
    case SQLITE_BLOB: {
        const void *p = sqlite3_column_blob(st, i);
        *out = DB_V_BLOB(str_dup(tx->arena, str_n(p, (size_t)sqlite3_column_bytes(st, i))));
        return out->s.p != NULL;
    }
    default: {
        const char *p = (const char *)sqlite3_column_text(st, i);
        *out = DB_V_S(str_dup(tx->arena, str_n(p, (size_t)sqlite3_column_bytes(st, i))));
        return p && out->s.p != NULL;
    }
    }
}

static bool take_row(struct db_tx *tx, struct sq_stmt *s, struct db_rows *out, size_t *cap,
                     struct error *err)
{
    int cols = sqlite3_column_count(s->st);
    if (out->n == 0) {
        if ((!s->names || s->cols != cols) && !make_names(s, cols, err)) {
            return false;
        }
        out->names = s->names;
        out->cols = (size_t)cols;
    }
    struct db_val *row = db_rows_add(tx, out, cap);
    if (!row) {
        return db_rows_full(err);
    }
    for (int i = 0; i < cols; i++) {
        if (!cell(tx, s->st, i, &row[i])) {
            return db_rows_full(err);
        }
    }
    return true;
}

bool sq_run(struct db_tx *tx, struct db_sql *sql, const char *text, const struct db_val *args,
            size_t n, int64_t *changed, struct db_rows *out, struct error *err)
{
    struct sq_conn *c = tx->sq;
    struct sq_stmt *s = sql ? stmt_of_slot(c, sql, err) : stmt_of_text(c, text, err);
    if (!s) {
        return false;
    }
    if ((size_t)s->params != n) {
        return err_set(err, ERR_INTERNAL, "a statement takes %d values, not %zu", s->params, n);
    }
    int rc = SQLITE_OK;
    for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
        rc = bind(s->st, (int)i + 1, &args[i]);
    }
    if (rc != SQLITE_OK) {
        return fail(c, rc, "cannot bind a value", err);
    }
    bool ok = true;
    size_t cap = 0;
    while (ok && (rc = sqlite3_step(s->st)) == SQLITE_ROW) {
        ok = !out || take_row(tx, s, out, &cap, err);
    }
    if (ok && rc != SQLITE_DONE) {
        ok = fail(c, rc, "statement failed", err);
    }
    sqlite3_reset(s->st);
    if (ok && changed) {
        *changed = sqlite3_stmt_readonly(s->st) ? 0 : sqlite3_changes64(c->h);
    }
    return ok;
}

bool sq_script(struct db_tx *tx, const char *sql, struct error *err)
{
    int rc = sqlite3_exec(tx->sq->h, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? true : fail(tx->sq, rc, "script failed", err);
}
