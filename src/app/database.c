/* The configured database. persistence-and-ops.md §1. */
#include "app/app_private.h"

#include <dirent.h>
#include <sys/stat.h>

/* A first start that was cut off leaves an empty file, too, but a young one. */
enum { FIRST_START_S = 600, LABEL_MAX = 65536 };

static int bounded(const struct config *c, const char *path, int lo, int hi)
{
    return (int)config_int_in(c, path, lo, hi);
}

static bool has_entries(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e = NULL;
    while (d && (e = readdir(d)) && e->d_name[0] == '.')
        ;
    if (d)
        closedir(d);
    return e != NULL;
}

/* Unix time at which the instance was made; 0: not known. */
static int64_t made_at(const struct config *c, struct arena *a)
{
    struct error err = {0};
    struct str text;
    if (!config_read_file(a, config_path(c, a, "labels/instance_id.json"), LABEL_MAX, &text, &err))
        return 0;
    auto_json label = json_parse(text, &err);
    return json_i_or(label, "instance_create_ts", 0);
}

const char *app_database_lost(const struct config *c, struct arena *a, const char *path)
{
    struct stat st, log;
    char day[TIME_ISO_SIZE];
    const char *slash = strrchr(path, '/');
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > 0)
        return NULL;
    if (stat(z_fmt(a, "%s-wal", path), &log) == 0 && log.st_size > 0)
        return "its journal (-wal) is not";
    if (has_entries(z_fmt(a, "%.*s/migration-backups", slash ? (int)(slash - path) : 1,
                          slash ? path : ".")))
        return "there are backups of it in migration-backups";
    if (has_entries(config_path(c, a, "storage/v1")))
        return "there are stored objects";
    int64_t made = made_at(c, a);
    if (made <= 0 || st.st_mtime <= made + FIRST_START_S)
        return NULL;
    return z_fmt(a, "this instance was made on %.10s", time_iso(made * 1000000, day));
}

static bool not_lost(const struct config *c, struct arena *a, const char *path, struct error *err)
{
    const char *sign = app_database_lost(c, a, path);
    return !sign ||
           err_set(
               err, ERR_CONFLICT,
               "the database %s is empty, but %s: restore a backup of it, or remove the file (and "
               "%s-wal) to start afresh on purpose",
               path, sign, path);
}

bool app_open_store(const struct config *c, struct store *out, struct error *err)
{
    auto_arena a = arena_new(64 << 10);
    const char *use = config_str(c, "database.use");
    struct db_opts o = {.readers = 2};
    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (strcmp(use, "sqlite") == 0) {
        o.kind = DB_SQLITE;
        o.path = config_path(c, a, config_str(c, "database.sqlite.path"));
        if (!not_lost(c, a, o.path, err))
            return false;
    } else if (strcmp(use, "postgresql") == 0) {
        o.kind = DB_POSTGRES;
        o.url = config_str(c, "database.postgresql.url");
        o.host = config_str(c, "database.postgresql.host");
        o.port = bounded(c, "database.postgresql.port", 1, 65535);
        o.user = config_str(c, "database.postgresql.user");
        o.password = config_str(c, "database.postgresql.password");
        o.database = config_str(c, "database.postgresql.database");
        o.pool_size = bounded(c, "database.postgresql.pool_size", 1, 100);
        o.pool_overflow = bounded(c, "database.postgresql.max_overflow", 0, 100);
        o.pool_timeout_s = bounded(c, "database.postgresql.pool_timeout_seconds", 1, 300);
        o.pool_recycle_s = bounded(c, "database.postgresql.pool_recycle_seconds", 1, 86400);
        if (o.pool_size + o.pool_overflow > 100)
            return err_set(err, ERR_INVALID,
                           "database.postgresql.pool_size and max_overflow may be 100 together");
    } else {
        return err_set(
            err, ERR_INVALID,
            "Unsupported database type: database.use is %s; sqlite and postgresql are known", use);
    }
    *out = (struct store){0};
    snprintf(out->instance, sizeof out->instance, "%s", config_instance_id(c));
    memcpy(out->key.k, config_secret_key(c), sizeof out->key.k);
    out->db = db_open(&o, err);
    return out->db != NULL;
}
