/* Embeddings, rerank and the list of models, OpenAI form (§9, §10, §11). */
#include "model/model_private.h"

#include <math.h>
#include <stdlib.h>

static struct wire wire_to(const struct provider *p, struct arena *a, const char *method)
{
    return (struct wire){.provider = p,
                         .method = method,
                         .accept = "application/json",
                         .timeout_ms = WIRE_TIMEOUT_MS,
                         .until_us = time_mono_us() + (int64_t)WIRE_TIMEOUT_MS * 1000,
                         .body = S(""),
                         .arena = a};
}

/* ---- embeddings ------------------------------------------------------------------------------ */

static bool embeddings_of(const json_t *body, size_t wanted, json_t **vectors, struct error *err)
{
    const json_t *data = json_object_get(body, "data");
    auto_json out = json_array();
    for (size_t i = 0; i < json_array_size(data); i++) {
        json_t *vector = json_object_get(json_array_get(data, i), "embedding");
        if (!json_is_array(vector))
            return err_set(err, ERR_PROTOCOL, "entry %zu of the answer has no embedding", i);
        json_array_append(out, vector);
    }
    if (json_array_size(out) != wanted)
        return err_set(err, ERR_PROTOCOL, "%zu texts were sent, %zu embeddings came", wanted,
                       json_array_size(out));
    *vectors = steal(out);
    return true;
}

bool openai_embed(struct model *m, const json_t *texts, const json_t *extra_args, json_t **vectors,
                  struct llm_usage *usage, struct error *err)
{
    auto_arena a = arena_new(WIRE_BODY_MAX * 4);
    auto_buf text = BUF(64 * 1024 * 1024);
    auto_json body = json_object();
    if (!a || !body)
        return err_set(err, ERR_NOMEM, "out of memory");
    struct wire w = wire_to(m->provider, a, "POST");
    *vectors = NULL;
    *usage = (struct llm_usage){0};
    w.url = wire_url(a, m->provider, "embeddings", err);
    json_set(body, "model", json_string(openai_name(m)));
    json_object_set(body, "input", (json_t *)(uintptr_t)texts);
    if (!w.url || !openai_extra(body, m->extra_args, &w.extra_headers, err) ||
        !openai_extra(body, extra_args, &w.extra_headers, err))
        return wire_failed(&w, err);
    if (!json_put(&text, body)) {
        err_set(err, ERR_TOO_LARGE, "the request is too large");
        return wire_failed(&w, err);
    }
    w.body = buf_view(&text);
    auto_json answer = wire_json(&w, err);
    if (!answer)
        return false;
    if (!embeddings_of(answer, json_array_size(texts), vectors, err))
        return wire_failed(&w, err);
    openai_usage(json_object_get(answer, "usage"), usage);
    return true;
}

/* ---- rerank ---------------------------------------------------------------------------------- */

enum { RERANK_MAX = 64 };

static const char *text_of(const json_t *call, const json_t *stored, const char *key)
{
    const char *own = json_z(call, key);
    return own ? own : json_z(stored, key);
}

static const char *rerank_url(struct arena *a, const struct model *m, const json_t *call,
                              struct error *err)
{
    const char *whole = text_of(call, m->extra_args, "rerank_url");
    if (whole && *whole)
        return whole;
    const char *given = text_of(call, m->extra_args, "rerank_path");
    struct str path = str_trim(str_c(given && *given ? given : "rerank"));
    while (path.n > 0 && path.p[0] == '/')
        path = str_sub(path, 1, path.n);
    while (path.n > 0 && path.p[path.n - 1] == '/')
        path.n--;
    if (m->provider->base_url[0] == '\0') {
        err_set(err, ERR_INVALID, "Base URL required for rerank");
        return NULL;
    }
    return wire_url(a, m->provider, str_z(a, path), err);
}

/* One score for each document; min-max normalised when they differ. */
static json_t *scores_of(const json_t *answer, size_t count)
{
    double score[RERANK_MAX] = {0}, low = INFINITY, high = -INFINITY;
    bool known[RERANK_MAX] = {0};
    const json_t *results = json_object_get(answer, "results");
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *r = json_array_get(results, i);
        int64_t index = json_i_or(r, "index", 0);
        if (index < 0 || (size_t)index >= count || index >= RERANK_MAX)
            continue;
        double value = json_f_or(r, "relevance_score", json_f_or(r, "score", 0));
        score[index] = value;
        known[index] = true;
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    json_t *out = json_array();
    for (size_t i = 0; i < count; i++) {
        double value = i < RERANK_MAX && known[i] ? score[i] : 0;
        if (i < RERANK_MAX && known[i] && high - low > 1e-6)
            value = (value - low) / (high - low);
        json_array_append_new(out, json_real(value));
    }
    return out;
}

