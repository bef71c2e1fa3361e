/* The tools of a run: what the pipeline binds, the catalogue, and who is told of each call. pipeline.md §7.4.4, §11. */
#include "pipeline/engine.h"

enum { SHOWN_CALLS = 64, SHOWN_ARGUMENTS = 2000, SHOWN_RESULT = 4000 };

static json_t *or_null(const json_t *j)
{
    return j ? json_incref((json_t *)(uintptr_t)j) : json_null();
}

/* A key of the agent's own settings counts before the pipeline's preferences. */
static const json_t *setting(const struct run *r, const char *key, const char *preference)
{
    const json_t *own = json_object_get(conf_at(r, "ai.local-agent"), key);
    return own && !json_is_null(own) ? own : json_object_get(r->pipe->preferences, preference);
}

static void bind(struct run *r)
{
    struct query *q = r->query;
    r->ask = (struct tool_ask){.scope = q->scope, .query = q, .skill_tools = true};
    tool_ask_bind(&r->ask, r->pipe->preferences);
    const json_t *read =
        setting(r, "mcp-resource-agent-read-enabled", "mcp_resource_agent_read_enabled");
    r->ask.mcp_resources = !json_is_false(read);
    query_var(q, "_pipeline_bound_plugins", or_null(r->ask.plugins));
    query_var(q, "_pipeline_bound_mcp_servers", or_null(r->ask.mcp_servers));
    query_var(q, "_pipeline_bound_skills", or_null(r->ask.skills));
    query_var(q, "_pipeline_mcp_resource_attachments",
              or_null(setting(r, "mcp-resources", "mcp_resources")));
    query_var(q, "_pipeline_mcp_resource_agent_read_enabled", json_boolean(r->ask.mcp_resources));
}

bool run_tools_load(struct run *r, struct error *err)
{
    struct query *q = r->query;
    struct tools *tools = r->engine->tools;
    bind(r);
    bool wanted = (r->model && model_can(r->model, "func_call")) ||
                  json_array_size(json_object_get(q->variables, "_fallback_model_uuids")) > 0;
    if (tools && wanted) {
        r->catalogue = catalogue_new(tools, &r->ask, q->arena, err);
        if (!r->catalogue)
            return false;
    }
    struct tool_policy policy = tool_policy_of(q->config);
    const struct tool *exec = r->catalogue ? catalogue_find(r->catalogue, S("exec")) : NULL;
    query_var(q, "_skill_execution_available", json_boolean(exec && tool_allowed(&policy, exec)));
    return true;
}

/* ---- who is told --------------------------------------------------------------------------------------------- */

static json_t *shown(const struct agent_tool *c)
{
    const char *status = !c->ended ? "running" : c->err ? "error" : "success";
    json_t *j = json_pack("{s:s,s:o,s:o,s:s}", "id", c->id, "name", json_strn(c->name), "arguments",
                          json_strn(utf8_cut(c->arguments, SHOWN_ARGUMENTS)), "status", status);
    if (c->ended) {
        json_set(j, "source", c->source ? json_string(c->source) : json_null());
        json_set(j, "result", json_strn(utf8_cut(c->result, SHOWN_RESULT)));
        json_set(j, "duration_ms", json_integer(c->duration_ms));
    }
    return j;
}

static void remember(struct run *r, json_t *call)
{
    if (!r->tool_calls_shown)
        r->tool_calls_shown = arena_json(r->query->arena, json_array());
    if (json_array_size(r->tool_calls_shown) < SHOWN_CALLS)
        json_array_append(r->tool_calls_shown, call);
}

void run_tool_note(struct run *r, const struct agent_tool *c)
{
    struct query *q = r->query;
    if (c->ended && c->source)
        watch_tool(r, c);
    auto_json call = shown(c);
    if (!call)
        return;
    if (c->ended)
        remember(r, call);
    struct reply rep = {.message_id = q->message_id,
                        .turn_id = q->uuid,
                        .response_id = q->response_id,
                        .event = &q->event,
                        .launcher_id = q->launcher_id,
                        .context = q->reply_context};
    bot_activity(r->bot, &rep, call);
}
