/* Providers as rows: list, create, change, delete. providers.md §2.1. */
#include "model/model_private.h"

#include <stdio.h>

static const enum model_kind kinds[] = {MODEL_LLM, MODEL_EMBEDDING, MODEL_RERANK};

struct change {
    const struct store *store;
    const struct scope *scope;
    const char *uuid;
    const json_t *body;
    bool secrets, cascade;
    json_t *result;
};

static struct store_eq by_uuid(const char *uuid)
{
    return (struct store_eq)EQ_Z("uuid", uuid);
}

json_t *provider_keys(const json_t *given, const json_t *stored, struct error *err)
{
    auto_json submitted = json_object();
    auto_json old = json_object();
    if (given && !json_is_null(given))
        json_object_set(submitted, "api_keys", (json_t *)(uintptr_t)given);
    if (stored)
        json_object_set(old, "api_keys", (json_t *)(uintptr_t)stored);
    auto_json restored = redact_restore(submitted, old, err);
    if (!restored)
        return NULL;
    const json_t *list = json_object_get(restored, "api_keys");
    size_t n = json_is_string(list) ? 1 : json_array_size(list);
    json_t *out = json_array();
    for (size_t i = 0; out && i < n; i++) {
        struct str key = str_trim(json_sv(json_is_string(list) ? list : json_array_get(list, i)));
        bool known = key.n == 0;
        for (size_t k = 0; k < json_array_size(out); k++)
            known |= str_eq(json_sv(json_array_get(out, k)), key);
        if (!known)
            json_array_append_new(out, json_strn(key));
    }
    if (!out)
        err_set(err, ERR_NOMEM, "out of memory");
    return out;
}

