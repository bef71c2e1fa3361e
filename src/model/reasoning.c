/* How hard a model is asked to think (§8). All knowledge of names is in metadata/models.yaml. */
#include "model/model_private.h"

#include <stdlib.h>

static const char *const fallback_level = "provider_default";

static bool holds(const json_t *array, struct str text)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (str_eq(json_sv(json_array_get(array, i)), text))
            return true;
    }
    return false;
}

static const json_t *knowledge(const char *path)
{
    const json_t *all = catalogue_models();
    return all ? json_at(all, path) : NULL;
}

const char *reasoning_family(const char *requester, const char *model_name)
{
    char name[256];
    catalogue_name(model_name, false, name, sizeof(name));
    const json_t *by_name = catalogue_rule("reasoning.family_of_name", NULL, NULL, name);
    const char *named = json_z(by_name, "family");

    const json_t *list = knowledge("reasoning.family_of_requester");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *r = json_array_get(list, i);
        if (!str_eqz(json_s(r, "requester"), requester))
            continue;
        bool wins = json_b_or(r, "by_name", false) ||
                    holds(json_object_get(r, "unless_named"), str_c(named));
        return named && wins ? named : json_z(r, "family");
    }
    const json_t *manifest = requester_manifest(requester);
    const char *own =
        manifest ? json_z(json_object_get(manifest, "spec"), "litellm_provider") : NULL;
    return own && strcmp(own, "openai") != 0 ? own : named;
}

const char *reasoning_replay(const char *family)
{
    return family ? json_z(catalogue_rule("reasoning.replay", family, NULL, ""), "field") : NULL;
}

static json_t *capabilities(const json_t *levels, const json_t *legacy, const char *source)
{
    json_t *out = json_object();
    bool supported = strcmp(source, "unknown") != 0;
    json_set(out, "supported", json_boolean(supported));
    json_set(out, "levels", json_deep_copy(levels));
    json_set(out, "source", json_string(source));
    if (legacy)
        json_set(out, "legacy_levels", json_deep_copy(legacy));
    return out;
}

json_t *reasoning_capabilities(const char *requester, const char *model_name,
                               const json_t *abilities)
{
    char name[256];
    const char *family = reasoning_family(requester, model_name);
    catalogue_name(model_name, false, name, sizeof(name));
    const json_t *rule = family ? catalogue_rule("reasoning.known", family, NULL, name) : NULL;
    if (rule)
        return capabilities(json_object_get(rule, "levels"), json_object_get(rule, "legacy_levels"),
                            "provider");
    if (holds(abilities, S("reasoning"))) {
        rule = catalogue_rule("reasoning.declared", family, NULL, name);
        return capabilities(json_object_get(rule, "levels"), NULL, "manual");
    }
    return capabilities(knowledge("reasoning.undeclared"), NULL, "unknown");
}

/* ---- conflicts with raw arguments ------------------------------------------------------------ */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Appends "prefix" + name for each raw argument in `args`, sorted. */
static void raw_args(struct buf *out, const json_t *args, const char *prefix)
{
    const char *found[16];
    size_t n = 0;
    const json_t *raw = knowledge("reasoning.raw_args");
    for (size_t i = 0; i < json_array_size(raw) && n < array_len(found); i++) {
        const char *key = json_string_value(json_array_get(raw, i));
        if (key && json_object_get(args, key))
            found[n++] = key;
    }
    qsort(found, n, sizeof(found[0]), by_text);
    for (size_t i = 0; i < n; i++)
        buf_fmt(out, "%s%s%s", out->n > 0 ? ", " : "", prefix, found[i]);
}

static bool conflict(const json_t *extra, struct error *err)
{
    auto_buf names = BUF(512);
    raw_args(&names, extra, "");
    raw_args(&names, json_object_get(extra, "extra_body"), "extra_body.");
    return names.n == 0 ||
           err_set(err, ERR_INVALID, "reasoning level and extra_args contradict each other: %s",
                   buf_cstr(&names));
}

/* ---- levels ---------------------------------------------------------------------------------- */

static bool level_known(struct str level, struct error *err)
{
    return holds(knowledge("reasoning.levels"), level) ||
           err_set(err, ERR_INVALID, "Unsupported reasoning level: " STR_FMT, STR_ARG(level));
}

