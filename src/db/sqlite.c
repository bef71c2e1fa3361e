/* SQLite behind db.h: one writer thread with group commit, reader threads, and a thread that moves the WAL into the file
 * beside them. Fibers hand jobs to the threads; finished jobs come back through one post for as many as there are. */
#include "db/db_private.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BATCH_MAX = 512, /* transactions of one commit */
    READERS_MAX = 16,
    SETTLE_US = 1000000, /* age at which a fresh file is brought to the disk in any case */
    COMPANY_US = 5000, /* how long jobs that nobody waits for wait for others, to share a commit */
    CHECKPOINT_PAGES = 6000, /* WAL pages from which on a checkpoint is made beside the writer … */
    CHECKPOINT_PASSES = 3,   /* … in at most so many passes */
    CHECKPOINT_REST =
        100, /* new pages behind a pass that the writer moves itself, while all wait */
    CHECKPOINT_FORCE = 16000, /* readers that never pause would let the WAL grow: wait for them */
};

struct sq_job {
    struct list node;
    db_fn *fn; /* NULL: nothing but the place in the queue (db_drain) */
    void *arg;
    struct db_scope scope;
    struct error *err;
    void (*on_done)(void *arg, bool ok, const struct error *err); /* may be NULL */
    struct task_cond finished;
    uint32_t touched;
    bool settle; /* see db_settle */
    bool again;  /* may run twice: see db_write_twice */
    bool async;  /* a struct async_job, released after on_done */
    bool ok, done;
};

struct async_job {
    struct sq_job job;
    struct error err;
    char scope[];
};

/* Finished jobs on their way to the loop thread. Outlives the database when a post is still under way. */
struct hub {
    pthread_mutex_t lock;
    struct list done;
    struct task_post post;
    struct db *db; /* NULL: closed */
    uint64_t commits, transactions, rollbacks;
    bool posted;
};

struct queue {
    pthread_cond_t cond;
    struct list jobs;
    size_t awaited; /* of them: jobs that somebody waits for */
    int64_t due_us; /* when the others wait no longer for such a one */
    int idle;       /* threads that wait for jobs */
};

struct sq {
    struct db *db;
    char *path;
    size_t cache_kib;
    int lock_fd;
    struct hub *hub;
    pthread_mutex_t lock; /* of all below */
    struct queue writes, reads;
    pthread_cond_t checkpoint;
    bool stop, foreign_keys, want_checkpoint;
    size_t readers_busy;
    size_t taken;           /* awaited jobs of the batch under way */
    int wal_next;           /* length of the WAL from which on it is moved into the file … */
    int wal_passes;         /* … in so many passes so far … */
    int wal_passed;         /* … of which the last began at this length */
    struct sq_conn *writer; /* the writer thread's after opening */
    bool fresh; /* made by this process and not on the disk yet; the writer thread's too */
    bool due;   /* to be brought there before the next batch */
    int64_t opened_us;
    pthread_t threads[READERS_MAX + 2];
    size_t nthreads;
};

/* ---- completion ---- */

static void job_finish(struct db *db, struct sq_job *j)
{
    if (j->ok) {
        db_count_touched(db, j->touched);
    }
    if (!j->async) {
        j->done = true;
        task_cond_notify_all(&j->finished);
        return;
    }
    db->queued--;
    if (!j->ok) {
        db_trouble_note(db, j->err);
    }
    if (j->on_done) {
        j->on_done(j->arg, j->ok, j->err);
    }
    mem_free(container_of(j, struct async_job, job));
}

/* Loop thread. */
static void hub_deliver(void *arg)
{
    struct hub *h = arg;
    struct list taken;
    list_init(&taken);
    pthread_mutex_lock(&h->lock);
    h->posted = false;
    struct db *db = h->db;
    for (struct list *n; (n = list_pop(&h->done));) {
        list_push(&taken, n);
    }
    if (db) {
        db->commits = h->commits;
        db->transactions = h->transactions;
        db->rollbacks = h->rollbacks;
    }
    pthread_mutex_unlock(&h->lock);
    for (struct list *n; (n = list_pop(&taken));) {
        job_finish(db, container_of(n, struct sq_job, node));
    }
    if (!db) {
        pthread_mutex_destroy(&h->lock);
        mem_free(h);
    }
}

