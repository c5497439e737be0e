// Package link connects a home to relays: connections that arrive at a relay for its names come out
// of a [net.Listener], with the address of the client, as plain TCP connections with the client's
// TLS in them.
package link

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/relay/wire"
)

// Memory is what a home remembers of a relay.
type Memory struct {
	// Key is the home's identity at the relay. It is another one at each relay.
	Key ed25519.PrivateKey
	// Pin is the fingerprint of the relay's key; empty until the home has joined.
	Pin string
	// Names are those of the last time.
	Names []string
}

// Options are the options of [New].
type Options struct {
	// Servers are the relays: host names with a port unless it is 443.
	Servers []string
	// Codes are join codes, each for the relay whose fingerprint it has. One is needed until the
	// home has joined its relay.
	Codes []wire.Code
	// Instance tells this instance of the installation from the others, also after a restart.
	Instance string
	// Proxies are the addresses whose word is taken for that of others: a client cannot have one.
	Proxies []netip.Prefix
	// Load returns what is remembered of a relay, and Save changes it. They are called by several
	// goroutines.
	Load func(ctx context.Context, server string) (Memory, error)
	Save func(ctx context.Context, server string, m Memory) error
	// Dial opens connections; nil means a [net.Dialer].
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Logger *slog.Logger
}

// Links are the connections of a home to its relays. The methods are safe for concurrent use.
type Links struct {
	links []*Link
	// HTTPS and MQTT are the listeners of the connections that arrive, by the port of the relay on
	// which they did. Both have to be served or closed: a connection waits until it is accepted.
	HTTPS, MQTT net.Listener
}

// Status is the state of the connection to a relay.
type Status struct {
	Server string   `json:"server"`
	Names  []string `json:"names"` // host names that lead here; of the last time while not connected
	// Since is when the connection began; zero: there is none.
	Since time.Time `json:"since,omitzero"`
	// RoundTrip is the last measured time to the relay and back.
	RoundTrip time.Duration `json:"round_trip_ns,omitempty"`
	Streams   int           `json:"streams"` // open connections of clients
	// Problem is why there is no connection, or why the last one ended.
	Problem error     `json:"-"`
	Failed  time.Time `json:"failed_at,omitzero"` // when
}

// New creates connections; [Links.Run] opens and keeps them.
func New(o Options) *Links {
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	web, mqtt := newListener(), newListener()
	l := &Links{HTTPS: web, MQTT: mqtt}
	for _, server := range o.Servers {
		l.links = append(l.links, &Link{Options: o, server: server, named: make(chan struct{}),
			listeners: map[wire.Kind]*listener{wire.HTTPS: web, wire.MQTT: mqtt}})
	}
	return l
}

// Run keeps a connection to each relay until ctx ends. Streams that are open then go on; their
// connections belong to whoever accepted them.
func (l *Links) Run(ctx context.Context) error {
	running, stop := errgroup.WithContext(ctx)
	for _, one := range l.links {
		running.Go(func() error { return one.run(stop) })
	}
	return running.Wait()
}

// Status returns the state of each connection.
func (l *Links) Status() []Status {
	list := make([]Status, 0, len(l.links))
	for _, one := range l.links {
		list = append(list, one.Status())
	}
	return list
}

// Await waits until the names at the first relay are known, or ctx ends. After the first start they
// are remembered.
func (l *Links) Await(ctx context.Context) {
	select {
	case <-l.links[0].named:
	case <-ctx.Done():
	}
}

// Names returns the names that are known, those at the first relay first.
func (l *Links) Names() (names []string) {
	for _, s := range l.Status() {
		names = append(names, s.Names...)
	}
	return names
}

// Link is the connection to one relay.
type Link struct {
	Options
	server    string
	named     chan struct{} // closed when names are known
	once      sync.Once
	listeners map[wire.Kind]*listener
	waits     atomic.Int64 // data connections that are being opened or wait for a stream

	mu      sync.Mutex
	status  Status
	current *session // nil: not connected
	streams int
}

// Status returns the state of the connection.
func (l *Link) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Server, s.Streams, s.Names = l.server, l.streams, slices.Clone(s.Names)
	return s
}

