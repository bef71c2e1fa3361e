/* platform: the adapter interface and its runtime (bots). One file (or folder) per adapter; one line in adapters.c adds it.
 * platforms.md §1. Knows nothing of pipelines: what a bot receives goes to the host given at start. */
#ifndef PARLEY_PLATFORM_H
#define PARLEY_PLATFORM_H

#include "base/base.h"
#include "chat/chat.h"
#include "config/config.h"
#include "net/net.h"
#include "store/store.h"
#include "task/task.h"
#include "tenant/tenant.h"

struct bot;      /* a configured bot with its running adapter */
struct platform; /* all bots of the process */

/* One part of an answer, as SendResponseBack hands it down. Everything lives until the call returns. */
struct reply {
    const char *
        delivery_id; /* ledger row that is made durable before `reply` is called; NULL for parts not kept (stream parts) */
    const char *message_id;         /* inbound id of the (first) message it answers */
    const char *turn_id;            /* query uuid */
    const char *response_id;        /* one per streamed message; NULL when not streamed */
    const struct chat_event *event; /* what is answered; chain holds Source etc. */
    const char *launcher_id;
    const json_t
        *context; /* adapter's own reply context from accept; survives a restart; may be NULL */
    json_t *chain;
    bool quote_origin;
    bool is_chunk, is_final; /* chunk: cumulative text; final also on plain replies */
    bool tool_calls;         /* a final chunk with tool calls: the turn goes on */
    int64_t number;          /* part of the turn, from 1 */
    const json_t *tools;     /* final part: the turn's calls as `activity` told them; or NULL */
};
enum reply_result {
    REPLY_SENT,   /* the peer has it */
    REPLY_QUEUED, /* the adapter delivers on its own and will call bot_delivered(delivery_id …) */
    REPLY_FAILED, /* err says why */
};

/* What an adapter is given when it starts. */
struct adapter_env {
    struct bot *bot;
    struct platform *platform;
    const json_t *
        config; /* adapter_config with the manifest's defaults filled in; lives as long as the instance */
    struct task_group *
        group; /* the bot's own; cancelled at stop. NULL while a configuration is only checked (platform_check) */
};

/* The adapter interface (platforms.md §1.2). NULL members: not supported. All but `open` may wait. */
struct adapter {
    const char *name;       /* persisted key, also of metadata/adapters/<name>.yaml */
    const char *class_name; /* "HttpBotAdapter" */
    bool streaming;         /* is_stream_output_supported */
    bool hidden;            /* not listed (debug chat) */
    bool webhook;           /* has /bots/<uuid> */
    const char *account_id; /* fixed bot_account_id or NULL (then `account`) */
    /* Checks the configuration and makes the instance; ERR_INVALID names the field (create/update of a bot answers 400 with it). */
    void *(*open)(const struct adapter_env *env, struct error *err);
    void (*close)(void *instance); /* after its fibers have ended */
    bool (*run)(
        void *instance,
        struct error
            *err); /* connection loop; NULL for webhook adapters; ends only on cancel or error */
    const char *(*account)(void *instance);
    enum reply_result (*reply)(void *instance, const struct reply *r,
                               struct error *err); /* whole messages and chunks (is_chunk) */
    bool (*card)(void *instance, const struct reply *r,
                 struct error *err); /* before the first chunk; may be NULL */
    /* A tool call begins or has ended: {id, name, source?, arguments, status running|success|error, result?, duration_ms?}, texts
     * cut. For who may see the work of an agent; `r` has no chain. May be NULL. */
    void (*activity)(void *instance, const struct reply *r, const json_t *call);
    bool (*send)(void *instance, const char *target_type, const char *target_id, json_t *chain,
                 struct error *err);
    /* Delivery rows left by a crash (payload of the ledger, oldest first). */
    enum reply_result (*redeliver)(void *instance, const json_t *delivery_row, struct error *err);
    void (*webhook_request)(void *instance, struct http_request *r, struct str sub_path);
    const char *(*launcher_id)(void *instance, const struct chat_event *e, const json_t *context,
                               struct arena *a); /* threads; or NULL */
    /* What goes into the ledger's delivery payload so that redeliver can do it again; default {chain, launcher, context}. */
    json_t *(*delivery_payload)(void *instance, const struct reply *r);
};
extern const struct adapter *const adapters[];        /* adapters.c; NULL-terminated */
const struct adapter *adapter_find(const char *name); /* of this build; NULL: none of it */
/* Manifest as served ({name,label,description,icon,spec}); borrowed, made once from metadata/adapters/. NULL if unknown. */
const json_t *adapter_manifest(const char *name);

