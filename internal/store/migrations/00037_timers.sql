-- Append only: a released migration is never edited.

-- +goose Up
INSERT INTO counters (name, value) VALUES ('timer', 0);

-- Timers and reminders that people set at a device.
CREATE TABLE timers (
    number     BIGINT PRIMARY KEY,
    device     BIGINT NOT NULL REFERENCES devices (number) ON DELETE CASCADE,
    text       TEXT NOT NULL,
    due_at     BIGINT NOT NULL,
    repeats    TEXT NOT NULL,
    zone       TEXT NOT NULL,
    clock      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    held_until BIGINT NOT NULL
);
CREATE INDEX timers_due ON timers (due_at);
CREATE INDEX timers_device ON timers (device, due_at);

-- +goose Down
DROP TABLE timers;
DELETE FROM counters WHERE name = 'timer';
