package learn

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/learn/note"
	"patchbay/internal/store"
)

// addAnki adds a note of a standard type and returns its number.
func (r *rig) addAnki(deck, tags string, typ string, fields ...string) int64 {
	r.t.Helper()
	types, err := r.AnkiTypes(ctx, "ada")
	r.must(err)
	i := slices.IndexFunc(types, func(t StoredType) bool { return t.Name == typ })
	if i < 0 {
		r.t.Fatalf("no type %s", typ)
	}
	id, err := r.AddAnkiNote(ctx, "ada", &NewAnkiNote{Type: types[i], Fields: fields, Deck: deck,
		Tags: strings.Fields(tags)})
	r.must(err)
	return id
}

// fields returns the first fields of the notes that a search finds, sorted, and how many cards.
func (r *rig) ankiFound(query string) string {
	r.t.Helper()
	l, err := r.Learner(ctx, "ada")
	r.must(err)
	points, err := r.FindAnki(ctx, l, query)
	if err != nil {
		return "error: " + err.Error()
	}
	ids, err := r.NoteIDs(ctx, "ada", points)
	r.must(err)
	notes, err := r.AnkiNotes(ctx, l, ids)
	r.must(err)
	var out []string
	for _, n := range notes {
		out = append(out, n.Fields[0])
	}
	slices.Sort(out)
	return fmt.Sprint(len(points), out)
}

func TestAnkiSearch(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.addAnki("French", "animal::pet noun", "Basic", "le chien", "the <b>dog</b>")
		cat := r.addAnki("French::Words", "animal", "Basic (and reversed card)", "le chat", "the cat")
		r.addAnki("", "", "Cloze", "A {{c1::frog}} and a {{c2::toad}}", "50 % & more")
		plain := r.add("ada", Draft{Question: "食べる?", Answer: "to eat", Tags: []string{"Verb"}})
		r.add("bob", Draft{Question: "le chien", Answer: "not hers"})
		r.grade("ada", plain.ID, store.Easy)
		for query, want := range map[string]string{
			``:  "6 [A {{c1::frog}} and a {{c2::toad}} le chat le chien 食べる?]",
			`*`: "6 [A {{c1::frog}} and a {{c2::toad}} le chat le chien 食べる?]", `dog`: "1 [le chien]",
			`DOG`: "1 [le chien]", `le`: "3 [le chat le chien]", `"le chat"`: "2 [le chat]", `l_ ch*t`: "2 [le chat]",
			`front:le`: "0 []", `front:le*`: "3 [le chat le chien]", `front:"le chat"`: "2 [le chat]",
			`"front:le chat"`: "2 [le chat]", `fr_nt:*chien`: "1 [le chien]", `nothing:x`: "0 []",
			`question:食べる?`: "1 [食べる?]", `食べる`: "1 [食べる?]", `deck:french`: "3 [le chat le chien]",
			`deck:French::Words`: "2 [le chat]", `deck:Default`: "3 [A {{c1::frog}} and a {{c2::toad}} 食べる?]",
			`deck:x`: "0 []", `-deck:x is:review`: "1 [食べる?]", `tag:animal`: "3 [le chat le chien]",
			`tag:animal::*`: "1 [le chien]", `tag:none`: "2 [A {{c1::frog}} and a {{c2::toad}}]",
			`-tag:*`: "2 [A {{c1::frog}} and a {{c2::toad}}]", `tag:verb`: "1 [食べる?]",
			`note:basic`: "1 [le chien]", `note:Basic*`: "3 [le chat le chien]", `note:Patchbay`: "1 [食べる?]",
			`card:2`: "2 [A {{c1::frog}} and a {{c2::toad}} le chat]", `is:new`: "5 [A {{c1::frog}} and a {{c2::toad}} le chat le chien]",
			`is:review`: "1 [食べる?]", `is:suspended`: "0 []", `rated:1`: "1 [食べる?]", `rated:1:4`: "1 [食べる?]",
			`rated:1:1`: "0 []", `introduced:1`: "1 [食べる?]", `added:1 -is:new`: "1 [食べる?]", `edited:1 card:1 cat`: "1 [le chat]",
			`prop:reps>=1`: "1 [食べる?]", `prop:ivl>5`: "1 [食べる?]", `prop:due=0`: "0 []", `prop:lapses=0 -dog`: "5 [A {{c1::frog}} and a {{c2::toad}} le chat 食べる?]",
			`dog or cat`: "3 [le chat le chien]", `(dog or cat) -deck:French::Words`: "1 [le chien]",
			`-(dog or cat)`: "3 [A {{c1::frog}} and a {{c2::toad}} 食べる?]", `-dog -cat card:1`: "2 [A {{c1::frog}} and a {{c2::toad}} 食べる?]",
			`"re:ch(ien|at)"`: "3 [le chat le chien]", `front:re:^le.*n$`: "1 [le chien]", `w:chat`: "2 [le chat]", `w:cha`: "0 []",
			`&`: "2 [A {{c1::frog}} and a {{c2::toad}}]", `nid:` + fmt.Sprint(cat): "2 [le chat]", `nid:1,2`: "0 []", `cid:5`: "0 []",
			`flag:0 dog`: "1 [le chien]", `did:1 is:review`: "1 [食べる?]",
			`deck:filtered`: "0 []",
		} {
			if got := r.ankiFound(query); got != want {
				t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
		for query, want := range map[string]string{`prop:ease>2`: "means nothing here", `dupe:1,x`: "means nothing here",
			`deck:current`: "means nothing here", `prop:ivl`: "needs", `is:funny`: "needs", `rated:x`: "needs", `flag:9`: "needs",
			`nid:x`: "needs", `"open`: "quote", `re:(`: "cannot be read", `nc:x`: "means nothing", `front:nc:x`: "means nothing"} {
			if got := r.ankiFound(query); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, want) {
				t.Errorf("%s: %s, want an error with %q", query, got, want)
			}
		}
	})
}

