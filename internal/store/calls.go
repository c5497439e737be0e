package store

import (
	"context"
	"crypto/rand"
	"database/sql"
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

// values are what is kept of a call, column by column.
func (c *Call) values(salt string) []any {
	return texts([]any{
		c.ID, millis(c.At), c.Person, c.Key, c.Bot, c.Turn, c.Door, c.Program, c.Device, c.Provider, c.Tool, c.Instance,
		c.Took.Microseconds(), c.Bytes, c.Outcome, c.Code, c.Cause, nullString(c.Args), c.Actor, c.Address, nullString(salt),
	})
}

// Add writes calls, and chains those that were not there yet. They are on the disk when it
// returns, but for those of people who were removed meanwhile, which are left out.
func (t Calls) Add(ctx context.Context, calls []Call) error {
	single, err := t.db.preparedInsert(ctx, "calls", keptColumns, 1, "id")
	if err != nil {
		return err
	}
	several, err := t.db.preparedInsert(ctx, "calls", keptColumns, callsAtOnce, "id")
	if err != nil {
		return err
	}
	chain, err := t.db.preparedInsert(ctx, "audit_links", linkColumns, linksAtOnce, "")
	if err != nil {
		return err
	}
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		calls, err := t.ofTheLiving(ctx, tx, calls)
		if err != nil {
			return err
		}
		whole := len(calls) - len(calls)%callsAtOnce
		links, err := insertCalls(ctx, tx, several, callsAtOnce, calls[:whole], nil)
		if err != nil {
			return err
		}
		if links, err = insertCalls(ctx, tx, single, 1, calls[whole:], links); err != nil {
			return err
		}
		return t.db.chain(ctx, tx, chain, links)
	})
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
			salt := ""
			if some[i].Args != "" {
				salt = rand.Text()
			}
			args = append(args, some[i].values(salt)...)
		}
		kept, err := insertedIDs(insert.QueryContext(ctx, args...))
		if err != nil {
			return links, err
		}
		for values := range slices.Chunk(args, len(args)/len(some)) {
			id := values[0].(string)
			if kept[id] {
				links = append(links, callLink(values))
			}
			delete(kept, id) // it may be twice in the batch
		}
	}
	return links, nil
}

// insertedIDs are those of the rows that a statement has inserted.
func insertedIDs(rows *sql.Rows, err error) (map[string]bool, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	ids := make(map[string]bool, callsAtOnce)
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids[id] = true
	}
	return ids, rows.Err()
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
	return all(ctx, t.db, readCall, `SELECT `+callColumns+` FROM calls WHERE turn = $1 ORDER BY at, id LIMIT 1000`, turn)
}
