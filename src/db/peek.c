/* A look at a SQLite database that changes nothing: no lock, no journal, no file beside it. For diagnosis. */
#include "db/db_private.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* SQLite URI: what would end the path is escaped. */
static const char *uri_of(struct arena *a, const char *path)
{
    auto_buf b = BUF(16 << 10);
    buf_z(&b, "file:");
    for (const char *p = path; *p; p++) {
        if (*p == '?' || *p == '#' || *p == '%')
            buf_fmt(&b, "%%%02X", (unsigned)(unsigned char)*p);
        else
            buf_c(&b, *p);
    }
    /* immutable: SQLite neither locks nor looks for journals, so what a running server has not brought into the file is not seen. */
    buf_z(&b, "?mode=ro&immutable=1");
    return b.failed ? "" : str_z(a, buf_view(&b));
}

static bool number_of(sqlite3 *db, const char *sql, int *out)
{
    sqlite3_stmt *st = NULL;
    bool ok =
        sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW;
    if (ok)
        *out = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    return ok;
}

static bool in_use(struct arena *a, const char *path)
{
    auto_fd fd = task_sys_open(z_fmt(a, "%s.lock", path), O_RDONLY, 0);
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

static int newest_migration(void)
{
    int newest = 0;
    for (size_t i = 0; i < base_asset_count; i++) {
        struct str path = str_c(base_assets[i].path), dir = S("migrations/sqlite/");
        int64_t n;
        if (str_starts(path, dir) && str_to_i64(str_sub(path, dir.n, 4), &n) && n > newest)
            newest = (int)n;
    }
    return newest;
}

bool db_peek(const char *path, struct db_peek *out, struct error *err)
{
    auto_arena a = arena_new(64 << 10);
    struct stat st;
    sqlite3 *db = NULL;
    int tables = 0;
    *out = (struct db_peek){.state.newest = newest_migration()};
    if (!a)
        return err_set(err, ERR_NOMEM, "no memory to look at the database");
    if (stat(path, &st) != 0)
        return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "there is no database yet")
                               : err_sys(err, errno, "the database");
    out->in_use = in_use(a, path);
    out->unfinished = stat(z_fmt(a, "%s-wal", path), &st) == 0 && st.st_size > 0;
    bool ok = sqlite3_open_v2(uri_of(a, path), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) ==
                  SQLITE_OK &&
              number_of(db, "SELECT COUNT(*) FROM sqlite_master", &tables);
    /* Killed while the journal was moved into it, the file alone may look malformed and be none the worse. */
    out->unclear =
        !ok && out->unfinished && db && (sqlite3_extended_errcode(db) & 0xff) == SQLITE_CORRUPT;
    if (out->unclear)
        ok = true;
    else if (!ok)
        err_set(err, ERR_IO, "the database cannot be read: %s",
                db ? sqlite3_errmsg(db) : "no memory");
    else if (!number_of(db, "SELECT COALESCE(MAX(number), 0) FROM parley_migrations",
                        &out->state.stored))
        out->foreign = tables > 0 && !out->in_use && !out->unfinished;
    sqlite3_close(db);
    return ok;
}
