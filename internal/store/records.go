package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Wrong, as the outcome of turns and calls that are looked for, means all that did not
// bring what was wanted.
const Wrong = "wrong"

// Place is where on a list of records somebody is: behind the one that began at a time.
// The zero Place is before all of them.
type Place struct {
	At time.Time
	ID string // of the call or turn
}

// TraceFilter says which traces are looked for. What is empty excludes nothing.
type TraceFilter struct {
	Owner       string
	Bot         int64
	Door        string
	Outcome     string    // or Wrong
	From, Until time.Time // when it began; Until itself is too late
	After       Place
}

// CallFilter says which calls are looked for. What is empty excludes nothing.
type CallFilter struct {
	Person      string
	Tool        string // * stands for any text
	Key         string
	Bot         int64
	Outcome     string // or Wrong
	From, Until time.Time
	After       Place
}

// where puts conditions together. There are as many texts as there are combinations,
// which are few.
type where struct {
	conditions []string
	args       []any
}

// and adds a condition in which each ? stands for one of the arguments.
func (w *where) and(given bool, condition string, args ...any) {
	if !given {
		return
	}
	for _, arg := range args {
		w.args = append(w.args, arg)
		condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(w.args)), 1)
	}
	w.conditions = append(w.conditions, condition)
}

// between adds when a record began, and which one was listed before it.
func (w *where) between(from, until time.Time, after Place, id string) {
	w.and(!from.IsZero(), "at >= ?", millis(from))
	w.and(!until.IsZero(), "at < ?", millis(until))
	w.and(after != Place{}, "at <= ? AND (at < ? OR "+id+" < ?)", millis(after.At), millis(after.At), after.ID)
}

// page is the rest of a query for the newest rows.
func (w *where) page(id string, limit int) string {
	text := ""
	if len(w.conditions) > 0 {
		text = " WHERE " + strings.Join(w.conditions, " AND ")
	}
	w.args = append(w.args, limit)
	return text + " ORDER BY at DESC, " + id + " DESC LIMIT $" + strconv.Itoa(len(w.args))
}

// Find lists traces, newest first.
func (t Traces) Find(ctx context.Context, f TraceFilter, limit int) ([]Trace, error) {
	query, args := f.query(limit)
	return all(ctx, t.db, readTrace, query, args...)
}

func (f *TraceFilter) query(limit int) (string, []any) {
	var w where
	w.and(f.Owner != "", "owner = ?", f.Owner)
	w.and(f.Bot != 0, "bot = ?", f.Bot)
	w.and(f.Door != "", "door = ?", f.Door)
	w.and(f.Outcome != "" && f.Outcome != "done", "outcome <> 'done'") // as an index has it
	w.and(f.Outcome != "" && f.Outcome != Wrong, "outcome = ?", f.Outcome)
	w.between(f.From, f.Until, f.After, "turn")
	rest := w.page("turn", limit)
	return `SELECT ` + traceColumns + ` FROM traces` + rest, w.args
}

// fewTools is how many tools that a pattern stands for are looked for one by one.
const fewTools = 64

// Find lists calls, newest first.
func (t Calls) Find(ctx context.Context, f CallFilter, limit int) ([]Call, error) {
	// Without another index to go by, the calls of rare tools would be looked for among all.
	if strings.Contains(f.Tool, "*") && f.Person != "" && f.Key == "" && f.Bot == 0 {
		tools, err := t.toolsLike(ctx, f.Person, f.Tool)
		if err != nil {
			return nil, err
		}
		if len(tools) <= fewTools {
			return t.findAny(ctx, f, tools, limit)
		}
	}
	return t.find(ctx, f, limit)
}

// toolsLike lists the tools that a person's calls were of and for which a pattern stands.
func (t Calls) toolsLike(ctx context.Context, person, pattern string) ([]string, error) {
	// From each tool it goes to the next one by the index.
	return all(ctx, t.db, func(s scanner) (tool string, err error) { return tool, s.Scan(&tool) }, `WITH RECURSIVE known (tool) AS (
		SELECT MIN(tool) FROM calls WHERE person = $1
		UNION ALL SELECT (SELECT MIN(c.tool) FROM calls c WHERE c.person = $1 AND c.tool > known.tool) FROM known WHERE known.tool IS NOT NULL
	) SELECT tool FROM known WHERE tool LIKE $2 ESCAPE '\'`, person, like(pattern))
}