static void hub_put(struct hub *h, struct list *jobs)
{
    pthread_mutex_lock(&h->lock);
    for (struct list *n; (n = list_pop(jobs));) {
        struct sq_job *j = container_of(n, struct sq_job, node);
        h->transactions++;
        h->rollbacks += !j->ok;
        list_push(&h->done, n);
    }
    bool post = !h->posted;
    h->posted = true;
    pthread_mutex_unlock(&h->lock);
    if (post) {
        task_post_from_thread(&h->post, hub_deliver, h);
    }
}

/* ---- running jobs ---- */

static void job_run(struct db *db, struct sq_conn *c, struct sq_job *j, bool write)
{
    j->ok = false; /* it may have run before */
    j->touched = 0;
    if (!j->fn) {
        j->ok = true;
        return;
    }
    struct db_tx tx = {.db = db, .kind = DB_SQLITE, .scope = j->scope, .sq = c, .writes = write};
    tx.failures = mem_failures();
    tx.arena = arena_new(DB_TX_ARENA_MAX);
    if (!tx.arena) {
        err_set(j->err, ERR_NOMEM, "no memory for a transaction");
        return;
    }
    j->err->code = ERR_NONE;
    j->ok = db_tx_settle(&tx, j->fn(&tx, j->arg, j->err), j->err);
    j->touched = tx.touched;
    arena_free(tx.arena);
}

static void fail_all(struct list *jobs, const struct error *why)
{
    list_each(n, jobs)
    {
        struct sq_job *j = container_of(n, struct sq_job, node);
        if (j->ok || j->err->code == ERR_NONE) {
            j->ok = false;
            *j->err = *why;
        }
    }
}

static void move_all(struct list *from, struct list *to)
{
    for (struct list *n; (n = list_pop(from));) {
        list_push(to, n);
    }
}

/* One job of several in a commit: a failed one takes back its own changes only. */
static void job_run_nested(struct db *db, struct sq_conn *c, struct sq_job *j)
{
    j->ok = false; /* it may have run before, without a savepoint */
    if (!sq_savepoint(c, j->err)) {
        return;
    }
    job_run(db, c, j, true);
    if (!sq_in_tx(c)) {
        return; /* SQLite has rolled back everything (disk full, I/O error): batch_run sees it too */
    }
    if (j->ok && sq_release(c, j->err)) {
        return;
    }
    j->ok = false; /* so nothing of it may stay */
    struct error cleanup;
    if (!sq_rollback_to(c, &cleanup) || !sq_release(c, &cleanup)) {
        log_error("db", "%s", cleanup.msg);
        sq_rollback(c);
    }
}

static bool all_again(const struct list *jobs)
{
    list_each(n, jobs)
    {
        if (!container_of(n, struct sq_job, node)->again) {
            return false;
        }
    }
    return true;
}

/* Runs jobs of `in` inside of the open transaction, as they are run moved to `open`. Ends early when the engine has ended the
 * transaction and, without savepoints, when one has failed: *failed is the last one that did. */
static void run_open(struct sq *q, struct sq_conn *c, bool nested, struct list *in,
                     struct list *open, struct sq_job **failed)
{
    for (struct list *node; sq_in_tx(c) && (nested || !*failed) && (node = list_pop(in));) {
        struct sq_job *j = container_of(node, struct sq_job, node);
        list_push(open, node);
        if (nested) {
            job_run_nested(q->db, c, j);
        } else {
            job_run(q->db, c, j, true);
        }
        if (!j->ok) {
            *failed = j;
        }
    }
}

static void count_commit(struct hub *h)
{
    pthread_mutex_lock(&h->lock);
    h->commits++;
    pthread_mutex_unlock(&h->lock);
}

/* Runs the jobs of `in` in one transaction (in more only when the engine ended it midway) and moves them to `out`. Jobs that may
 * run twice need no savepoint, which would keep a copy of each page that they change: fails one of them, which is rare, all start
 * over with savepoints. */
