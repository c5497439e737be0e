package test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Two devices of one person, at two instances, submit the same review at the same moment: one
// succeeds, the other gets an error. Afterwards the counters are right at both.
func TestLearnTwoInstances(t *testing.T) {
	o := storetest.Postgres(t)
	urls := strings.Split(bustest.Cluster(t, 3), ",")
	more := []string{"PATCHBAY_SECRET=" + strings.Repeat("5e", 32), "PATCHBAY_LIMITS_CALL_RATE=0"}
	first := newInstallation(o, append(more, "PATCHBAY_BUS_URL="+urls[0])...)
	o.Folder = t.TempDir()
	second := newInstallation(o, append(more, "PATCHBAY_BUS_URL="+urls[1])...)
	key := learning(t, first)
	devices := [2]pupil{{first.serve(t).url, key}, {second.serve(t).url, key}}
	farFromMidnight(t, devices[0])
	t.Cleanup(func() { tellCauses(t, o) })

	t.Run("one by one", func(t *testing.T) {
		points := bothCreate(t, devices, 30)
		for i, x := range points {
			race(t, devices, &x, i)
		}
	})
	// Many concurrent changes, so that the instances write in batches and in different orders.
	// Changes of one person are serialized, and none waits longer than 5 s.
	t.Run("many at once", func(t *testing.T) {
		points := bothCreate(t, devices, 60)
		var all sync.WaitGroup
		at := make(chan struct{}, 16)
		for i, x := range points {
			at <- struct{}{}
			all.Go(func() {
				defer func() { <-at }()
				race(t, devices, &x, i)
			})
		}
		all.Wait()
	})
	if got, want := len(recount(t, devices[0])), len(recount(t, devices[1])); got != want || got != 180 {
		t.Errorf("one instance knows %d points, the other %d, want 180", got, want)
	}
}

// tellCauses logs why calls failed, which callers do not see, if the test failed.
func tellCauses(t *testing.T, o store.Options) {
	if !t.Failed() {
		return
	}
	rows, err := storetest.Open(t, o).Calls.Newest(ctx, "", time.Now().Add(time.Minute), 100_000)
	if err != nil {
		t.Log(err)
	}
	for _, c := range rows {
		if c.Outcome == "failed" {
			t.Logf("%s failed: %s", c.Tool, c.Cause)
		}
	}
}

// bothCreate has both devices create n points each, concurrently.
func bothCreate(t *testing.T, devices [2]pupil, n int) []learned {
	t.Helper()
	var mu sync.Mutex
	var ids []string
	var creating sync.WaitGroup
	for _, d := range devices {
		creating.Go(func() {
			for i := range n {
				var made learned
				if err := d.ask("create_knowledge_point", given{"question": fmt.Sprint("q ", i), "answer": "a",
					"deck": fmt.Sprint("deck ", i%3), "tags": []string{"t"}}, &made); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ids = append(ids, made.ID)
				mu.Unlock()
			}
		})
	}
	creating.Wait()
	points := make([]learned, len(ids))
	for i, id := range ids {
		devices[i%2].call(t, "get_knowledge_point", given{"id": id}, &points[i])
		if points[i].open() == "" {
			t.Fatalf("it has no plan: %+v", points[i])
		}
	}
	return points
}

// race has both devices submit the same review. Every third time they send the same submission,
// like a client with two connections.
func race(t *testing.T, devices [2]pupil, x *learned, round int) {
	same := round%3 == 0
	ready := make(chan struct{})
	var results [2]*lesson
	var errs [2]error
	var both sync.WaitGroup
	for i, d := range devices {
		review := given{"knowledge_point_id": x.ID, "schedule_id": x.open(), "grade": []string{"good", "again"}[i],
			"review_id": fmt.Sprintf("%s-%d", x.ID, i), "recall_text": fmt.Sprint("device ", i)}
		if same {
			review["grade"], review["review_id"], review["recall_text"] = "hard", x.ID, "the same"
		}
		tool := "submit_review"
		if round%3 == 1 {
			tool = "submit_recall"
			delete(review, "knowledge_point_id")
		}
		both.Go(func() {
			<-ready
			results[i], errs[i] = d.try(tool, review)
		})
	}
	close(ready)
	both.Wait()
	won, told := 0, 0
	for i, l := range results {
		var done struct{ Success, Already bool }
		switch {
		case errs[i] != nil:
			t.Errorf("device %d: %v", i, errs[i])
		case l.IsError && l.code() == "already_reviewed" && !same:
			told++
		case l.IsError || !decode(string(l.Structured), &done):
			t.Errorf("device %d: %s %s", i, l.text(), l.Structured)
		case done.Already && same:
			told++
		case done.Success && !done.Already:
			won++
		}
	}
	if won != 1 || told != 1 {
		t.Errorf("%d won and %d were told", won, told)
	}
	reviews := 0
	for _, e := range devices[round%2].history(t, x.ID) {
		if e.Kind == "review" {
			reviews++
		}
	}
	if reviews != 1 {
		t.Errorf("%d reviews are in the history", reviews)
	}
}
