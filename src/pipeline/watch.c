/* Monitoring of runs: which record is written when. pipeline.md §11. Failures never reach the run. */
#include "pipeline/engine.h"

static const char *user_name(const struct chat_event *ev)
{
    return ev->sender_name ? ev->sender_name : "";
}

static const char *bot_of(const struct query *q)
{
    return *q->bot_uuid ? q->bot_uuid : "unknown";
}

/* What a record of a message differs in. */
struct said {
    const char *id;
    struct str text;
    const char *status, *level, *role;
    bool no_runner;
};

static void put_message(struct engine *e, const struct scope *s, struct query *q,
                        const struct said *said, struct record **held)
{
    char now[TIME_ISO_SIZE];
    const char *runner =
        said->no_runner ? NULL : conf_str(q->config, "ai.runner.runner", "local-agent");
    struct db_val v[MON_COLUMNS_MAX] = {DB_V_Z(said->id),
                                        DB_V_Z(s->workspace),
                                        DB_V_Z(time_sql(time_wall_us(), now)),
                                        DB_V_Z(bot_of(q)),
                                        DB_V_Z(q->bot_name),
                                        DB_V_Z(q->pipeline_uuid),
                                        DB_V_Z(q->pipeline_name),
                                        DB_V_S(said->text),
                                        DB_V_Z(query_session_name(q)),
                                        DB_V_Z(said->status),
                                        DB_V_Z(said->level),
                                        DB_V_Z(launcher_name(q->event.launcher)),
                                        DB_V_Z(q->event.sender_id),
                                        DB_V_Z(user_name(&q->event)),
                                        DB_V_Z(runner),
                                        DB_V_NULL,
                                        DB_V_Z(said->role)};
    record_flat(e, s, MON_MESSAGE, v, held);
}

/* Pictures and files would fill the table: their payloads stay out. */
static struct str chain_record(struct buf *b, const json_t *chain)
{
    auto_json bare = chain_bare(chain);
    json_put(b, bare);
    return buf_view(b);
}

static void put_session(struct engine *e, const struct scope *s, struct query *q)
{
    char now[TIME_ISO_SIZE];
    struct db_val when = DB_V_Z(time_sql(time_wall_us(), now));
    struct db_val v[MON_COLUMNS_MAX] = {DB_V_Z(s->workspace),
                                        DB_V_Z(bot_of(q)),
                                        DB_V_Z(query_session_name(q)),
                                        DB_V_Z(q->bot_name),
                                        DB_V_Z(q->pipeline_uuid),
                                        DB_V_Z(q->pipeline_name),
                                        DB_V_I(1),
                                        when,
                                        when,
                                        DB_V_B(true),
                                        DB_V_Z(launcher_name(q->event.launcher)),
                                        DB_V_Z(q->event.sender_id),
                                        DB_V_Z(user_name(&q->event))};
    record_flat(e, s, MON_SESSION, v, NULL);
}

void watch_start(struct run *r)
{
    struct query *q = r->query;
    auto_buf text = BUF(32 << 20);
    const char *id = r->pending->turn;
    q->monitor_id = id;
    query_var(q, "_monitoring_bot_name", json_string(q->bot_name));
    query_var(q, "_monitoring_pipeline_name", json_string(q->pipeline_name));
    query_var(q, "_monitoring_message_id", json_string(id));
    struct said said = {id, chain_record(&text, q->chain), "pending", "info", "user", false};
    put_message(r->engine, &q->scope, q, &said, &r->asked);
    put_session(r->engine, &q->scope, q);
}

/* The record of the question: changed where it waits, else by an update of the row. */
static void update(struct run *r, const char *status, const char *level, struct str variables)
{
    if (r->asked && record_patch(r->asked, status, level, variables))
        return;
    json_t *text = variables.p ? json_strn(variables) : NULL;
    record_put(r->engine, &r->query->scope, "message_update",
               json_pack("{s:s,s:s*,s:s*,s:o*}", "id", r->query->monitor_id, "status", status,
                         "level", level, "variables", text));
}

void watch_success(struct run *r)
{
    struct query *q = r->query;
    auto_json shown = json_object(); /* the public ones */
    auto_buf variables = BUF(1 << 20);
    const char *k;
    json_t *v;
    json_object_foreach (q->variables, k, v) {
        if (k[0] != '_')
            json_object_set(shown, k, v);
    }
    json_put(&variables, shown);
    update(r, "success", NULL, buf_view(&variables));
    const json_t *chain = r->last_out ? r->last_out : r->out_chain;
    if (!chain || json_array_size(chain) == 0)
        return;
    auto_buf text = BUF(32 << 20);
    char id[UUID_SIZE];
    uuid4_ordered(id);
    struct said said = {id, chain_record(&text, chain), "success", "info", "assistant", false};
    put_message(r->engine, &q->scope, q, &said, NULL);
}

static json_t *error_row(struct query *q, const char *type, const char *text, const char *trace)
{
    char id[UUID_SIZE];
    uuid4_ordered(id);
    return json_pack("{s:s,s:o,s:s,s:o,s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "id", id, "timestamp",
                     json_now(), "error_type", type, "error_message", json_strn(str_c(text)),
                     "bot_id", bot_of(q), "bot_name", q->bot_name, "pipeline_id", q->pipeline_uuid,
                     "pipeline_name", q->pipeline_name, "session_id", query_session_name(q),
                     "stack_trace", trace ? trace : "", "message_id", q->monitor_id);
}

void watch_stage_error(struct run *r, const char *notice, const char *trace)
{
    struct query *q = r->query;
    q->has_error = true;
    query_var(q, "_monitoring_has_error", json_true());
    update(r, "error", "error", STR_NONE);
    record_put(r->engine, &q->scope, "error", error_row(q, "PipelineError", notice, trace));
}

