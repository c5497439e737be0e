-- Append only: a released migration is never edited.

-- +goose Up
-- The charts of a person's last day read nothing but this, and who looks for the turns
-- of one door reads it first.
CREATE INDEX traces_day ON traces (owner, at, outcome, first_us, door);
-- What went wrong, among very much that went well.
CREATE INDEX traces_trouble ON traces (owner, at) WHERE outcome <> 'done';
CREATE INDEX calls_trouble ON calls (person, at) WHERE outcome <> 'done';
-- It is a beginning of traces_day.
DROP INDEX traces_owner;

-- +goose Down
CREATE INDEX traces_owner ON traces (owner, at);
DROP INDEX calls_trouble;
DROP INDEX traces_trouble;
DROP INDEX traces_day;
