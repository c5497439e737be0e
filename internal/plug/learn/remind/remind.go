// Package remind tells people once a day, at the time they chose, that points are due:
// by the ways that are handed to it, of which it has one itself, [Webhook]. It also
// writes what is due into a calendar that programs can subscribe to, [ICS].
package remind

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Service is what reminders need of [learn.Service].
type Service interface {
	Learner(ctx context.Context, person string) (*learn.Learner, error)
	Queue(ctx context.Context, person string, f learn.QueueFilter) (*learn.Queue, error)
	Stats(ctx context.Context, person string, days, back int) (*learn.Stats, error)
}

var _ Service = (*learn.Service)(nil)

// Message is one reminder.
type Message struct {
	// ID is the same for all ways of a reminder, and for no other reminder.
	ID     string
	Person string
	Lang   talk.Lang
	Title  string
	Text   string
	Due    int // points that will be asked today, the new ones too
	New    int // points among them that were never reviewed
	// Webhook is the address that the person gave; empty: none.
	Webhook string
}

// Way brings a message to its person. It has [sendLimit] for it.
type Way func(ctx context.Context, person string, m Message) error

// Ways are ways by the names that people choose them by: "glasses", "webhook".
type Ways map[string]Way

// ViaCalendar is chosen by people who subscribe to their [ICS]: their own calendar
// reminds them, and nothing has to be sent.
const ViaCalendar = "calendar"

const (
	// sendLimit bounds one way of one reminder.
	sendLimit = 30 * time.Second
	// lastWords is how long sending goes on when the server stops.
	lastWords = 5 * time.Second
	// atOnce is how many people are reminded at a time: many want it at eight in the
	// evening, and a slow webhook must not keep the others waiting.
	atOnce = 8
)

// Options of [Run].
type Options struct {
	Store   *store.DB
	Service Service
	Ways    Ways
	Logger  *slog.Logger     // nil: none
	Now     func() time.Time // nil: the real clock
	Every   time.Duration    // between two looks; 0: a minute
}

var (
	sayTitle = talk.Say{Zh: "该复习了", En: "Time to review"}
	sayDue   = talk.Say{Zh: "今天有 %d 题要复习，其中 %d 题是新的。说“开始复习”就开始。", En: "%d to review today, %d of them new. Say “quiz me” to begin."}
)

// Run reminds people until ctx ends, and returns nil then.
//
// A person is reminded on each of their days at most once, by whichever instance
// comes first: that is written down before anything is sent, so that what fails is
// not tried again. Who was to be reminded while no server ran is reminded when one
// runs again, on the same day. On a day that has nothing due at that time, there is
// no reminder, whatever comes later.
func Run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Every == 0 {
		o.Every = time.Minute
	}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for {
		if err := o.look(ctx); err != nil && ctx.Err() == nil {
			o.Logger.ErrorContext(ctx, "nobody was reminded", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look reminds everybody whose time has come.
func (o *Options) look(ctx context.Context) error {
	people, err := o.Store.Learn.Learners(ctx)
	if err != nil {
		return fmt.Errorf("look up who learns: %w", err)
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	places := make(chan struct{}, atOnce)
	for _, p := range people {
		var wishes learn.Profile
		if json.Unmarshal(p.Settings, &wishes) != nil || wishes.Remind.At == "" || !slices.ContainsFunc(wishes.Remind.Via, sent) {
			continue // most people, without another look
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		sending.Go(func() {
			defer func() { <-places }()
			if err := o.remind(ctx, p); err != nil && ctx.Err() == nil {
				o.Logger.ErrorContext(ctx, "a person was not reminded", "person", p.Person, "error", err)
			}
		})
	}
	return nil
}

// sent says whether something is sent by a way.
func sent(way string) bool { return way != ViaCalendar }

// remind reminds a person if it is time.
func (o *Options) remind(ctx context.Context, p store.Learner) error {
	l, err := o.Service.Learner(ctx, p.Person)
	if err != nil {
		return err
	}
	now := o.Now()
	today := l.Calendar.Day(now)
	at, err := Moment(l.Calendar, today, l.Profile.Remind.At)
	if err != nil || p.Reminded >= today || now.Before(at) {
		return err
	}
	queue, err := o.Service.Queue(ctx, p.Person, learn.QueueFilter{Limit: 1})
	if err != nil {
		return err
	}
	first, err := o.Store.Learn.MarkReminded(ctx, p.Person, today)
	if err != nil || !first || queue.Left.Total() == 0 {
		return err
	}
	who, err := o.Store.People.ByID(ctx, p.Person)
	if err != nil {
		return err
	}
	lang := talk.ParseLang(who.Lang, talk.Chinese)
	o.send(ctx, l.Profile.Remind.Via, Message{
		ID: fmt.Sprintf("learn-%s-%s", today, p.Person), Person: p.Person, Lang: lang, Title: sayTitle.In(lang), Text: sayDue.In(lang, queue.Left.Total(), queue.Left.New),
		Due: queue.Left.Total(), New: queue.Left.New, Webhook: l.Profile.Remind.Webhook,
	})
	return nil
}

// send sends a message by all its ways; one that fails does not keep the others from
// being tried. A server that stops lets it end, for a moment: it will not be sent
// again.
func (o *Options) send(ctx context.Context, via []string, m Message) {
	stopping := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(stopping, func() { time.AfterFunc(lastWords, cancel) })()
	for i, name := range via {
		if !sent(name) || slices.Contains(via[:i], name) {
			continue
		}
		way := o.Ways[name]
		if way == nil {
			o.Logger.WarnContext(ctx, "nobody is reminded this way here", "way", name, "person", m.Person)
			continue
		}
		limit, done := context.WithTimeout(ctx, sendLimit)
		err := way(limit, m.Person, m)
		done()
		if err != nil {
			o.Logger.WarnContext(ctx, "a reminder did not arrive", "way", name, "person", m.Person, "error", err)
		} else {
			o.Logger.InfoContext(ctx, "a person was reminded", "way", name, "person", m.Person, "due", m.Due)
		}
	}
}

// Moment is when a learner's day shows a time such as "20:00". A time before the day
// begins is that of the night that ends it; one that the clock is put forward over
// is the moment when that happens, and one that it shows twice is the first.
func Moment(c schedule.Calendar, day store.Day, at string) (time.Time, error) {
	t, err := time.Parse("15:04", at)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time of day such as 20:00", at)
	}
	clock := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	if clock < c.Start {
		day++
	}
	return schedule.Calendar{Zone: c.Zone, Start: clock}.Begins(day), nil
}
