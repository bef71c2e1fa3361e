-- Every table of the product. Names, checks and indexes are those of existing installations, so that data can move both
-- ways; the tables parley_* are our own.

CREATE TABLE metadata (
    "key" VARCHAR(255) NOT NULL,
    "value" VARCHAR(255),
    PRIMARY KEY ("key")
);

CREATE TABLE users (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uuid VARCHAR(36) NOT NULL,
    "user" VARCHAR(255) NOT NULL,
    normalized_email VARCHAR(320) NOT NULL,
    password VARCHAR(255) NOT NULL,
    status VARCHAR(32) NOT NULL DEFAULT 'active',
    source VARCHAR(32) NOT NULL DEFAULT 'local',
    projection_revision BIGINT NOT NULL DEFAULT 0,
    account_type VARCHAR(32) NOT NULL DEFAULT 'local',
    space_account_uuid VARCHAR(255),
    space_access_token TEXT,
    space_refresh_token TEXT,
    space_access_token_expires_at DATETIME,
    space_api_key TEXT,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT ck_users_normalized_email CHECK (normalized_email = trim(normalized_email) AND length(normalized_email) BETWEEN 1 AND 320),
    CONSTRAINT ck_users_status CHECK (status IN ('active', 'disabled', 'deleted')),
    CONSTRAINT ck_users_source CHECK (source IN ('local', 'cloud_projection'))
);
CREATE UNIQUE INDEX uq_users_uuid ON users (uuid);
CREATE UNIQUE INDEX uq_users_normalized_email ON users (normalized_email);

CREATE TABLE workspaces (
    uuid VARCHAR(36) NOT NULL,
    instance_uuid VARCHAR(255) NOT NULL,
    name VARCHAR(255) NOT NULL,
    slug VARCHAR(255) NOT NULL,
    type VARCHAR(32) NOT NULL DEFAULT 'team',
    status VARCHAR(32) NOT NULL DEFAULT 'active',
    created_by_account_uuid VARCHAR(36) REFERENCES users (uuid) ON DELETE SET NULL,
    source VARCHAR(32) NOT NULL DEFAULT 'local',
    projection_revision BIGINT NOT NULL DEFAULT 0,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (uuid),
    CONSTRAINT uq_workspaces_instance_slug UNIQUE (instance_uuid, slug),
    CONSTRAINT ck_workspaces_type CHECK (type IN ('personal', 'team')),
    CONSTRAINT ck_workspaces_status CHECK (status IN ('provisioning', 'active', 'suspended', 'archived', 'deleted')),
    CONSTRAINT ck_workspaces_source CHECK (source IN ('local', 'cloud_projection'))
);
CREATE INDEX ix_workspaces_instance_status ON workspaces (instance_uuid, status);
CREATE UNIQUE INDEX uq_workspaces_local_instance ON workspaces (instance_uuid) WHERE source = 'local';

CREATE TABLE directory_projection_states (
    instance_uuid VARCHAR(255) NOT NULL,
    "cursor" BIGINT NOT NULL DEFAULT 0,
    snapshot_coverage_cursor BIGINT NOT NULL DEFAULT 0,
    snapshot_fingerprint TEXT NOT NULL,
    last_applied_at DATETIME NOT NULL,
    lease_expires_at DATETIME,
    PRIMARY KEY (instance_uuid),
    CONSTRAINT ck_directory_projection_states_cursor CHECK ("cursor" >= 0),
    CONSTRAINT ck_directory_projection_states_coverage CHECK (snapshot_coverage_cursor >= 0 AND snapshot_coverage_cursor <= "cursor"),
    CONSTRAINT ck_directory_projection_states_fingerprint CHECK (length(snapshot_fingerprint) = 64)
);

CREATE TABLE directory_projection_inbox (
    instance_uuid VARCHAR(255) NOT NULL,
    event_uuid VARCHAR(36) NOT NULL,
    "cursor" BIGINT NOT NULL,
    event_type VARCHAR(128) NOT NULL,
    revision BIGINT NOT NULL,
    fingerprint TEXT NOT NULL,
    received_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    applied_at DATETIME,
    PRIMARY KEY (instance_uuid, event_uuid),
    CONSTRAINT uq_directory_projection_inbox_cursor UNIQUE (instance_uuid, "cursor"),
    CONSTRAINT ck_directory_projection_inbox_cursor CHECK ("cursor" > 0),
    CONSTRAINT ck_directory_projection_inbox_revision CHECK (revision > 0),
    CONSTRAINT ck_directory_projection_inbox_fingerprint CHECK (length(fingerprint) = 64)
);
CREATE INDEX ix_directory_projection_inbox_pending ON directory_projection_inbox (instance_uuid, applied_at, "cursor");

