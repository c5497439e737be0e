package learn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// BulkUndoTime is how long the last edit of many points can be undone.
const BulkUndoTime = 24 * time.Hour

// maxBulkPoints limits an edit: the numbers of its points are held in memory.
const maxBulkPoints = 500_000

// BulkTarget says which points an edit is for: those with an ID, and those that an expression
// selects. Where points are restored, both mean points in the trash.
type BulkTarget struct {
	IDs   []string
	Query *Expression // nil: only the IDs
	Deck  *string     // ID; narrows Query
	Tag   string      // the same
	State string      // the same, see [PointQuery]
}

// BulkEdit is a change of many points. Nil and empty fields stay unchanged.
type BulkEdit struct {
	Deck       *string    `json:"deck,omitempty"` // name; created if it does not exist
	AddTags    []string   `json:"add_tags,omitempty"`
	RemoveTags []string   `json:"remove_tags,omitempty"`
	Suspended  *bool      `json:"suspended,omitempty"`
	Flag       *int       `json:"flag,omitempty"` // 0: none
	Bury       *bool      `json:"bury,omitempty"` // hides them until tomorrow; false shows them again
	Due        *store.Day `json:"due,omitempty"`
	Deleted    *bool      `json:"deleted,omitempty"` // into the trash, or out of it
}

// BulkResult is what an edit did.
type BulkResult struct {
	Matched int // points that it was for
	Changed int // points that are different now
	// Refused has the IDs that are no points, and those of points that cannot be changed that way,
	// with the reason: [ErrNotFound] or [ErrNoPlan]. It names 100 at most.
	Refused map[string]error
	Skipped int // number of refused ones
}

const (
	msgEmptyEdit = i18n.Message("say what to change: deck, tags, suspended, flag, bury, due or deleted")
	msgFlagRange = i18n.Message("a flag is a number from 0 (none) to 7")
	msgManyAtOne = i18n.Message("more than %d points match; narrow the search")
	msgNoBulk    = i18n.Message("there is no edit of many points to undo; it can be undone for a day")
)

// maxRefused is how many refused points a result names.
const maxRefused = 100

// Bulk changes many points, in transactions of [store.BulkBatch]. The edit can be undone with
// [Service.UndoBulk], even one that was interrupted, in which case the remaining points are as they
// were. progress reports how far it is; it may be nil. The error is an *[Invalid], or one of the
// database or the context; the result says what was done until then.
func (s *Service) Bulk(ctx context.Context, person string, to BulkTarget, e BulkEdit, channel string,
	progress func(done, total int)) (*BulkResult, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	return s.bulk(ctx, l, to, e, channel, progress)
}

// bulk is [Service.Bulk] for a person who is loaded already.
func (s *Service) bulk(ctx context.Context, l *Learner, to BulkTarget, e BulkEdit, channel string,
	progress func(done, total int)) (*BulkResult, error) {
	b := &bulk{s: s, l: l, edit: e, channel: channel, out: &BulkResult{Refused: map[string]error{}}}
	if err := b.check(); err != nil {
		return nil, err
	}
	numbers, err := b.find(ctx, to)
	if err != nil {
		return nil, err
	}
	if e.Deck != nil && len(numbers) > 0 {
		if b.deck, err = s.findOrAddDeck(ctx, l, *e.Deck); err != nil {
			return nil, err
		}
	}
	b.out.Matched = len(numbers)
	id := newID()
	for part := range (len(numbers) + store.BulkBatch - 1) / store.BulkBatch {
		chunk := numbers[part*store.BulkBatch : min((part+1)*store.BulkBatch, len(numbers))]
		if err := b.change(ctx, id, part, chunk); err != nil {
			return b.out, fmt.Errorf("edit points: %w", err)
		}
		if progress != nil {
			progress(part*store.BulkBatch+len(chunk), len(numbers))
		}
	}
	return b.out, nil
}

// bulk is an edit in progress.
type bulk struct {
	s       *Service
	l       *Learner
	edit    BulkEdit
	deck    string // ID
	add     []string
	remove  []string
	channel string
	out     *BulkResult
}

// check validates the edit.
func (b *bulk) check() (err error) {
	e := &b.edit
	if b.add, err = cleanTags(e.AddTags); err != nil {
		return err
	}
	if b.remove, err = cleanTags(e.RemoveTags); err != nil {
		return err
	}
	switch {
	case e.Deck == nil && len(b.add) == 0 && len(b.remove) == 0 && e.Suspended == nil && e.Flag == nil &&
		e.Bury == nil && e.Due == nil && e.Deleted == nil:
		return invalid(msgEmptyEdit)
	case e.Flag != nil && (*e.Flag < 0 || *e.Flag > MaxFlag):
		return invalid(msgFlagRange)
	case e.Due != nil:
		return checkDue(b.l, *e.Due)
	}
	return nil
}

