/* The forms and the default configuration of pipelines, made once from the embedded documents. pipeline.md §10. */
#include "pipeline/engine.h"

static json_t *document(const char *path)
{
    const struct base_asset *a = base_asset_find(path);
    struct error err = {0};
    struct str text = a ? str_n((const char *)a->data, a->size) : STR_NONE;
    json_t *j = !a                                  ? NULL
                : str_ends(str_c(path), S(".json")) ? json_parse(text, &err)
                                                    : config_yaml_to_json(text, path, &err);
    if (!j)
        log_error("pipeline", "the embedded document %s is unusable: %s", path,
                  a ? err.msg : "missing");
    return j ? j : json_object();
}

const json_t *pipeline_metadata(void)
{
    static json_t *all;
    if (!all)
        all = json_pack("{s:[o,o,o,o]}", "configs", document("metadata/pipeline/trigger.yaml"),
                        document("metadata/pipeline/safety.yaml"),
                        document("metadata/pipeline/ai.yaml"),
                        document("metadata/pipeline/output.yaml"));
    return all;
}

const json_t *pipeline_default_config(void)
{
    static json_t *config;
    if (!config)
        config = document("metadata/pipeline/default.json");
    return config;
}
