-- Append only: a released migration is never edited.

-- +goose Up
-- What a tool server offers: the form that its owner has approved, and the one that waits for
-- approval. Without an approved form the fingerprint is empty, and without a waiting one pending
-- is, which is 'removed' for what is no longer offered. noticed is the last fingerprint that an
-- admin event was written for. An upstream without rows has not been taken over yet: its next list
-- is approved.
CREATE TABLE pins (
    upstream        BIGINT NOT NULL REFERENCES upstreams (number) ON DELETE CASCADE,
    kind            TEXT NOT NULL,
    name            TEXT NOT NULL,
    fingerprint     TEXT NOT NULL,
    content         TEXT NOT NULL,
    pending         TEXT NOT NULL,
    pending_content TEXT NOT NULL,
    risk            TEXT NOT NULL,
    noticed         TEXT NOT NULL,
    noticed_at      BIGINT NOT NULL,
    approved_at     BIGINT NOT NULL,
    PRIMARY KEY (upstream, kind, name)
);

-- pins is incremented by every approval, so that running instances apply it without a new
-- connection. pins_told is the time of the last admin event about changed tools.
ALTER TABLE upstreams ADD COLUMN pins BIGINT NOT NULL DEFAULT 0;
ALTER TABLE upstreams ADD COLUMN pins_told BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE upstreams DROP COLUMN pins_told;
ALTER TABLE upstreams DROP COLUMN pins;
DROP TABLE pins;
