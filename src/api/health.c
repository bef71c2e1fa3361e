/* Health, metrics, the OpenAPI document. persistence-and-ops.md §13. */
#include "api/api_private.h"
#include "api/routes.h"

static void put(struct buf *b, const char *before, uint64_t v)
{
    buf_z(b, before);
    buf_u64(b, v);
}

/* Milliseconds, rounded to microseconds. */
static void put_ms(struct buf *b, const char *before, double ms)
{
    uint64_t us = (uint64_t)(ms * 1000 + 0.5);
    char rest[4] = {'.', (char)('0' + us / 100 % 10), (char)('0' + us / 10 % 10),
                    (char)('0' + us % 10)};
    put(b, before, us / 1000);
    buf_add(b, rest, sizeof rest);
}

static void put_loop(struct buf *b)
{
    struct task_stats t;
    task_stats_get(&t);
    put(b, "{\"asyncio_tasks\":", t.fibers);
    put_ms(b, ",\"event_loop\":{\"running\":true,\"last_lag_ms\":", t.lag_last_ms);
    put_ms(b, ",\"recent_p95_lag_ms\":", t.lag_p95_ms);
    put_ms(b, ",\"max_lag_ms\":", t.lag_max_ms);
    put(b, "},\"blocking_executor\":{\"max_workers\":", TASK_WORKERS);
    put(b, ",\"max_pending\":", TASK_WORK_PENDING);
    put(b, ",\"running\":", t.work_running);
    put(b, ",\"pending\":", t.work_pending);
    put(b, ",\"completed_total\":", t.work_done);
    put(b, ",\"rejected_total\":", t.work_rejected);
}

static void put_database(struct buf *b, const struct db_stats *d)
{
    put(b, "},\"database\":{\"failures_total\":", d->failures);
    if (d->failing_s == 0) {
        buf_z(b, ",\"works\":true");
        return;
    }
    put(b, ",\"works\":false,\"failing_seconds\":", (uint64_t)d->failing_s);
    put(b, ",\"answers_waiting\":", d->failing_waits);
    put(b, ",\"states_waiting\":", d->owed);
}

/* Written straight into text, and without printf: this is asked often, and by everybody. */
static void put_resources(struct api *a, struct buf *b)
{
    struct db_stats d;
    struct engine_stats e;
    struct http_server_stats h = {0};
    size_t providers = 0, llms = 0, embeddings = 0, rerankers = 0;
    db_stats_get(a->store->db, &d);
    engine_stats_get(a->engine, &e);
    models_counts(a->models, &providers, &llms, &embeddings, &rerankers);
    if (a->server)
        http_server_stats_get(a->server, &h);
    put_loop(b);
    put_database(b, &d);
    put(b, "},\"database_pool\":{\"open\":", d.pool_open);
    put(b, ",\"idle\":", d.pool_idle);
    put(b, ",\"waiting\":", d.pool_waiting);
    put(b, ",\"queued\":", d.queued);
    put(b, ",\"timeouts_total\":", d.timeouts);
    put(b, "},\"query_pool\":{\"queued\":", e.queued);
    put(b, ",\"cached\":", e.sessions);
    put(b, ",\"active_workspaces\":", e.workspaces);
    put(b, "},\"models\":{\"providers\":", providers);
    put(b, ",\"llms\":", llms);
    put(b, ",\"embeddings\":", embeddings);
    put(b, ",\"rerankers\":", rerankers);
    put(b, "},\"runtimes\":{\"bots\":", platform_count(a->platform));
    put(b, ",\"message_aggregation_buffers\":", e.aggregating);
    put(b, ",\"message_aggregation_scopes\":", e.aggregation_scopes);
    put(b, "},\"http\":{\"connections\":", h.connections);
    put(b, ",\"requests_running\":", h.requests_running);
    put(b, ",\"websockets\":", h.websockets);
    buf_z(b, "}}");
}

static void healthz(struct http_request *r)
{
    auto_buf b = BUF(1 << 16);
    (void)buf_reserve(&b, 1024); /* mostly enough; and if it fails, so does what follows */
    buf_z(&b, "{\"code\":0,\"msg\":\"ok\",\"resources\":");
    put_resources(api_of(r), &b);
    buf_c(&b, '}');
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
    gauge(&b, "parley_loop_lag_seconds", "Loop lag, 95th percentile of recent samples",
          t.lag_p95_ms / 1000);
    gauge(&b, "parley_queries_open", "Messages accepted and not yet answered", (double)e.queued);
    gauge(&b, "parley_queries_running", "Messages that run through a pipeline now",
          (double)e.running);
    counter(&b, "parley_messages_accepted_total", "Messages accepted", (double)e.accepted);
    counter(&b, "parley_messages_answered_total", "Turns answered", (double)e.answered);
    counter(&b, "parley_messages_failed_total", "Turns that ended with an error", (double)e.failed);
    counter(&b, "parley_messages_refused_total", "Messages refused because too many waited",
            (double)e.refused);
    counter(&b, "parley_messages_duplicate_total", "Messages that had been accepted before",
            (double)e.duplicates);
    counter(&b, "parley_db_commits_total", "Commits", (double)d.commits);
    counter(&b, "parley_db_transactions_total", "Transactions", (double)d.transactions);
    gauge(&b, "parley_db_queued", "Transactions that wait", (double)d.queued);
    gauge(&b, "parley_db_failing", "1 while the database takes no writes", d.failing_s > 0);
    gauge(&b, "parley_db_waiting", "Answers and states that wait for a database that fails",
          (double)(d.failing_waits + d.owed));
    counter(&b, "parley_db_failures_total", "Times that the database began to fail",
            (double)d.failures);
    gauge(&b, "parley_bots", "Loaded bots", (double)platform_count(a->platform));
    gauge(&b, "parley_web_chats", "Open web chats",
          (double)webchat_count(platform_webchat(a->platform)));
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
    {.method = HTTP_M_GET,
     .pattern = "/healthz",
     .auth = AUTH_NONE,
     .permission = PERM_NONE,
     .handler = healthz,
     .summary = "Liveness and counters"},
    {.method = HTTP_M_GET,
     .pattern = "/metrics",
     .auth = AUTH_NONE,
     .permission = PERM_NONE,
     .handler = metrics,
     .summary = "Metrics for Prometheus"},
    {.method = HTTP_M_GET,
     .pattern = "/api/v1/openapi.json",
     .auth = AUTH_NONE,
     .permission = PERM_NONE,
     .handler = openapi,
     .summary = "This document"},
    {.pattern = NULL},
};
