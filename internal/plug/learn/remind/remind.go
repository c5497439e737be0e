// Package remind reminds people once a day, at the time they chose, that points are due. Senders
// deliver the reminders; the package provides one itself, [Webhook]. It also writes a calendar of
// due points that programs can subscribe to, [ICS].
package remind

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
)

// Service is the part of [learn.Service] that reminders use.
type Service interface {
	Learner(ctx context.Context, person string) (*learn.Learner, error)
	Queue(ctx context.Context, person string, f learn.QueueFilter) (*learn.Queue, error)
	Stats(ctx context.Context, person string, days, back int) (*learn.Stats, error)
}

var _ Service = (*learn.Service)(nil)

// Message is one reminder.
type Message struct {
	// ID is the same for all senders of one reminder, and unique to it.
	ID     string
	Person string
	Lang   i18n.Lang
	Title  string
	Text   string
	Due    int // points to be asked today, new ones included
	New    int // points among them that were never reviewed
	// Webhook is the person's webhook address; empty if there is none.
	Webhook string
}

// Sender delivers a message to a person within [sendTimeout].
type Sender func(ctx context.Context, person string, m Message) error

// Senders maps the names that people choose, such as "glasses" and "webhook", to senders.
type Senders map[string]Sender

// ViaCalendar is the choice of people who subscribe to their [ICS] calendar: their calendar program
// reminds them, and nothing is sent.
const ViaCalendar = "calendar"

const (
	// sendTimeout limits the delivery of one reminder by one sender.
	sendTimeout = 30 * time.Second
	// shutdownGrace is how long deliveries may continue when the server stops.
	shutdownGrace = 5 * time.Second
	// maxParallel is how many people are reminded concurrently: many choose the same hour, and a
	// slow webhook must not delay the others.
	maxParallel = 8
)

// Options configure [Run].
type Options struct {
	Store    *store.DB
	Service  Service
	Senders  Senders
	Logger   *slog.Logger     // nil: no logging
	Now      func() time.Time // nil: time.Now
	Interval time.Duration    // time between checks; 0: one minute
}

const (
	msgTitle = i18n.Message("Time to review")
	msgDue   = i18n.Message("%d to review today, %d of them new. Say “quiz me” to begin.")
)

// Run reminds people until ctx ends, and then returns nil.
//
// A person is reminded at most once on each of their days, by the first instance that checks. The
// reminder is recorded before anything is sent, so a failed delivery is not repeated. A reminder
// missed because no server ran is sent when one runs again on the same day. If nothing is due at
// the chosen time, the day has no reminder, whatever becomes due later.
func Run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Interval == 0 {
		o.Interval = time.Minute
	}
	tick := time.NewTicker(o.Interval)
	defer tick.Stop()
	for {
		if err := o.remindDue(ctx); err != nil && ctx.Err() == nil {
			o.Logger.ErrorContext(ctx, "nobody was reminded", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// remindDue reminds all people whose time has come.
func (o *Options) remindDue(ctx context.Context) error {
	people, err := o.Store.Learn.Learners(ctx)
	if err != nil {
		return fmt.Errorf("look up who learns: %w", err)
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	places := make(chan struct{}, maxParallel)
	for _, p := range people {
		var wishes learn.Profile
		if json.Unmarshal(p.Settings, &wishes) != nil || wishes.Remind.At == "" ||
			!slices.ContainsFunc(wishes.Remind.Via, needsSending) {
			continue // filters out most people without another query
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

// needsSending reports whether the choice needs a sender.
func needsSending(way string) bool { return way != ViaCalendar }

// remind reminds a person if it is time.
func (o *Options) remind(ctx context.Context, p store.Learner) error {
	l, err := o.Service.Learner(ctx, p.Person)
	if err != nil {
		return err
	}
	now := o.Now()
	today := l.Calendar.Day(now)
	at, err := TimeOnDay(l.Calendar, today, l.Profile.Remind.At)
	if err != nil || p.Reminded >= today || now.Before(at) {
		return err
	}
	queue, err := o.Service.Queue(ctx, p.Person, learn.QueueFilter{Limit: 1})
	if err != nil {
		return err
	}
	who, err := o.Store.People.ByID(ctx, p.Person)
	if err != nil || !who.Paused.IsZero() {
		return err
	}
	first, err := o.Store.Learn.MarkReminded(ctx, p.Person, today)
	if err != nil || !first || queue.Left.Total() == 0 {
		return err
	}
	lang := i18n.ParseLang(who.Lang, i18n.Chinese)
	o.send(ctx, l.Profile.Remind.Via, Message{
		ID: fmt.Sprintf("learn-%s-%s", today, p.Person), Person: p.Person, Lang: lang, Title: msgTitle.In(lang),
		Text: msgDue.In(lang, queue.Left.Total(), queue.Left.New),
		Due:  queue.Left.Total(), New: queue.Left.New, Webhook: l.Profile.Remind.Webhook,
	})
	return nil
}

// send delivers a message by all its senders; a failure does not stop the others. When the server
// stops, deliveries may continue for shutdownGrace, because they are not repeated.
func (o *Options) send(ctx context.Context, via []string, m Message) {
	stopping := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(stopping, func() { time.AfterFunc(shutdownGrace, cancel) })()
	for i, name := range via {
		if !needsSending(name) || slices.Contains(via[:i], name) {
			continue
		}
		way := o.Senders[name]
		if way == nil {
			o.Logger.WarnContext(ctx, "nobody is reminded this way here", "way", name, "person", m.Person)
			continue
		}
		limit, done := context.WithTimeout(ctx, sendTimeout)
		err := way(limit, m.Person, m)
		done()
		if err != nil {
			o.Logger.WarnContext(ctx, "a reminder did not arrive", "way", name, "person", m.Person, "error", err)
		} else {
			o.Logger.InfoContext(ctx, "a person was reminded", "way", name, "person", m.Person, "due", m.Due)
		}
	}
}

// TimeOnDay returns the moment when a time such as "20:00" occurs on a learner's day. A time before
// the start of the day belongs to the night at its end. A time that the clock skips maps to the
// moment of the change, and one that occurs twice to the first occurrence.
func TimeOnDay(c schedule.Calendar, day store.Day, at string) (time.Time, error) {
	t, err := time.Parse("15:04", at)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time of day such as 20:00", at)
	}
	clock := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	if clock < c.Start {
		day++
	}
	return schedule.Calendar{Zone: c.Zone, Start: clock}.StartOf(day), nil
}
