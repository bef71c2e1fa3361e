/* Column tables: the instance, accounts, workspaces, memberships, keys. persistence-and-ops.md §2.1, §2.2. */
#include "store/store.h"

static const struct column metadata[] = {
    {"key", COL_STR, COL_PK, 255, NULL},
    {"value", COL_STR, COL_NULL, 255, NULL},
    {.name = NULL},
};
const struct table table_metadata = {"metadata", metadata, GROUP_IDENTITY, "\"key\""};

static const struct column users[] = {
    {"id", COL_INT, COL_PK | COL_AUTO | COL_FIXED, 0, NULL},
    {"uuid", COL_STR, COL_UUID | COL_FIXED, 36, NULL},
    {"user", COL_STR, 0, 255, NULL},
    {"normalized_email", COL_STR, COL_FIXED, 320, NULL},
    {"password", COL_STR, COL_HIDDEN, 255, NULL},
    {"status", COL_STR, 0, 32, "\"active\""},
    {"source", COL_STR, COL_FIXED, 32, "\"local\""},
    {"projection_revision", COL_INT, COL_FIXED, 0, "0"},
    {"account_type", COL_STR, 0, 32, "\"local\""},
    {"space_account_uuid", COL_STR, COL_NULL, 255, NULL},
    {"space_access_token", COL_TEXT, COL_NULL | COL_SEALED | COL_HIDDEN, 0, NULL},
    {"space_refresh_token", COL_TEXT, COL_NULL | COL_SEALED | COL_HIDDEN, 0, NULL},
    {"space_access_token_expires_at", COL_TIME, COL_NULL | COL_HIDDEN, 0, NULL},
    {"space_api_key", COL_STR, COL_NULL | COL_SEALED | COL_HIDDEN, 255, NULL},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_users = {"users", users, GROUP_IDENTITY, "\"id\""};

static const struct column workspaces[] = {
    {"uuid", COL_STR, COL_PK | COL_SCOPE | COL_FIXED, 36, NULL},
    {"instance_uuid", COL_STR, COL_FIXED, 255, NULL},
    {"name", COL_STR, 0, 255, NULL},
    {"slug", COL_STR, 0, 255, NULL},
    {"type", COL_STR, 0, 32, "\"team\""},
    {"status", COL_STR, 0, 32, "\"active\""},
    {"created_by_account_uuid", COL_STR, COL_NULL | COL_FIXED, 36, NULL},
    {"source", COL_STR, COL_FIXED, 32, "\"local\""},
    {"projection_revision", COL_INT, COL_FIXED, 0, "0"},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_workspaces = {"workspaces", workspaces, GROUP_IDENTITY,
                                       "\"created_at\", \"uuid\""};

static const struct column directory_states[] = {
    {"instance_uuid", COL_STR, COL_PK | COL_FIXED, 255, NULL},
    {"cursor", COL_INT, 0, 0, "0"},
    {"snapshot_coverage_cursor", COL_INT, 0, 0, "0"},
    {"snapshot_fingerprint", COL_TEXT, 0, 0, NULL},
    {"last_applied_at", COL_TIME, 0, 0, NULL},
    {"lease_expires_at", COL_TIME, COL_NULL, 0, NULL},
    {.name = NULL},
};
const struct table table_directory_states = {"directory_projection_states", directory_states,
                                             GROUP_IDENTITY, "\"instance_uuid\""};

static const struct column directory_inbox[] = {
    {"instance_uuid", COL_STR, COL_PK | COL_FIXED, 255, NULL},
    {"event_uuid", COL_STR, COL_PK | COL_FIXED, 36, NULL},
    {"cursor", COL_INT, 0, 0, NULL},
    {"event_type", COL_STR, 0, 128, NULL},
    {"revision", COL_INT, 0, 0, NULL},
    {"fingerprint", COL_TEXT, 0, 0, NULL},
    {"received_at", COL_TIME, COL_NOW_INSERT, 0, NULL},
    {"applied_at", COL_TIME, COL_NULL, 0, NULL},
    {.name = NULL},
};
const struct table table_directory_inbox = {"directory_projection_inbox", directory_inbox,
                                            GROUP_IDENTITY, "\"instance_uuid\", \"cursor\""};

static const struct column launch_consumptions[] = {
    {"instance_uuid", COL_STR, COL_PK | COL_FIXED, 255, NULL},
    {"jti", COL_STR, COL_PK | COL_FIXED, 255, NULL},
    {"expires_at", COL_TIME, 0, 0, NULL},
    {"consumed_at", COL_TIME, COL_NOW_INSERT, 0, NULL},
    {.name = NULL},
};
const struct table table_launch_consumptions = {"space_launch_assertion_consumptions",
                                                launch_consumptions, GROUP_IDENTITY,
                                                "\"instance_uuid\", \"jti\""};

static const struct column memberships[] = {
    {"uuid", COL_STR, COL_PK | COL_UUID | COL_FIXED, 36, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"account_uuid", COL_STR, COL_FIXED, 36, NULL},
    {"role", COL_STR, 0, 32, NULL},
    {"status", COL_STR, 0, 32, "\"active\""},
    {"invited_by_account_uuid", COL_STR, COL_NULL, 36, NULL},
    {"joined_at", COL_TIME, COL_NULL, 0, NULL},
    {"source", COL_STR, 0, 32, "\"local\""},
    {"projection_revision", COL_INT, 0, 0, "0"},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_memberships = {"workspace_memberships", memberships, GROUP_IDENTITY,
                                        "\"created_at\", \"uuid\""};

static const struct column invitations[] = {
    {"uuid", COL_STR, COL_PK | COL_UUID | COL_FIXED, 36, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"normalized_email", COL_STR, 0, 320, NULL},
    {"role", COL_STR, 0, 32, NULL},
    {"token_hash", COL_STR, COL_HIDDEN | COL_FIXED, 255, NULL},
    {"status", COL_STR, 0, 32, "\"pending\""},
    {"expires_at", COL_TIME, 0, 0, NULL},
    {"accepted_at", COL_TIME, COL_NULL, 0, NULL},
    {"revoked_at", COL_TIME, COL_NULL, 0, NULL},
    {"created_by_account_uuid", COL_STR, COL_FIXED, 36, NULL},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_invitations = {"workspace_invitations", invitations, GROUP_IDENTITY,
                                        "\"created_at\", \"uuid\""};

static const struct column execution_states[] = {
    {"workspace_uuid", COL_STR, COL_PK | COL_SCOPE | COL_FIXED, 36, NULL},
    {"instance_uuid", COL_STR, COL_FIXED, 255, NULL},
    {"active_generation", COL_INT, 0, 0, "1"},
    {"state", COL_STR, 0, 32, "\"active\""},
    {"write_fenced", COL_BOOL, 0, 0, "false"},
    {"source", COL_STR, 0, 32, "\"local\""},
    {"desired_state_revision", COL_INT, 0, 0, "0"},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_execution_states = {"workspace_execution_states", execution_states,
                                             GROUP_IDENTITY, "\"workspace_uuid\""};

static const struct column workspace_metadata[] = {
    {"workspace_uuid", COL_STR, COL_PK | COL_SCOPE | COL_FIXED, 36, NULL},
    {"key", COL_STR, COL_PK | COL_FIXED, 255, NULL},
    {"value", COL_TEXT, COL_NULL, 0, NULL},
    {.name = NULL},
};
const struct table table_workspace_metadata = {"workspace_metadata", workspace_metadata,
                                               GROUP_IDENTITY, "\"key\""};

static const struct column support_sessions[] = {
    {"grant_jti_hash", COL_STR, COL_PK | COL_FIXED, 64, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"actor_account_uuid", COL_STR, 0, 36, NULL},
    {"issued_at", COL_TIME, 0, 0, NULL},
    {"expires_at", COL_TIME, 0, 0, NULL},
    {"revoked_at", COL_TIME, COL_NULL, 0, NULL},
    {"last_used_at", COL_TIME, COL_NULL, 0, NULL},
    {.name = NULL},
};
const struct table table_support_sessions = {"support_admin_temporary_sessions", support_sessions,
                                             GROUP_IDENTITY, "\"issued_at\""};

static const struct column api_keys[] = {
    {"id", COL_INT, COL_PK | COL_AUTO | COL_FIXED, 0, NULL},
    {"uuid", COL_STR, COL_UUID | COL_FIXED, 36, NULL},
    {"workspace_uuid", COL_STR, COL_SCOPE | COL_FIXED, 36, NULL},
    {"created_by_account_uuid", COL_STR, COL_NULL | COL_FIXED, 36, NULL},
    {"name", COL_STR, 0, 255, NULL},
    {"key_hash", COL_STR, COL_HIDDEN | COL_FIXED, 64, NULL},
    {"scopes", COL_JSON, 0, 0, "[]"},
    {"status", COL_STR, 0, 32, "\"active\""},
    {"expires_at", COL_TIME, COL_NULL, 0, NULL},
    {"last_used_at", COL_TIME, COL_NULL, 0, NULL},
    {"description", COL_STR, COL_NULL, 512, "\"\""},
    {"created_at", COL_TIME, COL_NOW_INSERT | COL_FIXED, 0, NULL},
    {"updated_at", COL_TIME, COL_NOW_UPDATE | COL_FIXED, 0, NULL},
    {.name = NULL},
};
const struct table table_api_keys = {"api_keys", api_keys, GROUP_IDENTITY,
                                     "\"created_at\", \"id\""};
