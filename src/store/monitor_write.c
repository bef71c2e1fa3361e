/* Writing monitoring records. pipeline.md §11. Messages, calls and sessions are the hot ones: flat values, prepared SQL. */
#include "store/store.h"

static struct db_val val(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);
    if (json_is_string(v))
        return DB_V_S(json_sv(v));
    if (json_is_integer(v))
        return DB_V_I(json_integer_value(v));
    if (json_is_real(v))
        return DB_V_F(json_real_value(v));
    if (json_is_boolean(v))
        return DB_V_B(json_is_true(v));
    return DB_V_NULL;
}

/* ISO text of the record in the column's form; buffer owned by the caller. */
static struct db_val when(const json_t *row, const char *key, char out[TIME_ISO_SIZE])
{
    int64_t us = 0;
    if (!time_parse(json_s(row, key), &us))
        us = time_wall_us();
    return DB_V_Z(time_sql(us, out));
}

static struct db_val or_text(struct db_val v, const char *fallback)
{
    return v.type == DB_NULL ? DB_V_Z(fallback) : v;
}

/* ---- rows of every turn ---- */

#define Q16 "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
#define ROW "(" Q16 ", ?)"
#define ROWS_MAX \
    ROW ", " ROW ", " ROW ", " ROW ", " ROW ", " ROW ", " ROW ", " ROW /* MON_ROWS_MAX of them */
#define MESSAGE                                                                                    \
    "INTO monitoring_messages (id, workspace_uuid, \"timestamp\", bot_id, bot_name, pipeline_id, " \
    "pipeline_name, message_content, session_id, status, level, platform, user_id, user_name, "    \
    "runner_name, variables, role) VALUES "
/* A turn that is run again goes on with its record. */
#define MESSAGE_AGAIN                                                                    \
    " ON CONFLICT (id) DO UPDATE SET status = excluded.status, level = excluded.level, " \
    "variables = excluded.variables"
#define LLM_CALL                                                                               \
    "INTO monitoring_llm_calls (id, workspace_uuid, \"timestamp\", model_name, input_tokens, " \
    "output_tokens, total_tokens, duration, cost, status, bot_id, bot_name, pipeline_id, "     \
    "pipeline_name, session_id, error_message, message_id) VALUES "

/* FAIL: SQLite need not be able to take back the first rows of a statement that fails, the transaction goes back as a whole. */
static struct db_sql
    message_one = {.text = "INSERT " MESSAGE ROW MESSAGE_AGAIN},
    message_max = {.text = "INSERT OR FAIL " MESSAGE ROWS_MAX MESSAGE_AGAIN,
                   .pg = "INSERT " MESSAGE ROWS_MAX MESSAGE_AGAIN},
    llm_one = {.text = "INSERT " LLM_CALL ROW},
    llm_max = {.text = "INSERT OR FAIL " LLM_CALL ROWS_MAX, .pg = "INSERT " LLM_CALL ROWS_MAX},
    session_one = {
        .text =
            "INSERT INTO monitoring_sessions (workspace_uuid, bot_id, session_id, bot_name, pipeline_id, pipeline_name, message_count, "
            "start_time, last_activity, is_active, platform, user_id, user_name) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT "
            "(workspace_uuid, bot_id, session_id) DO UPDATE SET message_count = monitoring_sessions.message_count + excluded.message_count, "
            "last_activity = excluded.last_activity, is_active = excluded.is_active, bot_name = excluded.bot_name, pipeline_id = "
            "excluded.pipeline_id, pipeline_name = excluded.pipeline_name, user_name = COALESCE(excluded.user_name, "
            "monitoring_sessions.user_name)"};

static const struct {
    size_t columns;
    struct db_sql *one, *max; /* max: NULL where rows come one by one */
} flat[] = {
    [MON_MESSAGE] = {17, &message_one, &message_max},
    [MON_LLM_CALL] = {17, &llm_one, &llm_max},
    [MON_SESSION] = {13, &session_one, NULL},
};

size_t monitor_columns(enum mon_flat table)
{
    return flat[table].columns;
}

bool monitor_rows(struct db_tx *tx, enum mon_flat table, const struct db_val *v, size_t n,
                  struct error *err)
{
    size_t columns = flat[table].columns;
    while (n > 0) {
        size_t take = flat[table].max && n >= MON_ROWS_MAX ? MON_ROWS_MAX : 1;
        if (!db_exec(tx, take > 1 ? flat[table].max : flat[table].one, v, take * columns, NULL,
                     err))
            return false;
        v += take * columns;
        n -= take;
    }
    return true;
}

