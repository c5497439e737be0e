-- Append only: a released migration is never edited.

-- +goose Up
-- Engines that turn speech into text and text into speech, in the order in which they are tried.
-- They belong to the installation. uses is listen, speak, or empty for both.
CREATE TABLE speech_engines (
    number     BIGINT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    kind       TEXT NOT NULL,
    settings   TEXT NOT NULL,
    uses       TEXT NOT NULL,
    enabled    BOOLEAN NOT NULL,
    position   BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
INSERT INTO counters (name, value) VALUES ('speech_engine', 0), ('speech', 0);

-- +goose Down
DELETE FROM counters WHERE name IN ('speech_engine', 'speech');
DROP TABLE speech_engines;
