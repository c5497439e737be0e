package learn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	notecard "patchbay/internal/plug/learn/card"
	"patchbay/internal/plug/learn/note"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/store"
)

// ExportOptions select what is written, and how.
type ExportOptions struct {
	Format string // as in package transfer; empty: JSON
	Deck   string // name; empty: all
	// Newest writes packages of Anki's newest generation, which Anki reads since 2.1.50, instead of
	// the one that all programs read.
	Newest bool
	// NoMedia leaves pictures and sounds out.
	NoMedia  bool
	Progress func(done, total int)
}

// Export writes a person's points, newest first, and returns their number. Plans and history are
// included as far as the format supports them; note types, notes, pictures and sounds in packages
// of Anki and in JSON.
func (s *Service) Export(ctx context.Context, person string, o ExportOptions, w io.Writer) (points int, err error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return 0, err
	}
	e := &exportRun{s: s, l: l, o: o, media: map[string]bool{}}
	if o.Deck != "" {
		if e.filter.Deck, err = deckFilter(l, &o.Deck); err != nil {
			return 0, err
		}
	}
	if e.o.Format == "" {
		e.o.Format = transfer.JSON
	}
	options, err := e.options(ctx)
	if err != nil {
		return 0, err
	}
	if e.out, err = transfer.NewWriter(e.o.Format, w, options); err != nil {
		return 0, err
	}
	err = e.run(ctx)
	return e.points, errors.Join(err, e.out.Close())
}

// exportRun is one export in progress.
type exportRun struct {
	s      *Service
	l      *Learner
	o      ExportOptions
	filter store.PointFilter
	out    transfer.Writer
	types  map[int64]string // origins of note types, by number
	media  map[string]bool  // names to which written notes refer
	points int
}

// hasNotes reports whether the format has notes.
func (e *exportRun) hasNotes() bool {
	return transfer.IsPackage(e.o.Format) || e.o.Format == transfer.JSON
}

func (e *exportRun) options(ctx context.Context) (transfer.WriteOptions, error) {
	l := e.l
	options := transfer.WriteOptions{Zone: l.Calendar.Zone, DayStart: l.Calendar.Start, Now: l.Now, Newest: e.o.Newest,
		Whole: e.o.Deck == "", Defaults: l.Profile.Defaults, Decks: make([]transfer.Deck, len(l.Decks))}
	for i, d := range l.Decks {
		options.Decks[i] = transfer.Deck{Name: d.Name, Settings: d.Settings, Source: d.Source}
	}
	if !e.hasNotes() {
		return options, nil
	}
	if !e.o.NoMedia {
		options.Media = func(put func(string, io.Reader) error) error { return e.putMedia(ctx, put) }
	}
	var err error
	if options.Sources, err = e.s.Store.Learn.Sources(ctx, l.Person); err != nil {
		return options, fmt.Errorf("read decks and options of packages: %w", err)
	}
	if e.o.Deck != "" { // notes without cards belong to no deck
		maps.DeleteFunc(options.Sources, func(name string, _ json.RawMessage) bool { return isOrphans(name) })
	}
	if options.Types, err = e.s.Store.Learn.NoteTypes(ctx, l.Person); err != nil {
		return options, fmt.Errorf("read note types: %w", err)
	}
	e.types = map[int64]string{}
	for _, t := range options.Types {
		e.types[t.Number] = t.Origin
	}
	return options, nil
}

// exportPage is how many points are read at a time.
const exportPage = 500

func (e *exportRun) run(ctx context.Context) error {
	total, err := e.s.count(ctx, e.l, e.filter)
	if err != nil {
		return err
	}
	var after store.PointKey
	for {
		entries, err := e.s.List(ctx, e.l.Person, e.filter, after, exportPage)
		if err != nil || len(entries) == 0 {
			return err
		}
		notes, err := e.notes(ctx, entries)
		if err != nil {
			return err
		}
		for i := range entries {
			item, err := e.s.itemOf(ctx, e.l, &entries[i])
			if err != nil {
				return err
			}
			item.Note = notes[entries[i].Note]
			if e.o.Deck != "" {
				for _, text := range []string{entries[i].Question, entries[i].Answer} {
					notecard.MediaRefs(text, func(name string) { e.media[name] = true })
				}
			}
			if err := e.out.Write(item); err != nil {
				return fmt.Errorf("write the file: %w", err)
			}
			e.points++
		}
		last := &entries[len(entries)-1]
		after = e.filter.Key(&last.Point)
		if e.o.Progress != nil {
			e.o.Progress(e.points, max(e.points, total))
		}
	}
}

// notes reads the notes of points, by number.
func (e *exportRun) notes(ctx context.Context, entries []Entry) (map[int64]*transfer.Note, error) {
	var numbers []int64
	for i := range entries {
		if n := entries[i].Note; n != 0 {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 || !e.hasNotes() {
		return nil, nil
	}
	slices.Sort(numbers)
	list, err := e.s.Store.Learn.Notes(ctx, e.l.Person, slices.Compact(numbers))
	if err != nil {
		return nil, fmt.Errorf("read notes: %w", err)
	}
	out := make(map[int64]*transfer.Note, len(list))
	for _, n := range list {
		out[n.Number] = &transfer.Note{GUID: n.GUID, Type: e.types[n.Type], Fields: n.Fields, Source: n.Source,
			Updated: n.Updated}
		if e.o.Deck != "" {
			for _, f := range n.Fields {
				for _, name := range note.References(f) {
					e.media[name] = true
				}
			}
		}
	}
	return out, nil
}

// putMedia writes the person's pictures and sounds; those of a deck are the ones that its notes
// refer to, and those of templates, whose names begin with a line.
func (e *exportRun) putMedia(ctx context.Context, put func(string, io.Reader) error) error {
	for after := ""; ; {
		list, err := e.s.Store.Learn.MediaList(ctx, e.l.Person, after, mediaPage)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, f := range list {
			after = f.Name
			if e.o.Deck != "" && !e.media[f.Name] && !strings.HasPrefix(f.Name, "_") {
				continue
			}
			_, data, err := e.s.Store.Learn.Media(ctx, e.l.Person, f.Name)
			if errors.Is(err, store.ErrNotFound) {
				continue // deleted meanwhile
			}
			if err == nil {
				err = put(f.Name, bytes.NewReader(data))
			}
			if err != nil {
				return err
			}
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

// itemOf converts a point to an item with its history, and without its note.
func (s *Service) itemOf(ctx context.Context, l *Learner, e *Entry) (transfer.Item, error) {
	card := e.Card
	item := transfer.Item{
		ID: e.ID, Origin: e.Origin, Kin: e.Kin, Deck: l.DeckName(e.Deck), Question: e.Question, Answer: e.Answer,
		Tags: e.Tags, Created: e.Created, Updated: e.Updated,
		InPlan: e.InPlan, Suspended: e.Suspended, Draft: e.Draft, Card: &card, Sittings: e.Sittings,
		Ord: e.Ord, Flag: e.Flag, Source: e.Source,
	}
	if item.Origin == "" {
		item.Origin = "learn:" + e.ID
	}
	if e.Deck == "" {
		item.Deck = ""
	}
	if card.Reps == 0 && e.Source == "" {
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
		if v.Kind == store.LogReview && !undone[v.ID] || v.Kind != store.LogUndo && v.Source != "" {
			item.History = append(item.History, v)
		}
	}
	return item, nil
}
