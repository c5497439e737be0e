-- Append only: a released migration is never edited. The words of points, as
-- Learn has cut them (ASCII letters and digits), by the points' numbers.

-- +goose Up
CREATE VIRTUAL TABLE learn_words USING fts5 (words, content='', contentless_delete=1, detail=none, tokenize='ascii');
