/* The documents of metadata/ as they are embedded: readable, complete, and in agreement with each other. */
#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static const char *const locales[] = {"en_US", "zh_Hans", "zh_Hant", "ja_JP",
                                      "vi_VN", "th_TH",   "es_ES",   "ru_RU"};

static json_t *document(const char *path)
{
    const struct base_asset *asset = base_asset_find(path);
    struct error err = {0};
    json_t *j = asset
                    ? config_yaml_to_json(str_n((const char *)asset->data, asset->size), path, &err)
                    : NULL;
    if (!j)
        print_error("%s: %s\n", path, asset ? err.msg : "not embedded");
    assert_non_null(j);
    return j;
}

static bool below(const struct base_asset *asset, const char *folder, const char *suffix)
{
    size_t n = strlen(asset->path);
    size_t end = strlen(suffix);
    return strncmp(asset->path, folder, strlen(folder)) == 0 && n > end &&
           strcmp(asset->path + n - end, suffix) == 0;
}

/* A text has English and Chinese at least, and only languages that we have. */
static void check_texts(json_t *texts, const char *where)
{
    const char *key;
    json_t *value;
    if (!json_z(texts, "en_US") || !json_z(texts, "zh_Hans"))
        print_error("%s lacks a language\n", where);
    assert_true(json_z(texts, "en_US") && json_z(texts, "zh_Hans"));
    json_object_foreach (texts, key, value) {
        bool known = false;
        for (size_t i = 0; i < sizeof locales / sizeof *locales; i++)
            known = known || strcmp(key, locales[i]) == 0;
        assert_true(known);
        assert_true(json_is_string(value) && json_string_length(value) > 0);
    }
}

static void check_condition(const json_t *condition)
{
    if (!condition)
        return;
    const char *op = json_z(condition, "operator");
    assert_non_null(json_z(condition, "field"));
    assert_non_null(op);
    assert_true(!strcmp(op, "eq") || !strcmp(op, "neq") || !strcmp(op, "in"));
    assert_non_null(json_object_get(condition, "value"));
}

/* Default and type agree where the type says what the value must be. */
static void check_default(const char *type, const json_t *value)
{
    assert_non_null(value);
    if (!strcmp(type, "boolean"))
        assert_true(json_is_boolean(value));
    else if (!strcmp(type, "integer") || !strcmp(type, "int"))
        assert_true(json_is_integer(value));
    else if (!strcmp(type, "float") || !strcmp(type, "number"))
        assert_true(json_is_number(value));
    else if (!strcmp(type, "string") || !strcmp(type, "text") || !strcmp(type, "select"))
        assert_true(json_is_string(value));
    else if (!strcmp(type, "array[string]"))
        assert_true(json_is_array(value));
}

static void check_fields(json_t *fields)
{
    size_t i, n;
    json_t *field, *option;
    auto_json seen = json_object();
    assert_true(json_is_array(fields));
    json_array_foreach (fields, i, field) {
        const char *name = json_z(field, "name");
        const char *type = json_z(field, "type");
        assert_true(name && type);
        assert_null(json_object_get(seen, name));
        assert_int_equal(json_object_set_new(seen, name, json_true()), 0);
        check_texts(json_object_get(field, "label"), name);
        if (json_object_get(field, "description"))
            check_texts(json_object_get(field, "description"), name);
        assert_true(json_is_boolean(json_object_get(field, "required")));
        const json_t *value = json_object_get(field, "default");
        check_default(type, value);
        bool offered = strcmp(type, "select") != 0;
        json_array_foreach (json_object_get(field, "options"), n, option) {
            check_texts(json_object_get(option, "label"), name);
            offered = offered || json_equal(json_object_get(option, "name"), value);
        }
        assert_true(offered);
        check_condition(json_object_get(field, "show_if"));
        check_condition(json_object_get(field, "disable_if"));
    }
}

static void test_every_document_is_readable(void **state)
{
    size_t found = 0;
    for (size_t i = 0; i < base_asset_count; i++) {
        if (!below(&base_assets[i], "metadata/", ".yaml"))
            continue;
        auto_json j = document(base_assets[i].path);
        assert_true(json_is_object(j));
        found++;
    }
    assert_true(found > 10);
}

/* Each field of the form has its value in a new pipeline. */
static void check_form(const json_t *form, const json_t *values)
{
    size_t i, n;
    json_t *stage, *field;
    assert_int_equal(json_object_size(values), json_array_size(json_object_get(form, "stages")));
    json_array_foreach (json_object_get(form, "stages"), i, stage) {
        const json_t *section = json_object_get(values, json_z(stage, "name"));
        assert_non_null(section);
        check_texts(json_object_get(stage, "label"), json_z(stage, "name"));
        check_fields(json_object_get(stage, "config"));
        json_array_foreach (json_object_get(stage, "config"), n, field) {
            const char *name = json_z(field, "name");
            /* The contract spells this one differently in the two places. */
            if (!strcmp(name, "references_quote"))
                name = "references-quote";
            check_default(json_z(field, "type"), json_object_get(section, name));
        }
    }
}

