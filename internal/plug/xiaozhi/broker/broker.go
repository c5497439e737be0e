// Package broker is for boards that are connected to somebody else's MQTT broker
// and not to package mqtt. It joins that broker as an ordinary client, and makes
// the boards behind it look as if they were connected here.
//
// A board's client id names its topics. It publishes to PublishPrefix/<client id>,
// and gets what is published to PushPrefix/<client id>, to which the broker has to
// subscribe it: boards never subscribe. So the broker can confine each board to its
// own topics, and the topic of a message says whose it is.
//
//	Client  keeps one connection to the broker, and knows who is behind it.
//	Conn    one board: a queue, and a goroutine that calls the session.
//	outbox  what waits for the broker, one queue for all boards.
//	sieve   what comes from the broker, without messages that are too long.
//
// The connection of a board cannot be seen from here. A board is there when it says
// something, or when the broker says so, and gone when the broker says so, or when
// it answers no more. Boards say nothing of their own while nobody talks to them,
// so they are asked now and then.
//
// A board's messages must all come to the same instance, as its conversation is
// there, and shared subscriptions hand them out one by one. So one instance at a
// time has the connection: see Hold.
package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"patchbay/internal/plug/xiaozhi/mqtt"
)

// The topics, if nothing else is said.
const (
	DefaultPublishPrefix = "device-server"
	DefaultPushPrefix    = "devices/p2p"
)

// DefaultKnock is what boards are asked so that they say something: a method that
// none of them has, with an id that nobody else uses.
const DefaultKnock = `{"session_id":"","type":"mcp","payload":{"jsonrpc":"2.0","id":2147483647,"method":"ping","params":{}}}`

const (
	// HoldTime is for how long Hold is asked to hold. Another instance serves the
	// boards so long after this one has died.
	HoldTime = 30 * time.Second
	// MaxPush bounds a message to a board, in bytes, as in package mqtt.
	MaxPush = mqtt.MaxPush
	// maxQueue bounds the messages of one board that wait for its session. The
	// oldest is dropped when there are more: boards cannot be made to wait here.
	maxQueue = 64
	// maxQueued bounds the messages of all boards that wait for sessions, in bytes.
	// What comes when there are more is dropped.
	maxQueued = 64 << 20
	// maxPending bounds the boards of which it is not known yet whether they are
	// approved, so that strangers cannot fill the memory. More are not heard.
	maxPending = 1_000
	// maxLookups bounds how many of them are looked up at the same time.
	maxLookups = 16
	// maxStrangers bounds how many refused boards are remembered, all of which are
	// forgotten when there are more.
	maxStrangers = 10_000
	// maxName bounds a client id, which is in every topic.
	maxName = 128
	// knockRate bounds how many boards per second are asked whether they are there,
	// as all of them answer.
	knockRate = 200
	// lookupTimeout bounds how long looking up a board may take.
	lookupTimeout = 10 * time.Second
	// flushTimeout bounds how long a connection that is to end waits for what was
	// pushed before.
	flushTimeout = 5 * time.Second
)

var (
	// ErrBroker ends every Conn when there was no connection to the broker for 30 s.
	ErrBroker = errors.New("the MQTT broker is not reachable")
	// ErrMoved ends every Conn when another instance has the connection.
	ErrMoved = errors.New("another instance serves the boards of the MQTT broker")
	// ErrLeft ends a Conn whose board the broker has lost.
	ErrLeft = errors.New("the board has lost its connection to the MQTT broker")
)

