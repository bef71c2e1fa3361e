/* Column tables: records of messages, calls, errors, feedback. persistence-and-ops.md §2.4. */
#include "store/store.h"

static const struct column mon_messages[] = {
    {"id", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"timestamp", COL_TIME, 0, 0, NULL},
    {"bot_id", COL_STR, 0, 255, NULL},
    {"bot_name", COL_STR, 0, 255, NULL},
    {"pipeline_id", COL_STR, 0, 255, NULL},
    {"pipeline_name", COL_STR, 0, 255, NULL},
    {"message_content", COL_TEXT, 0, 0, NULL},
    {"session_id", COL_TEXT, 0, 0, NULL},
    {"status", COL_STR, 0, 50, NULL},
    {"level", COL_STR, 0, 50, NULL},
    {"platform", COL_STR, COL_NULL, 255, NULL},
    {"user_id", COL_TEXT, COL_NULL, 0, NULL},
    {"user_name", COL_TEXT, COL_NULL, 0, NULL},
    {"runner_name", COL_STR, COL_NULL, 255, NULL},
    {"variables", COL_TEXT, COL_NULL, 0, NULL},
    {"role", COL_STR, COL_NULL, 50, "\"user\""},
    {.name = NULL},
};
const struct table table_mon_messages = {"monitoring_messages", mon_messages, GROUP_MONITORING,
                                         "\"timestamp\" DESC, \"id\""};

static const struct column mon_llm_calls[] = {
    {"id", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"timestamp", COL_TIME, 0, 0, NULL},
    {"model_name", COL_STR, 0, 255, NULL},
    {"input_tokens", COL_INT, 0, 0, NULL},
    {"output_tokens", COL_INT, 0, 0, NULL},
    {"total_tokens", COL_INT, 0, 0, NULL},
    {"duration", COL_INT, 0, 0, NULL},
    {"cost", COL_FLOAT, COL_NULL, 0, NULL},
    {"status", COL_STR, 0, 50, NULL},
    {"bot_id", COL_STR, 0, 255, NULL},
    {"bot_name", COL_STR, 0, 255, NULL},
    {"pipeline_id", COL_STR, 0, 255, NULL},
    {"pipeline_name", COL_STR, 0, 255, NULL},
    {"session_id", COL_TEXT, 0, 0, NULL},
    {"error_message", COL_TEXT, COL_NULL, 0, NULL},
    {"message_id", COL_STR, COL_NULL, 255, NULL},
    {.name = NULL},
};
const struct table table_mon_llm_calls = {"monitoring_llm_calls", mon_llm_calls, GROUP_MONITORING,
                                          "\"timestamp\" DESC, \"id\""};

static const struct column mon_tool_calls[] = {
    {"id", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"timestamp", COL_TIME, 0, 0, NULL},
    {"tool_name", COL_STR, 0, 255, NULL},
    {"tool_source", COL_STR, 0, 50, NULL},
    {"duration", COL_INT, 0, 0, NULL},
    {"status", COL_STR, 0, 50, NULL},
    {"bot_id", COL_STR, 0, 255, NULL},
    {"bot_name", COL_STR, 0, 255, NULL},
    {"pipeline_id", COL_STR, 0, 255, NULL},
    {"pipeline_name", COL_STR, 0, 255, NULL},
    {"session_id", COL_TEXT, COL_NULL, 0, NULL},
    {"message_id", COL_STR, COL_NULL, 255, NULL},
    {"arguments", COL_TEXT, COL_NULL, 0, NULL},
    {"result", COL_TEXT, COL_NULL, 0, NULL},
    {"error_message", COL_TEXT, COL_NULL, 0, NULL},
    {.name = NULL},
};
const struct table table_mon_tool_calls = {"monitoring_tool_calls", mon_tool_calls,
                                           GROUP_MONITORING, "\"timestamp\" DESC, \"id\""};

