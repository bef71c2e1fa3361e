/* Monitoring of runs: which record is written when. pipeline.md §11. Failures never reach the run. */
#include "pipeline/engine.h"

static const char *user_name(const struct chat_event *ev)
{
    return ev->sender_name ? ev->sender_name : "";
}

static json_t *message_row(struct query *q, const char *id, const json_t *chain, const char *status,
                           const char *level, const char *role)
{
    auto_buf text = BUF(32 << 20);
    auto_json bare = NULL;
    /* Pictures and files would fill the table: their payloads stay out. */
    if (chain && json_is_array(chain)) {
        bare = chain_bare(chain);
        json_put(&text, bare);
    } else if (json_is_string(chain)) {
        buf_str(&text, json_sv(chain));
    }
    return json_pack("{s:s,s:o,s:s,s:s,s:s,s:s,s:o,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "id", id,
                     "timestamp", json_now(), "bot_id", *q->bot_uuid ? q->bot_uuid : "unknown",
                     "bot_name", q->bot_name, "pipeline_id", q->pipeline_uuid, "pipeline_name",
                     q->pipeline_name, "message_content", json_strn(buf_view(&text)), "session_id",
                     query_session_name(q), "status", status, "level", level, "platform",
                     launcher_name(q->event.launcher), "user_id", q->event.sender_id, "user_name",
                     user_name(&q->event), "runner_name",
                     conf_str(q->config, "ai.runner.runner", "local-agent"), "role", role);
}

static json_t *session_row(struct query *q)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:i,s:o,s:o,s:b,s:s,s:s,s:s}", "session_id",
                     query_session_name(q), "bot_id", *q->bot_uuid ? q->bot_uuid : "unknown",
                     "bot_name", q->bot_name, "pipeline_id", q->pipeline_uuid, "pipeline_name",
                     q->pipeline_name, "message_count", 1, "start_time", json_now(),
                     "last_activity", json_now(), "is_active", 1, "platform",
                     launcher_name(q->event.launcher), "user_id", q->event.sender_id, "user_name",
                     user_name(&q->event));
}

void watch_start(struct run *r)
{
    struct query *q = r->query;
    const char *id = r->pending->turn;
    q->monitor_id = id;
    query_var(q, "_monitoring_bot_name", json_string(q->bot_name));
    query_var(q, "_monitoring_pipeline_name", json_string(q->pipeline_name));
    query_var(q, "_monitoring_message_id", json_string(id));
    record_put(r->engine, &q->scope, "message",
               message_row(q, id, q->chain, "pending", "info", "user"));
    record_put(r->engine, &q->scope, "session", session_row(q));
}

/* Public variables as JSON text. */
static json_t *variables_text(const struct query *q)
{
    auto_json shown = json_object();
    const char *k;
    json_t *v;
    json_object_foreach (q->variables, k, v) {
        if (k[0] != '_')
            json_object_set(shown, k, v);
    }
    auto_buf b = BUF(1 << 20);
    json_put(&b, shown);
    return json_strn(buf_view(&b));
}

void watch_success(struct run *r)
{
    struct query *q = r->query;
    record_put(r->engine, &q->scope, "message_update",
               json_pack("{s:s,s:s,s:o}", "id", q->monitor_id, "status", "success", "variables",
                         variables_text(q)));
    const json_t *chain = r->last_out ? r->last_out : r->out_chain;
    if (!chain || json_array_size(chain) == 0)
        return;
    char id[UUID_SIZE];
    uuid4(id);
    record_put(r->engine, &q->scope, "message",
               message_row(q, id, chain, "success", "info", "assistant"));
}

static json_t *error_row(struct query *q, const char *type, const char *text, const char *trace)
{
    char id[UUID_SIZE];
    uuid4(id);
    return json_pack("{s:s,s:o,s:s,s:o,s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "id", id, "timestamp",
                     json_now(), "error_type", type, "error_message", json_strn(str_c(text)),
                     "bot_id", *q->bot_uuid ? q->bot_uuid : "unknown", "bot_name", q->bot_name,
                     "pipeline_id", q->pipeline_uuid, "pipeline_name", q->pipeline_name,
                     "session_id", query_session_name(q), "stack_trace", trace ? trace : "",
                     "message_id", q->monitor_id);
}

void watch_stage_error(struct run *r, const char *notice, const char *trace)
{
    struct query *q = r->query;
    q->has_error = true;
    query_var(q, "_monitoring_has_error", json_true());
    record_put(
        r->engine, &q->scope, "message_update",
        json_pack("{s:s,s:s,s:s}", "id", q->monitor_id, "status", "error", "level", "error"));
    record_put(r->engine, &q->scope, "error", error_row(q, "PipelineError", notice, trace));
}

void watch_call(struct run *r, const char *model, int64_t ms, const struct llm_usage *u,
                const struct error *err)
{
    struct query *q = r->query;
    char id[UUID_SIZE];
    uuid4(id);
    int64_t in = u ? u->input : 0, out = u ? u->output : 0, total = u ? u->total : 0;
    record_put(
        r->engine, &q->scope, "llm_call",
        json_pack("{s:s,s:o,s:s,s:I,s:I,s:I,s:I,s:n,s:s,s:s,s:s,s:s,s:s,s:s,s:o,s:s}", "id", id,
                  "timestamp", json_now(), "model_name", model, "input_tokens", (json_int_t)in,
                  "output_tokens", (json_int_t)out, "total_tokens", (json_int_t)total, "duration",
                  (json_int_t)ms, "cost", "status", err ? "error" : "success", "bot_id",
                  *q->bot_uuid ? q->bot_uuid : "unknown", "bot_name", q->bot_name, "pipeline_id",
                  q->pipeline_uuid, "pipeline_name", q->pipeline_name, "session_id",
                  query_session_name(q), "error_message",
                  err ? json_strn(str_c(err->msg)) : json_null(), "message_id", q->monitor_id));
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
    uuid4(id);
    auto_json text = json_strn(str_fmt(q->arena, "Error: %s", err->msg));
    record_put(
        r->engine, &q->scope, "message_update",
        json_pack("{s:s,s:s,s:s}", "id", q->monitor_id, "status", "error", "level", "error"));
    record_put(r->engine, &q->scope, "message", message_row(q, id, text, "error", "error", "user"));
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
    uuid4(id);
    json_t *row = message_row(&q, id, ev->chain, "discarded", "info", "user");
    json_set(row, "runner_name", json_null());
    record_put(e, bot_scope(b), "message", row);
    record_put(e, bot_scope(b), "session", session_row(&q));
}

void watch_feedback(struct engine *e, struct bot *b, const json_t *f)
{
    char id[UUID_SIZE];
    uuid4(id);
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
