/* Bots. http-api.md §8.1. */
#include "api/api_private.h"
#include "api/routes.h"

static const char *const webhook_adapters[] = {"wecom",      "wecombot", "officialaccount",
                                               "qqofficial", "slack",    "wecomcs",
                                               "LINE",       "lark",     "http_bot"};

/* As the caller may see it: the adapter's settings only for who manages them. */
static json_t *shown(const struct http_request *r, json_t *row)
{
    if (!principal_has(api_principal(r), PERM_RESOURCE_MANAGE))
        json_object_del(row, "adapter_config");
    return row;
}

static void list(struct http_request *r)
{
    struct error err = {0};
    json_t *rows = store_do_list(api_of(r)->store, &table_bots, api_scope(r), NULL, 0, NULL, -1, 0,
                                 false, &err);
    if (!rows) {
        api_error(r, &err);
        return;
    }
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row)
        shown(r, row);
    api_ok(r, json_pack("{s:o}", "bots", rows));
}

/* ---- create and change ------------------------------------------------------------------------------------------------------ */

struct change {
    struct api *api;
    const struct scope *scope;
    const char *uuid; /* NULL: create */
    const json_t *body;
    json_t *row; /* result, raw */
};

/* A named pipeline must exist in the workspace; its name goes along. */
static bool bind_pipeline(struct db_tx *tx, struct change *c, json_t *row, struct error *err)
{
    const char *uuid = json_z(row, "use_pipeline_uuid");
    if (!uuid || !*uuid)
        return true;
    struct store_eq key = EQ_Z("uuid", uuid);
    auto_json pipeline =
        store_get(tx, c->api->store, &table_pipelines, c->scope, &key, 1, true, err);
    return pipeline &&
           json_object_set(row, "use_pipeline_name", json_object_get(pipeline, "name")) == 0;
}

/* A new bot gets the most recently changed pipeline. */
static bool default_pipeline(struct db_tx *tx, struct change *c, json_t *row, struct error *err)
{
    auto_json list = store_list(tx, c->api->store, &table_pipelines, c->scope, NULL, 0,
                                "updated_at DESC, uuid", 1, 0, true, err);
    if (!list)
        return false;
    const json_t *p = json_array_get(list, 0);
    if (p) {
        json_object_set(row, "use_pipeline_uuid", json_object_get(p, "uuid"));
        json_object_set(row, "use_pipeline_name", json_object_get(p, "name"));
    }
    return true;
}

static bool do_create(struct db_tx *tx, void *arg, struct error *err)
{
    struct change *c = arg;
    int64_t n = 0;
    auto_json row = json_copy((json_t *)(uintptr_t)c->body);
    if (!store_count(tx, &table_bots, c->scope, NULL, 0, &n, err) ||
        !quota_check("bots", config_int(c->api->config, "system.limitation.max_bots"), n, err))
        return false;
    json_object_del(row, "uuid");
    json_object_del(row, "workspace_uuid");
    if (!(json_z(row, "use_pipeline_uuid") ? bind_pipeline(tx, c, row, err)
                                           : default_pipeline(tx, c, row, err)))
        return false;
    auto_json made = store_insert(tx, c->api->store, &table_bots, c->scope, row, err);
    if (!made)
        return false;
    struct store_eq key = EQ_Z("uuid", json_z_or(made, "uuid", ""));
    c->row = store_get(tx, c->api->store, &table_bots, c->scope, &key, 1, true, err);
    return c->row != NULL;
}

