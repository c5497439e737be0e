// Package eyeclaw connects EyeClaw plugins, and Patchbay's own connector for OpenClaw: it is the
// ActionCable server at /cable to which a plugin that runs inside somebody's OpenClaw connects, and
// through which it answers as a bot. What the connector has in addition is in connector.go.
//
// The plugin connects with its bot's token, subscribes to BotChannel and waits for execute_command
// messages. It answers with stream_chunk messages, then stream_end and stream_summary, or with
// stream_error.
//
//	conn       one socket: a reader, a writer, the subscriptions. It is short-lived.
//	pluginBot  one bot: its running turns and its sockets. It outlives its sockets, so that an
//	           answer survives a reconnect.
//	turn       one question and the received part of its answer.
//
// Every socket has one reader goroutine, which handles frames in order of arrival and never waits
// for the person who asked: chunks go into the turn's buffer, and the goroutine that called Answer
// takes them out. A pluginBot and its turns are guarded by pluginBot.mu. No lock is held during a
// write, a call of emit or an attachment.
//
// The protocol is Rails' Action Cable (actioncable/lib and actioncable/app/javascript in
// rails/rails, 8.1) with the channel of sengmitnick/eyeclaw at 9fa98ce: app/channels/bot_channel.rb
// is the server, sdk/src/websocket-client.ts the plugin, version 2.4.0. File names in this package
// refer to that repository. Package sim lists what was measured with the plugin.
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
	"patchbay/internal/toolbox"
)

// Kind is the kind of bot that answers through this package.
const Kind = "eyeclaw"

// The plugin counts its chunks and collects its text per process, not per question (chunkSequence
// and accumulatedContent in sdk/src/websocket-client.ts): a second question during an answer mixes
// up both. Therefore a bot has one turn at a time and a short queue.
const (
	maxConcurrent = 1
	maxWaiting    = 3
)

// Limits that protect this instance from one bot's plugin, or from somebody with a bot's token.
const (
	maxConns      = 8       // sockets per bot; usual is one, or two during a move
	maxSubs       = 4       // subscriptions per socket; a plugin has one
	maxFrame      = 1 << 20 // bytes of one inbound message; the largest is a summary
	maxQueue      = 256     // queued outbound frames of a socket, some 200 bytes each
	maxAnswer     = 8 << 20 // bytes of one answer, all of which are kept until it ends
	maxIdentifier = 4 << 10 // bytes of a subscription's identifier, which is echoed in every frame
)

// BotRegistry registers connected bots.
type BotRegistry interface {
	// Attach makes the bot reachable, with the given numbers of concurrent and waiting turns. The
	// returned function detaches it.
	Attach(bot int64, b talk.Bot, concurrent, waiting int) (detach func())
	// Renew records that the bot has connected here again, if it is attached: of two instances that
	// it is connected to, this is the newer.
	Renew(bot int64)
}

// Tokens finds the bot of a token. It returns [ErrUnknownToken] if there is none; any other error
// means that the lookup failed.
type Tokens interface {
	BotByToken(ctx context.Context, token string) (Bot, error)
}

// Bot is the bot of a token.
type Bot struct {
	Number int64
	Kind   string
}

// ErrUnknownToken means that a token belongs to no bot.
var ErrUnknownToken = errors.New("no bot has this token")

// Options configure a [Server]. Registry and Tokens are required.
type Options struct {
	Registry BotRegistry
	Tokens   Tokens
	// Tools returns the tools that the agent behind a connector may call. Nil, and a nil result,
	// mean none.
	Tools func(ctx context.Context, bot int64) (toolbox.Tools, error)
	// Resume returns a turn of a bot that was cut off because the server ended; nil: nobody wants
	// the rest of its answer. A nil function means that there are none.
	Resume func(bot int64, turn string) *talk.Cut
	// Logger logs events, never messages. Nil discards.
	Logger *slog.Logger
	// Registerer registers the metrics. Nil leaves them unregistered.
	Registerer prometheus.Registerer
	// PublicURL is the address under which clients reach this server's /media/, without a trailing
	// slash. Empty means the address with which the plugin itself reached the server.
	PublicURL string
	// ClientIP returns the client address of a request, for the throttling of bad tokens. Nil uses
	// the address of the socket, which is wrong behind a proxy.
	ClientIP func(*http.Request) string
	// Grace is how long a bot stays attached after its last socket has closed. Zero means 45 s: a
	// plugin that was dropped five times needs up to 37 s to reconnect (2^n s ± 25 %, at most 30 s
	// ± 25 %; the delay is not reset after success).
	Grace time.Duration
	// Timings is for tests; the zero value means the defaults.
	Timings Timings
}

// Timings are the intervals and timeouts of a [Server]. A zero field means its default. Ping is
// that of Rails (actioncable/lib/action_cable/server/connections.rb, BEAT_INTERVAL);
// @rails/actioncable reconnects after 6 s without a frame (connection_monitor.js, staleThreshold).
type Timings struct {
	Ping       time.Duration // between ping frames; 3 s
	Probe      time.Duration // between WebSocket pings; 20 s
	ProbeWait  time.Duration // timeout of a WebSocket ping; 10 s
	Write      time.Duration // timeout of writing a frame, or of queueing it; 10 s
	Handshake  time.Duration // timeout of the upgrade and the token lookup; 10 s
	SettleWait time.Duration // from stream_end to stream_summary, at most; 300 ms
	GapWait    time.Duration // how long chunks after a gap are held back for the summary; 20 s
	Note       time.Duration // without a socket, until the asker is told; 3 s
	Stall      time.Duration // without a frame after a lost socket, until the next question may start; 8 s
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
	or(&t.Note, 3*time.Second)
	or(&t.Stall, 8*time.Second)
	or(&t.Window, time.Minute)
	return t
}

// Server is the ActionCable server. Its methods are safe for concurrent use.
type Server struct {
	opt       Options
	log       *slog.Logger
	metrics   *metrics
	badTokens *badTokenLimiter
	origins   []string

	ctx  context.Context // ends when Shutdown begins
	stop context.CancelFunc
	wg   sync.WaitGroup // all goroutines of this package

	mu      sync.Mutex
	closing bool
	conns   map[*conn]struct{}
	bots    map[int64]*pluginBot // every bot that ever connected, until DisconnectBot
}

// New returns a server and starts its heartbeat. [Server.Shutdown] stops it.
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

// start runs f in a goroutine that Shutdown waits for. It returns false, and runs nothing, once
// Shutdown has begun.
func (s *Server) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.wg.Go(f)
	return true
}

// heartbeat sends the ping frames of all sockets and detects dead sockets.
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

// openConns returns the open sockets.
func (s *Server) openConns() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		list = append(list, c)
	}
	return list
}

// pluginBot returns the pluginBot of a bot and creates it if necessary. It returns nil once
// Shutdown has begun.
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

// Shutdown sends every plugin a disconnect frame (server_restart), ends the running answers and
// waits for all goroutines. If ctx ends first, it closes the open sockets and returns ctx's error.
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

// DrainFuncs returns a function for each connected plugin that makes the plugin reconnect, possibly
// to another instance. The function returns false and does nothing while the plugin answers, unless
// atOnce is true.
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

// tryDrain marks the connection as draining, so that it gets no further questions, and reports
// whether it did. It does nothing while a turn runs on the connection, unless atOnce is true.
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

// DisconnectBot disconnects a bot's plugins for good, because the bot was removed or its token
// replaced. Running answers are interrupted.
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
