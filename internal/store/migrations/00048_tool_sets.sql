-- Append only: a released migration is never edited.

-- +goose Up
-- Tools that a person has put together under a name, so that a program can be given them alone.
CREATE TABLE tool_sets (
    owner      TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    tools      TEXT NOT NULL, -- names and patterns with *, separated by spaces
    created_at BIGINT NOT NULL,
    PRIMARY KEY (owner, name)
);

-- +goose Down
DROP TABLE tool_sets;
