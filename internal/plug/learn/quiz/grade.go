package quiz

import (
	"context"
	"errors"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	// judgeTimeout limits how long a model may judge a recall while the person waits with glasses
	// on; after that, the person grades it.
	judgeTimeout = 20 * time.Second
	// maxTook is the longest time counted for one question; after a longer one the person was doing
	// something else.
	maxTook = 10 * time.Minute
	// maxRecall limits how much of a recall is judged and stored, in bytes; a spoken recall has a
	// few hundred.
	maxRecall = 8 << 10
)

// unjudged is the score of a recall that no model judged.
const unjudged = -1

// judgeRecall judges the spoken text as the answer.
func (t *turnHandler) judgeRecall(ctx context.Context) error {
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
	j, err := t.Service.Judge(ctx, t.person, learn.Recall{Question: e.Question,
		Answer: learn.WithoutMedia(e.Answer), Recall: said,
		Lang: t.lang, Timeout: judgeTimeout})
	g := store.Ungraded
	if err == nil {
		g, err = learn.ParseGrade(j.Grade)
	}
	// Without a model only words were compared, and different words are not necessarily wrong.
	if err != nil || g == store.Ungraded || j.By == learn.ByComparison && j.Why != "" && g < store.Good {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			t.Logger.WarnContext(ctx, "a recall was not judged", "person", t.person, "error", err)
		}
		s.Step, s.Recall = stepShown, said
		t.reply.say(msgNotJudged.In(t.lang), msgAnswer.In(t.lang, shorten(e.Answer, answerChars, t.lang)),
			msgHowWell.In(t.lang))
		t.reply.offer = []i18n.Message{tipForgot, tipHard, tipGood}
		return nil
	}
	line := shorten(j.Verdict, verdictChars, t.lang)
	if line == "" {
		line = gradeComment(g, t.lang)
	}
	wanting := g <= store.Hard || len(j.Missing) > 0 || len(j.Wrong) > 0
	if s.Peeked && g > store.Hard {
		g, line, wanting = store.Hard, msgPeeked.In(t.lang), false
	}
	if wanting {
		line += "\n" + msgAnswer.In(t.lang, shorten(e.Answer, answerChars, t.lang))
	}
	return t.submit(ctx, g, said, j.Score, line)
}

// submitGrade submits a grade that the person chose.
func (t *turnHandler) submitGrade(ctx context.Context, g store.Grade) error {
	s := t.state
	line := msgMarked.In(t.lang, gradeName(g, t.lang))
	if s.Step == stepAsked { // forgotten before the answer was shown
		e, err := t.Service.Get(ctx, t.person, s.Point)
		if errors.Is(err, learn.ErrNotFound) {
			return t.next(ctx)
		}
		if err != nil {
			return err
		}
		line = msgAnswer.In(t.lang, shorten(e.Answer, answerChars, t.lang))
	}
	return t.submit(ctx, g, s.Recall, unjudged, line)
}

// submit records the review of the current question, reports the result, and asks the next
// question.
func (t *turnHandler) submit(ctx context.Context, g store.Grade, recall string, score int, line string) error {
	s := t.state
	if s.Cram != nil {
		return t.passCram(ctx, g, line)
	}
	last := &graded{
		Base: s.Review, Point: s.Point, Sitting: s.Sitting, Grade: g, Recall: recall, Score: score,
		Took: min(max(t.Now().Sub(s.AskedAt), 0), maxTook),
	}
	err := t.submitReview(ctx, last)
	switch {
	case isGone(err):
		t.reply.say(msgElsewhere.In(t.lang))
		return t.next(ctx)
	case err != nil:
		return err
	}
	t.rememberReply = true
	s.Last = last
	s.Done++
	if g == store.Again {
		s.Again++
	}
	t.reply.say(line)
	if err := t.next(ctx); err != nil {
		return err
	}
	if s.isReviewing() && g <= store.Hard {
		t.reply.offer = []i18n.Message{tipAnswer, tipSkip, tipToGood}
	}
	return nil
}

// submitReview submits a review to the service.
func (t *turnHandler) submitReview(ctx context.Context, g *graded) error {
	_, err := t.Service.Submit(ctx, t.person, learn.Submission{
		Point: g.Point, Sitting: g.Sitting, ID: g.id(), Grade: g.Grade, Recall: g.Recall, Score: g.Score, Took: g.Took,
		Channel: quizChannel, Early: true,
	})
	return err
}

// isGone reports whether a review can no longer be recorded: it was done on another device, or the
// point was deleted or removed from the plan.
func isGone(err error) bool {
	_, done := errors.AsType[*learn.AlreadyReviewedError](err)
	return done || errors.Is(err, learn.ErrNotFound) || errors.Is(err, learn.ErrNoPlan)
}

// regrade changes the grade of the last review.
func (t *turnHandler) regrade(ctx context.Context, g store.Grade) error {
	s := t.state
	if s.Last == nil {
		t.reply.say(msgNoLast.In(t.lang))
		return t.repeatIfReviewing(ctx)
	}
	if was := s.Last.Grade; was != g {
		// An interrupted earlier turn may have undone the review already.
		_, err := t.Service.Undo(ctx, t.person, s.Last.id(), quizChannel)
		changed := *s.Last
		changed.Grade = g
		changed.Changes++
		if err == nil {
			err = t.submitReview(ctx, &changed)
		}
		refused := problem.Is(err, problem.Invalid)
		switch {
		case refused || isGone(err):
			t.reply.say(msgTooLate.In(t.lang))
			return t.repeatIfReviewing(ctx)
		case err != nil:
			return err
		}
		s.Last = &changed
		s.Again += countForgotten(g) - countForgotten(was)
	}
	t.reply.say(msgChanged.In(t.lang, gradeName(g, t.lang)))
	return t.repeatIfReviewing(ctx)
}

func countForgotten(g store.Grade) int {
	if g == store.Again {
		return 1
	}
	return 0
}

// undoLast undoes the last review and asks its question again.
func (t *turnHandler) undoLast(ctx context.Context) error {
	s := t.state
	if s.Last == nil {
		t.reply.say(msgNoLast.In(t.lang))
		return t.repeatIfReviewing(ctx)
	}
	out, err := t.Service.Undo(ctx, t.person, s.Last.id(), quizChannel)
	refused := problem.Is(err, problem.Invalid)
	switch {
	case refused || isGone(err):
		s.Last = nil
		t.reply.say(msgTooLate.In(t.lang))
		return t.repeatIfReviewing(ctx)
	case err != nil:
		return err
	}
	queue, err := t.Service.Queue(ctx, t.person, learn.QueueFilter{Deck: s.Deck, Limit: 1})
	if err != nil {
		return err
	}
	if s.isReviewing() && s.Asked > 1 {
		s.Asked-- // the question asked in between comes again
	}
	s.Done--
	s.Again -= countForgotten(s.Last.Grade)
	s.Last = nil
	s.clearQuestion()
	t.reply.say(msgUndone.In(t.lang))
	t.askQuestion(&out.Entry, queue.Left)
	return nil
}

// repeatIfReviewing shows the current question again, if there is one.
func (t *turnHandler) repeatIfReviewing(ctx context.Context) error {
	if !t.state.isReviewing() {
		return nil
	}
	return t.repeat(ctx)
}