void watch_call(struct run *r, const char *model, int64_t ms, const struct llm_usage *u,
                const struct error *err)
{
    struct query *q = r->query;
    char id[UUID_SIZE];
    uuid4_ordered(id);
    char now[TIME_ISO_SIZE];
    struct db_val v[MON_COLUMNS_MAX] = {DB_V_Z(id),
                                        DB_V_Z(q->scope.workspace),
                                        DB_V_Z(time_sql(time_wall_us(), now)),
                                        DB_V_Z(model),
                                        DB_V_I(u ? u->input : 0),
                                        DB_V_I(u ? u->output : 0),
                                        DB_V_I(u ? u->total : 0),
                                        DB_V_I(ms),
                                        DB_V_NULL,
                                        DB_V_Z(err ? "error" : "success"),
                                        DB_V_Z(bot_of(q)),
                                        DB_V_Z(q->bot_name),
                                        DB_V_Z(q->pipeline_uuid),
                                        DB_V_Z(q->pipeline_name),
                                        DB_V_Z(query_session_name(q)),
                                        err ? DB_V_S(utf8_clean(q->arena, str_c(err->msg)))
                                            : DB_V_NULL,
                                        DB_V_Z(q->monitor_id)};
    record_flat(r->engine, &q->scope, MON_LLM_CALL, v, NULL);
}

void watch_tool(struct run *r, const struct agent_tool *c)
{
    struct query *q = r->query;
    char id[UUID_SIZE];
    uuid4(id);
    record_put(r->engine, &q->scope, "tool_call",
               json_pack("{s:s,s:o,s:o,s:s,s:I,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:o,s:o,s:o}", "id", id,
                         "timestamp", json_now(), "tool_name", json_strn(utf8_cut(c->name, 255)),
                         "tool_source", c->source, "duration", (json_int_t)c->duration_ms, "status",
                         c->err ? "error" : "success", "bot_id",
                         *q->bot_uuid ? q->bot_uuid : "unknown", "bot_name", q->bot_name,
                         "pipeline_id", q->pipeline_uuid, "pipeline_name", q->pipeline_name,
                         "session_id", query_session_name(q), "message_id", q->monitor_id,
                         "arguments", json_strn(c->arguments), "result",
                         c->err ? json_null() : json_strn(c->result), "error_message",
                         c->err ? json_strn(str_c(c->err->msg)) : json_null()));
}

static const char *type_name(const struct error *err)
{
    switch (err->code) {
    case ERR_TIMEOUT: return "TimeoutError";
    case ERR_UPSTREAM: return "UpstreamError";
    case ERR_NOMEM: return "MemoryError";
    case ERR_CLOSED:
    case ERR_IO: return "ConnectionError";
    default: return "RuntimeError";
    }
}

void watch_uncaught(struct run *r, const struct error *err)
{
    struct query *q = r->query;
    q->has_error = true;
    char id[UUID_SIZE];
    uuid4_ordered(id);
    struct str text = utf8_clean(q->arena, str_fmt(q->arena, "Error: %s", err->msg));
    struct said said = {id, text, "error", "error", "user", false};
    update(r, "error", "error", STR_NONE);
    put_message(r->engine, &q->scope, q, &said, NULL);
    record_put(r->engine, &q->scope, "error",
               error_row(q, type_name(err), err->msg,
                         r->pipe->stages[r->at] ? r->pipe->stages[r->at]->name : ""));
}

void watch_discard(struct engine *e, struct bot *b, const struct chat_event *ev,
                   const char *launcher_id)
{
    auto_arena a = arena_new(64u << 20);
    if (!a)
        return;
    struct query q = {.arena = a,
                      .bot_uuid = bot_uuid(b),
                      .bot_name = bot_name(b),
                      .pipeline_uuid = "__discard__",
                      .pipeline_name = "Discarded",
                      .event = *ev,
                      .launcher_id = launcher_id};
    char id[UUID_SIZE];
    uuid4_ordered(id);
    auto_buf text = BUF(32 << 20);
    struct said said = {id, chain_record(&text, ev->chain), "discarded", "info", "user", true};
    put_message(e, bot_scope(b), &q, &said, NULL);
    put_session(e, bot_scope(b), &q);
}

void watch_feedback(struct engine *e, struct bot *b, const json_t *f)
{
    char id[UUID_SIZE];
    uuid4_ordered(id);
    json_t *reasons = NULL;
    const json_t *list = json_object_get(f, "inaccurate_reasons");
    if (json_is_array(list)) {
        auto_buf t = BUF(1 << 16);
        json_put(&t, list);
        reasons = json_strn(buf_view(&t));
    }
    record_put(
        e, bot_scope(b), "feedback",
        json_pack("{s:s,s:o,s:s,s:I,s:s*,s:o*,s:s,s:s,s:s,s:s,s:s*,s:s*,s:s*,s:s*,s:s}", "id", id,
                  "timestamp", json_now(), "feedback_id", json_z_or(f, "feedback_id", id),
                  "feedback_type", (json_int_t)json_i_or(f, "feedback_type", 0), "feedback_content",
                  json_z(f, "feedback_content"), "inaccurate_reasons", reasons, "bot_id",
                  bot_uuid(b), "bot_name", bot_name(b), "pipeline_id", bot_default_pipeline(b),
                  "pipeline_name", json_z_or(bot_row(b), "use_pipeline_name", ""), "session_id",
                  json_z(f, "session_id"), "message_id", json_z(f, "message_id"), "stream_id",
                  json_z(f, "stream_id"), "user_id", json_z(f, "user_id"), "platform",
                  bot_adapter(b)->name));
}