bool openai_rerank(struct model *m, struct str query, const json_t *documents,
                   const json_t *extra_args, json_t **scores, struct error *err)
{
    auto_arena a = arena_new(WIRE_BODY_MAX * 4);
    auto_buf text = BUF(64 * 1024 * 1024);
    auto_json body = json_object();
    if (!a || !body)
        return err_set(err, ERR_NOMEM, "out of memory");
    size_t count = json_array_size(documents);
    struct wire w = wire_to(m->provider, a, "POST");
    w.plain = true;
    w.url = rerank_url(a, m, extra_args, err);
    *scores = NULL;
    if (!w.url)
        return false;
    json_set(body, "model", json_string(m->name));
    json_set(body, "query", json_strn(query));
    json_object_set(body, "documents", (json_t *)(uintptr_t)documents);
    json_set(body, "top_n", json_integer((json_int_t)(count < RERANK_MAX ? count : RERANK_MAX)));
    if (!openai_extra(body, m->extra_args, &w.extra_headers, err) ||
        !openai_extra(body, extra_args, &w.extra_headers, err))
        return false;
    json_object_del(body, "rerank_url");
    json_object_del(body, "rerank_path");
    if (!json_put(&text, body))
        return err_set(err, ERR_TOO_LARGE, "the request is too large");
    w.body = buf_view(&text);
    auto_json answer = wire_json(&w, err);
    if (!answer) {
        if (err->code == ERR_CANCELED || err->code == ERR_NOMEM)
            return false;
        return w.status >= 300 ? err_wrap(err, "rerank 请求失败 (HTTP %d)", w.status)
                               : err_wrap(err, "rerank 连接错误");
    }
    *scores = scores_of(answer, count);
    return *scores || err_set(err, ERR_NOMEM, "out of memory");
}

/* ---- scan ------------------------------------------------------------------------------------ */

static void add_ability(json_t *list, struct str ability)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (str_eq(json_sv(json_array_get(list, i)), ability))
            return;
    }
    if (ability.n > 0)
        json_array_append_new(list, json_strn(ability));
}

static json_t *abilities_of(const struct provider *p, const json_t *entry, const char *id,
                            const char *name)
{
    json_t *out = json_array();
    const json_t *known =
        json_object_get(catalogue_rule("scan.abilities", NULL, NULL, name), "abilities");
    for (size_t i = 0; i < json_array_size(known); i++)
        add_ability(out, json_sv(json_array_get(known, i)));
    const json_t *flags = json_at(catalogue_models(), "scan.ability_flags");
    for (size_t i = 0; i < json_array_size(flags); i++) {
        const json_t *f = json_array_get(flags, i);
        if (json_is_true(json_object_get(entry, json_z_or(f, "member", ""))))
            add_ability(out, json_s(f, "ability"));
    }
    auto_json caps = reasoning_capabilities(p->requester, id, NULL);
    if (json_is_true(json_object_get(caps, "supported")))
        add_ability(out, S("reasoning"));
    return out;
}

static int64_t positive(const json_t *value)
{
    int64_t n = 0;
    if (json_is_integer(value))
        n = json_integer_value(value);
    else if (json_is_string(value) && json_string_length(value) > 0 &&
             strspn(json_string_value(value), "0123456789") == json_string_length(value))
        (void)str_to_i64(json_sv(value), &n);
    return n > 0 ? n : 0;
}

static json_t *context_of(const json_t *entry, const char *name)
{
    const json_t *keys = json_at(catalogue_models(), "scan.context_keys");
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const char *key = json_string_value(json_array_get(keys, i));
        int64_t n = key ? positive(json_object_get(entry, key)) : 0;
        if (n > 0)
            return json_integer(n);
    }
    const json_t *rule = catalogue_rule("scan.context_length", NULL, NULL, name);
    int64_t n = json_i_or(rule, "tokens", 0);
    return n > 0 ? json_integer(n) : json_null();
}

static json_t *or_null(const json_t *entry, const char *key)
{
    json_t *value = json_object_get(entry, key);
    return value ? json_incref(value) : json_null();
}

