-- Append only: a released migration is never edited.

-- +goose Up
-- The authenticator app of a person: the sealed secret, and the last time step whose code was
-- accepted, so that no code is accepted twice.
CREATE TABLE authenticators (
    person     TEXT PRIMARY KEY REFERENCES people (id) ON DELETE CASCADE,
    secret     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_step  BIGINT NOT NULL
);

-- Hashes of the codes that replace the app once each.
CREATE TABLE recovery_codes (
    person TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    hash   TEXT NOT NULL,
    PRIMARY KEY (person, hash)
);

-- +goose Down
DROP TABLE recovery_codes;
DROP TABLE authenticators;
