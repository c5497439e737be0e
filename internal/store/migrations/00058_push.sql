-- Append only: a released migration is never edited.

-- +goose Up
-- The key by which push services know this installation, sealed. There is one row.
CREATE TABLE push_keys (
    id         BIGINT PRIMARY KEY,
    sealed     TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

-- Browsers that get reminders. hash is of the address at the push service, which is sealed with
-- the keys of the browser, because it is all that is needed to find the browser.
CREATE TABLE push_devices (
    id         TEXT PRIMARY KEY,
    person     TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    hash       TEXT NOT NULL UNIQUE,
    sealed     TEXT NOT NULL,
    name       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    sent_at    BIGINT NOT NULL
);
CREATE INDEX push_devices_person ON push_devices (person, created_at);

-- +goose Down
DROP TABLE push_devices;
DROP TABLE push_keys;
