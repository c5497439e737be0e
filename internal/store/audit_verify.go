package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// AuditHead is the newest link of a chain, written CHAIN.SEQ.HASH. Somebody who keeps a head
// elsewhere can verify later that the chain still contains it.
type AuditHead struct {
	Chain string
	Seq   int64
	Hash  string
}

// MarshalText implements [encoding.TextMarshaler].
func (h AuditHead) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%s.%d.%s", h.Chain, h.Seq, h.Hash), nil
}

// String returns CHAIN.SEQ.HASH.
func (h AuditHead) String() string { return fmt.Sprintf("%s.%d.%s", h.Chain, h.Seq, h.Hash) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (h *AuditHead) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ".")
	if len(parts) != 3 || parts[0] == "" || len(parts[2]) != 64 {
		return errors.New("a head is CHAIN.SEQ.HASH")
	}
	seq, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || seq < 1 {
		return errors.New("a head is CHAIN.SEQ.HASH")
	}
	if _, err := hex.DecodeString(parts[2]); err != nil {
		return errors.New("a head is CHAIN.SEQ.HASH")
	}
	*h = AuditHead{Chain: parts[0], Seq: seq, Hash: strings.ToLower(parts[2])}
	return nil
}

// Kinds of problems of the audit trail.
const (
	AuditChanged     = "changed" // a row was modified
	AuditMissing     = "missing" // a row was deleted, and no link gives a reason
	AuditAdded       = "added"   // a row has no link, so Patchbay did not write it
	AuditBroken      = "broken"  // a link was modified or moved
	AuditGap         = "gap"     // links were deleted
	AuditHeadMissing = "head"    // an expected head is not, or no longer, in the chain
	AuditClaim       = "claim"   // a link claims the removal of a person who still exists
)

// AuditProblem is one problem of the audit trail.
type AuditProblem struct {
	Kind  string    `json:"kind"`
	Table string    `json:"table,omitempty"` // calls or acts (the kind of the link)
	Row   string    `json:"row,omitempty"`   // id of the row
	Chain string    `json:"chain,omitempty"`
	Seq   int64     `json:"seq,omitempty"` // of the link
	At    time.Time `json:"at,omitzero"`   // time of the row, from the link
}

// maxProblems limits the problems that are listed; further ones are only counted.
const maxProblems = 100

// AuditState is the result of a verification.
type AuditState struct {
	Complete bool  `json:"whole"`   // everything was checked, not only the newest links
	Links    int64 `json:"links"`   // links checked
	Rows     int64 `json:"rows"`    // calls and admin events that are unchanged
	Expired  int64 `json:"expired"` // rows deleted by retention whose links remain
	Removed  int64 `json:"removed"` // calls deleted together with their person
	// Forgotten counts calls whose arguments were deleted.
	Forgotten int64 `json:"forgotten"`
	// Unlinked counts rows without a link because they are older than the chain.
	Unlinked int64 `json:"before"`
	// Since is the time before which retention may have deleted all rows.
	Since time.Time `json:"since,omitzero"`

	Heads        []AuditHead    `json:"heads"`
	ProblemCount int64          `json:"wrong"`    // all problems, listed or not
	Problems     []AuditProblem `json:"problems"` // the first maxProblems
}

// AuditQuery selects what is verified.
type AuditQuery struct {
	Newest int         // links of each chain and rows of each table to check; 0: all
	Expect []AuditHead // heads that must be in the chains
}

// linksPerPage is the number of links held in memory at a time.
const linksPerPage = 500

// Verify checks calls and admin events against their links, and the links against each other, in
// one consistent snapshot. Writers are not blocked.
func (t Audit) Verify(ctx context.Context, q AuditQuery) (AuditState, error) {
	// SQLite reads a snapshot in any transaction; PostgreSQL needs this isolation level.
	tx, err := t.db.reader(longRunning(ctx)).BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead,
		ReadOnly: true})
	if err != nil {
		return AuditState{}, err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	v := &verifier{tx: tx, newest: q.Newest, removed: map[string]bool{}, forgotten: map[forgottenArgs]int64{}}
	v.Complete, v.Heads, v.Problems = q.Newest <= 0, []AuditHead{}, []AuditProblem{}
	if err := v.run(ctx, q.Expect); err != nil {
		return AuditState{}, translate(err)
	}
	return v.AuditState, nil
}

type verifier struct {
	AuditState
	tx     *sql.Tx
	newest int

	// Reasons for missing rows, from note links.
	before          int64 // older rows may have been deleted by retention
	removed         map[string]bool
	forgotten       map[forgottenArgs]int64 // up to which time calls lost their arguments
	beganAt         int64                   // time of the first link; 0: it was deleted
	unlinkedAllowed int64                   // rows without a link that are still allowed
}

// forgottenArgs identifies calls whose arguments were deleted: those of a person, or of one of the
// person's bots.
type forgottenArgs struct {
	person string
	bot    int64
}

