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

	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// stageAtOnce is how many points of an import are written in one transaction, so
// that others can write in between.
const stageAtOnce = 250

// ImportFile is a file with points.
type ImportFile struct {
	Name   string // helps to find the format
	Format string // as in package transfer; empty: it is found out
	Deck   string // of points that name none; empty: the default one
	Reader io.ReaderAt
	Size   int64
	// DryRun only says what would happen.
	DryRun bool
	// SkipBad imports the rest of a file that has bad rows; else nothing is
	// imported then.
	SkipBad  bool
	Progress func(done, total int)
}

// Imported is what became of a file.
type Imported struct {
	Format    string         `json:"format"`
	Added     int            `json:"added"`
	Changed   int            `json:"changed"`
	Unchanged int            `json:"unchanged"`
	Bad       []transfer.Bad `json:"errors"`
	Decks     []string       `json:"decks"` // that were made, or in a dry run, would be
	// Done is false if nothing was imported, because of bad rows or in a dry run.
	Done bool `json:"imported"`
}

// Speak puts what is wrong with rows into a language.
func (i *Imported) Speak(l talk.Lang) {
	for n := range i.Bad {
		i.Bad[n].Why = i.Bad[n].In(l)
	}
}

// What is wrong with rows.
var (
	sayOrphan = talk.Say{Zh: "这是一条没有知识点的复习记录；请把两个表导出到同一个文件", En: "it is a review without its knowledge point; export both tables into one file"}
	sayTwice  = talk.Say{Zh: "它在文件里出现了两次", En: "it is in the file twice"}
)

