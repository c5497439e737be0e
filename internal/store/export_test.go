package store

import "context"

// ReadTogether runs queries for numbers together, for tests.
func ReadTogether(ctx context.Context, db *DB, number func(int64), queries ...string) error {
	var list []reading
	for _, q := range queries {
		list = append(list, reading{q, nil, func(s scanner) error {
			n, err := readNumber(s)
			number(n)
			return err
		}})
	}
	return db.readTogether(ctx, list...)
}
