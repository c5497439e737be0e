package storetest

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/store"
)

// Rows are all rows of all tables of a database, as texts, by table. Of the words that
// SQLite searches it is how many there are.
func Rows(t testing.TB, o store.Options) map[string][]string {
	t.Helper()
	driver, name := "pgx", o.URL
	tables := `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_name <> 'goose_db_version'`
	if name == "" {
		driver, name = "sqlite", filepath.Join(o.Folder, store.FileName)
		tables = `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'learn_words_%' AND name <> 'goose_db_version'`
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	all := map[string][]string{}
	for _, table := range rowsOf(t, db, tables) {
		query := `SELECT * FROM ` + table
		if table == "learn_words" {
			query = `SELECT COUNT(*) FROM learn_words`
		}
		all[table] = rowsOf(t, db, query)
	}
	return all
}

func rowsOf(t testing.TB, db *sql.DB, query string) (out []string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		texts := make([]string, len(values))
		for i, v := range values {
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			texts[i] = fmt.Sprint(v)
		}
		out = append(out, strings.Join(texts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}
