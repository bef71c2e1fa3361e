/* Providers and models as rows, and the cache over them, on SQLite. */
#include "model/model_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define REQUESTER "siliconflow-chat-completions"

static struct {
    struct store st;
    struct models *models;
    struct scope a, b;
    struct error err;
    char dir[64], failed[1400];
    void (*test)(void);
} t;

#define check(cond)                                                                           \
    do {                                                                                      \
        if (!(cond)) {                                                                        \
            snprintf(t.failed, sizeof(t.failed), "%s:%d: %s (%s)", __FILE__, __LINE__, #cond, \
                     t.err.msg);                                                              \
            return;                                                                           \
        }                                                                                     \
    } while (0)
#define refused(call, err_code, text)                               \
    do {                                                            \
        t.err = (struct error){0};                                  \
        check(!(call));                                             \
        check(t.err.code == (err_code) && strstr(t.err.msg, text)); \
    } while (0)

static bool workspace(struct scope *s, const char *uuid)
{
    *s = (struct scope){.generation = 1};
    snprintf(s->instance, sizeof(s->instance), "i-%s", uuid);
    snprintf(s->workspace, sizeof(s->workspace), "%s", uuid);
    auto_json row =
        json_pack("{s:s, s:s, s:s}", "instance_uuid", s->instance, "name", "W", "slug", "w");
    auto_json stored = store_do_insert(&t.st, &table_workspaces, s, row, &t.err);
    return stored != NULL;
}

static bool open_all(void)
{
    char path[128];
    struct db_opts o = {.kind = DB_SQLITE, .path = path};
    snprintf(t.dir, sizeof(t.dir), "/tmp/parley-model-XXXXXX");
    if (!mkdtemp(t.dir))
        return false;
    snprintf(path, sizeof(path), "%s/a.db", t.dir);
    t.st.db = db_open(&o, &t.err);
    if (!t.st.db || !db_migrate(t.st.db, NULL, &t.err))
        return false;
    auto_json row = json_pack("{s:s, s:s, s:s}", "user", "A@example.org", "normalized_email",
                              "a@example.org", "password", "");
    auto_json account = store_do_insert(&t.st, &table_users, NULL, row, &t.err);
    t.models = models_new(&t.st, NULL, &t.err);
    return account && t.models && workspace(&t.a, "aaaaaaaa-0000-4000-8000-000000000001") &&
           workspace(&t.b, "bbbbbbbb-0000-4000-8000-000000000002");
}

static int in_fiber(void *arg)
{
    if (!open_all())
        snprintf(t.failed, sizeof(t.failed), "%s", t.err.msg);
    else
        t.test();
    models_free(t.models);
    db_close(t.st.db);
    char command[128];
    const char *names[] = {"a.db", "a.db-wal", "a.db-shm", "a.db.lock", "a.db-lock"};
    for (size_t i = 0; i < array_len(names); i++) {
        snprintf(command, sizeof(command), "%s/%s", t.dir, names[i]);
        unlink(command);
    }
    rmdir(t.dir);
    return 0;
}

static void run(void (*test)(void))
{
    long live = mem_live();
    memset(&t, 0, sizeof(t));
    memset(t.st.key.k, 7, sizeof(t.st.key.k));
    t.test = test;
    task_run(in_fiber, NULL);
    if (t.failed[0])
        fail_msg("%s", t.failed);
    catalogue_free();
    assert_int_equal(mem_live(), live);
}

static bool provider(char *uuid, const char *keys)
{
    auto_json body = json_pack("{s:s, s:s, s:s}", "name", "p", "requester", REQUESTER, "base_url",
                               "http://127.0.0.1:9/v1");
    json_set(body, "api_keys", json_loads(keys, JSON_DECODE_ANY, NULL));
    return provider_create(t.models, &t.a, body, uuid, &t.err);
}

static bool keys_are(const char *uuid, const char *keys, bool secrets)
{
    auto_arena a = arena_new(1 << 16);
    auto_json row = provider_get(t.models, &t.a, uuid, secrets, &t.err);
    return str_eqz(json_text(a, json_object_get(row, "api_keys")), keys);
}

static bool change_keys(const char *uuid, const char *keys)
{
    auto_json body = json_object();
    json_set(body, "api_keys", json_loads(keys, JSON_DECODE_ANY, NULL));
    return provider_update(t.models, &t.a, uuid, body, &t.err);
}

