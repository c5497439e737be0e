package engine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Link is an engine of a [Chain].
type Link struct {
	Name string
	// Version changes when the settings of the engine do.
	Version string
	Engine
	// Circuit is shared by all chains that have the engine; nil: none.
	Circuit *Circuit
	// Slots limits how many utterances and speeches use the engine at a time; nil: any number.
	Slots *Slots
	// Spell writes a text as the engine needs it, with numbers in words; nil: as it is. Its second
	// argument is that of [Manner]. What is shown does not change.
	Spell func(text, language string) string
	// Spent returns an error of class [Spent] if the engine may do no more of a stage today. Nil:
	// it may do as much as it is asked.
	Spent func(stage string) *Error
	// Price is what it costs.
	Price Price
	// OnFailure is called for each failure, and OnResult for each success with how long it took
	// after the end of the speech, or after the sentence was there. They may be nil.
	OnFailure func(stage string, err *Error)
	OnResult  func(stage string, took time.Duration)
}

// ID tells engines apart, and an engine from what it was with other settings.
type ID struct{ Name, Version string }

func (l *Link) id() ID { return ID{l.Name, l.Version} }

// The stages that [Link.OnFailure] gets.
const (
	StageListen = "listen"
	StageSpeak  = "speak"
)

// failed records a failure.
func (l *Link) failed(stage string, err *Error) {
	if l.Circuit != nil {
		l.Circuit.record(err, time.Now())
	}
	if l.OnFailure != nil {
		l.OnFailure(stage, err)
	}
}

// succeeded records a success.
func (l *Link) succeeded(stage string, took time.Duration) {
	if l.Circuit != nil {
		l.Circuit.record(nil, time.Now())
	}
	if l.OnResult != nil {
		l.OnResult(stage, took)
	}
}

// Chain uses the first of its engines, and the next one if that fails, within the same turn.
type Chain struct {
	Links []Link
	// Patience limits how long an engine may take for a result while another one is left, and Wait
	// how long all of them may together; the last one has Patience at least. 0: 3 and 6 seconds.
	Patience, Wait time.Duration
	// Account is for whom the engines are used; nil: nobody counts, and nobody refuses.
	Account Account
}

var errNoEngine = Errorf(Closed, "no speech engine is set up")

// Defaults of [Chain.Patience] and [Chain.Wait]. A person is answered, or told why not, within 8
// seconds after the speech when the engines of one stage hang: its end is certain 0.8 seconds
// later, and the last second is for telling it (see [ChainSpeech.Hurry]).
const (
	defaultPatience = 3 * time.Second
	defaultWait     = 6 * time.Second
)

// limits are those of a stage. One goroutine uses them.
type limits struct {
	patience, wait time.Duration
	waited         time.Duration // for engines, since the last result
}

func (c *Chain) limits() limits {
	return limits{patience: cmp.Or(c.Patience, defaultPatience), wait: cmp.Or(c.Wait, defaultWait)}
}

// next returns how long an engine may take if so many are left, itself included.
func (l *limits) next(left int) time.Duration {
	if left > 1 {
		return l.patience
	}
	return max(l.wait-l.waited, l.patience)
}

// usable returns the links of a stage that may be used now. The error is that of one that may not
// be, if there is no other.
func (c *Chain) usable(stage string) (links []*Link, err *Error) {
	err = errNoEngine
	now := time.Now()
	for i := range c.Links {
		l := &c.Links[i]
		if l.part(stage) == nil {
			continue
		}
		refusal := l.spent(stage)
		if refusal == nil && l.Circuit != nil {
			refusal = l.Circuit.allow(now)
		}
		if refusal != nil {
			err = refusal
			continue
		}
		links = append(links, l)
	}
	return links, err
}

// part returns the engine's [Listener] or [Speaker]; nil: it has none.
func (l *Link) part(stage string) any {
	switch {
	case stage == StageListen && l.Listener != nil:
		return l.Listener
	case stage == StageSpeak && l.Speaker != nil:
		return l.Speaker
	}
	return nil
}

func (l *Link) spent(stage string) *Error {
	if l.Spent == nil {
		return nil
	}
	return l.Spent(stage)
}

// first returns the first engine of a stage that may be used without being on trial; nil: none.
func (c *Chain) first(stage string) *Link {
	for i := range c.Links {
		l := &c.Links[i]
		if l.part(stage) != nil && l.spent(stage) == nil && (l.Circuit == nil || l.Circuit.closed()) {
			return l
		}
	}
	return nil
}

// CanSpeak reports whether one of the engines speaks, even if it fails at the moment.
func (c *Chain) CanSpeak() bool {
	return slices.ContainsFunc(c.Links, func(l Link) bool { return l.Speaker != nil })
}

// Speaks returns the engine that speaks first. It is not ok if none can.
func (c *Chain) Speaks() (id ID, ok bool) {
	l := c.first(StageSpeak)
	if l == nil {
		return id, false
	}
	return l.id(), true
}

// Streams reports whether the engine that speaks first takes a text while it is written.
func (c *Chain) Streams() bool {
	l := c.first(StageSpeak)
	if l == nil {
		return false
	}
	_, streams := l.Speaker.(Streamer)
	return streams
}

// timeLimit cancels a context unless it is stopped in time. It is safe for concurrent use.
type timeLimit struct {
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	duration time.Duration
	timer    *time.Timer // nil while it is stopped
	since    time.Time   // when it was started last
}

// newTimeLimit returns a stopped limit and the context that it cancels.
func newTimeLimit(ctx context.Context, d time.Duration) (context.Context, *timeLimit) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &timeLimit{cancel: cancel, duration: d}
}

// start starts it unless it runs.
func (t *timeLimit) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil {
		d := t.duration
		t.since = time.Now()
		t.timer = time.AfterFunc(d, func() { t.cancel(Errorf(Timeout, "no result within %s", d)) })
	}
}

// set changes how long it runs when it is started again.
func (t *timeLimit) set(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.duration = d
}

// stop stops it and returns how long it ran; 0 if it was stopped.
func (t *timeLimit) stop() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil {
		return 0
	}
	t.timer.Stop()
	t.timer = nil
	return time.Since(t.since)
}
