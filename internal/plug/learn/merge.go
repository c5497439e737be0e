package learn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

const (
	// MaxMerge is how many reviews and undone reviews are merged at a time. Each point takes a
	// transaction, and a device must not wait for minutes.
	MaxMerge = 500
	// clockSlack is how far the clock of a device may be ahead, or a point be younger than its
	// review.
	clockSlack = 10 * time.Minute
	// oldestReview is how old a review may be when it arrives.
	oldestReview = 400 * 24 * time.Hour
	maxTook      = time.Hour
)

// OfflineReview is a review that was made where the server could not be reached.
type OfflineReview struct {
	ID     string // chosen by the device, unique for the person; 1 to 100 bytes
	Point  string
	Grade  store.Grade
	At     time.Time
	Took   time.Duration
	Recall string
}

// Offline is what a device did since it was last connected.
type Offline struct {
	Reviews []OfflineReview
	// Undone are the IDs of reviews that were taken back on the device, whether they have arrived
	// or not.
	Undone  []string
	Channel string
}

// MergeStatus is what became of a review that was made offline.
type MergeStatus string

// The statuses. A device forgets what it has sent after each of them but Early, which is to be sent
// again later, and Refused, which its person should see.
const (
	MergeCounted MergeStatus = "counted"
	MergeAlready MergeStatus = "already" // arrived before; nothing has changed
	MergeGone    MergeStatus = "gone"    // the point was deleted for good
	MergeUndone  MergeStatus = "undone"
	MergeUnknown MergeStatus = "unknown" // of an undone review: it never arrived
	MergeEarly   MergeStatus = "early"   // it lies in the future: the clock of the device is wrong
	MergeRefused MergeStatus = "refused"
)

// MergeResult is the result for one review.
type MergeResult struct {
	Review string
	Status MergeStatus
	Err    error // the reason of MergeRefused and MergeEarly, for people
}

const (
	msgTooMany   = i18n.Message("at most %d reviews are taken at a time")
	msgNoID      = i18n.Message("review_id is missing")
	msgFuture    = i18n.Message("the review lies in the future; check the clock of the device")
	msgTooOld    = i18n.Message("the review is older than %d days")
	msgOlder     = i18n.Message("the review is older than its point")
	msgUsedTwice = i18n.Message("review_id %s was used for something else; take a new one")
	msgTookRange = i18n.Message("took_ms is a number from 0 to 3600000")
	msgWhichOne  = i18n.Message("knowledge_point_id is missing")
)

