-- Append only: a released migration is never edited.

-- +goose Up
-- Who called: another person than the one whose tool it is, or "-" for whoever runs the
-- machine; and from which address.
ALTER TABLE calls ADD COLUMN actor TEXT NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN address TEXT NOT NULL DEFAULT '';

-- By which key, from which address and by what way somebody changed the installation.
ALTER TABLE acts ADD COLUMN key TEXT NOT NULL DEFAULT '';
ALTER TABLE acts ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE acts ADD COLUMN door TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE acts DROP COLUMN door;
ALTER TABLE acts DROP COLUMN address;
ALTER TABLE acts DROP COLUMN key;
ALTER TABLE calls DROP COLUMN address;
ALTER TABLE calls DROP COLUMN actor;
