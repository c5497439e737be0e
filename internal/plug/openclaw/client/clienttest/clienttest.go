// Package clienttest is a gateway for tests of clients. It does the handshake as OpenClaw does; the
// test answers all further requests.
package clienttest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
)

// Token is the gateway's shared secret.
const Token = "token-of-a-test"

// Timeout limits each wait of a test.
const Timeout = 20 * time.Second

// Options configure a gateway. The zero Options accept every client with the token.
type Options struct {
	// Admit decides about a client whose signature is valid; a nil error accepts it. Nil: the token
	// decides.
	Admit func(*wire.Connect) *wire.Error
	// Hello changes the hello response.
	Hello func(*wire.Hello)
	// Policy is merged into the policy of the hello response.
	Policy string
	// Tick is the announced and actual interval of ticks; 0: 30 s. With Mute, ticks are announced
	// but not sent.
	Tick time.Duration
	Mute bool
	// Raw, if not nil, handles each connection instead, before the challenge.
	Raw func(*websocket.Conn)
	// Status is an HTTP status to respond with instead of the upgrade; 0: none.
	Status int
	// TLS makes it a wss:// gateway with a certificate of its own making.
	TLS bool
	// RecordFrames records all frames of clients, for [Gateway.Check].
	RecordFrames bool
}

// Gateway is a gateway for tests of clients.
type Gateway struct {
	URL string

	t     testing.TB
	opt   Options
	http  *httptest.Server
	peers chan *Peer
	work  sync.WaitGroup

	mu       sync.Mutex
	attempts []wire.Connect
	open     []*websocket.Conn
	frames   [][]byte
	closed   bool
	cert     tls.Certificate // of TLS
}

// Start starts a gateway. It ends with the test.
func Start(t testing.TB, o Options) *Gateway {
	t.Helper()
	g := &Gateway{t: t, opt: o, peers: make(chan *Peer, 100)}
	g.http = httptest.NewUnstartedServer(http.HandlerFunc(g.serve))
	if o.TLS {
		g.Renew()
		g.http.Config.ErrorLog = log.New(io.Discard, "", 0) // of refused handshakes
		g.http.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			return &tls.Config{Certificates: []tls.Certificate{g.cert}}, nil
		}}
		g.http.StartTLS()
	} else {
		g.http.Start()
	}
	g.URL = "ws" + strings.TrimPrefix(g.http.URL, "http")
	t.Cleanup(func() {
		g.http.Close()
		g.mu.Lock()
		g.closed = true
		for _, ws := range g.open {
			_ = ws.CloseNow()
		}
		g.mu.Unlock()
		g.work.Wait()
	})
	return g
}

// Renew replaces the certificate. Open connections go on.
func (g *Gateway) Renew() {
	g.t.Helper()
	fresh := openclawtest.NewSelfMade(g.t).Pair(g.t)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cert = fresh
}

// Fingerprint returns that of the certificate.
func (g *Gateway) Fingerprint() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return wire.Fingerprint(g.cert.Certificate[0])
}

// Attempts returns the connect parameters of all clients so far.
func (g *Gateway) Attempts() []wire.Connect {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]wire.Connect{}, g.attempts...)
}

// Peer waits for the next accepted client.
func (g *Gateway) Peer() *Peer {
	g.t.Helper()
	select {
	case p := <-g.peers:
		return p
	case <-time.After(Timeout):
		g.t.Fatal("no client came")
		return nil
	}
}

func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	if g.opt.Status != 0 {
		http.Error(w, "no", g.opt.Status)
		return
	}
	// Before the upgrade: after it, the server's Close does not wait for this handler any more.
	g.work.Add(1)
	defer g.work.Done()
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	g.mu.Lock()
	g.open = append(g.open, ws)
	over := g.closed
	g.mu.Unlock()
	if over {
		return
	}
	if g.opt.Raw != nil {
		g.opt.Raw(ws)
		return
	}
	ws.SetReadLimit(wire.MaxFrame)
	p := &Peer{t: g.t, ws: ws, requests: make(chan wire.Request, 100), done: make(chan struct{})}
	if !g.admit(r.Context(), p) {
		return
	}
	defer close(p.done)
	g.peers <- p
	stop := make(chan struct{})
	defer close(stop)
	if g.opt.Tick > 0 && !g.opt.Mute {
		g.work.Go(func() { p.tick(g.opt.Tick, stop) })
	}
	for {
		_, data, err := ws.Read(context.Background())
		if err != nil {
			p.closeErr = err
			return
		}
		g.record(data)
		req, err := wire.ParseRequest(data)
		if err != nil {
			g.t.Errorf("the client says %s: %v", data, err)
			return
		}
		p.requests <- req
	}
}

