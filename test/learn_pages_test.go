package test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"patchbay/internal/store"
)

// reviews reads all pages of due points.
func (p pupil) reviews(t *testing.T, limit int) (points []string, left leftToday) {
	t.Helper()
	for args := (given{"limit": limit}); ; {
		var page struct {
			Reviews []struct {
				Point string `json:"knowledge_point_id"`
			}
			Remaining leftToday
			Next      *string `json:"next_cursor"`
		}
		p.call(t, "list_reviews", args, &page)
		if len(page.Reviews) > limit {
			t.Errorf("a page of at most %d has %d", limit, len(page.Reviews))
		}
		for _, r := range page.Reviews {
			points = append(points, r.Point)
		}
		left = page.Remaining
		if page.Next == nil {
			return points, left
		}
		args["cursor"] = *page.Next
	}
}

type leftToday struct {
	New      int
	Learning int
	Review   int
	Held     int `json:"held_back"`
}

// Paging through many points returns each exactly once, whatever is added and deleted meanwhile;
// due points come in pages within the daily limits.
func TestLearnPages(t *testing.T) {
	t.Parallel()
	const many = 10_000
	place := newInstallation(store.Options{Folder: t.TempDir()}, "PATCHBAY_LIMITS_CALL_RATE=0")
	key := learning(t, place)
	p := pupil{place.serve(t).url, key}
	file := table(many)
	if status, done, text := p.load(t, file, url.Values{"name": {"points.csv"}}); status != 200 || !done.Imported ||
		done.Added != many {
		t.Fatalf("%d %s", status, text)
	}

	stop, made := make(chan struct{}), make(chan struct{}, 1)
	var restless sync.WaitGroup
	restless.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			var point learned
			err := p.ask("create_knowledge_point", given{"question": fmt.Sprintf("restless %d", i), "answer": "x"},
				&point)
			if err == nil && i%2 == 0 {
				err = p.ask("delete_knowledge_point", given{"id": point.ID}, &struct{}{})
			}
			if err != nil {
				t.Error(err)
				return
			}
			select {
			case made <- struct{}{}:
			default:
			}
		}
	})
	<-made
	for range 2 {
		all, err := p.page("list_knowledge_points", given{})
		must(t, err)
		seen := map[string]int{}
		for _, x := range all {
			seen[x.Question]++
		}
		for i := range many {
			if n := seen[fmt.Sprintf("question %d", i)]; n != 1 {
				t.Fatalf("question %d was seen %d times", i, n)
			}
		}
		for question, n := range seen {
			if n != 1 {
				t.Errorf("%s was seen %d times", question, n)
			}
		}
	}
	close(stop)
	restless.Wait()

	if status, done, text := p.load(t, file, url.Values{"name": {"points.csv"}, "dry_run": {"true"}}); status != 200 ||
		done.Imported || done.Added+done.Unchanged != many {
		t.Errorf("a dry run: %d %s", status, text)
	}
	t.Run("due", func(t *testing.T) { duePages(t, p) })
	t.Run("limits", func(t *testing.T) { dayLimits(t, p) })
	recount(t, p)
}

// duePages pages through due points with several daily limits.
func duePages(t *testing.T, p pupil) {
	for _, c := range []struct{ perDay, page int }{{20, 7}, {20, 20}, {1000, 300}, {5000, 500}} {
		p.call(t, "update_learning_settings", given{"defaults": given{"new_per_day": c.perDay}}, &struct{}{})
		points, left := p.reviews(t, c.page)
		distinct := slices.Compact(slices.Sorted(slices.Values(points)))
		if len(points) != c.perDay || len(distinct) != c.perDay || left.New != c.perDay || left.Held == 0 {
			t.Errorf("%d a day in pages of %d: %d rows, %d points, left %+v", c.perDay, c.page, len(points),
				len(distinct), left)
		}
		due, err := p.page("list_knowledge_points", given{"due_only": true})
		must(t, err)
		ids := make([]string, len(due))
		for i, x := range due {
			ids[i] = x.ID
		}
		if slices.Sort(ids); !slices.Equal(ids, distinct) {
			t.Errorf("due_only has %d points, list_reviews %d", len(ids), len(distinct))
		}
	}
}

// dayLimits reviews as much as a day allows.
func dayLimits(t *testing.T, p pupil) {
	const perDay = 25
	p.call(t, "update_learning_settings", given{"defaults": given{"new_per_day": perDay}}, &struct{}{})
	var next struct {
		Done bool
		Card *card
		Note string
	}
	p.call(t, "next_review", given{}, &next)
	for i := range perDay {
		if next.Card == nil {
			t.Fatalf("after %d of %d: %s", i, perDay, next.Note)
		}
		asked := *next.Card
		var done struct {
			Next      *card `json:"next_card"`
			Remaining leftToday
			Note      string
		}
		p.call(t, "submit_review", given{"knowledge_point_id": asked.Point, "schedule_id": asked.Schedule,
			"grade": "easy"}, &done)
		if done.Remaining.New != perDay-1-i {
			t.Errorf("after %d: left %+v", i+1, done.Remaining)
		}
		next.Card, next.Note = done.Next, done.Note
	}
	next.Card = nil
	if p.call(t, "next_review", given{}, &next); !next.Done || next.Card != nil ||
		!strings.Contains(next.Note, "held back") {
		t.Errorf("after the last: %+v", next)
	}
}
