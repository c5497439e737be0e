package learn

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/plug/learn/transfer/apkg"
	"patchbay/internal/store"
)

// pack is everything that a package has of notes, cards, reviews and media, by their ids and names.
type pack struct {
	notes map[int64]apkg.NoteRow
	cards map[int64]apkg.CardRow
	log   map[int64]apkg.LogRow
	media map[string]string
	decks map[int64]string // of cards
	types map[int64]string // names and templates of note types with notes
}

func readPack(t testing.TB, b string) *pack {
	t.Helper()
	p := &pack{map[int64]apkg.NoteRow{}, map[int64]apkg.CardRow{}, map[int64]apkg.LogRow{}, map[string]string{},
		map[int64]string{}, map[int64]string{}}
	all := map[int64]string{}
	o := apkg.Options{Temp: t.TempDir(), Contents: func(c *apkg.Contents) error {
		for _, typ := range c.Types {
			all[typ.ID] = typ.Name
		}
		for _, m := range c.Media {
			in, err := m.Open()
			if err != nil {
				return err
			}
			data, err := io.ReadAll(in)
			if err != nil {
				return err
			}
			p.media[m.Name] = string(data)
		}
		return nil
	}}
	err := apkg.Read(t.Context(), strings.NewReader(b), int64(len(b)), o, func(c apkg.Card) error {
		p.notes[c.NoteRow.ID], p.cards[c.Row.ID], p.decks[c.Row.ID] = c.NoteRow, c.Row, c.Deck
		p.types[c.NoteRow.Type] = all[c.NoteRow.Type]
		for _, r := range c.Reviews {
			p.log[r.Row.ID] = r.Row
		}
		for _, r := range c.Others {
			p.log[r.ID] = r
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// foreignPackages are packages that other programs wrote; see
// transfer/testdata/packages/SOURCE.txt.
func foreignPackages(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []string{"transfer/testdata/packages/*pkg", "transfer/apkg/testdata/*.apkg"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(name)] = string(b)
		}
	}
	if len(files) < 12 {
		t.Fatalf("only %d packages", len(files))
	}
	return files
}

func samePack(t *testing.T, name string, got, want *pack) {
	t.Helper()
	for what, pair := range map[string][2]any{"notes": {got.notes, want.notes}, "cards": {got.cards, want.cards},
		"the log": {got.log, want.log}, "media": {got.media, want.media}, "decks": {got.decks, want.decks},
		"note types": {got.types, want.types}} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %s came back as\n%v, want\n%v", name, what, pair[0], pair[1])
		}
	}
}

func (r *rig) exportAs(person string, o ExportOptions) string {
	r.t.Helper()
	var w bytes.Buffer
	_, err := r.Export(ctx, person, o, &w)
	r.must(err)
	return w.String()
}

// Packages of others go in, out and in again: field for field, card for card, byte for byte, review
// for review, in every generation; a second import changes nothing.
func TestPackagesWithoutLoss(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		files := foreignPackages(t)
		for i, name := range slices.Sorted(maps.Keys(files)) {
			want := readPack(t, files[name])
			person := r.person(fmt.Sprintf("p%d", i))
			done := r.take(person, name, files[name], nil)
			if !done.Done || done.Added != len(want.cards) || len(done.Warnings) > 0 != (name == "genanki-empty-side.apkg") ||
				done.Media != len(want.media) {
				t.Errorf("%s: imported %+v", name, done)
			}
			if again := r.take(person, name, files[name], nil); again.Added+again.Changed+again.Media != 0 ||
				again.Unchanged != len(want.cards) {
				t.Errorf("%s: a second time %+v", name, again)
			}
			old := r.exportAs(person, ExportOptions{Format: transfer.Anki})
			samePack(t, name, readPack(t, old), want)
			newest := r.exportAs(person, ExportOptions{Format: transfer.Colpkg, Newest: true})
			samePack(t, name+", newest", readPack(t, newest), want)
			// to another person, and from there
			other := r.person(fmt.Sprintf("q%d", i))
			r.take(other, "x.colpkg", newest, nil)
			samePack(t, name+", twice", readPack(t, r.exportAs(other, ExportOptions{Format: transfer.Anki})), want)
			if again := r.take(person, name, newest, nil); again.Added+again.Changed+again.Media != 0 {
				t.Errorf("%s: our own package changes %+v", name, again)
			}
			// and by our own format
			r.take(other+"j", "x.json", r.exportAs(other, ExportOptions{Format: transfer.JSON}), nil)
			samePack(t, name+", as JSON", readPack(t, r.exportAs(other+"j", ExportOptions{Format: transfer.Anki})), want)
		}
	})
}

