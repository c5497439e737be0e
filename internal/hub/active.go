package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/talk"
)

// Whoever opens a conversation in which a bot is answering looks on: they are shown what
// was said so far and what comes, and can stop it, on whatever instance it is answered.
// They are no askers. Whether one looks on, or is slow, makes no difference to the bot.

// ConversationRef is what a person has with a bot.
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
	Question     string    `json:"question"` // as history will have it
	// Events is what the bot has said so far; nil if another instance has it.
	Events []talk.Event `json:"said,omitempty"`
}

// ErrNotActive says that a turn is not being answered any more, or never was.
var ErrNotActive = errors.New("the turn is not being answered")

// errStoppedByAnother is what an asker is told when somebody else has stopped the answer.
var errStoppedByAnother = fmt.Errorf("%w: %w", talk.ErrDisconnected, ErrStopped)

const (
	// endedRetention is how long it is known how a turn ended, for those who ask a moment later.
	endedRetention = 5 * time.Second
	// maxActiveTurns bounds how many turns of a conversation are told of, the newest.
	maxActiveTurns = 4
	// observeInterval is how often somebody who looks on is told something, at most, so that
	// bots that send single characters do not make a message of each.
	observeInterval = 60 * time.Millisecond
	// stopTimeout bounds the wait until a bot that was told to stop has ended.
	stopTimeout = 3 * time.Second
)

// A course is how a turn goes, as those who look on see it. Its lock is its own: the
// run's is held while an asker takes a piece, which can take long.
type activeTurn struct {
	ActiveTurn
	key  askerKey
	stop func() // has the bot stop

	mu         sync.Mutex
	transcript transcript
	lastNote   string // the last word about the work
	noteCount  int    // how many there have been
	change     chan struct{}
	done       bool // everything is written down
	stopped    bool // by somebody
	failure    *talk.Failure
}

// observerCursor is how much of a course somebody has seen.
type observerCursor struct {
	transcriptPos
	Notes int `json:"notes,omitempty"`
}

// progress is how a course went on.
type progress struct {
	Events  []talk.Event   `json:"events,omitempty"`
	Cursor  observerCursor `json:"seen"` // with them
	More    bool           `json:"more,omitempty"`
	Done    bool           `json:"over,omitempty"`
	Stopped bool           `json:"stopped,omitempty"`
	Failure *talk.Failure  `json:"failure,omitempty"`
}

// end is how it ended, as an asker would be told.
func (p *progress) end() error {
	switch {
	case p.Stopped:
		return errStoppedByAnother
	case p.Failure != nil:
		return p.Failure
	}
	return nil
}

// add takes a piece.
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

// end says how the turn ended, when that is written down.
func (c *activeTurn) end(failure *talk.Failure, stopped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done, c.failure, c.stopped = true, failure, stopped
	c.changed()
}

// changed wakes those who look on. With mu held.
func (c *activeTurn) changed() {
	if c.change != nil {
		close(c.change)
		c.change = nil
	}
}

// progress is what there is after what was seen, most bytes of words at the most (0: all),
// and a channel that is closed when there is something else.
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

// askerKey is whose turns, and which bot's.
type askerKey struct {
	bot    int64
	person string
}

// activeTurns are the turns that are answered here. Those of nobody belong to no conversation,
// and are not among them.
type activeTurns struct {
	hub  *Hub
	subs []*nats.Subscription

	mu      sync.Mutex
	byAsker map[askerKey][]*activeTurn // in the order in which they began
}

// add makes the course of a run's turn.
func (cs *activeTurns) add(r *run) *activeTurn {
	c := &activeTurn{
		ActiveTurn: ActiveTurn{Turn: r.turn.ID, Conversation: r.turn.Conversation, At: r.started,
			Question: questionText(r.turn)},
		key:  askerKey{r.turn.Bot, r.turn.Person},
		stop: func() { r.cancel(ErrStopped) },
	}
	if c.key.person == "" {
		return c
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.byAsker[c.key] = append(cs.byAsker[c.key], c)
	return c
}

// removeLater lets a course go after a moment.
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

// inConversation finds the turns of a conversation that are being answered here.
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

// find finds a turn that is answered here, or was a moment ago.
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

// ActiveTurns lists the turns of a conversation that are being answered, on any instance, in
// the order in which they began: the last few, if there are many. How one of them ended
// is written down when it is not listed any more.
func (h *Hub) ActiveTurns(ctx context.Context, t ConversationRef) []ActiveTurn {
	var out []ActiveTurn
	for _, c := range h.activeTurns.inConversation(t) {
		o := c.ActiveTurn
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

// Observe hands what is said in a turn to see, from its beginning: first what there is,
// which may be nothing, and then what comes. Of notes, the last one counts. It returns how
// the turn ended, as [Board.Answer] does, when that is written down; [ErrNotActive] if the
// turn was not found, or its instance was lost; and why it ended early, if ctx or see did
// that.
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
		if err := sleep(ctx, observeInterval); err != nil {
			return err
		}
	}
}

// sleep waits.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// StopResult is what became of stopping.
type StopResult struct {
	Turns int `json:"turns"` // were stopped
	// Pending says that a bot was told to stop, and has not done so yet.
	Pending bool `json:"going,omitempty"`
	// Unconfirmed says that an instance has not answered, which may go on.
	Unconfirmed bool `json:"unsure,omitempty"`
}

// StopTurns stops the bot in a conversation, on whatever instance it is being asked. What it has
// said is what it has said; whoever waits for more is told that the answer was stopped. It
// waits a moment until the bot has ended.
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