static void batch_run(struct sq *q, struct sq_conn *c, struct list *in, size_t n, struct list *out)
{
    struct list open;
    list_init(&open);
    bool nested = n > 1 && !all_again(in);
    while (!list_empty(in)) {
        struct error e;
        if (!sq_begin(c, true, &e)) {
            fail_all(in, &e);
            move_all(in, out);
            return;
        }
        struct sq_job *failed = NULL;
        run_open(q, c, nested, in, &open, &failed);
        if (!sq_in_tx(c)) {
            err_set(&e, ERR_IO, "the commit was undone by another transaction's failure: %s",
                    failed ? failed->err->msg : "unknown");
            fail_all(&open, &e);
        } else if (!nested && failed) {
            sq_rollback(c);
            if (n > 1) {
                nested = true;
                move_all(in, &open);
                move_all(&open, in);
                continue;
            }
        } else if (!sq_commit(c, &e)) {
            sq_rollback(c);
            fail_all(&open, &e);
        } else {
            count_commit(q->hub);
        }
        move_all(&open, out);
    }
}

/* ---- threads ---- */

/* A job that somebody waits for is begun at once. One that nobody waits for gives it a moment to come. */
static bool is_ready(const struct queue *from)
{
    return from->awaited > 0 || (!list_empty(&from->jobs) && time_mono_us() >= from->due_us);
}

static void wait_for_job(struct sq *q, struct queue *from)
{
    from->idle++;
    if (list_empty(&from->jobs)) {
        pthread_cond_wait(&from->cond, &q->lock);
    } else {
        struct timespec until;
        int64_t us = from->due_us - time_mono_us();
        us = us < 0 ? 0 : us < COMPANY_US ? us : COMPANY_US;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += us * 1000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&from->cond, &q->lock, &until);
    }
    from->idle--;
}

/* Waits for jobs and takes at most `max`. False: told to stop and nothing left. Called with the lock held. */
static bool take(struct sq *q, struct queue *from, size_t max, struct list *out, size_t *n)
{
    while (!is_ready(from) && !q->stop) {
        wait_for_job(q, from);
    }
    size_t awaited = from->awaited;
    *n = 0;
    for (struct list *node; *n < max && (node = list_pop(&from->jobs)); (*n)++) {
        from->awaited -= !container_of(node, struct sq_job, node)->async;
        list_push(out, node);
    }
    if (from == &q->writes) {
        q->taken = awaited - from->awaited;
    }
    return *n > 0;
}

/* After a batch was reported, so that nobody waits for it who need not. Most of the work is done by the other thread, in passes; a
 * pass never gets to the end of a log that grows meanwhile, so the last few pages are moved here, which lets the log start over. */
static void writer_checkpoint(struct sq *q, struct sq_conn *c)
{
    int pages = sq_wal_pages(c);
    pthread_mutex_lock(&q->lock);
    if (pages < q->wal_passed) { /* it has started over */
        q->wal_passed = q->wal_passes = 0;
        q->wal_next = CHECKPOINT_PAGES;
    }
    while (pages >= CHECKPOINT_FORCE && q->want_checkpoint && !q->stop) { /* the pass is too slow */
        pthread_cond_wait(&q->checkpoint, &q->lock);
    }
    bool finish = pages >= CHECKPOINT_FORCE;
    if (!q->want_checkpoint && pages >= q->wal_next) {
        finish = finish || q->wal_passes == CHECKPOINT_PASSES || pages >= 2 * CHECKPOINT_PAGES ||
                 (q->wal_passes > 0 && pages - q->wal_passed < CHECKPOINT_REST);
        q->want_checkpoint = !finish;
        q->wal_passes = finish ? 0 : q->wal_passes + 1;
        q->wal_passed = pages;
        if (finish) { /* if a reader keeps it from starting over: again when it has grown */
            q->wal_next = pages + CHECKPOINT_PAGES;
        } else {
            pthread_cond_signal(&q->checkpoint);
        }
    }
    pthread_mutex_unlock(&q->lock);
    if (finish) {
        sq_checkpoint(c, pages >= CHECKPOINT_FORCE);
    }
}

static bool is_idle(struct sq *q)
{
    pthread_mutex_lock(&q->lock);
    bool idle = list_empty(&q->writes.jobs) && !q->stop;
    pthread_mutex_unlock(&q->lock);
    return idle;
}

