package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// Day is a date in a learner's calendar, counted from 1970-01-01. It has no time
// zone: what is due on a date stays due on it wherever the learner travels.
type Day int64

// DateOf is the date on which t falls by the clock it carries.
func DateOf(t time.Time) Day {
	y, m, d := t.Date()
	return Day(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

// ParseDay reads "2006-01-02".
func ParseDay(s string) (Day, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a date such as 2026-11-21", s)
	}
	return DateOf(t), nil
}

// Time is the beginning of the day in UTC.
func (d Day) Time() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

func (d Day) String() string { return d.Time().Format(time.DateOnly) }

// MarshalText implements [encoding.TextMarshaler].
func (d Day) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Day) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDay(string(text))
	return err
}

// Phase is where a point stands on its way into memory.
type Phase int8

// The phases.
const (
	New        Phase = iota // never reviewed
	Learning                // on the first steps, minutes apart
	Review                  // days apart
	Relearning              // forgotten, on steps again
	Done                    // the classic course is over
)

// Grade is how well a point was recalled.
type Grade int8

// The grades. Ungraded is a review that nobody judged; it counts as Good.
const (
	Ungraded Grade = iota
	Again
	Hard
	Good
	Easy
)

// Card is how well a point is remembered, and when it comes again.
type Card struct {
	Phase Phase `json:"phase"`
	// Step counts the steps that were taken while learning or relearning.
	Step int `json:"step,omitempty"`
	// Stability is in days, Difficulty from 1 to 10; both are 0 before the first
	// review.
	Stability  float64 `json:"stability,omitempty"`
	Difficulty float64 `json:"difficulty,omitempty"`
	// Due is the date on which the point comes again; DueAt the moment, on the
	// steps, and zero otherwise.
	Due   Day       `json:"due"`
	DueAt time.Time `json:"due_at,omitzero"`
	// Buried keeps the point away until this date, whatever is due. 0: it does not.
	Buried Day `json:"buried,omitempty"`
	// Reps counts all reviews, Lapses those in which a known point was forgotten.
	Reps   int `json:"reps,omitempty"`
	Lapses int `json:"lapses,omitempty"`
	// LastAt and LastDay are of the last review; zero before the first.
	LastAt  time.Time `json:"last_at,omitzero"`
	LastDay Day       `json:"last_day,omitempty"`
}

// Point is a knowledge point: a question, its answer, and how well its person
// remembers it.
type Point struct {
	ID       string   `json:"id"` // a UUID
	Number   int64    `json:"-"`  // unique; grows with time
	Person   string   `json:"user_id"`
	Deck     string   `json:"deck_id,omitempty"` // empty: the deck that everybody has
	Question string   `json:"question"`
	Answer   string   `json:"answer"`
	Tags     []string `json:"tags,omitempty"` // sorted
	// InPlan is false for points that are kept but not reviewed; a suspended point
	// is in the plan and rests.
	InPlan    bool `json:"is_in_review_plan"`
	Suspended bool `json:"suspended,omitempty"`
	// Draft points wait for their person to confirm them.
	Draft bool `json:"draft,omitempty"`
	// Kin are points that give each other's answer away. They are not reviewed on
	// one day. Empty: none.
	Kin string `json:"-"`
	// Origin is the point's name where it was imported from, so that the same file
	// imported again changes points instead of doubling them. Empty: made here.
	Origin  string    `json:"-"`
	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`
	Deleted time.Time `json:"deleted_at,omitzero"` // when it went into the trash
	Version int64     `json:"-"`                   // grows with every change
	Card    Card      `json:"-"`
	// Words are what the point is found by: ASCII letters and digits each. They are
	// written and never read; nil leaves them as they are.
	Words []string `json:"-"`
}

// Sitting is one row of a point's plan: a review that is to come, or one that was
// done.
type Sitting struct {
	ID        string    // a UUID
	Point     int64     // number
	Day       Day       // when it is, or was, due
	Number    int       // 1, 2, …
	Completed time.Time // zero: still to come
	Created   time.Time
	Recall    string // what the person recalled
}

// Queue is where a point waits for its review.
type Queue int8

// The queues.
const (
	QueueTrash Queue = iota - 1 // it was deleted
	QueueNone                   // it waits nowhere
	QueueNew                    // among the points that were never reviewed
	QueueSteps                  // for a moment
	QueueDay                    // for a day
)

// Queue is where the point waits.
func (p *Point) Queue() Queue {
	switch {
	case !p.Deleted.IsZero():
		return QueueTrash
	case !p.InPlan || p.Suspended || p.Draft || p.Card.Phase == Done:
		return QueueNone
	case p.Card.Phase == New:
		return QueueNew
	case p.Card.Phase == Review:
		return QueueDay
	}
	return QueueSteps
}

// Kinds of entries in the review log.
const (
	LogReview     = "review"     // a review, graded or not
	LogUndo       = "undo"       // a review was taken back
	LogReschedule = "reschedule" // somebody set another date
)

// LogEntry is a line of the review log, which is never changed.
type LogEntry struct {
	ID      string          `json:"id"` // given by the client, or a UUID; unique for a person
	Person  string          `json:"-"`
	Point   int64           `json:"-"`
	Deck    string          `json:"-"` // in which the review counts
	Kind    string          `json:"kind"`
	At      time.Time       `json:"at"`
	Day     Day             `json:"day"`  // in the learner's calendar
	Zone    string          `json:"zone"` // of that calendar
	Grade   Grade           `json:"grade"`
	Queue   Queue           `json:"queue"`                 // where the point waited
	Sitting string          `json:"schedule_id,omitempty"` // that it completed
	Recall  string          `json:"recall_text,omitempty"`
	Score   int             `json:"score"`            // 0–100 by the model; −1: not judged
	Took    time.Duration   `json:"took"`             // as the client told it
	Door    string          `json:"door,omitempty"`   // where it came in
	Elapsed int             `json:"elapsed_days"`     // since the review before; −1: there was none
	Before  json.RawMessage `json:"before,omitempty"` // a Card
	After   json.RawMessage `json:"after,omitempty"`  // a Card
	Undoes  string          `json:"undoes,omitempty"` // the entry that is taken back
}

// Deck is a group of points with settings of its own.
type Deck struct {
	ID       string          `json:"id"` // a UUID; empty for the one that everybody has
	Person   string          `json:"-"`
	Name     string          `json:"name"`
	Settings json.RawMessage `json:"settings,omitempty"` // what differs from the person's
	Created  time.Time       `json:"created_at"`
}
