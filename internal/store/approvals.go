package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
)

// Approval is a call of a tool that a person is asked about before it is carried out. A call is
// identified by its person, key, bot, tool and arguments.
type Approval struct {
	ID       string    `json:"id"`     // hard to guess
	Person   string    `json:"person"` // whose tool it is, and who decides
	Key      string    `json:"key,omitempty"`
	Bot      int64     `json:"bot,omitempty"`
	Caller   string    `json:"caller"`            // name of the key or of the bot
	Program  string    `json:"program,omitempty"` // as the program says
	Tool     string    `json:"tool"`              // full name
	Title    string    `json:"title"`             // of the tool, or its name; for people
	Provider string    `json:"provider"`          // title of the tool's provider
	Args     string    `json:"args,omitempty"`    // empty once it is decided
	ArgsHash string    `json:"-"`
	State    string    `json:"state"`                // one of the Approval… constants
	By       string    `json:"decided_by,omitempty"` // who decided: see [Approvals.Decide]
	Asked    time.Time `json:"asked_at"`
	// Kind is empty for a call that the rules of its key want approved, and else what its provider
	// asks about: package tool. Device is the id of the device that asks.
	Kind    string    `json:"kind,omitempty"`
	Device  string    `json:"device,omitempty"`
	Always  bool      `json:"always,omitempty"` // allowed, with those like it
	Expires time.Time `json:"expires_at"`       // when the question, or the decision, ends to be valid
}

// States of approvals.
const (
	ApprovalWaiting = "waiting"
	ApprovalAllowed = "allowed" // and not yet used
	ApprovalDenied  = "denied"
	ApprovalUsed    = "used" // the call was carried out
)

// ErrTooMany means that a limit on the number of rows is reached.
var ErrTooMany = errors.New("there are too many")

// isWaiting is the condition of calls that wait. Those of keys that were revoked do not.
const isWaiting = `state = '` + ApprovalWaiting + `' AND NOT EXISTS (
	SELECT 1 FROM keys k WHERE k.id = approvals.key AND k.revoked_at IS NOT NULL)`

// Approvals accesses the table of approvals.
type Approvals struct{ db *DB }

const approvalColumns = `id, person, key, bot, caller, program, tool, title, provider, args, args_hash, state,
	decided_by, asked_at, expires_at, kind, device, always`

func readApproval(s scanner) (a Approval, err error) {
	var asked, expires int64
	err = s.Scan(&a.ID, &a.Person, &a.Key, &a.Bot, &a.Caller, &a.Program, &a.Tool, &a.Title, &a.Provider, &a.Args,
		&a.ArgsHash, &a.State, &a.By, &asked, &expires, &a.Kind, &a.Device, &a.Always)
	a.Asked, a.Expires = fromMillis(asked), fromMillis(expires)
	return a, err
}

