-- +goose Up
-- Which try a row is: one that turned out to be no guess is taken back.
ALTER TABLE bind_tries ADD COLUMN ticket TEXT NOT NULL DEFAULT '';
CREATE INDEX bind_tries_ticket ON bind_tries (ticket);

-- +goose Down
DROP INDEX bind_tries_ticket;
ALTER TABLE bind_tries DROP COLUMN ticket;
