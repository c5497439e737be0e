package store

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// NoteScan limits which notes are read.
type NoteScan struct {
	Type int64 // number of the type; 0: all
	// Contains are texts of which the fields have one, without regard to the case of ASCII letters,
	// as JSON writes them; none: any.
	Contains []string
}

// ScanNotes passes a person's notes to f, in any order, without holding them in memory. It ends
// with the first error of f.
func (t Learn) ScanNotes(ctx context.Context, person string, scan NoteScan, f func(*Note) error) error {
	q := queryFrom(`SELECT `+noteColumns+` FROM learn_notes`, person)
	if scan.Type != 0 {
		q.and(`type = ` + q.arg(scan.Type))
	}
	if len(scan.Contains) > 0 {
		one := make([]string, len(scan.Contains))
		for i, text := range scan.Contains {
			one[i] = t.contains(q, `fields`, text)
		}
		q.and(`(` + strings.Join(one, ` OR `) + `)`)
	}
	return scanAll(ctx, t.db.reader(longRunning(ctx)), q.text, sanitizeArgs(q.args), func(s scanner) error {
		n, err := readNote(s)
		if err != nil {
			return err
		}
		return f(&n)
	})
}

// BareText is the text of a point without a note.
type BareText struct {
	Number           int64
	Deck             string // its ID
	Question, Answer string
}

// ScanBare passes the texts of a person's points that have no note, and are not in the trash, to f.
func (t Learn) ScanBare(ctx context.Context, person string, f func(BareText) error) error {
	q := queryFrom(`SELECT number, deck, question, answer FROM learn_points`, person)
	q.and(`note = 0 AND deleted_at IS NULL`)
	return scanAll(ctx, t.db.reader(longRunning(ctx)), q.text, sanitizeArgs(q.args), func(s scanner) error {
		var b BareText
		if err := s.Scan(&b.Number, &b.Deck, &b.Question, &b.Answer); err != nil {
			return err
		}
		return f(b)
	})
}

// ScanTexts passes the texts of all points of a person, those in the trash too, to f, without
// holding them in memory.
func (t Learn) ScanTexts(ctx context.Context, person string, f func(question, answer string) error) error {
	return scanAll(ctx, t.db.reader(longRunning(ctx)), `SELECT question, answer FROM learn_points WHERE person = $1 AND staged IS NULL`,
		[]any{person}, func(s scanner) error {
			var question, answer string
			if err := s.Scan(&question, &answer); err != nil {
				return err
			}
			return f(question, answer)
		})
}

// contains returns a condition that a column has a text. Its case matters neither in SQLite's LIKE,
// for ASCII letters, nor in PostgreSQL's ILIKE.
func (t Learn) contains(q *pointQuery, column, text string) string {
	like := ` LIKE `
	if t.db.path == "" {
		like = ` ILIKE `
	}
	text = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text)
	return column + like + q.arg("%"+text+"%") + ` ESCAPE '\'`
}

// PointNotes returns the notes of a person's points that are not in the trash, by the number of the
// point; 0 for those without a note.
func (t Learn) PointNotes(ctx context.Context, person string) (map[int64]int64, error) {
	type row struct{ point, note int64 }
	rows, err := all(ctx, t.db, func(s scanner) (r row, err error) { return r, s.Scan(&r.point, &r.note) },
		`SELECT number, note FROM learn_points WHERE person = $1 AND staged IS NULL AND deleted_at IS NULL`, person)
	out := make(map[int64]int64, len(rows))
	for _, r := range rows {
		out[r.point] = r.note
	}
	return out, err
}

// NotesOf returns the notes of some points, as [Learn.PointNotes] does.
func (t Learn) NotesOf(ctx context.Context, person string, points []int64) (map[int64]int64, error) {
	if len(points) > 20*inListSize {
		return t.PointNotes(ctx, person)
	}
	list, err := t.PointsByNumber(ctx, person, points)
	out := make(map[int64]int64, len(list))
	for i := range list {
		out[list[i].Number] = list[i].Note
	}
	return out, err
}

// NotePoint is a point of a note.
type NotePoint struct {
	Number, Note int64
	Deck         string // its ID
}

// PointsOfNotes returns the points of notes that are not in the trash, in any order.
func (t Learn) PointsOfNotes(ctx context.Context, person string, notes []int64) ([]NotePoint, error) {
	read := func(s scanner) (p NotePoint, err error) { return p, s.Scan(&p.Number, &p.Note, &p.Deck) }
	const query = `SELECT number, note, deck FROM learn_points WHERE note <> 0 AND deleted_at IS NULL AND staged IS NULL`
	if len(notes) > 20*inListSize { // as many queries take longer than all points of the person
		wanted := make(map[int64]bool, len(notes))
		for _, n := range notes {
			wanted[n] = true
		}
		list, err := all(ctx, t.db, read, query+` AND person = $1`, person)
		return slices.DeleteFunc(list, func(p NotePoint) bool { return !wanted[p.Note] }), err
	}
	var out []NotePoint
	for chunk := range slices.Chunk(notes, inListSize) {
		// An index is not used for an expression: that of the person would find all their points.
		list, err := all(ctx, t.db, read, query+` AND note IN (`+inPlaceholders(1)+`) AND person || '' = $`+strconv.Itoa(inListSize+1),
			append(inArgs(chunk), person)...)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// Reviews lists a person's reviews that were not undone since a time, oldest first; of one deck if
// it is not nil.
func (t Learn) Reviews(ctx context.Context, person string, deck *string, after int64, limit int) ([]LogEntry, error) {
	const counted = ` FROM learn_log l WHERE l.person = $1 AND l.kind = 'review' AND l.at > $2 AND NOT EXISTS
		(SELECT 1 FROM learn_log u WHERE u.person = l.person AND u.undoes = l.id AND u.undoes <> '')`
	query := `SELECT ` + logColumns + counted
	if deck == nil {
		return all(ctx, t.db, readLog, query+` ORDER BY at, id LIMIT $3`, person, after, limit)
	}
	return all(ctx, t.db, readLog, query+` AND l.point IN (SELECT number FROM learn_points WHERE person = $3 AND deck = $4
		AND staged IS NULL AND deleted_at IS NULL) ORDER BY at, id LIMIT $5`, person, after, person, *deck, limit)
}

// LastReviewOfDeck returns when the points of a deck were reviewed last, in milliseconds since
// 1970; 0 if they never were.
func (t Learn) LastReviewOfDeck(ctx context.Context, person, deck string) (int64, error) {
	return one(ctx, t.db, func(s scanner) (at int64, err error) { return at, s.Scan(&at) },
		`SELECT COALESCE(MAX(l.at), 0) FROM learn_log l WHERE l.person = $1 AND l.kind = 'review' AND l.point IN
			(SELECT number FROM learn_points WHERE person = $2 AND deck = $3 AND staged IS NULL AND deleted_at IS NULL)
		AND NOT EXISTS (SELECT 1 FROM learn_log u WHERE u.person = l.person AND u.undoes = l.id AND u.undoes <> '')`,
		person, person, deck)
}
