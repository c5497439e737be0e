// Package wyomingtest is a stand-in for servers of the Wyoming protocol: recognisers such as
// wyoming-faster-whisper, and voices such as wyoming-piper. It can fail in many ways, and notes
// whatever real servers would not understand.
package wyomingtest

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"patchbay/internal/porttest"
)

// Options are the script.
type Options struct {
	// Transcript returns what was said, given samples at 16 kHz; nil: "text".
	Transcript func(samples []int16) string
	// Sound returns how a text is spoken, at Rate; nil: a tone of 60 ms for each character.
	Sound func(text string) []int16
	Rate  int // of its speech, in Hz; 0: 22050, as of most voices of Piper
	// Partials are sent one after the other after each event with sound, in a stream of chunks.
	Partials []string
	// Streaming has the server take text in pieces, and speak each with a start and a stop.
	Streaming bool
	// Inline puts the data of events into their lines, as older servers do.
	Inline bool
	// Deaf and Mute leave a service out.
	Deaf, Mute bool
	Delay      time.Duration // before the transcript and before the first sound
	Fault      Fault
	Stage      Stage // of the fault
}

// Stage is what a connection is for.
type Stage string

// The stages.
const (
	Describe Stage = "describe"
	Listen   Stage = "listen"
	Speak    Stage = "speak"
)

// Request is what a client asked for.
type Request struct {
	Stage                 Stage
	Name, Language        string // of the model or the voice
	Speaker, Text         string
	Samples               []int16
	Pieces                []int // samples in each event
	WholeText, Incomplete bool
}

// request is that of a connection, which is known when the connection has ended.
type request struct {
	Request
	ended bool
}

// Server is a server. It is safe for concurrent use.
type Server struct {
	Address string // wyoming://…

	opt  Options
	stop chan struct{}
	open sync.WaitGroup // connections

	mu         sync.Mutex
	conns      map[net.Conn]bool
	requests   []*request // in the order of the connections
	violations []string
}

// New starts a server that ends with the test.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.Rate == 0 {
		o.Rate = 22050
	}
	if o.Transcript == nil {
		o.Transcript = func([]int16) string { return "text" }
	}
	if o.Sound == nil {
		o.Sound = func(text string) []int16 { return Tone(text, o.Rate) }
	}
	s := &Server{Address: "wyoming://" + l.Addr().String(), opt: o, stop: make(chan struct{}),
		conns: map[net.Conn]bool{}}
	s.open.Go(func() { s.accept(l) })
	if o.Fault == Refuse {
		s.Address = "wyoming://" + porttest.Refused(t)
	}
	t.Cleanup(func() {
		close(s.stop)
		_ = l.Close()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.open.Wait()
	})
	return s
}

// Tone is a tone of 440 Hz.
func Tone(text string, rate int) []int16 {
	samples := make([]int16, len([]rune(text))*rate*60/1000)
	for i := range samples {
		samples[i] = int16(8000 * math.Sin(2*math.Pi*440*float64(i)/float64(rate)))
	}
	return samples
}

// Requests returns what clients asked for, in the order of their connections, which have ended.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Request
	for _, r := range s.requests {
		if r.ended {
			out = append(out, r.Request)
		}
	}
	return out
}

// Violations returns what real servers would not have understood.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// Open returns the number of open connections.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *Server) violation(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations = append(s.violations, text)
}

func (s *Server) accept(l net.Listener) {
	for {
		raw, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[raw] = true
		r := &request{}
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		s.open.Go(func() {
			c := &conn{s: s, Conn: raw, r: bufio.NewReader(raw)}
			c.serve()
			_ = raw.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.conns, raw)
			r.Request, r.ended = c.got, c.got.Stage != ""
		})
	}
}

// conn is a connection.
type conn struct {
	net.Conn
	s        *Server
	r        *bufio.Reader
	got      Request
	partials int
	stream   bool // between synthesize-start and synthesize-stop
}

