// Package volcenginetest is a stand-in for the speech services of Volcengine
// (volcengine.com/docs/6561/1354869 and 6561/1329505). What it hears and says is scripted, and it
// can fail in many ways. It notes whatever the real services would not understand.
package volcenginetest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"patchbay/internal/voice/engines/socket/sockettest"
	"patchbay/internal/voice/engines/volcengine/wire"
)

// AppKey and AccessKey are what the services accept.
const (
	AppKey    = "1234567890"
	AccessKey = "very-secret-access"
)

// LogID is the log id of every response.
const LogID = "20261125-log-id"

const (
	listenPath = "/api/v3/sauc/bigmodel_async"
	speakPath  = "/api/v3/tts/bidirection"
)

// Faults of the protocol, beside those of sockettest.
const (
	WrongID     sockettest.Fault = "wrong session id"
	WrongLength sockettest.Fault = "wrong length"
	BadGzip     sockettest.Fault = "bad gzip"
	Busy        sockettest.Fault = "code 55000031"
	Parameters  sockettest.Fault = "code 45000001"
	Internal    sockettest.Fault = "code 55000001"
	NoQuota     sockettest.Fault = "quota exceeded"
	NoSpeech    sockettest.Fault = "code 1013"
	EmptyText   sockettest.Fault = "empty text"
	LongText    sockettest.Fault = "64 KiB text" // more than a transcript may have, less than a message
	DoubleEnd   sockettest.Fault = "double end"
	NoSound     sockettest.Fault = "no sound"
	Endless     sockettest.Fault = "endless sound"
)

// codes are those of the faults that are error codes.
var codes = map[sockettest.Fault]uint32{Busy: 55000031, Parameters: 45000001, Internal: 55000001, NoQuota: 45000000,
	NoSpeech: 1013}

// Stages of an utterance or session, for the faults of sockettest.
const (
	Connect = "connect" // of a speaker: instead of ConnectionStarted
	Start   = "start"   // of a speaker: instead of SessionStarted of the first session
	Again   = "again"   // the same of the others
	First   = "first"   // after the first sound
	Middle  = "middle"  // after the third message with sound
	Last    = "last"    // instead of the last result
)

// Partial is a text that the service sends while it gets sound.
type Partial struct {
	Text     string
	Definite bool
}

// Options are the script.
type Options struct {
	sockettest.Options
	Gzip bool // answers are compressed
	// Partials are sent one after the other, after each message with sound.
	Partials []Partial
	// Transcript returns the last sentence of samples at 16 kHz; nil: an empty text.
	Transcript func(samples []int16) string
	// Sound returns how a sentence is spoken, at 16 kHz; nil: 60 ms of silence for each character.
	Sound func(text string) []int16
	// Billed returns how many characters a text costs; nil: as many as it has.
	Billed func(text string) int
	Delay  time.Duration // before the first result
	// CancelDelay is before the confirmation of a cancellation.
	CancelDelay time.Duration
}

// Session is what the service got during an utterance or a session that has ended.
type Session struct {
	Header   http.Header // of the request
	Request  string      // its definition
	Texts    []string
	Samples  []int16
	Sizes    []int // of the messages with sound, in bytes
	Canceled bool
}

// Server is a service. It is safe for concurrent use.
type Server struct {
	*sockettest.Server
	opt Options

	mu       sync.Mutex
	ids      map[string]bool
	sessions []Session
}

// New starts a service that ends with the test.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{opt: o, ids: map[string]bool{}}
	if s.opt.Sound == nil {
		s.opt.Sound = func(text string) []int16 { return make([]int16, 960*len([]rune(text))) }
	}
	s.Server = sockettest.New(t, o.Options, s.check, s.serve)
	return s
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// check checks the request that opens a connection.
func (s *Server) check(r *http.Request) (http.Header, int) {
	h := http.Header{"X-Tt-Logid": {LogID}}
	switch {
	case r.URL.Path != listenPath && r.URL.Path != speakPath:
		return h, http.StatusNotFound
	case r.Header.Get("X-Api-App-Key") != AppKey, r.Header.Get("X-Api-Access-Key") != AccessKey,
		r.Header.Get("X-Api-Resource-Id") == "":
		return h, http.StatusUnauthorized
	}
	id := r.Header.Get("X-Api-Connect-Id")
	if !uuid.MatchString(id) || !s.fresh(id) {
		s.Violation("a connection without an id of its own")
	}
	return h, 0
}

// fresh notes an id and reports whether it was not used before.
func (s *Server) fresh(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.ids[id]
	s.ids[id] = true
	return !used
}

// Sessions returns the utterances and sessions that have ended.
func (s *Server) Sessions() []Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sessions)
}

func (s *Server) ended(of Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, of)
}

func (s *Server) serve(c *sockettest.Conn) {
	of := &conn{Conn: c, s: s}
	if c.Request.URL.Path == listenPath {
		of.listen()
	} else {
		of.speak()
	}
}

// conn is a connection.
type conn struct {
	*sockettest.Conn
	s        *Server
	got      Session
	sequence int32 // of the answers to an utterance
	sentence int
	id       string // of the session
	opus     bool
	unspoken string
	frames   int
}

func (c *conn) is(faults ...sockettest.Fault) bool { return slices.Contains(faults, c.s.opt.Fault) }

// frame waits for a frame.
func (c *conn) frame() (wire.Frame, bool) {
	binary, data, ok := c.Read()
	if !ok {
		return wire.Frame{}, false
	}
	f, err := wire.Parse(data)
	if !binary || err != nil {
		c.s.Violation("not a frame")
		return f, false
	}
	return f, true
}

// send sends a frame, perhaps with a fault.
func (c *conn) send(f wire.Frame) {
	f.Gzip = c.s.opt.Gzip
	data := f.Append(nil)
	switch {
	case c.is(WrongLength):
		data = data[:len(data)-1]
	case c.is(BadGzip):
		data[2] |= 1 // says that the payload is compressed
	}
	c.Binary(data)
}

// fail sends the error of the fault, if it is one.
func (c *conn) fail() bool {
	code := codes[c.s.opt.Fault]
	if code == 0 {
		return false
	}
	text := map[string]string{"error": "it failed with " + AccessKey}
	if c.is(NoQuota) {
		text["error"] = "quota exceeded for types: concurrency"
	}
	payload, _ := json.Marshal(text) // a text
	c.send(wire.Frame{Type: wire.ErrorResponse, JSON: true, Code: code, Payload: payload})
	return true
}
