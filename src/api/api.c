/* The gate in front of all routes, answers and their envelope. http-api.md §1. */
#include "api/api_private.h"

enum { HASH_SLOTS = 1 };

struct api *api_of(const struct http_request *r)
{
    const struct api_ctx *c = r->user;
    return c->api;
}

const struct principal *api_principal(const struct http_request *r)
{
    const struct api_ctx *c = r->user;
    return c->authenticated ? &c->principal : NULL;
}

const struct scope *api_scope(const struct http_request *r)
{
    const struct api_ctx *c = r->user;
    return &c->principal.scope;
}

const json_t *api_body(const struct http_request *r)
{
    return r->json;
}

const char *api_param(const struct http_request *r, size_t i)
{
    return str_z(r->arena, http_param(r, i));
}

bool api_param_id(const struct http_request *r, size_t i, int64_t *out)
{
    return str_to_i64(http_param(r, i), out) && *out >= 0 && *out <= INT32_MAX;
}

/* ---- answers ------------------------------------------------------------------------------------------------------------ */

static void answer(struct http_request *r, int status, json_t *stolen)
{
    auto_buf b = BUF(256u << 20);
    if (stolen && json_put(&b, stolen)) {
        http_answer(r, status, "application/json", buf_view(&b));
    } else {
        static const char text[] =
            "{\"code\":\"internal_error\",\"msg\":\"Internal server error\"}";
        http_answer_static(r, 500, "application/json", text, sizeof text - 1);
    }
    json_decref(stolen);
}

void api_soft(struct http_request *r, int code, const char *msg)
{
    answer(r, 200, json_pack("{s:i,s:s}", "code", code, "msg", msg));
}

