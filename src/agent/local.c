/* The local agent: prompt, history and the user's words to a model, tools for it, its answer back. providers.md §18 (without the steps
 * of knowledge bases). */
#include "agent/agent_private.h"

/* Primary, then the fallbacks; each with the level the pipeline names for it. An absent level means the provider's default (§8). */
static bool __attribute__((noinline)) collect(struct turn *t, struct error *err)
{
    const struct query *q = t->run->query;
    const json_t *conf = json_at(q->config, "ai.local-agent.model");
    const json_t *levels = json_object_get(conf, "reasoning");
    const json_t *fallbacks = json_object_get(q->variables, "_fallback_model_uuids");
    const char *primary =
        json_is_string(conf) ? json_string_value(conf) : json_z_or(conf, "primary", "");
    for (size_t i = 0; i <= json_array_size(fallbacks) && t->count < CANDIDATES_MAX; i++) {
        const char *uuid = i == 0 ? primary : json_string_value(json_array_get(fallbacks, i - 1));
        struct error miss = {0};
        struct model *m =
            uuid && *uuid ? models_get(t->run->models, &q->scope, MODEL_LLM, uuid, &miss) : NULL;
        if (miss.code == ERR_CANCELED) {
            *err = miss;
            return false;
        }
        if (!m)
            continue;
        t->levels[t->count] = json_z_or(levels, uuid, "provider_default");
        t->candidates[t->count++] = m;
    }
    return t->count > 0 ||
           err_set(err, ERR_NOT_FOUND, "No LLM model configured for local-agent runner");
}

static bool build_messages(struct turn *t, struct error *err)
{
    struct query *q = t->run->query;
    struct tool_policy policy = tool_policy_of(q->config);
    struct str told = S("");
    if (t->catalogue) {
        t->offer = catalogue_offer(t->catalogue, &policy);
        told = tools_guidance(t->run->tools, t->catalogue, &policy, q);
    }
    t->messages = json_array();
    bool ok =
        t->messages && (!t->catalogue || t->offer) &&
        json_array_extend(t->messages, q->prompt) == 0 &&
        json_array_extend(t->messages, q->messages) == 0 &&
        (told.n == 0 || json_array_append_new(t->messages, llm_message("system", told)) == 0) &&
        json_array_append(t->messages, q->user_message) == 0;
    return ok || err_set(err, ERR_NOMEM, "out of memory");
}

static bool has_calls(const json_t *message)
{
    return json_array_size(json_object_get(message, "tool_calls")) > 0;
}

/* Replies and rounds of calls until a reply has none (§18.11). */
static bool converse(struct turn *t, struct error *err)
{
    json_t *message = NULL;
    bool ok = answer_first(t, &message, err);
    for (int round = 1; ok && has_calls(message); round++) {
        if (round > TOOL_ROUNDS_MAX) {
            log_warn("agent", "stopped after %d rounds of tool calls query=%lld", TOOL_ROUNDS_MAX,
                     (long long)t->run->query->id);
            break;
        }
        ok = run_calls(t, message, err);
        json_decref(steal(message));
        ok = ok && answer_next(t, &message, err);
    }
    json_decref(message);
    return ok;
}

static bool run(const struct agent_run *r, struct error *err)
{
    struct turn t = {.run = r, .catalogue = r->catalogue};
    const json_t *think = json_at(r->query->config, "output.misc.remove-think");
    t.remove_think = json_is_true(think);
    bool ok = collect(&t, err) && build_messages(&t, err) && converse(&t, err);
    for (size_t i = 0; i < t.count; i++)
        model_unref(t.candidates[i]);
    json_decref(t.messages);
    json_decref(t.offer);
    return ok;
}

const struct runner runner_local = {.name = "local-agent", .run = run};
