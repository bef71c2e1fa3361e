/* The scheduler: one lane for each session, slots of the session and of the instance, workspaces served in turn.
 * pipeline.md §4.7. Within a lane messages run in the order of their acceptance; a busy lane delays no other. */
#include "pipeline/engine.h"

enum { RETRY_MS = 100 };

struct lane {
    struct list node; /* in its tenant's ready list while it has work and a free session slot */
    struct list waiting;
    int64_t running;
    char *key;
    struct tenant *tenant;
    bool listed;
};

/* A workspace with runnable lanes; in engine.ready while it has some. */
struct tenant {
    struct list node;
    struct list lanes;
    char *workspace;
    size_t lane_count;
    bool listed;
};

struct started {
    struct engine *engine;
    struct lane *lane;
    struct pending *pending;
};

static struct map
    tenants_of; /* of the process: an engine is one to a process outside of unit tests */

static bool lane_key(const struct pending *p, struct buf *out)
{
    return buf_fmt(out, "%s|%lld|%s|%s_%s", p->scope.workspace, (long long)p->scope.generation,
                   p->bot, launcher_name(p->launcher), p->launcher_id);
}

static struct tenant *tenant_get(const char *workspace)
{
    struct tenant *t = map_get(&tenants_of, str_c(workspace));
    if (t)
        return t;
    t = new (struct tenant);
    if (!t)
        return NULL;
    list_init(&t->lanes);
    t->workspace = mem_strndup(workspace, strlen(workspace));
    if (!t->workspace || !map_put(&tenants_of, str_c(workspace), t)) {
        mem_free(t->workspace);
        mem_free(t);
        return NULL;
    }
    return t;
}

static void tenant_drop(struct tenant *t)
{
    if (t->lane_count)
        return;
    if (t->listed)
        list_del(&t->node);
    map_del(&tenants_of, str_c(t->workspace));
    mem_free(t->workspace);
    mem_free(t);
}

static struct lane *lane_get(struct engine *e, const struct pending *p)
{
    auto_buf key = BUF(4096);
    if (!lane_key(p, &key))
        return NULL;
    struct lane *l = map_get(&e->lanes, buf_view(&key));
    if (l)
        return l;
    struct tenant *t = tenant_get(p->scope.workspace);
    l = new (struct lane);
    if (!t || !l)
        goto fail;
    list_init(&l->waiting);
    l->tenant = t;
    l->key = mem_strndup(key.p, key.n);
    if (!l->key || !map_put(&e->lanes, buf_view(&key), l))
        goto fail;
    t->lane_count++;
    return l;
fail:
    if (l)
        mem_free(l->key);
    mem_free(l);
    if (t)
        tenant_drop(t);
    return NULL;
}

static void lane_drop(struct engine *e, struct lane *l)
{
    if (l->running || !list_empty(&l->waiting))
        return;
    if (l->listed)
        list_del(&l->node);
    map_del(&e->lanes, str_c(l->key));
    l->tenant->lane_count--;
    tenant_drop(l->tenant);
    mem_free(l->key);
    mem_free(l);
}

/* Puts the lane where the dispatcher finds it, if it can run something. */
static void lane_offer(struct engine *e, struct lane *l)
{
    if (l->listed || list_empty(&l->waiting) || l->running >= e->max_per_session)
        return;
    list_push(&l->tenant->lanes, &l->node);
    l->listed = true;
    if (!l->tenant->listed) {
        list_push(&e->ready, &l->tenant->node);
        l->tenant->listed = true;
    }
}

static void dispatch(struct engine *e);

static void on_retry(void *arg)
{
    dispatch(arg);
}

static void query_fiber(void *arg)
{
    struct started s = *(struct started *)arg;
    mem_free(arg);
    struct scope scope = s.pending->scope;
    run_pending(s.engine, s.pending);
    struct engine *e = s.engine;
    admit_end(e, &scope);
    e->running--;
    s.lane->running--;
    lane_offer(e, s.lane);
    lane_drop(e, s.lane);
    if (e->running == 0)
        task_cond_notify_all(&e->idle);
    dispatch(e);
}

static bool start_one(struct engine *e, struct lane *l)
{
    struct list *node = list_pop(&l->waiting);
    struct pending *p = container_of(node, struct pending, node);
    struct started *s = new (struct started);
    struct error err = {0};
    if (s) {
        *s = (struct started){.engine = e, .lane = l, .pending = p};
        l->running++;
        e->running++;
        if (task_spawn(e->runs, "query", query_fiber, s, &err))
            return true;
        l->running--;
        e->running--;
        mem_free(s);
    }
    list_push_front(&l->waiting, node);
    return false;
}

static void dispatch(struct engine *e)
{
    /* While the database fails no run could end: what it said would wait, what it asked of a model would be for nothing. */
    while ((int64_t)e->running < e->max_running && !e->stopping && !db_fails(e->store->db)) {
        struct list *tn = list_pop(&e->ready);
        if (!tn)
            return;
        struct tenant *t = container_of(tn, struct tenant, node);
        t->listed = false;
        struct list *ln = list_pop(&t->lanes);
        if (!ln)
            continue;
        struct lane *l = container_of(ln, struct lane, node);
        l->listed = false;
        bool ok = start_one(e, l);
        lane_offer(e, l);
        if (!list_empty(&t->lanes) && !t->listed) {
            list_push(&e->ready, &t->node); /* the next workspace comes first */
            t->listed = true;
        }
        if (!ok) { /* memory or fibers ran out */
            task_timer_start(&e->retry, RETRY_MS, on_retry, e);
            return;
        }
    }
}

void schedule_go_on(struct engine *e)
{
    dispatch(e);
}

void schedule_put(struct engine *e, struct pending *p)
{
    struct lane *l = lane_get(e, p);
    if (!l) {
        /* It stays in the ledger and is taken up at the next start. */
        log_error("engine", "no memory to schedule a message id=%s",
                  json_string_value(json_array_get(p->ids, 0)));
        admit_end(e, &p->scope);
        pending_free(p);
        return;
    }
    list_push(&l->waiting, &p->node);
    lane_offer(e, l);
    dispatch(e);
}

void schedule_free(struct engine *e)
{
    size_t pos = 0;
    struct str key;
    void *v;
    task_timer_stop(&e->retry);
    while (map_next(&e->lanes, &pos, &key, &v)) {
        struct lane *l = v;
        struct list *node;
        while ((node = list_pop(&l->waiting)))
            pending_free(container_of(node, struct pending, node));
        l->running = 0;
        lane_drop(e, l);
    }
    map_free(&e->lanes);
    map_free(&tenants_of);
}
