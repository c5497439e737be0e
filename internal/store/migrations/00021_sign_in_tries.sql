-- Append only: a released migration is never edited.

-- +goose Up
-- How often a password was checked, by account, by browser that is known, or by name that
-- nobody has. The key is a hash; a row counts from began_at on, for as long as its limit
-- says.
CREATE TABLE sign_in_tries (
    key      TEXT PRIMARY KEY,
    began_at BIGINT NOT NULL,
    tries    BIGINT NOT NULL
);
CREATE INDEX sign_in_tries_began ON sign_in_tries (began_at);

-- +goose Down
DROP TABLE sign_in_tries;
