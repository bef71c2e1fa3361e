/* PostgreSQL behind db.h: the pool and the units of work. Everything runs in the calling fiber; only connecting, which
 * may look up a name, goes to a worker. */
#include "db/pg_private.h"

enum { ASYNC_BATCH = 64 }; /* asynchronous transactions of one scope that share a commit */

struct pg_job {
    struct list node;
    db_fn *fn;
    void *arg;
    void (*done)(void *arg, bool ok, const struct error *err);
    struct error err;
    struct db_scope scope;
    bool ok;
    char value[];
};

struct pg {
    struct pg_params params;
    int size, overflow, timeout_s, recycle_s;
    struct list idle;
    size_t nidle, open, waiting;
    struct task_sem room; /* size + overflow */
    char *system_scope;
    struct pg_conn *guard; /* holds the lock of db_hold; not of the pool */
    /* asynchronous writes, in order */
    struct list jobs;
    bool running;
    struct task_group *group;
    struct task_cond drained;
};

/* ---- scopes: tenancy.md §10 ---- */

bool pg_scope_setting(const struct db_tx *tx, const char **name, const char **value)
{
    static const char *const names[] = {
        [DB_SCOPE_WORKSPACE] = "langbot.workspace_uuid",
        [DB_SCOPE_ACCOUNT] = "langbot.account_uuid",
        [DB_SCOPE_API_KEY] = "langbot.api_key_hash",
        [DB_SCOPE_INVITATION] = "langbot.invitation_hash",
        [DB_SCOPE_INSTANCE] = "langbot.instance_uuid",
        [DB_SCOPE_IDENTITY] = "langbot.identity_digest",
        [DB_SCOPE_DIRECTORY] = "langbot.directory_instance_uuid",
    };
    if (tx->scope.kind == DB_SCOPE_NONE || tx->scope.kind == DB_SCOPE_SYSTEM) {
        *name = names[DB_SCOPE_WORKSPACE];
        *value = tx->db->pg->system_scope;
        return *value != NULL;
    }
    *name = names[tx->scope.kind];
    *value = tx->scope.value;
    return true;
}

bool db_default_scope(struct db *db, const char *workspace, struct error *err)
{
    if (db->kind != DB_POSTGRES) {
        return true;
    }
    char *copy = workspace ? mem_strndup(workspace, strlen(workspace)) : NULL;
    if (workspace && !copy) {
        return err_set(err, ERR_NOMEM, "no memory for the default scope");
    }
    mem_free(db->pg->system_scope);
    db->pg->system_scope = copy;
    return true;
}

/* ---- pool ---- */

struct connect_job {
    const struct pg_params *params;
    struct pg_conn *c;
    struct error err;
};

static void connect_work(void *arg)
{
    struct connect_job *j = arg;
    j->c = pg_conn_connect(j->params, &j->err);
}

static struct pg_conn *connect_new(struct pg *p, struct error *err)
{
    struct connect_job j = {.params = &p->params};
    if (!task_work(connect_work, &j, err)) {
        return NULL;
    }
    if (!j.c) {
        *err = j.err;
        return NULL;
    }
    p->open++;
    return j.c;
}

static void discard(struct pg *p, struct pg_conn *c)
{
    p->open--;
    pg_conn_close(c);
}

static struct pg_conn *pool_take(struct db *db, struct error *err)
{
    struct pg *p = db->pg;
    if (!task_sem_try(&p->room)) {
        struct task_deadline d;
        p->waiting++;
        task_deadline_push(&d, (int64_t)p->timeout_s * 1000);
        bool ok = task_sem_take(&p->room, err);
        task_deadline_pop(&d);
        p->waiting--;
        if (!ok) {
            if (err->code == ERR_TIMEOUT) {
                db->timeouts++;
                err_tag(err, ERR_UNAVAILABLE, 0, "database_busy",
                        "no database connection was free within %d s", p->timeout_s);
            }
            return NULL;
        }
    }
    struct pg_conn *c = NULL;
    for (struct list *n; !c && (n = p->idle.prev) && n != &p->idle;) { /* the one used last first */
        list_del(n);
        p->nidle--;
        c = container_of(n, struct pg_conn, node);
        bool old = time_mono_us() - c->created_us > (int64_t)p->recycle_s * 1000000;
        if (old || !pg_conn_alive(c)) {
            discard(p, c);
            c = NULL;
        }
    }
    if (!c && !(c = connect_new(p, err))) {
        task_sem_give(&p->room);
    }
    return c;
}

