package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// Import adds many points in several steps. They are invisible until [Import.Finish];
// [Import.Abort] deletes them.
type Import struct {
	t      Learn
	person string
	name   string
	deltas learnDeltas
	staged int
	begun  bool               // something is staged
	source bool               // something that is staged has a source
	known  map[int64][]string // entries of the log that points brought and the person had already
}

// NewImport begins an import. The name must be unique and never reused. Finish or Abort must
// follow.
func (t Learn) NewImport(person, name string) *Import {
	t.db.imports.add(name)
	return &Import{t: t, person: person, name: name, known: map[int64][]string{}}
}

// importAlive is how long an import of another instance is taken for running since it last said so.
// [Import.Alive] should be called several times as often.
const importAlive = 2 * time.Minute

// runningImports are the imports of this process.
type runningImports struct {
	mu    sync.Mutex
	names map[string]bool
}

func (r *runningImports) add(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names == nil {
		r.names = map[string]bool{}
	}
	r.names[name] = true
}

func (r *runningImports) remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.names, name)
}

func (r *runningImports) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names[name]
}

// RemoveLeftovers deletes what imports have staged that no longer run, because their process was
// killed. With SQLite these are all that do not run in this process, otherwise those that have not
// said for two minutes that they run.
func (t Learn) RemoveLeftovers(ctx context.Context) error {
	before := millis(time.Now().Add(-importAlive))
	if t.db.path != "" {
		before = 1 << 62
	}
	names, err := all(ctx, t.db, func(s scanner) (name string, err error) { return name, s.Scan(&name) },
		`SELECT name FROM learn_imports WHERE alive_at < $1`, before)
	for _, name := range names {
		if !t.db.imports.has(name) {
			err = errors.Join(err, t.removeStaged(ctx, name))
		}
	}
	return err
}