// Merge takes reviews that were made elsewhere, in any order and as often as they are sent. The
// state of each point becomes the one that results from all its reviews in the order of their
// times: where one arrives after a later one, what follows it is computed again, with the current
// settings, and entries of the log get other computed fields ([store.LogRevision]). What is wrong
// with one review is told in its result, and keeps no other from being counted. The results are in
// the order of the reviews and then of the undone ones. An error means that some may have been
// counted, and that the same call can be repeated.
//
// Whether a point was due, or is suspended or in the trash now, does not matter: it was reviewed.
func (s *Service) Merge(ctx context.Context, person string, in Offline) ([]MergeResult, error) {
	if len(in.Reviews)+len(in.Undone) > MaxMerge {
		return nil, invalid(msgTooMany, MaxMerge)
	}
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	results := make([]MergeResult, len(in.Reviews)+len(in.Undone))
	points := map[string]*pointMerge{}
	group := func(id string) *pointMerge {
		if points[id] == nil {
			points[id] = &pointMerge{s: s, l: l, id: id, channel: in.Channel, results: results}
		}
		return points[id]
	}
	for i, r := range in.Reviews {
		results[i].Review = r.ID
		if status, err := checkOffline(&r, l.Now); err != nil {
			results[i].Status, results[i].Err = status, err
			continue
		}
		r.At = r.At.Truncate(time.Millisecond).UTC()
		m := group(r.Point)
		m.reviews = append(m.reviews, arrival{r, i})
	}
	for i, id := range in.Undone {
		at := len(in.Reviews) + i
		results[at] = MergeResult{Review: id, Status: MergeUnknown}
		if err := s.groupUndone(ctx, person, id, at, in.Reviews, results, group); err != nil {
			return nil, err
		}
	}
	order := make([]*pointMerge, 0, len(points))
	for _, m := range points {
		order = append(order, m)
	}
	// By time, so that what balance decides comes close to what it would have decided online.
	slices.SortFunc(order, func(a, b *pointMerge) int {
		return cmp.Or(a.first().Compare(b.first()), cmp.Compare(a.id, b.id))
	})
	for _, m := range order {
		if err := m.merge(ctx, person); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// checkOffline returns why a review cannot be counted.
func checkOffline(r *OfflineReview, now time.Time) (MergeStatus, error) {
	switch {
	case r.ID == "":
		return MergeRefused, invalid(msgNoID)
	case len(r.ID) > 100:
		return MergeRefused, invalid(i18n.Message("review_id has 100 bytes at most"))
	case r.Point == "":
		return MergeRefused, invalid(msgWhichOne)
	case r.Grade < store.Again || r.Grade > store.Easy:
		return MergeRefused, invalid(i18n.Message("the grade is again, hard, good or easy"))
	case len(r.Recall) > MaxText:
		return MergeRefused, invalid(i18n.Message("recall_text is longer than %d KiB"), MaxText>>10)
	case r.Took < 0 || r.Took > maxTook:
		return MergeRefused, invalid(msgTookRange)
	case r.At.After(now.Add(clockSlack)):
		return MergeEarly, invalid(msgFuture)
	case r.At.Before(now.Add(-oldestReview)):
		return MergeRefused, invalid(msgTooOld, int(oldestReview.Hours()/24))
	}
	return "", nil
}

// groupUndone adds an undone review to its point. A review of the same batch is not counted at all.
func (s *Service) groupUndone(ctx context.Context, person, id string, at int, batch []OfflineReview,
	results []MergeResult, group func(string) *pointMerge) error {
	for _, r := range batch {
		if r.ID == id && r.Point != "" {
			m := group(r.Point)
			m.undone = append(m.undone, undoneArrival{id, at})
			return nil
		}
	}
	e, err := s.Store.Learn.Entry(ctx, person, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("look up a review: %w", err)
	case e.Kind != store.LogReview:
		results[at].Status, results[at].Err = MergeRefused, invalid(i18n.Message("there is no review to undo"))
		return nil
	}
	points, err := s.Store.Learn.PointsByNumber(ctx, person, []int64{e.Point})
	if err != nil {
		return fmt.Errorf("look up a point: %w", err)
	}
	if len(points) == 0 {
		results[at].Status = MergeGone
		return nil
	}
	m := group(points[0].ID)
	m.undone = append(m.undone, undoneArrival{id, at})
	return nil
}

// arrival is a review with the index of its result.
type arrival struct {
	OfflineReview
	result int
}

// undoneArrival is an undone review with the index of its result.
type undoneArrival struct {
	id     string
	result int
}

// pointMerge merges the reviews of one point.
type pointMerge struct {
	s       *Service
	l       *Learner
	id      string
	channel string
	reviews []arrival
	undone  []undoneArrival
	results []MergeResult
}

func (m *pointMerge) first() (at time.Time) {
	for _, r := range m.reviews {
		if at.IsZero() || r.At.Before(at) {
			at = r.At
		}
	}
	return at
}

// merge merges the reviews of the point in one transaction.
func (m *pointMerge) merge(ctx context.Context, person string) error {
	var counted []store.LogEntry
	_, err := m.s.Store.Learn.Change(ctx, person, m.id, func(ctx context.Context, c *store.PointChange) (err error) {
		counted, err = m.change(ctx, c)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		for _, r := range m.reviews {
			m.results[r.result].Status = MergeGone
		}
		for _, u := range m.undone {
			m.results[u.result].Status = MergeUnknown
		}
		return nil
	case errors.Is(err, errAlreadySubmitted):
		return nil
	case err != nil:
		return fmt.Errorf("merge reviews: %w", err)
	}
	for _, e := range counted {
		m.s.reviews.WithLabelValues(e.Channel, GradeName(e.Grade)).Inc()
	}
	return nil
}

// change is the change of the point. It returns the reviews that are new.
func (m *pointMerge) change(ctx context.Context, c *store.PointChange) ([]store.LogEntry, error) {
	add, err := m.unknown(ctx, c)
	if err != nil {
		return nil, err
	}
	drop, err := m.dropped(ctx, c, &add)
	if err != nil {
		return nil, err
	}
	if len(add)+len(drop) == 0 {
		return nil, errAlreadySubmitted
	}
	return add, m.s.replay(ctx, c, m.l, add, drop, m.channel)
}

// unknown returns the reviews that the log does not have yet, and sets the results of all.
func (m *pointMerge) unknown(ctx context.Context, c *store.PointChange) (add []store.LogEntry, err error) {
	seen := map[string]bool{}
	for _, r := range m.reviews {
		result := &m.results[r.result]
		*result = MergeResult{Review: r.ID, Status: MergeAlready} // the change may be tried again
		if seen[r.ID] {
			continue
		}
		seen[r.ID] = true
		was, err := c.Entry(ctx, r.ID)
		switch {
		case err == nil && (was.Point != c.Point.Number || was.Kind != store.LogReview):
			result.Status, result.Err = MergeRefused, invalid(msgUsedTwice, truncateBytes(r.ID, 50))
			continue
		case err == nil:
			continue
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
		if r.At.Before(c.Point.Created.Add(-clockSlack)) {
			result.Status, result.Err = MergeRefused, invalid(msgOlder)
			continue
		}
		result.Status = MergeCounted
		add = append(add, store.LogEntry{
			ID: r.ID, Person: m.l.Person, Point: c.Point.Number, Kind: store.LogReview, At: r.At,
			Day: m.l.Calendar.Day(r.At), Zone: m.l.Calendar.Zone.String(), Grade: r.Grade, Recall: r.Recall,
			Score: -1, Took: r.Took, Channel: m.channel,
		})
	}
	return add, nil
}

// dropped returns the reviews to undo, and removes those from add that were undone before they
// arrived.
func (m *pointMerge) dropped(ctx context.Context, c *store.PointChange,
	add *[]store.LogEntry) (drop []store.LogEntry, err error) {
	for _, u := range m.undone {
		result := &m.results[u.result]
		*result = MergeResult{Review: u.id, Status: MergeUndone}
		if i := slices.IndexFunc(*add, func(e store.LogEntry) bool { return e.ID == u.id }); i >= 0 {
			*add = slices.Delete(*add, i, i+1)
			for _, r := range m.reviews {
				if r.ID == u.id {
					m.results[r.result].Status = MergeUndone
				}
			}
			continue
		}
		e, err := latestVersion(ctx, c.Entry, u.id) // it may have been corrected meanwhile
		if errors.Is(err, store.ErrNotFound) {
			result.Status = MergeUnknown
			continue
		}
		if err != nil {
			return nil, err
		}
		undone, err := c.Undone(ctx, e.ID)
		switch {
		case err != nil:
			return nil, err
		case e.Point != c.Point.Number || e.Kind != store.LogReview:
			result.Status, result.Err = MergeRefused, invalid(msgUsedTwice, truncateBytes(u.id, 50))
		case undone || slices.ContainsFunc(drop, func(d store.LogEntry) bool { return d.ID == e.ID }):
			result.Status = MergeAlready
		case len(e.Before) == 0:
			result.Status = MergeRefused
			result.Err = invalid(i18n.Message("this review was imported and cannot be undone here"))
		default:
			drop = append(drop, e)
		}
	}
	return drop, nil
}
