-- Append only: a released migration is never edited.

-- +goose Up
-- What tells this installation from others; one row.
CREATE TABLE installation (
    id TEXT PRIMARY KEY
);

-- The secrets with which something may be sealed, each sealed by itself and by others:
-- whoever has one of them has those that hold beside it. The one that was put to use
-- last seals; used is null for one that waits until all instances know it.
CREATE TABLE secrets (
    id     TEXT NOT NULL,
    by_id  TEXT NOT NULL,
    sealed TEXT NOT NULL,
    made   BIGINT NOT NULL,
    used   BIGINT,
    PRIMARY KEY (id, by_id)
);

-- +goose Down
DROP TABLE secrets;
DROP TABLE installation;
