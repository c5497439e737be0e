package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/netx"
	"patchbay/internal/talk"
)

// Whoever opens a conversation with an active turn observes it: they get the answer so far and what
// follows, and can stop it, whichever instance runs it. Observers are not askers: whether there are
// some, or slow ones, makes no difference to the bot.

// ConversationRef identifies a conversation of a person with a bot.
type ConversationRef struct {
	Bot          int64  `json:"bot"`
	Person       string `json:"person"`
	Conversation string `json:"conversation,omitempty"` // empty: all of them
}

// ActiveTurn is a turn that is being answered.
type ActiveTurn struct {
	Turn         string    `json:"turn"`
	Conversation string    `json:"conversation"`
	At           time.Time `json:"at"`
	Question     string    `json:"question"` // as in the history
	// Events are the events so far; nil if another instance runs the turn.
	Events []talk.Event `json:"said,omitempty"`
}

// ErrNotActive means that a turn is not being answered any more, or never was.
var ErrNotActive = errors.New("the turn is not being answered")

// errStoppedByAnother is the asker's error when somebody else stopped the answer.
var errStoppedByAnother = fmt.Errorf("%w: %w", talk.ErrDisconnected, talk.ErrStopped)

const (
	// endedRetention is how long the end of a turn stays known to observers that ask a moment
	// later.
	endedRetention = 5 * time.Second
	// maxActiveTurns limits the listed turns of a conversation, to the newest.
	maxActiveTurns = 4
	// observeInterval is the minimum interval between two reports to an observer, so that bots that
	// send single characters do not cause a message for each.
	observeInterval = 60 * time.Millisecond
	// stopTimeout limits the wait until a stopped bot has ended.
	stopTimeout = 3 * time.Second
)

// activeTurn is a turn as observers see it. It has its own lock: that of the run is held while an
// asker takes an event, which can take long.
type activeTurn struct {
	ActiveTurn
	key  askerKey
	stop func() // stops the bot

	mu         sync.Mutex
	transcript transcript
	lastNote   string // the last progress note
	noteCount  int    // number of notes
	change     chan struct{}
	done       bool // everything is stored
	stopped    bool // by somebody
	failure    *talk.Failure
}

// observerCursor is how much of a turn an observer has seen.
type observerCursor struct {
	transcriptPos
	Notes int `json:"notes,omitempty"`
}

// progress is what happened in a turn since a cursor.
type progress struct {
	Events  []talk.Event   `json:"events,omitempty"`
	Cursor  observerCursor `json:"seen"` // after these events
	More    bool           `json:"more,omitempty"`
	Done    bool           `json:"over,omitempty"`
	Stopped bool           `json:"stopped,omitempty"`
	Failure *talk.Failure  `json:"failure,omitempty"`
}

// end is the outcome, as an asker would get it.
func (p *progress) end() error {
	switch {
	case p.Stopped:
		return errStoppedByAnother
	case p.Failure != nil:
		return p.Failure
	}
	return nil
}

// add adds an event.
func (c *activeTurn) add(e talk.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Kind == talk.KindNote {
		c.lastNote, c.noteCount = e.Text, c.noteCount+1
	} else {
		c.transcript.add(e)
	}
	c.changed()
}

func (c *activeTurn) events() []talk.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transcript.events()
}

func (c *activeTurn) empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transcript.empty()
}

func (c *activeTurn) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transcript.text()
}

// end sets the outcome, when it is stored.
func (c *activeTurn) end(failure *talk.Failure, stopped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done, c.failure, c.stopped = true, failure, stopped
	c.changed()
}

// changed wakes the observers. Requires mu.
func (c *activeTurn) changed() {
	if c.change != nil {
		close(c.change)
		c.change = nil
	}
}

// progress returns what happened after a cursor, with at most the given number of bytes of text (0:
// all), and a channel that is closed when there is more.
func (c *activeTurn) progress(from observerCursor, most int) (progress, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := progress{Done: c.done, Stopped: c.stopped, Failure: c.failure, Cursor: from}
	p.Events, p.Cursor.transcriptPos, p.More = c.transcript.since(from.transcriptPos, most)
	if c.noteCount != from.Notes {
		p.Cursor.Notes = c.noteCount
		p.Events = append(p.Events, talk.Note(c.lastNote))
	}
	if c.change == nil {
		c.change = make(chan struct{})
	}
	return p, c.change
}

func (c *activeTurn) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// askerKey identifies the turns of a person with a bot.
type askerKey struct {
	bot    int64
	person string
}

// activeTurns are the turns that run on this instance. Turns without a person belong to no
// conversation, and are not among them.
type activeTurns struct {
	hub  *Hub
	subs []*nats.Subscription

	mu      sync.Mutex
	byAsker map[askerKey][]*activeTurn // in the order in which they began
}

