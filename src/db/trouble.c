/* When the database fails: a full disk, a server that went away. What must be written stays in memory and is written again; a small
 * write of our own, less and less often, tells when that is worth a try, and one of those that wait goes ahead of the others. Two
 * lines in the log: when it begins and when it is over. design.md §1.2. */
#include "db/db_private.h"

enum {
    WAIT_FIRST_MS = 1000,
    WAIT_MAX_MS = 30000,
    TRIES = 8,       /* of one write while small ones succeed */
    OWED_MAX = 20000 /* writes that are owed at a time */
};

/* A write that somebody relies on without waiting for it. */
struct owed {
    struct list node; /* in trouble.owed while it waits */
    struct db *db;
    char scope[DB_SCOPE_MAX + 1];
    enum db_scope_kind kind;
    db_fn *fn;
    void *arg;
    void (*release)(void *arg);
    const char *what;
    unsigned tries;
};

static void arm(struct db *db);
static void owed_write(struct owed *o);

bool db_is_trouble(const struct error *err)
{
    return err->code == ERR_IO || err->code == ERR_UNAVAILABLE || err->code == ERR_CAPACITY;
}

static bool lasts(const struct db *db)
{
    return db->trouble.since_us != 0;
}

void db_trouble_begin(struct db *db, const struct error *err)
{
    struct db_trouble *t = &db->trouble;
    if (lasts(db) || t->closing)
        return;
    t->since_us = time_mono_us();
    t->wait_ms = WAIT_FIRST_MS;
    t->count++;
    log_error("db",
              "the database fails: accepted messages wait and are taken up again when it works: %s",
              err->msg);
    arm(db);
}

void db_trouble_note(struct db *db, const struct error *err)
{
    if (err->code == ERR_IO || err->code == ERR_UNAVAILABLE)
        db_trouble_begin(db, err);
}

static void over(struct db *db)
{
    struct db_trouble *t = &db->trouble;
    if (!lasts(db))
        return;
    log_info("db", "the database works again after %lld s",
             (long long)((time_mono_us() - t->since_us) / 1000000));
    t->since_us = 0;
    task_timer_stop(&t->timer);
    t->armed = false;
    list_each(n, &t->waiting)
    {
        container_of(n, struct db_retry, node)->go = true;
    }
    task_cond_notify_all(&t->changed);
    struct list all;
    list_init(&all);
    for (struct list *n; (n = list_pop(&t->owed));)
        list_push(&all, n);
    t->owed_n = 0;
    for (struct list *n; (n = list_pop(&all));)
        owed_write(container_of(n, struct owed, node));
    if (t->on_over)
        t->on_over(t->arg);
}

/* ---- the small write ---- */

static bool probe(struct db_tx *tx, void *arg, struct error *err)
{
    static struct db_sql sql = {.text =
                                    "UPDATE parley_migrations SET name = name WHERE number = 1"};
    return db_exec(tx, &sql, NULL, 0, NULL, err);
}

/* The database takes small writes: one of those that wait shows whether it takes theirs. */
static void probed(void *arg, bool ok, const struct error *err)
{
    struct db *db = arg;
    struct db_trouble *t = &db->trouble;
    t->probing = false;
    if (!lasts(db) || t->closing)
        return;
    struct list *n;
    if (!ok && db_is_trouble(err)) {
        arm(db);
    } else if ((n = list_pop(&t->waiting))) {
        struct db_retry *r = container_of(n, struct db_retry, node);
        list_init(&r->node);
        r->go = r->ahead = true;
        task_cond_notify_all(&t->changed);
    } else if ((n = list_pop(&t->owed))) {
        t->owed_n--;
        struct owed *o = container_of(n, struct owed, node);
        o->tries++;
        owed_write(o);
    } else {
        over(db);
    }
}

static void on_timer(void *arg)
{
    struct db *db = arg;
    struct db_trouble *t = &db->trouble;
    struct error err = {0};
    t->armed = false;
    t->probing =
        db_write_async(db, (struct db_scope){.kind = DB_SCOPE_NONE}, probe, db, probed, &err);
    if (!t->probing)
        arm(db);
}

static void arm(struct db *db)
{
    struct db_trouble *t = &db->trouble;
    if (!lasts(db) || t->closing || t->armed || t->probing)
        return;
    t->armed = true;
    task_timer_start(&t->timer, t->wait_ms, on_timer, db);
    t->wait_ms = t->wait_ms * 2 < WAIT_MAX_MS ? t->wait_ms * 2 : WAIT_MAX_MS;
}

