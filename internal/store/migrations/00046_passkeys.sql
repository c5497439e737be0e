-- Append only: a released migration is never edited.

-- +goose Up
-- Passkeys of people: the id that the authenticator gave it in base64url, and the public key with
-- what WebAuthn remembers of it.
CREATE TABLE passkeys (
    id         TEXT PRIMARY KEY,
    person     TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    credential TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL
);
CREATE INDEX passkeys_person ON passkeys (person);

-- +goose Down
DROP TABLE passkeys;
