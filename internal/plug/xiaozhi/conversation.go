package xiaozhi

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/voice/endpoint"
	"patchbay/internal/voice/pace"
)

const (
	// startLead is the time between tts/start and the first packet: a board takes up to 20 ms to
	// change its state, and drops audio that arrives before (xiaozhi-esp32 main/application.cc,
	// Application::InitializeProtocol, OnIncomingAudio). Over UDP it is longer, since datagrams
	// overtake the message.
	startLead, startLeadUDP = 80 * time.Millisecond, 140 * time.Millisecond
	// abortTimeout is how long the end of a conversation waits for active playback to stop.
	abortTimeout = time.Second
	// keepAlive is how long the server sends nothing before it sends a message without effect:
	// boards give a connection up after 120 s without data (wire.ChannelTimeout).
	keepAlive = 90 * time.Second
)

// transport carries a conversation to its board: a WebSocket, or MQTT and UDP.
type transport interface {
	// Text sends a message.
	Text(message []byte) error
	// Audio sends a packet; at is its position in the playback.
	Audio(packet []byte, at time.Duration) error
	// Close ends the conversation. Unless quietly is set, it sends the board a Close frame or
	// a goodbye. It waits for the board for closeTimeout at most.
	Close(quietly bool)
}

// Voice listens and answers in conversations.
type Voice interface {
	// Converse runs in a goroutine of its own, once for each conversation, and returns when
	// ctx ends, which happens at the end of the conversation.
	Converse(ctx context.Context, c *Conversation)
}

// Conversation is one session with a board, from its hello to the end. Its methods are safe for
// concurrent use, except Next.
type Conversation struct {
	board          *Board
	device         store.Device // as of the hello
	id             string
	via            string
	hello          wire.Hello
	output         wire.Audio // what the server's hello announced
	transport      transport
	began          time.Time
	ctx            context.Context
	cancel         context.CancelCauseFunc
	attached       bool // it was the board's conversation; guarded by board.mu
	ending         atomic.Bool
	toldRecorded   atomic.Bool
	endOnce        sync.Once
	player         *pace.Player
	list           playlist                 // what the player plays
	own            atomic.Pointer[ownSound] // gets what the board plays; nil: nobody wants to know
	speakMu        sync.Mutex               // held while tts/start or tts/stop is sent
	intake         pace.ArrivalCounter
	events         *eventQueue
	silenceTimeout time.Duration
	quietChanged   chan struct{} // has a token when quietLimit has changed

	mu        sync.Mutex
	mode      string // of the current listening, or the last one
	listening bool
	speaking  bool
	// interrupted reports whether listening in mode auto ended because of tts/start. Firmware
	// sends listen/start when it listens again; web pages and programs just send audio.
	interrupted bool
	stoppedAt   time.Time // when listening last ended
	// unsolicited counts packets received while the board does not listen, the last at
	// unsolicitedAt: the sound of a wake word. It counts for the next listen/detect only.
	unsolicited      int
	unsolicitedAt    time.Time
	wakeWordAt       time.Time     // when the last listen/detect arrived
	wakeAudioUntil   time.Time     // packets until then belong to the wake word
	quietLimit       time.Duration // silence that ends the conversation before silenceTimeout; 0: none
	lastActivity     time.Time     // last speech, listen/detect, or change of listening or speaking
	heardAt          time.Time     // last speech, wake word or interruption, or the beginning
	lastSent         time.Time
	played           pace.Stats
	answerCount      int
	abortCount       int
	taps             []*tap
	checkingWakeWord bool // resolveDetect is running
}

var (
	errSilenceTimeout    = errors.New("nobody said anything")
	errReplaced          = errors.New("the board has begun another conversation")
	errBoardDisconnected = errors.New("the board is gone")
	errGoodbye           = errors.New("the board said goodbye")
	errServerStopping    = errors.New("the server stops")
)

// newConversation makes a conversation; the caller calls run after it has sent the hello.
func newConversation(b *Board, device store.Device, id, via string, hello wire.Hello, out wire.Audio,
	ch transport) *Conversation {
	h := b.boards
	c := &Conversation{
		board: b, device: device, id: id, via: via, hello: hello, output: out, transport: ch, began: time.Now(),
		silenceTimeout: h.SilenceTimeout, quietChanged: make(chan struct{}, 1),
		events: newEventQueue(),
		list:   playlist{changed: make(chan struct{}, 1)},
		player: pace.NewPlayer(pace.Options{Frame: out.Frame()}),
	}
	c.ctx, c.cancel = context.WithCancelCause(h.ctx)
	c.lastActivity, c.lastSent, c.heardAt = c.began, c.began, c.began
	return c
}

