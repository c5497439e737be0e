// Package apkg reads and writes Anki's packages (.apkg, .colpkg): a ZIP archive
// with an SQLite database in it. It knows Anki's terms and nothing of Learn's.
//
// Three generations of the database are read: collection.anki2 and
// collection.anki21 (schema 11: note types and decks are JSON in a column) and
// collection.anki21b (compressed with Zstandard; note types and decks have tables
// with protobuf in them). The first two are also read without an archive around them, as
// they lie in the folder of a profile. Written is the first one, which every reader opens.
//
// A package comes from anywhere. Nothing in it is unpacked under the name it
// asks for, all sizes are limited, and the database is opened read-only with
// views, triggers, virtual tables and computed columns refused.
package apkg

import (
	"time"

	"patchbay/internal/talk"
)

// Limits of what is read. A package is small until it is unpacked.
const (
	// maxDatabase bounds the unpacked database; it goes to a temporary file.
	maxDatabase = 1 << 30
	// maxContents bounds the archive's list of contents, which is held in memory:
	// about 200,000 files. Decks with 50,000 pictures exist.
	maxContents = 16 << 20
	// maxValue bounds a value in the database; all note types of an old
	// collection are one value.
	maxValue = 16 << 20
	// maxFields bounds the fields of a note together. Pictures do not belong into
	// them, but some have them there.
	maxFields = 4 << 20
	// maxField bounds a rendered side of a card, as templates can repeat a field
	// any number of times.
	maxField = 1 << 20
	// maxPieces bounds the pieces of a template, which need more memory than text.
	maxPieces = 10_000
	// maxWork bounds the bytes of fields that go through templates, of one card and
	// of all: templates can ask for a field any number of times, and any number of
	// cards for one note. 4 GiB take minutes.
	maxWork, maxAllWork = 16 << 20, 4 << 30
	// maxTypes bounds note types, decks and templates of a type.
	maxTypes = 20_000
	// maxReviews bounds the history of one card.
	maxReviews = 20_000
)

// ErrBroken is wrapped by errors about packages that are damaged or hostile.
var ErrBroken = sayBroken.Wrong()

// TooManyError says that a package has more cards than the caller takes.
type TooManyError struct{ Max int }

func (e *TooManyError) Error() string { return e.In(talk.English) }

// In is the error in a language.
func (e *TooManyError) In(l talk.Lang) string { return sayTooMany.In(l, e.Max) }

// Phase is where a card stands in Anki.
type Phase int

// The phases, with Anki's numbers.
const (
	New Phase = iota
	Learning
	Review
	Relearning
)

// Card is one card with what it needs of its note. Text is plain text with a
// little Markdown.
type Card struct {
	GUID  string // of the note, stable between collections
	Note  int64  // the note's id in this collection
	Order int    // which of the note's cards
	// Deck has "::" between its levels and is empty for the deck that every
	// collection has.
	Deck     string
	Question string
	Answer   string
	Tags     []string
	Created  time.Time
	Updated  time.Time

	Phase     Phase
	Suspended bool
	// Due is the date of the next review, in days since 1970-01-01; DueAt the moment
	// instead, while learning. Both are zero for new cards.
	Due   int64
	DueAt time.Time
	// Interval is in days, Ease a factor such as 2.5, Left the learning steps to
	// come.
	Interval, Reps, Lapses, Left int
	Ease                         float64
	// Stability (days) and Difficulty (1 to 10) are what FSRS knows; 0 where it is
	// not used.
	Stability, Difficulty float64
	LastReview            time.Time
	// Mark is a word of ours that travels with the card, Memo one with the note;
	// Anki keeps the former. At most 40 and 200 bytes.
	Mark, Memo string

	Reviews []Answered // oldest first
}

// Answered is an answer in the review log.
type Answered struct {
	At   time.Time // to the millisecond
	Ease int       // 1 again, 2 hard, 3 good, 4 easy
	Took time.Duration
	// Interval and Last are in days, those after and before this answer.
	Interval, Last int
	Phase          Phase // before: Learning, Review or Relearning
}

// Bad is a card that was left out.
type Bad struct {
	Row  int // of the cards, from 1
	What string
	Why  error
}

// Options say how to read and write.
type Options struct {
	// Zone is the calendar of the collection where it does not tell; nil: UTC.
	Zone *time.Location
	// DayStart is when a day begins, after midnight.
	DayStart time.Duration
	// Now is when the package is written; zero: now.
	Now time.Time
	// MaxCards is how many are read; 0: no limit.
	MaxCards int
	// Temp is the folder for the unpacked database; empty: the system's.
	Temp string
	// Progress is called now and then with how many cards of all are read.
	Progress func(done, total int)
	// Bad is called for each card that is left out.
	Bad func(Bad)
}

func (o Options) zone() *time.Location {
	if o.Zone == nil {
		return time.UTC
	}
	return o.Zone
}

const secondsOfDay = 24 * 60 * 60

// dateOf counts the days from 1970-01-01 to the date that t's own clock shows.
func dateOf(t time.Time) int64 {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / secondsOfDay
}
