/* Private to pipeline/: the engine's parts. What one message goes through, in this order:
 * accept.c (routing, webhooks, admission, ledger) → aggregate.c → schedule.c (lanes, slots) → run.c (stages) → turn.c (one
 * transaction for reply, history and ledger; then the adapter). */
#ifndef PARLEY_PIPELINE_ENGINE_H
#define PARLEY_PIPELINE_ENGINE_H

#include "pipeline/pipeline.h"

/* ---- an accepted message, from the ledger to its run ------------------------------------------------------------------- */
struct pending {
    struct list node; /* in a lane or an aggregation buffer */
    struct scope scope;
    char bot[64], pipeline[64];
    enum launcher launcher;
    char *launcher_id, *sender_id; /* owned */
    bool routed, no_stream, ephemeral;
    json_t *event;   /* owned: event JSON */
    json_t *context; /* owned or NULL: the adapter's */
    json_t *ids;     /* owned: array of ledger ids, oldest first */
    int64_t accepted_us;
    char turn
        [UUID_SIZE]; /* id of its monitoring record; the ledger keeps it, so that a turn that is run again goes on with it */
};
void pending_free(struct pending *p);
struct pending *pending_new(const struct scope *s, const char *bot, const char *pipeline,
                            const char *launcher_type, const char *launcher_id,
                            const char *sender_id, json_t *event_borrowed, json_t *context_borrowed,
                            const char *id);

/* ---- pipelines in use ---------------------------------------------------------------------------------------------------- */
/* One loaded pipeline: immutable, reference counted; a run keeps its own while the row changes. */
struct pipe {
    long refs;
    struct scope scope;
    char uuid[64];
    char *name;
    json_t *config;                 /* coerced (§6.3) */
    json_t *preferences;            /* extensions_preferences */
    const struct stage *stages[24]; /* NULL-terminated */
    /* Read once: aggregation, and what each part of a streamed answer asks for. */
    bool remove_think, at_sender, quote_origin, aggregate;
    double delay_min, delay_max; /* seconds, as configured */
    int64_t aggregate_ms;
    uint64_t version; /* of GROUP_PIPELINES when loaded */
    int64_t loaded_us;
};
/* New reference or NULL (ERR_NOT_FOUND). From the cache where db_cacheable or younger than 2 s, else from the store. */
struct pipe *pipe_get(struct engine *e, const struct scope *s, const char *uuid, struct error *err);
void pipe_unref(struct pipe *p);
void pipe_forget(struct engine *e, const struct scope *s, const char *uuid);
void pipes_free(struct engine *e);
/* §6.3: in place, warnings only. */
void pipe_coerce(json_t *config);

/* ---- sessions (§5): a bounded cache of what the database keeps ------------------------------------------------------------- */
enum { CUT_EVERY = 16 }; /* turns after which a session's old ones are removed */
struct session {
    struct list lru;
    char *key; /* "<ws>|<bot>|<type>_<id>" */
    int users; /* runs that use it now */
    struct scope scope;
    json_t *row;          /* session row */
    json_t *conversation; /* conversation row or NULL */
    json_t *turns;        /* array of arrays of messages, oldest first */
    unsigned appended;    /* turns written since old ones were last cut */
    int64_t saved_us;     /* time_mono_us() of the last write of row and conversation */
    bool fresh;           /* row or conversation not in the database yet, or changed */
    bool renew;     /* bot or pipeline was edited: the next turn begins a conversation of its own */
    bool forgotten; /* was reset while a run used it: nothing of it is stored any more */
};
/* Loads or makes it; marks one user. The caller ends with session_release. */
struct session *session_take(struct engine *e, const struct query *q, struct error *err);
void session_release(struct engine *e, struct session *s);
/* §5: reuses the conversation of this pipeline and bot or makes a new one from the pipeline's prompt; expiry. */
bool session_conversation(struct engine *e, struct session *s, const struct query *q,
                          const struct pipe *p, struct error *err) warn_unused;
json_t *session_history(
    const struct session *s); /* new array: messages of all turns in order, shared */
/* The latest turns only: at most `turns` and, but for the last one, `messages` in total. Whole turns, so that no call loses its result. */
void session_trim(json_t *list, int64_t turns, int64_t messages);
/* The conversations of a bot or of a pipeline (the other is NULL) are over (§5). */
bool sessions_renew(struct engine *e, const struct scope *s, const char *bot, const char *pipeline,
                    struct error *err) warn_unused;
void sessions_free(struct engine *e);
bool session_forget(struct engine *e, const struct scope *s, const char *bot, enum launcher l,
                    const char *launcher_id, bool *removed, struct error *err) warn_unused;