const (
	dialTimeout = 10 * time.Second
	// firstRetry and lastRetry are the delays between attempts: a relay that is back has its homes
	// back within two seconds, however long it was away.
	firstRetry, lastRetry = 100 * time.Millisecond, 2 * time.Second
	// refusedRetry is the delay after a refusal, which does not change by itself, unless the relay
	// stops: the next one may be there already.
	refusedRetry = 15 * time.Second
	// settled is how long a connection lasts before the next end of one is a new trouble.
	settled = 5 * time.Second
)

// run keeps the connection until ctx ends.
func (l *Link) run(ctx context.Context) error {
	var sessions sync.WaitGroup // those that a relay has sent away end by themselves
	defer sessions.Wait()
	back := netx.Backoff{First: firstRetry, Max: lastRetry, Jitter: netx.HalfJitter}
	var away *session // the last that was sent away; an earlier one has had its time
	for {
		s, err := l.connect(ctx)
		if err == nil {
			began := time.Now()
			sessions.Go(func() { s.run(ctx) })
			select {
			case <-s.done:
				err = s.problem()
			case <-s.away:
				if err = errGoAway; away != nil {
					away.end(err)
				}
				away = s
			}
			if time.Since(began) > settled {
				back.Reset()
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		l.lost(s, err)
		delay := back.Next()
		if refused, ok := errors.AsType[*RefusedError](err); ok && refused.Reason != wire.ReasonStopping {
			delay = refusedRetry
		}
		if netx.Wait(ctx, delay) != nil {
			return nil
		}
	}
}

// lost records that there is no connection. It is logged once for each cause.
func (l *Link) lost(s *session, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == s {
		l.current = nil
	}
	before := l.status.Problem
	connected := !l.status.Since.IsZero()
	l.status.Since, l.status.Problem, l.status.Failed = time.Time{}, err, time.Now()
	if connected || before == nil || before.Error() != err.Error() {
		l.Logger.Warn("the link to the relay is down; trying again", "relay", l.server, "error", err)
	}
}

// The causes of an end.
var (
	errGoAway  = i18n.Message("the relay is about to stop").Errorf()
	errSilence = i18n.Message("the relay is silent").Errorf()
	errNoCode  = i18n.Message("this installation has not joined the relay: whoever runs it makes a join code with patchbay relay key add; give it as relay.key").Errorf()
	errOther   = i18n.Message("the relay has another key than the one that this installation knows: somebody may be in between. If the relay was set up anew, get a new join code and give it as relay.key").Errorf()
	errVersion = i18n.Message("no relay of this version answers there").Errorf()
)

// RefusedError means that the relay refuses this home.
type RefusedError struct{ Reason wire.Reason }

var refusals = map[wire.Reason]i18n.Message{
	wire.ReasonUnknown:  i18n.Message("the relay does not know this installation: get a join code from whoever runs it, and give it as relay.key"),
	wire.ReasonUsed:     i18n.Message("the join code was used by another installation: get a new one"),
	wire.ReasonRevoked:  i18n.Message("whoever runs the relay has removed this installation"),
	wire.ReasonFull:     i18n.Message("the relay has too many connections of this installation"),
	wire.ReasonStopping: i18n.Message("the relay is about to stop"),
}

// Unwrap returns the error with the text for people.
func (e *RefusedError) Unwrap() error {
	if text, ok := refusals[e.Reason]; ok {
		return text.Errorf()
	}
	return i18n.Message("the relay refuses this installation: %s").Errorf(string(e.Reason))
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Unwrap().Error() }

// connect opens a control connection.
func (l *Link) connect(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	memory, err := l.Load(ctx, l.server)
	if err != nil {
		return nil, err
	}
	if wire.AreNames(memory.Names) {
		l.remember(memory.Names)
	}
	host, address := hostPort(l.server)
	own, err := wire.Certificate(memory.Key)
	if err != nil {
		return nil, err
	}
	others, err := l.otherPins(ctx, memory.Pin)
	if err != nil {
		return nil, err
	}
	raw, err := l.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	keepAlive(raw)
	var code wire.Code
	var print wire.Fingerprint
	conn := tls.Client(raw, &tls.Config{
		ServerName: host, NextProtos: []string{wire.ALPN}, MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{own},
		// The relay is known by its key, not by a certification authority.
		InsecureSkipVerify: true, //nolint:gosec // see VerifyConnection
		VerifyConnection: func(c tls.ConnectionState) (err error) {
			if print, err = wire.FingerprintOf(c); err != nil {
				return err
			}
			code, err = l.trust(c, print.String(), memory.Pin, others)
			return err
		},
	})
	s, err := l.greet(ctx, conn, &code)
	if err != nil {
		raw.Close() //nolint:errcheck // the first error is returned
		return nil, err
	}
	memory.Pin, memory.Names = print.String(), s.welcome.Names
	if err := l.Save(ctx, l.server, memory); err != nil {
		l.Logger.Warn("the names that the relay gave cannot be stored", "error", err)
	}
	l.connected(s)
	return s, nil
}

// otherPins returns the fingerprints of the other relays, if this one has a pin.
func (l *Link) otherPins(ctx context.Context, pin string) (pins []string, err error) {
	if pin == "" {
		return nil, nil
	}
	for _, server := range l.Servers {
		if server == l.server {
			continue
		}
		m, err := l.Load(ctx, server)
		if err != nil {
			return nil, err
		}
		pins = append(pins, m.Pin)
	}
	return pins, nil
}

// trust checks the key of a relay, and returns the join code for it, if there is one. A join code
// is good for a relay that was set up anew, but another relay of this home is not that one: it
// would take its names over.
func (l *Link) trust(c tls.ConnectionState, print, pin string, others []string) (code wire.Code, err error) {
	if c.NegotiatedProtocol != wire.ALPN {
		return code, errVersion
	}
	if pin != "" && pin != print && slices.Contains(others, print) {
		return code, errOther
	}
	for _, known := range l.Codes {
		if known.Relay.String() == print {
			return known, nil
		}
	}
	switch pin {
	case print:
		return code, nil
	case "":
		return code, errNoCode
	}
	return code, errOther
}

// greet does the handshake, which finds the code, and exchanges Hello and Welcome.
func (l *Link) greet(ctx context.Context, conn *tls.Conn, code *wire.Code) (*session, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(dialTimeout)) //nolint:errcheck // TCP has it
	if err := wire.WriteFrame(conn, wire.TypeHello, wire.Hello{Instance: l.Instance, Secret: code.Secret}); err != nil {
		return nil, err
	}
	kind, payload, err := wire.ReadFrame(conn, make([]byte, wire.MaxPayload))
	if err != nil {
		return nil, err
	}
	if kind == wire.TypeRefused {
		return nil, refusal(payload)
	}
	welcome, err := wire.ParseWelcome(payload)
	if kind != wire.TypeWelcome || err != nil {
		return nil, wire.ErrFrame
	}
	keys, err := wire.NewKeys(conn.ConnectionState(), welcome.Session)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Time{}) //nolint:errcheck // TCP has it
	return newSession(l, conn, welcome, keys), nil
}

