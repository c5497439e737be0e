package apkg

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// day is a date near now.
func day(n int64) int64 { return dateOf(now) + n }

func samples() []Card {
	at := now.Add(-30 * 24 * time.Hour)
	base := Card{GUID: "learn:1", Question: "Q", Answer: "A", Created: at, Updated: at.Truncate(time.Second)}
	full := base
	full.GUID, full.Deck, full.Question, full.Answer, full.Tags = "learn:0", "语言::法语", "a <b> & c\ntwo  spaces",
		"**bold**\n\n- item", []string{"x", "y"}
	full.Phase, full.Due, full.Interval, full.Ease, full.Reps, full.Lapses, full.Stability, full.Difficulty = Review,
		day(9), 12, 2.5, 3, 1, 12.25, 5.5
	full.Memo = "kin:k"
	full.Reviews = []ReviewEntry{
		{At: at.Add(time.Hour), Ease: 3, Took: 1500 * time.Millisecond, Interval: 3, Phase: Learning},
		{At: at.Add(73 * time.Hour), Ease: 1, Took: 2500 * time.Millisecond, Interval: 0, Last: 3, Phase: Review},
		{At: at.Add(74 * time.Hour), Ease: 2, Took: time.Second, Interval: 12, Last: 0, Phase: Relearning}}
	full.LastReview = full.Reviews[2].At.Truncate(time.Second)
	learning, days, resting, first := base, base, base, base
	learning.GUID, learning.Phase, learning.DueAt, learning.Left, learning.Ease = "learn:2", Learning,
		now.Add(10*time.Minute), 2, 2.5
	days.GUID, days.Phase, days.Due, days.Left, days.Ease, days.Interval = "learn:3", Relearning, day(1), 1, 2.5, 4
	resting.GUID, resting.Phase, resting.Due, resting.Interval, resting.Ease, resting.Suspended,
		resting.Mark = "learn:4", Review, day(500), 400, 2.5, true, "done"
	first.GUID, first.Phase, first.Due, first.Interval, first.Ease = "learn:5", Review, day(-1), 1, 2.5
	return []Card{full, base, learning, days, resting, first}
}

func TestRoundTrip(t *testing.T) {
	for _, zone := range []*time.Location{nil, time.FixedZone("", 8*60*60), time.FixedZone("", -10*60*60)} {
		t.Run(fmt.Sprint(zone), func(t *testing.T) {
			o := WriteOptions{Zone: zone, DayStart: 4 * time.Hour, Now: now, Temp: t.TempDir()}
			var b bytes.Buffer
			w, err := NewWriter(&b, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range samples() {
				if err := w.Write(c); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if left, _ := os.ReadDir(o.Temp); len(left) > 0 {
				t.Errorf("%d temporary files are left", len(left))
			}
			cards, bad, err := read(t, b.Bytes(), Options{})
			if err != nil || len(bad) > 0 || len(cards) != len(samples()) {
				t.Fatalf("%d cards, bad %v, %v", len(cards), bad, err)
			}
			for i, want := range samples() {
				got := cards[i]
				if got.Note == 0 || len(got.Tags) != len(want.Tags) {
					t.Errorf("card %d has note %d and tags %q", i, got.Note, got.Tags)
				}
				got.Note, got.Tags, want.Tags = 0, nil, nil
				got.Row, got.NoteRow, got.Day = CardRow{}, NoteRow{}, 0
				if i > 0 { // notes with the same time get consecutive IDs
					got.Created = want.Created
				}
				for j := range got.Reviews {
					got.Reviews[j].Row = LogRow{}
					got.Reviews[j].At, want.Reviews[j].At = got.Reviews[j].At.UTC(), want.Reviews[j].At.UTC()
				}
				if got.Question == "Q" && got.Phase == Review && want.Interval == 0 {
					want.Interval = 1
				}
				if want.Memo == "" {
					got.Memo = ""
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("card %d came back as\n%+v, want\n%+v", i, got, want)
				}
			}
		})
	}
}

// A thousand cards created in the same millisecond all get an ID.
func TestSameMoment(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, WriteOptions{Now: now, Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		at := now.Add(time.Duration(i%3) * time.Millisecond)
		if err := w.Write(Card{GUID: fmt.Sprint(i), Question: "Q", Answer: "A", Created: at,
			Reviews: []ReviewEntry{{At: at, Ease: 3, Phase: Review}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	cards, _, err := read(t, b.Bytes(), Options{})
	reviews := 0
	for _, c := range cards {
		reviews += len(c.Reviews)
	}
	if err != nil || len(cards) != 1000 || reviews != 1000 {
		t.Errorf("%d cards and %d reviews came back, %v", len(cards), reviews, err)
	}
}

type full struct{}

var errFull = errors.New("no space")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriterFails(t *testing.T) {
	temp := t.TempDir()
	w, err := NewWriter(full{}, WriteOptions{Now: now, Temp: temp})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(samples()[0]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Close(); !errors.Is(err, errFull) {
			t.Errorf("Close says %v", err)
		}
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("%d temporary files are left", len(left))
	}
	if _, err := NewWriter(full{}, WriteOptions{Temp: temp + "/none"}); err == nil {
		t.Error("a folder that is not there is no error")
	}
}
