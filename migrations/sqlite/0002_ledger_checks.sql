-- A check by IN with more than two values fills a table of its own each time a row is written, four times for each message. The
-- same checks as comparisons cost nothing; SQLite changes a check by making the table again only.
CREATE TABLE parley_messages_new (
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
    CONSTRAINT ck_parley_messages_state
        CHECK (state = 'received' OR state = 'done' OR state = 'failed' OR state = 'discarded' OR state = 'running')
);
INSERT INTO parley_messages_new SELECT * FROM parley_messages;
DROP TABLE parley_messages;
ALTER TABLE parley_messages_new RENAME TO parley_messages;
CREATE UNIQUE INDEX uq_parley_messages_dedupe ON parley_messages (workspace_uuid, bot_uuid, dedupe_key) WHERE dedupe_key IS NOT NULL;
CREATE INDEX ix_parley_messages_open ON parley_messages (workspace_uuid, seq) WHERE state IN ('received', 'running');
CREATE INDEX ix_parley_messages_bot ON parley_messages (workspace_uuid, bot_uuid, seq);

CREATE TABLE parley_deliveries_new (
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
    CONSTRAINT ck_parley_deliveries_state
        CHECK (state = 'pending' OR state = 'sent' OR state = 'failed' OR state = 'sending')
);
INSERT INTO parley_deliveries_new SELECT * FROM parley_deliveries;
DROP TABLE parley_deliveries;
ALTER TABLE parley_deliveries_new RENAME TO parley_deliveries;
CREATE INDEX ix_parley_deliveries_open ON parley_deliveries (workspace_uuid, seq) WHERE state IN ('pending', 'sending');
CREATE INDEX ix_parley_deliveries_message ON parley_deliveries (message_id);
CREATE INDEX ix_parley_deliveries_bot ON parley_deliveries (workspace_uuid, bot_uuid, seq);

-- What the planner was told goes with a table.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('parley_messages', 'ix_parley_messages_bot', '100000 100000 20000 1'),
    ('parley_messages', 'ix_parley_messages_open', '100 100 1'),
    ('parley_messages', 'uq_parley_messages_dedupe', '100000 100000 20000 1'),
    ('parley_messages', 'sqlite_autoindex_parley_messages_1', '100000 1'),
    ('parley_deliveries', 'ix_parley_deliveries_bot', '100000 100000 20000 1'),
    ('parley_deliveries', 'ix_parley_deliveries_message', '100000 1'),
    ('parley_deliveries', 'ix_parley_deliveries_open', '100 100 1'),
    ('parley_deliveries', 'sqlite_autoindex_parley_deliveries_1', '100000 1');
ANALYZE sqlite_schema;
