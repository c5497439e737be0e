package learn

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/store"
)

// importBatch is how many points of an import are written in one transaction, so that other writers
// get their turn.
const importBatch = 250

// ImportFile is a file with points to import.
type ImportFile struct {
	Name   string // used to detect the format
	Format string // as in package transfer; empty: detected
	Deck   string // for points that name no deck; empty: the default deck
	Reader io.ReaderAt
	Size   int64
	// DryRun reports what an import would do, without doing it.
	DryRun bool
	// SkipBadRows imports the good rows of a file with bad ones. If false, one bad row stops the
	// import, except of a package of Anki.
	SkipBadRows bool
	Progress    func(done, total int)
}

// ImportResult is the result of an import.
type ImportResult struct {
	Format    string              `json:"format"`
	Added     int                 `json:"added"`
	Changed   int                 `json:"changed"`
	Unchanged int                 `json:"unchanged"`
	Media     int                 `json:"media"` // pictures and sounds added
	RowErrors []transfer.RowError `json:"errors"`
	// Warnings are what was left out, while the rest was imported.
	Warnings []transfer.RowError `json:"warnings"`
	Decks    []string            `json:"decks"` // created, or in a dry run, to be created
	// Done is false if nothing was imported, because of bad rows or a dry run.
	Done bool `json:"imported"`
	// Encoding is that of a text that is not UTF-8, such as GBK (GB18030).
	Encoding string `json:"encoding,omitempty"`
	// Preview has the first points of the file as they were read, in a dry run.
	Preview []ImportPreview `json:"preview,omitempty"`
}

// ImportPreview is a point of a file, its texts cut off after [previewBytes].
type ImportPreview struct {
	Question string   `json:"question"`
	Answer   string   `json:"answer"`
	Deck     string   `json:"deck,omitempty"` // empty: the default deck
	Tags     []string `json:"tags,omitempty"`
}

// previewPoints is how many points of a file a dry run shows.
const previewPoints, previewBytes = 5, 300

// Localize translates the errors of the rows.
func (i *ImportResult) Localize(l i18n.Lang) {
	for _, list := range [][]transfer.RowError{i.RowErrors, i.Warnings} {
		for n := range list {
			list[n].Why = list[n].In(l)
		}
	}
}

// Errors of rows.
const (
	msgOrphan = i18n.Message("it is a review without its knowledge point; export both tables into one file")
	msgTwice  = i18n.Message("it is in the file twice")
)

// Import adds the points of a file, all or none. It recognizes a point that was imported before by
// its origin or ID: text and tags are replaced by those of the file, plan and history stay, unless
// the point was never reviewed here. Notes are recognized by their GUIDs, and replaced if that of
// the file was changed later. If any row is bad, nothing is imported unless SkipBadRows is set; the
// result lists the error of each row. Bad cards of packages are left out, with a warning. An error
// that wraps [transfer.ErrUnreadable] concerns the file as a whole.
func (s *Service) Import(ctx context.Context, person string, f ImportFile) (*ImportResult, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	if f.Format == "" {
		head := make([]byte, min(f.Size, 64<<10))
		if _, err := f.Reader.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read the file: %w", err)
		}
		f.Format = transfer.Detect(f.Name, head)
	}
	if err := s.Store.Learn.RemoveLeftovers(ctx); err != nil {
		return nil, fmt.Errorf("remove what a killed import has left: %w", err)
	}
	in := newImportRun(s, l, f)
	if in.ids, in.byOrigin, in.byCard, err = s.Store.Learn.PointIDs(ctx, person); err != nil {
		return nil, fmt.Errorf("look up what is there: %w", err)
	}
	if in.guids, err = s.Store.Learn.NoteGUIDs(ctx, person); err != nil {
		return nil, fmt.Errorf("look up what is there: %w", err)
	}
	in.stage = s.Store.Learn.NewImport(person, newID())
	err = in.runAlive(ctx)
	if err == nil && in.result.Done {
		return in.result, nil
	}
	// The cleanup must run even if the caller has given up.
	if !f.DryRun {
		in.result.Decks, in.result.Media = []string{}, 0
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return in.result, errors.Join(err, in.abort(undo))
}

