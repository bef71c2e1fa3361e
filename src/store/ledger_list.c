/* The ledger as the panel shows it. */
#include "store/store.h"

enum { PREVIEW_CHARS = 80, RUNNING_MAX = 256 };

struct listing {
    const char *workspace, *bot, *state;
    const json_t *running;
    int64_t limit, offset;
    json_t *out;
};

static json_t *iso(const struct db_val *v)
{
    int64_t us;
    char text[TIME_ISO_SIZE];
    return v->type == DB_TEXT && time_parse(v->s, &us) ? json_string(time_iso(us, text))
                                                       : json_null();
}

static json_t *text(const struct db_val *v)
{
    return v->type == DB_TEXT ? json_strn(v->s) : json_null();
}

/* The beginning of what was said: the first words of the event's texts. */
static json_t *preview(struct arena *a, struct str payload)
{
    struct error err = {0};
    auto_json j = json_parse_words(payload, &err);
    const json_t *chain = json_at(j, "event.message_chain");
    auto_buf b = BUF(1 << 16);
    size_t i;
    json_t *c;
    json_array_foreach (chain, i, c) {
        struct str t = json_s(c, "text");
        if (t.n && b.n < PREVIEW_CHARS * 4)
            buf_str(&b, utf8_cut(t, PREVIEW_CHARS));
    }
    (void)a;
    return json_strn(utf8_cut(buf_view(&b), PREVIEW_CHARS));
}

/* Ids of running messages as values, so many that few texts of the statement differ: a power of two, filled up with what no id is. */
static size_t running_values(const json_t *running, struct db_val *v)
{
    size_t have = json_array_size(running), n = have ? 1 : 0;
    while (n < have && n < RUNNING_MAX)
        n *= 2;
    for (size_t i = 0; i < n; i++)
        v[i] = i < have ? DB_V_S(json_sv(json_array_get(running, i))) : DB_V_Z("");
    return n;
}

/* The state as it is shown, with n marks for running messages. */
static const char *shown_state(struct arena *a, size_t n)
{
    auto_buf marks = BUF(RUNNING_MAX * 3);
    for (size_t i = 0; i < n; i++)
        buf_z(&marks, i ? ", ?" : "?");
    const char *runs =
        n ? z_fmt(a, "WHEN m.state = 'received' AND m.id IN (%s) THEN 'running' ", buf_cstr(&marks))
          : "";
    return z_fmt(
        a,
        "CASE %sWHEN m.state = 'done' AND d.state = 'pending' THEN 'sending' WHEN m.state = 'done' THEN COALESCE(d.state, 'sent') "
        "ELSE m.state END",
        runs);
}

/* Puts n values behind those of v. */
static size_t add(struct db_val *v, size_t at, const struct db_val *more, size_t n)
{
    if (n)
        memcpy(v + at, more, n * sizeof(*v));
    return at + n;
}

static bool do_query(struct db_tx *tx, const struct listing *l, struct db_rows *rows,
                     struct db_rows *count, struct error *err)
{
    /* A message that was answered shows the state of its last reply. */
    static const char from[] =
        " FROM parley_messages m LEFT JOIN parley_deliveries d ON d.workspace_uuid = m.workspace_uuid AND d.message_id = m.id AND d.seq = (SELECT "
        "MAX(x.seq) FROM parley_deliveries x WHERE x.workspace_uuid = m.workspace_uuid AND x.message_id = m.id) WHERE m.workspace_uuid = ? AND "
        "m.bot_uuid = ?";
    struct arena *a = db_tx_arena(tx);
    struct db_val *ids = arena_alloc(a, RUNNING_MAX * sizeof(*ids)),
                  *v = arena_alloc(a, (2 * RUNNING_MAX + 5) * sizeof(*v));
    if (!ids || !v)
        return err_set(err, ERR_NOMEM, "out of memory");
    size_t runs = running_values(l->running, ids), n;
    const char *shown = shown_state(a, runs);
    const char *where = l->state ? z_fmt(a, " AND %s = ?", shown) : "";
    struct db_val bot[] = {DB_V_Z(l->workspace), DB_V_Z(l->bot)}, state = DB_V_Z(l->state),
                  page[] = {DB_V_I(l->limit), DB_V_I(l->offset)};

    n = add(v, 0, bot, 2);
    if (l->state)
        n = add(v, add(v, n, ids, runs), &state, 1);
    if (!db_query_text(tx, z_fmt(a, "SELECT COUNT(*)%s%s", from, where), v, n, count, err))
        return false;
    n = add(v, add(v, 0, ids, runs), bot, 2);
    if (l->state)
        n = add(v, add(v, n, ids, runs), &state, 1);
    n = add(v, n, page, 2);
    const char *sql = z_fmt(
        a,
        "SELECT m.id, m.launcher_type, m.launcher_id, %s, COALESCE(d.attempts, m.attempts), COALESCE(d.last_error, "
        "m.error), m.received_at, COALESCE(d.updated_at, m.updated_at), m.payload%s%s ORDER BY m.seq DESC LIMIT ? OFFSET ?",
        shown, from, where);
    return db_query_text(tx, sql, v, n, rows, err);
}

static bool do_list(struct db_tx *tx, void *arg, struct error *err)
{
    struct listing *l = arg;
    struct arena *a = db_tx_arena(tx);
    struct db_rows rows, count;
    if (!do_query(tx, l, &rows, &count, err))
        return false;
    json_t *list = json_array();
    for (size_t i = 0; i < rows.n; i++) {
        const struct db_val *r = db_at(&rows, i, 0);
        struct str session = str_fmt(a, STR_FMT "_" STR_FMT, STR_ARG(r[1].s), STR_ARG(r[2].s));
        json_array_append_new(list,
                              json_pack("{s:o,s:o,s:o,s:o,s:I,s:o,s:o,s:o,s:o}", "id", text(&r[0]),
                                        "message_id", text(&r[0]), "session_id", json_strn(session),
                                        "state", text(&r[3]), "attempts", (json_int_t)r[4].i,
                                        "last_error", text(&r[5]), "received_at", iso(&r[6]),
                                        "updated_at", iso(&r[7]), "preview", preview(a, r[8].s)));
    }
    l->out =
        json_pack("{s:o,s:I}", "deliveries", list, "total", (json_int_t)db_at(&count, 0, 0)->i);
    return l->out || err_set(err, ERR_NOMEM, "out of memory");
}

json_t *ledger_list(const struct store *st, const struct scope *scope, const char *bot,
                    const char *state, const json_t *running, int64_t limit, int64_t offset,
                    struct error *err)
{
    struct listing l = {.workspace = scope->workspace,
                        .bot = bot,
                        .state = state,
                        .running = running,
                        .limit = limit,
                        .offset = offset};
    return store_result(db_read(st->db, scope_db(scope), do_list, &l, err), &l.out);
}
