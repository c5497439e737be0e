-- Append only: a released migration is never edited.

-- +goose Up
INSERT INTO counters (name, value) VALUES ('device', 0);

-- client is who the owner approved; claim is somebody else who calls with the same
-- hardware address and waits to be approved.
CREATE TABLE devices (
    number         BIGINT PRIMARY KEY,
    kind           TEXT NOT NULL,
    hardware       TEXT NOT NULL,
    client         TEXT NOT NULL,
    claim          TEXT NOT NULL,
    owner          TEXT REFERENCES people (id) ON DELETE CASCADE,
    name           TEXT NOT NULL,
    bot            BIGINT REFERENCES bots (number) ON DELETE SET NULL,
    transport      TEXT NOT NULL,
    family         TEXT NOT NULL,
    article        TEXT NOT NULL,
    version        TEXT NOT NULL,
    language       TEXT NOT NULL,
    features       TEXT NOT NULL,
    settings       TEXT NOT NULL,
    code_hash      TEXT UNIQUE,
    code_expires   BIGINT,
    secret_version BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    approved_at    BIGINT,
    seen_at        BIGINT NOT NULL,
    address        TEXT NOT NULL,
    UNIQUE (kind, hardware),
    UNIQUE (owner, name)
);
CREATE INDEX devices_bot ON devices (bot);
CREATE INDEX devices_owner ON devices (owner, seen_at, number);
