/* Monitoring records gather for a moment and are written many at a time; an update of a record that still waits is merged into it.
 * Where messages wait for the database meanwhile a batch is cut into slices, a transaction each, so that none waits for long.
 * Readers flush first, so nobody sees the delay. pipeline.md §11. */
#include "pipeline/engine.h"

enum {
    RECORD_DELAY_MS = 200,
    RECORDS_PER_TX = 512,
    RECORDS_MAX = 20000,
    SLICE_LEAST = 64, /* records of a slice, about 2 ms; fewer would write pages more often … */
    SLICE_SHARE = 32, /* … and more when many wait, so that writing keeps up with what comes */
    KINDS_MAX = 8,
};

struct record {
    struct list node;
    struct scope scope;
    const char *kind; /* a literal */
    json_t *row;
    char *index_key; /* in engine.record_index, or NULL */
};

struct batch {
    struct engine *engine;
    struct scope scope;
    struct list items, written; /* `written`: by the transaction under way */
    size_t n;                   /* of both */
    size_t least;               /* of a slice */
};

static void record_free(struct record *r)
{
    json_decref(r->row);
    mem_free(r->index_key);
    mem_free(r);
}

/* Key under which a later record may find this one while it waits. */
static char *index_key(const struct scope *s, const char *kind, const json_t *row)
{
    auto_buf b = BUF(4096);
    if (strcmp(kind, "message") == 0)
        buf_fmt(&b, "m|%s|%s", s->workspace, json_z_or(row, "id", ""));
    else if (strcmp(kind, "session") == 0)
        buf_fmt(&b, "s|%s|%s|%s", s->workspace, json_z_or(row, "bot_id", ""),
                json_z_or(row, "session_id", ""));
    else
        return NULL;
    return b.failed ? NULL : mem_strndup(b.p, b.n);
}

/* True if the row was merged into one that waits. */
static bool merge(struct engine *e, const struct scope *s, const char *kind, const json_t *row)
{
    const char *as = strcmp(kind, "message_update") == 0 ? "message" : kind;
    char *key = index_key(s, as, row);
    struct record *old = key ? map_get(&e->record_index, str_c(key)) : NULL;
    mem_free(key);
    if (!old)
        return false;
    if (strcmp(kind, "message_update") == 0)
        return json_object_update(old->row, (json_t *)(uintptr_t)row) == 0;
    if (strcmp(kind, "session") == 0) {
        int64_t n = json_i_or(old->row, "message_count", 1) + json_i_or(row, "message_count", 1);
        json_t *first = json_incref(json_object_get(old->row, "start_time"));
        return json_object_update(old->row, (json_t *)(uintptr_t)row) == 0 &&
               json_set(old->row, "message_count", json_integer(n)) &&
               json_set(old->row, "start_time", first);
    }
    return false;
}

static bool write_batch(struct db_tx *tx, void *arg, struct error *err)
{
    struct batch *b = arg;
    size_t n = 0;
    struct list *node;
    while ((n < b->least || !db_tx_wanted(tx)) && (node = list_pop(&b->items))) {
        struct record *r = container_of(node, struct record, node);
        list_push(&b->written, node);
        n++;
        if (!monitor_write(tx, &b->scope, r->kind, r->row, err))
            return false;
    }
    return true;
}

static void records_end(struct list *records)
{
    struct list *node;
    while ((node = list_pop(records)))
        record_free(container_of(node, struct record, node));
}

static void batch_free(struct batch *b)
{
    records_end(&b->written);
    records_end(&b->items);
    mem_free(b);
}

static void start_write(struct engine *e);

static void on_timer(void *arg)
{
    start_write(arg);
}

static void on_written(void *arg, bool ok, const struct error *err);

static void submit(struct batch *b)
{
    struct engine *e = b->engine;
    struct error err = {0};
    b->least = SLICE_LEAST + (b->n + e->record_count) / SLICE_SHARE;
    e->record_writing = true;
    if (db_write_async(e->store->db, scope_db(&b->scope), write_batch, b, on_written, &err))
        return;
    e->record_writing = false;
    log_error("monitor", "%zu monitoring records were not written: %s", b->n, err.msg);
    batch_free(b);
    if (!list_empty(&e->records))
        task_timer_start(&e->record_timer, RECORD_DELAY_MS, on_timer, e);
}

static void put_back(struct batch *b)
{
    struct engine *e = b->engine;
    struct list *parts[] = {&b->items, &b->written};
    for (size_t i = 0; i < array_len(parts); i++) {
        while (!list_empty(parts[i])) {
            struct list *node = parts[i]->prev;
            list_del(node);
            list_push_front(&e->records, node);
            e->record_count++;
        }
    }
}

