package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"time"
)

// Call is the record of a tool call.
type Call struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Person string    `json:"person"` // owner of the tool
	// account that called, if not Person; "-": the operator of the machine
	Actor    string        `json:"actor,omitempty"`
	Address  string        `json:"address,omitempty"` // client IP address
	Key      string        `json:"key,omitempty"`
	Bot      int64         `json:"bot,omitempty"` // bot that called; 0: a program
	Turn     string        `json:"turn,omitempty"`
	Channel  string        `json:"channel"`
	Program  string        `json:"program,omitempty"` // name that the calling program reports
	Device   string        `json:"device,omitempty"`  // device id that the caller reports
	Provider string        `json:"provider"`
	Tool     string        `json:"tool"`
	Instance string        `json:"instance"`
	Took     time.Duration `json:"took"`
	Bytes    int64         `json:"bytes"` // size of the result

	Outcome string `json:"outcome"` // done, trouble (the tool failed), failed, refused, asked (input needed)
	Code    string `json:"code,omitempty"`
	Cause   string `json:"cause,omitempty"` // for the owner, without secrets

	// Args are the arguments as JSON, if the owner records them.
	Args string `json:"args,omitempty"`
}

// Calls accesses the table of call records, part of the audit trail.
type Calls struct{ db *DB }

const (
	callColumns = `id, at, person, key, bot, turn, channel, program, device, provider, tool, instance, took_us, bytes, outcome, code, cause, args, actor, address`
	// callRowColumns are the columns of an inserted row. They include the salt of the arguments'
	// digest, which is never returned to readers.
	callRowColumns = callColumns + `, args_salt`
	// callsPerInsert is the number of rows one statement inserts; more gain nothing. 32 × 21
	// parameters are well below the limits of both databases.
	callsPerInsert = 32
)

var callDigestNames = digestNames(callColumns)

// appendValues appends the column values of a call, in the order of callRowColumns.
func (c *Call) appendValues(to []any, salt string) []any {
	n := len(to)
	to = append(to, c.ID, millis(c.At), c.Person, c.Key, c.Bot, c.Turn, c.Channel, c.Program, c.Device, c.Provider,
		c.Tool, c.Instance,
		c.Took.Microseconds(), c.Bytes, c.Outcome, c.Code, c.Cause, nullString(c.Args), c.Actor, c.Address,
		nullString(salt))
	sanitizeArgs(to[n:])
	return to
}

// Add writes calls and appends audit links for those that did not exist yet. It skips calls of
// people who have been removed meanwhile. All others are durable when it returns.
func (t Calls) Add(ctx context.Context, calls []Call) error {
	single, err := t.db.preparedInsert(ctx, "calls", callRowColumns, 1)
	if err != nil {
		return err
	}
	several, err := t.db.preparedInsert(ctx, "calls", callRowColumns, callsPerInsert)
	if err != nil {
		return err
	}
	chain, err := t.db.preparedInsert(ctx, "audit_links", linkColumns, linksPerInsert)
	if err != nil {
		return err
	}
	add := func(atOnce int) error {
		return t.db.tx(ctx, func(tx *sql.Tx) error {
			calls, err := t.withoutRemovedPeople(ctx, tx, calls)
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
			return t.db.addLinks(ctx, tx, chain, links)
		})
	}
	err = add(callsPerInsert)
	if errors.Is(err, errSomeExist) {
		several = single
		err = add(1)
	}
	return err
}

