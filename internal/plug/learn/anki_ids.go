package learn

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/store"
)

// Numbers for programs that know notes, cards, decks and note types as Anki does: integers that
// JavaScript can hold exactly (at most 2^53−1). What came from Anki keeps its number.

// idBatch is how many notes or cards get a number in one transaction.
const idBatch = 1000

// maxAnkiID is the largest integer that JavaScript holds exactly (ECMA-262 §21.1.2.6).
const maxAnkiID = 1<<53 - 1

// giveIDs gives notes or points of a person numbers, those that were made first the lower ones.
func (s *Service) giveIDs(ctx context.Context, person string, of store.Numbering, ids []store.NewID) error {
	slices.SortFunc(ids, func(a, b store.NewID) int { return cmp.Compare(a.Number, b.Number) })
	for chunk := range slices.Chunk(ids, idBatch) {
		if err := s.Store.Learn.GiveIDs(ctx, person, of, chunk); err != nil {
			return err
		}
	}
	return nil
}

// giveAllIDs gives everything of a person that has no number one.
func (s *Service) giveAllIDs(ctx context.Context, person string, of store.Numbering) error {
	var ids []store.NewID
	err := s.Store.Learn.ScanUnnumbered(ctx, person, of, func(u store.Unnumbered) {
		ids = append(ids, store.NewID{Wanted: wantedID(of, &u), Number: u.Number})
	})
	if err != nil {
		return err
	}
	return s.giveIDs(ctx, person, of, ids)
}

// wantedID returns the number that a note or card has in Anki, or when it was made.
func wantedID(of store.Numbering, u *store.Unnumbered) int64 {
	var id int64
	switch {
	case of.Kind == store.IDOfCard:
		if c, ok := transfer.ParseCardSource(u.Source); ok {
			id = c.Card.ID
		}
	case of.Notes:
		id = transfer.NoteID(u.Source)
	}
	if id <= 0 || id > maxAnkiID/2 { // no other is near the limit, so that a free one is found
		id = max(u.Created.UnixMilli(), 1)
	}
	return id
}

// idsOf returns the numbers that notes or points have, by theirs here. Those that have none get
// one.
func (s *Service) idsOf(ctx context.Context, person string, of store.Numbering,
	numbers []int64) (map[int64]int64, error) {
	out, err := s.Store.Learn.IDsOf(ctx, person, of, numbers)
	if err == nil && len(out) < len(numbers) {
		err = s.addIDs(ctx, person, of, numbers, out)
	}
	if err != nil {
		return nil, fmt.Errorf("look up numbers of notes and cards: %w", err)
	}
	return out, nil
}

// addIDs gives those of some notes or points numbers that have none, and adds them to ids.
func (s *Service) addIDs(ctx context.Context, person string, of store.Numbering, numbers []int64,
	ids map[int64]int64) error {
	var without []int64
	for _, n := range numbers {
		if !has(ids, n) {
			without = append(without, n)
		}
	}
	var err error
	if len(without) > idBatch {
		err = s.giveAllIDs(ctx, person, of)
	} else {
		var list []store.Unnumbered
		list, err = s.Store.Learn.UnnumberedOf(ctx, person, of, without)
		wanted := make([]store.NewID, len(list))
		for i := range list {
			wanted[i] = store.NewID{Wanted: wantedID(of, &list[i]), Number: list[i].Number}
		}
		if err == nil {
			err = s.giveIDs(ctx, person, of, wanted)
		}
	}
	if err != nil {
		return err
	}
	more, err := s.Store.Learn.IDsOf(ctx, person, of, without)
	maps.Copy(ids, more)
	return err
}

// CardIDs returns the numbers of cards, by the numbers of their points.
func (s *Service) CardIDs(ctx context.Context, person string, points []int64) (map[int64]int64, error) {
	return s.idsOf(ctx, person, store.Numbering{Kind: store.IDOfCard}, points)
}

