-- Append only: a released migration is never edited.

-- +goose Up
-- Which of the points with a tag are in a queue, without reading the points: each is on a page of
-- its own.
CREATE INDEX learn_points_number_queue ON learn_points (number, queue);

-- +goose Down
DROP INDEX learn_points_number_queue;