CREATE TABLE space_launch_assertion_consumptions (
    instance_uuid VARCHAR(255) NOT NULL,
    jti VARCHAR(255) NOT NULL,
    expires_at DATETIME NOT NULL,
    consumed_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (instance_uuid, jti)
);
CREATE INDEX ix_space_launch_assertion_consumptions_expiry ON space_launch_assertion_consumptions (instance_uuid, expires_at);

CREATE TABLE workspace_memberships (
    uuid VARCHAR(36) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    account_uuid VARCHAR(36) NOT NULL REFERENCES users (uuid) ON DELETE CASCADE,
    role VARCHAR(32) NOT NULL,
    status VARCHAR(32) NOT NULL DEFAULT 'active',
    invited_by_account_uuid VARCHAR(36) REFERENCES users (uuid) ON DELETE SET NULL,
    joined_at DATETIME,
    source VARCHAR(32) NOT NULL DEFAULT 'local',
    projection_revision BIGINT NOT NULL DEFAULT 0,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (uuid),
    CONSTRAINT uq_workspace_membership_account UNIQUE (workspace_uuid, account_uuid),
    CONSTRAINT ck_workspace_memberships_role CHECK (role IN ('owner', 'admin', 'developer', 'operator', 'viewer')),
    CONSTRAINT ck_workspace_memberships_status CHECK (status IN ('active', 'disabled', 'removed')),
    CONSTRAINT ck_workspace_memberships_source CHECK (source IN ('local', 'cloud_projection'))
);
CREATE INDEX ix_workspace_memberships_account_status ON workspace_memberships (account_uuid, status);
CREATE UNIQUE INDEX uq_workspace_memberships_one_active_owner ON workspace_memberships (workspace_uuid) WHERE role = 'owner' AND status = 'active';

CREATE TABLE workspace_invitations (
    uuid VARCHAR(36) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    normalized_email VARCHAR(320) NOT NULL,
    role VARCHAR(32) NOT NULL,
    token_hash VARCHAR(255) NOT NULL,
    status VARCHAR(32) NOT NULL DEFAULT 'pending',
    expires_at DATETIME NOT NULL,
    accepted_at DATETIME,
    revoked_at DATETIME,
    created_by_account_uuid VARCHAR(36) NOT NULL REFERENCES users (uuid) ON DELETE CASCADE,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (uuid),
    CONSTRAINT uq_workspace_invitations_token_hash UNIQUE (token_hash),
    CONSTRAINT ck_workspace_invitations_role CHECK (role IN ('admin', 'developer', 'operator', 'viewer')),
    CONSTRAINT ck_workspace_invitations_status CHECK (status IN ('pending', 'accepted', 'revoked', 'expired'))
);
CREATE UNIQUE INDEX uq_workspace_invitations_pending_email ON workspace_invitations (workspace_uuid, normalized_email) WHERE status = 'pending';

CREATE TABLE workspace_execution_states (
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    instance_uuid VARCHAR(255) NOT NULL,
    active_generation BIGINT NOT NULL DEFAULT 1,
    state VARCHAR(32) NOT NULL DEFAULT 'active',
    write_fenced BOOLEAN NOT NULL DEFAULT false,
    source VARCHAR(32) NOT NULL DEFAULT 'local',
    desired_state_revision BIGINT NOT NULL DEFAULT 0,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (workspace_uuid),
    CONSTRAINT ck_workspace_execution_states_generation CHECK (active_generation > 0),
    CONSTRAINT ck_workspace_execution_states_state CHECK (state IN ('provisioning', 'active', 'migrating', 'draining', 'inactive')),
    CONSTRAINT ck_workspace_execution_states_source CHECK (source IN ('local', 'cloud'))
);
CREATE INDEX ix_workspace_execution_states_instance_state ON workspace_execution_states (instance_uuid, state);

CREATE TABLE workspace_metadata (
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    "key" VARCHAR(255) NOT NULL,
    "value" TEXT,
    PRIMARY KEY (workspace_uuid, "key")
);

CREATE TABLE support_admin_temporary_sessions (
    grant_jti_hash VARCHAR(64) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    actor_account_uuid VARCHAR(36) NOT NULL,
    issued_at DATETIME NOT NULL,
    expires_at DATETIME NOT NULL,
    revoked_at DATETIME,
    last_used_at DATETIME,
    PRIMARY KEY (grant_jti_hash),
    CONSTRAINT ck_support_admin_temporary_sessions_hash CHECK (length(grant_jti_hash) = 64)
);
CREATE INDEX ix_support_admin_temporary_sessions_expiry ON support_admin_temporary_sessions (workspace_uuid, expires_at);

