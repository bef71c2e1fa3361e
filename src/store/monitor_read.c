/* Reading monitoring records: lists, overview, tokens, details. http-api.md §16. */
#include "store/store.h"

enum { ARGS_MAX = 300, NAMES_MAX = 90 };

struct where {
    struct buf text;
    struct db_val args[ARGS_MAX];
    size_t n;
};

struct ask {
    const struct scope *scope;
    const struct monitor_filter *f;
    const struct table *table;
    const struct store *st;
    const char *id;
    int64_t rows;
    bool by_day;
    json_t *out;
};

static bool has_column(const struct table *t, const char *name)
{
    for (const struct column *c = t->columns; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return true;
    return false;
}

static void any_of(struct where *w, const char *column, const json_t *names)
{
    size_t n = json_array_size(names);
    if (n == 0)
        return;
    buf_fmt(&w->text, " AND %s IN (", column);
    for (size_t i = 0; i < n && i < NAMES_MAX; i++) {
        buf_z(&w->text, i ? ", ?" : "?");
        w->args[w->n++] = DB_V_S(json_sv(json_array_get(names, i)));
    }
    buf_z(&w->text, ")");
}

static void where_of(struct where *w, struct arena *a, const struct ask *q, const struct table *t)
{
    const struct monitor_filter *f = q->f;
    const char *time_column = t == &table_mon_sessions ? "last_activity" : "\"timestamp\"";
    w->text = BUF(64 << 10);
    buf_z(&w->text, " WHERE workspace_uuid = ?");
    w->args[w->n++] = DB_V_Z(q->scope->workspace);
    if (!f)
        return;
    if (has_column(t, "bot_id"))
        any_of(w, "bot_id", f->bots);
    if (has_column(t, "pipeline_id"))
        any_of(w, "pipeline_id", f->pipelines);
    if (has_column(t, "session_id"))
        any_of(w, "session_id", f->sessions);
    int64_t times[] = {f->from_us, f->to_us};
    for (int i = 0; i < 2; i++) {
        char *text = times[i] ? arena_alloc(a, TIME_ISO_SIZE) : NULL;
        if (!text)
            continue;
        buf_fmt(&w->text, " AND %s %s ?", time_column, i == 0 ? ">=" : "<=");
        w->args[w->n++] = DB_V_Z(time_sql(times[i], text));
    }
    if (t == &table_mon_sessions && f->active >= 0) {
        buf_z(&w->text, " AND is_active = ?");
        w->args[w->n++] = DB_V_B(f->active);
    }
    if (t == &table_mon_feedback && f->feedback_type) {
        buf_z(&w->text, " AND feedback_type = ?");
        w->args[w->n++] = DB_V_I(f->feedback_type);
    }
    if (t == &table_mon_embedding_calls && f->knowledge_base) {
        buf_z(&w->text, " AND knowledge_base_id = ?");
        w->args[w->n++] = DB_V_Z(f->knowledge_base);
    }
}

static bool query(struct db_tx *tx, struct where *w, const char *select, const char *from,
                  const char *rest, struct db_rows *out, struct error *err)
{
    auto_buf sql = BUF(128 << 10);
    buf_fmt(&sql, "SELECT %s FROM %s", select, from);
    buf_str(&sql, buf_view(&w->text));
    buf_z(&sql, rest);
    const char *text = str_z(db_tx_arena(tx), buf_view(&sql));
    return *text ? db_query_text(tx, text, w->args, w->n, out, err)
                 : err_set(err, ERR_NOMEM, "out of memory");
}

static int64_t int_at(const struct db_rows *r, size_t row, size_t col)
{
    const struct db_val *v = db_at(r, row, col);
    return v->type == DB_FLOAT ? (int64_t)v->f : v->i;
}

static double num_at(const struct db_rows *r, size_t row, size_t col)
{
    const struct db_val *v = db_at(r, row, col);
    double f = 0;
    if (v->type == DB_TEXT) /* numeric columns of PostgreSQL */
        str_to_f64(v->s, &f);
    return v->type == DB_FLOAT ? v->f : v->type == DB_INT ? (double)v->i : f;
}

/* ---- lists ------------------------------------------------------------------------------------------------------------------ */

static json_t *cell(const struct column *c, const struct db_val *v)
{
    int64_t us;
    char iso[TIME_ISO_SIZE];
    switch (v->type) {
    case DB_NULL: return json_null();
    case DB_INT: return c->type == COL_BOOL ? json_boolean(v->i) : json_integer(v->i);
    case DB_FLOAT: return json_real(v->f);
    default: break;
    }
    if (c->type == COL_TIME && time_parse(v->s, &us))
        return json_string(time_iso(us, iso));
    return json_strn(v->s);
}

static json_t *rows_json(const struct table *t, const struct db_rows *r)
{
    json_t *all = json_array();
    for (size_t i = 0; i < r->n; i++) {
        json_t *row = json_object();
        size_t k = 0;
        for (const struct column *c = t->columns; c->name; c++)
            json_set(row, c->name, cell(c, db_at(r, i, k++)));
        json_array_append_new(all, row);
    }
    return all;
}

static const char *columns_of(struct arena *a, const struct table *t)
{
    auto_buf b = BUF(8 << 10);
    for (const struct column *c = t->columns; c->name; c++)
        buf_fmt(&b, "%s\"%s\"", c == t->columns ? "" : ", ", c->name);
    return str_z(a, buf_view(&b));
}

static json_t *select_rows(struct db_tx *tx, const struct ask *q, const struct table *t,
                           const char *extra, struct db_val extra_arg, const char *order,
                           int64_t limit, int64_t offset, struct error *err)
{
    struct where w = {0};
    struct db_rows r;
    where_of(&w, db_tx_arena(tx), q, t);
    if (extra) {
        buf_z(&w.text, extra);
        w.args[w.n++] = extra_arg;
    }
    w.args[w.n++] = DB_V_I(limit);
    w.args[w.n++] = DB_V_I(offset);
    const char *rest = z_fmt(db_tx_arena(tx), " ORDER BY %s LIMIT ? OFFSET ?", order);
    bool ok = query(tx, &w, columns_of(db_tx_arena(tx), t), t->name, rest, &r, err);
    buf_free(&w.text);
    return ok ? rows_json(t, &r) : NULL;
}

static bool count_rows(struct db_tx *tx, const struct ask *q, const struct table *t, int64_t *n,
                       struct error *err)
{
    struct where w = {0};
    struct db_rows r;
    where_of(&w, db_tx_arena(tx), q, t);
    bool ok = query(tx, &w, "COUNT(*)", t->name, "", &r, err);
    buf_free(&w.text);
    if (ok)
        *n = int_at(&r, 0, 0);
    return ok;
}

static const char *newest(const struct table *t)
{
    return t == &table_mon_sessions ? "last_activity DESC, session_id" : "\"timestamp\" DESC, id";
}

static bool do_list(struct db_tx *tx, void *arg, struct error *err)
{
    struct ask *q = arg;
    int64_t total = 0;
    if (!count_rows(tx, q, q->table, &total, err))
        return false;
    json_t *rows = select_rows(tx, q, q->table, NULL, DB_V_NULL, newest(q->table), q->f->limit,
                               q->f->offset, err);
    if (!rows)
        return false;
    q->out = json_pack("{s:o,s:I}", "rows", rows, "total", (json_int_t)total);
    return q->out != NULL;
}

static json_t *read(const struct store *st, struct ask *q, db_fn *fn, struct error *err)
{
    return store_result(db_read(st->db, scope_db(q->scope), fn, q, err), &q->out);
}

json_t *monitor_list(const struct store *st, const struct scope *scope, const struct table *t,
                     const struct monitor_filter *f, struct error *err)
{
    struct ask q = {.scope = scope, .f = f, .table = t};
    return read(st, &q, do_list, err);
}

/* ---- overview and tokens ------------------------------------------------------------------------------------------------------- */

static bool do_overview(struct db_tx *tx, void *arg, struct error *err)
{
    struct ask *q = arg;
    struct arena *a = db_tx_arena(tx);
    struct where m = {0}, l = {0}, s = {0};
    struct db_rows rm, rl, rs;
    int64_t embeddings = 0;
    where_of(&m, a, q, &table_mon_messages);
    where_of(&l, a, q, &table_mon_llm_calls);
    where_of(&s, a, q, &table_mon_sessions);
    buf_z(&s.text, " AND is_active = ?");
    s.args[s.n++] = DB_V_B(true);
    bool ok =
        query(tx, &m, "COUNT(*), COALESCE(SUM(CASE WHEN status = 'success' THEN 1 ELSE 0 END), 0)",
              "monitoring_messages", "", &rm, err) &&
        query(tx, &l, "COUNT(*)", "monitoring_llm_calls", "", &rl, err) &&
        query(tx, &s, "COUNT(*)", "monitoring_sessions", "", &rs, err) &&
        count_rows(tx, q, &table_mon_embedding_calls, &embeddings, err);
    buf_free(&m.text);
    buf_free(&l.text);
    buf_free(&s.text);
    if (!ok)
        return false;
    int64_t total = int_at(&rm, 0, 0), good = int_at(&rm, 0, 1), calls = int_at(&rl, 0, 0);
    double rate =
        total ? (double)(int64_t)((double)good * 10000.0 / (double)total + 0.5) / 100.0 : 100.0;
    q->out = json_pack("{s:I,s:I,s:I,s:I,s:f,s:I}", "total_messages", (json_int_t)total,
                       "llm_calls", (json_int_t)calls, "embedding_calls", (json_int_t)embeddings,
                       "model_calls", (json_int_t)(calls + embeddings), "success_rate", rate,
                       "active_sessions", (json_int_t)int_at(&rs, 0, 0));
    return q->out != NULL;
}

json_t *monitor_overview(const struct store *st, const struct scope *scope,
                         const struct monitor_filter *f, struct error *err)
{
    struct ask q = {.scope = scope, .f = f};
    return read(st, &q, do_overview, err);
}

static double round_to(double v, double unit)
{
    return (double)(int64_t)(v / unit + (v < 0 ? -0.5 : 0.5)) * unit;
}

#define SUMS                                                                                                                \
    "COUNT(*), COALESCE(SUM(CASE WHEN status = 'success' THEN 1 ELSE 0 END), 0), COALESCE(SUM(input_tokens), 0), "          \
    "COALESCE(SUM(output_tokens), 0), COALESCE(SUM(total_tokens), 0), COALESCE(SUM(cost), 0), COALESCE(SUM(duration), 0), " \
    "COALESCE(SUM(CASE WHEN status = 'success' AND total_tokens = 0 THEN 1 ELSE 0 END), 0)"

static json_t *summary_json(const struct db_rows *r)
{
    int64_t calls = int_at(r, 0, 0), good = int_at(r, 0, 1), out = int_at(r, 0, 3),
            total = int_at(r, 0, 4), ms = int_at(r, 0, 6);
    return json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:I}", "total_calls", (json_int_t)calls,
        "success_calls", (json_int_t)good, "error_calls", (json_int_t)(calls - good),
        "total_input_tokens", (json_int_t)int_at(r, 0, 2), "total_output_tokens", (json_int_t)out,
        "total_tokens", (json_int_t)total, "total_cost", round_to(num_at(r, 0, 5), 1e-6),
        "avg_tokens_per_call", calls ? round_to((double)total / (double)calls, 0.01) : 0.0,
        "avg_duration_ms", calls ? round_to((double)ms / (double)calls, 0.01) : 0.0,
        "avg_tokens_per_second", ms > 0 ? round_to((double)out * 1000.0 / (double)ms, 0.01) : 0.0,
        "zero_token_success_calls", (json_int_t)int_at(r, 0, 7));
}

