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
	"patchbay/internal/plug/learn/schedule"
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
	// import.
	SkipBadRows bool
	Progress    func(done, total int)
}

// ImportResult is the result of an import.
type ImportResult struct {
	Format    string              `json:"format"`
	Added     int                 `json:"added"`
	Changed   int                 `json:"changed"`
	Unchanged int                 `json:"unchanged"`
	RowErrors []transfer.RowError `json:"errors"`
	Decks     []string            `json:"decks"` // created, or in a dry run, to be created
	// Done is false if nothing was imported, because of bad rows or a dry run.
	Done bool `json:"imported"`
}

// Localize translates the errors of the rows.
func (i *ImportResult) Localize(l i18n.Lang) {
	for n := range i.RowErrors {
		i.RowErrors[n].Why = i.RowErrors[n].In(l)
	}
}

// Errors of rows.
const (
	msgOrphan = i18n.Message("it is a review without its knowledge point; export both tables into one file")
	msgTwice  = i18n.Message("it is in the file twice")
)

// Import adds the points of a file, all or none. It recognizes a point that was imported before by
// its origin or ID: text and tags are replaced by those of the file, plan and history stay. If any
// row is bad, nothing is imported unless SkipBadRows is set; the result lists the error of each
// row. An error that wraps [transfer.ErrUnreadable] concerns the file as a whole.
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
	in := &importRun{s: s, l: l, f: f, result: &ImportResult{Format: f.Format, RowErrors: []transfer.RowError{},
		Decks: []string{}}, seen: map[string]bool{}, questionCounts: map[string]int{}}
	if in.ids, in.byOrigin, err = s.Store.Learn.PointIDs(ctx, person); err != nil {
		return nil, fmt.Errorf("look up what is there: %w", err)
	}
	in.stage = s.Store.Learn.NewImport(person, newID())
	err = in.run(ctx)
	if err == nil && in.result.Done {
		return in.result, nil
	}
	// The cleanup must run even if the caller has given up.
	if !f.DryRun {
		in.result.Decks = []string{}
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return in.result, errors.Join(err, in.abort(undo))
}

// importRun is one import in progress.
type importRun struct {
	s              *Service
	l              *Learner
	f              ImportFile
	result         *ImportResult
	stage          *store.Import
	ids            map[string]bool
	byOrigin       map[string]string
	seen           map[string]bool // IDs and origins in this file
	questionCounts map[string]int  // occurrences of each question without an origin
	rows           []store.NewPoint
	edits          []store.PointEdit
	newDecks       []string // names of created decks
	n              int
}

func (in *importRun) run(ctx context.Context) error {
	bad, err := transfer.Read(ctx, in.f.Format, in.f.Reader, in.f.Size, transfer.ReadOptions{
		Deck: in.f.Deck, Zone: in.l.Calendar.Zone, DayStart: in.l.Calendar.Start, Progress: in.f.Progress,
		Decks: func(d transfer.Deck) error { return in.deck(ctx, d) },
	}, func(item transfer.Item) error { return in.item(ctx, item) })
	in.result.RowErrors = append(in.result.RowErrors, bad...)
	slices.SortStableFunc(in.result.RowErrors, func(a, b transfer.RowError) int { return a.Row - b.Row })
	if err != nil {
		return err
	}
	if in.f.DryRun || len(in.result.RowErrors) > 0 && !in.f.SkipBadRows {
		return nil
	}
	if err := in.flush(ctx); err != nil {
		return err
	}
	if err := in.stage.Finish(ctx, in.edits); err != nil {
		return fmt.Errorf("finish the import: %w", err)
	}
	in.result.Done = true
	return nil
}

func (in *importRun) abort(ctx context.Context) error {
	err := in.stage.Abort(ctx)
	for _, id := range in.newDecks {
		err = errors.Join(err, in.s.Store.Learn.RemoveDeck(ctx, in.l.Person, id))
	}
	return err
}

// deck creates a deck that the file has settings for, unless it exists.
func (in *importRun) deck(ctx context.Context, d transfer.Deck) error {
	if _, ok := in.l.DeckID(d.Name); ok {
		return nil
	}
	settings, err := mergePatch(nil, d.Settings)
	if err == nil {
		_, err = in.l.common.With(settings)
	}
	if err != nil {
		settings = nil // from another version or edited by hand; create the deck without them
	}
	_, err = in.makeDeck(ctx, d.Name, settings)
	return err
}

func (in *importRun) makeDeck(ctx context.Context, name string, settings json.RawMessage) (string, error) {
	if in.f.DryRun {
		if !slices.Contains(in.result.Decks, name) {
			in.result.Decks = append(in.result.Decks, name)
		}
		return "", nil
	}
	d, err := in.s.addDeck(ctx, in.l, name, settings)
	if err == nil {
		in.newDecks = append(in.newDecks, d.ID)
		in.result.Decks = append(in.result.Decks, d.Name)
	}
	return d.ID, err
}

