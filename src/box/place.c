/* place: workspaces, their names inside, and the fence between their generations (box.md §2.8, §2.9). */
#include "box/runtime.h"

#include <stdio.h>

enum { SAFE_MAX = 100, HASH_HEX = 16 };

void place_namespace(const char *instance, const char *workspace, char out[NS_SIZE])
{
    auto_buf text = BUF(64 << 10);
    char hex[65];
    buf_z(&text, instance);
    buf_c(&text, '\0');
    buf_z(&text, workspace);
    sha256_hex(buf_view(&text), hex);
    snprintf(out, NS_SIZE, "ws-%.24s", hex);
}

struct place *place_of(struct runtime *rt, const char *workspace, bool create, struct error *err)
{
    char ns[NS_SIZE];
    place_namespace(rt->trusted ? rt->trusted : "", workspace, ns);
    struct place *p = map_get(&rt->places, str_c(ns));
    if (p || !create)
        return p;
    if ((int64_t)rt->places.n >= rt->fence_max) {
        err_tag(err, ERR_DENIED, 0, "PermissionError", "Box placement fence capacity reached");
        return NULL;
    }
    p = new (struct place);
    if (!p || !map_put(&rt->places, str_c(ns), p)) {
        mem_free(p);
        err_set(err, ERR_NOMEM, "out of memory for a workspace");
        return NULL;
    }
    snprintf(p->ns, sizeof(p->ns), "%s", ns);
    list_init(&p->sessions);
    list_init(&p->closing);
    list_init(&p->acts);
    return p;
}

/* ---- ids --------------------------------------------------------------------------------------- */

static bool safe(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_.-", c));
}

/* What a hashed id ends with; a plain one that ends so is hashed too, so that the two never meet. */
static bool looks_hashed(const char *s, size_t n)
{
    if (n < HASH_HEX + 2 || memcmp(s + n - HASH_HEX - 2, "-h", 2) != 0)
        return false;
    for (size_t i = n - HASH_HEX; i < n; i++)
        if (!strchr("0123456789abcdef", s[i]))
            return false;
    return true;
}

const char *physical_id(struct arena *a, const char *ns, int64_t generation, struct str logical)
{
    char name[SAFE_MAX + 1], hex[65];
    size_t n = 0;
    bool gap = false, exact = logical.n <= SAFE_MAX;
    for (size_t i = 0; i < logical.n && n < SAFE_MAX; i++) {
        bool good = safe(logical.p[i]);
        exact = exact && good;
        if (good)
            name[n++] = logical.p[i];
        else if (!gap)
            name[n++] = '-';
        gap = !good;
    }
    size_t from = 0;
    while (n > from && name[n - 1] == '-')
        n--;
    while (from < n && name[from] == '-')
        from++;
    exact = exact && from == 0 && n == logical.n && !looks_hashed(name, n);
    if (exact)
        return z_fmt(a, "%s-g%lld-%.*s", ns, (long long)generation, (int)n, name);
    sha256_hex(logical, hex);
    return z_fmt(a, "%s-g%lld-%.*s-h%.*s", ns, (long long)generation, (int)(n - from), name + from,
                 HASH_HEX, hex);
}

bool physical_is_of(struct str id, const char *ns, int64_t generation)
{
    char prefix[NS_SIZE + 24];
    snprintf(prefix, sizeof(prefix), "%s-g%lld-", ns, (long long)generation);
    return str_starts(id, str_c(prefix)) && id.n > strlen(prefix);
}

/* ---- the fence --------------------------------------------------------------------------------- */

bool place_stale(struct error *err)
{
    return err_tag(err, ERR_DENIED, 0, "PermissionError", "Stale Box placement generation");
}

bool place_wait_closing(struct runtime *rt, struct place *p, struct error *err)
{
    while (!list_empty(&p->closing)) {
        struct session *old = container_of(p->closing.next, struct session, in_place);
        old->refs++;
        bool ok = box_session_wait_closed(old, err);
        box_session_unref(rt, old);
        if (!ok)
            return false;
    }
    return true;
}

/* Closes the sessions of older generations and waits for their end. */
static bool retire(struct runtime *rt, struct place *p, struct error *err)
{
    list_each(node, &p->sessions)
    {
        struct session *s = container_of(node, struct session, in_place);
        if (s->generation < p->generation)
            box_session_close(rt, s);
    }
    return place_wait_closing(rt, p, err);
}

bool place_advance(struct runtime *rt, struct place *p, int64_t generation, struct error *err)
{
    if (generation < p->generation)
        return place_stale(err);
    if (generation == p->generation)
        return true;
    p->generation = generation;
    list_each(node, &p->acts)
    {
        struct act *act = container_of(node, struct act, in_place);
        struct error why;
        place_stale(&why);
        if (act->generation < generation && act->request)
            rpc_abort(act->request, &why);
    }
    return retire(rt, p, err);
}

bool place_enter(struct act *act, struct error *err)
{
    /* Listed before the wait: a newer generation must find it. */
    if (act->generation < act->place->generation)
        return place_stale(err);
    list_push(&act->place->acts, &act->in_place);
    return place_advance(act->rt, act->place, act->generation, err);
}

void place_leave(struct act *act)
{
    list_del(&act->in_place);
    list_del(&act->in_session);
}

bool place_current(const struct act *act, struct error *err)
{
    return act->generation == act->place->generation || place_stale(err);
}
