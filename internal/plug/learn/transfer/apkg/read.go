package apkg

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"math"
	"os"
	"strings"
	"time"
)

// Read calls each for every card of a package, in the order of creation. Cards that cannot be read
// are passed to o.OnError. Errors that wrap [ErrBroken] are caused by the file; an error of each is
// returned unchanged. A hostile package can keep Read busy for minutes, so ctx should have a
// deadline.
func Read(ctx context.Context, r io.ReaderAt, size int64, o Options, each func(Card) error) error {
	path, err := unpack(ctx, r, size, o.Temp)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	c, err := openCollection(ctx, path, o)
	if c != nil {
		defer c.close()
	}
	if err != nil {
		return err
	}
	return c.cards(ctx, o, each)
}

// cardRow is a row of cards with its note.
type cardRow struct {
	id, note, order, deck, home, modified        int64
	phase, queue, due, homeDue, interval, factor int64
	reps, lapses, left                           int64
	data, guid, tags, fields, memo               string
	noteType, noteModified                       int64
}

const cardsQuery = `SELECT CAST(c.id AS INTEGER), CAST(COALESCE(c.nid, 0) AS INTEGER), CAST(COALESCE(c.ord, 0) AS INTEGER),
	CAST(COALESCE(c.did, 0) AS INTEGER), CAST(COALESCE(c.odid, 0) AS INTEGER), CAST(COALESCE(c.mod, 0) AS INTEGER),
	CAST(COALESCE(c.type, 0) AS INTEGER), CAST(COALESCE(c.queue, 0) AS INTEGER), CAST(COALESCE(c.due, 0) AS INTEGER),
	CAST(COALESCE(c.odue, 0) AS INTEGER), CAST(COALESCE(c.ivl, 0) AS INTEGER), CAST(COALESCE(c.factor, 0) AS INTEGER),
	CAST(COALESCE(c.reps, 0) AS INTEGER), CAST(COALESCE(c.lapses, 0) AS INTEGER), CAST(COALESCE(c.left, 0) AS INTEGER),
	CAST(COALESCE(c.data, '') AS TEXT), CAST(COALESCE(n.guid, '') AS TEXT), CAST(COALESCE(n.tags, '') AS TEXT),
	CAST(COALESCE(n.flds, '') AS TEXT), CAST(COALESCE(n.data, '') AS TEXT), CAST(COALESCE(n.mid, 0) AS INTEGER), CAST(COALESCE(n.mod, 0) AS INTEGER)
	FROM cards c LEFT JOIN notes n ON n.id = c.nid ORDER BY c.id`

func (r *cardRow) into() []any {
	return []any{&r.id, &r.note, &r.order, &r.deck, &r.home, &r.modified, &r.phase, &r.queue, &r.due, &r.homeDue,
		&r.interval, &r.factor,
		&r.reps, &r.lapses, &r.left, &r.data, &r.guid, &r.tags, &r.fields, &r.memo, &r.noteType, &r.noteModified}
}

// cards reads the cards and, in parallel on a second connection, the review log in the same order.
func (c *collection) cards(ctx context.Context, o Options, each func(Card) error) error {
	var total int
	if err := c.row(ctx, "SELECT count(*) FROM cards", &total); err != nil {
		return c.broken(ctx, err)
	}
	if o.MaxCards > 0 && total > o.MaxCards {
		return &TooManyError{o.MaxCards}
	}
	log, err := c.openLog(ctx)
	if err != nil {
		return c.broken(ctx, err)
	}
	defer log.close()
	rows, err := c.conn.QueryContext(ctx, cardsQuery)
	if err != nil {
		return c.broken(ctx, err)
	}
	defer rows.Close()
	for n := 1; rows.Next(); n++ {
		var row cardRow
		if err := rows.Scan(row.into()...); err != nil {
			return c.broken(ctx, err)
		}
		if o.Progress != nil && (n%progressInterval == 0 || n == total) {
			o.Progress(n, total)
		}
		reviews, err := log.forCard(row.id)
		if err != nil {
			return c.broken(ctx, err)
		}
		if c.work += int64(len(row.fields)); c.work > maxAllWork {
			return broken(msgHours)
		}
		card, why := c.card(&row)
		if why != nil {
			if o.OnError != nil {
				o.OnError(CardError{Row: n, What: cut(Text(cut(row.fields, 200)), 60), Why: why})
			}
			continue
		}
		card.Reviews = reviews
		// The log is precise to the millisecond, the card to the second.
		if n := len(reviews); n > 0 && (card.LastReview.IsZero() ||
			card.LastReview.Equal(reviews[n-1].At.Truncate(time.Second))) {
			card.LastReview = reviews[n-1].At
		}
		if err := each(card); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return c.broken(ctx, err)
	}
	return nil
}

// progressInterval is how many cards are read between two progress reports.
const progressInterval = 500

