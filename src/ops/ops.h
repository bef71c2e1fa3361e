/* ops: metrics, audit, background jobs, tasks, log files and their cache, maintenance, doctor checks. persistence-and-ops.md §8.4, §10,
 * §11, §13. */
#ifndef PARLEY_OPS_H
#define PARLEY_OPS_H

#include "base/base.h"
#include "config/config.h"
#include "db/db.h"
#include "net/net.h"
#include "pipeline/pipeline.h"
#include "platform/platform.h"
#include "store/store.h"
#include "task/task.h"
#include "tenant/tenant.h"

/* ---- metrics: Prometheus text ------------------------------------------------------------------------------------------------------------ */
enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
struct
    metric; /* registered once by name; label sets are bounded (1,000 per metric; more go to label value "other") */
struct metric *metric_new(enum metric_kind kind, const char *name, const char *help,
                          const char *label /* one label or NULL */);
void metric_add(struct metric *m, const char *label_value, double v); /* counters, gauges */
void metric_set(struct metric *m, const char *label_value, double v);
void metric_observe(struct metric *m, const char *label_value, double seconds);
bool metrics_text(struct buf *out); /* all registered, exposition format 0.0.4 */
void metrics_end(void);

/* ---- log files (data/logs) and the panel's log cache ------------------------------------------------------------------------------------------ */
struct logfiles;
/* Taps the log; writes on a thread of its own; rotates at local midnight and 10 MiB. */
struct logfiles *logfiles_new(const char *dir, struct error *err);
void logfiles_free(struct logfiles *l); /* flushes */
/* {logs, end_page_number, end_offset} (§10: pages of 20 lines, 10 pages). */
json_t *logfiles_read(struct logfiles *l, int64_t start_page, int64_t start_offset);
int64_t logfiles_prune(const char *dir, int64_t keep_days);

/* ---- user tasks (§8.4) -------------------------------------------------------------------------------------------------------------------------- */
struct jobs;
struct job;
struct jobs *jobs_new(const struct config *cfg, struct task_group *group);
void jobs_free(struct jobs *j);
/* ERR_CAPACITY 429 task_capacity_exceeded. fn runs in a fiber; result is a new reference or NULL + err. */
struct job *job_start(struct jobs *j, const struct scope *s, const char *kind, const char *name,
                      const char *label,
                      json_t *(*fn)(struct job *job, void *arg, struct error *err), void *arg,
                      struct error *err);
void job_log(struct job *j, const char *action, const char *fmt, ...) printf_like(3, 4);
/* Structured progress for the panel: task_context.metadata[key]. */
void job_meta(struct job *j, const char *key, json_t *value_stolen);
int64_t job_id(const struct job *j);
json_t *jobs_list(struct jobs *j, const struct scope *s, const char *type, const char *kind,
                  bool public_view); /* {tasks, id_index?} */
json_t *jobs_get(struct jobs *j, const struct scope *s, int64_t id,
                 bool public_view); /* NULL: unknown */
json_t *jobs_stats(const struct jobs *j);

/* ---- maintenance loop (§11) and storage analysis ------------------------------------------------------------------------------------------------- */
struct ops_env {
    const struct store *store;
    const struct config *config;
    const struct fence *fence;
    struct jobs *jobs;
    struct objects *objects;
    struct logfiles *logs;
};
void maintenance_run(void *ops_env); /* fiber function; ends on cancel */
json_t *storage_analysis(const struct ops_env *env, const struct scope *s, struct error *err);

#endif