static bool do_tokens(struct db_tx *tx, void *arg, struct error *err)
{
    struct ask *q = arg;
    struct arena *a = db_tx_arena(tx);
    struct where s = {0}, m = {0}, t = {0};
    struct db_rows rs, rm, rt;
    where_of(&s, a, q, &table_mon_llm_calls);
    where_of(&m, a, q, &table_mon_llm_calls);
    where_of(&t, a, q, &table_mon_llm_calls);
    m.args[m.n++] = DB_V_I(q->rows + 1);
    t.args[t.n++] = DB_V_I(q->rows + 1);
    const char *bucket =
        db_tx_kind(tx) == DB_SQLITE
            ? (q->by_day ? "substr(\"timestamp\", 1, 10) || 'T00:00:00'"
                         : "replace(substr(\"timestamp\", 1, 13), ' ', 'T') || ':00:00'")
            : (q->by_day ? "to_char(\"timestamp\", 'YYYY-MM-DD') || 'T00:00:00'"
                         : "to_char(\"timestamp\", 'YYYY-MM-DD\"T\"HH24') || ':00:00'");
    const char *select = z_fmt(
        a,
        "%s AS bucket, COALESCE(SUM(input_tokens), 0), COALESCE(SUM(output_tokens), 0), COALESCE(SUM(total_tokens), 0), COUNT(*)",
        bucket);
    bool ok = query(tx, &s, SUMS, "monitoring_llm_calls", "", &rs, err) &&
              query(tx, &m, "model_name, " SUMS, "monitoring_llm_calls",
                    " GROUP BY model_name ORDER BY 6 DESC, model_name LIMIT ?", &rm, err) &&
              query(tx, &t, select, "monitoring_llm_calls", " GROUP BY 1 ORDER BY 1 DESC LIMIT ?",
                    &rt, err);
    buf_free(&s.text);
    buf_free(&m.text);
    buf_free(&t.text);
    if (!ok)
        return false;
    json_t *models = json_array(), *series = json_array();
    for (size_t i = 0; i < rm.n && (int64_t)i < q->rows; i++) {
        int64_t calls = int_at(&rm, i, 1);
        json_array_append_new(
            models,
            json_pack("{s:o,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:f}", "model_name",
                      json_strn(db_at(&rm, i, 0)->s), "calls", (json_int_t)calls, "error_calls",
                      (json_int_t)(calls - int_at(&rm, i, 2)), "input_tokens",
                      (json_int_t)int_at(&rm, i, 3), "output_tokens", (json_int_t)int_at(&rm, i, 4),
                      "total_tokens", (json_int_t)int_at(&rm, i, 5), "cost",
                      round_to(num_at(&rm, i, 6), 1e-6), "avg_tokens_per_call",
                      calls ? round_to((double)int_at(&rm, i, 5) / (double)calls, 0.01) : 0.0,
                      "avg_duration_ms",
                      calls ? round_to((double)int_at(&rm, i, 7) / (double)calls, 0.01) : 0.0));
    }
    /* The newest buckets, oldest first. */
    size_t n = rt.n;
    if ((int64_t)n > q->rows)
        n = (size_t)q->rows;
    for (size_t i = n; i > 0; i--)
        json_array_append_new(series, json_pack("{s:o,s:I,s:I,s:I,s:I}", "bucket",
                                                json_strn(db_at(&rt, i - 1, 0)->s), "input_tokens",
                                                (json_int_t)int_at(&rt, i - 1, 1), "output_tokens",
                                                (json_int_t)int_at(&rt, i - 1, 2), "total_tokens",
                                                (json_int_t)int_at(&rt, i - 1, 3), "calls",
                                                (json_int_t)int_at(&rt, i - 1, 4)));
    q->out = json_pack("{s:o,s:o,s:b,s:o,s:b,s:s}", "summary", summary_json(&rs), "by_model",
                       models, "by_model_truncated", (int)((int64_t)rm.n > q->rows), "timeseries",
                       series, "timeseries_truncated", (int)((int64_t)rt.n > q->rows), "bucket",
                       q->by_day ? "day" : "hour");
    return q->out != NULL;
}

