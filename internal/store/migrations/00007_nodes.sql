-- Append only: a released migration is never edited.

-- +goose Up
INSERT INTO counters (name, value) VALUES ('peers', 0), ('peer_secret', 0);

-- Programs with a key of their own, each paired with a person: nodes, operators, or
-- both. What a node was approved to do is in caps and commands; what it says that it
-- can do is in declared_caps and declared_commands.
CREATE TABLE peers (
    id                TEXT PRIMARY KEY,
    owner             TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    public_key        TEXT NOT NULL,
    name              TEXT NOT NULL,
    platform          TEXT NOT NULL,
    family            TEXT NOT NULL,
    client_id         TEXT NOT NULL,
    client_mode       TEXT NOT NULL,
    version           TEXT NOT NULL,
    address           TEXT NOT NULL,
    roles             TEXT NOT NULL,
    scopes            TEXT NOT NULL,
    approved_at       BIGINT NOT NULL,
    approved_via      TEXT NOT NULL,
    secret_version    BIGINT NOT NULL,
    created_at        BIGINT NOT NULL,
    connected_at      BIGINT,
    disconnected_at   BIGINT,
    seen_at           BIGINT,
    seen_reason       TEXT NOT NULL,
    surface_state     TEXT NOT NULL,
    surface_at        BIGINT,
    caps              TEXT NOT NULL,
    commands          TEXT NOT NULL,
    declared_caps     TEXT NOT NULL,
    declared_commands TEXT NOT NULL,
    permissions       TEXT NOT NULL,
    path_env          TEXT NOT NULL,
    settings          TEXT NOT NULL
);
CREATE INDEX peers_owner ON peers (owner, id);

CREATE TABLE peer_tokens (
    peer       TEXT NOT NULL REFERENCES peers (id) ON DELETE CASCADE,
    role       TEXT NOT NULL,
    hash       TEXT NOT NULL UNIQUE,
    scopes     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT,
    PRIMARY KEY (peer, role)
);

-- Pairings that wait. One of kind device is made before its peer is in the table.
CREATE TABLE peer_requests (
    id           TEXT PRIMARY KEY,
    kind         TEXT NOT NULL,
    peer         TEXT NOT NULL,
    owner        TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    address      TEXT NOT NULL,
    body         TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    refreshed_at BIGINT NOT NULL,
    UNIQUE (kind, peer)
);
CREATE INDEX peer_requests_owner ON peer_requests (owner, kind, refreshed_at);
CREATE INDEX peer_requests_refreshed ON peer_requests (kind, refreshed_at);
