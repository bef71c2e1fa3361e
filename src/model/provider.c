/* Providers and models as they are used: built once from their rows, immutable, counted. */
#include "model/model_private.h"

/* Keys of a row: a list, or the text of a list in old rows. Blanks and doubles are dropped, the
 * order stays (§1.5). */
static bool keys_of(struct provider *p, const json_t *value)
{
    struct error bad;
    auto_json parsed = json_is_string(value) && str_starts(str_trim(json_sv(value)), S("["))
                           ? json_parse(json_sv(value), &bad)
                           : NULL;
    const json_t *list = parsed ? parsed : value;
    size_t n = json_is_string(list) ? 1 : json_array_size(list);
    p->keys = arena_alloc(p->arena, n * sizeof(const char *));
    for (size_t i = 0; p->keys && i < n; i++) {
        struct str key = str_trim(json_sv(json_is_string(list) ? list : json_array_get(list, i)));
        bool known = key.n == 0;
        for (size_t k = 0; k < p->key_count; k++)
            known |= str_eqz(key, p->keys[k]);
        if (!known)
            p->keys[p->key_count++] = str_z(p->arena, key);
    }
    return p->keys != NULL;
}

struct provider *provider_of_row(const json_t *row, struct error *err)
{
    const char *requester = json_z_or(row, "requester", "");
    const json_t *manifest = requester_manifest(requester);
    if (!manifest && !requester_known(requester)) {
        err_set(err, ERR_NOT_FOUND, "Requester %s not found", requester);
        return NULL;
    }
    struct provider *p = new (struct provider);
    if (!p || !(p->arena = arena_new(1 << 20))) {
        mem_free(p);
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    struct str base = str_trim(json_s(row, "base_url"));
    while (base.n > 0 && base.p[base.n - 1] == '/')
        base.n--;
    const char *family = json_z(json_object_get(manifest, "spec"), "litellm_provider");
    p->refs = 1;
    p->uuid = str_z(p->arena, json_s(row, "uuid"));
    p->requester = str_z(p->arena, str_c(requester));
    p->base_url = str_z(p->arena, base);
    p->family = family ? str_z(p->arena, str_c(family)) : NULL;
    /* So far every family of the catalogue speaks this protocol. */
    p->wire = manifest ? requesters[0] : &requester_unbuilt;
    if (keys_of(p, json_object_get(row, "api_keys")) && !arena_failed(p->arena))
        return p;
    provider_unref(p);
    err_set(err, ERR_NOMEM, "out of memory");
    return NULL;
}

void provider_unref(struct provider *p)
{
    if (!p || --p->refs > 0)
        return;
    arena_free(p->arena);
    mem_free(p);
}

struct model *model_of_row(enum model_kind kind, const json_t *row, struct provider *p,
                           struct error *err)
{
    struct model *m = new (struct model);
    if (!m || !(m->arena = arena_new(1 << 20))) {
        mem_free(m);
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    m->refs = 1;
    m->kind = kind;
    m->row = json_incref((json_t *)(uintptr_t)row);
    m->uuid = str_z(m->arena, json_s(row, "uuid"));
    m->name = str_z(m->arena, json_s(row, "name"));
    const char *level = json_z(json_object_get(row, "reasoning_config"), "level");
    m->level = level ? level : "provider_default";
    m->abilities = json_object_get(row, "abilities");
    m->extra_args = json_object_get(row, "extra_args");
    m->provider = p;
    p->refs++;
    if (!arena_failed(m->arena))
        return m;
    model_unref(m);
    err_set(err, ERR_NOMEM, "out of memory");
    return NULL;
}

void model_ref(struct model *m)
{
    m->refs++;
}

void model_unref(struct model *m)
{
    if (!m || --m->refs > 0)
        return;
    provider_unref(m->provider);
    json_decref(m->row);
    arena_free(m->arena);
    mem_free(m);
}

const char *model_name(const struct model *m)
{
    return m->name;
}

const char *model_uuid(const struct model *m)
{
    return m->uuid;
}

bool model_can(const struct model *m, const char *ability)
{
    for (size_t i = 0; i < json_array_size(m->abilities); i++) {
        if (str_eqz(json_sv(json_array_get(m->abilities, i)), ability))
            return true;
    }
    return false;
}

const char *model_requester(const struct model *m)
{
    return m->provider->requester;
}
