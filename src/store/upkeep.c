/* What maintenance and its analysis ask of the database. persistence-and-ops.md §11. */
#include "store/rows_private.h"

struct prune {
    const char *workspace;
    int64_t idle_us, limit, deleted;
};

/* Conversations go with their session and take their turns along; one that no session names any more goes when it is as old. */
static bool do_sessions(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sessions = {
        .text =
            "DELETE FROM parley_sessions WHERE workspace_uuid = ? AND (bot_uuid, launcher_type, launcher_id) IN (SELECT bot_uuid, "
            "launcher_type, launcher_id FROM parley_sessions WHERE workspace_uuid = ? AND updated_at < ? ORDER BY updated_at LIMIT ?)"};
    static struct db_sql conversations = {
        .text =
            "DELETE FROM parley_conversations WHERE workspace_uuid = ? AND id IN (SELECT c.id FROM parley_conversations c WHERE "
            "c.workspace_uuid = ? AND c.updated_at < ? AND NOT EXISTS (SELECT 1 FROM parley_sessions s WHERE s.workspace_uuid = "
            "c.workspace_uuid AND s.bot_uuid = c.bot_uuid AND s.launcher_type = c.launcher_type AND s.launcher_id = c.launcher_id) "
            "LIMIT ?)"};
    static struct db_sql turns = {
        .text =
            "DELETE FROM parley_turns WHERE workspace_uuid = ? AND seq IN (SELECT t.seq FROM parley_turns t WHERE t.workspace_uuid = ? "
            "AND t.created_at < ? AND NOT EXISTS (SELECT 1 FROM parley_conversations c WHERE c.workspace_uuid = t.workspace_uuid AND "
            "c.id = t.conversation_id) LIMIT ?)"};
    static struct db_sql *const all[] = {&sessions, &conversations, &turns};
    struct prune *p = arg;
    char before[TIME_ISO_SIZE];
    struct db_val ws = DB_V_Z(p->workspace);
    struct db_val v[] = {ws, ws, DB_V_Z(time_sql(time_wall_us() - p->idle_us, before)),
                         DB_V_I(p->limit)};
    p->deleted = 0;
    for (size_t i = 0; i < array_len(all); i++) {
        int64_t n = 0;
        if (!db_exec(tx, all[i], v, array_len(v), &n, err))
            return false;
        /* The most of the three: with fewer than the limit in each, nothing is left. */
        p->deleted = n > p->deleted ? n : p->deleted;
    }
    return true;
}

static bool do_chats(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "DELETE FROM parley_chat_messages WHERE workspace_uuid = ? AND conversation_key IN (SELECT conversation_key FROM "
            "parley_chat_messages WHERE workspace_uuid = ? GROUP BY conversation_key HAVING MAX(updated_at) < ? LIMIT ?)"};
    struct prune *p = arg;
    char before[TIME_ISO_SIZE];
    struct db_val ws = DB_V_Z(p->workspace);
    struct db_val v[] = {ws, ws, DB_V_Z(time_sql(time_wall_us() - p->idle_us, before)),
                         DB_V_I(p->limit)};
    return db_exec(tx, &sql, v, array_len(v), &p->deleted, err);
}

static bool prune(const struct store *st, const struct scope *scope, db_fn *fn, int64_t idle_s,
                  int64_t limit, int64_t *deleted, struct error *err)
{
    struct prune p = {.workspace = scope->workspace, .idle_us = idle_s * 1000000, .limit = limit};
    if (!db_write(st->db, scope_db(scope), fn, &p, err))
        return false;
    *deleted = p.deleted;
    return true;
}

bool sessions_prune(const struct store *st, const struct scope *scope, int64_t idle_s,
                    int64_t limit, int64_t *deleted, struct error *err)
{
    return prune(st, scope, do_sessions, idle_s, limit, deleted, err);
}

bool chats_prune(const struct store *st, const struct scope *scope, int64_t idle_s, int64_t limit,
                 int64_t *deleted, struct error *err)
{
    return prune(st, scope, do_chats, idle_s, limit, deleted, err);
}

/* ---- sizes --------------------------------------------------------------------------------------------------------------------- */

struct sizes {
    const char *workspace;
    struct store_sizes *out;
};