/* Before a batch that must be durable. */
static bool settle(struct sq *q, struct sq_conn *c, const struct list *jobs, struct error *err)
{
    if (!q->fresh) {
        return true;
    }
    list_each(n, jobs)
    {
        q->due = q->due || container_of(n, struct sq_job, node)->settle;
    }
    q->due = q->due || time_mono_us() - q->opened_us > SETTLE_US;
    if (q->due && !sq_conn_settle(c, q->path, err)) {
        return false; /* and tried again before the next batch */
    }
    q->fresh = !q->due;
    return true;
}

static void *writer_main(void *arg)
{
    struct sq *q = arg;
    struct sq_conn *c = q->writer;
    int keys = -1;
    bool padded = false;
    struct list jobs, done;
    list_init(&jobs);
    list_init(&done);
    for (;;) {
        size_t n;
        pthread_mutex_lock(&q->lock);
        bool more = take(q, &q->writes, BATCH_MAX, &jobs, &n);
        bool want_keys = q->foreign_keys;
        pthread_mutex_unlock(&q->lock);
        if (!more) {
            break;
        }
        struct error e;
        if (!settle(q, c, &jobs, &e) || (keys != want_keys && !sq_foreign_keys(c, want_keys, &e))) {
            fail_all(&jobs, &e);
            move_all(&jobs, &done);
        } else {
            keys = want_keys;
            batch_run(q, c, &jobs, n, &done);
        }
        hub_put(q->hub, &done);
        writer_checkpoint(q, c);
        if (!padded && !q->fresh && sq_wal_pages(c) > 0 && is_idle(q)) {
            padded = true;
            sq_conn_pad(q->path);
        }
    }
    struct error e;
    if (q->fresh && !sq_conn_settle(c, q->path, &e)) {
        log_error("db", "%s", e.msg);
    }
    return NULL;
}

static void *reader_main(void *arg)
{
    struct sq *q = arg;
    struct sq_conn *c = NULL;
    struct list jobs;
    list_init(&jobs);
    for (;;) {
        size_t n;
        pthread_mutex_lock(&q->lock);
        bool more = take(q, &q->reads, 1, &jobs, &n);
        q->readers_busy += more;
        pthread_mutex_unlock(&q->lock);
        if (!more) {
            break;
        }
        struct sq_job *j = container_of(jobs.next, struct sq_job, node);
        if (!c) { /* at the first read: a start that reads little opens few connections */
            c = sq_conn_open(q->path, SQ_READER, q->cache_kib / 2, j->err);
        }
        if (c && sq_begin(c, false, j->err)) {
            job_run(q->db, c, j, false);
            sq_rollback(c);
        }
        pthread_mutex_lock(&q->lock);
        q->readers_busy--;
        pthread_mutex_unlock(&q->lock);
        hub_put(q->hub, &jobs);
    }
    sq_conn_close(c);
    return NULL;
}

/* Most of a checkpoint, its fsync of the file included, runs here while the writer goes on. */
static void *checkpoint_main(void *arg)
{
    struct sq *q = arg;
    struct sq_conn *c = NULL;
    pthread_mutex_lock(&q->lock);
    while (!q->stop) {
        if (!q->want_checkpoint) {
            pthread_cond_wait(&q->checkpoint, &q->lock);
            continue;
        }
        pthread_mutex_unlock(&q->lock);
        struct error e;
        if (!c) {
            c = sq_conn_open(q->path, SQ_WRITER, 64, &e);
        }
        if (c) {
            sq_checkpoint(c, false);
        } else {
            log_warn("db", "no connection for checkpoints: %s", e.msg);
        }
        pthread_mutex_lock(&q->lock);
        q->want_checkpoint = false;
        pthread_cond_broadcast(&q->checkpoint);
    }
    q->want_checkpoint = false;
    pthread_cond_broadcast(&q->checkpoint);
    pthread_mutex_unlock(&q->lock);
    sq_conn_close(c);
    return NULL;
}

/* ---- opening and closing ---- */

/* SQLite removes the log when the last connection closes. */
static bool has_log(const char *path)
{
    auto_buf name = BUF(4096 + 8);
    struct stat st;
    return buf_fmt(&name, "%s-wal", path) && stat(buf_cstr(&name), &st) == 0 && st.st_size > 0;
}

