// Package learn serves the pages about the learning material of a person: today's reviews, the
// points, decks, files, statistics and settings. All operations are those of the plug learn, for
// the person who is signed in.
//
//	today     what is due
//	review    review sessions; session holds their state, compare marks differences, marks buries,
//	          suspends and flags, cram goes through all that match
//	points    lists and searches points; editor edits one, bulk edits many
//	cards     shows points, those of notes in frames; media lists, takes and removes pictures and
//	          sounds; notes edits the fields of a note
//	decks     decks; rules holds the settings of one deck or of all
//	tags      lists and renames them
//	files     imports with progress, exports
//	stats     charts
//	offline   the page that needs no server; its scripts are page/assets/pocket
//	fit       the memory model: fits to one's reviews, simulations
//	settings  the person's settings; push has the browsers that get reminders
package learn

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/push"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Options configures the pages.
type Options struct {
	Points *learning.Service
	// Largest is the maximum size of an imported file, in bytes.
	Largest int64
	// Push reminds people in their browsers; nil: there is no such way.
	Push *push.Service
}

type pages struct {
	Options
}

// Routes returns the pages.
func Routes(o Options) []page.Route {
	p := &pages{Options: o}
	return slices.Concat(p.offlineRoutes(), p.pushRoutes(), p.fitRoutes(), []page.Route{
		{Pattern: "GET /learn", Serve: p.today},

		{Pattern: "GET /learn/review", Serve: p.review},
		{Pattern: "POST /learn/review/reveal", Serve: p.reveal},
		{Pattern: "POST /learn/review/judge", Serve: p.judge},
		{Pattern: "POST /learn/review/grade", Serve: p.grade},
		{Pattern: "POST /learn/review/undo", Serve: p.undo},
		{Pattern: "POST /learn/review/rest", Serve: p.suspend},
		{Pattern: "POST /learn/review/tomorrow", Serve: p.bury},
		{Pattern: "POST /learn/review/flag", Serve: p.flag},
		{Pattern: "POST /learn/review/leech", Serve: p.leech},

		{Pattern: "GET /learn/points", Serve: p.points},
		{Pattern: "GET /learn/points/new", Serve: p.newPoint},
		{Pattern: "POST /learn/points/new", Serve: p.addPoint},
		{Pattern: "POST /learn/points/edit", Serve: p.editPoints},
		{Pattern: "POST /learn/points/undo", Serve: p.undoEdit},
		{Pattern: "POST /learn/preview", Serve: p.preview},
		{Pattern: "GET /learn/points/{point}", Serve: p.point},
		{Pattern: "POST /learn/points/{point}", Serve: p.savePoint},
		{Pattern: "GET /learn/points/{point}/card", Serve: p.cardPage},
		{Pattern: "POST /learn/points/{point}/note", Serve: p.saveNote},
		{Pattern: "POST /learn/points/{point}/note/preview", Serve: p.previewNote},
		{Pattern: "GET /learn/media", Serve: p.mediaPage},
		{Pattern: "POST /learn/media", Serve: p.uploadMedia, Large: true},
		{Pattern: "POST /learn/media/unused", Serve: p.removeUnused},
		{Pattern: "POST /learn/media/remove", Serve: p.removeMedia},
		{Pattern: "GET /learn/media/{name}", Serve: p.media},
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
		{Pattern: "POST /learn/import", Serve: p.uploadFile, Large: true},
		{Pattern: "GET /learn/export", Serve: p.exportFile},

		{Pattern: "GET /learn/stats", Serve: p.stats},

		{Pattern: "GET /learn/settings", Serve: p.settings},
		{Pattern: "POST /learn/settings", Serve: p.saveSettings},
	})
}

// personID returns the ID of the signed-in person.
func personID(v *page.Visit) string { return v.Session.Person.ID }

// learnError returns the localized error of the service, if the person can fix it.
func learnError(err error) error { return control.LearnError(err) }

// changeAudited runs do, and records it in the audit trail as a call of the equivalent tool with
// args. It returns the error of do.
func changeAudited(v *page.Visit, name string, args any, do func() error) error {
	return v.Instance.Control.RecordLearnChange(v.Caller(), name, args, do)
}

// deckParam returns a deck as a URL parameter: its ID or, for the default deck, its name. Empty
// means all decks.
func deckParam(id string) string {
	if id == "" {
		return learning.DefaultDeck
	}
	return id
}

// pointPath returns the path of a point. The ID is escaped, because imports may choose it.
func pointPath(id string) string { return "/learn/points/" + url.PathEscape(id) }

// deckOf returns the deck that a URL parameter names; nil means all.
func deckOf(l *learning.Learner, param string) (*string, error) {
	if param == "" {
		return nil, nil
	}
	id, ok := l.DeckID(param)
	if !ok {
		return nil, problem.New(problem.NotFound, msgNoDeck)
	}
	return &id, nil
}

// deckName returns the displayed name of a deck.
func deckName(v *page.Visit, name string) string {
	if name == learning.DefaultDeck || name == "" {
		return v.Text(msgDefaultDeck)
	}
	return name
}

// tagsOf splits the submitted tags.
func tagsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '，' || r == '、' || r == '\n' })
}

// dayText formats a date relative to today.
func dayText(v *page.Visit, today, d store.Day) string {
	switch n := int(d - today); {
	case n < 0:
		return v.Text(msgDaysAgo, -n)
	case n == 0:
		return v.Text(msgToday)
	case n == 1:
		return v.Text(msgTomorrow)
	case n < 30:
		return v.Text(msgInDays, n)
	}
	return d.String()
}

// ok is the status of a page without an error.
const ok = http.StatusOK

// choice is an option of a select element.
type choice struct {
	Value string
	Name  string
}

// deckChoices returns a person's decks as options.
func deckChoices(v *page.Visit, l *learning.Learner) []choice {
	out := []choice{{learning.DefaultDeck, v.Text(msgDefaultDeck)}}
	for _, d := range l.Decks {
		out = append(out, choice{d.ID, d.Name})
	}
	return out
}
