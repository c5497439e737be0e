package learn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
)

// QueueFilter says what of the queue is meant.
type QueueFilter struct {
	Deck   *string // id
	Tag    string
	Cursor string // where the page before ended; empty begins
	Limit  int
	// Ahead also takes points on their steps that are due within [aheadOfTime], if
	// nothing else is left.
	Ahead bool
}

// aheadOfTime is how early a point on its steps may come, when there is nothing
// else to do meanwhile: what was forgotten a minute ago may, what was known may not.
const aheadOfTime = 2 * time.Minute

// Left is how many points are left for today.
type Left struct {
	New     int `json:"new"`
	Steps   int `json:"learning"` // on their steps, today
	Reviews int `json:"review"`
	// Held are points that are due and held back by the limits of the day.
	Held int `json:"held_back"`
}

// Total is what will be asked today.
func (l Left) Total() int { return l.New + l.Steps + l.Reviews }

// Queue is a page of what is to be reviewed now, in its order.
type Queue struct {
	Learner *Learner
	Entries []Entry
	Cursor  string // of the next page; empty: there is none
	Left    Left   // of all that the filter's deck has; tags are not heeded
	// Later is when the next point on its steps is due, if nothing is now; zero:
	// today there is none.
	Later time.Time
}

// budget is what may still be done today.
type budget struct {
	New     int `json:"n"`
	Reviews int `json:"r"`
}

// cursor is where a page of the queue ended.
type cursor struct {
	Key  store.QueueKey    `json:"k"`
	Used map[string]budget `json:"u,omitempty"`
}

// Queue lists what is to be reviewed now: first what waits on its steps, then what
// was due longest, then what is new, as much as the limits of the day allow. Reading
// it reserves nothing.
func (s *Service) Queue(ctx context.Context, person string, f QueueFilter) (*Queue, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	return s.queue(ctx, l, f)
}

// queue is [Service.Queue] for somebody who was looked up already.
func (s *Service) queue(ctx context.Context, l *Learner, f QueueFilter) (*Queue, error) {
	var from cursor
	if f.Cursor != "" {
		text, err := base64.RawURLEncoding.DecodeString(f.Cursor)
		if err != nil || json.Unmarshal(text, &from) != nil || from.Key.Number == 0 {
			return nil, invalid(sayNoCursor)
		}
	}
	budgets, err := s.budgets(ctx, l)
	if err != nil {
		return nil, err
	}
	out := &Queue{Learner: l}
	if out.Left, err = s.left(ctx, l, f.Deck, budgets); err != nil {
		return nil, err
	}
	p := pager{s: s, l: l, f: f, budgets: budgets, used: from.Used}
	if p.used == nil {
		p.used = map[string]budget{}
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
			out.Later = ahead[0].Card.DueAt
			if f.Ahead && out.Later.Sub(l.Now) <= aheadOfTime {
				points = ahead
			}
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

// pager reads a queue, as far as the budgets go.
type pager struct {
	s       *Service
	l       *Learner
	f       QueueFilter
	budgets map[string]budget
	used    map[string]budget // by the pages before
}

// maxScan is how many points with no budget left are passed over for one page, in
// steps of the page; the exhausted decks are mostly left out by the query already.
const maxScan = 5

func (p *pager) page(ctx context.Context, q store.Queue, after store.QueueKey, now time.Time, limit int) ([]store.Point, error) {
	var out []store.Point
	for range maxScan {
		want := limit - len(out)
		if want <= 0 {
			break
		}
		skip, none := p.exhausted(q)
		if none {
			break
		}
		got, err := p.s.Store.Learn.Queued(ctx, p.l.Person, store.QueueFilter{Queue: q, Today: p.l.Today, Now: now, Deck: p.f.Deck, Tag: p.f.Tag, Skip: skip}, after, want)
		if err != nil {
			return nil, err
		}
		for i := range got {
			if p.take(&got[i]) {
				out = append(out, got[i])
			}
		}
		if len(got) < want {
			break
		}
		after = store.KeyOf(&got[len(got)-1])
	}
	return out, nil
}

// take uses the budget for a point, if there is any left.
func (p *pager) take(point *store.Point) bool {
	g := p.l.group(point.Deck)
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

// usedBy is the budget that all pages until now have used.
func (p *pager) usedBy(points []store.Point) map[string]budget {
	out := map[string]budget{}
	for g, b := range p.used {
		out[g] = b
	}
	for i := range points {
		g := p.l.group(points[i].Deck)
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

// exhausted are the decks of which nothing more may be asked; none says that this
// holds for all.
func (p *pager) exhausted(q store.Queue) (skip []string, none bool) {
	if q == store.QueueSteps {
		return nil, false
	}
	none = true
	for _, deck := range append([]store.Deck{{}}, p.l.Decks...) {
		b := p.budgets[p.l.group(deck.ID)]
		if q == store.QueueNew && b.New <= 0 || q == store.QueueDay && b.Reviews <= 0 {
			skip = append(skip, deck.ID)
		} else {
			none = false
		}
	}
	return skip, none
}

// group says which decks share their limits: those with limits of their own share
// them with nobody.
func (l *Learner) group(deck string) string {
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

// budgets are what may still be done today, by group.
func (s *Service) budgets(ctx context.Context, l *Learner) (map[string]budget, error) {
	out := map[string]budget{"": {l.common.NewPerDay, l.common.ReviewsPerDay}}
	for _, d := range l.Decks {
		if g := l.group(d.ID); g != "" {
			settings := l.Settings(d.ID)
			out[g] = budget{settings.NewPerDay, settings.ReviewsPerDay}
		}
	}
	work, err := s.Store.Learn.Work(ctx, l.Person, l.Today)
	if err != nil {
		return nil, fmt.Errorf("look up what was done today: %w", err)
	}
	for _, w := range work {
		if w.Day != l.Today {
			continue
		}
		g := l.group(w.Deck)
		b := out[g]
		out[g] = budget{b.New - w.Fresh, b.Reviews - w.Due}
	}
	return out, nil
}

// left counts what is left for today.
func (s *Service) left(ctx context.Context, l *Learner, deck *string, budgets map[string]budget) (Left, error) {
	var out Left
	waiting, err := s.Store.Learn.Waiting(ctx, l.Person, l.Today)
	if err != nil {
		return out, fmt.Errorf("count what waits: %w", err)
	}
	buried, err := s.Store.Learn.Buried(ctx, l.Person, l.Today)
	if err != nil {
		return out, fmt.Errorf("count what waits: %w", err)
	}
	for i := range buried {
		buried[i].N = -buried[i].N
	}
	wants := map[string]budget{}
	for _, c := range append(waiting, buried...) {
		if deck != nil && c.Deck != *deck {
			continue
		}
		g := l.group(c.Deck)
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
		out.Held += b.New - fresh + b.Reviews - reviews
	}
	return out, nil
}

// Preview says what each grade would lead to now.
func (l *Learner) Preview(p *store.Point) [4]schedule.Choice {
	return schedule.Preview(p.Card, l.Settings(p.Deck), l.Calendar, l.Now)
}

// NextDay finds the next day after today on which something is due, and how much; 0:
// nothing is, in a year.
func (s *Service) NextDay(ctx context.Context, l *Learner) (day store.Day, n int, err error) {
	counts, err := s.Store.Learn.Forecast(ctx, l.Person, l.Today+1, l.Today+forecastMost)
	if err != nil || len(counts) == 0 {
		return 0, 0, err
	}
	day = counts[0].Day // they are in the order of their days
	for _, c := range counts {
		if c.Day == day {
			n += c.N
		}
	}
	return day, n, nil
}
