package store

import (
	"database/sql"
	"strings"
	"time"
	"unicode/utf8"
)

// sanitizeArgs makes text arguments storable, in place: PostgreSQL rejects zero bytes and invalid
// UTF-8, and a rejected row would fail the whole batch.
func sanitizeArgs(args []any) []any {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			if !isStorableText(a) {
				args[i] = sanitizeText(a)
			}
		case sql.NullString:
			if !isStorableText(a.String) {
				args[i] = sql.NullString{String: sanitizeText(a.String), Valid: a.Valid}
			}
		}
	}
	return args
}

func isStorableText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

func sanitizeText(s string) string {
	const instead = string(utf8.RuneError)
	return strings.ReplaceAll(strings.ToValidUTF8(s, instead), "\x00", instead)
}

// millis converts a time to Unix milliseconds, the format of all time columns.
func millis(t time.Time) int64 { return t.UnixMilli() }

// nullMillis is millis, with NULL for the zero time.
func nullMillis(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func fromNullMillis(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return fromMillis(ms.Int64)
}
