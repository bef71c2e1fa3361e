/* The panel's debug chat: WebSocket and its REST companions. http-api.md §12.2. */
#include "api/api_private.h"
#include "api/routes.h"

enum { AUTH_MS = 10000, FIRST_FRAME_MAX = 64 << 10 };

/* ---- helpers shared with the widget ---------------------------------------------------------------------------------------------- */

void chat_refuse(struct ws *ws, const char *text)
{
    auto_json j = json_pack("{s:s,s:s}", "type", "error", "message", text);
    auto_buf b = BUF(4096);
    struct error err = {0};
    if (json_put(&b, j) && !ws_send(ws, WS_TEXT, buf_view(&b), &err))
        log_debug("chat", "a refusal could not be sent: %s", err.msg);
}

bool chat_type(struct str name, enum launcher *out)
{
    *out = str_eqz(name, "group") ? LAUNCHER_GROUP : LAUNCHER_PERSON;
    return str_eqz(name, "group") || str_eqz(name, "person");
}

json_t *chat_first_frame(struct ws *ws)
{
    struct task_deadline d;
    struct ws_msg msg;
    struct error err = {0};
    task_deadline_push(&d, AUTH_MS);
    bool got = ws_recv(ws, &msg, &err);
    task_deadline_pop(&d);
    json_t *frame = got && msg.data.n <= FIRST_FRAME_MAX ? json_parse(msg.data, &err) : NULL;
    if (json_is_object(frame) && str_eqz(json_s(frame, "type"), "authenticate"))
        return frame;
    json_decref(frame);
    return NULL;
}

/* ---- the debug chat -------------------------------------------------------------------------------------------------------------------- */

struct debug_chat {
    struct api *api;
    struct str token;
    char workspace[UUID_SIZE];
    struct principal who;
};

static bool let_in(struct debug_chat *d, struct arena *a, struct principal *out, struct error *err)
{
    return auth_user(d->api, a, d->token, str_c(d->workspace), out, err) &&
           principal_may(out, PERM_RUNTIME_OPERATE, err);
}

/* Before every message: account, membership and right are read anew (M-1). */
static bool revalidate(void *arg, struct webchat_conn_opts *self, struct error *err)
{
    struct debug_chat *d = arg;
    struct principal now;
    auto_arena a = arena_new(64 << 10);
    bool ok = a && let_in(d, a, &now, err) && scope_eq(&now.scope, &self->room.scope) &&
              strcmp(now.membership, d->who.membership) == 0;
    return ok || err_set(err, ERR_UNAUTHORIZED, "Unauthorized");
}

static bool pipeline_exists(struct api *a, const struct scope *s, const char *uuid)
{
    struct error err = {0};
    auto_json row = pipeline_get(a->engine, s, uuid, false, &err);
    return row != NULL;
}

/* What an open chat keeps. On the heap, and everything else of its start in a frame of its own that is gone while it waits: an idle
 * chat costs a page of stack. */
struct held {
    struct debug_chat chat;
    struct webchat_conn_opts opts;
};

/* The way in, up to the bot; false: refused, the socket was told why. */
static bool __attribute__((noinline)) enter(struct http_request *r, struct ws *ws, struct held *h)
{
    struct debug_chat *d = &h->chat;
    struct webchat_conn_opts *o = &h->opts;
    struct error err = {0};
    auto_json first = chat_first_frame(ws);
    struct str workspace = json_s(first, "workspace_uuid"), kind = http_query(r, "session_type");
    d->api = api_of(r);
    d->token = str_dup(r->arena, json_s(first, "token"));
    snprintf(d->workspace, sizeof d->workspace, STR_FMT,
             STR_ARG(str_sub(workspace, 0, UUID_SIZE - 1)));
    if (!first || d->token.n == 0 || workspace.n == 0 || !let_in(d, r->arena, &d->who, &err)) {
        chat_refuse(ws, "Unauthorized");
        return false;
    }
    *o = (struct webchat_conn_opts){.room = {.scope = d->who.scope, .pipeline = api_param(r, 0)},
                                    .account = d->who.account,
                                    .revalidate = revalidate,
                                    .arg = d};
    if (!chat_type(kind.p ? kind : S("person"), &o->room.type)) {
        chat_refuse(ws, "session_type must be person or group");
        return false;
    }
    if (!pipeline_exists(d->api, &d->who.scope, o->room.pipeline)) {
        chat_refuse(ws, "Pipeline not found");
        return false;
    }
    o->bot = platform_proxy_bot(d->api->platform, &d->who.scope, &err);
    if (o->bot)
        return true;
    log_error("chat", "the debug chat has no bot: %s", err.msg);
    chat_refuse(ws, "Internal server error");
    return false;
}

