/* runtime: birth, configuration, reaper, shutdown, and the counts that are shown. */
#include "box/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *iso_time(int64_t wall_us, char out[ISO_SIZE])
{
    time_t seconds = (time_t)(wall_us / 1000000);
    struct tm tm;
    char text[40];
    gmtime_r(&seconds, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, ISO_SIZE, "%.19s.%06uZ", text, (unsigned)(wall_us % 1000000) % 1000000);
    return out;
}

/* ---- where backends keep things ------------------------------------------------------------------ */

static bool usable(const char *dir)
{
    struct stat st;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return false;
    return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 022) == 0;
}

/* A directory that is ours alone; several runtimes share it. */
static bool find_root(struct runtime *rt)
{
    const char *named = getenv("PARLEY_BOX_STATE"), *user = getenv("XDG_RUNTIME_DIR");
    if (named && *named) {
        snprintf(rt->state_root, sizeof(rt->state_root), "%s", named);
        return usable(rt->state_root);
    }
    if (geteuid() == 0) {
        snprintf(rt->state_root, sizeof(rt->state_root), "/run/parley-box");
        if (usable(rt->state_root))
            return true;
    }
    if (user && user[0] == '/') {
        snprintf(rt->state_root, sizeof(rt->state_root), "%.200s/parley-box", user);
        if (usable(rt->state_root))
            return true;
    }
    snprintf(rt->state_root, sizeof(rt->state_root), "/tmp/parley-box-%u", (unsigned)geteuid());
    return usable(rt->state_root);
}

