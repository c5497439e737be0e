-- Append only: a released migration is never edited.

-- +goose Up
INSERT INTO counters (name, value) VALUES ('devices', 0);

-- What waits for a device that is asleep.
CREATE TABLE device_outbox (
    id         TEXT PRIMARY KEY,
    device     BIGINT NOT NULL REFERENCES devices (number) ON DELETE CASCADE,
    kind       TEXT NOT NULL,
    body       TEXT NOT NULL,
    person     TEXT NOT NULL,
    key        TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX device_outbox_device ON device_outbox (device, id);
CREATE INDEX device_outbox_expires ON device_outbox (expires_at);

-- How their owners name devices.
CREATE INDEX devices_name ON devices (name);
CREATE INDEX devices_hardware ON devices (hardware);

-- The tools that a device had when it was last awake.
CREATE TABLE device_tools (
    device  BIGINT PRIMARY KEY REFERENCES devices (number) ON DELETE CASCADE,
    catalog TEXT NOT NULL
);
