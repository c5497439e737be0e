package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// IDKind tells what an [ID] is of.
type IDKind int8

// The kinds. They are stored.
const (
	IDOfNote IDKind = 1
	IDOfCard IDKind = 2
)

// ID is a number by which programs for Anki know a note or a card. Numbers of a kind are unique for
// a person.
type ID struct {
	ID int64
	// Note or Point is what has it, and the other is 0: a note, a card, or a note that is a point
	// without a row of its own.
	Note, Point int64
}

func readID(s scanner) (id ID, err error) {
	var note, point sql.NullInt64
	err = s.Scan(&id.ID, &note, &point)
	id.Note, id.Point = note.Int64, point.Int64
	return id, err
}

// IDs returns who has the IDs of a kind. Unknown ones are left out.
func (t Learn) IDs(ctx context.Context, person string, kind IDKind, ids []int64) ([]ID, error) {
	var out []ID
	for chunk := range slices.Chunk(ids, inListSize) {
		list, err := all(ctx, t.db, readID, `SELECT id, note, point FROM learn_ids WHERE id IN (`+inPlaceholders(1)+
			`) AND kind = $51 AND person = $52`, append(inArgs(chunk), int64(kind), person)...)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// IDsOf returns the IDs of notes or points, by their numbers. Those without one are left out.
func (t Learn) IDsOf(ctx context.Context, person string, of Numbering, numbers []int64) (map[int64]int64, error) {
	out := make(map[int64]int64, len(numbers))
	for chunk := range slices.Chunk(numbers, inListSize) {
		list, err := all(ctx, t.db, readID, of.idsQuery(), append(inArgs(chunk), int64(of.Kind), person)...)
		if err != nil {
			return nil, err
		}
		for _, id := range list {
			out[max(id.Note, id.Point)] = id.ID
		}
	}
	return out, nil
}

// Numbering is what gets IDs of a kind: points as cards; and as notes, notes or points without one.
type Numbering struct {
	Kind  IDKind
	Notes bool // notes, not points
}

// Numberings are all there are.
var Numberings = []Numbering{{IDOfNote, true}, {IDOfNote, false}, {IDOfCard, false}}

// idsQuery returns the query for the IDs of some notes or points.
func (n Numbering) idsQuery() string {
	column := `point`
	if n.Notes {
		column = `note`
	}
	// An index is not used for an expression: that of the person would find all their IDs.
	return `SELECT id, note, point FROM learn_ids WHERE ` + column + ` IN (` + inPlaceholders(1) +
		`) AND kind = $51 AND person || '' = $52`
}

// Unnumbered is a note or a card that has no [ID] yet.
type Unnumbered struct {
	Number  int64  // of the note or the point
	Source  string // as of [Note] and [Point]
	Created time.Time
}

// query returns the query for what has no ID. Its arguments are person and kind.
func (n Numbering) query(person string) string {
	if n.Notes {
		return `SELECT o.number, o.source, o.updated_at FROM learn_notes o
			LEFT JOIN learn_ids i ON i.note = o.number AND i.kind = $2
			WHERE ` + person + ` = $1 AND o.staged IS NULL AND i.id IS NULL`
	}
	query := `SELECT o.number, o.source, o.created_at FROM learn_points o
		LEFT JOIN learn_ids i ON i.point = o.number AND i.kind = $2
		WHERE ` + person + ` = $1 AND o.staged IS NULL AND i.id IS NULL`
	if n.Kind == IDOfNote {
		query += ` AND o.note = 0`
	}
	return query
}

func readUnnumbered(s scanner) (u Unnumbered, err error) {
	var created int64
	err = s.Scan(&u.Number, &u.Source, &created)
	u.Created = fromMillis(created)
	return u, err
}

// ScanUnnumbered passes to f what of a person has no ID, in any order.
func (t Learn) ScanUnnumbered(ctx context.Context, person string, of Numbering, f func(Unnumbered)) error {
	return scanAll(ctx, t.db.reader(longRunning(ctx)), of.query(`o.person`), sanitizeArgs([]any{person, int64(of.Kind)}),
		func(s scanner) error {
			u, err := readUnnumbered(s)
			if err == nil {
				f(u)
			}
			return err
		})
}

// UnnumberedOf lists which of some notes or points of a person have no ID.
func (t Learn) UnnumberedOf(ctx context.Context, person string, of Numbering, numbers []int64) ([]Unnumbered, error) {
	var out []Unnumbered
	for chunk := range slices.Chunk(numbers, inListSize) {
		// An index is not used for an expression: that of the person would find all that they have.
		list, err := all(ctx, t.db, readUnnumbered, of.query(`o.person || ''`)+` AND o.number IN (`+inPlaceholders(3)+`)`,
			append([]any{person, int64(of.Kind)}, inArgs(chunk)...)...)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// ImportUnnumbered returns the last import of a person since [Learn.Numbered] that added what has a
// number elsewhere; empty if there was none.
func (t Learn) ImportUnnumbered(ctx context.Context, person string) (string, error) {
	names, err := all(ctx, t.db, func(s scanner) (name string, err error) { return name, s.Scan(&name) },
		`SELECT import FROM learn_unnumbered WHERE person = $1`, person)
	return strings.Join(names, ""), err
}

// Numbered records that everything has an ID that was there after an import.
func (t Learn) Numbered(ctx context.Context, person, after string) error {
	_, err := t.db.exec(ctx, `DELETE FROM learn_unnumbered WHERE person = $1 AND import = $2`, person, after)
	return err
}

// NewID is an [ID] to give: the one that is wanted, or the next higher that is free.
type NewID struct {
	Wanted int64
	Number int64 // of the note or the point
}

// GiveIDs gives notes or points of a person IDs. Those that have one, or are gone, stay as they
// are.
func (t Learn) GiveIDs(ctx context.Context, person string, of Numbering, list []NewID) error {
	return retryDeadlock(func() error {
		return t.db.tx(ctx, func(tx *sql.Tx) error {
			if err := t.db.lockPerson(ctx, tx, person); err != nil {
				return err
			}
			free := freeIDs{tx: tx, person: person, kind: of.Kind, taken: map[int64]bool{}}
			given, err := free.choose(ctx, list)
			if err != nil {
				return err
			}
			for chunk := range slices.Chunk(given, insertSize) {
				if err := insertIDs(ctx, tx, person, of, chunk); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// insertSize is how many IDs a statement inserts. Shorter lists are padded, so that its text is
// always the same.
const insertSize = 50

// insertIDs inserts the wanted IDs, which are free.
func insertIDs(ctx context.Context, tx *sql.Tx, person string, of Numbering, list []NewID) error {
	table, values := `learn_points`, `NULL, o.number`
	if of.Notes {
		table, values = `learn_notes`, `o.number, NULL`
	}
	args := []any{int64(of.Kind), person}
	var rows strings.Builder
	for i := range insertSize {
		n := list[min(i, len(list)-1)]
		args = append(args, n.Number, n.Wanted)
		if i > 0 {
			rows.WriteString(", ")
		}
		fmt.Fprintf(&rows, "(CAST($%d AS BIGINT), CAST($%d AS BIGINT))", len(args)-1, len(args))
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO learn_ids (person, kind, id, note, point)
		SELECT o.person, CAST($1 AS BIGINT), v.column2, `+values+` FROM (VALUES `+rows.String()+`) v
		JOIN `+table+` o ON o.number = v.column1 WHERE o.person || '' = $2 ON CONFLICT DO NOTHING`, sanitizeArgs(args)...)
	return err
}

// freeIDs finds IDs of a kind that nobody has.
type freeIDs struct {
	tx     *sql.Tx
	person string
	kind   IDKind
	taken  map[int64]bool // those that were looked up or chosen
}

// choose returns which IDs are given instead of the wanted ones.
func (f *freeIDs) choose(ctx context.Context, list []NewID) ([]NewID, error) {
	wanted := make([]int64, len(list))
	for i, n := range list {
		wanted[i] = n.Wanted
	}
	for chunk := range slices.Chunk(wanted, inListSize) {
		err := f.lookUp(ctx, chunk, `id IN (`+inPlaceholders(3)+`)`, inArgs(chunk)...)
		if err != nil {
			return nil, err
		}
	}
	out := slices.Clone(list)
	last := map[int64]int64{} // the ID that was given last, by the one that was wanted
	for i, n := range list {
		id := n.Wanted
		if before, ok := last[id]; ok {
			id = before + 1
		}
		id, err := f.from(ctx, id)
		if err != nil {
			return nil, err
		}
		out[i].Wanted, last[n.Wanted], f.taken[id] = id, id, true
	}
	return out, nil
}

// from returns the first free ID from one on.
func (f *freeIDs) from(ctx context.Context, id int64) (int64, error) {
	const most = 1000 // looked up at once
	for {
		switch taken, known := f.taken[id]; {
		case !known:
			some := make([]int64, most)
			for i := range some {
				some[i] = id + int64(i)
			}
			if err := f.lookUp(ctx, some, `id >= $3 AND id < $4`, id, id+most); err != nil {
				return 0, err
			}
		case taken:
			id++
		default:
			return id, nil
		}
	}
}

// lookUp looks up which of some IDs, those that fulfil a condition, somebody has.
func (f *freeIDs) lookUp(ctx context.Context, ids []int64, condition string, args ...any) error {
	for _, id := range ids {
		if _, known := f.taken[id]; !known {
			f.taken[id] = false
		}
	}
	return scanAll(ctx, f.tx, `SELECT id FROM learn_ids WHERE person = $1 AND kind = $2 AND `+condition,
		sanitizeArgs(append([]any{f.person, int64(f.kind)}, args...)), func(s scanner) error {
			var id int64
			err := s.Scan(&id)
			f.taken[id] = true
			return err
		})
}
