-- Append only: a released migration is never edited.

-- +goose Up
-- Which version of the program has brought the tables to which state: an older one that
-- finds them can say so.
CREATE TABLE written_by (
    state   BIGINT PRIMARY KEY,
    version TEXT NOT NULL,
    at      BIGINT NOT NULL
);

-- +goose Down
DROP TABLE written_by;
