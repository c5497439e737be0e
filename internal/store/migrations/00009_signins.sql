-- Append only: a released migration is never edited.

-- +goose Up
-- Browsers in which somebody has signed in. The id is the hash of the token that the
-- browser keeps.
CREATE TABLE sign_ins (
    id           TEXT PRIMARY KEY,
    person       TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    agent        TEXT NOT NULL,
    address      TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    seen_at      BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL
);
CREATE INDEX sign_ins_person ON sign_ins (person, seen_at);
CREATE INDEX sign_ins_seen ON sign_ins (seen_at);

-- +goose Down
DROP TABLE sign_ins;
