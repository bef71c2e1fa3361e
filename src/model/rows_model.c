/* Models as rows: list, create, change, delete; the test button. providers.md §2.2, §12. */
#include "model/model_private.h"

#include <stdio.h>

struct change {
    const struct store *store;
    const struct scope *scope;
    enum model_kind kind;
    const char *uuid, *provider; /* the model; of a list: its provider or NULL */
    const json_t *body;
    bool secrets;
    json_t *result;
};

static struct store_eq by_uuid(const char *uuid)
{
    return (struct store_eq)EQ_Z("uuid", uuid);
}

static const char *type_word(enum model_kind kind)
{
    static const char *const words[] = {"llm", "text-embedding", "rerank"};
    return words[kind];
}

static json_t *provider_row(struct db_tx *tx, const struct change *c, const char *uuid, bool raw,
                            struct error *err)
{
    struct store_eq key = by_uuid(uuid);
    return store_get(tx, c->store, &table_providers, c->scope, &key, 1, raw, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Adds what is not stored: the normal form of the reasoning level and what the model offers. */
static void add_reasoning(json_t *row, const char *requester)
{
    const json_t *config = json_object_get(row, "reasoning_config");
    const char *level = json_z_or(config, "level", "provider_default");
    json_t *normal = json_pack("{s:s}", "level", level);
    json_set(row, "reasoning_config", normal);
    json_set(row, "reasoning_capabilities",
             reasoning_capabilities(requester, json_z_or(row, "name", ""),
                                    json_object_get(row, "abilities")));
}

static json_t *shown(json_t *row, enum model_kind kind, const json_t *provider, bool embed,
                     bool secrets)
{
    if (row && kind == MODEL_LLM)
        add_reasoning(row, json_z_or(provider, "requester", ""));
    if (row && embed && provider)
        json_set(row, "provider", json_copy((json_t *)(uintptr_t)provider));
    return models_shown(row, secrets);
}

static bool read_all(struct db_tx *tx, void *arg, struct error *err)
{
    struct change *c = arg;
    struct store_eq where = EQ_Z("provider_uuid", c->provider);
    auto_json one = c->provider ? provider_row(tx, c, c->provider, false, err) : NULL;
    if (c->provider && !one)
        return false;
    auto_json providers = json_object(); /* by uuid */
    auto_json list = c->provider ? NULL
                                 : store_list(tx, c->store, &table_providers, c->scope, NULL, 0,
                                              NULL, -1, 0, false, err);
    if (!c->provider && !list)
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *p = json_array_get(list, i);
        json_object_set(providers, json_z_or(p, "uuid", ""), p);
    }
    auto_json rows = store_list(tx, c->store, models_table(c->kind), c->scope, &where,
                                c->provider ? 1 : 0, NULL, -1, 0, false, err);
    c->result = json_array();
    for (size_t i = 0; rows && i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        const json_t *p =
            one ? one : json_object_get(providers, json_z_or(row, "provider_uuid", ""));
        json_array_append_new(c->result, shown(json_incref(row), c->kind, p, !one, c->secrets));
    }
    return rows != NULL;
}

static bool read_one(struct db_tx *tx, void *arg, struct error *err)
{
    struct change *c = arg;
    struct store_eq key = by_uuid(c->uuid);
    json_t *row = store_get(tx, c->store, models_table(c->kind), c->scope, &key, 1, false, err);
    if (!row)
        return false;
    auto_json p = provider_row(tx, c, json_z_or(row, "provider_uuid", ""), false, err);
    c->result = shown(row, c->kind, p, true, c->secrets);
    return p && c->result;
}

static json_t *read_with(struct models *m, struct change *c, db_fn *fn, struct error *err)
{
    c->store = m->store;
    if (db_read(m->store->db, scope_db(c->scope), fn, c, err))
        return c->result;
    json_decref(c->result);
    return NULL;
}

json_t *model_list(struct models *m, const struct scope *s, enum model_kind k,
                   const char *provider_uuid, bool secrets, struct error *err)
{
    struct change c = {.scope = s, .kind = k, .provider = provider_uuid, .secrets = secrets};
    return read_with(m, &c, read_all, err);
}

json_t *model_get_row(struct models *m, const struct scope *s, enum model_kind k, const char *uuid,
                      bool secrets, struct error *err)
{
    struct change c = {.scope = s, .kind = k, .uuid = uuid, .secrets = secrets};
    return read_with(m, &c, read_one, err);
}

/* ---- the provider of a new or changed model -------------------------------------------------- */

static bool same_keys(const json_t *a, const json_t *b)
{
    if (json_array_size(a) != json_array_size(b))
        return false;
    for (size_t i = 0; i < json_array_size(a); i++) {
        bool found = false;
        for (size_t k = 0; k < json_array_size(b); k++)
            found |= json_equal(json_array_get(a, i), json_array_get(b, k));
        if (!found)
            return false;
    }
    return true;
}

/* host[:port] of the address, else the requester. */
static json_t *provider_name(const char *base_url, const char *requester)
{
    char text[300];
    struct url url;
    struct error err;
    if (!url_parse(str_c(base_url), &url, &err))
        return json_string(requester);
    bool v6 = str_chr(url.host, ':') >= 0;
    char port[8] = "";
    if (url.port)
        snprintf(port, sizeof(port), ":%u", url.port);
    snprintf(text, sizeof(text), "%s" STR_FMT "%s%s", v6 ? "[" : "", STR_ARG(url.host),
             v6 ? "]" : "", port);
    return json_string(text);
}

/* The provider with this requester, address and set of keys; made when there is none. New
 * reference. */
static json_t *find_or_create(struct db_tx *tx, const struct change *c, const json_t *given,
                              struct error *err)
{
    const char *requester = json_z_or(given, "requester", "");
    const char *base = json_z_or(given, "base_url", "");
    if (!requester_known(requester)) {
        err_set(err, ERR_INVALID, "Requester %s not found", requester);
        return NULL;
    }
    auto_json keys = provider_keys(json_object_get(given, "api_keys"), NULL, err);
    struct store_eq where[] = {EQ_Z("requester", requester), EQ_Z("base_url", base)};
    auto_json rows = keys ? store_list(tx, c->store, &table_providers, c->scope, where, 2, NULL, -1,
                                       0, true, err)
                          : NULL;
    if (!rows)
        return NULL;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        if (same_keys(json_object_get(row, "api_keys"), keys))
            return json_incref(row);
    }
    auto_json row = json_pack("{s:s, s:s, s:O, s:o}", "requester", requester, "base_url", base,
                              "api_keys", keys, "name", provider_name(base, requester));
    return row ? store_insert(tx, c->store, &table_providers, c->scope, row, err) : NULL;
}

