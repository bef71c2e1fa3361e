/* Rooms of the web chats: history and who sees it. http-api.md §12.1, platforms.md §2.20. */
#include "platform/webchat_private.h"

#include <stdio.h>

enum {
    KEY_USUAL = 160,
    KEY_MAX = 2048,
    FRAME_USUAL = 400,
    SCRATCH_MAX = 64 << 20,
    SCRATCH_KEEP = 64 << 10
};

static const char *const own_members[] = {"_delivery", "_response"};

static bool is_own(const char *name)
{
    bool own = false;
    for (size_t i = 0; name[0] == '_' && i < array_len(own_members); i++)
        own = own || strcmp(name, own_members[i]) == 0;
    return own;
}

json_t *room_shown(const json_t *message)
{
    json_t *out = json_copy((json_t *)(uintptr_t)message);
    for (size_t i = 0; i < array_len(own_members); i++)
        json_object_del(out, own_members[i]);
    return out;
}

json_t *room_find(const struct room *r, const char *tag, const char *value)
{
    for (size_t i = json_array_size(r->messages); value && i > 0; i--) {
        json_t *m = json_array_get(r->messages, i - 1);
        if (str_eqz(json_s(m, tag), value))
            return m;
    }
    return NULL;
}

static void room_free(struct room *r)
{
    mem_free(r->map_key);
    json_decref(r->messages);
    mem_free(r);
}

static void room_drop(struct webchat *w, struct room *r)
{
    map_del(&w->rooms, str_c(r->map_key));
    list_del(&r->lru);
    w->room_count--;
    room_free(r);
}

/* Empty, for what is written without a wait in between; one buffer for all spares each part of a stream its own. */
static struct buf *scratch(struct webchat *w)
{
    w->scratch.max = SCRATCH_MAX;
    if (w->scratch.cap > SCRATCH_KEEP)
        buf_free(&w->scratch);
    buf_clear(&w->scratch);
    return &w->scratch;
}

/* Their rows are in the database: rooms that nobody is in leave the memory, the longest unused first. */
static void shrink(struct webchat *w)
{
    list_each(it, &w->lru)
    {
        struct room *r = container_of(it, struct room, lru);
        if ((int64_t)w->room_count <= w->max_rooms)
            return;
        if (r->users == 0 && list_empty(&r->conns))
            room_drop(w, r);
    }
}

