package quiz

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// forecastDays is how many days ahead the next review is searched.
const forecastDays = 31

// begin starts a review of one deck, or of all if deck is nil.
func (t *turnHandler) begin(ctx context.Context, deck *string) error {
	t.state = &state{Step: stepAsked, Deck: deck}
	return t.next(ctx)
}

// next asks the next question. If there is none, the review ends.
func (t *turnHandler) next(ctx context.Context) error {
	s := t.state
	s.clearQuestion()
	if s.Cram != nil {
		return t.nextCram(ctx)
	}
	queue, err := t.Service.Queue(ctx, t.person, learn.QueueFilter{Deck: s.Deck, Limit: len(s.Skipped) + 1,
		Ahead: true})
	if err != nil {
		return err
	}
	for i := range queue.Entries {
		e := &queue.Entries[i]
		if slices.Contains(s.Skipped, e.ID) || e.OpenSitting() == nil || t.isTooSoon(e) {
			continue
		}
		s.Asked++
		t.askQuestion(e, queue.Left)
		return nil
	}
	return t.finish(ctx, queue)
}

// isTooSoon reports whether a point that was just recalled would come again at once, before it is
// due, because nothing else is left.
func (t *turnHandler) isTooSoon(e *learn.Entry) bool {
	last := t.state.Last
	return last != nil && last.Point == e.ID && last.Grade > store.Again && e.Card.DueAt.After(t.Now())
}

// askQuestion makes a point the current question and shows it.
func (t *turnHandler) askQuestion(e *learn.Entry, left learn.Remaining) {
	s := t.state
	s.Step, s.Point, s.Review, s.AskedAt = stepAsked, e.ID, uuid.Must(uuid.NewV7()).String(), t.Now()
	if open := e.OpenSitting(); open != nil {
		s.Sitting = open.ID
	}
	t.showQuestion(e, left)
}

// showQuestion shows the current question and the available commands.
func (t *turnHandler) showQuestion(e *learn.Entry, left learn.Remaining) {
	s := t.state
	text := shorten(e.Question, questionChars, t.lang)
	if more := left.Total() - 1 - len(s.Skipped); more > 0 {
		t.reply.say(msgQuestion.In(t.lang, s.Asked, more, text))
	} else {
		t.reply.say(msgLastQuestion.In(t.lang, s.Asked, text))
	}
	t.reply.offer = []i18n.Message{tipAnswer, tipSkip, tipStop}
	if s.Step == stepShown {
		t.reply.say(msgHowWell.In(t.lang))
		t.reply.offer = []i18n.Message{tipForgot, tipHard, tipGood}
	}
}

// repeat shows the question again. If its point is gone, the next question follows.
func (t *turnHandler) repeat(ctx context.Context) error {
	e, err := t.Service.Get(ctx, t.person, t.state.Point)
	if errors.Is(err, learn.ErrNotFound) {
		return t.next(ctx)
	}
	if err != nil {
		return err
	}
	if c := t.state.Cram; c != nil {
		t.showQuestion(e, c.left())
		return nil
	}
	queue, err := t.Service.Queue(ctx, t.person, learn.QueueFilter{Deck: t.state.Deck, Limit: 1})
	if err != nil {
		return err
	}
	t.showQuestion(e, queue.Left)
	return nil
}

// clearQuestion removes the current question.
func (s *state) clearQuestion() {
	s.StepDue = time.Time{}
	s.Point, s.Sitting, s.Review, s.AskedAt, s.Peeked, s.Recall = "", "", "", time.Time{}, false, ""
}

