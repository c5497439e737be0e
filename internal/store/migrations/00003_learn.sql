-- Append only: a released migration is never edited. Days are counted from
-- 1970-01-01 in the learner's calendar.

-- +goose Up
CREATE TABLE learn_people (
    person   TEXT PRIMARY KEY REFERENCES people (id) ON DELETE CASCADE,
    settings TEXT NOT NULL,
    reminded BIGINT NOT NULL
);

CREATE TABLE learn_decks (
    id         TEXT PRIMARY KEY,
    person     TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    settings   TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (person, name)
);

-- queue is where the point waits: -1 in the trash, 0 nowhere, 1 among the new, 2 on its steps,
-- 3 for its day. staged rows belong to an import that is not finished.
CREATE TABLE learn_points (
    number     BIGINT PRIMARY KEY,
    id         TEXT NOT NULL,
    person     TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    deck       TEXT NOT NULL,
    question   TEXT NOT NULL,
    answer     TEXT NOT NULL,
    tags       TEXT NOT NULL,
    in_plan    BOOLEAN NOT NULL,
    suspended  BOOLEAN NOT NULL,
    draft      BOOLEAN NOT NULL,
    kin        TEXT NOT NULL,
    origin     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    staged     TEXT,
    version    BIGINT NOT NULL,
    queue      BIGINT NOT NULL,
    phase      BIGINT NOT NULL,
    step       BIGINT NOT NULL,
    stability  DOUBLE PRECISION NOT NULL,
    difficulty DOUBLE PRECISION NOT NULL,
    due        BIGINT NOT NULL,
    due_at     BIGINT NOT NULL,
    buried     BIGINT NOT NULL,
    reps       BIGINT NOT NULL,
    lapses     BIGINT NOT NULL,
    last_at    BIGINT NOT NULL,
    last_day   BIGINT NOT NULL,
    UNIQUE (person, id)
);
CREATE INDEX learn_points_queue ON learn_points (person, queue, due, due_at, number);
CREATE INDEX learn_points_deck_queue ON learn_points (person, deck, queue, due, due_at, number);
CREATE INDEX learn_points_created ON learn_points (person, created_at, number);
CREATE INDEX learn_points_deck_created ON learn_points (person, deck, created_at, number);
CREATE INDEX learn_points_kin ON learn_points (person, kin) WHERE kin <> '';
CREATE INDEX learn_points_buried ON learn_points (person, buried) WHERE buried > 0;
CREATE INDEX learn_points_deleted ON learn_points (person, deleted_at, number) WHERE deleted_at IS NOT NULL;
CREATE INDEX learn_points_staged ON learn_points (staged) WHERE staged IS NOT NULL;
CREATE INDEX learn_points_draft ON learn_points (person, created_at) WHERE draft;
CREATE UNIQUE INDEX learn_points_origin ON learn_points (person, origin) WHERE origin <> '';

CREATE TABLE learn_tags (
    person TEXT NOT NULL,
    tag    TEXT NOT NULL,
    point  BIGINT NOT NULL REFERENCES learn_points (number) ON DELETE CASCADE,
    PRIMARY KEY (person, tag, point)
);
CREATE INDEX learn_tags_point ON learn_tags (point);

CREATE TABLE learn_tag_counts (
    person TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    tag    TEXT NOT NULL,
    n      BIGINT NOT NULL,
    PRIMARY KEY (person, tag)
);

CREATE TABLE learn_sittings (
    id           TEXT NOT NULL,
    person       TEXT NOT NULL,
    point        BIGINT NOT NULL REFERENCES learn_points (number) ON DELETE CASCADE,
    day          BIGINT NOT NULL,
    number       BIGINT NOT NULL,
    completed_at BIGINT,
    created_at   BIGINT NOT NULL,
    recall       TEXT NOT NULL,
    PRIMARY KEY (person, id)
);
CREATE INDEX learn_sittings_point ON learn_sittings (point, number);

CREATE TABLE learn_log (
    id        TEXT NOT NULL,
    person    TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    point     BIGINT NOT NULL,
    deck      TEXT NOT NULL,
    kind      TEXT NOT NULL,
    at        BIGINT NOT NULL,
    day       BIGINT NOT NULL,
    zone      TEXT NOT NULL,
    grade     BIGINT NOT NULL,
    queue     BIGINT NOT NULL,
    sitting   TEXT NOT NULL,
    recall    TEXT NOT NULL,
    score     BIGINT NOT NULL,
    took_ms   BIGINT NOT NULL,
    door      TEXT NOT NULL,
    elapsed   BIGINT NOT NULL,
    state     TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    undoes    TEXT NOT NULL,
    PRIMARY KEY (person, id)
);
CREATE INDEX learn_log_point ON learn_log (point, at, id);
CREATE INDEX learn_log_person ON learn_log (person, at, id);
CREATE INDEX learn_log_undoes ON learn_log (person, undoes) WHERE undoes <> '';

-- How many points wait in which queue of which deck for which day.
CREATE TABLE learn_counts (
    person TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    deck   TEXT NOT NULL,
    queue  BIGINT NOT NULL,
    day    BIGINT NOT NULL,
    n      BIGINT NOT NULL,
    PRIMARY KEY (person, queue, day, deck)
);

-- What was done on which day.
CREATE TABLE learn_days (
    person  TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    deck    TEXT NOT NULL,
    day     BIGINT NOT NULL,
    fresh   BIGINT NOT NULL,
    due     BIGINT NOT NULL,
    again   BIGINT NOT NULL,
    hard    BIGINT NOT NULL,
    good    BIGINT NOT NULL,
    easy    BIGINT NOT NULL,
    took_ms BIGINT NOT NULL,
    PRIMARY KEY (person, day, deck)
);

CREATE TABLE learn_vectors (
    point  BIGINT PRIMARY KEY REFERENCES learn_points (number) ON DELETE CASCADE,
    person TEXT NOT NULL,
    model  TEXT NOT NULL,
    data   BYTEA NOT NULL
);
CREATE INDEX learn_vectors_person ON learn_vectors (person, model, point);

-- Reviews by voice that are under way.
CREATE TABLE learn_talks (
    asker    TEXT PRIMARY KEY,
    person   TEXT NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    state    TEXT NOT NULL,
    until_at BIGINT NOT NULL
);
