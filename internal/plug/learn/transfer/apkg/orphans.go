package apkg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Orphans are rows of a collection that belong to no card: notes whose cards are gone, and reviews
// of cards that were deleted, which Anki keeps for its statistics.
type Orphans struct {
	Notes []OrphanNote `json:"notes,omitempty"`
	Log   []LogRow     `json:"log,omitempty"`
}

// OrphanNote is a note without cards.
type OrphanNote struct {
	Row    NoteRow  `json:"row"`
	Fields []string `json:"flds"` // of Row, which is encoded without them
}

// Empty reports whether there are none.
func (o *Orphans) Empty() bool { return len(o.Notes)+len(o.Log) == 0 }

// Limits of orphans, which are kept in memory and in one value of the database. What is beyond them
// is left out, with a warning.
const (
	maxOrphanRows  = 50_000
	maxOrphanNotes = 5_000
	maxOrphanBytes = 8 << 20 // of the fields of the notes together
)

// orphanLimits are the limits of orphans, which tests make smaller.
type orphanLimits struct{ rows, notes, bytes int }

var usualOrphans = orphanLimits{rows: maxOrphanRows, notes: maxOrphanNotes, bytes: maxOrphanBytes}

// errEnough ends a query whose rows are limited.
var errEnough = errors.New("no more")

// The queries give only what can be kept, and one row more than that, so that it is known whether
// something is left out. %s are the ids of the note types, %d the size of a note and the limit.
const orphanNotesQuery = `SELECT CAST(id AS INTEGER), CAST(COALESCE(guid, '') AS TEXT), CAST(COALESCE(mid, 0) AS INTEGER),
	CAST(COALESCE(mod, 0) AS INTEGER), CAST(COALESCE(usn, 0) AS INTEGER), CAST(COALESCE(tags, '') AS TEXT),
	CAST(COALESCE(flds, '') AS TEXT), CAST(COALESCE(sfld, '') AS TEXT), CAST(COALESCE(csum, 0) AS INTEGER),
	CAST(COALESCE(flags, 0) AS INTEGER), CAST(COALESCE(data, '') AS TEXT)
	FROM notes WHERE CAST(id AS INTEGER) > 0 AND CAST(COALESCE(guid, '') AS TEXT) != ''
	AND CAST(COALESCE(mid, 0) AS INTEGER) IN (%s) AND length(CAST(COALESCE(flds, '') AS BLOB)) <= %d
	AND id NOT IN (SELECT COALESCE(nid, 0) FROM cards) ORDER BY id LIMIT %d`

const orphanLogQuery = `SELECT CAST(id AS INTEGER), CAST(COALESCE(cid, 0) AS INTEGER), CAST(COALESCE(usn, 0) AS INTEGER), CAST(COALESCE(ease, 0) AS INTEGER),
	CAST(COALESCE(ivl, 0) AS INTEGER), CAST(COALESCE(lastIvl, 0) AS INTEGER), CAST(COALESCE(factor, 0) AS INTEGER),
	CAST(COALESCE(time, 0) AS INTEGER), CAST(COALESCE(type, 0) AS INTEGER)
	FROM revlog WHERE CAST(id AS INTEGER) > 0 AND COALESCE(cid, 0) NOT IN (SELECT COALESCE(id, 0) FROM cards)
	ORDER BY id LIMIT %d`

// loadOrphans reads what belongs to no card.
func (c *collection) loadOrphans(ctx context.Context, limits orphanLimits, warn func(name string, why error)) error {
	if limits == (orphanLimits{}) {
		limits = usualOrphans
	}
	o := &c.contents.Orphans
	err := c.loadOrphanNotes(ctx, o, limits)
	if errors.Is(err, errEnough) {
		warn("notes", msgManyOrphans.Errorf(len(o.Notes)))
	} else if err != nil {
		return err
	}
	err = c.loadOrphanLog(ctx, o, limits)
	if errors.Is(err, errEnough) {
		warn("revlog", msgManyOrphans.Errorf(len(o.Log)))
		err = nil
	}
	return err
}

