// Package broker serves boards that connect to an external MQTT broker instead of package mqtt. It
// connects to that broker as an ordinary client, and presents each board behind it like a
// connection of package mqtt.
//
// A board's client id is part of its topics: the board publishes to PublishPrefix/<client id>, and
// receives what is published to PushPrefix/<client id>. The broker has to subscribe it to that
// topic, since boards never subscribe (xiaozhi-esp32 main/protocols/mqtt_protocol.cc,
// MqttProtocol::StartMqttClient). So the broker can confine each board to its own topics, and the
// topic of a message identifies its sender.
//
//	Client      keeps one connection to the broker, and the boards behind it.
//	Conn        one board: a queue, and a goroutine that calls the session.
//	outbox      messages for the broker, in one queue for all boards.
//	sizeFilter  drops messages of the broker that are too long.
//
// The board's own connection is not visible here. A board is present when it sends something, or
// when the broker reports its connection; it is gone when the broker reports that, or when it stops
// answering. Idle boards send nothing of their own, so they are probed.
//
// All messages of a board must reach the instance that has its conversation, but shared
// subscriptions distribute single messages. So only one instance at a time is connected: see
// Options.AcquireLease.
//
// Package wire names the revisions of the sources that comments cite.
package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/mqtt"
)

// Default prefixes of the topics: mqtt.DefaultTopic, and mqtt.TopicPrefix without the slash.
const (
	DefaultPublishPrefix = "device-server"
	DefaultPushPrefix    = "devices/p2p"
)

// DefaultProbePayload makes a board answer: a request of a method that no board has, which boards
// answer with an error (xiaozhi-esp32 main/mcp_server.cc, McpServer::ParseMessage). The id is
// wire.MaxID, which nothing else uses.
const DefaultProbePayload = `{"session_id":"","type":"mcp","payload":{"jsonrpc":"2.0","id":2147483647,"method":"ping","params":{}}}`

const (
	// LeaseDuration is the duration of the lease. If an instance dies, another one takes over after
	// that time.
	LeaseDuration = 30 * time.Second
	// MaxPush limits a message to a board, in bytes, as in package mqtt.
	MaxPush = mqtt.MaxPush
	// maxQueue limits the messages of a board that wait for its session. When the queue is full,
	// the oldest is dropped: there is no back-pressure to boards.
	maxQueue = 64
	// maxQueued limits the messages of all boards that wait for sessions, in bytes. More are
	// dropped.
	maxQueued = 64 << 20
	// maxPending limits the boards whose approval is not known yet, so that strangers cannot fill
	// the memory. More boards are ignored.
	maxPending = 1_000
	// maxLookups limits the concurrent lookups of boards.
	maxLookups = 16
	// maxRefused limits the refused boards that are remembered. When it is reached, all are
	// forgotten.
	maxRefused = 10_000
	// maxClientID limits a client id, which is part of every topic, in bytes.
	maxClientID = 128
	// probeRate limits the probes per second over all boards, since every board answers.
	probeRate = 200
	// lookupTimeout limits the lookup of a board.
	lookupTimeout = 10 * time.Second
	// flushTimeout limits how long an ending connection waits for messages in the outbox.
	flushTimeout = 5 * time.Second
)

var (
	// ErrBrokerUnreachable ends every Conn after 30 s without a connection to the broker.
	ErrBrokerUnreachable = errors.New("the MQTT broker is not reachable")
	// ErrOtherInstance ends every Conn when another instance has the lease.
	ErrOtherInstance = errors.New("another instance serves the boards of the MQTT broker")
	// ErrBoardDisconnected ends a Conn whose board has lost its connection to the broker.
	ErrBoardDisconnected = errors.New("the board has lost its connection to the MQTT broker")
)

