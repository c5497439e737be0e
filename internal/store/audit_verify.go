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

// AuditHead is the newest link of a chain, written CHAIN.SEQ.HASH. Who has kept one
// elsewhere can see later whether the chain still leads there.
type AuditHead struct {
	Chain string
	Seq   int64
	Hash  string
}

// MarshalText writes the head.
func (h AuditHead) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%s.%d.%s", h.Chain, h.Seq, h.Hash), nil
}

// String is how a head is written.
func (h AuditHead) String() string { return fmt.Sprintf("%s.%d.%s", h.Chain, h.Seq, h.Hash) }

// UnmarshalText reads a head.
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

// What can be wrong with the audit trail.
const (
	AuditChanged = "changed" // a row is not as it was written
	AuditMissing = "missing" // a row was deleted, and nothing says why
	AuditAdded   = "added"   // a row was added by something else than Patchbay
	AuditBroken  = "broken"  // a link is not as it was written, or was moved
	AuditGap     = "gap"     // links were deleted
	AuditHeadOff = "head"    // a head that was kept is not in the chain, or not any more
	AuditClaim   = "claim"   // a link says of somebody who is there that they were removed
)

// AuditProblem is something that is wrong with the audit trail.
type AuditProblem struct {
	Kind  string    `json:"kind"`
	Table string    `json:"table,omitempty"` // calls or acts
	Row   string    `json:"row,omitempty"`   // its id
	Chain string    `json:"chain,omitempty"`
	Seq   int64     `json:"seq,omitempty"` // of the link
	At    time.Time `json:"at,omitzero"`   // of the row, as the link has it
}

// problemsKept bounds the problems that are told one by one.
const problemsKept = 100

// AuditState is what was found about the audit trail.
type AuditState struct {
	Whole   bool  `json:"whole"`   // everything was looked at, not only what is newest
	Links   int64 `json:"links"`   // that were looked at
	Rows    int64 `json:"rows"`    // of calls and acts, of which each is as it was written
	Expired int64 `json:"expired"` // rows that were deleted because they are old, whose links are there
	Removed int64 `json:"removed"` // calls that were deleted with the person whose they were
	// Forgotten are calls whose arguments were deleted.
	Forgotten int64 `json:"forgotten"`
	// Before are rows that have no link because they are older than the chain.
	Before int64 `json:"before"`
	// Since is before when all rows may have been deleted because they are old.
	Since time.Time `json:"since,omitzero"`

	Heads    []AuditHead    `json:"heads"`
	Wrong    int64          `json:"wrong"`    // how many problems there are
	Problems []AuditProblem `json:"problems"` // the first of them
}

// AuditQuery says how much of the audit trail is checked.
type AuditQuery struct {
	Newest int         // so many links of each chain, and so many rows; 0: everything
	Expect []AuditHead // that have to be in the chains
}

// pageOfLinks is how many links are in memory at a time.
const pageOfLinks = 500

// Verify checks the rows of calls and acts against their links, and the links against
// each other, as they are at one moment. Nobody who writes meanwhile is held up.
func (t Audit) Verify(ctx context.Context, q AuditQuery) (AuditState, error) {
	// In SQLite this is how everything stays as it is while it is read anyway.
	tx, err := t.db.reader(patient(ctx)).BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return AuditState{}, err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	v := &verifier{tx: tx, newest: q.Newest, removed: map[string]bool{}, forgotten: map[forgetting]int64{}}
	v.Whole, v.Heads, v.Problems = q.Newest <= 0, []AuditHead{}, []AuditProblem{}
	if err := v.run(ctx, q.Expect); err != nil {
		return AuditState{}, translate(err)
	}
	return v.AuditState, nil
}

type verifier struct {
	AuditState
	tx     *sql.Tx
	newest int

	// What links say about rows that are gone.
	before    int64 // rows that are older may have been deleted
	removed   map[string]bool
	forgotten map[forgetting]int64 // until when calls have lost their arguments
	begun     int64                // when the first link was made; 0: it is gone
	rest      int64                // how many rows without a link there may be
}

// forgetting names calls whose arguments were deleted: a person's, or those of one bot.
type forgetting struct {
	person string
	bot    int64
}

