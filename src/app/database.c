/* The configured database. persistence-and-ops.md §1. */
#include "app/app_private.h"

static int bounded(const struct config *c, const char *path, int lo, int hi)
{
    return (int)config_int_in(c, path, lo, hi);
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
