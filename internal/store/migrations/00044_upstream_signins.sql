-- Append only: a released migration is never edited.

-- +goose Up
-- Sign-ins of people to tool servers that want OAuth. sealed holds what is known of one: who this
-- installation is there, the tokens, and a sign-in that has begun. state is the hash of the text by
-- which its answer is found. version is incremented by every change.
CREATE TABLE upstream_signins (
    upstream BIGINT NOT NULL REFERENCES upstreams (number) ON DELETE CASCADE,
    person   TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    sealed   TEXT NOT NULL,
    state    TEXT UNIQUE,
    version  BIGINT NOT NULL,
    PRIMARY KEY (upstream, person)
);
CREATE INDEX upstream_signins_person ON upstream_signins (person);

-- signins is incremented when the owner has signed in to a server, so that running instances notice
-- without a new connection.
ALTER TABLE upstreams ADD COLUMN signins BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE upstreams DROP COLUMN signins;
DROP TABLE upstream_signins;