static void body_providers(void)
{
    char p[UUID_SIZE], q[UUID_SIZE];
    check(provider(p, "[\" a \", \"\", 7, \"b\", \"a\"]"));
    check(keys_are(p, "[\"a\",\"b\"]", true) && keys_are(p, "[\"***\",\"***\"]", false));
    check(provider(q, "null") && keys_are(q, "[]", true));
    check(change_keys(q, "\" one \"") && keys_are(q, "[\"one\"]", true));
    check(change_keys(p, "[\"***\", \"new\"]") && keys_are(p, "[\"a\",\"new\"]", true));
    refused(change_keys(q, "[\"***\", \"***\"]"), ERR_INVALID, "Masked secret");
    refused(provider(q, "[\"***\"]"), ERR_INVALID, "Masked secret");
    auto_json unknown = json_pack("{s:s, s:s}", "name", "x", "requester", "nobody");
    refused(provider_create(t.models, &t.a, unknown, q, &t.err), ERR_INVALID, "nobody");
    auto_json all = provider_list(t.models, &t.a, true, &t.err);
    check(json_array_size(all) == 2);
    check(json_i_or(json_array_get(all, 0), "rerank_count", -1) == 0);

    /* Foreign equals missing. */
    auto_json name = json_pack("{s:s}", "name", "other");
    refused(provider_get(t.models, &t.b, p, true, &t.err), ERR_NOT_FOUND, "");
    refused(provider_update(t.models, &t.b, p, name, &t.err), ERR_NOT_FOUND, "");
    refused(provider_delete(t.models, &t.b, p, true, &t.err), ERR_NOT_FOUND, "");
    check(provider_update(t.models, &t.a, p, name, &t.err));
    check(provider_delete(t.models, &t.a, p, false, &t.err));
    refused(provider_delete(t.models, &t.a, p, false, &t.err), ERR_NOT_FOUND, "");
}

static void test_providers(void **state)
{
    run(body_providers);
}

static bool model(enum model_kind k, const char *provider_uuid, const char *more, char *uuid)
{
    auto_json body = json_loads(more, 0, NULL);
    if (!json_object_get(body, "name"))
        json_set(body, "name", json_string("m"));
    if (provider_uuid)
        json_set(body, "provider_uuid", json_string(provider_uuid));
    return model_create(t.models, &t.a, k, body, uuid, &t.err);
}

static bool change(enum model_kind k, const char *uuid, const char *patch)
{
    auto_json body = json_loads(patch, 0, NULL);
    return model_update(t.models, &t.a, k, uuid, body, &t.err);
}

