package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// updatePoints adds changes of points. Their run returns [errStale] if one has another version or
// is gone.
func (db *DB) updatePoints(b *batch, updates []pointUpdate) {
	if len(updates) == 1 || !db.hasRoundTrips() {
		for _, u := range updates {
			u.addTo(b)
		}
		return
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
		updateTogether(b, columns, same)
		updates = rest
	}
}

func (u *pointUpdate) addTo(b *batch) {
	var set strings.Builder
	for i, column := range u.columns {
		fmt.Fprintf(&set, "%s = $%d, ", column, i+1)
	}
	n := len(u.columns)
	*b = append(*b, statement{query: `UPDATE learn_points SET ` + set.String() + `version = version + 1
		WHERE number = $` + strconv.Itoa(n+1) + ` AND version = $` + strconv.Itoa(n+2),
		args: append(slices.Clip(u.values), u.number, u.version), must: 1})
}

// updateTogether changes the same columns of several points with one statement of PostgreSQL.
func updateTogether(b *batch, columns []string, updates []pointUpdate) {
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
	*b = append(*b, statement{query: `UPDATE learn_points p SET ` + set.String() + `version = p.version + 1
		FROM unnest($1::bigint[], $2::bigint[]` + arrays.String() + `) AS new (number, was` + names.String() + `)
		WHERE p.number = new.number AND p.version = new.was`, args: args, must: int64(len(updates))})
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