// NoteIDs returns the numbers of the notes of some points, sorted, each once.
func (s *Service) NoteIDs(ctx context.Context, person string, points []int64) ([]int64, error) {
	notesOf, err := s.Store.Learn.NotesOf(ctx, person, points)
	if err != nil {
		return nil, fmt.Errorf("look up the notes of points: %w", err)
	}
	var notes, bare []int64
	for _, p := range points {
		switch n, ok := notesOf[p]; {
		case !ok: // deleted meanwhile
		case n == 0:
			bare = append(bare, p)
		default:
			notes = append(notes, n)
		}
	}
	slices.Sort(notes)
	notes = slices.Compact(notes)
	var out []int64
	for _, list := range []struct {
		notes   bool
		numbers []int64
	}{{true, notes}, {false, bare}} {
		if len(list.numbers) == 0 {
			continue
		}
		ids, err := s.idsOf(ctx, person, store.Numbering{Kind: store.IDOfNote, Notes: list.notes}, list.numbers)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out, nil
}

// byID returns who has numbers of a kind, by number. A number that is not known yet can only be one
// that something imported has in Anki: other numbers were given by idsOf.
func (s *Service) byID(ctx context.Context, person string, kind store.IDKind, ids []int64) (map[int64]store.ID, error) {
	list, err := s.Store.Learn.IDs(ctx, person, kind, ids)
	if err == nil && len(list) < len(ids) {
		var more bool
		if more, err = s.numberImported(ctx, person); more && err == nil {
			list, err = s.Store.Learn.IDs(ctx, person, kind, ids)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look up notes and cards by number: %w", err)
	}
	out := make(map[int64]store.ID, len(list))
	for _, id := range list {
		out[id.ID] = id
	}
	return out, nil
}

// numberImported gives everything a number if there was an import since that was done, and reports
// whether there was.
func (s *Service) numberImported(ctx context.Context, person string) (bool, error) {
	last, err := s.Store.Learn.ImportUnnumbered(ctx, person)
	if err != nil || last == "" {
		return false, err
	}
	for _, of := range store.Numberings {
		if err := s.giveAllIDs(ctx, person, of); err != nil {
			return false, err
		}
	}
	return true, s.Store.Learn.Numbered(ctx, person, last)
}

// pointsOfIDs returns the numbers of the points of notes, by the numbers of those, without those in
// the trash.
func (s *Service) pointsOfIDs(ctx context.Context, person string, ids []int64) ([]int64, error) {
	owners, err := s.byID(ctx, person, store.IDOfNote, ids)
	if err != nil {
		return nil, err
	}
	var notes, bare, out []int64
	for _, owner := range owners {
		if owner.Note != 0 {
			notes = append(notes, owner.Note)
		} else {
			bare = append(bare, owner.Point)
		}
	}
	points, err := s.Store.Learn.PointsOfNotes(ctx, person, notes)
	if err != nil {
		return nil, fmt.Errorf("look up the cards of notes: %w", err)
	}
	for _, p := range points {
		out = append(out, p.Number)
	}
	notesOf, err := s.Store.Learn.NotesOf(ctx, person, bare) // of those that are not in the trash
	if err != nil {
		return nil, fmt.Errorf("look up points: %w", err)
	}
	for _, p := range bare {
		if has(notesOf, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// CardsByID returns the points of cards by their numbers. Missing ones, and those in the trash, are
// left out.
func (s *Service) CardsByID(ctx context.Context, person string, ids []int64) (map[int64]*store.Point, error) {
	owners, err := s.byID(ctx, person, store.IDOfCard, ids)
	if err != nil {
		return nil, err
	}
	numbers, of := make([]int64, 0, len(owners)), make(map[int64]int64, len(owners))
	for id, owner := range owners {
		numbers, of[owner.Point] = append(numbers, owner.Point), id
	}
	points, err := s.Store.Learn.PointsByNumber(ctx, person, numbers)
	if err != nil {
		return nil, fmt.Errorf("look up cards: %w", err)
	}
	out := make(map[int64]*store.Point, len(points))
	for i := range points {
		out[of[points[i].Number]] = &points[i]
	}
	return out, nil
}

// DefaultDeckID is the number of the default deck, as in Anki.
const DefaultDeckID = 1

// AnkiDeckID returns the number of a deck: the one that it had in Anki; or of its ID, a UUID of
// version 7, the milliseconds and the 11 bits that follow (RFC 9562 §5.7), by which the decks of a
// person differ and which is greater than any number of Anki's.
func AnkiDeckID(d *store.Deck) int64 {
	if d.ID == "" {
		return DefaultDeckID
	}
	if text, ok := strings.CutPrefix(d.Source, transfer.DeckSource); ok {
		if id, err := strconv.ParseInt(text, 10, 64); err == nil && id > 0 && id < maxAnkiID {
			return id
		}
	}
	id, err := uuid.Parse(d.ID)
	if err != nil || id.Version() != 7 {
		h := fnv.New64a()
		h.Write([]byte(d.ID))
		return int64(h.Sum64()>>12) | 1<<52
	}
	var n int64
	for _, b := range id[:6] {
		n = n<<8 | int64(b)
	}
	return (n<<11 | int64(id[6]&0xf)<<7 | int64(id[7])>>1) & maxAnkiID
}

// AnkiDefaultDeck is what Anki calls the default deck.
const AnkiDefaultDeck = "Default"

// AnkiDeckName returns the name of a deck, by its ID, for programs for Anki.
func (l *Learner) AnkiDeckName(id string) string {
	if d := l.deck(id); d != nil {
		return d.Name
	}
	return AnkiDefaultDeck
}

// AnkiDecks returns all decks, the default deck first, with the names that programs for Anki get.
func (l *Learner) AnkiDecks() []store.Deck {
	return append([]store.Deck{{Name: AnkiDefaultDeck}}, l.Decks...)
}