// addError records the error of an item.
func (in *importRun) addError(item *transfer.Item, why error) {
	if len(in.result.RowErrors) < transfer.MaxRowErrors {
		in.result.RowErrors = append(in.result.RowErrors, transfer.RowError{Row: in.n,
			What: truncateBytes(item.Question, 60), Why: why.Error(), Wrong: why})
	}
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
	if id, ok := in.byOrigin[item.Origin]; ok && item.Origin != "" {
		return in.edit(ctx, id, &item)
	}
	if in.ids[item.ID] && item.ID != "" {
		return in.edit(ctx, item.ID, &item)
	}
	return in.add(ctx, &item)
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

// edit replaces the text and tags of an existing point.
func (in *importRun) edit(ctx context.Context, id string, item *transfer.Item) error {
	p, err := in.s.Store.Learn.Point(ctx, in.l.Person, id)
	if errors.Is(err, store.ErrNotFound) { // it is in the trash and stays there
		in.result.Unchanged++
		return nil
	}
	if err != nil {
		return err
	}
	question, answer := strings.TrimSpace(item.Question), strings.TrimSpace(item.Answer)
	if p.Question == question && p.Answer == answer && slices.Equal(p.Tags, item.Tags) {
		in.result.Unchanged++
		return nil
	}
	in.result.Changed++
	in.edits = append(in.edits, store.PointEdit{ID: id, Question: question, Answer: answer, Tags: item.Tags,
		Words: IndexWords(question, answer, item.Tags...), Updated: in.l.Now})
	return nil
}

// add stages a new point.
func (in *importRun) add(ctx context.Context, item *transfer.Item) error {
	deck, ok := in.l.DeckID(item.Deck)
	if !ok {
		if _, err := deckName(item.Deck); err != nil {
			in.addError(item, err)
			return nil
		}
		var err error
		if deck, err = in.makeDeck(ctx, item.Deck, nil); err != nil {
			return err
		}
	}
	in.result.Added++
	if in.f.DryRun {
		return nil
	}
	in.rows = append(in.rows, in.point(deck, item))
	if len(in.rows) >= importBatch {
		return in.flush(ctx)
	}
	return nil
}

func (in *importRun) flush(ctx context.Context) error {
	if len(in.rows) == 0 {
		return nil
	}
	if err := in.stage.Stage(ctx, in.rows); err != nil {
		return fmt.Errorf("write the points of the file: %w", err)
	}
	in.rows = in.rows[:0]
	return nil
}

// point makes a new point from an item, with its plan.
func (in *importRun) point(deck string, item *transfer.Item) store.NewPoint {
	l := in.l
	p := store.Point{
		ID: item.ID, Person: l.Person, Deck: deck, Question: strings.TrimSpace(item.Question),
		Answer: strings.TrimSpace(item.Answer), Tags: item.Tags,
		InPlan: item.InPlan, Suspended: item.Suspended, Draft: item.Draft, Kin: item.Kin, Origin: item.Origin,
		Created: item.Created, Updated: item.Updated,
	}
	if p.ID == "" || len(p.ID) > 100 {
		p.ID = newID()
	}
	if p.Created.IsZero() || p.Created.After(l.Now) {
		p.Created = l.Now
	}
	if p.Updated.IsZero() {
		p.Updated = p.Created
	}
	p.Words = IndexWords(p.Question, p.Answer, p.Tags...)
	n := store.NewPoint{Point: p}
	for _, e := range item.History {
		e.Day, e.Zone, e.Elapsed = l.Calendar.Day(e.At), l.Calendar.Zone.String(), max(e.Elapsed, 0)
		if len(n.Log) == 0 {
			e.Elapsed = -1
		}
		if e.ID == "" {
			e.ID = newID()
		}
		if e.Kind == "" {
			e.Kind = store.LogReview
		}
		e.Queue, e.Before, e.After, e.Channel = store.QueueDay, nil, nil, "import"
		n.Log = append(n.Log, e)
	}
	in.plan(&n, item)
	return n
}

// plan sets the dates of an imported point.
func (in *importRun) plan(n *store.NewPoint, item *transfer.Item) {
	l, p := in.l, &n.Point
	settings := l.Settings(p.Deck)
	open := slices.ContainsFunc(item.Sittings, func(v store.Sitting) bool { return v.Completed.IsZero() })
	if item.Card != nil && (open || item.Card.Phase == store.Done) { // exported by Patchbay
		p.Card, n.Sittings = *item.Card, in.sittings(item)
		return
	}
	n.Sittings = in.sittings(item)
	classic := settings.Schedule == schedule.Classic
	if !classic || !open {
		n.Sittings = slices.DeleteFunc(n.Sittings, func(v store.Sitting) bool { return v.Completed.IsZero() })
	}
	switch {
	case item.Card != nil:
		p.Card = *item.Card
	case len(n.Log) > 0:
		reviews := make([]schedule.Review, 0, len(n.Log))
		for _, e := range n.Log {
			if e.Kind == store.LogReview {
				reviews = append(reviews, schedule.Review{Grade: e.Grade, At: e.At})
			}
		}
		// An old review must not put the point back on learning steps of minutes.
		whole := settings
		whole.Steps, whole.Relearn = nil, nil
		p.Card = schedule.Replay(whole, l.Calendar, p.Created, reviews)
	case !classic || !open:
		startPlan(p, &n.Sittings, l)
		return
	}
	if classic && open { // a classic course continues on its own dates
		p.Card.Phase, p.Card.Due = store.Review, (&Entry{*p, n.Sittings}).OpenSitting().Day
		return
	}
	change := store.PointChange{Point: *p, Sittings: n.Sittings}
	if classic {
		resumeCourse(&change, l)
	} else {
		if p.Card.Phase == store.Done {
			change.Point.Card = schedule.ToFSRS(p.Card, settings)
		}
		number := max(len(n.Log), len(n.Sittings)) + 1
		change.Sittings = append(change.Sittings, store.Sitting{ID: newID(), Day: change.Point.Card.Due, Number: number,
			Created: l.Now})
	}
	n.Point.Card, n.Sittings = change.Point.Card, change.Sittings
}

func (in *importRun) sittings(item *transfer.Item) []store.Sitting {
	out := slices.Clone(item.Sittings)
	for i := range out {
		if out[i].ID == "" || in.seen[out[i].ID] {
			out[i].ID = newID()
		}
		in.seen[out[i].ID] = true
		if out[i].Created.IsZero() {
			out[i].Created = in.l.Now
		}
	}
	return out
}

// ExportOptions select what is written, and how.
type ExportOptions struct {
	Format   string // as in package transfer; empty: JSON
	Deck     string // name; empty: all
	Progress func(done, total int)
}

// Export writes a person's points, newest first, and returns their number. Plans and history are
// included as far as the format supports them.
func (s *Service) Export(ctx context.Context, person string, o ExportOptions, w io.Writer) (points int, err error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return 0, err
	}
	var f store.PointFilter
	if o.Deck != "" {
		if f.Deck, err = deckFilter(l, &o.Deck); err != nil {
			return 0, err
		}
	}
	if o.Format == "" {
		o.Format = transfer.JSON
	}
	decks := make([]transfer.Deck, len(l.Decks))
	for i, d := range l.Decks {
		decks[i] = transfer.Deck{Name: d.Name, Settings: d.Settings}
	}
	out, err := transfer.NewWriter(o.Format, w, transfer.WriteOptions{Zone: l.Calendar.Zone, DayStart: l.Calendar.Start,
		Now: l.Now, Decks: decks})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	total, err := s.count(ctx, l, f)
	if err != nil {
		return 0, err
	}
	var after store.PointKey
	for {
		entries, err := s.List(ctx, person, f, after, 500)
		if err != nil || len(entries) == 0 {
			return points, err
		}
		for i := range entries {
			item, err := s.itemOf(ctx, l, &entries[i])
			if err != nil {
				return points, err
			}
			if err := out.Write(item); err != nil {
				return points, fmt.Errorf("write the file: %w", err)
			}
			points++
		}
		last := &entries[len(entries)-1]
		after = f.Key(&last.Point)
		if o.Progress != nil {
			o.Progress(points, max(points, total))
		}
	}
}

