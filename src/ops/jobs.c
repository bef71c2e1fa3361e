/* Tasks that users start and then watch. persistence-and-ops.md §8.4, http-api.md §6. */
#include "ops/ops_private.h"

#include <stdio.h>
#include <time.h>

static const char cut_mark[] = "[older task output truncated]\n";

enum job_state { JOB_RUNNING, JOB_SUCCEEDED, JOB_FAILED, JOB_CANCELED };

struct job {
    struct list node; /* by id */
    struct jobs *jobs;
    struct scope scope;
    int64_t id, created_us;
    char *kind, *name, *label;
    enum job_state state;
    char *action;
    struct buf log;
    size_t log_chars;
    json_t *metadata, *result;
    char error[1000];
    json_t *(*fn)(struct job *job, void *arg, struct error *err);
    void *arg;
};

struct jobs {
    struct task_group *group;
    struct list list; /* oldest first */
    int64_t next_id;
    size_t running, finished;
    int64_t finished_max, log_max, running_max, running_workspace_max;
};

struct jobs *jobs_new(const struct config *cfg, struct task_group *group)
{
    struct jobs *j = new (struct jobs);
    if (!j)
        return NULL;
    list_init(&j->list);
    j->finished_max = config_int_in(cfg, "system.task_retention.completed_limit", 1, 100000);
    j->log_max =
        config_int_in(cfg, "system.task_retention.max_log_chars", sizeof(cut_mark), 10 << 20);
    j->running_max = config_int_in(cfg, "system.task_retention.max_active_user_tasks", 1, 10000);
    j->running_workspace_max =
        config_int_in(cfg, "system.task_retention.max_active_user_tasks_per_workspace", 1, 10000);
    j->group = task_group_new(group, "user tasks");
    if (!j->group) {
        mem_free(j);
        return NULL;
    }
    return j;
}

static void job_free(struct job *b)
{
    mem_free(b->kind);
    mem_free(b->name);
    mem_free(b->label);
    mem_free(b->action);
    buf_free(&b->log);
    json_decref(b->metadata);
    json_decref(b->result);
    mem_free(b);
}

void jobs_free(struct jobs *j)
{
    struct list *node;
    if (!j)
        return;
    task_group_free(j->group);
    while ((node = list_pop(&j->list)))
        job_free(container_of(node, struct job, node));
    mem_free(j);
}

/* ---- running --------------------------------------------------------------------------------------------------------------- */

static void forget_oldest(struct jobs *j)
{
    list_each(it, &j->list)
    {
        struct job *b = container_of(it, struct job, node);
        if ((int64_t)j->finished <= j->finished_max)
            return;
        if (b->state == JOB_RUNNING)
            continue;
        list_del(&b->node);
        job_free(b);
        j->finished--;
    }
}

static void run(void *arg)
{
    struct job *b = arg;
    struct jobs *j = b->jobs;
    struct error err = {0};
    b->result = b->fn(b, b->arg, &err);
    if (b->result) {
        b->state = JOB_SUCCEEDED;
    } else if (err.code == ERR_CANCELED) {
        b->state = JOB_CANCELED;
    } else {
        b->state = JOB_FAILED;
        snprintf(b->error, sizeof b->error, "%s", err.code ? err.msg : "out of memory");
        log_warn("task", "task failed id=%lld kind=%s error=%s", (long long)b->id, b->kind,
                 b->error);
    }
    j->running--;
    j->finished++;
    forget_oldest(j);
}

static bool admit(const struct jobs *j, const struct scope *s, struct error *err)
{
    int64_t here = 0;
    list_each(it, (struct list *)(uintptr_t)&j->list)
    {
        const struct job *b = container_of(it, struct job, node);
        here += b->state == JOB_RUNNING && strcmp(b->scope.workspace, s->workspace) == 0;
    }
    if ((int64_t)j->running >= j->running_max)
        return err_tag(err, ERR_CAPACITY, 429, "task_capacity_exceeded",
                       "Too many tasks run at the moment; at most %lld may",
                       (long long)j->running_max);
    if (here >= j->running_workspace_max)
        return err_tag(err, ERR_CAPACITY, 429, "task_capacity_exceeded",
                       "Too many tasks of this workspace run at the moment; at most %lld may",
                       (long long)j->running_workspace_max);
    return true;
}

struct job *job_start(struct jobs *j, const struct scope *s, const char *kind, const char *name,
                      const char *label,
                      json_t *(*fn)(struct job *job, void *arg, struct error *err), void *arg,
                      struct error *err)
{
    if (!admit(j, s, err))
        return NULL;
    struct job *b = new (struct job);
    if (b) {
        b->jobs = j;
        b->scope = *s;
        b->created_us = time_wall_us();
        b->kind = mem_strndup(kind, strlen(kind));
        b->name = mem_strndup(name, strlen(name));
        b->label = mem_strndup(label, strlen(label));
        b->action = mem_strndup("default", 7);
        b->metadata = json_object();
        b->log = BUF((size_t)j->log_max * 4);
        b->fn = fn;
        b->arg = arg;
    }
    if (!b || !b->kind || !b->name || !b->label || !b->action || !b->metadata) {
        err_set(err, ERR_NOMEM, "no memory for a task");
        if (b)
            job_free(b);
        return NULL;
    }
    if (!task_spawn(j->group, "user task", run, b, err)) {
        job_free(b);
        return NULL;
    }
    b->id = j->next_id++;
    list_push(&j->list, &b->node);
    j->running++;
    return b;
}

int64_t job_id(const struct job *j)
{
    return j->id;
}

/* ---- what a task tells of itself --------------------------------------------------------------------------------------------- */

