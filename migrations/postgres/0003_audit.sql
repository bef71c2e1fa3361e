-- What agents did in the sandbox, and what they were refused.

CREATE TABLE parley_audit (
    id VARCHAR(36) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    "timestamp" TIMESTAMP NOT NULL,
    tool_name VARCHAR(255) NOT NULL,
    tool_source VARCHAR(50) NOT NULL,
    decision VARCHAR(20) NOT NULL,
    status VARCHAR(20) NOT NULL,
    bot_id VARCHAR(255) NOT NULL,
    pipeline_id VARCHAR(255) NOT NULL,
    session_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    query_id VARCHAR(36) NOT NULL,
    message_id VARCHAR(255),
    box_session_id TEXT,
    detail TEXT NOT NULL,
    detail_sha256 VARCHAR(64) NOT NULL,
    exit_code INTEGER,
    duration BIGINT,
    bytes BIGINT,
    error_message TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX ix_parley_audit_workspace_timestamp ON parley_audit (workspace_uuid, "timestamp");

ALTER TABLE parley_audit ENABLE ROW LEVEL SECURITY;
ALTER TABLE parley_audit FORCE ROW LEVEL SECURITY;
CREATE POLICY langbot_workspace_isolation ON parley_audit
    USING (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''))
    WITH CHECK (workspace_uuid::text = NULLIF(current_setting('langbot.workspace_uuid', true), ''));
