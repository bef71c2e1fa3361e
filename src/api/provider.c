/* Model providers and the catalogue of requesters. http-api.md §10. */
#include "api/api_private.h"
#include "api/routes.h"

bool api_secrets(struct http_request *r, bool *shown)
{
    bool asked;
    if (!api_flag(r, "include_secret", true, &asked))
        return false;
    *shown = asked && principal_has(api_principal(r), PERM_PROVIDER_SECRET_MANAGE);
    return true;
}

static void list(struct http_request *r)
{
    struct error err = {0};
    bool secrets;
    if (!api_secrets(r, &secrets))
        return;
    json_t *rows = provider_list(api_of(r)->models, api_scope(r), secrets, &err);
    if (rows)
        api_ok(r, json_pack("{s:o}", "providers", rows));
    else
        api_error(r, &err);
}

static void create(struct http_request *r)
{
    struct error err = {0};
    char uuid[UUID_SIZE];
    if (provider_create(api_of(r)->models, api_scope(r), api_body(r), uuid, &err))
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
    json_t *row = provider_get(api_of(r)->models, api_scope(r), api_param(r, 0), secrets, &err);
    if (row)
        api_ok(r, json_pack("{s:o}", "provider", row));
    else if (err.code == ERR_NOT_FOUND) /* reading has words of its own (providers.md §2) */
        api_fail(r, 404, NULL, "provider not found");
    else
        api_error(r, &err);
}

static void update(struct http_request *r)
{
    struct error err = {0};
    if (provider_update(api_of(r)->models, api_scope(r), api_param(r, 0), api_body(r), &err))
        api_ok(r, NULL);
    else
        api_error(r, &err);
}

static void delete_one(struct http_request *r)
{
    struct error err = {0};
    /* Exactly once and exactly these words: a deletion must not hang on a guess. */
    struct str v = query_get(r->arena, r->query, "cascade");
    bool cascade = str_eqz(v, "true");
    if (query_count(r->query, "cascade") > 1 ||
        (query_count(r->query, "cascade") == 1 && !cascade && !str_eqz(v, "false"))) {
        api_fail(r, 400, NULL, "cascade must be a single true or false value");
        return;
    }
    if (provider_delete(api_of(r)->models, api_scope(r), api_param(r, 0), cascade, &err))
        api_ok(r, NULL);
    else
        api_error(r, &err);
}

/* Marks models that the provider has already. */
static bool mark_known(struct http_request *r, const char *provider, json_t *found,
                       struct error *err)
{
    static const struct {
        const char *type;
        enum model_kind kind;
    } kinds[] = {{"llm", MODEL_LLM}, {"embedding", MODEL_EMBEDDING}, {"rerank", MODEL_RERANK}};
    for (size_t k = 0; k < array_len(kinds); k++) {
        auto_json rows =
            model_list(api_of(r)->models, api_scope(r), kinds[k].kind, provider, false, err);
        auto_json names = json_object();
        size_t i;
        json_t *row, *m;
        if (!rows)
            return false;
        json_array_foreach (rows, i, row)
            json_set(names, json_z_or(row, "name", ""), json_true());
        json_array_foreach (json_object_get(found, "models"), i, m) {
            if (strcmp(json_z_or(m, "type", ""), kinds[k].type) == 0)
                json_set(m, "already_added",
                         json_boolean(json_object_get(names, json_z_or(m, "name", "")) != NULL));
        }
    }
    return true;
}

static void scan(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    struct str type = http_query(r, "type");
    const char *uuid = api_param(r, 0);
    auto_json row = provider_get(a->models, api_scope(r), uuid, true, &err);
    if (!row) {
        api_error(r, &err);
        return;
    }
    if (type.n && !str_eqz(type, "llm") && !str_eqz(type, "embedding") &&
        !str_eqz(type, "rerank")) {
        api_fail(r, 400, NULL, "type must be one of llm, embedding, rerank");
        return;
    }
    auto_json found =
        provider_scan(a->models, api_scope(r), row, type.n ? str_z(r->arena, type) : NULL, &err);
    if (!found) {
        log_warn("model", "scan of provider %s failed: %s", uuid, err.msg);
        api_fail(r, 400, NULL, "%s", err.msg);
        return;
    }
    if (mark_known(r, uuid, found, &err))
        api_ok(r, json_incref(found));
    else
        api_error(r, &err);
}

/* ---- requesters ------------------------------------------------------------------------------------------------------------ */

static void requesters_list(struct http_request *r)
{
    struct str type = http_query(r, "type");
    json_t *all = requester_list(type.n ? str_z(r->arena, type) : NULL);
    api_ok(r, json_pack("{s:o}", "requesters", all ? all : json_array()));
}

static void requester_get(struct http_request *r)
{
    const json_t *m = requester_manifest(api_param(r, 0));
    if (m)
        api_ok(r, json_pack("{s:O}", "requester", m));
    else
        api_fail(r, 404, NULL, "requester not found");
}

