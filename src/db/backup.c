/* Verified copies of a SQLite file before a migration, and the way back. Blocking parts run on a worker.
 * persistence-and-ops.md §5.4 */
#include "db/db_private.h"

#include "crypto/crypto.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 + 512 };

struct backup {
    const char *source, *source_rev, *target_rev;
    char dir[PATH_SIZE], path[PATH_SIZE];
    bool ok;
    struct error err;
};

/* ---- small file steps ---- */

static bool join(char *out, struct error *err, const char *fmt, ...) printf_like(3, 4);

static bool join(char *out, struct error *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, PATH_SIZE, fmt, ap);
    va_end(ap);
    return n > 0 && n < PATH_SIZE
               ? true
               : err_set(err, ERR_INVALID, "the path of the database is too long");
}

static void dir_of(const char *path, char *out)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 1;
    snprintf(out, PATH_SIZE, "%.*s", (int)(n ? n : 1), slash ? path : ".");
}

static struct str stem_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct str name = str_c(slash ? slash + 1 : path);
    const char *dot = strrchr(name.p, '.');
    return dot && dot > name.p ? str_n(name.p, (size_t)(dot - name.p)) : name;
}

static bool sync_path(const char *path, int flags, struct error *err)
{
    auto_fd fd = task_sys_open(path, flags, 0);
    if (fd < 0 || task_sys_fsync(fd) != 0) {
        return err_sys(err, errno, "cannot write %s to the disk", path);
    }
    return true;
}

static bool sync_dir_of(const char *path, struct error *err)
{
    char dir[PATH_SIZE];
    dir_of(path, dir);
    return sync_path(dir, O_RDONLY | O_DIRECTORY, err);
}

static bool write_file(const char *path, struct str text, struct error *err)
{
    char tmp[PATH_SIZE];
    if (!join(tmp, err, "%s.tmp", path)) {
        return false;
    }
    auto_fd fd = task_sys_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool ok = fd >= 0;
    while (ok && text.n > 0) {
        ssize_t n = task_sys_write(fd, text.p, text.n);
        ok = n > 0 || (n < 0 && errno == EINTR);
        text = str_sub(text, n > 0 ? (size_t)n : 0, text.n);
    }
    ok = ok && task_sys_fsync(fd) == 0 && task_sys_rename(tmp, path) == 0;
    return ok ? sync_dir_of(path, err) : err_sys(err, errno, "cannot write %s", path);
}

/* ---- copying ---- */

static sqlite3 *open_db(const char *path, int flags, struct error *err)
{
    sqlite3 *h = NULL;
    int rc =
        sqlite3_open_v2(path, &h, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, NULL);
    if (rc != SQLITE_OK) {
        err_set(err, ERR_IO, "cannot open %s: %s", path,
                h ? sqlite3_errmsg(h) : sqlite3_errstr(rc));
        sqlite3_close_v2(h);
        return NULL;
    }
    sqlite3_busy_timeout(h, 30000);
    return h;
}

