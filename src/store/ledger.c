/* The ledger of accepted messages and of replies on their way. design.md §1.2, §3; the hot path: hand-written SQL. */
#include "store/store.h"

enum { DEDUPE_KEEP_US = 600 * 1000000 };

static const char *now_sql(char *out)
{
    return time_sql(time_wall_us(), out);
}

/* ---- acceptance ------------------------------------------------------------------------------------------------------- */

struct accept {
    const struct scope *scope;
    const struct inbound *m;
    bool duplicate;
};

static bool do_accept(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql forget = {
        .text =
            "UPDATE parley_messages SET dedupe_key = NULL WHERE workspace_uuid = ? AND bot_uuid = ? AND "
            "dedupe_key = ? AND received_at < ?"};
    static struct db_sql insert = {
        .text =
            "INSERT INTO parley_messages (id, workspace_uuid, bot_uuid, pipeline_uuid, dedupe_key, state, launcher_type, launcher_id, "
            "sender_id, routed, payload, turn_id, attempts, received_at, updated_at) VALUES (?, ?, ?, ?, ?, 'received', ?, ?, ?, ?, ?, ?, 0, ?, ?) "
            "ON CONFLICT DO NOTHING"};
    struct accept *a = arg;
    const struct inbound *m = a->m;
    char now[TIME_ISO_SIZE], limit[TIME_ISO_SIZE];
    struct db_val ws = DB_V_Z(a->scope->workspace);
    if (m->dedupe_key) {
        struct db_val old[] = {ws, DB_V_Z(m->bot), DB_V_Z(m->dedupe_key),
                               DB_V_Z(time_sql(time_wall_us() - DEDUPE_KEEP_US, limit))};
        if (!db_exec(tx, &forget, old, array_len(old), NULL, err))
            return false;
    }
    struct db_val when = DB_V_Z(now_sql(now));
    struct db_val v[] = {DB_V_Z(m->id),
                         ws,
                         DB_V_Z(m->bot),
                         DB_V_Z(m->pipeline),
                         db_val_z(m->dedupe_key),
                         DB_V_Z(m->launcher_type),
                         DB_V_Z(m->launcher_id),
                         DB_V_Z(m->sender_id),
                         DB_V_B(m->routed),
                         DB_V_S(m->payload),
                         db_val_z(m->turn),
                         when,
                         when};
    int64_t n = 0;
    if (!db_exec(tx, &insert, v, array_len(v), &n, err))
        return false;
    a->duplicate = n == 0;
    db_touch(tx, GROUP_LEDGER);
    return true;
}

bool ledger_accept(const struct store *st, const struct scope *scope, const struct inbound *m,
                   struct error *err)
{
    struct accept a = {.scope = scope, .m = m};
    if (!db_write_twice(st->db, scope_db(scope), do_accept, &a, err))
        return false;
    return !a.duplicate ||
           err_tag(err, ERR_CONFLICT, 409, "duplicate", "this message was accepted before");
}

bool ledger_state(struct db_tx *tx, const struct scope *scope, const json_t *ids, const char *state,
                  const char *error, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "UPDATE parley_messages SET state = ?, error = ?, updated_at = ? WHERE workspace_uuid = ? AND id = ?"};
    char now[TIME_ISO_SIZE];
    now_sql(now);
    size_t i;
    json_t *id;
    json_array_foreach (ids, i, id) {
        struct db_val v[] = {DB_V_Z(state), db_val_z(error), DB_V_Z(now), DB_V_Z(scope->workspace),
                             DB_V_S(json_sv(id))};
        if (!db_exec(tx, &sql, v, array_len(v), NULL, err))
            return false;
    }
    return true;
}

/* ---- replies ------------------------------------------------------------------------------------------------------------ */

bool ledger_reply(struct db_tx *tx, const struct scope *scope, const struct delivery *d,
                  struct error *err)
{
    static struct db_sql sql = {
        .text =
            "INSERT INTO parley_deliveries (id, workspace_uuid, bot_uuid, message_id, session_key, number, is_final, payload, state, "
            "attempts, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'pending', 0, ?, ?)"};
    char now[TIME_ISO_SIZE];
    struct db_val when = DB_V_Z(now_sql(now));
    struct db_val v[] = {DB_V_Z(d->id),
                         DB_V_Z(scope->workspace),
                         DB_V_Z(d->bot),
                         DB_V_Z(d->message_id),
                         DB_V_Z(d->session_key),
                         DB_V_I(d->number),
                         DB_V_B(d->is_final),
                         DB_V_S(d->payload),
                         when,
                         when};
    db_touch(tx, GROUP_LEDGER);
    return db_exec(tx, &sql, v, array_len(v), NULL, err);
}