// finish reports that there is nothing to ask, and when the next review is due.
func (t *turnHandler) finish(ctx context.Context, queue *learn.Queue) error {
	s := t.state
	stats, err := t.Service.Stats(ctx, t.person, forecastDays, 0)
	if err != nil {
		return err
	}
	switch {
	case stats.Points == 0:
		t.state = nil
		t.reply.say(msgNoPoints.In(t.lang))
		return nil
	case s.Asked == 0:
		t.state = nil
		t.reply.say(msgNothing.In(t.lang))
	default:
		s.Step = stepOver
		if due := queue.NextStepDue; !due.IsZero() && due.Sub(t.Now()) <= maxStepWait {
			s.StepDue = due
		}
		t.reply.say(msgFinished.In(t.lang, s.Done, s.Again))
		t.reply.offer = []i18n.Message{tipUndo, tipDueToday}
		if t.turn.Can(talk.CommandCalendar) {
			t.reply.offer = []i18n.Message{tipUndo, tipRemindMe}
		}
		if n := len(s.Skipped); n > 0 {
			t.reply.say(msgPassed.In(t.lang, n))
		}
	}
	t.showNextDue(stats, queue.Left.HeldBack, queue)
	return nil
}

// showNextDue reports how many points are held back, and what is due next.
func (t *turnHandler) showNextDue(stats *learn.Stats, held int, queue *learn.Queue) {
	if held > 0 {
		t.reply.say(msgHeld.In(t.lang, held))
	}
	if queue != nil && !queue.NextStepDue.IsZero() && queue.Learner.Calendar.Day(queue.NextStepDue) == stats.Today {
		t.reply.say(msgNextAt.In(t.lang, clock(queue.NextStepDue, queue.Learner.Calendar.Zone)))
		return
	}
	if day, n := nextDue(stats); n > 0 {
		t.reply.say(msgNext.In(t.lang, dayName(day, stats.Today, t.lang), n))
	}
}

// showDue reports how many points are due, and offers a review.
func (t *turnHandler) showDue(ctx context.Context) error {
	if t.state != nil && t.state.isReviewing() {
		return t.showRemaining(ctx)
	}
	stats, err := t.Service.Stats(ctx, t.person, forecastDays, 0)
	if err != nil {
		return err
	}
	switch n := stats.Left.Total(); {
	case stats.Points == 0:
		t.reply.say(msgNoPoints.In(t.lang))
	case n == 0:
		t.reply.say(msgNothing.In(t.lang))
		t.showNextDue(stats, stats.Left.HeldBack, nil)
	default:
		t.reply.say(msgDue.In(t.lang, n, stats.Left.New))
		if stats.Left.HeldBack > 0 {
			t.reply.say(msgHeld.In(t.lang, stats.Left.HeldBack))
		}
		t.reply.say(msgBegin.In(t.lang))
		t.reply.offer = []i18n.Message{tipBegin}
	}
	return nil
}

// showRemaining reports how many questions are left, and repeats the question.
func (t *turnHandler) showRemaining(ctx context.Context) error {
	queue, err := t.Service.Queue(ctx, t.person, learn.QueueFilter{Deck: t.state.Deck, Limit: 1})
	if err != nil {
		return err
	}
	t.reply.say(msgLeft.In(t.lang, queue.Left.Total()))
	return t.repeat(ctx)
}

// review handles a turn during a review or after it.
func (t *turnHandler) review(ctx context.Context) error {
	s := t.state
	if s.Cram != nil && s.isReviewing() {
		if done, err := t.cram(ctx); done || err != nil {
			return err
		}
	}
	c, g := t.utterance.parseCommand(s.Step != stepShown)
	switch {
	case c == commandChange:
		return t.regrade(ctx, g)
	case c == commandUndo:
		return t.undoLast(ctx)
	case c == commandStop:
		return t.stop(ctx)
	case c == commandLeave:
		return t.leave(ctx)
	case !s.isReviewing():
		t.reply.say(msgOver.In(t.lang))
		return nil
	case c == commandNoise:
		if len(t.turn.Images()) > 0 {
			t.reply.say(msgJustSpeak.In(t.lang))
		}
		return t.repeat(ctx)
	}
	switch c {
	case commandSkip:
		s.Skipped = append(s.Skipped, s.Point)
		s.Skipped = s.Skipped[max(len(s.Skipped)-maxSkipped, 0):]
		return t.next(ctx)
	case commandShow:
		return t.reveal(ctx)
	case commandRepeat:
		return t.repeat(ctx)
	case commandCount:
		return t.showRemaining(ctx)
	case commandForgot:
		return t.submitGrade(ctx, store.Again)
	case commandGrade:
		if s.Step == stepAsked {
			return t.reveal(ctx) // "I know it" shows the answer, so that the person can check
		}
		return t.submitGrade(ctx, g)
	}
	return t.judgeRecall(ctx)
}