static bool check_requester(const char *name, struct error *err)
{
    return requester_known(name) ||
           err_set(err, ERR_INVALID, "Requester %s not found", name ? name : "");
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool add_counts(struct db_tx *tx, const struct change *c, json_t *row, struct error *err)
{
    static const char *const names[] = {"llm_count", "embedding_count", "rerank_count"};
    for (size_t i = 0; i < array_len(kinds); i++) {
        int64_t n = 0;
        struct store_eq where = EQ_Z("provider_uuid", json_z_or(row, "uuid", ""));
        if (!store_count(tx, models_table(kinds[i]), c->scope, &where, 1, &n, err))
            return false;
        json_set(row, names[i], json_integer(n));
    }
    return true;
}

static bool read_all(struct db_tx *tx, void *arg, struct error *err)
{
    struct change *c = arg;
    auto_json rows =
        store_list(tx, c->store, &table_providers, c->scope, NULL, 0, NULL, -1, 0, false, err);
    c->result = json_array();
    for (size_t i = 0; rows && i < json_array_size(rows); i++) {
        json_t *row = models_shown(json_incref(json_array_get(rows, i)), c->secrets);
        if (!row || !add_counts(tx, c, row, err)) {
            json_decref(row);
            return false;
        }
        json_array_append_new(c->result, row);
    }
    return rows != NULL;
}

static bool read_one(struct db_tx *tx, void *arg, struct error *err)
{
    struct change *c = arg;
    struct store_eq key = by_uuid(c->uuid);
    c->result = models_shown(
        store_get(tx, c->store, &table_providers, c->scope, &key, 1, false, err), c->secrets);
    return c->result && add_counts(tx, c, c->result, err);
}

static json_t *read_with(struct models *m, struct change *c, db_fn *fn, struct error *err)
{
    c->store = m->store;
    if (db_read(m->store->db, scope_db(c->scope), fn, c, err))
        return c->result;
    json_decref(c->result);
    return NULL;
}

json_t *provider_list(struct models *m, const struct scope *s, bool secrets, struct error *err)
{
    struct change c = {.scope = s, .secrets = secrets};
    return read_with(m, &c, read_all, err);
}

json_t *provider_get(struct models *m, const struct scope *s, const char *uuid, bool secrets,
                     struct error *err)
{
    struct change c = {.scope = s, .uuid = uuid, .secrets = secrets};
    return read_with(m, &c, read_one, err);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The columns of a body that may be written, keys normalised; ERR_INVALID as of §2.1. */
static json_t *patch_of(const json_t *body, const json_t *stored, struct error *err)
{
    static const char *const texts[] = {"name", "requester", "base_url"};
    auto_json patch = json_object();
    for (size_t i = 0; i < array_len(texts); i++) {
        json_t *value = json_object_get(body, texts[i]);
        if (json_is_null(value))
            json_set(patch, texts[i], json_string(""));
        else if (value)
            json_object_set(patch, texts[i], value);
    }
    if (json_is_string(json_object_get(patch, "base_url"))) {
        auto_json given = json_pack("{s:O}", "base_url", json_object_get(patch, "base_url"));
        auto_json old = json_pack("{s:O?}", "base_url", json_object_get(stored, "base_url"));
        auto_json restored = given && old ? redact_restore(given, old, err) : NULL;
        if (!restored)
            return NULL;
        json_object_set(patch, "base_url", json_object_get(restored, "base_url"));
    }
    const char *requester = json_z(patch, "requester");
    if (json_object_get(patch, "requester") && !check_requester(requester, err))
        return NULL;
    const json_t *keys = json_object_get(body, "api_keys");
    if (keys || !stored) {
        json_t *normal = provider_keys(keys, json_object_get(stored, "api_keys"), err);
        if (!normal)
            return NULL;
        json_set(patch, "api_keys", normal);
    }
    return steal(patch);
}

bool provider_create(struct models *m, const struct scope *s, const json_t *body,
                     char uuid[UUID_SIZE], struct error *err)
{
    auto_json row = patch_of(body, NULL, err);
    if (!row)
        return false;
    if (!json_object_get(row, "base_url"))
        json_set(row, "base_url", json_string(""));
    if (!json_object_get(row, "requester"))
        return err_set(err, ERR_INVALID, "requester is required");
    auto_json stored = store_do_insert(m->store, &table_providers, s, row, err);
    if (!stored)
        return false;
    snprintf(uuid, UUID_SIZE, "%s", json_z_or(stored, "uuid", ""));
    return true;
}

static bool do_update(struct db_tx *tx, void *arg, struct error *err)
{
    struct change *c = arg;
    struct store_eq key = by_uuid(c->uuid);
    auto_json stored = store_get(tx, c->store, &table_providers, c->scope, &key, 1, true, err);
    auto_json patch = stored ? patch_of(c->body, stored, err) : NULL;
    return patch &&
           (json_object_size(patch) == 0 ||
            store_update(tx, c->store, &table_providers, c->scope, &key, 1, patch, false, err));
}

bool provider_update(struct models *m, const struct scope *s, const char *uuid, const json_t *body,
                     struct error *err)
{
    struct change c = {.store = m->store, .scope = s, .uuid = uuid, .body = body};
    bool ok = db_write(m->store->db, scope_db(s), do_update, &c, err);
    if (ok)
        models_forget(m, s, uuid);
    return ok;
}

static bool do_delete(struct db_tx *tx, void *arg, struct error *err)
{
    static const char *const words[] = {"LLM", "Embedding", "Rerank"};
    struct change *c = arg;
    struct store_eq key = by_uuid(c->uuid), ref = EQ_Z("provider_uuid", c->uuid);
    int64_t n;
    auto_json row = store_get(tx, c->store, &table_providers, c->scope, &key, 1, true, err);
    if (!row)
        return false;
    for (size_t i = 0; !c->cascade && i < array_len(kinds); i++) {
        if (!store_count(tx, models_table(kinds[i]), c->scope, &ref, 1, &n, err))
            return false;
        if (n > 0)
            return err_set(err, ERR_INVALID, "Cannot delete provider: %s models still reference it",
                           words[i]);
    }
    for (size_t i = 0; c->cascade && i < array_len(kinds); i++) {
        if (!store_delete(tx, c->store, models_table(kinds[i]), c->scope, &ref, 1, &n, err))
            return false;
    }
    return store_delete(tx, c->store, &table_codex_credentials, c->scope, &ref, 1, &n, err) &&
           store_delete(tx, c->store, &table_providers, c->scope, &key, 1, &n, err);
}

bool provider_delete(struct models *m, const struct scope *s, const char *uuid, bool cascade,
                     struct error *err)
{
    struct change c = {.store = m->store, .scope = s, .uuid = uuid, .cascade = cascade};
    bool ok = db_write(m->store->db, scope_db(s), do_delete, &c, err);
    if (ok)
        models_forget(m, s, uuid);
    return ok;
}
