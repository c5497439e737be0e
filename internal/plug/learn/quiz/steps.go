package quiz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// A review by voice ends when no point is due, although learning steps may follow within minutes.
// When the first such step is due, the person gets a notice on the device that they reviewed with.
//
// The instance that answered the last turn holds the waiting people in memory; a restart forgets
// them. Before a notice is sent, the stored conversation decides: a person who has gone on, on
// whatever instance, gets none.

const (
	// maxStepWait is how long after a review a person counts as being there.
	maxStepWait = 20 * time.Minute
	// stepGrace is how long after the step was due the notice may still be sent.
	stepGrace = 2 * time.Minute
	// stepInterval is the time between checks: a notice arrives within 15 s of the step being due,
	// delivery included.
	stepInterval = 5 * time.Second
	// tellTimeout limits the delivery to one device.
	tellTimeout = 8 * time.Second
	// maxWaiting limits the people who wait for a notice. Others get none.
	maxWaiting = 10_000
)

// Notice tells a person that a point on its steps is due.
type Notice struct {
	ID      string // unique to the notice
	Owner   string // of the points
	Bot     int64  // with which they reviewed
	Channel string // of the turns of the review
	Asker   string // the person of those turns
	AgentID string // of those turns
	Text    string
	Lang    i18n.Lang
	Until   time.Time // when it is of no use any more
}

// waiting is a conversation whose person waits for a step.
type waiting struct {
	at   time.Time
	deck *string
	told Notice // without text
}

// waiters are the conversations that wait. It is safe for concurrent use.
type waiters struct {
	mu   sync.Mutex
	byID map[string]waiting
}

// set makes a conversation wait; a zero time ends that.
func (w *waiters) set(id string, v waiting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v.at.IsZero() || len(w.byID) >= maxWaiting {
		delete(w.byID, id)
		return
	}
	if w.byID == nil {
		w.byID = map[string]waiting{}
	}
	w.byID[id] = v
}

// take removes and returns the conversations whose time has come.
func (w *waiters) take(now time.Time) map[string]waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out map[string]waiting
	for id, v := range w.byID {
		if v.at.After(now) {
			continue
		}
		if out == nil {
			out = map[string]waiting{}
		}
		out[id] = v
		delete(w.byID, id)
	}
	return out
}

// expectStep makes the person of a turn wait for the next step, if the review has ended for now.
func (q *Quiz) expectStep(turn *talk.Turn, person string, s *state) {
	v := waiting{told: Notice{Owner: person, Bot: turn.Bot, Channel: turn.Channel, Asker: turn.Person,
		AgentID: turn.AgentID, Lang: turn.Lang}}
	if s != nil && s.Step == stepOver {
		v.at, v.deck = s.StepDue, s.Deck
	}
	q.waiters.set(conversationID(turn), v)
}

// Run tells people of steps that are due until ctx ends, and then returns nil.
func (q *Quiz) Run(ctx context.Context) error {
	for netx.Wait(ctx, q.StepInterval) == nil {
		q.tellSteps(ctx)
	}
	return nil
}

// tellSteps tells those whose time has come, all at the same time.
func (q *Quiz) tellSteps(ctx context.Context) {
	var telling sync.WaitGroup
	defer telling.Wait()
	for id, v := range q.waiters.take(q.Now()) {
		telling.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, tellTimeout)
			defer cancel()
			if err := q.tellStep(ctx, id, v); err != nil {
				q.Logger.WarnContext(ctx, "a person was not told that a step is due", "person", v.told.Owner,
					"bot", v.told.Bot, "error", err)
			}
		})
	}
}

func (q *Quiz) tellStep(ctx context.Context, id string, v waiting) error {
	now := q.Now()
	if q.Tell == nil || now.Sub(v.at) > stepGrace {
		return nil
	}
	person, text, err := q.Store.Learn.Talk(ctx, id, now)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil // the conversation is over
	case err != nil:
		return fmt.Errorf("look up the conversation: %w", err)
	}
	var s state
	if json.Unmarshal(text, &s) != nil || s.Step != stepOver || !s.StepDue.Equal(v.at) || person != v.told.Owner {
		return nil // they went on, or said that it is enough
	}
	queue, err := q.Service.Queue(ctx, person, learn.QueueFilter{Deck: v.deck, Limit: 1})
	if err != nil {
		return err
	}
	n := queue.Left.Total()
	if len(queue.Entries) == 0 {
		return nil // it was reviewed elsewhere
	}
	v.told.ID = "learn-step-" + queue.Entries[0].ID + "-" + v.at.UTC().Format("20060102T150405")
	v.told.Text = msgStepDue.In(v.told.Lang, shorten(queue.Entries[0].Question, questionChars, v.told.Lang))
	if n > 1 {
		v.told.Text = msgStepsDue.In(v.told.Lang, n)
	}
	v.told.Until = now.Add(stepGrace)
	return q.Tell(ctx, v.told)
}

const (
	msgStepDue  = i18n.Message("Once more: %s Say “quiz me” to answer.")
	msgStepsDue = i18n.Message("%d come again now. Say “quiz me” to go on.")
)
