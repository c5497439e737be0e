package store

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Field is what a [Condition] is about.
type Field int8

// The fields.
const (
	FieldDeck      Field = iota // Text: id of the deck
	FieldTag                    // Text
	FieldFlag                   // N; 0: no flag
	FieldNew                    // never reviewed
	FieldLearning               // on its steps
	FieldReview                 // reviewed, with a date
	FieldDue                    // due within N days after Today; 0: today or before
	FieldSuspended              //
	FieldBuried                 // until a day after Today
	FieldDraft                  //
	FieldUnplanned              // not in the plan
	FieldForgotten              // forgotten in a review since At
	FieldReviewed               // reviewed since At
	FieldAdded                  // created since At
	FieldLapses                 // forgotten N times or more
	FieldWords                  // Words, as of [Learn.Search]: all of them
	FieldPhase                  // one of the phases in Numbers
	FieldDecks                  // in one of the decks in Words, by id
	FieldTags                   // with one of the tags in Words
	FieldNoTag                  // without a tag
	FieldTypes                  // of a note of one of the types in Numbers; 0: without a note
	FieldOrds                   // one of the cards in Numbers of its note
	FieldNotes                  // of one of the notes in Numbers
	FieldPoints                 // one of the numbers in Numbers
	FieldGraded                 // reviewed since At with the grade N; 0: any
	FieldBegun                  // reviewed for the first time since At
	FieldEdited                 // changed since At
	FieldNumber                 // the property Text, compared by Compare with Value
)

// Properties of points for [FieldNumber].
const (
	PropInterval   = "interval"  // days from the last review to the next; 0 while on steps
	PropDue        = "due"       // days from Today to the next review, of points that have a date
	PropReps       = "reps"      // reviews
	PropLapses     = "lapses"    // reviews in which it was forgotten
	PropStability  = "stability" // of points that were reviewed, in days
	PropDifficulty = "difficulty"
)

// Condition is a condition on points.
type Condition struct {
	Field Field
	Not   bool // the points that do not fulfil it
	Text  string
	N     int
	At    time.Time
	Words []string
	// Numbers are in the text of the query, and Words are arguments, of which all conditions of a
	// query together have 30,000 at most.
	Numbers []int64
	Compare string // =, <>, <, <=, > or >=
	Value   float64
}

// Selection selects points that fulfil all conditions.
type Selection struct {
	Where []Condition
	Trash bool // only points in the trash; otherwise only others
	Today Day
	Now   time.Time

	due int // points that are due, if they are few: see [scanDue]
}

// Key returns the cursor after a point.
func (f Selection) Key(p *Point) PointKey { return PointFilter{Trash: f.Trash}.Key(p) }

// Select lists a person's points after a cursor, newest first, or for the trash, last deleted
// first. The zero cursor starts at the beginning.
func (t Learn) Select(ctx context.Context, person string, f Selection, after PointKey, limit int) ([]Point, error) {
	q := queryFrom(`SELECT `+pointColumns+` FROM learn_points`, person)
	order := `created_at`
	if f.Trash {
		order = `deleted_at`
	}
	way, err := t.wayOf(ctx, person, &f)
	if err != nil {
		return nil, err
	}
	if way != scanPoints {
		order += ` + 0`
	}
	t.addSelection(q, person, f, way)
	if after.Number != 0 {
		q.and(`(` + order + `, number) < (` + q.arg(millis(after.At)) + `, ` + q.arg(after.Number) + `)`)
	}
	return allOnce(ctx, t.db, readPoint, q.text+` ORDER BY `+order+` DESC, number DESC LIMIT `+q.arg(limit), q.args...)
}

// SelectNumbers returns the numbers of selected points after a number, in ascending order.
func (t Learn) SelectNumbers(ctx context.Context, person string, f Selection, after int64,
	limit int) ([]int64, error) {
	q := queryFrom(`SELECT number FROM learn_points`, person)
	way, err := t.wayOfAll(ctx, person, &f)
	if err != nil {
		return nil, err
	}
	t.addSelection(q, person, f, way)
	q.and(`number > ` + q.arg(after))
	return allOnce(ctx, t.db, readNumber, q.text+` ORDER BY number LIMIT `+q.arg(limit), q.args...)
}

