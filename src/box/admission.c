/* admission: grants, revocations and what they allow (box.md §3.8, §8). Revisions and generations only
 * rise; what is not granted, or cannot be understood, is refused. */
#include "box/runtime.h"

#include <stdio.h>
#include <unistd.h>

enum { HEAP_SLACK = 1024, HEAP_MAX = 1 << 20 };

static bool refuse(struct error *err, const char *text)
{
    return err_tag(err, ERR_DENIED, 0, "BoxAdmissionError", "%s", text);
}

/* ---- reading ----------------------------------------------------------------------------------- */

struct grant {
    struct str workspace;
    int64_t generation, revision, expires_us, max_sessions, max_managed_processes;
};

static bool read_text(const json_t *data, const char *name, struct str *out, struct error *err)
{
    *out = str_trim(json_s(data, name));
    if (out->n && !memchr(out->p, '\0', out->n))
        return true;
    return spec_refuse(err, "%s must be a text that is not empty", name);
}

static bool read_int(const json_t *data, const char *name, int64_t low, int64_t *out,
                     struct error *err)
{
    const json_t *value = json_object_get(data, name);
    *out = json_integer_value(value);
    return (json_is_integer(value) && *out >= low) ||
           spec_refuse(err, "%s must be an integer of at least %lld", name, (long long)low);
}

static bool has_zone(struct str s)
{
    ptrdiff_t t = str_chr(s, 'T');
    struct str time = t >= 0 ? str_sub(s, (size_t)t, s.n) : STR_NONE;
    return str_ends(time, S("Z")) || str_chr(time, '+') >= 0 || str_chr(time, '-') >= 0;
}

static bool read_time(const json_t *data, const char *name, int64_t *out, struct error *err)
{
    struct str s = str_trim(json_s(data, name));
    return (s.n && has_zone(s) && time_parse(s, out)) ||
           spec_refuse(err, "%s must be a time with a time zone", name);
}

static bool known_only(const json_t *data, const char *const *names, struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)data, key, value) {
        size_t i = 0;
        while (names[i] && strcmp(names[i], key) != 0)
            i++;
        if (!names[i])
            return spec_refuse(err, "%.100s is not permitted", key);
    }
    return true;
}

/* The instance of a payload is the pinned one. */
static bool own_instance(const struct runtime *rt, struct str instance, struct error *err)
{
    return (rt->trusted && str_eqz(instance, rt->trusted)) ||
           err_tag(err, ERR_DENIED, 0, "PermissionError", "Box action belongs to another instance");
}

static bool enforcing(const struct runtime *rt, struct error *err)
{
    if (!rt->conf->policy.required)
        return refuse(err, "Sandbox admission enforcement is not enabled");
    if (*rt->conf->policy_error)
        return err_tag(err, ERR_UNAVAILABLE, 0, "BoxReadinessError", "%s", rt->conf->policy_error);
    return true;
}

static bool read_grant(const struct runtime *rt, const json_t *data, struct grant *g,
                       struct error *err)
{
    static const char *const names[] = {
        "instance_uuid", "workspace_uuid", "execution_generation",  "entitlement_revision",
        "expires_at",    "max_sessions",   "max_managed_processes", NULL};
    struct str instance;
    return known_only(data, names, err) && read_text(data, "instance_uuid", &instance, err) &&
           read_text(data, "workspace_uuid", &g->workspace, err) &&
           read_int(data, "execution_generation", 1, &g->generation, err) &&
           read_int(data, "entitlement_revision", 1, &g->revision, err) &&
           read_time(data, "expires_at", &g->expires_us, err) &&
           read_int(data, "max_sessions", 0, &g->max_sessions, err) &&
           read_int(data, "max_managed_processes", 0, &g->max_managed_processes, err) &&
           own_instance(rt, instance, err);
}

/* ---- records ----------------------------------------------------------------------------------- */

static bool has_room(const struct runtime *rt, struct error *err)
{
    return (int64_t)rt->admission.records.n < rt->conf->limits.max_admission_records ||
           refuse(err, "Sandbox admission record capacity reached");
}

