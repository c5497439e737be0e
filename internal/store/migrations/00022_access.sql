-- Append only: a released migration is never edited.

-- +goose Up
-- Grows with each change by which somebody may do less, so that open streams end.
INSERT INTO counters (name, value) VALUES ('access', 0);

-- +goose Down
DELETE FROM counters WHERE name = 'access';
