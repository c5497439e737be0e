-- Append only: a released migration is never edited.

-- +goose Up
-- What a person calls tools, instead of what their servers do. Empty: as the server does.
CREATE TABLE tool_words (
    owner       TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    tool        TEXT NOT NULL, -- its original name
    name        TEXT NOT NULL,
    title       TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (owner, tool)
);
CREATE UNIQUE INDEX tool_words_name ON tool_words (owner, name) WHERE name <> '';

-- +goose Down
DROP TABLE tool_words;
