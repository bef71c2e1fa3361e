/* engine: which backend sessions are started with, and what it was seen to enforce (box.md §7.1, §8.4). */
#include "box/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static bool unavailable(struct error *err, const char *why)
{
    return err_tag(err, ERR_UNAVAILABLE, 0, "BoxBackendUnavailableError",
                   "No sandbox backend is available%s%s", *why ? ": " : "", why);
}

/* ---- opening ----------------------------------------------------------------------------------- */

static bool open_engine(struct runtime *rt, struct engine *e, const struct box_backend *b,
                        struct error *err)
{
    *e = (struct engine){.b = b};
    snprintf(e->state_dir, sizeof(e->state_dir), "%s/%s", rt->state_dir, b->name);
    if (mkdir(e->state_dir, 0700) != 0 && errno != EEXIST)
        return err_sys(err, errno, "cannot make %s", e->state_dir);
    e->env = (struct box_backend_env){.instance = rt->instance,
                                      .state_dir = e->state_dir,
                                      .state_root = rt->state_root,
                                      .group = rt->group};
    e->self = b->open(&e->env, err);
    if (!e->self)
        return false;
    const json_t *section = json_object_get(rt->conf->raw, b->name);
    return !b->configure || json_object_size(section) == 0 || b->configure(e->self, section, err);
}

static struct engine *engine_of(struct runtime *rt, const struct box_backend *b, struct error *err)
{
    for (size_t i = 0; i < rt->engine_n; i++)
        if (rt->engines[i].b == b)
            return &rt->engines[i];
    if (rt->engine_n == BACKENDS_MAX) {
        err_set(err, ERR_CAPACITY, "too many backends");
        return NULL;
    }
    struct engine *e = &rt->engines[rt->engine_n];
    if (!open_engine(rt, e, b, err)) {
        if (e->self)
            b->close(e->self);
        return NULL;
    }
    rt->engine_n++;
    return e;
}

void engine_close_all(struct runtime *rt)
{
    for (size_t i = 0; i < rt->engine_n; i++) {
        rt->engines[i].b->close(rt->engines[i].self);
        rmdir(rt->engines[i].state_dir);
    }
    rt->engine_n = 0;
    rt->chosen = NULL;
}

void engine_forget(struct runtime *rt)
{
    rt->chosen = NULL;
    rt->choices++;
}

/* ---- probing ----------------------------------------------------------------------------------- */

static int64_t believed_ms(const struct runtime *rt, const struct engine *e)
{
    if (e->probed_strictly != rt->conf->policy.required)
        return -1;
    if (!e->probe.available)
        return PROBE_BAD_MS;
    return rt->conf->policy.required ? (int64_t)(rt->conf->policy.readiness_cache_sec * 1000)
                                     : PROBE_GOOD_MS;
}

static bool fresh(const struct runtime *rt, const struct engine *e)
{
    return e->probed_us && time_mono_us() - e->probed_us <= believed_ms(rt, e) * 1000;
}

static bool probe(struct runtime *rt, struct engine *e, struct error *err)
{
    if (fresh(rt, e))
        return true;
    /* A wait inside: whoever comes meanwhile is to have the same result, not to probe as well. */
    if (!task_lock(&e->probing, err))
        return false;
    if (!fresh(rt, e)) {
        struct conf *c = conf_ref(rt->conf);
        struct box_probe seen = {0};
        e->b->probe(e->self, c->policy.required ? c->workspace : NULL, &seen);
        if (seen.available != e->probe.available || !e->probed_us)
            log_info("box", "backend %s is %savailable%s%s", e->b->name,
                     seen.available ? "" : "not ", *seen.reason ? ": " : "", seen.reason);
        e->probe = seen;
        e->probed_strictly = c->policy.required;
        e->probed_us = time_mono_us();
        conf_unref(c);
    }
    task_unlock(&e->probing);
    return true;
}

/* ---- choosing ---------------------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    remove(path);
    return 0;
}

/* Directories of runtimes that do not live any more: what this backend kept there, and the whole when
 * nothing else is left. */