static bool level_offered(const char *level, const char *requester, const char *model_name,
                          const json_t *abilities, struct error *err)
{
    auto_json caps = reasoning_capabilities(requester, model_name, abilities);
    bool ok = json_is_true(json_object_get(caps, "supported")) &&
              (holds(json_object_get(caps, "levels"), str_c(level)) ||
               holds(json_object_get(caps, "legacy_levels"), str_c(level)));
    if (ok)
        return true;
    auto_buf offered = BUF(512);
    const json_t *levels = json_object_get(caps, "levels");
    for (size_t i = 0; i < json_array_size(levels); i++)
        buf_fmt(&offered, "%s%s", i > 0 ? ", " : "", json_string_value(json_array_get(levels, i)));
    return err_set(err, ERR_INVALID, "Reasoning level \"%s\" is not offered by %s: %s", level,
                   model_name, buf_cstr(&offered));
}

static bool fields_known(const json_t *config, struct error *err)
{
    const char *extra[32], *key;
    const json_t *value;
    size_t n = 0;
    auto_buf names = BUF(900);
    json_object_foreach ((json_t *)(uintptr_t)config, key, value) {
        if (strcmp(key, "level") != 0 && n < array_len(extra))
            extra[n++] = key;
    }
    qsort(extra, n, sizeof(extra[0]), by_text);
    for (size_t i = 0; i < n; i++)
        buf_fmt(&names, "%s%s", i > 0 ? ", " : "", extra[i]);
    return n == 0 ||
           err_set(err, ERR_INVALID, "Unsupported reasoning_config fields: %s", buf_cstr(&names));
}

json_t *reasoning_check(const json_t *config, const char *requester, const char *model_name,
                        const json_t *abilities, const json_t *extra_args, struct error *err)
{
    const char *level = fallback_level;
    if (config && !json_is_null(config)) {
        if (!json_is_object(config)) {
            err_set(err, ERR_INVALID, "reasoning_config must be an object");
            return NULL;
        }
        const json_t *given = json_object_get(config, "level");
        if (!fields_known(config, err))
            return NULL;
        if (given && !json_is_string(given)) {
            err_set(err, ERR_INVALID, "Unsupported reasoning level: it must be a text");
            return NULL;
        }
        level = given ? json_string_value(given) : level;
    }
    if (!level_known(str_c(level), err))
        return NULL;
    if (strcmp(level, fallback_level) != 0) {
        if (!holds(abilities, S("reasoning"))) {
            err_set(err, ERR_INVALID, "A reasoning level needs the ability \"reasoning\"");
            return NULL;
        }
        if (!conflict(extra_args, err) ||
            !level_offered(level, requester, model_name, abilities, err))
            return NULL;
    }
    json_t *out = json_pack("{s:s}", "level", level);
    if (!out)
        err_set(err, ERR_NOMEM, "out of memory");
    return out;
}

/* ---- what goes over the wire ----------------------------------------------------------------- */

/* A copy in which the text "$level" has become the level. */
static json_t *with_level(const json_t *args, const char *level)
{
    if (str_eqz(json_sv(args), "$level"))
        return json_string(level);
    if (!json_is_object(args))
        return json_deep_copy(args);
    json_t *out = json_object();
    const char *key;
    const json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)args, key, value)
        json_set(out, key, with_level(value, level));
    return out;
}

json_t *reasoning_args(const struct model *m, const char *level, const json_t *extra,
                       const json_t *call_extra, struct error *err)
{
    char name[256];
    const char *requester = m->provider->requester;
    if (!level_known(str_c(level), err))
        return NULL;
    const json_t *args = NULL;
    if (strcmp(level, fallback_level) != 0) {
        if (!conflict(extra, err) || !conflict(call_extra, err) ||
            !level_offered(level, requester, m->name, m->abilities, err))
            return NULL;
        catalogue_name(m->name, false, name, sizeof(name));
        const json_t *rule =
            catalogue_rule("reasoning.wire", reasoning_family(requester, m->name), level, name);
        args = json_object_get(rule, "args");
    }
    json_t *out = args ? with_level(args, level) : json_object();
    if (!out)
        err_set(err, ERR_NOMEM, "out of memory");
    return out;
}
