-- Append only: a released migration is never edited.

-- +goose Up
-- People of whom an import has added notes or cards with numbers that they had elsewhere and that
-- learn_ids may not have yet. import is the last such import.
CREATE TABLE learn_unnumbered (
    person TEXT PRIMARY KEY REFERENCES people (id) ON DELETE CASCADE,
    import TEXT NOT NULL
);
INSERT INTO learn_unnumbered (person, import) SELECT DISTINCT person, 'before' FROM learn_points WHERE source <> '';

-- +goose Down
DROP TABLE learn_unnumbered;
