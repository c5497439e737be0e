// Package eyeclaw is the ActionCable server at /cable, by which an EyeClaw
// plugin that runs inside somebody's OpenClaw is plugged in as a bot.
//
// The plugin dials in with its bot's token, subscribes to BotChannel and waits
// for execute_command messages. It answers with stream_chunk messages, then
// stream_end and stream_summary, or with stream_error.
//
//	conn   one socket: a reader, a writer, the subscriptions. It dies quickly.
//	hub    one bot: the turns that run, the sockets by which it is reachable. It
//	       outlives its sockets, so that an answer survives a reconnect.
//	turn   one question and what was received of its answer.
//
// Every socket has one reader goroutine, which handles frames in the order of
// their arrival and never waits for the person who asked: pieces go into the
// turn's buffer, and the goroutine that called Answer takes them out. What a hub
// and its turns hold is guarded by the hub's mutex; no lock is held while
// anything is written, emitted or attached.
package eyeclaw

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/talk"
)

// Kind is the kind of bot that answers through this package.
const Kind = "eyeclaw"

// The plugin numbers its pieces and collects its text per process, not per
// question: a second question in mid-answer makes both unreadable to it. So
// there is one at a time, and few wait.
const (
	maxConcurrent = 1
	maxWaiting    = 3
)

// Limits that protect this instance from one bot's plugin, or from somebody who
// has a bot's token.
const (
	maxConns      = 8       // sockets per bot; a healthy owner has one, or two while moving house
	maxSubs       = 4       // subscriptions per socket; a plugin has one
	maxFrame      = 1 << 20 // bytes of one inbound message; the largest is a summary with the whole answer
	maxQueue      = 256     // outbound frames that wait for a slow socket, some 200 bytes each
	maxAnswer     = 8 << 20 // bytes of one answer, which are all kept until it ends
	maxIdentifier = 4 << 10 // bytes of a subscription's identifier, echoed in every frame
)

// BotRegistry is where connected bots are plugged in.
type BotRegistry interface {
	// Attach makes the bot reachable, with so many turns at once and so many
	// waiting for their turn; the returned function unplugs it.
	Attach(bot int64, b talk.Bot, concurrent, waiting int) (detach func())
	// Renew says that the bot has connected again here, if it is attached: of two
	// instances that it is connected to, this is the newer.
	Renew(bot int64)
}

// Tokens finds the bot that a token belongs to. It returns [ErrUnknownToken]
// if there is none; any other error means that it could not find out.
type Tokens interface {
	BotByToken(ctx context.Context, token string) (Bot, error)
}

// Bot is whom a token belongs to.
type Bot struct {
	Number int64
	Name   string
	Kind   string
}

// ErrUnknownToken says that a token belongs to no bot.
var ErrUnknownToken = errors.New("no bot has this token")

// Options say how a [Server] works. Plug and Tokens are required.
type Options struct {
	Registry BotRegistry
	Tokens   Tokens
	// Logger is told what happens, never what was said. Nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics. Nil keeps them private.
	Registerer prometheus.Registerer
	// PublicURL is the address under which the far side reaches this server's
	// /media/, without a trailing slash. Empty means: as the plugin itself
	// reached us.
	PublicURL string
	// ClientIP is who is at the other end of a request, for the throttling of
	// bad tokens. Nil takes the address of the socket, which is wrong behind a
	// proxy.
	ClientIP func(*http.Request) string
	// Grace is how long a bot whose last socket went stays plugged in. Zero means
	// 45 s: a plugin that was dropped five times needs up to 37 s to come back.
	Grace time.Duration
	// Timings are there for tests; the zero value is right.
	Timings Timings
}

// Timings are the waits of a [Server]. A zero field means its default.
type Timings struct {
	Ping       time.Duration // between ping frames; 3 s, as Rails clients give up after 6 s of silence
	Probe      time.Duration // between WebSocket pings; 20 s
	ProbeWait  time.Duration // until an unanswered WebSocket ping ends the socket; 10 s
	Write      time.Duration // for one frame to be written, or to get into a full queue; 10 s
	Handshake  time.Duration // for the upgrade and the token lookup; 10 s
	SettleWait time.Duration // between stream_end and stream_summary; 300 ms
	GapWait    time.Duration // that pieces behind a hole are kept back for the summary to fill it; 20 s
	Window     time.Duration // over which bad tokens are counted; 1 min
}