// Import adds the points of a file, all or none. A point that was imported before
// is known by its origin or id: its text and tags become those of the file, and its
// plan and history stay. If rows are bad, nothing is imported, unless SkipBad says
// so; what is wrong with each is in the result. An error that wraps
// [transfer.ErrUnreadable] is about the file as a whole.
func (s *Service) Import(ctx context.Context, person string, f ImportFile) (*Imported, error) {
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
	in := &intake{s: s, l: l, f: f, out: &Imported{Format: f.Format, Bad: []transfer.Bad{}, Decks: []string{}}, seen: map[string]bool{}, same: map[string]int{}}
	if in.ids, in.byOrigin, err = s.Store.Learn.Known(ctx, person); err != nil {
		return nil, fmt.Errorf("look up what is there: %w", err)
	}
	in.stage = s.Store.Learn.NewImport(person, newID())
	err = in.run(ctx)
	if err == nil && in.out.Done {
		return in.out, nil
	}
	// Tidying up must not be cut short by whoever gave up.
	if !f.DryRun {
		in.out.Decks = []string{}
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return in.out, errors.Join(err, in.abort(undo))
}

// intake is an import under way.
type intake struct {
	s        *Service
	l        *Learner
	f        ImportFile
	out      *Imported
	stage    *store.Import
	ids      map[string]bool
	byOrigin map[string]string
	seen     map[string]bool // ids and origins of this file
	same     map[string]int  // how often a question without a name came
	rows     []store.NewPoint
	edits    []store.PointEdit
	made     []string // decks
	n        int
}

func (in *intake) run(ctx context.Context) error {
	bad, err := transfer.Read(ctx, in.f.Format, in.f.Reader, in.f.Size, transfer.ReadOptions{
		Deck: in.f.Deck, Zone: in.l.Calendar.Zone, DayStart: in.l.Calendar.Start, Progress: in.f.Progress,
		Decks: func(d transfer.Deck) error { return in.deck(ctx, d) },
	}, func(item transfer.Item) error { return in.item(ctx, item) })
	in.out.Bad = append(in.out.Bad, bad...)
	slices.SortStableFunc(in.out.Bad, func(a, b transfer.Bad) int { return a.Row - b.Row })
	if err != nil {
		return err
	}
	if in.f.DryRun || len(in.out.Bad) > 0 && !in.f.SkipBad {
		return nil
	}
	if err := in.flush(ctx); err != nil {
		return err
	}
	if err := in.stage.Finish(ctx, in.edits); err != nil {
		return fmt.Errorf("finish the import: %w", err)
	}
	in.out.Done = true
	return nil
}

func (in *intake) abort(ctx context.Context) error {
	err := in.stage.Abort(ctx)
	for _, id := range in.made {
		err = errors.Join(err, in.s.Store.Learn.RemoveDeck(ctx, in.l.Person, id))
	}
	return err
}

// deck makes a deck that the file has settings for, if it is not there.
func (in *intake) deck(ctx context.Context, d transfer.Deck) error {
	if _, ok := in.l.DeckID(d.Name); ok {
		return nil
	}
	settings, err := mergePatch(nil, d.Settings)
	if err == nil {
		_, err = in.l.common.With(settings)
	}
	if err != nil {
		settings = nil // of another version, or somebody's own; the deck is there all the same
	}
	_, err = in.makeDeck(ctx, d.Name, settings)
	return err
}

func (in *intake) makeDeck(ctx context.Context, name string, settings json.RawMessage) (string, error) {
	if in.f.DryRun {
		if !slices.Contains(in.out.Decks, name) {
			in.out.Decks = append(in.out.Decks, name)
		}
		return "", nil
	}
	d, err := in.s.addDeck(ctx, in.l, name, settings)
	if err == nil {
		in.made = append(in.made, d.ID)
		in.out.Decks = append(in.out.Decks, d.Name)
	}
	return d.ID, err
}

// refuse notes what is wrong with an item.
func (in *intake) refuse(item *transfer.Item, why error) {
	if len(in.out.Bad) < transfer.MaxBad {
		in.out.Bad = append(in.out.Bad, transfer.Bad{Row: in.n, What: clip(item.Question, 60), Why: why.Error(), Wrong: why})
	}
}

func (in *intake) item(ctx context.Context, item transfer.Item) error {
	in.n++
	if item.Question == "" && item.Answer == "" && len(item.Sittings) > 0 {
		in.refuse(&item, sayOrphan.Wrong())
		return nil
	}
	if err := checkTexts(item.Question, item.Answer); err != nil {
		in.refuse(&item, err)
		return nil
	}
	tags, err := cleanTags(item.Tags[:min(len(item.Tags), maxTags)])
	if err != nil {
		in.refuse(&item, err)
		return nil
	}
	item.Tags = tags
	if item.ID == "" && item.Origin == "" {
		item.Origin = in.textOrigin(&item)
	}
	for _, name := range []string{item.ID, item.Origin} {
		if name != "" && in.seen[name] {
			in.refuse(&item, sayTwice.Wrong())
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

// textOrigin names an item that has no name by its deck and question, so that a
// list that was imported before can be imported again when it has grown. Where the
// same question stands twice, the second has a name of its own.
func (in *intake) textOrigin(item *transfer.Item) string {
	sum := sha256.Sum256([]byte(item.Deck + "\x00" + strings.TrimSpace(item.Question)))
	name := "text:" + hex.EncodeToString(sum[:12])
	in.same[name]++
	if n := in.same[name]; n > 1 {
		name += "#" + strconv.Itoa(n)
	}
	return name
}

// edit writes a point anew that is there.
func (in *intake) edit(ctx context.Context, id string, item *transfer.Item) error {
	p, err := in.s.Store.Learn.Point(ctx, in.l.Person, id)
	if errors.Is(err, store.ErrNotFound) { // it is in the trash, and stays there
		in.out.Unchanged++
		return nil
	}
	if err != nil {
		return err
	}
	question, answer := strings.TrimSpace(item.Question), strings.TrimSpace(item.Answer)
	if p.Question == question && p.Answer == answer && slices.Equal(p.Tags, item.Tags) {
		in.out.Unchanged++
		return nil
	}
	in.out.Changed++
	in.edits = append(in.edits, store.PointEdit{ID: id, Question: question, Answer: answer, Tags: item.Tags, Words: Words(question, answer, item.Tags...), Updated: in.l.Now})
	return nil
}

// add stages a new point.
func (in *intake) add(ctx context.Context, item *transfer.Item) error {
	deck, ok := in.l.DeckID(item.Deck)
	if !ok {
		if _, err := deckName(item.Deck); err != nil {
			in.refuse(item, err)
			return nil
		}
		var err error
		if deck, err = in.makeDeck(ctx, item.Deck, nil); err != nil {
			return err
		}
	}
	in.out.Added++
	if in.f.DryRun {
		return nil
	}
	in.rows = append(in.rows, in.point(deck, item))
	if len(in.rows) >= stageAtOnce {
		return in.flush(ctx)
	}
	return nil
}

func (in *intake) flush(ctx context.Context) error {
	if len(in.rows) == 0 {
		return nil
	}
	if err := in.stage.Stage(ctx, in.rows); err != nil {
		return fmt.Errorf("write the points of the file: %w", err)
	}
	in.rows = in.rows[:0]
	return nil
}

// point makes a point of an item, with its plan.
func (in *intake) point(deck string, item *transfer.Item) store.NewPoint {
	l := in.l
	p := store.Point{
		ID: item.ID, Person: l.Person, Deck: deck, Question: strings.TrimSpace(item.Question), Answer: strings.TrimSpace(item.Answer), Tags: item.Tags,
		InPlan: item.InPlan, Suspended: item.Suspended, Draft: item.Draft, Kin: item.Kin, Origin: item.Origin, Created: item.Created, Updated: item.Updated,
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
	p.Words = Words(p.Question, p.Answer, p.Tags...)
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
		e.Queue, e.Before, e.After, e.Door = store.QueueDay, nil, nil, "import"
		n.Log = append(n.Log, e)
	}
	in.plan(&n, item)
	return n
}

// plan gives an imported point its dates.
func (in *intake) plan(n *store.NewPoint, item *transfer.Item) {
	l, p := in.l, &n.Point
	settings := l.Settings(p.Deck)
	open := slices.ContainsFunc(item.Sittings, func(v store.Sitting) bool { return v.Completed.IsZero() })
	if item.Card != nil && (open || item.Card.Phase == store.Done) { // one of our own
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
		// Nobody goes back to steps of minutes because of a review that is long over.
		whole := settings
		whole.Steps, whole.Relearn = nil, nil
		p.Card = schedule.Replay(whole, l.Calendar, p.Created, reviews)
	case !classic || !open:
		begin(p, &n.Sittings, l)
		return
	}
	if classic && open { // a course goes on by its own dates
		p.Card.Phase, p.Card.Due = store.Review, (&Entry{*p, n.Sittings}).Open().Day
		return
	}
	change := store.PointChange{Point: *p, Sittings: n.Sittings}
	if classic {
		resume(&change, l)
	} else {
		if p.Card.Phase == store.Done {
			change.Point.Card = schedule.Turn(p.Card, settings)
		}
		number := max(len(n.Log), len(n.Sittings)) + 1
		change.Sittings = append(change.Sittings, store.Sitting{ID: newID(), Day: change.Point.Card.Due, Number: number, Created: l.Now})
	}
	n.Point.Card, n.Sittings = change.Point.Card, change.Sittings
}

func (in *intake) sittings(item *transfer.Item) []store.Sitting {
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

// ExportOptions say what is written, and how.
type ExportOptions struct {
	Format   string // as in package transfer; empty: JSON
	Deck     string // name; empty: all
	Progress func(done, total int)
}

// Export writes a person's points, newest first, with their plans and history as
// far as the format has a place for them, and returns how many there were.
func (s *Service) Export(ctx context.Context, person string, o ExportOptions, w io.Writer) (points int, err error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return 0, err
	}
	var f store.PointFilter
	if o.Deck != "" {
		if f.Deck, err = deckOf(l, &o.Deck); err != nil {
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
	out, err := transfer.NewWriter(o.Format, w, transfer.WriteOptions{Zone: l.Calendar.Zone, DayStart: l.Calendar.Start, Now: l.Now, Decks: decks})
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

// maxHistory is how much of a point's history is written to a file.
const maxHistory = 10_000

// itemOf makes an item of a point, with its history.
func (s *Service) itemOf(ctx context.Context, l *Learner, e *Entry) (transfer.Item, error) {
	card := e.Card
	item := transfer.Item{
		ID: e.ID, Origin: e.Origin, Kin: e.Kin, Deck: l.DeckName(e.Deck), Question: e.Question, Answer: e.Answer, Tags: e.Tags, Created: e.Created, Updated: e.Updated,
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
