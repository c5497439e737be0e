package apkg

import (
	"archive/zip"
	"crypto/sha1"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"
)

// maxMemo limits a note's memo, in bytes.
const maxMemo = 200

// Writer writes a package. It must be used by one goroutine only.
type Writer struct {
	w    io.Writer
	o    Options
	path string // of the database
	db   *sql.DB
	tx   *sql.Tx
	note, card, review,
	moveStmt *sql.Stmt

	decks map[string]int64
	// free maps a used ID to the next one to try: IDs are milliseconds, and many rows have the same
	// time.
	free  map[int64]int64
	count int
	first int64 // earliest due date
	now   time.Time
	err   error // first error; nothing is written after it
}

// NewWriter starts a package that Close writes to w. Until then it is a temporary file, which only
// Close removes.
func NewWriter(w io.Writer, o Options) (*Writer, error) {
	file, err := os.CreateTemp(o.Temp, "patchbay-anki-*.db")
	if err != nil {
		return nil, err
	}
	p := &Writer{w: w, o: o, path: file.Name(), decks: map[string]int64{"": 1}, free: make(map[int64]int64),
		first: math.MaxInt64, now: o.Now}
	if p.now.IsZero() {
		p.now = time.Now()
	}
	if err := errors.Join(file.Close(), p.begin()); err != nil {
		return nil, errors.Join(err, p.discard())
	}
	return p, nil
}

func (p *Writer) begin() error {
	p.db = sql.OpenDB(connector(address(p.path,
		"_pragma=journal_mode(off)&_pragma=synchronous(off)&_pragma=cache_size(-8192)")))
	if _, err := p.db.Exec(schema); err != nil {
		return err
	}
	var err error
	if p.tx, err = p.db.Begin(); err != nil {
		return err
	}
	for stmt, query := range map[**sql.Stmt]string{
		&p.note:     "INSERT OR IGNORE INTO notes VALUES (?, ?, ?, ?, -1, ?, ?, ?, ?, 0, ?)",
		&p.card:     "INSERT OR IGNORE INTO cards VALUES (?, ?, ?, 0, ?, -1, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, ?)",
		&p.review:   "INSERT OR IGNORE INTO revlog VALUES (?, ?, -1, ?, ?, ?, ?, ?, ?)",
		&p.moveStmt: "UPDATE cards SET due = due - ? WHERE type = 2 OR type IN (1, 3) AND due < 1000000000",
	} {
		if *stmt, err = p.tx.Prepare(query); err != nil {
			return err
		}
	}
	return nil
}

// Write adds a card, as a note of its own.
func (p *Writer) Write(c Card) error {
	if p.err == nil {
		p.err = p.add(c)
	}
	return p.err
}

func (p *Writer) add(c Card) error {
	if c.Created.IsZero() {
		c.Created = p.now
	}
	if c.Updated.IsZero() {
		c.Updated = c.Created
	}
	p.count++
	question, answer := fieldHTML(c.Question), fieldHTML(c.Answer)
	note, err := p.insert(p.note, c.Created, func(id int64) []any {
		return []any{id, c.GUID, typeID, c.Updated.Unix(), joinTags(c.Tags), question + "\x1f" + answer, c.Question,
			checksum(c.Question), cut(c.Memo, maxMemo)}
	})
	if err != nil {
		return err
	}
	row := p.row(&c)
	card, err := p.insert(p.card, c.Created, func(id int64) []any {
		return []any{id, note, p.deck(c.Deck), c.Updated.Unix(), row.phase, row.queue, row.due, row.interval,
			row.factor, row.reps, row.lapses, row.left, row.data}
	})
	if err != nil {
		return err
	}
	for _, r := range c.Reviews {
		if _, err := p.insert(p.review, r.At, func(id int64) []any {
			return []any{id, card, r.Ease, r.Interval, r.Last, row.factor, r.Took.Milliseconds(), int(r.Phase) - 1}
		}); err != nil {
			return err
		}
	}
	return nil
}

// insert inserts a row with the first free ID at or after a time.
func (p *Writer) insert(stmt *sql.Stmt, at time.Time, row func(id int64) []any) (int64, error) {
	base := max(at.UnixMilli(), 1)
	id := max(base, p.free[base])
	for ; ; id++ {
		res, err := stmt.Exec(row(id)...)
		if err != nil {
			return 0, err
		}
		if n, err := res.RowsAffected(); err != nil {
			return 0, err
		} else if n == 1 {
			break
		}
	}
	if id > base {
		p.free[base] = id + 1
	}
	return id, nil
}