// Options say how a [Client] works. URL, Known and Connected are required; a zero
// field means its default.
type Options struct {
	// URL is where the broker is: mqtt://, mqtts://, ws:// or wss:// with a host, and
	// perhaps a port and a path. There is no user in it.
	URL                string
	Username, Password string
	// ClientID is "patchbay" by default. All instances of an installation should use
	// the same: the broker then cuts the one that has it off if another connects.
	ClientID string
	// TLS is for brokers with a certificate of one's own. Nil trusts what the system
	// does.
	TLS *tls.Config

	// PublishPrefix and PushPrefix, without a slash at the end, are before the client
	// ids in the topics.
	PublishPrefix, PushPrefix string
	// Events says that the broker tells who comes and goes below $SYS/brokers, as EMQX
	// does. Others may refuse, which does no harm, or end the connection, which does.
	Events bool

	// Known says whether a board is approved: id is its MAC address, with colons, name
	// its client id. A board that is not is not asked about again for half a minute.
	// The context ends after 10 s.
	Known func(ctx context.Context, id, name string) (bool, error)
	// Connected is called when a board is there, and may push. Nil refuses it for
	// half a minute. Of one id there is one session at a time: Gone of an old one has
	// returned before Connected is called again. If the session is a [Prober], it is
	// asked to make the board say something; others are knocked at.
	Connected func(*Conn) mqtt.Session
	// Roll is the client ids of all boards that may be there: those that are to use
	// the broker. Those that are not known to be there are knocked at when the
	// connection has come about, and then every Probe. Nil knows none, and boards are
	// there once they say something.
	Roll func(context.Context) ([]string, error)
	// Knock is what is pushed to knock. Boards must answer it, and sessions must not
	// mind the answer. DefaultKnock.
	Knock string

	// Hold takes, or renews, the right to be the one instance with a connection, for
	// so long. Nil always has it. Release gives it back; it may be nil.
	Hold    func(context.Context, time.Duration) (bool, error)
	Release func(context.Context) error

	// Auth says which board may connect to the broker, for ServeAuth; as in
	// [mqtt.Options]. Nil refuses all.
	Auth func(context.Context, mqtt.ConnectInfo) (id string, err error)
	// AuthSecret is what the broker has to show to ServeAuth and ServeACL. Without
	// one they are not found.
	AuthSecret string

	// Probe is after how long of silence a board is made to say something; 4 min.
	Probe time.Duration
	// Silent is after how long of silence it is gone; 10 min, and above Probe.
	Silent time.Duration
	// MaxConns bounds the boards, each of which costs a goroutine; 20,000.
	MaxConns int
	// MaxMessage bounds what a board says at once, in bytes; 8 KiB. What is longer is
	// dropped.
	MaxMessage int
	// Rate is how many messages per second of a board are taken in the long run, and
	// Burst how many at once; 50 and 200. Others are dropped.
	Rate  float64
	Burst int
	// Logger is told what happens, never what was said. Nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics. Nil keeps them private.
	Registerer prometheus.Registerer
}

func (o Options) filled() Options {
	o.ClientID = cmp.Or(o.ClientID, "patchbay")
	o.PublishPrefix = cmp.Or(o.PublishPrefix, DefaultPublishPrefix)
	o.PushPrefix = cmp.Or(o.PushPrefix, DefaultPushPrefix)
	o.Knock = cmp.Or(o.Knock, DefaultKnock)
	o.Probe = cmp.Or(o.Probe, 4*time.Minute)
	o.Silent = max(cmp.Or(o.Silent, 10*time.Minute), o.Probe)
	o.MaxConns = cmp.Or(o.MaxConns, 20_000)
	o.MaxMessage = cmp.Or(o.MaxMessage, 8<<10)
	o.Rate = cmp.Or(o.Rate, 50)
	o.Burst = cmp.Or(o.Burst, 200)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Hold == nil {
		o.Hold = func(context.Context, time.Duration) (bool, error) { return true, nil }
	}
	return o
}

// waits are what tests shorten.
type waits struct {
	hold           time.Duration // for which the right to connect is held
	first, longest time.Duration // pauses between tries
	grace          time.Duration // without a connection, until all boards count as gone
	refused        time.Duration // for which a stranger is not looked up again
	adopt          time.Duration // in which the news of a connection may be later than its first message
}

// Client is a client of a broker. Its methods may be called from many goroutines.
type Client struct {
	opt     Options
	url     *url.URL
	waits   waits
	metrics *metrics
	out     outbox
	queued  atomic.Int64 // bytes that wait for sessions
	lookups chan struct{}
	joined  chan struct{} // there is a new connection; holds one
	knocks  *rate.Limiter

	ctx      context.Context // ends when Shutdown begins, or Run is to end
	stop     context.CancelFunc
	over     chan struct{} // closed when Run has ended
	sessions sync.WaitGroup

	mu        sync.Mutex
	ran       bool
	deaf      bool  // there are no new boards any more
	link      *link // nil if there is no connection
	joinedAt  time.Time
	grace     *time.Timer
	conns     map[string]*Conn // by id, the newest
	count     int              // all that have not ended wholly
	pending   int              // of those, the ones that were not looked up yet
	strangers map[string]time.Time
}

