/* The models in use: built from rows when first asked for, dropped when rows change.
 * providers.md §5. */
#include "model/model_private.h"

#include <stdio.h>

enum { CACHE_MAX = 4096 }; /* entries for each kind; when full it starts anew */

const struct table *models_table(enum model_kind kind)
{
    static const struct table *const tables[] = {&table_llm_models, &table_embedding_models,
                                                 &table_rerank_models};
    return tables[kind];
}

json_t *models_shown(json_t *row, bool secrets)
{
    if (!row || secrets)
        return row;
    json_t *masked = redact(row);
    json_decref(row);
    return masked;
}

struct models *models_new(const struct store *st, const struct config *cfg, struct error *err)
{
    struct models *m = new (struct models);
    if (!m) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    m->store = st;
    m->config = cfg;
    for (size_t k = 0; k < array_len(m->cache); k++)
        m->cache[k].max = CACHE_MAX;
    return m;
}

static void clear(struct map *cache)
{
    size_t pos = 0;
    struct str key;
    void *model;
    while (map_next(cache, &pos, &key, &model))
        model_unref(model);
    map_free(cache);
    *cache = (struct map){.max = CACHE_MAX};
}

void models_free(struct models *m)
{
    if (!m)
        return;
    for (size_t k = 0; k < array_len(m->cache); k++)
        clear(&m->cache[k]);
    mem_free(m);
}

/* ---- from rows ------------------------------------------------------------------------------- */

struct model *model_of_rows(struct models *m, const struct scope *scope, enum model_kind kind,
                            const json_t *model_row, const json_t *provider_row, struct error *err)
{
    struct provider *p = provider_of_row(provider_row, err);
    struct model *model = p ? model_of_row(kind, model_row, p, err) : NULL;
    provider_unref(p);
    return model;
}

json_t *provider_scan(struct models *m, const struct scope *scope, const json_t *provider_row,
                      const char *type, struct error *err)
{
    struct provider *p = provider_of_row(provider_row, err);
    json_t *found = NULL;
    if (p && p->wire->scan)
        found = p->wire->scan(p, type, err);
    else if (p)
        err_set(err, ERR_INVALID, "current provider does not support model scanning");
    provider_unref(p);
    return found;
}

/* ---- lookups --------------------------------------------------------------------------------- */

struct lookup {
    const struct store *store;
    const struct scope *scope;
    enum model_kind kind;
    const char *uuid;
    json_t *model, *provider;
};

static bool look_up(struct db_tx *tx, void *arg, struct error *err)
{
    struct lookup *l = arg;
    struct store_eq key = EQ_Z("uuid", l->uuid);
    l->model = store_get(tx, l->store, models_table(l->kind), l->scope, &key, 1, true, err);
    if (!l->model)
        return false;
    const char *provider = json_z_or(l->model, "provider_uuid", "");
    key = EQ_Z("uuid", provider);
    l->provider = store_get(tx, l->store, &table_providers, l->scope, &key, 1, true, err);
    return l->provider != NULL;
}

static bool missing(const struct lookup *l, struct error *err)
{
    static const char *const words[] = {"LLM", "Embedding", "Rerank"};
    if (err->code != ERR_NOT_FOUND)
        return false;
    if (!l->model)
        return err_tag(err, ERR_NOT_FOUND, 0, "resource_not_found", "%s model %s not found",
                       words[l->kind], l->uuid);
    return err_tag(err, ERR_NOT_FOUND, 0, "resource_not_found", "Model provider %s not found",
                   json_z_or(l->model, "provider_uuid", ""));
}

static struct model *load(struct models *m, const struct scope *scope, enum model_kind kind,
                          const char *uuid, struct error *err)
{
    struct lookup l = {.store = m->store, .scope = scope, .kind = kind, .uuid = uuid};
    struct model *model = NULL;
    if (db_read(m->store->db, scope_db(scope), look_up, &l, err))
        model = model_of_rows(m, scope, kind, l.model, l.provider, err);
    else
        missing(&l, err);
    json_decref(l.model);
    json_decref(l.provider);
    return model;
}

static struct str key_of(char *out, size_t size, const struct scope *scope, const char *uuid)
{
    int n = snprintf(out, size, "%s/%lld/%s", scope->workspace, (long long)scope->generation, uuid);
    return n > 0 && (size_t)n < size ? str_n(out, (size_t)n) : STR_NONE;
}

/* Rows may have changed: everything is built again. Where other processes write too, nothing is
 * kept. */
static bool fresh(struct models *m)
{
    if (!db_cacheable(m->store->db))
        return false;
    uint64_t version = db_version_of(m->store->db, GROUP_MODELS);
    if (version != m->version) {
        for (size_t k = 0; k < array_len(m->cache); k++)
            clear(&m->cache[k]);
        m->version = version;
    }
    return true;
}

static void keep(struct models *m, enum model_kind kind, struct str key, struct model *model)
{
    struct map *cache = &m->cache[kind];
    if (cache->n >= CACHE_MAX)
        clear(cache);
    model_unref(map_del(cache, key));
    if (map_put(cache, key, model))
        model_ref(model);
}

struct model *models_get(struct models *m, const struct scope *scope, enum model_kind kind,
                         const char *uuid, struct error *err)
{
    char text[512];
    struct str key = key_of(text, sizeof(text), scope, uuid);
    bool cached = fresh(m) && key.p;
    struct model *model = cached ? map_get(&m->cache[kind], key) : NULL;
    if (model) {
        model_ref(model);
        return model;
    }
    uint64_t version = m->version;
    model = load(m, scope, kind, uuid, err);
    /* The load waited: what it read may be old by now. */
    if (model && cached && fresh(m) && m->version == version)
        keep(m, kind, key, model);
    return model;
}

void models_forget(struct models *m, const struct scope *scope, const char *uuid)
{
    struct str workspace = str_c(scope->workspace);
    for (size_t k = 0; k < array_len(m->cache); k++) {
        size_t pos = 0;
        struct str key;
        void *value;
        while (map_next(&m->cache[k], &pos, &key, &value)) {
            struct model *model = value;
            bool named = strcmp(model->uuid, uuid) == 0 || strcmp(model->provider->uuid, uuid) == 0;
            if (named && str_starts(key, workspace)) {
                map_del(&m->cache[k], key);
                model_unref(model);
            }
        }
    }
}

void models_counts(const struct models *m, size_t *providers, size_t *llms, size_t *embeddings,
                   size_t *rerankers)
{
    auto_json seen = json_object();
    for (size_t k = 0; k < array_len(m->cache); k++) {
        size_t pos = 0;
        struct str key;
        void *value;
        while (map_next(&m->cache[k], &pos, &key, &value))
            json_set(seen, ((struct model *)value)->provider->uuid, json_true());
    }
    *providers = json_object_size(seen);
    *llms = m->cache[MODEL_LLM].n;
    *embeddings = m->cache[MODEL_EMBEDDING].n;
    *rerankers = m->cache[MODEL_RERANK].n;
}
