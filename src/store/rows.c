/* Generic rows: statements made from the column tables, values bound, the workspace always from the scope. */
#include "store/rows_private.h"

#include <stdio.h>

enum { TEXT_MAX = 16384, COLUMNS_MAX = 64, LIST_MAX = 100000 };

/* One statement under construction. */
struct stmt {
    struct buf text;
    struct db_val args[2 * COLUMNS_MAX];
    size_t n;
    bool many;
};

static void stmt_free(struct stmt *s)
{
    buf_free(&s->text);
}
#define auto_stmt __attribute__((cleanup(stmt_free))) struct stmt

static void add(struct stmt *s, struct db_val v)
{
    if (s->n < array_len(s->args)) {
        s->args[s->n++] = v;
    } else {
        s->many = true;
    }
}

static bool made(struct stmt *s, struct error *err)
{
    if (s->many || s->text.failed) {
        return err_set(err, s->many ? ERR_INTERNAL : ERR_NOMEM, "a statement could not be made");
    }
    return true;
}

/* False when a tenant's table is used without a scope, or the other way round. */
static bool scope_fits(const struct table *t, const struct scope *scope, struct error *err)
{
    if (column_scope(t) && (!scope || !scope->workspace[0])) {
        return err_set(err, ERR_INTERNAL, "table %s needs a workspace", t->name);
    }
    return true;
}

static bool where(struct stmt *s, const struct table *t, const struct scope *scope,
                  const struct store_eq *eq, size_t n, struct error *err)
{
    const struct column *ws = column_scope(t);
    const char *glue = " WHERE ";
    if (!scope_fits(t, scope, err)) {
        return false;
    }
    if (ws) {
        buf_fmt(&s->text, "%s\"%s\" = ?", glue, ws->name);
        add(s, DB_V_Z(scope->workspace));
        glue = " AND ";
    }
    for (size_t i = 0; i < n; i++) {
        if (!column_find(t, eq[i].column)) {
            return err_set(err, ERR_INTERNAL, "table %s has no column %s", t->name, eq[i].column);
        }
        if (eq[i].value.type == DB_NULL) {
            buf_fmt(&s->text, "%s\"%s\" IS NULL", glue, eq[i].column);
        } else {
            buf_fmt(&s->text, "%s\"%s\" = ?", glue, eq[i].column);
            add(s, eq[i].value);
        }
        glue = " AND ";
    }
    return true;
}

static bool not_found(struct error *err)
{
    return err_tag(err, ERR_NOT_FOUND, 0, "resource_not_found", "Resource not found");
}

/* ---- checking ---- */

bool store_check(const struct table *t, const json_t *row, bool partial, struct error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(row)) {
        return err_set(err, ERR_INVALID, "a JSON object is expected");
    }
    json_object_foreach ((json_t *)(uintptr_t)row, key, value) {
        const struct column *c = column_find(t, key);
        if (!c) {
            return err_set(err, ERR_INVALID, "unknown field: %s", key);
        }
        if (!(c->flags & (COL_SCOPE | COL_AUTO)) && !column_check(c, value, err)) {
            return false;
        }
    }
    const unsigned filled =
        COL_NULL | COL_SCOPE | COL_AUTO | COL_UUID | COL_NOW_INSERT | COL_NOW_UPDATE;
    for (const struct column *c = t->columns; !partial && c->name; c++) {
        if (!c->def && !(c->flags & filled) && !json_object_get(row, c->name)) {
            return err_set(err, ERR_INVALID, "%s is required", c->name);
        }
    }
    return true;
}

/* ---- insert ---- */

/* The value of a column at insert (new reference); NULL with an error. */
static json_t *insert_value(const struct column *c, const json_t *row, const char *now,
                            struct error *err)
{
    json_t *given = json_object_get(row, c->name);
    char uuid[UUID_SIZE];
    if (given) {
        return json_incref(given);
    }
    json_t *made = NULL;
    if (c->flags & COL_UUID) {
        uuid4(uuid);
        made = json_string(uuid);
    } else if (c->flags & (COL_NOW_INSERT | COL_NOW_UPDATE)) {
        made = json_string(now);
    } else if (c->def) {
        return json_parse(str_c(c->def), err);
    } else {
        return json_null();
    }
    if (!made) {
        err_set(err, ERR_NOMEM, "no memory for a row");
    }
    return made;
}

/* A stored value as it will be read back (new reference). */
static json_t *normal(const struct column *c, json_t *value)
{
    char iso[TIME_ISO_SIZE];
    int64_t us;
    if (c->type == COL_TIME && time_parse(json_sv(value), &us)) {
        return json_string(time_iso(us, iso));
    }
    return c->type == COL_FLOAT && json_is_integer(value) ? json_real(json_number_value(value))
                                                          : json_incref(value);
}

