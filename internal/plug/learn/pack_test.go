package learn

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/store"
)

// A device takes along what is due until its last day, and new points for each day.
func TestPack(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults": {"new_per_day": 3, "reviews_per_day": 50, "balance": false}, "day_start": "05:00"}`)
		_, err := r.SaveDeck(ctx, "ada", DeckEdit{Name: "own", Settings: []byte(`{"new_per_day": 1, "schedule": "classic"}`)}, nil)
		r.must(err)
		today := r.today(t, "ada")
		for i := range 14 {
			id := r.add("ada", Draft{Question: fmt.Sprintf("Q%02d", i), Answer: "A"}).ID
			switch i {
			case 0:
				r.grade("ada", id, store.Good) // on its steps
			case 1:
				r.grade("ada", id, store.Easy)
				_, err := r.Reschedule(ctx, "ada", id, today+2, "test")
				r.must(err)
			case 2:
				r.grade("ada", id, store.Easy)
				_, err := r.Reschedule(ctx, "ada", id, today+3, "test")
				r.must(err)
			}
		}
		for i := range 4 {
			r.add("ada", Draft{Question: fmt.Sprintf("C%d", i), Answer: "A", Deck: "own"})
		}
		p, err := r.Pack(ctx, "ada", 2)
		r.must(err)
		var got []string
		for _, c := range p.Cards {
			got = append(got, c.Question)
			if len(c.Media) != 0 || c.Framed || c.Answer != "<p>A</p>\n" {
				t.Errorf("%+v", c)
			}
		}
		// New ones: none is left today, three come on each of the next days, in the default deck.
		// The points of the classic deck are due on the day after they were made, all of them.
		want := []string{"<p>Q00</p>\n", "<p>C0</p>\n", "<p>C1</p>\n", "<p>C2</p>\n", "<p>C3</p>\n", "<p>Q01</p>\n",
			"<p>Q03</p>\n", "<p>Q04</p>\n", "<p>Q05</p>\n", "<p>Q06</p>\n", "<p>Q07</p>\n", "<p>Q08</p>\n"}
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		if c := p.Cards[1]; len(c.Course) != 4 || c.Course[0] != store.DayNum(today)+1 {
			t.Errorf("course %+v", c)
		}
		if c := p.Cards[0].Card; c.DueAt != r.now.Add(10*time.Minute).UnixMilli() || c.Reps != 1 {
			t.Errorf("state %+v", c)
		}
		if g := p.Groups[""]; g != (PackGroup{3, 50, 0, 50}) || len(p.Groups) != 2 {
			t.Errorf("limits %+v", p.Groups)
		}
		if len(p.Decks) != 2 || len(p.Decks[0].Settings.Weights) != 21 || p.Decks[1].Group != p.Decks[1].ID {
			t.Errorf("decks %+v", p.Decks)
		}
		if s := p.Calendar; s.Start != 5*3_600_000 || len(s.Spans) != 1 || s.Spans[0].Offset != 8*3_600_000 {
			t.Errorf("calendar %+v", s)
		}
		r.settings("ada", `{"time_zone": "Europe/Berlin"}`)
		p, err = r.Pack(ctx, "ada", 0)
		r.must(err)
		if s := p.Calendar.Spans; len(s) != 4 || s[2].Offset != 2*3_600_000 || s[3].Offset != 3_600_000 {
			t.Errorf("clock changes %+v", s)
		}
	})
}

// A card of a note is taken along as its documents.
func TestPackOfNotes(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		_, err := r.Create(ctx, "ada", []Draft{{Question: "{{c1::Paris}} is in {{c2::France}}", Answer: "![](map.png)"}})
		r.must(err)
		p, err := r.Pack(ctx, "ada", 2)
		r.must(err)
		if len(p.Cards) == 0 || !p.Cards[0].Framed || !strings.HasPrefix(p.Cards[0].Question, "/learn/points/"+p.Cards[0].ID+"/card?v=") ||
			!slices.Contains(p.Cards[0].Media, p.Cards[0].Answer) || !slices.Contains(p.Cards[0].Media, "/learn/media/map.png") {
			t.Errorf("%+v", p.Cards)
		}
	})
}
