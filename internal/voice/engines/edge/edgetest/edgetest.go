// Package edgetest is a stand-in for the speech service of Microsoft's browser. It notes whatever
// the service would refuse, and can fail in many ways.
package edgetest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/porttest"
)

// Fault is a way to fail.
type Fault string

// The faults.
const (
	None         Fault = ""
	Refuse       Fault = "refuse" // nothing listens
	TLS          Fault = "tls"    // a self-signed certificate
	Unauthorized Fault = "401"
	Forbidden    Fault = "403"
	TooMany      Fault = "429" // with Retry-After
	Failing      Fault = "500"
	Overloaded   Fault = "503"
	HangBefore   Fault = "hang before"
	HangAfter    Fault = "hang after"
	HangMiddle   Fault = "hang middle"
	HalfFrame    Fault = "half frame"
	BadFrame     Fault = "bad frame"
	Garbage      Fault = "garbage"      // a binary message without a header
	WrongLength  Fault = "wrong length" // of the header
	CutFirst     Fault = "cut first"    // the connection ends after the first sound
	CutLast      Fault = "cut last"     // before the end of the turn
	Silent       Fault = "silent"       // the turn ends without sound
	EndlessSound Fault = "endless"
	HugeMessage  Fault = "2 MB message"
	DoubleEnd    Fault = "double end"
)

// Faults are all but None.
var Faults = []Fault{Refuse, TLS, Unauthorized, Forbidden, TooMany, Failing, Overloaded, HangBefore, HangAfter,
	HangMiddle, HalfFrame, BadFrame, Garbage, WrongLength, CutFirst, CutLast, Silent, EndlessSound, HugeMessage,
	DoubleEnd}

// Options are the script.
type Options struct {
	Sound func(text string) []byte // MP3; nil: bytes that look like it
	Ahead time.Duration            // of its clock
	Fault Fault
}

// Request is what a client asked for.
type Request struct{ Voice, Rate, Text string }

// Server is a service. It is safe for concurrent use.
type Server struct {
	URL string

	opt        Options
	stop       context.Context
	mu         sync.Mutex
	requests   []Request
	violations []string
}

type connKey struct{}

// New starts a service that ends with the test.
func New(t testing.TB, o Options) *Server {
	if o.Sound == nil {
		o.Sound = func(text string) []byte { return []byte("\xff\xf3\x64\xc4" + strings.Repeat(text, 300)) }
	}
	stop, cancel := context.WithCancel(context.Background())
	s := &Server{opt: o, stop: stop}
	h := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	h.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	if o.Fault == TLS {
		h.StartTLS()
	} else {
		h.Start()
	}
	s.URL = "ws" + strings.TrimPrefix(h.URL, "http") + "/v1" // or wss
	if o.Fault == Refuse {
		s.URL = "ws://" + porttest.Refused(t) + "/v1"
	}
	t.Cleanup(func() {
		cancel()
		h.Close()
	})
	return s
}

// Requests returns what clients asked for.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Violations returns what the service would have refused.
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

var (
	connectionID = regexp.MustCompile(`^[0-9a-f]{32}$`)
	cookie       = regexp.MustCompile(`^muid=[0-9A-F]{32};$`)
)

// serve checks the request as the service does, and answers it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	now := time.Now().Add(s.opt.Ahead)
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	status := map[Fault]int{Unauthorized: 401, Forbidden: 403, TooMany: 429, Failing: 500, Overloaded: 503}[s.opt.Fault]
	if q.Get("Sec-MS-GEC") != gec(now) {
		status = http.StatusForbidden
	}
	if !connectionID.MatchString(q.Get("ConnectionId")) || !cookie.MatchString(r.Header.Get("Cookie")) ||
		q.Get("TrustedClientToken") != clientToken || !strings.HasPrefix(q.Get("Sec-MS-GEC-Version"), "1-") ||
		!strings.HasPrefix(r.Header.Get("Origin"), "chrome-extension://") || !strings.Contains(r.UserAgent(), " Edg/") {
		s.violation("a request of another program than the browser")
	}
	switch {
	case status != 0:
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		return
	case s.opt.Fault == HangBefore:
		<-r.Context().Done()
		return
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer ws.CloseNow() //nolint:errcheck // the client may have closed it
	raw, _ := r.Context().Value(connKey{}).(net.Conn)
	s.speak(ws, raw)
}