static struct record *record_of(struct runtime *rt, const char *workspace, bool create,
                                struct error *err)
{
    char ns[NS_SIZE];
    place_namespace(rt->trusted, workspace, ns);
    struct record *r = map_get(&rt->admission.records, str_c(ns));
    if (r || !create)
        return r;
    if (!has_room(rt, err))
        return NULL;
    r = new (struct record);
    if (r)
        r->workspace = mem_strndup(workspace, strlen(workspace));
    if (!r || !r->workspace || !map_put(&rt->admission.records, str_c(ns), r)) {
        if (r)
            mem_free(r->workspace);
        mem_free(r);
        err_set(err, ERR_NOMEM, "out of memory for a grant");
        return NULL;
    }
    snprintf(r->ns, sizeof(r->ns), "%s", ns);
    return r;
}

/* ---- expiry: a heap with the next one first; entries that do not hold any more are passed over ----- */

static void sift_up(struct expiry *h, size_t i)
{
    for (; i > 0 && h[i].at_us < h[(i - 1) / 2].at_us; i = (i - 1) / 2) {
        struct expiry t = h[i];
        h[i] = h[(i - 1) / 2];
        h[(i - 1) / 2] = t;
    }
}

static void sift_down(struct expiry *h, size_t n, size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t c = 2 * i + 1; c < n && c <= 2 * i + 2; c++)
            least = h[c].at_us < h[least].at_us ? c : least;
        if (least == i)
            return;
        struct expiry t = h[i];
        h[i] = h[least];
        h[least] = t;
        i = least;
    }
}

static bool holds(const struct expiry *e)
{
    return e->record->granted && e->record->expires_us == e->at_us;
}

static void compact(struct admission *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->heap_n; i++)
        if (holds(&a->heap[i]))
            a->heap[n++] = a->heap[i];
    a->heap_n = n;
    for (size_t i = n / 2; i-- > 0;)
        sift_down(a->heap, n, i);
}

static bool remember(struct admission *a, struct record *r, int64_t at_us)
{
    if (a->heap_n > 2 * a->grants + HEAP_SLACK)
        compact(a);
    if (a->heap_n == a->heap_cap) {
        size_t cap = a->heap_cap ? 2 * a->heap_cap : 64;
        struct expiry *p = cap <= HEAP_MAX ? mem_realloc(a->heap, cap * sizeof(*p)) : NULL;
        if (!p)
            return false;
        a->heap = p;
        a->heap_cap = cap;
    }
    a->heap[a->heap_n] = (struct expiry){at_us, r};
    sift_up(a->heap, a->heap_n++);
    return true;
}

static void drop_sessions(struct runtime *rt, const struct record *r, const char *keep)
{
    struct place *p = map_get(&rt->places, str_c(r->ns));
    if (!p)
        return;
    list_each(node, &p->sessions)
    {
        struct session *s = container_of(node, struct session, in_place);
        if (!keep || strcmp(s->logical, keep) != 0)
            box_session_close(rt, s);
    }
}

static void end_grant(struct runtime *rt, struct record *r)
{
    if (r->granted)
        rt->admission.grants--;
    r->granted = false;
    drop_sessions(rt, r, NULL);
}

void admission_expire(struct runtime *rt)
{
    struct admission *a = &rt->admission;
    int64_t now = time_wall_us();
    while (a->heap_n > 0 && (a->heap[0].at_us <= now || !holds(&a->heap[0]))) {
        struct expiry first = a->heap[0];
        bool held = holds(&first);
        a->heap[0] = a->heap[--a->heap_n];
        sift_down(a->heap, a->heap_n, 0);
        if (held)
            end_grant(rt, first.record);
    }
}

void admission_end(struct runtime *rt)
{
    struct str key;
    void *value;
    size_t pos = 0;
    while (map_next(&rt->admission.records, &pos, &key, &value)) {
        struct record *r = value;
        mem_free(r->workspace);
        mem_free(r);
    }
    map_free(&rt->admission.records);
    mem_free(rt->admission.heap);
}

/* ---- granting ---------------------------------------------------------------------------------- */

static json_t *receipt(const struct record *r)
{
    char at[ISO_SIZE];
    return json_pack("{s:b,s:s,s:I,s:I,s:I,s:I,s:s}", "installed", 1, "workspace_uuid",
                     r->workspace, "execution_generation", (json_int_t)r->generation,
                     "entitlement_revision", (json_int_t)r->revision, "max_sessions",
                     (json_int_t)r->max_sessions, "max_managed_processes",
                     (json_int_t)r->max_managed_processes, "expires_at",
                     iso_time(r->expires_us, at));
}