// reveal shows the answer and asks for a grade.
func (t *turnHandler) reveal(ctx context.Context) error {
	e, err := t.Service.Get(ctx, t.person, t.state.Point)
	if errors.Is(err, learn.ErrNotFound) {
		return t.next(ctx)
	}
	if err != nil {
		return err
	}
	t.state.Step, t.state.Peeked = stepShown, true
	t.reply.say(msgAnswer.In(t.lang, shorten(e.Answer, answerChars, t.lang)), msgHowWell.In(t.lang))
	t.reply.offer = []i18n.Message{tipForgot, tipHard, tipGood}
	return nil
}

// stop ends the review.
func (t *turnHandler) stop(ctx context.Context) error {
	s := t.state
	if s.Cram != nil {
		t.endCram(msgCramStopped)
		return nil
	}
	queue, err := t.Service.Queue(ctx, t.person, learn.QueueFilter{Deck: s.Deck, Limit: 1})
	if err != nil {
		return err
	}
	s.clearQuestion()
	s.Step = stepOver
	t.reply.say(msgStopped.In(t.lang, s.Done, s.Again, queue.Left.Total()))
	if queue.Left.HeldBack > 0 {
		t.reply.say(msgHeld.In(t.lang, queue.Left.HeldBack))
	}
	if s.Last != nil {
		t.reply.offer = []i18n.Message{tipBegin, tipUndo}
	} else {
		t.reply.offer = []i18n.Message{tipBegin}
	}
	return nil
}

// leave ends the review, and the conversation if the device can do that.
func (t *turnHandler) leave(ctx context.Context) error {
	if t.state.isReviewing() {
		if err := t.stop(ctx); err != nil {
			return err
		}
	} else {
		t.state = nil
	}
	t.reply.offer = nil
	t.reply.say(msgGoodbye.In(t.lang))
	if t.turn.Can(talk.CommandLeave) {
		t.reply.command = &talk.Command{Name: talk.CommandLeave}
	}
	return nil
}

// defaultRemind is the time of reminders for people who set none.
const defaultRemind = "20:00"

// remindFor is the length of a review in a calendar.
const remindFor = 15 * time.Minute

// remind puts the next review into the device's calendar.
func (t *turnHandler) remind(ctx context.Context) error {
	if !t.turn.Can(talk.CommandCalendar) {
		t.reply.say(msgNoCalendar.In(t.lang))
		return nil
	}
	l, err := t.Service.Learner(ctx, t.person)
	if err != nil {
		return err
	}
	stats, err := t.Service.Stats(ctx, t.person, forecastDays, 0)
	if err != nil {
		return err
	}
	at, err := time.Parse("15:04", l.Profile.Remind.At)
	if err != nil {
		at, _ = time.Parse("15:04", defaultRemind) // always valid
	}
	// Calendar entries use local wall-clock time.
	wall := func(d store.Day) time.Time {
		clock := time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
		if clock < l.Calendar.Start {
			d++ // after midnight it is still the previous day
		}
		return d.Time().Add(clock)
	}
	day, n := stats.Today, stats.Left.Total()
	name := msgToday.In(t.lang)
	here := l.Now.In(l.Calendar.Zone)
	now := time.Date(here.Year(), here.Month(), here.Day(), here.Hour(), here.Minute(), 0, 0, time.UTC)
	if n == 0 || !wall(day).After(now) {
		day, n = nextDue(stats)
		name = dayName(day, stats.Today, t.lang)
	}
	if n == 0 {
		t.reply.say(msgNoNext.In(t.lang))
		return nil
	}
	const layout = "2006-01-02 15:04"
	start := wall(day)
	t.reply.command = &talk.Command{Name: talk.CommandCalendar, Args: map[string]string{
		"action": "create", "title": msgRemindTitle.In(t.lang, n), "start_time": start.Format(layout),
		"end_time": start.Add(remindFor).Format(layout),
	}}
	t.reply.say(msgInCalendar.In(t.lang, name, start.Format("15:04")))
	return nil
}
