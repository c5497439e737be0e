package quiz

import (
	"cmp"
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
	// idleTimeout is how long a conversation waits for its person; after that, turns go to the bot
	// again.
	idleTimeout = 10 * time.Minute
	// repeatWindow is how soon after a recall or a note a network retry of the same request may
	// arrive, perhaps at another instance. Taken as the answer to the next question, it would be
	// graded wrong and change that point's plan.
	repeatWindow = 5 * time.Second
	// maxSkipped limits the skipped points of one review; beyond that, the first ones are asked
	// again.
	maxSkipped = 100
)

// step is the kind of input that is expected next.
type step string

const (
	stepAsked   step = "asked"   // the answer to a question
	stepShown   step = "shown"   // a grade, after the answer was shown
	stepConfirm step = "confirm" // a verdict on drafts
	stepContent step = "what"    // a note
	stepOver    step = "over"    // nothing; the last review can still be changed
)

// state is the stored state of a conversation. It is in the database, so that the conversation
// continues on another instance and after a restart.
type state struct {
	Step step `json:"step"`

	// The review: the current question, if there is one, …
	Deck    *string   `json:"deck,omitempty"` // ID; nil: all decks
	Cram    *cramming `json:"cram,omitempty"`
	Point   string    `json:"point,omitempty"`
	Sitting string    `json:"schedule,omitempty"`
	Review  string    `json:"review,omitempty"` // ID of its review
	AskedAt time.Time `json:"asked_at,omitzero"`
	Peeked  bool      `json:"peeked,omitempty"` // answer shown before the recall
	Recall  string    `json:"recall,omitempty"` // recall that could not be judged
	// … and the progress.
	Asked   int      `json:"asked,omitempty"`
	Done    int      `json:"done,omitempty"`
	Again   int      `json:"again,omitempty"`
	Skipped []string `json:"skipped,omitempty"`
	Last    *graded  `json:"last,omitempty"`

	// StepDue is when the next point on its steps is due, if the review ended before it and the
	// person is to be told.
	StepDue time.Time `json:"step_due,omitzero"`

	Drafts []string `json:"drafts,omitempty"`

	// The previous turn, if it must not count twice, and the reply to it.
	LastDelivery    talk.Delivery `json:"said,omitzero"`
	LastReply       string        `json:"told,omitempty"`
	LastSuggestions []string      `json:"offered,omitempty"`
}

// isReviewing reports whether a question is open, even if another input is expected first.
func (s *state) isReviewing() bool { return s.Point != "" }

// graded is the last review, so that it can be changed.
type graded struct {
	Base    string        `json:"base"`              // ID of the first submission
	Changes int           `json:"changes,omitempty"` // number of grade changes
	Point   string        `json:"point"`
	Sitting string        `json:"schedule"`
	Grade   store.Grade   `json:"grade"`
	Recall  string        `json:"recall,omitempty"`
	Score   int           `json:"score"`
	Took    time.Duration `json:"took"`
}

// id returns the ID of the review's current submission. It is derived from the state, so that a
// repeated request counts once.
func (g *graded) id() string {
	if g.Changes == 0 {
		return g.Base
	}
	return fmt.Sprintf("%s/%d", g.Base, g.Changes)
}

// conversationID identifies a conversation by bot, person and the turn's session or conversation.
// The glasses' platform gives all turns of a session one ID and each new session a new one, and so
// do voice boards, so that after a break people talk to the bot and not to an old question. On
// channels without conversations, each person has one.
func conversationID(turn *talk.Turn) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\x00%d\x00%s\x00%s", turn.Bot, len(turn.Person), turn.Person,
		cmp.Or(turn.Session, turn.Conversation))
	return hex.EncodeToString(h.Sum(nil))
}

// load returns the state of a conversation; nil if there is none.
func (q *Quiz) load(ctx context.Context, person string, turn *talk.Turn) (*state, error) {
	whose, text, err := q.Store.Learn.Talk(ctx, conversationID(turn), q.Now())
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
		return nil, nil // written by another version
	}
	return &s, nil
}

// awaitsAnswer reports whether the next turn is about points, whatever it says.
func (s *state) awaitsAnswer() bool {
	return s != nil && (s.isReviewing() || s.Step == stepContent || s.Step == stepConfirm)
}

// save stores the state of a conversation; nil ends it.
func (q *Quiz) save(ctx context.Context, person string, turn *talk.Turn, s *state) error {
	var text json.RawMessage
	if s != nil {
		var err error
		if text, err = json.Marshal(s); err != nil {
			return fmt.Errorf("keep the conversation: %w", err)
		}
	}
	until := q.Now().Add(idleTimeout)
	if s != nil && s.StepDue.Add(stepGrace).After(until) {
		until = s.StepDue.Add(stepGrace)
	}
	if err := q.Store.Learn.SaveTalk(ctx, conversationID(turn), person, text, until); err != nil {
		return fmt.Errorf("keep the conversation: %w", err)
	}
	return nil
}

// locks serializes the turns of a conversation within this instance. Across instances only the IDs
// of reviews prevent that a repeated turn counts twice.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	ch      chan struct{}
	waiters int // holder and waiting goroutines
}

func (l *locks) acquire(ctx context.Context, key string) (release func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*lock{}
	}
	k := l.held[key]
	if k == nil {
		k = &lock{ch: make(chan struct{}, 1)}
		l.held[key] = k
	}
	k.waiters++
	l.mu.Unlock()
	forget := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.waiters--; k.waiters == 0 {
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
