/* store: every table declared once; the only place with SQL. One file per group of tables. Functions that take a `struct db_tx`
 * run inside a unit of work (possibly on a database thread: they touch nothing but their arguments); functions that take a
 * `struct store` open their own and may wait. persistence-and-ops.md §2, tenancy.md §2. */
#ifndef PARLEY_STORE_H
#define PARLEY_STORE_H

#include "base/base.h"
#include "crypto/crypto.h"
#include "db/db.h"
#include "tenant/tenant.h"

struct store {
    struct db *db;
    struct seal_key key; /* secrets at rest */
    char instance[256];
};

/* The result of a unit of work, handed over: none where its commit failed. */
static inline json_t *store_result(bool ok, json_t **result)
{
    if (!ok)
        json_decref(steal(*result));
    return steal(*result);
}

/* ---- column tables --------------------------------------------------------------------------------------------------------- */
enum col_type { COL_STR, COL_TEXT, COL_JSON, COL_INT, COL_FLOAT, COL_BOOL, COL_TIME, COL_BLOB };
enum col_flags {
    COL_PK = 1,
    COL_NULL = 2,
    COL_SEALED = 4,  /* encrypted at rest (context "table.column") */
    COL_SECRET = 8,  /* masked in answers without the permission */
    COL_HIDDEN = 16, /* never leaves store/ in JSON (password, hashes, tokens) */
    COL_FIXED = 32,  /* ignored in updates from outside (uuid, workspace_uuid, …) */
    COL_UUID = 64,   /* filled with a v4 at insert when absent */
    COL_NOW_INSERT = 128,
    COL_NOW_UPDATE = 256, /* also set at insert */
    COL_SCOPE = 512, /* the workspace column: always bound from the scope, never from the row */
    COL_AUTO = 1024, /* autoincrement id */
};
struct column {
    const char *name; /* column and JSON name; NULL ends the list */
    enum col_type type;
    unsigned flags;
    int max;         /* characters of COL_STR/COL_TEXT; 0: unlimited */
    const char *def; /* JSON text of the default at insert; NULL: required (unless COL_NULL) */
};
/* Change groups for caches (db_touch). */
enum store_group {
    GROUP_IDENTITY,
    GROUP_BOTS,
    GROUP_PIPELINES,
    GROUP_MODELS,
    GROUP_OTHER,
    GROUP_MONITORING,
    GROUP_LEDGER
};
struct table {
    const char *name;
    const struct column *columns;
    enum store_group group;
    const char *order; /* default ORDER BY, a literal */
};
extern const struct table *const store_tables[]; /* NULL-terminated: all of them */
extern const struct table table_metadata, table_users, table_workspaces, table_memberships,
    table_invitations, table_execution_states, table_workspace_metadata, table_api_keys, table_bots,
    table_bot_admins, table_pipelines, table_providers, table_llm_models, table_embedding_models,
    table_rerank_models, table_webhooks, table_binary_storages, table_mon_messages,
    table_mon_llm_calls, table_mon_tool_calls, table_mon_sessions, table_mon_errors,
    table_mon_embedding_calls, table_mon_feedback, table_mcp_servers, table_plugin_settings,
    table_knowledge_bases, table_knowledge_files, table_knowledge_chunks, table_run_records,
    table_codex_credentials, table_support_sessions, table_launch_consumptions,
    table_directory_states, table_directory_inbox,
    table_inbound,    /* parley_messages: ledger of accepted messages, see below */
    table_deliveries, /* parley_deliveries: replies on their way */
    table_sessions, table_conversations, table_turns, table_chat_messages, table_audit;

/* Key or filter: column = value (NULL value: IS NULL). */
struct store_eq {
    const char *column;
    struct db_val value;
};
#define EQ_Z(col, z)   ((struct store_eq){(col), DB_V_Z(z)})
#define EQ_S(col, str) ((struct store_eq){(col), DB_V_S(str)})
#define EQ_I(col, i64) ((struct store_eq){(col), DB_V_I(i64)})