func refusal(payload []byte) error {
	r, err := wire.ParseRefused(payload)
	if err != nil {
		return err
	}
	return &RefusedError{r.Reason}
}

func (l *Link) remember(names []string) {
	l.mu.Lock()
	if len(l.status.Names) == 0 {
		l.status.Names = names
	}
	l.mu.Unlock()
	l.once.Do(func() { close(l.named) })
}

func (l *Link) connected(s *session) {
	l.mu.Lock()
	l.current = s
	l.status.Names, l.status.Since = s.welcome.Names, time.Now()
	l.status.Problem, l.status.Failed = nil, time.Time{}
	l.mu.Unlock()
	l.Logger.Info("linked to the relay", "relay", l.server, "address", "https://"+s.welcome.Names[0])
	l.once.Do(func() { close(l.named) })
}

// hostPort returns the host of a server and its address to dial.
func hostPort(server string) (host, address string) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		host, port = server, "443"
	}
	return host, net.JoinHostPort(host, port)
}

// dummy stands for the address of a client that the relay must not claim: of this machine, of its
// network, of a proxy, or none. It is nobody's (RFC 7600, section 4.2.2).
var dummy = netip.AddrFrom4([4]byte{192, 0, 0, 8})

// believed returns the address of a client as far as the relay is believed: somebody who connects
// from this machine, its network or a proxy has more rights, and never comes through a relay.
func believed(at netip.AddrPort, proxies []netip.Prefix) netip.AddrPort {
	a := at.Addr().Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() ||
		slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) }) {
		a = dummy
	}
	return netip.AddrPortFrom(a, at.Port())
}
