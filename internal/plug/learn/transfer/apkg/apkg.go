// Package apkg reads and writes Anki's packages (.apkg, .colpkg): a ZIP archive with an SQLite
// database in it. It uses Anki's terms and does not depend on Learn.
//
// It reads three generations of the database: collection.anki2 and collection.anki21 (schema 11:
// note types and decks are JSON in a column) and collection.anki21b (compressed with Zstandard;
// note types and decks have tables with protobuf in them). It also reads the first two without an
// archive, as they lie in a profile's folder. It writes the first one, which every reader opens, or
// the newest one. Note types, decks and their options are passed on as the JSON of schema 11,
// whatever generation they come from and go to, with all attributes, known or not.
//
// Packages are untrusted. No file name from a package is used on disk, all sizes are limited, and
// the database is opened read-only; views, triggers, virtual tables and computed columns are
// rejected.
//
// Comments cite Anki's sources, rslib/ and proto/, at github.com/ankitects/anki c32cb29 (August
// 2026).
package apkg

import (
	"io"
	"time"

	"patchbay/internal/i18n"
)

// Limits when reading. A small package may unpack to a huge size.
const (
	// maxDatabase limits the unpacked database, a temporary file, in bytes.
	maxDatabase = 1 << 30
	// maxContents limits the archive's directory, which is held in memory, in bytes: about 200,000
	// files. Decks with 50,000 pictures exist.
	maxContents = 16 << 20
	// maxValue limits a value in the database, in bytes; in an old collection, all note types are
	// one value.
	maxValue = 16 << 20
	// maxFields limits the fields of a note together, in bytes. Some notes contain pictures in
	// their fields.
	maxFields = 4 << 20
	// maxField limits a rendered side of a card, in bytes; templates can repeat a field any number
	// of times.
	maxField = 1 << 20
	// maxAllWork limits the bytes of fields that templates process for all cards: a note can have
	// any number of cards. 4 GiB take minutes.
	maxAllWork = 4 << 30
	// maxTypes limits the note types, the decks, and the templates of a note type.
	maxTypes = 20_000
	// maxReviews limits the history of one card.
	maxReviews = 20_000
)

// ErrBroken is wrapped by errors about damaged or hostile packages.
var ErrBroken = msgBroken.Errorf()

// TooManyError is returned when a package has more cards than the caller accepts.
type TooManyError struct{ Max int }

func (e *TooManyError) Error() string { return e.In(i18n.English) }

// In returns the error in a language.
func (e *TooManyError) In(l i18n.Lang) string { return msgTooMany.In(l, e.Max) }

// Phase is the learning phase of a card in Anki.
type Phase int

// The phases, with Anki's numbers (rslib/src/card/mod.rs, CardType).
const (
	New Phase = iota
	Learning
	Review
	Relearning
)

// Card is one card with the data of its note. Its texts are plain text with a little Markdown.
type Card struct {
	GUID  string // of the note, the same in all collections
	Note  int64  // ID of the note in this collection
	Order int    // index of the card within its note
	// Deck has "::" between its levels; empty for the default deck.
	Deck     string
	Question string
	Answer   string
	Tags     []string
	Created  time.Time
	Updated  time.Time

	Phase     Phase
	Suspended bool
	// Due is the date of the next review, in days since 1970-01-01; DueAt is the time instead,
	// while learning. Both are zero for new cards.
	Due   int64
	DueAt time.Time
	// Interval is in days, Ease a factor such as 2.5, Left the number of remaining learning steps.
	Interval, Reps, Lapses, Left int
	Ease                         float64
	// Stability (days) and Difficulty (1 to 10) are the memory state of FSRS; 0 if FSRS is not
	// used.
	Stability, Difficulty float64
	LastReview            time.Time
	// Mark is a word of the caller's that travels with the card, Memo one that travels with the
	// note; Anki preserves Mark. The limits are 40 and 200 bytes.
	Mark, Memo string

	Reviews []ReviewEntry // oldest first
	// Others are rows of the review log that are no answers: dates set by hand, and previews.
	Others []LogRow
	// Row and NoteRow are the rows that were read, and Day the date from which Row counts its due
	// date. [Writer.Write] ignores them.
	Row     CardRow
	NoteRow NoteRow
	Day     int64
}

// Text reports whether the card was written by [Writer.Write], as a note of two plain texts.
func (c *Card) Text() bool { return c.NoteRow.Type == TypeID }

// ReviewEntry is an answer in the review log.
type ReviewEntry struct {
	At   time.Time // to the millisecond
	Ease int       // 1 again, 2 hard, 3 good, 4 easy
	Took time.Duration
	// Interval and Last are the intervals after and before this answer, in days.
	Interval, Last int
	Phase          Phase // before: Learning, Review or Relearning
	// Row is the row that was read, with the answers of the second scheduler.
	Row LogRow
}

// CardError is the error of a card that was left out.
type CardError struct {
	Row  int // number of the card, from 1; 0: a file
	What string
	Why  error
}

// Options configure reading.
type Options struct {
	// Zone is the collection's time zone if the collection does not contain one; nil means UTC.
	Zone *time.Location
	// DayStart is when a day begins, as time after midnight.
	DayStart time.Duration
	// MaxCards limits the cards that are read; 0 means no limit.
	MaxCards int
	// Temp is the folder for the unpacked database; empty means the system's.
	Temp string
	// Progress is called repeatedly with the number of cards read and of all cards.
	Progress func(done, total int)
	// Contents is called once, before the cards.
	Contents func(*Contents) error
	// OnError is called for each card that is left out, and with Row 0 for each file of media.
	OnError func(CardError)

	orphans orphanLimits // zero: the usual ones
}

// WriteOptions configure writing.
type WriteOptions struct {
	// Zone, DayStart, Now and Temp are as in [Options]. Zone and the time of creation of the
	// collection are those of Base, if it has them.
	Zone     *time.Location
	DayStart time.Duration
	Now      time.Time
	Temp     string
	// Newest writes the newest generation of the database, schema 18, instead of schema 11.
	Newest bool
	// Base has the parts that were read from packages. Decks that it lacks are made.
	Base Contents
	// Whole writes all parts of Base; otherwise only those that the cards use.
	Whole bool
	// Media calls put for each picture and sound to write; nil: none.
	Media func(put func(name string, content io.Reader) error) error
}

func (o WriteOptions) zone() *time.Location { return Options{Zone: o.Zone}.zone() }

func (o Options) zone() *time.Location {
	if o.Zone == nil {
		return time.UTC
	}
	return o.Zone
}

const secondsOfDay = 24 * 60 * 60

// dateOf returns the days from 1970-01-01 to the date of t in its own zone.
func dateOf(t time.Time) int64 {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / secondsOfDay
}