/* ---- records as JSON ---- */

static bool put_message(struct db_tx *tx, const struct scope *s, const json_t *r, struct error *err)
{
    char t[TIME_ISO_SIZE];
    struct db_val v[] = {val(r, "id"),
                         DB_V_Z(s->workspace),
                         when(r, "timestamp", t),
                         or_text(val(r, "bot_id"), "unknown"),
                         or_text(val(r, "bot_name"), "Unknown"),
                         or_text(val(r, "pipeline_id"), "unknown"),
                         or_text(val(r, "pipeline_name"), "Unknown"),
                         or_text(val(r, "message_content"), ""),
                         or_text(val(r, "session_id"), ""),
                         or_text(val(r, "status"), "success"),
                         or_text(val(r, "level"), "info"),
                         val(r, "platform"),
                         val(r, "user_id"),
                         val(r, "user_name"),
                         val(r, "runner_name"),
                         val(r, "variables"),
                         or_text(val(r, "role"), "user")};
    return monitor_rows(tx, MON_MESSAGE, v, 1, err);
}

static bool update_message(struct db_tx *tx, const struct scope *s, const json_t *r,
                           struct error *err)
{
    static struct db_sql sql = {
        .text =
            "UPDATE monitoring_messages SET status = COALESCE(?, status), level = COALESCE(?, level), variables = "
            "COALESCE(?, variables) WHERE workspace_uuid = ? AND id = ?"};
    struct db_val v[] = {val(r, "status"), val(r, "level"), val(r, "variables"),
                         DB_V_Z(s->workspace), val(r, "id")};
    return db_exec(tx, &sql, v, array_len(v), NULL, err);
}

static bool put_llm_call(struct db_tx *tx, const struct scope *s, const json_t *r,
                         struct error *err)
{
    char t[TIME_ISO_SIZE];
    struct db_val v[] = {val(r, "id"),
                         DB_V_Z(s->workspace),
                         when(r, "timestamp", t),
                         or_text(val(r, "model_name"), ""),
                         val(r, "input_tokens"),
                         val(r, "output_tokens"),
                         val(r, "total_tokens"),
                         val(r, "duration"),
                         val(r, "cost"),
                         or_text(val(r, "status"), "success"),
                         or_text(val(r, "bot_id"), "unknown"),
                         or_text(val(r, "bot_name"), "Unknown"),
                         or_text(val(r, "pipeline_id"), "unknown"),
                         or_text(val(r, "pipeline_name"), "Unknown"),
                         or_text(val(r, "session_id"), ""),
                         val(r, "error_message"),
                         val(r, "message_id")};
    return monitor_rows(tx, MON_LLM_CALL, v, 1, err);
}

static bool put_session(struct db_tx *tx, const struct scope *s, const json_t *r, struct error *err)
{
    char t[TIME_ISO_SIZE], u[TIME_ISO_SIZE];
    struct db_val v[] = {DB_V_Z(s->workspace),
                         or_text(val(r, "bot_id"), "unknown"),
                         or_text(val(r, "session_id"), ""),
                         or_text(val(r, "bot_name"), "Unknown"),
                         or_text(val(r, "pipeline_id"), "unknown"),
                         or_text(val(r, "pipeline_name"), "Unknown"),
                         DB_V_I(json_i_or(r, "message_count", 1)),
                         when(r, "start_time", t),
                         when(r, "last_activity", u),
                         DB_V_B(true),
                         val(r, "platform"),
                         val(r, "user_id"),
                         val(r, "user_name")};
    return monitor_rows(tx, MON_SESSION, v, 1, err);
}

/* One record for each feedback id: a change of mind replaces it, 3 takes it back (pipeline.md §2). */
static bool put_feedback(struct db_tx *tx, const struct scope *s, const json_t *r,
                         struct error *err)
{
    struct store_eq key = EQ_S("feedback_id", json_s(r, "feedback_id"));
    if (!store_delete(tx, NULL, &table_mon_feedback, s, &key, 1, NULL, err))
        return false;
    if (json_i_or(r, "feedback_type", 0) == 3)
        return true;
    json_t *made = store_insert(tx, NULL, &table_mon_feedback, s, r, err);
    json_decref(made);
    return made != NULL;
}