/* Takes over the socket; NULL: answered. */
struct ws *__attribute__((noinline)) chat_accept(struct http_request *r)
{
    struct error err = {0};
    struct ws *ws = ws_accept(r, &(struct ws_opts){.frame_max = WEBCHAT_FRAME_MAX}, &err);
    if (!ws)
        api_fail(r, 400, NULL, "%s", err.msg);
    return ws;
}

static void connect_chat(struct http_request *r)
{
    struct ws *ws = chat_accept(r);
    struct held *h = ws ? new (struct held) : NULL;
    if (h && enter(r, ws, h))
        webchat_run(platform_webchat(h->chat.api->platform), ws, &h->opts);
    mem_free(h);
    if (ws)
        ws_close(ws);
}

/* ---- REST ---------------------------------------------------------------------------------------------------------------------------------- */

/* Pipeline and session type of the path; false: answered. */
static bool room_of(struct http_request *r, bool with_type, struct webchat_room *room)
{
    *room = (struct webchat_room){.scope = *api_scope(r), .pipeline = api_param(r, 0)};
    if (with_type && !chat_type(http_param(r, 1), &room->type)) {
        api_fail(r, 400, NULL, "session_type must be person or group");
        return false;
    }
    if (!pipeline_exists(api_of(r), api_scope(r), room->pipeline)) {
        api_fail(r, 404, NULL, "Pipeline not found");
        return false;
    }
    return true;
}

static void messages(struct http_request *r)
{
    struct error err = {0};
    struct webchat_room room;
    if (!room_of(r, true, &room))
        return;
    json_t *list = webchat_messages(platform_webchat(api_of(r)->platform), &room, &err);
    if (list)
        api_ok(r, json_pack("{s:o}", "messages", list));
    else
        api_error(r, &err);
}

static void reset(struct http_request *r)
{
    struct error err = {0};
    struct webchat_room room;
    if (!room_of(r, true, &room))
        return;
    if (webchat_reset(platform_webchat(api_of(r)->platform), &room, &err))
        api_ok(r, json_pack("{s:s}", "message", "Session reset successfully"));
    else
        api_error(r, &err);
}

static void connections(struct http_request *r)
{
    struct webchat_room room;
    if (room_of(r, false, &room))
        api_ok(r, webchat_connections(platform_webchat(api_of(r)->platform), &room.scope,
                                      room.pipeline));
}

static void broadcast(struct http_request *r)
{
    struct webchat_room room;
    struct str text = json_s(api_body(r), "message");
    if (text.n == 0) {
        api_fail(r, 400, NULL, "message is required");
        return;
    }
    if (!room_of(r, false, &room))
        return;
    webchat_broadcast(platform_webchat(api_of(r)->platform), &room.scope, room.pipeline,
                      str_z(r->arena, text));
    api_ok(r, json_pack("{s:s}", "message", "Broadcast sent successfully"));
}

#define P   "/api/v1/pipelines/{pipeline}/ws"
#define RUN .auth = AUTH_EITHER, .permission = PERM_RUNTIME_OPERATE
static const struct http_field f_broadcast[] = {{.name = "message", .type = HTTP_ANY},
                                                {.name = NULL}};
const struct http_route routes_chat[] = {
    {.method = HTTP_M_GET,
     .pattern = P "/connect",
     .auth = AUTH_NONE,
     .permission = PERM_NONE,
     .handler = connect_chat,
     .query = "session_type",
     .summary = "WebSocket: debug chat"},
    {.method = HTTP_M_GET,
     .pattern = P "/messages/{type}",
     RUN,
     .handler = messages,
     .summary = "History of the debug chat"},
    {.method = HTTP_M_POST,
     .pattern = P "/reset/{type}",
     RUN,
     .handler = reset,
     .summary = "Forgets the history of the debug chat"},
    {.method = HTTP_M_GET,
     .pattern = P "/connections",
     RUN,
     .handler = connections,
     .summary = "Open debug chats"},
    {.method = HTTP_M_POST,
     .pattern = P "/broadcast",
     RUN,
     .handler = broadcast,
     .body = HTTP_BODY_JSON,
     .fields = f_broadcast,
     .summary = "A line to all open debug chats"},
    {.pattern = NULL},
};
