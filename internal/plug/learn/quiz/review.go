package quiz

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// ahead is how many days a next review is looked for in.
const ahead = 31

// begin begins a review, of one deck or of all.
func (t *turned) begin(ctx context.Context, deck *string) error {
	t.state = &state{Step: asked, Deck: deck}
	return t.next(ctx)
}

// next asks the next question. If there is none, the review ends.
func (t *turned) next(ctx context.Context) error {
	s := t.state
	s.leave()
	queue, err := t.Service.Queue(ctx, t.person, learn.QueueFilter{Deck: s.Deck, Limit: len(s.Skipped) + 1, Ahead: true})
	if err != nil {
		return err
	}
	for i := range queue.Entries {
		e := &queue.Entries[i]
		if slices.Contains(s.Skipped, e.ID) || e.Open() == nil || t.tooSoon(e) {
			continue
		}
		s.Asked++
		t.ask(e, queue.Left)
		return nil
	}
	return t.finish(ctx, queue)
}

// tooSoon says whether a point that was known a moment ago would come again at once,
// before it is due, because nothing else is left.
func (t *turned) tooSoon(e *learn.Entry) bool {
	last := t.state.Last
	return last != nil && last.Point == e.ID && last.Grade > store.Again && e.Card.DueAt.After(t.Now())
}

// ask puts a question.
func (t *turned) ask(e *learn.Entry, left learn.Left) {
	s := t.state
	s.Step, s.Point, s.Review, s.AskedAt = asked, e.ID, uuid.Must(uuid.NewV7()).String(), t.Now()
	if open := e.Open(); open != nil {
		s.Sitting = open.ID
	}
	t.question(e, left)
}

// question tells the question that is asked, and what can be said.
func (t *turned) question(e *learn.Entry, left learn.Left) {
	s := t.state
	text := gist(e.Question, questionChars, t.lang)
	if more := left.Total() - 1 - len(s.Skipped); more > 0 {
		t.reply.say(sayQuestion.In(t.lang, s.Asked, more, text))
	} else {
		t.reply.say(sayLastQuestion.In(t.lang, s.Asked, text))
	}
	t.reply.offer = []talk.Say{tipAnswer, tipSkip, tipStop}
	if s.Step == shown {
		t.reply.say(sayHowWell.In(t.lang))
		t.reply.offer = []talk.Say{tipForgot, tipHard, tipGood}
	}
}

// repeat tells the question once more. If its point has gone meanwhile, the next
// one comes.
func (t *turned) repeat(ctx context.Context) error {
	e, err := t.Service.Get(ctx, t.person, t.state.Point)
	if errors.Is(err, learn.ErrNotFound) {
		return t.next(ctx)
	}
	if err != nil {
		return err
	}
	queue, err := t.Service.Queue(ctx, t.person, learn.QueueFilter{Deck: t.state.Deck, Limit: 1})
	if err != nil {
		return err
	}
	t.question(e, queue.Left)
	return nil
}

// leave forgets the question that was asked.
func (s *state) leave() {
	s.Point, s.Sitting, s.Review, s.AskedAt, s.Peeked, s.Recall = "", "", "", time.Time{}, false, ""
}

// finish tells that there is nothing to ask, and when there will be.
func (t *turned) finish(ctx context.Context, queue *learn.Queue) error {
	s := t.state
	stats, err := t.Service.Stats(ctx, t.person, ahead, 0)
	if err != nil {
		return err
	}
	switch {
	case stats.Points == 0:
		t.state = nil
		t.reply.say(sayNoPoints.In(t.lang))
		return nil
	case s.Asked == 0:
		t.state = nil
		t.reply.say(sayNothing.In(t.lang))
	default:
		s.Step = over
		t.reply.say(sayFinished.In(t.lang, s.Done, s.Again))
		t.reply.offer = []talk.Say{tipUndo, tipDueToday}
		if t.turn.Can(talk.CommandCalendar) {
			t.reply.offer = []talk.Say{tipUndo, tipRemindMe}
		}
		if n := len(s.Skipped); n > 0 {
			t.reply.say(sayPassed.In(t.lang, n))
		}
	}
	t.outlook(stats, queue.Left.Held, queue)
	return nil
}

// outlook tells what is held back, and what comes next.
func (t *turned) outlook(stats *learn.Stats, held int, queue *learn.Queue) {
	if held > 0 {
		t.reply.say(sayHeld.In(t.lang, held))
	}
	if queue != nil && !queue.Later.IsZero() && queue.Learner.Calendar.Day(queue.Later) == stats.Today {
		t.reply.say(sayNextAt.In(t.lang, clock(queue.Later, queue.Learner.Calendar.Zone)))
		return
	}
	if day, n := nextDue(stats); n > 0 {
		t.reply.say(sayNext.In(t.lang, dayName(day, stats.Today, t.lang), n))
	}
}

// due tells how much waits, and offers to begin.
func (t *turned) due(ctx context.Context) error {
	if t.state != nil && t.state.reviewing() {
		return t.left(ctx)
	}
	stats, err := t.Service.Stats(ctx, t.person, ahead, 0)
	if err != nil {
		return err
	}
	switch n := stats.Left.Total(); {
	case stats.Points == 0:
		t.reply.say(sayNoPoints.In(t.lang))
	case n == 0:
		t.reply.say(sayNothing.In(t.lang))
		t.outlook(stats, stats.Left.Held, nil)
	default:
		t.reply.say(sayDue.In(t.lang, n, stats.Left.New))
		if stats.Left.Held > 0 {
			t.reply.say(sayHeld.In(t.lang, stats.Left.Held))
		}
		t.reply.say(sayBegin.In(t.lang))
		t.reply.offer = []talk.Say{tipBegin}
	}
	return nil
}

