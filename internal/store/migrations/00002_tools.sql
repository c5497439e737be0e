-- Append only: a released migration is never edited.

-- +goose Up
INSERT INTO counters (name, value) VALUES ('upstream', 0), ('tools', 0);

ALTER TABLE keys ADD COLUMN rules TEXT NOT NULL DEFAULT '';

CREATE TABLE upstreams (
    number     BIGINT PRIMARY KEY,
    owner      TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    slug       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    settings   TEXT NOT NULL,
    token_hash TEXT UNIQUE,
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (owner, slug)
);

CREATE TABLE tool_rules (
    owner      TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    tool       TEXT NOT NULL,
    rule       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (owner, tool)
);

CREATE TABLE calls (
    id       TEXT PRIMARY KEY,
    at       BIGINT NOT NULL,
    person   TEXT NOT NULL,
    key      TEXT NOT NULL,
    bot      BIGINT NOT NULL,
    turn     TEXT NOT NULL,
    door     TEXT NOT NULL,
    program  TEXT NOT NULL,
    device   TEXT NOT NULL,
    provider TEXT NOT NULL,
    tool     TEXT NOT NULL,
    instance TEXT NOT NULL,
    took_us  BIGINT NOT NULL,
    bytes    BIGINT NOT NULL,
    outcome  TEXT NOT NULL,
    code     TEXT NOT NULL,
    cause    TEXT NOT NULL,
    args     TEXT
);
CREATE INDEX calls_person ON calls (person, at);
CREATE INDEX calls_turn ON calls (turn);
CREATE INDEX calls_at ON calls (at);

CREATE TABLE leases (
    name     TEXT PRIMARY KEY,
    holder   TEXT NOT NULL,
    until_at BIGINT NOT NULL
);