static void test_pipeline_forms(void **state)
{
    static const char *const forms[] = {"trigger", "safety", "ai", "output"};
    const struct base_asset *asset = base_asset_find("metadata/pipeline/default.json");
    struct error err = {0};
    assert_non_null(asset);
    auto_json config = json_parse(str_n((const char *)asset->data, asset->size), &err);
    assert_int_equal(json_object_size(config), 4);
    for (size_t f = 0; f < 4; f++) {
        char path[64];
        snprintf(path, sizeof path, "metadata/pipeline/%s.yaml", forms[f]);
        auto_json form = document(path);
        assert_string_equal(json_z(form, "name"), forms[f]);
        check_texts(json_object_get(form, "label"), path);
        check_form(form, json_object_get(config, forms[f]));
    }
}

/* Each runner that can be chosen has its stage behind that of the choice, in the same order. */
static void test_runners_have_stages(void **state)
{
    size_t i;
    json_t *runner;
    auto_json form = document("metadata/pipeline/ai.yaml");
    const json_t *stages = json_object_get(form, "stages");
    const json_t *choice = json_array_get(json_object_get(json_array_get(stages, 0), "config"), 0);
    json_t *runners = json_object_get(choice, "options");
    assert_int_equal(json_array_size(runners) + 1, json_array_size(stages));
    json_array_foreach (runners, i, runner) {
        const char *stage = json_z(json_array_get(stages, i + 1), "name");
        assert_string_equal(json_z(runner, "name"), stage);
    }
}

static void check_manifests(const char *folder)
{
    size_t found = 0;
    for (size_t i = 0; i < base_asset_count; i++) {
        if (!below(&base_assets[i], folder, ".yaml"))
            continue;
        char path[256];
        auto_json manifest = document(base_assets[i].path);
        const json_t *meta = json_object_get(manifest, "metadata");
        assert_non_null(json_z(meta, "name"));
        snprintf(path, sizeof path, "%s%s.yaml", folder, json_z(meta, "name"));
        assert_string_equal(base_assets[i].path, path);
        check_texts(json_object_get(meta, "label"), path);
        assert_non_null(json_z(meta, "icon"));
        snprintf(path, sizeof path, "%sicons/%s", folder, json_z(meta, "icon"));
        assert_non_null(base_asset_find(path));
        check_fields(json_at(manifest, "spec.config"));
        found++;
    }
    assert_true(found > 2);
}

static void test_manifests(void **state)
{
    check_manifests("metadata/adapters/");
    check_manifests("metadata/requesters/");
}

/* Levels in the rules are known ones, in the order in which they are shown; each family that a rule names exists. */
static void test_reasoning_rules(void **state)
{
    static const char *const tables[] = {"known", "declared"};
    auto_json models = document("metadata/models.yaml");
    const json_t *reasoning = json_object_get(models, "reasoning");
    const json_t *all = json_object_get(reasoning, "levels");
    assert_int_equal(json_array_size(all), 9);
    for (size_t t = 0; t < 2; t++) {
        size_t i, n;
        json_t *rule, *level;
        assert_true(json_array_size(json_object_get(reasoning, tables[t])) > 0);
        json_array_foreach (json_object_get(reasoning, tables[t]), i, rule) {
            size_t at = 0;
            json_t *levels = json_object_get(rule, "levels");
            assert_string_equal(json_string_value(json_array_get(levels, 0)), "provider_default");
            json_array_foreach (levels, n, level) {
                while (at < 9 && !json_equal(json_array_get(all, at), level))
                    at++;
                assert_true(at < 9);
            }
        }
    }
}

/* Every key of the configuration that is not a section is explained by the line above it. */
static void test_settings_are_explained(void **state)
{
    const struct base_asset *asset = base_asset_find("metadata/config.yaml");
    assert_non_null(asset);
    const char *line = (const char *)asset->data;
    bool explained = false;
    size_t settings = 0;
    while (*line) {
        size_t n = strcspn(line, "\n");
        size_t indent = strspn(line, " ");
        if (line[indent] != '#' && line[n - 1] != ':') {
            if (!explained)
                print_error("%.*s\n", (int)n, line);
            assert_true(explained);
            settings++;
        }
        assert_int_equal(indent % 4, 0);
        explained = line[indent] == '#';
        line += n + (line[n] == '\n');
    }
    assert_true(settings > 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_document_is_readable),
        cmocka_unit_test(test_pipeline_forms),
        cmocka_unit_test(test_runners_have_stages),
        cmocka_unit_test(test_manifests),
        cmocka_unit_test(test_reasoning_rules),
        cmocka_unit_test(test_settings_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
