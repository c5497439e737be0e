-- Append only: a released migration is never edited.

-- +goose Up
-- Programs that people may let in by OAuth. The id is the one that the program shows: made here, or
-- the https address of the document that describes it. secret_hash is empty for programs without a
-- secret, fresh_until zero for those without a document, and used_at zero until somebody let it in.
CREATE TABLE oauth_clients (
    id          TEXT PRIMARY KEY,
    kind        TEXT NOT NULL,
    name        TEXT NOT NULL,
    uri         TEXT NOT NULL,
    redirects   TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    address     TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    used_at     BIGINT NOT NULL,
    fresh_until BIGINT NOT NULL
);
CREATE INDEX oauth_clients_address ON oauth_clients (address, created_at);

-- What programs ask of people: the request, then the person's consent with a code, then the key
-- that the code was exchanged for. The id is a hash, as are browser and code.
CREATE TABLE oauth_requests (
    id         TEXT PRIMARY KEY,
    client     TEXT NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
    browser    TEXT NOT NULL,
    redirect   TEXT NOT NULL,
    challenge  TEXT NOT NULL,
    state      TEXT NOT NULL,
    resource   TEXT NOT NULL,
    scopes     TEXT NOT NULL,
    person     TEXT REFERENCES people (id) ON DELETE CASCADE,
    code       TEXT UNIQUE,
    rules      TEXT NOT NULL,
    days       BIGINT NOT NULL,
    key        TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX oauth_requests_expires ON oauth_requests (expires_at);
CREATE INDEX oauth_requests_client ON oauth_requests (client);
CREATE INDEX oauth_requests_person ON oauth_requests (person);

-- Tokens of keys that a person's consent made. used_at is when a refresh token was first used.
CREATE TABLE oauth_tokens (
    hash       TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    key        TEXT NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT
);
CREATE INDEX oauth_tokens_key ON oauth_tokens (key);
CREATE INDEX oauth_tokens_expires ON oauth_tokens (expires_at);

-- The program that a key was made for by OAuth; empty for keys that people make themselves.
ALTER TABLE keys ADD COLUMN client TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE keys DROP COLUMN client;
DROP TABLE oauth_tokens;
DROP TABLE oauth_requests;
DROP TABLE oauth_clients;