/* First column of the only row equals `want`. */
static bool answer_is(sqlite3 *h, const char *sql, const char *want)
{
    sqlite3_stmt *st = NULL;
    bool ok =
        sqlite3_prepare_v2(h, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW;
    const char *text = ok ? (const char *)sqlite3_column_text(st, 0) : NULL;
    ok = text && strcmp(text, want) == 0 && sqlite3_step(st) == SQLITE_DONE;
    sqlite3_finalize(st);
    return ok;
}

static bool quick_check(const char *path, int flags, struct error *err)
{
    sqlite3 *h = open_db(path, flags, err);
    bool ok = h && answer_is(h, "PRAGMA quick_check", "ok");
    if (h && !ok) {
        err_set(err, ERR_IO, "%s is damaged: quick_check is not ok", path);
    }
    sqlite3_close_v2(h);
    return ok;
}

static bool copy_db(const char *from, const char *to, struct error *err)
{
    int fd = task_sys_open(to, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0) {
        return err_sys(err, errno, "cannot create %s", to);
    }
    close(fd);
    sqlite3 *in = open_db(from, SQLITE_OPEN_READONLY, err);
    sqlite3 *out = in ? open_db(to, SQLITE_OPEN_READWRITE, err) : NULL;
    bool ok = in && out;
    if (ok) {
        sqlite3_backup *b = sqlite3_backup_init(out, "main", in, "main");
        int rc = b ? sqlite3_backup_step(b, -1) : SQLITE_ERROR;
        int end = sqlite3_backup_finish(b);
        ok = rc == SQLITE_DONE && end == SQLITE_OK;
        if (!ok) {
            err_set(err, ERR_IO, "cannot copy the database: %s", sqlite3_errmsg(out));
        }
    }
    /* One file without side files, whatever the source's journal is. */
    if (ok && !answer_is(out, "PRAGMA journal_mode=DELETE", "delete")) {
        ok = err_set(err, ERR_IO, "cannot finish the copy of the database");
    }
    if (ok && !answer_is(out, "PRAGMA quick_check", "ok")) {
        ok = err_set(err, ERR_IO, "the copy of the database is damaged: quick_check is not ok");
    }
    sqlite3_close_v2(in);
    sqlite3_close_v2(out);
    return ok && sync_path(to, O_RDWR, err);
}

/* ---- backup ---- */

static bool backup_names(struct backup *b, struct error *err)
{
    char stamp[64], dir[PATH_SIZE];
    unsigned char random[4];
    char hex[9];
    int64_t now = time_wall_us();
    time_t seconds = (time_t)(now / 1000000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H-%M-%S", &tm);
    crypto_random(random, sizeof(random));
    hex_encode(random, sizeof(random), hex);
    dir_of(b->source, dir);
    return join(b->dir, err, "%s/migration-backups", dir) &&
           join(b->path, err, "%s/" STR_FMT "-pre-%s-from-%s-%s.%06dZ-%s.sqlite3", b->dir,
                STR_ARG(stem_of(b->source)), b->target_rev, b->source_rev, stamp,
                (int)(now % 1000000), hex);
}

static bool write_manifest(const char *backup_path, const json_t *manifest, struct error *err)
{
    char path[PATH_SIZE];
    auto_buf text = BUF(1 << 16);
    if (!join(path, err, "%s.json", backup_path)) {
        return false;
    }
    if (!json_put(&text, manifest) || !buf_c(&text, '\n')) {
        return err_set(err, ERR_NOMEM, "no memory for the manifest of a backup");
    }
    return write_file(path, buf_view(&text), err);
}

/* A backup with its manifest. */
static void drop(const char *backup_path)
{
    static const char *const ends[] = {"", ".json", ".json.tmp"};
    for (size_t i = 0; i < array_len(ends); i++) {
        char name[PATH_SIZE];
        struct error ignored;
        if (join(name, &ignored, "%s%s", backup_path, ends[i])) {
            task_sys_unlink(name);
        }
    }
}

static bool backup_steps(struct backup *b, struct error *err)
{
    char tmp[PATH_SIZE], now[TIME_ISO_SIZE];
    if (!backup_names(b, err) || !join(tmp, err, "%s.tmp", b->path)) {
        return false;
    }
    if (task_sys_mkdir(b->dir, 0700) != 0 && errno != EEXIST) {
        return err_sys(err, errno, "cannot create %s", b->dir);
    }
    if (!copy_db(b->source, tmp, err) ||
        (task_sys_rename(tmp, b->path) != 0 && !err_sys(err, errno, "cannot name the backup"))) {
        task_sys_unlink(tmp);
        return false;
    }
    auto_json manifest =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "version", 1, "status", "verified",
                  "created_at", time_iso(time_wall_us(), now), "database_path", b->source,
                  "backup_path", b->path, "source_revision", b->source_rev, "target_revision",
                  b->target_rev, "quick_check", "ok");
    bool ok = manifest ? sync_dir_of(b->path, err) && write_manifest(b->path, manifest, err)
                       : err_set(err, ERR_NOMEM, "no memory for the manifest of a backup");
    if (!ok) {
        drop(b->path); /* a copy that nothing vouches for */
    }
    return ok;
}

static void backup_work(void *arg)
{
    struct backup *b = arg;
    b->ok = backup_steps(b, &b->err);
}

bool db_backup(struct db *db, struct arena *a, const char *source_rev, const char *target_rev,
               const char **out, struct error *err)
{
    if (db->kind != DB_SQLITE) {
        return err_set(err, ERR_INVALID,
                       "only a SQLite database is copied; use pg_dump for PostgreSQL");
    }
    struct backup *b = arena_alloc(a, sizeof(*b));
    if (!b) {
        return err_set(err, ERR_NOMEM, "no memory for a backup");
    }
    *b = (struct backup){.source = sq_path(db), .source_rev = source_rev, .target_rev = target_rev};
    if (!task_work(backup_work, b, err)) {
        return false;
    }
    if (!b->ok) {
        *err = b->err;
        return err_wrap(err, "backup before the migration");
    }
    *out = b->path;
    return true;
}

bool db_backup_mark(const char *backup_path, bool succeeded, const char *revision,
                    struct error *err)
{
    char path[PATH_SIZE], now[TIME_ISO_SIZE];
    if (!join(path, err, "%s.json", backup_path)) {
        return false;
    }
    auto_json manifest = json_load_file(path, 0, NULL);
    if (!manifest) {
        return err_set(err, ERR_IO, "cannot read %s", path);
    }
    time_iso(time_wall_us(), now);
    json_set(manifest, "status",
             json_string(succeeded ? "migration_succeeded" : "restored_after_failure"));
    json_set(manifest, succeeded ? "completed_at" : "restored_at", json_string(now));
    if (succeeded) {
        json_set(manifest, "completed_revision", json_string(revision));
    }
    return write_manifest(backup_path, manifest, err);
}

/* ---- the way back ---- */

static bool drop_side_files(const char *path, struct error *err)
{
    static const char *const ends[] = {"-wal", "-shm", "-journal"};
    for (size_t i = 0; i < array_len(ends); i++) {
        char name[PATH_SIZE];
        if (!join(name, err, "%s%s", path, ends[i])) {
            return false;
        }
        if (task_sys_unlink(name) != 0 && errno != ENOENT) {
            return err_sys(err, errno, "cannot remove %s", name);
        }
    }
    return true;
}

bool db_restore(const char *path, const char *backup_path, struct error *err)
{
    char tmp[PATH_SIZE];
    auto_fd lock = sq_lock_file(path, err);
    if (lock < 0 || !join(tmp, err, "%s.restore", path) ||
        !quick_check(backup_path, SQLITE_OPEN_READONLY, err)) {
        return false;
    }
    task_sys_unlink(tmp);
    if (!copy_db(backup_path, tmp, err) || !drop_side_files(path, err)) {
        task_sys_unlink(tmp);
        return false;
    }
    if (task_sys_rename(tmp, path) != 0) {
        err_sys(err, errno, "cannot put the backup in place");
        task_sys_unlink(tmp);
        return false;
    }
    struct error marked;
    if (!db_backup_mark(backup_path, false, NULL, &marked)) {
        log_warn("db", "restored, but: %s", marked.msg);
    }
    return sync_dir_of(path, err) && quick_check(path, SQLITE_OPEN_READONLY, err);
}
