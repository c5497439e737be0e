package learn

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// channel is the channel of these pages in the review log.
const channel = "console"

const (
	// stepsMost is how many steps of a session can be undone.
	stepsMost = 12
	// tookMost is the longest recorded duration of a review; longer ones are breaks.
	tookMost = 10 * time.Minute
	// waitMost is the longest time that a page waits for the next step of a point.
	waitMost = 15 * time.Minute
)

// next returns the card with the next question.
func (p *pages) next(v *page.Visit, s session) (*card, error) {
	l, err := p.Points.Learner(v.Context(), personID(v))
	if err != nil {
		return nil, err
	}
	f := learning.QueueFilter{Tag: s.Tag, Limit: 1, Ahead: true}
	if f.Deck, err = deckOf(l, s.Deck); err != nil {
		return nil, err
	}
	q, err := p.Points.Queue(v.Context(), personID(v), f)
	if err != nil {
		return nil, learnError(err)
	}
	c := &card{session: s, Left: q.Left, Score: -1}
	if s.Point != "" { // the review was undone, so the point is asked again
		e, err := p.Points.Get(v.Context(), personID(v), s.Point)
		if err != nil && !errors.Is(err, learning.ErrNotFound) {
			return nil, err
		}
		if err == nil && e.OpenSitting() != nil && e.Queue() != store.QueueNone {
			p.ask(v, c, l, e)
			return c, nil
		}
	}
	if len(q.Entries) > 0 {
		p.ask(v, c, l, &q.Entries[0])
		return c, nil
	}
	return c, p.nothing(v, c, q)
}

// ask fills a card with a question.
func (p *pages) ask(v *page.Visit, c *card, l *learning.Learner, e *learning.Entry) {
	c.Entry, c.Deck, c.Review, c.Shown = e, deckName(v, l.DeckName(e.Deck)), uuid.NewString(), l.Now.UnixMilli()
	if open := e.OpenSitting(); open != nil {
		c.Sitting = open.ID
	}
	for i, way := range l.Preview(&e.Point) {
		c.Grades[i] = gradeButton{i + 1, gradeName(v, way.Grade), waitText(v, way.Wait, way.Days)}
	}
}

// nothing fills a card that has no question with the time of the next one.
func (p *pages) nothing(v *page.Visit, c *card, q *learning.Queue) error {
	if c.Later = q.NextStepDue; !c.Later.IsZero() {
		c.Clock = c.Later.In(q.Learner.Calendar.Zone).Format("15:04")
		return nil
	}
	var err error
	c.Next, err = p.nextDay(v, q.Learner)
	return err
}

// nextDay describes the next day after today on which points are due; empty if there is none within
// a year.
func (p *pages) nextDay(v *page.Visit, l *learning.Learner) (string, error) {
	first, n, err := p.Points.NextDay(v.Context(), l)
	if err != nil || n == 0 {
		return "", err
	}
	return v.Text(msgNextDay, dayText(v, l.Today, first), n), nil
}

// current returns the card of a submitted form: the question that was shown, with the typed recall.
func (p *pages) current(v *page.Visit) (*card, error) {
	c, err := p.next(v, session{Point: v.FormValue("point"), Deck: v.FormValue("deck"), Tag: v.FormValue("tag")})
	if err != nil {
		return nil, err
	}
	s := sessionOf(v)
	if c.Entry == nil || c.Entry.ID != v.FormValue("point") || c.Sitting != v.FormValue("sitting") {
		// The point was reviewed or removed elsewhere.
		s.Point, s.Notice = "", "elsewhere"
		return p.next(v, s)
	}
	c.session, c.Recall = s, v.FormValue("recall")
	if shown, err := strconv.ParseInt(v.FormValue("shown"), 10, 64); err == nil {
		c.Shown = shown
	}
	if id := v.FormValue("review"); id != "" && len(id) <= 100 {
		c.Review = id
	}
	c.Revealed = true
	return c, nil
}

// review starts or continues a session.
func (p *pages) review(v *page.Visit) {
	c, err := p.next(v, sessionOf(v))
	if err != nil {
		v.Fail(err)
		return
	}
	p.answer(v, c)
}

// answer shows a card; the script gets only the card.
func (p *pages) answer(v *page.Visit, c *card) {
	if v.IsPartial() {
		v.Render(ok, reviewCard(v, c))
		return
	}
	v.Render(ok, reviewPage(v, c))
}

// showNext shows the next card. Without JavaScript it redirects, so that going back and reloading
// are harmless.
func (p *pages) showNext(v *page.Visit, s session) {
	if !v.IsPartial() {
		v.Redirect("/learn/review?" + s.values().Encode())
		return
	}
	c, err := p.next(v, s)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(ok, reviewCard(v, c))
}

// reveal shows the answer.
func (p *pages) reveal(v *page.Visit) {
	c, err := p.current(v)
	if err != nil {
		v.Fail(err)
		return
	}
	p.answer(v, c)
}

