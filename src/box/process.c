/* process: managed processes: started, looked at, stopped (box.md §6.1, §6.2). */
#include "box/runtime.h"

#include <signal.h>
#include <unistd.h>

/* ---- what is told ------------------------------------------------------------------------------ */

bool box_process_missing(struct error *err, const char *id, const char *logical)
{
    return err_tag(err, ERR_NOT_FOUND, 0, "BoxManagedProcessNotFoundError",
                   "managed process %.100s not found in session %.200s", id, logical);
}

json_t *box_process_info(const struct process *p)
{
    char started[ISO_SIZE], exited[ISO_SIZE];
    json_t *out = json_copy(p->info);
    json_set(out, "status", json_string(p->running ? "running" : "exited"));
    json_set(out, "attached", json_boolean(p->relay != NULL));
    json_set(out, "started_at", json_string(iso_time(p->started_us, started)));
    json_set(out, "exited_at",
             p->running ? json_null() : json_string(iso_time(p->exited_us, exited)));
    json_set(out, "exit_code", p->running ? json_null() : json_integer(p->exit_code));
    if (!json_set(out, "stderr_preview", preview_text(&p->preview))) {
        json_decref(out);
        return NULL;
    }
    return out;
}

struct process *box_process_find(struct runtime *rt, const struct session *s, const char *id)
{
    box_process_prune(rt);
    return map_get(&s->processes, str_c(id));
}

/* ---- end of life ------------------------------------------------------------------------------- */

void box_process_unref(struct process *p)
{
    if (--p->refs > 0)
        return;
    preview_free(&p->preview);
    buf_free(&p->line);
    json_decref(p->info);
    mem_free(p->id);
    mem_free(p);
}

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Takes an ended process out of its session. */
static void take_out(struct process *p)
{
    struct runtime *rt = p->rt;
    if (!p->session)
        return;
    map_del(&p->session->processes, str_c(p->id));
    p->session = NULL;
    if (!list_empty(&p->in_ended)) {
        list_del(&p->in_ended);
        rt->ended_n--;
    }
}

/* Releases what belongs to the running process; the entry itself lives as long as its holders. */
static void finish(struct process *p)
{
    relay_stop_input(p);
    shut(&p->box.in);
    relay_finish(p);
    task_group_free(p->group);
    p->group = NULL;
    shut(&p->box.out);
    shut(&p->box.err);
    p->engine->b->process_free(&p->box);
    box_process_unref(p);
}

static void finish_fiber(void *arg)
{
    finish(arg);
}

/* An exited process that is forgotten. What it has is released by a fiber: that waits. */
static bool forget(struct process *p)
{
    struct error err;
    if (!task_spawn(p->rt->group, "box process end", finish_fiber, p, &err)) {
        log_warn("box", "an exited process stays on record: %s", err.msg);
        return false;
    }
    take_out(p);
    p->stopping = true;
    return true;
}

void box_process_prune(struct runtime *rt)
{
    const struct box_limits *l = &rt->conf->limits;
    int64_t now = time_mono_us();
    while (!list_empty(&rt->ended)) {
        struct process *p = container_of(rt->ended.next, struct process, in_ended);
        bool many = (int64_t)rt->ended_n > l->max_completed_processes;
        bool young = now - p->exited_mono_us < l->completed_process_retention_sec * 1000000;
        if ((!many && young) || !forget(p))
            return;
    }
}

static void on_exit_of(struct process *p, int code)
{
    struct runtime *rt = p->rt;
    p->running = false;
    p->exit_code = code;
    p->exited_us = time_wall_us();
    p->exited_mono_us = time_mono_us();
    rt->running--;
    if (p->session) {
        p->session->running--;
        box_session_touch(rt, p->session);
    }
    task_cond_notify_all(&p->ended);
}

/* Its own fiber: sees the end. */
static void watch(void *arg)
{
    struct process *p = arg;
    struct error err;
    int code = 255;
    if (!p->engine->b->process_wait(&p->box, &code, &err) && err.code == ERR_CANCELED)
        return;
    on_exit_of(p, code);
    if (p->stopping || !p->session)
        return;
    list_push(&p->rt->ended, &p->in_ended);
    p->rt->ended_n++;
    box_process_prune(p->rt);
}

/* ---- stopping ---------------------------------------------------------------------------------- */

static void wait_end(struct process *p, int64_t ms)
{
    struct error ignored;
    struct task_deadline d;
    task_deadline_push(&d, ms);
    while (p->running && task_cond_wait(&p->ended, &ignored))
        ;
    task_deadline_pop(&d);
}

static void ask_to_end(struct process *p)
{
    p->stopping = true;
    relay_stop_input(p);
    shut(&p->box.in);
    if (p->running)
        p->engine->b->process_signal(&p->box, SIGTERM);
}

static void make_end(struct process *p)
{
    /* Also when it has ended by itself: what it started may be left. */
    p->engine->b->process_signal(&p->box, SIGKILL);
    wait_end(p, STOP_GRACE_MS);
    if (p->running) {
        log_error("box", "process %s does not end", p->id);
        on_exit_of(p, 128 + SIGKILL);
    }
    take_out(p);
    finish(p);
}