// admit does the handshake.
func (g *Gateway) admit(ctx context.Context, p *Peer) bool {
	const nonce = "11111111-2222-3333-4444-555555555555"
	p.write(wire.AppendChallenge(nil, nonce, time.Now()))
	_, data, err := p.ws.Read(ctx)
	if err != nil {
		return false
	}
	g.record(data)
	req, err := wire.ParseRequest(data)
	if err != nil || req.Method != wire.MethodConnect {
		g.t.Errorf("the client begins with %s: %v", data, err)
		return false
	}
	c, e := wire.ParseConnect(req.Params)
	if e == nil {
		g.mu.Lock()
		g.attempts = append(g.attempts, *c)
		g.mu.Unlock()
		if c.Device != nil {
			e = c.Verify(nonce, time.Now())
		}
	}
	switch {
	case e != nil:
	case g.opt.Admit != nil:
		e = g.opt.Admit(c)
	case c.Credential() != Token:
		e = wire.TokenMismatch(c.Device != nil)
	}
	if e != nil {
		p.Fail(req, e)
		_ = p.ws.Close(websocket.StatusCode(e.Close), e.Reason())
		return false
	}
	p.Connect = c
	p.Answer(req, g.hello(c))
	return true
}

func (g *Gateway) hello(c *wire.Connect) json.RawMessage {
	h := wire.Hello{Server: wire.Server{Version: "2026.9.6", ConnID: "1"},
		Auth: wire.Granted{Role: c.Role, Scopes: c.Scopes}}
	if g.opt.Tick > 0 {
		h.Policy = wire.Limits{MaxPayload: wire.MaxFrame, MaxBuffered: wire.MaxBuffered,
			TickIntervalMS: g.opt.Tick.Milliseconds()}
	}
	if g.opt.Hello != nil {
		g.opt.Hello(&h)
	}
	if g.opt.Policy == "" {
		return h.JSON()
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(h.JSON(), &all); err != nil {
		g.t.Error(err)
	}
	all["policy"] = json.RawMessage(g.opt.Policy)
	data, _ := json.Marshal(all) // cannot fail: the values are JSON
	return data
}

// Peer is an accepted client.
type Peer struct {
	Connect *wire.Connect

	t        testing.TB
	ws       *websocket.Conn
	requests chan wire.Request
	done     chan struct{}
	closeErr error

	mu sync.Mutex
}

// Next waits for the next request, which must be of the given method.
func (p *Peer) Next(method string) wire.Request {
	p.t.Helper()
	r := p.NextAny()
	if r.Method != method {
		p.t.Fatalf("the client calls %s %s, not %s", r.Method, r.Params, method)
	}
	return r
}

// NextAny waits for the next request.
func (p *Peer) NextAny() wire.Request {
	p.t.Helper()
	select {
	case r := <-p.requests:
		return r
	case <-p.done:
		p.t.Fatalf("the client has disconnected: %v", p.closeErr)
	case <-time.After(Timeout):
		p.t.Fatal("the client calls nothing")
	}
	return wire.Request{}
}

// HasNoRequest reports whether there is no request that Next has not returned.
func (p *Peer) HasNoRequest() bool { return len(p.requests) == 0 }

// Params decodes the parameters of a request.
func Params[T any](t testing.TB, r wire.Request) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(r.Params, &v); err != nil {
		t.Fatalf("%s: %v", r.Params, err)
	}
	return v
}

// Answer sends the response to a request. A json.RawMessage is sent as it is; other payloads are
// encoded.
func (p *Peer) Answer(r wire.Request, payload any) {
	p.write(wire.AppendResult(nil, r.ID, p.encode(payload)))
}

// Fail sends an error response.
func (p *Peer) Fail(r wire.Request, e *wire.Error) { p.write(wire.AppendFailure(nil, r.ID, e)) }

// SendEvent sends an event.
func (p *Peer) SendEvent(event string, payload any) {
	p.write(wire.AppendEvent(nil, event, p.encode(payload), 0))
}

// SendRaw sends a text frame unchanged.
func (p *Peer) SendRaw(frame string) { p.write([]byte(frame)) }

func (p *Peer) encode(v any) []byte {
	if raw, ok := v.(json.RawMessage); ok {
		return raw
	}
	data, err := json.Marshal(v)
	if err != nil {
		p.t.Error(err)
	}
	return data
}

func (p *Peer) write(frame []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.ws.Write(ctx, websocket.MessageText, frame) // if the client has disconnected, the test sees that elsewhere
}

func (p *Peer) tick(every time.Duration, stop chan struct{}) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.SendEvent(wire.EventTick, json.RawMessage(`{"ts":1}`))
		case <-stop:
			return
		}
	}
}

// Close closes the connection with a Close frame, as a gateway does.
func (p *Peer) Close(code int, reason string) {
	_ = p.ws.Close(websocket.StatusCode(code), reason)
	<-p.done
}

// Cut closes the connection without a Close frame.
func (p *Peer) Cut() {
	_ = p.ws.CloseNow()
	<-p.done
}

// CloseCode waits until the client has disconnected and returns the code of its close frame,
// or -1.
func (p *Peer) CloseCode() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(Timeout):
		p.t.Fatal("the client did not hang up")
	}
	var e websocket.CloseError
	if errors.As(p.closeErr, &e) {
		return int(e.Code)
	}
	return -1
}
