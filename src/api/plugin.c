/* What is answered about plugins where none can be installed: http-api.md §6, §11.1. */
#include "api/api_private.h"
#include "api/routes.h"

static void status(struct http_request *r)
{
    api_ok(r, json_pack("{s:b,s:b,s:s}", "is_enable", 0, "is_connected", 0,
                        "plugin_connector_error", "This build has no plugin runtime"));
}

static void debug_action(struct http_request *r)
{
    static const char text[] =
        "{\"code\":403,\"msg\":\"Plugin actions can be called in debug mode only\"}";
    if (api_of(r)->debug)
        api_fail(r, 400, NULL, "This build has no plugin runtime");
    else
        http_answer_static(r, 403, "application/json", text, sizeof text - 1);
}

static json_t *removal(struct job *job, void *arg, struct error *err)
{
    auto_mem char *name = arg;
    job_log(job, "delete", "%s is not installed", name);
    err_set(err, ERR_NOT_FOUND, "%s is not installed", name);
    return NULL;
}

/* A task like any other removal; it ends with that the plugin is not there. */
static void delete_one(struct http_request *r)
{
    struct error err = {0};
    const char *name =
        z_fmt(r->arena, STR_FMT "/" STR_FMT, STR_ARG(http_param(r, 0)), STR_ARG(http_param(r, 1)));
    char *own = mem_strndup(name, strlen(name));
    const struct job *job =
        own ? job_start(api_of(r)->jobs, api_scope(r), "plugin-operation",
                        z_fmt(r->arena, "plugin-remove-%s", name),
                        z_fmt(r->arena, "Removing plugin %s", name), removal, own, &err)
            : NULL;
    if (job) {
        api_ok(r, json_pack("{s:I}", "task_id", (json_int_t)job_id(job)));
        return;
    }
    mem_free(own);
    if (err.code == ERR_NONE)
        err_set(&err, ERR_NOMEM, "out of memory");
    api_error(r, &err);
}

const struct http_route routes_plugin[] = {
    {.method = HTTP_M_GET,
     .pattern = "/api/v1/system/status/plugin-system",
     .auth = AUTH_USER,
     .permission = PERM_RESOURCE_VIEW,
     .handler = status,
     .summary = "Whether plugins work"},
    {.method = HTTP_M_POST,
     .pattern = "/api/v1/system/debug/plugin/action",
     .auth = AUTH_USER,
     .permission = PERM_RUNTIME_OPERATE,
     .handler = debug_action,
     .body = HTTP_BODY_JSON_LENIENT,
     .summary = "Calls an action of the plugin runtime, in debug mode"},
    {.method = HTTP_M_DELETE,
     .pattern = "/api/v1/plugins/{author}/{name}",
     .auth = AUTH_EITHER,
     .permission = PERM_RESOURCE_MANAGE,
     .handler = delete_one,
     .summary = "Removes a plugin"},
    {.pattern = NULL},
};
