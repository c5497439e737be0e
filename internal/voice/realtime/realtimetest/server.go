// Package realtimetest is a stand-in for realtime speech services, in both spellings: it
// transcribes, speaks and converses. What it hears and answers is scripted, and it can fail in many
// ways. It notes whatever the real services would refuse.
package realtimetest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/porttest"
	"patchbay/internal/voice/realtime"
)

// Key is the key that servers expect.
const Key = "sk-realtime-test"

// maxMessage limits what a client may send at once, in bytes (OpenAI API reference,
// input_audio_buffer.append: 15 MiB).
const maxMessage = 15 << 20

// Question is what a server answers.
type Question struct {
	Text    string   // what was said or typed last
	Said    []string // all messages of the person and results of calls, oldest first
	Session json.RawMessage
}

// Call is a call of a function.
type Call struct{ ID, Name, Arguments string }

// Answer is what a server answers.
type Answer struct {
	Text  string
	Calls []Call
	// Failure is the code of an error with which the response ends.
	Failure string
	// Hold keeps the response open after its text, until it is cancelled.
	Hold bool
}

// Options are the script.
type Options struct {
	Spelling realtime.Spelling
	TLS      bool // with a certificate that nobody trusts
	// Transcript recognises samples at 16 kHz; nil: "hello".
	Transcript func(samples []int16) string
	// Partials are transcripts while sound comes.
	Partials []string
	// Sound speaks a text, at 16 kHz; nil: 100 ms for each character.
	Sound func(text string) []int16
	// Answer answers in a conversation; nil: it repeats.
	Answer func(Question) Answer
	// Detect finds speech in sound at 16 kHz as it comes, for a client that wants turns detected;
	// nil: the test says when somebody speaks.
	Detect func(samples []int16) Detected
	// Delay is the time before transcripts and answers.
	Delay time.Duration
	// Lifetime is how long a session lasts; 0: for ever.
	Lifetime time.Duration
	Fault    Fault
	// Voices are those that the server has; nil: all.
	Voices []string
	// Listener accepts the connections; nil: one on loopback.
	Listener net.Listener
	// Error is an error that the server reports before its answer, without other effect.
	Error string
}

// Detected is what a server finds in a piece of sound.
type Detected int

// What a server finds.
const (
	NothingNew Detected = iota
	SpeechBegan
	SpeechEnded
)

// Truncation is a conversation.item.truncate.
type Truncation struct {
	Item string
	At   time.Duration
	Had  time.Duration // of sound, as sent
}

// Session is what a server got over one connection.
type Session struct {
	Header      http.Header
	Query       string
	Update      json.RawMessage // the last configuration
	Types       []string        // of all events, without input_audio_buffer.append
	Samples     []int16         // committed, at 16 kHz
	Said        []string        // messages and results of calls
	Spoken      []string        // texts to speak
	Truncations []Truncation
	Cancels     int
}

// Server is a server. It is safe for concurrent use.
type Server struct {
	URL string // ws:// or wss://

	opt  Options
	stop context.Context

	mu         sync.Mutex
	fault      Fault
	err        string
	sessions   []*Session
	open       map[*conn]bool
	violations []string
	change     chan struct{}
}

// New starts a server that ends with the test.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Transcript == nil {
		o.Transcript = func([]int16) string { return "hello" }
	}
	if o.Sound == nil {
		o.Sound = func(text string) []int16 { return make([]int16, 1600*len([]rune(text))) }
	}
	if o.Answer == nil {
		o.Answer = func(q Question) Answer { return Answer{Text: "You said: " + q.Text} }
	}
	stop, cancel := context.WithCancel(context.Background())
	s := &Server{opt: o, stop: stop, fault: o.Fault, err: o.Error, open: map[*conn]bool{}, change: make(chan struct{})}
	h := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	h.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	if o.Listener != nil {
		_ = h.Listener.Close()
		h.Listener = o.Listener
	}
	if o.TLS {
		h.StartTLS()
	} else {
		h.Start()
	}
	s.URL = "ws" + strings.TrimPrefix(h.URL, "http")
	if o.Fault == Refuse {
		s.URL = "ws://" + porttest.Refused(t)
	}
	t.Cleanup(func() {
		cancel()
		h.Close()
	})
	return s
}

