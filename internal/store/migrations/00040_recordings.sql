-- Append only: a released migration is never edited.

-- +goose Up
-- What was said in turns with devices whose owners want it recorded: texts, and sound as Ogg Opus.
-- words has both texts in lower case, for searches. The sounds come last, so that the other columns
-- can be read without them.
CREATE TABLE recordings (
    turn           TEXT PRIMARY KEY REFERENCES traces (turn) ON DELETE CASCADE,
    device         BIGINT NOT NULL REFERENCES devices (number) ON DELETE CASCADE,
    at             BIGINT NOT NULL,
    expires_at     BIGINT NOT NULL,
    question_ms    BIGINT NOT NULL,
    answer_ms      BIGINT NOT NULL,
    bytes          BIGINT NOT NULL,
    question       TEXT NOT NULL,
    answer         TEXT NOT NULL,
    words          TEXT NOT NULL,
    question_sound BYTEA NOT NULL,
    answer_sound   BYTEA NOT NULL
);
CREATE INDEX recordings_device ON recordings (device, at, turn);
CREATE INDEX recordings_expires ON recordings (expires_at);

-- +goose Down
DROP TABLE recordings;
