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

// Read calls each for every card of a package, in the order of creation, after o.Contents. Cards
// that cannot be read are passed to o.OnError. Errors that wrap [ErrBroken] are caused by the file;
// an error of each is returned unchanged. A hostile package can keep Read busy for minutes, so ctx
// should have a deadline. Media can be opened as long as r can be read.
func Read(ctx context.Context, r io.ReaderAt, size int64, o Options, each func(Card) error) error {
	a, path, err := unpack(ctx, r, size, o.Temp)
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
	if o.Contents != nil {
		warn := func(name string, why error) {
			if o.OnError != nil {
				o.OnError(CardError{What: name, Why: why})
			}
		}
		if c.contents.Media, err = a.mediaList(warn); err != nil {
			return err
		}
		if err := c.loadOrphans(ctx, o.orphans, warn); err != nil {
			return c.broken(ctx, err)
		}
		if err := o.Contents(&c.contents); err != nil {
			return err
		}
	}
	return c.cards(ctx, o, each)
}

const cardsQuery = `SELECT CAST(c.id AS INTEGER), CAST(COALESCE(c.nid, 0) AS INTEGER), CAST(COALESCE(c.did, 0) AS INTEGER),
	CAST(COALESCE(c.ord, 0) AS INTEGER), CAST(COALESCE(c.mod, 0) AS INTEGER), CAST(COALESCE(c.usn, 0) AS INTEGER),
	CAST(COALESCE(c.type, 0) AS INTEGER), CAST(COALESCE(c.queue, 0) AS INTEGER), CAST(COALESCE(c.due, 0) AS INTEGER),
	CAST(COALESCE(c.ivl, 0) AS INTEGER), CAST(COALESCE(c.factor, 0) AS INTEGER), CAST(COALESCE(c.reps, 0) AS INTEGER),
	CAST(COALESCE(c.lapses, 0) AS INTEGER), CAST(COALESCE(c.left, 0) AS INTEGER), CAST(COALESCE(c.odue, 0) AS INTEGER),
	CAST(COALESCE(c.odid, 0) AS INTEGER), CAST(COALESCE(c.flags, 0) AS INTEGER), CAST(COALESCE(c.data, '') AS TEXT),
	CAST(COALESCE(n.id, 0) AS INTEGER), CAST(COALESCE(n.guid, '') AS TEXT), CAST(COALESCE(n.mid, 0) AS INTEGER),
	CAST(COALESCE(n.mod, 0) AS INTEGER), CAST(COALESCE(n.usn, 0) AS INTEGER), CAST(COALESCE(n.tags, '') AS TEXT),
	CAST(COALESCE(n.flds, '') AS TEXT), CAST(COALESCE(n.sfld, '') AS TEXT), CAST(COALESCE(n.csum, 0) AS INTEGER),
	CAST(COALESCE(n.flags, 0) AS INTEGER), CAST(COALESCE(n.data, '') AS TEXT)
	FROM cards c LEFT JOIN notes n ON n.id = c.nid ORDER BY c.id`

// cardRow is a row of cards with its note.
type cardRow struct {
	CardRow
	note   NoteRow
	fields string
}

func (r *cardRow) into() []any {
	c, n := &r.CardRow, &r.note
	return []any{&c.ID, &c.Note, &c.Deck, &c.Order, &c.Modified, &c.USN, &c.Type, &c.Queue, &c.Due, &c.Interval,
		&c.Factor, &c.Reps, &c.Lapses, &c.Left, &c.HomeDue, &c.HomeDeck, &c.Flags, &c.Data,
		&n.ID, &n.GUID, &n.Type, &n.Modified, &n.USN, &n.Tags, &r.fields, &n.Sort, &n.Checksum, &n.Flags, &n.Data}
}

