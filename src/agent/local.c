/* The local agent: prompt, history and the user's words to a model, its answer back; fallback models. providers.md §18 (the steps
 * without tools and knowledge). */
#include "agent/agent_private.h"

enum { SMALL_ANSWER = 32 << 10, PACE_US = 50000, CANDIDATES_MAX = 16 };

struct turn {
    const struct agent_run *run;
    json_t *messages; /* owned: the request's */
    struct model *candidates[CANDIDATES_MAX];
    const char *levels[CANDIDATES_MAX]; /* reasoning overrides, borrowed from the config */
    size_t count;
    bool remove_think;
    int64_t sequence, chunks;
};

static bool limits(const struct turn *t, size_t chars, struct error *err)
{
    if ((int64_t)chars > t->run->max_chars)
        return err_set(
            err, ERR_TOO_LARGE,
            "Provider response exceeds the configured limit (system.response_limits.max_generated_chars)");
    if (t->chunks > t->run->max_chunks)
        return err_set(
            err, ERR_TOO_LARGE,
            "Provider stream exceeds the configured event limit (system.response_limits.max_stream_chunks)");
    return true;
}

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
    const struct query *q = t->run->query;
    t->messages = json_array();
    bool ok = t->messages && json_array_extend(t->messages, q->prompt) == 0 &&
              json_array_extend(t->messages, q->messages) == 0 &&
              json_array_append(t->messages, q->user_message) == 0;
    return ok || err_set(err, ERR_NOMEM, "out of memory");
}

static struct llm_request request_of(const struct turn *t, size_t candidate)
{
    return (struct llm_request){.messages = t->messages,
                                .reasoning_level = t->levels[candidate],
                                .remove_think = t->remove_think};
}

/* One record for each model call (pipeline.md §11). */
static void record_call(const struct turn *t, const struct model *m, int64_t started_us,
                        const struct llm_usage *u, const struct error *err)
{
    if (t->run->on_call)
        t->run->on_call(t->run->arg, m, (time_mono_us() - started_us) / 1000, u, err);
}

/* ---- in one piece --------------------------------------------------------------------------------------------------------- */

static bool once(struct turn *t, struct error *err)
{
    for (size_t i = 0; i < t->count; i++) {
        struct llm_request req = request_of(t, i);
        struct llm_answer a = {0};
        int64_t start = time_mono_us();
        *err = (struct error){0};
        bool ok = llm_invoke(t->candidates[i], &req, &a, err);
        record_call(t, t->candidates[i], start, ok ? &a.usage : NULL, ok ? NULL : err);
        if (!ok) {
            if (err->code == ERR_CANCELED)
                return false;
            if (i + 1 < t->count)
                log_warn("agent", "model %s failed, the next one is asked: %s",
                         model_name(t->candidates[i]), err->msg);
            continue;
        }
        struct str text = llm_content_text(t->run->query->arena, a.message);
        struct agent_output out = {.message = a.message, .is_final = true};
        ok = limits(t, utf8_count(text), err) && t->run->emit(t->run->arg, &out, err);
        llm_answer_free(&a);
        return ok;
    }
    return false;
}

/* ---- streaming -------------------------------------------------------------------------------------------------------------- */

struct growth {
    size_t shown; /* bytes in the last chunk handed out */
    int64_t shown_us;
};

/* A cumulative snapshot costs its length each time: the snapshots of a long answer keep some distance, in bytes or in time, so that
 * the cost of a whole answer stays in proportion to its length. Those of short ones never wait, and none waits for another delta. */
static bool keep_distance(const struct growth *g, size_t n, struct error *err)
{
    if (n <= SMALL_ANSWER || n - g->shown >= n / 64)
        return true;
    int64_t left = g->shown_us + PACE_US - time_mono_us();
    return left <= 0 || task_sleep_ms((left + 999) / 1000, err);
}

static bool emit_chunk(struct turn *t, json_t *message_stolen, bool final, struct error *err)
{
    auto_json m = message_stolen;
    if (!m)
        return err_set(err, ERR_NOMEM, "out of memory");
    struct agent_output out = {
        .message = m, .is_chunk = true, .is_final = final, .sequence = ++t->sequence};
    return t->run->emit(t->run->arg, &out, err);
}

/* What models say came as JSON, so it is valid UTF-8. */
static bool emit_text(struct turn *t, struct growth *g, struct str whole, struct error *err)
{
    if (whole.n == g->shown)
        return true;
    if (!keep_distance(g, whole.n, err))
        return false;
    g->shown = whole.n;
    g->shown_us = whole.n > SMALL_ANSWER ? time_mono_us() : 0;
    json_t *text = json_stringn_nocheck(whole.p, whole.n);
    return emit_chunk(t, llm_message_of("assistant", text), false, err);
}

/* The final message with the text as it was streamed (think handling applied). */
static bool finish(struct turn *t, struct llm_stream *s, struct llm_usage *usage, struct error *err)
{
    struct llm_answer a = {0};
    if (!llm_stream_answer(s, &a, err))
        return false;
    *usage = a.usage;
    a.usage.raw = NULL;
    json_t *m = json_incref(a.message);
    llm_answer_free(&a);
    return emit_chunk(t, m, true, err);
}

/* True: the candidate has been used up, successfully or not (*used); false with *used unset: the next one may be tried. */
static bool stream_one(struct turn *t, size_t i, bool *used, struct llm_usage *usage,
                       struct error *err)
{
    struct llm_request req = request_of(t, i);
    struct llm_stream *s = llm_open(t->candidates[i], &req, err);
    if (!s)
        return false;
    struct growth g = {0};
    size_t chars = 0;
    bool ok = true;
    task_trim(); /* asking goes deep, and the answer may take minutes */
    for (;;) {
        struct llm_delta d = {0};
        ok = llm_next(s, &d, err);
        if (!ok)
            break;
        *used = true;
        t->chunks++;
        chars += utf8_count(d.text);
        ok = limits(t, chars, err);
        if (ok && d.done)
            ok = finish(t, s, usage, err);
        else if (ok)
            ok = emit_text(t, &g, d.whole, err);
        if (!ok || d.done)
            break;
    }
    llm_close(s);
    return ok;
}

static bool streaming(struct turn *t, struct error *err)
{
    for (size_t i = 0; i < t->count; i++) {
        bool used = false;
        struct llm_usage usage = {0};
        int64_t start = time_mono_us();
        *err = (struct error){0};
        bool ok = stream_one(t, i, &used, &usage, err);
        record_call(t, t->candidates[i], start, ok ? &usage : NULL, ok ? NULL : err);
        json_decref(usage.raw);
        if (ok || used || err->code == ERR_CANCELED)
            return ok;
        if (i + 1 < t->count)
            log_warn("agent", "model %s failed, the next one is asked: %s",
                     model_name(t->candidates[i]), err->msg);
    }
    return false;
}

static bool run(const struct agent_run *r, struct error *err)
{
    struct turn t = {.run = r};
    const json_t *think = json_at(r->query->config, "output.misc.remove-think");
    t.remove_think = json_is_true(think);
    bool ok = collect(&t, err) && build_messages(&t, err) &&
              (r->stream ? streaming(&t, err) : once(&t, err));
    for (size_t i = 0; i < t.count; i++)
        model_unref(t.candidates[i]);
    json_decref(t.messages);
    return ok;
}

const struct runner runner_local = {.name = "local-agent", .run = run};