static void pool_put(struct db *db, struct pg_conn *c)
{
    struct pg *p = db->pg;
    if (c && (c->broken || c->retire || p->nidle >= (size_t)p->size)) {
        discard(p, c);
    } else if (c) {
        list_push(&p->idle, &c->node);
        p->nidle++;
    }
    task_sem_give(&p->room);
}

/* ---- statements ---- */

/* The server closed the connection while it was idle: nothing of the transaction has happened, so its first statement
 * is sent once more on a new connection. */
static bool replace_conn(struct db_tx *tx, struct error *err)
{
    struct pg_conn *c = connect_new(tx->db->pg, err);
    if (!c) {
        return false;
    }
    discard(tx->db->pg, tx->pg);
    tx->pg = c;
    return true;
}

bool pg_run(struct db_tx *tx, struct db_sql *sql, const char *text, const struct db_val *args,
            size_t n, int64_t *changed, struct db_rows *out, struct error *err)
{
    bool first = !tx->pg->begun;
    if (tx->pg->broken) {
        return err_tag(err, ERR_UNAVAILABLE, 0, "connection",
                       "the connection to PostgreSQL was lost");
    }
    bool ok = pg_conn_run(tx, sql, text, args, n, changed, out, err);
    if (!ok && first && !tx->pg->begun && tx->pg->broken) {
        struct error again;
        if (replace_conn(tx, &again)) {
            ok = pg_conn_run(tx, sql, text, args, n, changed, out, err);
        }
    }
    return ok;
}

bool pg_script(struct db_tx *tx, const char *sql, struct error *err)
{
    return pg_conn_script(tx, sql, err);
}

/* ---- units of work ---- */

bool pg_unit(struct db *db, struct db_scope scope, db_fn *fn, void *arg, bool write,
             struct error *err)
{
    struct db_tx tx = {.db = db, .kind = DB_POSTGRES, .scope = scope, .writes = write};
    tx.pg = pool_take(db, err);
    tx.arena = tx.pg ? arena_new(DB_TX_ARENA_MAX) : NULL;
    bool ok = tx.arena != NULL;
    if (ok) {
        err->code = ERR_NONE;
        tx.failures = mem_failures();
        ok = db_tx_settle(&tx, fn(&tx, arg, err), err);
        if (ok) {
            ok = pg_conn_commit(tx.pg, err);
        } else {
            pg_conn_rollback(tx.pg);
        }
        if (ok) {
            db_count_touched(db, tx.touched);
            db->commits++;
        }
        db->transactions++;
        db->rollbacks += !ok;
    } else if (tx.pg) {
        err_set(err, ERR_NOMEM, "no memory for a transaction");
    }
    arena_free(tx.arena);
    if (tx.pg) {
        pool_put(db, tx.pg);
    }
    return ok;
}

/* ---- asynchronous writes ---- */

struct batch {
    struct list jobs;
    size_t n;
};

static bool run_job(struct db_tx *outer, struct pg_job *j, bool nested, struct error *err)
{
    static struct db_sql savepoint = {.text = "SAVEPOINT one"},
                         release = {.text = "RELEASE SAVEPOINT one"},
                         back = {.text = "ROLLBACK TO SAVEPOINT one"};
    if (nested && !db_exec(outer, &savepoint, NULL, 0, NULL, err)) {
        return false;
    }
    struct db_tx tx = *outer;
    tx.touched = 0;
    tx.failures = mem_failures();
    tx.arena = arena_new(DB_TX_ARENA_MAX);
    j->ok = tx.arena ? db_tx_settle(&tx, j->fn(&tx, j->arg, &j->err), &j->err)
                     : err_set(&j->err, ERR_NOMEM, "no memory for a transaction");
    arena_free(tx.arena);
    outer->pg = tx.pg; /* the first statement may have moved to a new connection */
    if (j->ok) {
        outer->touched |= tx.touched;
    }
    if (!nested) {
        *err = j->err;
        return j->ok;
    }
    return (j->ok || db_exec(outer, &back, NULL, 0, NULL, err)) &&
           db_exec(outer, &release, NULL, 0, NULL, err);
}