/* ---- those that wait ---- */

bool db_again(struct db *db, struct db_retry *r, struct error *err)
{
    struct db_trouble *t = &db->trouble;
    bool ahead = r->ahead;
    r->ahead = false;
    r->tries += ahead;
    if (ahead)
        arm(db);
    if (!db_is_trouble(err) || t->closing || r->tries >= TRIES)
        return false;
    db_trouble_begin(db, err);
    struct error ended = {0};
    r->go = false;
    list_push(&t->waiting, &r->node);
    t->waiting_n++;
    while (!r->go && task_cond_wait(&t->changed, &ended))
        ;
    t->waiting_n--;
    list_del(&r->node);
    if (r->ahead && ended.code) /* woken and cancelled at once: another one goes */
        arm(db);
    if (ended.code) {
        *err = ended;
        return false;
    }
    *err = (struct error){0};
    return true;
}

void db_worked(struct db *db, struct db_retry *r)
{
    if (r->ahead)
        over(db);
    r->ahead = false;
}

bool db_write_again(struct db *db, struct db_scope scope, db_fn *fn, void *arg, struct error *err)
{
    struct db_retry r = {0};
    while (!db_write_twice(db, scope, fn, arg, err))
        if (!db_again(db, &r, err))
            return false;
    db_worked(db, &r);
    return true;
}

/* ---- what is owed ---- */

static void owed_free(struct owed *o)
{
    o->release(o->arg);
    mem_free(o);
}

static bool owed_run(struct db_tx *tx, void *arg, struct error *err)
{
    struct owed *o = arg;
    return o->fn(tx, o->arg, err);
}

static void owed_done(void *arg, bool ok, const struct error *err)
{
    struct owed *o = arg;
    struct db *db = o->db;
    struct db_trouble *t = &db->trouble;
    if (ok) {
        bool ahead = o->tries > 0;
        owed_free(o);
        if (ahead)
            over(db);
        return;
    }
    if (db_is_trouble(err) && !t->closing && o->tries < TRIES && t->owed_n < OWED_MAX) {
        list_push(&t->owed, &o->node);
        t->owed_n++;
        db_trouble_begin(db, err);
    } else {
        log_error("db", "%s was not stored: %s", o->what, err->msg);
        owed_free(o);
    }
    arm(db);
}

static void owed_write(struct owed *o)
{
    struct error err = {0};
    struct db_scope s = {.kind = o->kind, .value = *o->scope ? o->scope : NULL};
    if (!db_write_twice_async(o->db, s, owed_run, o, owed_done, &err))
        owed_done(o, false, &err);
}

bool db_write_owed(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
                   void (*release)(void *arg), const char *what, struct error *err)
{
    struct owed *o = db_scope_ok(&scope, err) ? new (struct owed) : NULL;
    if (!o) {
        if (err->code == ERR_NONE)
            err_set(err, ERR_NOMEM, "out of memory");
        release(arg);
        return false;
    }
    *o = (struct owed){
        .db = db, .kind = scope.kind, .fn = fn, .arg = arg, .release = release, .what = what};
    snprintf(o->scope, sizeof o->scope, "%s", scope.value ? scope.value : "");
    if (lasts(db) && db->trouble.owed_n < OWED_MAX) {
        list_push(&db->trouble.owed, &o->node);
        db->trouble.owed_n++;
    } else {
        owed_write(o);
    }
    return true;
}

/* ---- life ---- */

void db_on_recovery(struct db *db, void (*fn)(void *arg), void *arg)
{
    db->trouble.on_over = fn;
    db->trouble.arg = arg;
}

bool db_fails(const struct db *db)
{
    return lasts(db);
}

void db_trouble_open(struct db *db)
{
    list_init(&db->trouble.waiting);
    list_init(&db->trouble.owed);
}

void db_trouble_close(struct db *db)
{
    struct db_trouble *t = &db->trouble;
    t->closing = true;
    if (t->armed)
        task_timer_stop(&t->timer);
    if (t->owed_n)
        log_error("db", "%zu states of messages were not stored", t->owed_n);
    for (struct list *n; (n = list_pop(&t->owed));)
        owed_free(container_of(n, struct owed, node));
    t->owed_n = 0;
}
