package learn

import (
	"net/url"
	"strings"

	"patchbay/internal/console/page"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// pageMost is how many points a page lists.
const pageMost = 50

// leechTag is what the service tags points with that are forgotten again and again.
const leechTag = "leech"

// states are what a list can be narrowed to.
var states = []struct {
	value string
	name  talk.Say
}{
	{"", sayAllStates}, {"due", sayDue}, {"learning", sayLearning}, {"new", sayNew}, {"draft", sayDrafts}, {"leech", sayLeeches}, {"trash", sayTrash},
}

// list is a page of points.
type list struct {
	Learner           *learning.Learner
	Query, Deck, Tag  string
	State             string
	Points            []store.Point
	Next              string // the address of the page behind; empty: there is none
	Told, Added, Gone string
}

// address is that of the list, with a change.
func (l *list) address(name, value string) string {
	out := url.Values{}
	for n, v := range map[string]string{"q": l.Query, "deck": l.Deck, "tag": l.Tag, "state": l.State, name: value} {
		if v != "" {
			out.Set(n, v)
		}
	}
	return "/learn/points?" + out.Encode()
}

// points lists points, or searches them.
func (p *pages) points(v *page.Visit) {
	learner, err := p.Points.Learner(v.Context(), who(v))
	if err != nil {
		v.Fail(err)
		return
	}
	l := &list{Learner: learner, Query: strings.TrimSpace(v.FormValue("q")), Deck: v.FormValue("deck"), Tag: strings.TrimPrefix(strings.TrimSpace(v.FormValue("tag")), "#"), State: v.FormValue("state"), Gone: v.FormValue("gone")}
	if len(l.Query) > 1000 {
		l.Query = strings.ToValidUTF8(l.Query[:1000], "")
	}
	deck, err := deckOf(learner, l.Deck)
	if err == nil && l.Query != "" {
		err = p.search(v, l, deck)
	} else if err == nil {
		err = p.list(v, l, deck)
	}
	if err != nil {
		v.Fail(told(err))
		return
	}
	v.Show(ok, pointsPage(v, l))
}

// search finds points by their words.
func (p *pages) search(v *page.Visit, l *list, deck *string) error {
	l.State = ""
	hits, err := p.Points.Search(v.Context(), who(v), l.Query, learning.SearchFilter{Deck: deck, Tag: l.Tag, Limit: pageMost})
	for i := range hits {
		l.Points = append(l.Points, hits[i].Point)
	}
	return err
}

// list looks points up by where they wait, or all of them.
func (p *pages) list(v *page.Visit, l *list, deck *string) error {
	ctx, rows := v.Context(), p.Points.Store.Learn
	after := v.FormValue("after")
	waits := store.QueueFilter{Deck: deck, Tag: l.Tag, Today: l.Learner.Today, Now: l.Learner.Now}
	switch l.State {
	case "due":
		waits.Queue = store.QueueDay
	case "learning":
		waits.Queue, waits.Now = store.QueueSteps, l.Learner.Now.AddDate(0, 0, 2) // all of them, when ever they come
	case "new":
		waits.Queue, waits.Today = store.QueueNew, l.Learner.Today+36500 // those that were put off too
	}
	var err error
	if waits.Queue != store.QueueNone {
		var key store.QueueKey
		mark(after, &key)
		l.Points, err = rows.Queued(ctx, who(v), waits, key, pageMost+1)
		if len(l.Points) > pageMost {
			l.Points = l.Points[:pageMost]
			l.Next = l.address("after", marked(store.KeyOf(&l.Points[pageMost-1])))
		}
		return err
	}
	f := store.PointFilter{Deck: deck, Tag: l.Tag}
	switch l.State {
	case "draft":
		f.Draft = true
	case "trash":
		f.Trash = true
	case "leech":
		f.Tag = leechTag
	default:
		l.State = ""
	}
	var key store.PointKey
	mark(after, &key)
	l.Points, err = rows.Points(ctx, who(v), f, key, pageMost+1)
	if len(l.Points) > pageMost {
		l.Points = l.Points[:pageMost]
		l.Next = l.address("after", marked(f.Key(&l.Points[pageMost-1])))
	}
	return err
}

// stateText says where a point stands, and when it comes.
func stateText(v *page.Visit, l *learning.Learner, p *store.Point) string {
	switch {
	case !p.Deleted.IsZero():
		return v.Say(sayTrash)
	case p.Draft:
		return v.Say(sayDraft)
	case !p.InPlan:
		return v.Say(sayNotAsked)
	case p.Suspended:
		return v.Say(sayResting)
	}
	switch p.Queue() {
	case store.QueueNew:
		if p.Card.Buried > l.Today {
			return v.Say(sayNewOn, dayText(v, l.Today, p.Card.Buried))
		}
		return v.Say(sayNew)
	case store.QueueSteps:
		return v.Say(sayLearningAt, p.Card.DueAt.In(l.Calendar.Zone).Format("15:04"))
	case store.QueueDay:
		if p.Card.Due <= l.Today {
			return v.Say(sayDueNow)
		}
		return v.Say(sayDueOn, dayText(v, l.Today, p.Card.Due))
	}
	return v.Say(sayDone)
}

// tags lists the tags.
func (p *pages) tags(v *page.Visit) {
	tags, err := p.Points.Store.Learn.Tags(v.Context(), who(v), v.FormValue("after"), 200+1)
	if err != nil {
		v.Fail(err)
		return
	}
	next := ""
	if len(tags) > 200 {
		tags = tags[:200]
		next = "/learn/tags?" + query("after", tags[199].Tag)
	}
	v.Show(ok, tagsPage(v, tags, next))
}