/* What the layers above do with messages. Set once by app/. */
struct accept_opts {
    const char *message_id; /* id under which it is accepted; NULL: a fresh one is made */
    const char *dedupe_key; /* platform message id or idempotency key; NULL: none */
    json_t *context;        /* borrowed; stored with the message for `reply`/`redeliver` */
    const char *pipeline;   /* override (debug chat, widget); NULL: routing rules */
    bool no_stream;
    bool
        ephemeral; /* nobody was promised anything (a caller waits on the line): not in the ledger, not taken up again */
};
struct accepted {
    char id[64];
    bool duplicate; /* known already; nothing was queued again */
    bool discarded; /* by a rule or webhook */
    bool aggregating;
};
struct platform_host {
    /* Routing, webhooks, ledger. Returns when the message is durable. ERR_UNAVAILABLE tag "overloaded" when admission refuses. */
    bool (*accept)(void *arg, struct bot *bot, struct chat_event *event,
                   const struct accept_opts *opts, struct accepted *out, struct error *err);
    void (*feedback)(void *arg, struct bot *bot, const json_t *feedback_event);
    /* The chat session of exactly this scope, bot and launcher is forgotten; *removed tells whether there was one. */
    bool (*reset_session)(void *arg, struct bot *bot, enum launcher launcher,
                          const char *launcher_id, bool *removed, struct error *err);
    void *arg;
};

/* ---- the runtime ----------------------------------------------------------------------------------------------------------------- */
struct platform_opts {
    const struct store *store;
    const struct config *config;
    const struct fence *fence;
    struct objects *objects;
    struct platform_host host;
    struct task_group *group;
};
struct platform *platform_new(const struct platform_opts *opts, struct error *err);
/* Loads and starts the enabled bots of all active workspaces; failures are logged per bot, others go on. */
bool platform_start(struct platform *p, struct error *err) warn_unused;
void platform_stop(struct platform *p); /* kill() ≤ 15 s each, in parallel */
void platform_free(struct platform *p);
/* Checks a configuration without starting it (POST/PUT of bots): ERR_INVALID names the field. */
bool platform_check(struct platform *p, const struct scope *scope, const json_t *bot_row,
                    struct error *err) warn_unused;
/* (Re)loads one bot from its row; starts it if enabled. `row` raw. */
bool platform_load(struct platform *p, const struct scope *scope, const json_t *row,
                   struct error *err) warn_unused;
void platform_unload(struct platform *p, const struct scope *scope, const char *bot_uuid);
struct bot *platform_bot(struct platform *p, const struct scope *scope,
                         const char *bot_uuid); /* NULL if not loaded */
struct bot *platform_public_bot(struct platform *p,
                                const char *bot_uuid); /* by uuid alone (webhooks, embed) */
/* The workspace's proxy bot "websocket-proxy-bot" (debug chat), made on demand. */
struct bot *platform_proxy_bot(struct platform *p, const struct scope *scope, struct error *err);
/* Built, and not switched off by system.disabled_adapters (hidden ones count as enabled). */
bool platform_adapter_enabled(const struct platform *p, const char *name);
size_t platform_count(const struct platform *p);
/* /bots/<uuid>[/path] (http-api.md §13.1), answers in all cases. */
void platform_webhook(struct platform *p, struct http_request *r, struct str bot_uuid,
                      struct str sub_path);