/* "<workspace>|<generation>|<key>" with the key from *at on. By hand: each part of a stream asks for its room. */
static bool key_of(const struct webchat_room *at, struct buf *out, size_t *from)
{
    char digits[24];
    size_t n = sizeof digits;
    uint64_t left = (uint64_t)at->scope.generation; /* > 0 */
    do {
        digits[--n] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    buf_reserve(out, KEY_USUAL);
    buf_z(out, at->scope.workspace);
    buf_c(out, '|');
    buf_add(out, digits + n, sizeof digits - n);
    buf_c(out, '|');
    *from = out->n;
    buf_z(out, at->pipeline);
    if (at->session_id) {
        buf_c(out, ':');
        buf_z(out, at->session_id);
    }
    buf_c(out, '|');
    buf_z(out, launcher_name(at->type));
    return !out->failed && out->n <= KEY_MAX;
}

/* The kept history, unless it has been idle for too long. */
static bool load(struct webchat *w, struct room *r, struct error *err)
{
    const struct store *st = w->platform->opts.store;
    struct store_eq key = EQ_Z("conversation_key", r->key);
    auto_json rows = store_do_list(st, &table_chat_messages, &r->scope, &key, 1, "\"number\" DESC",
                                   w->max_messages, 0, true, err);
    if (!rows)
        return false;
    int64_t newest = 0;
    if (json_array_size(rows) > 0 &&
        time_parse(json_s(json_array_get(rows, 0), "updated_at"), &newest) &&
        time_wall_us() - newest > w->idle_us)
        return store_do_delete(st, &table_chat_messages, &r->scope, &key, 1, NULL, err);
    for (size_t i = json_array_size(rows); i > 0; i--) {
        json_t *row = json_array_get(rows, i - 1);
        json_t *data = json_object_get(row, "data");
        if (json_is_object(data))
            json_array_append(r->messages, data);
        r->next_id = json_i_or(row, "number", 0) + 1;
    }
    return true;
}

static struct room *room_new(struct webchat *w, const struct webchat_room *at, struct str map_key,
                             size_t key_at)
{
    struct room *r = new (struct room);
    if (!r)
        return NULL;
    r->chat = w;
    r->scope = at->scope;
    r->type = at->type;
    r->next_id = 1;
    snprintf(r->pipeline, sizeof r->pipeline, "%s", at->pipeline);
    snprintf(r->session, sizeof r->session, "%s", at->session_id ? at->session_id : "");
    r->map_key = mem_strndup(map_key.p, map_key.n);
    r->key = r->map_key ? r->map_key + key_at : NULL;
    r->messages = json_array();
    list_init(&r->conns);
    if (r->map_key && r->messages)
        return r;
    room_free(r);
    return NULL;
}

/* Reads its history. `made` is used up; what is returned is the room of that key, which somebody else may have made meanwhile. */
static struct room *room_enter(struct webchat *w, struct room *made, struct error *err)
{
    if (!load(w, made, err)) {
        room_free(made);
        return NULL;
    }
    struct room *r = map_get(&w->rooms, str_c(made->map_key));
    if (r) {
        room_free(made);
        return r;
    }
    if (!map_put(&w->rooms, str_c(made->map_key), made)) {
        room_free(made);
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    list_push(&w->lru, &made->lru);
    w->room_count++;
    return made;
}

struct room *room_take(struct webchat *w, const struct webchat_room *at, struct error *err)
{
    struct buf *key = scratch(w);
    size_t key_at = 0;
    if (!key_of(at, key, &key_at)) {
        err_set(err, ERR_INVALID, "the session id is too long");
        return NULL;
    }
    struct room *r = map_get(&w->rooms, buf_view(key));
    if (!r) {
        r = room_new(w, at, buf_view(key), key_at);
        if (!r) {
            err_set(err, ERR_NOMEM, "out of memory");
            return NULL;
        }
        r = room_enter(w, r, err);
        if (!r)
            return NULL;
    }
    r->users++;
    r->used_us = time_mono_us();
    list_del(&r->lru);
    list_push(&w->lru, &r->lru);
    shrink(w);
    return r;
}

void room_release(struct webchat *w, struct room *r)
{
    r->users--;
    shrink(w);
}

json_t *room_append(struct webchat *w, struct room *r, json_t *message)
{
    if (!message || !json_set(message, "id", json_integer(r->next_id)) ||
        json_array_append_new(r->messages, message) != 0)
        return NULL;
    r->next_id++;
    while ((int64_t)json_array_size(r->messages) > w->max_messages)
        json_array_remove(r->messages, 0);
    return message;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------ */

struct write {
    struct scope scope;
    char *key;
    json_t *messages; /* copies: a database thread reads them */
    int64_t keep;
};

static bool do_write(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql insert = {
        .text =
            "INSERT INTO parley_chat_messages (workspace_uuid, conversation_key, number, data, updated_at) VALUES (?, ?, "
            "?, ?, ?) ON CONFLICT (workspace_uuid, conversation_key, number) DO NOTHING"};
    static struct db_sql trim = {
        .text =
            "DELETE FROM parley_chat_messages WHERE workspace_uuid = ? AND conversation_key = ? AND number <= ?"};
    struct write *w = arg;
    char now[TIME_ISO_SIZE];
    time_sql(time_wall_us(), now);
    struct db_val ws = DB_V_Z(w->scope.workspace), key = DB_V_Z(w->key);
    int64_t last = 0;
    size_t i;
    json_t *m;
    json_array_foreach (w->messages, i, m) {
        last = json_i_or(m, "id", 0);
        struct db_val v[] = {ws, key, DB_V_I(last), DB_V_S(json_text(db_tx_arena(tx), m)),
                             DB_V_Z(now)};
        if (!db_exec(tx, &insert, v, array_len(v), NULL, err))
            return false;
    }
    struct db_val t[] = {ws, key, DB_V_I(last - w->keep)};
    return last <= w->keep || db_exec(tx, &trim, t, array_len(t), NULL, err);
}

static void write_free(void *arg)
{
    struct write *w = arg;
    mem_free(w->key);
    json_decref(w->messages);
    mem_free(w);
}

static struct write *write_new(struct webchat *w, struct room *r, const json_t *messages)
{
    struct write *x = new (struct write);
    if (!x)
        return NULL;
    x->scope = r->scope;
    x->keep = w->max_messages;
    x->key = mem_strndup(r->key, strlen(r->key));
    x->messages = json_deep_copy(messages);
    if (x->key && x->messages)
        return x;
    write_free(x);
    return NULL;
}

bool room_write(struct webchat *w, struct room *r, const json_t *messages, struct error *err)
{
    struct write *x = write_new(w, r, messages);
    if (!x)
        return err_set(err, ERR_NOMEM, "out of memory");
    bool ok = db_write_again(w->platform->opts.store->db, scope_db(&x->scope), do_write, x, err);
    write_free(x);
    return ok;
}

void room_write_later(struct webchat *w, struct room *r, const json_t *message)
{
    struct error err = {0};
    auto_json list = json_pack("[O]", message);
    struct write *x = list ? write_new(w, r, list) : NULL;
    if (x && !db_write_owed(w->platform->opts.store->db, scope_db(&x->scope), do_write, x,
                            write_free, "a message of a web chat", &err))
        log_error("chat", "a message of a web chat was not kept: %s", err.msg);
}

/* ---- frames ------------------------------------------------------------------------------------------------------------------------ */

static void put_name(struct buf *out, char sep, const char *name)
{
    size_t n = strlen(name);
    if (!buf_reserve(out, n + 4))
        return;
    char *p = out->p + out->n;
    *p++ = sep;
    *p++ = '"';
    memcpy(p, name, n);
    memcpy(p + n, "\":", 2);
    out->n += n + 4;
}

/* {"type":…,"session_type":…,"data":{the message without our own members}}, written at once: a stream sends one for each part.
 * The names of a message are ours, nothing in them needs an escape. */
static bool frame_of(const struct room *r, const char *type, const json_t *message, struct buf *out)
{
    const char *name;
    json_t *value;
    char sep = '{';
    buf_reserve(out, FRAME_USUAL + 2 * json_s(message, "content").n);
    buf_z(out, "{\"type\":\"");
    buf_z(out, type);
    buf_z(out, "\",\"session_type\":\"");
    buf_z(out, launcher_name(r->type));
    buf_z(out, "\",\"data\":");
    json_object_foreach ((json_t *)(uintptr_t)message, name, value) {
        if (is_own(name))
            continue;
        put_name(out, sep, name);
        if (!json_put(out, value))
            return false;
        sep = ',';
    }
    return buf_z(out, "}}");
}

static void send_to(struct conn *c, struct str frame)
{
    static struct error err; /* nothing waits here, and the stacks of streams are spared its size */
    if (!ws_send(c->ws, WS_TEXT, frame, &err) && err.code == ERR_CAPACITY) {
        /* It takes nothing any more; it will read the history when it comes back. */
        log_info("chat", "a web chat was closed: it does not take its frames connection=%s", c->id);
        ws_shutdown(c->ws, 1013, S("too slow"));
    }
}

/* The newest snapshot for a reader that has taken all before. */
static void on_drain(void *arg)
{
    struct conn *c = arg;
    int64_t id = c->late;
    c->late = 0;
    for (size_t i = json_array_size(c->room->messages); id && i > 0; i--) {
        const json_t *m = json_array_get(c->room->messages, i - 1);
        if (json_i_or(m, "id", 0) != id)
            continue;
        struct buf *frame = scratch(c->room->chat);
        if (frame_of(c->room, "response", m, frame))
            send_to(c, buf_view(frame));
        return;
    }
}

void room_broadcast(struct room *r, const char *type, const json_t *message, bool snapshot)
{
    struct buf *frame = scratch(r->chat);
    int64_t id = json_i_or(message, "id", 0);
    list_each(it, &r->conns)
    {
        struct conn *c = container_of(it, struct conn, node);
        if (snapshot && ws_queued(c->ws) > 0) {
            if (c->late != id) {
                c->late = id;
                ws_on_drain(c->ws, on_drain, c);
            }
            continue;
        }
        if (c->late == id)
            c->late = 0;
        if (frame->n == 0 && !frame_of(r, type, message, frame))
            return;
        send_to(c, buf_view(frame));
    }
}

/* ---- reply context: survives a restart --------------------------------------------------------------------------------------------- */

json_t *room_context(const struct room *r, const char *connection, const json_t *user)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:O}", "pipeline", r->pipeline, "session", r->session,
                     "type", launcher_name(r->type), "connection", connection, "user", user);
}

