package store_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// TestNotes imports a note with two cards, changes it, and deletes its cards.
func TestNotes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		typ := store.NoteType{Origin: "anki:1", Name: "Basic", Model: []byte(`{"a": 1}`), Updated: now}
		must(t, db.Learn.SaveNoteType(ctx, "p1", &typ))
		again := store.NoteType{Origin: "anki:1", Name: "Basic 2", Model: []byte(`{"a": 2}`), Updated: now}
		must(t, db.Learn.SaveNoteType(ctx, "p1", &again))
		if again.Number != typ.Number {
			t.Errorf("the type has the numbers %d and %d", typ.Number, again.Number)
		}
		in := db.Learn.NewImport("p1", "import")
		notes := []store.Note{{Type: typ.Number, GUID: "g1", Fields: []string{"<b>a</b>", "b"}, Source: `{"id":7}`,
			Updated: now}}
		must(t, in.StageNotes(ctx, notes))
		a, b := newPoint("1", "a", "b"), newPoint("2", "b", "a")
		a.Point.Note, b.Point.Note, b.Point.Ord, b.Point.Flag = notes[0].Number, notes[0].Number, 1, 3
		b.Point.Source = `{"ivl":4}`
		must(t, in.Stage(ctx, []store.NewPoint{a, b}))
		if got, err := db.Learn.Notes(ctx, "p1", []int64{notes[0].Number}); err != nil || len(got) != 0 {
			t.Errorf("before the end of the import: %v, %v", got, err)
		}
		must(t, in.Finish(ctx, store.ImportEdits{}))
		got, err := db.Learn.Notes(ctx, "p1", []int64{notes[0].Number, 5})
		must(t, err)
		if diff := cmp.Diff(notes, got); diff != "" {
			t.Error(diff)
		}
		if got, err := db.Learn.Notes(ctx, "p2", []int64{notes[0].Number}); err != nil || len(got) != 0 {
			t.Errorf("another person: %v, %v", got, err)
		}
		points, err := db.Learn.NotePoints(ctx, "p1", notes[0].Number)
		must(t, err)
		if len(points) != 2 || points[1].Ord != 1 || points[1].Flag != 3 || points[1].Source != `{"ivl":4}` {
			t.Errorf("points of the note: %+v", points)
		}
		notes[0].Fields = []string{"A", "B"}
		must(t, db.Learn.NewImport("p1", "second").Finish(ctx, store.ImportEdits{Notes: notes}))
		got, err = db.Learn.Notes(ctx, "p1", []int64{notes[0].Number})
		must(t, err)
		if diff := cmp.Diff(notes, got); diff != "" {
			t.Error(diff)
		}
		for _, id := range []string{"1", "2"} {
			_, err := db.Learn.Change(ctx, "p1", id, func(_ context.Context, c *store.PointChange) error {
				c.Point.Deleted = now
				return nil
			})
			must(t, err)
		}
		_, err = db.Learn.EmptyTrash(ctx, "p1", now.Add(time.Hour))
		must(t, err)
		if guids, err := db.Learn.NoteGUIDs(ctx, "p1"); err != nil || len(guids) != 0 {
			t.Errorf("after the trash was emptied: %v, %v", guids, err)
		}
	})
}

