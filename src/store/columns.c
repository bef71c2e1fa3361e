/* Values between JSON rows and the database, as the column tables say. */
#include "store/rows_private.h"

#include <math.h>
#include <stdio.h>

const struct column *column_find(const struct table *t, const char *name)
{
    for (const struct column *c = t->columns; c->name; c++) {
        if (strcmp(c->name, name) == 0) {
            return c;
        }
    }
    return NULL;
}

const struct column *column_scope(const struct table *t)
{
    for (const struct column *c = t->columns; c->name; c++) {
        if (c->flags & COL_SCOPE) {
            return c;
        }
    }
    return NULL;
}

/* ---- checking ---- */

static bool wrong_type(const struct column *c, const char *what, struct error *err)
{
    return err_set(err, ERR_INVALID, "%s must be %s", c->name, what);
}

static bool check_text(const struct column *c, const json_t *value, struct error *err)
{
    if (!json_is_string(value)) {
        return wrong_type(c, "a string", err);
    }
    struct str s = json_sv(value);
    if (s.n && memchr(s.p, '\0', s.n)) {
        return err_set(err, ERR_INVALID, "%s must not contain a zero character", c->name);
    }
    /* Bytes bound the characters from above, so most texts are not counted. */
    if (c->max && s.n > (size_t)c->max && utf8_count(s) > (size_t)c->max) {
        return err_set(err, ERR_INVALID, "%s must be at most %d characters long", c->name, c->max);
    }
    return true;
}

static bool check_time(const struct column *c, const json_t *value, struct error *err)
{
    int64_t us;
    if (!json_is_string(value) || !time_parse(json_sv(value), &us)) {
        return wrong_type(c, "an ISO 8601 time", err);
    }
    return true;
}

bool column_check(const struct column *c, const json_t *value, struct error *err)
{
    if (!value || json_is_null(value)) {
        return c->flags & COL_NULL ? true
                                   : err_set(err, ERR_INVALID, "%s must not be null", c->name);
    }
    switch (c->type) {
    case COL_STR:
    case COL_TEXT: return check_text(c, value, err);
    case COL_JSON: return true;
    case COL_INT: return json_is_integer(value) ? true : wrong_type(c, "an integer", err);
    case COL_FLOAT:
        return json_is_number(value) && isfinite(json_number_value(value))
                   ? true
                   : wrong_type(c, "a number", err);
    case COL_BOOL: return json_is_boolean(value) ? true : wrong_type(c, "true or false", err);
    case COL_TIME: return check_time(c, value, err);
    case COL_BLOB: return json_is_string(value) ? true : wrong_type(c, "base64 text", err);
    }
    return err_set(err, ERR_INTERNAL, "column %s has no type", c->name);
}

/* ---- sealing ---- */

static struct str seal_context(struct arena *a, const struct table *t, const struct column *c)
{
    return str_fmt(a, "%s.%s", t->name, c->name);
}

static bool full(struct error *err)
{
    return err_set(err, ERR_TOO_LARGE, "a row is too large");
}

/* In a JSON column the sealed text is a JSON string, which every engine takes. Empty values are no secret. */
static bool seal_value(struct arena *a, const struct store *st, const struct table *t,
                       const struct column *c, const json_t *value, struct db_val *v,
                       struct error *err)
{
    bool empty = c->type == COL_JSON ? (json_is_array(value) && json_array_size(value) == 0) ||
                                           (json_is_object(value) && json_object_size(value) == 0)
                                     : v->s.n == 0;
    if (empty) {
        return true;
    }
    if (!st) {
        return err_set(err, ERR_INTERNAL, "%s.%s cannot be written without the seal", t->name,
                       c->name);
    }
    struct str sealed;
    if (!seal(a, &st->key, seal_context(a, t, c), v->s, &sealed, err)) {
        return false;
    }
    v->s = c->type == COL_JSON ? str_fmt(a, "\"" STR_FMT "\"", STR_ARG(sealed)) : sealed;
    return v->s.p ? true : full(err);
}