static void remove_dead(void *arg)
{
    const struct engine *e = arg;
    DIR *root = opendir(e->env.state_root);
    struct dirent *d;
    char path[1024];
    while (root && (d = readdir(root))) {
        if (strlen(d->d_name) != BOX_INSTANCE_SIZE - 1 || box_instance_alive(&e->env, d->d_name))
            continue;
        snprintf(path, sizeof(path), "%s/%s/%s", e->env.state_root, d->d_name, e->b->name);
        nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
        snprintf(path, sizeof(path), "%s/%s/lock", e->env.state_root, d->d_name);
        unlink(path);
        snprintf(path, sizeof(path), "%s/%s", e->env.state_root, d->d_name);
        rmdir(path);
    }
    if (root)
        closedir(root);
}

static void clean(void *arg)
{
    struct engine *e = arg;
    struct error err;
    if (e->b->clean_orphans)
        e->b->clean_orphans(e->self);
    if (!task_work(remove_dead, e, &err) && err.code != ERR_CANCELED)
        log_warn("box", "directories of ended runtimes stay: %s", err.msg);
}

static void choose(struct runtime *rt, struct engine *e)
{
    struct error err;
    rt->chosen = e;
    if (e->cleaned)
        return;
    e->cleaned = true;
    if (!task_spawn(rt->group, "box orphans", clean, e, &err))
        log_warn("box", "orphans were not looked for: %s", err.msg);
}

/* Tries one backend; true: it was chosen. Its reason, when it is not available, is added to why. */
static bool try_one(struct runtime *rt, const struct box_backend *b, struct buf *why)
{
    struct error err = {0};
    unsigned choices = rt->choices;
    struct engine *e = engine_of(rt, b, &err);
    if (!e || !probe(rt, e, &err)) {
        buf_fmt(why, "%s%s: %s", why->n ? "; " : "", b->name, err.msg);
        return false;
    }
    if (choices != rt->choices)
        return true; /* configured anew meanwhile: settle() begins again */
    if (e->probe.available)
        choose(rt, e);
    else
        buf_fmt(why, "%s%s: %s", why->n ? "; " : "", b->name, e->probe.reason);
    return e->probe.available;
}

static void try_all(struct runtime *rt, struct buf *why)
{
    struct conf *c = conf_ref(rt->conf);
    const struct box_backend *const *list = strcmp(c->backend, "local") == 0 ? box_backends_local
                                            : !*c->backend                   ? box_backends_auto
                                                                             : NULL;
    const struct box_backend *one = list ? NULL : box_backend_find(c->backend);
    if (!list && rt->own && strcmp(rt->own->name, c->backend) == 0)
        one = rt->own;
    if (one)
        try_one(rt, one, why);
    else if (!list)
        buf_fmt(why, "there is no backend %.100s", c->backend);
    for (size_t i = 0; list && list[i]; i++)
        if (try_one(rt, list[i], why))
            break;
    conf_unref(c);
}

/* A backend is chosen if there is one. `look`: what is known of it must not be old. */
static bool settle(struct runtime *rt, bool look, struct buf *why, struct error *err)
{
    if (rt->chosen && (!look || fresh(rt, rt->chosen)) && rt->chosen->probe.available)
        return true;
    /* A wait inside, for the probes: see probe(). */
    if (!task_lock(&rt->choosing, err))
        return false;
    bool ok = true, idle = rt->sessions + rt->creating + rt->closing == 0;
    if (rt->chosen)
        ok = probe(rt, rt->chosen, err);
    if (ok && (!rt->chosen || (!rt->chosen->probe.available && idle))) {
        struct engine *had = rt->chosen;
        unsigned begun = rt->choices, choices;
        do {
            choices = rt->choices;
            rt->chosen = NULL;
            buf_clear(why);
            try_all(rt, why);
        } while (choices != rt->choices);
        if (!rt->chosen && begun == rt->choices)
            rt->chosen = had;
    } else if (rt->chosen && !rt->chosen->probe.available) {
        buf_z(why, rt->chosen->probe.reason);
    }
    task_unlock(&rt->choosing);
    return ok;
}

struct engine *engine_ready(struct runtime *rt, struct error *err)
{
    auto_buf why = BUF(2000);
    if (!settle(rt, false, &why, err))
        return NULL;
    if (rt->chosen && rt->chosen->probe.available)
        return rt->chosen;
    unavailable(err, buf_cstr(&why));
    return NULL;
}