// data are the data of all events.
type data struct {
	Rate, Width, Channels int
	Text, Name, Language  string
	Voice                 *struct{ Name, Language, Speaker string }
}

// event is an event of the client.
type event struct {
	Type    string          `json:"type"`
	Version string          `json:"version"`
	Data    json.RawMessage `json:"data"`
	Length  int             `json:"data_length"`
	Payload int             `json:"payload_length"`
	data    data
	payload []byte
}

// read reads an event (rhasspy/wyoming wyoming/event.py).
func (c *conn) read() (*event, error) {
	line, err := c.r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Type == "" {
		c.s.violation("no event: " + string(line))
		return nil, io.ErrUnexpectedEOF
	}
	rest := make([]byte, e.Length+e.Payload)
	if _, err := io.ReadFull(c.r, rest); err != nil {
		return nil, err
	}
	for _, part := range [][]byte{e.Data, rest[:e.Length]} {
		if len(part) > 0 && json.Unmarshal(part, &e.data) != nil {
			c.s.violation("no data: " + string(part))
		}
	}
	e.payload = rest[e.Length:]
	return &e, nil
}

// serve handles events until the client has gone, or a fault.
func (c *conn) serve() {
	for {
		e, err := c.read()
		if err != nil || !c.handle(e) {
			return
		}
	}
}

// handle handles an event, and reports whether the connection goes on.
func (c *conn) handle(e *event) bool {
	switch e.Type {
	case "describe":
		c.got.Stage = Describe
		return !c.fails(0) && c.describe()
	case "transcribe":
		c.got.Stage, c.got.Name, c.got.Language = Listen, e.data.Name, e.data.Language
		return true
	case "audio-start", "audio-chunk", "audio-stop":
		return c.sound(e)
	case "synthesize-start", "synthesize-chunk", "synthesize", "synthesize-stop":
		return c.text(e)
	}
	c.s.violation("an unknown event: " + e.Type)
	return true
}

func (c *conn) describe() bool {
	attribution := map[string]string{"name": "test", "url": "http://localhost"}
	in := map[string]any{}
	if !c.s.opt.Deaf {
		in["asr"] = []any{map[string]any{"name": "whisper", "installed": true, "attribution": attribution,
			"models": []any{map[string]any{"name": "small", "languages": []string{"en", "zh"}, "installed": true}}}}
	}
	if !c.s.opt.Mute {
		voices := []any{}
		for name, language := range map[string]string{"en_US-lessac": "en_US", "zh_CN-huayan": "zh_CN"} {
			voices = append(voices, map[string]any{"name": name, "languages": []string{language}, "installed": true,
				"speakers": []any{map[string]string{"name": "a"}}})
		}
		in["tts"] = []any{map[string]any{"name": "piper", "installed": true, "attribution": attribution,
			"voices": voices, "supports_synthesize_streaming": c.s.opt.Streaming}}
	}
	return c.send("info", in, nil)
}

// sound handles the sound of an utterance.
func (c *conn) sound(e *event) bool {
	if e.Type != "audio-stop" && (e.data.Rate != 16000 || e.data.Width != 2 || e.data.Channels != 1) ||
		c.got.Stage != Listen || len(e.payload)%2 != 0 || (e.Type == "audio-chunk") != (len(e.payload) > 0) {
		c.s.violation("sound of another format, or before the request: " + e.Type)
	}
	switch e.Type {
	case "audio-chunk":
		for b := e.payload; len(b) > 1; b = b[2:] {
			c.got.Samples = append(c.got.Samples, int16(binary.LittleEndian.Uint16(b)))
		}
		c.got.Pieces = append(c.got.Pieces, len(e.payload)/2)
		if c.fails(len(c.got.Pieces)) {
			return false
		}
		if c.partials < len(c.s.opt.Partials) {
			if c.partials++; c.partials == 1 {
				c.send("transcript-start", map[string]any{"language": "en"}, nil)
			}
			return c.send("transcript-chunk", map[string]any{"text": c.s.opt.Partials[c.partials-1]}, nil)
		}
	case "audio-stop":
		return c.wait() && !c.fails(last) && c.transcript(c.s.opt.Transcript(c.got.Samples))
	}
	return true
}

