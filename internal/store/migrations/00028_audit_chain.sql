-- Append only: a released migration is never edited.

-- +goose Up
-- The rows of calls and acts are chained by hash. A writer takes a chain that nobody else
-- has at the moment, so that there are as many as there were ever writers at once: one
-- with SQLite. seq and link are of the newest link, in hex as all of them; what is up to base_seq was deleted
-- because it is old.
CREATE TABLE audit_chains (
    id        TEXT PRIMARY KEY,
    seq       BIGINT NOT NULL,
    link      TEXT NOT NULL,
    base_seq  BIGINT NOT NULL,
    base_link TEXT NOT NULL
);

-- A link is of a row (kind is its table, row_id its id, at its time), or tells of rows that
-- were deleted (row_id is empty, note says which). It stays when its row goes.
CREATE TABLE audit_links (
    chain  TEXT NOT NULL,
    seq    BIGINT NOT NULL,
    kind   TEXT NOT NULL,
    row_id TEXT NOT NULL,
    person TEXT NOT NULL,
    at     BIGINT NOT NULL,
    note   TEXT NOT NULL,
    digest TEXT NOT NULL,
    link   TEXT NOT NULL,
    PRIMARY KEY (chain, seq)
);
CREATE INDEX audit_links_row ON audit_links (row_id);

-- What the digest of the arguments was made with. It is forgotten with them, so that
-- nobody can find out by guessing what they were.
ALTER TABLE calls ADD COLUMN args_salt TEXT;

-- +goose Down
ALTER TABLE calls DROP COLUMN args_salt;
DROP TABLE audit_links;
DROP TABLE audit_chains;
