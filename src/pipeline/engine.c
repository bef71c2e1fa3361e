/* The engine's life: limits, start with what the ledger holds, stop. pipeline.md §4, design.md §1.2. */
#include "pipeline/engine.h"

enum { LEDGER_PAGE = 200, REDELIVER_PAGE = 200 };

bool conf_bool(const json_t *config, const char *dotted, bool fallback)
{
    const json_t *v = json_at(config, dotted);
    return json_is_boolean(v) ? json_is_true(v) : fallback;
}

int64_t conf_int(const json_t *config, const char *dotted, int64_t fallback)
{
    const json_t *v = json_at(config, dotted);
    if (json_is_integer(v))
        return json_integer_value(v);
    if (!json_is_real(v))
        return fallback;
    double f = json_real_value(v);
    return f >= 9e15 ? (int64_t)9e15 : f <= -9e15 ? (int64_t)-9e15 : (int64_t)f;
}

int64_t conf_bounded(int64_t value, int64_t lo, int64_t hi)
{
    return value < lo ? lo : value > hi ? hi : value;
}

double conf_num(const json_t *config, const char *dotted, double fallback)
{
    const json_t *v = json_at(config, dotted);
    return json_is_number(v) ? json_number_value(v) : fallback;
}

const char *conf_str(const json_t *config, const char *dotted, const char *fallback)
{
    const json_t *v = json_at(config, dotted);
    return json_is_string(v) ? json_string_value(v) : fallback;
}

static int64_t limit_of(const struct config *c, const char *path, int64_t lo, int64_t hi)
{
    return config_int_in(c, path, lo, hi);
}

static void on_recovery(void *arg)
{
    struct engine *e = arg;
    records_go_on(e);
    schedule_go_on(e);
}