// withoutRemovedPeople returns calls without those of people who no longer have an account.
func (t Calls) withoutRemovedPeople(ctx context.Context, tx *sql.Tx, calls []Call) ([]Call, error) {
	known := map[string]bool{}
	for i := range calls {
		person := calls[i].Person
		if _, asked := known[person]; asked {
			continue
		}
		lives, err := t.db.personExists(ctx, tx, person)
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

// errSomeExist reports that some of the calls of one multi-row statement exist already, as after a
// crash. They are then inserted one by one to find out which.
var errSomeExist = errors.New("some calls are there already")

// insertCalls inserts calls with a statement for rows at a time, and appends the links of those
// that did not exist yet.
func insertCalls(ctx context.Context, tx *sql.Tx, insert *sql.Stmt, rows int, calls []Call,
	links []link) ([]link, error) {
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
			return links, errSomeExist
		}
		for values := range slices.Chunk(args, len(args)/len(some)) {
			links = append(links, callLink(values))
		}
	}
	return links, nil
}

// newSalt returns a random salt for the digest of arguments, or "" if there are none.
func newSalt(args string) string {
	if args == "" {
		return ""
	}
	return rand.Text()
}

// callLink returns the audit link of a call with these column values.
func callLink(values []any) link {
	l := rowLink(linkCall, callDigestNames, values)
	l.person = ownerMark(values[2].(string))
	l.note = digestArgs(values[17].(sql.NullString).String, values[20].(sql.NullString).String)
	return l
}

func readCall(s scanner) (c Call, err error) {
	var (
		at, took int64
		args     sql.NullString
	)
	err = s.Scan(&c.ID, &at, &c.Person, &c.Key, &c.Bot, &c.Turn, &c.Channel, &c.Program, &c.Device, &c.Provider,
		&c.Tool, &c.Instance,
		&took, &c.Bytes, &c.Outcome, &c.Code, &c.Cause, &args, &c.Actor, &c.Address)
	c.At, c.Took, c.Args = fromMillis(at), micros(took), args.String
	return c, err
}

// Newest lists a person's calls, or all calls for an empty person, that began before the given
// time, newest first.
func (t Calls) Newest(ctx context.Context, person string, before time.Time, limit int) ([]Call, error) {
	return all(ctx, t.db, readCall, `SELECT `+callColumns+
		` FROM calls WHERE ($1 = '' OR person = $1) AND at < $2 ORDER BY at DESC, id DESC LIMIT $3`,
		person, millis(before), limit)
}

// ByID returns a call, or [ErrNotFound].
func (t Calls) ByID(ctx context.Context, id string) (Call, error) {
	return one(ctx, t.db, readCall, `SELECT `+callColumns+` FROM calls WHERE id = $1`, id)
}

// ByTurn lists the calls that a bot made in a turn, oldest first, at most 1,000.
func (t Calls) ByTurn(ctx context.Context, turn string) ([]Call, error) {
	return all(ctx, t.db, readCall, `SELECT `+callColumns+
		` FROM calls WHERE turn = $1 AND turn <> '' ORDER BY at, id LIMIT 1000`, turn)
}

// callsByTurns is without the indexes of persons and bots, which would be read to their end.
var callsByTurns = `SELECT ` + callColumns + ` FROM calls WHERE turn <> '' AND turn IN (` + inPlaceholders(1) + `)
	AND person || '' IN ($` + strconv.Itoa(inListSize+1) + `, $` + strconv.Itoa(inListSize+2) + `)
	AND bot + 0 = $` + strconv.Itoa(inListSize+3) + `
	ORDER BY at DESC, id DESC LIMIT 1000`

// ByTurns lists the calls that a bot made in some turns, of tools of its owner or of another
// person, by turn and oldest first. There are at most 1,000 for each inListSize turns, the newest.
func (t Calls) ByTurns(ctx context.Context, bot Bot, person string, turns []string) (map[string][]Call, error) {
	out := map[string][]Call{}
	for some := range slices.Chunk(turns, inListSize) {
		found, err := all(ctx, t.db, readCall, callsByTurns, append(inArgs(some), bot.Owner, person, bot.Number)...)
		if err != nil {
			return nil, err
		}
		for _, call := range slices.Backward(found) {
			out[call.Turn] = append(out[call.Turn], call)
		}
	}
	return out, nil
}
