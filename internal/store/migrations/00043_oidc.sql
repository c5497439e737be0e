-- Append only: a released migration is never edited.

-- +goose Up
-- The people of OpenID providers as whom people may sign in. label is what the provider calls them.
CREATE TABLE linked (
    issuer     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    person     TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    label      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX linked_person ON linked (person);

-- Browsers that are at the provider. The id is the hash of the state, and browser the hash of what
-- the browser keeps. A round that confirms or links has the person and the sign-in that began it,
-- and pending the sealed form that waits.
CREATE TABLE oidc_rounds (
    id         TEXT PRIMARY KEY,
    browser    TEXT NOT NULL,
    address    TEXT NOT NULL,
    purpose    TEXT NOT NULL,
    person     TEXT REFERENCES people (id) ON DELETE CASCADE,
    sign_in    TEXT NOT NULL,
    nonce      TEXT NOT NULL,
    verifier   TEXT NOT NULL,
    redirect   TEXT NOT NULL,
    next       TEXT NOT NULL,
    pending    TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX oidc_rounds_address ON oidc_rounds (address, created_at);
CREATE INDEX oidc_rounds_expires ON oidc_rounds (expires_at);
CREATE INDEX oidc_rounds_person ON oidc_rounds (person);

-- +goose Down
DROP TABLE oidc_rounds;
DROP TABLE linked;