static void create(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    struct change c = {.api = a, .scope = api_scope(r), .body = api_body(r)};
    /* What the adapter refuses leaves no row (http-api.md §8.1 FIX). */
    if (!store_check(&table_bots, c.body, true, &err) ||
        !platform_check(a->platform, c.scope, c.body, &err) ||
        !db_write(a->store->db, scope_db(c.scope), do_create, &c, &err)) {
        json_decref(c.row);
        api_error(r, &err);
        return;
    }
    auto_json row = c.row;
    struct error start = {0};
    if (!platform_load(a->platform, c.scope, row, &start))
        log_warn("bot", "bot %s was created but does not run: %s", json_z_or(row, "uuid", ""),
                 start.msg);
    api_ok(r, json_pack("{s:O}", "uuid", json_object_get(row, "uuid")));
}

static bool do_update(struct db_tx *tx, void *arg, struct error *err)
{
    struct change *c = arg;
    struct store_eq key = EQ_Z("uuid", c->uuid);
    auto_json patch = json_copy((json_t *)(uintptr_t)c->body);
    json_object_del(patch, "uuid");
    json_object_del(patch, "workspace_uuid");
    json_object_del(patch, "use_pipeline_name");
    if (!bind_pipeline(tx, c, patch, err))
        return false;
    if (json_object_size(patch) > 0 &&
        !store_update(tx, c->api->store, &table_bots, c->scope, &key, 1, patch, false, err))
        return false;
    c->row = store_get(tx, c->api->store, &table_bots, c->scope, &key, 1, true, err);
    return c->row != NULL;
}

static void update(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    struct change c = {
        .api = a, .scope = api_scope(r), .uuid = api_param(r, 0), .body = api_body(r)};
    struct store_eq key = EQ_Z("uuid", c.uuid);
    auto_json old = store_do_get(a->store, &table_bots, c.scope, &key, 1, true, &err);
    if (!old) {
        api_error(r, &err);
        return;
    }
    auto_json merged = json_copy(old);
    json_object_update(merged, (json_t *)(uintptr_t)c.body);
    if (!store_check(&table_bots, c.body, true, &err) ||
        !platform_check(a->platform, c.scope, merged, &err) ||
        !db_write(a->store->db, scope_db(c.scope), do_update, &c, &err) ||
        !engine_bot_changed(a->engine, c.scope, c.uuid, &err)) {
        json_decref(c.row);
        api_error(r, &err);
        return;
    }
    auto_json row = c.row;
    struct error start = {0};
    if (!platform_load(a->platform, c.scope, row, &start))
        log_warn("bot", "bot %s was changed but does not run: %s", c.uuid, start.msg);
    api_ok(r, NULL);
}

static void get(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    const char *asked = api_param(r, 0);
    const struct bot *b = platform_bot(a->platform, api_scope(r), asked);
    /* A copy: the instance may be another one once the row has been read. */
    const char *account = b ? str_z(r->arena, str_c(bot_account_id(b))) : NULL;
    struct api_memo memo;
    if (api_memo_find(r, GROUP_BOTS, account ? account : "\001", &memo))
        return;
    struct store_eq key = EQ_Z("uuid", asked);
    json_t *row = store_do_get(a->store, &table_bots, api_scope(r), &key, 1, false, &err);
    if (!row) {
        api_error(r, &err);
        return;
    }
    const char *uuid = json_z_or(row, "uuid", ""), *adapter = json_z_or(row, "adapter", "");
    json_t *v =
        json_pack("{s:n,s:n,s:n}", "webhook_url", "webhook_full_url", "extra_webhook_full_url");
    if (account)
        json_set(v, "bot_account_id", json_string(account));
    for (size_t i = 0; i < array_len(webhook_adapters); i++) {
        if (strcmp(webhook_adapters[i], adapter) != 0)
            continue;
        const char *extra = config_str(a->config, "api.extra_webhook_prefix");
        json_set(v, "webhook_url", json_string(z_fmt(r->arena, "/bots/%s", uuid)));
        json_set(v, "webhook_full_url",
                 json_string(z_fmt(r->arena, "%s/bots/%s",
                                   config_str(a->config, "api.webhook_prefix"), uuid)));
        json_set(v, "extra_webhook_full_url",
                 json_string(*extra ? z_fmt(r->arena, "%s/bots/%s", extra, uuid) : ""));
    }
    json_set(row, "adapter_runtime_values", v);
    api_memo_ok(r, &memo, json_pack("{s:o}", "bot", shown(r, row)));
}