static json_t *enforced_of(const struct engine *e)
{
    json_t *out = json_object();
    for (int i = 0; out && i < BOX_CHECK_COUNT; i++)
        if (!json_set(out, box_check_name((enum box_check)i), json_boolean(e->probe.enforced[i]))) {
            json_decref(out);
            out = NULL;
        }
    return out;
}

json_t *engine_info(struct runtime *rt)
{
    struct error ignored;
    auto_buf why = BUF(2000);
    bool known = settle(rt, true, &why, &ignored);
    const struct engine *e = rt->chosen;
    json_t *out = json_pack("{s:s?,s:b}", "name", e ? e->b->name : NULL, "available",
                            known && e && e->probe.available);
    const char *reason = e && e->probe.reason[0] ? e->probe.reason : buf_cstr(&why);
    if (out && *reason)
        json_set(out, "reason", json_strn(str_c(reason)));
    if (out && e)
        json_set(out, "enforced", enforced_of(e));
    return out;
}

/* ---- readiness --------------------------------------------------------------------------------- */

struct readiness {
    json_t *checks;
    bool ready;
};

static void check(struct readiness *r, const char *name, bool holds)
{
    json_set(r->checks, name, json_boolean(holds));
    r->ready = r->ready && holds;
}

static bool is_storage(enum box_check c)
{
    return c == BOX_CHECK_HARD_WORKSPACE_QUOTA || c == BOX_CHECK_HARD_READ_ONLY_MOUNT_QUOTA ||
           c == BOX_CHECK_BOUNDED_EPHEMERAL_STORAGE || c == BOX_CHECK_INODE_QUOTA;
}

static void strict_checks(struct runtime *rt, const struct engine *e, struct readiness *r)
{
    const struct conf *c = rt->conf;
    check(r, "configuration", !*c->policy_error);
    check(r, "required_backend", e && strcmp(e->b->name, c->policy.required_backend) == 0);
    check(r, "workspace_mount", c->workspace && access(c->workspace, W_OK | X_OK) == 0);
    check(r, "backend_available", e && e->probe.available);
    for (int i = 0; i < BOX_CHECK_REQUIRED_COUNT; i++) {
        enum box_check k = (enum box_check)i;
        bool holds = e && e->probe.available && e->probe.enforced[i];
        check(r, box_check_name(k), holds || (e && rt->soft_storage && is_storage(k)));
    }
    check(r, "session_cap", c->policy.max_sessions <= 1);
    check(r, "managed_process_cap", c->policy.max_managed_processes == 0);
}

json_t *engine_readiness(struct runtime *rt, bool *ready)
{
    bool strict = rt->conf->policy.required;
    auto_json backend = engine_info(rt);
    const struct engine *e = rt->chosen;
    struct readiness r = {json_object(), true};
    *ready = false;
    if (!backend || !r.checks) {
        json_decref(r.checks);
        return NULL;
    }
    if (strict)
        strict_checks(rt, e, &r);
    else
        check(&r, "backend_available", json_b_or(backend, "available", false));
    json_t *out = json_pack("{s:b,s:s,s:o,s:o}", "ready", r.ready, "mode",
                            strict ? "grant_enforced" : "standard", "backend", steal(backend),
                            "checks", r.checks);
    if (out && strict) {
        json_set(out, "unsafe_soft_storage_limits", json_boolean(rt->soft_storage));
        if (*rt->conf->policy_error)
            json_set(out, "error", json_strn(str_c(rt->conf->policy_error)));
    }
    *ready = out && r.ready;
    return out;
}

bool engine_require_ready(struct runtime *rt, struct error *err)
{
    bool ready;
    auto_json state = engine_readiness(rt, &ready);
    auto_buf failed = BUF(600);
    const char *name;
    json_t *holds;
    if (ready)
        return true;
    json_object_foreach (json_object_get(state, "checks"), name, holds)
        if (!json_is_true(holds))
            buf_fmt(&failed, "%s%s", failed.n ? ", " : "", name);
    return err_tag(err, ERR_UNAVAILABLE, 0, "BoxReadinessError",
                   "Managed sandbox isolation is not ready (failed checks: %s)", buf_cstr(&failed));
}
