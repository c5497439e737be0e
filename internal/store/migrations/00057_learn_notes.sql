-- Append only: a released migration is never edited.

-- +goose Up
-- A note type of a flashcard program: the fields of its notes, the templates of their cards and the
-- style, as JSON in the form of its source. number is unique; origin is the id at the source, the
-- same each time a file is imported.
CREATE TABLE learn_note_types (
    number     BIGINT PRIMARY KEY,
    person     TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    origin     TEXT NOT NULL,
    name       TEXT NOT NULL,
    model      TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (person, origin)
);

-- A note: the fields from which the cards of its type are made. fields is a JSON array of texts,
-- source what only its source understands. staged rows belong to an import that is not finished.
CREATE TABLE learn_notes (
    number     BIGINT PRIMARY KEY,
    person     TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    type       BIGINT NOT NULL REFERENCES learn_note_types (number) ON DELETE CASCADE,
    guid       TEXT NOT NULL,
    fields     TEXT NOT NULL,
    source     TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    staged     TEXT,
    UNIQUE (person, guid)
);
CREATE INDEX learn_notes_type ON learn_notes (type);
CREATE INDEX learn_notes_staged ON learn_notes (staged) WHERE staged IS NOT NULL;

-- Pictures and sounds of notes and points, by the name under which their texts refer to them.
CREATE TABLE learn_media (
    person   TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    name     TEXT NOT NULL,
    type     TEXT NOT NULL,
    size     BIGINT NOT NULL,
    hash     TEXT NOT NULL,
    added_at BIGINT NOT NULL,
    data     BYTEA NOT NULL,
    PRIMARY KEY (person, name)
);

-- What only the source of a person's points understands about them as a whole, such as the decks and
-- deck options of a flashcard program, under a name.
CREATE TABLE learn_sources (
    person TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    name   TEXT NOT NULL,
    data   TEXT NOT NULL,
    PRIMARY KEY (person, name)
);

-- Imports that have staged rows. alive_at is when the import last said that it runs; those that
-- ended without a word leave rows that the next import deletes.
CREATE TABLE learn_imports (
    name     TEXT PRIMARY KEY,
    person   TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    alive_at BIGINT NOT NULL
);

-- note and ord are the note of a point and which of its cards the point is; 0 for points without
-- a note. source is what only the source of an imported card, entry or deck understands.
ALTER TABLE learn_points ADD COLUMN note BIGINT NOT NULL DEFAULT 0;
ALTER TABLE learn_points ADD COLUMN ord BIGINT NOT NULL DEFAULT 0;
ALTER TABLE learn_points ADD COLUMN flag BIGINT NOT NULL DEFAULT 0;
ALTER TABLE learn_points ADD COLUMN source TEXT NOT NULL DEFAULT '';
CREATE INDEX learn_points_note ON learn_points (note) WHERE note <> 0;
CREATE INDEX learn_points_flag ON learn_points (person, flag) WHERE flag <> 0;
ALTER TABLE learn_log ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE learn_decks ADD COLUMN source TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE learn_decks DROP COLUMN source;
ALTER TABLE learn_log DROP COLUMN source;
DROP INDEX learn_points_flag;
DROP INDEX learn_points_note;
ALTER TABLE learn_points DROP COLUMN source;
ALTER TABLE learn_points DROP COLUMN flag;
ALTER TABLE learn_points DROP COLUMN ord;
ALTER TABLE learn_points DROP COLUMN note;
DROP TABLE learn_imports;
DROP TABLE learn_sources;
DROP TABLE learn_media;
DROP TABLE learn_notes;
DROP TABLE learn_note_types;
