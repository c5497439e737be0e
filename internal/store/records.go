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

// Wrong selects, as the outcome in a filter, all turns and calls that did not succeed.
const Wrong = "wrong"

// RecordCursor is a position in a list of records: after the one that began at a time. The zero
// value is the beginning.
type RecordCursor struct {
	At time.Time
	ID string // id of the call or turn
}

// TraceFilter selects traces. Empty fields match all.
type TraceFilter struct {
	Owner       string
	Bot         int64
	Channel     string
	Outcome     string    // an outcome, or Wrong
	From, Until time.Time // start time, from From to before Until
	Recorded    bool      // only turns with a recording
	After       RecordCursor
}

// CallFilter selects calls. Empty fields match all.
type CallFilter struct {
	Person      string
	Tool        string // * matches any text
	Key         string
	Bot         int64
	Outcome     string // an outcome, or Wrong
	From, Until time.Time
	After       RecordCursor
}

// where builds a WHERE clause. The number of texts is bounded by the combinations of filters.
type where struct {
	conditions []string
	args       []any
}

// and adds a condition, if given, in which each ? stands for one of the arguments.
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

// between adds conditions on the time range and the cursor.
func (w *where) between(from, until time.Time, after RecordCursor, id string) {
	w.and(!from.IsZero(), "at >= ?", millis(from))
	w.and(!until.IsZero(), "at < ?", millis(until))
	w.and(after != RecordCursor{}, "at <= ? AND (at < ? OR "+id+" < ?)", millis(after.At), millis(after.At), after.ID)
}

// page returns the rest of a query for the newest rows.
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
	w.and(f.Channel != "", "channel = ?", f.Channel)
	w.and(f.Outcome != "" && f.Outcome != "done", "outcome <> 'done'") // the condition of a partial index
	w.and(f.Outcome != "" && f.Outcome != Wrong, "outcome = ?", f.Outcome)
	w.between(f.From, f.Until, f.After, "turn")
	from := ` FROM traces`
	if f.Recorded {
		// SQLite reads the left side of a cross join first: there are few recordings.
		from = ` FROM (SELECT turn AS recorded FROM recordings) AS r CROSS JOIN traces`
		w.and(true, "turn = recorded")
	}
	rest := w.page("turn", limit)
	return `SELECT ` + traceColumns + from + rest, w.args
}

// maxToolQueries is the number of tools matching a pattern up to which they are queried one by one.
const maxToolQueries = 64

// Find lists calls, newest first.
func (t Calls) Find(ctx context.Context, f CallFilter, limit int) ([]Call, error) {
	// Otherwise, without a more selective index, the calls of rare tools would be searched among
	// all.
	if strings.Contains(f.Tool, "*") && f.Person != "" && f.Key == "" && f.Bot == 0 {
		tools, err := t.toolsLike(ctx, f.Person, f.Tool)
		if err != nil {
			return nil, err
		}
		if len(tools) <= maxToolQueries {
			return t.findAny(ctx, f, tools, limit)
		}
	}
	return t.find(ctx, f, limit)
}

// toolsLike lists the tools, matching a pattern, that a person's calls used.
func (t Calls) toolsLike(ctx context.Context, person, pattern string) ([]string, error) {
	// A loose index scan: each step jumps to the next tool.
	return all(ctx, t.db, func(s scanner) (tool string, err error) { return tool, s.Scan(&tool) },
		`WITH RECURSIVE known (tool) AS (
		SELECT MIN(tool) FROM calls WHERE person = $1
		UNION ALL SELECT (SELECT MIN(c.tool) FROM calls c WHERE c.person = $1 AND c.tool > known.tool) FROM known WHERE known.tool IS NOT NULL
	) SELECT tool FROM known WHERE tool LIKE $2 ESCAPE '\'`, person, likePattern(pattern))
}

