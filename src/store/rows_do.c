/* The generic rows from a fiber: each call is a unit of work of its own. */
#include "store/rows_private.h"

struct call {
    const struct store *st;
    const struct table *t;
    const struct scope *scope;
    const struct store_eq *eq;
    size_t n;
    const json_t *row;
    const char *order;
    int64_t limit, offset, number;
    bool raw;
    json_t *result;
};

static struct db_scope scope_of(const struct scope *scope)
{
    return scope ? scope_db(scope) : (struct db_scope){.kind = DB_SCOPE_NONE};
}

static bool do_insert(struct db_tx *tx, void *arg, struct error *err)
{
    struct call *c = arg;
    c->result = store_insert(tx, c->st, c->t, c->scope, c->row, err);
    return c->result != NULL;
}

static bool do_get(struct db_tx *tx, void *arg, struct error *err)
{
    struct call *c = arg;
    c->result = store_get(tx, c->st, c->t, c->scope, c->eq, c->n, c->raw, err);
    return c->result != NULL;
}

static bool do_list(struct db_tx *tx, void *arg, struct error *err)
{
    struct call *c = arg;
    c->result = store_list(tx, c->st, c->t, c->scope, c->eq, c->n, c->order, c->limit, c->offset,
                           c->raw, err);
    return c->result != NULL;
}

static bool do_update(struct db_tx *tx, void *arg, struct error *err)
{
    struct call *c = arg;
    return store_update(tx, c->st, c->t, c->scope, c->eq, c->n, c->row, c->raw, err);
}

static bool do_delete(struct db_tx *tx, void *arg, struct error *err)
{
    struct call *c = arg;
    return store_delete(tx, c->st, c->t, c->scope, c->eq, c->n, &c->number, err);
}

static bool do_count(struct db_tx *tx, void *arg, struct error *err)
{
    struct call *c = arg;
    return store_count(tx, c->t, c->scope, c->eq, c->n, &c->number, err);
}

json_t *store_do_insert(const struct store *st, const struct table *t, const struct scope *scope,
                        const json_t *row, struct error *err)
{
    struct call c = {.st = st, .t = t, .scope = scope, .row = row};
    return store_result(db_write(st->db, scope_of(scope), do_insert, &c, err), &c.result);
}

json_t *store_do_get(const struct store *st, const struct table *t, const struct scope *scope,
                     const struct store_eq *key, size_t n, bool raw, struct error *err)
{
    struct call c = {.st = st, .t = t, .scope = scope, .eq = key, .n = n, .raw = raw};
    return store_result(db_read(st->db, scope_of(scope), do_get, &c, err), &c.result);
}

json_t *store_do_list(const struct store *st, const struct table *t, const struct scope *scope,
                      const struct store_eq *where, size_t n, const char *order, int64_t limit,
                      int64_t offset, bool raw, struct error *err)
{
    struct call c = {.st = st,
                     .t = t,
                     .scope = scope,
                     .eq = where,
                     .n = n,
                     .order = order,
                     .limit = limit,
                     .offset = offset,
                     .raw = raw};
    return store_result(db_read(st->db, scope_of(scope), do_list, &c, err), &c.result);
}

bool store_do_update(const struct store *st, const struct table *t, const struct scope *scope,
                     const struct store_eq *key, size_t n, const json_t *patch, bool raw,
                     struct error *err)
{
    struct call c = {.st = st, .t = t, .scope = scope, .eq = key, .n = n, .row = patch, .raw = raw};
    return db_write(st->db, scope_of(scope), do_update, &c, err);
}

bool store_do_delete(const struct store *st, const struct table *t, const struct scope *scope,
                     const struct store_eq *key, size_t n, int64_t *deleted, struct error *err)
{
    struct call c = {.st = st, .t = t, .scope = scope, .eq = key, .n = n};
    bool ok = db_write(st->db, scope_of(scope), do_delete, &c, err);
    if (ok && deleted) {
        *deleted = c.number;
    }
    return ok;
}

bool store_do_count(const struct store *st, const struct table *t, const struct scope *scope,
                    const struct store_eq *where, size_t n, int64_t *out, struct error *err)
{
    struct call c = {.st = st, .t = t, .scope = scope, .eq = where, .n = n};
    bool ok = db_read(st->db, scope_of(scope), do_count, &c, err);
    if (ok) {
        *out = c.number;
    }
    return ok;
}
