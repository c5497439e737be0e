package quiz

import (
	"context"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// heard collects what people are told unasked.
func (r *rig) heard() *[]Notice {
	var out []Notice
	r.Tell = func(_ context.Context, n Notice) error {
		out = append(out, n)
		return nil
	}
	return &out
}

// A person whose review ended before a learning step gets one notice when the step is due, and
// answers it then.
func TestStepsAreTold(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		told := r.heard()
		r.add(1)
		r.expect("quiz me", "Question 1, the last: q1?")
		r.expect("RIGHT", "All done!", "today at 10:10")
		r.pass(9*time.Minute + 30*time.Second)
		if r.tellSteps(ctx); len(*told) != 0 {
			t.Fatalf("told too early: %+v", *told)
		}
		r.pass(35 * time.Second) // a check follows the due time within stepInterval
		r.tellSteps(ctx)
		r.tellSteps(ctx)
		if len(*told) != 1 {
			t.Fatalf("told %+v", *told)
		}
		n := (*told)[0]
		if n.Owner != "ada" || n.Bot != 7 || n.Channel != "lingzhu" || n.Asker != "lingzhu:ada:U1" || n.ID == "" ||
			n.Text != "Once more: q1? Say “quiz me” to answer." || n.Until.Sub(r.clock()) != stepGrace {
			t.Errorf("told %+v", n)
		}
		r.expect("quiz me", "Question 1, the last: q1?")
	})
}

// The time from a step to the notice is bounded by these.
func TestStepsAreToldInTime(t *testing.T) {
	if most := stepInterval + tellTimeout; most > 15*time.Second {
		t.Errorf("a step may be told %v after it is due", most)
	}
}

// Who went on, stopped, left for long or reviewed elsewhere is not told.
func TestStepsAreNotTold(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for name, meanwhile := range map[string]func(id string){
			"went on":            func(string) { r.expect("quiz me", "Nothing is due now.") },
			"reviewed elsewhere": func(id string) { r.pass(9 * time.Minute); r.elsewhere(id) },
			"too late":           func(string) { r.pass(15 * time.Minute) },
			"deleted":            func(id string) { r.must(r.service.Delete(ctx, "ada", id)) },
		} {
			told := r.heard()
			id := r.add(1)[0]
			r.expect("quiz me", "Question 1, the last")
			r.expect("RIGHT", "All done!")
			meanwhile(id)
			r.pass(10*time.Minute + time.Second)
			if r.tellSteps(ctx); len(*told) != 0 {
				t.Errorf("%s: told %+v", name, *told)
			}
			if name != "deleted" {
				r.must(r.service.Delete(ctx, "ada", id))
			}
		}
	})
}

// elsewhere reviews a point in another way, on its step or before.
func (r *rig) elsewhere(id string) {
	r.t.Helper()
	_, err := r.service.Submit(ctx, "ada", learn.Submission{Point: id, Grade: store.Easy, Early: true, ID: "elsewhere " + id, Score: -1})
	r.must(err)
}

// A quiz that is full of waiting people stays bounded, and forgets those who go on.
func TestWaitersAreBounded(t *testing.T) {
	var w waiters
	at := time.Now()
	for i := range maxWaiting + 5 {
		w.set(strings.Repeat("x", i%100)+time.Duration(i).String(), waiting{at: at})
	}
	if len(w.byID) != maxWaiting {
		t.Errorf("%d wait", len(w.byID))
	}
	if got := w.take(at); len(got) != maxWaiting || len(w.byID) != 0 {
		t.Errorf("%d are taken, %d left", len(got), len(w.byID))
	}
}
