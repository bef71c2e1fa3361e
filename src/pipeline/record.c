/* Monitoring records gather for a moment and are written many at a time; an update of a record that still waits is made in it.
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
    json_t *row;      /* NULL: flat */
    enum mon_flat table;
    struct db_val *v;     /* of a flat one, their texts behind them */
    char *variables;      /* that came later */
    char *index_key;      /* in engine.record_index, or NULL */
    struct record **held; /* who may change it while it waits */
};

struct batch {
    struct engine *engine;
    struct scope scope;
    struct list items, written; /* `written`: by the transaction under way */
    size_t n;                   /* of both */
    size_t least;               /* of a slice */
};

void record_let_go(struct record **held)
{
    if (*held)
        (*held)->held = NULL;
    *held = NULL;
}

static void record_free(struct record *r)
{
    if (r->held)
        record_let_go(r->held);
    json_decref(r->row);
    mem_free(r->variables);
    mem_free(r->index_key);
    mem_free(r);
}

/* Behind the columns of the table, all of these are texts that a later message of the session may change. */
static bool same_session(const struct db_val *a, const struct db_val *b)
{
    static const int told[] = {3, 4, 5, 12}; /* names of bot and pipeline, pipeline, user's name */
    for (size_t i = 0; i < array_len(told); i++)
        if (!str_eq(a[told[i]].s, b[told[i]].s))
            return false;
    return true;
}

/* Counts a message of a session into its record that waits. */
static bool merge_session(struct record *old, const struct db_val *v)
{
    struct db_val *last = &old->v[MON_SESSION_LAST];
    if (!same_session(old->v, v) || last->s.n != v[MON_SESSION_LAST].s.n)
        return false;
    old->v[MON_SESSION_COUNT].i += v[MON_SESSION_COUNT].i;
    memcpy((char *)(uintptr_t)last->s.p, v[MON_SESSION_LAST].s.p, last->s.n);
    return true;
}

bool record_patch(struct record *r, const char *status, const char *level, struct str variables)
{
    char *copy = variables.p ? mem_strndup(variables.p, variables.n) : NULL;
    if (variables.p && !copy)
        return false;
    if (status)
        r->v[MON_MESSAGE_STATUS] = DB_V_Z(status);
    if (level)
        r->v[MON_MESSAGE_LEVEL] = DB_V_Z(level);
    if (copy) {
        mem_free(r->variables);
        r->variables = copy;
        r->v[MON_MESSAGE_VARIABLES] = DB_V_S(str_n(copy, variables.n));
    }
    return true;
}

/* The first of the rows that wait and those behind it of the same table, as many as a statement takes. */
static bool write_flat(struct db_tx *tx, struct batch *b, size_t *n, struct error *err)
{
    struct db_val v[MON_ROWS_MAX * MON_COLUMNS_MAX];
    enum mon_flat table = container_of(b->items.next, struct record, node)->table;
    size_t columns = monitor_columns(table), rows = 0;
    while (rows < MON_ROWS_MAX && !list_empty(&b->items)) {
        const struct record *r = container_of(b->items.next, struct record, node);
        if (!r->v || r->table != table)
            break;
        memcpy(v + rows++ * columns, r->v, columns * sizeof *v);
        list_push(&b->written, list_pop(&b->items));
    }
    *n += rows;
    return monitor_rows(tx, table, v, rows, err);
}

static bool write_json(struct db_tx *tx, struct batch *b, size_t *n, struct error *err)
{
    struct list *node = list_pop(&b->items);
    const struct record *r = container_of(node, struct record, node);
    list_push(&b->written, node);
    ++*n;
    if (strcmp(r->kind, RECORD_CUT) == 0)
        return session_cut_turns(tx, &b->scope, json_z_or(r->row, "id", ""),
                                 json_i_or(r->row, "keep", 0), err);
    return monitor_write(tx, &b->scope, r->kind, r->row, err);
}