// Notes of two packages may have the same number: programs that write packages count from the time.
// Their cards do not hide each other.
func TestSameNumbers(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		kin := map[string]string{}
		for _, guid := range []string{"one", "two"} {
			r.take("ada", guid+".apkg", build(t, 1, apkg.Card{NoteRow: apkg.NoteRow{ID: 5, GUID: guid,
				Fields: []string{guid, "back"}}, Row: apkg.CardRow{ID: 5, Note: 5}}), nil)
		}
		for _, e := range must(r.List(ctx, "ada", store.PointFilter{}, store.PointKey{}, 10))(t) {
			if other := kin[e.Kin]; other != "" {
				t.Errorf("%s and %s are kin: %s", other, e.Question, e.Kin)
			}
			kin[e.Kin] = e.Question
		}
		if len(kin) != 2 {
			t.Errorf("kin %v", kin)
		}
	})
}

// person adds a person.
func (r *rig) person(id string) string {
	r.t.Helper()
	for _, id := range []string{id, id + "j"} {
		r.must(r.Store.People.Add(ctx, store.Person{ID: id, Name: id, Role: "user", Created: r.now}))
	}
	return id
}

// build writes a package with one note type, and a note for each of its rows.
func build(t testing.TB, modified int64, rows ...apkg.Card) string {
	t.Helper()
	model := `{"id": 1700000000000, "name": "Two", "type": 0, "mod": 1700000000, "css": "", "flds": [{"name": "Front"},
		{"name": "Back"}], "tmpls": [{"name": "A", "qfmt": "{{Front}}", "afmt": "{{FrontSide}}<hr id=answer>{{Back}}"},
		{"name": "B", "qfmt": "{{Back}}", "afmt": "{{Front}}"}]}`
	var b bytes.Buffer
	w, err := apkg.NewWriter(&b, apkg.WriteOptions{Temp: t.TempDir(), Base: apkg.Contents{
		Created: 1_600_000_000, Day: 18518, Types: []apkg.Part{{ID: 1700000000000, Name: "Two", JSON: []byte(model)}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rows {
		c.NoteRow.Type, c.NoteRow.Modified, c.Row.Modified, c.Day = 1700000000000, modified, modified, 18518
		if err := w.WriteNote(c.NoteRow); err != nil {
			t.Fatal(err)
		}
		if err := w.WriteCard(c, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func builtCard(i int64, front, back string) apkg.Card {
	return apkg.Card{NoteRow: apkg.NoteRow{ID: 1_690_000_000_000 + i, GUID: fmt.Sprintf("g%d", i), Fields: []string{front, back}},
		Row: apkg.CardRow{ID: 1_690_000_000_000 + i, Type: 2, Queue: 2, Due: 2300, Interval: 30, Factor: 2500, Reps: 4,
			Data: `{"pos":3,"s":31.5,"d":5.25,"dr":0.9,"zz":1}`}}
}

// A newer file changes a note, an older one does not. A review here stays, and is written with what
// only Anki understands.
func TestPackagesAgain(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		file := build(t, 1_700_000_000, builtCard(1, "<b>one</b>", "1"), builtCard(2, "two", "2"))
		if done := r.take("ada", "x.apkg", file, nil); done.Added != 2 {
			t.Fatalf("imported: %+v", done)
		}
		if done := r.take("ada", "x.apkg", build(t, 1_600_000_000, builtCard(1, "older", "1")), nil); done.Unchanged != 1 {
			t.Errorf("an older file: %+v", done)
		}
		if done := r.take("ada", "x.apkg", build(t, 1_700_000_100, builtCard(1, "newer", "1")), nil); done.Changed != 1 {
			t.Errorf("a newer file: %+v", done)
		}
		list, err := r.List(ctx, "ada", store.PointFilter{}, store.PointKey{}, 9)
		r.must(err)
		for _, e := range list {
			if e.Question == "newer" {
				_, err := r.Submit(ctx, "ada", Submission{Point: e.ID, Grade: store.Good, Score: -1, Early: true})
				r.must(err)
			}
		}
		if done := r.take("ada", "x.apkg", build(t, 1_700_000_200, builtCard(1, "newest", "1")), nil); done.Changed != 1 {
			t.Errorf("the newest file: %+v", done)
		}
		got := readPack(t, r.exportAs("ada", ExportOptions{Format: transfer.Anki}))
		c := got.cards[1_690_000_000_001]
		if got.notes[c.Note].Fields[0] != "newest" || c.Reps != 5 || !strings.Contains(c.Data, `"pos":3`) ||
			!strings.Contains(c.Data, `"zz":1`) || !strings.Contains(c.Data, `"lrt":`) || len(got.log) != 1 {
			t.Errorf("the reviewed card: %+v of %+v, log %v", c, got.notes[c.Note], got.log)
		}
		want := readPack(t, file)
		if id := int64(1_690_000_000_002); got.cards[id] != want.cards[id] {
			t.Errorf("the other card: %+v, want %+v", got.cards[id], want.cards[id])
		}
	})
}

// A cloze note that was made here, and a point with history whose first one is gone for good, come
// back once: nothing is doubled, and the history stays.
func TestOwnPackageAgain(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		_, err := r.Create(ctx, "ada", []Draft{{Question: "{{c1::a}} {{c2::b}}", Answer: "x"}})
		r.must(err)
		file := r.exportAs("ada", ExportOptions{Format: transfer.Anki})
		if done := r.take("ada", "x.apkg", file, nil); done.Added != 0 || done.Changed != 0 {
			t.Errorf("its own package: %+v", done)
		}

		plain := r.add("bob", Draft{Question: "q", Answer: "a"})
		r.grade("bob", plain.ID, store.Good)
		list := r.exportAs("bob", ExportOptions{Format: transfer.JSON})
		r.must(r.Delete(ctx, "bob", plain.ID))
		_, err = r.Store.Learn.EmptyTrash(ctx, "bob", r.Now().Add(time.Hour))
		r.must(err)
		work := func() (n int) {
			days, err := r.Store.Learn.Work(ctx, "bob", 0)
			r.must(err)
			for i := range days {
				n += days[i].Reviews()
			}
			return n
		}
		if done := r.take("bob", "x.json", list, nil); done.Added != 1 || work() != 1 {
			t.Errorf("its points again: %+v, and %d reviews", done, work())
		}
		back, err := r.List(ctx, "bob", store.PointFilter{}, store.PointKey{}, 9)
		r.must(err)
		log, err := r.Log(ctx, "bob", &back[0])
		if err != nil || len(log) != 1 {
			t.Errorf("the history has %+v, %v", log, err)
		}
	})
}

// A package with 10,000 notes comes out as it went in.
func TestLargePackage(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	var cards []apkg.Card
	for i := range int64(10_000) {
		cards = append(cards, builtCard(i+1, fmt.Sprintf("question <i>%d</i>", i), fmt.Sprintf("答案 %d", i)))
	}
	file := build(t, 1_700_000_000, cards...)
	if done := r.take("ada", "x.apkg", file, nil); done.Added != 10_000 {
		t.Fatalf("imported: %+v", done)
	}
	if done := r.take("ada", "x.apkg", file, nil); done.Unchanged != 10_000 {
		t.Errorf("again: %+v", done)
	}
	samePack(t, "10,000 notes", readPack(t, r.exportAs("ada", ExportOptions{Format: transfer.Colpkg, Newest: true})),
		readPack(t, file))
}
