-- Append only: a released migration is never edited.

-- +goose Up
-- Weights of the memory model that were fitted to a person's reviews and taken. deck is empty
-- for the settings that all decks have in common. before and after are the setting “weights” as
-- JSON, null if there was none.
CREATE TABLE learn_fits (
    id             TEXT PRIMARY KEY,
    person         TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    deck           TEXT NOT NULL,
    at             BIGINT NOT NULL,
    weights_before TEXT NOT NULL,
    weights_after  TEXT NOT NULL,
    result         TEXT NOT NULL,
    undone         BOOLEAN NOT NULL
);
CREATE INDEX learn_fits_person ON learn_fits (person, at, id);

-- The last day on which weights were fitted without being asked for.
ALTER TABLE learn_people ADD COLUMN fitted BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE learn_people DROP COLUMN fitted;
DROP TABLE learn_fits;
