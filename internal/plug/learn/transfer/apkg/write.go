package apkg

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// maxMemo limits a note's memo, in bytes.
const maxMemo = 200

// Writer writes a package. It must be used by one goroutine only.
type Writer struct {
	w    io.Writer
	o    WriteOptions
	path string // of the database
	db   *sql.DB
	tx   *sql.Tx
	note, card, review,
	moveStmt *sql.Stmt

	decks map[string]int64 // by name
	types map[int64]bool   // that notes have
	// used are the decks of Base that cards have, or all.
	used map[int64]bool
	// notes are the ids of written notes by their GUIDs.
	notes map[string]int64
	tags  map[string]bool
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
func NewWriter(w io.Writer, o WriteOptions) (*Writer, error) {
	file, err := os.CreateTemp(o.Temp, "patchbay-anki-*.db")
	if err != nil {
		return nil, err
	}
	p := &Writer{w: w, o: o, path: file.Name(), decks: map[string]int64{"": 1}, free: make(map[int64]int64),
		types: map[int64]bool{}, used: map[int64]bool{}, notes: map[string]int64{}, tags: map[string]bool{},
		first: math.MaxInt64, now: o.Now}
	for _, d := range o.Base.Decks {
		if d.ID != 1 {
			p.decks[d.Name] = d.ID
		}
	}
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
		&p.note:   "INSERT OR IGNORE INTO notes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		&p.card:   "INSERT OR IGNORE INTO cards VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		&p.review: "INSERT OR IGNORE INTO revlog VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		// In a filtered deck, due is a position.
		&p.moveStmt: "UPDATE cards SET due = due - ? WHERE odid = 0 AND (type = 2 OR type IN (1, 3) AND due < 1000000000)",
	} {
		if *stmt, err = p.tx.Prepare(query); err != nil {
			return err
		}
	}
	return nil
}

// Write adds a card, as a note of two plain texts of its own.
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
	p.types[TypeID] = true
	question, answer := fieldHTML(c.Question), fieldHTML(c.Answer)
	note, err := p.addNote(NoteRow{ID: c.Created.UnixMilli(), GUID: c.GUID, Type: TypeID, Modified: c.Updated.Unix(),
		USN: -1, Tags: JoinTags(c.Tags), Fields: []string{question, answer}, Sort: c.Question,
		Checksum: checksum(c.Question), Data: cut(c.Memo, maxMemo)})
	if err != nil {
		return err
	}
	c.Row = CardRow{}
	return p.addCard(&c, note, p.row(&c))
}

// WriteNote adds a note of a type of Base, once. Its cards follow.
func (p *Writer) WriteNote(n NoteRow) error {
	if _, done := p.notes[n.GUID]; !done && p.err == nil {
		p.types[n.Type] = true
		var id int64
		if id, p.err = p.addNote(n); p.err == nil {
			p.notes[n.GUID] = id
		}
	}
	return p.err
}

// SetTags changes the tags of a written note.
func (p *Writer) SetTags(guid, tags string) error {
	if p.err == nil {
		p.addTags(tags)
		_, p.err = p.tx.Exec("UPDATE notes SET tags = ? WHERE id = ?", tags, p.notes[guid])
	}
	return p.err
}

func (p *Writer) addTags(tags string) {
	for tag := range strings.FieldsSeq(tags) {
		p.tags[tag] = true
	}
}

// WriteCard adds a card of the note with the GUID of c.NoteRow. If asRead is true, the card has the
// columns of c.Row, only with the deck and the flags of c, otherwise those that follow from the
// state in c, and of c.Row what they do not determine. Reviews with a row get it.
func (p *Writer) WriteCard(c Card, asRead bool) error {
	if p.err != nil {
		return p.err
	}
	note, ok := p.notes[c.NoteRow.GUID]
	if !ok {
		p.err = msgNoNote.Errorf()
		return p.err
	}
	if c.Updated.IsZero() {
		c.Updated = p.now
	}
	row := p.rawRow(&c)
	if !asRead {
		row = p.row(&c)
	}
	p.err = p.addCard(&c, note, row)
	return p.err
}

