package learn

import (
	"errors"
	"net/url"
	"slices"
	"strconv"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// What can be done to a point while it is reviewed, beside grading it: bury, suspend, flag, mark as
// a leech. Each is a step of the session that can be undone.

// The kinds of steps; each is followed by what it is about, escaped as a part of a path.
const (
	stepReview    byte = 'r' // the ID of a review
	stepSuspended byte = 's' // the ID of a point
	stepBuried    byte = 'b' // the same
	stepFlagged   byte = 'f' // the flag before, a digit, and the ID of a point
	stepLeech     byte = 'l' // the ID of a point that was marked
	stepNoLeech   byte = 'n' // the ID of a point that was unmarked
	stepKnew      byte = 'k' // the position of a cram session before a point that was known
	stepForgot    byte = 'w' // the same for one that was not
)

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
	about, err := url.PathUnescape(last[1:])
	if err != nil {
		p.showNext(v, s)
		return
	}
	switch last[0] {
	case stepKnew, stepForgot:
		s.undoCram(last[0], about)
		p.showNext(v, s)
		return
	case stepReview:
		err = p.undoReview(v, &s, about)
	default:
		s.Point, err = about, p.unmark(v, last[0], about)
		if last[0] == stepFlagged && about != "" {
			s.Point = about[1:]
		}
	}
	switch {
	case problem.Is(err, problem.Invalid):
		p.dropStep(v, s, "stuck")
	case errors.Is(err, learning.ErrNotFound):
		p.dropStep(v, s, "gone")
	case err != nil:
		p.refuse(v, err)
	default:
		s.Notice = "back"
		p.showNext(v, s)
	}
}

// dropStep shows the card of a submitted form again, as it was, in a session that has forgotten a
// step that cannot be undone any more.
func (p *pages) dropStep(v *page.Visit, s session, notice string) {
	c, _, err := p.current(v)
	if err != nil {
		v.Fail(err)
		return
	}
	c.Steps, c.Notice = s.Steps, notice
	p.answer(v, c)
}

// undoReview takes a review of the session back.
func (p *pages) undoReview(v *page.Visit, s *session, id string) error {
	return changeAudited(v, "undo_review", control.LearnUndo{Review: id}, func() error {
		out, err := p.Points.Undo(v.Context(), personID(v), id, channel)
		if err != nil {
			return err
		}
		s.Point, s.Done = out.Entry.ID, max(s.Done-1, 0)
		if out.Review.Grade == store.Again {
			s.Again = max(s.Again-1, 0)
		}
		return nil
	})
}

// unmark takes back what was done to a point.
func (p *pages) unmark(v *page.Visit, kind byte, id string) error {
	no := false
	var edit learning.Edit
	switch kind {
	case stepSuspended:
		edit.Suspended = &no
	case stepBuried:
		edit.Bury = &no
	case stepFlagged:
		if id == "" {
			return learning.ErrNotFound
		}
		flag := int(id[0] - '0')
		edit.Flag, id = &flag, id[1:]
	case stepLeech, stepNoLeech:
		return p.setLeech(v, id, kind == stepNoLeech)
	default:
		return learning.ErrNotFound
	}
	_, err := p.update(v, id, edit)
	return err
}

// suspend suspends a point until somebody resumes it.
func (p *pages) suspend(v *page.Visit) {
	yes := true
	p.putAside(v, stepSuspended, "rests", learning.Edit{Suspended: &yes})
}

// bury hides a point until tomorrow. Its date and its learning steps stay.
func (p *pages) bury(v *page.Visit) {
	yes := true
	p.putAside(v, stepBuried, "tomorrow", learning.Edit{Bury: &yes})
}

// putAside changes the point that is shown so that it is not asked now, and goes on.
func (p *pages) putAside(v *page.Visit, kind byte, notice string, edit learning.Edit) {
	s, id := sessionOf(v), v.FormValue("point")
	switch _, err := p.update(v, id, edit); {
	case errors.Is(err, learning.ErrNotFound):
		s.Notice = "gone"
	case err != nil:
		p.refuse(v, err)
		return
	default:
		s = s.with(kind, id)
		s.Notice = notice
	}
	p.showNext(v, s)
}

// flag sets the flag of the point that is shown, and shows it again as it was.
func (p *pages) flag(v *page.Visit) {
	flag, err := strconv.Atoi(v.FormValue("flag"))
	if err != nil {
		flag = -1 // which is refused, with the reason
	}
	p.mark(v, "", func(e *learning.Entry, s session) (session, error) {
		if e.Flag == flag {
			return s, nil
		}
		about := strconv.Itoa(e.Flag) + e.ID
		before := ""
		if n := len(s.Steps); n > 0 {
			before = s.Steps[n-1]
		}
		_, err := p.update(v, e.ID, learning.Edit{Flag: &flag})
		if len(before) > 2 && before[0] == stepFlagged && before[2:] == url.PathEscape(e.ID) {
			return s, err // one step leads back to the first flag, however many were passed
		}
		return s.with(stepFlagged, about), err
	})
}

// leech marks the point that is shown as a leech, or ends that.
func (p *pages) leech(v *page.Visit) {
	id := v.FormValue("point")
	to := v.FormValue("leech") == "1"
	notice := "unmarked"
	if to {
		notice = "marked"
	}
	p.mark(v, notice, func(e *learning.Entry, s session) (session, error) {
		if slices.Contains(e.Tags, learning.LeechTag) == to {
			return s, nil
		}
		kind := stepNoLeech
		if to {
			kind = stepLeech
		}
		return s.with(kind, id), p.setLeech(v, id, to)
	})
}

// setLeech adds the tag of leeches to a point, or removes it.
func (p *pages) setLeech(v *page.Visit, id string, to bool) error {
	e, err := p.Points.Get(v.Context(), personID(v), id)
	if err != nil {
		return err
	}
	tags := slices.DeleteFunc(slices.Clone(e.Tags), func(tag string) bool { return tag == learning.LeechTag })
	if to {
		tags = append(tags, learning.LeechTag)
	}
	_, err = p.update(v, id, learning.Edit{Tags: &tags})
	return err
}

// mark changes the point that is shown, and shows it again as it was, whether the change is made or
// refused: with the answer, if that was visible, with what was typed, and with how it was judged.
func (p *pages) mark(v *page.Visit, notice string, do func(*learning.Entry, session) (session, error)) {
	c, open, err := p.current(v)
	if err != nil {
		v.Fail(err)
		return
	}
	if !open {
		p.answer(v, c)
		return
	}
	s, err := do(c.Entry, c.session)
	if err != nil {
		p.refuse(v, err)
		return
	}
	if c.Entry, err = p.Points.Get(v.Context(), personID(v), c.Entry.ID); err != nil {
		v.Fail(learnError(err))
		return
	}
	c.session, c.Notice = s, notice
	p.answer(v, c)
}

// Texts about flags and leeches.
const (
	msgFlagChoose    = i18n.Message("Choose a flag")
	msgNoFlagSet     = i18n.Message("No flag")
	msgFlag          = i18n.Message("Flag")
	msgLeechMark     = i18n.Message("Mark as leech")
	msgLeechUnmark   = i18n.Message("No leech")
	msgLeechMarked   = i18n.Message("It is marked as a leech. Rewrite it, split it, or let it rest.")
	msgLeechUnmarked = i18n.Message("It is no leech any more.")
)
