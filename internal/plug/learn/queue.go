package learn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"patchbay/internal/store"
)

// QueueFilter selects a part of the queue.
type QueueFilter struct {
	Deck   *string // ID
	Tag    string
	Query  *Expression // nil: all
	Cursor string      // cursor of the page before; empty: first page
	Limit  int
	// Ahead adds points on their learning steps that are due within [aheadWindow], if nothing else
	// is left.
	Ahead bool
	// Count also counts the points of the whole filter, with tag and query, and leaves kin out of
	// the counts that will be hidden, but see Asks.
	Count bool
	// Asks is set where Left is shown only if nothing is asked: otherwise, hidden kin may be in it.
	Asks bool
}

// aheadWindow is how early a point on its learning steps may be asked when nothing else is due:
// long enough for the first step (1 minute), too short for the second (10 minutes).
const aheadWindow = 2 * time.Minute

// Remaining counts the points left for today.
type Remaining struct {
	New     int `json:"new"`
	Steps   int `json:"learning"` // on learning steps, due today
	Reviews int `json:"review"`
	// HeldBack counts points that are due but exceed the daily limits.
	HeldBack int `json:"held_back"`
}

// Total is the number of points that will be asked today.
func (l Remaining) Total() int { return l.New + l.Steps + l.Reviews }

// Queue is one page of the points to review now, in order.
type Queue struct {
	Learner *Learner
	Entries []Entry
	Cursor  string    // of the next page; empty: last page
	Left    Remaining // of the filter's deck; ignores tags and queries
	// Matching is the number of points of the whole filter that will be asked today, if it was to
	// be counted.
	Matching int
	// NextStepDue is when the next point on its learning steps is due, if nothing is due now. It is
	// zero if none is due today.
	NextStepDue time.Time
}

// budget is how many points may still be asked today.
type budget struct {
	New     int `json:"n"`
	Reviews int `json:"r"`
}

// cursor is the position where a page of the queue ended.
type cursor struct {
	Key  store.QueueKey    `json:"k"`
	Used map[string]budget `json:"u,omitempty"`
}

// Queue lists the points to review now: first those on learning steps, then overdue reviews,
// longest overdue first, then new points, within the daily limits. Reading the queue reserves
// nothing.
func (s *Service) Queue(ctx context.Context, person string, f QueueFilter) (*Queue, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	return s.QueueOf(ctx, l, f)
}

// QueueOf is [Service.Queue] for a person who is loaded already.
func (s *Service) QueueOf(ctx context.Context, l *Learner, f QueueFilter) (*Queue, error) {
	var from cursor
	if f.Cursor != "" {
		text, err := base64.RawURLEncoding.DecodeString(f.Cursor)
		if err != nil || json.Unmarshal(text, &from) != nil || from.Key.Number == 0 {
			return nil, invalid(msgNoCursor)
		}
	}
	which := store.QueueFilter{Today: l.Today, Deck: f.Deck, Tag: f.Tag}
	if f.Query != nil {
		selected, err := f.Query.Selection(l)
		if err != nil {
			return nil, err
		}
		which.Where = selected.Where
	}
	today, sizes, err := s.Store.Learn.TodayOf(ctx, l.Person, which)
	if err != nil {
		return nil, fmt.Errorf("count what waits: %w", err)
	}
	which.Sizes = sizes
	p := pager{s: s, l: l, f: f, which: which, waiting: today.Waiting, budgets: l.budgets(today.Work), used: from.Used}
	if p.used == nil {
		p.used = map[string]budget{}
	}
	part := f.Tag != "" || len(which.Where) > 0
	later := f.Asks && part
	out := &Queue{Learner: l}
	all := maps.Clone(p.budgets)
	if out.Left, err = s.left(ctx, l, f.Deck, all, &today, f.Count && !later); err != nil {
		return nil, err
	}
	if out.Matching = out.Left.Total(); f.Count && part {
		if out.Matching, err = p.count(ctx); err != nil {
			return nil, err
		}
	}
	for g, b := range p.used {
		have := p.budgets[g]
		p.budgets[g] = budget{have.New - b.New, have.Reviews - b.Reviews}
	}
	order := []store.Queue{store.QueueSteps, store.QueueDay, store.QueueNew}
	if from.Key.Number != 0 {
		order = order[max(slices.Index(order, from.Key.Queue), 0):]
	}
	var points []store.Point
	for i, q := range order {
		after := store.QueueKey{}
		if i == 0 {
			after = from.Key
		}
		more, err := p.page(ctx, q, after, l.Now, f.Limit+1-len(points))
		if err != nil {
			return nil, fmt.Errorf("look up the queue: %w", err)
		}
		if points = append(points, more...); len(points) > f.Limit {
			break
		}
	}
	if len(points) == 0 && f.Cursor == "" {
		ahead, err := p.page(ctx, store.QueueSteps, store.QueueKey{}, l.Now.Add(24*time.Hour), 1)
		if err != nil {
			return nil, fmt.Errorf("look up the queue: %w", err)
		}
		if len(ahead) > 0 {
			out.NextStepDue = ahead[0].Card.DueAt
			if f.Ahead && out.NextStepDue.Sub(l.Now) <= aheadWindow {
				points = ahead
			}
		}
	}
	if len(points) == 0 && f.Count && later {
		if out.Left, err = s.left(ctx, l, f.Deck, all, &today, true); err != nil {
			return nil, err
		}
	}
	if len(points) > f.Limit {
		points = points[:f.Limit]
		last := &points[len(points)-1]
		text, err := json.Marshal(cursor{Key: store.KeyOf(last), Used: p.usedBy(points)})
		if err != nil {
			return nil, err
		}
		out.Cursor = base64.RawURLEncoding.EncodeToString(text)
	}
	out.Entries, err = s.entries(ctx, points)
	return out, err
}

