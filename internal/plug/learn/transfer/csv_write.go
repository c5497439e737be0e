package transfer

import (
	"bufio"
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"patchbay/internal/store"
)

// csvColumns are the written columns. Those after suspended are informational.
var csvColumns = []string{"question", "answer", "deck", "tags", "id", "origin", "created_at", "updated_at", "in_plan",
	"suspended",
	"phase", "due", "stability", "difficulty", "reviews", "lapses", "last_review"}

var phases = map[store.Phase]string{store.New: "new", store.Learning: "learning", store.Review: "review",
	store.Relearning: "relearning", store.Done: "done"}

// csvWriter writes CSV (RFC 4180) with a byte order mark, without which Excel does not recognize
// UTF-8.
type csvWriter struct {
	b   *bufio.Writer
	csv *csv.Writer
	err error
}

func newCSVWriter(w io.Writer) *csvWriter {
	c := &csvWriter{b: bufio.NewWriter(w)}
	c.csv = csv.NewWriter(c.b)
	c.csv.UseCRLF = true
	_, _ = c.b.Write(byteOrderMark) // c.b keeps the error
	c.err = c.csv.Write(csvColumns)
	return c
}

func (c *csvWriter) Write(it Item) error {
	if c.err != nil {
		return c.err
	}
	row := []string{escapeFormula(unixLines(clean(it.Question))), escapeFormula(unixLines(clean(it.Answer))),
		escapeFormula(it.Deck), escapeFormula(joinTags(it.Tags)), it.ID, escapeFormula(it.Origin),
		formatTime(it.Created), formatTime(it.Updated), strconv.FormatBool(it.InPlan), strconv.FormatBool(it.Suspended)}
	card := it.Card
	if card == nil || card.Phase == store.New {
		row = append(row, phases[store.New], "", "", "", "", "", "")
	} else {
		row = append(row, phases[card.Phase], card.Due.String(), formatNumber(card.Stability),
			formatNumber(card.Difficulty), strconv.Itoa(card.Reps), strconv.Itoa(card.Lapses), formatTime(card.LastAt))
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

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func formatNumber(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}