// The numbers are those of the moment, differ, and stay.
func TestAnkiNumbers(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		var points []int64
		for i := range 5 { // all in one millisecond
			points = append(points, r.add("ada", Draft{Question: fmt.Sprint("q", i), Answer: "a"}).Number)
		}
		first, err := r.CardIDs(ctx, "ada", points)
		r.must(err)
		r.now = r.now.Add(time.Hour)
		seen := map[int64]bool{}
		for _, p := range points {
			id := first[p]
			if seen[id] || id < shanghai.UnixMilli() || id > shanghai.UnixMilli()+5 {
				t.Errorf("numbers %v", first)
			}
			seen[id] = true
		}
		note := r.addAnki("", "", "Cloze", "{{c1::a}} {{c2::b}}", "")
		l, err := r.Learner(ctx, "ada")
		r.must(err)
		notes, err := r.AnkiNotes(ctx, l, []int64{note, 17})
		r.must(err)
		if len(notes) != 1 || len(notes[note].Points) != 2 || note != r.now.UnixMilli() {
			t.Fatalf("%d: %+v", note, notes)
		}
		again, err := r.CardIDs(ctx, "ada", points)
		r.must(err)
		if fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("%v, then %v", first, again)
		}
		cards, err := r.CardsByID(ctx, "ada", []int64{first[points[0]], 5})
		r.must(err)
		if len(cards) != 1 || cards[first[points[0]]].Question != "q0" {
			t.Errorf("%+v", cards)
		}
		theirs, err := r.CardsByID(ctx, "bob", []int64{first[points[0]]})
		r.must(err)
		if len(theirs) != 0 {
			t.Errorf("bob finds %+v", theirs)
		}
		r.must(r.Delete(ctx, "ada", notes[note].Points[0].ID))
		r.must(r.Delete(ctx, "ada", notes[note].Points[1].ID))
		if notes, err = r.AnkiNotes(ctx, l, []int64{note}); err != nil || len(notes) != 0 {
			t.Errorf("a note in the trash is found: %v %v", notes, err)
		}
		deck := store.Deck{ID: newID()}
		if id := AnkiDeckID(&deck); id <= maxAnkiID/8 || id > maxAnkiID || id == AnkiDeckID(&store.Deck{ID: newID()}) {
			t.Errorf("the deck has number %d", id)
		}
		deck.Source = "anki:deck:1700000000123"
		if id := AnkiDeckID(&deck); id != 1700000000123 {
			t.Errorf("the deck from Anki has number %d", id)
		}
	})
}

