#include "model/model_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>

static const struct {
    const char *requester, *model, *family, *levels;
} known[] = {
    {"deepseek-chat-completions", "deepseek-v4-pro", "deepseek",
     "[\"provider_default\",\"disabled\",\"low\",\"high\",\"xhigh\",\"max\"]"},
    {"deepseek-chat-completions", "deepseek-reasoner", "deepseek", "[\"provider_default\"]"},
    {"moonshot-cn-chat-completions", "kimi-k2.7-code-fast", "kimi", "[\"provider_default\"]"},
    {"bailian-chat-completions", "kimi-k2.5", "kimi",
     "[\"provider_default\",\"disabled\",\"enabled\"]"},
    {"bailian-chat-completions", "qwen3-235b-a22b-thinking-2507", "qwen",
     "[\"provider_default\",\"low\",\"medium\",\"high\"]"},
    {"volcark-chat-completions", "doubao-seed-1-6", "doubao",
     "[\"provider_default\",\"disabled\",\"low\",\"medium\",\"high\"]"},
    {"new-api-chat-completions", "vendor/Qwen3-8B", "qwen",
     "[\"provider_default\",\"disabled\",\"low\",\"medium\",\"high\"]"},
    {"openai-chat-completions", "o3-zz", "openai",
     "[\"provider_default\",\"low\",\"medium\",\"high\"]"},
};

static void test_known(void **state)
{
    for (size_t i = 0; i < array_len(known); i++) {
        auto_arena a = arena_new(1 << 16);
        auto_json caps = reasoning_capabilities(known[i].requester, known[i].model, NULL);
        struct str levels = json_text(a, json_object_get(caps, "levels"));
        assert_string_equal(str_z(a, levels), known[i].levels);
        assert_true(json_is_true(json_object_get(caps, "supported")));
        assert_string_equal(json_z(caps, "source"), "provider");
        assert_string_equal(reasoning_family(known[i].requester, known[i].model), known[i].family);
    }
    assert_null(reasoning_family("siliconflow-chat-completions", "own"));
    assert_string_equal(reasoning_family("volcark-chat-completions", "own"), "volcengine");
    assert_string_equal(reasoning_family("groq-chat-completions", "own"), "groq");
    assert_string_equal(reasoning_replay("qwen"), "reasoning_content");
    assert_null(reasoning_replay("openai"));
    assert_null(reasoning_replay(NULL));
}

static void test_declared(void **state)
{
    auto_json abilities = json_pack("[s]", "reasoning");
    auto_json a = reasoning_capabilities("groq-chat-completions", "own-think", abilities);
    assert_int_equal(json_array_size(json_object_get(a, "levels")), 4);
    assert_string_equal(json_z(a, "source"), "manual");
    auto_json b = reasoning_capabilities("siliconflow-chat-completions", "own-think", abilities);
    assert_int_equal(json_array_size(json_object_get(b, "levels")), 1);
    auto_json c = reasoning_capabilities("siliconflow-chat-completions", "plain", NULL);
    assert_true(json_is_false(json_object_get(c, "supported")));
    assert_string_equal(json_z(c, "source"), "unknown");
    auto_json d = reasoning_capabilities("bailian-chat-completions", "qwen3-32b", NULL);
    assert_int_equal(json_array_size(json_object_get(d, "legacy_levels")), 1);
}

static void refused(const char *config, const char *abilities, const char *extra, const char *msg)
{
    struct error err = {0};
    auto_json c = json_loads(config, JSON_DECODE_ANY, NULL);
    auto_json ab = json_loads(abilities, 0, NULL);
    auto_json ex = json_loads(extra, 0, NULL);
    json_t *got = reasoning_check(c, "doubao-chat-completions", "doubao-seed-1", ab, ex, &err);
    assert_null(got);
    assert_int_equal(err.code, ERR_INVALID);
    assert_non_null(strstr(err.msg, msg));
}

static void test_check(void **state)
{
    struct error err = {0};
    static const char *const fine[] = {"null", "{}", "{\"level\":\"provider_default\"}"};
    for (size_t i = 0; i < array_len(fine); i++) {
        auto_json c = json_loads(fine[i], JSON_DECODE_ANY, NULL);
        auto_json got = reasoning_check(c, "openai-chat-completions", "m", NULL, NULL, &err);
        assert_string_equal(json_z(got, "level"), "provider_default");
    }
    refused("{\"level\":\"extreme\"}", "[\"reasoning\"]", "{}",
            "Unsupported reasoning level: extreme");
    refused("{\"level\":\"\"}", "[\"reasoning\"]", "{}", "Unsupported reasoning level: ");
    refused("{\"level\":\"high\",\"budget\":1,\"a\":2}", "[\"reasoning\"]", "{}",
            "Unsupported reasoning_config fields: a, budget");
    refused("\"high\"", "[\"reasoning\"]", "{}", "object");
    refused("{\"level\":\"high\"}", "[\"vision\"]", "{}", "ability");
    refused("{\"level\":\"enabled\"}", "[\"reasoning\"]", "{}", "not offered");
    refused("{\"level\":\"high\"}", "[\"reasoning\"]",
            "{\"extra_body\":{\"thinking\":1,\"enable_thinking\":1},\"reasoning\":null}",
            ": reasoning, extra_body.enable_thinking, extra_body.thinking");
    auto_json legacy = json_pack("{s:s}", "level", "enabled");
    auto_json ab = json_pack("[s]", "reasoning");
    auto_json got =
        reasoning_check(legacy, "bailian-chat-completions", "qwen3-32b", ab, NULL, &err);
    assert_string_equal(json_z(got, "level"), "enabled");
}