void box_process_stop(struct process *p)
{
    struct task_hold hold;
    task_hold_begin(&hold);
    ask_to_end(p);
    wait_end(p, STOP_GRACE_MS);
    make_end(p);
    task_hold_end(&hold);
}

void box_process_stop_all(struct runtime *rt, struct session *s)
{
    struct str id;
    void *value;
    int64_t end = time_mono_us() + (int64_t)STOP_GRACE_MS * 1000;
    for (size_t pos = 0; map_next(&s->processes, &pos, &id, &value);) {
        struct process *p = value;
        if (!p->stopping)
            ask_to_end(p);
    }
    for (size_t pos = 0; map_next(&s->processes, &pos, &id, &value); pos = 0) {
        struct process *p = value;
        int64_t left = (end - time_mono_us()) / 1000;
        wait_end(p, left > 0 ? left : 0);
        make_end(p);
    }
}

/* ---- starting ---------------------------------------------------------------------------------- */

static struct process *describe(struct act *act, struct session *s, const struct process_spec *spec)
{
    struct process *p = new (struct process);
    if (!p)
        return NULL;
    p->refs = 1;
    p->rt = act->rt;
    p->engine = s->engine;
    p->box = (struct box_process){-1, -1, -1, NULL};
    p->line = BUF(RPC_MESSAGE_MAX + BOX_TAIL_MAX);
    p->id = mem_strndup(spec->process_id, strlen(spec->process_id));
    p->group = task_group_new(NULL, "box process");
    p->info = json_pack("{s:s,s:s,s:s,s:O,s:s,s:O}", "session_id", s->logical, "process_id",
                        spec->process_id, "command", spec->argv[0], "args", spec->args, "cwd",
                        spec->cwd, "env_keys", spec->env_keys);
    if (!p->id || !p->group || !p->info) {
        task_group_free(p->group);
        box_process_unref(p);
        return NULL;
    }
    return p;
}

static bool spawn(struct process *p, struct session *s, const struct process_spec *spec,
                  struct error *err)
{
    struct box_process_spec b = {spec->argv, spec->env, spec->cwd, spec->memory_mb};
    if (!s->engine->b->spawn)
        return err_tag(err, ERR_INVALID, 0, "BoxError",
                       "%s backend does not support managed processes", s->engine->b->name);
    p->rt->starting++;
    bool ok = s->engine->b->spawn(s->handle, &b, &p->box, err);
    p->rt->starting--;
    if (!ok && !err->tag)
        err->tag = "BoxError";
    return ok;
}

static bool enlist(struct process *p, struct session *s, struct error *err)
{
    if (!map_put(&s->processes, str_c(p->id), p))
        return err_set(err, ERR_NOMEM, "out of memory for a process");
    p->session = s;
    p->running = true;
    p->started_us = time_wall_us();
    p->rt->running++;
    s->running++;
    box_session_touch(p->rt, s);
    if (task_spawn(p->group, "box stderr", box_process_read_stderr, p, err) &&
        task_spawn(p->group, "box process", watch, p, err))
        return true;
    return false;
}

static bool has_room(struct runtime *rt, const struct process *replaced, struct error *err)
{
    size_t n = rt->running + rt->starting - (replaced && replaced->running);
    int64_t max = rt->conf->limits.max_managed_processes;
    return (int64_t)n < max ||
           err_tag(err, ERR_CAPACITY, 0, "BoxCapacityExceededError",
                   "Box managed process capacity reached (%lld)", (long long)max);
}

/* The session's turn is held. */
static json_t *start_in(struct act *act, struct session *s, const struct process_spec *spec,
                        struct error *err)
{
    struct process *old = map_get(&s->processes, str_c(spec->process_id));
    if (!has_room(act->rt, old, err))
        return NULL;
    if (old)
        box_process_stop(old);
    if (s->closing) {
        box_session_gone(err, s->logical);
        return NULL;
    }
    struct process *p = describe(act, s, spec);
    if (!p) {
        err_set(err, ERR_NOMEM, "out of memory for a process");
        return NULL;
    }
    if (!spawn(p, s, spec, err)) {
        task_group_free(p->group);
        box_process_unref(p);
        return NULL;
    }
    if (!enlist(p, s, err) || task_canceled()) {
        if (err->code == ERR_NONE)
            err_set(err, ERR_CANCELED, "the request was cancelled");
        box_process_stop(p);
        return NULL;
    }
    return box_process_info(p);
}

json_t *box_process_start(struct act *act, struct session *s, const struct process_spec *spec,
                          struct error *err)
{
    json_t *info = NULL;
    s->refs++;
    if (box_session_begin(act, s, err)) {
        err->code = ERR_NONE;
        info = start_in(act, s, spec, err);
        box_session_end(act, s);
    }
    box_session_unref(act->rt, s);
    return info;
}
