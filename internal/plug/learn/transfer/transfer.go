// Package transfer turns files into learning items and learning items into files.
// It knows neither the database nor the service: a reader hands its caller one
// [Item] after the other, a writer is given them.
//
// Read are our own lossless JSON ("json"), the rows of the service that Learn is
// compatible with ("rows"), spreadsheets ("csv"), Markdown ("md") and Anki's
// packages ("apkg"); all but "rows" are written too.
//
// What every format but JSON changes: line ends become "\n", characters that are
// no UTF-8 and NULs go, and the white space around questions and answers goes.
// CSV and Markdown carry no history and, apart from columns to look at, no dates.
package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// The formats. Rows can only be read.
const (
	JSON     = "json"
	Rows     = "rows"
	CSV      = "csv"
	Markdown = "md"
	Anki     = "apkg"
)

// Limits.
const (
	// MaxSize bounds a file: readers of text hold a part of it, at worst one item
	// of its whole length.
	MaxSize = 256 << 20
	// MaxItems bounds the items of a file where the caller sets no other limit.
	MaxItems = 200_000
	// MaxText bounds a question, and an answer, in bytes. Nobody learns a megabyte
	// by heart; files with pictures in their text have such.
	MaxText = 1 << 20
	// MaxTags and MaxTag bound the tags of an item and the bytes of a tag; MaxName
	// bounds the name of a deck and an origin.
	MaxTags = 100
	MaxTag  = 200
	MaxName = 500
	// MaxBad is how many faults are told. Whoever sees so many has chosen the wrong
	// file.
	MaxBad = 1000
)

// Item is something to learn, as files know it.
type Item struct {
	ID string // a UUID, or empty
	// Origin is the item's name where it comes from, such as "anki:<guid>:<card>"
	// or "learn:<uuid>". The same file read again gives the same. Empty: it has none.
	Origin string
	// Kin is the same for items that give each other's answer away.
	Kin string
	// Deck has "::" between its levels.
	Deck string
	// Question and Answer are plain text or Markdown. An item of format "rows" may
	// have neither: then it brings sittings for the point with its ID, as a table of
	// schedules does that was exported without its points.
	Question, Answer string
	Tags             []string // sorted
	Created, Updated time.Time
	InPlan           bool
	Suspended        bool
	Draft            bool // waits to be confirmed; only JSON has it
	// Card is nil for items that are new, and for those of which only the history
	// is known.
	Card *store.Card
	// History is oldest first, with ID, Kind, At, Grade, Took, Recall, Score and
	// Elapsed.
	History []store.LogEntry
	// Sittings come from and go to formats "rows" and "json" only, with ID, Day,
	// Number, Completed, Created and Recall.
	Sittings []store.Sitting
}

// Deck is a deck with settings of its own. Only JSON has it.
type Deck struct {
	Name     string          `json:"name"`
	Settings json.RawMessage `json:"settings,omitempty"`
}

// Bad is something that was left out.
type Bad struct {
	Row  int    `json:"row"`  // the line, or the number of the record, from 1; 0: none
	What string `json:"what"` // its beginning
	// Why it was, in English unless somebody chose, and what to do about it.
	Why string `json:"why"`
	// Wrong is Why in the languages that there are; nil in what was sent.
	Wrong error `json:"-"`
}

// newBad is something that is left out for a reason.
func newBad(row int, what string, why error) Bad {
	return Bad{Row: row, What: what, Why: why.Error(), Wrong: why}
}

// In is why something was left out, in a language.
func (b Bad) In(l talk.Lang) string {
	if b.Wrong == nil {
		return b.Why
	}
	return talk.Told(b.Wrong, l)
}

func (b Bad) String() string {
	if b.What == "" {
		return fmt.Sprintf("%d: %s", b.Row, b.Why)
	}
	return fmt.Sprintf("%d: %q: %s", b.Row, b.What, b.Why)
}