// findAny lists calls of several tools, newest first.
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
	w.and(strings.Contains(f.Tool, "*"), `tool LIKE ? ESCAPE '\'`, likePattern(f.Tool))
	w.and(f.Key != "", "key = ? AND key <> ''", f.Key)                 // the condition of a partial index
	w.and(f.Bot != 0, "bot = ? AND bot <> 0", f.Bot)                   // likewise
	w.and(f.Outcome != "" && f.Outcome != "done", "outcome <> 'done'") // likewise
	w.and(f.Outcome == Wrong, "outcome <> 'asked'")
	w.and(f.Outcome != "" && f.Outcome != Wrong, "outcome = ?", f.Outcome)
	w.between(f.From, f.Until, f.After, "id")
	rest := w.page("id", limit)
	return `SELECT ` + callColumns + ` FROM calls` + rest, w.args
}

// likePattern converts a pattern with stars to a LIKE pattern.
func likePattern(pattern string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`).Replace(pattern)
}

// TurnCount is the number of turns with an outcome in a span of time.
type TurnCount struct {
	Span    int64
	Outcome string
	Turns   int64
}

// Counts counts an owner's turns, or all turns for an empty owner, by span and outcome, from one
// time to another.
func (t Traces) Counts(ctx context.Context, owner string, from, until time.Time,
	span time.Duration) ([]TurnCount, error) {
	w := spanConditions(owner, "owner", from, until, span)
	return all(ctx, t.db, func(s scanner) (c TurnCount, err error) {
		return c, s.Scan(&c.Span, &c.Outcome, &c.Turns)
	}, `SELECT (at - $1) / $2, outcome, COUNT(*) FROM traces WHERE `+strings.Join(w.conditions, " AND ")+
		` GROUP BY 1, 2 ORDER BY 1, 2`, w.args...)
}

// Latency is the distribution of the time to the first piece in a span.
type Latency struct {
	Span   int64
	Turns  int64
	Median time.Duration // 50th percentile
	P95    time.Duration // 95th percentile
}

// Latencies returns the times to the first piece of an owner's turns, or of all turns for an empty
// owner, by span. Turns without a piece do not count.
func (t Traces) Latencies(ctx context.Context, owner string, from, until time.Time,
	span time.Duration) ([]Latency, error) {
	w := spanConditions(owner, "owner", from, until, span)
	return all(ctx, t.db, func(s scanner) (l Latency, err error) {
		var half, most int64
		err = s.Scan(&l.Span, &l.Turns, &half, &most)
		l.Median, l.P95 = micros(half), micros(most)
		return l, err
	}, `SELECT span, COUNT(*), MAX(CASE WHEN place <= (turns + 1) / 2 THEN first_us END), MAX(CASE WHEN place <= (turns * 95 + 99) / 100 THEN first_us END) FROM (
		SELECT (at - $1) / $2 AS span, first_us, ROW_NUMBER() OVER (PARTITION BY (at - $1) / $2 ORDER BY first_us) AS place,
			COUNT(*) OVER (PARTITION BY (at - $1) / $2) AS turns
		FROM traces WHERE first_us > 0 AND `+strings.Join(w.conditions, " AND ")+`) ranked GROUP BY span ORDER BY span`, w.args...)
}

// SpanCount is a number of records in a span.
type SpanCount struct{ Span, Count int64 }

// CountFailed counts a person's unsuccessful calls, or all for an empty person, by span.
func (t Calls) CountFailed(ctx context.Context, person string, from, until time.Time,
	span time.Duration) ([]SpanCount, error) {
	w := spanConditions(person, "person", from, until, span)
	return all(ctx, t.db, func(s scanner) (c SpanCount, err error) {
		return c, s.Scan(&c.Span, &c.Count)
	}, `SELECT (at - $1) / $2, COUNT(*) FROM calls WHERE outcome <> 'done' AND outcome <> 'asked' AND `+
		strings.Join(w.conditions, " AND ")+` GROUP BY 1 ORDER BY 1`, w.args...)
}

// spanConditions returns the conditions of a query grouped by spans: $1 is the beginning and $2 the
// length of a span, in milliseconds.
func spanConditions(whose, column string, from, until time.Time, span time.Duration) *where {
	w := &where{args: []any{millis(from), span.Milliseconds()}, conditions: []string{"at >= $1"}}
	w.and(true, "at < ?", millis(until))
	w.and(whose != "", column+" = ?", whose)
	return w
}

// maxClockSkew is how far the clock of another instance may be ahead, so that the arguments of its
// newest calls are deleted too.
const maxClockSkew = time.Minute

// Forget deletes an owner's traces, only those of one bot if it is not 0, and returns their number.
func (t Traces) Forget(ctx context.Context, owner string, bot int64) (int64, error) {
	return t.db.updateInPages(ctx,
		`SELECT turn, at FROM traces WHERE owner = $1 AND ($2 = 0 OR bot = $2) AND at >= $3 AND (at > $3 OR turn > $4) ORDER BY at, turn LIMIT $5`,
		`DELETE FROM traces WHERE turn IN`, owner, bot)
}

// ForgetSaid deletes questions and answers from an owner's traces, only from those of one bot if it
// is not 0.
func (t Traces) ForgetSaid(ctx context.Context, owner string, bot int64) error {
	_, err := t.db.updateInPages(ctx,
		`SELECT turn, at FROM traces WHERE owner = $1 AND ($2 = 0 OR bot = $2) AND at >= $3 AND (at > $3 OR turn > $4)
		AND (question IS NOT NULL OR answer IS NOT NULL) ORDER BY at, turn LIMIT $5`, `UPDATE traces SET question = NULL, answer = NULL WHERE turn IN`, owner, bot)
	return err
}

// Forget deletes the conversation history with an owner's bots, and the owner's with bots of
// others, or that with one bot if it is not 0, and returns the number of exchanges. Bots no longer
// get it as context.
func (t Conversations) Forget(ctx context.Context, owner string, bot int64) (int64, error) {
	if _, err := t.db.exec(ctx,
		`DELETE FROM pages WHERE bot IN (SELECT number FROM bots WHERE owner = $1 AND ($2 = 0 OR number = $2))`, owner,
		bot); err != nil {
		return 0, err
	}
	if _, err := t.db.exec(ctx, `DELETE FROM chat_sessions WHERE owner = $1 AND ($2 = 0 OR bot = $2)`, owner,
		bot); err != nil {
		return 0, err
	}
	shared, err := t.db.execInBatches(ctx, `DELETE FROM exchanges WHERE turn IN (SELECT turn FROM exchanges
		WHERE acts_for = $1 AND acts_for <> '' AND ($2 = 0 OR bot = $2) LIMIT $3)`, owner, bot)
	if err != nil {
		return shared, err
	}
	n, err := t.db.execInBatches(ctx, `DELETE FROM exchanges WHERE turn IN (SELECT turn FROM exchanges
		WHERE acts_for = '' AND bot IN (SELECT number FROM bots WHERE owner = $1 AND ($2 = 0 OR number = $2))
		LIMIT $3)`, owner, bot)
	return shared + n, err
}

// ForgetArgs deletes the arguments of a person's calls, only of those made by one bot if it is not
// 0, and returns how many calls had some. The call records remain.
func (t Calls) ForgetArgs(ctx context.Context, person string, bot int64) (int64, error) {
	until := millis(time.Now().Add(maxClockSkew))
	err := t.db.tx(ctx, func(tx *sql.Tx) error {
		return t.db.addNoteLink(ctx, tx, linkArgs, person, linkNote{Bot: bot, Until: until})
	})
	if err != nil {
		return 0, err
	}
	return t.db.updateInPages(ctx,
		`SELECT id, at FROM calls WHERE person = $1 AND ($2 = 0 OR bot = $2) AND at <= $3 AND at >= $4 AND (at > $4 OR id > $5)
		AND args IS NOT NULL ORDER BY at, id LIMIT $6`, `UPDATE calls SET args = NULL, args_salt = NULL WHERE id IN`, person, bot, until)
}
