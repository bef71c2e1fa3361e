/* A call on its way: owner, policy, audit, the source, the result as the model gets it. tools-mcp-skills.md A2, box.md §13 (S2). */
#include "tool/tool_private.h"

static bool refuse(struct tools *t, struct query *q, const struct tool *tool,
                   const json_t *arguments, struct tool_outcome *out, struct error *err)
{
    struct audit a = {.tools = t, .query = q, .tool = tool};
    struct error lost = {0};
    out->refused = true;
    log_warn("tool", "call refused by the policy tool=%s source=%s pipeline=%s session=%s",
             tool->name, tool->source->name, q->pipeline_uuid, query_session_name(q));
    if (!audit_begin(&a, arguments, "denied by the pipeline", &lost)) {
        if (lost.code == ERR_CANCELED) {
            *err = lost;
            return false;
        }
        log_error("tool", "a refused call was not audited: %s", lost.msg);
    }
    return err_set(err, ERR_DENIED, "The tool %s is not allowed here.", tool->call_name);
}

static json_t *audited(struct tools *t, const struct tool_call *c, struct error *err)
{
    struct audit a = {.tools = t, .query = c->query, .tool = c->tool};
    /* What cannot be recorded is not done. */
    if (!audit_begin(&a, c->arguments, NULL, err)) {
        if (err->code != ERR_CANCELED)
            err_wrap(err, "the call could not be recorded");
        return NULL;
    }
    json_t *result = c->tool->source->call(tools_own(t, c->tool->source), c, err);
    audit_end(&a, c->arguments, result, err);
    return result;
}

/* A name that nobody owns now. */
static bool unowned(struct tools *t, const struct catalogue *c, struct query *q, struct str name,
                    const json_t *arguments, const struct tool_policy *p, struct tool_outcome *out,
                    struct error *err)
{
    for (size_t i = 0; i < t->opened; i++) {
        const struct tool_source *s = tool_sources[i];
        if (!s->reserves || !s->reserves(name))
            continue;
        const char *z = str_z(c->arena, name);
        struct tool gone = {.source = s, .name = z, .call_name = z, .owner_name = "LangBot"};
        out->source = s->name;
        if (!tool_allowed(p, &gone))
            return refuse(t, q, &gone, arguments, out, err);
        out->result = s->missing ? s->missing(t->own[i], &c->ask, name) : NULL;
        if (out->result)
            return true;
    }
    out->source = NULL;
    return err_set(err, ERR_NOT_FOUND, "Tool not found: " STR_FMT, STR_ARG(str_sub(name, 0, 200)));
}

bool tools_call(struct tools *t, const struct catalogue *c, struct query *q, struct str name,
                const json_t *arguments, struct tool_outcome *out, struct error *err)
{
    struct tool_policy policy = tool_policy_of(q->config);
    const struct tool *tool = catalogue_find(c, name);
    *out = (struct tool_outcome){0};
    *err = (struct error){0};
    if (!tool)
        return unowned(t, c, q, name, arguments, &policy, out, err);
    out->source = tool->source->name;
    if (!tool_allowed(&policy, tool))
        return refuse(t, q, tool, arguments, out, err);
    struct tool_call call = {.tool = tool, .query = q, .arguments = arguments};
    int64_t start = time_mono_us();
    out->result = tool->source->audited
                      ? audited(t, &call, err)
                      : tool->source->call(tools_own(t, tool->source), &call, err);
    out->duration_ms = (time_mono_us() - start) / 1000;
    if (!out->result && err->code == ERR_NONE)
        err_set(err, ERR_INTERNAL, "the tool %s gave no result", tool->name);
    return out->result != NULL;
}

/* ---- results ------------------------------------------------------------------------------------------ */

static bool is_element(const json_t *part)
{
    static const char *const types[] = {"text", "image_url", "image_base64", "file_url",
                                        "file_base64"};
    struct str type = json_s(part, "type");
    for (size_t i = 0; i < array_len(types); i++)
        if (str_eqz(type, types[i]))
            return true;
    return false;
}

static void put_element(struct buf *out, const json_t *part)
{
    struct str type = json_s(part, "type");
    const json_t *image = json_object_get(part, "image_url");
    struct str url = json_is_string(image) ? json_sv(image) : json_s(image, "url");
    if (str_eqz(type, "text"))
        buf_str(out, json_s(part, "text"));
    else if (str_eqz(type, "image_url"))
        buf_fmt(out, "[Image](" STR_FMT ")", STR_ARG(url));
    else if (str_eqz(type, "file_url"))
        buf_fmt(out, "[File](" STR_FMT ")", STR_ARG(json_s(part, "file_url")));
    else
        buf_z(out, str_eqz(type, "image_base64") ? "[Image](base64)" : "[File](base64)");
}

bool tool_result_text(const json_t *result, struct buf *out)
{
    size_t i;
    json_t *part;
    if (!is_element(json_array_get(result, 0)))
        return json_put(out, result);
    json_array_foreach (result, i, part) {
        if (i > 0)
            buf_c(out, '\n');
        put_element(out, part);
    }
    return !out->failed;
}

/* ---- guidance ------------------------------------------------------------------------------------------ */

struct str tools_guidance(struct tools *t, const struct catalogue *c, const struct tool_policy *p,
                          struct query *q)
{
    const struct box_service *box = t->opts.box;
    const struct tool *exec = c ? catalogue_find(c, S("exec")) : NULL;
    if (!box || !exec || exec->source != &tool_source_native || !tool_allowed(p, exec))
        return S("");
    const char *key = box->outbox_key ? box->outbox_key(box->self, q) : NULL;
    struct str files = key ? str_fmt(q->arena,
                                     " Put each file that the user is to receive into "
                                     "/workspace/outbox/%s/ : everything there is sent with your "
                                     "answer, so never paste base64 into it.",
                                     key)
                           : S("");
    return str_fmt(q->arena,
                   "Use the tool exec for exact calculation and for work on data instead of "
                   "reckoning yourself, and tell the user the outcome; show the script only when "
                   "asked for it. Files live under /workspace: use paths there and do not ask the "
                   "user for a directory." STR_FMT,
                   STR_ARG(files));
}

/* ---- what others may see of the arguments ----------------------------------------------------------------- */

json_t *tool_arguments_shown(struct str name, const json_t *arguments)
{
    const json_t *env = json_object_get(arguments, "env");
    if (!str_eqz(name, "exec") || !json_is_object(env))
        return json_incref((json_t *)(uintptr_t)arguments);
    json_t *masked = json_object(), *copy = json_copy((json_t *)(uintptr_t)arguments);
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)env, key, value)
        json_set(masked, key, json_string("***"));
    if (copy && json_set(copy, "env", masked))
        return copy;
    json_decref(copy);
    return NULL;
}