static bool insert_column(struct stmt *s, struct db_tx *tx, const struct store *st,
                          const struct table *t, const struct column *c, const struct scope *scope,
                          const json_t *row, json_t *stored, const char *now, struct error *err)
{
    struct db_val v;
    json_t *value;
    if (c->flags & COL_SCOPE) {
        value = json_string(scope->workspace);
        v = DB_V_Z(scope->workspace);
    } else {
        value = insert_value(c, row, now, err);
        /* The arena keeps the value: texts are bound from where they are. */
        if (!value || !(value = arena_json(db_tx_arena(tx), value)) ||
            !column_bind(db_tx_arena(tx), st, t, c, value, &v, err)) {
            return value                      ? false
                   : err->code == ERR_INVALID ? false
                                              : err_set(err, ERR_NOMEM, "no memory for a row");
        }
        value = normal(c, value);
    }
    add(s, v);
    if (c->flags & COL_HIDDEN) {
        json_decref(value);
        return true;
    }
    return json_set(stored, c->name, value) ? true : err_set(err, ERR_NOMEM, "no memory for a row");
}

json_t *store_insert(struct db_tx *tx, const struct store *st, const struct table *t,
                     const struct scope *scope, const json_t *row, struct error *err)
{
    auto_json stored = json_object();
    auto_stmt s = {.text = BUF(TEXT_MAX)};
    const struct column *automatic = NULL;
    char now[TIME_ISO_SIZE];
    if (!stored || !scope_fits(t, scope, err) || !store_check(t, row, false, err)) {
        return stored ? NULL : (err_set(err, ERR_NOMEM, "no memory for a row"), NULL);
    }
    time_iso(time_wall_us(), now);
    buf_fmt(&s.text, "INSERT INTO \"%s\" (", t->name);
    bool ok = true;
    for (const struct column *c = t->columns; ok && c->name; c++) {
        if (c->flags & COL_AUTO) {
            automatic = c;
            continue;
        }
        buf_fmt(&s.text, "%s\"%s\"", s.n ? ", " : "", c->name);
        ok = insert_column(&s, tx, st, t, c, scope, row, stored, now, err);
    }
    buf_z(&s.text, ") VALUES (");
    for (size_t i = 0; i < s.n; i++) {
        buf_z(&s.text, i ? ", ?" : "?");
    }
    buf_c(&s.text, ')');
    if (automatic) {
        buf_fmt(&s.text, " RETURNING \"%s\"", automatic->name);
    }
    struct db_rows out = {.n = 0};
    const char *sql = buf_cstr(&s.text);
    ok = ok && made(&s, err) &&
         (automatic ? db_query_text(tx, sql, s.args, s.n, &out, err)
                    : db_exec_text(tx, sql, s.args, s.n, NULL, err));
    if (ok && automatic && !json_set(stored, automatic->name, json_integer(db_at(&out, 0, 0)->i))) {
        ok = err_set(err, ERR_NOMEM, "no memory for a row");
    }
    if (!ok) {
        return NULL;
    }
    db_touch(tx, t->group);
    return steal(stored);
}

/* ---- reading ---- */

static void select_list(struct stmt *s, const struct table *t, bool raw)
{
    const char *glue = "SELECT ";
    for (const struct column *c = t->columns; c->name; c++) {
        if (raw || !(c->flags & COL_HIDDEN)) {
            buf_fmt(&s->text, "%s\"%s\"", glue, c->name);
            glue = ", ";
        }
    }
    buf_fmt(&s->text, " FROM \"%s\"", t->name);
}

static json_t *row_json(struct db_tx *tx, const struct store *st, const struct table *t,
                        const struct db_rows *rows, size_t at, bool raw, struct error *err)
{
    auto_json row = json_object();
    size_t i = 0;
    for (const struct column *c = t->columns; row && c->name; c++) {
        if (!raw && (c->flags & COL_HIDDEN)) {
            continue;
        }
        json_t *value = column_json(db_tx_arena(tx), st, t, c, db_at(rows, at, i++), err);
        if (!value) {
            return NULL;
        }
        if (!json_set(row, c->name, value)) {
            err_set(err, ERR_NOMEM, "no memory for a row");
            return NULL;
        }
    }
    if (!row) {
        err_set(err, ERR_NOMEM, "no memory for a row");
    }
    return steal(row);
}

json_t *store_get(struct db_tx *tx, const struct store *st, const struct table *t,
                  const struct scope *scope, const struct store_eq *key, size_t n, bool raw,
                  struct error *err)
{
    auto_stmt s = {.text = BUF(TEXT_MAX)};
    struct db_rows rows;
    select_list(&s, t, raw);
    bool ok = where(&s, t, scope, key, n, err);
    buf_z(&s.text, " LIMIT 1");
    ok = ok && made(&s, err) && db_query_text(tx, buf_cstr(&s.text), s.args, s.n, &rows, err);
    if (!ok) {
        return NULL;
    }
    if (rows.n == 0) {
        not_found(err);
        return NULL;
    }
    return row_json(tx, st, t, &rows, 0, raw, err);
}

