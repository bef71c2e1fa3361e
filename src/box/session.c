/* session: found, made, used, deleted (box.md §5). */
#include "box/runtime.h"

#include <ctype.h>

/* ---- slots ------------------------------------------------------------------------------------- */

static struct slot *slot_get(struct runtime *rt, const char *id, struct error *err)
{
    struct slot *slot = map_get(&rt->slots, str_c(id));
    if (!slot) {
        slot = new (struct slot);
        if (slot)
            slot->id = mem_strndup(id, strlen(id));
        if (!slot || !slot->id || !map_put(&rt->slots, str_c(id), slot)) {
            if (slot)
                mem_free(slot->id);
            mem_free(slot);
            err_set(err, ERR_NOMEM, "out of memory for a session");
            return NULL;
        }
    }
    slot->refs++;
    return slot;
}

static void slot_put(struct runtime *rt, struct slot *slot)
{
    if (--slot->refs > 0)
        return;
    map_del(&rt->slots, str_c(slot->id));
    mem_free(slot->id);
    mem_free(slot);
}

struct session *box_session_find(struct runtime *rt, const char *physical)
{
    struct slot *slot = map_get(&rt->slots, str_c(physical));
    return slot ? slot->live : NULL;
}

void box_session_unref(struct runtime *rt, struct session *s)
{
    if (--s->refs > 0)
        return;
    slot_put(rt, s->slot);
    box_session_free(s);
}

/* ---- errors ------------------------------------------------------------------------------------ */

bool box_session_missing(struct error *err, struct str logical)
{
    return err_tag(err, ERR_NOT_FOUND, 0, "BoxSessionNotFoundError",
                   "session " STR_FMT " not found", STR_ARG(utf8_cut(logical, 200)));
}

bool box_session_gone(struct error *err, const char *logical)
{
    return err_tag(err, ERR_NOT_FOUND, 0, "BoxSessionNotFoundError",
                   "session %.200s is being deleted", logical);
}

static bool no_room(struct runtime *rt, struct error *err)
{
    return err_tag(err, ERR_CAPACITY, 0, "BoxCapacityExceededError",
                   "Box session capacity reached (%lld)", (long long)rt->conf->limits.max_sessions);
}

/* ---- use --------------------------------------------------------------------------------------- */

void box_session_touch(struct runtime *rt, struct session *s)
{
    int64_t now = time_wall_us();
    s->used_us = now > s->used_us ? now : s->used_us + 1;
    s->idle_us = time_mono_us();
    if (!s->persistent && !s->closing) {
        list_del(&s->in_idle);
        list_push(&rt->idle, &s->in_idle);
    }
}

bool box_session_begin(struct act *act, struct session *s, struct error *err)
{
    if (s->closing)
        return box_session_gone(err, s->logical);
    list_push(&s->acts, &act->in_session);
    bool locked = task_lock(&s->run, err);
    if (locked && !s->closing)
        return true;
    list_del(&act->in_session);
    if (locked) {
        task_unlock(&s->run);
        box_session_gone(err, s->logical);
    }
    return false;
}

void box_session_end(struct act *act, struct session *s)
{
    list_del(&act->in_session);
    task_unlock(&s->run);
}

void box_session_release(struct runtime *rt, struct session *s)
{
    s->leases--;
    box_session_unref(rt, s);
}

/* ---- retiring ---------------------------------------------------------------------------------- */

struct retiring {
    struct runtime *rt;
    struct session *s;
};

static void retire(struct runtime *rt, struct session *s)
{
    struct error ignored;
    struct task_hold hold;
    task_hold_begin(&hold);
    /* The lock cannot fail under a hold. Whoever has it was told to end. */
    bool locked = task_lock(&s->run, &ignored);
    box_process_stop_all(rt, s);
    s->engine->b->stop_session(s->handle);
    s->handle = NULL;
    if (locked)
        task_unlock(&s->run);
    task_hold_end(&hold);
    s->slot->closing = NULL;
    list_del(&s->in_place);
    rt->closing--;
    s->closed = true;
    task_cond_notify_all(&s->closed_news);
    task_cond_notify_all(&rt->settled);
    box_session_unref(rt, s);
}

static void retire_fiber(void *arg)
{
    struct retiring *r = arg;
    retire(r->rt, r->s);
    mem_free(r);
}

void box_session_close(struct runtime *rt, struct session *s)
{
    struct error err;
    if (s->closing)
        return;
    s->closing = true;
    s->slot->live = NULL;
    s->slot->closing = s;
    list_del(&s->in_idle);
    list_del(&s->in_place);
    list_push(&s->place->closing, &s->in_place);
    rt->sessions--;
    rt->closing++;
    list_each(node, &s->acts)
    {
        struct act *act = container_of(node, struct act, in_session);
        box_session_gone(&err, s->logical);
        if (act->request)
            rpc_abort(act->request, &err);
    }
    struct retiring *r = new (struct retiring);
    if (r) {
        *r = (struct retiring){rt, s};
        if (task_spawn(rt->group, "box cleanup", retire_fiber, r, &err))
            return;
        mem_free(r);
    }
    log_warn("box", "a session is retired by whoever asked for it: no fiber for it");
    retire(rt, s);
}

bool box_session_wait_closed(struct session *s, struct error *err)
{
    while (!s->closed)
        if (!task_cond_wait(&s->closed_news, err))
            return false;
    return true;
}

static bool wait_closing(struct runtime *rt, struct session *s, struct error *err)
{
    s->refs++;
    bool ok = box_session_wait_closed(s, err);
    box_session_unref(rt, s);
    return ok;
}