// Options configure a [Client]. URL, IsApproved and NewSession are required; a zero field means its
// default.
type Options struct {
	// URL is the broker's address: mqtt://, mqtts://, ws:// or wss:// with a host, and perhaps a
	// port and a path, but no userinfo.
	URL                string
	Username, Password string
	// ClientID is "patchbay" by default. All instances of an installation should use the same: the
	// broker then disconnects the old instance when another one connects.
	ClientID string
	// TLS is for brokers with a private certificate. Nil trusts the system's roots.
	TLS *tls.Config

	// PublishPrefix and PushPrefix are the topics without the client id and the slash before it.
	PublishPrefix, PushPrefix string
	// Events subscribes to presence events below $SYS/brokers, as EMQX has them (EMQX 5
	// documentation, "System Topic"). Other brokers may refuse the subscription, which is harmless,
	// or close the connection.
	Events bool

	// IsApproved reports whether a board is approved: id is its MAC address with colons, name its
	// client id. A refused board is ignored for 30 s. The context ends after 10 s.
	IsApproved func(ctx context.Context, id, name string) (bool, error)
	// NewSession is called when a board is present; it may push. Nil refuses the board for 30 s.
	// Sessions of the same id do not overlap: Closed of the old one has returned before NewSession
	// is called again. A session that is a [Prober] probes its board itself; others are probed with
	// ProbePayload.
	NewSession func(*Conn) mqtt.Session
	// ClientIDs returns the client ids of all boards that use the broker. Those that are not
	// present are probed after each connection to the broker, and every ProbeInterval. With nil,
	// boards are present once they send something.
	ClientIDs func(context.Context) ([]string, error)
	// ProbePayload is the message of a probe. Boards must answer it, and sessions must tolerate the
	// answer. Default: DefaultProbePayload.
	ProbePayload string

	// AcquireLease acquires or renews the exclusive right to connect, for a duration. Nil: no lease
	// is needed. ReleaseLease gives it back; it may be nil.
	AcquireLease func(context.Context, time.Duration) (bool, error)
	ReleaseLease func(context.Context) error

	// Auth returns the id of a board that may connect to the broker, for ServeAuth; as in
	// [mqtt.Options]. Nil refuses all boards.
	Auth func(context.Context, mqtt.ConnectInfo) (id string, err error)
	// AuthSecret is the secret that the broker sends to ServeAuth and ServeACL. If it is empty,
	// they answer 404.
	AuthSecret string

	// ProbeInterval is the silence after which a board is probed; 4 min.
	ProbeInterval time.Duration
	// SilenceTimeout is the silence after which it counts as gone; 10 min, at least ProbeInterval.
	SilenceTimeout time.Duration
	// MaxConns limits the boards, each of which costs a goroutine; 20,000.
	MaxConns int
	// MaxMessage limits a message of a board, in bytes; 8 KiB. Longer ones are dropped.
	MaxMessage int
	// Rate is the accepted number of messages per second and board, and Burst how many at once; 50
	// and 200. More are dropped.
	Rate  float64
	Burst int
	// Logger logs events, never content. Nil discards.
	Logger *slog.Logger
	// Registerer registers the metrics. Nil keeps them unregistered.
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() Options {
	o.ClientID = cmp.Or(o.ClientID, "patchbay")
	o.PublishPrefix = cmp.Or(o.PublishPrefix, DefaultPublishPrefix)
	o.PushPrefix = cmp.Or(o.PushPrefix, DefaultPushPrefix)
	o.ProbePayload = cmp.Or(o.ProbePayload, DefaultProbePayload)
	o.ProbeInterval = cmp.Or(o.ProbeInterval, 4*time.Minute)
	o.SilenceTimeout = max(cmp.Or(o.SilenceTimeout, 10*time.Minute), o.ProbeInterval)
	o.MaxConns = cmp.Or(o.MaxConns, 20_000)
	o.MaxMessage = cmp.Or(o.MaxMessage, 8<<10)
	o.Rate = cmp.Or(o.Rate, 50)
	o.Burst = cmp.Or(o.Burst, 200)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.AcquireLease == nil {
		o.AcquireLease = func(context.Context, time.Duration) (bool, error) { return true, nil }
	}
	return o
}

// timings are durations that tests shorten.
type timings struct {
	lease                time.Duration // duration of the lease
	firstRetry, maxRetry time.Duration // pauses between connection attempts
	grace                time.Duration // time without a connection after which all boards count as gone
	refusalTTL           time.Duration // time before a refused board is looked up again
	adoptWindow          time.Duration // how much later than its first message a board's connect event may arrive
}

// Client is a client of an MQTT broker. Its methods are safe for concurrent use.
type Client struct {
	opt          Options
	url          *url.URL
	timings      timings
	metrics      *metrics
	outbox       outbox
	queuedBytes  atomic.Int64 // bytes in the queues of all boards
	lookups      chan struct{}
	reconnected  chan struct{} // has a token after a new connection
	probeLimiter *rate.Limiter

	ctx      context.Context // ends when Shutdown begins, or the context of Run ends
	stop     context.CancelFunc
	done     chan struct{} // closed when Run has returned
	sessions sync.WaitGroup

	mu           sync.Mutex
	started      bool
	refusing     bool  // no new boards are accepted
	link         *link // nil: no connection
	connectedAt  time.Time
	grace        *time.Timer
	conns        map[string]*Conn // by id; the newest of each
	connCount    int              // all whose run has not returned
	pending      int              // those of them that were not looked up yet
	refusedUntil map[string]time.Time
}

// New makes a client. It fails if the options are invalid.
func New(opt Options) (*Client, error) {
	opt = opt.withDefaults()
	u, err := parseURL(opt.URL)
	if err != nil {
		return nil, fmt.Errorf("the address of the MQTT broker: %w", err)
	}
	for _, prefix := range []string{opt.PublishPrefix, opt.PushPrefix} {
		if strings.ContainsAny(prefix, "+#\x00") || strings.HasSuffix(prefix, "/") {
			return nil, fmt.Errorf("%q cannot be the beginning of MQTT topics", prefix)
		}
	}
	c := &Client{
		opt: opt, url: u, metrics: newMetrics(opt.Registerer),
		timings: timings{lease: LeaseDuration, firstRetry: time.Second, maxRetry: time.Minute,
			grace: 30 * time.Second, refusalTTL: 30 * time.Second, adoptWindow: 10 * time.Second},
		lookups: make(chan struct{}, maxLookups), reconnected: make(chan struct{}, 1),
		probeLimiter: rate.NewLimiter(probeRate, 1), done: make(chan struct{}),
		conns: map[string]*Conn{}, refusedUntil: map[string]time.Time{},
	}
	c.outbox.wake = make(chan struct{}, 1)
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// parseURL checks the broker's address. Errors do not repeat it, since it may contain a password.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("it is not a URL")
	}
	port := map[string]string{"mqtt": "1883", "mqtts": "8883", "ws": "80", "wss": "443"}[u.Scheme]
	switch {
	case port == "":
		return nil, errors.New("it does not begin with mqtt://, mqtts://, ws:// or wss://")
	case u.Hostname() == "":
		return nil, errors.New("it has no host")
	case u.User != nil:
		return nil, errors.New("user and password have settings of their own")
	}
	if u.Port() == "" {
		u.Host += ":" + port
	}
	return u, nil
}