// TestMediaFiles writes, replaces, lists and removes pictures and sounds.
func TestMediaFiles(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		m := store.MediaFile{Name: "cat.png", Type: "image/png", Added: now}
		must(t, db.Learn.SaveMedia(ctx, "p1", &m, []byte("old")))
		must(t, db.Learn.SaveMedia(ctx, "p1", &m, []byte("newer")))
		must(t, db.Learn.SaveMedia(ctx, "p1", &store.MediaFile{Name: "dog.mp3", Added: now}, []byte{0, 1}))
		got, data, err := db.Learn.Media(ctx, "p1", "cat.png")
		must(t, err)
		if diff := cmp.Diff(m, got); diff != "" || string(data) != "newer" {
			t.Errorf("%s: %q", diff, data)
		}
		if _, _, err := db.Learn.Media(ctx, "p2", "cat.png"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("another person's: %v", err)
		}
		list, err := db.Learn.MediaList(ctx, "p1", "cat.png", 9)
		must(t, err)
		if size, err := db.Learn.MediaSize(ctx, "p1"); err != nil || size != 7 || len(list) != 1 || list[0].Name != "dog.mp3" {
			t.Errorf("size %d, %v, list %+v", size, err, list)
		}
		names := []string{"none"}
		for len(names) < 120 {
			names = append(names, "none "+strconv.Itoa(len(names)))
		}
		for person, want := range map[string]int{"p1": 2, "p2": 0} {
			list, err := db.Learn.MediaByName(ctx, person, append(names, "dog.mp3", "cat.png"))
			if err != nil || len(list) != want {
				t.Errorf("%s: %+v, %v", person, list, err)
			}
			one, err := db.Learn.MediaByName(ctx, person, []string{"cat.png"})
			if err != nil || want > 0 && !cmp.Equal(one, []store.MediaFile{m}) {
				t.Errorf("%s: %+v, %v", person, one, err)
			}
		}
		if none, err := db.Learn.MediaByName(ctx, "p1", nil); err != nil || none != nil {
			t.Errorf("%+v, %v", none, err)
		}
		must(t, db.Learn.RemoveMedia(ctx, "p1", "cat.png"))
		if err := db.Learn.RemoveMedia(ctx, "p1", "cat.png"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("removed twice: %v", err)
		}
	})
}

// What a killed import has staged is deleted by the next one, and does not collide with it. Imports
// that run are left alone.
func TestLeftoversOfImports(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		typ := store.NoteType{Origin: "anki:1", Model: []byte(`{}`), Updated: now}
		must(t, db.Learn.SaveNoteType(ctx, "p1", &typ))
		stage := func(db *store.DB, name string) (*store.Import, error) {
			in := db.Learn.NewImport("p1", name)
			notes := []store.Note{{Type: typ.Number, GUID: "g1", Fields: []string{"a"}, Updated: now}}
			if err := in.StageNotes(ctx, notes); err != nil {
				return in, err
			}
			p := newPoint("1", "a", "b")
			p.Point.Note, p.Point.Origin = notes[0].Number, "anki:g1:0"
			p.Log = []store.LogEntry{{ID: "review", Kind: store.LogReview, At: now, Grade: store.Good}}
			return in, in.Stage(ctx, []store.NewPoint{p})
		}
		_, err := stage(db, "killed")
		must(t, err)
		must(t, db.Learn.RemoveLeftovers(ctx))
		if _, err := stage(db, "meanwhile"); !errors.Is(err, store.ErrExists) {
			t.Errorf("the rows of an import that runs: %v", err)
		}
		must(t, db.Close()) // as when the process is killed
		if db, err = store.Open(ctx, o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if o.URL != "" { // another instance could run it, until it has been silent for a while
			must(t, db.Learn.RemoveLeftovers(ctx))
			if _, err := stage(db, "other instance"); !errors.Is(err, store.ErrExists) {
				t.Errorf("the rows of an import of another instance: %v", err)
			}
			raw(t, o, `UPDATE learn_imports SET alive_at = 0`)
		}
		must(t, db.Learn.RemoveLeftovers(ctx))
		if log, err := db.Learn.Log(ctx, "p1", 0, time.Time{}, "", 9); err != nil || len(log) != 0 {
			t.Errorf("reviews of it are left: %v, %v", log, err)
		}
		in, err := stage(db, "again")
		must(t, err)
		must(t, in.Finish(ctx, store.ImportEdits{}))
		must(t, db.Learn.RemoveLeftovers(ctx))
		if _, err := db.Learn.Point(ctx, "p1", "1"); err != nil {
			t.Errorf("the point that was imported then: %v", err)
		}
		lost := db.Learn.NewImport("p1", "lost")
		must(t, lost.Stage(ctx, []store.NewPoint{newPoint("2", "a", "b")}))
		raw(t, o, `DELETE FROM learn_imports`) // another instance took it for dead
		wantErr(t, lost.Stage(ctx, []store.NewPoint{newPoint("3", "a", "b")}), store.ErrImportLost)
		wantErr(t, lost.Finish(ctx, store.ImportEdits{}), store.ErrImportLost)
		must(t, lost.Abort(ctx))
	})
}
