/* pipeline: from an accepted message to its delivered answer: routing, webhooks, ledger, aggregator, scheduler, stages, sessions,
 * replies. One file per stage; one line in stages.c adds one. pipeline.md. */
#ifndef PARLEY_PIPELINE_H
#define PARLEY_PIPELINE_H

#include "agent/agent.h"
#include "base/base.h"
#include "chat/chat.h"
#include "config/config.h"
#include "model/model.h"
#include "platform/platform.h"
#include "store/store.h"
#include "task/task.h"

/* ---- stages ------------------------------------------------------------------------------------------------------------------------ */
struct run; /* a query on its way: query, pipeline, engine */
enum stage_verdict { STAGE_CONTINUE, STAGE_INTERRUPT };
struct stage_result {
    enum stage_verdict verdict;
    json_t *user_notice; /* string or chain; owned by the query's arena; NULL: none */
    const char *console_notice, *error_notice, *debug_notice;
};
/* A stage gives one result, or, for streams, calls `next` for each sub-result: it runs all following stages before it returns. */
struct stage {
    const char *name; /* "PreProcessor" */
    bool (*process)(struct run *r, struct stage_result *out, struct error *err);
    /* Stream stages instead: */
    bool (*stream)(struct run *r,
                   bool (*next)(struct run *r, const struct stage_result *res, struct error *err),
                   struct error *err);
};
extern const struct stage *const stages[]; /* in the order of §6.1; NULL-terminated */
struct query *run_query(struct run *r);
struct engine *run_engine(struct run *r);

/* ---- the engine ----------------------------------------------------------------------------------------------------------------------- */
struct engine;
struct engine_opts {
    const struct store *store;
    const struct config *config;
    const struct fence *fence;
    struct models *models;
    struct tools *tools; /* NULL: agents have none */
    struct task_group *group;
};
struct engine *engine_new(const struct engine_opts *opts, struct error *err);
struct platform_host engine_host(struct engine *e); /* for platform_new */
void engine_attach(struct engine *e, struct platform *p);
/* Takes up what the ledger holds (messages in order, deliveries first), starts the scheduler. After platform_start. */
bool engine_start(struct engine *e, struct error *err) warn_unused;
/* Stops taking queries, lets running ones go on for grace_ms, then cancels them (the ledger keeps them for the next start). */
void engine_stop(struct engine *e, int64_t grace_ms);
void engine_free(struct engine *e);
struct engine_stats {
    size_t queued, running, aggregating, aggregation_scopes, sessions, workspaces;
    uint64_t accepted, answered, failed, refused, duplicates;
};
void engine_stats_get(const struct engine *e, struct engine_stats *out);
/* Ids of the messages of a bot that run through a pipeline now: new array. */
json_t *engine_running(struct engine *e, const struct scope *s, const char *bot);
/* Writes monitoring records that still wait: readers call it first. */
bool engine_flush(struct engine *e, struct error *err) warn_unused;
/* For GET /stats/basic: {active_session_count, conversation_count, query_count}. */
json_t *engine_basic_stats(struct engine *e, const struct scope *s, struct error *err);

/* ---- pipelines as rows (used by api/), with the runtime cache ----------------------------------------------------------------------------- */
const json_t *pipeline_metadata(void);       /* {configs:[trigger,safety,ai,output]}; borrowed */
const json_t *pipeline_default_config(void); /* borrowed */
json_t *pipeline_list(struct engine *e, const struct scope *s, const char *sort_by, bool descending,
                      bool secrets, struct error *err);
json_t *pipeline_get(struct engine *e, const struct scope *s, const char *uuid, bool secrets,
                     struct error *err);
bool pipeline_create(struct engine *e, const struct scope *s, const json_t *body,
                     char uuid[UUID_SIZE], struct error *err) warn_unused;
bool pipeline_update(struct engine *e, const struct scope *s, const char *uuid, const json_t *body,
                     struct error *err) warn_unused;
bool pipeline_delete(struct engine *e, const struct scope *s, const char *uuid,
                     struct error *err) warn_unused;
bool pipeline_copy(struct engine *e, const struct scope *s, const char *uuid, char copy[UUID_SIZE],
                   struct error *err) warn_unused;
json_t *pipeline_extensions_get(struct engine *e, const struct scope *s, const char *uuid,
                                struct error *err);
bool pipeline_extensions_set(struct engine *e, const struct scope *s, const char *uuid,
                             const json_t *body, struct error *err) warn_unused;
/* Editing a bot or pipeline clears using_conversation of affected sessions (§5). */
bool engine_bot_changed(struct engine *e, const struct scope *s, const char *bot_uuid,
                        struct error *err) warn_unused;

#endif
