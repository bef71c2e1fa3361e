/* Sessions, conversations and their turns. pipeline.md §5. */
#include "store/store.h"

static struct db_val json_text_of(struct db_tx *tx, const json_t *j)
{
    struct str s = json_text(db_tx_arena(tx), j);
    return s.p ? DB_V_S(s) : DB_V_NULL;
}

/* ISO texts of the rows into the form of the columns. */
static struct db_val time_of(struct db_tx *tx, const json_t *row, const char *key)
{
    int64_t us = 0;
    if (!time_parse(json_s(row, key), &us))
        us = time_wall_us();
    char *out = arena_alloc(db_tx_arena(tx), TIME_ISO_SIZE);
    return out ? DB_V_Z(time_sql(us, out)) : DB_V_NULL;
}

static json_t *iso_of(const struct db_val *v)
{
    int64_t us;
    char iso[TIME_ISO_SIZE];
    return v->type == DB_TEXT && time_parse(v->s, &us) ? json_string(time_iso(us, iso))
                                                       : json_null();
}

static json_t *text_of(const struct db_val *v)
{
    return v->type == DB_TEXT ? json_strn(v->s) : json_null();
}

bool session_save(struct db_tx *tx, const struct scope *scope, const json_t *s, const json_t *c,
                  struct error *err)
{
    static struct db_sql session = {
        .text =
            "INSERT INTO parley_sessions (workspace_uuid, bot_uuid, launcher_type, launcher_id, sender_id, conversation_id, created_at, "
            "updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (workspace_uuid, bot_uuid, launcher_type, launcher_id) DO UPDATE SET "
            "conversation_id = excluded.conversation_id, updated_at = excluded.updated_at"};
    static struct db_sql conversation = {
        .text =
            "INSERT INTO parley_conversations (id, workspace_uuid, bot_uuid, pipeline_uuid, launcher_type, launcher_id, uuid, prompt, "
            "created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET uuid = excluded.uuid, "
            "updated_at = excluded.updated_at"};
    struct db_val ws = DB_V_Z(scope->workspace);
    if (c) {
        struct db_val v[] = {DB_V_Z(json_z(c, "id")),
                             ws,
                             DB_V_Z(json_z(c, "bot_uuid")),
                             DB_V_Z(json_z(c, "pipeline_uuid")),
                             DB_V_Z(json_z(c, "launcher_type")),
                             DB_V_Z(json_z(c, "launcher_id")),
                             db_val_z(json_z(c, "uuid")),
                             json_text_of(tx, json_object_get(c, "prompt")),
                             time_of(tx, c, "created_at"),
                             time_of(tx, c, "updated_at")};
        if (!db_exec(tx, &conversation, v, array_len(v), NULL, err))
            return false;
    }
    struct db_val v[] = {ws,
                         DB_V_Z(json_z(s, "bot_uuid")),
                         DB_V_Z(json_z(s, "launcher_type")),
                         DB_V_Z(json_z(s, "launcher_id")),
                         DB_V_Z(json_z_or(s, "sender_id", "")),
                         db_val_z(json_z(s, "conversation_id")),
                         time_of(tx, s, "created_at"),
                         time_of(tx, s, "updated_at")};
    return db_exec(tx, &session, v, array_len(v), NULL, err);
}

bool session_append_turn(struct db_tx *tx, const struct scope *scope, const char *conversation_id,
                         const json_t *messages, struct error *err)
{
    static struct db_sql insert = {
        .text =
            "INSERT INTO parley_turns (workspace_uuid, conversation_id, messages, created_at) VALUES (?, ?, ?, ?)"};
    char now[TIME_ISO_SIZE];
    struct db_val v[] = {DB_V_Z(scope->workspace), DB_V_Z(conversation_id),
                         json_text_of(tx, messages), DB_V_Z(time_sql(time_wall_us(), now))};
    return db_exec(tx, &insert, v, array_len(v), NULL, err);
}

bool session_cut_turns(struct db_tx *tx, const struct scope *scope, const char *conversation_id,
                       int64_t keep, struct error *err)
{
    static struct db_sql trim = {
        .text =
            "DELETE FROM parley_turns WHERE workspace_uuid = ? AND conversation_id = ? AND seq <= (SELECT seq FROM parley_turns WHERE "
            "workspace_uuid = ? AND conversation_id = ? ORDER BY seq DESC LIMIT 1 OFFSET ?)"};
    struct db_val ws = DB_V_Z(scope->workspace), id = DB_V_Z(conversation_id);
    struct db_val v[] = {ws, id, ws, id, DB_V_I(keep)};
    return keep <= 0 || db_exec(tx, &trim, v, array_len(v), NULL, err);
}

/* ---- loading -------------------------------------------------------------------------------------------------------------- */

struct load {
    const char *workspace, *bot, *type, *id;
    int64_t max_turns;
    json_t *out;
};