// A number that nobody knows makes nothing get one, unless it may be that of something imported.
func TestUnknownAnkiNumbers(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.add("ada", Draft{Question: "q", Answer: "a"})
		l, err := r.Learner(ctx, "ada")
		r.must(err)
		find := func(id int64) int {
			t.Helper()
			notes, err := r.AnkiNotes(ctx, l, []int64{id})
			r.must(err)
			cards, err := r.CardsByID(ctx, "ada", []int64{id + 1})
			r.must(err)
			return len(notes) + len(cards)
		}
		without := func() (n int) {
			t.Helper()
			for _, of := range store.Numberings {
				r.must(r.Store.Learn.ScanUnnumbered(ctx, "ada", of, func(store.Unnumbered) { n++ }))
			}
			return n
		}
		if find(1600000000000) != 0 || without() != 2 {
			t.Errorf("%d are without a number", without())
		}
		typ, err := r.SaveNewType(ctx, "ada", NewNoteType(r.now, "Mine", false, []string{"Word"}, nil,
			note.Template{Name: "One", Front: "{{Word}}", Back: "b"}))
		r.must(err)
		in := r.Store.Learn.NewImport("ada", "import")
		notes := []store.Note{{Type: typ.Number, GUID: "g", Fields: []string{"w"}, Source: `{"id":1600000000000}`,
			Updated: r.now}}
		r.must(in.StageNotes(ctx, notes))
		p := store.Point{ID: newID(), Note: notes[0].Number, Question: "w", Answer: "b", Created: r.now, Updated: r.now,
			Source: `{"card":{"id":1600000000001}}`}
		r.must(in.Stage(ctx, []store.NewPoint{{Point: p}}))
		r.must(in.Finish(ctx, store.ImportEdits{}))
		if n := find(1600000000000); n != 2 || without() != 0 {
			t.Errorf("%d are found by their numbers in Anki, %d have none", n, without())
		}
		r.add("ada", Draft{Question: "q2", Answer: "a"})
		if find(1500000000000) != 0 || without() != 2 {
			t.Errorf("after the import, %d are without a number", without())
		}
	})
}

// A type that changes changes the cards of its notes, and what was deleted stays so.
func TestAnkiTypes(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		l, err := r.Learner(ctx, "ada")
		r.must(err)
		typ, err := r.SaveNewType(ctx, "ada", NewNoteType(r.now, "Mine", false, []string{"Word", "Hint"}, nil,
			note.Template{Name: "One", Front: "{{Word}}", Back: "{{Hint}}"}))
		r.must(err)
		other, err := r.SaveNewType(ctx, "ada", NewNoteType(r.now, "Other", false, []string{"Word"}, nil,
			note.Template{Name: "One", Front: "{{Word}}"}))
		r.must(err)
		if typ.ID == other.ID {
			t.Error("two types have one number")
		}
		id := r.addAnki("", "", "Mine", "w", "h")
		typ.Templates = append(typ.Templates, note.Template{Name: "Two", Front: "What is {{Hint}}?", Back: "{{Word}}"})
		typ.Templates[0].Front = "Say {{Word}}"
		r.must(r.SaveType(ctx, "ada", typ))
		notes, err := r.AnkiNotes(ctx, l, []int64{id})
		r.must(err)
		if p := notes[id].Points; len(p) != 2 || p[0].Question != "Say w" || p[1].Question != "What is h?" {
			t.Fatalf("%+v", notes[id])
		}
		for _, c := range []struct {
			scope DuplicateScope
			want  bool
		}{{DuplicateScope{Type: typ}, true}, {DuplicateScope{Type: other}, false},
			{DuplicateScope{AllTypes: true}, true},
			{DuplicateScope{Type: typ, Decks: []string{"x"}}, false}, {DuplicateScope{Type: typ, Decks: []string{""}}, true},
		} {
			got, err := r.Duplicates(ctx, l, []FirstField{{"<b>w</b>", c.scope}, {"v", c.scope}})
			r.must(err)
			if got[0] != c.want || got[1] {
				t.Errorf("%+v: %v, want %t", c.scope, got, c.want)
			}
		}
	})
}
