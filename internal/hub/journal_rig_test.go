package hub

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
)

// database is a fake for the table of calls. It stores rows, or refuses them.
type database struct {
	mu      sync.Mutex
	rows    map[string]store.Call
	refuses error
	tries   chan struct{} // gets an element for each attempted commit
}

func newDatabase() *database {
	return &database{rows: map[string]store.Call{}, tries: make(chan struct{}, 100_000)}
}

func (d *database) commit(_ context.Context, rows []store.Call) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.tries <- struct{}{} }()
	if d.refuses != nil {
		return d.refuses
	}
	for _, r := range rows {
		if _, there := d.rows[r.ID]; !there {
			d.rows[r.ID] = r
		}
	}
	return nil
}

func (d *database) refuse(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuses = err
}

// has waits until there are exactly as many rows as wanted.
func (d *database) has(t *testing.T, want int) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		d.mu.Lock()
		n := len(d.rows)
		d.mu.Unlock()
		if n == want {
			return
		}
		select {
		case <-d.tries:
		case <-deadline:
			t.Fatalf("%d rows, want %d", n, want)
		}
	}
}

// lines is a log whose lines can be counted.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func row(n int) store.Call {
	return store.Call{ID: fmt.Sprintf("call-%d", n), At: time.UnixMilli(1e12).UTC(),
		Tool: "lamp_on", Args: "{\"x\":\"\n\u2028<亮>\"}", Took: time.Millisecond, Outcome: "done"}
}

// journals returns the contents of the journal files in a folder, by path.
func journals(t testing.TB, folder string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "calls-*[0-9].journal"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(text)
	}
	return out
}

// written returns the contents of a journal with the given rows.
func written(t testing.TB, rows ...store.Call) string {
	t.Helper()
	folder := t.TempDir()
	j, err := openJournal(folder, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	for i := range rows {
		if !j.append(&rows[i]) {
			t.Fatal("a row is not taken")
		}
	}
	return journals(t, folder)[j.segments[0].path]
}