static json_t *conversation_row(struct db_tx *tx, const struct load *l, const struct db_val *id,
                                struct error *err)
{
    static struct db_sql sql = {
        .text =
            "SELECT bot_uuid, pipeline_uuid, uuid, prompt, created_at, updated_at FROM parley_conversations WHERE "
            "workspace_uuid = ? AND id = ?"};
    struct db_val v[] = {DB_V_Z(l->workspace), *id};
    struct db_rows r;
    if (id->type == DB_NULL)
        return json_null();
    if (!db_query(tx, &sql, v, 2, &r, err))
        return NULL;
    if (r.n == 0)
        return json_null();
    struct error ignored = {0};
    json_t *prompt = json_parse(db_at(&r, 0, 3)->s, &ignored);
    return json_pack("{s:o,s:o,s:o,s:s,s:s,s:o,s:o,s:o,s:o}", "id", text_of(id), "bot_uuid",
                     text_of(db_at(&r, 0, 0)), "pipeline_uuid", text_of(db_at(&r, 0, 1)),
                     "launcher_type", l->type, "launcher_id", l->id, "uuid",
                     text_of(db_at(&r, 0, 2)), "prompt", prompt ? prompt : json_object(),
                     "created_at", iso_of(db_at(&r, 0, 4)), "updated_at", iso_of(db_at(&r, 0, 5)));
}

static json_t *turns_of(struct db_tx *tx, const struct load *l, const struct db_val *id,
                        struct error *err)
{
    static struct db_sql sql = {
        .text =
            "SELECT messages FROM parley_turns WHERE workspace_uuid = ? AND conversation_id = ? ORDER BY seq DESC LIMIT ?"};
    struct db_val v[] = {DB_V_Z(l->workspace), *id, DB_V_I(l->max_turns)};
    json_t *turns = json_array();
    struct db_rows r;
    if (id->type == DB_NULL)
        return turns;
    if (!db_query(tx, &sql, v, 3, &r, err)) {
        json_decref(turns);
        return NULL;
    }
    for (size_t i = r.n; i > 0; i--) {
        struct error bad = {0};
        json_t *t = json_parse_words(db_at(&r, i - 1, 0)->s, &bad);
        if (t)
            json_array_append_new(turns, t);
    }
    return turns;
}

static bool do_load(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "SELECT sender_id, conversation_id, created_at, updated_at FROM parley_sessions WHERE workspace_uuid = ? "
            "AND bot_uuid = ? AND launcher_type = ? AND launcher_id = ?"};
    struct load *l = arg;
    struct db_val v[] = {DB_V_Z(l->workspace), DB_V_Z(l->bot), DB_V_Z(l->type), DB_V_Z(l->id)};
    struct db_rows r;
    if (!db_query(tx, &sql, v, 4, &r, err))
        return false;
    if (r.n == 0)
        return err_tag(err, ERR_NOT_FOUND, 404, "resource_not_found", "Resource not found");
    const struct db_val *id = db_at(&r, 0, 1);
    json_t *row = json_pack("{s:s,s:s,s:s,s:o,s:o,s:o,s:o}", "bot_uuid", l->bot, "launcher_type",
                            l->type, "launcher_id", l->id, "sender_id", text_of(db_at(&r, 0, 0)),
                            "conversation_id", text_of(id), "created_at", iso_of(db_at(&r, 0, 2)),
                            "updated_at", iso_of(db_at(&r, 0, 3)));
    json_t *conversation = conversation_row(tx, l, id, err);
    json_t *turns = conversation ? turns_of(tx, l, id, err) : NULL;
    if (!row || !conversation || !turns) {
        json_decref(row);
        json_decref(conversation);
        json_decref(turns);
        return err->code ? false : err_set(err, ERR_NOMEM, "out of memory");
    }
    l->out =
        json_pack("{s:o,s:o,s:o}", "session", row, "conversation", conversation, "turns", turns);
    return l->out || err_set(err, ERR_NOMEM, "out of memory");
}

json_t *session_load(const struct store *st, const struct scope *scope, const char *bot,
                     const char *type, const char *id, int64_t max_turns, struct error *err)
{
    struct load l = {
        .workspace = scope->workspace, .bot = bot, .type = type, .id = id, .max_turns = max_turns};
    return store_result(db_read(st->db, scope_db(scope), do_load, &l, err), &l.out);
}

/* ---- removal and counts ------------------------------------------------------------------------------------------------------ */

struct removal {
    struct load at;
    int64_t removed;
};