func newImportRun(s *Service, l *Learner, f ImportFile) *importRun {
	return &importRun{s: s, l: l, f: f, result: &ImportResult{Format: f.Format, RowErrors: []transfer.RowError{},
		Warnings: []transfer.RowError{}, Decks: []string{}}, seen: map[string]bool{}, questionCounts: map[string]int{},
		types: map[string]*importedType{}, notes: map[string]*importedNote{}, lazyDecks: map[string]transfer.Deck{}}
}

// importRun is one import in progress.
type importRun struct {
	s              *Service
	l              *Learner
	f              ImportFile
	result         *ImportResult
	stage          *store.Import
	ids            map[string]bool
	byCard         map[store.CardKey]string
	byOrigin       map[string]string
	seen           map[string]bool // IDs and origins in this file
	questionCounts map[string]int  // occurrences of each question without an origin
	rows           []stagedPoint
	edits          []store.PointEdit
	newDecks       []string                 // ids of created decks
	lazyDecks      map[string]transfer.Deck // of the file, by name, that exist only if points are in them
	n              int

	guids       map[string]int64          // notes of the person
	storedTypes map[string]store.NoteType // of the person, by origin; nil: not read yet
	types       map[string]*importedType  // of the file, by origin
	notes       map[string]*importedNote  // of the file, by GUID
	newTypes    []int64
	newNotes    []*store.Note // not staged yet
	noteEdits   []store.Note
	sources     []store.Source
	mediaRun    mediaImport
}

// stagedPoint is a point to stage with its note, if it has one.
type stagedPoint struct {
	point store.NewPoint
	note  *importedNote
}

// importBeat is the interval of the heartbeat of a running import.
const importBeat = 20 * time.Second

// runAlive runs the import and says meanwhile that it does.
func (in *importRun) runAlive(ctx context.Context) error {
	beat, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for netx.Wait(beat, importBeat) == nil {
			if err := in.stage.Alive(beat); err != nil && beat.Err() == nil {
				in.s.Logger.WarnContext(beat, "an import could not say that it runs", "error", err)
			}
		}
	}()
	err := in.run(ctx)
	stop()
	<-done
	return err
}

func (in *importRun) run(ctx context.Context) error {
	bad, err := transfer.Read(ctx, in.f.Format, in.f.Reader, in.f.Size, transfer.ReadOptions{
		Deck: in.f.Deck, Zone: in.l.Calendar.Zone, DayStart: in.l.Calendar.Start, Progress: in.f.Progress,
		Decks:  func(d transfer.Deck) error { return in.deck(ctx, d) },
		Types:  func(t store.NoteType) error { return in.noteType(ctx, t) },
		Media:  func(m transfer.Media) error { return in.media(ctx, m) },
		Source: in.source, Encoding: func(name string) { in.result.Encoding = name },
	}, func(item transfer.Item) error { return in.item(ctx, item) })
	list := &in.result.RowErrors
	if transfer.IsPackage(in.f.Format) {
		list = &in.result.Warnings
	}
	*list = append(*list, bad...)
	slices.SortStableFunc(*list, func(a, b transfer.RowError) int { return a.Row - b.Row })
	if err != nil {
		return err
	}
	if in.f.DryRun || len(in.result.RowErrors) > 0 && !in.f.SkipBadRows {
		return nil
	}
	if err := in.flush(ctx); err != nil {
		return err
	}
	types, err := in.changedTypes()
	if err != nil {
		return err
	}
	if err := in.completeOrphans(ctx); err != nil {
		return err
	}
	if err := in.stage.Finish(ctx, store.ImportEdits{Points: in.edits, Notes: in.noteEdits, Types: types,
		Sources: in.sources}); err != nil {
		return fmt.Errorf("finish the import: %w", err)
	}
	in.result.Done = true
	return in.afterwards(ctx)
}

// afterwards does what cannot be undone, and what another import of the file does if it fails.
func (in *importRun) afterwards(ctx context.Context) error {
	if err := in.replaceMedia(ctx); err != nil {
		return fmt.Errorf("replace a picture or sound: %w", err)
	}
	for _, d := range in.l.Decks {
		if lazy, ok := in.lazyDecks[d.Name]; ok && d.Source == "" && lazy.Source != "" {
			d.Source = lazy.Source
			if err := in.s.Store.Learn.SaveDeck(ctx, d); err != nil {
				return fmt.Errorf("save a deck: %w", err)
			}
		}
	}
	return nil
}

