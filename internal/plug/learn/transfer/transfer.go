// Package transfer converts files to learning items and learning items to files. It depends on
// neither the database nor the service: a reader passes one [Item] after the other to its caller,
// and a writer receives them.
//
// It reads our own lossless JSON ("json"), the rows of the service that Learn is compatible with
// ("rows"), spreadsheets ("csv"), Markdown ("md") and Anki's packages ("apkg"). It writes all of
// these except "rows".
//
// Every format except JSON changes texts: line ends become "\n"; invalid UTF-8, NULs, and white
// space around questions and answers are dropped. CSV and Markdown carry no history, and no dates
// except informational columns.
//
// Comments cite Anki as package apkg does, and the plugin Spaced Repetition for Obsidian as
// obsidian-spaced-repetition: github.com/st3v3nmw/obsidian-spaced-repetition at 22fbea0 (1.15.4).
package transfer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// The formats. Rows can only be read.
const (
	JSON     = "json"
	Rows     = "rows"
	CSV      = "csv"
	Markdown = "md"
	Anki     = "apkg"
	// Colpkg is a whole collection of Anki. It differs from [Anki] only when it is written.
	Colpkg = "colpkg"
)

// Limits.
const (
	// MaxSize limits a file of text, in bytes: its readers hold a part of it in memory, at worst
	// one item of the file's whole length. MaxPackage limits a package, most of which is media.
	MaxSize    = 256 << 20
	MaxPackage = 2 << 30
	// MaxItems limits the items of a file if the caller sets no other limit.
	MaxItems = 200_000
	// MaxText limits a question, and an answer, in bytes. Texts beyond it are usually files with
	// embedded pictures.
	MaxText = 1 << 20
	// MaxTags and MaxTag limit the tags of an item and the bytes of a tag; MaxName limits the name
	// of a deck and an origin, in bytes.
	MaxTags = 100
	MaxTag  = 200
	MaxName = 500
	// MaxRowErrors limits the reported row errors. With more, it is probably the wrong file.
	MaxRowErrors = 1000
)

// Item is a learning item in a file.
type Item struct {
	ID string // a UUID, or empty
	// Origin identifies the item at its source, such as "anki:<guid>:<card>" or "learn:<uuid>", the
	// same each time the file is read. Empty if it has none.
	Origin string
	// Kin is the same for items that reveal each other's answers.
	Kin string
	// Deck has "::" between its levels.
	Deck string
	// Question and Answer are plain text or Markdown. An item of format "rows" may have neither: it
	// then carries sittings for the point with its ID, from a table of schedules that was exported
	// without its points.
	Question, Answer string
	Tags             []string // sorted
	Created, Updated time.Time
	InPlan           bool
	Suspended        bool
	Draft            bool // unconfirmed; only in JSON
	// Card is nil for new items, and for items of which only the history is known.
	Card *store.Card
	// History is sorted oldest first, with ID, Kind, At, Grade, Took, Recall, Score and Elapsed.
	History []store.LogEntry
	// Sittings exist in the formats "rows" and "json" only, with ID, Day, Number, Completed,
	// Created and Recall.
	Sittings []store.Sitting
	// Note is the note of which the item is the card Ord; nil for items of two texts.
	Note *Note
	Ord  int
	Flag int // as in [store.Point]
	// Source is a [CardSource], encoded; empty: none.
	Source string
}

// Note is the note of an item.
type Note struct {
	GUID    string
	Type    string   // origin of its type, which was read before
	Fields  []string // HTML
	Source  string   // as in [store.Note]
	Updated time.Time
}

// Deck is a deck with its own settings. JSON and Anki's packages have it.
type Deck struct {
	Name     string          `json:"name"`
	Settings json.RawMessage `json:"settings,omitempty"`
	// Source is as in [store.Deck].
	Source string `json:"source,omitempty"`
	// Lazy is true for decks that exist only if items are in them.
	Lazy bool `json:"-"`
}

// Media is a picture or sound of a file.
type Media struct {
	Name string
	// Open opens its content, of at most [apkg.MaxMediaFile] bytes.
	Open func() (io.ReadCloser, error)
}

// RowError is the error of a row that was left out.
type RowError struct {
	Row  int    `json:"row"`  // line or number of the record, from 1; 0: none
	What string `json:"what"` // the start of its text
	// Why explains the error and the remedy, in English unless localized.
	Why string `json:"why"`
	// Wrong is the error behind Why, for other languages; nil after decoding.
	Wrong error `json:"-"`
}

// newRowError returns the error of a row that was left out.
func newRowError(row int, what string, why error) RowError {
	return RowError{Row: row, What: what, Why: why.Error(), Wrong: why}
}

// In returns the error in a language.
func (b RowError) In(l i18n.Lang) string {
	if b.Wrong == nil {
		return b.Why
	}
	return i18n.Localize(b.Wrong, l)
}

func (b RowError) String() string {
	if b.What == "" {
		return fmt.Sprintf("%d: %s", b.Row, b.Why)
	}
	return fmt.Sprintf("%d: %q: %s", b.Row, b.What, b.Why)
}