/* The row exists in the caller's workspace; false: answered. */
static bool known(struct http_request *r, const char *uuid)
{
    struct error err = {0};
    struct store_eq key = EQ_Z("uuid", uuid);
    auto_json row = store_do_get(api_of(r)->store, &table_bots, api_scope(r), &key, 1, true, &err);
    if (!row)
        api_error(r, &err);
    return row != NULL;
}

static void delete_one(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    struct store_eq key = EQ_Z("uuid", api_param(r, 0));
    int64_t n = 0;
    if (!store_do_delete(a->store, &table_bots, api_scope(r), &key, 1, &n, &err)) {
        api_error(r, &err);
    } else if (n == 0) {
        api_fail(r, 404, "resource_not_found", "Resource not found");
    } else {
        platform_unload(a->platform, api_scope(r), api_param(r, 0));
        api_ok(r, NULL);
    }
}

/* ---- logs, health, deliveries ------------------------------------------------------------------------------------------------- */

static void logs(struct http_request *r)
{
    struct api *a = api_of(r);
    const char *uuid = api_param(r, 0);
    if (!known(r, uuid))
        return;
    const struct bot *b = platform_bot(a->platform, api_scope(r), uuid);
    int64_t from = json_i_or(api_body(r), "from_index", -1),
            max = json_i_or(api_body(r), "max_count", 10);
    json_t *out = b ? bot_logs((struct bot *)(uintptr_t)b, from, max)
                    : json_pack("{s:[],s:i}", "logs", "total_count", 0);
    api_ok(r, out);
}

static void health(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    const char *uuid = api_param(r, 0);
    if (!known(r, uuid))
        return;
    const struct bot *b = platform_bot(a->platform, api_scope(r), uuid);
    json_t *out = ledger_health(a->store, api_scope(r), uuid, &err);
    if (!out) {
        api_error(r, &err);
        return;
    }
    auto_json state =
        b ? bot_health(b) : json_pack("{s:s,s:n,s:n}", "state", "stopped", "since", "last_error");
    json_object_update_missing(out, state);
    api_ok(r, json_pack("{s:o}", "health", out));
}

static void deliveries(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    int64_t limit, offset;
    const char *uuid = api_param(r, 0);
    struct str state = http_query(r, "state");
    if (!api_query_int(r, "limit", 50, &limit) || !api_query_int(r, "offset", 0, &offset) ||
        !known(r, uuid))
        return;
    auto_json running = engine_running(a->engine, api_scope(r), uuid);
    json_t *out =
        ledger_list(a->store, api_scope(r), uuid, state.n ? str_z(r->arena, state) : NULL, running,
                    limit < 1     ? 1
                    : limit > 200 ? 200
                                  : limit,
                    offset < 0 ? 0 : offset, &err);
    if (out)
        api_ok(r, out);
    else
        api_error(r, &err);
}

/* ---- proactive messages ---------------------------------------------------------------------------------------------------------- */

