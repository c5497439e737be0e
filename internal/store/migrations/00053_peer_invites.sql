-- Append only: a released migration is never edited.

-- +goose Up
-- A token can be replaced or revoked without those of the peer's other roles: version is part of it
-- from then on. key is the id of the key that it was got with.
ALTER TABLE peer_tokens ADD COLUMN version BIGINT NOT NULL DEFAULT 0;
ALTER TABLE peer_tokens ADD COLUMN revoked_at BIGINT;
ALTER TABLE peer_tokens ADD COLUMN key TEXT NOT NULL DEFAULT '';
-- How often a token of the peer was replaced or revoked.
ALTER TABLE peers ADD COLUMN token_changes BIGINT NOT NULL DEFAULT 0;

-- Invitations of nodes, which are paired by a setup code. One that was used is bound to its peer. key
-- is the id of the key that made it.
CREATE TABLE peer_invites (
    id         TEXT PRIMARY KEY,
    owner      TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    key        TEXT NOT NULL,
    token_hash TEXT NOT NULL UNIQUE,
    code_hash  TEXT,
    url        TEXT NOT NULL,
    peer       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX peer_invites_code ON peer_invites (code_hash);
CREATE INDEX peer_invites_expiry ON peer_invites (expires_at);
CREATE INDEX peer_invites_peer ON peer_invites (peer);

-- +goose Down
DROP TABLE peer_invites;
ALTER TABLE peers DROP COLUMN token_changes;
ALTER TABLE peer_tokens DROP COLUMN key;
ALTER TABLE peer_tokens DROP COLUMN revoked_at;
ALTER TABLE peer_tokens DROP COLUMN version;
