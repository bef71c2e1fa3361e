/* Private to webchat*.c: rooms with their history (webchat_room.c), connections (webchat.c), the adapters (webchat_adapter.c). */
#ifndef PARLEY_PLATFORM_WEBCHAT_PRIVATE_H
#define PARLEY_PLATFORM_WEBCHAT_PRIVATE_H

#include "platform/platform_private.h"
#include "platform/webchat.h"

/* A conversation: history in memory while it is in use, its rows in the database. */
struct room {
    struct webchat *chat;
    struct list lru;
    char *map_key; /* "<workspace>|<generation>|<key>" */
    const char
        *key; /* in map_key: "<pipeline>[:<session>]|<type>", the conversation_key of its rows */
    struct scope scope;
    char pipeline[64];
    char session[UUID_SIZE]; /* "" for the debug chat */
    enum launcher type;
    json_t *messages; /* array of {…message, "_delivery"?, "_response"?} */
    int64_t next_id;
    struct list conns;
    int64_t used_us;
    int users; /* fibers that hold it over a wait */
};

struct conn {
    struct list node; /* in its room */
    struct room *room;
    struct ws *ws;
    char id[UUID_SIZE], account[UUID_SIZE];
    int64_t created_us, active_us;
    int64_t late; /* id of the message whose newest snapshot this reader has not been sent, or 0 */
};

struct webchat {
    struct platform *platform;
    struct buf scratch; /* of whoever writes a frame or a key and does not wait meanwhile */
    struct map rooms, per_workspace; /* counts of connections: struct ws_count */
    struct list lru;
    size_t conns, room_count;
    int64_t max_conns, max_conns_ws, max_rooms, max_messages, idle_us;
    int64_t born_us; /* time_wall_us(); messages of earlier processes may have lost their row */
};

/* Loaded from the store if need be; the caller ends with room_release. */
struct room *room_take(struct webchat *w, const struct webchat_room *at, struct error *err);
void room_release(struct webchat *w, struct room *r);
/* Puts a message (stolen) at the end: gives it its id, cuts the oldest. Borrowed. */
json_t *room_append(struct webchat *w, struct room *r, json_t *message);
json_t *room_find(const struct room *r, const char *tag, const char *value);
/* As clients see it: without our own members. New reference. */
json_t *room_shown(const json_t *message);
/* Writes messages (array of borrowed) of the room; existing numbers stay as they are. Durable on return. */
bool room_write(struct webchat *w, struct room *r, const json_t *messages,
                struct error *err) warn_unused;
void room_write_later(struct webchat *w, struct room *r, const json_t *message);
/* {type, session_type, data} to all connections of the room; snapshots of slow readers are merged. */
void room_broadcast(struct room *r, const char *type, const json_t *message, bool snapshot);
json_t *room_context(const struct room *r, const char *connection, const json_t *user_message);
bool room_of_context(const struct scope *s, const json_t *context, struct webchat_room *out);
const char *webchat_launcher(struct arena *a, const struct webchat_room *at, const char *connection,
                             bool group);
void rooms_free(struct webchat *w);

#endif