json_t *monitor_tokens(const struct store *st, const struct scope *scope,
                       const struct monitor_filter *f, bool by_day, int64_t buckets,
                       struct error *err)
{
    struct ask q = {.scope = scope, .f = f, .by_day = by_day, .rows = buckets};
    return read(st, &q, do_tokens, err);
}

/* ---- one session, one message ------------------------------------------------------------------------------------------------------ */

/* Rows of a table for one session or message; *cut tells that there are more. */
static json_t *detail(struct db_tx *tx, const struct ask *q, const struct table *t,
                      const char *column, bool *cut, struct error *err)
{
    const char *extra = z_fmt(db_tx_arena(tx), " AND %s = ?", column);
    json_t *rows =
        select_rows(tx, q, t, extra, DB_V_Z(q->id), "\"timestamp\", id", q->rows + 1, 0, err);
    *cut = (int64_t)json_array_size(rows) > q->rows;
    if (*cut)
        json_array_remove(rows, (size_t)q->rows);
    return rows;
}

static bool sums(struct db_tx *tx, const struct ask *q, const char *select, const char *from,
                 const char *column, struct db_rows *r, struct error *err)
{
    struct where w = {0};
    where_of(&w, db_tx_arena(tx), q, &table_mon_messages);
    buf_fmt(&w.text, " AND %s = ?", column);
    w.args[w.n++] = DB_V_Z(q->id);
    bool ok = query(tx, &w, select, from, "", r, err);
    buf_free(&w.text);
    return ok;
}

