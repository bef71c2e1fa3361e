-- What agents did in the sandbox, and what they were refused.

CREATE TABLE parley_audit (
    id VARCHAR(36) NOT NULL,
    workspace_uuid VARCHAR(36) NOT NULL REFERENCES workspaces (uuid) ON DELETE CASCADE,
    "timestamp" DATETIME NOT NULL,
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
    duration INTEGER,
    bytes INTEGER,
    error_message TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX ix_parley_audit_workspace_timestamp ON parley_audit (workspace_uuid, "timestamp");

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('parley_audit', 'ix_parley_audit_workspace_timestamp', '1000000 1000000 1'),
    ('parley_audit', 'sqlite_autoindex_parley_audit_1', '1000000 1');
ANALYZE sqlite_schema;
