/* session_make: a new session, and whether an old one fits what is asked for (box.md §5.2, §5.3). */
#include "box/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIGNATURE_MAX = SPEC_MOUNTS_MAX * (2 * BOX_PATH_MAX + 16) };

/* ---- fitting ----------------------------------------------------------------------------------- */

static bool conflict(struct error *err, const struct session *s, const char *field,
                     const char *value)
{
    return err_tag(err, ERR_CONFLICT, 0, "BoxSessionConflictError",
                   "Box session %.200s already exists with %s=%.500s", s->logical, field, value);
}

static const char *onoff(bool on)
{
    return on ? "on" : "off";
}

static const char *truth(bool v)
{
    return v ? "True" : "False";
}

static bool same(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0 && !a == !b;
}

static const char *number(int64_t v, char out[32])
{
    snprintf(out, 32, "%lld", (long long)v);
    return out;
}

/* As the peer writes a float: 1.0, 0.5. */
static const char *real(double v, char out[32])
{
    snprintf(out, 32, "%.15g", v);
    if (!strpbrk(out, ".en"))
        strcat(out, ".0"); /* allow strcat: 32 bytes hold 15 digits, exponent and this */
    return out;
}

bool box_session_compatible(const struct session *s, const struct spec *spec, struct error *err)
{
    char n[32];
    if (s->network != spec->network)
        return conflict(err, s, "network", onoff(s->network));
    if (!same(s->image, spec->image))
        return conflict(err, s, "image", s->image);
    if (!same(s->host_path, spec->host_path))
        return conflict(err, s, "host_path", s->host_path ? s->host_path : "None");
    if (s->host_path_mode != spec->host_path_mode)
        return conflict(err, s, "host_path_mode", mode_name(s->host_path_mode));
    if (!same(s->mount_path, spec->mount_path))
        return conflict(err, s, "mount_path", s->mount_path);
    if (s->persistent != spec->persistent)
        return conflict(err, s, "persistent", truth(s->persistent));
    if (s->cpus < spec->cpus || s->cpus > spec->cpus)
        return conflict(err, s, "cpus", real(s->cpus, n));
    if (s->memory_mb != spec->memory_mb)
        return conflict(err, s, "memory_mb", number(s->memory_mb, n));
    if (s->pids_limit != spec->pids_limit)
        return conflict(err, s, "pids_limit", number(s->pids_limit, n));
    if (s->read_only_rootfs != spec->read_only_rootfs)
        return conflict(err, s, "read_only_rootfs", truth(s->read_only_rootfs));
    if (s->workspace_quota_mb != spec->workspace_quota_mb)
        return conflict(err, s, "workspace_quota_mb", number(s->workspace_quota_mb, n));
    return true;
}

static int by_target(const void *a, const void *b)
{
    const struct spec_mount *x = a, *y = b;
    return strcmp(x->mount_path, y->mount_path);
}

/* The set of extra mounts as one text; targets are different from each other. NULL: memory. */
static char *signature(const struct spec *spec)
{
    auto_buf out = BUF(SIGNATURE_MAX);
    size_t n = spec->extra_count;
    auto_mem struct spec_mount *sorted = mem_alloc((n + 1) * sizeof(*sorted));
    if (!sorted)
        return NULL;
    if (n)
        memcpy(sorted, spec->extra, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_target);
    for (size_t i = 0; i < n; i++)
        buf_fmt(&out, "%s\n%s\n%s\n", sorted[i].mount_path, sorted[i].host_path,
                mode_name(sorted[i].mode));
    return out.failed ? NULL : mem_strndup(out.p ? out.p : "", out.n);
}

bool box_session_same_mounts(const struct session *s, const struct spec *spec)
{
    auto_mem char *wanted = signature(spec);
    return wanted && strcmp(wanted, s->mounts) == 0;
}

/* ---- making ------------------------------------------------------------------------------------ */

static char *copy(const char *z)
{
    return z ? mem_strndup(z, strlen(z)) : NULL;
}

void box_session_free(struct session *s)
{
    mem_free(s->logical);
    mem_free(s->image);
    mem_free(s->host_path);
    mem_free(s->mount_path);
    mem_free(s->mounts);
    map_free(&s->processes);
    mem_free(s);
}

