// Package sim is a stand-in for the EyeClaw plugin 2.4.0 as it runs inside
// OpenClaw: it dials a cable server as that does, and has the same habits, good
// and bad. It is there for tests, for the demo and for trying a server out.
//
// The habits, all measured on the real plugin:
//
//   - It offers no subprotocol, and an extension that it need not get.
//   - It subscribes when welcomed and pings its channel every 60 s once confirmed;
//     a second confirmation starts a second ping timer.
//   - It numbers its pieces, and collects their text, once for all chats. A chat
//     that starts while another runs resets the numbers of both.
//   - It collects text until it sends a summary. After an error it sends none.
//   - Before the end it waits up to 2 s for all pieces to be acknowledged, looking
//     every 50 ms.
//   - What it has to send while no socket is open is lost, but collected.
//   - It comes back after 2, 4, 8, 16, 30, 30, … s, each ±25 %, and a success does
//     not set that back. After ten failures in a row it pauses for 60 s.
//   - It ignores messages of unknown types, and the reconnect flag.
//   - When OpenClaw says nothing, it says nothing.
package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// The plugin's times, at scale 1.
const (
	firstBackoff    = time.Second // doubled before each attempt
	maxBackoff      = 30 * time.Second
	maxAttempts     = 10
	longPause       = 60 * time.Second
	pingInterval    = 60 * time.Second
	ackTimeout      = 2 * time.Second
	ackPollInterval = 50 * time.Millisecond
)

// maxBuffer bounds what waits to be written, in bytes. A plugin's socket takes
// whatever it is given; here a server that does not read loses the connection
// before the memory is gone.
const maxBuffer = 64 << 20

// maxFrame is the largest message taken from the server. The real plugin takes
// 100 MiB; nothing comes near either.
const maxFrame = 4 << 20

// Upstream plays OpenClaw. It calls piece for each piece of the answer and
// returns nil at its end, or an error whose text is what the plugin would report
// (such as "OpenClaw API error: 500 - boom"). To hang it waits for ctx, which
// ends with the plugin. Chats run at the same time if the server starts them so.
type Upstream func(ctx context.Context, chat Chat, piece func(string)) error

// Chat is one question as it reaches OpenClaw, and what came with it.
type Chat struct {
	Message   string          // what the model is asked
	SessionID string          // the server's id of the question
	User      string          // whose context it belongs to, as OpenClaw is told
	Metadata  json.RawMessage // all that the server sent along
}

// Options describe a plugin. Server, Token and Upstream are required.
type Options struct {
	Server   string // http://host:port or https://…
	Token    string
	BotID    string // told to the server, which need not care; "1" if empty
	Upstream Upstream
	// Scale multiplies all of the plugin's waits: 0.01 makes a test fast. Zero
	// means 1.
	Scale float64
	// Watch, if not nil, is told what happens, from one goroutine at a time. It
	// must not call the plugin.
	Watch func(Notice)
	// Logger may be nil.
	Logger *slog.Logger
}

// Notice is something that happened to a plugin.
type Notice struct {
	Kind   NoticeKind
	Detail string        // an error, a session id
	After  time.Duration // how long it took, or will take
}

// NoticeKind names what happened.
type NoticeKind string

// The kinds of notice.
const (
	Opened       NoticeKind = "opened"       // the socket is open
	Subscribed   NoticeKind = "subscribed"   // the server confirmed
	Rejected     NoticeKind = "rejected"     // the server rejected the subscription; the plugin stays idle
	Closed       NoticeKind = "closed"       // the socket is gone
	Reconnecting NoticeKind = "reconnecting" // it will try again, After so long
	Asked        NoticeKind = "asked"        // a chat began; Detail is its session id
	Answered     NoticeKind = "answered"     // it ended; After is how long the acknowledgements took
	Failed       NoticeKind = "failed"       // it ended with an error
)

// Plugin is one running plugin. Run it once.
type Plugin struct {
	opt   Options
	ident string
	chats sync.WaitGroup

	watchMu sync.Mutex

	// The plugin's JavaScript runs on one thread; so does what this guards.
	mu        sync.Mutex
	conn      *openConn // nil while there is no open socket
	sequence  int
	sent      int
	acked     map[int]bool
	collected strings.Builder
}

// New makes a plugin that does nothing until [Plugin.Run].
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

// Run connects, answers, and reconnects until ctx ends; then it waits for what
// it has started. It returns ctx's error.
func (p *Plugin) Run(ctx context.Context) error {
	defer p.chats.Wait()
	address, err := p.address()
	if err != nil {
		return err
	}
	backoff := backoff{scale: p.opt.Scale}
	for {
		if p.session(ctx, address) {
			backoff.attempts = 0
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		delay := backoff.next()
		p.notify(Notice{Kind: Reconnecting, After: delay})
		if !sleep(ctx, delay) {
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

// session is the life of one socket. It reports whether the socket ever opened.
func (p *Plugin) session(ctx context.Context, address string) (opened bool) {
	ws, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{
		CompressionMode: websocket.CompressionContextTakeover, // offered; the server may decline
	})
	if err != nil {
		// The error would name the address, and so the token.
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

// disconnect makes what is sent from now on go nowhere.
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

// Drop cuts the open socket, as a lost network does. Without one it does
// nothing.
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

// backoff is the plugin's reckoning of when to come back.
type backoff struct {
	scale    float64
	last     time.Duration
	attempts int // since a socket last opened
}

func (b *backoff) next() time.Duration {
	var pause time.Duration
	if b.attempts >= maxAttempts {
		pause, b.last, b.attempts = longPause, 0, 0
	}
	b.attempts++
	b.last = min(max(b.last, firstBackoff)*2, maxBackoff)
	jitter := 1 + 0.25*(rand.Float64()*2-1)
	return time.Duration(b.scale * (float64(pause) + float64(b.last)*jitter))
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