static bool within_policy(const struct runtime *rt, const struct grant *g, struct error *err)
{
    const struct box_policy *p = &rt->conf->policy;
    int64_t now = time_wall_us();
    if (g->expires_us <= now)
        return refuse(err, "The sandbox admission grant has expired");
    if (g->expires_us > now + p->max_grant_ttl_sec * 1000000)
        return refuse(err, "The sandbox admission grant lives longer than the policy allows");
    if (g->max_sessions > p->max_sessions || g->max_managed_processes > p->max_managed_processes)
        return refuse(err, "The sandbox admission grant exceeds the policy");
    return true;
}

static bool rises(const struct record *r, const struct grant *g, struct error *err)
{
    if (!r)
        return true;
    if (g->revision <= r->revoked)
        return refuse(err, "The sandbox entitlement revision was revoked");
    if (g->revision < r->highest_revision)
        return refuse(err, "The sandbox entitlement revision is stale");
    if (g->generation < r->highest_generation)
        return refuse(err, "The sandbox execution generation is stale");
    if (g->revision == r->revision && r->revision > 0 &&
        (g->max_sessions != r->max_sessions ||
         g->max_managed_processes != r->max_managed_processes))
        return refuse(err, "The limits of a sandbox entitlement revision must not change");
    return true;
}

static void install(struct runtime *rt, struct record *r, const struct grant *g)
{
    bool anew = !r->granted || r->generation != g->generation || g->max_sessions == 0;
    rt->admission.grants += !r->granted;
    r->granted = true;
    r->generation = r->highest_generation = g->generation;
    r->revision = r->highest_revision = g->revision;
    r->expires_us = g->expires_us;
    r->max_sessions = g->max_sessions;
    r->max_managed_processes = g->max_managed_processes;
    drop_sessions(rt, r, anew ? NULL : "global");
}

bool admission_upsert(struct runtime *rt, const json_t *data, json_t **reply, struct error *err)
{
    struct grant g;
    auto_arena a = arena_new(64 << 10);
    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory for a grant");
    admission_expire(rt);
    if (!read_grant(rt, data, &g, err) || !enforcing(rt, err) || !within_policy(rt, &g, err))
        return false;
    const char *workspace = str_z(a, g.workspace);
    struct record *r = record_of(rt, workspace, false, err);
    if (!rises(r, &g, err) || (!r && !has_room(rt, err)))
        return false;
    struct place *p = place_of(rt, workspace, true, err);
    if (!p)
        return false;
    if (g.generation < p->generation)
        return refuse(err, "The sandbox execution generation is stale");
    r = record_of(rt, workspace, true, err);
    if (!r)
        return false;
    bool renewal = r->granted && g.revision == r->revision && g.generation == r->generation &&
                   g.expires_us <= r->expires_us;
    if (!renewal) {
        if (!remember(&rt->admission, r, g.expires_us))
            return err_set(err, ERR_NOMEM, "out of memory for a grant");
        install(rt, r, &g);
    }
    *reply = receipt(r);
    return place_advance(rt, p, g.generation, err) && place_wait_closing(rt, p, err);
}

bool admission_revoke(struct runtime *rt, const json_t *data, json_t **reply, struct error *err)
{
    static const char *const names[] = {"instance_uuid", "workspace_uuid", "entitlement_revision",
                                        NULL};
    struct str instance, workspace;
    int64_t revision;
    auto_arena a = arena_new(64 << 10);
    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory for a revocation");
    if (!known_only(data, names, err) || !read_text(data, "instance_uuid", &instance, err) ||
        !read_text(data, "workspace_uuid", &workspace, err) ||
        !read_int(data, "entitlement_revision", 1, &revision, err) ||
        !own_instance(rt, instance, err) || !enforcing(rt, err))
        return false;
    struct record *r = record_of(rt, str_z(a, workspace), true, err);
    if (!r)
        return false;
    if (revision < r->highest_revision)
        return refuse(err, "The sandbox entitlement revision is stale");
    r->highest_revision = r->revoked = revision;
    end_grant(rt, r);
    *reply = json_pack("{s:b,s:s,s:I}", "revoked", 1, "workspace_uuid", r->workspace,
                       "entitlement_revision", (json_int_t)revision);
    struct place *p = map_get(&rt->places, str_c(r->ns));
    return !p || place_wait_closing(rt, p, err);
}

