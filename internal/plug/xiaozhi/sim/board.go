// Package sim is a stand-in for a XiaoZhi voice board: it calls home, talks over a
// WebSocket or over MQTT and UDP as the firmware does, with its habits, and says
// where a server breaks the rules that real boards live by. It is there for tests,
// for trying a server out, and for load: an idle board costs some KiB.
//
// The habits, read in the firmware:
//
//   - It never subscribes over MQTT, and uses MQTT whenever it is offered.
//   - What it was told once stays until it is replaced.
//   - Messages are carried out by one loop, some milliseconds after they came. Audio
//     is judged when it comes: what comes while the board does not speak yet, or any
//     more, is thrown away, and so is what does not fit into the queue.
//   - It ends a WebSocket by dropping the TCP connection, and does not answer a
//     Close frame.
//   - After an abort it goes on speaking until the server says stop.
//   - Wake word audio comes in one burst, before the first listen.
//   - While it takes a photo it does nothing else.
//   - Silence is packets of one byte.
//   - Up to firmware 2.4, messages of errors are not escaped, and have no code.
package sim

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/plug/xiaozhi/wire"
)

// Options describe a board. Only OTA is required. What is left empty gets an
// invented value.
type Options struct {
	// OTA is the address at which the board calls home, such as
	// http://127.0.0.1:3000/xiaozhi/ota/.
	OTA  string
	MAC  string // lower case, with colons
	UUID string
	// Serial and Key are burnt into some boards: 32 characters, and what a challenge
	// is answered with.
	Serial string
	Key    []byte
	Name   string // the article: "bread-compact-wifi"
	Lang   string // "zh-CN"

	Profile Profile // the firmware; 2.4.2 if empty
	// Mode is how the board listens: wire.ModeAuto (if empty), wire.ModeRealtime for
	// boards that remove their own voice, or wire.ModeManual, with which [Board.Ask]
	// holds a button.
	Mode string
	// ServerAEC makes a board leave its own voice to the server: it gives back
	// timestamps, and listens in realtime.
	ServerAEC bool
	// Program makes it a program or a web page that stands in for a board: it records from
	// the moment when it says that it listens, goes on while the server speaks, and does not
	// say that it listens again.
	Program   bool
	WakeWord  string   // "你好小智"
	WakeAudio [][]byte // at most 33 packets; some are invented

	// Picture is what the camera sees: a JPEG file. Without one there is no camera.
	Picture []byte
	// Tools are the board's own, after the standard ones.
	Tools []Tool

	// Latency is how long a message waits for the loop; 5 to 20 ms if nil.
	Latency func() time.Duration
	// Scale multiplies the waits of the call home, of the activation and between MQTT
	// connections: 0.01 makes a test fast. Zero means 1.
	Scale float64
	// Tries is how often the call home is tried; 1 if zero. Firmware tries ten times.
	Tries int
	// Slack is added to the time limits of checks, for machines that have a lot to do.
	Slack time.Duration
	// Held, if not nil, is for how long this process stood still since some moment, as a
	// [Meter] measures it: a server is not blamed for that.
	Held func() time.Duration
	// Steady says that the server has something to send all the time, so that a
	// pause between the packets of an answer is its own fault.
	Steady bool
	// KeepAudio keeps the packets of answers.
	KeepAudio bool
	Faults    Faults

	// TLS is for servers with certificates of one's own.
	TLS *tls.Config
	// Dial makes connections; nil means the usual way.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Watch, if not nil, is told what happens, from one goroutine at a time. It must
	// not call the board.
	Watch func(Event)
	// Logger may be nil.
	Logger *slog.Logger
}

// Faults are what can go wrong between a board and its server, and in a board. The
// shares go from 0 to 1.
type Faults struct {
	Loss, Duplicate, Reorder float64 // shares of datagrams, both ways
	// MuteTools leaves every call of a tool without an answer; TwiceTools answers it
	// twice; LateTools answers so much later.
	MuteTools, TwiceTools bool
	LateTools             time.Duration
}

// What a caller may want to know about an error.
var (
	// ErrIdle says that there is no conversation (any more).
	ErrIdle = errors.New("the board is idle")
	// ErrClosed says that the board was closed.
	ErrClosed = errors.New("the board was closed")
)

// Crash is something a real board does not survive: it reboots, most of the time
// for ever.
type Crash struct{ Why string }