// left tells how many questions are left, and the question again.
func (t *turned) left(ctx context.Context) error {
	queue, err := t.Service.Queue(ctx, t.person, learn.QueueFilter{Deck: t.state.Deck, Limit: 1})
	if err != nil {
		return err
	}
	t.reply.say(sayLeft.In(t.lang, queue.Left.Total()))
	return t.repeat(ctx)
}

// review takes what was said in a review, or after it.
func (t *turned) review(ctx context.Context) error {
	s := t.state
	c, g := t.heard.order(s.Step != shown)
	switch {
	case c == change:
		return t.regrade(ctx, g)
	case c == undo:
		return t.takeBack(ctx)
	case c == stop:
		return t.stop(ctx)
	case !s.reviewing():
		t.reply.say(sayOver.In(t.lang))
		return nil
	case c == noise:
		if len(t.turn.Images()) > 0 {
			t.reply.say(sayJustSpeak.In(t.lang))
		}
		return t.repeat(ctx)
	}
	switch c {
	case skip:
		s.Skipped = append(s.Skipped, s.Point)
		s.Skipped = s.Skipped[max(len(s.Skipped)-maxSkipped, 0):]
		return t.next(ctx)
	case show:
		return t.reveal(ctx)
	case repeat:
		return t.repeat(ctx)
	case count:
		return t.left(ctx)
	case forgot:
		return t.known(ctx, store.Again)
	case grade:
		if s.Step == asked {
			return t.reveal(ctx) // whoever says that they know it sees whether they do
		}
		return t.known(ctx, g)
	}
	return t.recall(ctx)
}

// reveal tells the answer and asks how well it was known.
func (t *turned) reveal(ctx context.Context) error {
	e, err := t.Service.Get(ctx, t.person, t.state.Point)
	if errors.Is(err, learn.ErrNotFound) {
		return t.next(ctx)
	}
	if err != nil {
		return err
	}
	t.state.Step, t.state.Peeked = shown, true
	t.reply.say(sayAnswer.In(t.lang, gist(e.Answer, answerChars, t.lang)), sayHowWell.In(t.lang))
	t.reply.offer = []talk.Say{tipForgot, tipHard, tipGood}
	return nil
}

// stop ends the review.
func (t *turned) stop(ctx context.Context) error {
	s := t.state
	queue, err := t.Service.Queue(ctx, t.person, learn.QueueFilter{Deck: s.Deck, Limit: 1})
	if err != nil {
		return err
	}
	s.leave()
	s.Step = over
	t.reply.say(sayStopped.In(t.lang, s.Done, s.Again, queue.Left.Total()))
	if queue.Left.Held > 0 {
		t.reply.say(sayHeld.In(t.lang, queue.Left.Held))
	}
	if s.Last != nil {
		t.reply.offer = []talk.Say{tipBegin, tipUndo}
	} else {
		t.reply.offer = []talk.Say{tipBegin}
	}
	return nil
}

// defaultRemind is when people are reminded who chose no time.
const defaultRemind = "20:00"

// remindFor is how long a review takes in a calendar.
const remindFor = 15 * time.Minute

// remind puts the next review into the calendar of the device.
func (t *turned) remind(ctx context.Context) error {
	if !t.turn.Can(talk.CommandCalendar) {
		t.reply.say(sayNoCalendar.In(t.lang))
		return nil
	}
	l, err := t.Service.Learner(ctx, t.person)
	if err != nil {
		return err
	}
	stats, err := t.Service.Stats(ctx, t.person, ahead, 0)
	if err != nil {
		return err
	}
	at, err := time.Parse("15:04", l.Profile.Remind.At)
	if err != nil {
		at, _ = time.Parse("15:04", defaultRemind) // it can be parsed
	}
	// Dates and times in a calendar are those of the clock on the wall.
	wall := func(d store.Day) time.Time {
		clock := time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
		if clock < l.Calendar.Start {
			d++ // after midnight it is still the day before
		}
		return d.Time().Add(clock)
	}
	day, n := stats.Today, stats.Left.Total()
	name := sayToday.In(t.lang)
	here := l.Now.In(l.Calendar.Zone)
	now := time.Date(here.Year(), here.Month(), here.Day(), here.Hour(), here.Minute(), 0, 0, time.UTC)
	if n == 0 || !wall(day).After(now) {
		day, n = nextDue(stats)
		name = dayName(day, stats.Today, t.lang)
	}
	if n == 0 {
		t.reply.say(sayNoNext.In(t.lang))
		return nil
	}
	const layout = "2006-01-02 15:04"
	start := wall(day)
	t.reply.command = &talk.Command{Name: talk.CommandCalendar, Args: map[string]string{
		"action": "create", "title": sayRemindTitle.In(t.lang, n), "start_time": start.Format(layout), "end_time": start.Add(remindFor).Format(layout),
	}}
	t.reply.say(sayInCalendar.In(t.lang, name, start.Format("15:04")))
	return nil
}
