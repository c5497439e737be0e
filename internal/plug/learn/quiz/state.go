package quiz

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

const (
	// idle is how long a conversation waits for its person; after that, what they
	// say is the bot's again.
	idle = 10 * time.Minute
	// repeated is how soon after a recall, or a note, the same request can come again by the
	// network, at another instance: as an answer to the next question it would be wrong, and
	// cost its plan.
	repeated = 5 * time.Second
	// maxSkipped bounds the points that are passed over in one review; the first of
	// them come back after that.
	maxSkipped = 100
)

// step is what is expected next.
type step string

const (
	asked   step = "asked"   // the answer to a question
	shown   step = "shown"   // a grade, after the answer was told
	confirm step = "confirm" // a word about drafts
	content step = "what"    // what is to be remembered
	over    step = "over"    // nothing; the last review can still be changed
)

// state is what is kept of a conversation. It is in the database, so that it goes on
// at another instance, and after a restart.
type state struct {
	Step step `json:"step"`

	// The review: the question that is asked, if there is one, …
	Deck    *string   `json:"deck,omitempty"` // id; nil: all
	Point   string    `json:"point,omitempty"`
	Sitting string    `json:"schedule,omitempty"`
	Review  string    `json:"review,omitempty"` // the id that its review will have
	AskedAt time.Time `json:"asked_at,omitzero"`
	Peeked  bool      `json:"peeked,omitempty"` // its answer was told before it was recalled
	Recall  string    `json:"recall,omitempty"` // that nobody could judge
	// … and how it goes.
	Asked   int      `json:"asked,omitempty"`
	Done    int      `json:"done,omitempty"`
	Again   int      `json:"again,omitempty"`
	Skipped []string `json:"skipped,omitempty"`
	Last    *graded  `json:"last,omitempty"`

	Drafts []string `json:"drafts,omitempty"`

	// The turn before, if it must not count twice, and what was said to it.
	Said    talk.Delivery `json:"said,omitzero"`
	Told    string        `json:"told,omitempty"`
	Offered []string      `json:"offered,omitempty"`
}

// reviewing says whether a question waits for its answer, whatever comes first.
func (s *state) reviewing() bool { return s.Point != "" }

// graded is the last review, for second thoughts.
type graded struct {
	Base    string        `json:"base"`              // the id of the first try
	Changes int           `json:"changes,omitempty"` // how often the grade was changed
	Point   string        `json:"point"`
	Sitting string        `json:"schedule"`
	Grade   store.Grade   `json:"grade"`
	Recall  string        `json:"recall,omitempty"`
	Score   int           `json:"score"`
	Took    time.Duration `json:"took"`
}

// id is the id of the review as it counts now. It follows from the state, so that
// what is carried out twice counts once.
func (g *graded) id() string {
	if g.Changes == 0 {
		return g.Base
	}
	return fmt.Sprintf("%s/%d", g.Base, g.Changes)
}

// asker tells conversations apart: by bot, person and conversation. The glasses'
// platform gives a session an id that all its turns share, and a new session another
// one: who comes back to the glasses later talks to the bot, not to an old question.
// Doors whose turns have no conversation have one for each person.
func asker(turn *talk.Turn) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\x00%d\x00%s\x00%s", turn.Bot, len(turn.Person), turn.Person, turn.Conversation)
	return hex.EncodeToString(h.Sum(nil))
}

// load finds the state of a conversation; nil: there is none.
func (q *Quiz) load(ctx context.Context, person string, turn *talk.Turn) (*state, error) {
	whose, text, err := q.Store.Learn.Talk(ctx, asker(turn), q.Now())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look up the conversation: %w", err)
	case whose != person:
		return nil, nil // the bot has another owner now
	}
	var s state
	if json.Unmarshal(text, &s) != nil || s.Step == "" {
		return nil, nil // of another version
	}
	return &s, nil
}

// save keeps the state of a conversation; nil ends it.
func (q *Quiz) save(ctx context.Context, person string, turn *talk.Turn, s *state) error {
	var text json.RawMessage
	if s != nil {
		var err error
		if text, err = json.Marshal(s); err != nil {
			return fmt.Errorf("keep the conversation: %w", err)
		}
	}
	if err := q.Store.Learn.SaveTalk(ctx, asker(turn), person, text, q.Now().Add(idle)); err != nil {
		return fmt.Errorf("keep the conversation: %w", err)
	}
	return nil
}

// locks let one turn of a conversation through at a time. Those of other instances
// are kept apart by the ids of reviews alone: twice the same turn counts once.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	ch   chan struct{}
	want int // who holds it or waits for it
}

func (l *locks) enter(ctx context.Context, key string) (leave func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*lock{}
	}
	k := l.held[key]
	if k == nil {
		k = &lock{ch: make(chan struct{}, 1)}
		l.held[key] = k
	}
	k.want++
	l.mu.Unlock()
	forget := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.want--; k.want == 0 {
			delete(l.held, key)
		}
	}
	select {
	case k.ch <- struct{}{}:
		return func() { <-k.ch; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, context.Cause(ctx)
	}
}
