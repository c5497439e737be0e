package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// counted is the result of learning_stats.
type counted struct {
	Today  string
	Points int
	Left   leftToday                         `json:"left_today"`
	Done   struct{ Reviews, New, Again int } `json:"done_today"`
	// Month counts the reviews of 30 days.
	Month    int `json:"reviews_30d"`
	Forecast []struct {
		Date string
		Due  int
	}
	Decks []deckCount
}

type deckCount struct {
	Name             string
	Points, New, Due int
}

// recount compares all stored counters with the rows, and returns the points. Nothing may change
// meanwhile.
func recount(t *testing.T, p pupil) []learned {
	t.Helper()
	var before struct {
		Settings struct {
			New     int `json:"new_per_day"`
			Reviews int `json:"reviews_per_day"`
		}
	}
	p.call(t, "get_learning_settings", given{}, &before)
	p.call(t, "update_learning_settings", given{"defaults": given{"new_per_day": 9999, "reviews_per_day": 9999}},
		&struct{}{})
	defer p.call(t, "update_learning_settings", given{"defaults": given{"new_per_day": before.Settings.New,
		"reviews_per_day": before.Settings.Reviews}}, &struct{}{})

	points, err := p.page("list_knowledge_points", given{})
	must(t, err)
	trash, err := p.page("list_deleted_knowledge_points", given{})
	must(t, err)
	var kept counted
	p.call(t, "learning_stats", given{"days": 365}, &kept)
	want := counted{Today: kept.Today, Points: len(points)}
	decks, waiting, tags := map[string]*deckCount{}, map[string]int{}, map[string]int{}
	for _, d := range kept.Decks { // empty ones too
		decks[d.Name] = &deckCount{Name: d.Name}
	}
	for _, x := range points {
		if decks[x.Deck] == nil {
			t.Fatalf("the deck %q is not counted: %+v", x.Deck, kept.Decks)
		}
		want.add(decks[x.Deck], waiting, &x)
	}
	for _, x := range slices.Concat(points, trash) {
		for _, tag := range x.Tags {
			tags[tag]++
		}
	}
	for _, d := range kept.Decks {
		want.Decks = append(want.Decks, *decks[d.Name])
	}
	for i, f := range kept.Forecast {
		due := waiting[f.Date]
		for day, n := range waiting {
			if i == 0 && day < kept.Today {
				due += n
			}
		}
		if f.Due != due {
			t.Errorf("on %s %d are due, and %d are counted", f.Date, due, f.Due)
		}
	}
	kept.Forecast = nil
	want.Left.New, want.Left.Held = min(want.Left.New, 9999-kept.Done.New), max(want.Left.New-(9999-kept.Done.New), 0)
	want.done(t, p, points, trash)
	if got, want := fmt.Sprintf("%+v", kept), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("the counters do not fit the rows\nkept %s\nrows %s", got, want)
	}
	var listed struct {
		Tags []struct {
			Tag    string
			Points int
		}
	}
	p.call(t, "list_tags", given{"limit": 500}, &listed)
	for _, x := range listed.Tags {
		if tags[x.Tag] != x.Points {
			t.Errorf("%d points have the tag %s, and %d are counted", tags[x.Tag], x.Tag, x.Points)
		}
		delete(tags, x.Tag)
	}
	if len(tags) > 0 {
		t.Errorf("not counted are %v", tags)
	}
	return points
}

// add counts a point.
func (c *counted) add(d *deckCount, waiting map[string]int, x *learned) {
	d.Points++
	day, _, _ := strings.Cut(x.Due, "T")
	switch x.State {
	case "new":
		d.New++
		c.Left.New++
		return
	case "learning", "relearning":
		// The learner's day of a moment; here all are today.
		day = c.Today
		c.Left.Learning++
	case "review":
		if day <= c.Today {
			c.Left.Review++
		}
	default:
		return
	}
	waiting[day]++
	if day <= c.Today {
		d.Due++
	}
}

// done counts the reviews in the histories, which must all be of today.
func (c *counted) done(t *testing.T, p pupil, points, trash []learned) {
	t.Helper()
	for _, x := range trash {
		p.call(t, "restore_knowledge_point", given{"id": x.ID}, &struct{}{})
	}
	for _, x := range slices.Concat(points, trash) {
		if x.State == "new" && len(x.Schedules) == 1 {
			// It may still have a history of undone reviews, which do not count.
			continue
		}
		log := p.history(t, x.ID)
		undone := map[string]bool{}
		for _, e := range log {
			undone[e.Undoes] = true
		}
		reviewed := 0
		for _, e := range log {
			if e.Kind == "review" && !undone[e.ID] {
				reviewed++
				if e.Grade == "again" {
					c.Done.Again++
				}
			}
		}
		c.Done.Reviews += reviewed
		c.Month += reviewed
		c.Done.New += min(reviewed, 1)
	}
	for _, x := range trash {
		p.call(t, "delete_knowledge_point", given{"id": x.ID}, &struct{}{})
	}
}

// entry is an entry of a point's history.
type entry struct {
	ID     string `json:"review_id"`
	Kind   string
	Grade  string
	Undoes string
}

// history returns a point's history.
func (p pupil) history(t *testing.T, id string) []entry {
	t.Helper()
	var all []entry
	for args := (given{"knowledge_point_id": id, "limit": 500}); ; {
		var page struct {
			Reviews []entry
			Next    *string `json:"next_cursor"`
		}
		p.call(t, "review_history", args, &page)
		all = append(all, page.Reviews...)
		if page.Next == nil {
			return all
		}
		args["cursor"] = *page.Next
	}
}