static bool do_sizes(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql binary = {
        .text =
            "SELECT COUNT(*), COALESCE(SUM(LENGTH(\"value\")), 0) FROM binary_storages WHERE workspace_uuid = ?",
        .pg =
            "SELECT COUNT(*), CAST(COALESCE(SUM(OCTET_LENGTH(\"value\")), 0) AS BIGINT) FROM binary_storages WHERE workspace_uuid = ?"};
    static struct db_sql whole = {
        .text =
            "SELECT CAST(page_count * page_size AS INTEGER) FROM pragma_page_count(), pragma_page_size()",
        .pg = "SELECT pg_database_size(current_database())"};
    struct sizes *s = arg;
    struct db_val ws = DB_V_Z(s->workspace);
    struct db_rows r;
    if (!db_query(tx, &binary, &ws, 1, &r, err))
        return false;
    s->out->binary_count = db_at(&r, 0, 0)->i;
    s->out->binary_bytes = db_at(&r, 0, 1)->i;
    if (!db_query(tx, &whole, NULL, 0, &r, err))
        return false;
    s->out->database_bytes = db_at(&r, 0, 0)->i;
    return true;
}

bool store_sizes(const struct store *st, const struct scope *scope, struct store_sizes *out,
                 struct error *err)
{
    struct sizes s = {.workspace = scope->workspace, .out = out};
    *out = (struct store_sizes){0};
    return db_read(st->db, scope_db(scope), do_sizes, &s, err);
}

/* ---- summary ----------------------------------------------------------------------------------------------------------------- */

static json_t *rows_json(const struct db_rows *r)
{
    json_t *out = json_array();
    for (size_t i = 0; i < r->n; i++) {
        json_t *row = json_object();
        for (size_t k = 0; k < r->cols; k++) {
            const struct db_val *v = db_at(r, i, k);
            json_set(row, r->names[k], v->type == DB_TEXT ? json_strn(v->s) : json_null());
        }
        json_array_append_new(out, row);
    }
    return out;
}

static bool count_table(struct db_tx *tx, const struct table *t, json_t *out, struct error *err)
{
    struct db_rows r;
    const struct column *scope = column_scope(t);
    if (!scope)
        return true;
    const char *sql = z_fmt(
        db_tx_arena(tx),
        "SELECT COUNT(*), COUNT(*) - COUNT(w.uuid) FROM %s t LEFT JOIN workspaces w ON w.uuid = t.\"%s\"",
        t->name, scope->name);
    if (!db_query_text(tx, sql, NULL, 0, &r, err))
        return false;
    json_array_append_new(out, json_pack("{s:s,s:I,s:I}", "name", t->name, "rows",
                                         (json_int_t)db_at(&r, 0, 0)->i, "without_workspace",
                                         (json_int_t)db_at(&r, 0, 1)->i));
    return true;
}

static bool do_summary(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql workspaces = {
        .text =
            "SELECT w.uuid AS uuid, w.name AS name, (SELECT m.account_uuid FROM workspace_memberships m WHERE m.workspace_uuid = w.uuid "
            "AND m.role = 'owner' AND m.status = 'active' LIMIT 1) AS owner FROM workspaces w ORDER BY w.created_at, w.uuid"};
    static struct db_sql accounts = {
        .text = "SELECT uuid, status, \"user\" AS email FROM users ORDER BY id"};
    json_t **out = arg;
    struct db_rows w, u;
    json_t *tables = json_array();
    if (!db_query(tx, &workspaces, NULL, 0, &w, err) ||
        !db_query(tx, &accounts, NULL, 0, &u, err)) {
        json_decref(tables);
        return false;
    }
    for (size_t i = 0; store_tables[i]; i++) {
        if (!count_table(tx, store_tables[i], tables, err)) {
            json_decref(tables);
            return false;
        }
    }
    *out = json_pack("{s:o,s:o,s:o}", "workspaces", rows_json(&w), "accounts", rows_json(&u),
                     "tables", tables);
    return *out || err_set(err, ERR_NOMEM, "out of memory");
}

json_t *store_summary(const struct store *st, struct error *err)
{
    json_t *out = NULL;
    return db_read(st->db, (struct db_scope){.kind = DB_SCOPE_SYSTEM}, do_summary, &out, err)
               ? out
               : NULL;
}
