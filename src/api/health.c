/* Health, metrics, the OpenAPI document. persistence-and-ops.md §13. */
#include "api/api_private.h"
#include "api/routes.h"

static json_t *resources(struct api *a)
{
    struct task_stats t;
    struct db_stats d;
    struct engine_stats e;
    struct http_server_stats h = {0};
    size_t providers = 0, llms = 0, embeddings = 0, rerankers = 0;
    task_stats_get(&t);
    db_stats_get(a->store->db, &d);
    engine_stats_get(a->engine, &e);
    models_counts(a->models, &providers, &llms, &embeddings, &rerankers);
    if (a->server)
        http_server_stats_get(a->server, &h);
    return json_pack("{s:I,s:{s:b,s:f,s:f,s:f},s:{s:i,s:i,s:I,s:I,s:I,s:I},s:{s:I,s:I,s:I},s:{s:I,s:I,s:I,s:I},s:{s:I,s:I,s:I,s:I},s:{s:I,s:I,s:I}}",
                     "asyncio_tasks", (json_int_t)t.fibers, "event_loop", "running", 1, "last_lag_ms", t.lag_last_ms, "recent_p95_lag_ms",
                     t.lag_p95_ms, "max_lag_ms", t.lag_max_ms, "blocking_executor", "max_workers", TASK_WORKERS, "max_pending",
                     TASK_WORK_PENDING, "running", (json_int_t)t.work_running, "pending", (json_int_t)t.work_pending, "completed_total",
                     (json_int_t)t.work_done, "rejected_total", (json_int_t)t.work_rejected, "query_pool", "queued", (json_int_t)e.queued,
                     "cached", (json_int_t)e.sessions, "active_workspaces", (json_int_t)e.workspaces, "models", "providers",
                     (json_int_t)providers, "llms", (json_int_t)llms, "embeddings", (json_int_t)embeddings, "rerankers",
                     (json_int_t)rerankers, "runtimes", "bots", (json_int_t)platform_count(a->platform), "pipelines", (json_int_t)0,
                     "message_aggregation_buffers", (json_int_t)e.aggregating, "message_aggregation_scopes",
                     (json_int_t)e.aggregation_scopes, "http", "connections", (json_int_t)h.connections, "requests_running",
                     (json_int_t)h.requests_running, "websockets", (json_int_t)h.websockets);
}

static void healthz(struct http_request *r)
{
    struct api *a = api_of(r);
    auto_json body = json_pack("{s:i,s:s,s:o}", "code", 0, "msg", "ok", "resources", resources(a));
    auto_buf b = BUF(1 << 16);
    json_put(&b, body);
    http_answer(r, 200, "application/json", buf_view(&b));
}

static void gauge(struct buf *b, const char *name, const char *help, double v)
{
    buf_fmt(b, "# HELP %s %s\n# TYPE %s gauge\n%s %.17g\n", name, help, name, name, v);
}

static void counter(struct buf *b, const char *name, const char *help, double v)
{
    buf_fmt(b, "# HELP %s %s\n# TYPE %s counter\n%s %.17g\n", name, help, name, name, v);
}

static void metrics(struct http_request *r)
{
    struct api *a = api_of(r);
    struct task_stats t;
    struct db_stats d;
    struct engine_stats e;
    task_stats_get(&t);
    db_stats_get(a->store->db, &d);
    engine_stats_get(a->engine, &e);
    auto_buf b = BUF(4 << 20);
    gauge(&b, "parley_fibers", "Live fibers", (double)t.fibers);
    gauge(&b, "parley_loop_lag_seconds", "Loop lag, 95th percentile of recent samples", t.lag_p95_ms / 1000);
    gauge(&b, "parley_queries_open", "Messages accepted and not yet answered", (double)e.queued);
    gauge(&b, "parley_queries_running", "Messages that run through a pipeline now", (double)e.running);
    counter(&b, "parley_messages_accepted_total", "Messages accepted", (double)e.accepted);
    counter(&b, "parley_messages_answered_total", "Turns answered", (double)e.answered);
    counter(&b, "parley_messages_failed_total", "Turns that ended with an error", (double)e.failed);
    counter(&b, "parley_messages_refused_total", "Messages refused because too many waited", (double)e.refused);
    counter(&b, "parley_messages_duplicate_total", "Messages that had been accepted before", (double)e.duplicates);
    counter(&b, "parley_db_commits_total", "Commits", (double)d.commits);
    counter(&b, "parley_db_transactions_total", "Transactions", (double)d.transactions);
    gauge(&b, "parley_db_queued", "Transactions that wait", (double)d.queued);
    gauge(&b, "parley_bots", "Loaded bots", (double)platform_count(a->platform));
    gauge(&b, "parley_web_chats", "Open web chats", (double)webchat_count(platform_webchat(a->platform)));
    if (!metrics_text(&b)) {
        api_fail(r, 500, "internal_error", "Internal server error");
        return;
    }
    http_answer(r, 200, "text/plain; version=0.0.4; charset=utf-8", buf_view(&b));
}

static void openapi(struct http_request *r)
{
    struct api *a = api_of(r);
    if (!a->p->openapi)
        a->p->openapi = openapi_document();
    auto_buf b = BUF(8 << 20);
    json_put(&b, a->p->openapi);
    http_answer(r, 200, "application/json", buf_view(&b));
}

const struct http_route routes_health[] = {
    {.method = HTTP_M_GET, .pattern = "/healthz", .auth = AUTH_NONE, .permission = PERM_NONE, .handler = healthz, .summary = "Liveness and counters"},
    {.method = HTTP_M_GET, .pattern = "/metrics", .auth = AUTH_NONE, .permission = PERM_NONE, .handler = metrics, .summary = "Metrics for Prometheus"},
    {.method = HTTP_M_GET, .pattern = "/api/v1/openapi.json", .auth = AUTH_NONE, .permission = PERM_NONE, .handler = openapi, .summary = "This document"},
    {.pattern = NULL},
};
