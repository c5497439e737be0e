package learn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// submitted is what submit_review says about a review.
type submitted struct {
	Review    string `json:"review_id"`
	Grade     string
	State     string
	Due       string
	Already   bool
	Corrected bool
	Previous  string `json:"previous_grade"`
	Note      string
}

// A review that is submitted again with another grade is corrected: point, counters and log are
// what they would be if the last grade had been the first, whenever the correction comes.
func TestCorrectedGrade(t *testing.T) {
	for _, c := range []struct{ name, first, second string }{
		{"same review_id", `"review_id":"r1"`, `"review_id":"r1"`},
		{"no review_id", `"early":true`, `"early":true`},
		{"same recall", `"recall_text":"x"`, `"recall_text":"x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			testCorrectedGrade(newRig(t, store.Options{Folder: t.TempDir()}), c.first, c.second)
		})
	}
	t.Run("postgres", func(t *testing.T) {
		testCorrectedGrade(newRig(t, storetest.Postgres(t)), `"review_id":"r1"`, `"review_id":"r1"`)
	})
}

func testCorrectedGrade(r *rig, first, second string) {
	r.settings("ada", `{"defaults":{"balance":false}}`)
	submit := func(id, grade, more string) (out submitted) {
		r.call("ada", toolSubmit, fmt.Sprintf(`{"knowledge_point_id":%q,"grade":%q,"took_ms":2000,%s}`, id, grade,
			more), &out)
		return out
	}
	e := r.add("ada", Draft{Question: "q", Answer: "a"})
	began := r.now
	submit(e.ID, "again", first)
	r.now = r.now.Add(20 * time.Second)
	out := submit(e.ID, "easy", second)
	if out.Already || !out.Corrected || out.Previous != "again" || out.Grade != "easy" ||
		!strings.Contains(out.Note, "corrected") {
		r.t.Fatalf("the second grade: %+v", out)
	}
	if again := submit(e.ID, "easy", second); !again.Already || again.Corrected || again.Due != out.Due {
		r.t.Errorf("the same once more: %+v", again)
	}
	stats := r.doneToday("ada")
	if stats.Reviews() != 1 || stats.Easy != 1 || stats.Fresh != 1 || stats.Took != 2*time.Second {
		r.t.Errorf("the day after the correction: %+v", stats)
	}
	got, err := r.Get(ctx, "ada", e.ID)
	r.must(err)
	r.now = began
	other := r.add("ada", Draft{Question: "control", Answer: "a"})
	want := r.grade("ada", other.ID, store.Easy).Entry.Card
	if diff := cmp.Diff(want, got.Card, cmp.FilterPath(func(p cmp.Path) bool {
		return p.String() == "LastAt" // some milliseconds later
	}, cmp.Ignore())); diff != "" {
		r.t.Error(diff)
	}
	if first := got.Sittings[0]; len(got.Sittings) != 2 || first.ID != e.Sittings[0].ID || first.Completed.IsZero() {
		r.t.Errorf("the plan: %+v", got.Sittings)
	}
	log, err := r.Store.Learn.Log(ctx, "ada", e.Number, time.Time{}, "", 10)
	r.must(err)
	if len(log) != 3 || log[1].Undoes != log[0].ID || log[2].Grade != store.Easy || log[2].Day != log[0].Day {
		r.t.Errorf("the log: %+v", log)
	}
}

// doneToday sums up what a person did today.
func (r *rig) doneToday(person string) (sum store.DayWork) {
	r.t.Helper()
	l, err := r.Learner(ctx, person)
	r.must(err)
	work, err := r.Store.Learn.Work(ctx, person, l.Today)
	r.must(err)
	for _, w := range work {
		sum.Fresh, sum.Due, sum.Took = sum.Fresh+w.Fresh, sum.Due+w.Due, sum.Took+w.Took
		sum.Again, sum.Hard, sum.Good, sum.Easy = sum.Again+w.Again, sum.Hard+w.Hard, sum.Good+w.Good, sum.Easy+w.Easy
	}
	return sum
}

// The name that a client gave to a review finds it however often it was corrected: for another
// correction, for undoing, and for a repeated call.
func TestCorrectionsInARow(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		e := r.add("ada", Draft{Question: "q", Answer: "a"})
		submit := func(id string, g store.Grade) (*Outcome, error) {
			return r.Submit(ctx, "ada", Submission{Point: e.ID, ID: id, Grade: g, Score: -1})
		}
		for i, g := range []store.Grade{store.Good, store.Again, store.Easy, store.Good} {
			out, err := submit("mine", g)
			r.must(err)
			if out.Corrected != (i > 0) || out.Review.Grade != g {
				t.Fatalf("grade %d: %+v", g, out)
			}
		}
		r.now = r.now.AddDate(0, 0, 2) // a device that had no network
		out, err := submit("mine", store.Hard)
		r.must(err)
		if day := r.doneToday("ada"); !out.Corrected || day.Reviews() != 0 {
			t.Fatalf("two days later: %+v, counted %+v", out, day)
		}
		undone, err := r.Undo(ctx, "ada", "mine", "test")
		r.must(err)
		if undone.Already || undone.Entry.Card != e.Card {
			t.Errorf("after the undo: %+v", undone.Entry.Card)
		}
		if _, err := submit("mine", store.Good); err == nil || !strings.Contains(err.Error(), "undone") {
			t.Errorf("a correction of what was undone: %v", err)
		}
		if out, err := submit("mine", store.Hard); err != nil || !out.Already {
			t.Errorf("a late repetition: %+v, %v", out, err)
		}
		var n int
		work, err := r.Store.Learn.Work(ctx, "ada", 0)
		r.must(err)
		for _, w := range work {
			n += w.Reviews()
		}
		if n != 0 {
			t.Errorf("%d reviews are counted after all", n)
		}
	})
}

// What is not the same review is none the less counted, or refused.
func TestNoCorrection(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		e := r.add("ada", Draft{Question: "q", Answer: "a"})
		submit := func(in Submission) (*Outcome, error) {
			in.Point, in.Score = e.ID, -1
			return r.Submit(ctx, "ada", in)
		}
		first, err := submit(Submission{ID: "r1", Grade: store.Again})
		r.must(err)
		if out, err := submit(Submission{ID: "r1"}); err != nil || !out.Already || out.Review.Grade != store.Again {
			t.Errorf("a repetition without a grade: %+v, %v", out, err)
		}
		r.now = r.now.Add(2 * time.Minute) // the step is due: this is the next review
		second, err := submit(Submission{Grade: store.Good})
		r.must(err)
		if second.Corrected || second.Already {
			t.Errorf("the next step is taken for a correction: %+v", second)
		}
		if _, err := submit(Submission{ID: "r1", Grade: store.Easy}); err == nil ||
			!strings.Contains(err.Error(), "later review") {
			t.Errorf("a correction of an older review: %v", err)
		}
		r.now = r.now.AddDate(0, 0, 1)
		_, err = r.Submit(ctx, "ada", Submission{Sitting: second.Sitting, Grade: store.Hard, Score: -1})
		if _, done := err.(*AlreadyReviewedError); !done {
			t.Errorf("another grade for yesterday's row: %v", err)
		}
		if first.Sitting == second.Sitting {
			t.Error("both reviews completed one row")
		}
	})
}

// A correction takes back what the first grade made of the point: a leech, and its rest.
func TestCorrectedLeech(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults":{"leech":1,"leech_suspend":true,"relearn":[],"steps":[]}}`)
		e := r.add("ada", Draft{Question: "q", Answer: "a"})
		r.grade("ada", e.ID, store.Good)
		r.now = r.now.AddDate(0, 0, 10)
		out, err := r.Submit(ctx, "ada", Submission{Point: e.ID, ID: "x", Grade: store.Again, Score: -1})
		r.must(err)
		if !out.Leech || !out.Entry.Suspended {
			t.Fatalf("no leech: %+v", out)
		}
		out, err = r.Submit(ctx, "ada", Submission{Point: e.ID, ID: "x", Grade: store.Good, Score: -1})
		r.must(err)
		if e := out.Entry; !out.Corrected || out.Leech || e.Suspended || len(e.Tags) != 0 || e.Card.Lapses != 0 {
			t.Errorf("after the correction: %+v", out.Entry)
		}
	})
}
