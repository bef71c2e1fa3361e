/* What the embedded metadata knows of requesters and models. Read when first asked for: each
 * document is parsed once. The loaded documents are never changed; the lock guards only their
 * loading, which may happen on a database thread. */
#include "model/model_private.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static json_t *models;    /* models.yaml */
static json_t *manifests; /* by requester name; null for a name without one */
static bool complete;     /* `manifests` holds all */

static json_t *load(const char *path)
{
    struct error err;
    const struct base_asset *asset = base_asset_find(path);
    if (!asset || asset->gzip)
        return NULL;
    json_t *doc = config_yaml_to_json(str_n((const char *)asset->data, asset->size), path, &err);
    if (!doc)
        log_error("model", "%s cannot be read: %s", path, err.msg);
    return doc;
}

const json_t *catalogue_models(void)
{
    pthread_mutex_lock(&lock);
    if (!models)
        models = load("metadata/models.yaml");
    pthread_mutex_unlock(&lock);
    return models;
}

/* The document as it is served: the members of `metadata` beside `spec`. */
static json_t *manifest_load(const char *path)
{
    json_t *doc = load(path);
    if (!doc)
        return NULL;
    json_t *meta = json_object_get(doc, "metadata");
    if (!json_is_object(meta) || json_object_update(doc, meta) != 0 ||
        json_object_del(doc, "metadata") != 0) {
        json_decref(doc);
        return NULL;
    }
    return doc;
}

static bool name_valid(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    return n > 0 && n <= 100;
}

static const json_t *manifest_get(const char *name)
{
    if (!manifests && !(manifests = json_object()))
        return NULL;
    json_t *known = json_object_get(manifests, name);
    if (!known && !complete) {
        char path[160] = "metadata/requesters/";
        size_t n = strlen(path), more = strlen(name);
        memcpy(path + n, name, more);
        memcpy(path + n + more, ".yaml", 6);
        known = manifest_load(path);
        json_object_set_new(manifests, name, known ? known : json_null());
    }
    return json_is_object(known) ? known : NULL;
}

const json_t *requester_manifest(const char *name)
{
    if (!name || !name_valid(name))
        return NULL;
    pthread_mutex_lock(&lock);
    const json_t *found = manifest_get(name);
    pthread_mutex_unlock(&lock);
    return found;
}

static bool lists(const json_t *array, const char *text)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (str_eqz(json_sv(json_array_get(array, i)), text))
            return true;
    }
    return false;
}

json_t *requester_list(const char *type)
{
    json_t *out = json_array();
    pthread_mutex_lock(&lock);
    for (size_t i = 0; out && i < base_asset_count; i++) {
        struct str path = str_c(base_assets[i].path), prefix = S("metadata/requesters/");
        char name[104];
        if (!str_starts(path, prefix) || !str_ends(path, S(".yaml")))
            continue;
        struct str stem = str_sub(path, prefix.n, path.n - prefix.n - 5);
        if (stem.n >= sizeof(name))
            continue;
        memcpy(name, stem.p, stem.n);
        name[stem.n] = '\0';
        const json_t *m = name_valid(name) ? manifest_get(name) : NULL;
        if (m && (!type || !*type || lists(json_at(m, "spec.support_type"), type)))
            json_array_append_new(out, json_deep_copy(m));
    }
    complete = true;
    pthread_mutex_unlock(&lock);
    return out;
}

/* Its entry in models.yaml; NULL: built or unknown. */
static const json_t *unbuilt_entry(const char *name)
{
    const json_t *all = json_object_get(catalogue_models(), "unbuilt");
    for (size_t i = 0; name && i < json_array_size(all); i++) {
        const json_t *entry = json_array_get(all, i);
        if (str_eqz(json_s(entry, "requester"), name))
            return entry;
    }
    return NULL;
}

bool requester_known(const char *name)
{
    return requester_manifest(name) || unbuilt_entry(name);
}

bool requester_supports(const char *name, enum model_kind kind)
{
    static const char *const types[] = {"llm", "text-embedding", "rerank"};
    const json_t *m = requester_manifest(name);
    const json_t *listed =
        m ? json_at(m, "spec.support_type") : json_object_get(unbuilt_entry(name), "support_type");
    return !listed || lists(listed, types[kind]);
}

void catalogue_free(void)
{
    pthread_mutex_lock(&lock);
    json_decref(models);
    json_decref(manifests);
    models = manifests = NULL;
    complete = false;
    pthread_mutex_unlock(&lock);
}

/* ---- rules ----------------------------------------------------------------------------------- */

const char *catalogue_name(const char *model_name, bool whole, char *out, size_t size)
{
    const char *slash = whole ? NULL : strrchr(model_name, '/');
    const char *from = slash ? slash + 1 : model_name;
    size_t n = 0;
    for (; from[n] && n < size - 1; n++)
        out[n] = from[n] >= 'A' && from[n] <= 'Z' ? (char)(from[n] | 0x20) : from[n];
    out[n] = '\0';
    return out;
}

enum how { EXACT, PREFIX, CONTAINS };

/* A list that is not there matches. */
static bool name_matches(const json_t *list, enum how how, struct str name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct str want = json_sv(json_array_get(list, i));
        if (how == EXACT    ? str_eq(name, want)
            : how == PREFIX ? str_starts(name, want)
                            : str_find(name, want) >= 0)
            return true;
    }
    return !list;
}

static bool one_of(const json_t *list, const char *text)
{
    return !json_is_array(list) || (text && lists(list, text));
}

const json_t *catalogue_rule(const char *path, const char *family, const char *level,
                             const char *name)
{
    const json_t *all = catalogue_models();
    const json_t *rules = all ? json_at(all, path) : NULL;
    struct str n = str_c(name);
    for (size_t i = 0; i < json_array_size(rules); i++) {
        const json_t *r = json_array_get(rules, i);
        if (one_of(json_object_get(r, "family"), family) &&
            one_of(json_object_get(r, "level"), level) &&
            name_matches(json_object_get(r, "exact"), EXACT, n) &&
            name_matches(json_object_get(r, "prefix"), PREFIX, n) &&
            name_matches(json_object_get(r, "contains"), CONTAINS, n))
            return r;
    }
    return NULL;
}
