// Package relay is a server that makes homes behind routers reachable: it passes TLS connections of
// the public on to the home that their name (SNI) belongs to, and cannot read them, because
// certificates and keys are at home. Package relay/link is the side of the home, relay/wire the
// protocol between the two.
//
// # One TCP connection for each stream
//
// A home keeps one control connection, and for each connection of the public there is one TCP
// connection from the home to the relay, opened ahead while there is time. The alternative is to
// multiplex all streams over one connection, as yamux and HTTP/2 do. We chose separate connections
// because
//
//   - a slow reader or a lost packet of one stream delays no other, and the kernels control the
//     flow, with windows that fit the line; a multiplexer needs windows of its own, each of which
//     limits the throughput over long lines or takes memory;
//   - the bytes are the end user's TLS already. A multiplexed connection would encrypt them
//     a second time at both ends; here the relay copies them between two sockets;
//   - a stream survives the end of the control connection: nothing is lost when it breaks, is
//     replaced, or when the relay is about to be replaced;
//   - with spare connections ready, a new stream needs no round trip between relay and home.
//
// The price is a second open file for each stream, with four more for pipes while much waits, and a
// TCP connection that a router at home has to remember; TCP keepalives hold it there.
//
// # What the relay trusts, and what it is trusted with
//
// The relay finds a home by its Ed25519 key, never by what it says. It learns names, addresses, and
// times and sizes of connections, nothing more: it has no key with which it could read or change
// them. A home believes nothing of what the relay says about a client but a public address.
package relay

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"patchbay/internal/netx"
	"patchbay/internal/relay/wire"
)

// Options are the options of a [Server].
type Options struct {
	// Domain is the relay's own name; homes are names below it.
	Domain string
	Folder Folder
	Key    ed25519.PrivateKey // of the folder
	// Web has the certificate of the relay's own name, at which it says that it runs; nil: nothing
	// answers there. The homes do not need it.
	Web    *tls.Config
	Limits Limits
	// Heartbeat is the interval of pings; 0 means 5 s.
	Heartbeat time.Duration
	// Drain is how long streams may go on when the server stops.
	Drain time.Duration

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Server is a relay. Its methods are safe for concurrent use.
type Server struct {
	Options
	gate    *gate
	metrics *metrics
	usage   *usage
	control *tls.Config
	web     *handover // connections to the relay's own pages; nil: none

	draining atomic.Bool
	busy     atomic.Int64 // connections of clients
	pages    atomic.Int64 // connections to the relay's own pages

	reading sync.Mutex // is held from reading the folder until that is applied, and while a home joins
	seen    time.Time  // the state of the folder that was read last

	mu       sync.Mutex
	homes    map[string]*home // by name
	hosts    map[string]*home // by host name
	sessions map[wire.SessionID]*session
	conns    map[net.Conn]bool // all open connections, to end them
	ended    bool

	handlers sync.WaitGroup
}

// Listener is a listener of the public, and what its clients want.
type Listener struct {
	net.Listener
	Kind wire.Kind
}

const defaultHeartbeat = 5 * time.Second

// New creates a server. [Server.Run] runs it.
func New(o Options) (*Server, error) {
	o.Limits.defaults()
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	o.Domain = wire.Canonical(o.Domain)
	own, err := wire.Certificate(o.Key)
	if err != nil {
		return nil, err
	}
	s := &Server{Options: o, homes: map[string]*home{}, hosts: map[string]*home{}, usage: o.Folder.readUsage(),
		sessions: map[wire.SessionID]*session{}, conns: map[net.Conn]bool{}}
	s.gate = newGate(&s.Limits)
	s.metrics = newMetrics(s)
	s.control = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, NextProtos: []string{wire.ALPN},
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
	}
	if o.Web != nil {
		s.web = newHandover()
	}
	return s, s.reload()
}

// Run serves until ctx ends, and then drains: it accepts nothing more, tells the homes to connect
// elsewhere or anew, and returns when the streams have ended, or after Drain.
func (s *Server) Run(ctx context.Context, listeners ...Listener) error {
	hard, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	running, stop := errgroup.WithContext(hard)
	for _, l := range listeners {
		running.Go(func() error { return s.accept(stop, l) })
	}
	running.Go(func() error { return s.watch(stop) })
	running.Go(func() error { return s.sweep(stop) })
	running.Go(func() error { return s.serveWeb(stop) })
	running.Go(func() error {
		select {
		case <-ctx.Done():
		case <-stop.Done():
		}
		s.drain(stop, listeners)
		end()
		return nil
	})
	err := running.Wait()
	s.closeAll()
	s.handlers.Wait()
	return errors.Join(err, s.Folder.writeUsage(s.usage))
}

// drain ends what begins, and waits for what goes on.
func (s *Server) drain(ctx context.Context, listeners []Listener) {
	s.draining.Store(true)
	for _, l := range listeners {
		l.Close() //nolint:errcheck // nothing can be done about it
	}
	s.mu.Lock()
	for _, x := range s.sessions {
		x.goAway()
	}
	s.mu.Unlock()
	s.Logger.Info("stopping; streams may end", "streams", s.busy.Load(), "limit", s.Drain)
	limit, cancel := context.WithTimeout(ctx, s.Drain)
	defer cancel()
	const look = 20 * time.Millisecond
	for s.busy.Load() > 0 && netx.Wait(limit, look) == nil { //nolint:revive // it waits
	}
}

// acceptPause is the pause after an error of accept, such as too many open files.
const acceptPause = 50 * time.Millisecond