// pager reads pages of a queue within the budgets.
type pager struct {
	s       *Service
	l       *Learner
	f       QueueFilter
	which   store.QueueFilter // what f selects in a queue
	waiting []store.Count     // of all decks, as of [store.Learn.Waiting]
	budgets map[string]budget
	used    map[string]budget // by earlier pages
	empty   []store.Queue     // without a point of the filter, as far as they were counted
}

// maxScan limits how many points without budget one page may skip, in multiples of the page size;
// the query already leaves out most exhausted decks.
const maxScan = 5

func (p *pager) page(ctx context.Context, q store.Queue, after store.QueueKey, now time.Time,
	limit int) ([]store.Point, error) {
	var out []store.Point
	if slices.Contains(p.empty, q) {
		return nil, nil
	}
	for range maxScan {
		want := limit - len(out)
		if want <= 0 {
			break
		}
		in := p.which
		if in.Queue, in.Now = q, now; !p.within(&in) {
			break
		}
		got, err := p.s.Store.Learn.Queued(ctx, p.l.Person, in, after, want)
		if err != nil {
			return nil, err
		}
		whole := len(got) == want
		if whole {
			after = store.KeyOf(&got[want-1])
		}
		taken := got[:0]
		for i := range got {
			if p.take(&got[i]) {
				taken = append(taken, got[i])
			}
		}
		if out == nil {
			out = taken
		} else {
			out = append(out, taken...)
		}
		if !whole {
			break
		}
	}
	return out, nil
}

// take spends the budget on a point. It reports whether any was left.
func (p *pager) take(point *store.Point) bool {
	g := p.l.limitGroup(point.Deck)
	b := p.budgets[g]
	switch point.Queue() {
	case store.QueueNew:
		if b.New <= 0 {
			return false
		}
		b.New--
	case store.QueueDay:
		if b.Reviews <= 0 {
			return false
		}
		b.Reviews--
	}
	p.budgets[g] = b
	return true
}

// usedBy returns the budget that all pages so far have used.
func (p *pager) usedBy(points []store.Point) map[string]budget {
	out := map[string]budget{}
	for g, b := range p.used {
		out[g] = b
	}
	for i := range points {
		g := p.l.limitGroup(points[i].Deck)
		b := out[g]
		switch points[i].Queue() {
		case store.QueueNew:
			b.New++
		case store.QueueDay:
			b.Reviews++
		}
		out[g] = b
	}
	return out
}

// within restricts a query of a queue to the decks whose budget is not used up, of those with
// points that wait. It reports whether there are any.
func (p *pager) within(in *store.QueueFilter) bool {
	if in.Queue == store.QueueSteps {
		return in.Sizes.Waiting(in.Queue) > 0
	}
	var open []string
	for _, c := range p.waiting {
		if c.Queue != in.Queue || c.N <= 0 || in.Deck != nil && c.Deck != *in.Deck {
			continue
		}
		b := p.budgets[p.l.limitGroup(c.Deck)]
		if in.Queue == store.QueueNew && b.New <= 0 || in.Queue == store.QueueDay && b.Reviews <= 0 {
			in.Skip = append(in.Skip, c.Deck)
		} else {
			open = append(open, c.Deck)
		}
	}
	if len(open) == 1 && in.Deck == nil && len(in.Skip) > 0 { // the index of its points, not that of all decks
		in.Deck, in.Skip, in.Sizes = &open[0], nil, nil
	}
	return len(open) > 0
}

