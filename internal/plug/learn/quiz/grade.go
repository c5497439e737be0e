package quiz

import (
	"context"
	"errors"
	"strings"
	"time"

	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

const (
	// judging is how long a model may take to judge a recall; after that, the person
	// does. Somebody stands there with glasses on.
	judging = 20 * time.Second
	// maxTook is the longest time that counts as spent on a question: who takes
	// longer did something else.
	maxTook = 10 * time.Minute
	// maxRecall is how much of a recall is judged and kept, in bytes; a spoken one has
	// some hundred.
	maxRecall = 8 << 10
)

// unjudged is the score of a recall that no model has judged.
const unjudged = -1

// recall takes what was said for the answer.
func (t *turned) recall(ctx context.Context) error {
	s := t.state
	e, err := t.Service.Get(ctx, t.person, s.Point)
	if errors.Is(err, learn.ErrNotFound) {
		return t.next(ctx)
	}
	if err != nil {
		return err
	}
	said := strings.TrimSpace(t.turn.Text())
	if len(said) > maxRecall {
		said = strings.ToValidUTF8(said[:maxRecall], "")
	}
	j, err := t.Service.Judge(ctx, t.person, learn.Recall{Question: e.Question, Answer: e.Answer, Recall: said, Lang: t.lang, Patience: judging})
	g := store.Ungraded
	if err == nil {
		g, err = learn.ParseGrade(j.Grade)
	}
	// Where no model judged, words were compared with words: that they are others
	// does not make them wrong.
	if err != nil || g == store.Ungraded || j.By == learn.ByComparison && j.Why != "" && g < store.Good {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			t.Logger.WarnContext(ctx, "a recall was not judged", "person", t.person, "error", err)
		}
		s.Step, s.Recall = shown, said
		t.reply.say(sayNotJudged.In(t.lang), sayAnswer.In(t.lang, gist(e.Answer, answerChars, t.lang)), sayHowWell.In(t.lang))
		t.reply.offer = []talk.Say{tipForgot, tipHard, tipGood}
		return nil
	}
	line := gist(j.Verdict, verdictChars, t.lang)
	if line == "" {
		line = praise(g, t.lang)
	}
	wanting := g <= store.Hard || len(j.Missing) > 0 || len(j.Wrong) > 0
	if s.Peeked && g > store.Hard {
		g, line, wanting = store.Hard, sayPeeked.In(t.lang), false
	}
	if wanting {
		line += "\n" + sayAnswer.In(t.lang, gist(e.Answer, answerChars, t.lang))
	}
	return t.submit(ctx, g, said, j.Score, line)
}

// known takes a grade that the person gave.
func (t *turned) known(ctx context.Context, g store.Grade) error {
	s := t.state
	line := sayMarked.In(t.lang, gradeName(g, t.lang))
	if s.Step == asked { // forgotten, and the answer was not told yet
		e, err := t.Service.Get(ctx, t.person, s.Point)
		if errors.Is(err, learn.ErrNotFound) {
			return t.next(ctx)
		}
		if err != nil {
			return err
		}
		line = sayAnswer.In(t.lang, gist(e.Answer, answerChars, t.lang))
	}
	return t.submit(ctx, g, s.Recall, unjudged, line)
}

// submit counts the review of the question that is asked, tells how it went, and
// asks the next one.
func (t *turned) submit(ctx context.Context, g store.Grade, recall string, score int, line string) error {
	s := t.state
	last := &graded{
		Base: s.Review, Point: s.Point, Sitting: s.Sitting, Grade: g, Recall: recall, Score: score,
		Took: min(max(t.Now().Sub(s.AskedAt), 0), maxTook),
	}
	err := t.count(ctx, last)
	switch {
	case isGone(err):
		t.reply.say(sayElsewhere.In(t.lang))
		return t.next(ctx)
	case err != nil:
		return err
	}
	t.once = true
	s.Last = last
	s.Done++
	if g == store.Again {
		s.Again++
	}
	t.reply.say(line)
	if err := t.next(ctx); err != nil {
		return err
	}
	if s.reviewing() && g <= store.Hard {
		t.reply.offer = []talk.Say{tipAnswer, tipSkip, tipToGood}
	}
	return nil
}

// count submits a review.
func (t *turned) count(ctx context.Context, g *graded) error {
	_, err := t.Service.Submit(ctx, t.person, learn.Submission{
		Point: g.Point, Sitting: g.Sitting, ID: g.id(), Grade: g.Grade, Recall: g.Recall, Score: g.Score, Took: g.Took, Door: door, Early: true,
	})
	return err
}

// isGone says that a review cannot be counted any more: it was done on another
// device, or its point has been deleted or taken out of the plan.
func isGone(err error) bool {
	_, done := errors.AsType[*learn.Reviewed](err)
	return done || errors.Is(err, learn.ErrNotFound) || errors.Is(err, learn.ErrNoPlan)
}

// regrade gives the last review another grade.
func (t *turned) regrade(ctx context.Context, g store.Grade) error {
	s := t.state
	if s.Last == nil {
		t.reply.say(sayNoLast.In(t.lang))
		return t.goOn(ctx)
	}
	if was := s.Last.Grade; was != g {
		// What was taken back by a turn that got no further is taken back already.
		_, err := t.Service.Undo(ctx, t.person, s.Last.id(), door)
		changed := *s.Last
		changed.Grade = g
		changed.Changes++
		if err == nil {
			err = t.count(ctx, &changed)
		}
		_, refused := errors.AsType[*learn.Invalid](err)
		switch {
		case refused || isGone(err):
			t.reply.say(sayTooLate.In(t.lang))
			return t.goOn(ctx)
		case err != nil:
			return err
		}
		s.Last = &changed
		s.Again += forgotten(g) - forgotten(was)
	}
	t.reply.say(sayChanged.In(t.lang, gradeName(g, t.lang)))
	return t.goOn(ctx)
}

func forgotten(g store.Grade) int {
	if g == store.Again {
		return 1
	}
	return 0
}

// takeBack undoes the last review and asks its question again.
func (t *turned) takeBack(ctx context.Context) error {
	s := t.state
	if s.Last == nil {
		t.reply.say(sayNoLast.In(t.lang))
		return t.goOn(ctx)
	}
	out, err := t.Service.Undo(ctx, t.person, s.Last.id(), door)
	_, refused := errors.AsType[*learn.Invalid](err)
	switch {
	case refused || isGone(err):
		s.Last = nil
		t.reply.say(sayTooLate.In(t.lang))
		return t.goOn(ctx)
	case err != nil:
		return err
	}
	queue, err := t.Service.Queue(ctx, t.person, learn.QueueFilter{Deck: s.Deck, Limit: 1})
	if err != nil {
		return err
	}
	if s.reviewing() && s.Asked > 1 {
		s.Asked-- // the question that was asked meanwhile comes again
	}
	s.Done--
	s.Again -= forgotten(s.Last.Grade)
	s.Last = nil
	s.leave()
	t.reply.say(sayUndone.In(t.lang))
	t.ask(&out.Entry, queue.Left)
	return nil
}

// goOn tells the question again, if there is one.
func (t *turned) goOn(ctx context.Context) error {
	if !t.state.reviewing() {
		return nil
	}
	return t.repeat(ctx)
}