bool ledger_has_reply(struct db_tx *tx, const struct scope *scope, const char *id, bool *has,
                      struct error *err)
{
    static struct db_sql sql = {
        .text = "SELECT 1 FROM parley_deliveries WHERE workspace_uuid = ? AND id = ?"};
    struct db_val v[] = {DB_V_Z(scope->workspace), DB_V_Z(id)};
    struct db_rows rows;
    if (!db_query(tx, &sql, v, array_len(v), &rows, err))
        return false;
    *has = rows.n > 0;
    return true;
}

struct outcome {
    struct scope scope;
    char id[64], state[16];
    int64_t attempts;
    char *error;
};

static bool do_outcome(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "UPDATE parley_deliveries SET state = ?, attempts = ?, last_error = ?, updated_at = ? WHERE "
            "workspace_uuid = ? AND id = ?"};
    struct outcome *o = arg;
    char now[TIME_ISO_SIZE];
    struct db_val v[] = {DB_V_Z(o->state),     DB_V_I(o->attempts),        db_val_z(o->error),
                         DB_V_Z(now_sql(now)), DB_V_Z(o->scope.workspace), DB_V_Z(o->id)};
    return db_exec(tx, &sql, v, array_len(v), NULL, err);
}

static void outcome_free(void *arg)
{
    struct outcome *o = arg;
    mem_free(o->error);
    mem_free(o);
}

bool ledger_delivered(const struct store *st, const struct scope *scope, const char *id,
                      const char *state, int64_t attempts, const char *last_error,
                      struct error *err)
{
    struct outcome *o = new (struct outcome);
    if (!o)
        return err_set(err, ERR_NOMEM, "out of memory");
    o->scope = *scope;
    snprintf(o->id, sizeof o->id, "%s", id);
    snprintf(o->state, sizeof o->state, "%s", state);
    o->attempts = attempts;
    o->error = last_error ? mem_strndup(last_error, strlen(last_error)) : NULL;
    return db_write_owed(st->db, scope_db(&o->scope), do_outcome, o, outcome_free,
                         "the outcome of a delivery", err);
}

/* ---- reading ------------------------------------------------------------------------------------------------------------ */

struct read {
    struct db_sql *sql;
    struct db_val v[6];
    size_t n;
    json_t *rows;
};

static json_t *value_json(const struct db_val *v)
{
    switch (v->type) {
    case DB_INT: return json_integer(v->i);
    case DB_FLOAT: return json_real(v->f);
    case DB_TEXT: return json_strn(v->s);
    default: return json_null();
    }
}

static bool do_rows(struct db_tx *tx, void *arg, struct error *err)
{
    struct read *r = arg;
    struct db_rows rows;
    if (!db_query(tx, r->sql, r->v, r->n, &rows, err))
        return false;
    r->rows = json_array();
    for (size_t i = 0; i < rows.n; i++) {
        json_t *row = json_object();
        for (size_t c = 0; c < rows.cols; c++)
            json_set(row, rows.names[c], value_json(db_at(&rows, i, c)));
        json_array_append_new(r->rows, row);
    }
    return r->rows || err_set(err, ERR_NOMEM, "out of memory");
}

json_t *ledger_open_messages(const struct store *st, const struct scope *scope, int64_t after,
                             int64_t limit, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "SELECT seq, id, bot_uuid, pipeline_uuid, launcher_type, launcher_id, sender_id, routed, payload, attempts, turn_id FROM "
            "parley_messages WHERE workspace_uuid = ? AND state IN ('received', 'running') AND seq > ? ORDER BY seq LIMIT ?"};
    struct read r = {
        .sql = &sql, .v = {DB_V_Z(scope->workspace), DB_V_I(after), DB_V_I(limit)}, .n = 3};
    return store_result(db_read(st->db, scope_db(scope), do_rows, &r, err), &r.rows);
}

json_t *ledger_open_deliveries(const struct store *st, const struct scope *scope, int64_t after,
                               int64_t limit, struct error *err)
{
    static struct db_sql sql = {
        .text =
            "SELECT seq, id, bot_uuid, message_id, session_key, number, is_final, payload, state, attempts FROM parley_deliveries WHERE "
            "workspace_uuid = ? AND state IN ('pending', 'sending') AND seq > ? ORDER BY seq LIMIT ?"};
    struct read r = {
        .sql = &sql, .v = {DB_V_Z(scope->workspace), DB_V_I(after), DB_V_I(limit)}, .n = 3};
    return store_result(db_read(st->db, scope_db(scope), do_rows, &r, err), &r.rows);
}

