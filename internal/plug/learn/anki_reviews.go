package learn

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/plug/learn/transfer/apkg"
	"patchbay/internal/store"
)

// AnkiReview is a review in the columns of Anki's table (revlog; rslib/src/revlog/mod.rs).
type AnkiReview struct {
	ID       int64 // milliseconds since 1970
	Point    int64 // number of the point
	Ease     int64 // 1 to 4
	Interval int64 // until the next review: days, or seconds below zero
	Last     int64 // the interval before
	Factor   int64 // thousandths; 0 where the memory model is FSRS
	Took     int64 // milliseconds
	Kind     int64 // 0 learning, 1 review, 2 relearning
}

// AnkiInterval returns the interval of a card: in days, or while it is on steps, in seconds below
// zero; 0 if it was never reviewed.
func AnkiInterval(c *store.Card) int64 {
	switch {
	case c.Phase == store.New:
		return 0
	case !c.DueAt.IsZero():
		return -max(int64(c.DueAt.Sub(c.LastAt).Seconds()), 1)
	case c.LastDay > 0:
		return max(int64(c.Due-c.LastDay), 1)
	}
	return 1
}

// AnkiFactor returns the ease of a card in thousandths: that which it had in Anki, 2500 if it was
// made here, and 0 before its first review. It does not matter to dates here, which FSRS computes.
func AnkiFactor(p *store.Point) int64 {
	if c, ok := transfer.ParseCardSource(p.Source); ok && c.Card.Factor > 0 {
		return c.Card.Factor
	}
	if p.Card.Phase == store.New {
		return 0
	}
	return 2500
}

func ankiReview(e *store.LogEntry) AnkiReview {
	r := AnkiReview{ID: e.At.UnixMilli(), Point: e.Point, Ease: int64(e.Grade), Took: e.Took.Milliseconds()}
	if r.Ease == 0 { // a review that was not judged counts as good
		r.Ease = int64(store.Good)
	}
	var row apkg.LogRow
	if e.Source != "" && json.Unmarshal([]byte(e.Source), &row) == nil && row.ID != 0 {
		r.ID, r.Interval, r.Last, r.Factor, r.Kind = row.ID, row.Interval, row.Last, row.Factor, row.Kind
		return r
	}
	var before, after store.Card
	if json.Unmarshal(e.After, &after) == nil {
		r.Interval = AnkiInterval(&after)
	}
	if json.Unmarshal(e.Before, &before) == nil {
		r.Last = AnkiInterval(&before)
		switch before.Phase {
		case store.Review, store.Done:
			r.Kind = 1
		case store.Relearning:
			r.Kind = 2
		}
	}
	return r
}

// AnkiReviews lists the reviews of a point that were not undone, oldest first.
func (s *Service) AnkiReviews(ctx context.Context, p *store.Point) ([]AnkiReview, error) {
	list, err := s.Log(ctx, p.Person, &Entry{Point: *p})
	if err != nil {
		return nil, fmt.Errorf("look up reviews: %w", err)
	}
	undone := map[string]bool{}
	for _, e := range list {
		if e.Undoes != "" {
			undone[e.Undoes] = true
		}
	}
	out := []AnkiReview{}
	for i := range list {
		if e := &list[i]; e.Kind == store.LogReview && !undone[e.ID] {
			out = append(out, ankiReview(e))
		}
	}
	return out, nil
}

// AnkiReviewsOfDeck lists the reviews of the points of a deck, by its ID, after a moment, oldest
// first.
func (s *Service) AnkiReviewsOfDeck(ctx context.Context, person, deck string, after time.Time,
	limit int) ([]AnkiReview, error) {
	list, err := s.Store.Learn.Reviews(ctx, person, &deck, after.UnixMilli(), limit)
	if err != nil {
		return nil, fmt.Errorf("look up reviews: %w", err)
	}
	out := make([]AnkiReview, len(list))
	for i := range list {
		out[i] = ankiReview(&list[i])
	}
	return out, nil
}

// LatestReview returns the number of the last review of the points of a deck, by its ID; 0 if there
// is none.
func (s *Service) LatestReview(ctx context.Context, person, deck string) (int64, error) {
	at, err := s.Store.Learn.LastReviewOfDeck(ctx, person, deck)
	if err != nil {
		return 0, fmt.Errorf("look up the last review: %w", err)
	}
	return at, nil
}

// ReviewsByDay counts the reviews of each day since one.
func (s *Service) ReviewsByDay(ctx context.Context, person string, from store.Day) (map[store.Day]int, error) {
	work, err := s.Store.Learn.Work(ctx, person, from)
	if err != nil {
		return nil, fmt.Errorf("look up the reviews of days: %w", err)
	}
	out := map[store.Day]int{}
	for i := range work {
		out[work[i].Day] += work[i].Reviews()
	}
	return out, nil
}
