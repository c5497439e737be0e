package learn

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
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
	Rows             []row  // the same as they are shown
	Next             string // URL of the next page; empty if there is none
	Deleted          string
	Wrong            string // what is wrong with the query
	// What the last change of many points did, if it was just done.
	Edited, Skipped, Undone string
	// LastEdit is the change of many points that can be undone, in words, and LastPoints the number
	// of its points.
	LastEdit   string
	LastPoints int
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

// reviewAddress returns the URL of a review of what is due in the list.
func (l *list) reviewAddress() string {
	return "/learn/review?" + session{Deck: l.Deck, Tag: l.Tag, Query: l.selects()}.values().Encode()
}

// cramAddress returns the URL of a session of all that is in the list, due or not.
func (l *list) cramAddress() string {
	return "/learn/review?" + session{Deck: l.Deck, Tag: l.Tag, Query: l.selects(), Cram: true}.values().Encode()
}

// selects returns the list's query, or its state as one.
func (l *list) selects() string {
	switch l.State {
	case learning.StateDue, learning.StateLearning, learning.StateNew, learning.StateLeech:
		return "is:" + l.State
	}
	return l.Query
}

// reviewable reports whether the list selects points that can be reviewed.
func (l *list) reviewable() bool {
	return l.State != learning.StateTrash && l.State != learning.StateDraft && (l.selects() != "" || l.Deck != "" || l.Tag != "")
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
		Deleted: v.FormValue("gone"), Edited: number(v.FormValue("edited")), Skipped: number(v.FormValue("skipped")),
		Undone: number(v.FormValue("undone"))}
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
	if text := wrongQuery(v, err); text != "" {
		l.Wrong, err = text, nil
	}
	if err != nil {
		v.Fail(learnError(err))
		return
	}
	switch e, n, err := p.Points.LastBulk(v.Context(), personID(v)); {
	case err == nil:
		l.LastEdit, l.LastPoints = e.Describe(v.Lang), n
	case !errors.Is(err, store.ErrNotFound):
		v.Fail(err)
		return
	}
	if l.Points = points; next != "" {
		l.Next = l.address("after", next)
	}
	if l.Rows, err = p.rows(v, points); err != nil {
		v.Fail(err)
		return
	}
	v.Render(ok, pointsPage(v, l))
}

// wrongQuery returns what is wrong with a query, in words; empty if the error is another one.
func wrongQuery(v *page.Visit, err error) string {
	if !problem.Is(err, problem.Invalid) {
		return ""
	}
	return i18n.Localize(err, v.Lang)
}

// number returns a text if it is a number.
func number(text string) string {
	if _, err := strconv.Atoi(text); err != nil {
		return ""
	}
	return text
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
