// Package bus carries messages between the instances of an installation, over NATS. Without an
// address it starts a NATS server in the process, which listens on no port, so that one instance
// and many run the same code.
package bus

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Options configure the connection to the bus.
type Options struct {
	// Installation is the id of the installation. Other installations on the same servers use other
	// subjects. It may be empty only for a bus in the process.
	Installation string
	// Signer signs messages; received messages without a valid signature are dropped. It may be nil
	// only for a bus in the process, where nothing is signed.
	Signer Signer
	// URL is one NATS address or several, separated by commas. Empty means a server in the process.
	URL string
	// Name is the name of this instance; empty means a random one.
	Name string
	// Cert, Key and CA are the files for a bus with TLS.
	Cert, Key, CA string
	Logger        *slog.Logger
}

// Bus is a connection to the bus. It is safe for concurrent use.
type Bus struct {
	conn   *nats.Conn
	prefix string // prefix of all subjects
	signer Signer
	// rejected counts messages without a valid signature.
	rejected atomic.Uint64
	warned   atomic.Int64 // time of the last warning about those, in Unix seconds
	// Instance is the name of this instance, unique on the bus: the given name and a random part,
	// so that a restarted instance is not mistaken for its predecessor.
	Instance string

	server *server.Server
	log    *slog.Logger

	// missedHeartbeats counts the heartbeat intervals since this instance received one of its own
	// heartbeats. They come back only through the bus, which detects a connection that delivers
	// nothing.
	missedHeartbeats atomic.Int64

	mu           sync.Mutex
	peers        map[string]time.Time
	onPeerLost   []func(instance string)
	onPeerJoined []func()
	stop         chan struct{}
	done         sync.WaitGroup
}

const (
	// heartbeatInterval is the interval of heartbeats, and peerTimeout the time without one after
	// which an instance counts as dead. A person whose answer breaks off is notified within 2 s:
	// one peerTimeout, the wait for the next interval to detect it, and half a second of reserve.
	heartbeatInterval = 250 * time.Millisecond
	peerTimeout       = 1200 * time.Millisecond

	heartbeatSubject = "alive"
	leaveSubject     = "leave"
	helloSubject     = "hello"
	connectTimeout   = 10 * time.Second
)