static json_t *llm_stats(const struct db_rows *r)
{
    int64_t calls = int_at(r, 0, 0), good = int_at(r, 0, 1), ms = int_at(r, 0, 6);
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f}", "total_calls", (json_int_t)calls,
                     "success_calls", (json_int_t)good, "error_calls", (json_int_t)(calls - good),
                     "total_input_tokens", (json_int_t)int_at(r, 0, 2), "total_output_tokens",
                     (json_int_t)int_at(r, 0, 3), "total_tokens", (json_int_t)int_at(r, 0, 4),
                     "total_duration_ms", (json_int_t)ms, "average_duration_ms",
                     calls ? round_to((double)ms / (double)calls, 0.01) : 0.0);
}

#define STATES                                                                                                                                 \
    "COUNT(*), COALESCE(SUM(CASE WHEN status = 'success' THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN status = 'error' THEN 1 ELSE 0 END), " \
    "0), COALESCE(SUM(CASE WHEN status = 'pending' THEN 1 ELSE 0 END), 0)"

static bool do_session(struct db_tx *tx, void *arg, struct error *err)
{
    struct ask *q = arg;
    json_t *sessions = select_rows(tx, q, &table_mon_sessions, " AND session_id = ?", DB_V_Z(q->id),
                                   "last_activity DESC", 1, 0, err);
    if (!sessions)
        return false;
    if (json_array_size(sessions) == 0) {
        json_decref(sessions);
        q->out = json_pack("{s:s,s:b}", "session_id", q->id, "found", 0);
        return true;
    }
    auto_json hold = sessions;
    struct db_rows m, l, t;
    bool cut_tools = false, cut_errors = false;
    if (!sums(tx, q, STATES, "monitoring_messages", "session_id", &m, err) ||
        !sums(tx, q, SUMS, "monitoring_llm_calls", "session_id", &l, err) ||
        !sums(tx, q, STATES ", COALESCE(SUM(duration), 0)", "monitoring_tool_calls", "session_id",
              &t, err))
        return false;
    json_t *tools = detail(tx, q, &table_mon_tool_calls, "session_id", &cut_tools, err);
    json_t *errors =
        tools ? detail(tx, q, &table_mon_errors, "session_id", &cut_errors, err) : NULL;
    if (!errors) {
        json_decref(tools);
        return false;
    }
    json_t *session = json_array_get(hold, 0);
    int64_t from = 0, to = 0, calls = int_at(&t, 0, 0), ms = int_at(&t, 0, 4);
    time_parse(json_s(session, "start_time"), &from);
    time_parse(json_s(session, "last_activity"), &to);
    q->out = json_pack(
        "{s:s,s:b,s:O,s:{s:I,s:I,s:I,s:I},s:o,s:o,s:{s:I,s:I,s:I,s:I,s:f},s:o,s:{s:b,s:b},s:I}",
        "session_id", q->id, "found", 1, "session", session, "message_stats", "total",
        (json_int_t)int_at(&m, 0, 0), "success", (json_int_t)int_at(&m, 0, 1), "error",
        (json_int_t)int_at(&m, 0, 2), "pending", (json_int_t)int_at(&m, 0, 3), "llm_stats",
        llm_stats(&l), "tool_calls", tools, "tool_stats", "total_calls", (json_int_t)calls,
        "success_calls", (json_int_t)int_at(&t, 0, 1), "error_calls", (json_int_t)int_at(&t, 0, 2),
        "total_duration_ms", (json_int_t)ms, "average_duration_ms",
        calls ? round_to((double)ms / (double)calls, 0.01) : 0.0, "errors", errors,
        "detail_truncated", "tool_calls", (int)cut_tools, "errors", (int)cut_errors,
        "session_duration_seconds", (json_int_t)((to - from) / 1000000));
    return q->out != NULL;
}