// accept handles the connections of a listener until it is closed.
func (s *Server) accept(ctx context.Context, l Listener) error {
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			s.handle(ctx, conn, l.Kind)
		case ctx.Err() != nil || s.draining.Load() || errors.Is(err, net.ErrClosed):
			return nil
		default:
			s.Logger.Warn("cannot accept a connection", "error", err)
			if netx.Wait(ctx, acceptPause) != nil {
				return nil
			}
		}
	}
}

// track remembers an open connection; false: the server ends, and the connection was closed.
func (s *Server) track(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		c.Close() //nolint:errcheck // it is refused either way
		return false
	}
	s.conns[c] = true
	return true
}

func (s *Server) untrack(c net.Conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	c.Close() //nolint:errcheck // it is over
}

func (s *Server) closeAll() {
	s.mu.Lock()
	s.ended = true
	list := slices.Collect(maps.Keys(s.conns))
	sessions := slices.Collect(maps.Values(s.sessions))
	s.mu.Unlock()
	for _, x := range sessions {
		x.end()
	}
	for _, c := range list {
		c.Close() //nolint:errcheck // it is over
	}
}

// watchEvery is how often the homes are looked at: a removed one is cut off within a second.
const watchEvery = 500 * time.Millisecond

// watch follows the changes of the homes until ctx ends.
func (s *Server) watch(ctx context.Context) error {
	for netx.Wait(ctx, watchEvery) == nil {
		s.reading.Lock()
		s.refresh()
		s.reading.Unlock()
	}
	return nil
}

// refresh reads the homes if the folder has changed. The caller holds reading.
func (s *Server) refresh() {
	// A change in the same tick of the file system's clock may have come after the reading.
	at := s.Folder.changed()
	if at.Equal(s.seen) && time.Since(at) > 2*time.Second {
		return
	}
	s.seen = at
	if err := s.reload(); err != nil {
		s.Logger.Error("the homes cannot be read; those known before stay", "error", err)
	}
}

// reload reads the homes, and ends those that were removed. The caller holds reading.
func (s *Server) reload() error {
	list, err := s.Folder.Homes()
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := s.homes
	s.homes, s.hosts = map[string]*home{}, map[string]*home{}
	for _, info := range list {
		h := old[info.Name]
		if h == nil || h.info().ID != info.ID {
			h = newHome(s, info)
		} else {
			delete(old, info.Name)
		}
		h.setInfo(info)
		s.homes[info.Name] = h
		for _, host := range append([]string{s.hostOf(info)}, info.Also...) {
			if s.hosts[host] == nil && host != s.Domain {
				s.hosts[host] = h
			}
		}
	}
	s.mu.Unlock()
	for _, h := range old {
		h.revoke()
	}
	return nil
}

// hostOf is the main host name of a home.
func (s *Server) hostOf(h Home) string { return h.Name + "." + s.Domain }

func (s *Server) homeOf(host string) *home {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hosts[host]
}

// allHomes returns the homes.
func (s *Server) allHomes() []*home {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.homes))
}

// saveEvery is how often the usage is written.
const saveEvery = time.Minute

// sweep ends idle streams and those of homes without quota, and writes the usage, until ctx ends.
func (s *Server) sweep(ctx context.Context) error {
	every := min(max(min(s.Limits.Idle, s.Limits.HalfClosed)/4, 50*time.Millisecond), 10*time.Second)
	saved := time.Now()
	for netx.Wait(ctx, every) == nil {
		for _, h := range s.allHomes() {
			h.sweep(time.Now())
		}
		if time.Since(saved) < saveEvery {
			continue
		}
		saved = time.Now()
		if err := s.Folder.writeUsage(s.usage); err != nil {
			s.Logger.Warn("the usage of the homes cannot be written", "error", err)
		}
	}
	return nil
}

// Ready reports whether the server accepts connections.
func (s *Server) Ready() bool { return !s.draining.Load() }

// serveWeb serves the relay's own name until ctx ends.
func (s *Server) serveWeb(ctx context.Context) error {
	if s.web == nil {
		return nil
	}
	pages := &http.Server{
		Handler: s.Pages(), TLSConfig: s.Web, ReadTimeout: webTimeout, WriteTimeout: webTimeout,
		IdleTimeout: webTimeout, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
	}
	context.AfterFunc(ctx, func() { pages.Close() }) //nolint:errcheck // it ends either way
	if err := pages.ServeTLS(s.web, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// webTimeout bounds requests to the relay itself, whose answers are short.
const webTimeout = 10 * time.Second

// Pages is what the relay's own name answers: /healthz, and a line that says what it is.
func (s *Server) Pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.Ready() {
			w.WriteHeader(http.StatusServiceUnavailable)
			w.Write([]byte("stopping\n")) //nolint:errcheck // the client may be gone
			return
		}
		w.Write([]byte("ok\n")) //nolint:errcheck // the client may be gone
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		const text = "This is a relay of Patchbay. It passes connections on and cannot read them.\n"
		w.Write([]byte(text)) //nolint:errcheck // the client may be gone
	})
	return mux
}

// Redirect answers requests without TLS: it sends browsers to https, if the host is the relay's or
// one below it or of a home. Certificates need nothing here: TLS-ALPN-01 (RFC 8737) passes through
// the link.
func (s *Server) Redirect() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = wire.Canonical(host)
		if !wire.IsHost(host) || host != s.Domain && !s.isBelow(host) && s.homeOf(host) == nil {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, "https://"+host+r.URL.RequestURI(), http.StatusPermanentRedirect)
	})
}

func (s *Server) isBelow(host string) bool {
	label, ok := strings.CutSuffix(host, "."+s.Domain)
	return ok && wire.IsLabel(label)
}
