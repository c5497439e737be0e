// Package sim simulates a XiaoZhi voice board: it sends OTA requests and talks over a WebSocket, or
// over MQTT and UDP, with the quirks of the firmware, and reports where a server breaks the rules
// that real boards depend on. It serves tests, trials of a server, and load tests: an idle board
// costs some KiB.
//
// The quirks, from the sources of xiaozhi-esp32 and esp-ml307 (package wire names the revisions):
//
//   - It never subscribes over MQTT (main/protocols/mqtt_protocol.cc), and uses MQTT whenever the
//     OTA response offers it (main/application.cc, Application::InitializeProtocol).
//   - Configuration that it received once stays until it is replaced (main/ota.cc,
//     Ota::CheckVersion).
//   - One loop handles messages, some milliseconds after their arrival. Audio is judged at
//     arrival: audio that arrives while the board is not in the speaking state is dropped, and
//     so is audio that does not fit into the queue (main/application.cc,
//     Application::InitializeProtocol and Schedule; main/audio/audio_service.cc).
//   - It ends a WebSocket by dropping the TCP connection, and does not answer a Close frame
//     (esp-ml307 src/web_socket.cc, WebSocket::OnTcpData).
//   - After an abort it stays in the speaking state until tts/stop (main/application.cc,
//     Application::AbortSpeaking).
//   - Wake word audio is sent in one burst, before the first listen/start (main/application.cc,
//     Application::ContinueWakeWordInvoke).
//   - While it takes a photo it does nothing else (main/mcp_server.cc, McpServer::DoToolCall).
//   - Silence is sent as packets of one byte (DTX; main/audio/audio_service.h,
//     AS_OPUS_ENC_CONFIG).
//   - Up to firmware 2.4, error messages are not escaped in JSON, and errors have no code
//     (main/mcp_server.cc, McpServer::ReplyError).
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

// Options describe a board. Only OTA is required. Empty fields get defaults or generated values.
type Options struct {
	// OTA is the URL of OTA requests, such as http://127.0.0.1:3000/xiaozhi/ota/.
	OTA  string
	MAC  string // lower case, with colons
	UUID string
	// Serial and Key are burnt into some boards: a serial number of 32 characters, and the HMAC key
	// for activation challenges.
	Serial string
	Key    []byte
	Name   string // the product name: "bread-compact-wifi"
	Lang   string // "zh-CN"

	Profile Profile // the firmware; 2.4.2 if empty
	// Mode is how the board listens: wire.ModeAuto (also if empty), wire.ModeRealtime for boards
	// with echo cancellation, or wire.ModeManual, with which [Board.Ask] holds a button.
	Mode string
	// ServerAEC leaves echo cancellation to the server: the board sends playback timestamps back,
	// and listens in realtime mode.
	ServerAEC bool
	// Program simulates a program or web page instead of a board: it records from its listen/start
	// on, continues while the server speaks, and sends no further listen/start.
	Program   bool
	WakeWord  string   // "你好小智"
	WakeAudio [][]byte // at most 33 packets; nil: part of GoodMorning

	// Picture is what the camera sees: a JPEG file. Nil: no camera.
	Picture []byte
	// Tools are the board's own tools, listed after the standard ones.
	Tools []Tool

	// Latency returns how long a message waits for the loop; nil: 5 to 20 ms.
	Latency func() time.Duration
	// Scale multiplies the waits of OTA requests, of the activation and between MQTT connections:
	// 0.01 makes a test fast. 0 means 1.
	Scale float64
	// Tries is how often the OTA request is tried; 0 means once. Firmware tries ten times
	// (xiaozhi-esp32 main/application.cc, Application::CheckNewVersion).
	Tries int
	// Slack is added to the time limits of checks, for busy machines.
	Slack time.Duration
	// Stalled, if not nil, returns for how long this process has not run since some moment, as
	// [Meter.Stalled] does. That time is not held against the server.
	Stalled func() time.Duration
	// Steady promises that the server always has audio to send, so that a gap within an answer is a
	// violation.
	Steady bool
	// KeepAudio keeps the packets of answers.
	KeepAudio bool
	// Play, if not nil, gets each packet of an answer and the time at which the loudspeaker begins
	// with it. Record, if not nil, returns what the microphone has heard in the 60 ms before a
	// time, in place of silence. They must not call the board.
	Play   func(at time.Time, opus []byte)
	Record func(at time.Time) (opus []byte)
	Faults Faults

	// TLS is the configuration for servers with private certificates; nil: the default.
	TLS *tls.Config
	// Dial makes connections; nil: a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// OnEvent, if not nil, is called for each event, never concurrently. It must not call the
	// board.
	OnEvent func(Event)
	// Logger may be nil.
	Logger *slog.Logger
}