// findAny finds calls of any of some tools, newest first.
func (t Calls) findAny(ctx context.Context, f CallFilter, tools []string, limit int) ([]Call, error) {
	var found []Call
	for _, tool := range tools {
		f.Tool = tool
		of, err := t.find(ctx, f, limit)
		if err != nil {
			return nil, err
		}
		found = append(found, of...)
	}
	slices.SortFunc(found, func(a, b Call) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(b.ID, a.ID)) })
	return found[:min(len(found), limit)], nil
}

func (t Calls) find(ctx context.Context, f CallFilter, limit int) ([]Call, error) {
	query, args := f.query(limit)
	return all(ctx, t.db, readCall, query, args...)
}

func (f *CallFilter) query(limit int) (string, []any) {
	var w where
	w.and(f.Person != "", "person = ?", f.Person)
	w.and(f.Tool != "" && !strings.Contains(f.Tool, "*"), "tool = ?", f.Tool)
	w.and(strings.Contains(f.Tool, "*"), `tool LIKE ? ESCAPE '\'`, like(f.Tool))
	w.and(f.Key != "", "key = ? AND key <> ''", f.Key)                 // as an index has it
	w.and(f.Bot != 0, "bot = ? AND bot <> 0", f.Bot)                   // and this
	w.and(f.Outcome != "" && f.Outcome != "done", "outcome <> 'done'") // and this
	w.and(f.Outcome == Wrong, "outcome <> 'asked'")
	w.and(f.Outcome != "" && f.Outcome != Wrong, "outcome = ?", f.Outcome)
	w.between(f.From, f.Until, f.After, "id")
	rest := w.page("id", limit)
	return `SELECT ` + callColumns + ` FROM calls` + rest, w.args
}

