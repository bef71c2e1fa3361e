/* Pipelines in use: loaded from their rows, coerced, cached. pipeline.md §6. */
#include "pipeline/engine.h"

enum { FRESH_US = 2000000, PIPES_MAX = 1000 };

/* ---- coercion (§6.3) ------------------------------------------------------------------------------------------------ */

static json_t *whole(double f)
{
    return f > -9e15 && f < 9e15 ? json_integer((json_int_t)f) : NULL;
}

static json_t *to_integer(const json_t *v)
{
    int64_t i;
    double f;
    if (json_is_boolean(v))
        return json_integer(json_is_true(v));
    if (json_is_real(v))
        return whole(json_real_value(v));
    if (json_is_string(v) && str_to_i64(str_trim(json_sv(v)), &i))
        return json_integer(i);
    if (json_is_string(v) && str_to_f64(str_trim(json_sv(v)), &f))
        return whole(f);
    return NULL;
}

static json_t *to_real(const json_t *v)
{
    double f;
    if (json_is_integer(v) || json_is_boolean(v))
        return json_real(json_is_integer(v) ? (double)json_integer_value(v) : json_is_true(v));
    return json_is_string(v) && str_to_f64(str_trim(json_sv(v)), &f) ? json_real(f) : NULL;
}

static json_t *to_boolean(const json_t *v)
{
    if (json_is_string(v)) {
        if (str_ieqz(str_trim(json_sv(v)), "true"))
            return json_true();
        return str_ieqz(str_trim(json_sv(v)), "false") ? json_false() : NULL;
    }
    if (json_is_number(v))
        return json_boolean(json_number_value(v) != 0);
    return json_is_array(v) ? json_boolean(json_array_size(v) > 0)
                            : json_boolean(json_object_size(v) > 0);
}

static void coerce_field(const char *doc, const char *stage, json_t *section, const json_t *field)
{
    const char *name = json_z_or(field, "name", ""), *type = json_z_or(field, "type", "");
    json_t *v = json_object_get(section, name), *to = NULL;
    if (!v || json_is_null(v))
        return;
    if (strcmp(type, "integer") == 0) {
        if (json_is_integer(v))
            return;
        to = to_integer(v);
    } else if (strcmp(type, "number") == 0 || strcmp(type, "float") == 0) {
        if (json_is_real(v))
            return;
        to = to_real(v);
    } else if (strcmp(type, "boolean") == 0) {
        if (json_is_boolean(v))
            return;
        to = to_boolean(v);
    } else {
        return;
    }
    if (to)
        json_object_set_new(section, name, to);
    else
        log_warn("pipeline", "setting %s.%s.%s is no %s and stays as it is", doc, stage, name,
                 type);
}

void pipe_coerce(json_t *config)
{
    const json_t *docs = json_object_get(pipeline_metadata(), "configs");
    size_t i, j, k;
    json_t *doc, *stage, *field;
    json_array_foreach (docs, i, doc) {
        json_t *section = json_object_get(config, json_z_or(doc, "name", ""));
        json_array_foreach (json_object_get(doc, "stages"), j, stage) {
            json_t *fields = json_object_get(section, json_z_or(stage, "name", ""));
            if (!json_is_object(fields))
                continue;
            json_array_foreach (json_object_get(stage, "config"), k, field)
                coerce_field(json_z_or(doc, "name", ""), json_z_or(stage, "name", ""), fields,
                             field);
        }
    }
}

/* ---- loading ------------------------------------------------------------------------------------------------------------ */

static void pipe_free(struct pipe *p)
{
    mem_free(p->name);
    json_decref(p->config);
    json_decref(p->preferences);
    mem_free(p);
}

void pipe_unref(struct pipe *p)
{
    if (p && --p->refs == 0)
        pipe_free(p);
}

static void take_stages(struct pipe *p, const json_t *names)
{
    size_t n = 0, i;
    json_t *name;
    json_array_foreach (names, i, name) {
        const struct stage *const *s = stages;
        while (*s && !str_eqz(json_sv(name), (*s)->name))
            s++;
        if (*s && n + 1 < array_len(p->stages))
            p->stages[n++] = *s;
        else
            log_warn("pipeline", "pipeline %s names an unknown stage: " STR_FMT, p->uuid,
                     STR_ARG(json_sv(name)));
    }
    if (n == 0)
        for (; stages[n] && n + 1 < array_len(p->stages); n++)
            p->stages[n] = stages[n];
    p->stages[n] = NULL;
}

