package apkg

import (
	"archive/zip"
	"bytes"
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// database creates an SQLite file from statements; a statement is a string, or a []any with its
// arguments.
func database(t testing.TB, statements ...any) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "collection")
	db := sql.OpenDB(connector("file:" + path + "?_pragma=journal_mode(off)&_pragma=synchronous(off)"))
	defer db.Close()
	for _, s := range statements {
		var err error
		switch s := s.(type) {
		case string:
			_, err = db.Exec(s)
		case []any:
			_, err = db.Exec(s[0].(string), s[1:]...)
		}
		if err != nil {
			t.Fatalf("%v: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type entry struct {
	name string
	data []byte
}

func zipped(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, e := range entries {
		f, err := w.Create(e.name)
		if err == nil {
			_, err = f.Write(e.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// unzipped returns a file of an archive.
func unzipped(t testing.TB, archive []byte, name string) []byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := fs.ReadFile(z, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func compressed(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

// old returns a package of schema 11 with two note types: 1 has the fields Front and Back and two
// cards, 2 is a cloze.
func old(t testing.TB, more ...any) []byte {
	t.Helper()
	models := `{"1": {"type": 0, "flds": [{"name": "Front"}, {"name": "Back"}, {"name": "Extra"}], "tmpls": [
		{"qfmt": "{{Front}}", "afmt": "{{FrontSide}}<hr id=answer>{{Back}}{{#Extra}}<br>({{Extra}}){{/Extra}}"},
		{"qfmt": "{{Back}}", "afmt": "{{FrontSide}}\n<hr id=\"answer\">\n{{Front}}"}]},
		"2": {"type": 1, "flds": [{"name": "Text"}, {"name": "Extra"}], "tmpls": [{"qfmt": "{{cloze:Text}}", "afmt": "{{cloze:Text}}<br>{{Extra}}"}]}}`
	decks := `{"1": {"name": "Standard"}, "5": {"name": "A::B"}, "6": {"name": "Cram", "dyn": 1}}`
	statements := []any{schema, indexes,
		[]any{"INSERT INTO col VALUES (1, 1577851200, 0, 0, 11, 0, 0, 0, ?, ?, ?, '{}', '{}')",
			`{"schedVer": 2, "creationOffset": -480}`, models, decks}}
	return zipped(t, entry{"collection.anki2", database(t, append(statements, more...)...)},
		entry{"media", []byte("{}")})
}

// note and card are rows for old.
func note(id int, guid string, kind int, tags, fields string) []any {
	return []any{"INSERT INTO notes VALUES (?, ?, ?, 1600000000, -1, ?, ?, '', 0, 0, '')", id, guid, kind, tags, fields}
}

func card(id, note, deck, order, phase, queue, due, interval int, data string) []any {
	return []any{"INSERT INTO cards VALUES (?, ?, ?, ?, 1600000001, -1, ?, ?, ?, ?, 2500, 4, 1, 2002, 0, 0, 0, ?)", id,
		note, deck, order, phase, queue, due, interval, data}
}

func review(id, card, ease, kind int) []any {
	return []any{"INSERT INTO revlog VALUES (?, ?, -1, ?, 10, 3, 2500, 4321, ?)", id, card, ease, kind}
}

// read reads a whole package.
func read(t testing.TB, b []byte, o Options) (cards []Card, bad []CardError, err error) {
	t.Helper()
	o.Temp = t.TempDir()
	o.OnError = func(b CardError) { bad = append(bad, b) }
	err = Read(t.Context(), bytes.NewReader(b), int64(len(b)), o, func(c Card) error {
		cards = append(cards, c)
		return nil
	})
	if left, _ := os.ReadDir(o.Temp); len(left) > 0 {
		t.Errorf("%d temporary files are left", len(left))
	}
	return cards, bad, err
}