json_t *monitor_session_analysis(const struct store *st, const struct scope *scope,
                                 const char *session, int64_t rows, struct error *err)
{
    struct ask q = {.scope = scope, .id = session, .rows = rows};
    return read(st, &q, do_session, err);
}

static bool do_message(struct db_tx *tx, void *arg, struct error *err)
{
    struct ask *q = arg;
    auto_json found =
        select_rows(tx, q, &table_mon_messages, " AND id = ?", DB_V_Z(q->id), "id", 1, 0, err);
    if (!found)
        return false;
    if (json_array_size(found) == 0)
        return err_set(err, ERR_NOT_FOUND, "Message %s not found", q->id);
    struct db_rows l;
    bool cut_calls = false, cut_errors = false;
    if (!sums(tx, q, SUMS, "monitoring_llm_calls", "message_id", &l, err))
        return false;
    json_t *calls = detail(tx, q, &table_mon_llm_calls, "message_id", &cut_calls, err);
    json_t *errors =
        calls ? detail(tx, q, &table_mon_errors, "message_id", &cut_errors, err) : NULL;
    if (!errors) {
        json_decref(calls);
        return false;
    }
    q->out = json_pack("{s:s,s:b,s:O,s:o,s:o,s:o,s:{s:b,s:b}}", "message_id", q->id, "found", 1,
                       "message", json_array_get(found, 0), "llm_calls", calls, "llm_stats",
                       llm_stats(&l), "errors", errors, "detail_truncated", "llm_calls",
                       (int)cut_calls, "errors", (int)cut_errors);
    return q->out != NULL;
}

