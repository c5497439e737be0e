package xiaozhi

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/pace"
)

const (
	// startLead is between telling a board to speak and the first packet: it takes a
	// board up to 20 ms to follow, and what came before is thrown away then. Datagrams
	// overtake the message.
	startLead, startLeadUDP = 80 * time.Millisecond, 140 * time.Millisecond
	// quietEnd is how long the end of a conversation waits for what is being said to
	// break off.
	quietEnd = time.Second
	// keepAlive is after how much silence of ours a board that does not listen is
	// sent something: it believes in a connection for 120 s.
	keepAlive = 90 * time.Second
)

// channel is how a conversation reaches its board: a WebSocket, or MQTT and UDP.
type channel interface {
	// Text sends a message.
	Text(message []byte) error
	// Audio sends a packet that is at a time in what is played.
	Audio(packet []byte, at time.Duration) error
	// Close ends the conversation, quietly or by telling the board that it is over. It
	// does not wait for the board.
	Close(quietly bool)
}

// Voice is what listens and answers in conversations.
type Voice interface {
	// Converse is called once for each conversation, in a goroutine of its own, and
	// returns when ctx ends, which the end of the conversation does.
	Converse(ctx context.Context, c *Conversation)
}

// Conversation is one session with a board, from its hello to the end. Its methods
// may be called by many goroutines.
type Conversation struct {
	board   *Board
	device  store.Device // as it was at the beginning
	id      string
	via     string
	hello   wire.Hello
	out     wire.Audio // what the board was told to expect
	ch      channel
	began   time.Time
	lang    talk.Lang
	ctx     context.Context
	cancel  context.CancelCauseFunc
	begun   bool // it has been the board's; with mu of the board held
	ending  atomic.Bool
	over    sync.Once
	player  *pace.Player
	mouth   chan struct{} // has a token while nobody speaks
	stage   sync.Mutex    // held while the board is told to speak, or to stop
	intake  pace.Intake
	events  *events
	silence time.Duration
	parsed  opus.Packet // of the goroutine that calls sound

	mu        sync.Mutex
	mode      string // of the listening that goes on, or that was the last
	listening bool
	speaking  bool
	// interrupted reports whether listening in mode auto ended because the board was told
	// to speak. Firmware says when it listens again; pages and programs just go on.
	interrupted bool
	stoppedAt   time.Time // when listening ended otherwise
	// unasked counts the packets, the last of them at unaskedAt, that no listening asked
	// for: the sound of a wake word. It is evidence for one message alone, the one that
	// names the wake word.
	unasked   int
	unaskedAt time.Time
	namedAt   time.Time // when the board last sent such a message
	quietTill time.Time // until then, packets are the wake word's
	heardAt   time.Time // when somebody spoke, or the board was last told or said something
	sentAt    time.Time
	played    pace.Stats
	spoken    int
	aborts    int
	taps      []*tap
	waking    bool // somebody finds out whether what was detected is a wake word
}

var (
	errSilence   = errors.New("nobody said anything")
	errReplaced  = errors.New("the board has begun another conversation")
	errBoardGone = errors.New("the board is gone")
	errSaid      = errors.New("the board said goodbye")
	errDrained   = errors.New("the server stops")
)

// newConversation begins a conversation; run has to be called once the board was
// greeted.
func newConversation(b *Board, device store.Device, id, via string, hello wire.Hello, out wire.Audio, ch channel) *Conversation {
	h := b.house
	c := &Conversation{
		board: b, device: device, id: id, via: via, hello: hello, out: out, ch: ch, began: time.Now(), silence: h.Silence,
		lang: talk.ParseLang(device.Language, h.Lang), mouth: make(chan struct{}, 1), events: newEvents(),
		player: pace.NewPlayer(pace.Options{Frame: out.Frame()}),
	}
	c.ctx, c.cancel = context.WithCancelCause(h.ctx)
	c.heardAt, c.sentAt = c.began, c.began
	c.mouth <- struct{}{}
	return c
}