CREATE TABLE api_keys (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uuid VARCHAR(36) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    created_by_account_uuid VARCHAR(36) REFERENCES users (uuid) ON DELETE SET NULL,
    name VARCHAR(255) NOT NULL,
    key_hash VARCHAR(64) NOT NULL,
    scopes JSON NOT NULL DEFAULT '[]',
    status VARCHAR(32) NOT NULL DEFAULT 'active',
    expires_at DATETIME,
    last_used_at DATETIME,
    description VARCHAR(512),
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT uq_api_keys_uuid UNIQUE (uuid),
    CONSTRAINT uq_api_keys_key_hash UNIQUE (key_hash),
    CONSTRAINT ck_api_keys_status CHECK (status IN ('active', 'revoked'))
);
CREATE INDEX ix_api_keys_workspace_name ON api_keys (workspace_uuid, name);
CREATE INDEX ix_api_keys_workspace_status ON api_keys (workspace_uuid, status);

CREATE TABLE bots (
    uuid VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    name VARCHAR(255) NOT NULL,
    description VARCHAR(255) NOT NULL,
    adapter VARCHAR(255) NOT NULL,
    adapter_config JSON NOT NULL,
    enable BOOLEAN NOT NULL,
    use_pipeline_name VARCHAR(255),
    use_pipeline_uuid VARCHAR(255),
    pipeline_routing_rules JSON NOT NULL DEFAULT '[]',
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (uuid),
    CONSTRAINT uq_bots_workspace_uuid UNIQUE (workspace_uuid, uuid)
);
CREATE INDEX ix_bots_workspace_name ON bots (workspace_uuid, name);
CREATE INDEX ix_bots_workspace_updated_at ON bots (workspace_uuid, updated_at);

CREATE TABLE bot_admins (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    bot_uuid VARCHAR(255) NOT NULL,
    launcher_type VARCHAR(64) NOT NULL,
    launcher_id VARCHAR(255) NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT uq_bot_admin UNIQUE (workspace_uuid, bot_uuid, launcher_type, launcher_id),
    CONSTRAINT fk_bot_admins_bot FOREIGN KEY (workspace_uuid, bot_uuid) REFERENCES bots (workspace_uuid, uuid) ON DELETE CASCADE
);
CREATE INDEX ix_bot_admins_workspace_bot ON bot_admins (workspace_uuid, bot_uuid);

CREATE TABLE legacy_pipelines (
    uuid VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    name VARCHAR(255) NOT NULL,
    description TEXT NOT NULL,
    emoji VARCHAR(10),
    for_version VARCHAR(255) NOT NULL,
    is_default BOOLEAN NOT NULL,
    stages JSON NOT NULL,
    config JSON NOT NULL,
    extensions_preferences JSON NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (uuid),
    CONSTRAINT uq_legacy_pipelines_workspace_uuid UNIQUE (workspace_uuid, uuid)
);
CREATE INDEX ix_legacy_pipelines_workspace_name ON legacy_pipelines (workspace_uuid, name);
CREATE INDEX ix_legacy_pipelines_workspace_is_default ON legacy_pipelines (workspace_uuid, is_default);
CREATE INDEX ix_legacy_pipelines_workspace_updated_at ON legacy_pipelines (workspace_uuid, updated_at);

CREATE TABLE pipeline_run_records (
    uuid VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    pipeline_uuid VARCHAR(255) NOT NULL,
    status VARCHAR(255) NOT NULL,
    started_at DATETIME NOT NULL,
    finished_at DATETIME NOT NULL,
    result JSON NOT NULL,
    knowledge_base_uuid VARCHAR(255),
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (uuid),
    CONSTRAINT fk_pipeline_run_records_pipeline FOREIGN KEY (workspace_uuid, pipeline_uuid) REFERENCES legacy_pipelines (workspace_uuid, uuid) ON DELETE CASCADE
);
CREATE INDEX ix_pipeline_run_records_workspace_pipeline ON pipeline_run_records (workspace_uuid, pipeline_uuid);
CREATE INDEX ix_pipeline_run_records_workspace_created_at ON pipeline_run_records (workspace_uuid, created_at);

CREATE TABLE model_providers (
    uuid VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    name VARCHAR(255) NOT NULL,
    requester VARCHAR(255) NOT NULL,
    base_url VARCHAR(512) NOT NULL,
    api_keys JSON NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (uuid),
    CONSTRAINT uq_model_providers_workspace_uuid UNIQUE (workspace_uuid, uuid)
);
CREATE INDEX ix_model_providers_workspace_name ON model_providers (workspace_uuid, name);
CREATE INDEX ix_model_providers_workspace_requester ON model_providers (workspace_uuid, requester);

CREATE TABLE codex_credentials (
    provider_uuid VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL,
    payload JSON NOT NULL,
    version INTEGER NOT NULL,
    lease_owner VARCHAR(64),
    lease_until FLOAT NOT NULL,
    PRIMARY KEY (provider_uuid),
    CONSTRAINT fk_codex_credentials_provider FOREIGN KEY (workspace_uuid, provider_uuid) REFERENCES model_providers (workspace_uuid, uuid) ON DELETE CASCADE
);
CREATE INDEX ix_codex_credentials_workspace ON codex_credentials (workspace_uuid);

