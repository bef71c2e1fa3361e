/* Pipelines. http-api.md §9. */
#include "api/api_private.h"
#include "api/routes.h"

static bool sees_secrets(const struct http_request *r)
{
    return principal_has(api_principal(r), PERM_RESOURCE_MANAGE);
}

static void reply(struct http_request *r, const char *key, json_t *value, const struct error *err)
{
    if (value)
        api_ok(r, json_pack("{s:o}", key, value));
    else
        api_error(r, err);
}

static void done(struct http_request *r, bool ok, const struct error *err)
{
    if (ok)
        api_ok(r, NULL);
    else
        api_error(r, err);
}

static void list(struct http_request *r)
{
    struct error err = {0};
    struct str order = http_query(r, "sort_order");
    bool down = !order.p || str_eqz(order, "DESC");
    reply(r, "pipelines",
          pipeline_list(api_of(r)->engine, api_scope(r), str_z(r->arena, http_query(r, "sort_by")),
                        down, sees_secrets(r), &err),
          &err);
}

static void create(struct http_request *r)
{
    struct error err = {0};
    char uuid[UUID_SIZE];
    if (pipeline_create(api_of(r)->engine, api_scope(r), api_body(r), uuid, &err))
        api_ok(r, json_pack("{s:s}", "uuid", uuid));
    else
        api_error(r, &err);
}

static void metadata(struct http_request *r)
{
    api_ok(r, json_incref((json_t *)(uintptr_t)pipeline_metadata()));
}

static void get(struct http_request *r)
{
    struct error err = {0};
    json_t *row =
        pipeline_get(api_of(r)->engine, api_scope(r), api_param(r, 0), sees_secrets(r), &err);
    if (!row && err.code == ERR_NOT_FOUND)
        api_fail(r, 404, NULL, "pipeline not found");
    else
        reply(r, "pipeline", row, &err);
}

static void update(struct http_request *r)
{
    struct error err = {0};
    done(r, pipeline_update(api_of(r)->engine, api_scope(r), api_param(r, 0), api_body(r), &err),
         &err);
}

static void delete_one(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    bool ok = pipeline_delete(a->engine, api_scope(r), api_param(r, 0), &err);
    done(r, ok, &err);
}

static void copy(struct http_request *r)
{
    struct error err = {0};
    char uuid[UUID_SIZE];
    if (pipeline_copy(api_of(r)->engine, api_scope(r), api_param(r, 0), uuid, &err))
        api_ok(r, json_pack("{s:s}", "uuid", uuid));
    else if (err.tag && strcmp(err.tag, "workspace_quota_exceeded") == 0)
        api_fail(r, 400, NULL, "%s", err.msg); /* a copy is refused otherwise than a new one (§9) */
    else
        api_error(r, &err);
}

static void extensions(struct http_request *r)
{
    struct error err = {0};
    json_t *e = pipeline_extensions_get(api_of(r)->engine, api_scope(r), api_param(r, 0), &err);
    if (e)
        api_ok(r, e);
    else
        api_error(r, &err);
}

static void extensions_put(struct http_request *r)
{
    struct error err = {0};
    done(r,
         pipeline_extensions_set(api_of(r)->engine, api_scope(r), api_param(r, 0), api_body(r),
                                 &err),
         &err);
}

#define NAME(req)                                                                     \
    {                                                                                 \
        .name = "name", .type = HTTP_STR, .required = (req), .min = (req), .max = 255 \
    }
#define COMMON                                                               \
    {.name = "description", .type = HTTP_STR, .max = 4000},                  \
        {.name = "emoji", .type = HTTP_STR, .nullable = true, .max = 10},    \
    {                                                                        \
        .name = "extensions_preferences", .type = HTTP_OBJ, .nullable = true \
    }
static const struct http_field f_create[] = {
    NAME(true), COMMON, {.name = "is_default", .type = HTTP_ANY}, {.name = NULL}};
static const struct http_field f_update[] = {
    NAME(false), COMMON, {.name = "config", .type = HTTP_OBJ}, {.name = NULL}};
static const struct http_field f_extensions[] = {
    {.name = "bound_plugins", .type = HTTP_ARR, .max = 1000},
    {.name = "bound_mcp_servers", .type = HTTP_ARR, .max = 1000},
    {.name = "bound_skills", .type = HTTP_ARR, .max = 1000},
    {.name = "bound_mcp_resources", .type = HTTP_ARR, .nullable = true, .max = 1000},
    {.name = "enable_all_plugins", .type = HTTP_BOOL},
    {.name = "enable_all_mcp_servers", .type = HTTP_BOOL},
    {.name = "enable_all_skills", .type = HTTP_BOOL},
    {.name = "mcp_resource_agent_read_enabled", .type = HTTP_BOOL, .nullable = true},
    {.name = NULL},
};

#define P      "/api/v1/pipelines"
#define VIEW   .auth = AUTH_EITHER, .permission = PERM_RESOURCE_VIEW
#define MANAGE .auth = AUTH_EITHER, .permission = PERM_RESOURCE_MANAGE
const struct http_route routes_pipeline[] = {
    {.method = HTTP_M_GET,
     .pattern = P,
     VIEW,
     .handler = list,
     .query = "sort_by,sort_order",
     .summary = "Pipelines"},
    {.method = HTTP_M_POST,
     .pattern = P,
     MANAGE,
     .handler = create,
     .body = HTTP_BODY_JSON,
     .fields = f_create,
     .summary = "Creates a pipeline"},
    {.method = HTTP_M_GET,
     .pattern = P "/_/metadata",
     VIEW,
     .handler = metadata,
     .summary = "Forms of the configuration"},
    {.method = HTTP_M_GET, .pattern = P "/{uuid}", VIEW, .handler = get, .summary = "One pipeline"},
    {.method = HTTP_M_PUT,
     .pattern = P "/{uuid}",
     MANAGE,
     .handler = update,
     .body = HTTP_BODY_JSON,
     .fields = f_update,
     .summary = "Changes a pipeline"},
    {.method = HTTP_M_DELETE,
     .pattern = P "/{uuid}",
     MANAGE,
     .handler = delete_one,
     .summary = "Deletes a pipeline"},
    {.method = HTTP_M_POST,
     .pattern = P "/{uuid}/copy",
     MANAGE,
     .handler = copy,
     .summary = "Copies a pipeline"},
    {.method = HTTP_M_GET,
     .pattern = P "/{uuid}/extensions",
     VIEW,
     .handler = extensions,
     .summary = "Extensions bound to a pipeline"},
    {.method = HTTP_M_PUT,
     .pattern = P "/{uuid}/extensions",
     MANAGE,
     .handler = extensions_put,
     .body = HTTP_BODY_JSON,
     .fields = f_extensions,
     .summary = "Binds extensions"},
    {.pattern = NULL},
};
