-- Append only: a released migration is never edited.

-- +goose Up
-- The way a turn or call came in is its channel, and what an administrator did an admin event.
DROP INDEX traces_door;
ALTER TABLE traces RENAME COLUMN door TO channel;
CREATE INDEX traces_channel ON traces (owner, channel, at, outcome);
ALTER TABLE calls RENAME COLUMN door TO channel;
ALTER TABLE learn_log RENAME COLUMN door TO channel;
DROP INDEX acts_at;
ALTER TABLE acts RENAME TO admin_events;
ALTER TABLE admin_events RENAME COLUMN door TO channel;
ALTER TABLE admin_events RENAME COLUMN act TO action;
CREATE INDEX admin_events_at ON admin_events (at, id);
UPDATE traces SET outcome = 'disconnected' WHERE outcome = 'hung_up';
UPDATE calls SET outcome = 'tool_error' WHERE outcome = 'trouble';

-- +goose Down
UPDATE calls SET outcome = 'trouble' WHERE outcome = 'tool_error';
UPDATE traces SET outcome = 'hung_up' WHERE outcome = 'disconnected';
DROP INDEX admin_events_at;
ALTER TABLE admin_events RENAME COLUMN action TO act;
ALTER TABLE admin_events RENAME COLUMN channel TO door;
ALTER TABLE admin_events RENAME TO acts;
CREATE INDEX acts_at ON acts (at, id);
ALTER TABLE learn_log RENAME COLUMN channel TO door;
ALTER TABLE calls RENAME COLUMN channel TO door;
DROP INDEX traces_channel;
ALTER TABLE traces RENAME COLUMN channel TO door;
CREATE INDEX traces_door ON traces (owner, door, at, outcome);