CREATE TABLE llm_models (
    uuid VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    name VARCHAR(255) NOT NULL,
    provider_uuid VARCHAR(255) NOT NULL,
    abilities JSON NOT NULL,
    context_length INTEGER,
    reasoning_config JSON NOT NULL DEFAULT '{"level":"provider_default"}',
    extra_args JSON NOT NULL,
    prefered_ranking INTEGER NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (uuid),
    CONSTRAINT fk_llm_models_provider FOREIGN KEY (workspace_uuid, provider_uuid) REFERENCES model_providers (workspace_uuid, uuid)
);
CREATE INDEX ix_llm_models_workspace_provider ON llm_models (workspace_uuid, provider_uuid);
CREATE INDEX ix_llm_models_workspace_name ON llm_models (workspace_uuid, name);

CREATE TABLE embedding_models (
    uuid VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    name VARCHAR(255) NOT NULL,
    provider_uuid VARCHAR(255) NOT NULL,
    extra_args JSON NOT NULL,
    prefered_ranking INTEGER NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (uuid),
    CONSTRAINT fk_embedding_models_provider FOREIGN KEY (workspace_uuid, provider_uuid) REFERENCES model_providers (workspace_uuid, uuid)
);
CREATE INDEX ix_embedding_models_workspace_provider ON embedding_models (workspace_uuid, provider_uuid);
CREATE INDEX ix_embedding_models_workspace_name ON embedding_models (workspace_uuid, name);

CREATE TABLE rerank_models (
    uuid VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    name VARCHAR(255) NOT NULL,
    provider_uuid VARCHAR(255) NOT NULL,
    extra_args JSON NOT NULL,
    prefered_ranking INTEGER NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (uuid),
    CONSTRAINT fk_rerank_models_provider FOREIGN KEY (workspace_uuid, provider_uuid) REFERENCES model_providers (workspace_uuid, uuid)
);
CREATE INDEX ix_rerank_models_workspace_provider ON rerank_models (workspace_uuid, provider_uuid);
CREATE INDEX ix_rerank_models_workspace_name ON rerank_models (workspace_uuid, name);

CREATE TABLE mcp_servers (
    uuid VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    name VARCHAR(255) NOT NULL,
    enable BOOLEAN NOT NULL,
    mode VARCHAR(255) NOT NULL,
    extra_args JSON NOT NULL,
    readme TEXT NOT NULL DEFAULT '',
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (uuid),
    CONSTRAINT uq_mcp_servers_workspace_name UNIQUE (workspace_uuid, name)
);
CREATE INDEX ix_mcp_servers_workspace_enable ON mcp_servers (workspace_uuid, enable);
CREATE INDEX ix_mcp_servers_workspace_updated_at ON mcp_servers (workspace_uuid, updated_at);

CREATE TABLE plugin_settings (
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    plugin_author VARCHAR(255) NOT NULL,
    plugin_name VARCHAR(255) NOT NULL,
    installation_uuid VARCHAR(36) NOT NULL,
    artifact_digest VARCHAR(64) NOT NULL,
    runtime_revision INTEGER NOT NULL,
    enabled BOOLEAN NOT NULL,
    priority INTEGER NOT NULL,
    config JSON NOT NULL,
    install_source VARCHAR(255) NOT NULL,
    install_info JSON NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (workspace_uuid, plugin_author, plugin_name),
    CONSTRAINT uq_plugin_settings_installation UNIQUE (installation_uuid),
    CONSTRAINT ck_plugin_settings_revision CHECK (runtime_revision >= 1),
    CONSTRAINT ck_plugin_settings_digest CHECK (length(artifact_digest) = 64)
);
CREATE UNIQUE INDEX uq_plugin_settings_workspace_installation ON plugin_settings (workspace_uuid, installation_uuid);
CREATE INDEX ix_plugin_settings_workspace_enabled ON plugin_settings (workspace_uuid, enabled);

CREATE TABLE knowledge_bases (
    uuid VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    name VARCHAR(255),
    description TEXT,
    emoji VARCHAR(10),
    knowledge_engine_plugin_id VARCHAR(255),
    collection_id VARCHAR(255),
    legacy_vector_collection BOOLEAN NOT NULL DEFAULT false,
    creation_settings JSON,
    retrieval_settings JSON,
    embedding_dimension INTEGER,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (uuid),
    CONSTRAINT uq_knowledge_bases_workspace_uuid UNIQUE (workspace_uuid, uuid),
    CONSTRAINT ck_knowledge_bases_embedding_dimension CHECK (embedding_dimension IS NULL OR embedding_dimension > 0)
);
CREATE INDEX ix_knowledge_bases_name ON knowledge_bases (name);
CREATE UNIQUE INDEX uq_knowledge_bases_workspace_collection ON knowledge_bases (workspace_uuid, collection_id) WHERE collection_id IS NOT NULL;
CREATE INDEX ix_knowledge_bases_workspace_name ON knowledge_bases (workspace_uuid, name);

