/* One query from the lane to its end: builds it, walks the stages, reports. pipeline.md §6.2. */
#include "pipeline/engine.h"

enum { QUERY_ARENA_MAX = 256 << 20 };

struct query *run_query(struct run *r)
{
    return r->query;
}

struct engine *run_engine(struct run *r)
{
    return r->engine;
}

void run_keep(json_t **slot, json_t *stolen)
{
    json_t *old = *slot;
    *slot = stolen;
    json_decref(old);
}

static bool walk(struct run *r, size_t i, struct error *err);

/* The notices of a result (§6.2). */
static bool give_notices(struct run *r, const struct stage_result *res, struct error *err)
{
    if (res->debug_notice)
        log_debug("query", "%s", res->debug_notice);
    if (res->console_notice)
        log_info("query", "query=%lld stage=%s %s", (long long)r->query->id,
                 r->pipe->stages[r->at]->name, res->console_notice);
    if (res->error_notice) {
        log_error("query", "bot=%s pipeline=%s session=%s %s", r->query->bot_uuid,
                  r->query->pipeline_uuid, query_session_name(r->query), res->error_notice);
        watch_stage_error(r, res->error_notice, res->debug_notice);
    }
    if (res->user_notice)
        return turn_notice(r, res->user_notice, res->verdict == STAGE_INTERRUPT, err);
    return true;
}

/* After each stage, and each part of a stream: may the workspace still run? */
static bool still_placed(struct run *r, struct error *err)
{
    uint64_t now = fence_changes(r->engine->fence);
    if (r->fence_seen == now)
        return true;
    if (!fence_check(r->engine->fence, &r->query->scope, err))
        return false;
    r->fence_seen = now;
    return true;
}

/* A sub-result of a stream stage: all following stages run before the stage goes on. */
static bool next_result(struct run *r, const struct stage_result *res, struct error *err)
{
    size_t at = r->at;
    bool ok = give_notices(r, res, err);
    if (ok && res->verdict == STAGE_CONTINUE)
        ok = walk(r, at + 1, err);
    if (ok) /* on failure it names the stage that failed */
        r->at = at;
    return ok && still_placed(r, err);
}

static bool walk(struct run *r, size_t i, struct error *err)
{
    for (; r->pipe->stages[i]; i++) {
        const struct stage *s = r->pipe->stages[i];
        r->at = i;
        if (s->stream)
            return s->stream(r, next_result, err);
        struct stage_result res = {0};
        if (!s->process(r, &res, err) || !give_notices(r, &res, err))
            return false;
        if (!still_placed(r, err))
            return false;
        if (res.verdict == STAGE_INTERRUPT)
            return true;
    }
    return true;
}

static struct query *query_new(struct engine *e, struct pending *p, struct bot *b,
                               const struct pipe *pipe, struct arena *a, struct error *err)
{
    struct query *q = arena_new_of(a, struct query);
    if (!q) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    q->arena = a;
    q->id = e->next_query++;
    uuid4(q->uuid);
    q->scope = p->scope;
    q->bot_uuid = str_z(a, str_c(p->bot));
    q->bot_name = str_z(a, str_c(bot_name(b)));
    q->pipeline_uuid = str_z(a, str_c(pipe->uuid));
    q->pipeline_name = str_z(a, str_c(pipe->name));
    q->adapter_name = bot_adapter(b)->class_name;
    if (!event_of_json(a, p->event, &q->event, err))
        return NULL;
    q->launcher_id = str_z(a, str_c(p->launcher_id));
    q->chain = q->event.chain;
    q->routed_by_rule = p->routed;
    q->inbound_ids = p->ids;
    q->message_id = json_string_value(json_array_get(p->ids, 0));
    q->reply_context = p->context;
    q->stream_wanted = !p->no_stream && bot_streams(b);
    q->config = pipe->config;
    q->variables = arena_json(a, json_pack("{s:b}", "_routed_by_rule", (int)p->routed));
    q->responses = arena_json(a, json_array());
    q->bot = b;
    q->started_us = time_mono_us();
    if (!q->variables || !q->responses || arena_failed(a)) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    return q;
}

