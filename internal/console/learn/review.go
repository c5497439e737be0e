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
	"patchbay/internal/store"
)

// door is the name of these pages in the review log.
const door = "console"

const (
	// stepsMost is how many steps of a session can be taken back.
	stepsMost = 12
	// tookMost is the longest time that counts as one review: who goes for lunch in
	// between does not think all the while.
	tookMost = 10 * time.Minute
	// waitMost is the longest that a page waits for the next step of a point by itself.
	waitMost = 15 * time.Minute
)

// next finds what is asked next.
func (p *pages) next(v *page.Visit, s session) (*card, error) {
	l, err := p.Points.Learner(v.Context(), who(v))
	if err != nil {
		return nil, err
	}
	f := learning.QueueFilter{Tag: s.Tag, Limit: 1, Ahead: true}
	if f.Deck, err = deckOf(l, s.Deck); err != nil {
		return nil, err
	}
	q, err := p.Points.Queue(v.Context(), who(v), f)
	if err != nil {
		return nil, told(err)
	}
	c := &card{session: s, Left: q.Left, Score: -1}
	if s.Point != "" { // it was taken back, so it is asked again
		e, err := p.Points.Get(v.Context(), who(v), s.Point)
		if err != nil && !errors.Is(err, learning.ErrNotFound) {
			return nil, err
		}
		if err == nil && e.Open() != nil && e.Queue() != store.QueueNone {
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
	if open := e.Open(); open != nil {
		c.Sitting = open.ID
	}
	for i, way := range l.Preview(&e.Point) {
		c.Grades[i] = gradeButton{i + 1, gradeName(v, way.Grade), waitText(v, way.Wait, way.Days)}
	}
}

// nothing fills a card with when something will be asked.
func (p *pages) nothing(v *page.Visit, c *card, q *learning.Queue) error {
	if c.Later = q.Later; !c.Later.IsZero() {
		c.Clock = c.Later.In(q.Learner.Calendar.Zone).Format("15:04")
		return nil
	}
	var err error
	c.Next, err = p.nextDay(v, q.Learner)
	return err
}

// nextDay says when something is due after today; empty: nothing is, in a year.
func (p *pages) nextDay(v *page.Visit, l *learning.Learner) (string, error) {
	first, n, err := p.Points.NextDay(v.Context(), l)
	if err != nil || n == 0 {
		return "", err
	}
	return v.Say(sayNextDay, dayText(v, l.Today, first), n), nil
}

// current is the card of a form: the question that was shown, with what was typed.
func (p *pages) current(v *page.Visit) (*card, error) {
	c, err := p.next(v, session{Point: v.FormValue("point"), Deck: v.FormValue("deck"), Tag: v.FormValue("tag")})
	if err != nil {
		return nil, err
	}
	s := sessionOf(v)
	if c.Entry == nil || c.Entry.ID != v.FormValue("point") || c.Sitting != v.FormValue("sitting") {
		// It was reviewed, or went away, elsewhere.
		s.Point, s.Told = "", "elsewhere"
		return p.next(v, s)
	}
	c.session, c.Recall = s, v.FormValue("recall")
	if shown, err := strconv.ParseInt(v.FormValue("shown"), 10, 64); err == nil {
		c.Shown = shown
	}
	if id := v.FormValue("review"); id != "" && len(id) <= 100 {
		c.Review = id
	}
	c.Open = true
	return c, nil
}

// review begins a session, or goes on with one.
func (p *pages) review(v *page.Visit) {
	c, err := p.next(v, sessionOf(v))
	if err != nil {
		v.Fail(err)
		return
	}
	p.answer(v, c)
}

// answer shows a card: alone if the script asked.
func (p *pages) answer(v *page.Visit, c *card) {
	if v.Partial() {
		v.Show(ok, reviewCard(v, c))
		return
	}
	v.Show(ok, reviewPage(v, c))
}

// goOn shows what follows a step. Without the script the browser is sent there, so
// that going back and loading again do no harm.
func (p *pages) goOn(v *page.Visit, s session) {
	if !v.Partial() {
		v.To("/learn/review?" + s.values().Encode())
		return
	}
	c, err := p.next(v, s)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(ok, reviewCard(v, c))
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

// judge has a model say how well it was recalled.
func (p *pages) judge(v *page.Visit) {
	c, err := p.current(v)
	if err != nil {
		v.Fail(err)
		return
	}
	if c.Open {
		c.Judged, err = p.Points.Judge(v.Context(), who(v), learning.Recall{Question: c.Entry.Question, Answer: c.Entry.Answer, Recall: c.Recall, Lang: v.Lang})
		if err != nil {
			v.Fail(told(err))
			return
		}
		c.Score = c.Judged.Score
	}
	p.answer(v, c)
}

// grade takes a review.
func (p *pages) grade(v *page.Visit) {
	s := sessionOf(v)
	s.Told = ""
	grade, err := learning.ParseGrade(v.FormValue("grade"))
	if err != nil || grade == store.Ungraded {
		v.Fail(control.Fail(control.Invalid, sayNoGrade))
		return
	}
	in := learning.Submission{
		Point: v.FormValue("point"), Sitting: v.FormValue("sitting"), ID: v.FormValue("review"), Grade: grade, Recall: strings.TrimSpace(v.FormValue("recall")), Score: -1, Door: door,
	}
	if n, err := strconv.Atoi(v.FormValue("score")); err == nil && n >= 0 && n <= 100 {
		in.Score = n
	}
	if shown, err := strconv.ParseInt(v.FormValue("shown"), 10, 64); err == nil {
		in.Took = min(max(p.Points.Now().Sub(time.UnixMilli(shown)), 0), tookMost)
	}
	out, err := p.submit(v, in)
	if s.Told = refusal(err); s.Told != "" {
		p.goOn(v, s)
		return
	}
	if err != nil {
		v.Fail(told(err))
		return
	}
	s = s.with("r" + out.Review.ID)
	s.Done++
	if grade == store.Again {
		s.Again++
	}
	if out.Leech {
		s.Told = "leech"
	}
	p.goOn(v, s)
}

// submit has a review counted.
func (p *pages) submit(v *page.Visit, in learning.Submission) (out *learning.Outcome, err error) {
	args := control.LearnReview{Point: in.Point, Grade: control.GradeText(learning.GradeName(in.Grade)), Sitting: in.Sitting, Review: in.ID, Recall: in.Recall, TookMS: in.Took.Milliseconds()}
	if in.Score >= 0 {
		args.Score = &in.Score
	}
	err = did(v, "submit_review", args, func() (err error) {
		out, err = p.Points.Submit(v.Context(), who(v), in)
		return err
	})
	return out, err
}

// refusal names what is told about a review that was not taken, if the session goes on
// all the same.
func refusal(err error) string {
	var done *learning.Reviewed
	var early *learning.NotDue
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

// undo takes the last step back, and asks that question again.
func (p *pages) undo(v *page.Visit) {
	s := sessionOf(v)
	s.Told = ""
	if len(s.Steps) == 0 {
		p.goOn(v, s)
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
		err = did(v, "undo_review", control.LearnUndo{Review: last[1:]}, func() (err error) {
			out, err = p.Points.Undo(v.Context(), who(v), last[1:], door)
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
	var bad *learning.Invalid
	switch {
	case errors.As(err, &bad):
		s.Told = "stuck"
	case errors.Is(err, learning.ErrNotFound):
		s.Told = "gone"
	case err != nil:
		v.Fail(err)
		return
	default:
		s.Point, s.Told = e.ID, "back"
	}
	p.goOn(v, s)
}

// rest lets a point rest until somebody wakes it.
func (p *pages) rest(v *page.Visit) {
	s := sessionOf(v)
	yes := true
	id := v.FormValue("point")
	_, err := p.update(v, id, learning.Edit{Suspended: &yes})
	p.away(v, s.with("s"+id), "rests", err)
}

// tomorrow keeps a point away until the next day.
func (p *pages) tomorrow(v *page.Visit) {
	s := sessionOf(v)
	l, err := p.Points.Learner(v.Context(), who(v))
	if err == nil {
		err = p.putOff(v, v.FormValue("point"), l.Today+1)
	}
	p.away(v, s, "tomorrow", err)
}

// away goes on after a point was put aside.
func (p *pages) away(v *page.Visit, s session, what string, err error) {
	if s.Told = refusal(err); s.Told == "" {
		if err != nil {
			v.Fail(told(err))
			return
		}
		s.Told = what
	}
	p.goOn(v, s)
}
