package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// updatePoints changes points. It returns errStale if one has another version or is gone.
func (db *DB) updatePoints(ctx context.Context, tx *sql.Tx, updates []pointUpdate) error {
	if len(updates) == 1 || !db.hasRoundTrips() {
		for _, u := range updates {
			if err := u.write(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	}
	for len(updates) > 0 { // those with the same columns together
		columns := updates[0].columns
		var same, rest []pointUpdate
		for _, u := range updates {
			if slices.Equal(u.columns, columns) {
				same = append(same, u)
			} else {
				rest = append(rest, u)
			}
		}
		if err := writeTogether(ctx, tx, columns, same); err != nil {
			return err
		}
		updates = rest
	}
	return nil
}

func (u *pointUpdate) write(ctx context.Context, tx *sql.Tx) error {
	var set strings.Builder
	for i, column := range u.columns {
		fmt.Fprintf(&set, "%s = $%d, ", column, i+1)
	}
	n := len(u.columns)
	res, err := tx.ExecContext(ctx, `UPDATE learn_points SET `+set.String()+`version = version + 1
		WHERE number = $`+strconv.Itoa(n+1)+` AND version = $`+strconv.Itoa(n+2),
		append(slices.Clip(u.values), u.number, u.version)...)
	if err := changed(res, err); !errors.Is(err, ErrNotFound) {
		return err
	}
	return errStale
}

// writeTogether changes the same columns of several points with one statement of PostgreSQL.
func writeTogether(ctx context.Context, tx *sql.Tx, columns []string, updates []pointUpdate) error {
	numbers, versions := make([]int64, len(updates)), make([]int64, len(updates))
	values := make([][]any, len(columns))
	for i, u := range updates {
		numbers[i], versions[i] = u.number, u.version
		for c, v := range u.values {
			values[c] = append(values[c], v)
		}
	}
	var set, arrays, names strings.Builder
	args := []any{numbers, versions}
	for i, column := range columns {
		args = append(args, values[i])
		fmt.Fprintf(&set, "%s = new.%s, ", column, column)
		fmt.Fprintf(&arrays, ", $%d::%s[]", len(args), pointColumnType(values[i][0]))
		names.WriteString(", " + column)
	}
	res, err := tx.ExecContext(ctx, `UPDATE learn_points p SET `+set.String()+`version = p.version + 1
		FROM unnest($1::bigint[], $2::bigint[]`+arrays.String()+`) AS new (number, was`+names.String()+`)
		WHERE p.number = new.number AND p.version = new.was`, args...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == int64(len(updates)) {
		return err
	}
	return errStale
}

// pointColumnType returns the type of PostgreSQL of a column of points, by one of its values.
func pointColumnType(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case bool:
		return "boolean"
	case float64:
		return "double precision"
	}
	return "bigint"
}

// dropVectors deletes the vectors of points.
func dropVectors(ctx context.Context, tx *sql.Tx, numbers []int64) error {
	for chunk := range slices.Chunk(numbers, inListSize) {
		if _, err := tx.ExecContext(ctx, `DELETE FROM learn_vectors WHERE point IN (`+inPlaceholders(1)+`)`,
			inArgs(chunk)...); err != nil {
			return err
		}
	}
	return nil
}