static void body_models(void)
{
    char p[UUID_SIZE], u[UUID_SIZE], v[UUID_SIZE];
    check(provider(p, "[\"sk-a\"]"));
    for (int k = 0; k < 3; k++) {
        auto_arena a = arena_new(1 << 16);
        check(model(k, p, "{\"extra_args\":{\"token\":\"s\",\"n\":1}}", u));
        auto_json row = model_get_row(t.models, &t.a, k, u, true, &t.err);
        check(row && str_eqz(json_sv(json_at(row, "provider.uuid")), p));
        check(!json_at(row, "provider.llm_count"));
        check((json_object_get(row, "reasoning_capabilities") != NULL) == (k == MODEL_LLM));
        auto_json masked = model_get_row(t.models, &t.a, k, u, false, &t.err);
        check(str_eqz(json_sv(json_at(masked, "extra_args.token")), "***"));
        check(str_eqz(json_text(a, json_at(masked, "provider.api_keys")), "[\"***\"]"));
        check(change(k, u, "{\"extra_args\":{\"token\":\"***\",\"n\":2},\"name\":\"after\"}"));
        auto_json after = model_get_row(t.models, &t.a, k, u, true, &t.err);
        check(str_eqz(json_text(a, json_object_get(after, "extra_args")),
                      "{\"token\":\"s\",\"n\":2}"));
        check(str_eqz(json_s(after, "name"), "after"));
        refused(change(k, u, "{\"extra_args\":{\"other_token\":\"***\"}}"), ERR_INVALID,
                "Masked secret");
        refused(change(k, u, "{\"provider_uuid\":\"11111111-2222-4333-8444-555555555555\"}"),
                ERR_NOT_FOUND, "");
        auto_json listed = model_list(t.models, &t.a, k, p, true, &t.err);
        check(json_array_size(listed) == 1 &&
              !json_object_get(json_array_get(listed, 0), "provider"));
        auto_json all = model_list(t.models, &t.a, k, NULL, true, &t.err);
        check(json_object_get(json_array_get(all, 0), "provider"));
        refused(model_list(t.models, &t.a, k, u, true, &t.err), ERR_NOT_FOUND, "");
        auto_json foreign = model_list(t.models, &t.b, k, NULL, true, &t.err);
        check(json_array_size(foreign) == 0);
        refused(model_get_row(t.models, &t.b, k, u, true, &t.err), ERR_NOT_FOUND, "");
        refused(model_delete(t.models, &t.b, k, u, &t.err), ERR_NOT_FOUND, "");
    }
    refused(provider_delete(t.models, &t.a, p, false, &t.err), ERR_INVALID,
            "Cannot delete provider: LLM models still reference it");
    check(model_delete(t.models, &t.a, MODEL_RERANK, u, &t.err));
    refused(model_delete(t.models, &t.a, MODEL_RERANK, u, &t.err), ERR_NOT_FOUND, "");
    check(provider_delete(t.models, &t.a, p, true, &t.err));
    auto_json none = model_list(t.models, &t.a, MODEL_LLM, NULL, true, &t.err);
    check(json_array_size(none) == 0);
    refused(model(MODEL_LLM, p, "{}", v), ERR_NOT_FOUND, "");
    refused(model(MODEL_LLM, NULL, "{}", v), ERR_INVALID, "provider");
}

static void test_models(void **state)
{
    run(body_models);
}

static void body_embedded(void)
{
    char u[UUID_SIZE], first[UUID_SIZE];
    static const struct {
        const char *body;
        bool same;
    } cases[] = {
        {"{\"provider\":{\"requester\":\"" REQUESTER
         "\",\"base_url\":\"http://h:9/v1\",\"api_keys\":"
         "[\"b\",\" a \",\"b\"]}}",
         true},
        {"{\"provider\":{\"requester\":\"" REQUESTER
         "\",\"base_url\":\"http://h:9/v1\",\"api_keys\":"
         "[\"a\",\"b\"]}}",
         true},
        {"{\"provider\":{\"requester\":\"" REQUESTER
         "\",\"base_url\":\"http://h:9/v1\",\"api_keys\":"
         "[\"a\"]}}",
         false},
        {"{\"provider\":{\"requester\":\"" REQUESTER
         "\",\"base_url\":\"http://h:9/v1/\",\"api_keys\":"
         "[\"a\",\"b\"]}}",
         false},
        {"{\"provider\":{\"requester\":\"" REQUESTER "\",\"base_url\":\"\",\"api_keys\":\"k\"}}",
         false},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        check(model(MODEL_LLM, NULL, cases[i].body, u));
        auto_json row = model_get_row(t.models, &t.a, MODEL_LLM, u, true, &t.err);
        const char *p = json_z_or(row, "provider_uuid", "");
        if (i == 0)
            snprintf(first, sizeof(first), "%s", p);
        check((strcmp(p, first) == 0) == cases[i].same);
        check(str_eqz(json_sv(json_at(row, "provider.name")), i < 4 ? "h:9" : REQUESTER));
    }
    auto_json openai = json_pack("{s:s, s:s, s:s}", "name", "o", "requester",
                                 "openai-chat-completions", "base_url", "");
    check(provider_create(t.models, &t.a, openai, first, &t.err));
    refused(model(MODEL_RERANK, first, "{}", u), ERR_INVALID,
            "Provider requester \"openai-chat-completions\" does not support rerank models");
}

static void test_embedded(void **state)
{
    run(body_embedded);
}