/* Generic rows as JSON objects: COL_TIME as ISO text, COL_BOOL as true/false, COL_JSON as values, hidden columns left out
 * unless `raw`. `scope` NULL only for tables without a scope column. All statements bind the scope column themselves: a foreign
 * row is exactly a missing one. `key` needs st for sealed columns. */
/* Fills defaults, uuid, times. Unknown member: ERR_INVALID "unknown field: x"; wrong type or too long: ERR_INVALID naming field
 * and limit. The stored row (new reference) or NULL. */
json_t *store_insert(struct db_tx *tx, const struct store *st, const struct table *t,
                     const struct scope *scope, const json_t *row, struct error *err);
/* New reference; NULL with ERR_NOT_FOUND tag "resource_not_found". */
json_t *store_get(struct db_tx *tx, const struct store *st, const struct table *t,
                  const struct scope *scope, const struct store_eq *key, size_t n, bool raw,
                  struct error *err);
/* `order` NULL: the table's. limit < 0: all (at most 100,000). Array, new reference. */
json_t *store_list(struct db_tx *tx, const struct store *st, const struct table *t,
                   const struct scope *scope, const struct store_eq *where, size_t n,
                   const char *order, int64_t limit, int64_t offset, bool raw, struct error *err);
/* Writes the submitted columns (COL_FIXED ones are skipped unless raw), sets update times. ERR_NOT_FOUND when nothing matched. */
bool store_update(struct db_tx *tx, const struct store *st, const struct table *t,
                  const struct scope *scope, const struct store_eq *key, size_t n,
                  const json_t *patch, bool raw, struct error *err) warn_unused;
bool store_delete(struct db_tx *tx, const struct store *st, const struct table *t,
                  const struct scope *scope, const struct store_eq *key, size_t n, int64_t *deleted,
                  struct error *err) warn_unused;
bool store_count(struct db_tx *tx, const struct table *t, const struct scope *scope,
                 const struct store_eq *where, size_t n, int64_t *out,
                 struct error *err) warn_unused;
/* Checks a row against the column table without writing (field names, types, limits). */
bool store_check(const struct table *t, const json_t *row, bool partial,
                 struct error *err) warn_unused;
/* The same from a fiber, each in a unit of work of its own bound to the scope (NULL scope: DB_SCOPE_NONE). */
json_t *store_do_insert(const struct store *st, const struct table *t, const struct scope *scope,
                        const json_t *row, struct error *err);
json_t *store_do_get(const struct store *st, const struct table *t, const struct scope *scope,
                     const struct store_eq *key, size_t n, bool raw, struct error *err);
json_t *store_do_list(const struct store *st, const struct table *t, const struct scope *scope,
                      const struct store_eq *where, size_t n, const char *order, int64_t limit,
                      int64_t offset, bool raw, struct error *err);
bool store_do_update(const struct store *st, const struct table *t, const struct scope *scope,
                     const struct store_eq *key, size_t n, const json_t *patch, bool raw,
                     struct error *err) warn_unused;
bool store_do_delete(const struct store *st, const struct table *t, const struct scope *scope,
                     const struct store_eq *key, size_t n, int64_t *deleted,
                     struct error *err) warn_unused;
bool store_do_count(const struct store *st, const struct table *t, const struct scope *scope,
                    const struct store_eq *where, size_t n, int64_t *out,
                    struct error *err) warn_unused;

/* Opens: migrates, checks metadata.instance_uuid (other instance: ERR_CONFLICT), ensures what §4 asks for in OSS. */
bool store_start(struct store *st, struct error *err) warn_unused;