/* The directory gets its name when the lock is held: no other runtime ever takes it for an orphan. */
static bool make_state(struct runtime *rt, struct error *err)
{
    char lock[340], made[320];
    unsigned char id[6];
    crypto_random(id, sizeof(id));
    hex_encode(id, sizeof(id), rt->instance);
    if (!find_root(rt))
        return err_set(err, ERR_IO, "%s is no directory of this user alone", rt->state_root);
    snprintf(rt->state_dir, sizeof(rt->state_dir), "%s/%s", rt->state_root, rt->instance);
    snprintf(made, sizeof(made), "%s/.new-%s", rt->state_root, rt->instance);
    if (mkdir(made, 0700) != 0)
        return err_sys(err, errno, "cannot make %s", made);
    snprintf(lock, sizeof(lock), "%s/lock", made);
    rt->lock_fd = task_sys_open(lock, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (rt->lock_fd < 0 || flock(rt->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return err_sys(err, errno, "cannot lock %s", lock);
    return rename(made, rt->state_dir) == 0 || err_sys(err, errno, "cannot make %s", rt->state_dir);
}

static void remove_state(struct runtime *rt)
{
    char lock[320];
    snprintf(lock, sizeof(lock), "%s/lock", rt->state_dir);
    if (rt->lock_fd >= 0) {
        unlink(lock);
        close(rt->lock_fd);
    }
    if (*rt->state_dir)
        rmdir(rt->state_dir);
}

/* ---- birth and end ------------------------------------------------------------------------------- */

bool runtime_init(struct runtime *rt, struct error *err)
{
    *rt = (struct runtime){.lock_fd = -1};
    list_init(&rt->idle);
    list_init(&rt->ended);
    rt->conf = conf_new();
    rt->group = task_group_new(NULL, "box");
    if (!rt->conf || !rt->group)
        return err_set(err, ERR_NOMEM, "out of memory for the runtime");
    rt->fence_max = rt->conf->limits.max_admission_records;
    return make_state(rt, err);
}

void runtime_end(struct runtime *rt)
{
    struct str key;
    void *value;
    size_t pos = 0;
    task_group_free(rt->group);
    engine_close_all(rt);
    while (map_next(&rt->places, &pos, &key, &value))
        mem_free(value);
    map_free(&rt->places);
    map_free(&rt->slots);
    admission_end(rt);
    conf_unref(rt->conf);
    mem_free(rt->token);
    mem_free(rt->trusted);
    remove_state(rt);
}

/* ---- configuration ------------------------------------------------------------------------------- */

struct applying {
    const struct conf *old;
    const json_t *payload;
    struct conf *made;
    struct error *err;
};

static void apply(void *arg)
{
    struct applying *a = arg;
    a->made = conf_apply(a->old, a->payload, a->err);
}

/* After the configuration, off its way: the backend is looked at before the first session needs it. */
static void warm_up(void *arg)
{
    struct error err = {0};
    /* Once before, since a probe may take its time, and once for what it needed. */
    for (int i = 0; i < 2 && err.code != ERR_CANCELED; i++) {
        if (!task_work(box_trim, NULL, &err))
            log_debug("box", "no memory was given back: %s", err.msg);
        else if (i == 0 && !engine_ready(arg, &err))
            log_debug("box", "no backend yet: %s", err.msg);
    }
}

/* Sections of backends, of this payload only. */
static void apply_sections(struct runtime *rt, const json_t *payload)
{
    struct error err;
    for (size_t i = 0; i < rt->engine_n; i++) {
        struct engine *e = &rt->engines[i];
        const json_t *section = json_object_get(payload, e->b->name);
        e->probed_us = 0;
        if (e->b->configure && json_object_size(section) > 0 &&
            !e->b->configure(e->self, section, &err))
            log_warn("box", "section box.%s was not taken: %s", e->b->name, err.msg);
    }
}

bool runtime_configure(struct runtime *rt, const json_t *payload, struct error *err)
{
    /* A wait inside, for the directories: a second INIT builds on the result of the first. */
    if (!task_lock(&rt->configuring, err))
        return false;
    struct applying a = {.old = rt->conf, .payload = payload, .err = err};
    bool ok = task_work(apply, &a, err) && a.made;
    if (ok) {
        struct error ignored;
        /* By the environment, before anybody could ask. */
        bool first = !rt->conf->configured && rt->places.n == 0 && rt->controls == 0;
        conf_unref(rt->conf);
        rt->conf = a.made;
        int64_t records = rt->conf->limits.max_admission_records;
        rt->fence_max = first || records > rt->fence_max ? records : rt->fence_max;
        apply_sections(rt, payload);
        if (rt->sessions + rt->creating + rt->closing == 0)
            engine_forget(rt);
        if (*rt->conf->policy_error)
            log_error("box", "%s", rt->conf->policy_error);
        if (!task_spawn(rt->group, "box backend", warm_up, rt, &ignored))
            log_debug("box", "the backend is chosen later: %s", ignored.msg);
    }
    task_unlock(&rt->configuring);
    return ok;
}

/* ---- shutdown and reaper --------------------------------------------------------------------------- */

static void close_all(struct runtime *rt)
{
    struct str id;
    void *value;
    size_t pos = 0;
    while (map_next(&rt->slots, &pos, &id, &value)) {
        struct slot *slot = value;
        if (slot->live)
            box_session_close(rt, slot->live);
    }
}

bool runtime_shutdown(struct runtime *rt, struct error *err)
{
    bool ok = true;
    rt->shutting++;
    while (ok && rt->creating > 0)
        ok = task_cond_wait(&rt->settled, err);
    close_all(rt);
    while (ok && rt->closing + rt->creating > 0)
        ok = task_cond_wait(&rt->settled, err);
    rt->shutting--;
    return ok;
}

void runtime_reap(struct runtime *rt)
{
    int64_t now = time_mono_us();
    admission_expire(rt);
    list_each(node, &rt->idle)
    {
        struct session *s = container_of(node, struct session, in_idle);
        if (now - s->idle_us <= (int64_t)TTL_SEC * 1000000)
            break;
        if (s->active == 0 && s->leases == 0 && s->running == 0)
            box_session_close(rt, s);
    }
    box_process_prune(rt);
}

void runtime_reaper(void *arg)
{
    struct runtime *rt = arg;
    struct error err;
    while (task_sleep_ms(REAP_MS, &err))
        runtime_reap(rt);
}

/* ---- what is shown --------------------------------------------------------------------------------- */

json_t *runtime_resources(const struct runtime *rt)
{
    struct task_stats t;
    task_stats_get(&t);
    return json_pack(
        "{s:{s:b,s:I,s:f,s:f,s:f,s:f},s:{s:I,s:I,s:I,s:I,s:I,s:I},s:I,s:I,s:I,s:I,s:I,s:I,s:I}",
        "event_loop", "running", 1, "samples_total", (json_int_t)t.switches, "last_lag_ms",
        t.lag_last_ms, "recent_p95_lag_ms", t.lag_p95_ms, "recent_max_lag_ms", t.lag_max_ms,
        "max_lag_ms", t.lag_max_ms, "blocking_executor", "max_workers", (json_int_t)TASK_WORKERS,
        "max_pending", (json_int_t)TASK_WORK_PENDING, "running", (json_int_t)t.work_running,
        "pending", (json_int_t)t.work_pending, "completed", (json_int_t)t.work_done, "rejected",
        (json_int_t)t.work_rejected, "sessions", (json_int_t)rt->sessions, "managed_processes",
        (json_int_t)rt->running, "completed_processes", (json_int_t)rt->ended_n,
        "creating_session_tasks", (json_int_t)rt->creating, "closing_session_tasks",
        (json_int_t)rt->closing, "background_tasks", (json_int_t)task_group_count(rt->group),
        "refused_handshakes", (json_int_t)rt->refused);
}

json_t *runtime_status(struct runtime *rt, const struct place *p, int64_t generation)
{
    size_t sessions = 0, running = 0;
    json_t *backend = engine_info(rt);
    list_each(node, &p->sessions)
    {
        const struct session *s = container_of(node, struct session, in_place);
        if (s->generation == generation) {
            sessions++;
            running += s->running;
        }
    }
    const struct box_limits *l = &rt->conf->limits;
    return json_pack("{s:o,s:I,s:I,s:i,s:{s:I,s:I,s:I,s:I,s:I}}", "backend", backend,
                     "active_sessions", (json_int_t)sessions, "managed_processes",
                     (json_int_t)running, "session_ttl_sec", TTL_SEC, "limits", "max_sessions",
                     (json_int_t)l->max_sessions, "max_managed_processes",
                     (json_int_t)l->max_managed_processes, "max_completed_processes",
                     (json_int_t)l->max_completed_processes, "max_admission_records",
                     (json_int_t)l->max_admission_records, "max_rpc_file_bytes",
                     (json_int_t)l->max_rpc_file_bytes);
}