// run lets the voice listen, and minds the silence.
func (c *Conversation) run() {
	h := c.board.house
	h.spawn(c.watch)
	if h.Voice == nil || !h.spawn(func() {
		defer c.events.close()
		h.Voice.Converse(c.ctx, c)
	}) {
		c.events.close()
	}
}

// ID is the session's, which no other ever has.
func (c *Conversation) ID() string { return c.id }

// Device is whom the conversation is with.
func (c *Conversation) Device() store.Device { return c.device }

// Lang is the language of the board.
func (c *Conversation) Lang() talk.Lang { return c.lang }

// Frame is how long each packet for the board must be, and Rate its sample rate.
func (c *Conversation) Frame() time.Duration { return c.out.Frame() }

// Rate is the sample rate of the sound that the board expects, in Hz.
func (c *Conversation) Rate() int { return c.out.SampleRate }

// Next waits for what happens next. See [Heard] for how long that is valid. It is
// for the one goroutine of Converse. The error is why the conversation is over.
func (c *Conversation) Next() (Heard, error) { return c.events.next(c.ctx) }

// Understood shows what was understood.
func (c *Conversation) Understood(text string) error {
	return c.tell(&wire.Message{Type: wire.TypeSTT, Text: text})
}

// Face makes a face; see [wire.Emotions].
func (c *Conversation) Face(emotion string) error {
	return c.tell(&wire.Message{Type: wire.TypeLLM, Emotion: emotion})
}

// Show shows a sentence without a sound.
func (c *Conversation) Show(text string) error {
	return c.tell(&wire.Message{Type: wire.TypeTTS, State: wire.SpeakSentence, Text: text})
}

// tell sends a message of the session.
func (c *Conversation) tell(m *wire.Message) error {
	m.SessionID = c.id
	c.mu.Lock()
	c.sentAt = time.Now()
	c.mu.Unlock()
	return c.ch.Text(m.Append(nil))
}

// Generation is for [Conversation.Speak]: who prepares an answer takes it at the
// beginning. If somebody interrupts before the answer is ready, it is not said.
func (c *Conversation) Generation() uint64 { return c.player.Generation() }

// Speak says something: the board is told to speak, is sent the sound in time, and
// is told when it is over. It waits for whoever speaks. The error is
// [pace.ErrAborted] if somebody wanted quiet, ctx's, why the conversation ended, or
// the source's. The source is closed whatever happens.
func (c *Conversation) Speak(ctx context.Context, generation uint64, src pace.Source) (pace.Stats, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(c.ctx, func() { stop(context.Cause(c.ctx)) })()
	select {
	case <-c.mouth:
		defer func() { c.mouth <- struct{}{} }()
	case <-ctx.Done():
		closeSource(src)
		return pace.Stats{}, context.Cause(ctx)
	}
	if c.ending.Load() || generation != c.player.Generation() {
		closeSource(src)
		return pace.Stats{}, pace.ErrAborted
	}
	if err := c.stand(true); err != nil {
		c.setSpeaking(false)
		closeSource(src)
		return pace.Stats{}, err
	}
	stats, err := c.player.Play(ctx, generation, src, pace.Hooks{
		Send: c.ch.Audio, Text: c.Show, NotBefore: time.Now().Add(c.lead()),
	})
	// Whoever was interrupted must hear that it is over, or goes on playing nothing.
	stopErr := c.stand(false)
	c.sum(stats, errors.Is(err, pace.ErrAborted))
	return stats, errors.Join(err, stopErr)
}

// stand tells the board to speak, or to stop.
func (c *Conversation) stand(up bool) error {
	c.stage.Lock()
	defer c.stage.Unlock()
	if up {
		c.setSpeaking(true)
		return c.tell(&wire.Message{Type: wire.TypeTTS, State: wire.SpeakStart})
	}
	defer c.setSpeaking(false)
	return c.tell(&wire.Message{Type: wire.TypeTTS, State: wire.SpeakStop})
}

