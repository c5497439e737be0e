-- Append only: a released migration is never edited.

-- +goose Up
-- Who may ask a bot besides its owner: everybody, or the people of bot_people.
ALTER TABLE bots ADD COLUMN everybody BIGINT NOT NULL DEFAULT 0;
CREATE TABLE bot_people (
    bot    BIGINT NOT NULL REFERENCES bots (number) ON DELETE CASCADE,
    person TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    PRIMARY KEY (bot, person)
);
CREATE INDEX bot_people_person ON bot_people (person);

-- acts_for is the person with whom the bot is shared who asked; empty: somebody of its owner's.
ALTER TABLE exchanges ADD COLUMN acts_for TEXT NOT NULL DEFAULT '';
CREATE INDEX exchanges_acts_for ON exchanges (acts_for) WHERE acts_for <> '';

-- limits are what a person may do, as JSON; empty: everything. paused_at is since when the account
-- does nothing; 0: it is not paused.
ALTER TABLE people ADD COLUMN limits TEXT NOT NULL DEFAULT '';
ALTER TABLE people ADD COLUMN paused_at BIGINT NOT NULL DEFAULT 0;

-- How many questions people with a limit have asked on the last day, of their time zone, on which
-- they asked some.
CREATE TABLE questions_asked (
    person TEXT PRIMARY KEY REFERENCES people (id) ON DELETE CASCADE,
    day    TEXT NOT NULL,
    asked  BIGINT NOT NULL
);

-- Links with which people choose the password of an account that was made for them.
CREATE TABLE invitations (
    person     TEXT PRIMARY KEY REFERENCES people (id) ON DELETE CASCADE,
    hash       TEXT NOT NULL UNIQUE,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE invitations;
DROP TABLE questions_asked;
ALTER TABLE people DROP COLUMN paused_at;
ALTER TABLE people DROP COLUMN limits;
DROP INDEX exchanges_acts_for;
ALTER TABLE exchanges DROP COLUMN acts_for;
DROP TABLE bot_people;
ALTER TABLE bots DROP COLUMN everybody;