func (c *Crash) Error() string { return "the board crashed: " + c.Why }

// State is what a board is doing.
type State int8

// The states.
const (
	Off State = iota
	Starting
	Activating
	Upgrading
	Idle
	Connecting
	Listening
	Speaking
)

func (s State) String() string {
	return [...]string{"off", "starting", "activating", "upgrading", "idle", "connecting", "listening", "speaking"}[s]
}

// Board is one board. Its methods may be used from several goroutines. Close it.
type Board struct {
	opt Options
	ctx context.Context // until Close
	end context.CancelFunc
	wg  sync.WaitGroup

	mu    sync.Mutex
	state State
	bell  chan struct{} // closed when something changed; nil if nobody waits

	// The loop, see loop.go.
	tasks   []func(context.Context)
	entries []State
	looping bool

	// What survives a reboot.
	flash    flash
	overMQTT bool
	firmware string
	build    string    // the hash of the firmware
	recent   [8]string // session ids, to see one twice
	recentAt int
	lastKey  string // of the last UDP link

	// The conversation.
	line      *mqttLine // nil unless MQTT is connected
	ch        *channel  // nil unless there is one
	ghosts    []*channel
	mode      string
	mic       *microphone
	speech    [][]byte
	sendQueue []packet
	sending   bool
	lastVoice time.Time
	spoken    bool // somebody said something since the last listen

	show   show
	vision vision
	pages  pages
	talk
	report Report
}

// New makes a board that does nothing until [Board.Boot].
func New(opt Options) *Board {
	if opt.MAC == "" {
		opt.MAC = randomMAC()
	}
	fill(&opt.UUID, opt.UUID, uuid.NewString())
	fill(&opt.Name, opt.Name, "bread-compact-wifi")
	fill(&opt.Lang, opt.Lang, "zh-CN")
	fill(&opt.WakeWord, opt.WakeWord, "你好小智")
	fill(&opt.Mode, opt.Mode, wire.ModeAuto)
	if opt.ServerAEC {
		opt.Mode = wire.ModeRealtime
	}
	if opt.Profile.Name == "" {
		opt.Profile = FW242
	}
	if opt.Scale <= 0 {
		opt.Scale = 1
	}
	if opt.Latency == nil {
		opt.Latency = loopLatency
	}
	if opt.Dial == nil {
		opt.Dial = new(net.Dialer).DialContext
	}
	if opt.WakeAudio == nil {
		opt.WakeAudio = GoodMorning()[:25]
	}
	b := &Board{opt: opt, firmware: opt.Profile.Version, build: firstBuild, mode: opt.Mode, show: show{volume: 70, brightness: 75, theme: "light"}}
	b.ctx, b.end = context.WithCancel(context.Background())
	return b
}

// firstBuild is the hash of the firmware that a board leaves the factory with.
const firstBuild = "c8a8ecb6d6fbcda682494d9675cd1ead240ecf38bdde75282a42365a0e396033"

// Reflash puts other firmware with other tools of its own, and of the same version, on the
// board. An empty build stays what it was, as in programs that stand in for boards.
// [Board.Boot] starts it.
func (b *Board) Reflash(build string, tools []Tool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opt.Tools = tools
	if build != "" {
		b.build = build
	}
}

func fill(s *string, given, otherwise string) {
	if *s = given; given == "" {
		*s = otherwise
	}
}

// loopLatency is how long a message waits for a board's loop.
func loopLatency() time.Duration {
	return 5*time.Millisecond + rand.N(15*time.Millisecond)
}

func randomMAC() string {
	const digits = "0123456789abcdef"
	b := []byte("02:00:00:00:00:00")
	for i := 3; i < len(b); i++ {
		if b[i] != ':' {
			b[i] = digits[rand.IntN(16)]
		}
	}
	return string(b)
}

// Close takes the power away: connections are dropped. It waits until nothing of
// the board runs any more.
func (b *Board) Close() {
	b.mu.Lock()
	b.state = Off
	b.end()
	b.dropAll()
	b.changed()
	b.mu.Unlock()
	b.wg.Wait()
}