// CountSelected counts the selected points, at most so many; 0: all.
func (t Learn) CountSelected(ctx context.Context, person string, f Selection, most int) (int, error) {
	q := queryFrom(`SELECT COUNT(*) FROM learn_points`, person)
	if most > 0 {
		q = queryFrom(`SELECT COUNT(*) FROM (SELECT 1 FROM learn_points`, person)
	}
	way, err := t.wayOfAll(ctx, person, &f)
	if err != nil {
		return 0, err
	}
	t.addSelection(q, person, f, way)
	if most > 0 {
		q.text += ` LIMIT ` + q.arg(most) + `) AS counted`
	}
	counts, err := allOnce(ctx, t.db, func(s scanner) (n int, err error) { return n, s.Scan(&n) }, q.text, q.args...)
	if err != nil {
		return 0, err
	}
	return counts[0], nil
}

// scanWay is how the points of a selection are found.
type scanWay int

const (
	scanPoints  scanWay = iota // all points of the person, in their order
	scanNumbers                // through the numbers that a condition lists: of a tag, words or reviews
	scanDue                    // through what is due, of which there is little
	scanIndex                  // through an index of a condition: flags
)

// wayOf returns the way for a page of a selection. A scan of all points ends when the page is full;
// where a condition leaves few of them, its own index finds them faster.
func (t Learn) wayOf(ctx context.Context, person string, f *Selection) (scanWay, error) {
	for _, c := range f.Where {
		switch {
		case c.Not:
		case c.Field == FieldDue:
			until := f.Today + Day(c.N)
			var steps, days int
			err := t.db.readTogether(ctx, countQueued(&steps, person, QueueSteps, until, nil),
				countQueued(&days, person, QueueDay, until, nil))
			if f.due = steps + days; err != nil || f.due <= selectiveLimit {
				return scanDue, err
			}
		case c.Field == FieldTag:
			if n, err := t.CountTagged(ctx, person, c.Text); err != nil || n <= selectiveLimit {
				return scanNumbers, err
			}
		case c.Field == FieldWords, c.Field == FieldForgotten, c.Field == FieldReviewed:
			return scanNumbers, nil
		case c.Field == FieldFlag && c.N > 0:
			return scanIndex, nil
		}
	}
	return scanPoints, nil
}

// wayOfAll returns the way for all points of a selection, or a page of them by number. A tag has
// fewer than the person, and lists them by number.
func (t Learn) wayOfAll(ctx context.Context, person string, f *Selection) (scanWay, error) {
	way, err := t.wayOf(ctx, person, f)
	if err == nil && way == scanPoints && slices.ContainsFunc(f.Where, func(c Condition) bool {
		return !c.Not && c.Field == FieldTag
	}) {
		way = scanNumbers
	}
	return way, err
}

func (t Learn) addSelection(q *pointQuery, person string, f Selection, way scanWay) {
	if f.Trash {
		q.and(`deleted_at IS NOT NULL`)
	} else {
		q.and(`deleted_at IS NULL`)
	}
	q.scans = way != scanNumbers
	t.addConditions(q, person, f)
	switch {
	case way == scanNumbers:
		q.skipPersonIndex()
	case way == scanDue && t.db.estimatesRows():
		due := slices.IndexFunc(f.Where, func(c Condition) bool { return !c.Not && c.Field == FieldDue })
		q.fromDue(person, f.Today+Day(f.Where[due].N), f.due)
	}
}

func (t Learn) addConditions(q *pointQuery, person string, f Selection) {
	for _, c := range f.Where {
		text := t.condition(q, person, f, c)
		if c.Not {
			text = `NOT (` + text + `)`
		}
		q.and(text)
	}
}