static const struct {
    const char *requester, *model, *level, *args;
} wire[] = {
    {"openai-chat-completions", "gpt-5-zz", "high", "{\"reasoning_effort\":\"high\"}"},
    {"doubao-chat-completions", "doubao-seed-1", "disabled",
     "{\"extra_body\":{\"thinking\":{\"type\":\"disabled\"}}}"},
    {"bailian-chat-completions", "qwen3-8b", "medium",
     "{\"extra_body\":{\"enable_thinking\":true,\"thinking_budget\":4096}}"},
    {"deepseek-chat-completions", "deepseek-v4-pro", "max",
     "{\"extra_body\":{\"thinking\":{\"type\":\"enabled\"},\"reasoning_effort\":\"max\"}}"},
    {"bailian-chat-completions", "kimi-k2.5", "provider_default", "{}"},
};

static void test_wire(void **state)
{
    for (size_t i = 0; i < array_len(wire); i++) {
        struct error err;
        auto_arena a = arena_new(1 << 16);
        auto_json row = json_pack("{s:s}", "requester", wire[i].requester);
        struct provider *p = provider_of_row(row, &err);
        auto_json model =
            json_pack("{s:s, s:[s]}", "name", wire[i].model, "abilities", "reasoning");
        struct model *m = model_of_row(MODEL_LLM, model, p, &err);
        provider_unref(p);
        auto_json args = reasoning_args(m, wire[i].level, NULL, NULL, &err);
        assert_string_equal(str_z(a, json_text(a, args)), wire[i].args);
        auto_json extra = json_pack("{s:{s:b}}", "extra_body", "thinking", 1);
        json_t *clash = reasoning_args(m, wire[i].level, NULL, extra, &err);
        if (strcmp(wire[i].level, "provider_default") != 0) {
            assert_null(clash);
            assert_non_null(strstr(err.msg, "extra_body.thinking"));
        }
        json_decref(clash);
        assert_null(reasoning_args(m, "bogus", NULL, NULL, &err));
        assert_non_null(strstr(err.msg, "bogus"));
        model_unref(m);
    }
}

static void test_catalogue(void **state)
{
    auto_json all = requester_list(NULL);
    auto_json rerank = requester_list("rerank");
    auto_json none = requester_list("no-such-type");
    assert_true(json_array_size(all) > json_array_size(rerank));
    assert_true(json_array_size(rerank) > 0);
    assert_int_equal(json_array_size(none), 0);
    const json_t *m = requester_manifest("openai-chat-completions");
    assert_string_equal(json_z(m, "name"), "openai-chat-completions");
    assert_true(json_is_object(json_object_get(m, "spec")));
    assert_null(json_object_get(m, "metadata"));
    assert_null(requester_manifest("no-such"));
    assert_null(requester_manifest("../config"));
    assert_null(requester_manifest(""));
    assert_true(requester_supports("openai-chat-completions", MODEL_EMBEDDING));
    assert_false(requester_supports("openai-chat-completions", MODEL_RERANK));
    assert_true(requester_supports("no-such", MODEL_RERANK));
}

static void test_keys(void **state)
{
    struct error err;
    auto_json row = json_pack("{s:s, s:s, s:[s,s,i,s,s]}", "requester", "openai-chat-completions",
                              "base_url", " http://h/v1// ", "api_keys", " a ", "", 1, "b", "a");
    struct provider *p = provider_of_row(row, &err);
    assert_non_null(p);
    assert_string_equal(p->base_url, "http://h/v1");
    assert_int_equal(p->key_count, 2);
    assert_string_equal(p->keys[0], "a");
    assert_string_equal(p->keys[1], "b");
    provider_unref(p);
    auto_json old = json_pack("{s:s, s:s}", "requester", "openai-chat-completions", "api_keys",
                              "[\"x\", \"y\"]");
    p = provider_of_row(old, &err);
    assert_int_equal(p->key_count, 2);
    provider_unref(p);
    auto_json bad = json_pack("{s:s}", "requester", "nobody");
    assert_null(provider_of_row(bad, &err));
    assert_string_equal(err.msg, "Requester nobody not found");
}

/* A provider of a protocol that is not built is kept, but nothing can be asked of its models. */
static void test_unbuilt(void **state)
{
    struct error err = {0};
    assert_true(requester_known("ollama-chat") && requester_known("openai-chat-completions"));
    assert_false(requester_known("nobody") || requester_known(NULL));
    assert_null(requester_manifest("ollama-chat"));
    assert_true(requester_supports("ollama-chat", MODEL_EMBEDDING));
    assert_false(requester_supports("ollama-chat", MODEL_RERANK));
    auto_json row = json_pack("{s:s, s:s}", "requester", "ollama-chat", "base_url", "http://h");
    struct provider *p = provider_of_row(row, &err);
    assert_non_null(p);
    auto_json named = json_pack("{s:s, s:s}", "uuid", "u", "name", "m");
    struct model *m = model_of_row(MODEL_LLM, named, p, &err);
    assert_non_null(m);
    struct llm_request req = {0};
    struct llm_answer answer = {0};
    assert_false(llm_invoke(m, &req, &answer, &err));
    assert_string_equal(err.msg, "The requester ollama-chat is not available in this version");
    assert_null(llm_open(m, &req, &err));
    model_unref(m);
    provider_unref(p);
}

int main(void)
{
    base_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),     cmocka_unit_test(test_declared),
        cmocka_unit_test(test_check),     cmocka_unit_test(test_wire),
        cmocka_unit_test(test_catalogue), cmocka_unit_test(test_keys),
        cmocka_unit_test(test_unbuilt),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    catalogue_free();
    return failed || mem_live() != 0;
}