func (in *importRun) abort(ctx context.Context) error {
	if in.result.Done {
		return nil
	}
	err := in.stage.Abort(ctx)
	for _, id := range in.newDecks {
		err = errors.Join(err, in.s.Store.Learn.RemoveDeck(ctx, in.l.Person, id))
	}
	for _, number := range in.newTypes {
		err = errors.Join(err, in.s.Store.Learn.RemoveNoteType(ctx, in.l.Person, number))
	}
	for _, name := range in.mediaRun.added {
		err = errors.Join(err, in.s.Store.Learn.RemoveMedia(ctx, in.l.Person, name))
	}
	return err
}

// source takes what only Anki understands about a collection as a whole.
func (in *importRun) source(name string, data json.RawMessage) error {
	in.sources = append(in.sources, store.Source{Name: name, Data: data})
	return nil
}

// deck creates a deck that the file has settings for, unless it exists.
func (in *importRun) deck(ctx context.Context, d transfer.Deck) error {
	if d.Lazy {
		if _, taken := in.lazyDecks[d.Name]; !taken {
			in.lazyDecks[d.Name] = d
		}
		return nil
	}
	if _, ok := in.l.DeckID(d.Name); ok {
		return nil
	}
	_, err := in.makeDeck(ctx, d)
	return err
}

func (in *importRun) makeDeck(ctx context.Context, d transfer.Deck) (string, error) {
	name := d.Name
	settings, err := mergePatch(nil, d.Settings)
	if err == nil {
		_, err = in.l.common.With(settings)
	}
	if err != nil {
		settings = nil // from another version or edited by hand; create the deck without them
	}
	if in.f.DryRun {
		if !slices.Contains(in.result.Decks, name) {
			in.result.Decks = append(in.result.Decks, name)
		}
		return "", nil
	}
	made, err := in.s.addDeckOf(ctx, in.l, name, settings, d.Source)
	if err == nil {
		in.newDecks = append(in.newDecks, made.ID)
		in.result.Decks = append(in.result.Decks, made.Name)
	}
	return made.ID, err
}

// addError records the error of an item; of a package it is a warning.
func (in *importRun) addError(item *transfer.Item, why error) {
	if transfer.IsPackage(in.f.Format) {
		in.warn(in.n, item.Question, why)
	} else if len(in.result.RowErrors) < transfer.MaxRowErrors {
		in.result.RowErrors = append(in.result.RowErrors, rowError(in.n, item.Question, why))
	}
}

// warn records what is left out.
func (in *importRun) warn(row int, what string, why error) {
	if len(in.result.Warnings) < transfer.MaxRowErrors {
		in.result.Warnings = append(in.result.Warnings, rowError(row, what, why))
	}
}

func rowError(row int, what string, why error) transfer.RowError {
	return transfer.RowError{Row: row, What: truncateBytes(what, 60), Why: why.Error(), Wrong: why}
}

func (in *importRun) item(ctx context.Context, item transfer.Item) error {
	in.n++
	if item.Question == "" && item.Answer == "" && len(item.Sittings) > 0 {
		in.addError(&item, msgOrphan.Errorf())
		return nil
	}
	if err := checkTexts(item.Question, item.Answer); err != nil {
		in.addError(&item, err)
		return nil
	}
	tags, err := cleanTags(item.Tags[:min(len(item.Tags), maxTags)])
	if err != nil {
		in.addError(&item, err)
		return nil
	}
	item.Tags = tags
	if in.f.DryRun && len(in.result.Preview) < previewPoints {
		in.result.Preview = append(in.result.Preview, ImportPreview{truncateBytes(item.Question, previewBytes),
			truncateBytes(item.Answer, previewBytes), item.Deck, item.Tags})
	}
	if item.ID == "" && item.Origin == "" {
		item.Origin = in.textOrigin(&item)
	}
	for _, name := range []string{item.ID, item.Origin} {
		if name != "" && in.seen[name] {
			in.addError(&item, msgTwice.Errorf())
			return nil
		}
		in.seen[name] = true
	}
	var n *importedNote
	if item.Note != nil {
		if n, err = in.note(ctx, &item); errors.Is(err, errNoType) {
			in.addError(&item, err)
			return nil
		} else if err != nil {
			return fmt.Errorf("take a note: %w", err)
		}
	}
	if id, ok := in.byOrigin[item.Origin]; ok && item.Origin != "" {
		return in.edit(ctx, id, &item, n)
	}
	if in.ids[item.ID] && item.ID != "" {
		return in.edit(ctx, item.ID, &item, n)
	}
	if n != nil && n.stored { // cards of notes that were made here have no origin
		if id, ok := in.byCard[store.CardKey{Note: n.row.Number, Ord: item.Ord}]; ok {
			return in.edit(ctx, id, &item, n)
		}
	}
	return in.add(ctx, &item, n)
}

