package learn

import (
	"errors"
	"strconv"

	"github.com/google/uuid"

	"patchbay/internal/console/page"
	"patchbay/internal/i18n"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// A cram session goes through all points that match a query, whether they are due or not, oldest
// first. It records nothing: what was known and what was not is counted on the page alone. Its
// position is the number of the last point, so that a form that is sent twice gives the same page.

// Texts of cram sessions.
const (
	msgDoneOfMore  = i18n.Message("%d of %d or more done")
	msgCramForgot  = i18n.Message("Not known")
	msgCramKnew    = i18n.Message("Known")
	msgCramNote    = i18n.Message("You are cramming: all that match are asked, due or not. Nothing is recorded, and dates stay as they are.")
	msgCramDone    = i18n.Message("Those were all")
	msgCramSummary = i18n.Message("%d asked, %d of them not known. Nothing was recorded.")
	msgCramNone    = i18n.Message("Nothing matches")
	msgCramAgain   = i18n.Message("Once more")
	msgCramThese   = i18n.Message("Cram these now")
	msgCramHint    = i18n.Message("Cramming asks all that match, due or not, and leaves their dates alone.")
)

// nextCram returns the card with the next question of a cram session.
func (p *pages) nextCram(v *page.Visit, s session) (*card, error) {
	x, err := learning.ParseExpression(s.Query)
	if err != nil {
		return nil, learnError(err)
	}
	found, err := p.Points.Cram(v.Context(), personID(v), x.Within(s.Deck, s.Tag), s.After, 1)
	if err != nil {
		return nil, learnError(err)
	}
	c := &card{session: s, Score: -1}
	c.session.Whole = max(s.Whole, found.Total)
	if s.Point != "" { // it was edited or marked, and is asked again
		e, err := p.Points.Get(v.Context(), personID(v), s.Point)
		if err != nil && !errors.Is(err, learning.ErrNotFound) {
			return nil, err
		}
		if err == nil && !e.Suspended {
			return c, p.askCram(v, c, found.Learner, e)
		}
	}
	if len(found.Entries) > 0 {
		return c, p.askCram(v, c, found.Learner, &found.Entries[0])
	}
	return c, nil
}

// askCram fills a card with a question of a cram session.
func (p *pages) askCram(v *page.Visit, c *card, l *learning.Learner, e *learning.Entry) (err error) {
	c.Entry, c.Deck, c.Review, c.Shown = e, deckName(v, l.DeckName(e.Deck)), uuid.NewString(), l.Now.UnixMilli()
	c.Grades[0] = gradeButton{int(store.Again), v.Text(msgCramForgot), "", "1"}
	c.Grades[2] = gradeButton{int(store.Good), v.Text(msgCramKnew), "", "2 3 4"}
	c.View, err = p.shown(v, e)
	return err
}

// gradeCram notes on the page whether a point was known, and goes on to the next.
func (p *pages) gradeCram(v *page.Visit, s session, grade store.Grade) {
	at, _, err := learning.CramPosition(v.FormValue("at"))
	if err != nil || at <= s.After {
		p.showNext(v, s) // not a form of this session
		return
	}
	known := grade != store.Again
	kind := stepForgot
	if known {
		kind = stepKnew
	}
	s = s.with(kind, strconv.FormatInt(s.After, 10))
	s.After = at
	s.Done++
	if !known {
		s.Again++
	}
	p.showNext(v, s)
}

// undoCram goes back to the point before.
func (s *session) undoCram(kind byte, rest string) {
	after, _, err := learning.CramPosition(rest)
	if err != nil {
		return
	}
	s.After, s.Point = after, ""
	s.Done = max(s.Done-1, 0)
	if kind == stepForgot {
		s.Again = max(s.Again-1, 0)
	}
}