static json_t *entry_of(const struct provider *p, const json_t *entry)
{
    char whole[256], name[256];
    const char *id = json_z(entry, "id");
    if (!id || !*id)
        return NULL;
    catalogue_name(id, true, whole, sizeof(whole));
    catalogue_name(id, false, name, sizeof(name));
    const char *type = json_z_or(catalogue_rule("scan.types", NULL, NULL, whole), "type", "llm");
    bool llm = strcmp(type, "llm") == 0;
    json_t *out = json_pack("{s:s, s:s, s:s}", "id", id, "name", id, "type", type);
    json_set(out, "abilities", llm ? abilities_of(p, entry, id, name) : json_array());
    json_set(out, "display_name", or_null(entry, "display_name"));
    json_set(out, "description", or_null(entry, "description"));
    json_set(out, "context_length", llm ? context_of(entry, name) : json_null());
    json_set(out, "owned_by", or_null(entry, "owned_by"));
    json_set(out, "input_modalities", or_null(entry, "input_modalities"));
    json_set(out, "output_modalities", or_null(entry, "output_modalities"));
    return out;
}

struct sort_entry {
    json_t *entry;
    char key[256];
};

static int by_type_and_name(const void *a, const void *b)
{
    const struct sort_entry *x = a, *y = b;
    bool lx = str_eqz(json_s(x->entry, "type"), "llm"),
         ly = str_eqz(json_s(y->entry, "type"), "llm");
    return lx != ly ? (lx ? -1 : 1) : strcmp(x->key, y->key);
}

static json_t *sorted(struct arena *a, const json_t *list)
{
    size_t n = json_array_size(list);
    json_t *out = json_array();
    struct sort_entry *entries = arena_alloc(a, n * sizeof(struct sort_entry));
    for (size_t i = 0; entries && i < n; i++) {
        entries[i].entry = json_array_get(list, i);
        catalogue_name(json_z_or(entries[i].entry, "name", ""), true, entries[i].key,
                       sizeof(entries[i].key));
    }
    if (entries)
        qsort(entries, n, sizeof(struct sort_entry), by_type_and_name);
    for (size_t i = 0; entries && i < n; i++)
        json_array_append(out, entries[i].entry);
    return out;
}

static json_t *scan_answer(const struct provider *p, struct arena *a, const json_t *body,
                           const char *type)
{
    auto_json found = json_array();
    const json_t *data = json_object_get(body, "data");
    for (size_t i = 0; i < json_array_size(data); i++) {
        json_t *e = entry_of(p, json_array_get(data, i));
        if (e && type && *type && !str_eqz(json_s(e, "type"), type))
            json_decref(e);
        else if (e)
            json_array_append_new(found, e);
    }
    return json_pack("{s:o, s:n}", "models", sorted(a, found), "debug");
}

/* GET {base}/models; a 404 of a base that does not end in /v1 is asked once more below it. */
static json_t *list_models(struct wire *w, struct error *err)
{
    w->url = wire_url(w->arena, w->provider, "models", err);
    json_t *body = w->url ? wire_json(w, err) : NULL;
    if (body || w->status != 404 || str_ends(str_c(w->provider->base_url), S("/v1")))
        return body;
    w->url = wire_url(w->arena, w->provider, "v1/models", err);
    return w->url ? wire_json(w, err) : NULL;
}

json_t *openai_scan(struct provider *p, const char *type, struct error *err)
{
    auto_arena a = arena_new(WIRE_BODY_MAX * 4);
    if (!a) {
        err_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    if (p->base_url[0] == '\0') {
        err_set(err, ERR_INVALID, "Base URL required for model scanning");
        return NULL;
    }
    struct wire w = wire_to(p, a, "GET");
    w.plain = w.one_try = true;
    auto_json body = list_models(&w, err);
    if (body && !json_is_array(json_object_get(body, "data"))) {
        json_decref(body);
        body = NULL;
        err_set(err, ERR_PROTOCOL, "the answer has no list of models");
    }
    bool own_list = strcmp(p->requester, "qiniu-chat-completions") == 0;
    if (own_list && (!body || json_array_size(json_object_get(body, "data")) == 0) &&
        (body || err->code != ERR_CANCELED)) {
        auto_json known = json_pack("{s:[{s:s}]}", "data", "id", "deepseek-v3");
        json_t *out = scan_answer(p, a, known, type);
        json_set(out, "debug", json_pack("{s:s}", "source", "built in"));
        return out;
    }
    if (body)
        return scan_answer(p, a, body, type);
    if (err->code == ERR_CANCELED || err->code == ERR_NOMEM)
        return NULL;
    if (err->code == ERR_TIMEOUT)
        err_tag(err, ERR_TIMEOUT, 0, err->tag, "Model scan timeout");
    else if (w.status >= 300)
        err_tag(err, ERR_UPSTREAM, 0, err->tag, "Model scan failed: %d", w.status);
    else
        err_wrap(err, "Model scan error");
    return NULL;
}
