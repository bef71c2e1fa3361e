/* Tools that a pipeline's agent may call. http-api.md §11.3, tools-mcp-skills.md A4. */
#include "api/api_private.h"
#include "api/routes.h"

/* The catalogue of the request's workspace, of one pipeline where `preferences` are given; NULL: answered. */
static struct catalogue *catalogue_of(struct http_request *r, const json_t *preferences)
{
    struct error err = {0};
    struct tool_ask ask = {.scope = *api_scope(r), .skill_tools = true};
    tool_ask_bind(&ask, preferences);
    struct catalogue *c = catalogue_new(api_of(r)->tools, &ask, r->arena, &err);
    if (!c)
        api_error(r, &err);
    return c;
}

static void list(struct http_request *r)
{
    struct error err = {0};
    auto_json row = NULL;
    struct str pipeline = http_query(r, "pipeline_uuid");
    if (pipeline.n == 0)
        pipeline = http_query(r, "pipeline_id");
    if (pipeline.n) {
        struct store_eq key = EQ_S("uuid", pipeline);
        row = store_do_get(api_of(r)->store, &table_pipelines, api_scope(r), &key, 1, false, &err);
        if (!row && err.code == ERR_NOT_FOUND) {
            api_fail(r, 404, NULL, "pipeline not found");
            return;
        }
        if (!row) {
            api_error(r, &err);
            return;
        }
    }
    struct catalogue *c = catalogue_of(r, json_object_get(row, "extensions_preferences"));
    if (c)
        api_ok(r, catalogue_rows(c));
}

static void get(struct http_request *r)
{
    struct catalogue *c = catalogue_of(r, NULL);
    if (!c)
        return;
    json_t *tool = catalogue_row(c, http_param(r, 0));
    if (tool)
        api_ok(r, json_pack("{s:o}", "tool", tool));
    else
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
