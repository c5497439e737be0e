package learn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/card"
	"patchbay/internal/plug/learn/fsrs"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
)

// Limits of what a device takes along. They bound what a browser stores, and the time of a request.
const (
	MaxPackDays  = 30
	maxPackCards = 2000
	maxPackText  = 8 << 20 // bytes of all questions and answers
)

// show fills in what a device shows of a point: HTML for a part of a page, or the addresses of
// frames for a card of a note, and what has to be kept for it.
func (c *PackCard) show(p *store.Point, v *CardView) {
	c.Media = []string{}
	for _, name := range v.Media {
		c.Media = append(c.Media, card.MediaPath+url.PathEscape(name))
	}
	if c.Framed = v.Framed; !v.Framed {
		c.Question, c.Answer = v.Front, v.Back
		return
	}
	// What is shown makes the address another one when it changes.
	sum := sha256.Sum256([]byte(v.CSS + "\x00" + v.Front + "\x00" + v.Back))
	frame := "/learn/points/" + url.PathEscape(p.ID) + "/card?v=" + hex.EncodeToString(sum[:6])
	c.Question, c.Answer = frame+"&side=front", frame+"&side=back"
	c.Media = append(c.Media, c.Question, c.Answer)
}

// Pack is what a device needs to go on without the server for some days: the points that are due
// until then, with new ones up to the limits of the days, and all that decides what comes when.
// Days are counted from 1970-01-01, times are in milliseconds since then.
type Pack struct {
	Person   string       `json:"person"`
	Made     int64        `json:"made_at"`
	Today    store.DayNum `json:"today"`
	Until    store.DayNum `json:"until"` // the last day for which it has the points
	Calendar PackCalendar `json:"calendar"`
	// Groups are decks that share limits; the names of decks with limits of their own are their
	// IDs, and the others share "".
	Groups map[string]PackGroup `json:"groups"`
	Decks  []PackDeck           `json:"decks"` // the default one, with the ID "", first
	Cards  []PackCard           `json:"cards"`
	More   bool                 `json:"more,omitempty"` // there were too many points
}

// PackCalendar says when days begin.
type PackCalendar struct {
	Zone  string     `json:"zone"`
	Start int64      `json:"start"` // of a day, in milliseconds after midnight
	Spans []PackSpan `json:"spans"` // by time; the first one counts for all times before it, too
}

// PackSpan is a time from which clocks have an offset from UTC.
type PackSpan struct {
	From   int64 `json:"from"`
	Offset int64 `json:"offset"` // in milliseconds
}

// PackGroup are the limits of a day, and what today leaves of them.
type PackGroup struct {
	NewPerDay     int `json:"new_per_day"`
	ReviewsPerDay int `json:"reviews_per_day"`
	NewLeft       int `json:"new_left"`
	ReviewsLeft   int `json:"reviews_left"`
}

// PackDeck is a deck with all its settings; the weights are never empty.
type PackDeck struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Group    string            `json:"group"`
	Settings schedule.Settings `json:"settings"`
}

// PackCard is a point.
type PackCard struct {
	ID   string   `json:"id"`
	Deck string   `json:"deck"`
	Tags []string `json:"tags,omitempty"`
	// Question and Answer are HTML; of a framed card, the addresses of documents that are shown in
	// frames of their own.
	Question string   `json:"question"`
	Answer   string   `json:"answer"`
	Framed   bool     `json:"framed,omitempty"`
	Media    []string `json:"media"` // addresses to keep
	Kin      string   `json:"kin,omitempty"`
	Order    int      `json:"order"` // among points that are due alike
	// Course are the days of the rest of the classic course.
	Course []store.DayNum `json:"course,omitempty"`
	Card   PackState      `json:"card"`
}

// PackState is a [store.Card] in numbers.
type PackState struct {
	Phase      store.Phase  `json:"phase"`
	Step       int          `json:"step"`
	Stability  float64      `json:"stability"`
	Difficulty float64      `json:"difficulty"`
	Due        store.DayNum `json:"due"`
	DueAt      int64        `json:"due_at"` // 0: not on steps
	Buried     store.DayNum `json:"buried"`
	Reps       int          `json:"reps"`
	Lapses     int          `json:"lapses"`
	LastAt     int64        `json:"last_at"` // 0: never
	LastDay    store.DayNum `json:"last_day"`
}

// NewPackState returns a card in numbers.
func NewPackState(c store.Card) PackState {
	millis := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixMilli()
	}
	return PackState{Phase: c.Phase, Step: c.Step, Stability: c.Stability, Difficulty: c.Difficulty,
		Due: store.DayNum(c.Due), DueAt: millis(c.DueAt), Buried: store.DayNum(c.Buried), Reps: c.Reps,
		Lapses: c.Lapses, LastAt: millis(c.LastAt), LastDay: store.DayNum(c.LastDay)}
}