// ReadOptions configure reading.
type ReadOptions struct {
	Deck string // for items that name no deck
	// Zone and DayStart are the learner's calendar, which converts times in a file to dates. nil
	// means UTC.
	Zone     *time.Location
	DayStart time.Duration
	// MaxItems limits the number of items; 0 means [MaxItems].
	MaxItems int
	// Temp is the folder for temporary files, up to 1 GiB for an Anki package; empty means the
	// system's.
	Temp string
	// Progress is called repeatedly with the amount read, in bytes or in cards.
	Progress func(done, total int)
	// Encoding is called with the name of the encoding if a file of text is not UTF-8.
	Encoding func(name string)
	// Decks is called for each deck with settings, before the items, and Types for each note type.
	Decks func(Deck) error
	Types func(store.NoteType) error
	// Media is called for each picture and sound: of a package before the items, of JSON after
	// them. Its content can be opened later if the file is a package.
	Media func(Media) error
	// Source is called for what only Anki understands about the collection as a whole, under a
	// name.
	Source func(name string, data json.RawMessage) error
}

// WriteOptions configure writing.
type WriteOptions struct {
	// Zone and DayStart are the learner's calendar. nil means UTC.
	Zone     *time.Location
	DayStart time.Duration
	// Now is the recorded time of the export; zero means the current time.
	Now time.Time
	// Temp is as in [ReadOptions].
	Temp string
	// Decks are the decks with their settings, Types the note types of the items.
	Decks []Deck
	Types []store.NoteType
	// Defaults are the settings that all decks have in common, a JSON object as of a deck.
	Defaults json.RawMessage
	// Sources are what [ReadOptions.Source] got.
	Sources map[string]json.RawMessage
	// Newest writes packages of Anki's newest generation, Whole also what no item uses.
	Newest, Whole bool
	// Media calls put for each picture and sound; nil: none. It is called when all items are
	// written.
	Media func(put func(name string, content io.Reader) error) error
}

// ErrUnreadable is wrapped by every [*UnreadableError].
var ErrUnreadable = msgUnreadable.Errorf()

// UnreadableError is an error in the file itself, with a text for the person who chose it.
type UnreadableError struct{ Why error }

// Error implements error.
func (e *UnreadableError) Error() string { return e.In(i18n.English) }

// In returns the error in a language.
func (e *UnreadableError) In(l i18n.Lang) string { return msgWhy.In(l, ErrUnreadable, e.Why) }

// Unwrap returns [ErrUnreadable] and the reason.
func (e *UnreadableError) Unwrap() []error { return []error{ErrUnreadable, e.Why} }

// ErrFormat is returned for unknown formats, and for writing a read-only format.
var ErrFormat = msgFormat.Errorf()

// TooManyError is returned when a file has more items than allowed. All items up to the limit have
// been delivered.
type TooManyError struct{ Max int }

func (e *TooManyError) Error() string { return e.In(i18n.English) }

// In returns the error in a language.
func (e *TooManyError) In(l i18n.Lang) string { return msgTooMany.In(l, e.Max) }

// unreadable returns an [*UnreadableError].
func unreadable(s i18n.Message, args ...any) error { return &UnreadableError{s.Errorf(args...)} }

// Read calls each for every item of a file, in order, and returns the rows it left out. An empty
// format is detected from the contents. An error stops the reading; items delivered before remain
// valid. Errors of each are returned unchanged.
func Read(ctx context.Context, format string, r io.ReaderAt, size int64, o ReadOptions,
	each func(Item) error) ([]RowError, error) {
	if size > MaxPackage {
		return nil, unreadable(msgLarge, MaxPackage>>20)
	}
	if format == "" {
		head := make([]byte, min(size, 64<<10))
		n, err := r.ReadAt(head, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if format = Detect("", head[:n]); format == "" {
			at, err := notUTF8(ctx, r, size)
			if err == nil && at >= 0 {
				err = unreadable(msgNoUTF8, msgSaveAsUTF8)
			}
			return nil, cmp.Or(err, unreadable(msgUnknown))
		}
	}
	in := &itemReader{ctx: ctx, o: o, each: each, format: format}
	if o.MaxItems <= 0 {
		in.o.MaxItems = MaxItems
	}
	err := in.read(format, r, size)
	return in.rowErrors, err
}

func (in *itemReader) read(format string, r io.ReaderAt, size int64) error {
	if IsPackage(format) {
		return in.readAnki(r, size)
	}
	if size > MaxSize {
		return unreadable(msgLarge, MaxSize>>20)
	}
	read := map[string]func(io.ReaderAt, int64) error{JSON: in.readJSON, Rows: in.readRows, CSV: in.readCSV,
		Markdown: in.readMarkdown}[format]
	if read == nil {
		return msgQuoted.Errorf(ErrFormat, format)
	}
	r, size, name, err := toUTF8(in.ctx, r, size)
	if err != nil {
		return err
	}
	if name != "" && in.o.Encoding != nil {
		in.o.Encoding(name)
	}
	return read(r, size)
}

// IsPackage reports whether a format is one of Anki's.
func IsPackage(format string) bool { return format == Anki || format == Colpkg }

// Writer writes a file. It must be used by one goroutine only. Close must always be called; it
// returns an error of Write again.
type Writer interface {
	Write(Item) error
	Close() error
}

// NewWriter starts a file. Text formats are written item by item, Anki packages on Close.
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
	case Anki, Colpkg:
		return newAnkiWriter(w, o)
	}
	return nil, msgQuoted.Errorf(ErrFormat, format)
}