const char *bot_uuid(const struct bot *b);
const char *bot_name(const struct bot *b);
const struct scope *bot_scope(const struct bot *b);
const struct adapter *bot_adapter(const struct bot *b);
void *bot_instance(const struct bot *b);
const json_t *bot_row(const struct bot *b); /* borrowed; replaced by a reload */
const json_t *bot_config(const struct bot *b);
bool bot_enabled(const struct bot *b);
const char *bot_account_id(const struct bot *b);       /* "" if none */
const char *bot_default_pipeline(const struct bot *b); /* "" if none */
const json_t *bot_rules(const struct bot *b);
/* {state, since, last_error}: "running" | "stopped" | "failed" | "disabled". New reference. */
json_t *bot_health(const struct bot *b);
/* Event log (platforms.md §1.3): ring of 200. images: array of component objects or NULL. */
void bot_log(struct bot *b, enum log_level level, const json_t *images, const char *session,
             const char *fmt, ...) printf_like(5, 6);
json_t *bot_logs(struct bot *b, int64_t from_index, int64_t max_count); /* {logs, total_count} */
/* Shortcuts for adapters. */
bool bot_accept(struct bot *b, struct chat_event *event, const struct accept_opts *opts,
                struct accepted *out, struct error *err) warn_unused;
/* To the host (platform_host). */
bool bot_reset_session(struct bot *b, enum launcher launcher, const char *launcher_id,
                       bool *removed, struct error *err) warn_unused;
void bot_feedback(struct bot *b, const json_t *feedback_event);
void bot_delivered(struct bot *b, const char *delivery_id, bool ok, int64_t attempts,
                   const char *error);
enum reply_result bot_reply(struct bot *b, const struct reply *r, struct error *err);
/* Before the first chunk of a streamed answer; true where the adapter wants no such call. */
bool bot_card(struct bot *b, const struct reply *r, struct error *err) warn_unused;
/* Shows a tool call where the adapter can; errors stay there. */
void bot_activity(struct bot *b, const struct reply *r, const json_t *call);
bool bot_streams(const struct bot *b);
bool bot_send(struct bot *b, const char *target_type, const char *target_id, json_t *chain,
              struct error *err) warn_unused;
const struct store *bot_store(const struct bot *b);
struct platform *bot_platform(const struct bot *b);
struct objects *platform_objects(const struct platform *p);
const struct config *platform_config(const struct platform *p);

/* ---- web chats (debug chat and embed widget): platform/webchat*.c -------------------------------------------------------------------
 * Connections, history, broadcast; used by api/ for the WebSocket routes and their REST companions (http-api.md §12). */
struct webchat; /* of the process */
struct webchat *platform_webchat(struct platform *p);
struct
    webchat_room { /* conversation key: pipeline, or pipeline:session for embeds, per session type */
    struct scope scope;
    const char *pipeline;
    const char *session_id; /* NULL: debug chat */
    enum launcher type;
};
/* For the sockets of web chats: a message of 10 MiB comes back as one frame, which may be larger than its bytes were. */
enum { WEBCHAT_FRAME_MAX = 32 << 20 };
/* Runs one authenticated socket until it ends: sends `connected`, reads frames, echoes, accepts messages. `revalidate` is called before
 * each message (false: Unauthorized / Bot is unavailable, as in err->msg, then the socket closes). */
struct webchat_conn_opts {
    struct webchat_room room;
    struct bot *bot;      /* proxy bot or the page bot */
    const char *account;  /* uuid of the account behind it; NULL: a visitor */
    const char *bot_uuid; /* for `connected` of embeds; NULL: debug chat sends pipeline_uuid */
    bool (*revalidate)(void *arg, struct webchat_conn_opts *self, struct error *err);
    void *arg;
};
void webchat_run(struct webchat *w, struct ws *socket, struct webchat_conn_opts *opts);
json_t *webchat_messages(struct webchat *w, const struct webchat_room *room,
                         struct error *err); /* array */
bool webchat_reset(struct webchat *w, const struct webchat_room *room,
                   struct error *err) warn_unused;
json_t *webchat_connections(struct webchat *w, const struct scope *scope,
                            const char *pipeline); /* {stats, connections} */
void webchat_broadcast(struct webchat *w, const struct scope *scope, const char *pipeline,
                       const char *message);
/* Closes chats of an account (password changed) or of a pipeline/bot that was removed; NULL matches all. */
void webchat_close_account(struct webchat *w, const char *account_uuid);
size_t webchat_count(const struct webchat *w);

#endif
