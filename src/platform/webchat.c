/* Connections of the web chats: greeting, frames, attachments, limits. http-api.md §12. */
#include "platform/webchat_private.h"

#include <stdio.h>

struct ws_count {
    size_t n;
};

struct webchat *platform_webchat(struct platform *p)
{
    if (p->webchat)
        return p->webchat;
    struct webchat *w = p->webchat = new (struct webchat);
    if (!w)
        return NULL;
    const struct config *c = p->opts.config;
    w->platform = p;
    w->born_us = time_wall_us();
    list_init(&w->lru);
    w->max_conns = config_int_in(c, "system.websocket_retention.max_connections", 1, 1000000);
    w->max_conns_ws =
        config_int_in(c, "system.websocket_retention.max_connections_per_workspace", 1, 1000000);
    w->max_rooms =
        config_int_in(c, "system.websocket_retention.max_conversations_per_workspace", 1, 1000000);
    w->max_messages =
        config_int_in(c, "system.websocket_retention.max_messages_per_conversation", 1, 100000);
    w->idle_us = config_int_in(c, "system.websocket_retention.conversation_idle_ttl_seconds", 1,
                               1000000000) *
                 1000000;
    return w;
}

void webchat_free(struct webchat *w)
{
    if (!w)
        return;
    rooms_free(w);
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&w->per_workspace, &pos, &key, &v))
        mem_free(v);
    map_free(&w->per_workspace);
    mem_free(w);
}

size_t webchat_count(const struct webchat *w)
{
    return w ? w->conns : 0;
}

static void send_json(struct ws *ws, json_t *stolen)
{
    auto_json j = stolen;
    auto_buf b = BUF(16u << 20);
    struct error err = {0};
    if (j && json_put(&b, j) && !ws_send(ws, WS_TEXT, buf_view(&b), &err) &&
        err.code == ERR_CAPACITY)
        ws_shutdown(ws, 1013, S("too slow"));
}

static void send_error(struct ws *ws, const char *text)
{
    send_json(ws, json_pack("{s:s,s:s}", "type", "error", "message", text));
}

/* ---- counting ---------------------------------------------------------------------------------------------------------------------- */

static bool count_in(struct webchat *w, const struct scope *s)
{
    struct ws_count *c = map_get(&w->per_workspace, str_c(s->workspace));
    if ((int64_t)w->conns >= w->max_conns || (c && (int64_t)c->n >= w->max_conns_ws))
        return false;
    if (!c) {
        c = new (struct ws_count);
        if (!c || !map_put(&w->per_workspace, str_c(s->workspace), c)) {
            mem_free(c);
            return false;
        }
    }
    c->n++;
    w->conns++;
    return true;
}

static void count_out(struct webchat *w, const struct scope *s)
{
    struct ws_count *c = map_get(&w->per_workspace, str_c(s->workspace));
    w->conns--;
    if (c && --c->n == 0) {
        map_del(&w->per_workspace, str_c(s->workspace));
        mem_free(c);
    }
}

/* ---- attachments ---------------------------------------------------------------------------------------------------------------------- */

static const char *mime_for(const char *type, struct str key)
{
    const char *mime = mime_of_path(key);
    bool known = strcmp(mime, "application/octet-stream") != 0;
    if (strcmp(type, "Image") == 0)
        return known && strncmp(mime, "image/", 6) == 0 ? mime : "image/png";
    return known ? mime : strcmp(type, "Voice") == 0 ? "audio/wav" : "application/octet-stream";
}

/* Loads what `path` names, within the connection's own scope, into a data URI; the object is used up. */
static bool load_attachment(struct webchat *w, const struct scope *s, json_t *c, struct arena *a,
                            struct error *err)
{
    static const char *const picture[] = {"upload_image", NULL}, *const any[] = {"upload_image",
                                                                                 "upload_document",
                                                                                 NULL};
    const char *type = json_z_or(c, "type", "");
    struct str key = json_s(c, "path"), data;
    bool image = strcmp(type, "Image") == 0;
    if (key.n == 0 || (!image && strcmp(type, "Voice") != 0 && strcmp(type, "File") != 0))
        return true;
    struct objects *o = platform_objects(w->platform);
    if (!objects_get(o, s, key, image ? picture : any, a, &data, err))
        return err->code == ERR_NOT_FOUND
                   ? err_set(err, ERR_INVALID,
                             "Attachment key does not belong to this WebSocket connection")
                   : false;
    struct str uri =
        str_fmt(a, "data:%s;base64," STR_FMT, mime_for(type, key), STR_ARG(base64_encode(a, data)));
    if (arena_failed(a))
        return err_set(err, ERR_TOO_LARGE, "The attachments of a message are too large together");
    if (!objects_delete(o, s, key, err))
        return false;
    return json_set(c, "base64", json_strn(uri)) && json_set(c, "path", json_string(""));
}

