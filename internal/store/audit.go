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
	"strings"
	"time"
)

// Audit is the hash chain over call records and admin events. It detects changes to those rows that
// were not made by Patchbay.
//
// Each row gets a link in the same transaction: a digest of the row, and the SHA-256 of that digest
// and the previous link. There are as many chains as concurrent writers, so that no writer waits
// for another. When rows are deleted for a reason, their links remain for a while, and an
// additional link records the reason.
type Audit struct{ db *DB }

// Kinds of links. The kinds of row links are part of their digests and never change.
const (
	linkCall       = "calls"
	linkAdminEvent = "acts"
	// linkBegin is the very first link. Its note counts the rows that existed before the chain.
	linkBegin = "begin"
	// linkRetention records that rows older than some time were deleted by retention.
	linkRetention = "retention"
	// linkBase records up to where old links of the chain were deleted.
	linkBase = "base"
	// linkPerson records that a person's calls were deleted together with the person.
	linkPerson = "person"
	// linkArgs records that the arguments of a person's calls were deleted.
	linkArgs = "args"
)

// firstChain is the id of the chain that begins with [linkBegin].
const firstChain = "1"

const (
	linkColumns = `chain, seq, kind, row_id, person, at, note, digest, link`
	// linksPerInsert is the number of links one statement inserts.
	linksPerInsert = 32
)

// link is an entry of a hash chain.
type link struct {
	chain  string
	seq    int64
	kind   string
	row    string // id of the row; empty for links that belong to no single row
	person string // owner of the call, as [ownerMark]
	at     int64  // time of the row, for retention
	note   string // for a call the digest of its arguments, otherwise a linkNote as JSON
	digest string // digest of the row, in hex
	link   string // hash of this link, see hashAfter, in hex
}

// linkNote is the note of a link that belongs to no row.
type linkNote struct {
	Before      int64  `json:"before,omitempty"` // rows or links older than this were deleted
	Calls       int64  `json:"calls,omitempty"`  // number of deleted or existing calls
	AdminEvents int64  `json:"acts,omitempty"`
	Bot         int64  `json:"bot,omitempty"`
	Until       int64  `json:"until,omitempty"` // time of the last call that may have lost its arguments
	Seq         int64  `json:"seq,omitempty"`   // sequence number of the last deleted link
	Link        string `json:"link,omitempty"`
}

