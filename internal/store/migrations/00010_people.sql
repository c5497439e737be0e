-- Append only: a released migration is never edited.

-- +goose Up
-- Where somebody is, as the IANA names it; empty: where the server is.
ALTER TABLE people ADD COLUMN zone TEXT NOT NULL DEFAULT '';

-- What those who run the installation did. The name is what they were called then:
-- they may be gone.
CREATE TABLE acts (
    id     TEXT PRIMARY KEY,
    at     BIGINT NOT NULL,
    person TEXT NOT NULL,
    name   TEXT NOT NULL,
    act    TEXT NOT NULL,
    about  TEXT NOT NULL
);
CREATE INDEX acts_at ON acts (at, id);

-- +goose Down
DROP TABLE acts;
ALTER TABLE people DROP COLUMN zone;
