/* MessageProcessor: a command or an agent run. pipeline.md §7.7, §9. */
#include "pipeline/engine.h"

struct chat {
    struct run *run;
    bool (*next)(struct run *r, const struct stage_result *res, struct error *err);
    bool downstream_failed; /* the error came from a later stage: not the runner's */
    bool stopped;           /* a later stage ended the turn while the runner had more to do */
    int64_t chunks;
};

static bool take_output(void *arg, const struct agent_output *o, struct error *err)
{
    struct chat *c = arg;
    struct run *r = c->run;
    struct query *q = r->query;
    json_t *m = o->message;
    run_keep(&r->response, json_incref(m));
    r->response_is_chain = false;
    r->is_chunk = o->is_chunk;
    r->is_final = o->is_final;
    r->tool_calls = json_array_size(json_object_get(m, "tool_calls")) > 0;
    if (o->is_chunk && !q->response_id) {
        char id[UUID_SIZE];
        uuid4(id);
        q->response_id = str_z(q->arena, str_c(id));
    }
    bool whole = !o->is_chunk || o->is_final, calls = r->tool_calls;
    if (whole && json_array_append(q->responses, m) != 0)
        return err_set(err, ERR_NOMEM, "out of memory");
    r->history_ready =
        whole && !r->tool_calls && strcmp(json_z_or(m, "role", ""), "assistant") == 0;
    struct stage_result res = {0};
    /* The result of a tool is for the model only: no stage has to do with it. */
    bool ok = strcmp(json_z_or(m, "role", ""), "tool") == 0
                  ? fence_check(r->engine->fence, &q->scope, err)
                  : c->next(r, &res, err);
    c->downstream_failed = !ok;
    c->stopped = ok && calls && r->committed;
    return ok && (!c->stopped || err_set(err, ERR_CLOSED, "the turn has been ended"));
}

static void note_call(void *arg, const struct model *m, int64_t ms, const struct llm_usage *u,
                      const struct error *err)
{
    struct chat *c = arg;
    watch_call(c->run, model_name(m), ms, u, err);
}

static void note_tool(void *arg, const struct agent_tool *call)
{
    struct chat *c = arg;
    run_tool_note(c->run, call);
}

/* What the user is told when a run fails (output.misc.exception-handling). */
static json_t *failure_notice(struct run *r, const struct error *err)
{
    const char *how = conf_str(r->pipe->config, "output.misc.exception-handling", "show-hint");
    if (strcmp(how, "hide") == 0)
        return NULL;
    const char *text =
        strcmp(how, "show-error") == 0
            ? err->msg
            : conf_str(r->pipe->config, "output.misc.failure-hint", "Request failed.");
    return arena_json(r->query->arena, json_string(text));
}

static bool chat(struct run *r,
                 bool (*next)(struct run *, const struct stage_result *, struct error *),
                 struct error *err)
{
    struct chat c = {.run = r, .next = next};
    const char *name = conf_str(r->pipe->config, "ai.runner.runner", "local-agent");
    const struct runner *runner = runner_find(name);
    struct agent_run a = {
        .query = r->query,
        .models = r->engine->models,
        .tools = r->engine->tools,
        .catalogue = r->catalogue,
        .ask = r->ask,
        .stream = r->streams,
        .emit = take_output,
        .on_call = note_call,
        .on_tool = note_tool,
        .arg = &c,
        .max_chars = r->engine->max_chars,
        .max_chunks = r->engine->max_chunks,
    };
    bool ok = runner ? runner->run(&a, err)
                     : err_set(err, ERR_NOT_FOUND, "Request Runner not found: %s", name);
    if (ok || c.stopped)
        return c.stopped || turn_end(r, err);
    if (c.downstream_failed || err->code == ERR_CANCELED)
        return false;
    struct stage_result res = {
        .verdict = STAGE_INTERRUPT,
        .user_notice = failure_notice(r, err),
        .error_notice = str_z(r->query->arena, str_c(err->msg)),
        .debug_notice = err->tag,
    };
    *err = (struct error){0};
    return next(r, &res, err) && (res.user_notice || turn_cut(r, err));
}

/* ---- commands ------------------------------------------------------------------------------------------------------------ */

static bool is_command(const struct run *r, struct str text)
{
    const struct config *c = r->engine->config;
    if (!config_bool(c, "command.enable"))
        return false;
    auto_json prefixes = config_list(c, "command.prefix");
    size_t i;
    json_t *p;
    json_array_foreach (prefixes, i, p) {
        if (json_string_length(p) > 0 && str_starts(text, json_sv(p)))
            return true;
    }
    return false;
}

/* No command is built in, and plugins bring theirs with the plugin runtime: every name is unknown (§9). */
static bool command(struct run *r, struct str text,
                    bool (*next)(struct run *, const struct stage_result *, struct error *),
                    struct error *err)
{
    struct query *q = r->query;
    struct str rest = str_sub(text, utf8_cut(text, 1).n, text.n), name = STR_NONE;
    if (!str_split(&rest, ' ', &name))
        name = S("");
    run_keep(&r->response,
             llm_message("command", str_fmt(q->arena, "未知命令: " STR_FMT, STR_ARG(name))));
    r->response_is_chain = r->is_chunk = r->tool_calls = false;
    r->is_final = true;
    struct stage_result res = {0};
    return r->response ? next(r, &res, err) : err_set(err, ERR_NOMEM, "out of memory");
}

static bool stream(struct run *r,
                   bool (*next)(struct run *r, const struct stage_result *res, struct error *err),
                   struct error *err)
{
    struct str text = str_trim(chain_text(r->query->arena, r->query->chain));
    return is_command(r, text) ? command(r, text, next, err) : chat(r, next, err);
}

const struct stage stage_process = {.name = "MessageProcessor", .stream = stream};