func (c *conn) transcript(text string) bool {
	text = c.altered(text)
	ok := c.send("transcript", map[string]any{"text": text, "language": "en"}, nil)
	if c.partials > 0 {
		ok = ok && c.send("transcript-stop", nil, nil)
	}
	if c.s.opt.Fault == DoubleEnd {
		c.send("transcript", map[string]any{"text": text}, nil)
	}
	return ok
}

// text handles a text to speak.
func (c *conn) text(e *event) bool {
	c.got.Stage = Speak
	if v := e.data.Voice; v != nil {
		c.got.Name, c.got.Language, c.got.Speaker = v.Name, v.Language, v.Speaker
	}
	streams := c.s.opt.Streaming
	switch {
	case e.Type == "synthesize-start":
		c.stream = true
	case e.Type == "synthesize-chunk" && c.stream:
		c.got.Text += e.data.Text
	case e.Type == "synthesize" && c.stream:
		c.got.WholeText = e.data.Text == c.got.Text
	case e.Type == "synthesize" && !streams:
		c.got.Text = e.data.Text
		return c.speak([]string{c.got.Text})
	case e.Type == "synthesize-stop" && c.stream && streams:
		c.stream = false
		return c.speak(sentences(c.got.Text)) && c.send("synthesize-stopped", nil, nil)
	default:
		c.s.violation("not at this time: " + e.Type)
	}
	return true
}

// sentences cuts a text after periods, as servers that take pieces do.
func sentences(text string) (list []string) {
	begin := 0
	for i, r := range text {
		if r == '.' || r == '。' {
			list = append(list, text[begin:i+len(string(r))])
			begin = i + len(string(r))
		}
	}
	if begin < len(text) {
		list = append(list, text[begin:])
	}
	return list
}

// chunk is how many samples are in an event, as of wyoming-piper (--samples-per-chunk).
const chunk = 1024

func (c *conn) speak(list []string) bool {
	format := map[string]any{"rate": c.s.opt.Rate, "width": 2, "channels": 1}
	if c.s.opt.Fault == WrongFormat && c.s.opt.Stage == Speak {
		format["width"] = 4
	}
	if !c.wait() || c.fails(0) {
		return false
	}
	n := 0
	for _, text := range list {
		samples := c.s.opt.Sound(text)
		if c.s.opt.Fault == EmptyText {
			samples = nil
		}
		if !c.send("audio-start", format, nil) {
			return false
		}
		for piece := range slices.Chunk(samples, chunk) {
			if !c.send("audio-chunk", format, bytesOf(piece)) {
				return false
			}
			if n++; c.fails(n) {
				return false
			}
		}
		if c.fails(last) || !c.send("audio-stop", nil, nil) {
			return false
		}
	}
	return true
}

func bytesOf(samples []int16) (b []byte) {
	for _, v := range samples {
		b = binary.LittleEndian.AppendUint16(b, uint16(v))
	}
	return b
}

// send sends an event.
func (c *conn) send(kind string, data map[string]any, payload []byte) bool {
	e := map[string]any{"type": kind, "version": "1.8.0"}
	var body []byte
	switch {
	case data != nil && c.s.opt.Inline:
		e["data"] = data
	case data != nil:
		body, _ = json.Marshal(data) // texts and numbers
		e["data_length"] = len(body)
	}
	if len(payload) > 0 {
		e["payload_length"] = len(payload)
	}
	line, _ := json.Marshal(e) // texts and numbers
	_, err := c.Write(slices.Concat(line, []byte("\n"), body, payload))
	return err == nil
}

// wait waits for the delay, and reports whether the server still runs.
func (c *conn) wait() bool {
	if c.s.opt.Delay == 0 {
		return true
	}
	select {
	case <-time.After(c.s.opt.Delay):
		return true
	case <-c.s.stop:
		return false
	}
}
