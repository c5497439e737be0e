package learn

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"patchbay/internal/plug/learn/note"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/plug/learn/transfer/apkg"
)

// orphansOf reads what belongs to no card of a package.
func orphansOf(t *testing.T, file string) (o apkg.Orphans) {
	t.Helper()
	err := apkg.Read(t.Context(), strings.NewReader(file), int64(len(file)), apkg.Options{Temp: t.TempDir(),
		Contents: func(c *apkg.Contents) error { o = c.Orphans; return nil }}, func(apkg.Card) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// orphansPackage is a package of one card, with orphans and a picture p.png; empty: without.
func orphansPackage(t *testing.T, orphans apkg.Orphans, picture string) string {
	t.Helper()
	var b bytes.Buffer
	w, err := apkg.NewWriter(&b, apkg.WriteOptions{Temp: t.TempDir(), Whole: true, Base: apkg.Contents{
		Created: 1_600_000_000, Day: 18518, Orphans: orphans,
		Types: []apkg.Part{{ID: 1700000000000, Name: "Two", JSON: fmt.Appendf(nil, hostileModel, "{{Front}}")}}},
		Media: func(put func(string, io.Reader) error) error {
			if picture == "" {
				return nil
			}
			return put("p.png", strings.NewReader(picture))
		}})
	if err != nil {
		t.Fatal(err)
	}
	c := builtCard(1, "with a card", "1")
	c.NoteRow.Type, c.Day, c.Deck = 1700000000000, 18518, "A"
	if err := w.WriteNote(c.NoteRow); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteCard(c, true); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// orphanNote is a note without cards of the type in [orphansPackage].
func orphanNote(i int64, front string) apkg.OrphanNote {
	row := builtCard(i, front, "x").NoteRow
	row.Type, row.Modified = 1700000000000, 1_700_000_000
	return apkg.OrphanNote{Row: row, Fields: row.Fields}
}

// Reviews of deleted cards and notes without cards go out as they came in, in both generations and
// by JSON, and a second import changes nothing; a package of one deck has none.
func TestOrphansTravel(t *testing.T) {
	var want apkg.Orphans
	for i := range int64(300) {
		want.Log = append(want.Log, apkg.LogRow{ID: 1_650_000_000_000 + i, Card: 1_500_000_000_000 + i%7, USN: 5,
			Ease: i%4 + 1, Interval: 3, Last: 1, Factor: 2500, Took: 4000, Kind: 1})
	}
	want.Notes = []apkg.OrphanNote{orphanNote(9, "without <b>cards</b>")}
	want.Notes[0].Row.Tags = " lost "
	file := orphansPackage(t, want, "")
	if got := orphansOf(t, file); len(got.Log) != len(want.Log) || len(got.Notes) != 1 {
		t.Fatalf("the package has %d rows and %d notes", len(got.Log), len(got.Notes))
	}
	want = orphansOf(t, file)
	each(t, func(t *testing.T, r *rig) {
		if done := r.take("ada", "x.colpkg", file, nil); done.Added != 1 || len(done.Warnings) > 0 {
			t.Fatalf("imported %+v", done)
		}
		if done := r.take("ada", "x.colpkg", file, nil); done.Added+done.Changed != 0 {
			t.Errorf("a second time: %+v", done)
		}
		r.take("bob", "x.json", r.exportAs("ada", ExportOptions{Format: transfer.JSON}), nil)
		for _, person := range []string{"ada", "bob"} {
			for _, newest := range []bool{false, true} {
				got := orphansOf(t, r.exportAs(person, ExportOptions{Format: transfer.Colpkg, Newest: newest}))
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s, newest %v: %d rows and %+v, want %d and %+v", person, newest, len(got.Log), got.Notes,
						len(want.Log), want.Notes)
				}
			}
		}
		if got := orphansOf(t, r.exportAs("ada", ExportOptions{Format: transfer.Anki, Deck: "A"})); !got.Empty() {
			t.Errorf("one deck has %d rows and %d notes", len(got.Log), len(got.Notes))
		}
		if got := r.exportAs("ada", ExportOptions{Format: transfer.JSON, Deck: "A"}); strings.Contains(got, "orphans") ||
			strings.Contains(got, "without") || !strings.Contains(got, "with a card") {
			t.Errorf("the JSON of one deck has notes of no deck: %s", got)
		}
	})
}

// Notes without cards keep their pictures, which get the names that an import gives them. Those of
// two collections with the same time of creation are both kept.
func TestOrphansOfTwoCollections(t *testing.T) {
	other := strings.Replace(picture, "IHDR", "IHDr", 1)
	each(t, func(t *testing.T, r *rig) {
		_, err := r.SaveMedia(ctx, "ada", "own.png", []byte(picture+"own"))
		r.must(err)
		first := apkg.Orphans{Notes: []apkg.OrphanNote{orphanNote(8, `<img src="p.png">`)},
			Log: []apkg.LogRow{{ID: 1_650_000_000_000, Card: 5, Ease: 3, Interval: 1, Kind: 1}}}
		second := apkg.Orphans{Notes: []apkg.OrphanNote{orphanNote(9, `other <img src="p.png">`)},
			Log: []apkg.LogRow{{ID: 1_650_000_000_001, Card: 6, Ease: 2, Interval: 1, Kind: 1}}}
		for range 2 { // a second import changes nothing
			r.take("ada", "x.colpkg", orphansPackage(t, first, picture), nil)
			r.take("ada", "x.colpkg", orphansPackage(t, second, other), nil)
		}
		gone, err := r.RemoveUnusedMedia(ctx, "ada")
		r.must(err)
		if len(gone) != 1 || gone[0].Name != "own.png" {
			t.Errorf("not used are %+v", gone)
		}
		out := r.exportAs("ada", ExportOptions{Format: transfer.Colpkg})
		got := orphansOf(t, out)
		if len(got.Notes) != 2 || len(got.Log) != 2 || got.Log[0].Card != 5 || got.Log[1].Card != 6 {
			t.Fatalf("there are %+v", got)
		}
		names := map[string]bool{}
		for _, n := range got.Notes {
			for _, name := range note.References(n.Fields[0]) {
				_, data, err := r.Media(ctx, "ada", name)
				r.must(err)
				names[string(data)] = true
			}
		}
		if !names[picture] || !names[other] {
			t.Errorf("the notes have not their pictures: %+v", got.Notes)
		}
		if sort := got.Notes[1].Row.Sort; strings.Contains(sort, "p.png") {
			t.Errorf("the text to sort by is still %q", sort)
		}
		if out != r.exportAs("ada", ExportOptions{Format: transfer.Colpkg}) {
			t.Error("two exports of the same differ")
		}
	})
}
