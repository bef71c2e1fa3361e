/* lax: the coercions that peers rely on (box.md §3.0), and small syntax of paths and ids. */
#include "box/spec.h"

#include <math.h>
#include <stdio.h>

bool spec_refuse(struct error *err, const char *fmt, ...)
{
    char text[sizeof(err->msg)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return err_tag(err, ERR_INVALID, 0, "BoxValidationError", "%s", text);
}

bool lax_int(const json_t *j, int64_t *out)
{
    if (json_is_integer(j) || json_is_boolean(j)) {
        *out = json_is_integer(j) ? json_integer_value(j) : json_is_true(j);
        return true;
    }
    if (json_is_real(j)) {
        double value = json_real_value(j);
        if (value != floor(value) || fabs(value) > 9e15)
            return false;
        *out = (int64_t)value;
        return true;
    }
    return json_is_string(j) && str_to_i64(str_trim(json_sv(j)), out);
}

bool lax_float(const json_t *j, double *out)
{
    if (json_is_number(j) || json_is_boolean(j)) {
        *out = json_is_number(j) ? json_number_value(j) : json_is_true(j);
        return isfinite(*out);
    }
    return json_is_string(j) && str_to_f64(str_trim(json_sv(j)), out) && isfinite(*out);
}

bool lax_bool(const json_t *j, bool *out)
{
    static const char *const yes[] = {"true", "1", "yes", "on", "t", "y"};
    static const char *const no[] = {"false", "0", "no", "off", "f", "n"};
    if (json_is_boolean(j)) {
        *out = json_is_true(j);
        return true;
    }
    double value;
    if (json_is_number(j)) {
        value = json_number_value(j);
        *out = value == 1;
        return value == 0 || value == 1;
    }
    struct str s = str_trim(json_sv(j));
    for (size_t i = 0; s.p && i < array_len(yes); i++) {
        if (str_ieqz(s, yes[i]) || str_ieqz(s, no[i])) {
            *out = str_ieqz(s, yes[i]);
            return true;
        }
    }
    return false;
}

const char *mode_name(enum box_mode mode)
{
    static const char *const names[] = {"none", "ro", "rw"};
    return names[mode];
}

const char *path_normal(struct arena *a, struct str path)
{
    char *out = arena_alloc(a, path.n + 2);
    if (!out)
        return "";
    size_t n = 0;
    struct str part;
    while (str_split(&path, '/', &part)) {
        if (part.n == 0 || str_eqz(part, "."))
            continue;
        if (str_eqz(part, "..")) {
            while (n > 0 && out[--n] != '/')
                ;
            continue;
        }
        out[n++] = '/';
        memcpy(out + n, part.p, part.n);
        n += part.n;
    }
    if (n == 0)
        out[n++] = '/';
    out[n] = '\0';
    return out;
}

bool path_within(const char *path, const char *root)
{
    size_t n = strlen(root);
    if (n == 1 && root[0] == '/')
        return path[0] == '/';
    return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

bool path_has_dots(struct str path)
{
    struct str part;
    while (str_split(&path, '/', &part))
        if (str_eqz(part, ".."))
            return true;
    return false;
}

bool box_session_id_read(const json_t *value, const char *class_name, struct str *out,
                         struct error *err)
{
    *out = str_trim(json_sv(value));
    if (!json_is_string(value) || out->n == 0 || out->n > SPEC_ID_MAX)
        return err_tag(err, ERR_INVALID, 0, class_name,
                       "session_id must be a text of 1 to %d bytes", SPEC_ID_MAX);
    for (size_t i = 0; i < out->n; i++)
        if ((unsigned char)out->p[i] < 0x20 || out->p[i] == 0x7f)
            return err_tag(err, ERR_INVALID, 0, class_name,
                           "session_id must not hold control characters");
    return true;
}