static bool run_batch(struct db_tx *tx, void *arg, struct error *err)
{
    struct batch *b = arg;
    list_each(n, &b->jobs)
    {
        if (!run_job(tx, container_of(n, struct pg_job, node), b->n > 1, err)) {
            return false;
        }
    }
    return true;
}

static bool same_scope(const struct pg_job *a, const struct pg_job *b)
{
    return a->scope.kind == b->scope.kind && strcmp(a->value, b->value) == 0;
}

static void next_batch(struct pg *p, struct batch *b)
{
    list_init(&b->jobs);
    b->n = 0;
    struct pg_job *first = NULL;
    while (b->n < ASYNC_BATCH && !list_empty(&p->jobs)) {
        struct pg_job *j = container_of(p->jobs.next, struct pg_job, node);
        first = first ? first : j;
        if (!same_scope(first, j)) {
            break;
        }
        list_del(&j->node);
        list_push(&b->jobs, &j->node);
        b->n++;
    }
}

static void async_main(void *arg)
{
    struct db *db = arg;
    struct pg *p = db->pg;
    struct task_hold hold;
    task_hold_begin(&hold);
    while (!list_empty(&p->jobs)) {
        struct batch b;
        struct error e;
        next_batch(p, &b);
        struct db_scope scope = container_of(b.jobs.next, struct pg_job, node)->scope;
        bool ok = pg_unit(db, scope, run_batch, &b, true, &e);
        if (!ok) {
            db_trouble_note(db, &e);
        }
        for (struct list *n; (n = list_pop(&b.jobs));) {
            struct pg_job *j = container_of(n, struct pg_job, node);
            if (!ok && (j->ok || j->err.code == ERR_NONE)) {
                j->ok = false;
                j->err = e;
            }
            db->queued--;
            if (j->done) {
                j->done(j->arg, j->ok, &j->err);
            }
            mem_free(j);
        }
    }
    task_hold_end(&hold);
    p->running = false;
    task_cond_notify_all(&p->drained);
}

bool pg_unit_async(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
                   void (*done)(void *arg, bool ok, const struct error *err), struct error *err)
{
    struct pg *p = db->pg;
    struct str value = str_c(scope.value);
    struct pg_job *j = mem_alloc(sizeof(*j) + value.n + 1);
    if (!p->group && j) {
        p->group = task_group_new(NULL, "database");
    }
    if (!j || !p->group) {
        mem_free(j);
        return err_set(err, ERR_NOMEM, "no memory for a transaction");
    }
    if (value.n) {
        memcpy(j->value, value.p, value.n);
    }
    j->fn = fn;
    j->arg = arg;
    j->done = done;
    j->scope = (struct db_scope){.kind = scope.kind, .value = scope.value ? j->value : NULL};
    list_push(&p->jobs, &j->node);
    if (!p->running) {
        if (!task_spawn(p->group, "database writes", async_main, db, err)) {
            list_del(&j->node);
            mem_free(j);
            return false;
        }
        p->running = true;
    }
    db->queued++;
    return true;
}

bool pg_drain(struct db *db, struct error *err)
{
    while (db->pg->running) {
        if (!task_cond_wait(&db->pg->drained, err)) {
            return false;
        }
    }
    return true;
}

/* ---- opening ---- */

static bool bounded(const char *name, int value, int low, int high, struct error *err)
{
    return value >= low && value <= high
               ? true
               : err_set(err, ERR_INVALID, "database.postgresql.%s must be %d to %d", name, low,
                         high);
}

