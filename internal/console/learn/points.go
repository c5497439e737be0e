package learn

import (
	"net/url"
	"slices"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/i18n"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// pageMost is the number of points on a page.
const pageMost = 50

// states are the states by which a list can be filtered.
var states = []state{
	{"", msgAllStates}, {learning.StateDue, msgDue}, {learning.StateLearning, msgLearning}, {learning.StateNew, msgNew},
	{learning.StateDraft, msgDrafts},
	{learning.StateLeech, msgLeeches}, {learning.StateTrash, msgTrash},
}

type state struct {
	value string
	name  i18n.Message
}

// list is one page of points.
type list struct {
	Learner          *learning.Learner
	Query, Deck, Tag string
	State            string
	Points           []store.Point
	Next             string // URL of the next page; empty if there is none
	Deleted          string
}

// address returns the URL of the list with one parameter changed.
func (l *list) address(name, value string) string {
	out := url.Values{}
	for n, v := range map[string]string{"q": l.Query, "deck": l.Deck, "tag": l.Tag, "state": l.State, name: value} {
		if v != "" {
			out.Set(n, v)
		}
	}
	return "/learn/points?" + out.Encode()
}

// points lists or searches points.
func (p *pages) points(v *page.Visit) {
	learner, err := p.Points.Learner(v.Context(), personID(v))
	if err != nil {
		v.Fail(err)
		return
	}
	l := &list{Learner: learner, Query: strings.TrimSpace(v.FormValue("q")), Deck: v.FormValue("deck"),
		Tag: strings.TrimPrefix(strings.TrimSpace(v.FormValue("tag")), "#"), State: v.FormValue("state"),
		Deleted: v.FormValue("gone")}
	if len(l.Query) > 1000 {
		l.Query = strings.ToValidUTF8(l.Query[:1000], "")
	}
	if !slices.ContainsFunc(states, func(s state) bool { return s.value == l.State }) {
		l.State = ""
	}
	if l.Query != "" {
		l.State = ""
	}
	w := learning.PointQuery{Query: l.Query, Tag: l.Tag, State: l.State, After: v.FormValue("after"), Limit: pageMost}
	if w.Deck, err = deckOf(learner, l.Deck); err != nil {
		v.Fail(err)
		return
	}
	points, next, err := p.Points.Find(v.Context(), learner, w)
	if problem.Is(err, problem.Invalid) && w.After != "" {
		w.After = "" // an invalid cursor starts at the beginning
		points, next, err = p.Points.Find(v.Context(), learner, w)
	}
	if err != nil {
		v.Fail(learnError(err))
		return
	}
	if l.Points = points; next != "" {
		l.Next = l.address("after", next)
	}
	v.Render(ok, pointsPage(v, l))
}

// stateText describes the state of a point and when it is due.
func stateText(v *page.Visit, l *learning.Learner, p *store.Point) string {
	switch {
	case !p.Deleted.IsZero():
		return v.Text(msgTrash)
	case p.Draft:
		return v.Text(msgDraft)
	case !p.InPlan:
		return v.Text(msgNotAsked)
	case p.Suspended:
		return v.Text(msgResting)
	}
	switch p.Queue() {
	case store.QueueNew:
		if p.Card.Buried > l.Today {
			return v.Text(msgNewOn, dayText(v, l.Today, p.Card.Buried))
		}
		return v.Text(msgNew)
	case store.QueueSteps:
		return v.Text(msgLearningAt, p.Card.DueAt.In(l.Calendar.Zone).Format("15:04"))
	case store.QueueDay:
		if p.Card.Due <= l.Today {
			return v.Text(msgDueNow)
		}
		return v.Text(msgDueOn, dayText(v, l.Today, p.Card.Due))
	}
	return v.Text(msgDone)
}
