/* One PostgreSQL connection: pipelined statements, prepared once each, waited for by the calling fiber. */
#include "db/pg_private.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

enum { ARGS_MAX = 65535 };

struct pg_stmt {
    char name[24];
    char *text;
    int params;
    bool prepared;
};

/* ---- opening ---- */

static void notice(void *arg, const char *text)
{
    log_debug("db", "server notice: %s", text);
}

struct pg_conn *pg_conn_connect(const struct pg_params *p, struct error *err)
{
    struct pg_conn *c = new (struct pg_conn);
    if (!c) {
        err_set(err, ERR_NOMEM, "no memory for a database connection");
        return NULL;
    }
    c->h = PQconnectdbParams((const char *const *)p->keys, (const char *const *)p->values, 0);
    if (!c->h || PQstatus(c->h) != CONNECTION_OK) {
        /* libpq's text may repeat host and user, so only the operator's log gets the class of the failure. */
        bool password = c->h && PQconnectionNeedsPassword(c->h);
        err_tag(err, ERR_UNAVAILABLE, 0, "connection", "cannot connect to PostgreSQL%s",
                password ? ": it asks for a password"
                         : " (check database.postgresql and that the server runs)");
        pg_conn_close(c);
        return NULL;
    }
    PQsetNoticeProcessor(c->h, notice, NULL);
    if (PQsetnonblocking(c->h, 1) != 0 || PQenterPipelineMode(c->h) != 1) {
        err_set(err, ERR_INTERNAL, "cannot set up a PostgreSQL connection");
        pg_conn_close(c);
        return NULL;
    }
    c->created_us = time_mono_us();
    return c;
}

static void stmt_free(struct pg_stmt *s)
{
    if (s) {
        mem_free(s->text);
        mem_free(s);
    }
}

void pg_conn_close(struct pg_conn *c)
{
    if (!c) {
        return;
    }
    for (size_t i = 0; i < c->nslots; i++) {
        stmt_free(c->slots[i]);
    }
    mem_free(c->slots);
    size_t pos = 0;
    struct str key;
    void *value;
    while (map_next(&c->texts, &pos, &key, &value)) {
        stmt_free(value);
    }
    map_free(&c->texts);
    PQfinish(c->h);
    mem_free(c);
}

bool pg_conn_alive(struct pg_conn *c)
{
    char byte;
    ssize_t n = recv(PQsocket(c->h), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return true;
    }
    /* A notice may wait there; the end of the connection may too. */
    return n > 0 && PQconsumeInput(c->h) == 1 && PQstatus(c->h) == CONNECTION_OK;
}

/* ---- errors ---- */

static bool lost(struct pg_conn *c, struct error *err)
{
    c->broken = true;
    return err_tag(err, ERR_UNAVAILABLE, 0, "connection", "the connection to PostgreSQL was lost");
}

/* The primary message names tables, columns and constraints; the detail would name values. */
static bool fail(struct pg_conn *c, const PGresult *r, struct error *err)
{
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    struct str code = str_c(state);
    if (!text) {
        text = "no answer";
    }
    if (code.n == 0 || str_starts(code, S("08")) || str_starts(code, S("57P"))) {
        return lost(c, err);
    }
    if (str_eqz(code, "23505")) {
        return err_tag(err, ERR_CONFLICT, 0, "unique", "%s", text);
    }
    if (str_eqz(code, "23503") || str_eqz(code, "23001")) {
        return err_tag(err, ERR_CONFLICT, 0, "foreign_key", "%s", text);
    }
    if (str_eqz(code, "40001") || str_eqz(code, "40P01")) {
        return err_tag(err, ERR_CONFLICT, 0, "serialization", "%s", text);
    }
    if (str_eqz(code, "57014")) {
        return err_set(err, ERR_TIMEOUT, "%s", text);
    }
    if (str_eqz(code, "55P03")) {
        return err_set(err, ERR_UNAVAILABLE, "%s", text);
    }
    if (str_eqz(code, "0A000")) {
        c->broken = true; /* a plan from before a migration: prepare anew on a new connection */
    }
    if (str_eqz(code,
                "42501")) { /* also what row-level security says to a write outside the scope */
        return err_set(err, ERR_DENIED, "%s", text);
    }
    bool data = str_starts(code, S("23")) || str_starts(code, S("22"));
    bool room = str_starts(code, S("53"));
    return err_set(err,
                   data   ? ERR_INVALID
                   : room ? ERR_UNAVAILABLE
                          : ERR_INTERNAL,
                   "%s [" STR_FMT "]", text, STR_ARG(code));
}

