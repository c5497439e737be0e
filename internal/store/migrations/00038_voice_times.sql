-- Append only: a released migration is never edited.

-- +goose Up
-- When the stages of a spoken turn were reached: JSON, see store.VoiceTimes.
ALTER TABLE traces ADD COLUMN voice TEXT;

-- +goose Down
ALTER TABLE traces DROP COLUMN voice;