CREATE TABLE knowledge_base_files (
    uuid VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    kb_id VARCHAR(255),
    file_name VARCHAR(255),
    extension VARCHAR(255),
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    status VARCHAR(255),
    PRIMARY KEY (uuid),
    CONSTRAINT uq_knowledge_base_files_workspace_uuid UNIQUE (workspace_uuid, uuid),
    CONSTRAINT fk_knowledge_base_files_kb FOREIGN KEY (workspace_uuid, kb_id) REFERENCES knowledge_bases (workspace_uuid, uuid) ON DELETE CASCADE
);
CREATE INDEX ix_knowledge_base_files_workspace_kb ON knowledge_base_files (workspace_uuid, kb_id);

CREATE TABLE knowledge_base_chunks (
    uuid VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    file_id VARCHAR(255),
    text TEXT,
    PRIMARY KEY (uuid),
    CONSTRAINT fk_knowledge_base_chunks_file FOREIGN KEY (workspace_uuid, file_id) REFERENCES knowledge_base_files (workspace_uuid, uuid) ON DELETE CASCADE
);
CREATE INDEX ix_knowledge_base_chunks_workspace_file ON knowledge_base_chunks (workspace_uuid, file_id);

CREATE TABLE webhooks (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    name VARCHAR(255) NOT NULL,
    url VARCHAR(1024) NOT NULL,
    description VARCHAR(512),
    enabled BOOLEAN NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX ix_webhooks_workspace_name ON webhooks (workspace_uuid, name);
CREATE INDEX ix_webhooks_workspace_enabled ON webhooks (workspace_uuid, enabled);
CREATE INDEX ix_webhooks_workspace_created_at ON webhooks (workspace_uuid, created_at);

CREATE TABLE binary_storages (
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    unique_key VARCHAR(255) NOT NULL,
    "key" VARCHAR(255) NOT NULL,
    owner_type VARCHAR(255) NOT NULL,
    owner VARCHAR(255) NOT NULL,
    "value" BLOB NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (workspace_uuid, unique_key)
);
CREATE INDEX ix_binary_storages_workspace_owner ON binary_storages (workspace_uuid, owner_type, owner);

-- Records have the indexes that lead with the workspace only: every question names one, and each index more is paid for
-- with every message. The single-column ones of other installations do no harm where they exist.
CREATE TABLE monitoring_messages (
    id VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    "timestamp" DATETIME NOT NULL,
    bot_id VARCHAR(255) NOT NULL,
    bot_name VARCHAR(255) NOT NULL,
    pipeline_id VARCHAR(255) NOT NULL,
    pipeline_name VARCHAR(255) NOT NULL,
    message_content TEXT NOT NULL,
    session_id TEXT NOT NULL,
    status VARCHAR(50) NOT NULL,
    level VARCHAR(50) NOT NULL,
    platform VARCHAR(255),
    user_id TEXT,
    user_name TEXT,
    runner_name VARCHAR(255),
    variables TEXT,
    role VARCHAR(50),
    PRIMARY KEY (id)
);
CREATE INDEX ix_monitoring_messages_workspace_session ON monitoring_messages (workspace_uuid, session_id);
CREATE INDEX ix_monitoring_messages_workspace_bot_timestamp ON monitoring_messages (workspace_uuid, bot_id, "timestamp");
CREATE INDEX ix_monitoring_messages_workspace_pipeline_timestamp ON monitoring_messages (workspace_uuid, pipeline_id, "timestamp");
CREATE INDEX ix_monitoring_messages_workspace_timestamp ON monitoring_messages (workspace_uuid, "timestamp");

CREATE TABLE monitoring_llm_calls (
    id VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    "timestamp" DATETIME NOT NULL,
    model_name VARCHAR(255) NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    total_tokens INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    cost FLOAT,
    status VARCHAR(50) NOT NULL,
    bot_id VARCHAR(255) NOT NULL,
    bot_name VARCHAR(255) NOT NULL,
    pipeline_id VARCHAR(255) NOT NULL,
    pipeline_name VARCHAR(255) NOT NULL,
    session_id TEXT NOT NULL,
    error_message TEXT,
    message_id VARCHAR(255),
    PRIMARY KEY (id)
);
CREATE INDEX ix_monitoring_llm_calls_workspace_session ON monitoring_llm_calls (workspace_uuid, session_id);
CREATE INDEX ix_monitoring_llm_calls_workspace_message ON monitoring_llm_calls (workspace_uuid, message_id);
CREATE INDEX ix_monitoring_llm_calls_workspace_timestamp ON monitoring_llm_calls (workspace_uuid, "timestamp");

CREATE TABLE monitoring_tool_calls (
    id VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    "timestamp" DATETIME NOT NULL,
    tool_name VARCHAR(255) NOT NULL,
    tool_source VARCHAR(50) NOT NULL,
    duration INTEGER NOT NULL,
    status VARCHAR(50) NOT NULL,
    bot_id VARCHAR(255) NOT NULL,
    bot_name VARCHAR(255) NOT NULL,
    pipeline_id VARCHAR(255) NOT NULL,
    pipeline_name VARCHAR(255) NOT NULL,
    session_id TEXT,
    message_id VARCHAR(255),
    arguments TEXT,
    result TEXT,
    error_message TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX ix_monitoring_tool_calls_workspace_session ON monitoring_tool_calls (workspace_uuid, session_id);
CREATE INDEX ix_monitoring_tool_calls_workspace_message ON monitoring_tool_calls (workspace_uuid, message_id);
CREATE INDEX ix_monitoring_tool_calls_workspace_timestamp ON monitoring_tool_calls (workspace_uuid, "timestamp");

CREATE TABLE monitoring_sessions (
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    bot_id VARCHAR(255) NOT NULL,
    session_id TEXT NOT NULL,
    bot_name VARCHAR(255) NOT NULL,
    pipeline_id VARCHAR(255) NOT NULL,
    pipeline_name VARCHAR(255) NOT NULL,
    message_count INTEGER NOT NULL,
    start_time DATETIME NOT NULL,
    last_activity DATETIME NOT NULL,
    is_active BOOLEAN NOT NULL,
    platform VARCHAR(255),
    user_id TEXT,
    user_name TEXT,
    PRIMARY KEY (workspace_uuid, bot_id, session_id)
);
CREATE INDEX ix_monitoring_sessions_workspace_session ON monitoring_sessions (workspace_uuid, session_id);
CREATE INDEX ix_monitoring_sessions_workspace_is_active ON monitoring_sessions (workspace_uuid, is_active);
CREATE INDEX ix_monitoring_sessions_workspace_bot_activity ON monitoring_sessions (workspace_uuid, bot_id, last_activity);
CREATE INDEX ix_monitoring_sessions_workspace_last_activity ON monitoring_sessions (workspace_uuid, last_activity);

CREATE TABLE monitoring_errors (
    id VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    "timestamp" DATETIME NOT NULL,
    error_type VARCHAR(255) NOT NULL,
    error_message TEXT NOT NULL,
    bot_id VARCHAR(255) NOT NULL,
    bot_name VARCHAR(255) NOT NULL,
    pipeline_id VARCHAR(255) NOT NULL,
    pipeline_name VARCHAR(255) NOT NULL,
    session_id TEXT,
    stack_trace TEXT,
    message_id VARCHAR(255),
    PRIMARY KEY (id)
);
CREATE INDEX ix_monitoring_errors_workspace_session ON monitoring_errors (workspace_uuid, session_id);
CREATE INDEX ix_monitoring_errors_workspace_message ON monitoring_errors (workspace_uuid, message_id);
CREATE INDEX ix_monitoring_errors_workspace_timestamp ON monitoring_errors (workspace_uuid, "timestamp");

CREATE TABLE monitoring_embedding_calls (
    id VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    "timestamp" DATETIME NOT NULL,
    model_name VARCHAR(255) NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    total_tokens INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    input_count INTEGER NOT NULL,
    status VARCHAR(50) NOT NULL,
    error_message TEXT,
    knowledge_base_id VARCHAR(255),
    query_text TEXT,
    session_id TEXT,
    message_id VARCHAR(255),
    call_type VARCHAR(50),
    PRIMARY KEY (id)
);
CREATE INDEX ix_monitoring_embedding_calls_workspace_kb ON monitoring_embedding_calls (workspace_uuid, knowledge_base_id);
CREATE INDEX ix_monitoring_embedding_calls_workspace_session ON monitoring_embedding_calls (workspace_uuid, session_id);
CREATE INDEX ix_monitoring_embedding_calls_workspace_timestamp ON monitoring_embedding_calls (workspace_uuid, "timestamp");

CREATE TABLE monitoring_feedback (
    id VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    "timestamp" DATETIME NOT NULL,
    feedback_id VARCHAR(255) NOT NULL,
    feedback_type INTEGER NOT NULL,
    feedback_content TEXT,
    inaccurate_reasons TEXT,
    bot_id VARCHAR(255),
    bot_name VARCHAR(255),
    pipeline_id VARCHAR(255),
    pipeline_name VARCHAR(255),
    session_id TEXT,
    message_id VARCHAR(255),
    stream_id VARCHAR(255),
    user_id TEXT,
    platform VARCHAR(255),
    PRIMARY KEY (id),
    CONSTRAINT uq_monitoring_feedback_workspace_feedback UNIQUE (workspace_uuid, feedback_id)
);
CREATE INDEX ix_monitoring_feedback_workspace_session ON monitoring_feedback (workspace_uuid, session_id);
CREATE INDEX ix_monitoring_feedback_workspace_message ON monitoring_feedback (workspace_uuid, message_id);
CREATE INDEX ix_monitoring_feedback_workspace_timestamp ON monitoring_feedback (workspace_uuid, "timestamp");

CREATE TABLE parley_messages (
    seq INTEGER NOT NULL PRIMARY KEY,
    id VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    bot_uuid VARCHAR(255) NOT NULL,
    pipeline_uuid VARCHAR(255) NOT NULL,
    dedupe_key VARCHAR(512),
    state VARCHAR(16) NOT NULL DEFAULT 'received',
    launcher_type VARCHAR(64) NOT NULL,
    launcher_id TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    routed BOOLEAN NOT NULL DEFAULT false,
    payload TEXT NOT NULL,
    turn_id VARCHAR(255),
    attempts INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    received_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT uq_parley_messages_id UNIQUE (id),
    CONSTRAINT ck_parley_messages_state CHECK (state IN ('received', 'running', 'done', 'failed', 'discarded'))
);
CREATE UNIQUE INDEX uq_parley_messages_dedupe ON parley_messages (workspace_uuid, bot_uuid, dedupe_key) WHERE dedupe_key IS NOT NULL;
CREATE INDEX ix_parley_messages_open ON parley_messages (workspace_uuid, seq) WHERE state IN ('received', 'running');
CREATE INDEX ix_parley_messages_bot ON parley_messages (workspace_uuid, bot_uuid, seq);

CREATE TABLE parley_deliveries (
    seq INTEGER NOT NULL PRIMARY KEY,
    id VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    bot_uuid VARCHAR(255) NOT NULL,
    message_id VARCHAR(255) NOT NULL,
    session_key TEXT NOT NULL,
    number INTEGER NOT NULL,
    is_final BOOLEAN NOT NULL,
    payload TEXT NOT NULL,
    state VARCHAR(16) NOT NULL DEFAULT 'pending',
    attempts INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT uq_parley_deliveries_id UNIQUE (id),
    CONSTRAINT ck_parley_deliveries_state CHECK (state IN ('pending', 'sending', 'sent', 'failed'))
);
CREATE INDEX ix_parley_deliveries_open ON parley_deliveries (workspace_uuid, seq) WHERE state IN ('pending', 'sending');
CREATE INDEX ix_parley_deliveries_message ON parley_deliveries (message_id);
CREATE INDEX ix_parley_deliveries_bot ON parley_deliveries (workspace_uuid, bot_uuid, seq);

CREATE TABLE parley_sessions (
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    bot_uuid VARCHAR(255) NOT NULL,
    launcher_type VARCHAR(64) NOT NULL,
    launcher_id TEXT NOT NULL,
    sender_id TEXT,
    conversation_id VARCHAR(255),
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (workspace_uuid, bot_uuid, launcher_type, launcher_id)
);

CREATE TABLE parley_conversations (
    id VARCHAR(255) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    bot_uuid VARCHAR(255) NOT NULL,
    pipeline_uuid VARCHAR(255) NOT NULL,
    launcher_type VARCHAR(64) NOT NULL,
    launcher_id TEXT NOT NULL,
    uuid VARCHAR(255),
    prompt TEXT,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (id)
);
CREATE INDEX ix_parley_conversations_launcher ON parley_conversations (workspace_uuid, bot_uuid, launcher_type, launcher_id);

CREATE TABLE parley_turns (
    seq INTEGER NOT NULL PRIMARY KEY,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    conversation_id VARCHAR(255) NOT NULL,
    messages TEXT NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX ix_parley_turns_conversation ON parley_turns (workspace_uuid, conversation_id, seq);

CREATE TABLE parley_chat_messages (
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    conversation_key TEXT NOT NULL,
    number BIGINT NOT NULL,
    data TEXT NOT NULL,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (workspace_uuid, conversation_key, number)
);

CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO alembic_version (version_num) VALUES ('0023_bot_scoped_sessions');
INSERT INTO metadata ("key", "value") VALUES ('database_version', '25');

-- What the planner cannot know of an empty file: the workspace alone chooses nearly nothing, so a statement that also names
-- a row must go by the row.
ANALYZE metadata;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('monitoring_messages', 'ix_monitoring_messages_workspace_timestamp', '1000000 1000000 1'),
    ('monitoring_messages', 'ix_monitoring_messages_workspace_pipeline_timestamp', '1000000 1000000 200000 1'),
    ('monitoring_messages', 'ix_monitoring_messages_workspace_bot_timestamp', '1000000 1000000 200000 1'),
    ('monitoring_messages', 'ix_monitoring_messages_workspace_session', '1000000 1000000 100'),
    ('monitoring_messages', 'sqlite_autoindex_monitoring_messages_1', '1000000 1'),
    ('monitoring_llm_calls', 'ix_monitoring_llm_calls_workspace_timestamp', '1000000 1000000 1'),
    ('monitoring_llm_calls', 'ix_monitoring_llm_calls_workspace_message', '1000000 1000000 1'),
    ('monitoring_llm_calls', 'ix_monitoring_llm_calls_workspace_session', '1000000 1000000 100'),
    ('monitoring_llm_calls', 'sqlite_autoindex_monitoring_llm_calls_1', '1000000 1'),
    ('monitoring_tool_calls', 'ix_monitoring_tool_calls_workspace_timestamp', '1000000 1000000 1'),
    ('monitoring_tool_calls', 'ix_monitoring_tool_calls_workspace_message', '1000000 1000000 1'),
    ('monitoring_tool_calls', 'ix_monitoring_tool_calls_workspace_session', '1000000 1000000 100'),
    ('monitoring_tool_calls', 'sqlite_autoindex_monitoring_tool_calls_1', '1000000 1'),
    ('monitoring_sessions', 'ix_monitoring_sessions_workspace_last_activity', '100000 100000 1'),
    ('monitoring_sessions', 'ix_monitoring_sessions_workspace_bot_activity', '100000 100000 20000 1'),
    ('monitoring_sessions', 'ix_monitoring_sessions_workspace_is_active', '100000 100000 50000'),
    ('monitoring_sessions', 'ix_monitoring_sessions_workspace_session', '100000 100000 10'),
    ('monitoring_sessions', 'sqlite_autoindex_monitoring_sessions_1', '100000 100000 20000 1'),
    ('monitoring_errors', 'ix_monitoring_errors_workspace_timestamp', '100000 100000 1'),
    ('monitoring_errors', 'ix_monitoring_errors_workspace_message', '100000 100000 1'),
    ('monitoring_errors', 'ix_monitoring_errors_workspace_session', '100000 100000 10'),
    ('monitoring_errors', 'sqlite_autoindex_monitoring_errors_1', '100000 1'),
    ('monitoring_embedding_calls', 'ix_monitoring_embedding_calls_workspace_timestamp', '100000 100000 1'),
    ('monitoring_embedding_calls', 'ix_monitoring_embedding_calls_workspace_session', '100000 100000 10'),
    ('monitoring_embedding_calls', 'ix_monitoring_embedding_calls_workspace_kb', '100000 100000 20000'),
    ('monitoring_embedding_calls', 'sqlite_autoindex_monitoring_embedding_calls_1', '100000 1'),
    ('monitoring_feedback', 'ix_monitoring_feedback_workspace_timestamp', '100000 100000 1'),
    ('monitoring_feedback', 'ix_monitoring_feedback_workspace_message', '100000 100000 1'),
    ('monitoring_feedback', 'ix_monitoring_feedback_workspace_session', '100000 100000 10'),
    ('monitoring_feedback', 'sqlite_autoindex_monitoring_feedback_2', '100000 100000 1'),
    ('monitoring_feedback', 'sqlite_autoindex_monitoring_feedback_1', '100000 1'),
    ('parley_messages', 'ix_parley_messages_bot', '100000 100000 20000 1'),
    ('parley_messages', 'ix_parley_messages_open', '100 100 1'),
    ('parley_messages', 'uq_parley_messages_dedupe', '100000 100000 20000 1'),
    ('parley_messages', 'sqlite_autoindex_parley_messages_1', '100000 1'),
    ('parley_deliveries', 'ix_parley_deliveries_bot', '100000 100000 20000 1'),
    ('parley_deliveries', 'ix_parley_deliveries_message', '100000 1'),
    ('parley_deliveries', 'ix_parley_deliveries_open', '100 100 1'),
    ('parley_deliveries', 'sqlite_autoindex_parley_deliveries_1', '100000 1'),
    ('parley_sessions', 'sqlite_autoindex_parley_sessions_1', '100000 100000 20000 10000 1'),
    ('parley_conversations', 'ix_parley_conversations_launcher', '100000 100000 20000 10000 1'),
    ('parley_conversations', 'sqlite_autoindex_parley_conversations_1', '100000 1'),
    ('parley_turns', 'ix_parley_turns_conversation', '100000 100000 20 1'),
    ('parley_chat_messages', 'sqlite_autoindex_parley_chat_messages_1', '100000 100000 100 1');
ANALYZE sqlite_schema;
