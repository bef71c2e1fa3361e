/* Validation of JSON bodies against the declared fields of a route. */
#include "net/net.h"

#include <inttypes.h>

static const char *type_name(enum http_type t)
{
    switch (t) {
    case HTTP_STR: return "a string";
    case HTTP_INT: return "an integer";
    case HTTP_NUM: return "a number";
    case HTTP_BOOL: return "true or false";
    case HTTP_OBJ: return "an object";
    case HTTP_ARR: return "an array";
    case HTTP_STR_OR_ARR: return "a string or an array";
    default: return "a value";
    }
}

static bool type_fits(enum http_type t, const json_t *v)
{
    switch (t) {
    case HTTP_STR: return json_is_string(v);
    case HTTP_INT: return json_is_integer(v);
    case HTTP_NUM: return json_is_number(v);
    case HTTP_BOOL: return json_is_boolean(v);
    case HTTP_OBJ: return json_is_object(v);
    case HTTP_ARR: return json_is_array(v);
    case HTTP_STR_OR_ARR: return json_is_string(v) || json_is_array(v);
    default: return true;
    }
}

static bool check_length(const struct http_field *f, const json_t *v, struct error *err)
{
    bool text = json_is_string(v);
    int64_t n = text ? (int64_t)utf8_count(json_sv(v)) : (int64_t)json_array_size(v);
    const char *unit = text ? "characters" : "entries";
    if (n < f->min && f->min == 1)
        return err_set(err, ERR_INVALID, "%s must not be empty", f->name);
    if (n < f->min)
        return err_set(err, ERR_INVALID, "%s must be at least %" PRId64 " %s", f->name, f->min,
                       unit);
    if (f->max >= f->min && f->max > 0 && n > f->max)
        return err_set(err, ERR_INVALID, "%s must be at most %" PRId64 " %s", f->name, f->max,
                       unit);
    return true;
}

static bool check_number(const struct http_field *f, const json_t *v, struct error *err)
{
    bool low, high, bounded = f->max >= f->min;
    if (json_is_integer(v)) {
        low = json_integer_value(v) < f->min;
        high = json_integer_value(v) > f->max;
    } else {
        low = json_real_value(v) < (double)f->min;
        high = json_real_value(v) > (double)f->max;
    }
    if (bounded && (low || high))
        return err_set(err, ERR_INVALID, "%s must be between %" PRId64 " and %" PRId64, f->name,
                       f->min, f->max);
    if (low)
        return err_set(err, ERR_INVALID, "%s must be at least %" PRId64, f->name, f->min);
    return true;
}

static bool check_choice(const struct http_field *f, const json_t *v, struct error *err)
{
    struct str rest = str_c(f->one_of), choice, value = json_sv(v);
    while (str_split(&rest, '|', &choice))
        if (str_eq(choice, value))
            return true;
    auto_buf list = BUF(512);
    rest = str_c(f->one_of);
    while (str_split(&rest, '|', &choice)) {
        if (list.n)
            buf_z(&list, ", ");
        buf_str(&list, choice);
    }
    return err_set(err, ERR_INVALID, "%s must be one of %s", f->name, buf_cstr(&list));
}

static bool check_field(const struct http_field *f, const json_t *v, struct error *err)
{
    if (!v)
        return !f->required || err_set(err, ERR_INVALID, "%s is required", f->name);
    if (json_is_null(v)) {
        if (f->nullable || f->type == HTTP_ANY)
            return true;
        return err_set(err, ERR_INVALID, "%s must be %s, not null", f->name, type_name(f->type));
    }
    if (!type_fits(f->type, v))
        return err_set(err, ERR_INVALID, "%s must be %s", f->name, type_name(f->type));
    if (f->one_of && json_is_string(v) && !check_choice(f, v, err))
        return false;
    if (f->min == 0 && f->max == 0)
        return true;
    if (json_is_number(v))
        return check_number(f, v, err);
    return (!json_is_string(v) && !json_is_array(v)) || check_length(f, v, err);
}

static bool check_unknown(const struct http_field *fields, const json_t *body, struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)body, key, value) {
        bool known = false;
        for (const struct http_field *f = fields; f->name && !known; f++)
            known = strcmp(f->name, key) == 0;
        if (!known)
            return err_set(err, ERR_INVALID, "unknown field %.64s", key);
    }
    return true;
}

bool http_fields_check(const struct http_field *fields, const json_t *body, bool closed,
                       struct error *err)
{
    if (!json_is_object(body))
        return err_set(err, ERR_INVALID, "the body must be a JSON object");
    for (const struct http_field *f = fields; f->name; f++)
        if (!check_field(f, json_object_get(body, f->name), err))
            return false;
    return !closed || check_unknown(fields, body, err);
}
