/* server: one port for probes, control connections and relays (box.md §0.3). */
#include "box/server.h"

enum { CONNECTIONS_MAX = 4096, STOP_MS = 1500 };

/* One for the process, as there is one runtime: handlers of the server get no argument of ours. */
static struct {
    struct runtime *rt;
    struct http_server *http;
    struct list live;
    bool stdio, stopping;
} server;

static const char goodbye[] = "Box runtime shutting down";

void box_server_enter(struct http_request *r, struct live *l, struct ws *ws)
{
    l->ws = ws;
    list_push(&server.live, &l->node);
    if (server.stopping)
        ws_shutdown(ws, 1001, str_c(goodbye));
}

void box_server_leave(struct live *l)
{
    list_del(&l->node);
}

static void answer_json(struct http_request *r, int status, json_t *stolen)
{
    auto_json body = stolen;
    auto_buf text = BUF(64 << 10);
    if (json_put(&text, body))
        http_answer(r, status, "application/json", buf_view(&text));
    else
        http_answer(r, 500, "text/plain", S("out of memory"));
}

static void h_healthz(struct http_request *r)
{
    answer_json(r, 200,
                json_pack("{s:b,s:o}", "live", 1, "resources", runtime_resources(server.rt)));
}

static void h_readyz(struct http_request *r)
{
    bool ready;
    json_t *state = engine_readiness(server.rt, &ready);
    json_set(state, "resources", runtime_resources(server.rt));
    answer_json(r, ready ? 200 : 503, state);
}

static void serve_control(struct http_request *r, struct ws *ws)
{
    struct error err = {0};
    struct live live;
    struct rpc *rpc;
    const char *instance = str_z(r->arena, http_header_get(r, "X-LangBot-Instance-Id"));
    box_server_enter(r, &live, ws);
    control_opened(server.rt);
    struct rpc_transport *t = rpc_websocket(ws, &err);
    if (t && !control_run(server.rt, t, instance, "box control", &rpc, &err))
        log_warn("box", "a control connection ended: %s", err.msg);
    control_closed(server.rt);
    box_server_leave(&live);
}

static void h_control(struct http_request *r)
{
    struct error err;
    /* Over the standard streams the peer is our parent; the port then takes only whoever has a token. */
    if ((server.stdio && !server.rt->token) || !handshake_control(server.rt, r)) {
        handshake_refuse(server.rt, r);
        return;
    }
    struct ws *ws = ws_accept(r, &rpc_ws_opts, &err);
    if (ws) {
        serve_control(r, ws);
    } else {
        control_refused(server.rt);
        http_answer(r, 426, "text/plain", S("Upgrade required"));
    }
}

static void h_relay(struct http_request *r)
{
    relay_serve(server.rt, r);
}

static const struct http_route routes[] = {
    {HTTP_M_GET, "/healthz", .handler = h_healthz},
    {HTTP_M_GET, "/readyz", .handler = h_readyz},
    {HTTP_M_GET, "/rpc/ws", .handler = h_control},
    {HTTP_M_GET, "/v1/sessions/{session}/managed-process/ws", .handler = h_relay},
    {HTTP_M_GET, "/v1/sessions/{session}/managed-process/{process}/ws", .handler = h_relay},
    {.pattern = NULL},
};
static const struct http_route *const tables[] = {routes, NULL};

static void on_unknown(struct http_request *r, void *arg)
{
    http_answer(r, 404, "text/plain", S("Not found"));
}

bool box_server_start(struct runtime *rt, const struct box_server_opts *o, struct error *err)
{
    struct http_server_opts h = {.host = o->host,
                                 .port = o->port,
                                 .tables = tables,
                                 .fallback = on_unknown,
                                 .body_max = 4096,
                                 .connections_max = CONNECTIONS_MAX};
    server.rt = rt;
    server.stdio = o->stdio;
    server.stopping = false;
    list_init(&server.live);
    server.http = http_server_new(&h, err);
    return server.http != NULL;
}

uint16_t box_server_port(void)
{
    return server.http ? http_server_port(server.http) : 0;
}

void box_server_stop(void)
{
    server.stopping = true;
    if (!server.http)
        return;
    list_each(node, &server.live)
        ws_shutdown(container_of(node, struct live, node)->ws, 1001, str_c(goodbye));
    http_server_stop(server.http, STOP_MS);
    server.http = NULL;
}