// rawRow returns the row that was read, in this collection.
func (p *Writer) rawRow(c *Card) CardRow {
	p.count++
	row := c.Row
	home := p.deck(c.Deck)
	filtered := row.HomeDeck != 0
	if filtered {
		row.HomeDeck = home
		if row.HomeDue != 0 && row.HomeDue < firstMoment && row.Type != int64(New) {
			row.HomeDue += c.Day - p.o.Base.Day
		}
		if !p.hasDeck(row.Deck) {
			filtered, row.HomeDeck, row.Due, row.HomeDue = false, 0, row.HomeDue, 0
			row.Queue = max(row.Queue, min(row.Type, 2))
		}
	}
	if filtered {
		p.used[row.Deck] = true
		return row
	}
	row.Deck = home
	steps := row.Type == int64(Learning) || row.Type == int64(Relearning)
	if row.Type == int64(Review) || steps && row.Due < firstMoment {
		row.Due += c.Day
		p.first = min(p.first, row.Due)
	}
	return row
}

func (p *Writer) hasDeck(id int64) bool {
	return slices.ContainsFunc(p.o.Base.Decks, func(d Part) bool { return d.ID == id })
}

func (p *Writer) addNote(n NoteRow) (int64, error) {
	p.addTags(n.Tags)
	sort := n.Sort
	if sort == "" && len(n.Fields) > 0 {
		sort = n.Fields[0]
	}
	return p.insert(p.note, n.ID, func(id int64) []any {
		return []any{id, n.GUID, n.Type, n.Modified, n.USN, n.Tags, strings.Join(n.Fields, "\x1f"), sort, n.Checksum,
			n.Flags, n.Data}
	})
}

func (p *Writer) addCard(c *Card, note int64, r CardRow) error {
	card, err := p.insert(p.card, r.ID, func(id int64) []any {
		return []any{id, note, r.Deck, r.Order, r.Modified, r.USN, r.Type, r.Queue, r.Due, r.Interval, r.Factor, r.Reps,
			r.Lapses, r.Left, r.HomeDue, r.HomeDeck, r.Flags, r.Data}
	})
	if err != nil {
		return err
	}
	for _, e := range c.Reviews {
		l := e.Row
		if l.ID == 0 {
			l = LogRow{ID: e.At.UnixMilli(), USN: -1, Ease: int64(e.Ease), Interval: int64(e.Interval),
				Last: int64(e.Last), Factor: r.Factor, Took: e.Took.Milliseconds(), Kind: int64(e.Phase) - 1}
		}
		if err := p.addLog(card, l); err != nil {
			return err
		}
	}
	for _, l := range c.Others {
		if err := p.addLog(card, l); err != nil {
			return err
		}
	}
	return nil
}

func (p *Writer) addLog(card int64, l LogRow) error {
	_, err := p.insert(p.review, l.ID, func(id int64) []any {
		return []any{id, card, l.USN, l.Ease, l.Interval, l.Last, l.Factor, l.Took, l.Kind}
	})
	return err
}

