package learn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"patchbay/internal/plug/learn/fsrs"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
)

// pocket runs a task of test/peers/pocket/peer.mjs.
func pocket(t *testing.T, task string, input map[string]any, out any) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("Node.js is needed")
		}
		t.Skip("no Node.js here")
	}
	const scripts = "../../console/page/assets/pocket/"
	input["task"], input["files"] = task, []string{scripts + "schedule.js", scripts + "queue.js"}
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "../../../test/peers/pocket/peer.mjs")
	var errors bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &errors
	reply, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &errors)
	}
	if err := json.Unmarshal(reply, out); err != nil {
		t.Fatalf("%v in %.500s", err, reply)
	}
}

// closeEnough compares numbers that were computed by other libraries.
var closeEnough = cmpopts.EquateApprox(1e-9, 1e-9)

// The scheduler of browsers gives what the reference implementation gives, and the dates that ours
// gives, with random settings, calendars and reviews.
func TestScheduler(t *testing.T) {
	text, err := os.ReadFile("fsrs/testdata/fsrs6-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors map[string]any
	var want struct {
		Sequences []struct {
			Steps []struct {
				Stability, Difficulty float64
				Intervals             [4]float64 `json:"next_interval_days_again_hard_good_easy"`
			}
		}
	}
	if json.Unmarshal(text, &vectors) != nil || json.Unmarshal(text, &want) != nil {
		t.Fatal("the vectors cannot be read")
	}
	var got [][]struct {
		Stability, Difficulty float64
		Intervals             [4]float64
	}
	pocket(t, "vectors", vectors, &got)
	for i, seq := range want.Sequences {
		for j, step := range seq.Steps {
			for k, x := range append([]float64{got[i][j].Stability, got[i][j].Difficulty}, got[i][j].Intervals[:]...) {
				y := append([]float64{step.Stability, step.Difficulty}, step.Intervals[:]...)[k]
				if math.Abs(x-y) > 1e-6*math.Abs(y) {
					t.Fatalf("sequence %d, review %d: %v, not %v", i, j, x, y)
				}
			}
		}
	}
	if len(got) < 10 {
		t.Fatalf("%d sequences", len(got))
	}
	compareCourses(t)
}

// reviewed is a card after a review, and what the grades would have led to.
type reviewed struct {
	Card  PackState
	Ways  [4]struct{ Wait, Days int64 }
	Start int64
}

func compareCourses(t *testing.T) {
	type review struct {
		Grade store.Grade `json:"grade"`
		At    int64       `json:"at"`
	}
	random := rand.New(rand.NewPCG(3, 4))
	zones := []string{"UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"}
	var courses []map[string]any
	var want [][]reviewed
	for i := range 200 {
		zone, err := time.LoadLocation(zones[i%len(zones)])
		if err != nil {
			t.Fatal(err)
		}
		s := schedule.Default()
		s.Balance, s.Retention, s.MaxInterval = false, 0.8+random.Float64()*0.17, []int{36500, 40, 1}[random.IntN(3)]
		s.Steps = [][]int{{1, 10}, {}, {5}, {1, 10, 600, 2000}}[random.IntN(4)]
		s.Relearn = [][]int{{10}, {}, {3, 30}}[random.IntN(3)]
		if i%7 == 0 {
			s.Schedule = schedule.Classic
		}
		s.Weights = fsrs.Published[:]
		l := &Learner{Calendar: schedule.Calendar{Zone: zone, Start: time.Duration(random.IntN(24)) * time.Hour},
			Now: shanghai}
		now := shanghai.AddDate(0, 0, -random.IntN(300)).Add(time.Duration(random.IntN(86400)) * time.Second)
		days := schedule.ClassicDates(l.Calendar.Day(now))
		course := days[:]
		card := store.Card{Due: l.Calendar.Day(now)}
		begins := NewPackState(card)
		var reviews []review
		var cards []reviewed
		for range 12 {
			r := review{store.Again + store.Grade(random.IntN(4)), now.UnixMilli()}
			var e reviewed
			for k, c := range schedule.Preview(card, s, l.Calendar, now) {
				e.Ways[k].Wait, e.Ways[k].Days = c.Wait.Milliseconds(), int64(c.Days)
			}
			done := schedule.Review{Grade: r.Grade, At: now}
			if card, err = schedule.Next(card, s, l.Calendar, done, 1, nil); err != nil {
				t.Fatal(err)
			}
			if s.Schedule == schedule.Classic {
				e.Ways = [4]struct{ Wait, Days int64 }{}
				course = course[min(1, len(course)):]
				if card.Phase = store.Done; len(course) > 0 {
					card.Phase, card.Due = store.Review, max(course[0], l.Calendar.Day(now)+1)
				}
			}
			e.Card, e.Start = NewPackState(card), l.Calendar.StartOf(l.Calendar.Day(now)).UnixMilli()
			reviews, cards = append(reviews, r), append(cards, e)
			now = now.Add(time.Duration(random.IntN([]int{900, 40_000, 900_000}[random.IntN(3)])) * time.Second)
		}
		courses = append(courses, map[string]any{"settings": s, "calendar": packCalendar(l), "card": begins,
			"course": days[:], "reviews": reviews})
		var dates []store.DayNum
		for _, d := range days {
			dates = append(dates, store.DayNum(d))
		}
		courses[i]["course"] = dates
		want = append(want, cards)
	}
	var got [][]reviewed
	pocket(t, "courses", map[string]any{"courses": courses}, &got)
	for i := range got {
		for j := range got[i] {
			if courses[i]["settings"].(schedule.Settings).Schedule == schedule.Classic {
				got[i][j].Ways = [4]struct{ Wait, Days int64 }{}
			}
		}
	}
	if diff := cmp.Diff(want, got, closeEnough); diff != "" {
		t.Errorf("Go (-) and JavaScript (+):\n%.3000s", diff)
	}
}

// A device asks for a week what the server would have asked, and in its order; both come to the
// same state.
func TestWeekOffline(t *testing.T) {
	online, offline := newRig(t, store.Options{Folder: t.TempDir()}), newRig(t, store.Options{Folder: t.TempDir()})
	ids := map[string]string{} // of the points online, by those offline
	for _, r := range []*rig{online, offline} {
		r.settings("ada", `{"defaults": {"new_per_day": 15, "reviews_per_day": 30, "balance": false}}`)
		_, err := r.SaveDeck(ctx, "ada", DeckEdit{Name: "own",
			Settings: []byte(`{"new_per_day": 4, "steps": [], "retention": 0.95, "bury": false}`)}, nil)
		r.must(err)
		_, err = r.SaveDeck(ctx, "ada", DeckEdit{Name: "fixed", Settings: []byte(`{"schedule": "classic"}`)}, nil)
		r.must(err)
		r.now = shanghai.AddDate(0, 0, -1)
		for i := range 200 {
			e := r.add("ada", Draft{Question: fmt.Sprintf("Q%03d", i), Answer: "A",
				Deck: []string{"", "", "own", "fixed"}[i%4]})
			if i%5 == 0 {
				r.grade("ada", e.ID, store.Grade(1+i%4))
			}
		}
		r.now = shanghai
	}
	for _, e := range must(online.List(ctx, "ada", store.PointFilter{}, store.PointKey{}, 500))(t) {
		ids[e.Question] = e.ID
	}
	for _, e := range must(offline.List(ctx, "ada", store.PointFilter{}, store.PointKey{}, 500))(t) {
		ids[e.ID] = ids[e.Question]
	}
	pack := must(offline.Pack(ctx, "ada", 7))(t)
	var week struct {
		Reviews []struct {
			ID, Point string
			At        int64
			Grade     store.Grade
		}
		Left  []int
		Cards []struct {
			ID   string
			Card PackState
		}
	}
	pocket(t, "week", map[string]any{"pack": pack, "from": shanghai.UnixMilli(), "days": 7, "most": 200}, &week)
	if len(week.Reviews) < 300 {
		t.Fatalf("%d reviews", len(week.Reviews))
	}
	var batch Offline
	for i, r := range week.Reviews {
		online.now = time.UnixMilli(r.At)
		q := must(online.Queue(ctx, "ada", QueueFilter{Limit: 1, Ahead: true}))(t)
		if len(q.Entries) == 0 || q.Entries[0].ID != ids[r.Point] {
			t.Fatalf("review %d at %v: the device asks %s, the server %+v", i, online.now, r.Point, q.Entries)
		}
		if q.Left.Total() != week.Left[i] {
			t.Fatalf("review %d at %v: the device has %d left, the server %+v", i, online.now, week.Left[i], q.Left)
		}
		_, err := online.Submit(ctx, "ada", Submission{Point: ids[r.Point], ID: r.ID, Grade: r.Grade, Score: -1,
			Channel: "test", Early: true})
		online.must(err)
		batch.Reviews = append(batch.Reviews, OfflineReview{ID: r.ID, Point: r.Point, Grade: r.Grade,
			At: time.UnixMilli(r.At)})
	}
	offline.now = shanghai.AddDate(0, 0, 8)
	offline.merged("ada", Offline{Reviews: batch.Reviews[:MaxMerge/2]})
	offline.merged("ada", Offline{Reviews: batch.Reviews[MaxMerge/2:]})
	if diff := cmp.Diff(online.state("ada"), offline.state("ada")); diff != "" {
		t.Errorf("online (-) and merged (+):\n%s", diff)
	}
	for _, c := range week.Cards {
		e := must(offline.Get(ctx, "ada", c.ID))(t)
		want := NewPackState(e.Card)
		want.Buried, c.Card.Buried = 0, 0
		if diff := cmp.Diff(want, c.Card, closeEnough); diff != "" {
			t.Errorf("server (-) and device (+):\n%s", diff)
		}
	}
}

// A device leaves out what is buried, as the server does, even on its learning steps.
func TestBuriedStepsOffline(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	r.now = shanghai
	var ids []string
	for i := range 2 {
		e := r.add("ada", Draft{Question: fmt.Sprintf("Q%d", i), Answer: "A"})
		r.grade("ada", e.ID, store.Again)
		ids = append(ids, e.ID)
		r.now = r.now.Add(10 * time.Second)
	}
	pack := must(r.Pack(ctx, "ada", 7))(t)
	var steps [2]int64
	for i := range pack.Cards {
		c := &pack.Cards[i]
		n := slices.Index(ids, c.ID)
		if steps[n] = c.Card.DueAt; n == 0 {
			c.Card.Buried = c.Card.Due + 1
		}
	}
	type next struct {
		Next        string
		Left, Later int64
	}
	for _, c := range []struct {
		now  int64
		want next
	}{
		{steps[0], next{ids[1], 1, 0}}, // the other one, a little early
		{steps[1] - 5*60_000, next{"", 1, steps[1]}},
	} {
		var got next
		pocket(t, "at", map[string]any{"pack": pack, "now": c.now}, &got)
		if got != c.want {
			t.Errorf("at %d the device has %+v, want %+v", c.now, got, c.want)
		}
	}
}

// must returns a value whose error fails the test.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
