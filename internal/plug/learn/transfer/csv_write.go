package transfer

import (
	"bufio"
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"patchbay/internal/store"
)

// csvColumns are what is written. Those after suspended are to look at.
var csvColumns = []string{"question", "answer", "deck", "tags", "id", "origin", "created_at", "updated_at", "in_plan", "suspended",
	"phase", "due", "stability", "difficulty", "reviews", "lapses", "last_review"}

var phases = map[store.Phase]string{store.New: "new", store.Learning: "learning", store.Review: "review", store.Relearning: "relearning", store.Done: "done"}

// csvWriter writes RFC 4180 with a byte order mark, without which Excel takes
// UTF-8 for something else.
type csvWriter struct {
	b   *bufio.Writer
	csv *csv.Writer
	err error
}

func newCSVWriter(w io.Writer) *csvWriter {
	c := &csvWriter{b: bufio.NewWriter(w)}
	c.csv = csv.NewWriter(c.b)
	c.csv.UseCRLF = true
	_, _ = c.b.Write(byteOrderMark) // its error stays in c.b
	c.err = c.csv.Write(csvColumns)
	return c
}

func (c *csvWriter) Write(it Item) error {
	if c.err != nil {
		return c.err
	}
	row := []string{guard(unixLines(clean(it.Question))), guard(unixLines(clean(it.Answer))), guard(it.Deck), guard(joinTags(it.Tags)), it.ID, guard(it.Origin),
		timeText(it.Created), timeText(it.Updated), strconv.FormatBool(it.InPlan), strconv.FormatBool(it.Suspended)}
	card := it.Card
	if card == nil || card.Phase == store.New {
		row = append(row, phases[store.New], "", "", "", "", "", "")
	} else {
		row = append(row, phases[card.Phase], card.Due.String(), number(card.Stability), number(card.Difficulty), strconv.Itoa(card.Reps), strconv.Itoa(card.Lapses), timeText(card.LastAt))
	}
	c.err = c.csv.Write(row)
	return c.err
}

func (c *csvWriter) Close() error {
	c.csv.Flush()
	if c.err == nil {
		c.err = c.csv.Error()
	}
	if c.err == nil {
		c.err = c.b.Flush()
	}
	return c.err
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func number(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}
