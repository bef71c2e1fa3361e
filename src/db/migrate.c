/* Migrations: numbered SQL files from the assets, each with its digest on record. All pending files run in one
 * transaction, so a failure leaves the database as it was. design.md §6 */
#include "db/db_private.h"

#include "crypto/crypto.h"

#include <stdio.h>
#include <zlib.h>

enum { FILES_MAX = 256, FILE_MAX = 4 << 20 };
#define LOCK_KEY INT64_C(0x4C414E47424F5432)

struct file {
    int number;
    const char *name; /* "0001_tables" */
    const char *sql;
    char sha256[65];
};

struct migration {
    struct file *files;
    size_t n;
    bool backup_done;
    /* results */
    bool backup_wanted, empty;
    int stored, applied;
};

/* ---- files ---- */

static const char *asset_text(struct arena *a, const struct base_asset *f, size_t *n)
{
    if (!f->gzip) {
        *n = f->size;
        return (const char *)f->data;
    }
    uLongf size = 0;
    z_stream z = {.next_in = (Bytef *)(uintptr_t)f->data, .avail_in = (uInt)f->size};
    char *out = arena_alloc(a, FILE_MAX + 1);
    if (!out || inflateInit2(&z, 15 + 16) != Z_OK) {
        return NULL;
    }
    z.next_out = (Bytef *)out;
    z.avail_out = FILE_MAX;
    int rc = inflate(&z, Z_FINISH);
    size = z.total_out;
    inflateEnd(&z);
    *n = size;
    return rc == Z_STREAM_END ? out : NULL;
}

static bool load_files(struct arena *a, enum db_kind kind, struct migration *m, struct error *err)
{
    struct str prefix = kind == DB_SQLITE ? S("migrations/sqlite/") : S("migrations/postgres/");
    m->files = arena_alloc(a, FILES_MAX * sizeof(*m->files));
    for (size_t i = 0; m->files && i < base_asset_count; i++) {
        struct str path = str_c(base_assets[i].path);
        struct str name = str_sub(path, prefix.n, path.n);
        int64_t number;
        if (!str_starts(path, prefix) || !str_ends(name, S(".sql")) || name.n < 10) {
            continue;
        }
        if (!str_to_i64(str_sub(name, 0, 4), &number) || name.p[4] != '_' || m->n == FILES_MAX ||
            (m->n && m->files[m->n - 1].number >= number)) {
            return err_set(err, ERR_INTERNAL, "migration file out of order: " STR_FMT,
                           STR_ARG(name));
        }
        size_t size = 0;
        struct file *f = &m->files[m->n++];
        f->number = (int)number;
        f->name = str_z(a, str_sub(name, 0, name.n - 4));
        f->sql = asset_text(a, &base_assets[i], &size);
        if (!f->sql) {
            return err_set(err, ERR_INTERNAL, "cannot read migration file " STR_FMT, STR_ARG(name));
        }
        sha256_hex(str_n(f->sql, size), f->sha256);
    }
    if (m->n == 0 || arena_failed(a)) {
        return err_set(err, ERR_INTERNAL, "the program holds no migration files");
    }
    return true;
}

/* ---- what is on record ---- */

static bool count(struct db_tx *tx, struct db_sql *sql, int64_t *n, struct error *err)
{
    struct db_rows rows;
    if (!db_query(tx, sql, NULL, 0, &rows, err)) {
        return false;
    }
    *n = db_at(&rows, 0, 0)->i;
    return true;
}

static bool has_record(struct db_tx *tx, bool *has, bool *empty, struct error *err)
{
    static struct db_sql record = {
        .text =
            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'parley_migrations'",
        .pg = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname = 'parley_migrations' "
              "AND relnamespace = current_schema()::regnamespace"};
    static struct db_sql tables = {
        .text = "SELECT count(*) FROM sqlite_master WHERE type = 'table'",
        .pg = "SELECT count(*) FROM pg_class c WHERE c.relkind IN ('r', 'p') "
              "AND c.relnamespace = current_schema()::regnamespace AND NOT EXISTS "
              "(SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')"};
    int64_t a, b;
    if (!count(tx, &record, &a, err) || !count(tx, &tables, &b, err)) {
        return false;
    }
    *has = a > 0;
    *empty = b == 0;
    return true;
}

/* Highest number on record; 0 without any. Complains about files that were changed after they ran. */
static bool read_record(struct db_tx *tx, const struct migration *m, int *stored, struct error *err)
{
    static struct db_sql list = {
        .text = "SELECT number, name, sha256 FROM parley_migrations ORDER BY number"};
    struct db_rows rows;
    *stored = 0;
    if (!db_query(tx, &list, NULL, 0, &rows, err)) {
        return false;
    }
    for (size_t i = 0; i < rows.n; i++) {
        *stored = (int)db_at(&rows, i, 0)->i;
        for (size_t k = 0; k < m->n; k++) {
            if (m->files[k].number == *stored &&
                !str_eqz(db_at(&rows, i, 2)->s, m->files[k].sha256)) {
                log_warn("db", "migration %s differs from the one that was run", m->files[k].name);
            }
        }
    }
    return true;
}

/* ---- running ---- */

static bool pg_lock(struct db_tx *tx, struct error *err)
{
    static struct db_sql lock = {.text = "SELECT pg_try_advisory_xact_lock(?)"};
    struct db_val key = DB_V_I(LOCK_KEY);
    struct db_rows rows;
    if (!db_query(tx, &lock, &key, 1, &rows, err)) {
        return false;
    }
    return db_at(&rows, 0, 0)->i
               ? true
               : err_set(err, ERR_CONFLICT, "another process migrates the database");
}