// Pack returns what a device takes along for today and so many days after it.
func (s *Service) Pack(ctx context.Context, person string, days int) (*Pack, error) {
	if days < 0 || days > MaxPackDays {
		return nil, invalid(i18n.Message("days is a number from 0 to %d"), MaxPackDays)
	}
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	work, err := s.Store.Learn.Work(ctx, l.Person, l.Today)
	if err != nil {
		return nil, fmt.Errorf("look up what was done today: %w", err)
	}
	budgets := l.budgets(work)
	out := &Pack{Person: person, Made: l.Now.UnixMilli(), Today: store.DayNum(l.Today),
		Until: store.DayNum(l.Today) + store.DayNum(days), Calendar: packCalendar(l), Groups: map[string]PackGroup{},
		Decks: packDecks(l), Cards: []PackCard{}}
	for g, b := range budgets {
		limits := l.Settings(g)
		out.Groups[g] = PackGroup{NewPerDay: limits.NewPerDay, ReviewsPerDay: limits.ReviewsPerDay,
			NewLeft: max(b.New, 0), ReviewsLeft: max(b.Reviews, 0)}
	}
	points, err := s.packPoints(ctx, l, out.Groups, days)
	if err != nil {
		return nil, err
	}
	return out, s.addCards(ctx, l, out, points)
}

// packPoints returns the points that may come until the last day: one more than a pack has, if
// there are too many.
func (s *Service) packPoints(ctx context.Context, l *Learner, groups map[string]PackGroup,
	days int) ([]store.Point, error) {
	then := *l
	then.Today += store.Day(days)
	until := l.Calendar.StartOf(then.Today + 1)
	which := store.QueueFilter{Today: then.Today}
	waiting, sizes, err := s.Store.Learn.TodayOf(ctx, l.Person, which)
	if err != nil {
		return nil, fmt.Errorf("count what waits: %w", err)
	}
	which.Sizes = sizes
	p := pager{s: s, l: &then, which: which, waiting: waiting.Waiting, budgets: map[string]budget{}}
	for g, b := range groups {
		p.budgets[g] = budget{b.NewLeft + days*b.NewPerDay, b.ReviewsLeft + days*b.ReviewsPerDay}
	}
	var points []store.Point
	for _, q := range []store.Queue{store.QueueSteps, store.QueueDay, store.QueueNew} {
		more, err := p.page(ctx, q, store.QueueKey{}, until, maxPackCards+1-len(points))
		if err != nil {
			return nil, fmt.Errorf("look up the queue: %w", err)
		}
		points = append(points, more...)
	}
	return points, nil
}

// addCards adds points to a pack.
func (s *Service) addCards(ctx context.Context, l *Learner, out *Pack, points []store.Point) error {
	if len(points) > maxPackCards {
		points, out.More = points[:maxPackCards], true
	}
	entries, err := s.entries(ctx, points)
	if err != nil {
		return err
	}
	numbers := make([]int64, len(points))
	for i := range points {
		numbers[i] = points[i].Number
	}
	slices.Sort(numbers)
	of := make([]*store.Point, len(entries))
	for i := range entries {
		of[i] = &entries[i].Point
	}
	sources, err := s.cardSources(ctx, l, of...)
	if err != nil {
		return err
	}
	size := 0
	for i := range entries {
		e := &entries[i]
		view, err := sources.view(&e.Point, card.MediaPath)
		if err != nil {
			return err
		}
		rank, _ := slices.BinarySearch(numbers, e.Number)
		card := PackCard{ID: e.ID, Deck: e.Deck, Tags: e.Tags, Kin: e.Kin, Order: rank, Card: NewPackState(e.Card)}
		card.show(&e.Point, view)
		if size += len(card.Question) + len(card.Answer); size > maxPackText {
			out.More = true
			break
		}
		if l.deck(card.Deck) == nil {
			card.Deck = ""
		}
		if l.Settings(e.Deck).Schedule == schedule.Classic {
			for _, v := range e.Sittings {
				if v.Completed.IsZero() {
					card.Course = append(card.Course, store.DayNum(v.Day))
				}
			}
		}
		out.Cards = append(out.Cards, card)
	}
	return nil
}

// packDecks returns all decks, the default one first.
func packDecks(l *Learner) []PackDeck {
	out := make([]PackDeck, 0, len(l.Decks)+1)
	for _, d := range append([]store.Deck{{}}, l.Decks...) {
		settings := l.Settings(d.ID)
		if len(settings.Weights) == 0 {
			settings.Weights = fsrs.Published[:]
		}
		out = append(out, PackDeck{ID: d.ID, Name: l.DeckName(d.ID), Group: l.limitGroup(d.ID), Settings: settings})
	}
	return out
}

// packPast is how long before a pack its calendar begins: a device may have older reviews that were
// not sent yet. packFuture is how long after it ends: intervals on a device lead no further into
// times than steps do.
const (
	packPast   = oldestReview
	packFuture = 100 * 24 * time.Hour
)

// packCalendar returns the calendar around now.
func packCalendar(l *Learner) PackCalendar {
	zone := cmp.Or(l.Calendar.Zone, time.UTC)
	out := PackCalendar{Zone: zone.String(), Start: l.Calendar.Start.Milliseconds()}
	end := l.Now.Add(packFuture)
	for at := l.Now.Add(-packPast).In(zone); ; {
		_, offset := at.Zone()
		out.Spans = append(out.Spans, PackSpan{at.UnixMilli(), int64(offset) * 1000})
		_, next := at.ZoneBounds()
		if next.IsZero() || next.After(end) || !next.After(at) {
			return out
		}
		at = next
	}
}
