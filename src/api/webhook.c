/* Outbound message webhooks. http-api.md §11.6. */
#include "api/api_private.h"
#include "api/routes.h"

static json_t *shown(const struct http_request *r, json_t *row)
{
    if (!principal_has(api_principal(r), PERM_RESOURCE_MANAGE))
        json_set(row, "url", json_string("***"));
    return row;
}

static void list(struct http_request *r)
{
    struct error err = {0};
    json_t *rows = store_do_list(api_of(r)->store, &table_webhooks, api_scope(r), NULL, 0,
                                 "created_at DESC, id DESC", -1, 0, false, &err);
    if (!rows) {
        api_error(r, &err);
        return;
    }
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row)
        shown(r, row);
    api_ok(r, json_pack("{s:o}", "webhooks", rows));
}

struct create {
    struct api *api;
    const struct scope *scope;
    const json_t *body;
    json_t *row;
};

static bool do_create(struct db_tx *tx, void *arg, struct error *err)
{
    struct create *c = arg;
    int64_t n = 0, most = config_int_in(c->api->config, "webhooks.max_per_workspace", 1, 64);
    if (!store_count(tx, &table_webhooks, c->scope, NULL, 0, &n, err))
        return false;
    if (n >= most)
        return err_set(err, ERR_INVALID, "Maximum number of webhooks (%lld) reached",
                       (long long)most);
    auto_json row = json_pack("{s:O,s:O,s:s,s:b}", "name", json_object_get(c->body, "name"), "url",
                              json_object_get(c->body, "url"), "description",
                              json_z_or(c->body, "description", ""), "enabled",
                              (int)json_b_or(c->body, "enabled", true));
    c->row = store_insert(tx, c->api->store, &table_webhooks, c->scope, row, err);
    return c->row != NULL;
}

/* http or https with a host; false: answered. */
static bool url_ok(struct http_request *r, struct str url)
{
    struct url u;
    struct error err = {0};
    if (url_parse(url, &u, &err) && (str_eqz(u.scheme, "http") || str_eqz(u.scheme, "https")))
        return true;
    api_fail(r, 400, NULL, "url must be an http or https address of at most 1024 characters");
    return false;
}

static void create(struct http_request *r)
{
    struct error err = {0};
    struct str name = str_trim(json_s(api_body(r), "name")), url = json_s(api_body(r), "url");
    if (name.n == 0 || url.n == 0) {
        api_fail(r, 400, NULL, name.n == 0 ? "Name is required" : "URL is required");
        return;
    }
    if (!url_ok(r, url))
        return;
    struct create c = {.api = api_of(r), .scope = api_scope(r), .body = api_body(r)};
    if (db_write(c.api->store->db, scope_db(c.scope), do_create, &c, &err))
        api_ok(r, json_pack("{s:o}", "webhook", c.row));
    else
        api_error(r, &err);
}

static bool key_of(struct http_request *r, struct store_eq *key)
{
    int64_t id = 0;
    if (!api_param_id(r, 0, &id)) {
        api_fail(r, 404, NULL, "Webhook not found");
        return false;
    }
    *key = EQ_I("id", id);
    return true;
}

static void refuse(struct http_request *r, const struct error *err)
{
    if (err->code == ERR_NOT_FOUND)
        api_fail(r, 404, NULL, "Webhook not found");
    else
        api_error(r, err);
}

static void get(struct http_request *r)
{
    struct error err = {0};
    struct store_eq key;
    if (!key_of(r, &key))
        return;
    json_t *row =
        store_do_get(api_of(r)->store, &table_webhooks, api_scope(r), &key, 1, false, &err);
    if (row)
        api_ok(r, json_pack("{s:o}", "webhook", shown(r, row)));
    else
        refuse(r, &err);
}

static void update(struct http_request *r)
{
    static const char *const known[] = {"name", "url", "description", "enabled"};
    struct error err = {0};
    struct store_eq key;
    if (!key_of(r, &key))
        return;
    auto_json patch = json_object();
    for (size_t i = 0; i < array_len(known); i++)
        if (json_object_get(api_body(r), known[i]))
            json_object_set(patch, known[i], json_object_get(api_body(r), known[i]));
    if (str_eqz(json_s(patch, "url"), "***"))
        json_object_del(patch, "url");
    if (json_object_get(patch, "url") && !url_ok(r, json_s(patch, "url")))
        return;
    if (store_do_update(api_of(r)->store, &table_webhooks, api_scope(r), &key, 1, patch, false,
                        &err))
        api_ok(r, NULL);
    else
        refuse(r, &err);
}

static void delete_one(struct http_request *r)
{
    struct error err = {0};
    struct store_eq key;
    int64_t n = 0;
    if (!key_of(r, &key))
        return;
    if (!store_do_delete(api_of(r)->store, &table_webhooks, api_scope(r), &key, 1, &n, &err))
        api_error(r, &err);
    else if (n == 0)
        api_fail(r, 404, NULL, "Webhook not found");
    else
        api_ok(r, NULL);
}

static const struct http_field f_create[] = {
    {.name = "name", .type = HTTP_STR, .max = 255},
    {.name = "url", .type = HTTP_STR, .max = 1024},
    {.name = "description", .type = HTTP_STR, .max = 512},
    {.name = "enabled", .type = HTTP_BOOL},
    {.name = NULL},
};

#define P "/api/v1/webhooks"
const struct http_route routes_webhook[] = {
    {.method = HTTP_M_GET,
     .pattern = P,
     .auth = AUTH_USER,
     .permission = PERM_RESOURCE_VIEW,
     .handler = list,
     .summary = "Webhooks"},
    {.method = HTTP_M_POST,
     .pattern = P,
     .auth = AUTH_USER,
     .permission = PERM_RESOURCE_MANAGE,
     .handler = create,
     .body = HTTP_BODY_JSON,
     .fields = f_create,
     .summary = "Adds a webhook"},
    {.method = HTTP_M_GET,
     .pattern = P "/{id}",
     .auth = AUTH_USER,
     .permission = PERM_RESOURCE_VIEW,
     .handler = get,
     .summary = "One webhook"},
    {.method = HTTP_M_PUT,
     .pattern = P "/{id}",
     .auth = AUTH_USER,
     .permission = PERM_RESOURCE_MANAGE,
     .handler = update,
     .body = HTTP_BODY_JSON,
     .fields = f_create,
     .summary = "Changes a webhook"},
    {.method = HTTP_M_DELETE,
     .pattern = P "/{id}",
     .auth = AUTH_USER,
     .permission = PERM_RESOURCE_MANAGE,
     .handler = delete_one,
     .summary = "Deletes a webhook"},
    {.pattern = NULL},
};