static bool do_remove(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql turns = {
        .text =
            "DELETE FROM parley_turns WHERE workspace_uuid = ? AND conversation_id IN (SELECT id FROM parley_conversations WHERE "
            "workspace_uuid = ? AND bot_uuid = ? AND launcher_type = ? AND launcher_id = ?)"};
    static struct db_sql conversations = {
        .text =
            "DELETE FROM parley_conversations WHERE workspace_uuid = ? AND bot_uuid = ? AND launcher_type = ? AND launcher_id = ?"};
    static struct db_sql sessions = {
        .text =
            "DELETE FROM parley_sessions WHERE workspace_uuid = ? AND bot_uuid = ? AND launcher_type = ? AND launcher_id = ?"};
    struct removal *r = arg;
    struct db_val ws = DB_V_Z(r->at.workspace), b = DB_V_Z(r->at.bot), t = DB_V_Z(r->at.type),
                  i = DB_V_Z(r->at.id);
    struct db_val five[] = {ws, ws, b, t, i}, four[] = {ws, b, t, i};
    return db_exec(tx, &turns, five, 5, NULL, err) &&
           db_exec(tx, &conversations, four, 4, NULL, err) &&
           db_exec(tx, &sessions, four, 4, &r->removed, err);
}

bool session_remove(const struct store *st, const struct scope *scope, const char *bot,
                    const char *type, const char *id, bool *removed, struct error *err)
{
    struct removal r = {.at = {.workspace = scope->workspace, .bot = bot, .type = type, .id = id}};
    if (!db_write(st->db, scope_db(scope), do_remove, &r, err))
        return false;
    *removed = r.removed > 0;
    return true;
}

bool session_prune(struct db_tx *tx, const struct scope *scope, const json_t *s, int64_t keep,
                   struct error *err)
{
    static struct db_sql turns = {
        .text =
            "DELETE FROM parley_turns WHERE workspace_uuid = ? AND conversation_id IN (SELECT id FROM parley_conversations WHERE "
            "workspace_uuid = ? AND bot_uuid = ? AND launcher_type = ? AND launcher_id = ? ORDER BY updated_at DESC, id LIMIT 1000 OFFSET ?)"};
    static struct db_sql conversations = {
        .text =
            "DELETE FROM parley_conversations WHERE workspace_uuid = ? AND id IN (SELECT id FROM parley_conversations WHERE "
            "workspace_uuid = ? AND bot_uuid = ? AND launcher_type = ? AND launcher_id = ? ORDER BY updated_at DESC, id LIMIT 1000 OFFSET ?)"};
    struct db_val ws = DB_V_Z(scope->workspace);
    struct db_val v[] = {ws,
                         ws,
                         DB_V_Z(json_z(s, "bot_uuid")),
                         DB_V_Z(json_z(s, "launcher_type")),
                         DB_V_Z(json_z(s, "launcher_id")),
                         DB_V_I(keep)};
    return db_exec(tx, &turns, v, array_len(v), NULL, err) &&
           db_exec(tx, &conversations, v, array_len(v), NULL, err);
}

struct unbind {
    const char *workspace, *bot, *pipeline;
};

static bool do_unbind(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql of_bot = {
        .text =
            "UPDATE parley_sessions SET conversation_id = NULL WHERE workspace_uuid = ? AND bot_uuid = ? AND "
            "conversation_id IS NOT NULL"};
    static struct db_sql of_pipeline = {
        .text =
            "UPDATE parley_sessions SET conversation_id = NULL WHERE workspace_uuid = ? AND conversation_id IN (SELECT id FROM "
            "parley_conversations WHERE workspace_uuid = ? AND pipeline_uuid = ?)"};
    const struct unbind *u = arg;
    struct db_val ws = DB_V_Z(u->workspace);
    struct db_val b[] = {ws, db_val_z(u->bot)}, p[] = {ws, ws, db_val_z(u->pipeline)};
    return u->bot ? db_exec(tx, &of_bot, b, 2, NULL, err)
                  : db_exec(tx, &of_pipeline, p, 3, NULL, err);
}

bool sessions_unbind(const struct store *st, const struct scope *scope, const char *bot,
                     const char *pipeline, struct error *err)
{
    struct unbind u = {scope->workspace, bot, pipeline};
    return db_write(st->db, scope_db(scope), do_unbind, &u, err);
}

struct counts {
    const char *workspace;
    int64_t sessions, conversations;
};

static bool do_counts(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "SELECT (SELECT COUNT(*) FROM parley_sessions WHERE workspace_uuid = ?), (SELECT COUNT(*) FROM "
            "parley_conversations WHERE workspace_uuid = ?)"};
    struct counts *c = arg;
    struct db_val v[] = {DB_V_Z(c->workspace), DB_V_Z(c->workspace)};
    struct db_rows r;
    if (!db_query(tx, &sql, v, 2, &r, err))
        return false;
    c->sessions = db_at(&r, 0, 0)->i;
    c->conversations = db_at(&r, 0, 1)->i;
    return true;
}

bool session_counts(const struct store *st, const struct scope *scope, int64_t *sessions,
                    int64_t *conversations, struct error *err)
{
    struct counts c = {.workspace = scope->workspace};
    if (!db_read(st->db, scope_db(scope), do_counts, &c, err))
        return false;
    *sessions = c.sessions;
    *conversations = c.conversations;
    return true;
}
