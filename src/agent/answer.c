/* One reply of a model: asked for, handed out as it comes, kept whole. providers.md §18.8 to §18.10. */
#include "agent/agent_private.h"

enum { PART_EVENTS = 8, SMALL_ANSWER = 32 << 10, PACE_US = 50000 };

static bool limits(const struct turn *t, size_t chars, struct error *err)
{
    if ((int64_t)chars > t->run->max_chars)
        return err_set(err, ERR_TOO_LARGE, "Provider response exceeds the configured limit");
    /* A part of an answer stands for eight pieces, however they came together; its end is one more. */
    if (t->events / PART_EVENTS + t->answers > t->run->max_chunks)
        return err_set(err, ERR_TOO_LARGE, "Provider stream exceeds the configured event limit");
    return true;
}

static struct llm_request request_of(const struct turn *t, size_t candidate)
{
    bool tools = json_array_size(t->offer) > 0 && model_can(t->candidates[candidate], "func_call");
    return (struct llm_request){.messages = t->messages,
                                .tools = tools ? t->offer : NULL,
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

static bool once(struct turn *t, size_t i, bool *used, json_t **message, struct error *err)
{
    struct llm_request req = request_of(t, i);
    struct llm_answer a = {0};
    int64_t start = time_mono_us();
    bool ok = llm_invoke(t->candidates[i], &req, &a, err);
    record_call(t, t->candidates[i], start, ok ? &a.usage : NULL, ok ? NULL : err);
    if (!ok)
        return false;
    *used = true;
    struct str text = llm_content_text(t->run->query->arena, a.message);
    struct agent_output out = {.message = a.message, .is_final = true};
    ok = limits(t, utf8_count(text), err) && t->run->emit(t->run->arg, &out, err);
    if (ok)
        *message = json_incref(a.message);
    llm_answer_free(&a);
    return ok;
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
static bool finish(struct turn *t, struct llm_stream *s, struct llm_usage *usage, json_t **message,
                   struct error *err)
{
    struct llm_answer a = {0};
    if (!llm_stream_answer(s, &a, err))
        return false;
    *usage = a.usage;
    a.usage.raw = NULL;
    *message = json_incref(a.message);
    json_t *m = json_incref(a.message);
    llm_answer_free(&a);
    return emit_chunk(t, m, true, err);
}

/* True: the candidate has been used up, successfully or not (*used); false with *used unset: the next one may be tried. */
static bool stream_one(struct turn *t, size_t i, bool *used, struct llm_usage *usage,
                       json_t **message, struct error *err)
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
        t->events += d.events;
        t->answers += d.done;
        chars += utf8_count(d.text);
        ok = limits(t, chars, err);
        if (ok && d.done)
            ok = finish(t, s, usage, message, err);
        else if (ok)
            ok = emit_text(t, &g, d.whole, err);
        if (!ok || d.done)
            break;
    }
    llm_close(s);
    return ok;
}

static bool streamed(struct turn *t, size_t i, bool *used, json_t **message, struct error *err)
{
    struct llm_usage usage = {0};
    int64_t start = time_mono_us();
    bool ok = stream_one(t, i, used, &usage, message, err);
    record_call(t, t->candidates[i], start, ok ? &usage : NULL, ok ? NULL : err);
    json_decref(usage.raw);
    return ok;
}

/* ---- who is asked ----------------------------------------------------------------------------------------------------------- */

/* *used: something of the answer has come, so nobody else is asked. */
static bool ask(struct turn *t, size_t i, bool *used, json_t **message, struct error *err)
{
    *err = (struct error){0};
    *used = false;
    *message = NULL;
    bool ok = t->run->stream ? streamed(t, i, used, message, err) : once(t, i, used, message, err);
    if (!ok)
        json_decref(steal(*message));
    return ok;
}

bool answer_next(struct turn *t, json_t **message, struct error *err)
{
    bool used;
    return ask(t, t->chosen, &used, message, err);
}

bool answer_first(struct turn *t, json_t **message, struct error *err)
{
    for (t->chosen = 0; t->chosen < t->count; t->chosen++) {
        bool used;
        if (ask(t, t->chosen, &used, message, err))
            return true;
        if (used || err->code == ERR_CANCELED)
            return false;
        if (t->chosen + 1 < t->count)
            log_warn("agent", "model %s failed, the next one is asked: %s",
                     model_name(t->candidates[t->chosen]), err->msg);
    }
    return false;
}
