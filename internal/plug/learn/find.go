package learn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// States to which a list of points can be narrowed.
const (
	StateDue      = "due"      // they wait for their day, which has come
	StateLearning = "learning" // they are on their steps
	StateNew      = "new"      // they were never reviewed
	StateDraft    = "draft"
	StateLeech    = "leech" // they are forgotten again and again
	StateTrash    = "trash"
)

// Wanted says which points are looked for.
type Wanted struct {
	Query string  // what they say; the best come first then, and there is one page
	Deck  *string // id; nil: all
	Tag   string
	State string // one of those above; empty: all but the trash. Not with a query
	After string // where the page before ended, as [Service.Find] said it
	Limit int
}

// queryMost bounds what is looked for, in bytes.
const queryMost = 1000

// Find lists points, newest first or as they wait, or searches them. next begins the page
// behind; empty: there is none.
func (s *Service) Find(ctx context.Context, l *Learner, w Wanted) (points []store.Point, next string, err error) {
	if query := strings.TrimSpace(w.Query); query != "" {
		if len(query) > queryMost {
			query = strings.ToValidUTF8(query[:queryMost], "")
		}
		hits, err := s.Search(ctx, l.Person, query, SearchFilter{Deck: w.Deck, Tag: w.Tag, Limit: min(w.Limit, maxRanked)})
		for i := range hits {
			points = append(points, hits[i].Point)
		}
		return points, "", err
	}
	waits := store.QueueFilter{Deck: w.Deck, Tag: w.Tag, Today: l.Today, Now: l.Now}
	f := store.PointFilter{Deck: w.Deck, Tag: w.Tag}
	switch w.State {
	case "":
	case StateDue:
		waits.Queue = store.QueueDay
	case StateLearning:
		waits.Queue, waits.Now = store.QueueSteps, l.Now.AddDate(0, 0, 2) // all of them, when ever they come
	case StateNew:
		waits.Queue, waits.Today = store.QueueNew, l.Today+36500 // those that were put off too
	case StateDraft:
		f.Draft = true
	case StateTrash:
		f.Trash = true
	case StateLeech:
		f.Tag = leechTag
	default:
		return nil, "", invalid(talk.Say{Zh: "state 是 due、learning、new、draft、leech 或 trash，不是 %q", En: "state is due, learning, new, draft, leech or trash, not %q"}, clip(w.State, 30))
	}
	if waits.Queue != store.QueueNone {
		var key store.QueueKey
		if err := readPlace(w.After, &key); err != nil {
			return nil, "", err
		}
		points, err = s.Store.Learn.Queued(ctx, l.Person, waits, key, w.Limit+1)
		if len(points) > w.Limit {
			points = points[:w.Limit]
			next = writePlace(store.KeyOf(&points[w.Limit-1]))
		}
		return points, next, err
	}
	var key store.PointKey
	if err := readPlace(w.After, &key); err != nil {
		return nil, "", err
	}
	points, err = s.Store.Learn.Points(ctx, l.Person, f, key, w.Limit+1)
	if len(points) > w.Limit {
		points = points[:w.Limit]
		next = writePlace(f.Key(&points[w.Limit-1]))
	}
	return points, next, err
}

// writePlace writes where a page of a list ends into an address.
func writePlace(key any) string {
	text, err := json.Marshal(key)
	if err != nil {
		return "" // only what is no text
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// readPlace reads it again.
func readPlace(text string, key any) error {
	if text == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, key)
	}
	if err != nil {
		return invalid(sayNoCursor)
	}
	return nil
}

var sayNoCursor = talk.Say{Zh: "这个游标不是我们给出的", En: "this cursor is not one of ours"}

// Week is how much of what came back on its day was still known, in seven days.
type Week struct {
	From    store.Day `json:"from"`
	Reviews int       `json:"reviews"`
	Again   int       `json:"again"` // of these, forgotten
}

// Weeks counts recalls by week, the last of which ends today.
func Weeks(today store.Day, recalls []store.DayRecalls, n int) []Week {
	out := make([]Week, n)
	for i := range out {
		out[i].From = today - store.Day(7*(n-1-i)) - 6
	}
	for _, r := range recalls {
		if i := n - 1 - int(today-r.Day)/7; i >= 0 && i < n {
			out[i].Reviews, out[i].Again = out[i].Reviews+r.Reviews, out[i].Again+r.Again
		}
	}
	return out
}