json_t *monitor_message_details(const struct store *st, const struct scope *scope, const char *id,
                                int64_t rows, struct error *err)
{
    struct ask q = {.scope = scope, .id = id, .rows = rows};
    return read(st, &q, do_message, err);
}

/* ---- feedback, counts, retention ------------------------------------------------------------------------------------------------------ */

#define LIKES \
    "COUNT(*), COALESCE(SUM(CASE WHEN feedback_type = 1 THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN feedback_type = 2 THEN 1 ELSE 0 END), 0)"

static bool do_feedback(struct db_tx *tx, void *arg, struct error *err)
{
    struct ask *q = arg;
    struct where w = {0}, b = {0};
    struct db_rows all, by;
    where_of(&w, db_tx_arena(tx), q, &table_mon_feedback);
    where_of(&b, db_tx_arena(tx), q, &table_mon_feedback);
    bool ok =
        query(tx, &w, LIKES, "monitoring_feedback", "", &all, err) &&
        query(tx, &b, "COALESCE(bot_id, ''), COALESCE(bot_name, ''), " LIKES, "monitoring_feedback",
              " GROUP BY 1, 2 ORDER BY 3 DESC, 1 LIMIT 1000", &by, err);
    buf_free(&w.text);
    buf_free(&b.text);
    if (!ok)
        return false;
    json_t *bots = json_array();
    for (size_t i = 0; i < by.n; i++)
        json_array_append_new(
            bots, json_pack("{s:o,s:o,s:I,s:I,s:I}", "bot_id", json_strn(db_at(&by, i, 0)->s),
                            "bot_name", json_strn(db_at(&by, i, 1)->s), "total",
                            (json_int_t)int_at(&by, i, 2), "likes", (json_int_t)int_at(&by, i, 3),
                            "dislikes", (json_int_t)int_at(&by, i, 4)));
    int64_t total = int_at(&all, 0, 0), likes = int_at(&all, 0, 1);
    q->out = json_pack(
        "{s:I,s:I,s:I,s:f,s:o}", "total_feedback", (json_int_t)total, "total_likes",
        (json_int_t)likes, "total_dislikes", (json_int_t)int_at(&all, 0, 2), "satisfaction_rate",
        total ? round_to((double)likes * 100.0 / (double)total, 0.01) : 0.0, "by_bot", bots);
    return q->out != NULL;
}

