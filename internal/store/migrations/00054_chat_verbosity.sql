-- Append only: a released migration is never edited.

-- +goose Up
-- How much the programs of a conversation show of the tools that its bot uses.
ALTER TABLE chat_sessions ADD COLUMN verbosity TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE chat_sessions DROP COLUMN verbosity;
