/* Column tables: our own tables: the ledger, sessions and conversations. */
#include "store/store.h"

static const struct column inbound[] = {
    {"seq", COL_INT, COL_PK | COL_AUTO | COL_FIXED, 0, NULL},
    {"id", COL_STR, COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"bot_uuid", COL_STR, COL_FIXED, 255, NULL},
    {"pipeline_uuid", COL_STR, 0, 255, NULL},
    {"dedupe_key", COL_STR, COL_NULL | COL_FIXED, 512, NULL},
    {"state", COL_STR, 0, 16, "\"received\""},
    {"launcher_type", COL_STR, 0, 64, NULL},
    {"launcher_id", COL_TEXT, 0, 0, NULL},
    {"sender_id", COL_TEXT, 0, 0, NULL},
    {"routed", COL_BOOL, 0, 0, "false"},
    {"payload", COL_JSON, 0, 0, NULL},
    {"turn_id", COL_STR, COL_NULL, 255, NULL},
    {"attempts", COL_INT, 0, 0, "0"},
    {"error", COL_TEXT, COL_NULL, 0, NULL},
    {"received_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_inbound = {"parley_messages", inbound, GROUP_LEDGER, "\"seq\""};

static const struct column deliveries[] = {
    {"seq", COL_INT, COL_PK | COL_AUTO | COL_FIXED, 0, NULL},
    {"id", COL_STR, COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"bot_uuid", COL_STR, COL_FIXED, 255, NULL},
    {"message_id", COL_STR, COL_FIXED, 255, NULL},
    {"session_key", COL_TEXT, COL_FIXED, 0, NULL},
    {"number", COL_INT, 0, 0, NULL},
    {"is_final", COL_BOOL, 0, 0, "false"},
    {"payload", COL_JSON, 0, 0, NULL},
    {"state", COL_STR, 0, 16, "\"pending\""},
    {"attempts", COL_INT, 0, 0, "0"},
    {"last_error", COL_TEXT, COL_NULL, 0, NULL},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_deliveries = {"parley_deliveries", deliveries, GROUP_LEDGER, "\"seq\""};

static const struct column sessions[] = {
    {"workspace_uuid", COL_STR, COL_PK | COL_SCOPE | COL_FIXED, 36, NULL},
    {"bot_uuid", COL_STR, COL_PK | COL_FIXED, 255, NULL},
    {"launcher_type", COL_STR, COL_PK | COL_FIXED, 64, NULL},
    {"launcher_id", COL_TEXT, COL_PK | COL_FIXED, 0, NULL},
    {"sender_id", COL_TEXT, COL_NULL, 0, NULL},
    {"conversation_id", COL_STR, COL_NULL, 255, NULL},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_sessions = {"parley_sessions", sessions, GROUP_OTHER,
                                     "\"updated_at\" DESC"};

static const struct column conversations[] = {
    {"id", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"bot_uuid", COL_STR, COL_FIXED, 255, NULL},
    {"pipeline_uuid", COL_STR, 0, 255, NULL},
    {"launcher_type", COL_STR, COL_FIXED, 64, NULL},
    {"launcher_id", COL_TEXT, COL_FIXED, 0, NULL},
    {"uuid", COL_STR, COL_NULL, 255, NULL},
    {"prompt", COL_JSON, COL_NULL, 0, NULL},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_conversations = {"parley_conversations", conversations, GROUP_OTHER,
                                          "\"created_at\", \"id\""};

static const struct column turns[] = {
    {"seq", COL_INT, COL_PK | COL_AUTO | COL_FIXED, 0, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"conversation_id", COL_STR, COL_FIXED, 255, NULL},
    {"messages", COL_JSON, 0, 0, NULL},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_turns = {"parley_turns", turns, GROUP_OTHER, "\"seq\""};

static const struct column chat_messages[] = {
    {"workspace_uuid", COL_STR, COL_PK | COL_SCOPE | COL_FIXED, 36, NULL},
    {"conversation_key", COL_TEXT, COL_PK | COL_FIXED, 0, NULL},
    {"number", COL_INT, COL_PK | COL_FIXED, 0, NULL},
    {"data", COL_JSON, 0, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_chat_messages = {"parley_chat_messages", chat_messages, GROUP_OTHER,
                                          "\"number\""};

const struct table *const store_tables[] = {
    &table_metadata,
    &table_users,
    &table_workspaces,
    &table_directory_states,
    &table_directory_inbox,
    &table_launch_consumptions,
    &table_memberships,
    &table_invitations,
    &table_execution_states,
    &table_workspace_metadata,
    &table_support_sessions,
    &table_api_keys,
    &table_bots,
    &table_bot_admins,
    &table_pipelines,
    &table_run_records,
    &table_providers,
    &table_codex_credentials,
    &table_llm_models,
    &table_embedding_models,
    &table_rerank_models,
    &table_mcp_servers,
    &table_plugin_settings,
    &table_knowledge_bases,
    &table_knowledge_files,
    &table_knowledge_chunks,
    &table_webhooks,
    &table_binary_storages,
    &table_mon_messages,
    &table_mon_llm_calls,
    &table_mon_tool_calls,
    &table_mon_sessions,
    &table_mon_errors,
    &table_mon_embedding_calls,
    &table_mon_feedback,
    &table_inbound,
    &table_deliveries,
    &table_sessions,
    &table_conversations,
    &table_turns,
    &table_chat_messages,
    &table_audit,
    NULL,
};