static struct pipe *pipe_load(struct engine *e, const struct scope *s, const char *uuid,
                              struct error *err)
{
    struct store_eq key = EQ_Z("uuid", uuid);
    uint64_t version = db_version_of(e->store->db, GROUP_PIPELINES);
    auto_json row = store_do_get(e->store, &table_pipelines, s, &key, 1, true, err);
    if (!row)
        return NULL;
    struct pipe *p = new (struct pipe);
    if (!p)
        goto nomem;
    p->refs = 1;
    p->scope = *s;
    p->version = version;
    p->loaded_us = time_mono_us();
    snprintf(p->uuid, sizeof p->uuid, "%s", uuid);
    const char *name = json_z_or(row, "name", "");
    p->name = mem_strndup(name, strlen(name));
    const json_t *config = json_object_get(row, "config");
    p->config = json_is_object(config) ? json_deep_copy(config) : json_object();
    p->preferences = json_incref(json_object_get(row, "extensions_preferences"));
    if (!p->name || !p->config)
        goto nomem;
    pipe_coerce(p->config);
    take_stages(p, json_object_get(row, "stages"));
    p->aggregate = conf_bool(p->config, "trigger.message-aggregation.enabled", false);
    double delay = conf_num(p->config, "trigger.message-aggregation.delay", 1.5);
    p->aggregate_ms = (int64_t)((delay < 1.0 ? 1.0 : delay > 10.0 ? 10.0 : delay) * 1000);
    p->remove_think = conf_bool(p->config, "output.misc.remove-think", false);
    p->at_sender = conf_bool(p->config, "output.misc.at-sender", true);
    p->quote_origin = conf_bool(p->config, "output.misc.quote-origin", false);
    p->delay_min = conf_num(p->config, "output.force-delay.min", 0);
    p->delay_max = conf_num(p->config, "output.force-delay.max", 0);
    return p;
nomem:
    if (p)
        pipe_free(p);
    err_set(err, ERR_NOMEM, "out of memory");
    return NULL;
}

static bool cache_key(struct buf *b, const struct scope *s, const char *uuid)
{
    return buf_fmt(b, "%s|%s", s->workspace, uuid);
}

static bool still_good(const struct engine *e, const struct pipe *p, const struct scope *s)
{
    if (!scope_eq(&p->scope, s))
        return false;
    if (db_cacheable(e->store->db))
        return p->version == db_version_of(e->store->db, GROUP_PIPELINES);
    return time_mono_us() - p->loaded_us < FRESH_US;
}

struct pipe *pipe_get(struct engine *e, const struct scope *s, const char *uuid, struct error *err)
{
    if (!uuid || !*uuid || strlen(uuid) > 63) {
        err_set(err, ERR_NOT_FOUND, "Pipeline not found");
        return NULL;
    }
    auto_buf key = BUF(512);
    cache_key(&key, s, uuid);
    struct pipe *p = map_get(&e->pipes, buf_view(&key));
    if (p && still_good(e, p, s)) {
        p->refs++;
        return p;
    }
    struct pipe *fresh = pipe_load(e, s, uuid, err);
    if (!fresh)
        return NULL;
    if (e->pipes.n >= PIPES_MAX)
        pipes_free(e);
    struct pipe *old = map_del(&e->pipes, buf_view(&key));
    pipe_unref(old);
    if (map_put(&e->pipes, buf_view(&key), fresh))
        fresh->refs++;
    return fresh;
}

void pipe_forget(struct engine *e, const struct scope *s, const char *uuid)
{
    auto_buf key = BUF(512);
    cache_key(&key, s, uuid);
    pipe_unref(map_del(&e->pipes, buf_view(&key)));
}

void pipes_free(struct engine *e)
{
    size_t pos = 0;
    struct str key;
    void *v;
    while (map_next(&e->pipes, &pos, &key, &v))
        pipe_unref(v);
    map_free(&e->pipes);
}