// Faults simulate a bad network and a faulty board. Shares go from 0 to 1.
type Faults struct {
	Loss, Duplicate, Reorder float64 // shares of datagrams, in both directions
	// DropToolResults sends no results of tool calls; DuplicateToolResults sends each twice;
	// ToolDelay sends them later.
	DropToolResults, DuplicateToolResults bool
	ToolDelay                             time.Duration
}

// Errors of a board's methods.
var (
	// ErrIdle reports that the board has no conversation, or no longer has one.
	ErrIdle = errors.New("the board is idle")
	// ErrClosed reports that the board was closed.
	ErrClosed = errors.New("the board was closed")
)

// Crash is the error for what makes a real board reboot, often in an endless loop.
type Crash struct{ Why string }

func (c *Crash) Error() string { return "the board crashed: " + c.Why }

// State is the state of a board (xiaozhi-esp32 main/device_state.h).
type State int8

// The states of a board.
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

// Board is one simulated board. Its methods are safe for concurrent use. Close must be called.
type Board struct {
	opt Options
	ctx context.Context // until Close
	end context.CancelFunc
	wg  sync.WaitGroup

	mu        sync.Mutex
	state     State
	changedCh chan struct{} // closed when something changed; nil: no waiter

	// Work of the loop; see loop.go.
	tasks   []func(context.Context)
	entries []State
	looping bool

	// State that survives a reboot.
	flash    flash
	overMQTT bool
	firmware string
	build    string    // hash of the firmware
	recent   [8]string // session ids, to detect a repeated one
	recentAt int
	lastKey  string // of the last UDP session

	// State of the connection and the conversation.
	mqtt      *mqttConn     // nil: MQTT is not connected
	ch        *audioChannel // nil: no conversation
	halfOpen  []*audioChannel
	mode      string
	mic       *microphone
	speech    [][]byte
	sendQueue []packet
	sending   bool
	lastVoice time.Time
	spoken    bool // there was speech since the last listen/start

	shown   displayState
	vision  visionTarget
	listing listProgress
	answerState
	report Report
}

// New makes a board that does nothing before [Board.Boot].
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
	b := &Board{opt: opt, firmware: opt.Profile.Version, build: firstBuild, mode: opt.Mode,
		shown: displayState{volume: 70, brightness: 75, theme: "light"}}
	b.ctx, b.end = context.WithCancel(context.Background())
	return b
}

// firstBuild is the hash of a new board's firmware.
const firstBuild = "c8a8ecb6d6fbcda682494d9675cd1ead240ecf38bdde75282a42365a0e396033"

// Reflash installs another build of the same firmware version, with other tools. An empty build
// keeps the hash, as in programs that stand in for boards. [Board.Boot] starts it.
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

// loopLatency returns how long a message waits for the loop.
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

// Close cuts the power: it drops all connections, and waits until no goroutine of the board runs.
func (b *Board) Close() {
	b.mu.Lock()
	b.state = Off
	b.end()
	b.dropAll()
	b.changed()
	b.mu.Unlock()
	b.wg.Wait()
}

// dropAll drops all connections. Requires b.mu.
func (b *Board) dropAll() {
	b.stopMic()
	if b.ch != nil {
		b.ch.link.drop(false)
		b.ch = nil
	}
	for _, g := range b.halfOpen {
		g.link.drop(false)
	}
	b.halfOpen = nil
	if b.mqtt != nil {
		b.mqtt.drop(false)
		b.mqtt = nil
	}
}