/* ---- messages ------------------------------------------------------------------------------------------------------------------------- */

/* As it is kept and echoed: without payloads, only the members that say something. */
static json_t *bare_chain(const json_t *chain)
{
    json_t *out = json_deep_copy(chain);
    chain_strip_base64(out);
    return out;
}

static bool build_event(struct webchat_conn_opts *o, struct conn *c, json_t *chain, struct arena *a,
                        struct chat_event *ev)
{
    bool group = o->room.type == LAUNCHER_GROUP;
    json_t *with_source = json_array();
    int64_t now = time_wall_us();
    const char *number = z_fmt(a, "%lld", (long long)c->room->next_id);
    if (json_array_append_new(with_source, comp_source(number, now / 1000000)) != 0 ||
        json_array_extend(with_source, chain) != 0 || !arena_json(a, with_source))
        return false;
    *ev = (struct chat_event){
        .launcher = o->room.type,
        .sender_id =
            group ? z_fmt(a, "websocket_%s", c->id) : webchat_launcher(a, &o->room, c->id, false),
        .sender_name = "User",
        .group_id = group ? webchat_launcher(a, &o->room, c->id, true) : "",
        .group_name = group ? "Group" : "",
        .chain = with_source,
        .time = (double)now / 1e6,
    };
    return true;
}

