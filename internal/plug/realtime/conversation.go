package realtime

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"patchbay/internal/talk"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/realtime"
)

const (
	// maxSaid limits what a person says without a pause, in samples. What exceeds it is dropped.
	maxSaid = int(engine.MaxUtterance * talk.HearingRate / time.Second)
	// maxHistory limits what a session is told of the time before, in messages and bytes.
	maxHistory, maxHistoryBytes = 40, 16 << 10
	// listTimeout limits the wait for the list of tools.
	listTimeout = 5 * time.Second
)

// conversation implements [talk.Duplex].
type conversation struct {
	hear   func(talk.Hearing) // nil: nobody wants to know
	silent bool               // the model writes
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has returned
	wake   chan struct{} // has a token when there is something to do
	turns  chan struct{} // has a token while an exchange runs

	mu       sync.Mutex
	bot      *Bot
	turn     *talk.Turn // the last one, or that for which the conversation was opened
	wanted   bool       // a session should stand
	renew    bool       // it should be a new one
	hasTurns bool
	has      terms // of the session
	wants    terms // of the last turn, if hasTurns is set
	history  []talk.Message
	said     []int16 // since the last turn, for a session that replaces a lost one
	unsent   int     // where what was not sent begins in said
	outbox   []any   // events after what was said
	asking   *exchange
	early    []realtime.Event // of an answer that nobody has asked for yet
	used     time.Time        // when somebody last spoke
	sent     int              // samples that services got since the last Use
	spoken   int              // characters that they spoke since then
}

func newConversation(b *Bot, opening *talk.Turn, hear func(talk.Hearing)) *conversation {
	c := &conversation{bot: b, turn: opening, hear: hear, done: make(chan struct{}), wake: make(chan struct{}, 1),
		turns: make(chan struct{}, 1), history: opening.History, used: time.Now()}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// start starts the goroutine. With connect, it connects at once.
func (c *conversation) start(connect bool) {
	c.wanted = connect
	go c.run()
}

// Close implements [talk.Duplex].
func (c *conversation) Close() {
	c.cancel()
	<-c.done
}

// FindsTurns implements [talk.Duplex].
func (c *conversation) FindsTurns() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bot.settings.TurnDetection != ""
}

// Write implements [talk.Duplex].
func (c *conversation) Write(samples []int16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bot.settings.TurnDetection != "" && c.unsent == len(c.said) {
		c.said, c.unsent = c.said[:0], 0 // the service keeps it
	}
	if len(c.said)+len(samples) > maxSaid {
		return
	}
	c.said = append(c.said, samples...)
	c.touch()
}

// Clear implements [talk.Duplex].
func (c *conversation) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sent := c.unsent > 0; sent {
		c.outbox = append(c.outbox, realtime.ClearAudio())
	}
	c.said, c.unsent = nil, 0
	signal(c.wake)
}

// Use implements [talk.Duplex].
func (c *conversation) Use() talk.Use {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := engine.Use{Heard: time.Duration(c.sent) * time.Second / talk.HearingRate, Characters: c.spoken}
	c.sent, c.spoken = 0, 0
	return talk.Use{Heard: u.Heard, Characters: u.Characters, Cost: c.bot.settings.Price.Of(u)}
}

// touch notes that somebody speaks. Requires mu.
func (c *conversation) touch() {
	c.used, c.wanted = time.Now(), true
	signal(c.wake)
}

// send queues events.
func (c *conversation) send(events ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outbox = append(c.outbox, events...)
	signal(c.wake)
}

// answer answers a turn, which waits for the one before to end.
func (c *conversation) answer(ctx context.Context, b *Bot, turn *talk.Turn, emit talk.Emit) error {
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
		return engine.Errorf(engine.Closed, "the conversation is over")
	}
	c.use(b, turn, terms{b.functions(ctx, turn), mannerOf(turn)})
	x := newExchange(ctx, c, b, turn, emit)
	c.mu.Lock()
	c.asking = x
	x.queue()
	x.early, c.early = c.early, nil
	c.touch()
	c.mu.Unlock()
	err := x.run(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	close(x.done)
	c.consumed(x.samples)
	c.asking, c.used = nil, time.Now()
	if _, ok := errors.AsType[*engine.Error](err); ok {
		c.renew = true // who knows what state the session is in
	}
	c.remember(talk.RolePerson, x.question())
	c.remember(talk.RoleBot, x.heard.String())
	signal(c.wake)
	return err
}

// terms are what a session has of a turn.
type terms struct {
	tools  []realtime.Function
	manner talk.Manner
}

func mannerOf(turn *talk.Turn) (m talk.Manner) {
	if turn.Spoken != nil {
		m = turn.Spoken.Manner
	}
	return m
}

// use goes on with a bot whose settings have changed, or with other terms, in another session:
// OpenAI changes no voice after the first sound (API reference, session.update, voice).
func (c *conversation) use(b *Bot, turn *talk.Turn, t terms) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn, c.wants, c.hasTurns = turn, t, true
	if c.bot != b || !reflect.DeepEqual(t, c.has) {
		c.bot, c.renew = b, true
	}
}

// consumed forgets the sound of a turn that the service has. Requires mu.
func (c *conversation) consumed(samples int) {
	c.said = c.said[min(samples, len(c.said)):]
	c.unsent = max(c.unsent-samples, 0)
}

// remember adds to what the next session is told. Requires mu.
func (c *conversation) remember(role talk.Role, text string) {
	if text == "" {
		return
	}
	c.history = append(c.history[max(0, len(c.history)+1-maxHistory):len(c.history):len(c.history)],
		talk.Message{Role: role, Text: text})
}

// recent returns the newest part of the history that a session is told. Requires mu.
func (c *conversation) recent() []talk.Message {
	first, left := len(c.history), maxHistoryBytes
	for first > 0 {
		if left -= len(c.history[first-1].Text); left < 0 {
			break
		}
		first--
	}
	return c.history[first:]
}

// signal puts a token into a channel that has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is one already
	}
}
