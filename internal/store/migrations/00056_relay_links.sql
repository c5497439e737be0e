-- Append only: a released migration is never edited.

-- +goose Up
-- What this installation must not lose of the relays by which it is reached: its key
-- there, sealed, the fingerprint of the relay's key, and the names that it was given.
CREATE TABLE relay_links (
    server TEXT PRIMARY KEY,
    kept   TEXT NOT NULL
);

-- +goose Down
DROP TABLE relay_links;