// run starts the voice and the silence timer.
func (c *Conversation) run() {
	h := c.board.boards
	h.spawn(c.watchSilence)
	voice := h.Voice
	if voice == nil {
		voice = silentVoice{}
	}
	if !h.spawn(func() {
		defer c.events.close()
		voice.Converse(c.ctx, c)
	}) {
		c.events.close()
	}
}

// silentVoice answers nothing. The conversation goes on while somebody talks, for those who record
// it or listen.
type silentVoice struct{}

// Converse implements [Voice].
func (silentVoice) Converse(_ context.Context, c *Conversation) {
	speech := endpoint.New(endpoint.Options{})
	for {
		e, err := c.Next()
		if err != nil {
			return
		}
		if e.Kind == EventAudio {
			speech.Packet(e.Opus)
			if speech.IsSpeaking() {
				c.HeardSpeech()
			}
		}
	}
}

// ID returns the session id, which is never used again.
func (c *Conversation) ID() string { return c.id }

// Device returns the board's device record as of the hello.
func (c *Conversation) Device() store.Device { return c.device }

// Lang returns the language in which the board speaks and shows texts.
func (c *Conversation) Lang() i18n.Lang {
	d := c.board.current()
	s := c.board.boards.VoiceSettings(c.ctx, d)
	return i18n.ParseLang(s.Language, i18n.ParseLang(d.Language, c.board.boards.Lang))
}

// Frame returns the length of each packet for the board.
func (c *Conversation) Frame() time.Duration { return c.output.Frame() }

// Rate returns the sample rate of the audio for the board, in Hz.
func (c *Conversation) Rate() int { return c.output.SampleRate }

// Next waits for the next event. See [Event] for how long its audio is valid. Only the goroutine
// of Converse may call it. The error is the reason why the conversation ended.
func (c *Conversation) Next() (Event, error) { return c.events.next(c.ctx) }

// HeardSpeech keeps the conversation open: the silence after which it ends begins again.
func (c *Conversation) HeardSpeech() {
	c.mu.Lock()
	c.lastActivity = time.Now()
	c.heardAt = c.lastActivity
	c.mu.Unlock()
}

// ShowTranscript shows what was understood of the person's speech.
func (c *Conversation) ShowTranscript(text string) error {
	return c.send(&wire.Message{Type: wire.TypeSTT, Text: text})
}

// ShowEmotion changes the face on the display; see [wire.Emotions].
func (c *Conversation) ShowEmotion(emotion string) error {
	return c.send(&wire.Message{Type: wire.TypeLLM, Emotion: emotion})
}

// ShowText shows a sentence without audio.
func (c *Conversation) ShowText(text string) error {
	return c.send(&wire.Message{Type: wire.TypeTTS, State: wire.TTSSentenceStart, Text: text})
}

// send sends a message with the session id.
func (c *Conversation) send(m *wire.Message) error {
	m.SessionID = c.id
	c.mu.Lock()
	c.lastSent = time.Now()
	c.mu.Unlock()
	return c.transport.Text(m.Append(nil))
}

// Generation returns a number for [Conversation.Play]. Take it before preparing an answer: if the
// person interrupts before the answer is ready, Play does not play it.
func (c *Conversation) Generation() uint64 { return c.player.Generation() }

// Speak plays an answer, see [Conversation.Play].
func (c *Conversation) Speak(ctx context.Context, generation uint64, src pace.Source) (pace.Stats, error) {
	return c.Play(ctx, Answer, generation, src)
}

// sendSpeakState sends tts/start or tts/stop.
func (c *Conversation) sendSpeakState(up bool) error {
	c.speakMu.Lock()
	defer c.speakMu.Unlock()
	if up {
		c.setSpeaking(true)
		return c.send(&wire.Message{Type: wire.TypeTTS, State: wire.TTSStart})
	}
	defer c.setSpeaking(false)
	return c.send(&wire.Message{Type: wire.TypeTTS, State: wire.TTSStop})
}

// lead returns the time between tts/start and the first packet.
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
	c.speaking, c.lastActivity = now, time.Now()
	if now && c.mode != wire.ModeRealtime {
		if c.listening {
			c.interrupted = c.mode == wire.ModeAuto
		}
		c.listening, c.stoppedAt = false, c.lastActivity
		c.intake.Pause()
	}
}