/* ---- waiting ---- */

static bool flush(struct pg_conn *c, struct error *err)
{
    for (int rc; (rc = PQflush(c->h)) != 0;) {
        if (rc < 0 || !db_wait_fd(PQsocket(c->h), TASK_READ | TASK_WRITE) ||
            PQconsumeInput(c->h) != 1) {
            return lost(c, err);
        }
    }
    return true;
}

/* The next result; NULL ends those of one statement. */
static bool next(struct pg_conn *c, PGresult **r, struct error *err)
{
    while (PQisBusy(c->h)) {
        if (!db_wait_fd(PQsocket(c->h), TASK_READ) || PQconsumeInput(c->h) != 1) {
            *r = NULL;
            return lost(c, err);
        }
    }
    *r = PQgetResult(c->h);
    return true;
}

static bool good(const PGresult *r)
{
    ExecStatusType s = PQresultStatus(r);
    return s == PGRES_COMMAND_OK || s == PGRES_TUPLES_OK;
}

/* Reads the answers to `n` statements and the sync behind them. The first failure is told; answers[i] is the result of
 * statement i (NULL: it did not succeed), to be cleared by the caller. */
static bool answers(struct pg_conn *c, PGresult **results, size_t n, struct error *err)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        results[i] = NULL;
    }
    for (size_t i = 0; i < n; i++) {
        PGresult *r, *more;
        if (!next(c, &r, err)) {
            return false;
        }
        if (!r) {
            return lost(c, err);
        }
        if (good(r)) {
            results[i] = r;
        } else {
            if (ok && PQresultStatus(r) != PGRES_PIPELINE_ABORTED) {
                ok = fail(c, r, err);
            } else if (ok) {
                ok = err_set(err, ERR_INTERNAL, "a statement was skipped");
            }
            PQclear(r);
            if (c->broken && PQstatus(c->h) != CONNECTION_OK) {
                return false;
            }
        }
        if (!next(c, &more, err)) {
            return false;
        }
        if (more) {
            PQclear(more);
            return lost(c, err);
        }
    }
    PGresult *sync;
    if (!next(c, &sync, err)) {
        return false;
    }
    bool synced = sync && PQresultStatus(sync) == PGRES_PIPELINE_SYNC;
    PQclear(sync);
    return synced ? ok : lost(c, err);
}

static void clear(PGresult **results, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        PQclear(results[i]);
    }
}

/* ---- statements ---- */

static struct pg_stmt *stmt_make(struct pg_conn *c, const char *text)
{
    struct pg_stmt *s = new (struct pg_stmt);
    if (s) {
        s->text = pg_rewrite(text, &s->params);
        snprintf(s->name, sizeof(s->name), "s%u", ++c->names);
        if (!s->text) {
            stmt_free(s);
            s = NULL;
        }
    }
    return s;
}

static struct pg_stmt *stmt_of(struct pg_conn *c, struct db_sql *sql, const char *text,
                               struct error *err)
{
    struct pg_stmt *s = NULL;
    if (sql) {
        size_t slot = db_slot(sql);
        if (slot >= c->nslots) {
            size_t want = (slot | 63) + 1;
            struct pg_stmt **more = mem_realloc(c->slots, want * sizeof(*more));
            if (!more) {
                err_set(err, ERR_NOMEM, "no memory for a statement");
                return NULL;
            }
            memset(more + c->nslots, 0, (want - c->nslots) * sizeof(*more));
            c->slots = more;
            c->nslots = want;
        }
        if (!c->slots[slot]) {
            c->slots[slot] = stmt_make(c, sql->pg ? sql->pg : sql->text);
        }
        s = c->slots[slot];
    } else {
        s = map_get(&c->texts, str_c(text));
        c->retire = c->retire || c->texts.n >= DB_TEXTS_MAX;
        if (!s && (s = stmt_make(c, text)) && !map_put(&c->texts, str_c(text), s)) {
            stmt_free(s);
            s = NULL;
        }
    }
    if (!s) {
        err_set(err, ERR_NOMEM, "no memory for a statement");
    }
    return s;
}