func (v *verifier) run(ctx context.Context, expect []AuditHead) error {
	chains, err := v.chains(ctx)
	if err != nil {
		return err
	}
	if err := v.readReasons(ctx); err != nil {
		return err
	}
	for _, c := range chains {
		if err := v.verifyChain(ctx, c); err != nil {
			return err
		}
	}
	for kind, table := range linkTables {
		if err := v.checkUnlinked(ctx, table, kind); err != nil {
			return err
		}
	}
	for _, h := range expect {
		if err := v.checkHead(ctx, chains, h); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) addProblem(p AuditProblem) {
	v.ProblemCount++
	if len(v.Problems) < maxProblems {
		v.Problems = append(v.Problems, p)
	}
}

// chainEnds holds the first and last position of a chain.
type chainEnds struct {
	head     link
	base     int64
	baseLink string
}

func (v *verifier) chains(ctx context.Context) ([]chainEnds, error) {
	return rowsOf(func(s scanner) (c chainEnds, err error) {
		err = s.Scan(&c.head.chain, &c.head.seq, &c.head.link, &c.base, &c.baseLink)
		v.Heads = append(v.Heads, AuditHead{c.head.chain, c.head.seq, c.head.link})
		return c, err
	})(v.tx.QueryContext(ctx, `SELECT id, seq, link, base_seq, base_link FROM audit_chains ORDER BY id`))
}

// rowsOf returns a function that reads all rows of a query.
func rowsOf[T any](read func(scanner) (T, error)) func(*sql.Rows, error) ([]T, error) {
	return func(rows *sql.Rows, err error) (out []T, _ error) {
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			v, err := read(rows)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, rows.Err()
	}
}

func readLink(s scanner) (l link, err error) {
	return l, s.Scan(&l.chain, &l.seq, &l.kind, &l.row, &l.person, &l.at, &l.note, &l.digest, &l.link)
}

// linkInChain is the condition that a link l is after the base of its chain. Only those links are
// verified and count; earlier ones are about to be deleted.
const linkInChain = `EXISTS (SELECT 1 FROM audit_chains c WHERE c.id = l.chain AND c.base_seq < l.seq)`

// readReasons reads from the note links why rows may be missing. The links themselves are verified
// with the others.
func (v *verifier) readReasons(ctx context.Context) error {
	rows, err := v.tx.QueryContext(ctx, `SELECT `+linkColumns+` FROM audit_links l WHERE row_id = '' AND `+linkInChain)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		l, err := readLink(rows)
		if err != nil {
			return err
		}
		n := l.parseNote()
		switch l.kind {
		case linkBegin:
			v.beganAt, v.unlinkedAllowed = l.at, n.Calls+n.AdminEvents
		case linkRetention, linkBase:
			v.before = max(v.before, n.Before)
			v.Since = fromMillis(v.before)
		case linkPerson:
			v.removed[l.person] = true
		case linkArgs:
			f := forgottenArgs{l.person, n.Bot}
			v.forgotten[f] = max(v.forgotten[f], n.Until)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	people, err := rowsOf(func(s scanner) (id string, err error) { return id, s.Scan(&id) })(v.tx.QueryContext(ctx,
		`SELECT id FROM people`))
	for _, id := range people {
		if v.removed[ownerMark(id)] {
			v.addProblem(AuditProblem{Kind: AuditClaim, Row: id})
		}
	}
	return err
}

// parseNote returns the note of a link that belongs to no row.
func (l *link) parseNote() (n linkNote) {
	json.Unmarshal([]byte(l.note), &n) //nolint:errcheck // an invalid note is empty, and its link is reported as broken
	return n
}

// verifyChain verifies the links of a chain and their rows.
func (v *verifier) verifyChain(ctx context.Context, c chainEnds) error {
	last := link{chain: c.head.chain, seq: c.base, link: c.baseLink}
	based := c.base == 0 // a link confirms that the chain begins here
	if from := c.head.seq - int64(v.newest); v.newest > 0 && from > c.base {
		row := v.tx.QueryRowContext(ctx, `SELECT `+linkColumns+` FROM audit_links WHERE chain = $1 AND seq = $2`,
			c.head.chain, from)
		switch l, err := readLink(row); {
		case err == nil:
			last, based = l, true
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
	}
	for {
		page, err := rowsOf(readLink)(v.tx.QueryContext(ctx,
			`SELECT `+linkColumns+` FROM audit_links WHERE chain = $1 AND seq > $2 ORDER BY seq LIMIT $3`,
			last.chain, last.seq, linksPerPage))
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		rows, err := v.readRows(ctx, page)
		if err != nil {
			return err
		}
		for i := range page {
			l := &page[i]
			v.Links++
			switch {
			case l.seq != last.seq+1:
				v.addProblem(AuditProblem{Kind: AuditGap, Chain: l.chain, Seq: last.seq + 1})
			case l.link != l.hashAfter(last.link):
				v.addProblem(AuditProblem{Kind: AuditBroken, Chain: l.chain, Seq: l.seq})
			}
			if l.row != "" {
				v.checkRow(l, rows)
			} else if n := l.parseNote(); l.kind == linkBase && n.Seq == c.base && n.Link == c.baseLink {
				based = true
			}
			last = *l
		}
	}
	switch {
	case last.seq < c.head.seq:
		v.addProblem(AuditProblem{Kind: AuditGap, Chain: last.chain, Seq: last.seq + 1})
	case last.seq > c.head.seq || last.link != c.head.link:
		v.addProblem(AuditProblem{Kind: AuditBroken, Chain: last.chain, Seq: last.seq})
	case !based:
		v.addProblem(AuditProblem{Kind: AuditGap, Chain: last.chain, Seq: c.base})
	}
	return nil
}

// storedRow is what a row in the database is compared by.
type storedRow struct {
	digest string
	bot    int64
	args   string // digest of the arguments
}

// readRows reads the rows of a page of links, by link kind and id.
func (v *verifier) readRows(ctx context.Context, page []link) (map[[2]string]storedRow, error) {
	out := make(map[[2]string]storedRow, len(page))
	const of = ` r WHERE r.id IN (SELECT row_id FROM audit_links WHERE chain = $1 AND seq >= $2 AND seq <= $3 AND kind = $4)`
	chain, from, to := page[0].chain, page[0].seq, page[len(page)-1].seq
	_, err := rowsOf(func(s scanner) (none struct{}, err error) {
		var salt sql.NullString
		c, err := readCall(extraColumn{s, &salt})
		values := c.appendValues(nil, "")
		out[[2]string{linkCall, c.ID}] = storedRow{digest(linkCall, callDigestNames, values[:len(callDigestNames)]),
			c.Bot, digestArgs(c.Args, salt.String)}
		return none, err
	})(v.tx.QueryContext(ctx, `SELECT `+callRowColumns+` FROM calls`+of, chain, from, to, linkCall))
	if err != nil {
		return nil, err
	}
	_, err = rowsOf(func(s scanner) (none struct{}, err error) {
		a, err := readAdminEvent(s)
		out[[2]string{linkAdminEvent, a.ID}] = storedRow{digest: digest(linkAdminEvent, adminEventDigestNames,
			a.values())}
		return none, err
	})(v.tx.QueryContext(ctx, `SELECT `+adminEventColumns+` FROM admin_events`+of, chain, from, to, linkAdminEvent))
	return out, err
}

// extraColumn scans a row that has one more column at its end.
type extraColumn struct {
	scanner
	more any
}

func (w extraColumn) Scan(to ...any) error { return w.scanner.Scan(append(to, w.more)...) }

// checkRow compares a link with its row.
func (v *verifier) checkRow(l *link, rows map[[2]string]storedRow) {
	found, there := rows[[2]string{l.kind, l.row}]
	p := AuditProblem{Table: l.kind, Row: l.row, Chain: l.chain, Seq: l.seq, At: fromMillis(l.at)}
	switch {
	case !there && l.at < v.before:
		v.Expired++
	case !there && l.person != "" && v.removed[l.person]:
		v.Removed++
	case !there:
		p.Kind = AuditMissing
		v.addProblem(p)
	case found.digest != l.digest:
		p.Kind = AuditChanged
		v.addProblem(p)
	case found.args == l.note:
		v.Rows++
	case found.args == "" && (l.at <= v.forgotten[forgottenArgs{l.person, 0}] ||
		l.at <= v.forgotten[forgottenArgs{l.person, found.bot}]):
		v.Rows++
		v.Forgotten++
	default:
		p.Kind = AuditChanged
		v.addProblem(p)
	}
}

// checkUnlinked reports rows that have no link and are not older than the chain.
func (v *verifier) checkUnlinked(ctx context.Context, table, kind string) error {
	from, args := table, []any{kind}
	if v.newest > 0 {
		from, args = `(SELECT id, at FROM `+table+` ORDER BY at DESC LIMIT $2)`, append(args, v.newest)
	}
	rows, err := v.tx.QueryContext(ctx, `SELECT r.id, r.at FROM `+from+
		` r WHERE NOT EXISTS (SELECT 1 FROM audit_links l WHERE l.row_id = r.id AND l.kind = $1 AND `+linkInChain+
		`)`, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			id string
			at int64
		)
		if err := rows.Scan(&id, &at); err != nil {
			return err
		}
		switch {
		case at < v.before: // about to be deleted by retention
		case at <= v.beganAt && v.unlinkedAllowed > 0:
			v.unlinkedAllowed--
			v.Unlinked++
		default:
			v.addProblem(AuditProblem{Kind: AuditAdded, Table: kind, Row: id, At: fromMillis(at)})
		}
	}
	return rows.Err()
}

// checkHead verifies that a head kept elsewhere is in its chain.
func (v *verifier) checkHead(ctx context.Context, chains []chainEnds, h AuditHead) error {
	found := ""
	for _, c := range chains {
		if c.head.chain == h.Chain && c.base == h.Seq {
			found = c.baseLink // the link itself was deleted by retention
		}
	}
	if found == "" {
		err := v.tx.QueryRowContext(ctx, `SELECT link FROM audit_links WHERE chain = $1 AND seq = $2`, h.Chain,
			h.Seq).Scan(&found)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	if found != h.Hash {
		v.addProblem(AuditProblem{Kind: AuditHeadMissing, Chain: h.Chain, Seq: h.Seq})
	}
	return nil
}
