-- Append only: a released migration is never edited.

-- +goose Up
-- The key that made the settings of a bot last, whose rules bind the bot.
ALTER TABLE bots ADD COLUMN set_by TEXT NOT NULL DEFAULT '';
-- The key that made a key: with it, what it made ends.
ALTER TABLE keys ADD COLUMN parent TEXT NOT NULL DEFAULT '';
CREATE INDEX keys_parent ON keys (parent) WHERE parent <> '';
-- Tools that their server has called destructive at any time, by its names for them.
CREATE TABLE dangerous_tools (
    upstream BIGINT NOT NULL REFERENCES upstreams (number) ON DELETE CASCADE,
    tool     TEXT   NOT NULL,
    PRIMARY KEY (upstream, tool)
);

-- +goose Down
DROP TABLE dangerous_tools;
DROP INDEX keys_parent;
ALTER TABLE keys DROP COLUMN parent;
ALTER TABLE bots DROP COLUMN set_by;