/* ---- get or create (§5.1) ------------------------------------------------------------------------ */

static void enlist(struct runtime *rt, struct session *s)
{
    s->slot->live = s;
    rt->sessions++;
    list_push(&s->place->sessions, &s->in_place);
    box_session_touch(rt, s);
}

/* A grant may end while a call waits for its turn or for its session to start (§5.1). */
static bool still_admitted(const struct act *act, struct error *err)
{
    return !act->rt->conf->policy.required ||
           admission_check(act->rt, act->place, act->generation, err);
}

/* The slot's lock is held. Takes over the new session, or sends it away when it came too late. */
static struct session *create(struct act *act, struct slot *slot, const struct spec *spec,
                              struct error *err)
{
    struct runtime *rt = act->rt;
    if ((int64_t)(rt->sessions + rt->creating + rt->closing) >= rt->conf->limits.max_sessions) {
        no_room(rt, err);
        return NULL;
    }
    rt->creating++;
    struct session *s = box_session_make(act, slot, spec, err);
    rt->creating--;
    task_cond_notify_all(&rt->settled);
    if (!s)
        return NULL;
    enlist(rt, s);
    if (rt->shutting || !place_current(act, err) || !still_admitted(act, err)) {
        if (rt->shutting)
            err_tag(err, ERR_UNAVAILABLE, 0, "BoxRuntimeUnavailableError",
                    "Box runtime is shutting down");
        box_session_close(rt, s);
        return NULL;
    }
    s->leases++;
    s->refs++;
    return s;
}

/* Reuses what is there, if it fits and lives. *again: it was sent away, look once more. */
static struct session *reuse(struct act *act, struct session *s, const struct spec *spec,
                             bool *again, struct error *err)
{
    struct runtime *rt = act->rt;
    if (!box_session_compatible(s, spec, err))
        return NULL;
    bool keep = box_session_same_mounts(s, spec);
    s->leases++;
    s->refs++;
    if (keep && s->engine->b->alive && s->handle && !s->engine->b->alive(s->handle)) {
        log_info("box", "a session has disappeared and is made again");
        keep = false;
    }
    if (keep && !s->closing) {
        box_session_touch(rt, s);
        return s;
    }
    box_session_close(rt, s);
    *again = box_session_wait_closed(s, err);
    box_session_release(rt, s);
    return NULL;
}

static struct session *under_lock(struct act *act, struct slot *slot, const struct spec *spec,
                                  struct error *err)
{
    struct runtime *rt = act->rt;
    for (;;) {
        if (rt->shutting) {
            err_tag(err, ERR_UNAVAILABLE, 0, "BoxRuntimeUnavailableError",
                    "Box runtime is shutting down");
            return NULL;
        }
        if (!still_admitted(act, err))
            return NULL;
        bool again = false;
        if (slot->closing) {
            if (!wait_closing(rt, slot->closing, err))
                return NULL;
        } else if (slot->live) {
            struct session *s = reuse(act, slot->live, spec, &again, err);
            if (s || !again)
                return s;
        } else {
            return create(act, slot, spec, err);
        }
    }
}

struct session *box_session_acquire(struct act *act, const struct spec *spec, struct error *err)
{
    struct runtime *rt = act->rt;
    auto_arena a = arena_new(1 << 20);
    runtime_reap(rt);
    if (!a || !box_session_check_mounts(rt, a, spec, err))
        return NULL;
    struct slot *slot =
        slot_get(rt, physical_id(a, act->place->ns, act->generation, spec->session_id), err);
    if (!slot)
        return NULL;
    /* Making and retiring wait inside: one at a time for each id. */
    struct session *s = NULL;
    if (task_lock(&slot->op, err)) {
        s = under_lock(act, slot, spec, err);
        task_unlock(&slot->op);
    }
    slot_put(rt, slot);
    return s;
}

bool box_session_delete(struct act *act, struct str logical, struct error *err)
{
    struct runtime *rt = act->rt;
    auto_arena a = arena_new(16 << 10);
    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory");
    struct slot *slot = slot_get(rt, physical_id(a, act->place->ns, act->generation, logical), err);
    if (!slot)
        return false;
    struct session *s = NULL;
    if (task_lock(&slot->op, err)) { /* waits for one that is being made */
        if (slot->live)
            box_session_close(rt, slot->live);
        s = slot->closing;
        if (s)
            s->refs++;
        else
            box_session_missing(err, logical);
        task_unlock(&slot->op);
    }
    bool ok = s && box_session_wait_closed(s, err);
    if (s)
        box_session_unref(rt, s);
    slot_put(rt, slot);
    return ok;
}

/* ---- what is told ------------------------------------------------------------------------------ */

json_t *box_session_info(const struct session *s)
{
    char created[ISO_SIZE], used[ISO_SIZE];
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s?,s:s,s:s,s:b,s:f,s:I,s:I,s:b,s:I,s:s,s:s}",
                     "session_id", s->logical, "backend_name", s->engine->b->name,
                     "backend_session_id", s->handle ? s->engine->b->session_name(s->handle) : "",
                     "image", s->image, "network", s->network ? "on" : "off", "host_path",
                     s->host_path, "host_path_mode", mode_name(s->host_path_mode), "mount_path",
                     s->mount_path, "persistent", s->persistent, "cpus", s->cpus, "memory_mb",
                     (json_int_t)s->memory_mb, "pids_limit", (json_int_t)s->pids_limit,
                     "read_only_rootfs", s->read_only_rootfs, "workspace_quota_mb",
                     (json_int_t)s->workspace_quota_mb, "created_at",
                     iso_time(s->created_us, created), "last_used_at", iso_time(s->used_us, used));
}