func (s *Service) count(ctx context.Context, l *Learner, f store.PointFilter) (n int, err error) {
	totals, err := s.Store.Learn.Totals(ctx, l.Person)
	for _, c := range totals {
		if f.Deck == nil || *f.Deck == c.Deck {
			n += c.N
		}
	}
	return n, err
}

// maxHistory limits the log entries of a point that are written to a file.
const maxHistory = 10_000

// itemOf converts a point to an item with its history.
func (s *Service) itemOf(ctx context.Context, l *Learner, e *Entry) (transfer.Item, error) {
	card := e.Card
	item := transfer.Item{
		ID: e.ID, Origin: e.Origin, Kin: e.Kin, Deck: l.DeckName(e.Deck), Question: e.Question, Answer: e.Answer,
		Tags: e.Tags, Created: e.Created, Updated: e.Updated,
		InPlan: e.InPlan, Suspended: e.Suspended, Draft: e.Draft, Card: &card, Sittings: e.Sittings,
	}
	if item.Origin == "" {
		item.Origin = "learn:" + e.ID
	}
	if e.Deck == "" {
		item.Deck = ""
	}
	if card.Reps == 0 {
		return item, nil
	}
	log, err := s.Store.Learn.Log(ctx, l.Person, e.Number, time.Time{}, "", maxHistory)
	if err != nil {
		return item, fmt.Errorf("read the review log: %w", err)
	}
	undone := map[string]bool{}
	for _, v := range log {
		undone[v.Undoes] = true
	}
	for _, v := range log {
		if v.Kind == store.LogReview && !undone[v.ID] {
			item.History = append(item.History, v)
		}
	}
	return item, nil
}