int sq_lock_file(const char *path, struct error *err)
{
    auto_buf name = BUF(4096 + 8);
    if (!buf_fmt(&name, "%s.lock", path)) {
        err_set(err, ERR_NOMEM, "no memory for the name of the lock file");
        return -1;
    }
    auto_fd fd = task_sys_open(buf_cstr(&name), O_RDWR | O_CREAT, 0600);
    if (fd < 0) {
        err_sys(err, errno, "cannot open the lock file of the database");
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            err_set(err, ERR_CONFLICT, "database is in use by another process");
        } else {
            err_sys(err, errno, "cannot lock the database");
        }
        return -1;
    }
    int locked = fd;
    fd = -1;
    return locked;
}

static bool start_thread(struct sq *q, void *(*fn)(void *), struct error *err)
{
    /* Signals belong to the loop thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&q->threads[q->nthreads], NULL, fn, q);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        return err_sys(err, rc, "cannot start a database thread");
    }
    q->nthreads++;
    return true;
}

static void sq_free(struct sq *q)
{
    pthread_mutex_lock(&q->lock);
    q->stop = true;
    pthread_cond_broadcast(&q->writes.cond);
    pthread_cond_broadcast(&q->reads.cond);
    pthread_cond_broadcast(&q->checkpoint);
    pthread_mutex_unlock(&q->lock);
    for (size_t i = 0; i < q->nthreads; i++) {
        pthread_join(q->threads[i], NULL);
    }
    sq_conn_close(
        q->writer); /* the last connection: SQLite moves the WAL into the file and removes it */
    if (q->hub) {
        pthread_mutex_lock(&q->hub->lock);
        bool posted = q->hub->posted;
        pthread_mutex_unlock(&q->hub->lock);
        if (posted) { /* deliver now; the post that is under way frees the hub */
            hub_deliver(q->hub);
            q->hub->db = NULL;
        } else {
            q->hub->db = NULL;
            hub_deliver(q->hub);
        }
    }
    if (q->lock_fd >= 0) {
        close(q->lock_fd);
    }
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->writes.cond);
    pthread_cond_destroy(&q->reads.cond);
    pthread_cond_destroy(&q->checkpoint);
    mem_free(q->path);
    mem_free(q);
}

static struct hub *hub_new(struct db *db)
{
    struct hub *h = new (struct hub);
    if (h) {
        pthread_mutex_init(&h->lock, NULL);
        list_init(&h->done);
        h->db = db;
    }
    return h;
}

bool sq_open(struct db *db, const struct db_opts *opts, struct error *err)
{
    struct str path = str_c(opts->path);
    if (path.n == 0 || path.n > 4096 || path.p[0] == ':' || str_starts(path, S("file:"))) {
        return err_set(err, ERR_INVALID, "database.sqlite.path must name a file (1 to 4096 bytes)");
    }
    struct sq *q = new (struct sq);
    if (!q) {
        return err_set(err, ERR_NOMEM, "no memory for the database");
    }
    q->db = db;
    q->lock_fd = -1;
    q->foreign_keys = true;
    q->wal_next = CHECKPOINT_PAGES;
    q->cache_kib = opts->cache_kib ? opts->cache_kib : 2048;
    pthread_mutex_init(&q->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&q->writes.cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&q->reads.cond, NULL);
    pthread_cond_init(&q->checkpoint, NULL);
    list_init(&q->writes.jobs);
    list_init(&q->reads.jobs);
    q->path = mem_strndup(path.p, path.n);
    q->hub = hub_new(db);
    bool ok = q->path && q->hub ? true : err_set(err, ERR_NOMEM, "no memory for the database");
    if (ok) {
        q->lock_fd = sq_lock_file(q->path, err);
        ok = q->lock_fd >= 0;
    }
    if (ok) {
        /* Made here for its mode: it holds secrets, and SQLite gives its side files the same. */
        int fd = task_sys_open(q->path, O_RDWR | O_CREAT, 0600);
        ok = fd >= 0 ? true : err_sys(err, errno, "cannot open the database file");
        if (fd >= 0) {
            q->fresh = lseek(fd, 0, SEEK_END) == 0;
            close(fd);
        }
    }
    q->opened_us = time_mono_us();
    db->left_open = ok && has_log(q->path);
    q->writer =
        ok ? sq_conn_open(q->path, q->fresh ? SQ_WRITER_LAX : SQ_WRITER, q->cache_kib * 2, err)
           : NULL;
    ok = q->writer && start_thread(q, writer_main, err) && start_thread(q, checkpoint_main, err);
    int readers = opts->readers > 0 ? opts->readers : 2;
    for (int i = 0; ok && i < readers && i < READERS_MAX; i++) {
        ok = start_thread(q, reader_main, err);
    }
    if (!ok) {
        sq_free(q);
        return false;
    }
    db->sq = q;
    return true;
}

