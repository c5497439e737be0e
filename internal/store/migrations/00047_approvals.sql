-- Append only: a released migration is never edited.

-- +goose Up
-- Calls of tools that a person is asked about before they are carried out. There is one row for
-- each call of a caller with the same arguments, which are there only while it waits.
CREATE TABLE approvals (
    id         TEXT PRIMARY KEY,
    person     TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    key        TEXT NOT NULL,
    bot        BIGINT NOT NULL,
    caller     TEXT NOT NULL,
    program    TEXT NOT NULL,
    tool       TEXT NOT NULL,
    title      TEXT NOT NULL,
    provider   TEXT NOT NULL,
    args       TEXT NOT NULL,
    args_hash  TEXT NOT NULL,
    state      TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    asked_at   BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    UNIQUE (person, key, bot, tool, args_hash)
);
CREATE INDEX approvals_expiry ON approvals (expires_at);

-- +goose Down
DROP TABLE approvals;