// row converts a card's state to Anki's columns (rslib/src/card/mod.rs). Dates are counted from
// 1970 until Close knows the first one.
func (p *Writer) row(c *Card) cardRow {
	r := cardRow{phase: int64(c.Phase), queue: int64(c.Phase), interval: int64(c.Interval),
		factor: int64(c.Ease * 1000), reps: int64(c.Reps), lapses: int64(c.Lapses), data: cardData(c)}
	if r.factor == 0 {
		r.factor = 2500
	}
	switch c.Phase {
	case New:
		r.due, r.factor, r.interval = int64(p.count), 0, 0
	case Review:
		r.due, r.interval = c.Due, max(r.interval, 1)
		p.first = min(p.first, c.Due)
	default:
		r.queue, r.due, r.left = 1, c.DueAt.Unix(), int64(max(c.Left, 1))*1001
		if c.DueAt.IsZero() { // a step of whole days
			r.queue, r.due = 3, c.Due
			p.first = min(p.first, c.Due)
		}
	}
	if c.Suspended {
		r.queue = -1
	}
	return r
}

// cardData returns the JSON that Anki keeps in the column data (rslib/src/storage/card/data.rs).
func cardData(c *Card) string {
	var d struct {
		Stability  float64 `json:"s,omitempty"`
		Difficulty float64 `json:"d,omitempty"`
		Last       int64   `json:"lrt,omitempty"`
		Custom     string  `json:"cd,omitempty"`
	}
	if c.Phase != New && c.Stability > 0 && c.Difficulty > 0 {
		d.Stability, d.Difficulty = c.Stability, c.Difficulty
	}
	if !c.LastReview.IsZero() {
		d.Last = c.LastReview.Unix()
	}
	if c.Mark != "" {
		mark, _ := json.Marshal(map[string]string{"learn": cut(c.Mark, 40)})
		d.Custom = string(mark)
	}
	b, err := json.Marshal(d)
	if err != nil || string(b) == "{}" {
		return ""
	}
	return string(b)
}

// deck returns a deck's ID, which is derived from its name, so that later packages have the same.
func (p *Writer) deck(name string) int64 {
	if id, ok := p.decks[name]; ok {
		return id
	}
	if i := strings.LastIndex(name, "::"); i > 0 {
		p.deck(name[:i]) // the parent deck must exist
	}
	sum := sha256.Sum256([]byte(name))
	id := int64(binary.BigEndian.Uint64(sum[:])>>22) + 1_000_000_000_000 // within JavaScript's safe integers
	p.decks[name] = id
	return id
}

func joinTags(tags []string) string {
	if len(tags) == 0 {
		return ""
	}
	var b strings.Builder
	for _, t := range tags {
		b.WriteString(" " + strings.Join(strings.Fields(t), "_"))
	}
	return b.String() + " "
}

// checksum returns the value by which Anki finds notes with the same first field
// (rslib/src/notes/mod.rs, field_checksum).
func checksum(text string) int64 {
	sum := sha1.Sum([]byte(text))
	return int64(binary.BigEndian.Uint32(sum[:]))
}

// Close writes the package, unless a Write failed, and removes the temporary file.
func (p *Writer) Close() error {
	if p.path == "" {
		return p.err
	}
	if p.err == nil {
		p.err = p.finish()
	}
	if err := p.discard(); p.err == nil {
		p.err = err
	}
	return p.err
}

func (p *Writer) finish() error {
	created := p.beginning()
	if _, err := p.moveStmt.Exec(dateOf(created)); err != nil {
		return err
	}
	if err := p.writeCol(created); err != nil {
		return err
	}
	if _, err := p.tx.Exec(indexes); err != nil {
		return err
	}
	if err := p.tx.Commit(); err != nil {
		return err
	}
	if err := p.db.Close(); err != nil {
		return err
	}
	return p.pack()
}

// beginning returns the start of the day from which Anki counts: today, or the first due date if it
// is earlier.
func (p *Writer) beginning() time.Time {
	day := p.now.In(p.o.zone()).Add(-p.o.DayStart)
	back := max(dateOf(day)-p.first, 0)
	if p.first == math.MaxInt64 {
		back = 0
	}
	y, m, d := day.Date()
	start := time.Date(y, m, d-int(min(back, 36500)), 0, 0, 0, 0, p.o.zone())
	return start.Add(min(max(p.o.DayStart, 0), 12*time.Hour))
}

func (p *Writer) pack() error {
	in, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer in.Close()
	archive := zip.NewWriter(p.w)
	for _, file := range []struct {
		name    string
		content io.Reader
	}{{"collection.anki2", in}, {"media", strings.NewReader("{}")}} {
		out, err := archive.CreateHeader(&zip.FileHeader{Name: file.name, Method: zip.Deflate, Modified: p.now})
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, file.content); err != nil {
			return fmt.Errorf("write %s: %w", file.name, err)
		}
	}
	return archive.Close()
}

// discard removes the temporary file.
func (p *Writer) discard() error {
	if p.tx != nil {
		_ = p.tx.Rollback() // after a commit it only fails
	}
	if p.db != nil {
		_ = p.db.Close()
	}
	err := os.Remove(p.path)
	p.path = ""
	return err
}