// like is a pattern with stars as SQL has it.
func like(pattern string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`).Replace(pattern)
}

// TurnCount is how many turns of one outcome there were in a span.
type TurnCount struct {
	Span    int64
	Outcome string
	Turns   int64
}

// Counts counts an owner's turns (everybody's for an empty owner) in spans of time from
// some time on.
func (t Traces) Counts(ctx context.Context, owner string, from, until time.Time, span time.Duration) ([]TurnCount, error) {
	w := spans(owner, "owner", from, until, span)
	return all(ctx, t.db, func(s scanner) (c TurnCount, err error) {
		return c, s.Scan(&c.Span, &c.Outcome, &c.Turns)
	}, `SELECT (at - $1) / $2, outcome, COUNT(*) FROM traces WHERE `+strings.Join(w.conditions, " AND ")+` GROUP BY 1, 2 ORDER BY 1, 2`, w.args...)
}

// Latency is how long first pieces took in a span.
type Latency struct {
	Span  int64
	Turns int64
	Half  time.Duration // of half of the turns, at most
	Most  time.Duration // of nineteen in twenty
}

// Latencies tells how long an owner's turns (everybody's for an empty owner) took to
// their first pieces, in spans of time. Turns without a piece do not count.
func (t Traces) Latencies(ctx context.Context, owner string, from, until time.Time, span time.Duration) ([]Latency, error) {
	w := spans(owner, "owner", from, until, span)
	return all(ctx, t.db, func(s scanner) (l Latency, err error) {
		var half, most int64
		err = s.Scan(&l.Span, &l.Turns, &half, &most)
		l.Half, l.Most = micros(half), micros(most)
		return l, err
	}, `SELECT span, COUNT(*), MAX(CASE WHEN place <= (turns + 1) / 2 THEN first_us END), MAX(CASE WHEN place <= (turns * 95 + 99) / 100 THEN first_us END) FROM (
		SELECT (at - $1) / $2 AS span, first_us, ROW_NUMBER() OVER (PARTITION BY (at - $1) / $2 ORDER BY first_us) AS place,
			COUNT(*) OVER (PARTITION BY (at - $1) / $2) AS turns
		FROM traces WHERE first_us > 0 AND `+strings.Join(w.conditions, " AND ")+`) ranked GROUP BY span ORDER BY span`, w.args...)
}

// SpanCount is how many of something there were in a span.
type SpanCount struct{ Span, Count int64 }

// Wrongs counts a person's calls (everybody's for an empty person) that brought no good
// result, in spans of time.
func (t Calls) Wrongs(ctx context.Context, person string, from, until time.Time, span time.Duration) ([]SpanCount, error) {
	w := spans(person, "person", from, until, span)
	return all(ctx, t.db, func(s scanner) (c SpanCount, err error) {
		return c, s.Scan(&c.Span, &c.Count)
	}, `SELECT (at - $1) / $2, COUNT(*) FROM calls WHERE outcome <> 'done' AND outcome <> 'asked' AND `+strings.Join(w.conditions, " AND ")+` GROUP BY 1 ORDER BY 1`, w.args...)
}

// spans are the conditions of a query about spans of time: $1 is where they begin and $2
// how long they are.
func spans(whose, column string, from, until time.Time, span time.Duration) *where {
	w := &where{args: []any{millis(from), span.Milliseconds()}, conditions: []string{"at >= $1"}}
	w.and(true, "at < ?", millis(until))
	w.and(whose != "", column+" = ?", whose)
	return w
}

// forgetAhead is how far the clock of another instance may be ahead: the arguments of its
// newest calls are to go too.
const forgetAhead = time.Minute

// Forget deletes an owner's traces, those of one bot if it is not 0, and returns how
// many there were.
func (t Traces) Forget(ctx context.Context, owner string, bot int64) (int64, error) {
	return t.db.eachOf(ctx, `SELECT turn, at FROM traces WHERE owner = $1 AND ($2 = 0 OR bot = $2) AND at >= $3 AND (at > $3 OR turn > $4) ORDER BY at, turn LIMIT $5`,
		`DELETE FROM traces WHERE turn IN`, owner, bot)
}

// ForgetSaid takes what was said out of an owner's traces, of those of one bot if it is
// not 0.
func (t Traces) ForgetSaid(ctx context.Context, owner string, bot int64) error {
	_, err := t.db.eachOf(ctx, `SELECT turn, at FROM traces WHERE owner = $1 AND ($2 = 0 OR bot = $2) AND at >= $3 AND (at > $3 OR turn > $4)
		AND (question IS NOT NULL OR answer IS NOT NULL) ORDER BY at, turn LIMIT $5`, `UPDATE traces SET question = NULL, answer = NULL WHERE turn IN`, owner, bot)
	return err
}

// Forget deletes what was said with an owner's bots, or with one of them, and returns how
// many exchanges there were. The bots are not told of them again.
func (t Conversations) Forget(ctx context.Context, owner string, bot int64) (int64, error) {
	if _, err := t.db.exec(ctx, `DELETE FROM pages WHERE bot IN (SELECT number FROM bots WHERE owner = $1 AND ($2 = 0 OR number = $2))`, owner, bot); err != nil {
		return 0, err
	}
	return t.db.piecemeal(ctx, `DELETE FROM exchanges WHERE turn IN (SELECT turn FROM exchanges WHERE bot IN (
		SELECT number FROM bots WHERE owner = $1 AND ($2 = 0 OR number = $2)) LIMIT $3)`, owner, bot)
}

// ForgetArgs takes the arguments out of a person's calls, of those that one bot made if
// it is not 0, and returns how many had some. That they were made stays.
func (t Calls) ForgetArgs(ctx context.Context, person string, bot int64) (int64, error) {
	until := millis(time.Now().Add(forgetAhead))
	err := t.db.tx(ctx, func(tx *sql.Tx) error {
		return t.db.chainNote(ctx, tx, linkArgs, person, linkNote{Bot: bot, Until: until})
	})
	if err != nil {
		return 0, err
	}
	return t.db.eachOf(ctx, `SELECT id, at FROM calls WHERE person = $1 AND ($2 = 0 OR bot = $2) AND at <= $3 AND at >= $4 AND (at > $4 OR id > $5)
		AND args IS NOT NULL ORDER BY at, id LIMIT $6`, `UPDATE calls SET args = NULL, args_salt = NULL WHERE id IN`, person, bot, until)
}
