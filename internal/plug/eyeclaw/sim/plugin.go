// Package sim simulates the EyeClaw plugin 2.4.0 (sengmitnick/eyeclaw at 9fa98ce,
// sdk/src/websocket-client.ts) as it runs inside OpenClaw: it connects to a cable server and
// behaves like the plugin, faults included. It is for tests, for the demo and for trying out a
// server.
//
// Behaviour, measured with the real plugin:
//
//   - It offers no subprotocol, and permessage-deflate, which it does not need.
//   - It subscribes after welcome and pings its channel every 60 s after the confirmation. A second
//     confirmation starts a second ping timer.
//   - It numbers its chunks, and collects their text, once for all chats. A chat that starts while
//     another runs resets the numbers of both.
//   - It collects text until it sends a summary. After an error it sends none.
//   - Before the end it waits up to 2 s until all chunks are acknowledged, and checks every 50 ms.
//   - What it sends while no socket is open is lost, but collected.
//   - It reconnects after 2, 4, 8, 16, 30, 30, … s, each ±25 %; a success does not reset the delay.
//     After ten failures in a row it pauses for 60 s.
//   - It ignores messages of unknown types, and the reconnect flag.
//   - When OpenClaw sends nothing, it sends nothing.
package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/netx"
)

// The plugin's times at scale 1 (sdk/src/websocket-client.ts).
const (
	firstBackoff    = 2 * time.Second // one second, doubled before the first attempt too
	maxBackoff      = 30 * time.Second
	maxAttempts     = 10
	longPause       = 60 * time.Second
	pingInterval    = 60 * time.Second
	ackTimeout      = 2 * time.Second
	ackPollInterval = 50 * time.Millisecond
)

// maxBuffer limits the frames that wait to be written, in bytes. The plugin's socket has no limit;
// here a server that does not read loses the connection before the memory is exhausted.
const maxBuffer = 64 << 20

// maxFrame limits a message of the server, in bytes. The plugin accepts 100 MiB (maxPayload of
// npm's ws); real messages are far smaller.
const maxFrame = 4 << 20

// Upstream plays OpenClaw. It calls piece for each piece of the answer and returns nil at the end,
// or an error whose text is what the plugin would report (such as "OpenClaw API error: 500 -
// boom"). To hang it waits for ctx, which ends with the plugin. Chats run concurrently if the
// server starts them so.
type Upstream func(ctx context.Context, chat Chat, piece func(string)) error

// Chat is one question as OpenClaw gets it, with the server's metadata.
type Chat struct {
	Message   string          // the message to the model
	SessionID string          // the server's id of the question
	User      string          // the OpenClaw context
	Metadata  json.RawMessage // the server's metadata
}

// Options configure a plugin. Server, Token and Upstream are required.
type Options struct {
	Server   string // http://host:port or https://…
	Token    string
	BotID    string // sent to the server, which may ignore it; "1" if empty
	Upstream Upstream
	// Scale multiplies all of the plugin's times: 0.01 makes a test fast. Zero means 1.
	Scale float64
	// Watch, if not nil, is called for each notice, by one goroutine at a time. It must not call
	// the plugin.
	Watch func(Notice)
	// Logger may be nil.
	Logger *slog.Logger
}

// Notice is an event of a plugin.
type Notice struct {
	Kind   NoticeKind
	Detail string        // an error or a session id
	After  time.Duration // how long it took or will take
}

// NoticeKind is the kind of a notice.
type NoticeKind string

// Kinds of notices.
const (
	Opened       NoticeKind = "opened"       // the socket is open
	Subscribed   NoticeKind = "subscribed"   // the server confirmed the subscription
	Rejected     NoticeKind = "rejected"     // the server rejected it; the plugin stays idle
	Closed       NoticeKind = "closed"       // the socket has closed
	Reconnecting NoticeKind = "reconnecting" // the plugin reconnects in After
	Asked        NoticeKind = "asked"        // a chat began; Detail is its session id
	Answered     NoticeKind = "answered"     // it ended; After is the wait for acknowledgements
	Failed       NoticeKind = "failed"       // it ended with an error
)

// Plugin is one plugin. Run may be called once.
type Plugin struct {
	opt   Options
	ident string
	chats sync.WaitGroup

	watchMu sync.Mutex

	// mu guards what the plugin's single JavaScript thread owns.
	mu        sync.Mutex
	conn      *openConn // nil while there is no open socket
	sequence  int
	sent      int
	acked     map[int]bool
	collected strings.Builder
}