// card converts a row to a card, or returns why it cannot.
func (c *collection) card(row *cardRow) (card Card, why error) {
	t := c.types[row.noteType]
	switch {
	case row.guid == "" && row.fields == "":
		return card, msgNoNote.Errorf()
	case t == nil:
		return card, msgNoType.Errorf()
	case row.order < 0 || row.order > math.MaxInt16:
		return card, msgOrder.Errorf()
	case len(row.fields) > maxFields:
		return card, msgLongNote.Errorf()
	}
	deck, due := row.deck, row.due
	if row.home != 0 { // temporarily in a filtered deck
		deck = row.home
		if row.homeDue != 0 {
			due = row.homeDue
		}
	}
	card = Card{
		GUID: strings.ToValidUTF8(row.guid, "\ufffd"), Note: row.note, Order: int(row.order),
		Deck: c.decks[deck], Tags: strings.Fields(strings.ToValidUTF8(row.tags, "\ufffd")),
		Memo:    strings.ToValidUTF8(row.memo, ""),
		Created: moment(row.note, time.Millisecond), Updated: moment(max(row.noteModified, row.modified), time.Second),
		Suspended: row.queue == -1,
		Interval:  small(row.interval), Reps: small(max(row.reps, 0)), Lapses: small(max(row.lapses, 0)),
		Left: small(max(row.left, 0) % 1000),
		Ease: float64(small(row.factor)) / 1000,
	}
	special := map[string]string{"Tags": fieldHTML(row.tags), "Deck": fieldHTML(card.Deck),
		"Subdeck": fieldHTML(card.Deck), "Type": "", "Card": "", "CardFlag": ""}
	var err error
	card.Question, card.Answer, err = t.card(strings.Split(row.fields, "\x1f"), card.Order, special, &c.work)
	switch {
	case err != nil:
		return card, err
	case card.Question == "":
		return card, msgNoFront.Errorf()
	case card.Answer == "":
		return card, msgNoBack.Errorf()
	}
	c.state(&card, row, due)
	return card, nil
}

// firstMoment is the smallest due value of the learning queue that is a time in seconds and not a
// date in days (rslib/src/scheduler/timing.rs, is_unix_epoch_timestamp).
const firstMoment = 1_000_000_000

func (c *collection) state(card *Card, row *cardRow, due int64) {
	card.Phase = Phase(row.phase)
	switch {
	case row.phase < 1 || row.phase > 3:
		card.Phase = New
	case row.phase == 2 || due < firstMoment:
		card.Due = c.created + int64(small(due))
	default:
		card.DueAt = moment(due, time.Second)
	}
	// Programs write a field as text or as a number; a field of the wrong type is ignored alone.
	var data map[string]json.RawMessage
	if json.Unmarshal([]byte(row.data), &data) != nil {
		return
	}
	var custom string
	for name, into := range map[string]any{"s": &card.Stability, "d": &card.Difficulty, "cd": &custom} {
		_ = json.Unmarshal(data[name], into)
	}
	var last int64
	if json.Unmarshal(data["lrt"], &last) == nil {
		card.LastReview = moment(last, time.Second)
	}
	var mark struct {
		Learn string `json:"learn"`
	}
	if json.Unmarshal([]byte(custom), &mark) == nil {
		card.Mark = cut(mark.Learn, 40)
	}
	if !(card.Stability > 0 && card.Stability < 1e6 && card.Difficulty > 0 && card.Difficulty <= 10) {
		card.Stability, card.Difficulty = 0, 0
	}
}

// reviewLog reads revlog card by card.
type reviewLog struct {
	conn    *sql.Conn
	rows    *sql.Rows
	oldEase bool
	row     struct{ id, card, ease, interval, last, factor, took, kind int64 }
	more    bool // row is valid and belongs to a later card
}

func (c *collection) openLog(ctx context.Context) (*reviewLog, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	l := &reviewLog{conn: conn, oldEase: c.oldEase}
	l.rows, err = conn.QueryContext(ctx,
		`SELECT CAST(id AS INTEGER), CAST(COALESCE(cid, 0) AS INTEGER), CAST(COALESCE(ease, 0) AS INTEGER),
		CAST(COALESCE(ivl, 0) AS INTEGER), CAST(COALESCE(lastIvl, 0) AS INTEGER), CAST(COALESCE(factor, 0) AS INTEGER),
		CAST(COALESCE(time, 0) AS INTEGER), CAST(COALESCE(type, 0) AS INTEGER) FROM revlog ORDER BY cid, id`)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return l, l.next()
}

func (l *reviewLog) close() {
	_ = l.rows.Close()
	_ = l.conn.Close()
}

func (l *reviewLog) next() error {
	if l.more = l.rows.Next(); !l.more {
		return l.rows.Err()
	}
	return l.rows.Scan(&l.row.id, &l.row.card, &l.row.ease, &l.row.interval, &l.row.last, &l.row.factor, &l.row.took,
		&l.row.kind)
}

// forCard returns the answers of one card. Cards must be requested in the order of their IDs;
// answers of deleted cards are skipped.
func (l *reviewLog) forCard(card int64) ([]ReviewEntry, error) {
	var list []ReviewEntry
	for l.more && l.row.card <= card {
		if a, ok := l.entry(); ok && l.row.card == card && len(list) < maxReviews {
			list = append(list, a)
		}
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Kinds of rows in revlog beyond the numbers of phases (rslib/src/revlog/mod.rs, RevlogReviewKind).
const (
	kindFiltered = 3 // with factor 0: a preview without effect
	kindManual   = 4 // and above: the due date was set by hand or by a program
)

func (l *reviewLog) entry() (ReviewEntry, bool) {
	r := &l.row
	if r.kind < 0 || r.kind >= kindManual || r.kind == kindFiltered && r.factor == 0 || r.ease < 1 || r.ease > 4 {
		return ReviewEntry{}, false
	}
	a := ReviewEntry{At: moment(r.id, time.Millisecond), Ease: int(r.ease),
		Took:     time.Duration(min(max(r.took, 0), 24*60*60*1000)) * time.Millisecond,
		Interval: small(max(r.interval, 0)), Last: small(max(r.last, 0))}
	if l.oldEase && r.ease > 1 && (r.kind == 0 || r.kind == 2) {
		a.Ease = min(int(r.ease)+1, 4)
	}
	switch r.kind {
	case 0:
		a.Phase = Learning
	case 2:
		a.Phase = Relearning
	default:
		a.Phase = Review
	}
	return a, !a.At.IsZero()
}