/* ---- ledger (design.md §1.2, §3): hot path, hand-written SQL --------------------------------------------------------------
 * parley_messages: seq INTEGER PRIMARY KEY (order of acceptance), id TEXT unique (uuid or adapter's "in_…"), workspace_uuid, bot_uuid,
 * pipeline_uuid, dedupe_key TEXT NULL (unique with workspace and bot), state TEXT, launcher_type, launcher_id, sender_id, routed
 * BOOLEAN, payload JSON text (adapter's event and reply context), turn_id TEXT NULL (id of the monitoring record of the turn that it begins),
 * attempts INT, error TEXT NULL, received_at, updated_at.
 * States: received → running → done | failed | discarded ("done": its reply is in parley_deliveries or none was due).
 * parley_deliveries: seq INTEGER PRIMARY KEY, id TEXT unique, workspace_uuid, bot_uuid, message_id, session_key, number INT (part of
 * the turn, from 1), is_final BOOLEAN, payload JSON text, state pending → sending → sent | failed, attempts, last_error, created_at,
 * updated_at. */
struct inbound {
    const char *id, *bot, *pipeline, *dedupe_key /* NULL: none */, *launcher_type, *launcher_id,
        *sender_id, *turn;
    bool routed;
    struct str payload;
};
/* ERR_CONFLICT tag "duplicate" when the dedupe key is known for the bot (kept at least 10 minutes, field report A15). Durable on
 * return. */
bool ledger_accept(const struct store *st, const struct scope *scope, const struct inbound *m,
                   struct error *err) warn_unused;
/* In a transaction: state change of one message or of all of a turn (id list, JSON array of strings). */
bool ledger_state(struct db_tx *tx, const struct scope *scope, const json_t *ids, const char *state,
                  const char *error, struct error *err) warn_unused;
struct delivery {
    const char *id, *bot, *message_id, *session_key;
    int64_t number;
    bool is_final;
    struct str payload;
};
bool ledger_reply(struct db_tx *tx, const struct scope *scope, const struct delivery *d,
                  struct error *err) warn_unused;
/* *has: that delivery is stored. */
bool ledger_has_reply(struct db_tx *tx, const struct scope *scope, const char *id, bool *has,
                      struct error *err) warn_unused;
/* state "sent" or "failed" or "pending" (another attempt); asynchronous, batched: the caller does not wait; again and again until it
 * is stored. */
bool ledger_delivered(const struct store *st, const struct scope *scope, const char *delivery_id,
                      const char *state, int64_t attempts, const char *last_error,
                      struct error *err) warn_unused;
/* What a start finds: messages received or running (in order of acceptance), deliveries pending or sending, as JSON arrays of raw
 * rows, at most `limit`, from seq > after. */
json_t *ledger_open_messages(const struct store *st, const struct scope *scope, int64_t after,
                             int64_t limit, struct error *err);
json_t *ledger_open_deliveries(const struct store *st, const struct scope *scope, int64_t after,
                               int64_t limit, struct error *err);
/* Per bot: {received, delivered, failed, pending, last_message_at}. */
json_t *ledger_health(const struct store *st, const struct scope *scope, const char *bot,
                      struct error *err);
/* For the panel: {deliveries:[{id, session_id, message_id, state, attempts, last_error, received_at, updated_at, preview}], total}, newest
 * first; state NULL: all. One entry a message: state of the message until it is answered, then of its last reply. What is derived:
 * a received message whose id is among `running` (array of strings, borrowed; the first 256 count) is "running", a reply that is not
 * confirmed is "sending". */
json_t *ledger_list(const struct store *st, const struct scope *scope, const char *bot,
                    const char *state, const json_t *running, int64_t limit, int64_t offset,
                    struct error *err);
/* Deletes finished rows older than `keep_s` seconds, at most `limit`. */
bool ledger_prune(const struct store *st, const struct scope *scope, int64_t keep_s, int64_t limit,
                  int64_t *deleted, struct error *err) warn_unused;

/* ---- sessions and conversations (pipeline.md §5), kept in the database -----------------------------------------------------
 * parley_sessions: PK (workspace_uuid, bot_uuid, launcher_type, launcher_id); sender_id, conversation_id (using) NULL, created_at,
 * updated_at. parley_conversations: id PK (uuid), workspace_uuid, bot_uuid, pipeline_uuid, launcher_type, launcher_id, uuid NULL (public
 * conversation id), prompt JSON text, created_at, updated_at. parley_turns: seq INTEGER PK, workspace_uuid, conversation_id, messages
 * JSON text (array: the user message and all that answered it), created_at.
 * parley_chat_messages (debug chat and widget history): PK (workspace_uuid, conversation_key, number); data JSON text, updated_at. */
