package learn

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"patchbay/internal/store"
)

// Cramming goes through all points that an expression selects, whether they are due or not, oldest
// first. By itself it changes nothing: no date moves, and nothing is counted. A program or a person
// that wants a review to count submits it as an early one, which the memory model takes for what it
// is: little is gained by recalling what was not forgotten yet.

// CramPage are some of the points of a cram session.
type CramPage struct {
	Learner *Learner
	Entries []Entry
	After   int64 // where the next page begins; 0: there is none
	// Total is the number of points of the whole session, at most [MaxCramCount], on the first
	// page; 0 on later ones.
	Total int
}

// MaxCramCount is the number of points of a cram session that are counted: a count reads them all.
const MaxCramCount = 500

// CramCursor returns the position after a point of a cram session, by its number, with the number
// of points of the session, so that it is counted once.
func CramCursor(number int64, total int) string { return fmt.Sprintf("%d.%d", number, total) }

// CramPosition reads a cursor of [CramCursor]; empty is the beginning. total is 0 if it is missing.
func CramPosition(cursor string) (after int64, total int, err error) {
	if cursor == "" {
		return 0, 0, nil
	}
	number, of, counted := strings.Cut(cursor, ".")
	after, err = strconv.ParseInt(number, 10, 64)
	if err == nil && counted {
		total, err = strconv.Atoi(of)
	}
	if err != nil || after < 0 || total < 0 {
		return 0, 0, invalid(msgNoCursor)
	}
	return after, total, nil
}

// Cram lists points to cram after a position, 0 for the first. Drafts are left out, and what is
// suspended unless the expression asks for it.
func (s *Service) Cram(ctx context.Context, person string, x *Expression, after int64, limit int) (*CramPage, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	return s.cram(ctx, l, x, after, limit)
}

// cram is [Service.Cram] for a person who is loaded already.
func (s *Service) cram(ctx context.Context, l *Learner, x *Expression, after int64, limit int) (*CramPage, error) {
	f, err := x.Selection(l)
	if err != nil {
		return nil, err
	}
	for _, field := range []store.Field{store.FieldDraft, store.FieldSuspended} {
		if field == store.FieldDraft || !x.mentions(field) {
			f.Where = append(f.Where, store.Condition{Field: field, Not: true})
		}
	}
	out := &CramPage{Learner: l}
	if after == 0 {
		if out.Total, err = s.Store.Learn.CountSelected(ctx, l.Person, f, MaxCramCount); err != nil {
			return nil, err
		}
	}
	numbers, err := s.Store.Learn.SelectNumbers(ctx, l.Person, f, after, limit+1)
	if err != nil {
		return nil, err
	}
	if len(numbers) > limit {
		numbers = numbers[:limit]
		out.After = numbers[limit-1]
	}
	points, err := s.Store.Learn.PointsByNumber(ctx, l.Person, numbers)
	if err != nil {
		return nil, err
	}
	sortByNumber(points)
	out.Entries, err = s.entries(ctx, points)
	return out, err
}