func (c *collection) loadOrphanNotes(ctx context.Context, o *Orphans, limits orphanLimits) error {
	var row cardRow
	n, size := &row.note, 0
	var types []string
	for _, id := range slices.Sorted(maps.Keys(c.types)) {
		types = append(types, strconv.FormatInt(id, 10))
	}
	query := fmt.Sprintf(orphanNotesQuery, strings.Join(types, ","), maxFields, limits.notes+1)
	return c.each(ctx, query, func() error {
		if size += len(row.fields); len(o.Notes) == limits.notes || size > limits.bytes {
			return errEnough
		}
		row.clean()
		o.Notes = append(o.Notes, OrphanNote{*n, n.Fields})
		*n = NoteRow{}
		return nil
	}, &n.ID, &n.GUID, &n.Type, &n.Modified, &n.USN, &n.Tags, &row.fields, &n.Sort, &n.Checksum, &n.Flags, &n.Data)
}

func (c *collection) loadOrphanLog(ctx context.Context, o *Orphans, limits orphanLimits) error {
	l := reviewLog{oldEase: c.oldEase}
	r := &l.row
	return c.each(ctx, fmt.Sprintf(orphanLogQuery, limits.rows+1), func() error {
		if len(o.Log) == limits.rows {
			return errEnough
		}
		l.entry() // converts the answers of the first scheduler
		o.Log = append(o.Log, *r)
		return nil
	}, &r.ID, &r.Card, &r.USN, &r.Ease, &r.Interval, &r.Last, &r.Factor, &r.Took, &r.Kind)
}

// Merge adds what only earlier orphans have, by the GUIDs of notes and the ids of reviews, as far
// as the limits allow.
func (o *Orphans) Merge(earlier *Orphans) { o.merge(earlier, usualOrphans) }

func (o *Orphans) merge(earlier *Orphans, limits orphanLimits) {
	notes, rows, size := map[string]bool{}, map[int64]bool{}, 0
	for i := range o.Notes {
		notes[o.Notes[i].Row.GUID] = true
		size += o.Notes[i].size()
	}
	for i := range earlier.Notes {
		n := &earlier.Notes[i]
		if fits := len(o.Notes) < limits.notes && size+n.size() <= limits.bytes; fits && !notes[n.Row.GUID] {
			o.Notes, size = append(o.Notes, *n), size+n.size()
		}
	}
	for i := range o.Log {
		rows[o.Log[i].ID] = true
	}
	for _, r := range earlier.Log {
		if len(o.Log) < limits.rows && !rows[r.ID] {
			o.Log = append(o.Log, r)
		}
	}
	slices.SortStableFunc(o.Notes, func(a, b OrphanNote) int { return cmp.Compare(a.Row.ID, b.Row.ID) })
	slices.SortStableFunc(o.Log, func(a, b LogRow) int { return cmp.Compare(a.ID, b.ID) })
}

// size returns the bytes of the fields, as the database has them.
func (n *OrphanNote) size() int { return len(strings.Join(n.Fields, "\x1f")) }

// writeOrphans writes what belongs to no card, but skips notes and rows that were already written.
func (p *Writer) writeOrphans() error {
	for _, n := range p.o.Base.Orphans.Notes {
		if n.Row.Fields = n.Fields; p.knows(n.Row.Type) {
			if err := p.WriteNote(n.Row); err != nil {
				return err
			}
		}
	}
	for _, l := range p.o.Base.Orphans.Log {
		_, err := p.review.Exec(l.ID, l.Card, l.USN, l.Ease, l.Interval, l.Last, l.Factor, l.Took, l.Kind)
		if err != nil {
			return err
		}
	}
	return nil
}

// knows reports whether a note type is one of Base.
func (p *Writer) knows(id int64) bool {
	for _, t := range p.o.Base.Types {
		if t.ID == id {
			return true
		}
	}
	return false
}
