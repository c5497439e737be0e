-- Append only: a released migration is never edited.

-- +goose Up
-- Conversations with bots that OpenClaw's programs list, name, reset and delete. The exchanges of
-- one have its conversation; a reset begins another.
CREATE TABLE chat_sessions (
    owner        TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    bot          BIGINT NOT NULL REFERENCES bots (number) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    conversation TEXT NOT NULL,
    label        TEXT NOT NULL,
    pinned       BOOLEAN NOT NULL,
    archived_at  BIGINT,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (owner, bot, name)
);
CREATE INDEX chat_sessions_updated ON chat_sessions (owner, updated_at);

-- +goose Down
DROP TABLE chat_sessions;