// condition returns a condition as SQL, without its Not.
func (t Learn) condition(q *pointQuery, person string, f Selection, c Condition) string {
	const reviews = `number IN (SELECT point FROM learn_log r WHERE r.person = `
	const counted = ` AND r.kind = 'review' AND NOT EXISTS (SELECT 1 FROM learn_log u WHERE u.person = r.person AND u.undoes = r.id AND u.undoes <> ''))`
	switch c.Field {
	case FieldDeck:
		return `deck = ` + q.arg(c.Text)
	case FieldTag:
		return t.db.hasTag(q, person, c.Text, q.scans || c.Not)
	case FieldFlag:
		return `flag = ` + q.arg(c.N)
	case FieldNew:
		return `queue = ` + strconv.Itoa(int(QueueNew))
	case FieldLearning:
		return `queue = ` + strconv.Itoa(int(QueueSteps))
	case FieldReview:
		return `queue = ` + strconv.Itoa(int(QueueDay))
	case FieldDue:
		return `queue IN (2, 3) AND due <= ` + q.arg(int64(f.Today)+int64(c.N)) + ` AND buried <= ` +
			q.arg(int64(f.Today)+int64(c.N))
	case FieldSuspended:
		return `suspended`
	case FieldBuried:
		return `buried > ` + q.arg(int64(f.Today))
	case FieldDraft:
		return `draft`
	case FieldUnplanned:
		return `NOT in_plan`
	case FieldForgotten:
		return reviews + q.arg(person) + ` AND r.at >= ` + q.arg(millis(c.At)) + ` AND r.grade = 1` + counted
	case FieldReviewed:
		return reviews + q.arg(person) + ` AND r.at >= ` + q.arg(millis(c.At)) + counted
	case FieldAdded:
		return `created_at >= ` + q.arg(millis(c.At))
	case FieldLapses:
		return `lapses >= ` + q.arg(c.N)
	case FieldWords:
		return t.wordsCondition(q, person, c.Words)
	case FieldGraded:
		grade := ``
		switch Grade(c.N) {
		case Ungraded:
		case Good: // a review that was not judged counts as good
			grade = ` AND r.grade IN (0, 3)`
		default:
			grade = ` AND r.grade = ` + q.arg(c.N)
		}
		return reviews + q.arg(person) + ` AND r.at >= ` + q.arg(millis(c.At)) + grade + counted
	case FieldBegun:
		return reviews + q.arg(person) + ` AND r.at >= ` + q.arg(millis(c.At)) + ` AND r.elapsed < 0` + counted
	}
	return moreConditions(q, person, f, c)
}

// moreConditions returns a condition of lists and numbers as SQL.
func moreConditions(q *pointQuery, person string, f Selection, c Condition) string {
	lists := []Field{FieldPhase, FieldDecks, FieldTags, FieldTypes, FieldOrds, FieldNotes, FieldPoints}
	if slices.Contains(lists, c.Field) && len(c.Numbers) == 0 && len(c.Words) == 0 {
		return `FALSE`
	}
	switch c.Field {
	case FieldPhase:
		return `phase` + numbersIn(c.Numbers)
	case FieldDecks:
		return `deck` + wordsIn(q, c.Words)
	case FieldTags:
		return `number IN (SELECT point FROM learn_tags WHERE person = ` + q.arg(person) + ` AND tag` +
			wordsIn(q, c.Words) + `)`
	case FieldNoTag:
		return `tags = ''`
	case FieldTypes:
		text := `note IN (SELECT number FROM learn_notes WHERE person = ` + q.arg(person) + ` AND type` +
			numbersIn(c.Numbers) + `)`
		if slices.Contains(c.Numbers, 0) {
			text = `(note = 0 OR ` + text + `)`
		}
		return text
	case FieldOrds:
		return `ord` + numbersIn(c.Numbers)
	case FieldNotes:
		return `note` + numbersIn(c.Numbers)
	case FieldPoints:
		return `number` + numbersIn(c.Numbers)
	case FieldEdited:
		return `updated_at >= ` + q.arg(millis(c.At))
	case FieldNumber:
		return numberCondition(q, f, c)
	}
	return `FALSE`
}

func numberCondition(q *pointQuery, f Selection, c Condition) string {
	if !slices.Contains([]string{"=", "<>", "<", "<=", ">", ">="}, c.Compare) {
		return `FALSE`
	}
	is := func(expression string) string {
		return expression + ` ` + c.Compare + ` CAST(` + q.arg(c.Value) + ` AS DOUBLE PRECISION)`
	}
	switch c.Text {
	case PropInterval:
		return is(`CASE WHEN phase = 2 AND last_day > 0 THEN due - last_day ELSE 0 END`)
	case PropDue:
		return `queue = 3 AND ` + is(`due - CAST(`+q.arg(int64(f.Today))+` AS BIGINT)`)
	case PropReps, PropLapses:
		return is(c.Text)
	case PropStability, PropDifficulty:
		return `reps > 0 AND ` + is(c.Text)
	}
	return `FALSE`
}

// numbersIn returns a list of numbers, which is not empty, as SQL. They are no arguments, of which
// a query may have few.
func numbersIn(numbers []int64) string {
	var b []byte
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return ` IN (` + string(b) + `)`
}

func wordsIn(q *pointQuery, words []string) string {
	args := make([]string, len(words))
	for i, w := range words {
		args[i] = q.arg(w)
	}
	return ` IN (` + strings.Join(args, ", ") + `)`
}
