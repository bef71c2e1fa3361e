/* fence: which generation of which workspace may run (tenancy.md §7). Touched on the loop thread only. */
#include "tenant/tenant.h"

#define WORKSPACES_MAX 20000 /* four times what a directory may hold: retired ones stay known */

struct entry {
    int64_t generation;
    bool active;
};

struct fence {
    char instance[256];
    struct map entries; /* workspace uuid -> struct entry */
    uint64_t changes;
};

struct fence *fence_new(const char *instance)
{
    size_t n = strlen(instance);
    struct fence *f = n && n < sizeof(f->instance) ? new (struct fence) : NULL;
    if (f) {
        memcpy(f->instance, instance, n);
        f->entries.max = WORKSPACES_MAX;
    }
    return f;
}

void fence_free(struct fence *f)
{
    size_t pos = 0;
    struct str key;
    void *value;
    if (!f) {
        return;
    }
    while (map_next(&f->entries, &pos, &key, &value)) {
        mem_free(value);
    }
    map_free(&f->entries);
    mem_free(f);
}

bool fence_set(struct fence *f, const char *workspace, int64_t generation, bool active,
               struct error *err)
{
    struct str key = str_c(workspace);
    if (!uuid_is_canonical(key) || generation < 1) {
        return err_set(err, ERR_INVALID, "not a workspace binding");
    }
    struct entry *e = map_get(&f->entries, key);
    if (e && generation < e->generation) {
        /* Late news about an old placement must not bring it back to life. */
        return err_set(err, ERR_CONFLICT, "the generation of workspace %s went back", workspace);
    }
    if (!e) {
        e = new (struct entry);
        if (!e || !map_put(&f->entries, key, e)) {
            mem_free(e);
            return f->entries.n >= WORKSPACES_MAX
                       ? err_set(err, ERR_CAPACITY, "more than %d workspaces", WORKSPACES_MAX)
                       : err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    *e = (struct entry){generation, active};
    f->changes++;
    return true;
}

uint64_t fence_changes(const struct fence *f)
{
    return f->changes;
}

static bool unavailable(struct error *err, const char *why)
{
    return err_set(err, ERR_UNAVAILABLE, "Workspace execution is unavailable: %s", why);
}

bool fence_check(const struct fence *f, const struct scope *s, struct error *err)
{
    const struct entry *e = map_get(&f->entries, str_c(s->workspace));
    if (strcmp(s->instance, f->instance) != 0 || !e) {
        return unavailable(err, "it is not placed here");
    }
    if (!e->active) {
        return unavailable(err, "it is not active");
    }
    return e->generation == s->generation || unavailable(err, "its generation has changed");
}

static void fill(const struct fence *f, struct str workspace, const struct entry *e,
                 struct scope *out)
{
    *out = (struct scope){.generation = e->generation};
    memcpy(out->instance, f->instance, sizeof(out->instance));
    memcpy(out->workspace, workspace.p, workspace.n < UUID_SIZE ? workspace.n : UUID_SIZE - 1);
}

bool fence_scope(const struct fence *f, const char *workspace, struct scope *out, struct error *err)
{
    const struct entry *e = map_get(&f->entries, str_c(workspace));
    if (!e) {
        return unavailable(err, "it is not placed here");
    }
    if (!e->active) {
        return unavailable(err, "it is not active");
    }
    fill(f, str_c(workspace), e, out);
    return true;
}

bool fence_next(const struct fence *f, size_t *pos, struct scope *out)
{
    struct str key;
    void *value;
    while (map_next(&f->entries, pos, &key, &value)) {
        const struct entry *e = value;
        if (e->active) {
            fill(f, key, e, out);
            return true;
        }
    }
    return false;
}

bool fence_singleton(const struct fence *f, struct scope *out, struct error *err)
{
    struct scope other;
    size_t pos = 0;
    if (!fence_next(f, &pos, out)) {
        return err_set(err, ERR_NOT_FOUND, "there is no workspace yet");
    }
    /* Never a first of several (tenancy.md §1, invariant 4). */
    return !fence_next(f, &pos, &other) ||
           err_set(err, ERR_INTERNAL, "more than one local workspace");
}