static void requester_icon(struct http_request *r)
{
    const json_t *m = requester_manifest(api_param(r, 0));
    const char *icon = json_z(m, "icon");
    const struct base_asset *f =
        icon ? base_asset_find(z_fmt(r->arena, "metadata/requesters/icons/%s", icon)) : NULL;
    if (!f) {
        api_fail(r, 404, NULL, "icon not found");
        return;
    }
    http_answer_header(r, "Cache-Control", S("public, max-age=86400"));
    http_answer_static(r, 200, mime_of_path(str_c(f->path)), f->data, f->size);
}

/* A ChatGPT subscription is signed in to by a device code. Its requester is not in the catalogue, so a provider that exists is always
 * another requester's (§10). */
static void codex(struct http_request *r)
{
    struct error err = {0};
    auto_json row = provider_get(api_of(r)->models, api_scope(r), api_param(r, 0), false, &err);
    if (row)
        api_fail(r, 400, NULL, "The provider is not of the requester openai-codex");
    else
        api_error(r, &err);
}

#define FIELDS(req)                                                                           \
    {.name = "name", .type = HTTP_STR, .required = (req), .min = (req), .max = 255},          \
        {.name = "requester", .type = HTTP_STR, .required = (req), .min = (req), .max = 255}, \
        {.name = "base_url", .type = HTTP_STR, .nullable = true, .max = 512},                 \
    {                                                                                         \
        .name = "api_keys", .type = HTTP_ANY, .help = "a list of keys, or one key"            \
    }
static const struct http_field f_create[] = {FIELDS(true), {.name = NULL}};
static const struct http_field f_update[] = {FIELDS(false), {.name = NULL}};

#define P     "/api/v1/provider/providers"
#define Q     "/api/v1/provider/requesters"
#define CODEX .auth = AUTH_USER, .permission = PERM_PROVIDER_SECRET_MANAGE, .handler = codex
const struct http_route routes_provider[] = {
    {.method = HTTP_M_GET,
     .pattern = P,
     .auth = AUTH_EITHER,
     .permission = PERM_RESOURCE_VIEW,
     .handler = list,
     .query = "include_secret",
     .summary = "Model providers"},
    {.method = HTTP_M_POST,
     .pattern = P,
     .auth = AUTH_EITHER,
     .permission = PERM_PROVIDER_SECRET_MANAGE,
     .handler = create,
     .body = HTTP_BODY_JSON,
     .fields = f_create,
     .summary = "Creates a provider"},
    {.method = HTTP_M_GET,
     .pattern = P "/{uuid}",
     .auth = AUTH_EITHER,
     .permission = PERM_RESOURCE_VIEW,
     .handler = get,
     .query = "include_secret",
     .summary = "One provider"},
    {.method = HTTP_M_PUT,
     .pattern = P "/{uuid}",
     .auth = AUTH_EITHER,
     .permission = PERM_PROVIDER_SECRET_MANAGE,
     .handler = update,
     .body = HTTP_BODY_JSON,
     .fields = f_update,
     .summary = "Changes a provider"},
    {.method = HTTP_M_DELETE,
     .pattern = P "/{uuid}",
     .auth = AUTH_EITHER,
     .permission = PERM_RESOURCE_MANAGE,
     .handler = delete_one,
     .query = "cascade",
     .summary = "Deletes a provider, with its models if cascade is true"},
    {.method = HTTP_M_GET,
     .pattern = P "/{uuid}/scan-models",
     .auth = AUTH_EITHER,
     .permission = PERM_PROVIDER_SECRET_MANAGE,
     .handler = scan,
     .query = "type",
     .summary = "Asks the provider for its models"},
    {.method = HTTP_M_GET,
     .pattern = Q,
     .auth = AUTH_USER,
     .permission = PERM_NONE,
     .handler = requesters_list,
     .query = "type",
     .summary = "Kinds of providers"},
    {.method = HTTP_M_GET,
     .pattern = Q "/{name}",
     .auth = AUTH_USER,
     .permission = PERM_NONE,
     .handler = requester_get,
     .summary = "One kind of provider"},
    {.method = HTTP_M_GET,
     .pattern = Q "/{name}/icon",
     .auth = AUTH_NONE,
     .permission = PERM_NONE,
     .handler = requester_icon,
     .summary = "Its icon"},
    {.method = HTTP_M_GET,
     .pattern = P "/{uuid}/codex/status",
     CODEX,
     .summary = "Whether a ChatGPT subscription is signed in"},
    {.method = HTTP_M_POST,
     .pattern = P "/{uuid}/codex/device",
     CODEX,
     .summary = "Starts signing in a ChatGPT subscription"},
    {.method = HTTP_M_POST,
     .pattern = P "/{uuid}/codex/device/poll",
     CODEX,
     .body = HTTP_BODY_JSON_LENIENT,
     .summary = "Asks how the sign-in goes"},
    {.method = HTTP_M_DELETE,
     .pattern = P "/{uuid}/codex/device/{authorization}",
     CODEX,
     .summary = "Gives the sign-in up"},
    {.method = HTTP_M_DELETE,
     .pattern = P "/{uuid}/codex/auth",
     CODEX,
     .summary = "Signs the ChatGPT subscription out"},
    {.pattern = NULL},
};
