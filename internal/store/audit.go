package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"
)

// Audit is the hash chain of the rows of calls and acts, by which changes that were made
// behind our back are found.
//
// Each row that is kept gets a link in the same transaction: a digest of the row, and the
// SHA-256 of that and the link before. There is one chain for each writer that there is at
// a time, so that none waits for another. Rows that are deleted for a reason leave their
// links for a while, and a link that tells the reason.
type Audit struct{ db *DB }

// The kinds of links. Those of rows are the names of their tables.
const (
	linkCall = "calls"
	linkAct  = "acts"
	// linkBegin is the first link of all. Its note counts the rows that were there already.
	linkBegin = "begin"
	// linkRetention says that rows from before some time were deleted because they are old.
	linkRetention = "retention"
	// linkBase says up to where links of the chain were deleted because they are old.
	linkBase = "base"
	// linkPerson says that the calls of a person were deleted with the person.
	linkPerson = "person"
	// linkArgs says that the arguments of a person's calls were deleted.
	linkArgs = "args"
)

// firstChain is the chain that begins with [linkBegin].
const firstChain = "1"

const (
	linkColumns = `chain, seq, kind, row_id, person, at, note, digest, link`
	// linksAtOnce is how many links one statement inserts.
	linksAtOnce = 32
)

// link is one link of a chain.
type link struct {
	chain  string
	seq    int64
	kind   string
	row    string // the id of the row; empty for what is about no single row
	person string // whose call it is, see ownerMark: it goes with that person
	at     int64  // the time of the row, by which it becomes old
	note   string // for a call the digest of its arguments, otherwise a linkNote
	digest string // of the row, in hex
	link   string // in hex
}

// linkNote is what a link says that is of no row.
type linkNote struct {
	Before int64  `json:"before,omitempty"` // older rows, or links, were deleted
	Calls  int64  `json:"calls,omitempty"`  // how many
	Acts   int64  `json:"acts,omitempty"`
	Bot    int64  `json:"bot,omitempty"`
	Until  int64  `json:"until,omitempty"` // the time of the last call that lost its arguments
	Seq    int64  `json:"seq,omitempty"`   // of the last link that was deleted
	Link   string `json:"link,omitempty"`
}

// after is the hash of a link that follows another.
func (l *link) after(previous string) string {
	f := make(fields, 0, 512)
	f.add("previous", previous)
	f.add("chain", l.chain)
	f.number("seq", l.seq)
	f.add("kind", l.kind)
	f.add("row", l.row)
	f.add("person", l.person)
	f.number("at", l.at)
	f.add("note", l.note)
	f.add("digest", l.digest)
	return f.sum()
}

// ownerMark stands for a person in links, which stay when the person is removed: who has
// it does not find the person by it any more.
func ownerMark(person string) string {
	if person == "" {
		return ""
	}
	var f fields
	f.add("person", person)
	return f.sum()[:32]
}

// fields are names and values in a form that no two different ones share.
type fields []byte

// add adds a value. An empty one adds nothing, so that a column that comes later and is
// empty in old rows leaves their digests as they are.
func (f *fields) add(name, value string) {
	if value == "" {
		return
	}
	to := binary.AppendUvarint(*f, uint64(len(name)))
	to = append(to, name...)
	to = binary.AppendUvarint(to, uint64(len(value)))
	*f = append(to, value...)
}

func (f *fields) number(name string, value int64) {
	if value != 0 {
		f.add(name, strconv.FormatInt(value, 10))
	}
}

// sum is their SHA-256 in hex.
func (f *fields) sum() string {
	sum := sha256.Sum256(*f)
	return hex.EncodeToString(sum[:])
}

// digest is that of a row: its columns with their values, as they are kept.
func digest(table string, columns []string, values []any) string {
	f := make(fields, 0, 512)
	f.add("table", table)
	for i, name := range columns {
		switch v := values[i].(type) {
		case string:
			f.add(name, v)
		case int64:
			f.number(name, v)
		}
	}
	return f.sum()
}