// insert inserts a row with the first free ID at or after one.
func (p *Writer) insert(stmt *sql.Stmt, base int64, row func(id int64) []any) (int64, error) {
	base = max(base, 1)
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
func (p *Writer) row(c *Card) CardRow {
	p.count++
	r := CardRow{ID: c.Row.ID, Deck: p.deck(c.Deck), Order: c.Row.Order, Modified: c.Updated.Unix(), USN: -1,
		Type: int64(c.Phase), Queue: int64(c.Phase), Interval: int64(c.Interval), Factor: int64(c.Ease * 1000),
		Reps: int64(c.Reps), Lapses: int64(c.Lapses), Flags: c.Row.Flags, Data: cardData(c)}
	if r.ID == 0 {
		r.ID = c.Created.UnixMilli()
	}
	if r.Factor == 0 {
		if r.Factor = c.Row.Factor; r.Factor == 0 {
			r.Factor = 2500
		}
	}
	switch c.Phase {
	case New:
		r.Due, r.Factor, r.Interval = int64(p.count), 0, 0
	case Review:
		r.Due, r.Interval = c.Due, max(r.Interval, 1)
		p.first = min(p.first, c.Due)
	default:
		r.Queue, r.Due, r.Left = 1, c.DueAt.Unix(), int64(max(c.Left, 1))*1001
		if c.DueAt.IsZero() { // a step of whole days
			r.Queue, r.Due = 3, c.Due
			p.first = min(p.first, c.Due)
		}
	}
	if c.Suspended {
		r.Queue = -1
	}
	return r
}

// cardData returns the JSON that Anki keeps in the column data (rslib/src/storage/card/data.rs),
// with what was read in it.
func cardData(c *Card) string {
	d := map[string]json.RawMessage{}
	_ = json.Unmarshal([]byte(c.Row.Data), &d)
	set := func(name string, value any, has bool) {
		delete(d, name)
		if text, err := json.Marshal(value); has && err == nil {
			d[name] = text
		}
	}
	known := c.Phase != New && c.Stability > 0 && c.Difficulty > 0
	set("s", c.Stability, known)
	set("d", c.Difficulty, known)
	set("lrt", c.LastReview.Unix(), !c.LastReview.IsZero())
	var text string
	_ = json.Unmarshal(d["cd"], &text)
	custom := map[string]json.RawMessage{}
	if _ = json.Unmarshal([]byte(text), &custom); c.Mark != "" || custom["learn"] != nil {
		delete(custom, "learn")
		if c.Mark != "" {
			custom["learn"], _ = json.Marshal(cut(c.Mark, 40))
		}
		inner, _ := json.Marshal(custom)
		set("cd", string(inner), len(custom) > 0)
	}
	return joinData(d)
}

// dataNames are the attributes of the column data, in Anki's order.
var dataNames = []string{"pos", "s", "d", "dr", "decay", "lrt", "cd"}

func joinData(d map[string]json.RawMessage) string {
	if len(d) == 0 {
		return ""
	}
	names := slices.Sorted(maps.Keys(d))
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(uint(slices.Index(dataNames, a)), uint(slices.Index(dataNames, b)))
	})
	var b strings.Builder
	for i, name := range names {
		key, _ := json.Marshal(name)
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		b.Write(key)
		b.WriteByte(':')
		b.Write(d[name])
	}
	return b.String() + "}"
}

// deck returns a deck's ID, which is derived from its name, so that later packages have the same.
func (p *Writer) deck(name string) int64 {
	id, ok := p.decks[name]
	if ok && p.used[id] {
		return id
	}
	if !ok {
		id = FreeDeckID(name, p.o.Base.Decks)
		p.decks[name] = id
	}
	p.used[id] = true
	p.parents(name)
	return id
}

// maxDeckName limits the names of decks that get the decks above them, in bytes: each level is a
// deck with its whole name, which would make a package of one name with thousands of levels huge.
const maxDeckName = 1000

// parents makes the decks above one: Anki has none without them.
func (p *Writer) parents(name string) {
	if i := strings.LastIndex(name, "::"); i > 0 && len(name) <= maxDeckName {
		p.deck(name[:i])
	}
}

// FreeDeckID derives the ID of a new deck from its name. None of the decks there are has it: one
// that was renamed keeps the ID of its old name.
func FreeDeckID(name string, there []Part) int64 {
	sum := sha256.Sum256([]byte(name))
	id := int64(binary.BigEndian.Uint64(sum[:])>>22) + 1_000_000_000_000 // within JavaScript's safe integers
	for slices.ContainsFunc(there, func(d Part) bool { return d.ID == id }) {
		id++
	}
	return id
}

// JoinTags returns the tags as the column of a note has them.
func JoinTags(tags []string) string {
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
	if p.o.Whole {
		if err := p.writeOrphans(); err != nil {
			return err
		}
	}
	created := p.beginning()
	day := dateOf(created)
	if p.o.Base.Created != 0 {
		created, day = time.Unix(p.o.Base.Created, 0).In(p.o.zone()), p.o.Base.Day
	}
	if _, err := p.moveStmt.Exec(day); err != nil {
		return err
	}
	write := p.writeCol
	if p.o.Newest {
		write = p.writeTables
	}
	if err := write(created); err != nil {
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