bool room_of_context(const struct scope *s, const json_t *context, struct webchat_room *out)
{
    const char *pipeline = json_z(context, "pipeline"),
               *session = json_z_or(context, "session", "");
    if (!pipeline)
        return false;
    *out = (struct webchat_room){
        .scope = *s,
        .pipeline = pipeline,
        .session_id = *session ? session : NULL,
        .type = str_eqz(json_s(context, "type"), "group") ? LAUNCHER_GROUP : LAUNCHER_PERSON};
    return true;
}

const char *webchat_launcher(struct arena *a, const struct webchat_room *at, const char *connection,
                             bool group)
{
    const char *prefix = group ? "websocketgroup" : "websocket";
    if (at->session_id)
        return z_fmt(a, "%s_%s:%s", prefix, at->pipeline, at->session_id);
    return group ? prefix : z_fmt(a, "%s_%s", prefix, connection);
}

void rooms_free(struct webchat *w)
{
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&w->rooms, &pos, &key, &v))
        room_free(v);
    map_free(&w->rooms);
    buf_free(&w->scratch);
}

/* ---- for api/ ------------------------------------------------------------------------------------------------------------------------ */

json_t *webchat_messages(struct webchat *w, const struct webchat_room *at, struct error *err)
{
    struct room *r = room_take(w, at, err);
    if (!r)
        return NULL;
    json_t *out = json_array();
    size_t i;
    json_t *m;
    json_array_foreach (r->messages, i, m)
        json_array_append_new(out, room_shown(m));
    room_release(w, r);
    return out;
}

bool webchat_reset(struct webchat *w, const struct webchat_room *at, struct error *err)
{
    struct room *r = room_take(w, at, err);
    if (!r)
        return false;
    struct store_eq key = EQ_Z("conversation_key", r->key);
    /* Late writes of the old history come before the deletion: the database takes both in their order. */
    bool ok = store_do_delete(w->platform->opts.store, &table_chat_messages, &r->scope, &key, 1,
                              NULL, err);
    if (ok) {
        json_array_clear(r->messages);
        r->next_id = 1;
    }
    room_release(w, r);
    return ok;
}