json_t *store_list(struct db_tx *tx, const struct store *st, const struct table *t,
                   const struct scope *scope, const struct store_eq *eq, size_t n,
                   const char *order, int64_t limit, int64_t offset, bool raw, struct error *err)
{
    auto_stmt s = {.text = BUF(TEXT_MAX)};
    struct db_rows rows;
    select_list(&s, t, raw);
    bool ok = where(&s, t, scope, eq, n, err);
    buf_fmt(&s.text, " ORDER BY %s LIMIT ? OFFSET ?", order ? order : t->order);
    add(&s, DB_V_I(limit < 0 || limit > LIST_MAX ? LIST_MAX : limit));
    add(&s, DB_V_I(offset < 0 ? 0 : offset));
    ok = ok && made(&s, err) && db_query_text(tx, buf_cstr(&s.text), s.args, s.n, &rows, err);
    if (!ok) {
        return NULL;
    }
    auto_json list = json_array();
    for (size_t i = 0; list && i < rows.n; i++) {
        json_t *row = row_json(tx, st, t, &rows, i, raw, err);
        if (!row) {
            return NULL;
        }
        if (json_array_append_new(list, row) != 0) {
            err_set(err, ERR_NOMEM, "no memory for rows");
            return NULL;
        }
    }
    if (!list) {
        err_set(err, ERR_NOMEM, "no memory for rows");
    }
    return steal(list);
}

bool store_count(struct db_tx *tx, const struct table *t, const struct scope *scope,
                 const struct store_eq *eq, size_t n, int64_t *out, struct error *err)
{
    auto_stmt s = {.text = BUF(TEXT_MAX)};
    struct db_rows rows;
    buf_fmt(&s.text, "SELECT count(*) FROM \"%s\"", t->name);
    bool ok = where(&s, t, scope, eq, n, err) && made(&s, err) &&
              db_query_text(tx, buf_cstr(&s.text), s.args, s.n, &rows, err);
    if (ok) {
        *out = db_at(&rows, 0, 0)->i;
    }
    return ok;
}

/* ---- update and delete ---- */

static bool set_list(struct stmt *s, struct db_tx *tx, const struct store *st,
                     const struct table *t, const json_t *patch, bool raw, struct error *err)
{
    const char *glue = " SET ";
    char *now = arena_alloc(db_tx_arena(tx), TIME_ISO_SIZE);
    if (!now) {
        return err_set(err, ERR_NOMEM, "no memory for a row");
    }
    time_sql(time_wall_us(), now);
    for (const struct column *c = t->columns; c->name; c++) {
        json_t *value = json_object_get(patch, c->name);
        struct db_val v;
        bool open =
            value && !(c->flags & (COL_SCOPE | COL_AUTO)) && (raw || !(c->flags & COL_FIXED));
        if (open) {
            if (!column_bind(db_tx_arena(tx), st, t, c, value, &v, err)) {
                return false;
            }
        } else if (c->flags & COL_NOW_UPDATE) {
            v = DB_V_Z(now);
        } else {
            continue;
        }
        buf_fmt(&s->text, "%s\"%s\" = ?", glue, c->name);
        add(s, v);
        glue = ", ";
    }
    return true;
}

bool store_update(struct db_tx *tx, const struct store *st, const struct table *t,
                  const struct scope *scope, const struct store_eq *key, size_t n,
                  const json_t *patch, bool raw, struct error *err)
{
    auto_stmt s = {.text = BUF(TEXT_MAX)};
    int64_t changed = 0;
    if (!scope_fits(t, scope, err) || !store_check(t, patch, true, err)) {
        return false;
    }
    buf_fmt(&s.text, "UPDATE \"%s\"", t->name);
    bool ok = set_list(&s, tx, st, t, patch, raw, err);
    if (ok && s.n == 0) { /* nothing to write; the row must exist all the same */
        ok = store_count(tx, t, scope, key, n, &changed, err);
        return ok && changed == 0 ? not_found(err) : ok;
    }
    ok = ok && where(&s, t, scope, key, n, err) && made(&s, err) &&
         db_exec_text(tx, buf_cstr(&s.text), s.args, s.n, &changed, err);
    if (ok && changed == 0) {
        return not_found(err);
    }
    if (ok) {
        db_touch(tx, t->group);
    }
    return ok;
}

bool store_delete(struct db_tx *tx, const struct store *st, const struct table *t,
                  const struct scope *scope, const struct store_eq *key, size_t n, int64_t *deleted,
                  struct error *err)
{
    auto_stmt s = {.text = BUF(TEXT_MAX)};
    int64_t changed = 0;
    buf_fmt(&s.text, "DELETE FROM \"%s\"", t->name);
    bool ok = where(&s, t, scope, key, n, err) && made(&s, err) &&
              db_exec_text(tx, buf_cstr(&s.text), s.args, s.n, &changed, err);
    if (ok && changed > 0) {
        db_touch(tx, t->group);
    }
    if (ok && deleted) {
        *deleted = changed;
    }
    return ok;
}