struct engine *engine_new(const struct engine_opts *o, struct error *err)
{
    struct engine *e = new (struct engine);
    if (!e) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    const struct config *c = o->config;
    *e = (struct engine){
        .store = o->store,
        .config = c,
        .fence = o->fence,
        .models = o->models,
        .tools = o->tools,
        .group = o->group,
        .max_running = limit_of(c, "concurrency.pipeline", 1, 100000),
        .max_per_session = limit_of(c, "concurrency.session", 1, 1000),
        .max_queries = limit_of(c, "concurrency.pending_queries", 1, 1000000),
        .max_queries_ws = limit_of(c, "concurrency.pending_queries_per_workspace", 1, 1000000),
        .max_sessions = limit_of(c, "system.session_retention.max_entries", 1, 1000000),
        .max_conversations =
            limit_of(c, "system.session_retention.max_conversations_per_session", 1, 1000),
        .max_messages =
            limit_of(c, "system.session_retention.max_messages_per_conversation", 1, 100000),
        .max_chars = limit_of(c, "system.response_limits.max_generated_chars", 1, INT64_MAX / 2),
        .max_chunks = limit_of(c, "system.response_limits.max_stream_chunks", 1, INT64_MAX / 2),
    };
    list_init(&e->session_lru);
    list_init(&e->ready);
    list_init(&e->active);
    list_init(&e->records);
    e->runs = task_group_new(o->group, "queries");
    if (!e->runs) {
        mem_free(e);
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    db_on_recovery(e->store->db, on_recovery, e);
    return e;
}

void engine_attach(struct engine *e, struct platform *p)
{
    e->platform = p;
}

/* ---- admission -------------------------------------------------------------------------------------------------------- */

struct tenant_count {
    size_t open;
    int64_t total;
};

/* Counters stay for the statistics; idle ones go when there are many. */
static void counters_shrink(struct engine *e)
{
    size_t pos = 0;
    struct str key;
    void *v;
    if ((int64_t)e->workspaces.n <= e->max_queries)
        return;
    while (map_next(&e->workspaces, &pos, &key, &v)) {
        struct tenant_count *t = v;
        if (t->open == 0) {
            map_del(&e->workspaces, key);
            mem_free(t);
        }
    }
}

bool admit(struct engine *e, const struct scope *s, struct error *err)
{
    struct tenant_count *t = map_get(&e->workspaces, str_c(s->workspace));
    size_t open_ws = t ? t->open : 0;
    if (e->stopping || (int64_t)e->queued >= e->max_queries ||
        (int64_t)open_ws >= e->max_queries_ws) {
        e->stats.refused++;
        return err_tag(err, ERR_UNAVAILABLE, 503, "overloaded",
                       "too many messages are waiting (%s); try again later",
                       e->stopping ? "the service is stopping"
                       : (int64_t)e->queued >= e->max_queries
                           ? "concurrency.pending_queries"
                           : "concurrency.pending_queries_per_workspace");
    }
    if (!t) {
        counters_shrink(e);
        t = new (struct tenant_count);
        if (!t || !map_put(&e->workspaces, str_c(s->workspace), t)) {
            mem_free(t);
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    t->total++;
    if (t->open++ == 0)
        e->open_workspaces++;
    e->queued++;
    return true;
}

void admit_end(struct engine *e, const struct scope *s)
{
    struct tenant_count *t = map_get(&e->workspaces, str_c(s->workspace));
    if (t && --t->open == 0)
        e->open_workspaces--;
    if (--e->queued == 0)
        task_cond_notify_all(&e->idle);
}

size_t admit_workspaces(const struct engine *e)
{
    return e->open_workspaces;
}

int64_t admit_total(const struct engine *e, const struct scope *s)
{
    const struct tenant_count *t = map_get(&e->workspaces, str_c(s->workspace));
    return t ? t->total : 0;
}

/* ---- start: what the ledger holds ------------------------------------------------------------------------------------- */

/* A ledger row back into a pending message. NULL: memory. */
static struct pending *pending_of_row(const struct scope *s, const json_t *row)
{
    struct error err = {0};
    auto_json payload = json_parse_words(json_s(row, "payload"), &err);
    if (!payload)
        return NULL;
    struct pending *p =
        pending_new(s, json_z_or(row, "bot_uuid", ""), json_z_or(row, "pipeline_uuid", ""),
                    json_z_or(row, "launcher_type", "person"), json_z_or(row, "launcher_id", ""),
                    json_z_or(row, "sender_id", ""), json_object_get(payload, "event"),
                    json_object_get(payload, "context"), json_z_or(row, "id", ""));
    if (p) {
        p->routed = json_b_or(row, "routed", false) || json_i_or(row, "routed", 0) != 0;
        p->no_stream = json_b_or(payload, "no_stream", false);
        if (json_z(row, "turn_id"))
            snprintf(p->turn, sizeof p->turn, "%s", json_z(row, "turn_id"));
    }
    return p;
}

static bool take_up_messages(struct engine *e, const struct scope *s, struct error *err)
{
    int64_t after = 0;
    size_t taken = 0;
    for (;;) {
        auto_json rows = ledger_open_messages(e->store, s, after, LEDGER_PAGE, err);
        if (!rows)
            return false;
        size_t i;
        json_t *row;
        json_array_foreach (rows, i, row) {
            after = json_i_or(row, "seq", after);
            struct pending *p = pending_of_row(s, row);
            if (!p) {
                log_error("engine", "a message of the ledger is unreadable id=%s",
                          json_z_or(row, "id", "?"));
                continue;
            }
            /* Accepted once: admitted whatever the limits say now. */
            struct error ignored = {0};
            int64_t was = e->max_queries, was_ws = e->max_queries_ws;
            e->max_queries = e->max_queries_ws = INT64_MAX;
            bool in = admit(e, s, &ignored);
            e->max_queries = was;
            e->max_queries_ws = was_ws;
            if (!in) {
                pending_free(p);
                return err_set(err, ERR_NOMEM, "out of memory");
            }
            struct pipe *pipe = pipe_get(e, s, p->pipeline, &ignored);
            aggregate_put(e, p, pipe);
            pipe_unref(pipe);
            taken++;
        }
        if (json_array_size(rows) < LEDGER_PAGE)
            break;
    }
    if (taken)
        log_info("engine", "took up unfinished messages workspace=%s messages=%zu", s->workspace,
                 taken);
    return true;
}

static void redeliver(struct engine *e, const struct scope *s, const json_t *row)
{
    struct error err = {0};
    const char *id = json_z_or(row, "id", "");
    struct bot *b = platform_bot(e->platform, s, json_z_or(row, "bot_uuid", ""));
    if (!b && strcmp(json_z_or(row, "bot_uuid", ""), "websocket-proxy-bot") == 0)
        b = platform_proxy_bot(e->platform, s, &err);
    if (!b) {
        turn_delivered(e, s, id, false, json_i_or(row, "attempts", 0), "the bot no longer exists");
        return;
    }
    const struct adapter *a = bot_adapter(b);
    void *instance = bot_instance(b);
    enum reply_result r = REPLY_FAILED;
    if (a->redeliver && instance)
        r = a->redeliver(instance, row, &err);
    else
        err_set(&err, ERR_UNAVAILABLE, "the bot cannot deliver it any more");
    if (r != REPLY_QUEUED)
        turn_delivered(e, s, id, r == REPLY_SENT, json_i_or(row, "attempts", 0) + 1,
                       r == REPLY_SENT ? NULL : err.msg);
}

static bool take_up_deliveries(struct engine *e, const struct scope *s, struct error *err)
{
    int64_t after = 0;
    for (;;) {
        auto_json rows = ledger_open_deliveries(e->store, s, after, REDELIVER_PAGE, err);
        if (!rows)
            return false;
        size_t i;
        json_t *row;
        json_array_foreach (rows, i, row) {
            after = json_i_or(row, "seq", after);
            redeliver(e, s, row);
        }
        if (json_array_size(rows) < REDELIVER_PAGE)
            return true;
    }
}

/* What a process that died had not yet written of its latest turns. */
static void settle_records(struct engine *e, const struct scope *s)
{
    struct error err = {0};
    int64_t n = 0;
    if (!monitor_settle(e->store, s, &n, &err))
        log_warn("engine", "records of unfinished turns were not settled workspace=%s: %s",
                 s->workspace, err.msg);
    else if (n)
        log_info("engine", "settled records of turns that ended unseen workspace=%s records=%lld",
                 s->workspace, (long long)n);
}

json_t *engine_running(struct engine *e, const struct scope *s, const char *bot)
{
    json_t *out = json_array();
    list_each(n, &e->active)
    {
        const struct pending *p = container_of(n, struct run, node)->pending;
        if (scope_eq(&p->scope, s) && strcmp(p->bot, bot) == 0)
            json_array_extend(out, p->ids);
    }
    return out;
}

bool engine_start(struct engine *e, struct error *err)
{
    size_t pos = 0;
    struct scope s;
    while (fence_next(e->fence, &pos, &s)) {
        settle_records(e, &s);
        if (!take_up_deliveries(e, &s, err) || !take_up_messages(e, &s, err))
            return false;
    }
    e->started = true;
    task_cond_notify_all(&e->start_cond);
    return true;
}

void engine_stop(struct engine *e, int64_t grace_ms)
{
    e->stopping = true;
    task_timer_stop(&e->retry);
    task_cond_notify_all(&e->start_cond);
    aggregate_flush_all(e);
    /* What waits stays in the ledger; what runs may finish. */
    struct task_deadline d;
    struct error err = {0};
    task_deadline_push(&d, grace_ms);
    while (e->running > 0 && task_cond_wait(&e->idle, &err))
        ;
    task_deadline_pop(&d);
    task_group_cancel(e->runs);
    err = (struct error){0};
    task_deadline_push(&d, 2000);
    if (!task_group_wait(e->runs, &err))
        log_warn("engine", "some queries did not end in time");
    task_deadline_pop(&d);
    err = (struct error){0};
    if (!record_flush(e, &err))
        log_warn("engine", "monitoring records were not written: %s", err.msg);
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    db_on_recovery(e->store->db, NULL, NULL);
    task_group_free(e->runs);
    struct error err;
    if (!record_flush(e, &err)) /* the last runs and their adapters have recorded too */
        log_warn("engine", "monitoring records were left: %s", err.msg);
    schedule_free(e);
    records_free(e);
    sessions_free(e);
    pipes_free(e);
    rates_free(e);
    webhooks_free(e);
    size_t pos = 0;
    void *v;
    struct str k;
    while (map_next(&e->workspaces, &pos, &k, &v))
        mem_free(v);
    map_free(&e->workspaces);
    mem_free(e);
}

void engine_stats_get(const struct engine *e, struct engine_stats *out)
{
    *out = e->stats;
    out->queued = e->queued;
    out->running = e->running;
    out->sessions = e->session_count;
    out->workspaces = admit_workspaces(e);
    out->aggregating = e->buffers.n;
    out->aggregation_scopes = e->buffers.n ? 1 : 0;
}

bool engine_flush(struct engine *e, struct error *err)
{
    /* Readers see what is stored while the rest waits for the database. */
    return record_flush(e, err) || db_fails(e->store->db);
}

json_t *engine_basic_stats(struct engine *e, const struct scope *s, struct error *err)
{
    int64_t sessions = 0, conversations = 0;
    if (!session_counts(e->store, s, &sessions, &conversations, err))
        return NULL;
    return json_pack("{s:I,s:I,s:I}", "active_session_count", (json_int_t)sessions,
                     "conversation_count", (json_int_t)conversations, "query_count",
                     (json_int_t)admit_total(e, s));
}

bool engine_bot_changed(struct engine *e, const struct scope *s, const char *bot, struct error *err)
{
    return sessions_renew(e, s, bot, NULL, err);
}