// New returns a plugin, which does nothing until [Plugin.Run].
func New(opt Options) *Plugin {
	if opt.Scale <= 0 {
		opt.Scale = 1
	}
	if opt.BotID == "" {
		opt.BotID = "1"
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	ident := stringify(struct {
		Channel string `json:"channel"`
		BotID   string `json:"bot_id"`
	}{"BotChannel", opt.BotID})
	return &Plugin{opt: opt, ident: ident, acked: make(map[int]bool)}
}

// Run connects, answers and reconnects until ctx ends. Then it waits for its goroutines and returns
// ctx's error.
func (p *Plugin) Run(ctx context.Context) error {
	defer p.chats.Wait()
	address, err := p.address()
	if err != nil {
		return err
	}
	backoff := newReconnects()
	for {
		if p.session(ctx, address) {
			backoff.attempts = 0
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		delay := p.scaled(backoff.next())
		p.notify(Notice{Kind: Reconnecting, After: delay})
		if netx.Wait(ctx, delay) != nil {
			return ctx.Err()
		}
	}
}

func (p *Plugin) address() (string, error) {
	if !strings.HasPrefix(p.opt.Server, "http://") && !strings.HasPrefix(p.opt.Server, "https://") {
		return "", fmt.Errorf("the server's address %q does not begin with http:// or https://", p.opt.Server)
	}
	q := url.Values{"sdk_token": {p.opt.Token}, "bot_id": {p.opt.BotID}}
	return "ws" + strings.TrimPrefix(strings.TrimSuffix(p.opt.Server, "/"), "http") + "/cable?" + q.Encode(), nil
}

// session runs one socket. It reports whether the socket was opened.
func (p *Plugin) session(ctx context.Context, address string) (opened bool) {
	ws, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{
		CompressionMode: websocket.CompressionContextTakeover, // offered; the server may decline
	})
	if err != nil {
		// The error contains the address, and therefore the token.
		detail := "cannot connect"
		if resp != nil {
			detail = resp.Status
		}
		p.notify(Notice{Kind: Closed, Detail: detail})
		return false
	}
	ws.SetReadLimit(maxFrame)
	sctx, cancel := context.WithCancel(ctx)
	l := &openConn{ws: ws, wake: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	defer func() {
		p.disconnect(l)
		cancel()
		_ = ws.CloseNow()
		wg.Wait()
	}()
	p.mu.Lock()
	p.conn = l
	p.mu.Unlock()
	wg.Go(func() { p.write(sctx, l) })
	p.notify(Notice{Kind: Opened})
	for {
		_, data, err := ws.Read(sctx)
		if err != nil {
			p.notify(Notice{Kind: Closed, Detail: closeDetail(err)})
			return true
		}
		p.receive(ctx, sctx, data, &wg)
	}
}

// disconnect drops all frames that are sent from now on.
func (p *Plugin) disconnect(l *openConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == l {
		p.conn = nil
	}
}

func closeDetail(err error) string {
	if ce, ok := errors.AsType[websocket.CloseError](err); ok {
		return fmt.Sprintf("%d %s", ce.Code, ce.Reason)
	}
	return "connection lost"
}

// Drop cuts the open socket, as a lost network does. Without an open socket it does nothing.
func (p *Plugin) Drop() {
	p.mu.Lock()
	l := p.conn
	p.conn = nil
	p.mu.Unlock()
	if l != nil {
		_ = l.ws.CloseNow()
	}
}

func (p *Plugin) notify(n Notice) {
	p.opt.Logger.Debug("plugin", "kind", n.Kind, "detail", n.Detail, "after", n.After)
	if p.opt.Watch == nil {
		return
	}
	p.watchMu.Lock()
	defer p.watchMu.Unlock()
	p.opt.Watch(n)
}

func (p *Plugin) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * p.opt.Scale)
}

// reconnects computes the plugin's reconnect delays at scale 1.
type reconnects struct {
	netx.Backoff
	attempts int // since a socket last opened
}

func newReconnects() reconnects {
	return reconnects{Backoff: netx.Backoff{First: firstBackoff, Max: maxBackoff,
		Jitter: netx.Jitter{From: 0.75, To: 1.25}}}
}

func (r *reconnects) next() time.Duration {
	var pause time.Duration
	if r.attempts >= maxAttempts {
		r.Reset()
		pause, r.attempts = longPause, 0
	}
	r.attempts++
	return pause + r.Next()
}
