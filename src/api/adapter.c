/* The catalogue of chat platforms, and what they call: the unified webhook. http-api.md §8.2, §13.1. */
#include "api/api_private.h"
#include "api/routes.h"

static bool offered(const struct http_request *r, const struct adapter *a)
{
    auto_json off = config_list(api_of(r)->config, "system.disabled_adapters");
    size_t i;
    json_t *name;
    json_array_foreach (off, i, name) {
        if (str_eqz(json_sv(name), a->name))
            return false;
    }
    return !a->hidden && adapter_manifest(a->name);
}

static void list(struct http_request *r)
{
    json_t *all = json_array();
    for (const struct adapter *const *a = adapters; *a; a++)
        if (offered(r, *a))
            json_array_append(all, (json_t *)(uintptr_t)adapter_manifest((*a)->name));
    api_ok(r, json_pack("{s:o}", "adapters", all));
}

static void get(struct http_request *r)
{
    const struct adapter *a = adapter_find(api_param(r, 0));
    if (a && offered(r, a))
        api_ok(r, json_pack("{s:O}", "adapter", adapter_manifest(a->name)));
    else
        api_fail(r, 404, NULL, "adapter not found");
}

static void icon(struct http_request *r)
{
    const struct adapter *a = adapter_find(api_param(r, 0));
    const char *file = a ? json_z(adapter_manifest(a->name), "icon") : NULL;
    const struct base_asset *f =
        file ? base_asset_find(z_fmt(r->arena, "metadata/adapters/icons/%s", file)) : NULL;
    if (!f || !offered(r, a)) {
        api_fail(r, 404, NULL, "adapter not found");
        return;
    }
    http_answer_header(r, "Cache-Control", S("public, max-age=86400"));
    http_answer_static(r, 200, mime_of_path(str_c(f->path)), f->data, f->size);
}

/* Credentials got by scanning a code: no platform of this build offers them, so no session is ever known. */
static void session_unknown(struct http_request *r)
{
    api_fail(r, 404, NULL, "Session not found");
}

#define P "/api/v1/platform/adapters"
#define SESSION(start)                                                               \
    {.method = HTTP_M_GET,                                                           \
     .pattern = P start "/status/{session}",                                         \
     .auth = AUTH_USER,                                                              \
     .permission = PERM_RESOURCE_MANAGE,                                             \
     .handler = session_unknown,                                                     \
     .summary = "State of a credential exchange"},                                   \
    {                                                                                \
        .method = HTTP_M_DELETE, .pattern = P start "/{session}", .auth = AUTH_USER, \
        .permission = PERM_RESOURCE_MANAGE, .handler = session_unknown,              \
        .summary = "Cancels a credential exchange"                                   \
    }
const struct http_route routes_adapter[] = {
    {.method = HTTP_M_GET,
     .pattern = P,
     .auth = AUTH_USER,
     .permission = PERM_NONE,
     .handler = list,
     .summary = "Chat platforms"},
    {.method = HTTP_M_GET,
     .pattern = P "/{name}",
     .auth = AUTH_USER,
     .permission = PERM_NONE,
     .handler = get,
     .summary = "One chat platform"},
    {.method = HTTP_M_GET,
     .pattern = P "/{name}/icon",
     .auth = AUTH_NONE,
     .permission = PERM_NONE,
     .handler = icon,
     .summary = "Its icon"},
    SESSION("/lark/create-app"),
    SESSION("/weixin/login"),
    SESSION("/dingtalk/create-app"),
    SESSION("/wecombot/create-bot"),
    SESSION("/qqofficial/bind"),
    {.pattern = NULL},
};

static void webhook(struct http_request *r)
{
    platform_webhook(api_of(r)->platform, r, http_param(r, 0),
                     r->param_count > 1 ? http_param(r, 1) : S(""));
}

#define W                                                                                  \
    .auth = AUTH_NONE, .permission = PERM_NONE, .handler = webhook, .body = HTTP_BODY_RAW, \
    .summary = "What a chat platform calls"
const struct http_route routes_bot_ingress[] = {
    {.method = HTTP_M_GET, .pattern = "/bots/{bot}", W},
    {.method = HTTP_M_POST, .pattern = "/bots/{bot}", W},
    {.method = HTTP_M_GET, .pattern = "/bots/{bot}/{path:path}", W},
    {.method = HTTP_M_POST, .pattern = "/bots/{bot}/{path:path}", W},
    {.pattern = NULL},
};
