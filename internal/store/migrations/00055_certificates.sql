-- Append only: a released migration is never edited.

-- +goose Up
-- Accounts at certificate authorities (ACME, RFC 8555). sealed is the account's private key.
CREATE TABLE acme_accounts (
    directory TEXT PRIMARY KEY,
    url       TEXT NOT NULL,
    sealed    TEXT NOT NULL
);

-- Certificates that the server gets by itself, one for each name. chain is PEM, without the
-- private key, which is sealed; both are empty before the first one. failures counts attempts since
-- the last certificate; tried_directory, problem, detail and challenge are about the last of them.
-- pending is the order that the authority was last asked to issue, with its private key, sealed; it
-- is empty when chain is of it.
CREATE TABLE certificates (
    name            TEXT PRIMARY KEY,
    directory       TEXT NOT NULL,
    chain           TEXT NOT NULL,
    sealed          TEXT NOT NULL,
    issued_at       BIGINT,
    expires_at      BIGINT,
    renew_at        BIGINT,
    failures        INTEGER NOT NULL,
    tried_at        BIGINT,
    retry_at        BIGINT,
    tried_directory TEXT NOT NULL,
    challenge       TEXT NOT NULL,
    problem         TEXT NOT NULL,
    detail          TEXT NOT NULL,
    pending         TEXT NOT NULL
);

-- What any instance answers when an authority checks a name. sealed is the answer, in the form of
-- the kind of challenge.
CREATE TABLE acme_challenges (
    kind       TEXT NOT NULL,
    token      TEXT NOT NULL,
    name       TEXT NOT NULL,
    sealed     TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (kind, token)
);

-- +goose Down
DROP TABLE acme_challenges;
DROP TABLE certificates;
DROP TABLE acme_accounts;
