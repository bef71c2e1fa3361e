/* context: the tenant envelope of a request (box.md §1.4). */
#include "rpc/rpc_private.h"

static bool refuse(struct error *err, const char *what)
{
    return err_tag(err, ERR_INVALID, 0, "ValidationError", "context.%s", what);
}

/* A text that is not blank, trimmed into `out`. */
static bool take_text(const json_t *context, json_t *out, const char *name, bool required,
                      struct error *err)
{
    const json_t *value = json_object_get(context, name);
    if (!required && (!value || json_is_null(value)))
        return true;
    struct str text = str_trim(json_sv(value));
    if (text.n == 0 || memchr(text.p, '\0', text.n))
        return err_tag(err, ERR_INVALID, 0, "ValidationError",
                       "context.%s must be a text that is not empty", name);
    return json_set(out, name, json_strn(text)) || err_set(err, ERR_NOMEM, "out of memory");
}

static bool take_count(const json_t *context, json_t *out, const char *name, struct error *err)
{
    const json_t *value = json_object_get(context, name);
    if (!json_is_integer(value) || json_integer_value(value) < 1)
        return err_tag(err, ERR_INVALID, 0, "ValidationError",
                       "context.%s must be an integer of at least 1", name);
    return json_set(out, name, json_integer(json_integer_value(value))) ||
           err_set(err, ERR_NOMEM, "out of memory");
}

static bool is_digest(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!strchr("0123456789abcdef", s.p[i]) || !s.p[i])
            return false;
    return s.n == 64;
}

static bool given(const json_t *context, const char *name)
{
    const json_t *value = json_object_get(context, name);
    return value && !json_is_null(value);
}

/* The members that only the binding of an installed plugin has: both or none. */
static bool take_binding(const json_t *context, json_t *out, struct error *err)
{
    bool revision = given(context, "runtime_revision"), digest = given(context, "artifact_digest");
    if (!revision && !digest)
        return true;
    if (!take_text(context, out, "installation_uuid", true, err) ||
        !take_count(context, out, "runtime_revision", err))
        return false;
    struct str text = json_s(context, "artifact_digest");
    if (!is_digest(text))
        return refuse(err, "artifact_digest must be 64 lowercase hex digits");
    return json_set(out, "artifact_digest", json_strn(text)) ||
           err_set(err, ERR_NOMEM, "out of memory");
}

static bool take_members(const json_t *context, json_t *out, struct error *err)
{
    static const char *const known[] = {"instance_uuid",        "workspace_uuid",
                                        "placement_generation", "installation_uuid",
                                        "runtime_revision",     "artifact_digest"};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)context, key, value) {
        size_t i = 0;
        while (i < array_len(known) && strcmp(known[i], key) != 0)
            i++;
        if (i == array_len(known))
            return err_tag(err, ERR_INVALID, 0, "ValidationError",
                           "context has an unknown member \"%.100s\"", key);
    }
    if (!take_text(context, out, "instance_uuid", true, err) ||
        !take_text(context, out, "workspace_uuid", true, err) ||
        !take_text(context, out, "installation_uuid", false, err) ||
        !take_binding(context, out, err))
        return false;
    if (json_object_get(context, "placement_generation"))
        return take_count(context, out, "placement_generation", err);
    return json_set(out, "placement_generation", json_integer(1)) ||
           err_set(err, ERR_NOMEM, "out of memory");
}

bool rpc_context_check(const json_t *context, json_t **out, struct error *err)
{
    *out = NULL;
    if (!context || json_is_null(context))
        return true;
    if (!json_is_object(context))
        return err_tag(err, ERR_INVALID, 0, "ValidationError", "context must be an object");
    auto_json made = json_object();
    if (!made)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (!take_members(context, made, err))
        return false;
    *out = steal(made);
    return true;
}
