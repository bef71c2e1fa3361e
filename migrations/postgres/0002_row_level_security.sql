-- Row-level security: a transaction sees the rows of the scope that was set right after BEGIN, and nothing when none was.
-- FORCE: the owner of the tables is bound too.

ALTER TABLE workspaces ENABLE ROW LEVEL SECURITY;
ALTER TABLE workspaces FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON workspaces FOR SELECT
    USING (uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));
CREATE POLICY langbot_workspace_local_directory_write ON workspaces
    USING (uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), '') AND source = 'local')
    WITH CHECK (uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), '') AND source = 'local');
CREATE POLICY langbot_directory_projection ON workspaces
    USING (instance_uuid::text = NULLIF(current_setting('langbot.directory_instance_uuid', true), '') AND source = 'cloud_projection')
    WITH CHECK (instance_uuid::text = NULLIF(current_setting('langbot.directory_instance_uuid', true), '') AND source = 'cloud_projection');

ALTER TABLE directory_projection_states ENABLE ROW LEVEL SECURITY;
ALTER TABLE directory_projection_states FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_directory_projection ON directory_projection_states
    USING (instance_uuid::text = NULLIF(current_setting('langbot.directory_instance_uuid', true), ''))
    WITH CHECK (instance_uuid::text = NULLIF(current_setting('langbot.directory_instance_uuid', true), ''));

ALTER TABLE directory_projection_inbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE directory_projection_inbox FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_directory_projection ON directory_projection_inbox
    USING (instance_uuid::text = NULLIF(current_setting('langbot.directory_instance_uuid', true), ''))
    WITH CHECK (instance_uuid::text = NULLIF(current_setting('langbot.directory_instance_uuid', true), ''));

ALTER TABLE space_launch_assertion_consumptions ENABLE ROW LEVEL SECURITY;
ALTER TABLE space_launch_assertion_consumptions FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_directory_projection ON space_launch_assertion_consumptions
    USING (instance_uuid::text = NULLIF(current_setting('langbot.directory_instance_uuid', true), ''))
    WITH CHECK (instance_uuid::text = NULLIF(current_setting('langbot.directory_instance_uuid', true), ''));

ALTER TABLE workspace_memberships ENABLE ROW LEVEL SECURITY;
ALTER TABLE workspace_memberships FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON workspace_memberships FOR SELECT
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));
CREATE POLICY langbot_workspace_local_directory_write ON workspace_memberships
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));
CREATE POLICY langbot_directory_projection ON workspace_memberships
    USING (EXISTS (SELECT 1 FROM workspaces w WHERE w.uuid = workspace_memberships.workspace_uuid
        AND w.instance_uuid::text = NULLIF(current_setting('langbot.directory_instance_uuid', true), '') AND w.source = 'cloud_projection'))
    WITH CHECK (EXISTS (SELECT 1 FROM workspaces w WHERE w.uuid = workspace_memberships.workspace_uuid
        AND w.instance_uuid::text = NULLIF(current_setting('langbot.directory_instance_uuid', true), '') AND w.source = 'cloud_projection'));
CREATE POLICY langbot_account_discovery ON workspace_memberships FOR SELECT
    USING (account_uuid::text = NULLIF(current_setting('langbot.account_uuid', true), '') AND status = 'active');

ALTER TABLE workspace_invitations ENABLE ROW LEVEL SECURITY;
ALTER TABLE workspace_invitations FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON workspace_invitations
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));
CREATE POLICY langbot_invitation_discovery ON workspace_invitations FOR SELECT
    USING (token_hash::text = NULLIF(current_setting('langbot.invitation_hash', true), ''));

ALTER TABLE workspace_execution_states ENABLE ROW LEVEL SECURITY;
ALTER TABLE workspace_execution_states FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON workspace_execution_states FOR SELECT
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));
CREATE POLICY langbot_workspace_local_directory_write ON workspace_execution_states
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), '') AND EXISTS (SELECT 1 FROM workspaces w
        WHERE w.uuid = workspace_execution_states.workspace_uuid AND w.source = 'local'))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), '') AND EXISTS (SELECT 1 FROM workspaces w
        WHERE w.uuid = workspace_execution_states.workspace_uuid AND w.source = 'local'));