static bool put_row(struct db_tx *tx, const struct table *t, const struct scope *s, const json_t *r,
                    struct error *err)
{
    json_t *made = store_insert(tx, NULL, t, s, r, err);
    json_decref(made);
    return made != NULL;
}

bool monitor_write(struct db_tx *tx, const struct scope *s, const char *kind, const json_t *row,
                   struct error *err)
{
    if (strcmp(kind, "message") == 0)
        return put_message(tx, s, row, err);
    if (strcmp(kind, "message_update") == 0)
        return update_message(tx, s, row, err);
    if (strcmp(kind, "llm_call") == 0)
        return put_llm_call(tx, s, row, err);
    if (strcmp(kind, "session") == 0)
        return put_session(tx, s, row, err);
    if (strcmp(kind, "feedback") == 0)
        return put_feedback(tx, s, row, err);
    if (strcmp(kind, "error") == 0)
        return put_row(tx, &table_mon_errors, s, row, err);
    if (strcmp(kind, "tool_call") == 0)
        return put_row(tx, &table_mon_tool_calls, s, row, err);
    if (strcmp(kind, "embedding_call") == 0)
        return put_row(tx, &table_mon_embedding_calls, s, row, err);
    return err_set(err, ERR_INTERNAL, "unknown kind of monitoring record: %s", kind);
}

/* ---- after a crash ------------------------------------------------------------------------------------------------------------- */

enum { SETTLE_MAX = 20000 };

struct settle {
    const char *workspace;
    int64_t n;
};

/* The status that a turn's state in the ledger means; NULL: it is not over. */
static const char *status_of(const struct db_val *state)
{
    if (!state)
        return "error";
    if (str_eqz(state->s, "done"))
        return "success";
    if (str_eqz(state->s, "received") || str_eqz(state->s, "running"))
        return NULL;
    return str_eqz(state->s, "discarded") ? "discarded" : "error";
}

static bool settle_rows(struct db_tx *tx, struct settle *w, const struct db_rows *open,
                        const struct map *states, struct error *err)
{
    static struct db_sql update = {
        .text =
            "UPDATE monitoring_messages SET status = ?, level = ? WHERE workspace_uuid = ? AND id = ?"};
    for (size_t i = 0; i < open->n; i++) {
        struct str id = db_at(open, i, 0)->s;
        const char *status = status_of(map_get(states, id));
        if (!status)
            continue;
        struct db_val v[] = {DB_V_Z(status),
                             DB_V_Z(strcmp(status, "error") == 0 ? "error" : "info"),
                             DB_V_Z(w->workspace), DB_V_S(id)};
        if (!db_exec(tx, &update, v, array_len(v), NULL, err))
            return false;
        w->n++;
    }
    return true;
}

static bool do_settle(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql pending = {
        .text =
            "SELECT id FROM (SELECT id, status FROM monitoring_messages WHERE workspace_uuid = ? ORDER BY \"timestamp\" DESC LIMIT ?) AS "
            "newest WHERE status = 'pending'"};
    static struct db_sql turns = {
        .text =
            "SELECT turn_id, state FROM parley_messages WHERE workspace_uuid = ? AND turn_id IS NOT NULL ORDER BY seq DESC LIMIT ?"};
    struct settle *w = arg;
    struct db_val v[] = {DB_V_Z(w->workspace), DB_V_I(SETTLE_MAX)};
    struct db_rows open, known;
    w->n = 0;
    if (!db_query(tx, &pending, v, 2, &open, err) || open.n == 0)
        return err->code == ERR_NONE;
    if (!db_query(tx, &turns, v, 2, &known, err))
        return false;
    struct map states = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < known.n; i++)
        ok = map_put(&states, db_at(&known, i, 0)->s, (void *)(uintptr_t)db_at(&known, i, 1));
    ok = ok ? settle_rows(tx, w, &open, &states, err) : err_set(err, ERR_NOMEM, "out of memory");
    map_free(&states);
    return ok;
}

bool monitor_settle(const struct store *st, const struct scope *scope, int64_t *settled,
                    struct error *err)
{
    struct settle w = {.workspace = scope->workspace};
    *settled = 0;
    if (!db_left_open(st->db))
        return true;
    bool ok = db_write(st->db, scope_db(scope), do_settle, &w, err);
    *settled = w.n;
    return ok;
}
