-- Append only: a released migration is never edited.

-- +goose Up
-- How the model behind a bot was last found: with which settings, what (empty: nothing is
-- known), since when, and whether a question has brought that.
ALTER TABLE bots ADD COLUMN model_version BIGINT NOT NULL DEFAULT 0;
ALTER TABLE bots ADD COLUMN model_state TEXT NOT NULL DEFAULT '';
ALTER TABLE bots ADD COLUMN model_since BIGINT NOT NULL DEFAULT 0;
ALTER TABLE bots ADD COLUMN model_asked BOOLEAN NOT NULL DEFAULT FALSE;
-- The account of who asked, of turns that are in nobody's conversation.
ALTER TABLE traces ADD COLUMN asker TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE traces DROP COLUMN asker;
ALTER TABLE bots DROP COLUMN model_asked;
ALTER TABLE bots DROP COLUMN model_since;
ALTER TABLE bots DROP COLUMN model_state;
ALTER TABLE bots DROP COLUMN model_version;
