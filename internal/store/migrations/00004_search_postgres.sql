-- Append only: a released migration is never edited. The words of points, as
-- Learn has cut them (ASCII letters and digits), by the points' numbers.

-- +goose Up
CREATE TABLE learn_words (
    point BIGINT PRIMARY KEY REFERENCES learn_points (number) ON DELETE CASCADE,
    words TSVECTOR NOT NULL
);
CREATE INDEX learn_words_words ON learn_words USING gin (words) WITH (fastupdate = off);
