/* Outbound message webhooks of a workspace. pipeline.md §4.3. */
#include "pipeline/engine.h"

enum { WEBHOOK_TIMEOUT_MS = 15000, ANSWER_MAX = 1 << 20 };

/* Enabled webhooks of a workspace, as long as their table does not change. */
struct hooks {
    uint64_t version;
    json_t *rows;
};

struct webhook_cache {
    struct map map; /* workspace → struct hooks */
    int64_t in_flight;
};

struct push {
    struct webhook_cache *cache;
    const char *url;
    struct str body;
    bool skip;
};

static json_t *hooks_of(struct engine *e, const struct scope *s)
{
    struct webhook_cache *c = e->webhooks;
    if (!c)
        c = e->webhooks = new (struct webhook_cache);
    if (!c)
        return NULL;
    uint64_t version = db_version_of(e->store->db, GROUP_OTHER);
    struct hooks *h = map_get(&c->map, str_c(s->workspace));
    if (h && h->version == version && db_cacheable(e->store->db))
        return json_incref(h->rows);
    struct store_eq on = {"enabled", DB_V_B(true)};
    struct error err = {0};
    json_t *rows = store_do_list(e->store, &table_webhooks, s, &on, 1, "id", 64, 0, true, &err);
    if (!rows) {
        log_warn("webhook", "the webhooks could not be read: %s", err.msg);
        return NULL;
    }
    h = map_get(&c->map, str_c(s->workspace));
    if (!h) {
        h = new (struct hooks);
        if (!h || !map_put(&c->map, str_c(s->workspace), h)) {
            mem_free(h);
            return rows;
        }
    }
    json_decref(h->rows);
    *h = (struct hooks){.version = version, .rows = json_incref(rows)};
    return rows;
}

static json_t *body_of(struct bot *b, const struct chat_event *ev)
{
    char id[UUID_SIZE];
    uuid4(id);
    bool group = ev->launcher == LAUNCHER_GROUP;
    json_t *data = json_pack("{s:s,s:s,s:{s:s,s:s},s:O,s:f}", "bot_uuid", bot_uuid(b),
                             "adapter_name", bot_adapter(b)->class_name, "sender", "id",
                             ev->sender_id, "name", ev->sender_name ? ev->sender_name : "",
                             "message", ev->chain, "timestamp", ev->time);
    if (data && group)
        json_set(data, "group",
                 json_pack("{s:s,s:s}", "id", ev->group_id, "name",
                           ev->group_name ? ev->group_name : ""));
    return json_pack("{s:s,s:s,s:o}", "uuid", id, "event_type",
                     group ? "bot.group_message" : "bot.person_message", "data", data);
}

static void push_one(void *arg)
{
    struct push *p = arg;
    auto_arena a = arena_new(4 << 20);
    static const struct http_header json_type = {{"Content-Type", 12}, {"application/json", 16}};
    struct http_call call = {.method = "POST",
                             .url = p->url,
                             .headers = &json_type,
                             .header_count = 1,
                             .body = p->body,
                             .total_ms = WEBHOOK_TIMEOUT_MS,
                             .body_max = ANSWER_MAX,
                             .flags = HTTP_CALL_TENANT};
    struct http_result res;
    struct error err = {0};
    if (a && http_fetch(a, &call, &res, &err)) {
        auto_json j = res.status < 400 ? json_parse(res.body, &err) : NULL;
        p->skip = json_is_true(json_object_get(j, "skip_pipeline"));
        if (res.status >= 400)
            log_warn("webhook", "a webhook answered %d", res.status);
    } else {
        log_warn("webhook", "a webhook could not be reached: %s", err.msg);
    }
    p->cache->in_flight--;
}

bool webhooks_push(struct engine *e, struct bot *b, const struct chat_event *ev)
{
    auto_json rows = hooks_of(e, bot_scope(b));
    size_t n = json_array_size(rows);
    if (n == 0)
        return false;
    int64_t most = config_int_in(e->config, "webhooks.max_inflight_requests", 1, 128);
    auto_json body = body_of(b, ev);
    auto_buf text = BUF(64u << 20);
    auto_arena a = arena_new(1 << 20);
    struct task_group *g = task_group_new(task_own_group(), "webhooks");
    struct push *pushes = a ? arena_alloc(a, n * sizeof *pushes) : NULL;
    if (!body || !json_put(&text, body) || !g || !pushes) {
        task_group_free(g);
        return false;
    }
    struct error err = {0};
    size_t started = 0;
    for (size_t i = 0; i < n; i++) {
        if (e->webhooks->in_flight >= most) {
            log_warn("webhook", "%zu webhooks were skipped: webhooks.max_inflight_requests reached",
                     n - i);
            break;
        }
        pushes[started] = (struct push){.cache = e->webhooks,
                                        .url = json_z_or(json_array_get(rows, i), "url", ""),
                                        .body = buf_view(&text)};
        e->webhooks->in_flight++;
        if (task_spawn(g, "webhook", push_one, &pushes[started], &err))
            started++;
        else
            e->webhooks->in_flight--;
    }
    bool waited = task_group_wait(g, &err);
    task_group_free(g);
    bool skip = false;
    for (size_t i = 0; waited && i < started; i++)
        skip = skip || pushes[i].skip;
    return skip;
}

void webhooks_free(struct engine *e)
{
    if (!e->webhooks)
        return;
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&e->webhooks->map, &pos, &key, &v)) {
        struct hooks *h = v;
        json_decref(h->rows);
        mem_free(h);
    }
    map_free(&e->webhooks->map);
    mem_free(e->webhooks);
    e->webhooks = NULL;
}
