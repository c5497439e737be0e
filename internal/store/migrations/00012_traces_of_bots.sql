-- Append only: a released migration is never edited.

-- +goose Up
-- The newest turns of one bot, among very many of its owner's others.
CREATE INDEX traces_bot ON traces (bot, at);

-- +goose Down
DROP INDEX traces_bot;