// judge has a model grade the recall.
func (p *pages) judge(v *page.Visit) {
	c, err := p.current(v)
	if err != nil {
		v.Fail(err)
		return
	}
	if c.Revealed {
		c.Judged, err = p.Points.Judge(v.Context(), personID(v),
			learning.Recall{Question: c.Entry.Question, Answer: c.Entry.Answer, Recall: c.Recall, Lang: v.Lang})
		if err != nil {
			v.Fail(learnError(err))
			return
		}
		c.Score = c.Judged.Score
	}
	p.answer(v, c)
}

// grade records a review.
func (p *pages) grade(v *page.Visit) {
	s := sessionOf(v)
	s.Notice = ""
	grade, err := learning.ParseGrade(v.FormValue("grade"))
	if err != nil || grade == store.Ungraded {
		v.Fail(problem.New(problem.Invalid, msgNoGrade))
		return
	}
	in := learning.Submission{
		Point: v.FormValue("point"), Sitting: v.FormValue("sitting"), ID: v.FormValue("review"), Grade: grade,
		Recall: strings.TrimSpace(v.FormValue("recall")), Score: -1, Channel: channel,
	}
	if n, err := strconv.Atoi(v.FormValue("score")); err == nil && n >= 0 && n <= 100 {
		in.Score = n
	}
	if shown, err := strconv.ParseInt(v.FormValue("shown"), 10, 64); err == nil {
		in.Took = min(max(p.Points.Now().Sub(time.UnixMilli(shown)), 0), tookMost)
	}
	out, err := p.submit(v, in)
	if s.Notice = refusal(err); s.Notice != "" {
		p.showNext(v, s)
		return
	}
	if err != nil {
		v.Fail(learnError(err))
		return
	}
	s = s.with("r" + out.Review.ID)
	s.Done++
	if grade == store.Again {
		s.Again++
	}
	if out.Leech {
		s.Notice = "leech"
	}
	p.showNext(v, s)
}

// submit submits a review to the service.
func (p *pages) submit(v *page.Visit, in learning.Submission) (out *learning.Outcome, err error) {
	args := control.LearnReview{Point: in.Point, Grade: control.GradeText(learning.GradeName(in.Grade)),
		Sitting: in.Sitting, Review: in.ID, Recall: in.Recall, TookMS: in.Took.Milliseconds()}
	if in.Score >= 0 {
		args.Score = &in.Score
	}
	err = changeAudited(v, "submit_review", args, func() (err error) {
		out, err = p.Points.Submit(v.Context(), personID(v), in)
		return err
	})
	return out, err
}

// refusal returns the name of the notice about a rejected review, if the session can continue.
func refusal(err error) string {
	var done *learning.AlreadyReviewedError
	var early *learning.NotDueError
	switch {
	case errors.As(err, &done):
		return "elsewhere"
	case errors.As(err, &early):
		return "early"
	case errors.Is(err, learning.ErrNotFound):
		return "gone"
	case errors.Is(err, learning.ErrNoPlan):
		return "unplanned"
	}
	return ""
}

// undo undoes the last step, and asks that question again.
func (p *pages) undo(v *page.Visit) {
	s := sessionOf(v)
	s.Notice = ""
	if len(s.Steps) == 0 {
		p.showNext(v, s)
		return
	}
	last := s.Steps[len(s.Steps)-1]
	s.Steps = s.Steps[:len(s.Steps)-1]
	var e *learning.Entry
	var err error
	if id, rests := strings.CutPrefix(last, "s"); rests {
		no := false
		e, err = p.update(v, id, learning.Edit{Suspended: &no})
	} else {
		var out *learning.Outcome
		err = changeAudited(v, "undo_review", control.LearnUndo{Review: last[1:]}, func() (err error) {
			out, err = p.Points.Undo(v.Context(), personID(v), last[1:], channel)
			return err
		})
		if err == nil {
			e = &out.Entry
			s.Done = max(s.Done-1, 0)
			if out.Review.Grade == store.Again {
				s.Again = max(s.Again-1, 0)
			}
		}
	}
	switch {
	case problem.Is(err, problem.Invalid):
		s.Notice = "stuck"
	case errors.Is(err, learning.ErrNotFound):
		s.Notice = "gone"
	case err != nil:
		v.Fail(err)
		return
	default:
		s.Point, s.Notice = e.ID, "back"
	}
	p.showNext(v, s)
}

// suspend suspends a point until somebody resumes it.
func (p *pages) suspend(v *page.Visit) {
	s := sessionOf(v)
	yes := true
	id := v.FormValue("point")
	_, err := p.update(v, id, learning.Edit{Suspended: &yes})
	p.continueAfter(v, s.with("s"+id), "rests", err)
}

// postponeToTomorrow postpones a point to the next day.
func (p *pages) postponeToTomorrow(v *page.Visit) {
	s := sessionOf(v)
	l, err := p.Points.Learner(v.Context(), personID(v))
	if err == nil {
		err = p.postpone(v, v.FormValue("point"), l.Today+1)
	}
	p.continueAfter(v, s, "tomorrow", err)
}

// continueAfter continues the session after a point was put aside.
func (p *pages) continueAfter(v *page.Visit, s session, what string, err error) {
	if s.Notice = refusal(err); s.Notice == "" {
		if err != nil {
			v.Fail(learnError(err))
			return
		}
		s.Notice = what
	}
	p.showNext(v, s)
}
