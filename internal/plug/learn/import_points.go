package learn

import (
	"slices"
	"strings"

	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/store"
)

// point makes a new point from an item, with its plan.
func (in *importRun) point(deck string, item *transfer.Item) store.NewPoint {
	l := in.l
	p := store.Point{
		ID: item.ID, Person: l.Person, Deck: deck, Question: strings.TrimSpace(item.Question),
		Answer: strings.TrimSpace(item.Answer), Tags: item.Tags,
		InPlan: item.InPlan, Suspended: item.Suspended, Draft: item.Draft, Kin: item.Kin, Origin: item.Origin,
		Created: item.Created, Updated: item.Updated, Ord: item.Ord, Flag: item.Flag, Source: item.Source,
	}
	if p.ID == "" || len(p.ID) > 100 {
		p.ID = newID()
	}
	if p.Created.IsZero() || p.Created.After(l.Now) {
		p.Created = l.Now
	}
	if p.Updated.IsZero() {
		p.Updated = p.Created
	}
	p.Words = IndexWords(p.Question, p.Answer, p.Tags...)
	n := store.NewPoint{Point: p}
	reviewed := false
	for _, e := range item.History {
		e.Day, e.Zone, e.Elapsed = l.Calendar.Day(e.At), l.Calendar.Zone.String(), max(e.Elapsed, 0)
		if review := e.Kind == store.LogReview || e.Kind == ""; review && !reviewed {
			e.Elapsed, reviewed = -1, true
		}
		if e.ID == "" {
			e.ID = newID()
		}
		if e.Kind == "" {
			e.Kind = store.LogReview
		}
		e.Queue, e.Before, e.After, e.Channel = store.QueueDay, nil, nil, "import"
		n.Log = append(n.Log, e)
	}
	in.plan(&n, item)
	imported(&n.Point)
	return n
}

// plan sets the dates of an imported point.
func (in *importRun) plan(n *store.NewPoint, item *transfer.Item) {
	l, p := in.l, &n.Point
	settings := l.Settings(p.Deck)
	open := slices.ContainsFunc(item.Sittings, func(v store.Sitting) bool { return v.Completed.IsZero() })
	if item.Card != nil && (open || item.Card.Phase == store.Done) { // exported by Patchbay
		p.Card, n.Sittings = *item.Card, in.sittings(item)
		return
	}
	n.Sittings = in.sittings(item)
	classic := settings.Schedule == schedule.Classic
	if !classic || !open {
		n.Sittings = slices.DeleteFunc(n.Sittings, func(v store.Sitting) bool { return v.Completed.IsZero() })
	}
	reviews := make([]schedule.Review, 0, len(n.Log))
	for _, e := range n.Log {
		if e.Kind == store.LogReview {
			reviews = append(reviews, schedule.Review{Grade: e.Grade, At: e.At})
		}
	}
	switch {
	case item.Card != nil:
		p.Card = *item.Card
	case len(reviews) > 0:
		// An old review must not put the point back on learning steps of minutes.
		whole := settings
		whole.Steps, whole.Relearn = nil, nil
		p.Card = schedule.Replay(whole, l.Calendar, p.Created, reviews)
	case !classic || !open:
		startPlan(p, &n.Sittings, l)
		return
	}
	if classic && open { // a classic course continues on its own dates
		p.Card.Phase, p.Card.Due = store.Review, (&Entry{*p, n.Sittings}).OpenSitting().Day
		return
	}
	change := store.PointChange{Point: *p, Sittings: n.Sittings}
	if classic {
		resumeCourse(&change, l)
	} else {
		if p.Card.Phase == store.Done {
			change.Point.Card = schedule.ToFSRS(p.Card, settings)
		}
		number := max(len(reviews), len(n.Sittings)) + 1
		change.Sittings = append(change.Sittings, store.Sitting{ID: newID(), Day: change.Point.Card.Due, Number: number,
			Created: l.Now})
	}
	n.Point.Card, n.Sittings = change.Point.Card, change.Sittings
}

func (in *importRun) sittings(item *transfer.Item) []store.Sitting {
	out := slices.Clone(item.Sittings)
	for i := range out {
		if out[i].ID == "" || in.seen[out[i].ID] {
			out[i].ID = newID()
		}
		in.seen[out[i].ID] = true
		if out[i].Created.IsZero() {
			out[i].Created = in.l.Now
		}
	}
	return out
}