struct health {
    const char *workspace, *bot;
    json_t *out;
};

static bool do_health(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql in = {
        .text =
            "SELECT COUNT(*), MAX(received_at), COALESCE(SUM(CASE WHEN state IN ('received', 'running') THEN 1 ELSE 0 "
            "END), 0), COALESCE(SUM(CASE WHEN state = 'failed' THEN 1 ELSE 0 END), 0) FROM parley_messages WHERE "
            "workspace_uuid = ? AND bot_uuid = ?"};
    static struct db_sql out = {
        .text =
            "SELECT COALESCE(SUM(CASE WHEN state = 'sent' THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN state = "
            "'failed' THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN state IN ('pending', 'sending') THEN 1 ELSE 0 "
            "END), 0) FROM parley_deliveries WHERE workspace_uuid = ? AND bot_uuid = ?"};
    struct health *h = arg;
    struct db_val v[] = {DB_V_Z(h->workspace), DB_V_Z(h->bot)};
    struct db_rows a, b;
    if (!db_query(tx, &in, v, 2, &a, err) || !db_query(tx, &out, v, 2, &b, err))
        return false;
    const struct db_val *last = db_at(&a, 0, 1);
    char iso[TIME_ISO_SIZE];
    int64_t us;
    json_t *when = last->type == DB_TEXT && time_parse(last->s, &us)
                       ? json_string(time_iso(us, iso))
                       : json_null();
    h->out =
        json_pack("{s:I,s:I,s:I,s:I,s:o}", "received", (json_int_t)db_at(&a, 0, 0)->i, "delivered",
                  (json_int_t)db_at(&b, 0, 0)->i, "failed",
                  (json_int_t)(db_at(&a, 0, 3)->i + db_at(&b, 0, 1)->i), "pending",
                  (json_int_t)(db_at(&a, 0, 2)->i + db_at(&b, 0, 2)->i), "last_message_at", when);
    return h->out || err_set(err, ERR_NOMEM, "out of memory");
}

json_t *ledger_health(const struct store *st, const struct scope *scope, const char *bot,
                      struct error *err)
{
    struct health h = {.workspace = scope->workspace, .bot = bot};
    return store_result(db_read(st->db, scope_db(scope), do_health, &h, err), &h.out);
}

/* ---- retention -------------------------------------------------------------------------------------------------------------- */

struct prune {
    const char *workspace;
    int64_t keep_us, limit, deleted;
};

static bool do_prune(struct db_tx *tx, void *arg, struct error *err)
{
    /* Only the oldest rows are looked at: they are the ones to go, and a look at all would hold up the writer. */
    static struct db_sql messages = {
        .text =
            "DELETE FROM parley_messages WHERE workspace_uuid = ? AND seq IN (SELECT seq FROM (SELECT seq, state, updated_at FROM "
            "parley_messages WHERE workspace_uuid = ? ORDER BY seq LIMIT ?) AS oldest WHERE state NOT IN ('received', 'running') AND "
            "updated_at < ? LIMIT ?)"};
    static struct db_sql deliveries = {
        .text =
            "DELETE FROM parley_deliveries WHERE workspace_uuid = ? AND seq IN (SELECT seq FROM (SELECT seq, state, updated_at FROM "
            "parley_deliveries WHERE workspace_uuid = ? ORDER BY seq LIMIT ?) AS oldest WHERE state IN ('sent', 'failed') AND "
            "updated_at < ? LIMIT ?)"};
    struct prune *p = arg;
    char limit[TIME_ISO_SIZE];
    time_sql(time_wall_us() - p->keep_us, limit);
    struct db_val v[] = {DB_V_Z(p->workspace), DB_V_Z(p->workspace), DB_V_I(p->limit * 4),
                         DB_V_Z(limit), DB_V_I(p->limit)};
    int64_t a = 0, b = 0;
    if (!db_exec(tx, &messages, v, 5, &a, err) || !db_exec(tx, &deliveries, v, 5, &b, err))
        return false;
    p->deleted = a + b;
    return true;
}

bool ledger_prune(const struct store *st, const struct scope *scope, int64_t keep_s, int64_t limit,
                  int64_t *deleted, struct error *err)
{
    /* Never below the time in which a repeated message must be known (field report A15). */
    struct prune p = {.workspace = scope->workspace, .keep_us = keep_s * 1000000, .limit = limit};
    if (p.keep_us < DEDUPE_KEEP_US)
        p.keep_us = DEDUPE_KEEP_US;
    if (!db_write(st->db, scope_db(scope), do_prune, &p, err))
        return false;
    *deleted = p.deleted;
    return true;
}
