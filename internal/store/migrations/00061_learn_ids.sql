-- Append only: a released migration is never edited.

-- +goose Up
-- Numbers by which programs for Anki know notes (kind 1) and cards (kind 2) of a person: those that
-- they had in Anki, or the millisecond in which they were made here, or the next one that is free.
-- A note is a row of learn_notes, or a point without one.
CREATE TABLE learn_ids (
    person TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    kind   BIGINT NOT NULL,
    id     BIGINT NOT NULL,
    note   BIGINT REFERENCES learn_notes (number) ON DELETE CASCADE,
    point  BIGINT REFERENCES learn_points (number) ON DELETE CASCADE,
    PRIMARY KEY (person, kind, id)
);
CREATE UNIQUE INDEX learn_ids_note ON learn_ids (note) WHERE note IS NOT NULL;
CREATE UNIQUE INDEX learn_ids_point ON learn_ids (point, kind) WHERE point IS NOT NULL;

-- +goose Down
DROP TABLE learn_ids;