/* Makes room for `chars` more: the oldest go, a mark takes their place. A part more than needed, so that this is rare. */
static void shorten(struct job *b, size_t chars)
{
    size_t max = (size_t)b->jobs->log_max, mark = sizeof(cut_mark) - 1;
    if (b->log_chars + chars <= max)
        return;
    size_t keep = max - max / 8;
    keep = keep > chars + mark ? keep - chars - mark : 0;
    size_t drop = b->log_chars > keep ? b->log_chars - keep : 0;
    struct str gone = utf8_cut(buf_view(&b->log), drop);
    buf_eat(&b->log, gone.n);
    b->log_chars -= drop;
    if (!buf_reserve(&b->log, mark))
        return;
    memmove(b->log.p + mark, b->log.p, b->log.n);
    memcpy(b->log.p, cut_mark, mark);
    b->log.n += mark;
    b->log_chars += mark;
}

static void set_action(struct job *b, const char *action)
{
    if (strcmp(b->action, action) == 0)
        return;
    char *copy = mem_strndup(action, strlen(action));
    if (copy) {
        mem_free(b->action);
        b->action = copy;
    }
}

void job_log(struct job *b, const char *action, const char *fmt, ...)
{
    char when[32], text[4096];
    time_t now = (time_t)(time_wall_us() / 1000000);
    struct tm tm;
    va_list ap;
    if (action)
        set_action(b, action);
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    localtime_r(&now, &tm);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);

    auto_arena a = arena_new(32 << 10);
    struct str line = a ? str_fmt(a, "%s | %s | %s\n", when, b->action, text) : STR_NONE;
    if (!line.p)
        return; /* want of memory loses a line, not the task */
    line = utf8_clean(a, str_n(line.p, line.n));
    line = utf8_cut(line, (size_t)b->jobs->log_max - (sizeof(cut_mark) - 1));
    size_t chars = utf8_count(line);
    shorten(b, chars);
    if (buf_reserve(&b->log, line.n)) {
        buf_str(&b->log, line);
        b->log_chars += chars;
    }
}

void job_meta(struct job *b, const char *key, json_t *value_stolen)
{
    (void)json_set(b->metadata, key, value_stolen);
}

/* ---- reading --------------------------------------------------------------------------------------------------------------- */

static double created(const struct job *b)
{
    return (double)b->created_us / 1e6;
}

static json_t *or_null(const json_t *j)
{
    return j ? json_deep_copy(j) : json_null();
}

static json_t *whole(const struct job *b)
{
    static const char *const states[] = {"PENDING", "FINISHED", "FINISHED", "CANCELLED"};
    json_t *context = json_pack("{s:s,s:o,s:O}", "current_action", b->action, "log",
                                json_strn(buf_view(&b->log)), "metadata", b->metadata);
    json_t *runtime = json_pack("{s:b,s:s,s:o,s:n,s:o}", "done", (int)(b->state != JOB_RUNNING),
                                "state", states[b->state], "exception",
                                b->state == JOB_FAILED ? json_strn(str_c(b->error)) : json_null(),
                                "exception_traceback", "result", or_null(b->result));
    return json_pack("{s:I,s:s,s:s,s:s,s:s,s:s,s:I,s:[],s:f,s:o,s:o}", "id", (json_int_t)b->id,
                     "task_type", "user", "kind", b->kind, "name", b->name, "label", b->label,
                     "workspace_uuid", b->scope.workspace, "placement_generation",
                     (json_int_t)b->scope.generation, "scopes", "created_at", created(b),
                     "task_context", context, "runtime", runtime);
}

/* For API keys: no log and no reason, which may name things that the key must not see. */
static json_t *public_part(const struct job *b)
{
    static const char *const states[] = {"running", "succeeded", "failed", "cancelled"};
    json_t *error = json_null();
    if (b->state == JOB_FAILED)
        error = json_pack("{s:s,s:s}", "type", "task_failed", "message", "Task execution failed");
    else if (b->state == JOB_CANCELED)
        error = json_pack("{s:s,s:s}", "type", "task_cancelled", "message", "Task was cancelled");
    return json_pack("{s:I,s:s,s:s,s:s,s:o,s:o,s:f}", "id", (json_int_t)b->id, "task_type", "user",
                     "kind", b->kind, "status", states[b->state], "error", error, "result",
                     or_null(b->result), "created_at", created(b));
}

static bool visible(const struct job *b, const struct scope *s)
{
    return scope_eq(&b->scope, s);
}

json_t *jobs_list(struct jobs *j, const struct scope *s, const char *type, const char *kind,
                  bool public_view)
{
    json_t *tasks = json_array();
    bool none = type && *type && strcmp(type, "user") != 0;
    list_each(it, &j->list)
    {
        struct job *b = container_of(it, struct job, node);
        if (none || !visible(b, s) || (kind && *kind && strcmp(kind, b->kind) != 0))
            continue;
        if (json_array_append_new(tasks, public_view ? public_part(b) : whole(b)) != 0) {
            json_decref(tasks);
            return NULL;
        }
    }
    return public_view ? json_pack("{s:o}", "tasks", tasks)
                       : json_pack("{s:o,s:I}", "tasks", tasks, "id_index", (json_int_t)j->next_id);
}

json_t *jobs_get(struct jobs *j, const struct scope *s, int64_t id, bool public_view)
{
    list_each(it, &j->list)
    {
        struct job *b = container_of(it, struct job, node);
        if (b->id == id)
            return !visible(b, s) ? NULL : public_view ? public_part(b) : whole(b);
    }
    return NULL;
}

json_t *jobs_stats(const struct jobs *j)
{
    return json_pack("{s:I,s:I,s:I,s:I}", "total", (json_int_t)(j->running + j->finished),
                     "running", (json_int_t)j->running, "completed", (json_int_t)j->finished,
                     "id_index", (json_int_t)j->next_id);
}
