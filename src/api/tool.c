/* Tools that a pipeline's agent may call. http-api.md §11.3. No source of tools is built in yet, so every list is empty. */
#include "api/api_private.h"
#include "api/routes.h"

static void list(struct http_request *r)
{
    struct error err = {0};
    struct str pipeline = http_query(r, "pipeline_uuid");
    if (pipeline.n == 0)
        pipeline = http_query(r, "pipeline_id");
    if (pipeline.n) {
        struct store_eq key = EQ_S("uuid", pipeline);
        auto_json row =
            store_do_get(api_of(r)->store, &table_pipelines, api_scope(r), &key, 1, false, &err);
        if (!row && err.code == ERR_NOT_FOUND) {
            api_fail(r, 404, NULL, "pipeline not found");
            return;
        }
        if (!row) {
            api_error(r, &err);
            return;
        }
    }
    api_ok(r, json_pack("{s:[]}", "tools"));
}

static void get(struct http_request *r)
{
    api_fail(r, 404, NULL, "Tool not found: " STR_FMT, STR_ARG(http_param(r, 0)));
}

#define P "/api/v1/tools"
const struct http_route routes_tool[] = {
    {.method = HTTP_M_GET,
     .pattern = P,
     .auth = AUTH_USER,
     .permission = PERM_RESOURCE_VIEW,
     .handler = list,
     .query = "pipeline_uuid,pipeline_id",
     .summary = "Tools that an agent may call"},
    {.method = HTTP_M_GET,
     .pattern = P "/{name}",
     .auth = AUTH_USER,
     .permission = PERM_RESOURCE_VIEW,
     .handler = get,
     .summary = "One tool"},
    {.pattern = NULL},
};