static void on_written(void *arg, bool ok, const struct error *err)
{
    struct batch *b = arg;
    struct engine *e = b->engine;
    bool later = !ok && db_is_trouble(err) && db_fails(e->store->db);
    while (ok && !list_empty(&b->written)) {
        record_free(container_of(list_pop(&b->written), struct record, node));
        b->n--;
    }
    if (ok && b->n > 0) {
        submit(b);
    } else {
        e->record_writing = false;
        if (later || (!ok && b->n > 1)) {
            /* A database that fails is waited for. One bad record must not take the others with it: each of them again on its own. */
            e->record_alone = later ? 0 : b->n;
            put_back(b);
        } else if (!ok) {
            log_error("monitor", "a monitoring record was not written: %s", err->msg);
        }
        batch_free(b);
        if (!later && (e->record_alone || e->record_count >= RECORDS_PER_TX))
            start_write(e);
        else if (!later && !list_empty(&e->records))
            task_timer_start(&e->record_timer, RECORD_DELAY_MS, on_timer, e);
    }
    task_cond_notify_all(&e->record_cond);
}

/* Into a batch, behind the last one of its table, so that a slice changes the pages of few tables. Updates of messages stay behind what
 * they change. */
struct kinds {
    const char *name[KINDS_MAX];
    struct list *last[KINDS_MAX];
    size_t n;
};

static void insert_by_kind(struct kinds *k, struct batch *b, struct record *r)
{
    size_t i = 0;
    while (i < k->n && strncmp(k->name[i], r->kind, 7) != 0)
        i++;
    if (i == KINDS_MAX) {
        list_push(&b->items, &r->node);
        return;
    }
    if (i == k->n) {
        k->name[k->n] = r->kind;
        k->last[k->n++] = b->items.prev;
    }
    list_push_front(k->last[i], &r->node);
    k->last[i] = &r->node;
}

/* Takes the waiting records of one workspace into a batch and writes it. */
static void start_write(struct engine *e)
{
    if (e->record_writing || list_empty(&e->records) || db_fails(e->store->db))
        return;
    struct batch *b = new (struct batch);
    if (!b) {
        task_timer_start(&e->record_timer, RECORD_DELAY_MS, on_timer, e);
        return;
    }
    size_t most = RECORDS_PER_TX;
    if (e->record_alone) {
        e->record_alone--;
        most = 1;
    }
    struct kinds kinds = {.n = 0};
    b->engine = e;
    list_init(&b->items);
    list_init(&b->written);
    b->scope = container_of(e->records.next, struct record, node)->scope;
    list_each(it, &e->records)
    {
        struct record *r = container_of(it, struct record, node);
        if (b->n >= most)
            break;
        if (!scope_eq(&r->scope, &b->scope))
            continue;
        list_del(&r->node);
        if (r->index_key)
            map_del(&e->record_index, str_c(r->index_key));
        insert_by_kind(&kinds, b, r);
        b->n++;
        e->record_count--;
    }
    submit(b);
}

void record_put(struct engine *e, const struct scope *s, const char *kind, json_t *row)
{
    if (!row)
        return;
    if (merge(e, s, kind, row)) {
        json_decref(row);
        return;
    }
    struct record *r = e->record_count < RECORDS_MAX ? new (struct record) : NULL;
    if (!r) {
        log_warn("monitor", "a monitoring record was dropped: too many wait to be written");
        json_decref(row);
        return;
    }
    *r = (struct record){
        .scope = *s, .kind = kind, .row = row, .index_key = index_key(s, kind, row)};
    if (r->index_key && !map_put(&e->record_index, str_c(r->index_key), r)) {
        mem_free(r->index_key);
        r->index_key = NULL;
    }
    list_push(&e->records, &r->node);
    if (++e->record_count >= RECORDS_PER_TX)
        start_write(e);
    else if (e->record_count == 1)
        task_timer_start(&e->record_timer, RECORD_DELAY_MS, on_timer, e);
}

void records_go_on(struct engine *e)
{
    start_write(e);
}

bool record_flush(struct engine *e, struct error *err)
{
    while (e->record_writing || !list_empty(&e->records)) {
        start_write(e);
        if (!e->record_writing)
            return db_fails(e->store->db)
                       ? err_set(err, ERR_UNAVAILABLE, "monitoring records wait for the database")
                       : err_set(err, ERR_NOMEM, "monitoring records could not be written");
        if (!task_cond_wait(&e->record_cond, err))
            return false;
    }
    return true;
}

void records_free(struct engine *e)
{
    task_timer_stop(&e->record_timer);
    struct list *node;
    while ((node = list_pop(&e->records)))
        record_free(container_of(node, struct record, node));
    map_free(&e->record_index);
}
