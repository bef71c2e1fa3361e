/* API keys. http-api.md §5, §1.7. */
#include "api/api_private.h"
#include "api/routes.h"

enum { SCOPES_MAX = 64 };

static json_t *shown(json_t *row)
{
    json_object_del(row, "key_hash");
    json_set(row, "secret_available", json_false());
    return row;
}

static void list(struct http_request *r)
{
    struct error err = {0};
    json_t *rows = store_do_list(api_of(r)->store, &table_api_keys, api_scope(r), NULL, 0,
                                 "created_at, id", -1, 0, false, &err);
    if (!rows) {
        api_error(r, &err);
        return;
    }
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row)
        shown(row);
    api_ok(r, json_pack("{s:o}", "keys", rows));
}

/* The scopes asked for, or the creator's; NULL: answered. */
static json_t *scopes_of(struct http_request *r)
{
    const json_t *asked = json_object_get(api_body(r), "scopes");
    if (!asked || json_is_null(asked))
        return permset_json(api_principal(r)->permissions);
    if (!json_is_array(asked) || json_array_size(asked) > SCOPES_MAX) {
        api_fail(r, 400, "invalid_api_key", "scopes must be a list of at most %d permissions",
                 SCOPES_MAX);
        return NULL;
    }
    permset set = 0;
    size_t i;
    json_t *name;
    json_array_foreach (asked, i, name) {
        enum permission p;
        if (!json_is_string(name) || !permission_of(str_trim(json_sv(name)), &p)) {
            api_fail(r, 400, "invalid_api_key", "scopes[%zu] is no known permission", i);
            return NULL;
        }
        set |= PERM_BIT(p);
    }
    auto_json sorted = permset_json(set & ~api_principal(r)->permissions);
    if (json_array_size(sorted) > 0) {
        api_fail(r, 403, "permission_denied", "Missing Workspace permission: %s",
                 json_string_value(json_array_get(sorted, 0)));
        return NULL;
    }
    return permset_json(set);
}

static void create(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    struct str name = str_trim(json_s(api_body(r), "name"));
    const json_t *expiry = json_object_get(api_body(r), "expires_at");
    int64_t until = 0;
    if (name.n == 0) {
        api_fail(r, 400, "invalid_api_key", "Name is required");
        return;
    }
    bool expires = expiry && !json_is_null(expiry) && json_string_length(expiry) > 0;
    if (expiry && !json_is_null(expiry) &&
        (!json_is_string(expiry) || (expires && !time_parse(json_sv(expiry), &until)))) {
        api_fail(r, 400, "invalid_expiry", "expires_at must be an ISO 8601 time");
        return;
    }
    if (expires && until <= time_wall_us()) {
        api_fail(r, 400, "invalid_api_key", "expires_at must lie in the future");
        return;
    }
    json_t *scopes = scopes_of(r);
    if (!scopes)
        return;
    unsigned char secret[32];
    char hash[65], iso[TIME_ISO_SIZE];
    crypto_random(secret, sizeof secret);
    struct str key =
        str_fmt(r->arena, "lbk_" STR_FMT,
                STR_ARG(base64url_encode(r->arena, str_n((char *)secret, sizeof secret))));
    sha256_hex(key, hash);
    auto_json row =
        json_pack("{s:o,s:s,s:s,s:o,s:o}", "name", json_strn(name), "key_hash", hash,
                  "created_by_account_uuid", api_principal(r)->account, "scopes", scopes,
                  "description", json_strn(str_trim(json_s(api_body(r), "description"))));
    if (expires)
        json_set(row, "expires_at", json_string(time_iso(until, iso)));
    json_t *made = store_do_insert(a->store, &table_api_keys, api_scope(r), row, &err);
    if (!made) {
        api_error(r, &err);
        return;
    }
    json_set(shown(made), "key", json_strn(key));
    json_set(made, "secret_available", json_true());
    api_ok(r, json_pack("{s:o,s:b}", "key", made, "secret_available", 1));
}

static bool key_of(struct http_request *r, struct store_eq *out)
{
    int64_t id = 0;
    if (!api_param_id(r, 0, &id)) {
        api_fail(r, 404, "resource_not_found", "Resource not found");
        return false;
    }
    *out = EQ_I("id", id);
    return true;
}

static void get(struct http_request *r)
{
    struct error err = {0};
    struct store_eq key;
    if (!key_of(r, &key))
        return;
    json_t *row =
        store_do_get(api_of(r)->store, &table_api_keys, api_scope(r), &key, 1, false, &err);
    if (row)
        api_ok(r, json_pack("{s:o}", "key", shown(row)));
    else
        api_error(r, &err);
}

static void change(struct http_request *r, const struct store_eq *key, json_t *patch_stolen)
{
    struct error err = {0};
    auto_json patch = patch_stolen;
    if (store_do_update(api_of(r)->store, &table_api_keys, api_scope(r), key, 1, patch, true, &err))
        api_ok(r, NULL);
    else
        api_error(r, &err);
}

static void update(struct http_request *r)
{
    struct store_eq key;
    if (!key_of(r, &key))
        return;
    const json_t *name = json_object_get(api_body(r), "name"),
                 *text = json_object_get(api_body(r), "description");
    if (name && (!json_is_string(name) || str_trim(json_sv(name)).n == 0)) {
        api_fail(r, 400, "invalid_api_key", "Name is required");
        return;
    }
    json_t *patch = json_object();
    if (name)
        json_set(patch, "name", json_strn(str_trim(json_sv(name))));
    if (text)
        json_set(patch, "description", json_strn(str_trim(json_sv(text))));
    change(r, &key, patch);
}

static void revoke(struct http_request *r)
{
    struct store_eq key;
    if (key_of(r, &key))
        change(r, &key, json_pack("{s:s}", "status", "revoked"));
}

static const struct http_field f_create[] = {
    {.name = "name", .type = HTTP_STR, .nullable = true, .max = 255},
    {.name = "description", .type = HTTP_STR, .nullable = true, .max = 512},
    {.name = "scopes",
     .type = HTTP_ANY,
     .help = "a list of permission names; absent: all of the creator's"},
    {.name = "expires_at", .type = HTTP_ANY, .nullable = true, .help = "ISO 8601"},
    {.name = NULL},
};
static const struct http_field f_update[] = {
    {.name = "name", .type = HTTP_STR, .max = 255},
    {.name = "description", .type = HTTP_STR, .nullable = true, .max = 512},
    {.name = NULL}};

#define P      "/api/v1/apikeys"
#define MANAGE .auth = AUTH_USER, .permission = PERM_API_KEY_MANAGE
const struct http_route routes_apikey[] = {
    {.method = HTTP_M_GET, .pattern = P, MANAGE, .handler = list, .summary = "API keys"},
    {.method = HTTP_M_POST,
     .pattern = P,
     MANAGE,
     .handler = create,
     .body = HTTP_BODY_JSON,
     .fields = f_create,
     .summary = "Creates an API key; its secret is shown once"},
    {.method = HTTP_M_GET, .pattern = P "/{id}", MANAGE, .handler = get, .summary = "One API key"},
    {.method = HTTP_M_PUT,
     .pattern = P "/{id}",
     MANAGE,
     .handler = update,
     .body = HTTP_BODY_JSON,
     .fields = f_update,
     .summary = "Renames an API key"},
    {.method = HTTP_M_DELETE,
     .pattern = P "/{id}",
     MANAGE,
     .handler = revoke,
     .summary = "Revokes an API key"},
    {.pattern = NULL},
};
