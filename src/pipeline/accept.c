/* From an adapter's event to a message that is safe: fence, log, webhooks, routing, admission, ledger. pipeline.md §4.1, §4.5. */
#include "pipeline/engine.h"

void pending_free(struct pending *p)
{
    if (!p)
        return;
    mem_free(p->launcher_id);
    mem_free(p->sender_id);
    json_decref(p->event);
    json_decref(p->context);
    json_decref(p->ids);
    mem_free(p);
}

struct pending *pending_new(const struct scope *s, const char *bot, const char *pipeline,
                            const char *launcher_type, const char *launcher_id,
                            const char *sender_id, json_t *event, json_t *context, const char *id)
{
    struct pending *p = new (struct pending);
    if (!p)
        return NULL;
    p->scope = *s;
    snprintf(p->bot, sizeof p->bot, "%s", bot);
    snprintf(p->pipeline, sizeof p->pipeline, "%s", pipeline);
    p->launcher = strcmp(launcher_type, "group") == 0 ? LAUNCHER_GROUP : LAUNCHER_PERSON;
    p->launcher_id = mem_strndup(launcher_id, strlen(launcher_id));
    p->sender_id = mem_strndup(sender_id, strlen(sender_id));
    p->event = json_incref(event);
    p->context = context && !json_is_null(context) ? json_incref(context) : NULL;
    p->ids = json_pack("[s]", id);
    p->accepted_us = time_mono_us();
    uuid4_ordered(p->turn);
    if (!p->launcher_id || !p->sender_id || !p->event || !p->ids) {
        pending_free(p);
        return NULL;
    }
    return p;
}

/* The ledger's payload and the pending message share one event. */
static bool make_safe(struct engine *e, struct pending *p, const struct accept_opts *o,
                      struct error *err)
{
    auto_json payload = json_pack("{s:O,s:O*,s:b}", "event", p->event, "context", p->context,
                                  "no_stream", (int)o->no_stream);
    auto_buf text = BUF(256u << 20);
    if (!payload || !json_put(&text, payload))
        return err_set(err, ERR_NOMEM, "out of memory");
    struct inbound m = {
        .id = json_string_value(json_array_get(p->ids, 0)),
        .bot = p->bot,
        .pipeline = p->pipeline,
        .dedupe_key = o->dedupe_key,
        .launcher_type = launcher_name(p->launcher),
        .launcher_id = p->launcher_id,
        .sender_id = p->sender_id,
        .routed = p->routed,
        .turn = p->turn,
        .payload = buf_view(&text),
    };
    return ledger_accept(e->store, &p->scope, &m, err);
}

static void log_event(struct bot *b, const struct chat_event *ev, struct arena *a)
{
    struct str text = chain_text(a, ev->chain);
    auto_json images = NULL;
    size_t i;
    json_t *c;
    json_array_foreach (ev->chain, i, c) {
        if (strcmp(json_z_or(c, "type", ""), "Image") == 0) {
            if (!images)
                images = json_array();
            json_array_append(images, c);
        }
    }
    const char *who = ev->launcher == LAUNCHER_GROUP ? ev->group_id : ev->sender_id;
    bot_log(b, LOG_INFO, images, z_fmt(a, "%s_%s", launcher_name(ev->launcher), who), STR_FMT,
            STR_ARG(text));
}

static bool accept_into(struct engine *e, struct bot *b, const struct chat_event *ev,
                        const struct accept_opts *o, const char *launcher_id, const char *pipeline,
                        bool routed, struct accepted *out, struct error *err)
{
    const struct scope *s = bot_scope(b);
    auto_json event = event_to_json(ev);
    struct pending *p = event ? pending_new(s, bot_uuid(b), pipeline, launcher_name(ev->launcher),
                                            launcher_id, ev->sender_id, event, o->context, out->id)
                              : NULL;
    if (!p)
        return err_set(err, ERR_NOMEM, "out of memory");
    p->routed = routed;
    p->no_stream = o->no_stream;
    p->ephemeral = o->ephemeral;
    if (!admit(e, s, err)) {
        pending_free(p);
        return false;
    }
    /* Read before the ledger: behind it nothing may wait, so that messages keep the order in which they were accepted. */
    struct error ignored = {0};
    struct pipe *pipe = pipe_get(e, s, pipeline, &ignored);
    if (!o->ephemeral && !make_safe(e, p, o, err)) {
        admit_end(e, s);
        pending_free(p);
        pipe_unref(pipe);
        if (err->code == ERR_CONFLICT && err->tag && strcmp(err->tag, "duplicate") == 0) {
            e->stats.duplicates++;
            out->duplicate = true;
            return true;
        }
        if (db_is_trouble(err)) { /* the sender may come again */
            struct error why = *err;
            err_tag(err, ERR_UNAVAILABLE, 503, "storage_failed",
                    "the message could not be stored: %s", why.msg);
        }
        return false;
    }
    e->stats.accepted++;
    out->aggregating = pipe && pipe->aggregate;
    aggregate_put(e, p, pipe);
    pipe_unref(pipe);
    return true;
}

static bool host_accept(void *arg, struct bot *b, struct chat_event *ev,
                        const struct accept_opts *o, struct accepted *out, struct error *err)
{
    struct engine *e = arg;
    const struct scope *s = bot_scope(b);
    *out = (struct accepted){0};
    if (o->message_id) {
        snprintf(out->id, sizeof out->id, "%s", o->message_id);
    } else {
        uuid4_ordered(out->id);
    }
    /* What the ledger holds from before comes first, and must not be read from it a second time. */
    while (!e->started && !e->stopping)
        if (!task_cond_wait(&e->start_cond, err))
            return false;
    if (!fence_check(e->fence, s, err))
        return false;
    auto_arena a = arena_new(80u << 20);
    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory");
    log_event(b, ev, a);
    if (webhooks_push(e, b, ev)) {
        bot_log(b, LOG_INFO, NULL, NULL, "A webhook asked to skip the pipeline for this message.");
        out->discarded = true;
        return true;
    }
    const char *launcher_id = ev->launcher == LAUNCHER_GROUP ? ev->group_id : ev->sender_id;
    const struct adapter *ad = bot_adapter(b);
    if (ad->launcher_id && bot_instance(b)) {
        const char *own = ad->launcher_id(bot_instance(b), ev, o->context, a);
        if (own && *own)
            launcher_id = own;
    }
    bool routed = false;
    const char *pipeline =
        o->pipeline ? o->pipeline : route_pipeline(b, ev, launcher_id, a, &routed);
    if (strcmp(pipeline, "__discard__") == 0) {
        bot_log(b, LOG_INFO, NULL, NULL, "A routing rule discarded this message.");
        watch_discard(e, b, ev, launcher_id);
        out->discarded = true;
        return true;
    }
    return accept_into(e, b, ev, o, launcher_id, pipeline, routed, out, err);
}

static void host_feedback(void *arg, struct bot *b, const json_t *feedback)
{
    watch_feedback(arg, b, feedback);
}

static bool host_reset(void *arg, struct bot *b, enum launcher l, const char *launcher_id,
                       bool *removed, struct error *err)
{
    return session_forget(arg, bot_scope(b), bot_uuid(b), l, launcher_id, removed, err);
}

struct platform_host engine_host(struct engine *e)
{
    return (struct platform_host){
        .accept = host_accept, .feedback = host_feedback, .reset_session = host_reset, .arg = e};
}
