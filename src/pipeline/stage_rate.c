/* RequireRateLimitOccupancy / ReleaseRateLimitOccupancy: fixed windows for each conversation. pipeline.md §7.6. */
#include "pipeline/engine.h"

enum { CONTAINERS_MAX = 10000, CLEAN_EVERY_US = 60000000, PROBES = 64, WINDOW_MAX_S = 366 * 86400 };

struct container {
    struct list lru;
    char *key;
    int64_t window, count; /* start of the window in seconds; passed in it */
    int64_t used_us, length_s;
    struct task_mutex
        lock; /* held over the sleep of strategy `wait`, so that waiters come one after the other */
    int users;
};

struct rate_table {
    struct map map;
    struct list lru;
    int64_t cleaned_us;
};

static void container_free(struct rate_table *t, struct container *c)
{
    map_del(&t->map, str_c(c->key));
    list_del(&c->lru);
    mem_free(c->key);
    mem_free(c);
}

static void clean(struct rate_table *t, int64_t now_us)
{
    if (now_us - t->cleaned_us < CLEAN_EVERY_US)
        return;
    t->cleaned_us = now_us;
    list_each(it, &t->lru)
    {
        struct container *c = container_of(it, struct container, lru);
        int64_t ttl = 2 * c->length_s > 300 ? 2 * c->length_s : 300;
        if (now_us - c->used_us < ttl * 1000000)
            return;
        if (c->users == 0)
            container_free(t, c);
    }
}

/* Makes room; false when the oldest ones are all in use. */
static bool evict(struct rate_table *t)
{
    for (int i = 0; i < PROBES && !list_empty(&t->lru); i++) {
        struct container *c = container_of(t->lru.next, struct container, lru);
        if (c->users == 0) {
            container_free(t, c);
            return true;
        }
        list_del(&c->lru);
        list_push(&t->lru, &c->lru);
    }
    return false;
}

static struct container *container_get(struct engine *e, const struct query *q, int64_t length_s)
{
    struct rate_table *t = e->rates;
    if (!t) {
        t = e->rates = new (struct rate_table);
        if (!t)
            return NULL;
        list_init(&t->lru);
    }
    int64_t now = time_mono_us();
    clean(t, now);
    auto_buf key = BUF(4096);
    buf_fmt(&key, "%s:%lld:%s:%s:%s:%s", q->scope.workspace, (long long)q->scope.generation,
            q->bot_uuid, q->pipeline_uuid, launcher_name(q->event.launcher), q->launcher_id);
    struct container *c = map_get(&t->map, buf_view(&key));
    if (!c) {
        if (t->map.n >= CONTAINERS_MAX && !evict(t))
            return NULL;
        c = new (struct container);
        if (c)
            c->key = mem_strndup(key.p, key.n);
        if (!c || !c->key || !map_put(&t->map, buf_view(&key), c)) {
            if (c)
                mem_free(c->key);
            mem_free(c);
            return NULL;
        }
        list_push(&t->lru, &c->lru);
    }
    c->used_us = now;
    c->length_s = length_s;
    list_del(&c->lru);
    list_push(&t->lru, &c->lru);
    return c;
}

enum pass { PASS, DENY, BROKEN };

/* With the container locked. */
static enum pass try_pass(struct container *c, int64_t length, int64_t limit, bool wait,
                          struct error *err)
{
    int64_t now = time_wall_us() / 1000000, start = now - now % length;
    if (c->window != start) {
        c->window = start;
        c->count = 0;
    }
    if (c->count < limit) {
        c->count++;
        return PASS;
    }
    if (!wait)
        return DENY;
    int64_t until_us = (start + length) * 1000000 - time_wall_us();
    if (!task_sleep_ms(until_us / 1000 + 1, err))
        return BROKEN;
    now = time_wall_us() / 1000000;
    c->window = now - now % length;
    c->count = 1;
    return PASS;
}

static bool require(struct run *r, struct stage_result *out, struct error *err)
{
    int64_t length = conf_bounded(conf_int(r->pipe->config, "safety.rate-limit.window-length", 60),
                                  1, WINDOW_MAX_S);
    int64_t limit = conf_int(r->pipe->config, "safety.rate-limit.limitation", 60);
    bool wait =
        strcmp(conf_str(r->pipe->config, "safety.rate-limit.strategy", "drop"), "wait") == 0;
    struct container *c = container_get(r->engine, r->query, length);
    enum pass p = DENY;
    if (c) {
        c->users++;
        /* A waiter sleeps inside: the others must not slip past it. */
        bool locked = task_lock(&c->lock, err);
        p = locked ? try_pass(c, length, limit, wait, err) : BROKEN;
        if (locked)
            task_unlock(&c->lock);
        c->users--;
    }
    if (p == BROKEN)
        return false;
    if (p == DENY) {
        out->verdict = STAGE_INTERRUPT;
        out->user_notice =
            arena_json(r->query->arena, json_string("请求数超过限速器设定值，已丢弃本消息。"));
        out->console_notice = "message dropped by the rate limit (safety.rate-limit)";
    }
    return true;
}

static bool release(struct run *r, struct stage_result *out, struct error *err)
{
    (void)r;
    (void)out;
    (void)err;
    return true; /* fixed windows hold nothing that could be given back */
}

void rates_free(struct engine *e)
{
    if (!e->rates)
        return;
    list_each(it, &e->rates->lru) container_free(e->rates, container_of(it, struct container, lru));
    map_free(&e->rates->map);
    mem_free(e->rates);
    e->rates = NULL;
}

const struct stage stage_rate_require = {.name = "RequireRateLimitOccupancy", .process = require};
const struct stage stage_rate_release = {.name = "ReleaseRateLimitOccupancy", .process = release};