struct wire { /* parameters as libpq takes them */
    const char **values;
    int *lengths, *formats;
};

static bool wire_make(struct arena *a, const struct db_val *args, size_t n, struct wire *w,
                      struct error *err)
{
    w->values = arena_alloc(a, n * sizeof(char *));
    w->lengths = arena_alloc(a, n * sizeof(int));
    w->formats = arena_alloc(a, n * sizeof(int));
    bool ok = w->values && w->lengths && w->formats;
    for (size_t i = 0; ok && i < n; i++) {
        const struct db_val *v = &args[i];
        switch (v->type) {
        case DB_NULL: break;
        case DB_INT: ok = (w->values[i] = z_fmt(a, "%lld", (long long)v->i))[0] != '\0'; break;
        case DB_FLOAT: ok = (w->values[i] = z_fmt(a, "%.17g", v->f))[0] != '\0'; break;
        case DB_TEXT:
            if (v->s.n && memchr(v->s.p, '\0', v->s.n)) {
                return err_set(err, ERR_INVALID, "a text must not hold a zero byte");
            }
            w->values[i] = str_z(a, v->s);
            ok = v->s.n == 0 || w->values[i][0] != '\0';
            break;
        case DB_BLOB:
            w->values[i] = v->s.p ? v->s.p : "";
            w->lengths[i] = (int)v->s.n;
            w->formats[i] = 1;
            ok = v->s.n <= INT32_MAX;
            break;
        }
    }
    return ok ? true : err_set(err, ERR_TOO_LARGE, "the values of a statement are too large");
}

static bool take_rows(struct db_tx *tx, const PGresult *r, struct db_rows *out, struct error *err)
{
    int rows = PQntuples(r), cols = PQnfields(r);
    size_t cells = (size_t)rows * (size_t)cols;
    if (rows == 0) {
        return true;
    }
    const char **names = arena_alloc(tx->arena, (size_t)cols * sizeof(*names));
    out->v = arena_alloc(tx->arena, cells * sizeof(*out->v));
    if (!names || !out->v) {
        return db_rows_full(err);
    }
    for (int j = 0; j < cols; j++) {
        names[j] = str_z(tx->arena, str_c(PQfname(r, j)));
    }
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < cols; j++) {
            struct db_val *v = &out->v[(size_t)i * (size_t)cols + (size_t)j];
            if (!PQgetisnull(r, i, j) && !pg_value(tx->arena, PQftype(r, j), PQgetvalue(r, i, j),
                                                   (size_t)PQgetlength(r, i, j), v)) {
                return arena_failed(tx->arena)
                           ? db_rows_full(err)
                           : err_set(err, ERR_PROTOCOL, "PostgreSQL sent an odd value");
            }
        }
    }
    out->n = (size_t)rows;
    out->cols = (size_t)cols;
    out->names = names;
    return true;
}

/* BEGIN and the scope, as part of the pipeline of the first statement: no round trip of their own. */
static bool send_begin(struct db_tx *tx, size_t *sent)
{
    PGconn *h = tx->pg->h;
    const char *values[2];
    const char *begin = tx->writes ? "BEGIN" : "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    if (!PQsendQueryParams(h, begin, 0, NULL, NULL, NULL, NULL, 0)) {
        return false;
    }
    ++*sent;
    if (pg_scope_setting(tx, &values[0], &values[1])) {
        if (!PQsendQueryParams(h, "SELECT set_config($1, $2, true)", 2, NULL, values, NULL, NULL,
                               0)) {
            return false;
        }
        ++*sent;
    }
    return true;
}

static bool enter(struct pg_conn *c, struct error *err)
{
    return PQpipelineStatus(c->h) != PQ_PIPELINE_OFF || PQenterPipelineMode(c->h) == 1
               ? true
               : lost(c, err);
}

