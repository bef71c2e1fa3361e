/* Column tables: what a workspace owns. persistence-and-ops.md §2.3. */
#include "store/store.h"

#define EXTENSIONS_DEFAULT                                                                            \
    "{\"enable_all_plugins\":true,\"enable_all_mcp_servers\":true,\"plugins\":[],\"mcp_servers\":[]," \
    "\"mcp_resources\":[],\"mcp_resource_agent_read_enabled\":true}"

static const struct column bots[] = {
    {"uuid", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"name", COL_STR, 0, 255, NULL},
    {"description", COL_STR, 0, 255, NULL},
    {"adapter", COL_STR, 0, 255, NULL},
    {"adapter_config", COL_JSON, COL_SEALED | COL_SECRET, 0, NULL},
    {"enable", COL_BOOL, 0, 0, "false"},
    {"use_pipeline_name", COL_STR, COL_NULL, 255, NULL},
    {"use_pipeline_uuid", COL_STR, COL_NULL, 255, NULL},
    {"pipeline_routing_rules", COL_JSON, 0, 0, "[]"},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_bots = {"bots", bots, GROUP_BOTS, "\"created_at\", \"uuid\""};

static const struct column bot_admins[] = {
    {"id", COL_INT, COL_PK | COL_AUTO | COL_FIXED, 0, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"bot_uuid", COL_STR, COL_FIXED, 255, NULL},
    {"launcher_type", COL_STR, 0, 64, NULL},
    {"launcher_id", COL_STR, 0, 255, NULL},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_bot_admins = {"bot_admins", bot_admins, GROUP_BOTS, "\"id\""};

static const struct column pipelines[] = {
    {"uuid", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"name", COL_STR, 0, 255, NULL},
    {"description", COL_TEXT, 0, 4000, NULL},
    {"emoji", COL_STR, COL_NULL, 10, "\"⚙️\""},
    {"for_version", COL_STR, 0, 255, NULL},
    {"is_default", COL_BOOL, 0, 0, "false"},
    {"stages", COL_JSON, 0, 0, NULL},
    {"config", COL_JSON, 0, 0, NULL},
    {"extensions_preferences", COL_JSON, 0, 0, EXTENSIONS_DEFAULT},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_pipelines = {"legacy_pipelines", pipelines, GROUP_PIPELINES,
                                      "\"created_at\", \"uuid\""};

static const struct column run_records[] = {
    {"uuid", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"pipeline_uuid", COL_STR, COL_FIXED, 255, NULL},
    {"status", COL_STR, 0, 255, NULL},
    {"started_at", COL_TIME, 0, 0, NULL},
    {"finished_at", COL_TIME, 0, 0, NULL},
    {"result", COL_JSON, 0, 0, NULL},
    {"knowledge_base_uuid", COL_STR, COL_NULL, 255, NULL},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_run_records = {"pipeline_run_records", run_records, GROUP_OTHER,
                                        "\"created_at\", \"uuid\""};

static const struct column providers[] = {
    {"uuid", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"name", COL_STR, 0, 255, NULL},
    {"requester", COL_STR, 0, 255, NULL},
    {"base_url", COL_STR, 0, 512, NULL},
    {"api_keys", COL_JSON, COL_SEALED | COL_SECRET, 0, "[]"},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_providers = {"model_providers", providers, GROUP_MODELS,
                                      "\"created_at\", \"uuid\""};

static const struct column codex_credentials[] = {
    {"provider_uuid", COL_STR, COL_PK | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"payload", COL_JSON, COL_SEALED | COL_HIDDEN, 0, "{}"},
    {"version", COL_INT, 0, 0, "0"},
    {"lease_owner", COL_STR, COL_NULL, 64, NULL},
    {"lease_until", COL_FLOAT, 0, 0, "0"},
    {.name = NULL},
};
const struct table table_codex_credentials = {"codex_credentials", codex_credentials, GROUP_MODELS,
                                              "\"provider_uuid\""};

static const struct column llm_models[] = {
    {"uuid", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"name", COL_STR, 0, 255, NULL},
    {"provider_uuid", COL_STR, 0, 255, NULL},
    {"abilities", COL_JSON, 0, 0, "[]"},
    {"context_length", COL_INT, COL_NULL, 0, NULL},
    {"reasoning_config", COL_JSON, 0, 0, "{\"level\":\"provider_default\"}"},
    {"extra_args", COL_JSON, COL_SECRET, 0, "{}"},
    {"prefered_ranking", COL_INT, 0, 0, "0"},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_llm_models = {"llm_models", llm_models, GROUP_MODELS,
                                       "\"created_at\", \"uuid\""};

static const struct column embedding_models[] = {
    {"uuid", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"name", COL_STR, 0, 255, NULL},
    {"provider_uuid", COL_STR, 0, 255, NULL},
    {"extra_args", COL_JSON, COL_SECRET, 0, "{}"},
    {"prefered_ranking", COL_INT, 0, 0, "0"},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_embedding_models = {"embedding_models", embedding_models, GROUP_MODELS,
                                             "\"created_at\", \"uuid\""};

static const struct column rerank_models[] = {
    {"uuid", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"name", COL_STR, 0, 255, NULL},
    {"provider_uuid", COL_STR, 0, 255, NULL},
    {"extra_args", COL_JSON, COL_SECRET, 0, "{}"},
    {"prefered_ranking", COL_INT, 0, 0, "0"},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_rerank_models = {"rerank_models", rerank_models, GROUP_MODELS,
                                          "\"created_at\", \"uuid\""};

static const struct column mcp_servers[] = {
    {"uuid", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"name", COL_STR, 0, 255, NULL},
    {"enable", COL_BOOL, 0, 0, "false"},
    {"mode", COL_STR, 0, 255, NULL},
    {"extra_args", COL_JSON, COL_SECRET, 0, NULL},
    {"readme", COL_TEXT, 0, 0, "\"\""},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_mcp_servers = {"mcp_servers", mcp_servers, GROUP_OTHER,
                                        "\"created_at\", \"uuid\""};

static const struct column plugin_settings[] = {
    {"workspace_uuid", COL_STR, COL_PK | COL_SCOPE | COL_FIXED, 36, NULL},
    {"plugin_author", COL_STR, COL_PK | COL_FIXED, 255, NULL},
    {"plugin_name", COL_STR, COL_PK | COL_FIXED, 255, NULL},
    {"installation_uuid", COL_STR, COL_UUID | COL_FIXED, 36, NULL},
    {"artifact_digest", COL_STR, 0, 64, NULL},
    {"runtime_revision", COL_INT, 0, 0, "1"},
    {"enabled", COL_BOOL, 0, 0, "true"},
    {"priority", COL_INT, 0, 0, "0"},
    {"config", COL_JSON, 0, 0, "{}"},
    {"install_source", COL_STR, 0, 255, "\"github\""},
    {"install_info", COL_JSON, 0, 0, "{}"},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_plugin_settings = {"plugin_settings", plugin_settings, GROUP_OTHER,
                                            "\"plugin_author\", \"plugin_name\""};

static const struct column knowledge_bases[] = {
    {"uuid", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"name", COL_STR, COL_NULL, 255, NULL},
    {"description", COL_TEXT, COL_NULL, 0, NULL},
    {"emoji", COL_STR, COL_NULL, 10, "\"📚\""},
    {"knowledge_engine_plugin_id", COL_STR, COL_NULL | COL_FIXED, 255, NULL},
    {"collection_id", COL_STR, COL_NULL | COL_FIXED, 255, NULL},
    {"legacy_vector_collection", COL_BOOL, COL_FIXED, 0, "false"},
    {"creation_settings", COL_JSON, COL_NULL | COL_FIXED, 0, NULL},
    {"retrieval_settings", COL_JSON, COL_NULL, 0, NULL},
    {"embedding_dimension", COL_INT, COL_NULL | COL_FIXED, 0, NULL},
    {"created_at", COL_TIME, COL_NULL | COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NULL | COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_knowledge_bases = {"knowledge_bases", knowledge_bases, GROUP_OTHER,
                                            "\"created_at\", \"uuid\""};

static const struct column knowledge_files[] = {
    {"uuid", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"kb_id", COL_STR, COL_NULL | COL_FIXED, 255, NULL},
    {"file_name", COL_STR, COL_NULL, 255, NULL},
    {"extension", COL_STR, COL_NULL, 255, NULL},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"status", COL_STR, COL_NULL, 255, "\"pending\""},
    {.name = NULL},
};
const struct table table_knowledge_files = {"knowledge_base_files", knowledge_files, GROUP_OTHER,
                                            "\"created_at\", \"uuid\""};

static const struct column knowledge_chunks[] = {
    {"uuid", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"file_id", COL_STR, COL_NULL | COL_FIXED, 255, NULL},
    {"text", COL_TEXT, COL_NULL, 0, NULL},
    {.name = NULL},
};
const struct table table_knowledge_chunks = {"knowledge_base_chunks", knowledge_chunks, GROUP_OTHER,
                                             "\"uuid\""};

static const struct column webhooks[] = {
    {"id", COL_INT, COL_PK | COL_AUTO | COL_FIXED, 0, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"name", COL_STR, 0, 255, NULL},
    {"url", COL_STR, COL_SECRET, 1024, NULL},
    {"description", COL_STR, COL_NULL, 512, "\"\""},
    {"enabled", COL_BOOL, 0, 0, "true"},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_webhooks = {"webhooks", webhooks, GROUP_OTHER, "\"id\""};

static const struct column binary_storages[] = {
    {"workspace_uuid", COL_STR, COL_PK | COL_SCOPE | COL_FIXED, 36, NULL},
    {"unique_key", COL_STR, COL_PK | COL_FIXED, 255, NULL},
    {"key", COL_STR, COL_FIXED, 255, NULL},
    {"owner_type", COL_STR, COL_FIXED, 255, NULL},
    {"owner", COL_STR, COL_FIXED, 255, NULL},
    {"value", COL_BLOB, 0, 0, NULL},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_binary_storages = {"binary_storages", binary_storages, GROUP_OTHER,
                                            "\"unique_key\""};