static bool run_file(struct db_tx *tx, const struct file *f, struct error *err)
{
    static struct db_sql record = {
        .text =
            "INSERT INTO parley_migrations (number, name, sha256, applied_at) VALUES (?, ?, ?, ?)"};
    char now[TIME_ISO_SIZE];
    struct db_val args[] = {DB_V_I(f->number), DB_V_Z(f->name), DB_V_Z(f->sha256),
                            DB_V_Z(time_sql(time_wall_us(), now))};
    if (!db_script(tx, f->sql, err) || !db_exec(tx, &record, args, array_len(args), NULL, err)) {
        return err_wrap(err, "migration %s", f->name);
    }
    return true;
}

/* After tables were rebuilt with foreign keys off. */
static bool keys_hold(struct db_tx *tx, struct error *err)
{
    struct db_rows rows;
    if (!db_query_text(tx, "PRAGMA foreign_key_check", NULL, 0, &rows, err)) {
        return false;
    }
    return rows.n == 0
               ? true
               : err_set(err, ERR_CONFLICT,
                         "%zu rows of the database point to rows that do not exist", rows.n);
}

static bool migrate(struct db_tx *tx, void *arg, struct error *err)
{
    static const char create[] =
        "CREATE TABLE parley_migrations (number INTEGER NOT NULL PRIMARY KEY, "
        "name VARCHAR(255) NOT NULL, sha256 VARCHAR(64) NOT NULL, applied_at ";
    struct migration *m = arg;
    bool sqlite = tx->kind == DB_SQLITE, has;
    if ((!sqlite && !pg_lock(tx, err)) || !has_record(tx, &has, &m->empty, err)) {
        return false;
    }
    if (!has && !m->empty) {
        return err_set(
            err, ERR_CONFLICT,
            "the database holds tables but no record of migrations: it is another program's (import it)");
    }
    if (has && !read_record(tx, m, &m->stored, err)) {
        return false;
    }
    const struct file *newest = &m->files[m->n - 1];
    if (m->stored > newest->number) {
        return err_set(err, ERR_CONFLICT,
                       "the database is at migration %d, newer than this program's %d", m->stored,
                       newest->number);
    }
    if (m->stored == newest->number) {
        return true;
    }
    if (sqlite && !m->empty && !m->backup_done) {
        m->backup_wanted = true;
        return true;
    }
    if (!has &&
        !db_script(tx,
                   z_fmt(tx->arena, "%s%s NOT NULL)", create, sqlite ? "DATETIME" : "TIMESTAMP"),
                   err)) {
        return false;
    }
    for (size_t i = 0; i < m->n; i++) {
        if (m->files[i].number > m->stored) {
            if (!run_file(tx, &m->files[i], err)) {
                return false;
            }
            m->applied++;
        }
    }
    return !sqlite || m->empty || keys_hold(tx, err);
}

static const struct db_scope nowhere = {.kind = DB_SCOPE_NONE};

/* SQLite with rows: verified copy first, foreign keys off for rebuilt tables, the manifest tells the end. */
static bool migrate_with_backup(struct db *db, struct arena *a, struct migration *m,
                                struct error *err)
{
    const struct file *newest = &m->files[m->n - 1];
    const char *path = NULL, *from = z_fmt(a, "%04d", m->stored);
    struct error later;
    if (!db_backup(db, a, from, newest->name, &path, err) || !db_foreign_keys(db, false, err)) {
        return false;
    }
    m->backup_done = true;
    bool ok = db_write(db, nowhere, migrate, m, err);
    if (!db_backup_mark(path, ok, newest->name, &later)) {
        log_warn("db", "%s", later.msg);
    }
    if (!db_foreign_keys(db, true, &later)) {
        if (ok) {
            *err = later;
        }
        ok = false;
    }
    return ok;
}

bool db_migrate(struct db *db, int *applied, struct error *err)
{
    struct migration m = {.n = 0};
    auto_arena a = arena_new(DB_TX_ARENA_MAX);
    if (!a) {
        return err_set(err, ERR_NOMEM, "no memory for migrations");
    }
    bool ok = load_files(a, db->kind, &m, err) && db_write(db, nowhere, migrate, &m, err);
    if (ok && m.backup_wanted) {
        ok = migrate_with_backup(db, a, &m, err);
    }
    if (applied) {
        *applied = ok ? m.applied : 0;
    }
    return ok;
}

static bool state(struct db_tx *tx, void *arg, struct error *err)
{
    struct migration *m = arg;
    bool has;
    return has_record(tx, &has, &m->empty, err) && (!has || read_record(tx, m, &m->stored, err));
}

bool db_migration_state(struct db *db, struct db_migration_state *out, struct error *err)
{
    struct migration m = {.n = 0};
    auto_arena a = arena_new(DB_TX_ARENA_MAX);
    if (!a) {
        return err_set(err, ERR_NOMEM, "no memory for migrations");
    }
    if (!load_files(a, db->kind, &m, err) || !db_read(db, nowhere, state, &m, err)) {
        return false;
    }
    const struct file *newest = &m.files[m.n - 1];
    *out = (struct db_migration_state){.stored = m.stored, .newest = newest->number};
    for (size_t i = 0; i < base_asset_count; i++) { /* the name must outlive the arena */
        struct str path = str_c(base_assets[i].path);
        struct str tail =
            str_sub(path, path.n > strlen(newest->name) + 4 ? path.n - strlen(newest->name) - 4 : 0,
                    path.n);
        if (str_starts(path, db->kind == DB_SQLITE ? S("migrations/sqlite/")
                                                   : S("migrations/postgres/")) &&
            str_starts(tail, str_c(newest->name))) {
            out->newest_name = tail.p;
        }
    }
    return true;
}
