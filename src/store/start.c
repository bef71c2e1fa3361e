/* What a start does with the database before anything else. persistence-and-ops.md §4 */
#include "store/rows_private.h"

struct start {
    const struct store *st;
};

/* A database belongs to one instance for ever: its workspace, keys and sealed secrets are bound to it. */
static bool bind_instance(struct db_tx *tx, void *arg, struct error *err)
{
    const struct start *s = arg;
    struct error missing;
    struct store_eq key = EQ_Z("key", "instance_uuid");
    auto_json row = store_get(tx, s->st, &table_metadata, NULL, &key, 1, true, &missing);
    if (row) {
        return str_eqz(json_s(row, "value"), s->st->instance) ||
               err_set(
                   err, ERR_CONFLICT,
                   "the database belongs to another instance than system.instance_id of config.yaml");
    }
    if (missing.code != ERR_NOT_FOUND) {
        *err = missing;
        return false;
    }
    auto_json fresh = json_pack("{s:s, s:s}", "key", "instance_uuid", "value", s->st->instance);
    if (!fresh) {
        return err_set(err, ERR_NOMEM, "no memory for a row");
    }
    auto_json stored = store_insert(tx, s->st, &table_metadata, NULL, fresh, err);
    return stored != NULL;
}

bool store_start(struct store *st, struct error *err)
{
    struct start s = {.st = st};
    char singleton[UUID_SIZE];
    int applied = 0;
    if (!db_migrate(st->db, &applied, err)) {
        return err_wrap(err, "database");
    }
    if (applied > 0) {
        log_info("store", "database migrated files=%d", applied);
    }
    /* Single-workspace mode: what names no workspace on PostgreSQL means the only one (tenancy.md §10 rule 6). */
    return tenant_singleton_uuid(str_c(st->instance), singleton, err) &&
           db_default_scope(st->db, singleton, err) &&
           db_write(st->db, (struct db_scope){.kind = DB_SCOPE_NONE}, bind_instance, &s, err) &&
           db_settle(st->db, err);
}