static bool write_batch(struct db_tx *tx, void *arg, struct error *err)
{
    struct batch *b = arg;
    size_t n = 0;
    bool ok = true;
    while (!list_empty(&b->written)) { /* by a run that was taken back */
        struct list *node = b->written.prev;
        list_del(node);
        list_push_front(&b->items, node);
    }
    while (ok && (n < b->least || !db_tx_wanted(tx)) && !list_empty(&b->items)) {
        bool flat = container_of(b->items.next, struct record, node)->v != NULL;
        ok = flat ? write_flat(tx, b, &n, err) : write_json(tx, b, &n, err);
    }
    return ok;
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
    if (db_write_twice_async(e->store->db, scope_db(&b->scope), write_batch, b, on_written, &err))
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
        if (r->held)
            record_let_go(r->held);
        if (r->index_key && map_get(&e->record_index, str_c(r->index_key)) == r)
            map_del(&e->record_index, str_c(r->index_key));
        insert_by_kind(&kinds, b, r);
        b->n++;
        e->record_count--;
    }
    submit(b);
}

static void enqueue(struct engine *e, struct record *r)
{
    list_push(&e->records, &r->node);
    if (++e->record_count >= RECORDS_PER_TX)
        start_write(e);
    else if (e->record_count == 1)
        task_timer_start(&e->record_timer, RECORD_DELAY_MS, on_timer, e);
}

/* A record with `extra` bytes behind it. */
static struct record *record_new(struct engine *e, const struct scope *s, size_t extra)
{
    struct record *r =
        e->record_count < RECORDS_MAX ? mem_alloc(sizeof(struct record) + extra) : NULL;
    if (r)
        r->scope = *s;
    else
        log_warn("monitor", "a monitoring record was dropped: too many wait to be written");
    return r;
}

void record_put(struct engine *e, const struct scope *s, const char *kind, json_t *row)
{
    struct record *r = row ? record_new(e, s, 0) : NULL;
    if (!r) {
        json_decref(row);
        return;
    }
    r->kind = kind;
    r->row = row;
    enqueue(e, r);
}

/* From now on `r` is the record that later messages of its session are counted into. */
static void index_session(struct engine *e, struct record *r, struct str key)
{
    r->index_key = mem_strndup(key.p, key.n);
    if (r->index_key && !map_put(&e->record_index, key, r)) {
        mem_free(r->index_key);
        r->index_key = NULL;
    }
}

void record_flat(struct engine *e, const struct scope *s, enum mon_flat table,
                 const struct db_val *v, struct record **held)
{
    auto_buf key = BUF(8192);
    if (table == MON_SESSION &&
        buf_fmt(&key, "%s|" STR_FMT "|" STR_FMT, s->workspace, STR_ARG(v[1].s), STR_ARG(v[2].s))) {
        struct record *old = map_get(&e->record_index, buf_view(&key));
        if (old && merge_session(old, v))
            return;
    }
    size_t columns = monitor_columns(table), bytes = 0;
    for (size_t i = 0; i < columns; i++)
        bytes += v[i].type == DB_TEXT ? v[i].s.n : 0;
    struct record *r = record_new(e, s, columns * sizeof *v + bytes);
    if (!r)
        return;
    static const char *const names[] = {"message", "llm_call", "session"};
    r->kind = names[table];
    r->table = table;
    r->v = (struct db_val *)(r + 1);
    char *at = (char *)(r->v + columns);
    for (size_t i = 0; i < columns; i++) {
        r->v[i] = v[i];
        if (v[i].type != DB_TEXT)
            continue;
        memcpy(at, v[i].s.p ? v[i].s.p : "", v[i].s.n);
        r->v[i].s.p = at;
        at += v[i].s.n;
    }
    if (held) {
        record_let_go(held);
        *held = r;
        r->held = held;
    }
    if (key.n)
        index_session(e, r, buf_view(&key));
    enqueue(e, r);
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