/* Names a provider by uuid, embeds one, or (an update) says nothing: then `fallback`. New
 * reference. */
static json_t *resolve_provider(struct db_tx *tx, const struct change *c, const char *fallback,
                                struct error *err)
{
    const json_t *embedded = json_object_get(c->body, "provider");
    const char *uuid = json_z_or(c->body, "provider_uuid", "");
    if (!*uuid)
        uuid = json_z_or(embedded, "uuid", "");
    if (!*uuid && json_z(embedded, "requester"))
        return find_or_create(tx, c, embedded, err);
    if (!*uuid && fallback)
        uuid = fallback;
    if (!*uuid) {
        err_set(err, ERR_INVALID, "provider_uuid or provider is required");
        return NULL;
    }
    return provider_row(tx, c, uuid, true, err);
}

static bool supported(const json_t *provider, enum model_kind kind, struct error *err)
{
    const char *requester = json_z_or(provider, "requester", "");
    return requester_supports(requester, kind) ||
           err_set(err, ERR_INVALID, "Provider requester \"%s\" does not support %s models",
                   requester, type_word(kind));
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool take(json_t *patch, const json_t *body, const char *key)
{
    json_t *value = json_object_get(body, key);
    return !value || json_object_set(patch, key, value) == 0;
}

/* The columns of a body; extra_args with "***" taken from the stored row. */
static json_t *patch_of(const struct change *c, const json_t *stored, struct error *err)
{
    auto_json patch = json_object();
    take(patch, c->body, "name");
    take(patch, c->body, "prefered_ranking");
    if (c->kind == MODEL_LLM) {
        take(patch, c->body, "context_length");
        if (!json_is_null(json_object_get(c->body, "abilities")))
            take(patch, c->body, "abilities");
    }
    const json_t *extra = json_object_get(c->body, "extra_args");
    if (json_is_null(extra)) {
        json_set(patch, "extra_args", json_object());
    } else if (extra) {
        auto_json none = json_object();
        const json_t *old = json_object_get(stored, "extra_args");
        json_t *restored = redact_restore(extra, old ? old : none, err);
        if (!restored)
            return NULL;
        json_set(patch, "extra_args", restored);
    }
    return steal(patch);
}

/* Checks the row as it will be; a submitted config goes into the patch in its normal form. */
static bool check_reasoning(const struct change *c, const json_t *stored, const json_t *provider,
                            json_t *patch, struct error *err)
{
    json_t *submitted = json_object_get(c->body, "reasoning_config");
    auto_json merged = stored ? json_copy((json_t *)(uintptr_t)stored) : json_object();
    json_object_update(merged, patch);
    if (submitted)
        json_object_set(merged, "reasoning_config", submitted);
    json_t *normal = reasoning_check(
        json_object_get(merged, "reasoning_config"), json_z_or(provider, "requester", ""),
        json_z_or(merged, "name", ""), json_object_get(merged, "abilities"),
        json_object_get(merged, "extra_args"), err);
    if (normal && submitted)
        json_object_set(patch, "reasoning_config", normal);
    json_decref(normal);
    return normal != NULL;
}

/* The first chat model becomes that of a default pipeline that has none. */
static bool fill_default_pipeline(struct db_tx *tx, const struct change *c, const char *model,
                                  struct error *err)
{
    struct store_eq where = EQ_I("is_default", 1);
    auto_json rows =
        store_list(tx, c->store, &table_pipelines, c->scope, &where, 1, NULL, 1, 0, true, err);
    if (!rows)
        return false;
    const json_t *row = json_array_get(rows, 0);
    json_t *config = json_object_get(row, "config");
    json_t *agent = json_at(config, "ai.local-agent");
    const json_t *chosen = json_object_get(agent, "model");
    const char *primary =
        json_is_string(chosen) ? json_string_value(chosen) : json_z_or(chosen, "primary", "");
    if (!json_is_object(agent) || *primary)
        return true;
    json_set(agent, "model", json_pack("{s:s, s:[]}", "primary", model, "fallbacks"));
    auto_json patch = json_pack("{s:O}", "config", config);
    struct store_eq key = by_uuid(json_z_or(row, "uuid", ""));
    return store_update(tx, c->store, &table_pipelines, c->scope, &key, 1, patch, false, err);
}

static bool do_create(struct db_tx *tx, void *arg, struct error *err)
{
    struct change *c = arg;
    auto_json row = patch_of(c, NULL, err);
    auto_json provider = row ? resolve_provider(tx, c, NULL, err) : NULL;
    if (!provider || !supported(provider, c->kind, err))
        return false;
    if (c->kind == MODEL_LLM && !check_reasoning(c, NULL, provider, row, err))
        return false;
    json_object_set(row, "provider_uuid", json_object_get(provider, "uuid"));
    c->result = store_insert(tx, c->store, models_table(c->kind), c->scope, row, err);
    if (!c->result)
        return false;
    return c->kind != MODEL_LLM ||
           fill_default_pipeline(tx, c, json_z_or(c->result, "uuid", ""), err);
}

bool model_create(struct models *m, const struct scope *s, enum model_kind k, const json_t *body,
                  char uuid[UUID_SIZE], struct error *err)
{
    struct change c = {.store = m->store, .scope = s, .kind = k, .body = body};
    bool ok = db_write(m->store->db, scope_db(s), do_create, &c, err);
    if (ok)
        snprintf(uuid, UUID_SIZE, "%s", json_z_or(c.result, "uuid", ""));
    json_decref(c.result);
    return ok;
}

static bool do_update(struct db_tx *tx, void *arg, struct error *err)
{
    struct change *c = arg;
    struct store_eq key = by_uuid(c->uuid);
    auto_json stored = store_get(tx, c->store, models_table(c->kind), c->scope, &key, 1, true, err);
    auto_json patch = stored ? patch_of(c, stored, err) : NULL;
    const char *old = json_z_or(stored, "provider_uuid", "");
    auto_json provider = patch ? resolve_provider(tx, c, old, err) : NULL;
    if (!provider)
        return false;
    const char *now = json_z_or(provider, "uuid", "");
    if (strcmp(old, now) != 0) {
        if (!supported(provider, c->kind, err))
            return false;
        json_set(patch, "provider_uuid", json_string(now));
    }
    if (c->kind == MODEL_LLM && !check_reasoning(c, stored, provider, patch, err))
        return false;
    return json_object_size(patch) == 0 ||
           store_update(tx, c->store, models_table(c->kind), c->scope, &key, 1, patch, false, err);
}

bool model_update(struct models *m, const struct scope *s, enum model_kind k, const char *uuid,
                  const json_t *body, struct error *err)
{
    struct change c = {.store = m->store, .scope = s, .kind = k, .uuid = uuid, .body = body};
    bool ok = db_write(m->store->db, scope_db(s), do_update, &c, err);
    if (ok)
        models_forget(m, s, uuid);
    return ok;
}

bool model_delete(struct models *m, const struct scope *s, enum model_kind k, const char *uuid,
                  struct error *err)
{
    struct store_eq key = by_uuid(uuid);
    int64_t n = 0;
    if (!store_do_delete(m->store, models_table(k), s, &key, 1, &n, err))
        return false;
    models_forget(m, s, uuid);
    return n > 0 || err_tag(err, ERR_NOT_FOUND, 0, "resource_not_found", "Resource not found");
}

/* ---- the test button ------------------------------------------------------------------------- */

static bool has_mask(const json_t *keys)
{
    bool any = str_eqz(json_sv(keys), "***");
    for (size_t i = 0; i < json_array_size(keys); i++)
        any |= str_eqz(json_sv(json_array_get(keys, i)), "***");
    return any;
}

/* The provider of an unsaved model: as the body tells it; keys that the panel shows masked come
 * from the saved one. */
static json_t *inline_provider(struct models *m, const struct scope *s, const json_t *body,
                               struct error *err)
{
    const json_t *given = json_object_get(body, "provider");
    const char *uuid = json_z_or(body, "provider_uuid", "");
    if (!*uuid)
        uuid = json_z_or(given, "uuid", "");
    const json_t *keys = json_object_get(given, "api_keys");
    bool whole = json_z(given, "requester") != NULL;
    if (whole && !has_mask(keys))
        return json_incref((json_t *)(uintptr_t)given);
    if (!*uuid) {
        err_set(err, ERR_INVALID, "provider is required: {requester, base_url, api_keys}");
        return NULL;
    }
    struct store_eq key = by_uuid(uuid);
    json_t *saved = store_do_get(m->store, &table_providers, s, &key, 1, true, err);
    if (!saved || !whole)
        return saved;
    json_t *row = json_copy((json_t *)(uintptr_t)given);
    json_t *restored = provider_keys(keys, json_object_get(saved, "api_keys"), err);
    json_decref(saved);
    if (restored && json_set(row, "api_keys", restored))
        return row;
    json_decref(row);
    return NULL;
}

static struct model *temporary(struct models *m, const struct scope *s, enum model_kind k,
                               const json_t *body, struct error *err)
{
    if (json_s(body, "name").n == 0) {
        err_set(err, ERR_INVALID, "name is required");
        return NULL;
    }
    auto_json provider = inline_provider(m, s, body, err);
    if (!provider)
        return NULL;
    const char *requester = json_z_or(provider, "requester", "");
    if (!requester_known(requester)) {
        err_set(err, ERR_INVALID, "Requester %s not found", requester);
        return NULL;
    }
    auto_json row = json_copy((json_t *)(uintptr_t)body);
    json_set(row, "uuid", json_string("_"));
    if (k == MODEL_LLM) {
        json_t *config = reasoning_check(
            json_object_get(body, "reasoning_config"), requester, json_z_or(body, "name", ""),
            json_object_get(body, "abilities"), json_object_get(body, "extra_args"), err);
        if (!config)
            return NULL;
        json_set(row, "reasoning_config", config);
    }
    return model_of_rows(m, s, k, row, provider, err);
}

static bool try_llm(struct model *model, const json_t *extra, struct error *err)
{
    struct llm_answer answer = {0};
    auto_json messages = json_array();
    json_array_append_new(messages, llm_message("user", S("Please say hello in one word.")));
    struct llm_request req = {.messages = messages, .extra_args = extra};
    bool ok = llm_invoke(model, &req, &answer, err);
    llm_answer_free(&answer);
    return ok;
}

static bool try_embedding(struct model *model, const json_t *extra, struct error *err)
{
    struct llm_usage usage = {0};
    json_t *vectors = NULL;
    auto_json texts = json_pack("[s]", "Hello, world.");
    bool ok = embed_invoke(model, texts, extra, &vectors, &usage, err);
    json_decref(vectors);
    json_decref(usage.raw);
    return ok;
}

static bool try_rerank(struct model *model, const json_t *extra, struct error *err)
{
    json_t *scores = NULL;
    auto_json documents = json_pack("[s, s]", "Paris is the capital of France.",
                                    "Bread is made of flour, water and salt.");
    bool ok =
        rerank_invoke(model, S("What is the capital of France?"), documents, extra, &scores, err);
    json_decref(scores);
    return ok;
}

bool model_test(struct models *m, const struct scope *s, enum model_kind k,
                const char *uuid_or_underscore, const json_t *body, struct error *err)
{
    bool saved = strcmp(uuid_or_underscore, "_") != 0;
    struct model *model =
        saved ? models_get(m, s, k, uuid_or_underscore, err) : temporary(m, s, k, body, err);
    if (!model)
        return false;
    const json_t *extra = saved ? json_object_get(body, "extra_args") : NULL;
    bool ok = k == MODEL_LLM      ? try_llm(model, extra, err)
              : k == MODEL_RERANK ? try_rerank(model, extra, err)
                                  : try_embedding(model, extra, err);
    model_unref(model);
    return ok;
}
