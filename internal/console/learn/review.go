package learn

import (
	"encoding/json"
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
	if s.Cram {
		return p.nextCram(v, s)
	}
	l, err := p.Points.Learner(v.Context(), personID(v))
	if err != nil {
		return nil, err
	}
	f := learning.QueueFilter{Tag: s.Tag, Limit: 1, Ahead: true, Count: true, Asks: true}
	if f.Deck, err = deckOf(l, s.Deck); err != nil {
		return nil, err
	}
	if f.Query, err = learning.ParseExpression(s.Query); err != nil {
		return nil, err
	}
	q, err := p.Points.QueueOf(v.Context(), l, f)
	if err != nil {
		return nil, learnError(err)
	}
	c := &card{session: s, Left: q.Left, Total: q.Matching, Score: -1}
	c.session.Whole = max(c.session.Whole, c.Total)
	if s.Point != "" { // the review was undone, so the point is asked again
		e, err := p.Points.Get(v.Context(), personID(v), s.Point)
		if err != nil && !errors.Is(err, learning.ErrNotFound) {
			return nil, err
		}
		if err == nil && e.OpenSitting() != nil && e.Queue() != store.QueueNone {
			return c, p.ask(v, c, l, e)
		}
	}
	if len(q.Entries) > 0 {
		return c, p.ask(v, c, l, &q.Entries[0])
	}
	return c, p.nothing(v, c, q)
}

// ask fills a card with a question.
func (p *pages) ask(v *page.Visit, c *card, l *learning.Learner, e *learning.Entry) (err error) {
	c.Entry, c.Deck, c.Review, c.Shown = e, deckName(v, l.DeckName(e.Deck)), uuid.NewString(), l.Now.UnixMilli()
	if open := e.OpenSitting(); open != nil {
		c.Sitting = open.ID
	}
	for i, way := range l.Preview(&e.Point) {
		c.Grades[i] = gradeButton{i + 1, gradeName(v, way.Grade), waitText(v, way.Wait, way.Days), strconv.Itoa(i + 1)}
	}
	c.View, err = p.shown(v, e)
	return err
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

// current returns the card of a submitted form as it was shown, and whether its question is still
// open. If not, because the point was reviewed or removed elsewhere, it is the next card.
func (p *pages) current(v *page.Visit) (c *card, open bool, err error) {
	s := sessionOf(v)
	shown := s
	shown.Point = v.FormValue("point")
	if c, err = p.next(v, shown); err != nil {
		return nil, false, err
	}
	s.Whole = c.session.Whole
	if c.Entry == nil || c.Entry.ID != v.FormValue("point") || c.Sitting != v.FormValue("sitting") {
		s.Point, s.Notice = "", "elsewhere"
		c, err = p.next(v, s)
		return c, false, err
	}
	c.session, c.Recall, c.Revealed = s, v.FormValue("recall"), v.FormValue("revealed") != ""
	c.Score, c.Judged = scoreOf(v), judgedOf(v)
	if shown, err := strconv.ParseInt(v.FormValue("shown"), 10, 64); err == nil {
		c.Shown = shown
	}
	if id := v.FormValue("review"); id != "" && len(id) <= 100 {
		c.Review = id
	}
	return c, true, nil
}

// scoreOf returns the score that a form carries; −1 means that nothing was judged.
func scoreOf(v *page.Visit) int {
	if n, err := strconv.Atoi(v.FormValue("score")); err == nil && n >= 0 && n <= 100 {
		return n
	}
	return -1
}

// judgedOf returns the judgement that a form carries; nil if there is none.
func judgedOf(v *page.Visit) *learning.Judgement {
	var j *learning.Judgement
	if json.Unmarshal([]byte(v.FormValue("judged")), &j) != nil {
		return nil
	}
	if j != nil {
		j.Failed = v.FormValue("failed") != ""
	}
	return j
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
func (p *pages) answer(v *page.Visit, c *card) { show(v, ok, c) }

func show(v *page.Visit, status int, c *card) {
	if v.IsPartial() {
		v.Render(status, reviewCard(v, c))
		return
	}
	v.Render(status, reviewPage(v, c))
}

// refuse shows the card of a submitted form again, as it was, with the reason why what was asked
// for was not done.
func (p *pages) refuse(v *page.Visit, why error) {
	text, status := v.Wrong(learnError(why))
	if text == "" {
		return
	}
	c, _, err := p.current(v)
	if err != nil {
		v.Fail(err)
		return
	}
	c.Wrong = text
	show(v, status, c)
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
	if c.Notice == "" && c.Entry != nil && c.Entry.ID == s.forgotten {
		c.Notice = "again" // its page looks as if nothing had happened
	}
	v.Render(ok, reviewCard(v, c))
}

// reveal shows the answer.
func (p *pages) reveal(v *page.Visit) {
	c, open, err := p.current(v)
	if err != nil {
		v.Fail(err)
		return
	}
	c.Revealed = open
	p.answer(v, c)
}

// judge has a model grade the recall.
func (p *pages) judge(v *page.Visit) {
	c, open, err := p.current(v)
	if err != nil {
		v.Fail(err)
		return
	}
	if open {
		c.Revealed = true
		c.Judged, err = p.Points.Judge(v.Context(), personID(v),
			learning.Recall{Question: c.Entry.Question, Answer: c.Entry.Answer, Recall: c.Recall, Lang: v.Lang})
		if err != nil {
			p.refuse(v, err)
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
		p.refuse(v, problem.New(problem.Invalid, msgNoGrade))
		return
	}
	if s.Cram {
		p.gradeCram(v, s, grade)
		return
	}
	in := learning.Submission{
		Point: v.FormValue("point"), Sitting: v.FormValue("sitting"), ID: v.FormValue("review"), Grade: grade,
		Recall: strings.TrimSpace(v.FormValue("recall")), Score: scoreOf(v), Channel: channel,
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
		p.refuse(v, err)
		return
	}
	s = s.with(stepReview, out.Review.ID)
	s.Done++
	if grade == store.Again {
		s.Again++
		s.forgotten = in.Point
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