void api_fail(struct http_request *r, int http, const char *code, const char *fmt, ...)
{
    char text[1000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    answer(r, http,
           json_pack("{s:o,s:o}", "code", code ? json_string(code) : json_integer(-1), "msg",
                     json_strn(str_c(text))));
}

static void internal(struct http_request *r, const struct error *err)
{
    log_error("api", "request_id=%s %s " STR_FMT ": %s", r->request_id, http_method_name(r->method),
              STR_ARG(r->path), err->msg);
    answer(r, 500,
           json_pack("{s:s,s:s,s:s}", "code", "internal_error", "msg", "Internal server error",
                     "request_id", r->request_id));
}

void api_error(struct http_request *r, const struct error *err)
{
    switch (err->code) {
    case ERR_NONE:
    case ERR_INTERNAL:
    case ERR_NOMEM:
    case ERR_IO:
    case ERR_PROTOCOL:
    case ERR_CLOSED:
    case ERR_CANCELED: internal(r, err); return;
    case ERR_NOT_FOUND:
        /* Missing and foreign are one (tenancy.md §1.1). */
        api_fail(r, err_http(err), err->tag ? err->tag : "resource_not_found", "%s",
                 !err->tag || strcmp(err->tag, "resource_not_found") == 0 ? "Resource not found"
                                                                          : err->msg);
        return;
    case ERR_UNAUTHORIZED:
        if (err->tag && strcmp(err->tag, "invalid_authentication") == 0)
            log_info("api", "request_id=%s authentication refused: %s", r->request_id, err->msg);
        api_fail(r, err_http(err), err->tag, "%s",
                 err->tag && strcmp(err->tag, "invalid_authentication") == 0
                     ? "Invalid authentication credentials"
                     : err->msg);
        return;
    default: api_fail(r, err_http(err), err->tag, "%s", err->msg);
    }
}

/* Handlers put their answers together without a look at each allocation: when one has failed since the gate, whatever is there may be
 * half of it. (It may have been that of another request; then this one is refused for nothing, while memory ends.) */
void api_ok(struct http_request *r, json_t *data)
{
    const struct api_ctx *c = r->user;
    if (c && mem_failures() != c->failures) {
        struct error err = {0};
        err_set(&err, ERR_NOMEM, "out of memory");
        json_decref(data);
        api_error(r, &err);
        return;
    }
    answer(r, 200,
           json_pack("{s:i,s:s,s:o}", "code", 0, "msg", "ok", "data", data ? data : json_null()));
}

bool api_flag(struct http_request *r, const char *key, bool fallback, bool *out)
{
    struct str v = http_query(r, key);
    *out = fallback;
    if (!v.p)
        return true;
    *out = str_ieqz(str_trim(v), "true");
    if (*out || str_ieqz(str_trim(v), "false"))
        return true;
    api_fail(r, 400, NULL, "%s must be either true or false", key);
    return false;
}

bool api_query_int(struct http_request *r, const char *key, int64_t fallback, int64_t *out)
{
    struct str v = http_query(r, key);
    *out = fallback;
    if (!v.p || v.n == 0 || str_to_i64(v, out))
        return true;
    api_fail(r, 400, NULL, "%s must be an integer", key);
    return false;
}

bool api_fields(struct http_request *r)
{
    struct error err = {0};
    if (http_fields_check(r->route->fields, r->json, false, &err))
        return true;
    api_error(r, &err);
    return false;
}

/* ---- the gate ------------------------------------------------------------------------------------------------------------- */

static bool gate(struct http_request *r, void *arg)
{
    struct api *a = arg;
    struct api_ctx *c = arena_new_of(r->arena, struct api_ctx);
    struct error err = {0};
    if (!c) {
        err_set(&err, ERR_NOMEM, "out of memory");
        internal(r, &err);
        return false;
    }
    c->api = a;
    c->failures = mem_failures();
    r->user = c;
    enum auth_kind kind = (enum auth_kind)r->route->auth;
    if (kind == AUTH_NONE)
        return true;
    if (!auth_request(a, r, kind, c, &err)) {
        api_error(r, &err);
        return false;
    }
    c->authenticated = true;
    enum permission perm = (enum permission)r->route->permission;
    if (kind != AUTH_ACCOUNT && perm != PERM_NONE && !principal_may(&c->principal, perm, &err)) {
        api_error(r, &err);
        return false;
    }
    return true;
}

static void reject(struct http_request *r, const struct error *err, void *arg)
{
    (void)arg;
    /* Where in the text it went wrong is of no use to most callers, and tells what reads it. */
    struct str text = str_c(err->msg);
    ptrdiff_t at = str_starts(text, S("invalid JSON")) ? str_find(text, S(" (line ")) : -1;
    if (at >= 0)
        text.n = (size_t)at;
    api_fail(r, 400, NULL, STR_FMT, STR_ARG(text));
}

static void too_large(struct http_request *r, void *arg)
{
    (void)arg;
    if (r->route && r->route->body_max) {
        api_fail(r, 400, NULL, "The body may have at most %zu bytes", r->route->body_max);
        return;
    }
    static const char text[] =
        "{\"code\":400,\"msg\":\"File size exceeds 10MB limit. Please split large files into smaller parts.\"}";
    http_answer_static(r, 400, "application/json", text, sizeof text - 1);
}

static void fallback(struct http_request *r, void *arg)
{
    struct api *a = arg;
    bool api_path = str_starts(r->path, S("/api/")) || str_eqz(r->path, "/api");
    if (r->path_known) {
        api_fail(r, 405, NULL, "Method not allowed");
    } else if (api_path || (r->method != HTTP_M_GET && r->method != HTTP_M_HEAD)) {
        api_fail(r, 404, NULL, "Not found");
    } else {
        api_static(r, a);
    }
}

static void after(const struct http_request *r, int status, size_t bytes, void *arg)
{
    struct api *a = arg;
    static const char *const classes[] = {"0xx", "1xx", "2xx", "3xx", "4xx", "5xx"};
    metric_add(a->p->requests, classes[status / 100 < 6 ? status / 100 : 0], 1);
    metric_observe(a->p->latency, NULL, (double)(time_mono_us() - r->start_us) / 1e6);
    log_debug("access", "%s \"%s " STR_FMT "\" %d %zu %lldus request_id=%s", r->peer,
              http_method_name(r->method), STR_ARG(r->raw_path), status, bytes,
              (long long)(time_mono_us() - r->start_us), r->request_id);
}

bool api_init(struct api *a, struct error *err)
{
    a->p = new (struct api_private);
    if (!a->p)
        return err_set(err, ERR_NOMEM, "out of memory");
    task_sem_init(&a->p->hashing, HASH_SLOTS);
    a->p->requests = metric_new(METRIC_COUNTER, "parley_http_requests_total",
                                "HTTP requests answered, by class of status", "class");
    a->p->latency = metric_new(METRIC_HISTOGRAM, "parley_http_request_seconds",
                               "Time from request to answer", NULL);
    a->p->logins =
        metric_new(METRIC_COUNTER, "parley_logins_total", "Login attempts, by result", "result");
    return true;
}

void api_end(struct api *a)
{
    if (!a->p)
        return;
    auth_cache_free(a);
    api_memos_free(a);
    space_states_free(a);
    json_decref(a->p->openapi);
    mem_free(a->p);
    a->p = NULL;
}

void api_server_opts(struct api *a, struct http_server_opts *o)
{
    *o = (struct http_server_opts){
        .host = "0.0.0.0",
        .port = (uint16_t)config_int_in(a->config, "api.port", 0, 65535),
        .tables = api_tables,
        .gate = gate,
        .reject = reject,
        .fallback = fallback,
        .after = after,
        .too_large = too_large,
        .arg = a,
        .body_max = 10 << 20,
        .cors = true,
    };
}