// count counts the points of the filter that are left for today, within the budgets.
func (p *pager) count(ctx context.Context) (int, error) {
	countsOf := func(most map[store.Queue]int) ([]store.Count, error) {
		var queues []store.QueueFilter
		var limits []int
		for _, q := range []store.Queue{store.QueueSteps, store.QueueDay, store.QueueNew} {
			if most[q] > 0 {
				in := p.which
				in.Queue, in.Now = q, p.l.Calendar.StartOf(p.l.Today+1)
				queues, limits = append(queues, in), append(limits, most[q])
			}
		}
		counts, err := p.s.Store.Learn.CountQueued(ctx, p.l.Person, queues, limits)
		if err != nil {
			return nil, fmt.Errorf("count what is left: %w", err)
		}
		return counts, nil
	}
	most := map[store.Queue]int{}
	for _, q := range []store.Queue{store.QueueSteps, store.QueueDay, store.QueueNew} {
		most[q] = p.budgetOf(q)
	}
	counts, err := countsOf(most)
	if err != nil {
		return 0, err
	}
	// What is on its steps is also asked for the hours after midnight.
	for _, q := range []store.Queue{store.QueueDay, store.QueueNew} {
		if most[q] > 0 && !slices.ContainsFunc(counts, func(c store.Count) bool { return c.Queue == q }) {
			p.empty = append(p.empty, q)
		}
	}
	hidden, err := p.s.hiddenKin(ctx, p.l, p.which, counts, p.budgets)
	if err != nil {
		return 0, err
	}
	more := map[store.Queue]int{}
	for _, h := range hidden {
		if most[h.Queue] < math.MaxInt32 { // others behind them take their places
			more[h.Queue]++
		}
	}
	if len(more) > 0 {
		for q := range more {
			counts = slices.DeleteFunc(counts, func(c store.Count) bool { return c.Queue == q })
			more[q] += most[q]
		}
		again, err := countsOf(more)
		if err != nil {
			return 0, err
		}
		counts = append(counts, again...)
	}
	left := p.l.within(p.budgets, append(counts, hidden...))
	return left.Total(), nil
}

// budgetOf returns how many points of a queue are worth counting: what is left of the limit that
// all decks of the filter share. If they have several limits, that is all of them.
func (p *pager) budgetOf(q store.Queue) int {
	shared := ""
	if p.f.Deck != nil {
		shared = p.l.limitGroup(*p.f.Deck)
	} else if slices.ContainsFunc(p.l.Decks, func(d store.Deck) bool { return p.l.limitGroup(d.ID) != shared }) {
		return math.MaxInt32
	}
	switch b := p.budgets[shared]; q {
	case store.QueueNew:
		return b.New
	case store.QueueDay:
		return b.Reviews
	}
	return math.MaxInt32
}

// limitGroup returns the group of decks that share daily limits with a deck. A deck with limits of
// its own is its own group.
func (l *Learner) limitGroup(deck string) string {
	if d := l.deck(deck); d != nil {
		var own struct {
			New     *int `json:"new_per_day"`
			Reviews *int `json:"reviews_per_day"`
		}
		if json.Unmarshal(d.Settings, &own) == nil && (own.New != nil || own.Reviews != nil) {
			return deck
		}
	}
	return ""
}

// fullBudgets returns what may be asked on a day, by group.
func (l *Learner) fullBudgets() map[string]budget {
	out := map[string]budget{"": {l.common.NewPerDay, l.common.ReviewsPerDay}}
	for _, d := range l.Decks {
		if g := l.limitGroup(d.ID); g != "" {
			settings := l.Settings(d.ID)
			out[g] = budget{settings.NewPerDay, settings.ReviewsPerDay}
		}
	}
	return out
}

// budgets returns what may still be asked today, by group.
func (l *Learner) budgets(work []store.DayWork) map[string]budget {
	out := l.fullBudgets()
	for _, w := range work {
		if w.Day != l.Today {
			continue
		}
		g := l.limitGroup(w.Deck)
		b := out[g]
		out[g] = budget{b.New - w.Fresh, b.Reviews - w.Due}
	}
	return out
}

// waiting returns the points that wait on a day, of one deck if it is not nil.
func waiting(deck *string, today *store.Today) []store.Count {
	counts := slices.Clone(today.Waiting)
	for _, c := range today.Buried {
		c.N = -c.N
		counts = append(counts, c)
	}
	if deck != nil {
		counts = slices.DeleteFunc(counts, func(c store.Count) bool { return c.Deck != *deck })
	}
	return counts
}

// left counts the points left for a day. Kin that will be hidden count if kin is not set, which
// saves looking for them.
func (s *Service) left(ctx context.Context, l *Learner, deck *string, budgets map[string]budget, today *store.Today,
	kin bool) (Remaining, error) {
	counts := waiting(deck, today)
	if kin {
		hidden, err := s.hiddenKin(ctx, l, store.QueueFilter{Deck: deck}, counts, budgets)
		if err != nil {
			return Remaining{}, err
		}
		counts = append(counts, hidden...)
	}
	return l.within(budgets, counts), nil
}

// within returns how many of the counted points are asked within the budgets.
func (l *Learner) within(budgets map[string]budget, counts []store.Count) (out Remaining) {
	wants := map[string]budget{}
	for _, c := range counts {
		g := l.limitGroup(c.Deck)
		b := wants[g]
		switch c.Queue {
		case store.QueueNew:
			b.New += c.N
		case store.QueueDay:
			b.Reviews += c.N
		case store.QueueSteps:
			out.Steps += c.N
		}
		wants[g] = b
	}
	for g, b := range wants {
		most := budgets[g]
		fresh, reviews := min(b.New, max(most.New, 0)), min(b.Reviews, max(most.Reviews, 0))
		out.New += fresh
		out.Reviews += reviews
		out.HeldBack += b.New - fresh + b.Reviews - reviews
	}
	return out
}