/* ---- using ------------------------------------------------------------------------------------- */

const struct record *admission_check(struct runtime *rt, const struct place *p, int64_t generation,
                                     struct error *err)
{
    const struct record *r = p ? map_get(&rt->admission.records, str_c(p->ns)) : NULL;
    const char *why = NULL;
    admission_expire(rt);
    if (!r || !r->granted)
        why = r && r->highest_revision && !r->revoked ? "The sandbox admission grant has expired"
                                                      : "There is no sandbox admission grant";
    else if (r->generation != generation)
        why = "The sandbox admission grant is of another execution generation";
    else if (r->max_sessions <= 0)
        why = "The sandbox admission grant allows no session";
    else if (r->max_sessions > rt->conf->policy.max_sessions ||
             r->max_managed_processes > rt->conf->policy.max_managed_processes)
        why = "The sandbox admission grant exceeds the policy";
    if (why)
        refuse(err, why);
    return why ? NULL : r;
}

/* The one directory of a workspace, made if it is missing; links on the way are refused. */
const char *admission_directory(struct runtime *rt, struct arena *a, const struct act *act,
                                struct error *err)
{
    auto_mem char *where = mem_alloc(BOX_PATH_MAX + 1);
    struct conf *c = conf_ref(rt->conf);
    const char *path = z_fmt(a, "%s/tenants/%s", c->workspace ? c->workspace : "", act->place->ns);
    int fd = where && c->workspace ? mount_open(c, path, true, "host_path", where, err) : -1;
    if (fd < 0 && (!where || !c->workspace))
        refuse(err, "There is no default workspace for managed sandboxes");
    bool straight = fd >= 0 && strcmp(where, path) == 0;
    if (fd >= 0) {
        close(fd);
        if (!straight)
            refuse(err, "The workspace directory must not be reached by way of a link");
    }
    conf_unref(c);
    return straight ? path : NULL;
}

/* Read-only mounts that the core adds; everything else is refused. */
static bool trusted_mounts(const struct spec *s, struct error *err)
{
    for (size_t i = 0; i < s->extra_count; i++) {
        const struct spec_mount *m = &s->extra[i];
        if (m->mode != BOX_MOUNT_RO || !path_within(m->mount_path, SPEC_MOUNT_PATH) ||
            strcmp(m->mount_path, SPEC_MOUNT_PATH) == 0)
            return refuse(err, "extra_mounts must be read-only and below /workspace");
    }
    return true;
}

bool admission_normalise(struct runtime *rt, struct arena *a, const struct act *act, struct spec *s,
                         struct error *err)
{
    const struct box_policy *p = &rt->conf->policy;
    if (s->network)
        return refuse(err, "network must be off in managed sandboxes");
    if (strcmp(s->mount_path, SPEC_MOUNT_PATH) != 0)
        return refuse(err, "mount_path must be /workspace in managed sandboxes");
    if (!path_within(s->workdir, SPEC_MOUNT_PATH))
        return refuse(err, "workdir must lie below /workspace in managed sandboxes");
    if (!trusted_mounts(s, err))
        return false;
    const char *directory = admission_directory(rt, a, act, err);
    if (!directory)
        return false;
    if (s->host_path && strcmp(path_normal(a, str_c(s->host_path)), directory) != 0)
        return refuse(err, "host_path must be the workspace's own directory");
    s->session_id = S("global");
    s->image = BOX_DEFAULT_IMAGE;
    s->host_path = directory;
    s->host_path_mode = BOX_MOUNT_RW;
    s->persistent = true;
    s->timeout_sec = s->timeout_sec < p->max_timeout_sec ? s->timeout_sec : p->max_timeout_sec;
    s->cpus = p->cpus;
    s->memory_mb = p->memory_mb;
    s->pids_limit = p->pids_limit;
    s->read_only_rootfs = p->read_only_rootfs;
    s->workspace_quota_mb = p->workspace_quota_mb;
    return true;
}
