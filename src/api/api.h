/* api: HTTP routes by resource, WebSocket chat, webhooks, OpenAPI. One file per resource; one line in routes.c adds one. http-api.md. */
#ifndef PARLEY_API_H
#define PARLEY_API_H

#include "base/base.h"
#include "config/config.h"
#include "net/net.h"
#include "ops/ops.h"
#include "pipeline/pipeline.h"
#include "platform/platform.h"
#include "store/store.h"
#include "tenant/tenant.h"

/* Authentication kinds of §1.4, the `auth` of a route. */
enum auth_kind { AUTH_NONE, AUTH_ACCOUNT, AUTH_USER, AUTH_KEY, AUTH_EITHER };

/* Everything handlers need; made by app/, one per process. */
struct api {
    const struct store *store;
    const struct config *config;
    struct fence *fence;
    struct models *models;
    struct tools *tools;
    struct engine *engine;
    struct platform *platform;
    struct jobs *jobs;
    struct objects *objects;
    struct logfiles *logs;
    struct ops_env *ops;
    struct http_server *server;
    bool debug;
    struct api_private *p; /* token cache, limits, lockouts */
};
bool api_init(struct api *a, struct error *err) warn_unused; /* builds tables and caches */
void api_end(struct api *a);
/* Options for http_server_new with all routes, gate, fallback (panel), limits. */
void api_server_opts(struct api *a, struct http_server_opts *out);
extern const struct http_route *const api_tables[]; /* routes.c; NULL-terminated */

/* ---- for the handlers of this folder --------------------------------------------------------------------------------------------------------------- */
struct api *api_of(const struct http_request *r);
const struct principal *api_principal(const struct http_request *r); /* NULL on AUTH_NONE routes */
const struct scope *api_scope(const struct http_request *r);
const json_t *api_body(
    const struct http_request *r); /* parsed and validated JSON; never NULL on JSON routes */
void api_ok(struct http_request *r, json_t *data_stolen);         /* NULL: data null */
void api_soft(struct http_request *r, int code, const char *msg); /* HTTP 200 with a code */
void api_fail(struct http_request *r, int http, const char *code /* NULL: -1 */, const char *fmt,
              ...) printf_like(4, 5);
void api_error(struct http_request *r,
               const struct error *err); /* maps §1.3; logs 500s with the request id */
bool api_flag(struct http_request *r, const char *query_key, bool fallback,
              bool *out); /* false: 400 answered */

#endif
