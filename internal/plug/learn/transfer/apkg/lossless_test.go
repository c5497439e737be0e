package apkg

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// whole is everything that a package has.
type whole struct {
	Contents
	notes map[int64]NoteRow
	cards map[int64]CardRow
	log   map[int64]LogRow
	files map[string]string
	all   []Card
	bad   []CardError
}

func readWhole(t testing.TB, b []byte) *whole {
	t.Helper()
	w := &whole{notes: map[int64]NoteRow{}, cards: map[int64]CardRow{}, log: map[int64]LogRow{},
		files: map[string]string{}}
	o := Options{Temp: t.TempDir(), OnError: func(e CardError) { w.bad = append(w.bad, e) },
		Contents: func(c *Contents) error { w.Contents = *c; return nil }}
	if err := Read(t.Context(), bytes.NewReader(b), int64(len(b)), o, func(c Card) error {
		w.notes[c.NoteRow.ID], w.cards[c.Row.ID] = c.NoteRow, c.Row
		for _, r := range c.Reviews {
			w.log[r.Row.ID] = r.Row
		}
		for _, r := range c.Others {
			w.log[r.ID] = r
		}
		w.all = append(w.all, c)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, m := range w.Media {
		in, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil || in.Close() != nil || m.Size >= 0 && m.Size != int64(len(data)) {
			t.Errorf("%s has %d bytes, not %d: %v", m.Name, len(data), m.Size, err)
		}
		w.files[m.Name] = string(data)
	}
	return w
}

// write writes everything again.
func (w *whole) write(t testing.TB, newest bool) []byte {
	t.Helper()
	var b bytes.Buffer
	out, err := NewWriter(&b, WriteOptions{Newest: newest, Whole: true, Base: w.Contents, Temp: t.TempDir(),
		Media: func(put func(string, io.Reader) error) error {
			for _, name := range slices.Sorted(maps.Keys(w.files)) {
				if err := put(name, bytes.NewReader([]byte(w.files[name]))); err != nil {
					return err
				}
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Backward(w.all) {
		if err := out.WriteNote(c.NoteRow); err != nil {
			t.Fatal(err)
		}
		if err := out.WriteCard(c, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// covers reports whether b has all that a has, with the same values; what b adds are defaults of
// another generation.
func covers(a, b any) bool {
	switch a := a.(type) {
	case record:
		other, ok := b.(record)
		for name, v := range a {
			if ints, is := v.([]any); is && name == "ints" { // the third is not used
				v = ints[:2]
				o, _ := other[name].([]any)
				other[name] = o[:2:2]
			}
			ok = ok && covers(v, other[name])
		}
		return ok
	case []any:
		other, ok := b.([]any)
		ok = ok && len(a) == len(other)
		for i := 0; ok && i < len(a); i++ {
			ok = covers(a[i], other[i])
		}
		return ok
	case json.Number:
		return real64(a) == real64(b) || float32(real64(a)) == float32(real64(b))
	case string: // genanki writes ids as texts
		if n, ok := b.(json.Number); ok {
			return a == n.String()
		}
	case nil:
		return b == nil
	}
	return reflect.DeepEqual(a, b)
}

func sameParts(t *testing.T, what string, got, want []Part) {
	t.Helper()
	byID := func(a, b Part) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	if len(got) < len(want) {
		t.Errorf("%d %s, want %d", len(got), what, len(want))
		return
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(g Part) bool { return g.ID == w.ID })
		if i < 0 || got[i].Name != w.Name || !covers(parseRecord(w.JSON), parseRecord(got[i].JSON)) {
			t.Errorf("%s %d %q came back as\n%s, want\n%s", what, w.ID, w.Name, got[max(i, 0)].JSON, w.JSON)
		}
	}
}

func sameWhole(t *testing.T, got, want *whole) {
	t.Helper()
	sameParts(t, "note types", got.Types, want.Types)
	sameParts(t, "decks", got.Decks, want.Decks)
	sameParts(t, "options", got.Options, want.Options)
	for what, pair := range map[string][2]any{"notes": {got.notes, want.notes}, "cards": {got.cards, want.cards},
		"the log": {got.log, want.log}, "media": {got.files, want.files}, "the day": {got.Day, want.Day},
		"the creation": {got.Created, want.Created}} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s came back as\n%v, want\n%v", what, pair[0], pair[1])
		}
	}
	if !covers(parseRecord(want.Config), parseRecord(got.Config)) {
		t.Errorf("the settings came back as\n%s, want\n%s", got.Config, want.Config)
	}
}

// packages are packages that other programs wrote; see SOURCE.txt in their folders.
func packages(t testing.TB) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, pattern := range []string{"testdata/*.apkg", "../testdata/packages/*pkg"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if files[filepath.Base(name)], err = os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(files) < 12 {
		t.Fatalf("only %d packages", len(files))
	}
	return files
}

// Packages of others come out as they went in, in both generations.
func TestLossless(t *testing.T) {
	for name, b := range packages(t) {
		t.Run(name, func(t *testing.T) {
			first := readWhole(t, b)
			for _, e := range first.bad {
				if name != "genanki-empty-side.apkg" {
					t.Errorf("card %d, %q: %v", e.Row, e.What, e.Why)
				}
			}
			for _, newest := range []bool{false, true} {
				again := readWhole(t, first.write(t, newest))
				sameWhole(t, again, first)
				// and from one generation to the other
				sameWhole(t, readWhole(t, again.write(t, !newest)), first)
			}
		})
	}
}
