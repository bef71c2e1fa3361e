/* Private to platform/: the generic HTTP bot (http-api.md §13.2, platforms.md §2.19). http_bot.c takes requests, http_bot_sync.c keeps
 * the waiting /sync calls and the idempotency keys, http_bot_out.c sends the callbacks. */
#ifndef PARLEY_PLATFORM_HTTP_BOT_H
#define PARLEY_PLATFORM_HTTP_BOT_H

#include "platform/platform_private.h"

extern const struct adapter adapter_http_bot;

enum {
    HB_BODY_MAX = 1 << 20,
    HB_KEYS_MAX = 4096,
    HB_KEY_TTL_MS = 600000,
    HB_SESSIONS_MAX = 4096, /* with callbacks on their way at the same time */
    HB_QUEUE_MAX = 100,     /* callbacks that wait in one session; whoever has more waits */
    HB_PAUSE_MAX_S = 30,
    HB_FIRST_HOLD_MS = 60,    /* see http_bot_out.c */
    HB_SESSION_ID_MAX = 2048, /* an index row of PostgreSQL holds 2704 bytes */
};

/* One opened configuration; borrowed texts live in it. */
struct http_bot {
    struct bot *bot;
    struct hb_state *state; /* NULL while a configuration is only checked */
    const char *inbound, *outbound, *url;
    char origin[160]; /* of the URL, for logs: path and query may hold secrets */
    bool group_by_default, signed_only;
    int timeout_s, retries;
};

/* A /sync call that waits for its answer. */
struct hb_sync {
    char id[40];   /* of its message */
    json_t *parts; /* [{chain, response?, whole?}] */
    bool done;
    struct task_cond cond;
};

struct hb_key {
    struct list node;
    char hex[65];
    int64_t at_us;
};

/* What outlives a change of the bot's configuration. */
struct hb_state {
    struct bot *bot;
    long refs; /* the bot's and those of calls that wait */
    struct task_group *group;
    struct map sessions; /* "p<id>" | "g<id>" → struct hb_session */
    struct map syncs;    /* the same keys → struct hb_sync */
    struct map keys;     /* hex → struct hb_key */
    struct list key_order;
    size_t working; /* sessions with a fiber */
    int64_t swept_us, refused_us;
    bool stopping, gone;
    struct task_cond room; /* a part left a queue */
    struct task_cond stop; /* `stopping` or `gone` was set */
    struct task_cond idle; /* a session's fiber ended */
};
struct hb_state *hb_state_of(struct bot *b,
                             struct error *err); /* made at the first call, kept by the bot */
void hb_state_unref(struct hb_state *st);

/* Key of a session, owned by the caller (mem_free). */
char *hb_session_key(bool group, const char *session_id);

/* ---- http_bot_sync.c ------------------------------------------------------------------------------------------------------- */
/* False: known within the last 600 s. A refused message gives its key back. */
bool hb_key_take(struct hb_state *st, const char *hex, struct error *err) warn_unused;
void hb_key_give_back(struct hb_state *st, const char *hex);
void hb_keys_free(struct hb_state *st);
/* Gives a part to the /sync call that waits for it; false: nobody does. */
bool hb_sync_reply(struct hb_state *st, const char *key, const struct reply *r);
/* Waits until its answer is whole, at most `ms` (true then as well). False: the client or the bot has
 * gone, or the process stops, so that what has come is no answer. */
bool hb_sync_wait(struct hb_state *st, struct hb_sync *s, struct http_request *r, int64_t ms,
                  struct error *err) warn_unused;
json_t *hb_sync_message(const struct hb_sync *s); /* new reference */

/* ---- http_bot_out.c --------------------------------------------------------------------------------------------------------- */
bool hb_is_final(const struct reply *r); /* is_final and no tool calls */
enum reply_result hb_out_reply(struct hb_state *st, const char *key, const struct reply *r,
                               struct error *err);
json_t *hb_out_payload(struct hb_state *st, const char *key, const struct reply *r);
void hb_out_forget(struct hb_state *st, const char *key,
                   const struct reply *r); /* it went to a /sync call instead */
enum reply_result hb_out_redeliver(struct hb_state *st, const json_t *row, struct error *err);
bool hb_out_send(struct hb_state *st, bool group, const char *session_id, json_t *chain,
                 struct error *err) warn_unused;
void hb_out_free(
    struct hb_state
        *st); /* no fiber runs any more; what waits is released (finals stay in the ledger) */
/* Names of what waits are reported as failed: the bot is gone for good. */
void hb_out_give_up(struct hb_state *st);
void hb_out_drain(struct hb_state *st, int64_t grace_ms);

#endif