void sq_close(struct db *db)
{
    struct error e;
    if (task_in_fiber() && !db_drain(db, &e)) {
        log_warn("db", "closing: %s", e.msg);
    }
    sq_free(db->sq);
    db->sq = NULL;
}

/* ---- units of work ---- */

static void submit(struct sq *q, struct queue *to, struct sq_job *j)
{
    pthread_mutex_lock(&q->lock);
    bool first = list_empty(&to->jobs);
    if (first) {
        to->due_us = time_mono_us() + COMPANY_US;
    }
    list_push(&to->jobs, &j->node);
    to->awaited += !j->async;
    bool wake = to->idle > 0 && (first || !j->async);
    pthread_mutex_unlock(&q->lock);
    if (wake) {
        pthread_cond_signal(&to->cond);
    }
}

/* Inside a task_hold: the thread uses the job until it is done, so nothing else may end the wait. */
static bool submit_and_wait(struct sq *q, struct queue *to, struct sq_job *j)
{
    submit(q, to, j);
    while (!j->done) {
        struct error never;
        if (!task_cond_wait(&j->finished, &never)) {
            log_error("db", "a held wait was ended: %s", never.msg);
        }
    }
    return j->ok;
}

bool sq_unit(struct db *db, struct db_scope scope, db_fn *fn, void *arg, bool write, bool again,
             struct error *err)
{
    struct sq_job j = {.fn = fn, .arg = arg, .scope = scope, .err = err, .again = again};
    err->code = ERR_NONE;
    return submit_and_wait(db->sq, write ? &db->sq->writes : &db->sq->reads, &j);
}

static bool submit_async(struct db *db, const struct sq_job *job, struct error *err)
{
    struct str value = str_c(job->scope.value);
    struct async_job *a = mem_alloc(sizeof(*a) + value.n + 1);
    if (!a) {
        return err_set(err, ERR_NOMEM, "no memory for a transaction");
    }
    if (value.n) {
        memcpy(a->scope, value.p, value.n);
    }
    a->job = *job;
    a->job.scope.value = job->scope.value ? a->scope : NULL;
    a->job.err = &a->err;
    a->job.async = true;
    db->queued++;
    submit(db->sq, &db->sq->writes, &a->job);
    return true;
}

bool sq_unit_async(struct db *db, struct db_scope scope, db_fn *fn, void *arg,
                   void (*done)(void *arg, bool ok, const struct error *err), bool again,
                   struct error *err)
{
    struct sq_job j = {.fn = fn, .arg = arg, .scope = scope, .on_done = done, .again = again};
    return submit_async(db, &j, err);
}

bool sq_settle_later(struct db *db, struct error *err)
{
    struct sq_job j = {.settle = true};
    return submit_async(db, &j, err);
}

bool sq_drain(struct db *db, struct error *err)
{
    struct sq_job j = {.err = err, .again = true};
    err->code = ERR_NONE;
    return submit_and_wait(db->sq, &db->sq->writes, &j);
}

bool sq_wanted(const struct db_tx *tx)
{
    struct sq *q = tx->db->sq;
    pthread_mutex_lock(&q->lock);
    bool wanted = q->taken > 0 || q->writes.awaited > 0;
    pthread_mutex_unlock(&q->lock);
    return wanted;
}

void sq_set_foreign_keys(struct db *db, bool on)
{
    pthread_mutex_lock(&db->sq->lock);
    db->sq->foreign_keys = on;
    pthread_mutex_unlock(&db->sq->lock);
}

const char *sq_path(const struct db *db)
{
    return db->sq->path;
}

size_t sq_readers_busy(const struct db *db)
{
    pthread_mutex_lock(&db->sq->lock);
    size_t n = db->sq->readers_busy;
    pthread_mutex_unlock(&db->sq->lock);
    return n;
}