// removeStaged deletes what an import has staged, with the reviews of its points.
func (t Learn) removeStaged(ctx context.Context, name string) error {
	ctx = longRunning(ctx)
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		if err := t.db.dropWords(ctx, tx, `staged = $1`, name); err != nil {
			return err
		}
		for _, query := range []string{
			`DELETE FROM learn_log WHERE point IN (SELECT number FROM learn_points WHERE staged = $1)`,
			`DELETE FROM learn_points WHERE staged = $1`,
			`DELETE FROM learn_notes WHERE staged = $1`,
			`DELETE FROM learn_imports WHERE name = $1`,
		} {
			if _, err := tx.ExecContext(ctx, query, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// Alive renews the heartbeat of the import.
func (m *Import) Alive(ctx context.Context) error {
	_, err := m.t.db.exec(ctx, `UPDATE learn_imports SET alive_at = $1 WHERE name = $2`, millis(time.Now()), m.name)
	return err
}

// ErrImportLost is the error of an import that another instance took for dead, and whose staged
// points it has deleted.
var ErrImportLost = errors.New("the import stood still for too long and was given up")

// begin makes the row of the import, or finds it still there.
func (m *Import) begin(ctx context.Context, tx *sql.Tx) error {
	if m.begun {
		return m.still(tx.ExecContext(ctx, `UPDATE learn_imports SET alive_at = $1 WHERE name = $2`,
			millis(time.Now()), m.name))
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO learn_imports (name, person, alive_at) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET alive_at = excluded.alive_at`,
		sanitizeArgs([]any{m.name, m.person, millis(time.Now())})...)
	return err
}

// still returns [ErrImportLost] if a statement found no row of the import.
func (m *Import) still(res sql.Result, err error) error {
	if err = changed(res, err); errors.Is(err, ErrNotFound) {
		return ErrImportLost
	}
	return err
}

// Stage writes some points. A thousand at a time block other writers for some hundred milliseconds.
func (m *Import) Stage(ctx context.Context, points []NewPoint) error {
	ctx = longRunning(ctx)
	err := withNumbers(points, func() error {
		return m.t.db.tx(ctx, func(tx *sql.Tx) error {
			if err := m.begin(ctx, tx); err != nil {
				return err
			}
			if err := m.t.db.resolveDecks(ctx, tx, m.person, points); err != nil {
				return err
			}
			var rows pointRows
			for i := range points {
				if err := insertPoint(ctx, tx, m.person, &points[i], m.name, &rows); err != nil {
					return err
				}
			}
			var b batch
			rows.addTo(&b, m.t.db, m.person)
			return b.run(ctx, m.t.db, tx)
		})
	})
	if err == nil {
		m.begun = true
		m.staged += len(points)
		for i := range points {
			m.deltas.countAdded(&points[i])
			m.source = m.source || points[i].Point.Source != ""
			if known := points[i].known; known != nil {
				m.known[points[i].Point.Number] = known
			}
		}
	}
	return err
}

// StageNotes writes notes of an import, and assigns their numbers. Like its points they are
// invisible until [Import.Finish]. A note whose GUID the person has is replaced by Finish's edits,
// and must not be staged.
func (m *Import) StageNotes(ctx context.Context, notes []Note) error {
	err := m.t.db.tx(longRunning(ctx), func(tx *sql.Tx) error {
		if err := m.begin(ctx, tx); err != nil {
			return err
		}
		var b batch
		for i := range notes {
			n := &notes[i]
			n.Person, n.Number = m.person, newPointNumber()
			values, err := noteValues(n, m.name)
			if err != nil {
				return err
			}
			b.add(insertNote, values...)
		}
		return b.run(ctx, m.t.db, tx)
	})
	m.begun = m.begun || err == nil
	m.source = m.source || slices.ContainsFunc(notes, func(n Note) bool { return n.Source != "" })
	return err
}

// ImportEdits are the changes that an import makes to what the person has already.
type ImportEdits struct {
	Points  []PointEdit
	Notes   []Note     // with their numbers
	Types   []NoteType // with their numbers
	Sources []Source
}

// PointEdit is an update of an existing point by an import.
type PointEdit struct {
	ID string
	// Change sets the new values, as the callback of [Learn.Change] does. Entries of the log that
	// the person has already are not added again.
	Change func(*PointChange)
}

// Finish applies edits and makes what is staged visible, in one transaction. What was deleted
// meanwhile is not edited.
func (m *Import) Finish(ctx context.Context, edits ImportEdits) error {
	err := m.finish(ctx, edits)
	if err == nil {
		m.t.db.imports.remove(m.name)
	}
	if err == nil && m.staged > analyzeThreshold {
		m.t.db.analyzeTables(ctx, "learn_points", "learn_sittings", "learn_tags", "learn_log", "learn_words", "learn_notes")
	}
	return err
}

// analyzeThreshold is the number of new points after which the table statistics are updated.
const analyzeThreshold = 1000

func (m *Import) finish(ctx context.Context, edits ImportEdits) error {
	ctx = longRunning(ctx)
	return m.t.db.tx(ctx, func(tx *sql.Tx) error {
		if err := m.recountMovedDecks(ctx, tx); err != nil {
			return err
		}
		for i := range edits.Types {
			if err := updateNoteType(ctx, tx, m.person, &edits.Types[i]); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		for i := range edits.Notes {
			edits.Notes[i].Person = m.person
			if err := updateNote(ctx, tx, &edits.Notes[i]); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		for _, s := range edits.Sources {
			if err := saveSource(ctx, tx, m.person, s); err != nil {
				return err
			}
		}
		for i := range edits.Points {
			if err := m.edit(ctx, tx, &edits.Points[i]); err != nil {
				return err
			}
		}
		for _, query := range []string{`UPDATE learn_notes SET staged = NULL WHERE staged = $1`,
			`UPDATE learn_points SET staged = NULL WHERE staged = $1`} {
			if _, err := tx.ExecContext(ctx, query, m.name); err != nil {
				return err
			}
		}
		if m.source || len(edits.Sources) > 0 {
			_, err := tx.ExecContext(ctx, `INSERT INTO learn_unnumbered (person, import) VALUES ($1, $2)
				ON CONFLICT (person) DO UPDATE SET import = excluded.import`, sanitizeArgs([]any{m.person, m.name})...)
			if err != nil {
				return err
			}
		}
		if m.begun {
			if err := m.still(tx.ExecContext(ctx, `DELETE FROM learn_imports WHERE name = $1`, m.name)); err != nil {
				return err
			}
		}
		for point, entries := range m.known {
			if err := adoptLog(ctx, tx, m.person, point, entries); err != nil {
				return err
			}
		}
		return m.deltas.write(ctx, m.t.db, tx, m.person)
	})
}

// recountMovedDecks moves the counters of decks that were deleted during the import.
func (m *Import) recountMovedDecks(ctx context.Context, tx *sql.Tx) error {
	decks := map[string]bool{}
	for k := range m.deltas.counts {
		decks[k.Deck] = true
	}
	for _, from := range slices.Sorted(maps.Keys(decks)) {
		to, err := m.t.db.resolveDeck(ctx, tx, m.person, from)
		if err != nil {
			return err
		}
		if to != from {
			m.deltas.moveDeck(from, to)
		}
	}
	return nil
}

// moveDeck moves the counters of one deck to another.
func (d *learnDeltas) moveDeck(from, to string) {
	for k, n := range maps.Clone(d.counts) {
		if k.Deck == from {
			delete(d.counts, k)
			k.Deck = to
			d.counts[k] += n
		}
	}
	for k, w := range maps.Clone(d.days) {
		if k.deck == from {
			delete(d.days, k)
			k.deck = to
			if there := d.days[k]; there != nil {
				there.add(w)
			} else {
				d.days[k] = w
			}
		}
	}
}

func (w *DayWork) add(more *DayWork) {
	w.Fresh, w.Due, w.Took = w.Fresh+more.Fresh, w.Due+more.Due, w.Took+more.Took
	w.Again, w.Hard, w.Good, w.Easy = w.Again+more.Again, w.Hard+more.Hard, w.Good+more.Good, w.Easy+more.Easy
}

// edit changes a point that the person had before.
func (m *Import) edit(ctx context.Context, tx *sql.Tx, e *PointEdit) error {
	// The lock prevents changes between reading and writing.
	query := m.t.db.locking(`SELECT number FROM learn_points WHERE person = $1 AND id = $2 AND staged IS NULL`,
		`FOR UPDATE`)
	var number int64
	err := tx.QueryRowContext(ctx, query, sanitizeArgs([]any{m.person, e.ID})...).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // it was deleted for good meanwhile
	}
	if err != nil {
		return err
	}
	c, err := m.t.db.readChange(ctx, tx, m.person, e.ID)
	if err != nil {
		return err
	}
	e.Change(c)
	var fresh []LogEntry
	for _, entry := range c.Log {
		switch _, err := c.Entry(ctx, entry.ID); {
		case errors.Is(err, ErrNotFound):
			entry.Person, entry.Point = m.person, number
			fresh = append(fresh, entry)
		case err != nil:
			return err
		}
	}
	c.Log = fresh
	return c.write(ctx, m.t.db)
}

// Abort deletes what is staged.
func (m *Import) Abort(ctx context.Context) error {
	err := m.t.removeStaged(ctx, m.name)
	if err == nil {
		m.t.db.imports.remove(m.name)
	}
	return err
}

// Source is what only the source of a person's points understands about them as a whole.
type Source struct {
	Name string
	Data json.RawMessage
}

// Sources returns what was saved by imports, by name.
func (t Learn) Sources(ctx context.Context, person string) (map[string]json.RawMessage, error) {
	list, err := all(ctx, t.db, func(s scanner) (r Source, err error) {
		var data string
		err = s.Scan(&r.Name, &data)
		r.Data = json.RawMessage(data)
		return r, err
	}, `SELECT name, data FROM learn_sources WHERE person = $1`, person)
	out := make(map[string]json.RawMessage, len(list))
	for _, s := range list {
		out[s.Name] = s.Data
	}
	return out, err
}

func saveSource(ctx context.Context, tx *sql.Tx, person string, s Source) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO learn_sources (person, name, data) VALUES ($1, $2, $3)
		ON CONFLICT (person, name) DO UPDATE SET data = excluded.data`,
		sanitizeArgs([]any{person, s.Name, string(s.Data)})...)
	return err
}
