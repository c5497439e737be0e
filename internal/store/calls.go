package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"
)

// Call is the record of one call of a tool.
type Call struct {
	ID       string        `json:"id"`
	At       time.Time     `json:"at"`
	Person   string        `json:"person"`            // whose tool it is
	Actor    string        `json:"actor,omitempty"`   // who called, if not Person; "-": whoever runs the machine
	Address  string        `json:"address,omitempty"` // from which the call came
	Key      string        `json:"key,omitempty"`
	Bot      int64         `json:"bot,omitempty"` // that called; 0: a program did
	Turn     string        `json:"turn,omitempty"`
	Door     string        `json:"door"`
	Program  string        `json:"program,omitempty"` // as the caller calls itself
	Device   string        `json:"device,omitempty"`  // as the caller calls itself
	Provider string        `json:"provider"`
	Tool     string        `json:"tool"`
	Instance string        `json:"instance"`
	Took     time.Duration `json:"took"`
	Bytes    int64         `json:"bytes"` // of the result

	Outcome string `json:"outcome"` // done, trouble (the tool failed), failed, refused, asked (for more)
	Code    string `json:"code,omitempty"`
	Cause   string `json:"cause,omitempty"` // for the owner, without secrets

	// Args, if the owner wants them kept.
	Args string `json:"args,omitempty"`
}

// Calls is the table of calls, the audit trail.
type Calls struct{ db *DB }

const (
	callColumns = `id, at, person, key, bot, turn, door, program, device, provider, tool, instance, took_us, bytes, outcome, code, cause, args, actor, address`
	// keptColumns are those of a row that is written: what the digest of the arguments is
	// made with is for nobody to read.
	keptColumns = callColumns + `, args_salt`
	// callsAtOnce is how many rows one statement inserts; more gain nothing. 32 × 21
	// parameters are well below what either database takes.
	callsAtOnce = 32
)

var callNames = strings.Split(callColumns, ", ")

// appendValues appends what is kept of a call, column by column.
func (c *Call) appendValues(to []any, salt string) []any {
	n := len(to)
	to = append(to, c.ID, millis(c.At), c.Person, c.Key, c.Bot, c.Turn, c.Door, c.Program, c.Device, c.Provider, c.Tool, c.Instance,
		c.Took.Microseconds(), c.Bytes, c.Outcome, c.Code, c.Cause, nullString(c.Args), c.Actor, c.Address, nullString(salt))
	texts(to[n:])
	return to
}

// Add writes calls, and chains those that were not there yet. They are on the disk when it
// returns, but for those of people who were removed meanwhile, which are left out.
func (t Calls) Add(ctx context.Context, calls []Call) error {
	single, err := t.db.preparedInsert(ctx, "calls", keptColumns, 1)
	if err != nil {
		return err
	}
	several, err := t.db.preparedInsert(ctx, "calls", keptColumns, callsAtOnce)
	if err != nil {
		return err
	}
	chain, err := t.db.preparedInsert(ctx, "audit_links", linkColumns, linksAtOnce)
	if err != nil {
		return err
	}
	add := func(atOnce int) error {
		return t.db.tx(ctx, func(tx *sql.Tx) error {
			calls, err := t.ofTheLiving(ctx, tx, calls)
			if err != nil {
				return err
			}
			whole := len(calls) - len(calls)%atOnce
			links := make([]link, 0, len(calls))
			if links, err = insertCalls(ctx, tx, several, atOnce, calls[:whole], links); err != nil {
				return err
			}
			if links, err = insertCalls(ctx, tx, single, 1, calls[whole:], links); err != nil {
				return err
			}
			return t.db.chain(ctx, tx, chain, links)
		})
	}
	err = add(callsAtOnce)
	if errors.Is(err, errSomeThere) {
		several = single
		err = add(1)
	}
	return err
}

// ofTheLiving are calls without those of people who have no account any more.
func (t Calls) ofTheLiving(ctx context.Context, tx *sql.Tx, calls []Call) ([]Call, error) {
	known := map[string]bool{}
	for i := range calls {
		person := calls[i].Person
		if _, asked := known[person]; asked {
			continue
		}
		lives, err := t.db.lives(ctx, tx, person)
		if err != nil {
			return nil, err
		}
		known[person] = lives
	}
	gone := func(c Call) bool { return !known[c.Person] }
	if !slices.ContainsFunc(calls, gone) {
		return calls, nil
	}
	return slices.DeleteFunc(slices.Clone(calls), gone), nil
}

// errSomeThere says that of some calls that one statement inserts a few are there already,
// as after the death of a process. Which ones is found out one by one.
var errSomeThere = errors.New("some calls are there already")

// insertCalls inserts calls with a statement that takes some at a time, and appends the
// links of those that were not there yet.
func insertCalls(ctx context.Context, tx *sql.Tx, insert *sql.Stmt, rows int, calls []Call, links []link) ([]link, error) {
	if len(calls) == 0 {
		return links, nil
	}
	insert = tx.StmtContext(ctx, insert)
	var args []any
	for some := range slices.Chunk(calls, rows) {
		args = args[:0]
		for i := range some {
			args = some[i].appendValues(args, newSalt(some[i].Args))
		}
		n, err := affected(insert.ExecContext(ctx, args...))
		switch {
		case err != nil:
			return links, err
		case n == 0:
			continue
		case n < int64(len(some)):
			return links, errSomeThere
		}
		for values := range slices.Chunk(args, len(args)/len(some)) {
			links = append(links, callLink(values))
		}
	}
	return links, nil
}

// newSalt is what the digest of arguments is made with, if there are some.
func newSalt(args string) string {
	if args == "" {
		return ""
	}
	return rand.Text()
}

// callLink is the link of a call that is kept with some values.
func callLink(values []any) link {
	l := rowLink(linkCall, callNames, values)
	l.person = ownerMark(values[2].(string))
	l.note = digestArgs(values[17].(sql.NullString).String, values[20].(sql.NullString).String)
	return l
}

func readCall(s scanner) (c Call, err error) {
	var (
		at, took int64
		args     sql.NullString
	)
	err = s.Scan(&c.ID, &at, &c.Person, &c.Key, &c.Bot, &c.Turn, &c.Door, &c.Program, &c.Device, &c.Provider, &c.Tool, &c.Instance,
		&took, &c.Bytes, &c.Outcome, &c.Code, &c.Cause, &args, &c.Actor, &c.Address)
	c.At, c.Took, c.Args = fromMillis(at), micros(took), args.String
	return c, err
}

// Newest lists a person's newest calls (everybody's for an empty person) that
// began before the given time, newest first.
func (t Calls) Newest(ctx context.Context, person string, before time.Time, limit int) ([]Call, error) {
	return all(ctx, t.db, readCall, `SELECT `+callColumns+` FROM calls WHERE ($1 = '' OR person = $1) AND at < $2 ORDER BY at DESC, id DESC LIMIT $3`,
		person, millis(before), limit)
}

// ByTurn lists the calls that a bot made in a turn, oldest first.
func (t Calls) ByTurn(ctx context.Context, turn string) ([]Call, error) {
	return all(ctx, t.db, readCall, `SELECT `+callColumns+` FROM calls WHERE turn = $1 AND turn <> '' ORDER BY at, id LIMIT 1000`, turn)
}
