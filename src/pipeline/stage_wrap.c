/* ResponseWrapper: an LLM message becomes a chain for the platform. pipeline.md §7.8. */
#include "pipeline/engine.h"

typedef bool next_fn(struct run *r, const struct stage_result *res, struct error *err);

static bool push(struct run *r, json_t *chain_stolen, next_fn *next, struct error *err)
{
    run_keep(&r->out_chain, json_is_null(chain_stolen) ? json_array() : chain_stolen);
    struct stage_result res = {0};
    return r->out_chain ? next(r, &res, err) : err_set(err, ERR_NOMEM, "out of memory");
}

static json_t *call_text(const json_t *calls)
{
    auto_buf b = BUF(1 << 16);
    size_t i;
    json_t *c;
    buf_z(&b, "Call ");
    json_array_foreach (calls, i, c)
        buf_fmt(&b, "%s%s", i ? "." : "", json_z_or(json_object_get(c, "function"), "name", ""));
    buf_z(&b, "...");
    return chain_of_text(buf_view(&b));
}

static bool assistant(struct run *r, next_fn *next, struct error *err)
{
    auto_json response = json_incref(r->response); /* later stages may put another in its place */
    const json_t *content = json_object_get(response, "content"),
                 *calls = json_object_get(response, "tool_calls");
    bool has_text = json_string_length(content) > 0 || json_array_size(content) > 0;
    bool has_calls = json_array_size(calls) > 0;
    if (has_text && !push(r, llm_content_chain(response, NULL), next, err))
        return false;
    /* Adapters always get the final signal, even of an answer without words. */
    if (!has_text && !has_calls && r->is_chunk && r->is_final)
        return push(r, json_array(), next, err);
    if (has_calls && conf_bool(r->pipe->config, "output.misc.track-function-calls", false))
        return push(r, call_text(calls), next, err);
    return true;
}

static bool stream(struct run *r, next_fn *next, struct error *err)
{
    if (r->response_is_chain)
        return push(r, json_copy(r->response), next, err);
    const char *role = json_z_or(r->response, "role", "");
    if (strcmp(role, "command") == 0)
        return push(r, llm_content_chain(r->response, "[bot] "), next, err);
    if (strcmp(role, "plugin") == 0)
        return push(r, llm_content_chain(r->response, NULL), next, err);
    return strcmp(role, "assistant") == 0 ? assistant(r, next, err) : true;
}

const struct stage stage_wrap = {.name = "ResponseWrapper", .stream = stream};
