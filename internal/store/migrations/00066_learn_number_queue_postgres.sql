-- Append only: a released migration is never edited. PostgreSQL finds in learn_points_queue what
-- SQLite has an index of its own for.

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