static bool take_message(struct webchat *w, struct webchat_conn_opts *o, struct conn *c,
                         const json_t *frame, struct error *err)
{
    auto_arena a = arena_new(48u << 20);
    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory");
    json_t *chain = chain_decode(json_object_get(frame, "message"), err);
    if (!chain || !arena_json(a, chain))
        return false;
    if (json_array_size(chain) == 0)
        return err_set(err, ERR_INVALID, "message must hold at least one component");
    size_t i;
    json_t *part;
    json_array_foreach (chain, i, part) {
        if (!load_attachment(w, &o->room.scope, part, a, err))
            return false;
    }
    struct chat_event ev;
    json_t *kept = json_pack("{s:i,s:s,s:o,s:o,s:o,s:b,s:s}", "id", 0, "role", "user", "content",
                             json_strn(chain_text(a, chain)), "message_chain", bare_chain(chain),
                             "timestamp", json_now(), "is_final", 1, "connection_id", c->id);
    if (!kept || !arena_json(a, json_incref(kept)) || !build_event(o, c, chain, a, &ev)) {
        json_decref(kept);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    /* The number it will get unless another connection is quicker; what counts is that it is kept with the message. */
    json_set(kept, "id", json_integer(c->room->next_id));
    auto_json context = room_context(c->room, c->id, kept);
    struct accept_opts opts = {.context = context,
                               .pipeline = o->room.pipeline,
                               .no_stream = json_is_false(json_object_get(frame, "stream"))};
    struct accepted got;
    if (!bot_accept(o->bot, &ev, &opts, &got, err)) {
        json_decref(kept);
        return false;
    }
    /* It is safe now; its run has not begun: the echo comes before any answer. */
    json_t *m = room_append(w, c->room, kept);
    if (!m)
        return err_set(err, ERR_NOMEM, "out of memory");
    room_broadcast(c->room, "user_message", m, false);
    room_write_later(w, c->room, m);
    return true;
}

/* False: the connection ends. */
static bool __attribute__((noinline))
take_frame(struct webchat *w, struct webchat_conn_opts *o, struct conn *c, const struct ws_msg *msg)
{
    struct error err = {0};
    auto_json frame = net_json_parse(msg->data, true, &err);
    c->active_us = time_wall_us();
    if (!frame) {
        send_error(c->ws, "Invalid JSON format");
        return true;
    }
    if (!json_is_object(frame)) {
        send_error(c->ws, "A frame must be a JSON object");
        return true;
    }
    const json_t *t = json_object_get(frame, "type");
    const char *type = !t ? "message" : json_is_string(t) ? json_string_value(t) : "";
    if (strcmp(type, "ping") == 0) {
        send_json(c->ws, json_pack("{s:s,s:o}", "type", "pong", "timestamp", json_now()));
    } else if (strcmp(type, "disconnect") == 0) {
        return false;
    } else if (strcmp(type, "message") == 0) {
        /* Who was let in may have lost the right since. */
        if (!o->revalidate(o->arg, o, &err)) {
            send_error(c->ws, err.msg);
            return false;
        }
        err = (struct error){0};
        if (!take_message(w, o, c, frame, &err)) {
            bool known =
                err.code == ERR_INVALID || err.code == ERR_UNAVAILABLE || err.code == ERR_TOO_LARGE;
            if (!known)
                log_error("chat", "a message could not be taken connection=%s: %s", c->id, err.msg);
            send_error(c->ws, known ? err.msg : "Internal server error");
        }
    } else {
        log_debug("chat", "unknown frame type connection=%s", c->id);
    }
    return true;
}

static void greet(const struct webchat_conn_opts *o, const struct conn *c)
{
    const char *key = o->bot_uuid ? "bot_uuid" : "pipeline_uuid";
    send_json(c->ws, json_pack("{s:s,s:s,s:s,s:s,s:o}", "type", "connected", "connection_id", c->id,
                               key, o->bot_uuid ? o->bot_uuid : o->room.pipeline, "session_type",
                               launcher_name(o->room.type), "timestamp", json_now()));
}

/* Into the room, greeted; NULL: the socket was told. */
static struct conn *__attribute__((noinline))
conn_enter(struct webchat *w, struct ws *ws, struct webchat_conn_opts *o)
{
    struct error err = {0};
    struct conn *c = new (struct conn);
    if (c)
        c->room = room_take(w, &o->room, &err);
    if (!c || !c->room) {
        mem_free(c);
        send_error(ws, "Internal server error");
        return NULL;
    }
    c->ws = ws;
    c->created_us = c->active_us = time_wall_us();
    uuid4(c->id);
    snprintf(c->account, sizeof c->account, "%s", o->account ? o->account : "");
    list_push(&c->room->conns, &c->node);
    greet(o, c);
    return c;
}

static bool __attribute__((noinline))
next_frame(struct webchat *w, struct webchat_conn_opts *o, struct conn *c)
{
    struct error err;
    struct ws_msg msg;
    return ws_recv(c->ws, &msg, &err) && take_frame(w, o, c, &msg);
}

void webchat_run(struct webchat *w, struct ws *ws, struct webchat_conn_opts *o)
{
    if (!count_in(w, &o->room.scope)) {
        send_error(ws, "Internal server error");
        return;
    }
    struct conn *c = conn_enter(w, ws, o);
    if (c) {
        while (next_frame(w, o, c))
            ;
        ws_on_drain(ws, NULL, NULL);
        list_del(&c->node);
        room_release(w, c->room);
        mem_free(c);
    }
    count_out(w, &o->room.scope);
}

/* ---- for api/ --------------------------------------------------------------------------------------------------------------------------- */

static bool in_pipeline(const struct room *r, const struct scope *s, const char *pipeline)
{
    return scope_eq(&r->scope, s) && strcmp(r->pipeline, pipeline) == 0 && !r->session[0];
}

json_t *webchat_connections(struct webchat *w, const struct scope *s, const char *pipeline)
{
    json_t *list = json_array(), *by_pipeline = json_object(), *by_type = json_object();
    int64_t total = 0;
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&w->rooms, &pos, &key, &v)) {
        struct room *r = v;
        if (!scope_eq(&r->scope, s))
            continue;
        list_each(it, &r->conns)
        {
            const struct conn *c = container_of(it, struct conn, node);
            char a[TIME_ISO_SIZE], b[TIME_ISO_SIZE];
            const char *type = launcher_name(r->type);
            total++;
            json_set(by_pipeline, r->pipeline,
                     json_integer(json_i_or(by_pipeline, r->pipeline, 0) + 1));
            json_set(by_type, type, json_integer(json_i_or(by_type, type, 0) + 1));
            if (in_pipeline(r, s, pipeline))
                json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s,s:b}", "connection_id",
                                                      c->id, "session_type", type, "created_at",
                                                      time_iso(c->created_us, a), "last_active",
                                                      time_iso(c->active_us, b), "is_active",
                                                      (int)ws_is_open(c->ws)));
        }
    }
    return json_pack("{s:{s:I,s:I,s:o,s:o},s:o}", "stats", "total_connections", (json_int_t)total,
                     "pipelines", (json_int_t)json_object_size(by_pipeline),
                     "connections_by_pipeline", by_pipeline, "connections_by_session_type", by_type,
                     "connections", list);
}

void webchat_broadcast(struct webchat *w, const struct scope *s, const char *pipeline,
                       const char *message)
{
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&w->rooms, &pos, &key, &v)) {
        struct room *r = v;
        if (!in_pipeline(r, s, pipeline))
            continue;
        list_each(it, &r->conns) send_json(container_of(it, struct conn, node)->ws,
                                           json_pack("{s:s,s:s,s:o}", "type", "broadcast",
                                                     "message", message, "timestamp", json_now()));
    }
}

void webchat_close_account(struct webchat *w, const char *account)
{
    size_t pos = 0;
    struct str key;
    void *v;
    while (w && map_next(&w->rooms, &pos, &key, &v)) {
        struct room *r = v;
        list_each(it, &r->conns)
        {
            struct conn *c = container_of(it, struct conn, node);
            if (account && strcmp(c->account, account) != 0)
                continue;
            send_error(c->ws, "Unauthorized");
            ws_shutdown(c->ws, 1008, S("Unauthorized"));
        }
    }
}
