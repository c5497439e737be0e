package learn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"patchbay/internal/plug/learn/card"
	"patchbay/internal/plug/learn/markdown"
	"patchbay/internal/plug/learn/note"
	"patchbay/internal/store"
)

// CardView is a point as pages show it.
type CardView struct {
	*card.Shown
	// Framed means that it is a card of a note, which brings its own style and belongs into a frame
	// of its own. What is not framed is a part of a page.
	Framed bool
	Ord    int // which of the note's cards it is, from 0
}

// Card renders both sides of a point. The addresses of pictures and sounds begin with prefix, such
// as [card.MediaPath], and their names are in Media. The result is clean: nothing in it runs, and
// nothing but the person's own media is loaded.
func (s *Service) Card(ctx context.Context, p *store.Point, prefix string) (*CardView, error) {
	var l *Learner
	if p.Note != 0 {
		var err error
		if l, err = s.Learner(ctx, p.Person); err != nil {
			return nil, err
		}
	}
	sources, err := s.cardSources(ctx, l, p)
	if err != nil {
		return nil, err
	}
	return sources.view(p, prefix)
}

// cardSources is what the cards of some points are made of.
type cardSources struct {
	l     *Learner
	notes map[int64]*store.Note // by number
	types map[int64]*note.Type
}

// cardSources reads the notes and note types of points. The learner may be nil if none has a note.
func (s *Service) cardSources(ctx context.Context, l *Learner, points ...*store.Point) (*cardSources, error) {
	c := &cardSources{l, map[int64]*store.Note{}, map[int64]*note.Type{}}
	var numbers []int64
	for _, p := range points {
		if p.Note != 0 {
			numbers = append(numbers, p.Note)
		}
	}
	if len(numbers) == 0 {
		return c, nil
	}
	slices.Sort(numbers)
	notes, err := s.Store.Learn.Notes(ctx, l.Person, slices.Compact(numbers))
	if err != nil {
		return nil, fmt.Errorf("look up notes: %w", err)
	}
	for i := range notes {
		n := &notes[i]
		c.notes[n.Number] = n
		if _, known := c.types[n.Type]; known {
			continue
		}
		if c.types[n.Type], err = s.noteType(ctx, l.Person, n.Type); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// view renders both sides of a point.
func (c *cardSources) view(p *store.Point, prefix string) (*CardView, error) {
	if n := c.notes[p.Note]; n != nil && c.types[n.Type] != nil {
		shown, err := card.Render(&card.Card{Type: c.types[n.Type], Fields: n.Fields, Ord: p.Ord,
			Deck: c.l.DeckName(p.Deck), Tags: p.Tags, Flag: p.Flag}, prefix)
		if err == nil {
			return &CardView{shown, true, p.Ord}, nil
		}
		if !errors.Is(err, card.ErrTooLarge) {
			return nil, err
		}
	}
	// Its text is shown of a card whose note is gone, or whose templates cannot be filled.
	front, media := markdown.Render(p.Question, prefix)
	back, more := markdown.Render(p.Answer, prefix)
	all := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(media), more...))))
	return &CardView{Shown: &card.Shown{Front: front, Back: back, Media: all, FrontMedia: media, BackMedia: more}}, nil
}

// noteType returns a note type; nil if it is gone.
func (s *Service) noteType(ctx context.Context, person string, number int64) (*note.Type, error) {
	row, err := s.Store.Learn.NoteType(ctx, person, number)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up a note type: %w", err)
	}
	return note.Parse(row.Model)
}

// note returns a note with its type; nil if there is none.
func (s *Service) note(ctx context.Context, person string, number int64) (*store.Note, *note.Type, error) {
	notes, err := s.Store.Learn.Notes(ctx, person, []int64{number})
	if err != nil || len(notes) == 0 {
		return nil, nil, err
	}
	t, err := s.noteType(ctx, person, notes[0].Type)
	if err != nil || t == nil {
		return nil, nil, err
	}
	return &notes[0], t, nil
}