/* ---- monitoring records: batched, merged, written in one transaction ---------------------------------------------------------- */
struct record;
#define RECORD_CUT "cut" /* no record: older turns of conversation `id` go, but for `keep` */
void record_put(struct engine *e, const struct scope *s, const char *kind, json_t *row_stolen);
/* A row of every turn; texts are copied. `held` (may be NULL) holds the record while it waits and may be changed, and is NULL again
 * from then on; record_let_go ends that earlier. */
void record_flat(struct engine *e, const struct scope *s, enum mon_flat table,
                 const struct db_val *v, struct record **held);
void record_let_go(struct record **held);
/* Status and level (literals or NULL: as they are) and variables (copied, or STR_NONE) of a message that waits. */
bool record_patch(struct record *r, const char *status, const char *level, struct str variables);
bool record_flush(struct engine *e,
                  struct error *err) warn_unused; /* waits: for readers and the stop */
void records_go_on(struct engine *e);             /* the database works again */
void records_free(struct engine *e);

/* ---- aggregator and scheduler ------------------------------------------------------------------------------------------------- */
void aggregate_put(struct engine *e, struct pending *p, const struct pipe *pipe); /* takes p */
void aggregate_flush_all(struct engine *e);
void schedule_put(struct engine *e, struct pending *p); /* takes p */
void schedule_go_on(struct engine *e);                  /* the database works again */
void schedule_free(struct engine *e);

/* ---- a run ---------------------------------------------------------------------------------------------------------------------- */
struct run {
    struct list node; /* in engine.active */
    struct engine *engine;
    struct query *query;
    struct pipe *pipe;
    struct pending *pending;
    struct bot *bot;
    struct session *session;           /* from PreProcessor on */
    struct model *model;               /* primary or NULL; released at the end */
    const struct catalogue *catalogue; /* tools of the run or NULL; in the query's arena */
    struct tool_ask ask;               /* for whom it is made */
    size_t at;                         /* index of the stage that runs */
    uint64_t fence_seen;               /* fence_changes() of the last check that let it go on */
    bool streams;                      /* adapter takes chunks for this query */
    json_t *conversation;              /* owned: the one this turn belongs to */
    /* The response on its way (resp_messages[-1] of the spec). The three are owned by the run and replaced by run_keep: a stream gives
     * thousands of cumulative parts, and only the latest may stay in memory. */
    json_t *response; /* message, or chain when response_is_chain */
    bool response_is_chain, is_chunk, is_final, tool_calls, first_chunk_done, plugin_source;
    json_t *out_chain; /* resp_message_chain[-1] */
    /* The end of the turn, committed together with the final reply: */
    bool history_ready;   /* query.responses holds the whole turn */
    bool committed;       /* reply, history and ledger are durable */
    bool answered;        /* a final part was handed to the adapter */
    json_t *last_out;     /* last chain handed out, for the response record */
    struct record *asked; /* the question's monitoring record while it waits to be written */
    json_t *
        tool_calls_shown; /* ended calls for who watches: [{id, name, …}], bounded; in the query's arena */
};
/* Takes over `stolen` (may be NULL) in place of what *slot held. */
void run_keep(json_t **slot, json_t *stolen);
void run_pending(struct engine *e, struct pending *p); /* the query fiber's work; takes p */
/* Hands r->out_chain to the adapter. `final`: commits the turn first. */
bool turn_reply(struct run *r, bool quote_origin, struct error *err) warn_unused;
/* A notice (§6.2); final on streaming adapters. */
bool turn_notice(struct run *r, const json_t *notice, bool interrupt,
                 struct error *err) warn_unused;
/* Ends a stream that was begun and breaks off without a notice: what was shown so far, as the final part. */
bool turn_cut(struct run *r, struct error *err) warn_unused;
/* Binds what the pipeline may use and makes the catalogue where a model can call tools (§7.4.4). */
bool run_tools_load(struct run *r, struct error *err) warn_unused;
/* A call that begins or has ended: its record, and the adapter if it shows such things. */
void run_tool_note(struct run *r, const struct agent_tool *call);
/* Ends a turn whose runner has nothing more to say after calls of tools: what was shown so far is final, the history is kept. */
bool turn_end(struct run *r, struct error *err) warn_unused;
/* Ledger state of a run that ends without a (further) reply. */
void turn_close(struct run *r, const char *state, const char *error);
/* Results of delivery by adapters that deliver on their own. */
void turn_delivered(struct engine *e, const struct scope *s, const char *delivery_id, bool ok,
                    int64_t attempts, const char *error);

/* Monitoring of a run (§11). */
void watch_start(struct run *r);
void watch_success(struct run *r);
void watch_stage_error(struct run *r, const char *notice, const char *trace);
void watch_uncaught(struct run *r, const struct error *err);
void watch_call(struct run *r, const char *model, int64_t duration_ms, const struct llm_usage *u,
                const struct error *err);
