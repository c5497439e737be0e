-- Append only: a released migration is never edited.

-- +goose Up
-- The last edit of many points of a person, so that it can be undone until until_at: one row for
-- each part that was changed in one transaction. edit says what was done, changes has what the
-- points were before and after, both as JSON. An id is greater than those of earlier edits.
CREATE TABLE learn_bulk (
    person   TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    id       TEXT NOT NULL,
    part     BIGINT NOT NULL,
    edit     TEXT NOT NULL,
    changes  TEXT NOT NULL,
    n        BIGINT NOT NULL,
    until_at BIGINT NOT NULL,
    PRIMARY KEY (person, id, part)
);
CREATE INDEX learn_bulk_until ON learn_bulk (until_at);

-- +goose Down
DROP TABLE learn_bulk;
