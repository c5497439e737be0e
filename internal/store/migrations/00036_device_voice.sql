-- Append only: a released migration is never edited.

-- +goose Up
-- How a device hears and speaks, as its owner set it: a JSON object.
ALTER TABLE devices ADD COLUMN voice TEXT NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE devices DROP COLUMN voice;
