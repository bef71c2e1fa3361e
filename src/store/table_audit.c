/* parley_audit: what agents did in the sandbox, and what they were refused. box.md §13.2. */
#include "store/store.h"

#include <stdio.h>

static const struct column audit[] = {
    {"id", COL_STR, COL_PK | COL_UUID | COL_FIXED, 36, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"timestamp", COL_TIME, COL_FIXED, 0, NULL},
    {"tool_name", COL_STR, COL_FIXED, 255, NULL},
    {"tool_source", COL_STR, COL_FIXED, 50, NULL},
    {"decision", COL_STR, COL_FIXED, 20, NULL}, /* allowed, refused */
    {"status", COL_STR, 0, 20, NULL}, /* running, success, failed, error, canceled, refused */
    {"bot_id", COL_STR, COL_FIXED, 255, NULL},
    {"pipeline_id", COL_STR, COL_FIXED, 255, NULL},
    {"session_id", COL_TEXT, COL_FIXED, 0, NULL},
    {"user_id", COL_TEXT, COL_FIXED, 0, NULL},
    {"query_id", COL_STR, COL_FIXED, 36, NULL},
    {"message_id", COL_STR, COL_NULL | COL_FIXED, 255, NULL},
    {"box_session_id", COL_TEXT, COL_NULL, 0, NULL},
    {"detail", COL_TEXT, COL_FIXED, 0, NULL}, /* bounded; never values or contents */
    {"detail_sha256", COL_STR, COL_FIXED, 64, NULL},
    {"exit_code", COL_INT, COL_NULL, 0, NULL},
    {"duration", COL_INT, COL_NULL, 0, NULL}, /* milliseconds */
    {"bytes", COL_INT, COL_NULL, 0, NULL},
    {"error_message", COL_TEXT, COL_NULL, 0, NULL},
    {.name = NULL},
};
const struct table table_audit = {"parley_audit", audit, GROUP_OTHER, "\"timestamp\" DESC, \"id\""};

bool audit_put(const struct store *st, const struct scope *s, const json_t *row, struct error *err)
{
    json_t *made = store_do_insert(st, &table_audit, s, row, err);
    json_decref(made);
    return made != NULL;
}

struct finish {
    struct scope scope;
    char id[UUID_SIZE];
    json_t *patch;
};

static bool do_finish(struct db_tx *tx, void *arg, struct error *err)
{
    struct finish *f = arg;
    struct store_eq key = EQ_Z("id", f->id);
    return store_update(tx, NULL, &table_audit, &f->scope, &key, 1, f->patch, false, err);
}

static void finished(void *arg, bool ok, const struct error *err)
{
    struct finish *f = arg;
    if (!ok)
        log_error("audit", "the end of a call was not recorded id=%s: %s", f->id, err->msg);
    json_decref(f->patch);
    mem_free(f);
}

void audit_finish(const struct store *st, const struct scope *s, const char *id,
                  json_t *patch_stolen)
{
    struct finish *f = new (struct finish);
    struct error err = {0};
    if (!f || !patch_stolen) {
        log_error("audit", "the end of a call was not recorded id=%s: out of memory", id);
        json_decref(patch_stolen);
        mem_free(f);
        return;
    }
    *f = (struct finish){.scope = *s, .patch = patch_stolen};
    snprintf(f->id, sizeof f->id, "%s", id);
    if (!db_write_async(st->db, scope_db(&f->scope), do_finish, f, finished, &err))
        finished(f, false, &err);
}

json_t *audit_list(const struct store *st, const struct scope *s, const char *decision,
                   int64_t limit, int64_t offset, struct error *err)
{
    struct store_eq where = EQ_Z("decision", decision);
    return store_do_list(st, &table_audit, s, &where, decision != NULL, NULL, limit, offset, false,
                         err);
}

struct prune {
    struct scope scope;
    int64_t keep_s, batch, removed;
};

static bool do_prune(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {
        .text = "DELETE FROM parley_audit WHERE workspace_uuid = ? AND id IN (SELECT id FROM "
                "parley_audit WHERE workspace_uuid = ? AND \"timestamp\" < ? LIMIT ?)"};
    struct prune *p = arg;
    char before[TIME_ISO_SIZE];
    time_sql(time_wall_us() - p->keep_s * 1000000, before);
    struct db_val v[] = {DB_V_Z(p->scope.workspace), DB_V_Z(p->scope.workspace), DB_V_Z(before),
                         DB_V_I(p->batch)};
    return db_exec(tx, &sql, v, array_len(v), &p->removed, err);
}

bool audit_prune(const struct store *st, const struct scope *s, int64_t keep_s, int64_t batch,
                 int64_t *removed, struct error *err)
{
    struct prune p = {.scope = *s, .keep_s = keep_s, .batch = batch};
    bool ok = db_write(st->db, scope_db(s), do_prune, &p, err);
    *removed = p.removed;
    return ok;
}