// rowLink is the link of a row of a table, whose first two columns are its id and time.
func rowLink(table string, columns []string, values []any) link {
	return link{kind: table, row: values[0].(string), at: values[1].(int64), digest: digest(table, columns, values)}
}

// digestArgs is the digest of a call's arguments, which are left out of that of its row:
// they may be forgotten before it.
func digestArgs(args, salt string) string {
	if args == "" {
		return ""
	}
	var f fields
	f.add("salt", salt)
	f.add("args", args)
	return f.sum()
}

// beginChain makes the first chain. Rows that are there already have no links, and are counted
// in its first one, so that nobody can add more of them.
func (db *DB) beginChain(ctx context.Context) error {
	ctx = patient(ctx) // it counts
	var id string
	err := db.w.QueryRowContext(ctx, `SELECT id FROM audit_chains LIMIT 1`).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return db.tx(ctx, func(tx *sql.Tx) error {
		err := changed(tx.ExecContext(ctx, `INSERT INTO audit_chains (id, seq, link, base_seq, base_link) VALUES ($1, 0, '', 0, '') ON CONFLICT DO NOTHING`, firstChain))
		if errors.Is(err, ErrNotFound) {
			return nil // another instance was faster
		}
		if err != nil {
			return err
		}
		var n linkNote
		err = tx.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM calls), (SELECT COUNT(*) FROM acts)`).Scan(&n.Calls, &n.Acts)
		if err != nil {
			return err
		}
		return db.chainNote(ctx, tx, linkBegin, "", n)
	})
}

// chain adds links to a chain. Statements for many are prepared before the transaction
// begins; insert may be nil for a few.
func (db *DB) chain(ctx context.Context, tx *sql.Tx, insert *sql.Stmt, links []link) error {
	if len(links) == 0 {
		return nil
	}
	// In PostgreSQL a chain is its writer's until the transaction ends.
	row := tx.QueryRowContext(ctx, db.locking(`SELECT id, seq, link FROM audit_chains ORDER BY id LIMIT 1`, "FOR UPDATE SKIP LOCKED"))
	var head link
	switch err := row.Scan(&head.chain, &head.seq, &head.link); {
	case errors.Is(err, sql.ErrNoRows):
		head.chain = rand.Text()[:8]
		if _, err := tx.ExecContext(ctx, `INSERT INTO audit_chains (id, seq, link, base_seq, base_link) VALUES ($1, 0, '', 0, '')`, head.chain); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	return db.chainTo(ctx, tx, insert, head, links)
}

// chainTo adds links after the head of a chain, which is the writer's already.
func (db *DB) chainTo(ctx context.Context, tx *sql.Tx, insert *sql.Stmt, head link, links []link) error {
	for i := range links {
		l := &links[i]
		l.chain, l.seq = head.chain, head.seq+1
		l.link = l.after(head.link)
		head.seq, head.link = l.seq, l.link
	}
	for some := range slices.Chunk(links, linksAtOnce) {
		args := make([]any, 0, len(some)*9)
		for i := range some {
			l := &some[i]
			args = append(args, l.chain, l.seq, l.kind, l.row, l.person, l.at, l.note, l.digest, l.link)
		}
		var err error
		if insert != nil && len(some) == linksAtOnce {
			_, err = tx.StmtContext(ctx, insert).ExecContext(ctx, args...)
		} else {
			_, err = tx.ExecContext(ctx, db.insertText("audit_links", linkColumns, len(some)), args...)
		}
		if err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `UPDATE audit_chains SET seq = $2, link = $3 WHERE id = $1`, head.chain, head.seq, head.link)
	return err
}

// chainNote adds a link that is of no row.
func (db *DB) chainNote(ctx context.Context, tx *sql.Tx, kind, person string, n linkNote) error {
	l, err := noteLink(kind, person, n)
	if err != nil {
		return err
	}
	return db.chain(ctx, tx, nil, []link{l})
}

func noteLink(kind, person string, n linkNote) (link, error) {
	note, err := json.Marshal(n)
	return link{kind: kind, person: ownerMark(person), at: millis(time.Now()), note: string(note)}, err
}

// purgeAudit deletes the rows from before a time, and then the links of each chain that are
// all from before it.
func (db *DB) purgeAudit(ctx context.Context, before time.Time) (total int64, err error) {
	// One link tells of all rows that go, and does so before the first is gone.
	old, err := one(ctx, db, readNumber, `SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM calls WHERE at < $1 LIMIT 1) c) + (SELECT COUNT(*) FROM (SELECT 1 FROM acts WHERE at < $1 LIMIT 1) a)`, millis(before))
	if err != nil {
		return 0, err
	}
	if old > 0 {
		err = db.tx(ctx, func(tx *sql.Tx) error {
			return db.chainNote(ctx, tx, linkRetention, "", linkNote{Before: millis(before)})
		})
		if err != nil {
			return 0, err
		}
	}
	for _, query := range []string{
		`DELETE FROM calls WHERE id IN (SELECT id FROM calls WHERE at < $1 ORDER BY at LIMIT $2)`,
		`DELETE FROM acts WHERE id IN (SELECT id FROM acts WHERE at < $1 ORDER BY at LIMIT $2)`,
	} {
		n, err := db.piecemeal(ctx, query, millis(before))
		total += n
		if err != nil {
			return total, err
		}
	}
	chains, err := all(ctx, db, func(s scanner) (id string, err error) { return id, s.Scan(&id) }, `SELECT id FROM audit_chains`)
	if err != nil {
		return total, err
	}
	for _, id := range chains {
		if err := db.shorten(ctx, id, millis(before)); err != nil {
			return total, err
		}
	}
	return total, nil
}

// shorten deletes the links at the beginning of a chain that are all from before a time.
// First the chain begins later, by one transaction; what is before its beginning counts
// for nothing, and goes in batches.
func (db *DB) shorten(ctx context.Context, chain string, before int64) error {
	// Links do not change, so that the last one to go can be found without holding up others.
	last, err := one(ctx, db, readNumber, `SELECT COALESCE((SELECT l.seq FROM audit_links l WHERE l.chain = c.id AND l.seq > c.base_seq AND l.at >= $2 ORDER BY l.seq LIMIT 1) - 1, c.seq)
		FROM audit_chains c WHERE c.id = $1`, chain, before)
	if err != nil {
		return err
	}
	if err := db.tx(ctx, func(tx *sql.Tx) error { return db.beginLater(ctx, tx, chain, last, before) }); err != nil {
		return err
	}
	_, err = db.piecemeal(ctx, `DELETE FROM audit_links WHERE chain = $1 AND seq IN (SELECT seq FROM audit_links
		WHERE chain = $1 AND seq <= (SELECT base_seq FROM audit_chains WHERE id = $1) ORDER BY seq LIMIT $2)`, chain)
	return err
}

// beginLater has a chain begin after a link. A link at its end says which that is, so that
// nobody else can shorten it.
func (db *DB) beginLater(ctx context.Context, tx *sql.Tx, chain string, last, before int64) error {
	head := link{chain: chain}
	var base int64
	row := tx.QueryRowContext(ctx, db.locking(`SELECT seq, link, base_seq FROM audit_chains WHERE id = $1`, "FOR UPDATE"), chain)
	if err := row.Scan(&head.seq, &head.link, &base); err != nil {
		return err
	}
	if last <= base {
		return nil // there is nothing old, or another instance was faster
	}
	var at string
	row = tx.QueryRowContext(ctx, `SELECT link FROM audit_links WHERE chain = $1 AND seq = $2`, chain, last)
	switch err := row.Scan(&at); {
	case errors.Is(err, sql.ErrNoRows):
		return nil // somebody has deleted links, which is to be seen
	case err != nil:
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE audit_chains SET base_seq = $2, base_link = $3 WHERE id = $1`, chain, last, at); err != nil {
		return err
	}
	l, err := noteLink(linkBase, "", linkNote{Before: before, Seq: last, Link: at})
	if err != nil {
		return err
	}
	return db.chainTo(ctx, tx, nil, head, []link{l})
}
