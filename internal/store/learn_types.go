package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// Day is a date in a learner's calendar, counted from 1970-01-01. It has no time
// zone: what is due on a date stays due on it wherever the learner travels.
type Day int64

// DateOf returns the date of t in its own time zone.
func DateOf(t time.Time) Day {
	y, m, d := t.Date()
	return Day(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

// ParseDay parses "2006-01-02".
func ParseDay(s string) (Day, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a date such as 2026-11-21", s)
	}
	return DateOf(t), nil
}

// Time returns the beginning of the day in UTC.
func (d Day) Time() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

func (d Day) String() string { return d.Time().Format(time.DateOnly) }

// DayNum is a [Day] that JSON shows as a number.
type DayNum int64

// MarshalText implements [encoding.TextMarshaler].
func (d Day) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Day) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDay(string(text))
	return err
}

// Phase is the learning phase of a point.
type Phase int8

// The phases.
const (
	New        Phase = iota // never reviewed
	Learning                // first reviews, minutes apart
	Review                  // reviews days apart
	Relearning              // forgotten, on short steps again
	Done                    // the classic plan is completed
)

// Grade is how well a point was recalled.
type Grade int8

// The grades. Ungraded is a review that was not judged; it counts as Good.
const (
	Ungraded Grade = iota
	Again
	Hard
	Good
	Easy
)

// Card is the scheduling state of a point.
type Card struct {
	Phase Phase `json:"phase"`
	// Step is the number of completed steps in Learning or Relearning.
	Step int `json:"step,omitempty"`
	// Stability is in days, Difficulty from 1 to 10. Both are 0 before the first review.
	Stability  float64 `json:"stability,omitempty"`
	Difficulty float64 `json:"difficulty,omitempty"`
	// Due is the date of the next review; DueAt is its time during steps, and zero otherwise.
	Due   Day       `json:"due"`
	DueAt time.Time `json:"due_at,omitzero"`
	// Buried hides the point from review until this date, even if due; 0: not buried.
	Buried Day `json:"buried,omitempty"`
	// Reps counts all reviews, Lapses those in which a known point was forgotten.
	Reps   int `json:"reps,omitempty"`
	Lapses int `json:"lapses,omitempty"`
	// LastAt and LastDay refer to the last review; zero before the first.
	LastAt  time.Time `json:"last_at,omitzero"`
	LastDay Day       `json:"last_day,omitempty"`
}

// Point is a knowledge point: a question, its answer, and how well its person remembers it.
type Point struct {
	ID       string   `json:"id"` // a UUID
	Number   int64    `json:"-"`  // unique; increases with creation time
	Person   string   `json:"user_id"`
	Deck     string   `json:"deck_id,omitempty"` // empty: the default deck
	Question string   `json:"question"`
	Answer   string   `json:"answer"`
	Tags     []string `json:"tags,omitempty"` // sorted
	// InPlan is false for points that are stored but never reviewed. A suspended point is in the
	// plan, but paused.
	InPlan    bool `json:"is_in_review_plan"`
	Suspended bool `json:"suspended,omitempty"`
	// Draft is true until the person confirms the point.
	Draft bool `json:"draft,omitempty"`
	// Kin groups points that reveal each other's answer. They are not reviewed on the same day.
	// Empty: no group.
	Kin string `json:"-"`
	// Origin is the point's id in the file it was imported from, so that importing the file again
	// updates points instead of duplicating them. Empty: created here.
	Origin  string    `json:"-"`
	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`
	Deleted time.Time `json:"deleted_at,omitzero"` // when it was moved to the trash; zero: not deleted
	Version int64     `json:"-"`                   // incremented by every change
	Card    Card      `json:"-"`
	// Note is the number of the note of which the point is a card, and Ord which of its cards,
	// from 0. Without a note both are 0, and Question and Answer are all there is. Of a note's
	// point they are what its card shows, as plain text or Markdown.
	Note int64 `json:"-"`
	Ord  int   `json:"-"`
	Flag int   `json:"flag,omitempty"` // 1 to 7; 0: none
	// Source is what only the program understands that the point was imported from, as JSON.
	Source string `json:"-"`
	// Words are the search words of the point: ASCII letters and digits each. They are only
	// written; nil leaves them unchanged.
	Words []string `json:"-"`
}

// Sitting is one review of a point's plan, pending or completed.
type Sitting struct {
	ID        string    // a UUID
	Point     int64     // number of the point
	Day       Day       // due date
	Number    int       // 1, 2, …
	Completed time.Time // zero: pending
	Created   time.Time
	Recall    string // text that the person recalled
}

// Queue is the review queue of a point.
type Queue int8

// The queues.
const (
	QueueTrash Queue = iota - 1 // deleted points
	QueueNone                   // points without a next review
	QueueNew                    // points that were never reviewed
	QueueSteps                  // points due at a time
	QueueDay                    // points due on a day
)

// Queue returns the queue of the point.
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
	LogUndo       = "undo"       // a review was undone
	LogReschedule = "reschedule" // the due date was set by hand
	LogOther      = "other"      // an entry of another program that is no review
)

// LogEntry is an entry of the review log, which is append-only.
type LogEntry struct {
	ID      string          `json:"id"` // chosen by the client, or a UUID; unique per person
	Person  string          `json:"-"`
	Point   int64           `json:"-"`
	Deck    string          `json:"-"` // deck in which the review counts
	Kind    string          `json:"kind"`
	At      time.Time       `json:"at"`
	Day     Day             `json:"day"`  // in the learner's calendar
	Zone    string          `json:"zone"` // time zone of that calendar
	Grade   Grade           `json:"grade"`
	Queue   Queue           `json:"queue"`                 // queue of the point before the review
	Sitting string          `json:"schedule_id,omitempty"` // sitting that the review completed
	Recall  string          `json:"recall_text,omitempty"`
	Score   int             `json:"score"`             // 0–100 by the model; −1: not judged
	Took    time.Duration   `json:"took"`              // as reported by the client
	Channel string          `json:"channel,omitempty"` // channel of the request
	Elapsed int             `json:"elapsed_days"`      // days since the previous review; −1: none
	Before  json.RawMessage `json:"before,omitempty"`  // a Card
	After   json.RawMessage `json:"after,omitempty"`   // a Card
	Undoes  string          `json:"undoes,omitempty"`  // id of the undone entry
	Source  string          `json:"-"`                 // as of [Point]
}

// Deck is a group of points with its own settings.
type Deck struct {
	ID       string          `json:"id"` // a UUID; empty for the default deck
	Person   string          `json:"-"`
	Name     string          `json:"name"`
	Settings json.RawMessage `json:"settings,omitempty"` // overrides of the person's settings
	Created  time.Time       `json:"created_at"`
	Source   string          `json:"-"` // as of [Point]
}