// find returns the numbers of the points, in ascending order. IDs that are none are refused.
func (b *bulk) find(ctx context.Context, to BulkTarget) ([]int64, error) {
	var numbers []int64
	restores := b.edit.Deleted != nil && !*b.edit.Deleted
	if len(to.IDs) > 0 {
		byID, err := b.s.Store.Learn.NumbersByID(ctx, b.l.Person, to.IDs, restores)
		if err != nil {
			return nil, err
		}
		for _, id := range to.IDs {
			if n, ok := byID[id]; ok {
				numbers = append(numbers, n)
			} else {
				b.refuse(id, ErrNotFound)
			}
		}
	}
	if to.Query != nil {
		f, err := to.Query.Selection(b.l)
		if err == nil {
			err = narrow(&f, to.Deck, to.Tag, to.State)
		}
		if err != nil {
			return nil, err
		}
		f.Trash = f.Trash || restores
		more, err := b.s.Store.Learn.SelectNumbers(ctx, b.l.Person, f, 0, maxBulkPoints+1)
		if err != nil {
			return nil, err
		}
		if len(more) > maxBulkPoints {
			return nil, invalid(msgManyAtOne, maxBulkPoints)
		}
		numbers = append(numbers, more...)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}

func (b *bulk) refuse(id string, why error) {
	b.out.Skipped++
	if len(b.out.Refused) < maxRefused {
		b.out.Refused[truncateBytes(id, 100)] = why
	}
}

// change changes some of the points in one transaction.
func (b *bulk) change(ctx context.Context, id string, part int, numbers []int64) error {
	var was []pointBefore
	var refused map[string]error
	edit := func(list []*store.PointChange) (*store.BulkPart, error) {
		was, refused = nil, map[string]error{}
		for _, c := range list {
			before := snapshot(c)
			if err := b.apply(c); err != nil {
				if !errors.Is(err, ErrNoPlan) && !errors.Is(err, ErrNotFound) {
					return nil, err
				}
				refused[c.Point.ID], c.Unchanged = err, true
				continue
			}
			diff, changed := before.diff(c)
			if c.Unchanged = !changed; changed {
				c.Point.Updated = b.l.Now
				was = append(was, diff)
			}
		}
		return b.part(id, part, was)
	}
	points := store.ManyPoints{Numbers: numbers, Plans: b.edit.Deck != nil || b.edit.Due != nil}
	if err := b.s.Store.Learn.ChangeMany(ctx, b.l.Person, points, edit, nil); err != nil {
		return err
	}
	for id, why := range refused {
		b.refuse(id, why)
	}
	b.out.Changed += len(was)
	return nil
}

// part returns what is kept of some changes; nil if there are none.
func (b *bulk) part(id string, number int, was []pointBefore) (*store.BulkPart, error) {
	if len(was) == 0 {
		return nil, nil
	}
	edit, err := json.Marshal(b.edit)
	if err != nil {
		return nil, err
	}
	changes, err := json.Marshal(was)
	return &store.BulkPart{ID: id, Part: number, Edit: edit, Changes: changes, N: len(was),
		Until: b.l.Now.Add(BulkUndoTime)}, err
}

// apply changes a point.
func (b *bulk) apply(c *store.PointChange) error {
	p, e := &c.Point, &b.edit
	if e.Deleted != nil {
		if !*e.Deleted {
			p.Deleted = time.Time{}
		} else if p.Deleted.IsZero() {
			p.Deleted = b.l.Now
		}
	} else if !p.Deleted.IsZero() {
		return ErrNotFound
	}
	if e.Due != nil {
		if err := reschedule(c, b.l, *e.Due, b.channel); err != nil {
			return err
		}
	}
	if e.Deck != nil && b.deck != p.Deck {
		from := b.l.Settings(p.Deck).Schedule
		p.Deck = b.deck
		if to := b.l.Settings(b.deck); to.Schedule != from {
			replan(c, b.l, to)
		}
	}
	if e.Suspended != nil {
		p.Suspended = *e.Suspended
	}
	if e.Flag != nil {
		p.Flag = *e.Flag
	}
	if e.Bury != nil {
		bury(p, b.l, *e.Bury)
	}
	b.retag(p)
	return nil
}

// bury hides a point until tomorrow, or shows it again. What is on its steps is not hidden: it
// comes back in minutes.
func bury(p *store.Point, l *Learner, hide bool) {
	switch {
	case hide:
		p.Card.Buried = max(p.Card.Buried, l.Today+1)
	case p.Card.Buried == l.Today+1:
		p.Card.Buried = 0
	}
}

// retag adds and removes tags. A point that has too many keeps those that it had.
func (b *bulk) retag(p *store.Point) {
	tags := slices.DeleteFunc(slices.Clone(p.Tags), func(tag string) bool { return slices.Contains(b.remove, tag) })
	for _, tag := range b.add {
		if !slices.Contains(tags, tag) && len(tags) < maxTags {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	if !slices.Equal(tags, p.Tags) {
		p.Tags = tags
		p.Words = IndexWords(p.Question, p.Answer, p.Tags...)
	}
}

// UndoneBulk is what [Service.UndoBulk] took back.
type UndoneBulk struct {
	Edit   BulkEdit
	Points int // points that are as they were before
	Kept   int // points that were changed in the same respect since, or are gone
}

// pointBefore is what an edit changed of a point: each member is nil if it stayed. Before is the
// first value, after the second.
type pointBefore struct {
	Number    int64          `json:"n"`
	Deck      *[2]string     `json:"deck,omitempty"`
	Added     []string       `json:"added,omitempty"`
	Removed   []string       `json:"removed,omitempty"`
	Suspended *[2]bool       `json:"suspended,omitempty"`
	Flag      *[2]int        `json:"flag,omitempty"`
	Deleted   *[2]int64      `json:"deleted,omitempty"` // milliseconds; 0: not
	Card      *[2]store.Card `json:"card,omitempty"`
	// Sittings are those before, if they changed.
	Sittings []store.Sitting `json:"sittings,omitempty"`
}

// pointSnapshot is a point before a change.
type pointSnapshot struct {
	point    store.Point
	sittings []store.Sitting
}

func snapshot(c *store.PointChange) pointSnapshot {
	p := c.Point
	p.Tags = slices.Clone(p.Tags)
	return pointSnapshot{p, slices.Clone(c.Sittings)}
}

// diff returns what a change did to a point, and whether that is anything.
func (s *pointSnapshot) diff(c *store.PointChange) (out pointBefore, changed bool) {
	a, b := &s.point, &c.Point
	out.Number = b.Number
	if a.Deck != b.Deck {
		out.Deck, changed = &[2]string{a.Deck, b.Deck}, true
	}
	if a.Suspended != b.Suspended {
		out.Suspended, changed = &[2]bool{a.Suspended, b.Suspended}, true
	}
	if a.Flag != b.Flag {
		out.Flag, changed = &[2]int{a.Flag, b.Flag}, true
	}
	if !a.Deleted.Equal(b.Deleted) {
		out.Deleted, changed = &[2]int64{deletedMillis(a), deletedMillis(b)}, true
	}
	if a.Card != b.Card {
		out.Card, changed = &[2]store.Card{a.Card, b.Card}, true
	}
	if !slices.Equal(s.sittings, c.Sittings) {
		out.Sittings, changed = s.sittings, true
	}
	out.Added, out.Removed = without(b.Tags, a.Tags), without(a.Tags, b.Tags)
	return out, changed || len(out.Added) > 0 || len(out.Removed) > 0
}

func deletedMillis(p *store.Point) int64 {
	if p.Deleted.IsZero() {
		return 0
	}
	return p.Deleted.UnixMilli()
}

// without returns the texts of a list that another does not have.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

// sameCard compares cards, one of which was stored as JSON.
func sameCard(a, b store.Card) bool {
	times := a.DueAt.Equal(b.DueAt) && a.LastAt.Equal(b.LastAt)
	a.DueAt, a.LastAt, b.DueAt, b.LastAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return times && a == b
}

func sortByNumber(points []store.Point) {
	slices.SortFunc(points, func(a, b store.Point) int { return cmp.Compare(a.Number, b.Number) })
}

// Describe says what the edit does, for people.
func (e *BulkEdit) Describe(l i18n.Lang) string {
	var parts []string
	say := func(m i18n.Message, args ...any) { parts = append(parts, m.In(l, args...)) }
	if e.Deck != nil {
		say(msgEditDeck, *e.Deck)
	}
	if len(e.AddTags) > 0 {
		say(msgEditAdd, strings.Join(e.AddTags, ", "))
	}
	if len(e.RemoveTags) > 0 {
		say(msgEditRemove, strings.Join(e.RemoveTags, ", "))
	}
	for _, b := range []struct {
		is      *bool
		yes, no i18n.Message
	}{{e.Suspended, msgEditSuspend, msgEditResume}, {e.Bury, msgEditBury, msgEditUnbury},
		{e.Deleted, msgEditDelete, msgEditRestore}} {
		switch {
		case b.is == nil:
		case *b.is:
			say(b.yes)
		default:
			say(b.no)
		}
	}
	if e.Flag != nil {
		say(msgEditFlag, *e.Flag)
	}
	if e.Due != nil {
		say(msgEditDue, e.Due.String())
	}
	return strings.Join(parts, msgBetween.In(l))
}

const (
	msgEditDeck    = i18n.Message("moved to the deck %s")
	msgEditAdd     = i18n.Message("tagged %s")
	msgEditRemove  = i18n.Message("no longer tagged %s")
	msgEditSuspend = i18n.Message("suspended")
	msgEditResume  = i18n.Message("resumed")
	msgEditBury    = i18n.Message("buried until tomorrow")
	msgEditUnbury  = i18n.Message("not buried any more")
	msgEditDelete  = i18n.Message("put into the trash")
	msgEditRestore = i18n.Message("taken out of the trash")
	msgEditFlag    = i18n.Message("flag %d")
	msgEditDue     = i18n.Message("due on %s")
)