func (v *verifier) run(ctx context.Context, expect []AuditHead) error {
	chains, err := v.chains(ctx)
	if err != nil {
		return err
	}
	if err := v.reasons(ctx); err != nil {
		return err
	}
	for _, c := range chains {
		if err := v.walk(ctx, c); err != nil {
			return err
		}
	}
	for _, table := range []string{linkCall, linkAct} {
		if err := v.unlinked(ctx, table); err != nil {
			return err
		}
	}
	for _, h := range expect {
		if err := v.expect(ctx, chains, h); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) wrong(p AuditProblem) {
	v.Wrong++
	if len(v.Problems) < problemsKept {
		v.Problems = append(v.Problems, p)
	}
}

// chainEnds are where a chain begins and ends.
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

// rowsOf reads all rows of a query.
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

// linkStands is that a link l is in a chain, behind its beginning: only those are checked,
// and count. What is before is about to be deleted.
const linkStands = `EXISTS (SELECT 1 FROM audit_chains c WHERE c.id = l.chain AND c.base_seq < l.seq)`

// reasons learns from links why rows may be gone. That these links are right is checked
// with the others.
func (v *verifier) reasons(ctx context.Context) error {
	rows, err := v.tx.QueryContext(ctx, `SELECT `+linkColumns+` FROM audit_links l WHERE row_id = '' AND `+linkStands)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		l, err := readLink(rows)
		if err != nil {
			return err
		}
		n := l.says()
		switch l.kind {
		case linkBegin:
			v.begun, v.rest = l.at, n.Calls+n.Acts
		case linkRetention, linkBase:
			v.before = max(v.before, n.Before)
			v.Since = fromMillis(v.before)
		case linkPerson:
			v.removed[l.person] = true
		case linkArgs:
			f := forgetting{l.person, n.Bot}
			v.forgotten[f] = max(v.forgotten[f], n.Until)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	people, err := rowsOf(func(s scanner) (id string, err error) { return id, s.Scan(&id) })(v.tx.QueryContext(ctx, `SELECT id FROM people`))
	for _, id := range people {
		if v.removed[ownerMark(id)] {
			v.wrong(AuditProblem{Kind: AuditClaim, Row: id})
		}
	}
	return err
}

// says is what a link says that is of no row.
func (l *link) says() (n linkNote) {
	json.Unmarshal([]byte(l.note), &n) //nolint:errcheck // what is no note says nothing, and its link is broken
	return n
}

// walk follows a chain.
func (v *verifier) walk(ctx context.Context, c chainEnds) error {
	last := link{chain: c.head.chain, seq: c.base, link: c.baseLink}
	based := c.base == 0 // whether a link says that the chain may begin there
	if from := c.head.seq - int64(v.newest); v.newest > 0 && from > c.base {
		row := v.tx.QueryRowContext(ctx, `SELECT `+linkColumns+` FROM audit_links WHERE chain = $1 AND seq = $2`, c.head.chain, from)
		switch l, err := readLink(row); {
		case err == nil:
			last, based = l, true
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
	}
	for {
		page, err := rowsOf(readLink)(v.tx.QueryContext(ctx, `SELECT `+linkColumns+` FROM audit_links WHERE chain = $1 AND seq > $2 ORDER BY seq LIMIT $3`,
			last.chain, last.seq, pageOfLinks))
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		rows, err := v.rowsFor(ctx, page)
		if err != nil {
			return err
		}
		for i := range page {
			l := &page[i]
			v.Links++
			switch {
			case l.seq != last.seq+1:
				v.wrong(AuditProblem{Kind: AuditGap, Chain: l.chain, Seq: last.seq + 1})
			case l.link != l.after(last.link):
				v.wrong(AuditProblem{Kind: AuditBroken, Chain: l.chain, Seq: l.seq})
			}
			if l.row != "" {
				v.row(l, rows)
			} else if n := l.says(); l.kind == linkBase && n.Seq == c.base && n.Link == c.baseLink {
				based = true
			}
			last = *l
		}
	}
	switch {
	case last.seq < c.head.seq:
		v.wrong(AuditProblem{Kind: AuditGap, Chain: last.chain, Seq: last.seq + 1})
	case last.seq > c.head.seq || last.link != c.head.link:
		v.wrong(AuditProblem{Kind: AuditBroken, Chain: last.chain, Seq: last.seq})
	case !based:
		v.wrong(AuditProblem{Kind: AuditGap, Chain: last.chain, Seq: c.base})
	}
	return nil
}

// kept is a row as it is in the database.
type kept struct {
	digest string
	bot    int64
	args   string // their digest
}

// rowsFor reads the rows of a page of links, by table and id.
func (v *verifier) rowsFor(ctx context.Context, page []link) (map[[2]string]kept, error) {
	out := make(map[[2]string]kept, len(page))
	const of = ` r WHERE r.id IN (SELECT row_id FROM audit_links WHERE chain = $1 AND seq >= $2 AND seq <= $3 AND kind = $4)`
	chain, from, to := page[0].chain, page[0].seq, page[len(page)-1].seq
	_, err := rowsOf(func(s scanner) (none struct{}, err error) {
		var salt sql.NullString
		c, err := readCall(withMore{s, &salt})
		values := c.appendValues(nil, "")
		out[[2]string{linkCall, c.ID}] = kept{digest(linkCall, callNames, values[:len(callNames)]), c.Bot, digestArgs(c.Args, salt.String)}
		return none, err
	})(v.tx.QueryContext(ctx, `SELECT `+keptColumns+` FROM calls`+of, chain, from, to, linkCall))
	if err != nil {
		return nil, err
	}
	_, err = rowsOf(func(s scanner) (none struct{}, err error) {
		a, err := readAct(s)
		out[[2]string{linkAct, a.ID}] = kept{digest: digest(linkAct, actNames, a.values())}
		return none, err
	})(v.tx.QueryContext(ctx, `SELECT `+actColumns+` FROM acts`+of, chain, from, to, linkAct))
	return out, err
}

// withMore scans a row that has more columns at its end.
type withMore struct {
	scanner
	more any
}

func (w withMore) Scan(to ...any) error { return w.scanner.Scan(append(to, w.more)...) }

// row checks the row of a link.
func (v *verifier) row(l *link, rows map[[2]string]kept) {
	found, there := rows[[2]string{l.kind, l.row}]
	p := AuditProblem{Table: l.kind, Row: l.row, Chain: l.chain, Seq: l.seq, At: fromMillis(l.at)}
	switch {
	case !there && l.at < v.before:
		v.Expired++
	case !there && l.person != "" && v.removed[l.person]:
		v.Removed++
	case !there:
		p.Kind = AuditMissing
		v.wrong(p)
	case found.digest != l.digest:
		p.Kind = AuditChanged
		v.wrong(p)
	case found.args == l.note:
		v.Rows++
	case found.args == "" && (l.at <= v.forgotten[forgetting{l.person, 0}] || l.at <= v.forgotten[forgetting{l.person, found.bot}]):
		v.Rows++
		v.Forgotten++
	default:
		p.Kind = AuditChanged
		v.wrong(p)
	}
}

// unlinked looks for rows that have no link.
func (v *verifier) unlinked(ctx context.Context, table string) error {
	from, args := table, []any{table}
	if v.newest > 0 {
		from, args = `(SELECT id, at FROM `+table+` ORDER BY at DESC LIMIT $2)`, append(args, v.newest)
	}
	rows, err := v.tx.QueryContext(ctx, `SELECT r.id, r.at FROM `+from+` r WHERE NOT EXISTS (SELECT 1 FROM audit_links l WHERE l.row_id = r.id AND l.kind = $1 AND `+linkStands+`)`, args...)
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
		case at < v.before: // it is about to be deleted
		case at <= v.begun && v.rest > 0:
			v.rest--
			v.Before++
		default:
			v.wrong(AuditProblem{Kind: AuditAdded, Table: table, Row: id, At: fromMillis(at)})
		}
	}
	return rows.Err()
}

// expect looks for a head that somebody has kept.
func (v *verifier) expect(ctx context.Context, chains []chainEnds, h AuditHead) error {
	found := ""
	for _, c := range chains {
		if c.head.chain == h.Chain && c.base == h.Seq {
			found = c.baseLink // the link itself has become old
		}
	}
	if found == "" {
		err := v.tx.QueryRowContext(ctx, `SELECT link FROM audit_links WHERE chain = $1 AND seq = $2`, h.Chain, h.Seq).Scan(&found)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	if found != h.Hash {
		v.wrong(AuditProblem{Kind: AuditHeadOff, Chain: h.Chain, Seq: h.Seq})
	}
	return nil
}