// New makes a client. The error says what is wrong with the options.
func New(opt Options) (*Client, error) {
	opt = opt.filled()
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
		waits: waits{hold: HoldTime, first: time.Second, longest: time.Minute,
			grace: 30 * time.Second, refused: 30 * time.Second, adopt: 10 * time.Second},
		lookups: make(chan struct{}, maxLookups), joined: make(chan struct{}, 1),
		knocks: rate.NewLimiter(knockRate, 1), over: make(chan struct{}),
		conns: map[string]*Conn{}, strangers: map[string]time.Time{},
	}
	c.out.wake = make(chan struct{}, 1)
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// parseURL checks where the broker is. Errors do not repeat the address, in which
// there may be a password.
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

// Up says whether there is a connection to the broker.
func (c *Client) Up() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link != nil
}

// Run keeps the connection until the context ends or Shutdown begins, then ends all
// boards and returns when their sessions have. It may be called once. It does not
// fail: what is wrong is tried again, after 1 s at first and 60 s at most.
func (c *Client) Run(ctx context.Context) {
	c.mu.Lock()
	if c.ran {
		c.mu.Unlock()
		return
	}
	c.ran = true
	c.mu.Unlock()
	defer close(c.over)
	defer context.AfterFunc(ctx, c.stop)()
	var patrol sync.WaitGroup
	patrol.Go(c.patrol)
	c.keepConnected()
	c.mu.Lock()
	c.deaf = true
	c.mu.Unlock()
	c.endAll(mqtt.ErrShutdown)
	c.sessions.Wait()
	patrol.Wait()
	c.mu.Lock()
	if c.grace != nil {
		c.grace.Stop()
	}
	c.mu.Unlock()
	c.release()
}

// keepConnected is Run without what comes after.
func (c *Client) keepConnected() {
	rest := c.waits.first
	for c.ctx.Err() == nil {
		mine, err := c.opt.Hold(c.ctx, c.waits.hold)
		if err != nil && c.ctx.Err() == nil {
			c.opt.Logger.Warn("it is not known whose the MQTT broker is", "error", err)
		}
		if err != nil || !mine {
			c.endAll(ErrMoved)
			pause(c.ctx, c.waits.hold/3)
			continue
		}
		began := time.Now()
		err = c.life()
		if c.ctx.Err() != nil {
			return
		}
		c.opt.Logger.Warn("there is no connection to the MQTT broker", "broker", c.url.Host, "error", err)
		if errors.Is(err, ErrMoved) {
			continue
		}
		if time.Since(began) > c.waits.longest {
			rest = c.waits.first
		}
		pause(c.ctx, rest/2+rand.N(rest/2+1))
		rest = min(2*rest, c.waits.longest)
	}
}

// Shutdown makes Run end, and waits until it has. If the context ends before, the
// error is the context's. It may be called several times, and before Run.
func (c *Client) Shutdown(ctx context.Context) error {
	c.stop()
	c.mu.Lock()
	running := c.ran
	c.ran = true
	c.mu.Unlock()
	if !running {
		close(c.over)
	}
	select {
	case <-c.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keepHold renews the right to the connection. The error of the cause is ErrMoved
// when another instance has it, or may have.
func (c *Client) keepHold(ctx context.Context, lost context.CancelCauseFunc) {
	good := time.Now()
	for {
		if !pause(ctx, c.waits.hold/3) {
			return
		}
		mine, err := c.opt.Hold(ctx, c.waits.hold)
		switch {
		case err == nil && mine:
			good = time.Now()
		case err == nil, time.Since(good) > c.waits.hold*2/3 && ctx.Err() == nil:
			lost(ErrMoved)
			return
		}
	}
}

// release lets another instance have the connection at once.
func (c *Client) release() {
	if c.opt.Release == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := c.opt.Release(ctx); err != nil {
		c.opt.Logger.Warn("other instances have to wait for the MQTT broker", "error", err)
	}
}

// pause waits. It is false if the context has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