static const struct column mon_sessions[] = {
    {"workspace_uuid", COL_STR, COL_PK | COL_SCOPE | COL_FIXED, 36, NULL},
    {"bot_id", COL_STR, COL_PK | COL_FIXED, 255, NULL},
    {"session_id", COL_TEXT, COL_PK | COL_FIXED, 0, NULL},
    {"bot_name", COL_STR, 0, 255, NULL},
    {"pipeline_id", COL_STR, 0, 255, NULL},
    {"pipeline_name", COL_STR, 0, 255, NULL},
    {"message_count", COL_INT, 0, 0, "0"},
    {"start_time", COL_TIME, 0, 0, NULL},
    {"last_activity", COL_TIME, 0, 0, NULL},
    {"is_active", COL_BOOL, 0, 0, "true"},
    {"platform", COL_STR, COL_NULL, 255, NULL},
    {"user_id", COL_TEXT, COL_NULL, 0, NULL},
    {"user_name", COL_TEXT, COL_NULL, 0, NULL},
    {.name = NULL},
};
const struct table table_mon_sessions = {"monitoring_sessions", mon_sessions, GROUP_MONITORING,
                                         "\"last_activity\" DESC, \"session_id\""};

static const struct column mon_errors[] = {
    {"id", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"timestamp", COL_TIME, 0, 0, NULL},
    {"error_type", COL_STR, 0, 255, NULL},
    {"error_message", COL_TEXT, 0, 0, NULL},
    {"bot_id", COL_STR, 0, 255, NULL},
    {"bot_name", COL_STR, 0, 255, NULL},
    {"pipeline_id", COL_STR, 0, 255, NULL},
    {"pipeline_name", COL_STR, 0, 255, NULL},
    {"session_id", COL_TEXT, COL_NULL, 0, NULL},
    {"stack_trace", COL_TEXT, COL_NULL, 0, NULL},
    {"message_id", COL_STR, COL_NULL, 255, NULL},
    {.name = NULL},
};
const struct table table_mon_errors = {"monitoring_errors", mon_errors, GROUP_MONITORING,
                                       "\"timestamp\" DESC, \"id\""};

static const struct column mon_embedding_calls[] = {
    {"id", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"timestamp", COL_TIME, 0, 0, NULL},
    {"model_name", COL_STR, 0, 255, NULL},
    {"prompt_tokens", COL_INT, 0, 0, NULL},
    {"total_tokens", COL_INT, 0, 0, NULL},
    {"duration", COL_INT, 0, 0, NULL},
    {"input_count", COL_INT, 0, 0, NULL},
    {"status", COL_STR, 0, 50, NULL},
    {"error_message", COL_TEXT, COL_NULL, 0, NULL},
    {"knowledge_base_id", COL_STR, COL_NULL, 255, NULL},
    {"query_text", COL_TEXT, COL_NULL, 0, NULL},
    {"session_id", COL_TEXT, COL_NULL, 0, NULL},
    {"message_id", COL_STR, COL_NULL, 255, NULL},
    {"call_type", COL_STR, COL_NULL, 50, NULL},
    {.name = NULL},
};
const struct table table_mon_embedding_calls = {"monitoring_embedding_calls", mon_embedding_calls,
                                                GROUP_MONITORING, "\"timestamp\" DESC, \"id\""};

static const struct column mon_feedback[] = {
    {"id", COL_STR, COL_PK | COL_UUID | COL_FIXED, 255, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"timestamp", COL_TIME, 0, 0, NULL},
    {"feedback_id", COL_STR, 0, 255, NULL},
    {"feedback_type", COL_INT, 0, 0, NULL},
    {"feedback_content", COL_TEXT, COL_NULL, 0, NULL},
    {"inaccurate_reasons", COL_TEXT, COL_NULL, 0, NULL},
    {"bot_id", COL_STR, COL_NULL, 255, NULL},
    {"bot_name", COL_STR, COL_NULL, 255, NULL},
    {"pipeline_id", COL_STR, COL_NULL, 255, NULL},
    {"pipeline_name", COL_STR, COL_NULL, 255, NULL},
    {"session_id", COL_TEXT, COL_NULL, 0, NULL},
    {"message_id", COL_STR, COL_NULL, 255, NULL},
    {"stream_id", COL_STR, COL_NULL, 255, NULL},
    {"user_id", COL_TEXT, COL_NULL, 0, NULL},
    {"platform", COL_STR, COL_NULL, 255, NULL},
    {.name = NULL},
};
const struct table table_mon_feedback = {"monitoring_feedback", mon_feedback, GROUP_MONITORING,
                                         "\"timestamp\" DESC, \"id\""};