// dropAll drops all connections. The caller holds b.mu.
func (b *Board) dropAll() {
	b.stopMic()
	if b.ch != nil {
		b.ch.link.drop(false)
		b.ch = nil
	}
	for _, g := range b.ghosts {
		g.link.drop(false)
	}
	b.ghosts = nil
	if b.line != nil {
		b.line.drop(false)
		b.line = nil
	}
}

// MAC is the board's Device-Id.
func (b *Board) MAC() string { return b.opt.MAC }

// UUID is the board's Client-Id.
func (b *Board) UUID() string { return b.opt.UUID }

// View is what somebody in front of a board, or with a debugger, sees of it.
type View struct {
	State     State
	SessionID string // of the conversation
	Online    bool   // MQTT is connected
	Listening bool   // the microphone is on
	Displayed string // what was shown last: a subtitle, an alert, a code
	Emotion   string
	Volume    int // 0 to 100
	Bright    int // 0 to 100
	Theme     string
	Answers   int // how many were heard to the end
	Notices   int // notifications that were played
	Calls     int // of tools, carried out
}

// View looks at the board.
func (b *Board) View() View {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.view()
}

func (b *Board) view() View {
	v := View{
		State: b.state, Online: b.line != nil, Listening: b.mic != nil, Displayed: b.show.text, Emotion: b.show.emotion,
		Volume: b.show.volume, Bright: b.show.brightness, Theme: b.show.theme, Answers: b.answers,
		Notices: b.report.Notices, Calls: b.report.Calls,
	}
	if b.ch != nil {
		v.SessionID = b.ch.session
	}
	return v
}

// Await waits until the board looks as it should.
func (b *Board) Await(ctx context.Context, good func(View) bool) (View, error) {
	var v View
	err := b.until(ctx, func() bool { v = b.view(); return good(v) })
	return v, err
}

// until waits for something that is guarded by b.mu.
func (b *Board) until(ctx context.Context, good func() bool) error {
	for {
		b.mu.Lock()
		if good() {
			b.mu.Unlock()
			return nil
		}
		if b.bell == nil {
			b.bell = make(chan struct{})
		}
		bell := b.bell
		b.mu.Unlock()
		select {
		case <-bell:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-b.ctx.Done():
			return ErrClosed
		}
	}
}

// changed wakes those who wait. The caller holds b.mu.
func (b *Board) changed() {
	if b.bell != nil {
		close(b.bell)
		b.bell = nil
	}
}

// Volume is how loud the board plays, from 0 to 100.
func (b *Board) Volume() int { return b.View().Volume }

// Displayed is what the board showed last.
func (b *Board) Displayed() string { return b.View().Displayed }

// show is what a board shows and how loud it is.
type show struct {
	text, emotion, theme string
	volume, brightness   int
}

// display shows a text. The caller holds b.mu.
func (b *Board) display(kind EventKind, text string) {
	b.show.text = text
	b.event(kind, text)
}

// EventKind names what happened to a board.
type EventKind string

// The kinds of events.
const (
	EventState     EventKind = "state"     // Text is the new state
	EventCode      EventKind = "code"      // the activation code is shown
	EventHeard     EventKind = "heard"     // what the server understood
	EventSentence  EventKind = "sentence"  // a subtitle
	EventEmotion   EventKind = "emotion"   // a face
	EventAlert     EventKind = "alert"     // an alert, with its text
	EventCall      EventKind = "call"      // a tool is carried out
	EventNotice    EventKind = "notice"    // a notification was played
	EventGone      EventKind = "gone"      // the conversation or MQTT ended; Text says why
	EventUpgrade   EventKind = "upgrade"   // new firmware, with its version
	EventViolation EventKind = "violation" // the server broke a rule
)

// Event is something that happened to a board.
type Event struct {
	At   time.Time
	Kind EventKind
	Text string
}

// event tells it. The caller holds b.mu.
func (b *Board) event(kind EventKind, text string) {
	if b.opt.Logger != nil {
		b.opt.Logger.Debug("board", "mac", b.opt.MAC, "kind", string(kind), "text", text)
	}
	if b.opt.Watch != nil {
		b.opt.Watch(Event{At: time.Now(), Kind: kind, Text: text})
	}
	b.changed()
}

func (b *Board) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * b.opt.Scale)
}

// sleep waits; false means that the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// userAgent is what the board calls itself.
func (b *Board) userAgent() string {
	return strings.ReplaceAll(b.opt.Name, " ", "-") + "/" + b.firmware
}
