/* Models: three groups of the same routes. http-api.md §10. */
#include "api/api_private.h"
#include "api/routes.h"

static enum model_kind kind_of(const struct http_request *r)
{
    const char *p = r->route->pattern + sizeof "/api/v1/provider/models/" - 1;
    return *p == 'l' ? MODEL_LLM : *p == 'e' ? MODEL_EMBEDDING : MODEL_RERANK;
}

static void list(struct http_request *r)
{
    struct error err = {0};
    bool secrets;
    if (!api_secrets(r, &secrets))
        return;
    struct str provider = http_query(r, "provider_uuid");
    json_t *rows = model_list(api_of(r)->models, api_scope(r), kind_of(r),
                              provider.n ? str_z(r->arena, provider) : NULL, secrets, &err);
    if (rows)
        api_ok(r, json_pack("{s:o}", "models", rows));
    else
        api_error(r, &err);
}

static void create(struct http_request *r)
{
    struct error err = {0};
    char uuid[UUID_SIZE];
    if (model_create(api_of(r)->models, api_scope(r), kind_of(r), api_body(r), uuid, &err))
        api_ok(r, json_pack("{s:s}", "uuid", uuid));
    else
        api_error(r, &err);
}

static void get(struct http_request *r)
{
    struct error err = {0};
    bool secrets;
    if (!api_secrets(r, &secrets))
        return;
    json_t *row =
        model_get_row(api_of(r)->models, api_scope(r), kind_of(r), api_param(r, 0), secrets, &err);
    if (row)
        api_ok(r, json_pack("{s:o}", "model", row));
    else if (err.code == ERR_NOT_FOUND) /* reading has words of its own (providers.md §2) */
        api_fail(r, 404, NULL, "model not found");
    else
        api_error(r, &err);
}

static void done(struct http_request *r, bool ok, const struct error *err)
{
    if (ok)
        api_ok(r, NULL);
    else
        api_error(r, err);
}

static void update(struct http_request *r)
{
    struct error err = {0};
    done(r,
         model_update(api_of(r)->models, api_scope(r), kind_of(r), api_param(r, 0), api_body(r),
                      &err),
         &err);
}

static void delete_one(struct http_request *r)
{
    struct error err = {0};
    done(r, model_delete(api_of(r)->models, api_scope(r), kind_of(r), api_param(r, 0), &err), &err);
}

static void test(struct http_request *r)
{
    struct error err = {0};
    bool ok =
        model_test(api_of(r)->models, api_scope(r), kind_of(r), api_param(r, 0), api_body(r), &err);
    if (!ok && (err.code == ERR_UPSTREAM || err.code == ERR_TIMEOUT || err.code == ERR_TOO_LARGE)) {
        /* The provider's own words stay in the log (providers.md §12). */
        err.code = ERR_INTERNAL;
        err.tag = NULL;
    }
    done(r, ok, &err);
}

#define FIELDS(req)                                                                  \
    {.name = "name", .type = HTTP_STR, .required = (req), .min = (req), .max = 255}, \
        {.name = "provider_uuid", .type = HTTP_STR, .nullable = true, .max = 255},   \
        {.name = "provider",                                                         \
         .type = HTTP_OBJ,                                                           \
         .nullable = true,                                                           \
         .help = "{uuid} or {requester, base_url, api_keys}"},                       \
        {.name = "extra_args", .type = HTTP_OBJ, .nullable = true},                  \
    {                                                                                \
        .name = "prefered_ranking", .type = HTTP_INT                                 \
    }
#define LLM_FIELDS                                                     \
    {.name = "abilities", .type = HTTP_ARR, .max = 64},                \
        {.name = "context_length",                                     \
         .type = HTTP_INT,                                             \
         .nullable = true,                                             \
         .min = 1,                                                     \
         .max = 1000000000},                                           \
    {                                                                  \
        .name = "reasoning_config", .type = HTTP_ANY, .nullable = true \
    }
static const struct http_field f_llm[] = {FIELDS(true), LLM_FIELDS, {.name = NULL}};
static const struct http_field f_llm_put[] = {FIELDS(false), LLM_FIELDS, {.name = NULL}};
static const struct http_field f_other[] = {FIELDS(true), {.name = NULL}};
static const struct http_field f_other_put[] = {FIELDS(false), {.name = NULL}};

#define P "/api/v1/provider/models/"
#define GROUP(kind, make, change)                                                     \
    {.method = HTTP_M_GET,                                                            \
     .pattern = P kind,                                                               \
     .auth = AUTH_EITHER,                                                             \
     .permission = PERM_RESOURCE_VIEW,                                                \
     .handler = list,                                                                 \
     .query = "provider_uuid,include_secret",                                         \
     .summary = "Models: " kind},                                                     \
        {.method = HTTP_M_POST,                                                       \
         .pattern = P kind,                                                           \
         .auth = AUTH_EITHER,                                                         \
         .permission = PERM_PROVIDER_SECRET_MANAGE,                                   \
         .handler = create,                                                           \
         .body = HTTP_BODY_JSON,                                                      \
         .fields = make,                                                              \
         .summary = "Creates a model: " kind},                                        \
        {.method = HTTP_M_GET,                                                        \
         .pattern = P kind "/{uuid}",                                                 \
         .auth = AUTH_EITHER,                                                         \
         .permission = PERM_RESOURCE_VIEW,                                            \
         .handler = get,                                                              \
         .query = "include_secret",                                                   \
         .summary = "One model: " kind},                                              \
        {.method = HTTP_M_PUT,                                                        \
         .pattern = P kind "/{uuid}",                                                 \
         .auth = AUTH_EITHER,                                                         \
         .permission = PERM_PROVIDER_SECRET_MANAGE,                                   \
         .handler = update,                                                           \
         .body = HTTP_BODY_JSON,                                                      \
         .fields = change,                                                            \
         .summary = "Changes a model: " kind},                                        \
        {.method = HTTP_M_DELETE,                                                     \
         .pattern = P kind "/{uuid}",                                                 \
         .auth = AUTH_EITHER,                                                         \
         .permission = PERM_RESOURCE_MANAGE,                                          \
         .handler = delete_one,                                                       \
         .summary = "Deletes a model: " kind},                                        \
    {                                                                                 \
        .method = HTTP_M_POST, .pattern = P kind "/{uuid}/test", .auth = AUTH_EITHER, \
        .permission = PERM_PROVIDER_SECRET_MANAGE, .handler = test,                   \
        .body = HTTP_BODY_JSON_LENIENT,                                               \
        .summary = "Tries a model; `_`: the unsaved one of the body: " kind           \
    }
const struct http_route routes_model[] = {
    GROUP("llm", f_llm, f_llm_put),
    GROUP("embedding", f_other, f_other_put),
    GROUP("rerank", f_other, f_other_put),
    {.pattern = NULL},
};
