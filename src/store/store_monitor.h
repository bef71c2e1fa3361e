/* Part of store.h: monitoring tables. pipeline.md §11, http-api.md §16, persistence-and-ops.md §2.4, §11. */
#ifndef PARLEY_STORE_MONITOR_H
#define PARLEY_STORE_MONITOR_H

/* Query-start, success, response, error … are JSON rows of the monitoring tables; written by the turn's one transaction or in
 * batches. `kind` names: "message" "llm_call" "tool_call" "session" (upsert: counts and touches) "error" "embedding_call" "feedback"
 * "message_update" ({id, status, level?, variables?}). */
bool monitor_write(struct db_tx *tx, const struct scope *scope, const char *kind, const json_t *row,
                   struct error *err) warn_unused;

/* Among the newest 20,000 records of messages those that are pending get the state of their turn in the ledger: success, discarded or
 * error; open ones stay, a turn that the ledger does not know was interrupted (error). Nothing to do where the database was closed in
 * order. Before the messages of the ledger are taken up. */
bool monitor_settle(const struct store *st, const struct scope *scope, int64_t *settled,
                    struct error *err) warn_unused;

/* Rows of the tables that every turn writes: `n` times the values of all columns in the order of the column table, the workspace's
 * own included. Several rows at a time cost less than each alone. */
enum mon_flat { MON_MESSAGE, MON_LLM_CALL, MON_SESSION };
enum { MON_COLUMNS_MAX = 17, MON_ROWS_MAX = 8 };
enum { /* places of columns that change after a row was made */
       MON_MESSAGE_STATUS = 9,
       MON_MESSAGE_LEVEL = 10,
       MON_MESSAGE_VARIABLES = 15,
       MON_SESSION_COUNT = 6,
       MON_SESSION_LAST = 8
};
size_t monitor_columns(enum mon_flat table);
bool monitor_rows(struct db_tx *tx, enum mon_flat table, const struct db_val *v, size_t n,
                  struct error *err) warn_unused;

struct monitor_filter {
    const json_t *bots, *pipelines, *sessions; /* arrays of strings or NULL */
    int64_t from_us, to_us;                    /* 0: none; inclusive */
    int64_t limit, offset;                     /* clamped by the caller */
    int active;                                /* sessions: -1 any, 0, 1 */
    int feedback_type;                         /* 0 any */
    const char *knowledge_base;                /* embedding calls */
};
json_t *monitor_overview(const struct store *st, const struct scope *scope,
                         const struct monitor_filter *f, struct error *err);
json_t *monitor_tokens(const struct store *st, const struct scope *scope,
                       const struct monitor_filter *f, bool by_day, int64_t buckets,
                       struct error *err);
/* table: one of the mon tables; {rows, total}. Newest first. */
json_t *monitor_list(const struct store *st, const struct scope *scope, const struct table *t,
                     const struct monitor_filter *f, struct error *err);
json_t *monitor_session_analysis(const struct store *st, const struct scope *scope,
                                 const char *session_id, int64_t detail_rows, struct error *err);
json_t *monitor_message_details(const struct store *st, const struct scope *scope,
                                const char *message_id, int64_t detail_rows,
                                struct error *err); /* NULL + ERR_NOT_FOUND */
json_t *monitor_feedback_stats(const struct store *st, const struct scope *scope,
                               const struct monitor_filter *f, struct error *err);
json_t *monitor_counts(const struct store *st, const struct scope *scope, struct error *err);
bool monitor_prune(const struct store *st, const struct scope *scope, int64_t older_than_us,
                   int64_t batch, int64_t max_batches, int64_t *deleted,
                   struct error *err) warn_unused;

#endif
