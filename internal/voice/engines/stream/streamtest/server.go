// Package streamtest is a stand-in for recognisers that take sound over a WebSocket: FunASR, Vosk
// and sherpa-onnx. What it recognises is scripted, and it can fail in many ways. It notes whatever
// the real servers would not understand.
package streamtest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/netx"
	"patchbay/internal/porttest"
)

// maxMessage limits what a client may send at once, in bytes: that of the streaming server of
// sherpa-onnx (python-api-examples/streaming_server.py, --max-message-size).
const maxMessage = 1 << 20

// Partial is a text that the server sends while it gets sound.
type Partial struct {
	Text string
	// Pause reports that the server finds a pause: the text is complete, and a new one begins.
	Pause bool
}

// Options are the script.
type Options struct {
	Dialect string // funasr, vosk or sherpa
	Key     string // the expected bearer token; empty: none
	TLS     bool   // with a self-signed certificate
	// Partials are sent one after the other, after each message with sound.
	Partials []Partial
	// Transcribe returns the text that follows the last pause. Nil: an empty text.
	Transcribe func(samples []int16) string
	Delay      time.Duration // before the last text
	// LeaveOpen keeps the connection after the last text, until the client closes it.
	LeaveOpen bool
	Fault     Fault
}

// Session is what the server got over one connection.
type Session struct {
	Header   http.Header
	Texts    []string // text messages
	Sizes    []int    // of the messages with sound, in bytes
	Samples  []int16
	FirstRaw []byte // the first message with sound
}

// Server is a server. It is safe for concurrent use.
type Server struct {
	URL string // ws:// or wss://

	opt  Options
	stop context.Context

	mu         sync.Mutex
	sessions   []Session
	violations []string
}

// New starts a server that ends with the test.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	stop, cancel := context.WithCancel(context.Background())
	s := &Server{opt: o, stop: stop}
	h := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	h.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
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

// Sessions returns what the server got, by connection that has ended.
func (s *Server) Sessions() []Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sessions)
}

// Violations returns what the real servers would not have understood.
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

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if s.opt.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.opt.Key {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if s.opt.Fault.refuses(w, r) {
		return
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"binary"}})
	if err != nil {
		return
	}
	defer ws.CloseNow() //nolint:errcheck // the client may have closed it
	ws.SetReadLimit(maxMessage)
	if s.opt.Fault == HangAfter {
		<-s.stop.Done()
		return
	}
	raw, _ := r.Context().Value(connKey{}).(net.Conn)
	c := &conn{s: s, ws: ws, raw: raw, ctx: s.stop, got: Session{Header: r.Header.Clone()}}
	c.serve(ws.Subprotocol())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, c.got)
}

// conn is a connection.
type conn struct {
	s       *Server
	ws      *websocket.Conn
	raw     net.Conn
	ctx     context.Context
	got     Session
	mode    string // of FunASR
	segment int    // of sherpa-onnx
	sent    int    // partials
}

// serve answers until the end of the sound.
func (c *conn) serve(subprotocol string) {
	if c.s.opt.Dialect == "funasr" && subprotocol != "binary" {
		c.s.violation("FunASR without the subprotocol binary")
	}
	for {
		kind, data, err := c.ws.Read(c.ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageText {
			c.got.Texts = append(c.got.Texts, string(data))
			if end := c.text(string(data)); end {
				c.finish()
				return
			}
			continue
		}
		if !c.sound(data) {
			return
		}
	}
}

// sound answers a message with sound, and reports whether the connection goes on.
func (c *conn) sound(data []byte) bool {
	if len(c.got.Sizes) == 0 {
		c.got.FirstRaw = slices.Clone(data)
	}
	c.got.Sizes = append(c.got.Sizes, len(data))
	c.got.Samples = append(c.got.Samples, c.decode(data)...)
	if c.s.opt.Fault.interrupts(c, len(c.got.Sizes)) {
		return false
	}
	if c.sent < len(c.s.opt.Partials) {
		p := c.s.opt.Partials[c.sent]
		c.sent++
		c.partial(p)
	} else if c.s.opt.Dialect == "vosk" {
		c.partial(Partial{}) // each message has an answer
	}
	return true
}

// finish sends the last text.
func (c *conn) finish() {
	o := c.s.opt
	if netx.Wait(c.ctx, o.Delay) != nil || o.Fault.ends(c) {
		return
	}
	text := ""
	if o.Transcribe != nil {
		text = o.Transcribe(c.got.Samples)
	}
	switch o.Fault {
	case EmptyText:
		text = ""
	case HugeText:
		text = strings.Repeat("x", 2<<20)
	case LongText:
		text = strings.Repeat("x", 64<<10)
	}
	c.last(text)
	if o.Fault == DoubleEnd {
		c.last(text)
	}
	if o.LeaveOpen {
		_, _, _ = c.ws.Read(c.ctx)
		return
	}
	_ = c.ws.Close(websocket.StatusNormalClosure, "")
}

func (c *conn) send(text string) { _ = c.ws.Write(c.ctx, websocket.MessageText, []byte(text)) }