const clientToken = "6A5AA1D4EAFF4E9FB37E23D68491D6F4"

func gec(at time.Time) string {
	ticks := (at.Unix() + 11644473600) / 300 * 300 * 10_000_000
	sum := sha256.Sum256([]byte(strconv.FormatInt(ticks, 10) + clientToken))
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// speak reads the two messages of a client, and answers with sound.
func (s *Server) speak(ws *websocket.Conn, raw net.Conn) {
	var text string
	for _, path := range []string{"speech.config", "ssml"} {
		_, data, err := ws.Read(s.stop)
		if err != nil {
			return
		}
		head, body, _ := strings.Cut(string(data), "\r\n\r\n")
		if !strings.Contains(head, "Path:"+path) || path == "speech.config" && !strings.Contains(body, "mono-mp3") {
			s.violation("another message than " + path)
		}
		text = body
	}
	var a struct {
		Voice struct {
			Name    string `xml:"name,attr"`
			Prosody struct {
				Rate string `xml:"rate,attr"`
				Text string `xml:",chardata"`
			} `xml:"prosody"`
		} `xml:"voice"`
	}
	if err := xml.Unmarshal([]byte(text), &a); err != nil {
		s.violation("no SSML: " + err.Error())
	}
	s.mu.Lock()
	s.requests = append(s.requests, Request{a.Voice.Name, a.Voice.Prosody.Rate, a.Voice.Prosody.Text})
	s.mu.Unlock()
	s.answer(ws, raw, s.opt.Sound(a.Voice.Prosody.Text))
}

func (s *Server) answer(ws *websocket.Conn, raw net.Conn, sound []byte) {
	write := func(kind websocket.MessageType, data []byte) bool { return ws.Write(s.stop, kind, data) == nil }
	hang := func() { _, _, _ = ws.Read(s.stop) }
	write(websocket.MessageText, []byte("X-RequestId:1\r\nPath:turn.start\r\n\r\n{}"))
	switch s.opt.Fault {
	case HangAfter:
		hang()
		return
	case HalfFrame:
		_, _ = raw.Write([]byte{0x82, 100, 0, 4})
		_ = raw.Close()
		return
	case BadFrame:
		_, _ = raw.Write([]byte{0xff, 0})
		hang()
		return
	case Garbage:
		write(websocket.MessageBinary, []byte("\x00\x07Path:x\n"))
	case WrongLength:
		write(websocket.MessageBinary, []byte("\xff\xffPath:audio"))
	case HugeMessage:
		write(websocket.MessageBinary, make([]byte, 2<<20))
	case Silent:
		sound = nil
	}
	n := 0
	for piece := range slices.Chunk(sound, 720) { // five frames of 144 bytes
		if !write(websocket.MessageBinary, Frame(piece)) {
			return
		}
		switch n++; {
		case s.opt.Fault == CutFirst:
			_ = raw.Close()
			return
		case s.opt.Fault == HangMiddle:
			hang()
			return
		}
	}
	for s.opt.Fault == EndlessSound && write(websocket.MessageBinary, Frame(make([]byte, 64<<10))) {
	}
	if s.opt.Fault == CutLast {
		_ = raw.Close()
		return
	}
	write(websocket.MessageBinary, Frame(nil)) // the last one is empty
	write(websocket.MessageText, []byte("X-RequestId:1\r\nPath:turn.end\r\n\r\n{}"))
	if s.opt.Fault == DoubleEnd {
		write(websocket.MessageText, []byte("X-RequestId:1\r\nPath:turn.end\r\n\r\n{}"))
	}
	hang() // the client closes the connection
}

// Frame returns a binary message with sound.
func Frame(sound []byte) []byte {
	head := "X-RequestId:1\r\nContent-Type:audio/mpeg\r\nPath:audio\r\n"
	b := binary.BigEndian.AppendUint16(nil, uint16(len(head)))
	return append(append(b, head...), sound...)
}
