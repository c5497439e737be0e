-- Append only: a released migration is never edited.

-- +goose Up
-- Who may sign in to an upstream besides its owner: everybody, or the people of upstream_people.
ALTER TABLE upstreams ADD COLUMN everybody BIGINT NOT NULL DEFAULT 0;
CREATE TABLE upstream_people (
    upstream BIGINT NOT NULL REFERENCES upstreams (number) ON DELETE CASCADE,
    person   TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    PRIMARY KEY (upstream, person)
);
CREATE INDEX upstream_people_person ON upstream_people (person);

-- told is incremented when the person has signed in or out, so that running instances notice; it
-- takes the place of upstreams.signins. connects is 1 while there is something to connect with.
ALTER TABLE upstream_signins ADD COLUMN told BIGINT NOT NULL DEFAULT 0;
ALTER TABLE upstream_signins ADD COLUMN connects BIGINT NOT NULL DEFAULT 0;

-- pending_by is the person who was offered the form that waits for approval; empty: the owner.
ALTER TABLE pins ADD COLUMN pending_by TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE pins DROP COLUMN pending_by;
ALTER TABLE upstream_signins DROP COLUMN connects;
ALTER TABLE upstream_signins DROP COLUMN told;
DROP TABLE upstream_people;
ALTER TABLE upstreams DROP COLUMN everybody;
