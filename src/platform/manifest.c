/* Manifests: read once from the embedded metadata/adapters/<name>.yaml; configurations completed and checked by them.
 * platforms.md §1.1, metadata/README.md. */
#include "platform/platform_private.h"

#include <math.h>

static json_t *cache; /* name → manifest as served; process-wide, loop thread only */

/* {name, label, description, icon, spec} of the document, or NULL. */
static json_t *read_manifest(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "metadata/adapters/%s.yaml", name);
    const struct base_asset *asset = base_asset_find(path);
    if (!asset)
        return NULL;
    struct error err = {0};
    auto_json doc = config_yaml_to_json(str_n((const char *)asset->data, asset->size), path, &err);
    if (!doc) {
        log_error("bot", "%s: %s", path, err.msg);
        return NULL;
    }
    json_t *out = json_deep_copy(json_object_get(doc, "metadata"));
    if (out && json_object_set(out, "spec", json_object_get(doc, "spec")) == 0)
        return out;
    json_decref(out);
    return NULL;
}

const json_t *adapter_manifest(const char *name)
{
    if (!adapter_find(name))
        return NULL;
    if (!cache)
        cache = json_object();
    const json_t *have = json_object_get(cache, name);
    if (have)
        return have;
    json_t *made = read_manifest(name);
    return made && json_set(cache, name, made) ? made : NULL;
}

void manifests_free(void)
{
    json_decref(cache);
    cache = NULL;
}

/* ---- configurations --------------------------------------------------------------------------------------------------------- */

static bool is_option(const json_t *options, const char *value)
{
    size_t i;
    json_t *o;
    json_array_foreach (options, i, o) {
        if (strcmp(json_z_or(o, "name", ""), value) == 0)
            return true;
    }
    return json_array_size(options) == 0;
}

/* Numbers and switches may come as text (forms, imported data). New reference or NULL when it does not fit. */
static json_t *to_integer(const json_t *v)
{
    int64_t i;
    if (json_is_integer(v))
        return json_integer(json_integer_value(v));
    if (json_is_real(v) && fabs(json_real_value(v)) < 1e15 &&
        floor(json_real_value(v)) == json_real_value(v))
        return json_integer((json_int_t)json_real_value(v));
    return json_is_string(v) && str_to_i64(json_sv(v), &i) ? json_integer(i) : NULL;
}

static json_t *to_boolean(const json_t *v)
{
    if (json_is_boolean(v))
        return json_boolean(json_is_true(v));
    if (str_ieqz(json_sv(v), "true"))
        return json_true();
    return str_ieqz(json_sv(v), "false") ? json_false() : NULL;
}

static json_t *converted(const json_t *field, const json_t *v, const char **wanted)
{
    const char *type = json_z_or(field, "type", "string");
    json_t *same = (json_t *)(uintptr_t)v;
    if (strcmp(type, "integer") == 0) {
        *wanted = "an integer";
        return to_integer(v);
    }
    if (strcmp(type, "boolean") == 0) {
        *wanted = "true or false";
        return to_boolean(v);
    }
    if (strncmp(type, "array", 5) == 0) {
        *wanted = "a list";
        return json_is_array(v) ? json_incref(same) : NULL;
    }
    if (strcmp(type, "select") == 0) {
        *wanted = "one of its options";
        bool open = json_is_true(json_object_get(field, "open"));
        return json_is_string(v) &&
                       (open || is_option(json_object_get(field, "options"), json_string_value(v)))
                   ? json_incref(same)
                   : NULL;
    }
    *wanted = "a text";
    return json_is_string(v) ? json_incref(same) : NULL;
}

static bool take_field(const json_t *field, json_t *config, struct error *err)
{
    const char *name = json_z_or(field, "name", "");
    if (!*name || strncmp(name, "__system.", 9) == 0)
        return true;
    const json_t *v = json_object_get(config, name), *def = json_object_get(field, "default");
    if (!v || json_is_null(v)) {
        if (!def)
            return !json_b_or(field, "required", false) ||
                   err_set(err, ERR_INVALID, "adapter_config.%s is required", name);
        return json_object_set_new(config, name, json_deep_copy(def)) == 0 ||
               err_set(err, ERR_NOMEM, "out of memory");
    }
    const char *wanted = "";
    json_t *value = converted(field, v, &wanted);
    if (!value)
        return err_set(err, ERR_INVALID, "adapter_config.%s must be %s", name, wanted);
    return json_set(config, name, value) || err_set(err, ERR_NOMEM, "out of memory");
}

json_t *manifest_config(const struct adapter *a, const json_t *given, struct error *err)
{
    if (given && !json_is_object(given) && !json_is_null(given)) {
        err_set(err, ERR_INVALID, "adapter_config must be an object");
        return NULL;
    }
    auto_json config =
        json_is_object(given) ? json_copy((json_t *)(uintptr_t)given) : json_object();
    if (!config) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    const json_t *fields = json_at(adapter_manifest(a->name), "spec.config");
    size_t i;
    json_t *f;
    json_array_foreach (fields, i, f) {
        if (!take_field(f, config, err))
            return NULL;
    }
    return steal(config);
}