CREATE POLICY langbot_directory_projection ON workspace_execution_states
    USING (source = 'cloud' AND EXISTS (SELECT 1 FROM workspaces w
        WHERE w.uuid = workspace_execution_states.workspace_uuid AND w.instance_uuid::text = NULLIF(current_setting('langbot.directory_instance_uuid', true), '')
        AND w.source = 'cloud_projection'))
    WITH CHECK (source = 'cloud' AND EXISTS (SELECT 1 FROM workspaces w
        WHERE w.uuid = workspace_execution_states.workspace_uuid AND w.instance_uuid::text = NULLIF(current_setting('langbot.directory_instance_uuid', true), '')
        AND w.source = 'cloud_projection'));
CREATE POLICY langbot_instance_discovery ON workspace_execution_states FOR SELECT
    USING (instance_uuid::text = NULLIF(current_setting('langbot.instance_uuid', true), '') AND state = 'active' AND NOT write_fenced);

ALTER TABLE workspace_metadata ENABLE ROW LEVEL SECURITY;
ALTER TABLE workspace_metadata FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON workspace_metadata
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE support_admin_temporary_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE support_admin_temporary_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON support_admin_temporary_sessions
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON api_keys
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));
CREATE POLICY langbot_api_key_discovery ON api_keys FOR SELECT
    USING (key_hash::text = NULLIF(current_setting('langbot.api_key_hash', true), '') AND status = 'active'
        AND (expires_at IS NULL OR expires_at > (now() AT TIME ZONE 'UTC')));

ALTER TABLE bots ENABLE ROW LEVEL SECURITY;
ALTER TABLE bots FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON bots
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE bot_admins ENABLE ROW LEVEL SECURITY;
ALTER TABLE bot_admins FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON bot_admins
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE legacy_pipelines ENABLE ROW LEVEL SECURITY;
ALTER TABLE legacy_pipelines FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON legacy_pipelines
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE pipeline_run_records ENABLE ROW LEVEL SECURITY;
ALTER TABLE pipeline_run_records FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON pipeline_run_records
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE model_providers ENABLE ROW LEVEL SECURITY;
ALTER TABLE model_providers FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON model_providers
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE codex_credentials ENABLE ROW LEVEL SECURITY;
ALTER TABLE codex_credentials FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON codex_credentials
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE llm_models ENABLE ROW LEVEL SECURITY;
ALTER TABLE llm_models FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON llm_models
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE embedding_models ENABLE ROW LEVEL SECURITY;
ALTER TABLE embedding_models FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON embedding_models
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE rerank_models ENABLE ROW LEVEL SECURITY;
ALTER TABLE rerank_models FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON rerank_models
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE mcp_servers ENABLE ROW LEVEL SECURITY;
ALTER TABLE mcp_servers FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON mcp_servers
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE plugin_settings ENABLE ROW LEVEL SECURITY;
ALTER TABLE plugin_settings FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON plugin_settings
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE knowledge_bases ENABLE ROW LEVEL SECURITY;
ALTER TABLE knowledge_bases FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON knowledge_bases
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE knowledge_base_files ENABLE ROW LEVEL SECURITY;
ALTER TABLE knowledge_base_files FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON knowledge_base_files
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE knowledge_base_chunks ENABLE ROW LEVEL SECURITY;
ALTER TABLE knowledge_base_chunks FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON knowledge_base_chunks
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE webhooks ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhooks FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON webhooks
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE binary_storages ENABLE ROW LEVEL SECURITY;
ALTER TABLE binary_storages FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON binary_storages
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE monitoring_messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE monitoring_messages FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON monitoring_messages
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE monitoring_llm_calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE monitoring_llm_calls FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON monitoring_llm_calls
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE monitoring_tool_calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE monitoring_tool_calls FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON monitoring_tool_calls
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE monitoring_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE monitoring_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON monitoring_sessions
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE monitoring_errors ENABLE ROW LEVEL SECURITY;
ALTER TABLE monitoring_errors FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON monitoring_errors
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE monitoring_embedding_calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE monitoring_embedding_calls FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON monitoring_embedding_calls
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE monitoring_feedback ENABLE ROW LEVEL SECURITY;
ALTER TABLE monitoring_feedback FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON monitoring_feedback
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE parley_messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE parley_messages FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON parley_messages
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE parley_deliveries ENABLE ROW LEVEL SECURITY;
ALTER TABLE parley_deliveries FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON parley_deliveries
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE parley_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE parley_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON parley_sessions
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE parley_conversations ENABLE ROW LEVEL SECURITY;
ALTER TABLE parley_conversations FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON parley_conversations
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE parley_turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE parley_turns FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON parley_turns
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));

ALTER TABLE parley_chat_messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE parley_chat_messages FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON parley_chat_messages
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));