// IsConnected reports whether there is a connection to the broker.
func (c *Client) IsConnected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link != nil
}

// Run keeps the connection until the context ends or Shutdown begins, then ends all boards and
// returns when their sessions have ended. It may be called once. It does not fail: it retries, with
// a back-off from 1 s to 60 s.
func (c *Client) Run(ctx context.Context) {
	c.mu.Lock()
	if c.started {
		c.mu.Unlock()
		return
	}
	c.started = true
	c.mu.Unlock()
	defer close(c.done)
	defer context.AfterFunc(ctx, c.stop)()
	var patrol sync.WaitGroup
	patrol.Go(c.probeLoop)
	c.connectLoop()
	c.mu.Lock()
	c.refusing = true
	c.mu.Unlock()
	c.endAll(mqtt.ErrShutdown)
	c.sessions.Wait()
	patrol.Wait()
	c.mu.Lock()
	if c.grace != nil {
		c.grace.Stop()
	}
	c.mu.Unlock()
	c.releaseLease()
}

// connectLoop acquires the lease and connects, again and again, until c.ctx ends.
func (c *Client) connectLoop() {
	pause := netx.Backoff{First: c.timings.firstRetry, Max: c.timings.maxRetry, Jitter: netx.HalfJitter}
	for c.ctx.Err() == nil {
		acquired, err := c.opt.AcquireLease(c.ctx, c.timings.lease)
		if err != nil && c.ctx.Err() == nil {
			c.opt.Logger.Warn("it is not known whose the MQTT broker is", "error", err)
		}
		if err != nil || !acquired {
			c.endAll(ErrOtherInstance)
			_ = netx.Wait(c.ctx, c.timings.lease/3)
			continue
		}
		began := time.Now()
		err = c.runConnection()
		if c.ctx.Err() != nil {
			return
		}
		c.opt.Logger.Warn("there is no connection to the MQTT broker", "broker", c.url.Host, "error", err)
		if errors.Is(err, ErrOtherInstance) {
			continue
		}
		if time.Since(began) > c.timings.maxRetry {
			pause.Reset()
		}
		_ = netx.Wait(c.ctx, pause.Next())
	}
}

// Shutdown makes Run end, and waits for it. If ctx ends first, it returns ctx's error. It may be
// called several times, and before Run.
func (c *Client) Shutdown(ctx context.Context) error {
	c.stop()
	c.mu.Lock()
	running := c.started
	c.started = true
	c.mu.Unlock()
	if !running {
		close(c.done)
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// renewLease renews the lease. It calls lost with ErrOtherInstance when another instance has the
// lease, or may have it.
func (c *Client) renewLease(ctx context.Context, lost context.CancelCauseFunc) {
	good := time.Now()
	for {
		if netx.Wait(ctx, c.timings.lease/3) != nil {
			return
		}
		acquired, err := c.opt.AcquireLease(ctx, c.timings.lease)
		switch {
		case err == nil && acquired:
			good = time.Now()
		case err == nil, time.Since(good) > c.timings.lease*2/3 && ctx.Err() == nil:
			lost(ErrOtherInstance)
			return
		}
	}
}

// releaseLease gives the lease back, so that another instance can connect at once.
func (c *Client) releaseLease() {
	if c.opt.ReleaseLease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := c.opt.ReleaseLease(ctx); err != nil {
		c.opt.Logger.Warn("other instances have to wait for the MQTT broker", "error", err)
	}
}
