/* The maintenance loop. persistence-and-ops.md §11. */
#include "ops/ops_private.h"

enum {
    LEDGER_KEEP_S = 24 * 3600, /* answered messages stay visible for a day */
    BATCH = 1000,              /* rows of one transaction, where no setting says it */
    BATCHES = 20,
    DAY_S = 24 * 3600,
};

static const int64_t hour_us = 3600LL * 1000000;

/* ---- one workspace ------------------------------------------------------------------------------------------------------------ */

static void failed(const struct scope *s, const char *what, const struct error *err)
{
    if (err->code != ERR_CANCELED)
        log_warn("maintenance", "%s failed workspace=%s error=%s", what, s->workspace, err->msg);
}

static void done(const struct scope *s, const char *what, int64_t n)
{
    if (n > 0)
        log_info("maintenance", "%s workspace=%s count=%lld", what, s->workspace, (long long)n);
}

static void monitoring(const struct ops_env *env, const struct scope *s)
{
    const struct config *c = env->config;
    struct error err = {0};
    int64_t deleted = 0;
    int64_t days = config_int_in(c, "monitoring.auto_cleanup.retention_days", 1, 36500);
    int64_t batch = config_int_in(c, "monitoring.auto_cleanup.delete_batch_size", 1, 100000);
    int64_t batches =
        config_int_in(c, "monitoring.auto_cleanup.max_batches_per_table_per_run", 1, 100);
    if (monitor_prune(env->store, s, time_wall_us() - days * DAY_S * 1000000, batch, batches,
                      &deleted, &err))
        done(s, "old monitoring records removed", deleted);
    else
        failed(s, "removal of old monitoring records", &err);
}

static void uploads(const struct ops_env *env, const struct scope *s)
{
    const struct config *c = env->config;
    struct error err = {0};
    int64_t days = config_int_in(c, "storage.cleanup.uploaded_file_retention_days", 1, 36500);
    int64_t most = config_int_in(c, "storage.cleanup.max_files_per_run", 1, 10000);
    auto_json found =
        objects_survey(env->objects, s, time_wall_us() - days * DAY_S * 1000000, most, true, &err);
    if (found)
        done(s, "old uploads removed",
             (int64_t)json_array_size(json_object_get(found, "candidates")));
    else
        failed(s, "removal of old uploads", &err);
}

static void invitations(const struct ops_env *env, const struct scope *s)
{
    struct error err = {0};
    int64_t removed = 0;
    if (invitations_expire(env->store, s, &removed, &err))
        done(s, "invitations expired", removed);
    else
        failed(s, "expiry of invitations", &err);
}

/* Repeats a removal that is bounded to BATCH rows, so that no transaction is long. */
static void in_batches(const struct ops_env *env, const struct scope *s, const char *what,
                       int64_t keep_s,
                       bool (*prune)(const struct store *, const struct scope *, int64_t, int64_t,
                                     int64_t *, struct error *))
{
    struct error err = {0};
    int64_t all = 0;
    for (int i = 0; i < BATCHES; i++) {
        int64_t n = 0;
        if (!prune(env->store, s, keep_s, BATCH, &n, &err)) {
            failed(s, what, &err);
            return;
        }
        all += n;
        if (n < BATCH)
            break;
    }
    done(s, what, all);
}

static void chats(const struct ops_env *env, const struct scope *s)
{
    const struct config *c = env->config;
    int64_t session_s =
        config_int_in(c, "system.session_retention.idle_ttl_seconds", 60, 10 * 365LL * DAY_S);
    int64_t chat_s = config_int_in(c, "system.websocket_retention.conversation_idle_ttl_seconds",
                                   60, 10 * 365LL * DAY_S);
    in_batches(env, s, "removal of finished messages", LEDGER_KEEP_S, ledger_prune);
    in_batches(env, s, "removal of idle sessions", session_s, sessions_prune);
    in_batches(env, s, "removal of idle chats", chat_s, chats_prune);
    in_batches(env, s, "removal of old audit records",
               config_int_in(c, "audit.retention_days", 1, 36500) * DAY_S, audit_prune);
}

/* ---- one run ------------------------------------------------------------------------------------------------------------------ */

struct prune_logs {
    const char *dir;
    int64_t days, removed;
};

static void prune_logs(void *arg)
{
    struct prune_logs *p = arg;
    p->removed = logfiles_prune(p->dir, p->days);
}

static void log_files(const struct ops_env *env)
{
    struct error err = {0};
    auto_arena a = arena_new(16 << 10);
    struct prune_logs p = {
        .days = config_int_in(env->config, "storage.cleanup.log_retention_days", 1, 36500)};
    if (!a)
        return;
    p.dir = config_path(env->config, a, "logs");
    if (!task_work(prune_logs, &p, &err)) {
        if (err.code != ERR_CANCELED)
            log_warn("maintenance", "removal of old log files failed error=%s", err.msg);
    } else if (p.removed > 0) {
        log_info("maintenance", "old log files removed count=%lld", (long long)p.removed);
    }
}

void maintenance_pass(const struct ops_env *env, unsigned parts)
{
    struct scope s;
    size_t pos = 0;
    if ((parts & MAINTAIN_STORAGE) && config_bool(env->config, "storage.cleanup.enabled"))
        log_files(env);
    while (!task_canceled() && fence_next(env->fence, &pos, &s)) {
        if ((parts & MAINTAIN_MONITORING) &&
            config_bool(env->config, "monitoring.auto_cleanup.enabled"))
            monitoring(env, &s);
        if ((parts & MAINTAIN_STORAGE) && config_bool(env->config, "storage.cleanup.enabled"))
            uploads(env, &s);
        if (parts & MAINTAIN_HOURLY) {
            invitations(env, &s);
            chats(env, &s);
        }
    }
}

void maintenance_run(void *ops_env)
{
    const struct ops_env *env = ops_env;
    struct {
        unsigned part;
        int64_t every_us, due_us;
    } due[] = {
        {.part = MAINTAIN_MONITORING,
         .every_us =
             hour_us *
             config_int_in(env->config, "monitoring.auto_cleanup.check_interval_hours", 1, 8760)},
        {.part = MAINTAIN_STORAGE,
         .every_us =
             hour_us * config_int_in(env->config, "storage.cleanup.check_interval_hours", 1, 8760)},
        {.part = MAINTAIN_HOURLY, .every_us = hour_us},
    };
    int64_t now = time_mono_us();
    for (size_t i = 0; i < array_len(due); i++)
        due[i].due_us = now + due[i].every_us;
    for (;;) {
        struct error err = {0};
        int64_t next = due[0].due_us;
        for (size_t i = 1; i < array_len(due); i++)
            next = due[i].due_us < next ? due[i].due_us : next;
        now = time_mono_us();
        if (next > now && !task_sleep_ms((next - now) / 1000 + 1, &err))
            return;
        unsigned parts = 0;
        now = time_mono_us();
        for (size_t i = 0; i < array_len(due); i++) {
            if (due[i].due_us <= now) {
                parts |= due[i].part;
                due[i].due_us = now + due[i].every_us;
            }
        }
        maintenance_pass(env, parts);
    }
}
