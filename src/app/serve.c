/* `parley serve`: builds the parts from the bottom up, runs until a signal, stops them from the top down. */
#include "api/api.h"
#include "app/app_private.h"

#include <signal.h>
#include <stdio.h>

enum {
    NETWORKS_MAX = 256,
    HOLD_MS = 10000,
    STALL_MS = 50,
    STOP_HTTP_MS = 1000,
    STOP_QUERIES_MS = 1500
};

/* Everything that lives as long as the service. Made in this order, ended in the reverse one. */
struct service {
    const struct app_options *options;
    struct config *config;
    struct logfiles *logs;
    struct fence *fence;
    struct objects *objects;
    struct store store;
    bool store_open, client_open, api_open;
    struct task_group *group, *jobs_group;
    struct models *models;
    struct tools *tools;
    struct engine *engine;
    struct platform *platform;
    struct jobs *jobs;
    struct ops_env ops;
    struct api api;
    struct http_server *server;
};

static bool start_base(struct service *s, struct error *err)
{
    s->config = config_load(s->options->data_dir, NULL, err);
    if (!s->config)
        return false;
    auto_arena a = arena_new(64 << 10);
    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory");
    s->logs = logfiles_new(config_path(s->config, a, "logs"), err);
    if (!s->logs)
        return false;
    s->fence = fence_new(config_instance_id(s->config));
    if (!s->fence)
        return err_set(err, ERR_NOMEM, "out of memory");
    s->objects = objects_new(config_path(s->config, a, "storage"),
                             config_int_in(s->config, "storage.max_object_read_bytes", 1, 64 << 20),
                             config_instance_id(s->config), s->fence, err);
    if (!s->objects || !app_open_store(s->config, &s->store, err))
        return false;
    s->store_open = true;
    return db_hold(s->store.db, HOLD_MS, err) && store_start(&s->store, err) &&
           identity_load_fence(&s->store, s->fence, err);
}

static bool start_client(struct service *s, struct error *err)
{
    auto_json nets = config_list(s->config, "system.outbound.allowed_private_networks");
    const char *allowed[NETWORKS_MAX + 1] = {NULL};
    struct http_client_opts o = {
        .proxy_http = config_str(s->config, "proxy.http"),
        .proxy_https = config_str(s->config, "proxy.https"),
        .refuse_private = config_bool(s->config, "system.outbound.refuse_private_addresses"),
        .allow_private = allowed,
    };
    size_t i, n = json_array_size(nets);
    json_t *net;
    if (n > NETWORKS_MAX)
        return err_set(err, ERR_INVALID,
                       "system.outbound.allowed_private_networks may name %d networks",
                       NETWORKS_MAX);
    json_array_foreach (nets, i, net)
        allowed[i] = json_string_value(net);
    s->client_open = http_client_init(&o, err);
    return s->client_open ||
           (n ? err_wrap(err, "system.outbound.allowed_private_networks") : false);
}

static bool start_engine(struct service *s, struct error *err)
{
    s->models = models_new(&s->store, s->config, err);
    if (!s->models)
        return false;
    struct tools_opts t = {.config = s->config, .store = &s->store};
    s->tools = tools_new(&t, err);
    if (!s->tools)
        return false;
    struct engine_opts e = {.store = &s->store,
                            .config = s->config,
                            .fence = s->fence,
                            .models = s->models,
                            .tools = s->tools,
                            .group = s->group};
    s->engine = engine_new(&e, err);
    if (!s->engine)
        return false;
    struct platform_opts p = {.store = &s->store,
                              .config = s->config,
                              .fence = s->fence,
                              .objects = s->objects,
                              .host = engine_host(s->engine),
                              .group = s->group};
    s->platform = platform_new(&p, err);
    if (!s->platform)
        return false;
    engine_attach(s->engine, s->platform);
    return platform_start(s->platform, err);
}

