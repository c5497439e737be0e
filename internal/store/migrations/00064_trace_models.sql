-- Append only: a released migration is never edited.

-- +goose Up
-- The requests of the bot to its model, as JSON: see store.ModelUse. NULL: none are known.
ALTER TABLE traces ADD COLUMN models TEXT;

-- +goose Down
ALTER TABLE traces DROP COLUMN models;
