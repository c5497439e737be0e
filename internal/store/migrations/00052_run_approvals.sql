-- Append only: a released migration is never edited.

-- +goose Up
-- What is asked about, if not the rules of a key but the provider of a tool wants an approval; the
-- device that asks; and whether calls like it are allowed too.
ALTER TABLE approvals ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN device TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN always BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down
ALTER TABLE approvals DROP COLUMN always;
ALTER TABLE approvals DROP COLUMN device;
ALTER TABLE approvals DROP COLUMN kind;