static bool start_api(struct service *s, struct error *err)
{
    s->jobs = jobs_new(s->config, s->jobs_group);
    if (!s->jobs)
        return err_set(err, ERR_NOMEM, "out of memory");
    s->ops = (struct ops_env){.store = &s->store,
                              .config = s->config,
                              .fence = s->fence,
                              .jobs = s->jobs,
                              .objects = s->objects,
                              .logs = s->logs};
    s->api = (struct api){.store = &s->store,
                          .config = s->config,
                          .fence = s->fence,
                          .models = s->models,
                          .tools = s->tools,
                          .engine = s->engine,
                          .platform = s->platform,
                          .jobs = s->jobs,
                          .objects = s->objects,
                          .logs = s->logs,
                          .ops = &s->ops,
                          .debug = s->options->debug};
    s->api_open = api_init(&s->api, err);
    if (!s->api_open)
        return false;
    struct http_server_opts o;
    api_server_opts(&s->api, &o);
    s->server = http_server_new(&o, err);
    s->api.server = s->server;
    return s->server != NULL;
}

static bool start(struct service *s, struct error *err)
{
    s->group = task_group_new(NULL, "service");
    s->jobs_group = task_group_new(s->group, "jobs");
    if (!s->group || !s->jobs_group)
        return err_set(err, ERR_NOMEM, "out of memory");
    /* What the ledger holds is taken up before the port opens: a message that came in between would be found there and run twice, and
     * answers that wait go before new ones of their session. */
    return start_base(s, err) && start_client(s, err) && start_engine(s, err) &&
           engine_start(s->engine, err) && start_api(s, err) &&
           task_spawn(s->jobs_group, "maintenance", maintenance_run, &s->ops, err);
}

static void stop(struct service *s)
{
    /* No new messages; what runs may end; the ledger keeps the rest (design.md §1.2). Within 5 s in all. */
    if (s->server)
        http_server_stop(s->server, STOP_HTTP_MS);
    if (s->engine)
        engine_stop(s->engine, STOP_QUERIES_MS);
    if (s->platform)
        platform_stop(s->platform);
    if (s->jobs)
        jobs_free(s->jobs);
    if (s->api_open)
        api_end(&s->api);
    task_group_free(s->jobs_group);
    engine_free(s->engine);
    if (s->platform)
        platform_free(s->platform);
    tools_free(s->tools);
    models_free(s->models);
    task_group_free(s->group);
    if (s->client_open)
        http_client_end();
    if (s->store_open)
        db_close(s->store.db);
    if (s->objects)
        objects_free(s->objects);
    if (s->fence)
        fence_free(s->fence);
    if (s->logs)
        logfiles_free(s->logs);
    if (s->config)
        config_free(s->config);
    metrics_end();
}

static int serve(void *arg)
{
    struct service s = {.options = arg};
    struct error err = {0};
    int status = 1;
    const uint32_t stops = 1u << SIGTERM | 1u << SIGINT | 1u << SIGHUP;
    /* Caught before anybody is told that the program is ready: whoever then stops it at once gets an orderly stop. */
    if (start(&s, &err) && task_signal_catch(stops, &err)) {
        log_info("app", "parley %s serves http://127.0.0.1:%u data=%s database=%s", PARLEY_VERSION,
                 http_server_port(s.server), config_data_dir(s.config),
                 config_str(s.config, "database.use"));
        printf("Parley is ready: http://127.0.0.1:%u\n", http_server_port(s.server));
        fflush(stdout);
        task_watchdog_start(STALL_MS);
        int sig = task_signal_wait(stops, &err);
        log_info("app", "stopping: signal %d", sig);
        status = 0;
    } else {
        log_error("app", "parley cannot start: %s", err.msg);
    }
    stop(&s);
    if (status == 0)
        log_info("app", "stopped");
    return status;
}

int app_serve(const struct app_options *o)
{
    log_setup(o->debug ? LOG_DEBUG : LOG_INFO, o->json_logs, 2);
    return task_run(serve, (void *)(uintptr_t)o);
}