// Open connects to the bus, or starts the server in the process.
func Open(ctx context.Context, o Options) (*Bus, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Bus{Instance: rand.Text(), prefix: "pb.", log: o.Logger, peers: map[string]time.Time{},
		stop: make(chan struct{})}
	if o.Name != "" {
		b.Instance = o.Name + "-" + b.Instance[len(b.Instance)-6:]
	}
	if o.URL != "" {
		if o.Installation == "" || o.Signer == nil {
			return nil, errors.New("a bus with others needs the installation and its secret")
		}
		b.prefix, b.signer = subjectPrefix(o), o.Signer
	}
	opts := []nats.Option{
		nats.CustomInboxPrefix(b.prefix + "inbox"),
		nats.Name("patchbay " + b.Instance),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.RetryOnFailedConnect(false),
		nats.Timeout(connectTimeout),
		nats.PingInterval(5 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				b.log.Warn("the bus is gone; trying to come back", "error", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			b.log.Info("the bus is back")
			b.RequestAnnouncements()
			b.peerJoined()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			b.log.Warn("bus", "error", err, "subject", subject)
		}),
	}
	if o.URL == "" {
		return b, b.startEmbedded(opts)
	}
	t, err := tlsOptions(o)
	if err != nil {
		return nil, err
	}
	b.conn, err = nats.Connect(o.URL, append(opts, t...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to the bus: %w", connectionError(err))
	}
	if err := b.startHeartbeat(); err != nil {
		b.conn.Close()
		return nil, err
	}
	return b, nil
}

// Errors of [Open] about the servers of the bus.
var (
	ErrUnreachable = errors.New("it cannot be reached")
	ErrRefused     = errors.New("it refuses the user, the password or the token")
)

// connectionError wraps an error of the first connection with [ErrUnreachable] or [ErrRefused].
func connectionError(err error) error {
	switch {
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// subjectPrefix returns the prefix of all subjects on a bus with others.
func subjectPrefix(o Options) string { return "pb." + o.Installation + "." }

func tlsOptions(o Options) ([]nats.Option, error) {
	if o.Cert == "" && o.Key == "" && o.CA == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.Cert != "" || o.Key != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("the bus's certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("the bus's CA: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the bus's CA: no certificate in %s", o.CA)
		}
	}
	return []nats.Option{nats.Secure(c)}, nil
}

// startEmbedded starts a server that listens on no port.
func (b *Bus) startEmbedded(opts []nats.Option) error {
	s, err := server.NewServer(&server.Options{ServerName: b.Instance, DontListen: true, NoLog: true, NoSigs: true,
		MaxPayload: 8 << 20})
	if err != nil {
		return fmt.Errorf("start the bus: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(connectTimeout) {
		s.Shutdown()
		return errors.New("start the bus: it did not get ready")
	}
	b.server = s
	if b.conn, err = nats.Connect("", append(opts, nats.InProcessServer(s))...); err != nil {
		s.Shutdown()
		return fmt.Errorf("connect to the bus: %w", err)
	}
	return nil
}

// IsStandalone reports whether no other instance can be on this bus.
func (b *Bus) IsStandalone() bool { return b.server != nil }

// DisconnectedFor is the time since this instance was cut off from the bus, during which others
// cannot reach what is connected to it; 0 while it is not. It is counted in heartbeat intervals, so
// that a suspended process does not count as a cut.
func (b *Bus) DisconnectedFor() time.Duration {
	if d := time.Duration(b.missedHeartbeats.Load()) * heartbeatInterval; d > peerTimeout {
		return d
	}
	return 0
}

// OnPeerLost registers f to be called when another instance has timed out or has sent a leave
// message. It must be called before the first message arrives, and f must not block.
func (b *Bus) OnPeerLost(f func(instance string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onPeerLost = append(b.onPeerLost, f)
}

// OnPeerJoined registers f to be called when another instance may have missed earlier announcements
// of this one: another instance has joined or has come back, or this one has reconnected. f repeats
// the announcements. It must not block.
func (b *Bus) OnPeerJoined(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onPeerJoined = append(b.onPeerJoined, f)
}

func (b *Bus) peerJoined() {
	b.mu.Lock()
	met := b.onPeerJoined
	b.mu.Unlock()
	for _, f := range met {
		f()
	}
}

// RequestAnnouncements makes all other instances repeat their announcements, because this one has
// missed them.
func (b *Bus) RequestAnnouncements() {
	if !b.IsStandalone() {
		b.Publish(helloSubject, []byte(b.Instance)) //nolint:errcheck // announcements are repeated anyway
	}
}

// IsAlive reports whether another instance has not timed out. It is true for this instance.
func (b *Bus) IsAlive(instance string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.peers[instance]
	return ok || instance == b.Instance
}

// Peers returns the other instances that have not timed out.
func (b *Bus) Peers() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]string, 0, len(b.peers))
	for name := range b.peers {
		out = append(out, name)
	}
	return out
}

// startHeartbeat sends heartbeats and monitors those of the others.
func (b *Bus) startHeartbeat() error {
	_, err := b.Subscribe(heartbeatSubject, func(m *nats.Msg) {
		name := string(m.Data)
		if name == b.Instance {
			b.missedHeartbeats.Store(0)
			return
		}
		b.mu.Lock()
		_, known := b.peers[name]
		b.peers[name] = time.Now()
		b.mu.Unlock()
		if !known {
			b.peerJoined()
		}
	})
	if err == nil {
		_, err = b.Subscribe(helloSubject, func(m *nats.Msg) {
			if string(m.Data) != b.Instance {
				b.peerJoined()
			}
		})
	}
	if err == nil {
		_, err = b.Subscribe(leaveSubject, func(m *nats.Msg) {
			if name := string(m.Data); name != b.Instance {
				b.removePeer(name)
			}
		})
	}
	if err != nil {
		return fmt.Errorf("listen for other instances: %w", err)
	}
	b.done.Go(func() {
		tick := time.NewTicker(heartbeatInterval)
		defer tick.Stop()
		for {
			if b.IsConnected() {
				b.Publish(heartbeatSubject, []byte(b.Instance)) //nolint:errcheck // the next heartbeat tries again
			}
			select {
			case <-tick.C:
				b.missedHeartbeats.Add(1)
				b.expirePeers()
			case <-b.stop:
				return
			}
		}
	})
	return nil
}

// expirePeers removes the instances that have timed out.
func (b *Bus) expirePeers() {
	now := time.Now()
	var gone []string
	b.mu.Lock()
	for name, heard := range b.peers {
		if now.Sub(heard) > peerTimeout {
			gone = append(gone, name)
		}
	}
	b.mu.Unlock()
	for _, name := range gone {
		b.removePeer(name)
	}
}

func (b *Bus) removePeer(name string) {
	b.mu.Lock()
	delete(b.peers, name)
	lost := b.onPeerLost
	b.mu.Unlock()
	b.log.Info("another instance is gone", "instance", name)
	for _, f := range lost {
		f(name)
	}
}

// Abort closes the connection without a leave message, as the death of the process does. Close has
// to follow.
func (b *Bus) Abort() { b.conn.Close() }

// Close sends a leave message and disconnects. Earlier messages are sent first.
func (b *Bus) Close() {
	close(b.stop)
	b.done.Wait()
	if !b.IsStandalone() && b.IsConnected() {
		b.Publish(leaveSubject, []byte(b.Instance)) //nolint:errcheck // the others time out anyway
		b.FlushTimeout(time.Second)                 //nolint:errcheck // as above
	}
	b.conn.Close()
	if b.server != nil {
		b.server.Shutdown()
		b.server.WaitForShutdown()
	}
}