func (t Timings) withDefaults() Timings {
	or := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	or(&t.Ping, 3*time.Second)
	or(&t.Probe, 20*time.Second)
	or(&t.ProbeWait, 10*time.Second)
	or(&t.Write, 10*time.Second)
	or(&t.Handshake, 10*time.Second)
	or(&t.SettleWait, 300*time.Millisecond)
	or(&t.GapWait, 20*time.Second)
	or(&t.Window, time.Minute)
	return t
}

// Server is the ActionCable server. Its methods may be called from many
// goroutines.
type Server struct {
	opt       Options
	log       *slog.Logger
	metrics   *metrics
	badTokens *badTokenLimiter
	origins   []string

	ctx  context.Context // ends when Shutdown begins
	stop context.CancelFunc
	wg   sync.WaitGroup // every goroutine that this package starts

	mu      sync.Mutex
	closing bool
	conns   map[*conn]struct{}
	bots    map[int64]*pluginBot // of every bot that ever connected, until Unplug
}

// New makes a server and starts its heartbeat. It ends with [Server.Shutdown].
func New(opt Options) *Server {
	if opt.Grace <= 0 {
		opt.Grace = 45 * time.Second
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.ClientIP == nil {
		opt.ClientIP = socketIP
	}
	opt.Timings = opt.Timings.withDefaults()
	s := &Server{
		opt:       opt,
		log:       opt.Logger,
		metrics:   newMetrics(opt.Registerer),
		badTokens: newBadTokenLimiter(opt.Timings.Window),
		conns:     make(map[*conn]struct{}),
		bots:      make(map[int64]*pluginBot),
	}
	if u, err := url.Parse(opt.PublicURL); err == nil && u.Host != "" {
		s.origins = []string{u.Host}
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.start(s.heartbeat)
	return s
}

// start runs f in a goroutine that Shutdown waits for. It reports false, and
// runs nothing, once Shutdown has begun.
func (s *Server) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.wg.Go(f)
	return true
}

// heartbeat sends the ping frames of all sockets, and looks for dead ones.
func (s *Server) heartbeat() {
	tick := time.NewTicker(s.opt.Timings.Ping)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			frame := pingFrame(now)
			for _, c := range s.openConns() {
				c.heartbeat(frame, now)
			}
		}
	}
}

// openConns lists the sockets of the moment.
func (s *Server) openConns() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		list = append(list, c)
	}
	return list
}

// pluginBot finds the hub of a bot, or makes it. It returns nil once Shutdown has
// begun.
func (s *Server) pluginBot(bot Bot) *pluginBot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil
	}
	h := s.bots[bot.Number]
	if h == nil {
		h = newPluginBot(s, bot)
		s.bots[bot.Number] = h
		s.wg.Go(h.maintainRegistration)
	}
	return h
}

// Shutdown tells every plugin that the server restarts, ends the running
// answers and waits until all goroutines are gone. When ctx ends first, the
// sockets that are still open are cut, and its error is returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	list := make([]*pluginBot, 0, len(s.bots))
	for _, h := range s.bots {
		list = append(list, h)
	}
	s.mu.Unlock()

	s.stop()
	for _, h := range list {
		h.abortTurns()
	}
	for _, c := range s.openConns() {
		c.requestClose(closeRestart)
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.openConns() {
		c.terminate(endShutdown)
	}
	<-done
	return ctx.Err()
}

// DrainFuncs has a function for each plugin that is connected, which tells it to connect
// again, to whichever instance it finds then. While it answers it is left alone, unless at
// once is true; the function is false then.
func (s *Server) DrainFuncs() []func(atOnce bool) bool {
	var out []func(bool) bool
	for _, c := range s.openConns() {
		out = append(out, func(atOnce bool) bool {
			if !c.tryDrain(atOnce) {
				return false
			}
			c.requestClose(closeRestart)
			return true
		})
	}
	return out
}

// tryDrain reports whether nobody waits for an answer by this connection, or that does not
// matter, and has nobody ask by it any more.
func (c *conn) tryDrain(atOnce bool) bool {
	h := c.bot
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.turns {
		if t.conn == c && !atOnce {
			return false
		}
	}
	c.draining = true
	return true
}

// DisconnectBot disconnects a bot's plugins for good: the bot was removed, or its token
// was replaced. Running answers break off.
func (s *Server) DisconnectBot(bot int64) {
	s.mu.Lock()
	h := s.bots[bot]
	s.mu.Unlock()
	if h == nil {
		return
	}
	h.retire()
	s.mu.Lock()
	if s.bots[bot] == h {
		delete(s.bots, bot)
	}
	s.mu.Unlock()
}
