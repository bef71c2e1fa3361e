/* chat: message chains, events, LLM messages, queries. Pure data; no I/O. pipeline.md §1–§3, §4.6; providers.md §15. */
#ifndef PARLEY_CHAT_H
#define PARLEY_CHAT_H

#include "base/base.h"
#include "crypto/crypto.h"
#include "tenant/tenant.h"

/* ---- message chains: JSON arrays of components -------------------------------------------------------------------------------- */
/* Decodes what came from outside: unknown types become Unknown, known ones get all their fields with defaults (§1.1), Source takes
 * `timestamp` or `time`. New reference. ERR_INVALID (names component index and field) for a wrongly typed field of a known type, more than
 * 1,000 components or nesting over 8. */
json_t *chain_decode(const json_t *array, struct error *err);
/* Text form (§1.3): without Source. */
struct str chain_text(struct arena *a, const json_t *chain);
struct str chain_plain_text(struct arena *a, const json_t *chain); /* top-level Plain only */
const json_t *chain_find(const json_t *chain, const char *type);   /* first, borrowed, or NULL */
bool chain_has(const json_t *chain, const char *type);
bool chain_only(const json_t *chain, const char *const *types); /* NULL-terminated list */
/* Builders; new references. */
json_t *chain_of_text(struct str text);
json_t *comp_plain(struct str text);
json_t *comp_plain_of(json_t *text); /* shares the string */
json_t *comp_at(const char *target, const char *display);
json_t *comp_source(const char *id, int64_t unix_seconds);
json_t *comp_image(const char *url, const char *base64);
/* Data URI parts: mime and base64 text; false if it is none. */
bool data_uri_split(struct str uri, struct str *mime, struct str *base64);
/* Flattening for the CSV export (http-api.md §16). */
struct str chain_export_text(struct arena *a, const json_t *chain);
/* Removes base64 payloads in place (history, ledgers). */
void chain_strip_base64(json_t *chain);
/* The chain without payloads: itself if it has none, else a copy. New reference. */
json_t *chain_bare(const json_t *chain);

/* ---- events ----------------------------------------------------------------------------------------------------------------------- */
enum launcher { LAUNCHER_PERSON, LAUNCHER_GROUP };
const char *launcher_name(enum launcher l); /* "person" | "group" */
/* A message from a platform. Owned by an arena or by the JSON behind it. */
struct chat_event {
    enum launcher launcher;
    const char *sender_id, *sender_name; /* "" if unknown */
    const char *group_id, *group_name;   /* group only */
    json_t *chain;                       /* decoded; Source first where the platform has ids */
    double time;                         /* unix seconds */
};
/* Event as of §2 (FriendMessage | GroupMessage); new reference. And back, from the ledger's payload. */
json_t *event_to_json(const struct chat_event *e);
bool event_of_json(struct arena *a, const json_t *j, struct chat_event *out,
                   struct error *err) warn_unused;

/* ---- LLM messages: JSON objects {role, content, tool_calls?, …} ---------------------------------------------------------------------- */
json_t *llm_message(const char *role, struct str content);
/* Takes over `content`; NULL where that is NULL or memory ends. */
json_t *llm_message_of(const char *role, json_t *content_stolen);
struct str llm_content_text(struct arena *a, const json_t *message); /* text parts joined */
/* Content → chain (§3); `prefix` NULL or put before the first Plain. New reference; json_null() for null content. */
json_t *llm_content_chain(const json_t *message, const char *prefix);

/* ---- query: one run through a pipeline (§4.6) ---------------------------------------------------------------------------------------- */
/* Everything lives in `arena`; JSON members are references released with it (arena_json). Fields below "runtime" belong to the stages. */
struct query {
    struct arena *arena;
    int64_t id;
    char uuid[UUID_SIZE];
    struct scope scope;
    const char *bot_uuid, *bot_name, *pipeline_uuid, *pipeline_name;
    const char *adapter_name; /* class name */
    struct chat_event event;
    const char *session_name; /* made by query_session_name at its first use */
    const char *launcher_id;  /* may differ from event (threads) */
    json_t *chain;            /* the query's chain; first the event's */
    bool routed_by_rule;
    json_t *inbound_ids;         /* ledger ids of the merged messages, oldest first */
    const char *message_id;      /* of the first: what replies refer to */
    const json_t *reply_context; /* adapter's own data from the ledger payload */
    bool stream_wanted;          /* per message (debug chat's "stream": false) and adapter able */
    /* runtime */
    const json_t *config; /* pipeline config, coerced; constant for the run */
    json_t *variables;
    json_t *prompt, *messages; /* arrays: prompt messages; truncated history */
    json_t *user_message;
    json_t *responses;       /* array: all full response messages of the turn, for the history */
    json_t *records;         /* monitoring records not yet written: [[kind, row]…] */
    const char *monitor_id;  /* monitoring message id */
    const char *response_id; /* one per turn */
    void *session;           /* struct session of pipeline/ */
    void *bot;               /* struct bot of platform/ */
    int64_t started_us;
    int64_t parts; /* deliveries made so far */
    bool has_error;
};
void query_var(struct query *q, const char *name, json_t *stolen);
const char *query_session_name(struct query *q); /* "person_<id>", arena */

#endif
