// Package sockettest is what stand-ins for engines over WebSockets have in common: a server on this
// machine that fails in a chosen way, at a chosen stage of the protocol.
package sockettest

import (
	"context"
	"io"
	"log"
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

// Fault is a way to fail.
type Fault string

// Faults of the connection, before the WebSocket stands.
const (
	None         Fault = ""
	Refuse       Fault = "refuse"  // nothing listens
	BadTLS       Fault = "bad TLS" // no TLS, or a certificate of somebody else
	Unauthorized Fault = "401"
	Forbidden    Fault = "403"
	NotFound     Fault = "404"
	TooMany      Fault = "429" // with Retry-After
	Failing      Fault = "500"
	Overloaded   Fault = "503"         // with Retry-After
	HangBefore   Fault = "hang before" // no response to the request
	HangAfter    Fault = "hang after"  // nothing is read or sent after it
)

// Faults at a stage of the protocol.
const (
	Hang      Fault = "hang"       // nothing more is sent
	Cut       Fault = "cut"        // the connection ends
	HalfFrame Fault = "half frame" // the connection ends within a message
	BadFrame  Fault = "bad frame"  // bytes that are no frame
	Slow      Fault = "slow"       // a message of which one byte comes in a second
	Garbage   Fault = "garbage"    // messages that mean nothing
	Huge      Fault = "2 MB"       // a message of 2 MB
	BusyClose Fault = "busy close" // a Close frame with code 1013
)

// RetryAfter is how long TooMany and Overloaded ask to wait.
const RetryAfter = 7 * time.Second

// BeforeFaults and StageFaults are all faults.
var (
	BeforeFaults = []Fault{Refuse, BadTLS, Unauthorized, Forbidden, NotFound, TooMany, Failing, Overloaded, HangBefore,
		HangAfter}
	StageFaults = []Fault{Hang, Cut, HalfFrame, BadFrame, Slow, Garbage, Huge, BusyClose}
)

// Options are the script of a server.
type Options struct {
	TLS   bool // with a self-signed certificate
	Fault Fault
	Stage string // of the protocol, for a fault there
	// Uses is how many connections behave well before the fault.
	Uses int
}

// Server is a server. It is safe for concurrent use.
type Server struct {
	URL string // ws:// or wss://, without a path
	Options

	serve   func(*Conn)
	header  func(*http.Request) (response http.Header, status int)
	stop    context.Context
	mu      sync.Mutex
	opened  int
	open    int
	reports []string
}

// New starts a server that ends with the test. Serve answers a connection until it returns. Header
// checks a request, and returns headers of the response and the status that refuses it, or 0.
func New(t testing.TB, o Options, header func(*http.Request) (http.Header, int), serve func(*Conn)) *Server {
	t.Helper()
	stop, cancel := context.WithCancel(context.Background())
	s := &Server{Options: o, serve: serve, header: header, stop: stop}
	h := httptest.NewUnstartedServer(http.HandlerFunc(s.accept))
	h.Config.ErrorLog = log.New(io.Discard, "", 0) // of TLS handshakes that fail
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
	if o.Fault == BadTLS && !o.TLS {
		s.URL = "wss" + strings.TrimPrefix(h.URL, "http")
	}
	t.Cleanup(func() {
		cancel()
		h.Close()
	})
	return s
}

// connKey is the key of a request's connection.
type connKey struct{}

// Violation notes what the real server would not have understood.
func (s *Server) Violation(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports = append(s.reports, text)
}

// Violations returns what the real server would not have understood.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reports)
}

// Opened returns how many WebSockets were opened so far.
func (s *Server) Opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// Open returns how many WebSockets are open.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// fault returns the fault of a new connection.
func (s *Server) fault() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened < s.Uses {
		return None
	}
	return s.Fault
}

func (s *Server) accept(w http.ResponseWriter, r *http.Request) {
	header, status := s.header(r)
	for name := range header {
		w.Header().Set(name, header.Get(name))
	}
	fault := s.fault()
	if refused := map[Fault]int{Unauthorized: 401, Forbidden: 403, NotFound: 404, TooMany: 429, Failing: 500,
		Overloaded: 503}[fault]; refused != 0 {
		status = refused
	}
	switch {
	case status != 0:
		w.Header().Set("Retry-After", "7")
		// Some servers repeat what they were sent.
		body := `{"code":"Refused","message":"no entry"}` + strings.Join(slices.Concat(values(r.Header)...), " ")
		http.Error(w, body, status)
		return
	case fault == HangBefore:
		<-r.Context().Done()
		return
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow() //nolint:errcheck // the client may have closed it
	ws.SetReadLimit(1 << 20)
	if fault == HangAfter {
		<-s.stop.Done() // and it is not noticed when the client goes
		return
	}
	s.mu.Lock()
	s.opened++
	s.open++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
	}()
	raw, _ := r.Context().Value(connKey{}).(net.Conn)
	s.serve(&Conn{Server: s, Request: r, ws: ws, raw: raw, fault: fault})
}

func values(h http.Header) (list [][]string) {
	for _, v := range h {
		list = append(list, v)
	}
	return list
}

// Conn is the server's side of a connection.
type Conn struct {
	*Server
	Request *http.Request // that opened it

	ws    *websocket.Conn
	raw   net.Conn
	fault Fault
}

// Read waits for a message; it is not ok when the client has gone.
func (c *Conn) Read() (binary bool, data []byte, ok bool) {
	kind, data, err := c.ws.Read(c.stop)
	return kind == websocket.MessageBinary, data, err == nil
}

// Text and Binary send a message. The client may have gone.
func (c *Conn) Text(data []byte)   { _ = c.ws.Write(c.stop, websocket.MessageText, data) }
func (c *Conn) Binary(data []byte) { _ = c.ws.Write(c.stop, websocket.MessageBinary, data) }

// Wait waits, unless the server ends.
func (c *Conn) Wait(d time.Duration) { _ = netx.Wait(c.stop, d) }

// Bytes of frames (RFC 6455, 5.2).
var (
	halfFrame = []byte{0x82, 100, 'a', 'b'} // a message of 100 bytes, of which 2 follow
	badFrame  = []byte{0xff, 0x00}          // reserved bits and an unknown opcode
	busyFrame = []byte{0x88, 2, 0x03, 0xf5} // Close with code 1013
)

// At does what is to happen at a stage, and reports whether the connection goes on.
func (c *Conn) At(stage string) bool {
	if stage != c.Stage {
		return true
	}
	switch c.fault {
	case Hang:
		c.untilGone()
	case Cut:
		_ = c.raw.Close()
	case HalfFrame:
		_, _ = c.raw.Write(halfFrame)
		_ = c.raw.Close()
	case BadFrame:
		_, _ = c.raw.Write(badFrame)
		c.untilGone() // a reset would overtake the frame
	case BusyClose:
		_, _ = c.raw.Write(busyFrame)
		c.untilGone()
	case Slow:
		for _, b := range halfFrame {
			_, _ = c.raw.Write([]byte{b})
			c.Wait(time.Second)
		}
		c.untilGone()
	case Garbage:
		c.Text([]byte("<html>garbage</html>"))
		c.Binary([]byte{0x11, 0xff, 0xff})
		c.untilGone()
	case Huge:
		c.Binary(make([]byte, 2<<20))
		c.untilGone()
	default:
		return true
	}
	return false
}

// untilGone reads until the client has gone.
func (c *Conn) untilGone() {
	for {
		if _, _, ok := c.Read(); !ok {
			return
		}
	}
}