// ReadOptions say how to read.
type ReadOptions struct {
	Deck string // of items that name none
	// Zone and DayStart are the learner's calendar; they date what a file gives as
	// moments. nil is UTC.
	Zone     *time.Location
	DayStart time.Duration
	// MaxItems is how many items are taken; 0: [MaxItems].
	MaxItems int
	// Temp is the folder for temporary files, up to 1 GiB for an Anki package;
	// empty: the system's.
	Temp string
	// Progress is called now and then with how much is read, in bytes or in cards.
	Progress func(done, total int)
	// Decks is called for decks with settings, before the items.
	Decks func(Deck) error
}

// WriteOptions say how to write.
type WriteOptions struct {
	// Zone and DayStart are the learner's calendar. nil is UTC.
	Zone     *time.Location
	DayStart time.Duration
	// Now is written as the time of the export; zero: now.
	Now time.Time
	// Temp is as in [ReadOptions].
	Temp string
	// Decks are the decks with their settings.
	Decks []Deck
}

// ErrUnreadable is what an [*UnreadableError] is.
var ErrUnreadable = sayUnreadable.Wrong()

// UnreadableError is an error that is about the file and no fault of ours, in words for
// whoever chose it.
type UnreadableError struct{ Why error }

// Error implements error.
func (e *UnreadableError) Error() string { return e.In(talk.English) }

// In is the error in a language.
func (e *UnreadableError) In(l talk.Lang) string { return sayWhy.In(l, ErrUnreadable, e.Why) }

// Unwrap gives [ErrUnreadable] and the reason.
func (e *UnreadableError) Unwrap() []error { return []error{ErrUnreadable, e.Why} }

// ErrFormat is for formats that are not known or only read.
var ErrFormat = sayFormat.Wrong()

// TooManyError says that a file has more items than are taken. All up to the limit
// have been handed over.
type TooManyError struct{ Max int }

func (e *TooManyError) Error() string { return e.In(talk.English) }

// In is the error in a language.
func (e *TooManyError) In(l talk.Lang) string { return sayTooMany.In(l, e.Max) }

// unreadable makes an [*UnreadableError].
func unreadable(s talk.Say, args ...any) error { return &UnreadableError{s.Wrong(args...)} }

// Read calls each for every item of a file, in the file's order, and tells what it
// left out. An empty format is found by the contents. An error ends the reading;
// what was handed over before counts. Errors of each come back as they are.
func Read(ctx context.Context, format string, r io.ReaderAt, size int64, o ReadOptions, each func(Item) error) ([]Bad, error) {
	if size > MaxSize {
		return nil, unreadable(sayLarge, MaxSize>>20)
	}
	if format == "" {
		head := make([]byte, min(size, 64<<10))
		n, err := r.ReadAt(head, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if format = Detect("", head[:n]); format == "" {
			if err := checkText(ctx, r, size); err != nil {
				return nil, err
			}
			return nil, unreadable(sayUnknown)
		}
	}
	in := &intake{ctx: ctx, o: o, each: each, format: format}
	if o.MaxItems <= 0 {
		in.o.MaxItems = MaxItems
	}
	err := in.read(format, r, size)
	return in.bad, err
}

func (in *intake) read(format string, r io.ReaderAt, size int64) error {
	if format == Anki {
		return in.readAnki(r, size)
	}
	read := map[string]func(io.ReaderAt, int64) error{JSON: in.readJSON, Rows: in.readRows, CSV: in.readCSV, Markdown: in.readMarkdown}[format]
	if read == nil {
		return sayQuoted.Wrong(ErrFormat, format)
	}
	if err := checkText(in.ctx, r, size); err != nil {
		return err
	}
	return read(r, size)
}

// Writer writes a file. It is used by one goroutine. Close must be called, also
// after an error of Write, which it returns again.
type Writer interface {
	Write(Item) error
	Close() error
}

// NewWriter begins a file. Writers of text write as they are given items, Anki's
// when it is closed.
func NewWriter(format string, w io.Writer, o WriteOptions) (Writer, error) {
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	switch format {
	case JSON:
		return newJSONWriter(w, o), nil
	case CSV:
		return newCSVWriter(w), nil
	case Markdown:
		return newMarkdownWriter(w), nil
	case Anki:
		return newAnkiWriter(w, o)
	}
	return nil, sayQuoted.Wrong(ErrFormat, format)
}