void watch_tool(struct run *r, const struct agent_tool *call); /* one that has ended */
void watch_discard(struct engine *e, struct bot *b, const struct chat_event *ev,
                   const char *launcher_id);
void watch_feedback(struct engine *e, struct bot *b, const json_t *feedback);

/* ---- routing, webhooks, safe regular expressions -------------------------------------------------------------------------------- */
/* §4.2; pipeline text borrowed from the bot's row. May wait (regex on a worker). */
const char *route_pipeline(struct bot *b, const struct chat_event *ev, const char *launcher_id,
                           struct arena *a, bool *routed);
/* §4.3: true if some webhook answers skip_pipeline. */
bool webhooks_push(struct engine *e, struct bot *b, const struct chat_event *ev);
/* §7.2 safe regex budget: one operation over all patterns of a list. Runs on a worker. */
enum regex_mode { REGEX_SEARCH, REGEX_MATCH_START };
enum regex_answer { REGEX_NO, REGEX_YES, REGEX_REJECTED };
enum regex_answer regex_any(const json_t *patterns, struct str subject, enum regex_mode mode,
                            const char **why);
/* The same for a fiber: matches on a worker and waits. False: the work could not be done. */
bool regex_on_worker(const json_t *patterns, struct str subject, enum regex_mode mode,
                     enum regex_answer *answer, const char **why, struct error *err) warn_unused;
/* Replaces each match by mask_word, or by mask repeated for its length. New text in the arena; REGEX_YES if something was found. */
enum regex_answer regex_mask(const json_t *patterns, struct str subject, struct str mask,
                             struct str mask_word, struct arena *a, struct str *out);

/* ---- the engine ------------------------------------------------------------------------------------------------------------------- */
struct lane; /* schedule.c */
struct engine {
    const struct store *store;
    const struct config *config;
    const struct fence *fence;
    struct models *models;
    struct tools *tools; /* or NULL */
    struct platform *platform;
    struct task_group *group, *runs;
    struct map pipes, sessions, lanes, buffers, workspaces;
    uint64_t forgets; /* sessions removed so far: a load that was under way meanwhile is repeated */
    struct list session_lru, ready; /* ready: workspaces with runnable lanes, round robin */
    size_t session_count;
    struct list records;
    size_t record_count;
    struct map record_index; /* a session's key → the record of it that waits */
    bool record_writing;
    size_t
        record_alone; /* so many of the next ones are written one by one, after a batch that failed */
    struct task_timer record_timer;
    struct task_cond record_cond;
    struct rate_table *rates; /* stage_rate.c */
    struct webhook_cache *webhooks;
    /* limits, read once */
    int64_t max_running, max_per_session, max_queries, max_queries_ws, max_sessions, max_messages,
        max_chars, max_chunks, max_conversations;
    size_t queued, running;
    bool started, stopping;
    int64_t next_query;
    struct engine_stats stats;
    struct task_cond idle, start_cond;
    struct task_timer retry; /* of the dispatcher after it could not start a fiber */
    struct list active;      /* runs that walk the stages now */
    size_t open_workspaces;
};
/* Admission: queued + running + gathered, of the instance and of a workspace. */
bool admit(struct engine *e, const struct scope *s, struct error *err) warn_unused;
void admit_end(struct engine *e, const struct scope *s);
int64_t admit_total(const struct engine *e,
                    const struct scope *s); /* queries of the workspace since the start */
size_t admit_workspaces(const struct engine *e);

/* Config readers on a pipeline's config. */
static inline const json_t *conf_at(const struct run *r, const char *dotted)
{
    return json_at(r->pipe->config, dotted);
}
bool conf_bool(const json_t *config, const char *dotted, bool fallback);
int64_t conf_int(const json_t *config, const char *dotted, int64_t fallback);
double conf_num(const json_t *config, const char *dotted, double fallback);
const char *conf_str(const json_t *config, const char *dotted, const char *fallback);

/* The stages (one file each). */
extern const struct stage stage_group_respond, stage_ban, stage_pre_filter, stage_post_filter,
    stage_preprocess, stage_truncate, stage_rate_require, stage_rate_release, stage_process,
    stage_wrap, stage_long_text, stage_send;
int64_t conf_bounded(int64_t value, int64_t lo, int64_t hi);
/* §7.9: the text as a PNG data URI; false with the reason. For workers. */
bool long_text_picture(struct str text, const char *font, struct arena *a, struct str *uri,
                       char why[200]);
typedef double picture_advance(void *arg, struct str character);
/* Splits at line breaks and where a line is full; `max` + 1 when that many lines do not do. */
size_t picture_lines(struct str text, double width, picture_advance *advance, void *arg,
                     struct str *lines, size_t max);
void rates_free(struct engine *e);
void webhooks_free(struct engine *e);

#endif