static void run_end(struct run *r, bool ok, const struct error *err)
{
    struct engine *e = r->engine;
    struct query *q = r->query;
    if (ok) {
        if (!q->has_error)
            watch_success(r);
        if (!r->committed)
            turn_close(r, "done", NULL);
        e->stats.answered += r->answered;
        return;
    }
    if (err->code == ERR_CANCELED) {
        log_info("query", "query=%lld stopped; its message stays in the ledger id=%s",
                 (long long)q->id, q->message_id);
        return;
    }
    e->stats.failed++;
    log_error("query", "bot=%s pipeline=%s session=%s stage=%s: %s", q->bot_uuid, q->pipeline_uuid,
              query_session_name(q), r->pipe->stages[r->at] ? r->pipe->stages[r->at]->name : "?",
              err->msg);
    watch_uncaught(r, err);
    if (!r->committed)
        turn_close(r, "failed", err->msg);
}

static struct bot *__attribute__((noinline)) bot_of(struct engine *e, const struct pending *p)
{
    struct bot *b = platform_bot(e->platform, &p->scope, p->bot);
    if (b || strcmp(p->bot, "websocket-proxy-bot") != 0)
        return b;
    struct error err = {0};
    return platform_proxy_bot(e->platform, &p->scope, &err);
}

static void drop(struct engine *e, struct pending *p, const char *why)
{
    log_warn("query", "message dropped id=%s bot=%s: %s",
             json_string_value(json_array_get(p->ids, 0)), p->bot, why);
    struct run r = {.engine = e, .pending = p};
    turn_close(&r, "discarded", why);
}

static void run_free(struct run *r)
{
    record_let_go(&r->asked);
    if (r->session)
        session_release(r->engine, r->session);
    model_unref(r->model);
    json_decref(r->conversation);
    json_decref(r->response);
    json_decref(r->out_chain);
    json_decref(r->last_out);
}

/* The pipeline; a database that fails is waited for. Not a part of its caller's frame, below which the whole run waits. */
static struct pipe *__attribute__((noinline))
pipe_of(struct engine *e, const struct pending *p, struct error *err)
{
    struct db_retry again = {0};
    struct pipe *pipe;
    while (!(pipe = pipe_get(e, &p->scope, p->pipeline, err)))
        if (!db_again(e->store->db, &again, err))
            return NULL;
    db_worked(e->store->db, &again);
    return pipe;
}

/* Why nothing was run: what cannot be run at all is closed, the rest stays in the ledger for the next start. */
static void not_run(struct engine *e, struct pending *p, const struct error *err)
{
    if (err->code == ERR_NOT_FOUND)
        drop(e, p, *p->pipeline ? "its pipeline no longer exists" : "the bot has no pipeline");
    else if (err->code == ERR_INVALID)
        drop(e, p, err->msg);
    else if (err->code != ERR_CANCELED)
        log_error("query", "a message was not answered and waits for the next start id=%s: %s",
                  json_string_value(json_array_get(p->ids, 0)), err->msg);
}

void run_pending(struct engine *e, struct pending *p)
{
    struct error err = {0};
    struct arena *a = NULL;
    struct pipe *pipe = NULL;
    struct bot *b = NULL;
    if (!fence_check(e->fence, &p->scope, &err)) {
        log_info("query", "message dropped: %s", err.msg);
    } else if (!(b = bot_of(e, p))) {
        drop(e, p, "its bot no longer exists");
    } else if (!(pipe = pipe_of(e, p, &err))) {
        not_run(e, p, &err);
    } else if (!(a = arena_new(QUERY_ARENA_MAX))) {
        err_set(&err, ERR_NOMEM, "out of memory");
        not_run(e, p, &err);
    } else {
        struct run r = {.engine = e, .pending = p, .pipe = pipe, .bot = b};
        r.query = query_new(e, p, b, pipe, a, &err);
        if (!r.query) {
            not_run(e, p, &err);
        } else {
            json_decref(steal(p->event)); /* the query has its own form of it */
            r.streams = r.query->stream_wanted;
            list_push(&e->active, &r.node);
            watch_start(&r);
            bool ok = walk(&r, 0, &err);
            run_end(&r, ok, &err);
            list_del(&r.node);
        }
        run_free(&r);
    }
    arena_free(a);
    pipe_unref(pipe);
    pending_free(p);
}
