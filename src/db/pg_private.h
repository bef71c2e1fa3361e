/* What the PostgreSQL files of db/ share. */
#ifndef PARLEY_DB_PG_PRIVATE_H
#define PARLEY_DB_PG_PRIVATE_H

#include "db/db_private.h"

#include <libpq-fe.h>

struct pg_conn {
    struct list node; /* among the idle ones */
    PGconn *h;
    int64_t created_us;
    struct pg_stmt **slots;
    size_t nslots;
    struct map texts;
    unsigned names;
    bool begun;  /* BEGIN was answered */
    bool broken; /* never used again */
    bool retire; /* holds many statements by now: closed after the transaction */
};

/* Connection parameters as libpq takes them: keyword/value pairs, owned copies. */
enum { PG_PARAMS_MAX = 48 };
struct pg_params {
    char *keys[PG_PARAMS_MAX + 1];
    char *values[PG_PARAMS_MAX + 1];
    size_t n;
};
/* From the URL or the parts; ERR_INVALID without a word of the DSN. persistence-and-ops.md §1 */
bool pg_params_make(struct pg_params *p, const struct db_opts *opts, struct error *err) warn_unused;
void pg_params_free(struct pg_params *p);

/* Blocking; on a worker. NULL on failure. */
struct pg_conn *pg_conn_connect(const struct pg_params *p, struct error *err);
void pg_conn_close(struct pg_conn *c);
/* False when the server has closed it meanwhile. Does not wait. */
bool pg_conn_alive(struct pg_conn *c);
/* One statement in the transaction of `tx`; sends BEGIN and the scope first if nothing was sent yet. */
bool pg_conn_run(struct db_tx *tx, struct db_sql *sql, const char *text, const struct db_val *args,
                 size_t n, int64_t *changed, struct db_rows *out, struct error *err) warn_unused;
bool pg_conn_script(struct db_tx *tx, const char *sql, struct error *err) warn_unused;
/* COMMIT or ROLLBACK; nothing to do when nothing was sent. A connection that failed here is broken. */
bool pg_conn_commit(struct pg_conn *c, struct error *err) warn_unused;
void pg_conn_rollback(struct pg_conn *c);
/* What set_config gets for a scope; false: nothing to set. */
bool pg_scope_setting(const struct db_tx *tx, const char **name, const char **value);
const char *pg_system_scope(const struct db *db);

/* pg_value.c: `?` becomes $1, $2 … outside quotes and comments; owned text or NULL when memory ends. */
char *pg_rewrite(const char *text, int *params);
/* A result cell by its type; false when the arena is full. */
bool pg_value(struct arena *a, unsigned type, const char *p, size_t n, struct db_val *out);

#endif
