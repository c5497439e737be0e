-- Append only: a released migration is never edited.

-- +goose Up
-- The room in which a device is, as its owner calls it; empty: not known.
ALTER TABLE devices ADD COLUMN room TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE devices DROP COLUMN room;
