-- Append only: a released migration is never edited.

-- +goose Up
-- What somebody filters by, and then the time, so that a page of rows is read and no more.
CREATE INDEX traces_door ON traces (owner, door, at, outcome);
CREATE INDEX traces_outcome ON traces (owner, outcome, at) WHERE outcome <> 'done';
CREATE INDEX calls_tool ON calls (person, tool, at, outcome);
CREATE INDEX calls_outcome ON calls (person, outcome, at) WHERE outcome <> 'done';
CREATE INDEX calls_tool_outcome ON calls (person, tool, outcome, at) WHERE outcome <> 'done';
-- Most calls of programs belong to no turn.
DROP INDEX calls_turn;
CREATE INDEX calls_turn ON calls (turn) WHERE turn <> '';

-- +goose Down
DROP INDEX calls_turn;
CREATE INDEX calls_turn ON calls (turn);
DROP INDEX calls_tool_outcome;
DROP INDEX calls_outcome;
DROP INDEX calls_tool;
DROP INDEX traces_outcome;
DROP INDEX traces_door;