// newActiveTurn returns the turn of a run.
func newActiveTurn(r *run) *activeTurn {
	return &activeTurn{
		ActiveTurn: ActiveTurn{Turn: r.turn.ID, Conversation: r.turn.Conversation, At: r.started,
			Question: questionText(r.turn)},
		key:  askerKey{r.turn.Bot, r.turn.Person},
		stop: func() { r.cancel(talk.ErrStopped) },
	}
}

// add lists a turn.
func (cs *activeTurns) add(c *activeTurn) {
	if c.key.person == "" {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.byAsker[c.key] = append(cs.byAsker[c.key], c)
}

// removeLater removes a turn after endedRetention.
func (cs *activeTurns) removeLater(c *activeTurn) {
	if c.key.person == "" {
		return
	}
	time.AfterFunc(endedRetention, func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		left := slices.DeleteFunc(cs.byAsker[c.key], func(other *activeTurn) bool { return other == c })
		if cs.byAsker[c.key] = left; len(left) == 0 {
			delete(cs.byAsker, c.key)
		}
	})
}

// inConversation returns the turns of a conversation that run on this instance.
func (cs *activeTurns) inConversation(t ConversationRef) (out []*activeTurn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.byAsker[askerKey{t.Bot, t.Person}] {
		if (t.Conversation == "" || c.Conversation == t.Conversation) && !c.ended() {
			out = append(out, c)
		}
	}
	return out
}

// find returns a turn that runs on this instance, or did a moment ago.
func (cs *activeTurns) find(t ConversationRef, turn string) *activeTurn {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.byAsker[askerKey{t.Bot, t.Person}] {
		if c.Turn == turn && (t.Conversation == "" || c.Conversation == t.Conversation) {
			return c
		}
	}
	return nil
}

// ActiveTurns lists the active turns of a conversation on all instances, in the order in which they
// began: the newest, if there are many. When a turn is not listed any more, its end is stored.
func (h *Hub) ActiveTurns(ctx context.Context, t ConversationRef) []ActiveTurn {
	var out []ActiveTurn
	for _, c := range h.activeTurns.inConversation(t) {
		o := c.snapshot()
		p, _ := c.progress(observerCursor{}, 0)
		o.Events = p.Events
		out = append(out, o)
	}
	reports, _ := h.activeTurns.queryPeers(ctx, inquiry{Conversation: t}, inquiryTimeout)
	for _, r := range reports {
		out = append(out, r.Turns...)
	}
	slices.SortFunc(out, func(a, b ActiveTurn) int { return a.At.Compare(b.At) })
	return out[max(0, len(out)-maxActiveTurns):]
}

// Observe passes the events of a turn to see, from its beginning: first those so far, which may be
// none, and then the others. Of progress notes only the last one counts. It returns the outcome of
// the turn when it is stored, as [Hub.Answer] does; [ErrNotActive] if the turn was not found, or
// its instance was lost; and the error of ctx or see if one of them ended it early.
func (h *Hub) Observe(ctx context.Context, t ConversationRef, turn string, see func([]talk.Event) error) error {
	c := h.activeTurns.find(t, turn)
	if c == nil {
		return h.activeTurns.observeRemote(ctx, t, turn, see)
	}
	var from observerCursor
	for first := true; ; first = false {
		p, change := c.progress(from, 0)
		from = p.Cursor
		if first || len(p.Events) > 0 {
			if err := see(p.Events); err != nil {
				return err
			}
		}
		if p.Done {
			return p.end()
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := netx.Wait(ctx, observeInterval); err != nil {
			return err
		}
	}
}

// StopResult is the result of stopping turns.
type StopResult struct {
	Turns int `json:"turns"` // number of stopped turns
	// Pending reports whether a bot was asked to stop and has not ended yet.
	Pending bool `json:"going,omitempty"`
	// Unconfirmed reports whether an instance has not replied, where turns may continue.
	Unconfirmed bool `json:"unsure,omitempty"`
}

// StopTurns stops the bot in a conversation, on whichever instance. The events so far stay; askers
// get the error that the answer was stopped. It waits a moment until the bot has ended.
func (h *Hub) StopTurns(ctx context.Context, t ConversationRef) StopResult {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	here := h.activeTurns.inConversation(t)
	for _, c := range here {
		c.stop()
	}
	reports, silent := h.activeTurns.queryPeers(ctx, inquiry{Conversation: t, Stop: true}, stopTimeout)
	out := StopResult{Turns: len(here), Unconfirmed: silent}
	for _, c := range here {
		for !c.ended() && ctx.Err() == nil {
			p, change := c.progress(observerCursor{}, 1)
			if p.Done {
				break
			}
			select {
			case <-change:
			case <-ctx.Done():
			}
		}
		out.Pending = out.Pending || !c.ended()
	}
	for _, r := range reports {
		out.Turns += len(r.Turns)
		for _, o := range r.Turns {
			out.Pending = !h.activeTurns.waitRemoteEnd(ctx, r.Instance, t, o.Turn) || out.Pending
		}
	}
	return out
}