// hashAfter returns the hash of the link, given the hash of the previous link.
func (l *link) hashAfter(previous string) string {
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

// ownerMark returns a pseudonym of a person for links, which outlive the person's account: the
// person cannot be identified from it.
func ownerMark(person string) string {
	if person == "" {
		return ""
	}
	var f fields
	f.add("person", person)
	return f.sum()[:32]
}

// fields is an unambiguous encoding of names and values: no two different lists encode alike.
type fields []byte

// add appends a value. Empty values are skipped, so that a column added later does not change the
// digests of old rows.
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

// sum returns the SHA-256 of the encoding, in hex.
func (f *fields) sum() string {
	sum := sha256.Sum256(*f)
	return hex.EncodeToString(sum[:])
}

// linkTables maps the kinds of row links to their tables.
var linkTables = map[string]string{linkCall: "calls", linkAdminEvent: "admin_events"}

// digestNames splits a column list into the names used in digests. Renamed columns keep their first
// name there, so that existing links stay valid.
func digestNames(columns string) []string {
	names := strings.Split(columns, ", ")
	for i, name := range names {
		switch name {
		case "channel":
			names[i] = "door"
		case "action":
			names[i] = "act"
		}
	}
	return names
}

// digest returns the digest of a row: its column names with the stored values.
func digest(table string, columns []string, values []any) string {
	f := make(fields, 0, 512)
	f.add("table", table)
	for i, name := range columns {
		switch v := values[i].(type) {
		case string:
			if name == "outcome" && v == "tool_error" {
				v = "trouble" // its first name, which older rows were hashed with
			}
			f.add(name, v)
		case int64:
			f.number(name, v)
		}
	}
	return f.sum()
}

// rowLink returns the link of a row whose first two columns are its id and time.
func rowLink(table string, columns []string, values []any) link {
	return link{kind: table, row: values[0].(string), at: values[1].(int64), digest: digest(table, columns, values)}
}

// digestArgs returns the salted digest of a call's arguments. They are not part of the row's
// digest, because they may be deleted before the row.
func digestArgs(args, salt string) string {
	if args == "" {
		return ""
	}
	var f fields
	f.add("salt", salt)
	f.add("args", args)
	return f.sum()
}

// createFirstChain creates the first chain if there is none. Rows that exist already have no links;
// the first link records their number, so that none can be added later unnoticed.
func (db *DB) createFirstChain(ctx context.Context) error {
	ctx = longRunning(ctx) // it counts all rows
	var id string
	err := db.w.QueryRowContext(ctx, `SELECT id FROM audit_chains LIMIT 1`).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return db.tx(ctx, func(tx *sql.Tx) error {
		err := changed(tx.ExecContext(ctx,
			`INSERT INTO audit_chains (id, seq, link, base_seq, base_link) VALUES ($1, 0, '', 0, '') ON CONFLICT DO NOTHING`, firstChain))
		if errors.Is(err, ErrNotFound) {
			return nil // another instance created it first
		}
		if err != nil {
			return err
		}
		var n linkNote
		err = tx.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM calls), (SELECT COUNT(*) FROM admin_events)`).
			Scan(&n.Calls, &n.AdminEvents)
		if err != nil {
			return err
		}
		return db.addNoteLink(ctx, tx, linkBegin, "", n)
	})
}

// addLinks appends links to a chain. insert is the statement for linksPerInsert rows, prepared
// before the transaction began; nil is allowed for a few links.
func (db *DB) addLinks(ctx context.Context, tx *sql.Tx, insert *sql.Stmt, links []link) error {
	if len(links) == 0 {
		return nil
	}
	// In PostgreSQL a writer holds its chain until the transaction ends.
	row := tx.QueryRowContext(ctx, db.locking(`SELECT id, seq, link FROM audit_chains ORDER BY id LIMIT 1`,
		"FOR UPDATE SKIP LOCKED"))
	var head link
	switch err := row.Scan(&head.chain, &head.seq, &head.link); {
	case errors.Is(err, sql.ErrNoRows):
		head.chain = rand.Text()[:8]
		if _, err := tx.ExecContext(ctx,
			`INSERT INTO audit_chains (id, seq, link, base_seq, base_link) VALUES ($1, 0, '', 0, '')`,
			head.chain); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	return db.addLinksTo(ctx, tx, insert, head, links)
}

// addLinksTo appends links after the head of a chain that this transaction has locked.
func (db *DB) addLinksTo(ctx context.Context, tx *sql.Tx, insert *sql.Stmt, head link, links []link) error {
	for i := range links {
		l := &links[i]
		l.chain, l.seq = head.chain, head.seq+1
		l.link = l.hashAfter(head.link)
		head.seq, head.link = l.seq, l.link
	}
	for some := range slices.Chunk(links, linksPerInsert) {
		args := make([]any, 0, len(some)*9)
		for i := range some {
			l := &some[i]
			args = append(args, l.chain, l.seq, l.kind, l.row, l.person, l.at, l.note, l.digest, l.link)
		}
		var err error
		if insert != nil && len(some) == linksPerInsert {
			_, err = tx.StmtContext(ctx, insert).ExecContext(ctx, args...)
		} else {
			_, err = tx.ExecContext(ctx, db.insertText("audit_links", linkColumns, len(some)), args...)
		}
		if err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `UPDATE audit_chains SET seq = $2, link = $3 WHERE id = $1`, head.chain, head.seq,
		head.link)
	return err
}

// addNoteLink appends a link that belongs to no row.
func (db *DB) addNoteLink(ctx context.Context, tx *sql.Tx, kind, person string, n linkNote) error {
	l, err := newNoteLink(kind, person, n)
	if err != nil {
		return err
	}
	return db.addLinks(ctx, tx, nil, []link{l})
}

func newNoteLink(kind, person string, n linkNote) (link, error) {
	note, err := json.Marshal(n)
	return link{kind: kind, person: ownerMark(person), at: millis(time.Now()), note: string(note)}, err
}

// purgeAudit deletes calls and admin events older than before, then the leading links of each chain
// that are all older, and returns the number of deleted rows.
func (db *DB) purgeAudit(ctx context.Context, before time.Time) (total int64, err error) {
	// One link covers all rows that are deleted, and is written before the first is.
	old, err := one(ctx, db, readNumber,
		`SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM calls WHERE at < $1 LIMIT 1) c) + (SELECT COUNT(*) FROM (SELECT 1 FROM admin_events WHERE at < $1 LIMIT 1) a)`, millis(before))
	if err != nil {
		return 0, err
	}
	if old > 0 {
		err = db.tx(ctx, func(tx *sql.Tx) error {
			return db.addNoteLink(ctx, tx, linkRetention, "", linkNote{Before: millis(before)})
		})
		if err != nil {
			return 0, err
		}
	}
	for _, query := range []string{
		`DELETE FROM calls WHERE id IN (SELECT id FROM calls WHERE at < $1 ORDER BY at LIMIT $2)`,
		`DELETE FROM admin_events WHERE id IN (SELECT id FROM admin_events WHERE at < $1 ORDER BY at LIMIT $2)`,
	} {
		n, err := db.execInBatches(ctx, query, millis(before))
		total += n
		if err != nil {
			return total, err
		}
	}
	chains, err := all(ctx, db, func(s scanner) (id string, err error) { return id, s.Scan(&id) },
		`SELECT id FROM audit_chains`)
	if err != nil {
		return total, err
	}
	for _, id := range chains {
		if err := db.trimChain(ctx, id, millis(before)); err != nil {
			return total, err
		}
	}
	return total, nil
}

// trimChain deletes the leading links of a chain that are all older than before. One transaction
// first advances the base of the chain; links before the base are ignored and deleted in batches.
func (db *DB) trimChain(ctx context.Context, chain string, before int64) error {
	// Links never change, so the last link to delete can be found without a lock.
	last, err := one(ctx, db, readNumber,
		`SELECT COALESCE((SELECT l.seq FROM audit_links l WHERE l.chain = c.id AND l.seq > c.base_seq AND l.at >= $2 ORDER BY l.seq LIMIT 1) - 1, c.seq)
		FROM audit_chains c WHERE c.id = $1`, chain, before)
	if err != nil {
		return err
	}
	if err := db.tx(ctx, func(tx *sql.Tx) error { return db.advanceBase(ctx, tx, chain, last, before) }); err != nil {
		return err
	}
	_, err = db.execInBatches(ctx, `DELETE FROM audit_links WHERE chain = $1 AND seq IN (SELECT seq FROM audit_links
		WHERE chain = $1 AND seq <= (SELECT base_seq FROM audit_chains WHERE id = $1) ORDER BY seq LIMIT $2)`, chain)
	return err
}

// advanceBase makes a chain begin after the link last. A link appended at the end records that, so
// that nobody else can shorten the chain unnoticed.
func (db *DB) advanceBase(ctx context.Context, tx *sql.Tx, chain string, last, before int64) error {
	head := link{chain: chain}
	var base int64
	row := tx.QueryRowContext(ctx, db.locking(`SELECT seq, link, base_seq FROM audit_chains WHERE id = $1`,
		"FOR UPDATE"), chain)
	if err := row.Scan(&head.seq, &head.link, &base); err != nil {
		return err
	}
	if last <= base {
		return nil // nothing is old, or another instance was first
	}
	var at string
	row = tx.QueryRowContext(ctx, `SELECT link FROM audit_links WHERE chain = $1 AND seq = $2`, chain, last)
	switch err := row.Scan(&at); {
	case errors.Is(err, sql.ErrNoRows):
		return nil // links were deleted by somebody; Verify reports that
	case err != nil:
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE audit_chains SET base_seq = $2, base_link = $3 WHERE id = $1`, chain, last,
		at); err != nil {
		return err
	}
	l, err := newNoteLink(linkBase, "", linkNote{Before: before, Seq: last, Link: at})
	if err != nil {
		return err
	}
	return db.addLinksTo(ctx, tx, nil, head, []link{l})
}
