-- One text for SQLite and PostgreSQL. Times are milliseconds since 1970 UTC,
-- secrets are hex SHA-256 (or HMAC) values, JSON is TEXT. Append only: a
-- released migration is never edited.

-- +goose Up
CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO counters (name, value) VALUES ('bot', 0);

CREATE TABLE people (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    role       TEXT NOT NULL,
    lang       TEXT NOT NULL,
    password   TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE bots (
    number      BIGINT PRIMARY KEY,
    owner       TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    name        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    description TEXT NOT NULL,
    settings    TEXT NOT NULL,
    token_hash  TEXT UNIQUE,
    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    seen_at     BIGINT,
    UNIQUE (owner, name)
);

CREATE TABLE keys (
    id           TEXT PRIMARY KEY,
    person       TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    scopes       TEXT NOT NULL,
    bot          BIGINT REFERENCES bots (number) ON DELETE CASCADE,
    hash         TEXT NOT NULL UNIQUE,
    hint         TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT,
    last_used_at BIGINT
);
CREATE INDEX keys_person ON keys (person);

CREATE TABLE bindings (
    publisher  TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    user_id    TEXT NOT NULL,
    bot        BIGINT NOT NULL REFERENCES bots (number) ON DELETE CASCADE,
    agent_id   TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (publisher, user_id)
);
CREATE INDEX bindings_bot ON bindings (bot);

CREATE TABLE bind_tokens (
    id         TEXT PRIMARY KEY,
    bot        BIGINT NOT NULL REFERENCES bots (number) ON DELETE CASCADE,
    token_hash TEXT NOT NULL UNIQUE,
    code_hash  TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT
);

CREATE TABLE bind_pending (
    publisher  TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    agent_id   TEXT NOT NULL,
    message_id TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (publisher, user_id, agent_id, message_id)
);

CREATE TABLE bind_tries (
    publisher TEXT NOT NULL,
    user_id   TEXT NOT NULL,
    tried_at  BIGINT NOT NULL
);
CREATE INDEX bind_tries_who ON bind_tries (publisher, user_id, tried_at);

CREATE TABLE exchanges (
    turn         TEXT PRIMARY KEY,
    bot          BIGINT NOT NULL REFERENCES bots (number) ON DELETE CASCADE,
    person       TEXT NOT NULL,
    conversation TEXT NOT NULL,
    at           BIGINT NOT NULL,
    question     TEXT NOT NULL,
    answer       TEXT NOT NULL,
    unheard      BOOLEAN NOT NULL
);
CREATE INDEX exchanges_conversation ON exchanges (bot, person, conversation, at);
CREATE INDEX exchanges_at ON exchanges (at);

CREATE TABLE pages (
    bot    BIGINT NOT NULL REFERENCES bots (number) ON DELETE CASCADE,
    person TEXT NOT NULL,
    rest   TEXT NOT NULL,
    at     BIGINT NOT NULL,
    PRIMARY KEY (bot, person)
);

CREATE TABLE traces (
    turn         TEXT PRIMARY KEY,
    bot          BIGINT NOT NULL,
    owner        TEXT NOT NULL,
    kind         TEXT NOT NULL,
    door         TEXT NOT NULL,
    person       TEXT NOT NULL,
    conversation TEXT NOT NULL,
    instance     TEXT NOT NULL,
    at           BIGINT NOT NULL,
    queue_us     BIGINT NOT NULL,
    first_us     BIGINT NOT NULL,
    total_us     BIGINT NOT NULL,
    late_us      BIGINT,
    pieces       BIGINT NOT NULL,
    bytes        BIGINT NOT NULL,
    outcome      TEXT NOT NULL,
    code         TEXT NOT NULL,
    cause        TEXT NOT NULL,
    question     TEXT,
    answer       TEXT
);
CREATE INDEX traces_owner ON traces (owner, at);
CREATE INDEX traces_at ON traces (at);

CREATE TABLE media (
    token_hash TEXT PRIMARY KEY,
    mime       TEXT NOT NULL,
    data       BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX media_expires ON media (expires_at);
