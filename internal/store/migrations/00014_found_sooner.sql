-- Append only: a released migration is never edited.

-- +goose Up
-- The few calls of one key or one bot among very many of its owner's others.
CREATE INDEX calls_key ON calls (key, at) WHERE key <> '';
CREATE INDEX calls_bot ON calls (bot, at) WHERE bot <> 0;
-- How much was still known, by day: the statistics read nothing but this.
DROP INDEX learn_log_person;
CREATE INDEX learn_log_person ON learn_log (person, at, id, day, queue, kind, grade);

-- +goose Down
DROP INDEX learn_log_person;
CREATE INDEX learn_log_person ON learn_log (person, at, id);
DROP INDEX calls_bot;
DROP INDEX calls_key;