// MAC returns the board's Device-Id.
func (b *Board) MAC() string { return b.opt.MAC }

// UUID returns the board's Client-Id.
func (b *Board) UUID() string { return b.opt.UUID }

// View is a snapshot of a board, as seen by a person in front of it or with a debugger.
type View struct {
	State         State
	SessionID     string // of the conversation
	Online        bool   // MQTT is connected
	Listening     bool   // the microphone is on
	Displayed     string // last subtitle, alert or code
	Emotion       string
	Volume        int // 0 to 100
	Brightness    int // 0 to 100
	Theme         string
	Answers       int // answers heard to the end
	Notifications int // notifications played
	Calls         int // tool calls carried out
}

// View returns a snapshot of the board.
func (b *Board) View() View {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.view()
}

func (b *Board) view() View {
	v := View{
		State: b.state, Online: b.mqtt != nil, Listening: b.mic != nil, Displayed: b.shown.text,
		Emotion: b.shown.emotion,
		Volume:  b.shown.volume, Brightness: b.shown.brightness, Theme: b.shown.theme, Answers: b.answers,
		Notifications: b.report.Notifications, Calls: b.report.Calls,
	}
	if b.ch != nil {
		v.SessionID = b.ch.session
	}
	return v
}

// Await waits until a snapshot of the board satisfies good, and returns it.
func (b *Board) Await(ctx context.Context, good func(View) bool) (View, error) {
	var v View
	err := b.waitUntil(ctx, func() bool { v = b.view(); return good(v) })
	return v, err
}

// waitUntil waits for a condition on state guarded by b.mu.
func (b *Board) waitUntil(ctx context.Context, good func() bool) error {
	for {
		b.mu.Lock()
		if good() {
			b.mu.Unlock()
			return nil
		}
		if b.changedCh == nil {
			b.changedCh = make(chan struct{})
		}
		bell := b.changedCh
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

// changed wakes all waiters. Requires b.mu.
func (b *Board) changed() {
	if b.changedCh != nil {
		close(b.changedCh)
		b.changedCh = nil
	}
}

// Volume returns the volume, from 0 to 100.
func (b *Board) Volume() int { return b.View().Volume }

// Displayed returns the text that the board shows.
func (b *Board) Displayed() string { return b.View().Displayed }

// displayState is what a board shows, and its volume.
type displayState struct {
	text, emotion, theme string
	volume, brightness   int
}

// display shows a text. Requires b.mu.
func (b *Board) display(kind EventKind, text string) {
	b.shown.text = text
	b.event(kind, text)
}

// EventKind is the kind of an [Event].
type EventKind string

// The kinds of events.
const (
	EventState        EventKind = "state"     // Text is the new state
	EventCode         EventKind = "code"      // Text is the activation code on the display
	EventTranscript   EventKind = "heard"     // Text is the transcript of the speech
	EventSentence     EventKind = "sentence"  // Text is a subtitle
	EventEmotion      EventKind = "emotion"   // Text is the emotion
	EventAlert        EventKind = "alert"     // Text is the alert
	EventCall         EventKind = "call"      // Text is the tool that was called
	EventNotification EventKind = "notice"    // a notification was played
	EventDisconnected EventKind = "gone"      // a conversation or MQTT ended; Text is the reason
	EventUpgrade      EventKind = "upgrade"   // Text is the new firmware version
	EventViolation    EventKind = "violation" // the server broke a rule
)

// Event is something that happened on a board.
type Event struct {
	At   time.Time
	Kind EventKind
	Text string
}

// event reports an event. Requires b.mu.
func (b *Board) event(kind EventKind, text string) {
	if b.opt.Logger != nil {
		b.opt.Logger.Debug("board", "mac", b.opt.MAC, "kind", string(kind), "text", text)
	}
	if b.opt.OnEvent != nil {
		b.opt.OnEvent(Event{At: time.Now(), Kind: kind, Text: text})
	}
	b.changed()
}

func (b *Board) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * b.opt.Scale)
}

// userAgent returns the User-Agent header.
func (b *Board) userAgent() string {
	return strings.ReplaceAll(b.opt.Name, " ", "-") + "/" + b.firmware
}