// lead is how long after the message that the board is to speak the sound begins.
func (c *Conversation) lead() time.Duration {
	if c.via == store.TransportSocket {
		return startLead
	}
	return startLeadUDP
}

func closeSource(src pace.Source) {
	if c, ok := src.(interface{ Close() error }); ok {
		_ = c.Close() // nothing was read from it
	}
}

func (c *Conversation) setSpeaking(now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.speaking, c.heardAt = now, time.Now()
	if now && c.mode != wire.ModeRealtime {
		if c.listening {
			c.interrupted = c.mode == wire.ModeAuto
		}
		c.listening, c.stoppedAt = false, c.heardAt
		c.intake.Pause()
	}
}

// sum adds what was played to the session's counters.
func (c *Conversation) sum(s pace.Stats, aborted bool) {
	c.mu.Lock()
	p := &c.played
	p.Frames += s.Frames
	p.Texts += s.Texts
	p.Stalls += s.Stalls
	p.Gaps += s.Gaps
	p.Silence += s.Silence
	p.Late += s.Late
	p.Latest = max(p.Latest, s.Latest)
	p.Jitter.Merge(s.Jitter)
	c.spoken++
	if aborted {
		c.aborts++
	}
	c.mu.Unlock()
	c.board.house.metrics.played(s, aborted)
}

// Hush ends what is being said, and what was prepared before now.
func (c *Conversation) Hush() {
	if c.player.Abort() {
		return // who speaks tells the board
	}
	// Nobody begins to speak meanwhile, who would be stopped by this.
	c.stage.Lock()
	defer c.stage.Unlock()
	c.mu.Lock()
	speaking := c.speaking
	c.mu.Unlock()
	if !speaking {
		// The board may have begun to speak by itself, or has not heard that it is
		// over. It stays so until it is told.
		_ = c.tell(&wire.Message{Type: wire.TypeTTS, State: wire.SpeakStop}) // the connection's end is seen by its reader
	}
}

// End ends the conversation from this side.
func (c *Conversation) End(why error) {
	c.end(why, true)
}

// end ends it once; with tell, the board has to be told, and it takes up to quietEnd
// for what is being said to break off. Without, it waits for nobody, also not for
// others who end it.
func (c *Conversation) end(why error, tell bool) {
	if tell {
		c.ending.Store(true)
		c.player.Abort()
		timer := time.NewTimer(quietEnd)
		select {
		case <-c.mouth: // and nobody speaks any more
		case <-c.ctx.Done(): // somebody else was faster
		case <-timer.C:
		}
		timer.Stop()
	}
	c.over.Do(func() {
		c.cancel(why)
		c.ch.Close(!tell)
		c.board.ended(c, why)
	})
}

// watch ends the conversation when nothing is said for too long, and keeps the
// connection of a board alive that waits for its button.
func (c *Conversation) watch() {
	timer := time.NewTimer(min(c.silence, keepAlive))
	defer timer.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		c.mu.Lock()
		limit := c.silence
		if c.mode == wire.ModeManual && !c.listening {
			limit = c.board.house.Linger
		}
		left := limit - now.Sub(c.heardAt)
		if c.speaking {
			left = c.silence
		}
		quiet := keepAlive - now.Sub(c.sentAt)
		c.mu.Unlock()
		if left <= 0 {
			c.end(errSilence, true)
			return
		}
		if quiet <= 0 {
			// Anything will do. Boards do not act on the end of a sentence.
			_ = c.tell(&wire.Message{Type: wire.TypeTTS, State: wire.SpeakEnd}) // the connection's end is seen by its reader
			quiet = keepAlive
		}
		timer.Reset(max(min(left, quiet), time.Millisecond))
	}
}