/* {session row, conversation row or null, "turns":[messages array…] oldest first, at most max_turns}; NULL + ERR_NOT_FOUND. */
json_t *session_load(const struct store *st, const struct scope *scope, const char *bot,
                     const char *launcher_type, const char *launcher_id, int64_t max_turns,
                     struct error *err);
bool session_save(struct db_tx *tx, const struct scope *scope, const json_t *session_row,
                  const json_t *conversation_row,
                  struct error *err) warn_unused; /* upserts; conversation_row may be NULL */
bool session_append_turn(struct db_tx *tx, const struct scope *scope, const char *conversation_id,
                         const json_t *messages, struct error *err) warn_unused;
/* Leaves the newest `keep` turns of a conversation (0: all). */
bool session_cut_turns(struct db_tx *tx, const struct scope *scope, const char *conversation_id,
                       int64_t keep, struct error *err) warn_unused;
bool session_remove(const struct store *st, const struct scope *scope, const char *bot,
                    const char *launcher_type, const char *launcher_id, bool *removed,
                    struct error *err) warn_unused;
/* Of the session only the latest `keep` conversations stay, with their turns. */
bool session_prune(struct db_tx *tx, const struct scope *scope, const json_t *session_row,
                   int64_t keep, struct error *err) warn_unused;
/* No session goes on with a conversation of this bot, or of this pipeline (the other is NULL). */
bool sessions_unbind(const struct store *st, const struct scope *scope, const char *bot,
                     const char *pipeline, struct error *err) warn_unused;
bool session_counts(const struct store *st, const struct scope *scope, int64_t *sessions,
                    int64_t *conversations, struct error *err) warn_unused;

/* ---- upkeep (persistence-and-ops.md §11) ------------------------------------------------------------------------------------
 * Each deletes at most `limit` rows (conversations of the chat: at most `limit` of them) that nothing has touched for `idle_s`
 * seconds; fewer in *deleted: none is left. */
bool sessions_prune(const struct store *st, const struct scope *scope, int64_t idle_s,
                    int64_t limit, int64_t *deleted, struct error *err)
    warn_unused; /* sessions with their conversations and turns */
bool chats_prune(const struct store *st, const struct scope *scope, int64_t idle_s, int64_t limit,
                 int64_t *deleted, struct error *err) warn_unused; /* debug chat and widget */
struct store_sizes {
    int64_t binary_count, binary_bytes; /* binary_storages of the workspace */
    int64_t database_bytes;             /* the whole database */
};
bool store_sizes(const struct store *st, const struct scope *scope, struct store_sizes *out,
                 struct error *err) warn_unused;

/* {workspaces:[{uuid,name,owner}], accounts:[{uuid,status,email}], tables:[{name,rows,without_workspace}]} of all tenant tables, for the
 * operator's eyes; on PostgreSQL within row-level security. */
json_t *store_summary(const struct store *st, struct error *err);

#include "store/store_identity.h" /* accounts, memberships, invitations, API keys: resolution and multi-table steps */
#include "store/store_objects.h"
#include "store/store_monitor.h" /* monitoring records, statistics, export, retention */

/* ---- audit: what agents did in the sandbox (parley_audit) ------------------------------------------------------------------- */
/* A row without workspace; durable when it returns. */
bool audit_put(const struct store *st, const struct scope *scope, const json_t *row,
               struct error *err) warn_unused;
/* How it ended: members of the row. Does not wait; a failure is logged. */
void audit_finish(const struct store *st, const struct scope *scope, const char *id,
                  json_t *patch_stolen);
/* Newest first; `decision` NULL: all. */
json_t *audit_list(const struct store *st, const struct scope *scope, const char *decision,
                   int64_t limit, int64_t offset, struct error *err);
bool audit_prune(const struct store *st, const struct scope *scope, int64_t keep_s, int64_t limit,
                 int64_t *deleted, struct error *err) warn_unused;

#endif
