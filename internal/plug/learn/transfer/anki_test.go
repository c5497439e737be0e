package transfer

import (
	"math"
	"testing"
	"time"

	"patchbay/internal/plug/learn/transfer/apkg"
	"patchbay/internal/store"
)

func TestAnkiStates(t *testing.T) {
	o := ReadOptions{Zone: shanghai, DayStart: 4 * time.Hour}
	today := store.DateOf(now) // 18:00 in China
	// 03:00 on the 22nd in China, still the 21st for the learner
	night := time.Date(2026, 11, 21, 19, 0, 0, 0, time.UTC)
	noon := func(d store.Day) time.Time { return d.Time().Add(12 * time.Hour) }
	for name, c := range map[string]struct {
		card apkg.Card
		want *store.Card
	}{
		"new":                                 {apkg.Card{Phase: apkg.New, Due: 7}, nil},
		"learning, and nobody knows how well": {apkg.Card{Phase: apkg.Learning, DueAt: now, Left: 1, Ease: 2.5}, nil},
		"learning": {apkg.Card{Phase: apkg.Learning, DueAt: night, Left: 1, Reps: 1, Stability: 2, Difficulty: 5,
			LastReview: night},
			&store.Card{Phase: store.Learning, Step: 1, Stability: 2, Difficulty: 5, Due: today, DueAt: night, Reps: 1,
				LastAt: night, LastDay: today}},
		"on a step of days": {apkg.Card{Phase: apkg.Relearning, Due: int64(today) + 1, Left: 5, Interval: 3, Ease: 2.5,
			LastReview: now},
			&store.Card{Phase: store.Relearning, Stability: 3, Difficulty: difficulty(2.5, 3), Due: today + 1,
				LastAt: now, LastDay: today}},
		"with the older scheduler": {apkg.Card{Phase: apkg.Review, Due: int64(today) + 4, Interval: 10, Ease: 2.5,
			Reps: 6, Lapses: 1, LastReview: now},
			&store.Card{Phase: store.Review, Stability: 10, Difficulty: difficulty(2.5, 10), Due: today + 4, Reps: 6,
				Lapses: 1, LastAt: now, LastDay: today}},
		"without a log": {apkg.Card{Phase: apkg.Review, Due: int64(today) + 4, Interval: 10, Stability: 9,
			Difficulty: 4},
			&store.Card{Phase: store.Review, Stability: 9, Difficulty: 4, Due: today + 4, LastAt: noon(today - 6),
				LastDay: today - 6}},
	} {
		got := o.ankiCard(&c.card)
		same(t, []Item{{Question: name, Card: got}}, []Item{{Question: name, Card: c.want}})
	}
	for _, c := range []struct{ ease, stability, want float64 }{{2.5, 10, 6.914}, {2.5, 1, 8.216}, {1.3, 100, 9.802},
		{0, 10, 6.914}, {9, 1000, 1}} {
		if got := difficulty(c.ease, c.stability); math.Abs(got-c.want) > 0.01 {
			t.Errorf("ease %v at %v days is difficulty %v, want %v", c.ease, c.stability, got, c.want)
		}
	}
}

func TestNamesInAnki(t *testing.T) {
	for _, c := range []struct {
		it   Item
		want string
	}{
		{Item{ID: id1}, "learn:" + id1}, {Item{Origin: "learn:" + id2, ID: id1}, "learn:" + id2},
		{Item{Origin: "anki:G:0", ID: id1}, "G"}, {Item{Origin: "anki:G:1"}, "anki:G:1"},
		{Item{Origin: "anki:a:b:0"}, "a:b"}, {Item{Origin: "anki:learn:x:0"}, "anki:learn:x:0"},
		{Item{Origin: "anki::0"}, "anki::0"}, {Item{Origin: "csv:7"}, "from:csv:7"},
		{Item{Origin: "csv:7", ID: id1}, "learn:" + id1},
	} {
		if got := guid(c.it); got != c.want {
			t.Errorf("%+v is called %q, want %q", c.it, got, c.want)
		}
	}
	if a, b, c := guid(Item{Question: "q"}), guid(Item{Question: "q", Answer: "changed"}),
		guid(Item{Question: "other"}); a != b || a == c {
		t.Errorf("items without a name are called %q, %q and %q", a, b, c)
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		(RowError{Row: 3, What: "x y", Why: "why"}).String(): `3: "x y": why`,
		(RowError{Why: "why"}).String():                      "0: why",
		(&TooManyError{7}).Error():                           "the file has more than 7 items; split it",
		shorten("a\nb  c"):                                   "a b c",
		shorten("汉" + string(make([]byte, 100))):             "汉",
		clean("a\x00b\xff"):                                  "ab\ufffd",
		unixLines("a\r\nb\rc"):                               "a\nb\nc",
		cut("汉字", 4):                                         "汉",
		cleanDeck(" A :: ::  B\n c:: "):                      "A::B c",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