static void body_reasoning(void)
{
    char p[UUID_SIZE], u[UUID_SIZE];
    auto_json body = json_pack("{s:s, s:s, s:s}", "name", "d", "requester",
                               "doubao-chat-completions", "base_url", "");
    check(provider_create(t.models, &t.a, body, p, &t.err));
    refused(model(MODEL_LLM, p, "{\"reasoning_config\":{\"level\":\"extreme\"}}", u), ERR_INVALID,
            "Unsupported reasoning level: extreme");
    check(model(MODEL_LLM, p,
                "{\"name\":\"doubao-seed-1\",\"abilities\":[\"reasoning\"],"
                "\"reasoning_config\":{\"level\":\"high\"}}",
                u));
    refused(change(MODEL_LLM, u, "{\"abilities\":[]}"), ERR_INVALID, "ability");
    refused(change(MODEL_LLM, u, "{\"extra_args\":{\"thinking\":{}}}"), ERR_INVALID, "thinking");
    check(change(MODEL_LLM, u, "{\"name\":\"other\"}"));
    check(change(MODEL_LLM, u, "{\"reasoning_config\":null,\"abilities\":[]}"));
    auto_json row = model_get_row(t.models, &t.a, MODEL_LLM, u, true, &t.err);
    check(str_eqz(json_sv(json_at(row, "reasoning_config.level")), "provider_default"));
}

static void test_reasoning(void **state)
{
    run(body_reasoning);
}

static void body_cache(void)
{
    char p[UUID_SIZE], u[UUID_SIZE];
    check(provider(p, "[\"sk-a\"]") && model(MODEL_LLM, p, "{\"name\":\"first\"}", u));
    struct model *one = models_get(t.models, &t.a, MODEL_LLM, u, &t.err);
    struct model *again = models_get(t.models, &t.a, MODEL_LLM, u, &t.err);
    check(one && one == again && strcmp(model_name(one), "first") == 0);
    model_unref(again);
    check(change(MODEL_LLM, u, "{\"name\":\"second\"}"));
    again = models_get(t.models, &t.a, MODEL_LLM, u, &t.err);
    check(again && strcmp(model_name(again), "second") == 0);
    check(strcmp(model_name(one), "first") == 0); /* who still uses the old one keeps it */
    model_unref(again);
    model_unref(one);
    check(change_keys(p, "[\"sk-b\"]"));
    again = models_get(t.models, &t.a, MODEL_LLM, u, &t.err);
    check(again && strcmp(again->provider->keys[0], "sk-b") == 0);
    model_unref(again);
    size_t n[4];
    models_counts(t.models, &n[0], &n[1], &n[2], &n[3]);
    check(n[0] == 1 && n[1] == 1 && n[2] == 0 && n[3] == 0);
    refused(models_get(t.models, &t.b, MODEL_LLM, u, &t.err), ERR_NOT_FOUND, "LLM model ");
    refused(models_get(t.models, &t.a, MODEL_RERANK, u, &t.err), ERR_NOT_FOUND, "Rerank model ");
    check(provider_delete(t.models, &t.a, p, true, &t.err));
    refused(models_get(t.models, &t.a, MODEL_LLM, u, &t.err), ERR_NOT_FOUND, "LLM model ");
}

static void test_cache(void **state)
{
    run(body_cache);
}

static void body_default_pipeline(void)
{
    char p[UUID_SIZE], first[UUID_SIZE], u[UUID_SIZE];
    auto_json row =
        json_loads("{\"name\":\"d\",\"description\":\"\",\"is_default\":true,\"for_version\":\"1\","
                   "\"stages\":[],\"config\":{\"ai\":{\"local-agent\":{\"model\":"
                   "{\"primary\":\"\",\"fallbacks\":[]}}}}}",
                   0, NULL);
    auto_json pipeline = store_do_insert(&t.st, &table_pipelines, &t.a, row, &t.err);
    check(pipeline);
    check(provider(p, "[]") && model(MODEL_EMBEDDING, p, "{}", u));
    check(model(MODEL_LLM, p, "{}", first) && model(MODEL_LLM, p, "{}", u));
    struct store_eq key = EQ_Z("uuid", json_z_or(pipeline, "uuid", ""));
    auto_json now = store_do_get(&t.st, &table_pipelines, &t.a, &key, 1, true, &t.err);
    check(str_eqz(json_sv(json_at(now, "config.ai.local-agent.model.primary")), first));
}

static void test_default_pipeline(void **state)
{
    run(body_default_pipeline);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_providers), cmocka_unit_test(test_models),
        cmocka_unit_test(test_embedded),  cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_cache),     cmocka_unit_test(test_default_pipeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
