package board

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

// Talk is what a person has with a bot.
type Talk struct {
	Bot          int64  `json:"bot"`
	Person       string `json:"person"`
	Conversation string `json:"conversation,omitempty"` // empty: all of them
}

// Ongoing is a turn that is being answered.
type Ongoing struct {
	Turn         string    `json:"turn"`
	Conversation string    `json:"conversation"`
	At           time.Time `json:"at"`
	Question     string    `json:"question"` // as history will have it
	// Said is what the bot has said so far; nil if another instance has it.
	Said []talk.Event `json:"said,omitempty"`
}

// ErrNotOngoing says that a turn is not being answered any more, or never was.
var ErrNotOngoing = errors.New("the turn is not being answered")

// errStoppedByAnother is what an asker is told when somebody else has stopped the answer.
var errStoppedByAnother = fmt.Errorf("%w: %w", talk.ErrHungUp, ErrStopped)

const (
	// lingering is how long it is known how a turn ended, for those who ask a moment later.
	lingering = 5 * time.Second
	// ongoingMost bounds how many turns of a conversation are told of, the newest.
	ongoingMost = 4
	// followEvery is how often somebody who looks on is told something, at most, so that
	// bots that send single characters do not make a message of each.
	followEvery = 60 * time.Millisecond
	// stopWait bounds the wait until a bot that was told to stop has ended.
	stopWait = 3 * time.Second
)

// A course is how a turn goes, as those who look on see it. Its lock is its own: the
// run's is held while an asker takes a piece, which can take long.
type course struct {
	Ongoing
	whom whom
	stop func() // has the bot stop

	mu      sync.Mutex
	log     transcript
	note    string // the last word about the work
	notes   int    // how many there have been
	change  chan struct{}
	over    bool // everything is written down
	stopped bool // by somebody
	failure *talk.Failure
}

// seen is how much of a course somebody has seen.
type seen struct {
	mark
	Notes int `json:"notes,omitempty"`
}

// progress is how a course went on.
type progress struct {
	Events  []talk.Event  `json:"events,omitempty"`
	Seen    seen          `json:"seen"` // with them
	More    bool          `json:"more,omitempty"`
	Over    bool          `json:"over,omitempty"`
	Stopped bool          `json:"stopped,omitempty"`
	Failure *talk.Failure `json:"failure,omitempty"`
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
func (c *course) add(e talk.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Kind == talk.KindNote {
		c.note, c.notes = e.Text, c.notes+1
	} else {
		c.log.add(e)
	}
	c.changed()
}

func (c *course) events() []talk.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.events()
}

func (c *course) empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.empty()
}

func (c *course) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.text()
}

// end says how the turn ended, when that is written down.
func (c *course) end(failure *talk.Failure, stopped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over, c.failure, c.stopped = true, failure, stopped
	c.changed()
}

// changed wakes those who look on. With mu held.
func (c *course) changed() {
	if c.change != nil {
		close(c.change)
		c.change = nil
	}
}

// progress is what there is after what was seen, most bytes of words at the most (0: all),
// and a channel that is closed when there is something else.
func (c *course) progress(from seen, most int) (progress, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := progress{Over: c.over, Stopped: c.stopped, Failure: c.failure, Seen: from}
	p.Events, p.Seen.mark, p.More = c.log.since(from.mark, most)
	if c.notes != from.Notes {
		p.Seen.Notes = c.notes
		p.Events = append(p.Events, talk.Note(c.note))
	}
	if c.change == nil {
		c.change = make(chan struct{})
	}
	return p, c.change
}

func (c *course) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// whom is whose turns, and which bot's.
type whom struct {
	bot    int64
	person string
}

// courses are the turns that are answered here. Those of nobody belong to no conversation,
// and are not among them.
type courses struct {
	board *Board
	subs  []*nats.Subscription

	mu sync.Mutex
	of map[whom][]*course // in the order in which they began
}

