package learn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// States by which a list of points can be filtered.
const (
	StateDue      = "due"      // due today or overdue
	StateLearning = "learning" // on their learning steps
	StateNew      = "new"      // never reviewed
	StateDraft    = "draft"
	StateLeech    = "leech" // forgotten repeatedly
	StateTrash    = "trash"
)

// PointQuery selects points.
type PointQuery struct {
	Query string  // an [Expression]; text alone sorts by relevance and returns one page
	Deck  *string // id; nil: all
	Tag   string
	State string // one of the states above; empty: all but the trash. Not with text alone
	After string // cursor of the page before, from [Service.Find]
	Limit int
	// ByWords searches text by its words alone, as in a [SearchFilter].
	ByWords bool
}

// Find lists points, newest first or in the order of the queue, or searches them. next is the
// cursor of the next page; empty means that there is none.
func (s *Service) Find(ctx context.Context, l *Learner, w PointQuery) (points []store.Point, next string, err error) {
	if query := strings.TrimSpace(w.Query); query != "" {
		x, err := ParseExpression(query)
		if err != nil {
			return nil, "", err
		}
		if !x.IsText() {
			return s.findSelected(ctx, l, x, w)
		}
		hits, err := s.Search(ctx, l.Person, x.Text, SearchFilter{Deck: w.Deck, Tag: w.Tag,
			Limit: min(w.Limit, maxRanked), ByWords: w.ByWords})
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
		waits.Queue, waits.Now = store.QueueSteps, l.Now.AddDate(0, 0, 2) // all of them, whenever they are due
	case StateNew:
		waits.Queue, waits.Today = store.QueueNew, l.Today+36500 // including postponed points
	case StateDraft:
		f.Draft = true
	case StateTrash:
		f.Trash = true
	case StateLeech:
		f.Tag = LeechTag
	default:
		return nil, "", unknownState(w.State)
	}
	if waits.Queue != store.QueueNone {
		var key store.QueueKey
		if err := decodePageKey(w.After, &key); err != nil {
			return nil, "", err
		}
		points, err = s.Store.Learn.Queued(ctx, l.Person, waits, key, w.Limit+1)
		if len(points) > w.Limit {
			points = points[:w.Limit]
			next = encodePageKey(store.KeyOf(&points[w.Limit-1]))
		}
		return points, next, err
	}
	var key store.PointKey
	if err := decodePageKey(w.After, &key); err != nil {
		return nil, "", err
	}
	points, err = s.Store.Learn.Points(ctx, l.Person, f, key, w.Limit+1)
	if len(points) > w.Limit {
		points = points[:w.Limit]
		next = encodePageKey(f.Key(&points[w.Limit-1]))
	}
	return points, next, err
}

func unknownState(state string) error {
	return invalid(i18n.Message("state is due, learning, new, draft, leech or trash, not %q"), truncateBytes(state, 30))
}

// findSelected lists the points that an expression selects, newest first.
func (s *Service) findSelected(ctx context.Context, l *Learner, x *Expression, w PointQuery) (points []store.Point,
	next string, err error) {
	f, err := x.Selection(l)
	if err != nil {
		return nil, "", err
	}
	if err := narrow(&f, w.Deck, w.Tag, w.State); err != nil {
		return nil, "", err
	}
	var key store.PointKey
	if err := decodePageKey(w.After, &key); err != nil {
		return nil, "", err
	}
	points, err = s.Store.Learn.Select(ctx, l.Person, f, key, w.Limit+1)
	if len(points) > w.Limit {
		points = points[:w.Limit]
		next = encodePageKey(f.Key(&points[w.Limit-1]))
	}
	return points, next, err
}

// narrow adds the filters of a list to a selection.
func narrow(f *store.Selection, deck *string, tag, state string) error {
	if deck != nil {
		f.Where = append(f.Where, store.Condition{Field: store.FieldDeck, Text: *deck})
	}
	if tag != "" {
		f.Where = append(f.Where, store.Condition{Field: store.FieldTag, Text: tag})
	}
	switch state {
	case "":
	case StateDue:
		f.Where = append(f.Where, store.Condition{Field: store.FieldDue})
	case StateLearning:
		f.Where = append(f.Where, store.Condition{Field: store.FieldLearning})
	case StateNew:
		f.Where = append(f.Where, store.Condition{Field: store.FieldNew})
	case StateDraft:
		f.Where = append(f.Where, store.Condition{Field: store.FieldDraft})
	case StateLeech:
		f.Where = append(f.Where, store.Condition{Field: store.FieldTag, Text: LeechTag})
	case StateTrash:
		f.Trash = true
	default:
		return unknownState(state)
	}
	return nil
}

// encodePageKey encodes the end of a page as text for a URL.
func encodePageKey(key any) string {
	text, err := json.Marshal(key)
	if err != nil {
		return "" // only values that JSON cannot encode fail
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// decodePageKey is the reverse of encodePageKey.
func decodePageKey(text string, key any) error {
	if text == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, key)
	}
	if err != nil {
		return invalid(msgNoCursor)
	}
	return nil
}

const msgNoCursor = i18n.Message("this cursor is not one of ours")

// Week counts the reviews of seven days: how many points came back on their day, and how many of
// them were forgotten.
type Week struct {
	From    store.Day `json:"from"`
	Reviews int       `json:"reviews"`
	Again   int       `json:"again"` // forgotten ones among them
}

// Weeks counts recalls by week; the last week ends today.
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