// addPlayed adds the result of a playback to the session's counters.
func (c *Conversation) addPlayed(s pace.Stats, aborted bool) {
	c.mu.Lock()
	p := &c.played
	p.Frames += s.Frames
	p.Texts += s.Texts
	p.Stalls += s.Stalls
	p.Gaps += s.Gaps
	p.Silence += s.Silence
	p.Late += s.Late
	p.MaxLateness = max(p.MaxLateness, s.MaxLateness)
	p.Jitter.Merge(s.Jitter)
	c.answerCount++
	if aborted {
		c.abortCount++
	}
	c.mu.Unlock()
	c.board.boards.metrics.recordPlayed(s, aborted)
}

// StopPlayback ends what is spoken, and what waits to be, because the person interrupts it. Earlier
// generations become invalid. Music goes on after the answer to what the person says, or when they
// say nothing.
func (c *Conversation) StopPlayback() { c.stopPlayback(false) }

// StopEverything is [Conversation.StopPlayback], for music too.
func (c *Conversation) StopEverything() { c.stopPlayback(true) }

func (c *Conversation) stopPlayback(music bool) {
	c.mu.Lock()
	c.heardAt = time.Now()
	c.mu.Unlock()
	if c.interrupt(music) {
		return // playRound sends tts/stop
	}
	// No round can begin meanwhile and be stopped by this message.
	c.speakMu.Lock()
	defer c.speakMu.Unlock()
	c.mu.Lock()
	speaking := c.speaking
	c.mu.Unlock()
	if !speaking {
		// The board may speak by itself, or have missed the last tts/stop. It stays in the
		// speaking state until it gets one.
		_ = c.send(&wire.Message{Type: wire.TypeTTS, State: wire.TTSStop}) // the reader notices a broken connection
	}
}

// endWhenQuiet ends the conversation after so much silence, if that is less than usual.
func (c *Conversation) endWhenQuiet(after time.Duration) {
	c.mu.Lock()
	c.quietLimit = after
	c.mu.Unlock()
	signal(c.quietChanged)
}

// End ends the conversation from the server's side.
func (c *Conversation) End(why error) {
	c.end(why, true)
}

// end ends the conversation once. With notify, it waits up to abortTimeout for playback to stop,
// and the board gets a goodbye. Without, it waits for nothing, not even for a concurrent end.
func (c *Conversation) end(why error, notify bool) {
	if notify {
		c.ending.Store(true)
		c.interrupt(true)
		// Until nothing plays any more, or a concurrent end was faster.
		c.list.mu.Lock()
		idle, running := c.list.idle, c.list.running
		c.list.mu.Unlock()
		if running {
			netx.WaitUnless(c.ctx, idle, abortTimeout)
		}
	}
	c.endOnce.Do(func() {
		c.cancel(why)
		c.transport.Close(!notify)
		c.board.onConversationEnd(c, why)
	})
}

// watchSilence ends the conversation after too much silence, and keeps the connection of a board
// that waits for its button alive.
func (c *Conversation) watchSilence() {
	for wait := min(c.silenceTimeout, keepAlive); ; {
		netx.WaitUnless(c.ctx, c.quietChanged, wait)
		if c.ctx.Err() != nil {
			return
		}
		now := time.Now()
		_, music := c.musicStatus()
		c.mu.Lock()
		limit := c.silenceTimeout
		switch {
		case c.mode == wire.ModeManual && !c.listening:
			limit = c.board.boards.ButtonTimeout
		case c.quietLimit != 0:
			limit = min(limit, c.quietLimit)
		}
		left := limit - now.Sub(c.lastActivity)
		// Audio that the voice has not heard yet may be speech.
		if c.speaking || music || c.events.hasAudio() {
			left = limit
		}
		quiet := keepAlive - now.Sub(c.lastSent)
		c.mu.Unlock()
		if left <= 0 {
			c.end(errSilenceTimeout, true)
			return
		}
		if quiet <= 0 {
			// Any message will do. Boards ignore tts/sentence_end (xiaozhi-esp32
			// main/application.cc, Application::InitializeProtocol).
			_ = c.send(&wire.Message{Type: wire.TypeTTS, State: wire.TTSSentenceEnd}) // the reader sees errors
			quiet = keepAlive
		}
		wait = max(min(left, quiet), time.Millisecond)
	}
}