// begin makes the course of a run's turn.
func (cs *courses) begin(r *run) *course {
	c := &course{
		Ongoing: Ongoing{Turn: r.turn.ID, Conversation: r.turn.Conversation, At: r.started, Question: question(r.turn)},
		whom:    whom{r.turn.Bot, r.turn.Person},
		stop:    func() { r.cancel(ErrStopped) },
	}
	if c.whom.person == "" {
		return c
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.of[c.whom] = append(cs.of[c.whom], c)
	return c
}

// end lets a course go after a moment.
func (cs *courses) end(c *course) {
	if c.whom.person == "" {
		return
	}
	time.AfterFunc(lingering, func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		left := slices.DeleteFunc(cs.of[c.whom], func(other *course) bool { return other == c })
		if cs.of[c.whom] = left; len(left) == 0 {
			delete(cs.of, c.whom)
		}
	})
}

// ongoing finds the turns of a conversation that are being answered here.
func (cs *courses) ongoing(t Talk) (out []*course) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.of[whom{t.Bot, t.Person}] {
		if (t.Conversation == "" || c.Conversation == t.Conversation) && !c.ended() {
			out = append(out, c)
		}
	}
	return out
}

// find finds a turn that is answered here, or was a moment ago.
func (cs *courses) find(t Talk, turn string) *course {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.of[whom{t.Bot, t.Person}] {
		if c.Turn == turn && (t.Conversation == "" || c.Conversation == t.Conversation) {
			return c
		}
	}
	return nil
}

// Ongoing lists the turns of a conversation that are being answered, on any instance, in
// the order in which they began: the last few, if there are many. How one of them ended
// is written down when it is not listed any more.
func (b *Board) Ongoing(ctx context.Context, t Talk) []Ongoing {
	var out []Ongoing
	for _, c := range b.courses.ongoing(t) {
		o := c.Ongoing
		p, _ := c.progress(seen{}, 0)
		o.Said = p.Events
		out = append(out, o)
	}
	reports, _ := b.courses.inquire(ctx, inquiry{Talk: t}, lookWait)
	for _, r := range reports {
		out = append(out, r.Turns...)
	}
	slices.SortFunc(out, func(a, b Ongoing) int { return a.At.Compare(b.At) })
	return out[max(0, len(out)-ongoingMost):]
}

// Follow hands what is said in a turn to see, from its beginning: first what there is,
// which may be nothing, and then what comes. Of notes, the last one counts. It returns how
// the turn ended, as [Board.Answer] does, when that is written down; [ErrNotOngoing] if the
// turn was not found, or its instance was lost; and why it ended early, if ctx or see did
// that.
func (b *Board) Follow(ctx context.Context, t Talk, turn string, see func([]talk.Event) error) error {
	c := b.courses.find(t, turn)
	if c == nil {
		return b.courses.followElsewhere(ctx, t, turn, see)
	}
	var from seen
	for first := true; ; first = false {
		p, change := c.progress(from, 0)
		from = p.Seen
		if first || len(p.Events) > 0 {
			if err := see(p.Events); err != nil {
				return err
			}
		}
		if p.Over {
			return p.end()
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := pause(ctx, followEvery); err != nil {
			return err
		}
	}
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stopped is what became of stopping.
type Stopped struct {
	Turns int `json:"turns"` // were stopped
	// Going says that a bot was told to stop, and has not done so yet.
	Going bool `json:"going,omitempty"`
	// Unsure says that an instance has not answered, which may go on.
	Unsure bool `json:"unsure,omitempty"`
}

// Stop stops the bot in a conversation, on whatever instance it is being asked. What it has
// said is what it has said; whoever waits for more is told that the answer was stopped. It
// waits a moment until the bot has ended.
func (b *Board) Stop(ctx context.Context, t Talk) Stopped {
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	here := b.courses.ongoing(t)
	for _, c := range here {
		c.stop()
	}
	reports, silent := b.courses.inquire(ctx, inquiry{Talk: t, Stop: true}, stopWait)
	out := Stopped{Turns: len(here), Unsure: silent}
	for _, c := range here {
		for !c.ended() && ctx.Err() == nil {
			p, change := c.progress(seen{}, 1)
			if p.Over {
				break
			}
			select {
			case <-change:
			case <-ctx.Done():
			}
		}
		out.Going = out.Going || !c.ended()
	}
	for _, r := range reports {
		out.Turns += len(r.Turns)
		for _, o := range r.Turns {
			out.Going = !b.courses.endsElsewhere(ctx, r.Instance, t, o.Turn) || out.Going
		}
	}
	return out
}