// Ask stores a call that waits, unless it waits already or is decided and the decision is valid,
// and returns what is stored. Asked reports whether it is new. The error is [ErrTooMany] if most
// calls of the person wait, or mostOfCaller of the key or bot.
func (t Approvals) Ask(ctx context.Context, a Approval, most, mostOfCaller int) (stored Approval, asked bool,
	err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) error {
		// Holding the person's row, two instances do not both add the last one.
		if err := changed(tx.ExecContext(ctx, `UPDATE people SET name = name WHERE id = $1`, a.Person)); err != nil {
			return err
		}
		stored, err = readApproval(tx.QueryRowContext(ctx, `SELECT `+approvalColumns+` FROM approvals
			WHERE person = $1 AND key = $2 AND bot = $3 AND tool = $4 AND args_hash = $5 AND state <> '`+ApprovalUsed+`'
			AND expires_at > $6`, a.Person, a.Key, a.Bot, a.Tool, a.ArgsHash, millis(a.Asked)))
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var waiting, ofCaller int
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(SUM(CASE WHEN key = $3 AND bot = $4 THEN 1 ELSE 0 END), 0)
			FROM approvals WHERE person = $1 AND `+isWaiting+` AND expires_at > $2`, a.Person, millis(a.Asked), a.Key,
			a.Bot).Scan(&waiting, &ofCaller); err != nil {
			return err
		}
		if waiting >= most || ofCaller >= mostOfCaller {
			return ErrTooMany
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM approvals WHERE person = $1 AND key = $2 AND bot = $3
			AND tool = $4 AND args_hash = $5`, a.Person, a.Key, a.Bot, a.Tool, a.ArgsHash); err != nil {
			return err
		}
		a.State = ApprovalWaiting
		asked, stored = true, a
		_, err := tx.ExecContext(ctx, `INSERT INTO approvals (`+approvalColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, '', $13, $14, $15, $16, FALSE)`, a.ID, a.Person, a.Key, a.Bot,
			a.Caller, a.Program, a.Tool, a.Title, a.Provider, a.Args, a.ArgsHash, a.State, millis(a.Asked),
			millis(a.Expires), a.Kind, a.Device)
		return err
	})
	return stored, asked, err
}

// ByID returns an approval. A call that was not decided in time is not returned.
func (t Approvals) ByID(ctx context.Context, id string, now time.Time) (Approval, error) {
	return one(ctx, t.db, readApproval, `SELECT `+approvalColumns+` FROM approvals WHERE id = $1 AND expires_at > $2`,
		id, millis(now))
}

// Waiting lists the calls that wait for a person, or for anybody if person is empty, the oldest
// first; at most 100.
func (t Approvals) Waiting(ctx context.Context, person string, now time.Time) ([]Approval, error) {
	return all(ctx, t.db, readApproval, `SELECT `+approvalColumns+` FROM approvals WHERE ($1 = '' OR person = $1)
		AND `+isWaiting+` AND expires_at > $2 ORDER BY asked_at, id LIMIT 100`, person, millis(now))
}

// CountWaiting returns how many calls wait for a person.
func (t Approvals) CountWaiting(ctx context.Context, person string, now time.Time) (int, error) {
	n, err := one(ctx, t.db, readNumber, `SELECT COUNT(*) FROM approvals WHERE person = $1 AND `+isWaiting+
		` AND expires_at > $2`, person, millis(now))
	return int(n), err
}

// Spoken is the title without arguments: what a provider asks about is a command line, which may
// have secrets in it.
func (a *Approval) Spoken() string {
	if words := strings.Fields(a.Title); a.Kind != "" && len(words) > 1 {
		return words[0]
	}
	return a.Title
}

// Decide allows, once or always, or denies a call that waits, until expires, and forgets its
// arguments; of the title, it keeps this. By says who has decided, and where. The error is
// [ErrNotFound] if it does not wait any more.
func (t Approvals) Decide(ctx context.Context, id, state string, always bool, by, title string,
	now, expires time.Time) error {
	return t.db.execOne(ctx, `UPDATE approvals SET state = $1, decided_by = $2, args = '', expires_at = $3,
		always = $6, title = $7 WHERE id = $4 AND `+isWaiting+` AND expires_at > $5`, state, by, millis(expires), id,
		millis(now), always, title)
}

// Use records that an allowed call is carried out. The error is [ErrNotFound] if it is not allowed,
// or was carried out already.
func (t Approvals) Use(ctx context.Context, id string, now time.Time) error {
	return t.db.execOne(ctx, `UPDATE approvals SET state = '`+ApprovalUsed+`' WHERE id = $1 AND state = '`+
		ApprovalAllowed+`' AND expires_at > $2`, id, millis(now))
}

// Reopen allows a call once more until expires, because its provider has asked something before it
// carries it out.
func (t Approvals) Reopen(ctx context.Context, id string, expires time.Time) error {
	return t.db.execOne(ctx, `UPDATE approvals SET state = '`+ApprovalAllowed+`', expires_at = $1 WHERE id = $2
		AND state = '`+ApprovalUsed+`'`, millis(expires), id)
}