// textOrigin derives the origin of an item without one from its deck and question, so that a list
// that has grown can be imported again. Repeated questions get distinct origins.
func (in *importRun) textOrigin(item *transfer.Item) string {
	sum := sha256.Sum256([]byte(item.Deck + "\x00" + strings.TrimSpace(item.Question)))
	name := "text:" + hex.EncodeToString(sum[:12])
	in.questionCounts[name]++
	if n := in.questionCounts[name]; n > 1 {
		name += "#" + strconv.Itoa(n)
	}
	return name
}

// edit changes an existing point.
func (in *importRun) edit(ctx context.Context, id string, item *transfer.Item, n *importedNote) error {
	p, err := in.s.Store.Learn.Point(ctx, in.l.Person, id)
	if errors.Is(err, store.ErrNotFound) { // it is in the trash and stays there
		in.result.Unchanged++
		return nil
	}
	if err != nil {
		return err
	}
	question, answer := strings.TrimSpace(item.Question), strings.TrimSpace(item.Answer)
	text := p.Question != question || p.Answer != answer || !slices.Equal(p.Tags, item.Tags)
	joins := n != nil && p.Note == 0 // it was a point without a note
	if n != nil && !n.newer && !joins {
		text = false // what the person has is as new, or newer
	}
	plan := takesPlan(&p, item)
	if !text && !plan && !joins && (n == nil || !n.newer) {
		in.result.Unchanged++
		return nil
	}
	in.result.Changed++
	if in.f.DryRun {
		return nil
	}
	var planned store.NewPoint
	if plan {
		planned = in.point(p.Deck, item)
	}
	in.edits = append(in.edits, store.PointEdit{ID: id, Change: func(c *store.PointChange) {
		to := &c.Point
		if text {
			to.Question, to.Answer, to.Tags, to.Updated = question, answer, item.Tags, in.l.Now
			to.Words = IndexWords(question, answer, item.Tags...)
		}
		if joins {
			to.Note, to.Ord = n.row.Number, item.Ord
		}
		if plan {
			from := &planned.Point
			to.Card, to.InPlan, to.Suspended, to.Flag, to.Source = from.Card, from.InPlan, from.Suspended, from.Flag,
				from.Source
			c.Sittings, c.Log = planned.Sittings, planned.Log
		}
	}})
	return nil
}

// add stages a new point.
func (in *importRun) add(ctx context.Context, item *transfer.Item, n *importedNote) error {
	deck, ok := in.l.DeckID(item.Deck)
	if !ok {
		if _, err := deckName(item.Deck); err != nil {
			in.addError(item, err)
			return nil
		}
		from := in.lazyDecks[item.Deck]
		from.Name = item.Deck
		var err error
		if deck, err = in.makeDeck(ctx, from); err != nil {
			return err
		}
	}
	in.result.Added++
	if in.f.DryRun {
		return nil
	}
	in.rows = append(in.rows, stagedPoint{in.point(deck, item), n})
	if len(in.rows) >= importBatch {
		return in.flush(ctx)
	}
	return nil
}

func (in *importRun) flush(ctx context.Context) error {
	if err := in.stageNotes(ctx); err != nil || len(in.rows) == 0 {
		return err
	}
	batch := make([]store.NewPoint, len(in.rows))
	for i, r := range in.rows {
		batch[i] = r.point
		if r.note != nil {
			batch[i].Point.Note = r.note.row.Number
		}
	}
	if err := in.stage.Stage(ctx, batch); err != nil {
		return fmt.Errorf("write the points of the file: %w", err)
	}
	in.rows = in.rows[:0]
	return nil
}
