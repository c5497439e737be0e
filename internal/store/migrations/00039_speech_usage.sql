-- Append only: a released migration is never edited.

-- +goose Up
-- What the devices of a person have used of each speech engine on a day, such as 2026-11-25. The
-- rows of a removed device stay: they count for the limits of its owner. cost is in millionths.
CREATE TABLE speech_usage (
    day        TEXT NOT NULL,
    owner      TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    device     BIGINT NOT NULL,
    engine     TEXT NOT NULL,
    uses       BIGINT NOT NULL,
    heard_ms   BIGINT NOT NULL,
    characters BIGINT NOT NULL,
    cost       BIGINT NOT NULL,
    PRIMARY KEY (day, owner, device, engine)
);
CREATE INDEX speech_usage_owner ON speech_usage (owner);

-- +goose Down
DROP TABLE speech_usage;