bool pg_open(struct db *db, const struct db_opts *o, struct error *err)
{
    struct pg *p = new (struct pg);
    if (!p) {
        return err_set(err, ERR_NOMEM, "no memory for the database");
    }
    p->size = o->pool_size ? o->pool_size : 10;
    p->overflow = o->pool_overflow;
    p->timeout_s = o->pool_timeout_s ? o->pool_timeout_s : 30;
    p->recycle_s = o->pool_recycle_s ? o->pool_recycle_s : 1800;
    list_init(&p->idle);
    list_init(&p->jobs);
    list_init(&p->drained.waiters);
    bool ok = bounded("pool_size", p->size, 1, 100, err) &&
              bounded("max_overflow", p->overflow, 0, 100, err) &&
              bounded("pool_size + max_overflow", p->size + p->overflow, 1, 100, err) &&
              bounded("pool_timeout_seconds", p->timeout_s, 1, 300, err) &&
              bounded("pool_recycle_seconds", p->recycle_s, 1, 86400, err) &&
              pg_params_make(&p->params, o, err);
    db->pg = p;
    if (ok) {
        task_sem_init(&p->room, p->size + p->overflow);
        ok = db_default_scope(db, o->system_scope_workspace, err);
        struct pg_conn *c =
            ok ? pool_take(db, err) : NULL; /* a wrong address is told at the start */
        ok = c != NULL;
        if (c) {
            pool_put(db, c);
        }
    }
    if (!ok) {
        pg_close(db);
    }
    return ok;
}

enum { HOLD_STEP_MS = 50 };

struct hold_job {
    struct pg_conn *c;
    bool held, failed;
};

static void hold_work(void *arg)
{
    struct hold_job *j = arg;
    /* This connection is made for the pipelined way of the pool, which knows no simple call. */
    if (PQpipelineStatus(j->c->h) != PQ_PIPELINE_OFF)
        (void)PQexitPipelineMode(j->c->h);
    (void)PQsetnonblocking(j->c->h, 0);
    PGresult *r = PQexec(j->c->h, "SELECT pg_try_advisory_lock(5567294202)");
    j->failed = PQresultStatus(r) != PGRES_TUPLES_OK;
    j->held = !j->failed && PQgetvalue(r, 0, 0)[0] == 't';
    PQclear(r);
}

bool db_hold(struct db *db, int64_t wait_ms, struct error *err)
{
    struct pg *p = db->pg;
    if (!p || p->guard)
        return true;
    struct hold_job j = {.c = connect_new(p, err)};
    int64_t until = time_mono_us() + wait_ms * 1000;
    if (!j.c)
        return false;
    bool ok;
    while ((ok = task_work(hold_work, &j, err)) && !j.held && !j.failed && time_mono_us() < until &&
           (ok = task_sleep_ms(HOLD_STEP_MS, err)))
        ;
    if (ok && j.held) {
        p->guard = j.c;
        return true;
    }
    discard(p, j.c);
    if (!ok)
        return false;
    return j.failed
               ? err_set(err, ERR_UNAVAILABLE,
                         "the database did not say whether another process serves it")
               : err_set(err, ERR_CONFLICT, "the database is served by another process already");
}

void pg_close(struct db *db)
{
    struct pg *p = db->pg;
    struct error e;
    if (p->guard)
        discard(p, steal(p->guard));
    if (p->group) {
        if (!db_drain(db, &e)) {
            log_warn("db", "closing: %s", e.msg);
        }
        task_group_free(p->group);
    }
    for (struct list *n; (n = list_pop(&p->idle));) {
        discard(p, container_of(n, struct pg_conn, node));
    }
    pg_params_free(&p->params);
    mem_free(p->system_scope);
    mem_free(p);
    db->pg = NULL;
}

void pg_stats(const struct db *db, struct db_stats *out)
{
    out->pool_open = db->pg->open;
    out->pool_idle = db->pg->nidle;
    out->pool_waiting = db->pg->waiting;
}
