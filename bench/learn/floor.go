package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the "sqlite" driver

	"patchbay/internal/store"
)

// floorName is the name of the handler's row in the table.
const floorName = "floor"

// floorReads is how many points the bare handler reads: about as many statements as a tool runs.
const floorReads = 12

// floor is a bare HTTP handler that reads points by their keys, each with a statement of its own,
// in one transaction on the database of the server.
type floor struct {
	db     *sql.DB
	server *httptest.Server
}

// newFloor starts the handler. Without a URL it reads the SQLite database in the folder.
func newFloor(database, folder string) (*floor, error) {
	driver, address := "pgx", database
	if database == "" {
		driver = "sqlite"
		address = "file:" + (&url.URL{Path: filepath.Join(folder, store.FileName)}).EscapedPath() + "?mode=ro"
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		return nil, err
	}
	f := &floor{db: db}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		texts, err := f.read(r.Context(), strings.Split(r.FormValue("ids"), " "))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, texts)
	}))
	return f, nil
}

// read reads points by their numbers.
func (f *floor) read(ctx context.Context, numbers []string) (string, error) {
	tx, err := f.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return "", err
	}
	defer tx.Rollback() //nolint:errcheck // it only reads
	var all strings.Builder
	for _, number := range numbers {
		var question, answer string
		if err := tx.QueryRowContext(ctx, `SELECT question, answer FROM learn_points WHERE number = $1`,
			number).Scan(&question, &answer); err != nil {
			return "", err
		}
		all.WriteString(question + answer)
	}
	return all.String(), nil
}

// call calls the handler and reads the whole response.
func (f *floor) call(ctx context.Context, client *http.Client, numbers []string) (time.Duration, int, error) {
	began := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		f.server.URL+"?ids="+url.QueryEscape(strings.Join(numbers, " ")), nil)
	if err != nil {
		return 0, 0, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return time.Since(began), len(text), err
}

func (f *floor) stop() {
	f.server.Close()
	f.db.Close()
}