// clean makes the texts valid UTF-8 and splits the fields.
func (r *cardRow) clean() {
	n := &r.note
	for _, s := range []*string{&r.Data, &n.GUID, &n.Tags, &n.Sort, &n.Data, &r.fields} {
		*s = strings.ToValidUTF8(*s, "\ufffd")
	}
	n.Fields = strings.Split(r.fields, "\x1f")
	if n.Sort == n.Fields[0] {
		n.Sort = ""
	}
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
		reviews, others, err := log.forCard(row.ID)
		if err != nil {
			return c.broken(ctx, err)
		}
		if c.work += int64(len(row.fields)); c.work > maxAllWork {
			return broken(msgHours)
		}
		row.clean()
		card, why := c.card(&row)
		if why != nil {
			if o.OnError != nil {
				o.OnError(CardError{Row: n, What: cut(Text(cut(row.fields, 200)), 60), Why: why})
			}
			continue
		}
		card.Reviews, card.Others = reviews, others
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
	t := c.types[row.note.Type]
	switch {
	case row.note.GUID == "" && row.fields == "":
		return card, msgNoNote.Errorf()
	case t == nil:
		return card, msgNoType.Errorf()
	case row.Order < 0 || row.Order > math.MaxInt16:
		return card, msgOrder.Errorf()
	case len(row.fields) > maxFields:
		return card, msgLongNote.Errorf()
	}
	deck, due := row.CardRow.Deck, row.Due
	if row.HomeDeck != 0 { // temporarily in a filtered deck
		deck = row.HomeDeck
		if row.HomeDue != 0 {
			due = row.HomeDue
		}
	}
	card = Card{
		GUID: row.note.GUID, Note: row.CardRow.Note, Order: int(row.Order),
		Deck: c.decks[deck], Tags: strings.Fields(row.note.Tags), Memo: row.note.Data,
		Created:   moment(row.CardRow.Note, time.Millisecond),
		Updated:   moment(max(row.note.Modified, row.Modified), time.Second),
		Suspended: row.Queue == -1,
		Interval:  small(row.Interval), Reps: small(max(row.Reps, 0)), Lapses: small(max(row.Lapses, 0)),
		Left: small(max(row.Left, 0) % 1000),
		Ease: float64(small(row.Factor)) / 1000,
		Row:  row.CardRow, NoteRow: row.note, Day: c.contents.Day,
	}
	special := map[string]string{"Tags": fieldHTML(row.note.Tags), "Deck": fieldHTML(card.Deck),
		"Subdeck": fieldHTML(card.Deck), "Type": "", "Card": "", "CardFlag": ""}
	var err error
	card.Question, card.Answer, err = t.card(row.note.Fields, card.Order, special, &c.work)
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
	card.Phase = Phase(row.Type)
	switch {
	case row.Type < 1 || row.Type > 3:
		card.Phase = New
	case row.Type == 2 || due < firstMoment:
		card.Due = c.contents.Day + int64(small(due))
	default:
		card.DueAt = moment(due, time.Second)
	}
	// Programs write a field as text or as a number; a field of the wrong type is ignored alone.
	var data map[string]json.RawMessage
	if json.Unmarshal([]byte(row.Data), &data) != nil {
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
	row     LogRow
	more    bool // row is valid and belongs to a later card
}

func (c *collection) openLog(ctx context.Context) (*reviewLog, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	l := &reviewLog{conn: conn, oldEase: c.oldEase}
	l.rows, err = conn.QueryContext(ctx,
		`SELECT CAST(id AS INTEGER), CAST(COALESCE(cid, 0) AS INTEGER), CAST(COALESCE(usn, 0) AS INTEGER), CAST(COALESCE(ease, 0) AS INTEGER),
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
	r := &l.row
	return l.rows.Scan(&r.ID, &r.Card, &r.USN, &r.Ease, &r.Interval, &r.Last, &r.Factor, &r.Took, &r.Kind)
}

// forCard returns the answers of one card, and the rows that are no answers. Cards must be
// requested in the order of their IDs; rows of deleted cards are skipped.
func (l *reviewLog) forCard(card int64) (list []ReviewEntry, others []LogRow, err error) {
	for l.more && l.row.Card <= card {
		if l.row.Card == card && len(list)+len(others) < maxReviews {
			if a, ok := l.entry(); ok {
				list = append(list, a)
			} else if l.row.ID > 0 {
				others = append(others, l.row)
			}
		}
		if err := l.next(); err != nil {
			return nil, nil, err
		}
	}
	return list, others, nil
}

// Kinds of rows in revlog beyond the numbers of phases (rslib/src/revlog/mod.rs, RevlogReviewKind).
const (
	kindFiltered = 3 // with factor 0: a preview without effect
	kindManual   = 4 // and above: the due date was set by hand or by a program
)

// entry converts a row to an answer, unless it is none.
func (l *reviewLog) entry() (ReviewEntry, bool) {
	r := &l.row
	if r.Kind < 0 || r.Kind >= kindManual || r.Kind == kindFiltered && r.Factor == 0 || r.Ease < 1 || r.Ease > 4 {
		return ReviewEntry{}, false
	}
	if l.oldEase && r.Ease > 1 && (r.Kind == 0 || r.Kind == 2) {
		r.Ease = min(r.Ease+1, 4)
	}
	a := ReviewEntry{At: moment(r.ID, time.Millisecond), Ease: int(r.Ease), Row: *r,
		Took:     time.Duration(min(max(r.Took, 0), 24*60*60*1000)) * time.Millisecond,
		Interval: small(max(r.Interval, 0)), Last: small(max(r.Last, 0))}
	switch r.Kind {
	case 0:
		a.Phase = Learning
	case 2:
		a.Phase = Relearning
	default:
		a.Phase = Review
	}
	return a, !a.At.IsZero()
}