static void send_message(struct http_request *r)
{
    struct api *a = api_of(r);
    struct error err = {0};
    const json_t *b = api_body(r), *target = json_object_get(b, "target_id"),
                 *given = json_object_get(b, "message_chain");
    const char *type = json_z_or(b, "target_type", "");
    const char *id = json_is_integer(target)
                         ? z_fmt(r->arena, "%lld", (long long)json_integer_value(target))
                         : json_z_or(b, "target_id", "");
    if (!*type)
        api_fail(r, 400, NULL, "target_type is required");
    else if (!*id)
        api_fail(r, 400, NULL, "target_id is required");
    else if (!given || (json_is_array(given) && json_array_size(given) == 0) || json_is_null(given))
        api_fail(r, 400, NULL, "message_chain is required");
    else if (strcmp(type, "person") != 0 && strcmp(type, "group") != 0)
        api_fail(r, 400, NULL, "target_type must be either \"person\" or \"group\"");
    if (r->status || !known(r, api_param(r, 0)))
        return;
    auto_json chain = chain_decode(given, &err);
    struct bot *bot = platform_bot(a->platform, api_scope(r), api_param(r, 0));
    if (!chain)
        api_fail(r, 400, NULL, "%s", err.msg);
    else if (!bot || !bot_enabled(bot))
        api_fail(r, 404, "resource_not_found", "Resource not found");
    else if (!bot_send(bot, type, id, chain, &err))
        api_error(r, &err);
    else
        api_ok(r, json_pack("{s:b}", "sent", 1));
}

/* ---- admins ------------------------------------------------------------------------------------------------------------------------ */

static void admins(struct http_request *r)
{
    struct error err = {0};
    const char *uuid = api_param(r, 0);
    if (!known(r, uuid))
        return;
    struct store_eq key = EQ_Z("bot_uuid", uuid);
    auto_json rows = store_do_list(api_of(r)->store, &table_bot_admins, api_scope(r), &key, 1, "id",
                                   -1, 0, false, &err);
    if (!rows) {
        api_error(r, &err);
        return;
    }
    json_t *out = json_array();
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row)
        json_array_append_new(out, json_pack("{s:O,s:O,s:O}", "id", json_object_get(row, "id"),
                                             "launcher_type", json_object_get(row, "launcher_type"),
                                             "launcher_id", json_object_get(row, "launcher_id")));
    api_ok(r, json_pack("{s:o}", "admins", out));
}

/* A text without blanks at its ends; a number is taken as its digits. "" for anything else. */
static const char *word_of(struct http_request *r, const char *key)
{
    const json_t *v = json_object_get(api_body(r), key);
    if (json_is_integer(v))
        return z_fmt(r->arena, "%lld", (long long)json_integer_value(v));
    return str_z(r->arena, str_trim(json_sv(v)));
}

static void admin_add(struct http_request *r)
{
    struct error err = {0};
    const char *uuid = api_param(r, 0), *type = word_of(r, "launcher_type"),
               *id = word_of(r, "launcher_id");
    if (!*type || !*id) {
        api_fail(r, 400, NULL, "launcher_type and launcher_id are required");
        return;
    }
    if (!known(r, uuid))
        return;
    auto_json row =
        json_pack("{s:s,s:s,s:s}", "bot_uuid", uuid, "launcher_type", type, "launcher_id", id);
    auto_json made = store_do_insert(api_of(r)->store, &table_bot_admins, api_scope(r), row, &err);
    if (made)
        api_ok(r, json_pack("{s:O}", "id", json_object_get(made, "id")));
    else if (err.code == ERR_CONFLICT)
        api_fail(r, 409, NULL, "This admin is already in the list");
    else
        api_error(r, &err);
}

static void admin_delete(struct http_request *r)
{
    struct error err = {0};
    int64_t id = 0, n = 0;
    const char *uuid = api_param(r, 0);
    if (!known(r, uuid))
        return;
    if (!api_param_id(r, 1, &id)) {
        api_fail(r, 404, "resource_not_found", "Resource not found");
        return;
    }
    struct store_eq key[] = {EQ_Z("bot_uuid", uuid), EQ_I("id", id)};
    if (!store_do_delete(api_of(r)->store, &table_bot_admins, api_scope(r), key, 2, &n, &err))
        api_error(r, &err);
    else
        api_ok(r, NULL);
}

