package learn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// moment is a time in the format of the original service, such as 2026-11-21T07:35:32.566+00:00.
type moment time.Time

// MarshalText implements [encoding.TextMarshaler].
func (m moment) MarshalText() ([]byte, error) {
	return time.Time(m).UTC().AppendFormat(nil, "2006-01-02T15:04:05.999-07:00"), nil
}

func optionalMoment(t time.Time) *moment {
	if t.IsZero() {
		return nil
	}
	return (*moment)(&t)
}

// pointRow is a point in results for programs: the columns of the original service's table, then
// Patchbay's own.
type pointRow struct {
	ID        string  `json:"id"`
	Person    string  `json:"user_id"`
	Question  string  `json:"question"`
	Answer    string  `json:"answer"`
	Created   moment  `json:"created_at"`
	Updated   moment  `json:"updated_at"`
	Embedding *string `json:"embedding"` // always null: vectors are not exported
	InPlan    bool    `json:"is_in_review_plan"`

	Deck      string         `json:"deck,omitempty"`
	Tags      []string       `json:"tags,omitempty"`
	State     string         `json:"state,omitempty"`
	Due       string         `json:"due,omitempty"`
	Suspended bool           `json:"suspended,omitempty"`
	Draft     bool           `json:"draft,omitempty"`
	Flag      int            `json:"flag,omitempty"`
	Deleted   *moment        `json:"deleted_at,omitempty"`
	Score     float64        `json:"score,omitempty"`
	Sittings  *[]sittingRow  `json:"review_schedules,omitempty"`
	Memory    map[string]any `json:"memory,omitempty"`
}

// sittingRow is a row of a plan in results for programs.
type sittingRow struct {
	ID        string    `json:"id"`
	Point     string    `json:"knowledge_point_id"`
	Person    string    `json:"user_id"`
	Day       string    `json:"review_date"`
	Number    int       `json:"review_number"`
	Completed bool      `json:"completed"`
	At        *moment   `json:"completed_at"`
	Created   moment    `json:"created_at"`
	Recall    *string   `json:"recall_text"`
	Of        *pointRow `json:"knowledge_points,omitempty"`
}

// StateName returns a point's state in one word.
func StateName(p *store.Point) string {
	switch {
	case p.Draft:
		return "draft"
	case !p.InPlan:
		return "not in plan"
	case p.Suspended:
		return "suspended"
	}
	return [...]string{"new", "learning", "review", "relearning", "done"}[p.Card.Phase]
}

// DueText returns when a point is due, as a date or a time; empty if it is not planned.
func DueText(p *store.Point) string {
	switch p.Queue() {
	case store.QueueSteps:
		text, _ := moment(p.Card.DueAt).MarshalText()
		return string(text)
	case store.QueueDay, store.QueueNew:
		return max(p.Card.Due, p.Card.Buried).String()
	}
	return ""
}

func newPointRow(l *Learner, p *store.Point) pointRow {
	return pointRow{
		ID: p.ID, Person: p.Person, Question: p.Question, Answer: p.Answer, Created: moment(p.Created),
		Updated: moment(p.Updated), InPlan: p.InPlan,
		Deck: l.DeckName(p.Deck), Tags: p.Tags, State: StateName(p), Due: DueText(p), Suspended: p.Suspended,
		Draft: p.Draft, Flag: p.Flag, Deleted: optionalMoment(p.Deleted),
	}
}

// newFullPointRow returns a point with its plan.
func newFullPointRow(l *Learner, e *Entry) pointRow {
	row := newPointRow(l, &e.Point)
	list := make([]sittingRow, len(e.Sittings))
	for i := range e.Sittings {
		list[i] = newSittingRow(&e.Point, &e.Sittings[i])
	}
	row.Sittings = &list
	return row
}

func newSittingRow(p *store.Point, s *store.Sitting) sittingRow {
	row := sittingRow{ID: s.ID, Point: p.ID, Person: p.Person, Day: s.Day.String(), Number: s.Number,
		Completed: !s.Completed.IsZero(), At: optionalMoment(s.Completed), Created: moment(s.Created)}
	if row.Completed {
		row.Recall = &s.Recall
	}
	return row
}

// result builds the result of a tool: the text of the original service, the same as structured
// content for programs, and an optional note for the model.
func result(shown any, structured any, note string) *tool.Result {
	text := indentJSON(shown)
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	blocks := []block{{"text", text}}
	if note != "" {
		blocks = append(blocks, block{"text", note})
	}
	return &tool.Result{Content: compactJSON(blocks), Structured: compactJSON(structured)}
}

// buffers are those in which results are encoded: a list of a hundred points takes 100 KB. Larger
// ones than maxBuffer are not kept.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const maxBuffer = 1 << 20

func keepBuffer(w *bytes.Buffer) {
	if w.Cap() <= maxBuffer {
		buffers.Put(w)
	}
}

// indentJSON encodes JSON as the original service does: indented by two spaces, without HTML
// escapes.
func indentJSON(v any) string {
	w, indented := buffers.Get().(*bytes.Buffer), buffers.Get().(*bytes.Buffer)
	defer keepBuffer(w)
	defer keepBuffer(indented)
	indented.Reset()
	if err := json.Indent(indented, encodeJSON(w, v), "", "  "); err != nil {
		panic(err) // it was just encoded
	}
	return indented.String()
}

func compactJSON(v any) json.RawMessage {
	w := buffers.Get().(*bytes.Buffer)
	defer keepBuffer(w)
	return bytes.Clone(encodeJSON(w, v))
}

// encodeJSON encodes JSON into a buffer, which it empties first.
func encodeJSON(w *bytes.Buffer, v any) []byte {
	w.Reset()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // our own types can always be encoded
	}
	return bytes.TrimSuffix(w.Bytes(), []byte("\n"))
}

// question is a point without its answer.
type question struct {
	Point    string   `json:"knowledge_point_id"`
	Sitting  string   `json:"schedule_id"`
	Question string   `json:"question"`
	Deck     string   `json:"deck"`
	Tags     []string `json:"tags,omitempty"`
	State    string   `json:"state"`
	Number   int      `json:"review_number"`
	Due      string   `json:"due"`
}

func questionOf(l *Learner, e *Entry) *question {
	q := &question{Point: e.ID, Question: e.Question, Deck: l.DeckName(e.Deck), Tags: e.Tags,
		State: StateName(&e.Point), Due: DueText(&e.Point)}
	if open := e.OpenSitting(); open != nil {
		q.Sitting, q.Number = open.ID, open.Number
	}
	return q
}

// gradePreviews describes what each grade would lead to.
func gradePreviews(l *Learner, p *store.Point) map[string]string {
	out := map[string]string{}
	for _, c := range l.Preview(p) {
		out[GradeName(c.Grade)] = waitText(c.Wait, c.Days)
	}
	return out
}

func waitText(wait time.Duration, days int) string {
	switch {
	case wait > 0 && wait < time.Hour:
		return fmt.Sprintf("%d min", int(wait.Round(time.Minute).Minutes()))
	case wait > 0:
		return fmt.Sprintf("%d h", int(wait.Round(time.Hour).Hours()))
	case days < 60:
		return fmt.Sprintf("%d d", days)
	case days < 730:
		return fmt.Sprintf("%.1f months", float64(days)/30.4)
	}
	return fmt.Sprintf("%.1f years", float64(days)/365)
}
