-- Append only: a released migration is never edited.

-- +goose Up
-- What the nodes, as which an owner's devices join a gateway of somebody else's, must
-- not lose: their keys, sealed. A device of no name is the node that stands for all.
CREATE TABLE shim_nodes (
    upstream BIGINT NOT NULL REFERENCES upstreams (number) ON DELETE CASCADE,
    device   TEXT NOT NULL,
    kept     TEXT NOT NULL,
    PRIMARY KEY (upstream, device)
);

-- +goose Down
DROP TABLE shim_nodes;