static struct session *describe(const struct act *act, struct slot *slot, const struct spec *spec)
{
    struct session *s = new (struct session);
    if (!s)
        return NULL;
    s->refs = 1;
    s->slot = slot;
    s->place = act->place;
    s->generation = act->generation;
    s->logical = mem_strndup(spec->session_id.p, spec->session_id.n);
    s->image = copy(spec->image);
    s->host_path = copy(spec->host_path);
    s->host_path_mode = spec->host_path_mode;
    s->mount_path = copy(spec->mount_path);
    s->mounts = signature(spec);
    s->network = spec->network;
    s->persistent = spec->persistent;
    s->read_only_rootfs = spec->read_only_rootfs;
    s->cpus = spec->cpus;
    s->memory_mb = spec->memory_mb;
    s->pids_limit = spec->pids_limit;
    s->workspace_quota_mb = spec->workspace_quota_mb;
    s->created_us = s->used_us = time_wall_us();
    s->idle_us = time_mono_us();
    list_init(&s->acts);
    if (!s->logical || !s->image || !s->mount_path || !s->mounts ||
        (spec->host_path && !s->host_path)) {
        box_session_free(s);
        return NULL;
    }
    return s;
}

/* Mounts that were opened; closed when the backend has them. */
struct opened {
    struct box_mount *list; /* in the arena; the primary one first if there is one */
    size_t n;
};

static void close_mounts(struct opened *o)
{
    for (size_t i = 0; i < o->n; i++)
        close(o->list[i].fd);
    o->n = 0;
}

static bool open_one(struct runtime *rt, struct arena *a, const char *host, const char *target,
                     enum box_mode mode, bool create, struct opened *o, struct error *err)
{
    auto_mem char *where = mem_alloc(BOX_PATH_MAX + 1);
    if (!where)
        return err_set(err, ERR_NOMEM, "out of memory for a mount");
    struct conf *c = conf_ref(rt->conf);
    int fd = mount_open(c, host, create, "host_path", where, err);
    conf_unref(c);
    if (fd < 0)
        return false;
    o->list[o->n++] = (struct box_mount){fd, str_z(a, str_c(where)), target, mode};
    return true;
}

/* Checks and opens all mounts of a spec. False: none stays open. */
static bool open_mounts(struct runtime *rt, struct arena *a, const struct spec *spec,
                        struct opened *o, struct error *err)
{
    o->n = 0;
    o->list = arena_alloc(a, (spec->extra_count + 1) * sizeof(*o->list));
    if (!o->list)
        return err_set(err, ERR_NOMEM, "out of memory for mounts");
    bool ok = mount_targets_ok(spec, err);
    if (ok && spec->host_path && spec->host_path_mode != BOX_MOUNT_NONE)
        ok = open_one(rt, a, spec->host_path, spec->mount_path, spec->host_path_mode,
                      spec->host_path_mode == BOX_MOUNT_RW, o, err);
    for (size_t i = 0; ok && i < spec->extra_count; i++)
        ok = open_one(rt, a, spec->extra[i].host_path, spec->extra[i].mount_path,
                      spec->extra[i].mode, false, o, err);
    if (!ok)
        close_mounts(o);
    return ok;
}

bool box_session_check_mounts(struct runtime *rt, struct arena *a, const struct spec *spec,
                              struct error *err)
{
    struct opened o;
    if (!open_mounts(rt, a, spec, &o, err))
        return false;
    close_mounts(&o);
    return true;
}

static void *start(struct session *s, const struct spec *spec, const struct opened *o,
                   struct error *err)
{
    bool primary = spec->host_path && spec->host_path_mode != BOX_MOUNT_NONE;
    struct box_session_spec b = {.id = s->slot->id,
                                 .image = s->image,
                                 .network = s->network,
                                 .persistent = s->persistent,
                                 .read_only_rootfs = s->read_only_rootfs,
                                 .mount_path = s->mount_path,
                                 .primary = primary ? &o->list[0] : NULL,
                                 .extra = o->list + primary,
                                 .extra_count = o->n - primary,
                                 .cpus = s->cpus,
                                 .memory_mb = s->memory_mb,
                                 .pids_limit = s->pids_limit,
                                 .workspace_quota_mb = s->workspace_quota_mb,
                                 .label = s->place->ns};
    return s->engine->b->start_session(s->engine->self, &b, err);
}

struct session *box_session_make(struct act *act, struct slot *slot, const struct spec *spec,
                                 struct error *err)
{
    struct runtime *rt = act->rt;
    auto_arena a = arena_new(1 << 20);
    struct session *s = a ? describe(act, slot, spec) : NULL;
    struct opened o = {0};
    if (!s) {
        err_set(err, ERR_NOMEM, "out of memory for a session");
        return NULL;
    }
    s->engine = engine_ready(rt, err);
    if (s->engine && open_mounts(rt, a, spec, &o, err)) {
        s->handle = start(s, spec, &o, err);
        if (!s->handle && err->code != ERR_CANCELED)
            s->engine->probed_us = 0; /* look again before the next */
        close_mounts(&o);
    }
    if (!s->handle) {
        box_session_free(s);
        return NULL;
    }
    slot->refs++;
    return s;
}