bool column_bind(struct arena *a, const struct store *st, const struct table *t,
                 const struct column *c, const json_t *value, struct db_val *out, struct error *err)
{
    if (!column_check(c, value, err)) {
        return false;
    }
    if (!value || json_is_null(value)) {
        *out = DB_V_NULL;
        return true;
    }
    int64_t us;
    char *text;
    switch (c->type) {
    case COL_STR:
    case COL_TEXT: *out = DB_V_S(json_sv(value)); break;
    case COL_JSON:
        *out = DB_V_S(json_text(a, value));
        if (!out->s.p) {
            return full(err);
        }
        break;
    case COL_INT: *out = DB_V_I(json_integer_value(value)); break;
    case COL_FLOAT: *out = DB_V_F(json_number_value(value)); break;
    case COL_BOOL: *out = DB_V_B(json_is_true(value)); break;
    case COL_TIME:
        text = arena_alloc(a, TIME_ISO_SIZE);
        if (!text || !time_parse(json_sv(value), &us)) {
            return full(err);
        }
        *out = DB_V_Z(time_sql(us, text));
        break;
    case COL_BLOB:
        *out = DB_V_BLOB(STR_NONE);
        if (!base64_decode(a, json_sv(value), SIZE_MAX, &out->s, err)) {
            return err_wrap(err, "%s", c->name);
        }
        break;
    }
    return !(c->flags & COL_SEALED) || seal_value(a, st, t, c, value, out, err);
}

/* ---- reading ---- */

static json_t *no_memory(json_t *j, struct error *err)
{
    if (!j) {
        err_set(err, ERR_NOMEM, "no memory for a row");
    }
    return j;
}

static json_t *read_json(struct arena *a, const struct store *st, const struct table *t,
                         const struct column *c, const struct db_val *v, struct error *err)
{
    /* SQLite keeps a number in a JSON column as a number. */
    if (v->type == DB_INT) {
        return no_memory(json_integer(v->i), err);
    }
    if (v->type == DB_FLOAT) {
        return no_memory(json_real(v->f), err);
    }
    auto_json j = json_parse_words(v->s, err);
    if (!j && err->code == ERR_INVALID) {
        err_set(err, ERR_INTERNAL, "%s.%s holds no JSON", t->name, c->name);
    }
    if (!j || !(c->flags & COL_SEALED) || !json_is_string(j)) {
        return steal(j);
    }
    struct str plain;
    if (!unseal(a, &st->key, seal_context(a, t, c), json_sv(j), &plain, err)) {
        err_wrap(err, "%s.%s", t->name, c->name);
        return NULL;
    }
    return plain.p == json_string_value(j) ? steal(j) : json_parse(plain, err);
}

static json_t *read_text(struct arena *a, const struct store *st, const struct table *t,
                         const struct column *c, const struct db_val *v, struct error *err)
{
    char number[32];
    struct str s = v->s;
    if (v->type == DB_INT || v->type == DB_FLOAT) {
        snprintf(number, sizeof(number), v->type == DB_INT ? "%.0f" : "%.17g",
                 v->type == DB_INT ? (double)v->i : v->f);
        s = str_c(number);
    }
    if ((c->flags & COL_SEALED) && !unseal(a, &st->key, seal_context(a, t, c), s, &s, err)) {
        err_wrap(err, "%s.%s", t->name, c->name);
        return NULL;
    }
    return no_memory(json_strn(s), err);
}

json_t *column_json(struct arena *a, const struct store *st, const struct table *t,
                    const struct column *c, const struct db_val *v, struct error *err)
{
    char iso[TIME_ISO_SIZE];
    int64_t us;
    struct str text;
    if (v->type == DB_NULL) {
        return json_null();
    }
    if ((c->flags & COL_SEALED) && !st) {
        err_set(err, ERR_INTERNAL, "%s.%s cannot be read without the seal", t->name, c->name);
        return NULL;
    }
    switch (c->type) {
    case COL_STR:
    case COL_TEXT: return read_text(a, st, t, c, v, err);
    case COL_JSON: return read_json(a, st, t, c, v, err);
    case COL_INT:
        return no_memory(json_integer(v->type == DB_FLOAT ? (json_int_t)v->f : v->i), err);
    case COL_FLOAT: return no_memory(json_real(v->type == DB_INT ? (double)v->i : v->f), err);
    case COL_BOOL: return json_boolean(v->i != 0);
    case COL_TIME:
        return no_memory(time_parse(v->s, &us) ? json_string(time_iso(us, iso)) : json_strn(v->s),
                         err);
    case COL_BLOB:
        text = base64_encode(a, v->s);
        return text.p ? no_memory(json_strn(text), err) : (full(err), NULL);
    }
    return json_null();
}
