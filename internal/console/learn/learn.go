// Package learn is the pages about what somebody wants to remember: today's reviews,
// the points themselves, decks, files, statistics and settings. All that they do is done
// by package learn of the plugs, for the person who is signed in.
//
//	today     what waits
//	review    a session of reviews, which session carries along; compare marks what was left out
//	points    lists and searches; editor writes one
//	decks     decks; rules are the settings of a deck, and of all
//	tags      lists and renames them
//	files     imports with progress, exports
//	stats     charts
//	settings  the person's own
package learn

import (
	"net/http"
	"net/url"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// Options are what the pages need.
type Options struct {
	Points *learning.Service
	// Largest is how large a file may be that is imported, in bytes.
	Largest int64
}

type pages struct {
	Options
}

// Routes are the pages.
func Routes(o Options) []page.Route {
	p := &pages{Options: o}
	return []page.Route{
		{Pattern: "GET /learn", Serve: p.today},

		{Pattern: "GET /learn/review", Serve: p.review},
		{Pattern: "POST /learn/review/reveal", Serve: p.reveal},
		{Pattern: "POST /learn/review/judge", Serve: p.judge},
		{Pattern: "POST /learn/review/grade", Serve: p.grade},
		{Pattern: "POST /learn/review/undo", Serve: p.undo},
		{Pattern: "POST /learn/review/rest", Serve: p.rest},
		{Pattern: "POST /learn/review/tomorrow", Serve: p.tomorrow},

		{Pattern: "GET /learn/points", Serve: p.points},
		{Pattern: "GET /learn/points/new", Serve: p.newPoint},
		{Pattern: "POST /learn/points/new", Serve: p.addPoint},
		{Pattern: "POST /learn/preview", Serve: p.preview},
		{Pattern: "GET /learn/points/{point}", Serve: p.point},
		{Pattern: "POST /learn/points/{point}", Serve: p.savePoint},
		{Pattern: "POST /learn/points/{point}/due", Serve: p.reschedule},
		{Pattern: "POST /learn/points/{point}/confirm", Serve: p.confirmPoint},
		{Pattern: "POST /learn/points/{point}/delete", Serve: p.deletePoint},
		{Pattern: "POST /learn/points/{point}/restore", Serve: p.restorePoint},

		{Pattern: "GET /learn/decks", Serve: p.decks},
		{Pattern: "POST /learn/decks", Serve: p.addDeck},
		{Pattern: "GET /learn/decks/{deck}", Serve: p.deck},
		{Pattern: "POST /learn/decks/{deck}", Serve: p.saveDeck},
		{Pattern: "POST /learn/decks/{deck}/delete", Serve: p.removeDeck},
		{Pattern: "GET /learn/tags", Serve: p.tags},
		{Pattern: "GET /learn/tags/{tag}", Serve: p.tag},
		{Pattern: "POST /learn/tags/{tag}", Serve: p.renameTag},

		{Pattern: "GET /learn/import", Serve: p.importPage},
		{Pattern: "POST /learn/import", Serve: p.takeFile, Large: true},
		{Pattern: "GET /learn/export", Serve: p.giveFile},

		{Pattern: "GET /learn/stats", Serve: p.stats},

		{Pattern: "GET /learn/settings", Serve: p.settings},
		{Pattern: "POST /learn/settings", Serve: p.saveSettings},
	}
}

// who is the person whose points are meant.
func who(v *page.Visit) string { return v.Who.Person.ID }

// told puts an error of the service into words for people, if it is theirs to mend.
func told(err error) error { return control.LearnError(err) }

// did changes somebody's points, and has it in the audit trail as a call of the tool that
// does the same, with the arguments that it would have. Its error is that of do.
func did(v *page.Visit, name string, args any, do func() error) error {
	return v.House.Control.Learnt(v.Caller(), name, args, do)
}

// deckParam names a deck in an address: by its id, or, the one that everybody has, by
// its name. Empty: all decks.
func deckParam(id string) string {
	if id == "" {
		return learning.DefaultDeck
	}
	return id
}

// pointPath is the address of a point; who imported it may have named it.
func pointPath(id string) string { return "/learn/points/" + url.PathEscape(id) }

// deckOf finds the deck that an address names; nil: all.
func deckOf(l *learning.Learner, param string) (*string, error) {
	if param == "" {
		return nil, nil
	}
	id, ok := l.DeckID(param)
	if !ok {
		return nil, control.Fail(control.Missing, sayNoDeck)
	}
	return &id, nil
}

// deckName is how a deck is called on pages.
func deckName(v *page.Visit, name string) string {
	if name == learning.DefaultDeck || name == "" {
		return v.Say(sayDefaultDeck)
	}
	return name
}

// tagsOf reads tags as they are typed.
func tagsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '，' || r == '、' || r == '\n' })
}

// dayText is a date as somebody says it.
func dayText(v *page.Visit, today, d store.Day) string {
	switch n := int(d - today); {
	case n < 0:
		return v.Say(sayDaysAgo, -n)
	case n == 0:
		return v.Say(sayToday)
	case n == 1:
		return v.Say(sayTomorrow)
	case n < 30:
		return v.Say(sayInDays, n)
	}
	return d.String()
}

// ok is the status of a page without a fault.
const ok = http.StatusOK

// choice is something to choose in a form.
type choice struct {
	Value string
	Name  string
}

// deckChoices are a person's decks, by what addresses call them.
func deckChoices(v *page.Visit, l *learning.Learner) []choice {
	out := []choice{{learning.DefaultDeck, v.Say(sayDefaultDeck)}}
	for _, d := range l.Decks {
		out = append(out, choice{d.ID, d.Name})
	}
	return out
}