#define FIELDS(req)                                                                         \
    {.name = "name", .type = HTTP_STR, .required = (req), .min = (req), .max = 255},        \
        {.name = "description", .type = HTTP_STR, .required = (req), .max = 255},           \
        {.name = "adapter", .type = HTTP_STR, .required = (req), .min = (req), .max = 255}, \
        {.name = "adapter_config", .type = HTTP_OBJ, .required = (req)},                    \
        {.name = "enable", .type = HTTP_BOOL},                                              \
        {.name = "use_pipeline_uuid", .type = HTTP_STR, .nullable = true, .max = 255},      \
    {                                                                                       \
        .name = "pipeline_routing_rules", .type = HTTP_ARR, .max = 1000                     \
    }
static const struct http_field f_create[] = {FIELDS(true), {.name = NULL}};
static const struct http_field f_update[] = {FIELDS(false), {.name = NULL}};
static const struct http_field f_logs[] = {
    {.name = "from_index", .type = HTTP_INT},
    {.name = "max_count", .type = HTTP_INT, .min = 0, .max = 1000},
    {.name = NULL}};
static const struct http_field f_admin[] = {
    {.name = "launcher_type", .type = HTTP_STR, .max = 64},
    {.name = "launcher_id", .type = HTTP_ANY, .help = "a text or a number"},
    {.name = NULL}};

#define P      "/api/v1/platform/bots"
#define VIEW   .auth = AUTH_EITHER, .permission = PERM_RESOURCE_VIEW
#define MANAGE .auth = AUTH_EITHER, .permission = PERM_RESOURCE_MANAGE
const struct http_route routes_bot[] = {
    {.method = HTTP_M_GET, .pattern = P, VIEW, .handler = list, .summary = "Bots"},
    {.method = HTTP_M_POST,
     .pattern = P,
     MANAGE,
     .handler = create,
     .body = HTTP_BODY_JSON,
     .fields = f_create,
     .summary = "Creates a bot"},
    {.method = HTTP_M_GET, .pattern = P "/{uuid}", VIEW, .handler = get, .summary = "One bot"},
    {.method = HTTP_M_PUT,
     .pattern = P "/{uuid}",
     MANAGE,
     .handler = update,
     .body = HTTP_BODY_JSON,
     .fields = f_update,
     .summary = "Changes a bot"},
    {.method = HTTP_M_DELETE,
     .pattern = P "/{uuid}",
     MANAGE,
     .handler = delete_one,
     .summary = "Deletes a bot"},
    {.method = HTTP_M_POST,
     .pattern = P "/{uuid}/logs",
     VIEW,
     .handler = logs,
     .body = HTTP_BODY_JSON_LENIENT,
     .fields = f_logs,
     .summary = "Event log of a bot"},
    {.method = HTTP_M_GET,
     .pattern = P "/{uuid}/health",
     VIEW,
     .handler = health,
     .summary = "State of a bot and of its deliveries"},
    {.method = HTTP_M_GET,
     .pattern = P "/{uuid}/deliveries",
     VIEW,
     .handler = deliveries,
     .query = "limit,offset,state",
     .summary = "Messages and the state of their answers"},
    {.method = HTTP_M_POST,
     .pattern = P "/{uuid}/send_message",
     .auth = AUTH_KEY,
     .permission = PERM_RUNTIME_OPERATE,
     .handler = send_message,
     .body = HTTP_BODY_JSON,
     .summary = "Sends a message through a bot"},
    {.method = HTTP_M_GET,
     .pattern = P "/{uuid}/admins",
     VIEW,
     .handler = admins,
     .summary = "Admins of a bot"},
    {.method = HTTP_M_POST,
     .pattern = P "/{uuid}/admins",
     MANAGE,
     .handler = admin_add,
     .body = HTTP_BODY_JSON,
     .fields = f_admin,
     .summary = "Adds an admin"},
    {.method = HTTP_M_DELETE,
     .pattern = P "/{uuid}/admins/{id}",
     MANAGE,
     .handler = admin_delete,
     .summary = "Removes an admin"},
    {.pattern = NULL},
};