bool pg_conn_run(struct db_tx *tx, struct db_sql *sql, const char *text, const struct db_val *args,
                 size_t n, int64_t *changed, struct db_rows *out, struct error *err)
{
    struct pg_conn *c = tx->pg;
    struct pg_stmt *s = stmt_of(c, sql, text, err);
    if (!s) {
        return false;
    }
    struct wire w;
    if ((size_t)s->params != n || n > ARGS_MAX) {
        return err_set(err, ERR_INTERNAL, "a statement takes %d values, not %zu", s->params, n);
    }
    if (!wire_make(tx->arena, args, n, &w, err) || !enter(c, err)) {
        return false;
    }
    size_t sent = 0, at_prepare = SIZE_MAX;
    bool begin = !c->begun;
    bool ok = !begin || send_begin(tx, &sent);
    if (ok && !s->prepared) {
        at_prepare = sent++;
        ok = PQsendPrepare(c->h, s->name, s->text, 0, NULL) == 1;
    }
    ok = ok && PQsendQueryPrepared(c->h, s->name, (int)n, w.values, w.lengths, w.formats, 0) == 1 &&
         PQpipelineSync(c->h) == 1;
    sent++;
    if (!ok) {
        return lost(c, err);
    }
    PGresult *results[4] = {NULL};
    ok = flush(c, err) && answers(c, results, sent, err);
    c->begun = c->begun || (begin && results[0]);
    s->prepared = s->prepared || (at_prepare != SIZE_MAX && results[at_prepare]);
    if (ok) {
        PGresult *r = results[sent - 1];
        if (changed && !str_to_i64(str_c(PQcmdTuples(r)), changed)) {
            *changed = 0;
        }
        ok = !out || take_rows(tx, r, out, err);
    }
    clear(results, sent);
    return ok;
}

/* One statement without values outside the pipeline's first-statement logic: COMMIT, ROLLBACK, BEGIN before a script. */
static bool simple(struct pg_conn *c, const char *text, char *tag, size_t tag_size,
                   struct error *err)
{
    PGresult *r = NULL;
    if (!enter(c, err)) {
        return false;
    }
    if (!PQsendQueryParams(c->h, text, 0, NULL, NULL, NULL, NULL, 0) || !PQpipelineSync(c->h)) {
        return lost(c, err);
    }
    bool ok = flush(c, err) && answers(c, &r, 1, err);
    if (ok) {
        snprintf(tag, tag_size, "%s", PQcmdStatus(r));
    }
    PQclear(r);
    return ok;
}

bool pg_conn_script(struct db_tx *tx, const char *sql, struct error *err)
{
    struct pg_conn *c = tx->pg;
    if (!c->begun) {
        PGresult *results[2] = {NULL};
        size_t sent = 0;
        if (!enter(c, err)) {
            return false;
        }
        bool ok = send_begin(tx, &sent) && PQpipelineSync(c->h) == 1;
        ok = ok ? flush(c, err) && answers(c, results, sent, err) : lost(c, err);
        c->begun = results[0] != NULL;
        clear(results, sent);
        if (!ok) {
            return false;
        }
    }
    if (PQexitPipelineMode(c->h) != 1 || PQsendQuery(c->h, sql) != 1) {
        return lost(c, err);
    }
    bool ok = flush(c, err);
    for (PGresult *r = NULL; !c->broken && next(c, &r, err) && r; PQclear(r)) {
        if (ok && !good(r) && PQresultStatus(r) != PGRES_EMPTY_QUERY) {
            ok = fail(c, r, err);
        }
    }
    return ok && !c->broken;
}

bool pg_conn_commit(struct pg_conn *c, struct error *err)
{
    char tag[32] = "";
    if (!c->begun) {
        return true;
    }
    c->begun = false;
    if (!simple(c, "COMMIT", tag, sizeof(tag), err)) {
        bool unknown = PQstatus(c->h) != CONNECTION_OK;
        c->broken = true;
        return unknown ? err_tag(err, ERR_UNAVAILABLE, 0, "commit_unknown",
                                 "the connection to PostgreSQL was lost during a commit")
                       : false;
    }
    if (strcmp(tag, "COMMIT") != 0) {
        c->broken = true;
        return err_set(err, ERR_INTERNAL, "PostgreSQL rolled the transaction back");
    }
    return true;
}

void pg_conn_rollback(struct pg_conn *c)
{
    char tag[32];
    struct error e;
    if (c->begun && !c->broken && !simple(c, "ROLLBACK", tag, sizeof(tag), &e)) {
        c->broken = true;
        log_warn("db", "rollback: %s", e.msg);
    }
    c->begun = false;
}
