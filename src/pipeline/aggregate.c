/* The aggregator: messages of one conversation that come close together become one turn. pipeline.md §4.4. */
#include "pipeline/engine.h"

enum { GATHERED_MAX = 10 };

struct buffer {
    struct engine *engine;
    struct list items; /* of struct pending */
    size_t n;
    struct task_timer timer;
    char *key;
};

static bool key_of(const struct pending *p, struct buf *out)
{
    return buf_fmt(out, "%s|%lld|%s|%s|%s_%s", p->scope.workspace, (long long)p->scope.generation,
                   p->bot, p->pipeline, launcher_name(p->launcher), p->launcher_id);
}

/* All into the first: components in order with a line break between messages; ids of all; routed if any was. */
static bool merge_into(struct pending *first, struct pending *p)
{
    auto_json chain = json_copy(json_object_get(first->event, "message_chain"));
    auto_json ids = json_copy(first->ids);
    /* All or nothing: a message that is half in would be answered twice. */
    if (!chain || !ids || json_array_append_new(chain, comp_plain(S("\n"))) != 0 ||
        json_array_extend(chain, json_object_get(p->event, "message_chain")) != 0 ||
        json_array_extend(ids, p->ids) != 0 ||
        json_object_set(first->event, "message_chain", chain) != 0)
        return false;
    json_decref(first->ids);
    first->ids = steal(ids);
    return true;
}

static void flush(struct buffer *b)
{
    struct engine *e = b->engine;
    task_timer_stop(&b->timer);
    map_del(&e->buffers, str_c(b->key));
    struct list *node = list_pop(&b->items);
    struct pending *first = node ? container_of(node, struct pending, node) : NULL;
    while ((node = list_pop(&b->items))) {
        struct pending *p = container_of(node, struct pending, node);
        if (merge_into(first, p)) {
            first->routed = first->routed || p->routed;
            first->ephemeral =
                first->ephemeral && p->ephemeral; /* one that was promised makes the turn so */
            admit_end(e, &p->scope);
            pending_free(p);
        } else {
            schedule_put(e, p); /* memory ends: a turn of its own rather than none */
        }
    }
    if (first)
        schedule_put(e, first);
    mem_free(b->key);
    mem_free(b);
}

static void on_timer(void *arg)
{
    flush(arg);
}

static struct buffer *buffer_new(struct engine *e, struct str key)
{
    struct buffer *b = new (struct buffer);
    if (!b)
        return NULL;
    b->engine = e;
    list_init(&b->items);
    b->key = mem_strndup(key.p, key.n);
    if (!b->key || !map_put(&e->buffers, key, b)) {
        mem_free(b->key);
        mem_free(b);
        return NULL;
    }
    return b;
}

void aggregate_put(struct engine *e, struct pending *p, const struct pipe *pipe)
{
    auto_buf key = BUF(4096);
    if (!pipe || !pipe->aggregate || e->stopping || !key_of(p, &key)) {
        schedule_put(e, p);
        return;
    }
    struct buffer *b = map_get(&e->buffers, buf_view(&key));
    if (!b && (int64_t)e->buffers.n < e->max_queries)
        b = buffer_new(e, buf_view(&key));
    if (!b) {
        schedule_put(e, p);
        return;
    }
    list_push(&b->items, &p->node);
    if (++b->n >= GATHERED_MAX)
        flush(b);
    else
        task_timer_start(&b->timer, pipe->aggregate_ms, on_timer, b);
}

void aggregate_flush_all(struct engine *e)
{
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&e->buffers, &pos, &key, &v))
        flush(v);
    map_free(&e->buffers);
}