json_t *monitor_feedback_stats(const struct store *st, const struct scope *scope,
                               const struct monitor_filter *f, struct error *err)
{
    struct ask q = {.scope = scope, .f = f};
    return read(st, &q, do_feedback, err);
}

static const struct {
    const char *name;
    const struct table *table;
} counted[] = {
    {"messages", &table_mon_messages},     {"llm_calls", &table_mon_llm_calls},
    {"tool_calls", &table_mon_tool_calls}, {"embedding_calls", &table_mon_embedding_calls},
    {"errors", &table_mon_errors},         {"sessions", &table_mon_sessions},
    {"feedback", &table_mon_feedback}};

static bool do_counts(struct db_tx *tx, void *arg, struct error *err)
{
    struct ask *q = arg;
    q->out = json_object();
    for (size_t i = 0; i < array_len(counted); i++) {
        int64_t n = 0;
        if (!count_rows(tx, q, counted[i].table, &n, err)) {
            json_decref(steal(q->out));
            return false;
        }
        json_set(q->out, counted[i].name, json_integer(n));
    }
    return true;
}

json_t *monitor_counts(const struct store *st, const struct scope *scope, struct error *err)
{
    struct ask q = {.scope = scope};
    return read(st, &q, do_counts, err);
}

struct prune {
    const struct scope *scope;
    const struct table *table;
    int64_t older_us, batch, deleted;
};

static bool do_prune(struct db_tx *tx, void *arg, struct error *err)
{
    struct prune *p = arg;
    bool sessions = p->table == &table_mon_sessions;
    const char *key = sessions ? "session_id" : "id",
               *time_column = sessions ? "last_activity" : "\"timestamp\"";
    const char *sql = z_fmt(
        db_tx_arena(tx),
        "DELETE FROM %s WHERE workspace_uuid = ? AND %s < ? AND %s IN (SELECT %s FROM %s WHERE workspace_uuid = ? AND %s < ? LIMIT ?)",
        p->table->name, time_column, key, key, p->table->name, time_column);
    char limit[TIME_ISO_SIZE];
    struct db_val ws = DB_V_Z(p->scope->workspace), t = DB_V_Z(time_sql(p->older_us, limit));
    struct db_val v[] = {ws, t, ws, t, DB_V_I(p->batch)};
    return db_exec_text(tx, sql, v, array_len(v), &p->deleted, err);
}

bool monitor_prune(const struct store *st, const struct scope *scope, int64_t older_us,
                   int64_t batch, int64_t max_batches, int64_t *deleted, struct error *err)
{
    *deleted = 0;
    for (size_t i = 0; i < array_len(counted); i++) {
        for (int64_t k = 0; k < max_batches; k++) {
            struct prune p = {
                .scope = scope, .table = counted[i].table, .older_us = older_us, .batch = batch};
            if (!db_write(st->db, scope_db(scope), do_prune, &p, err))
                return false;
            *deleted += p.deleted;
            if (p.deleted < batch)
                break;
        }
    }
    return true;
}