// connKey is the key of a request's connection.
type connKey struct{}

// SetFault changes how the server fails from the next connection on.
func (s *Server) SetFault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// SetError has the server report an error before its next answer.
func (s *Server) SetError(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = code
}

// Drop ends all connections without a Close frame.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.raw.Close()
	}
}

// Sessions returns copies of what the server got, in the order of the connections.
func (s *Server) Sessions() (out []Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		c := *x
		c.Types, c.Said, c.Spoken, c.Truncations = slices.Clone(x.Types), slices.Clone(x.Said),
			slices.Clone(x.Spoken), slices.Clone(x.Truncations)
		out = append(out, c)
	}
	return out
}

// Await waits until the sessions satisfy a condition, and fails the test after ten seconds.
func (s *Server) Await(t testing.TB, what string, good func([]Session) bool) []Session {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		s.mu.Lock()
		change := s.change
		s.mu.Unlock()
		all := s.Sessions()
		if good(all) {
			return all
		}
		select {
		case <-change:
		case <-timeout:
			t.Fatalf("%s: %+v", what, all)
		}
	}
}

// Violations returns what the real services would have refused.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

func (s *Server) violation(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations = append(s.violations, text)
}

// update changes what is known of a session.
func (s *Server) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.change)
	s.change = make(chan struct{})
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	fault := s.fault
	s.mu.Unlock()
	if fault.refuses(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+Key {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow() //nolint:errcheck // the client may have closed it
	ws.SetReadLimit(maxMessage)
	if fault == HangAfter {
		<-s.stop.Done()
		return
	}
	raw, _ := r.Context().Value(connKey{}).(net.Conn)
	c := &conn{s: s, ws: ws, raw: raw, fault: fault, got: &Session{Header: r.Header.Clone(), Query: r.URL.RawQuery},
		purpose: purposeOf(s, r), items: map[string]*item{}}
	ctx, cancel := context.WithCancel(s.stop)
	defer cancel()
	c.ctx = ctx
	s.update(func() {
		s.sessions = append(s.sessions, c.got)
		s.open[c] = true
	})
	c.serve()
	cancel()
	c.work.Wait()
	s.update(func() { delete(s.open, c) })
}

// purposeOf returns what a connection is for, by its address.
func purposeOf(s *Server, r *http.Request) realtime.Purpose {
	model, intent := r.URL.Query().Get("model"), r.URL.Query().Get("intent")
	if s.opt.Spelling == realtime.OpenAI {
		if intent == "transcription" {
			if model != "" {
				s.violation("a model in the address of a transcription")
			}
			return realtime.Transcribe
		}
		if model == "" {
			s.violation("no model in the address")
		}
		return realtime.Converse
	}
	if r.Header.Get("OpenAI-Beta") != "realtime=v1" {
		s.violation("no OpenAI-Beta header")
	}
	switch {
	case strings.Contains(model, "asr"):
		return realtime.Transcribe
	case strings.Contains(model, "tts"):
		return realtime.Speak
	case model == "":
		s.violation("no model in the address")
	}
	return realtime.Converse
}

// pcm returns samples at 16 kHz as PCM at the rate of the output.
func pcm(samples []int16) []byte {
	var out []byte
	for i := range len(samples) * 3 / 2 {
		out = binary.LittleEndian.AppendUint16(out, uint16(samples[i*2/3]))
	}
	return out
}

// at16 returns PCM of a client as samples at 16 kHz.
func (c *conn) at16(sound []byte) []int16 {
	all := realtime.Samples(sound)
	if c.s.opt.Spelling.InputRate() == 16000 {
		return all
	}
	out := make([]int16, 0, len(all)*2/3)
	for i := range len(all) * 2 / 3 {
		out = append(out, all[i*3/2])
	}
	return out
}

// Open returns the number of open connections.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
