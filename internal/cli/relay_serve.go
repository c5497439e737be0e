package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"patchbay/internal/app"
	"patchbay/internal/certs"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/observe"
	"patchbay/internal/relay"
	"patchbay/internal/relay/wire"
)

// relayFolder names the data folder of a relay.
type relayFolder struct {
	Data string `help:"Data folder of the relay; default: relay in the data folder of a server." placeholder:"DIR"`
}

// folder returns the data folder of the relay.
func (f relayFolder) folder(sh *shell) (relay.Folder, error) {
	if f.Data != "" {
		path, err := filepath.Abs(f.Data)
		return relay.Folder(path), err
	}
	c, _, err := config.Load(config.Sources{Env: sh.env})
	if err != nil {
		return "", err
	}
	return relay.Folder(filepath.Join(c.Data, "relay")), nil
}

type relayServeCmd struct {
	Domain        string `help:"The relay's own name, such as relay.example.org. It and all names below it (*.relay.example.org) lead here in the DNS." required:"" placeholder:"NAME"`
	Listen        string `help:"Address and port for browsers, programs and homes." default:":443" placeholder:"ADDR"`
	HTTPListen    string `name:"http-listen" help:"Address and port that sends browsers without TLS to https, such as :80; empty means none." placeholder:"ADDR"`
	MQTTListen    string `name:"mqtt-listen" help:"Address and port for boards that use MQTT over TLS, which is :8883 for them; empty means none." placeholder:"ADDR"`
	MetricsListen string `name:"metrics-listen" help:"Address and port of /metrics and /healthz, such as 127.0.0.1:9090; empty means none." placeholder:"ADDR"`
	Cert          string `help:"File with a certificate chain for the relay's own name, which then answers /healthz. Homes do not need it." placeholder:"FILE"`
	CertKey       string `name:"cert-key" help:"File with the private key of that certificate." placeholder:"FILE"`

	Connections int           `help:"Maximum number of simultaneous connections of clients." default:"50000" placeholder:"N"`
	Streams     int           `help:"Maximum number of simultaneous connections of one home." default:"500" placeholder:"N"`
	HomeRate    int           `name:"home-rate" help:"Maximum number of new connections per second to one home; five times as many may come at once." default:"100" placeholder:"N"`
	AddressRate int           `name:"address-rate" help:"Maximum number of new connections per second from one address; an IPv6 /64 counts as one." default:"20" placeholder:"N"`
	Idle        time.Duration `help:"Time without a byte after which a connection is closed." default:"15m" placeholder:"TIME"`
	Drain       time.Duration `help:"How long connections may go on when the relay is stopped." default:"20s" placeholder:"TIME"`
	LogLevel    string        `name:"log-level" help:"Minimum level of log messages: debug, info, warn or error." enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL"`
	LogFormat   string        `name:"log-format" help:"Format of log lines: text or json." enum:"text,json" default:"text" placeholder:"FORMAT"`
	relayFolder `embed:""`
}

// Help returns the command's detailed help with examples.
func (relayServeCmd) Help() string {
	return `A relay makes servers at home reachable from everywhere, without a way through their routers: they connect to the relay, and the relay passes connections on by the name in the TLS handshake. It has no certificates and no keys of the homes, so it cannot read what passes.

It runs on any small server with a public address. In the DNS, its name and a wildcard below it lead to that address. Make a join code for each home with patchbay relay key add; on the manual's page about reaching a home is the rest.

When it is stopped it accepts nothing more, sends the homes away and lets connections end. If systemd opens the port (socket activation), clients wait for the next one instead of being refused.

Examples:

    patchbay relay serve --domain relay.example.org
    patchbay relay serve --domain relay.example.org --http-listen :80 --mqtt-listen :8883 --metrics-listen 127.0.0.1:9090`
}

const (
	msgRelayAt     = i18n.Message("The relay for %s listens on %s; its data is in %s. Let a home in with: patchbay relay key add NAME --data %s")
	msgRelayNoName = i18n.Message("%q is no host name; give one such as relay.example.org")
	msgRelayPair   = i18n.Message("--cert and --cert-key belong together; give both, or neither")
)

// Run serves until it is interrupted.
func (c *relayServeCmd) Run(ctx context.Context, sh *shell) error {
	if !wire.IsFullName(c.Domain) {
		return usage(msgRelayNoName, c.Domain)
	}
	if (c.Cert == "") != (c.CertKey == "") {
		return usage(msgRelayPair)
	}
	folder, err := c.folder(sh)
	if err != nil {
		return err
	}
	key, err := folder.Key()
	if err != nil {
		return err
	}
	_, watched := terminal(sh.stderr)
	format := c.LogFormat
	if watched && format == "text" {
		format = "terminal"
	}
	log, registry := observe.NewLogger(sh.stderr, c.LogLevel, format), prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	o := relay.Options{Domain: c.Domain, Folder: folder, Key: key, Drain: c.Drain, Logger: log, Registerer: registry,
		Limits: relay.Limits{Connections: c.Connections, Streams: c.Streams, HomeRate: c.HomeRate,
			AddressRate: c.AddressRate, Idle: c.Idle}}
	if c.Cert != "" {
		files, err := certs.OpenFiles(c.Cert, c.CertKey, log)
		if err != nil {
			return err
		}
		o.Web = files.TLSConfig()
	}
	s, err := relay.New(o)
	if err != nil {
		return err
	}
	return c.serve(ctx, sh, s, registry, log)
}

// serve opens the ports and serves.
func (c *relayServeCmd) serve(ctx context.Context, sh *shell, s *relay.Server, registry *prometheus.Registry,
	log *slog.Logger) error {
	ports := opener{inherited: inheritedListeners(sh)}
	defer ports.close()
	list := []relay.Listener{{Listener: ports.open(c.Listen, "--listen"), Kind: wire.HTTPS}}
	if c.MQTTListen != "" {
		list = append(list, relay.Listener{Listener: ports.open(c.MQTTListen, "--mqtt-listen"), Kind: wire.MQTT})
	}
	pages := map[*http.Server]net.Listener{}
	if c.HTTPListen != "" {
		pages[page(s.Redirect(), log)] = ports.open(c.HTTPListen, "--http-listen")
	}
	if c.MetricsListen != "" {
		mux := http.NewServeMux()
		mux.Handle("/", s.Pages())
		mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		pages[page(mux, log)] = ports.open(c.MetricsListen, "--metrics-listen")
	}
	if ports.err != nil {
		return ports.err
	}
	running, stop := errgroup.WithContext(ctx)
	served := make(chan struct{}) // closed when the relay has drained
	running.Go(func() error {
		defer close(served)
		return s.Run(stop, list...)
	})
	for server, l := range pages {
		running.Go(func() error {
			if err := server.Serve(netutil.LimitListener(l, maxPages)); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
		running.Go(func() error {
			<-served
			return server.Close()
		})
	}
	address := list[0].Addr().String()
	about := map[string]any{"domain": c.Domain, "listen": address, "pid": os.Getpid(), "data": s.Folder}
	if len(list) > 1 {
		about["mqtt"] = list[1].Addr().String()
	}
	log.Info("relay is serving", "domain", c.Domain, "listen", address, "version", thisBuild().Version)
	if sh.json {
		sh.writeJSON(about, "") //nolint:errcheck // the reader may be gone
	} else {
		sh.say(msgRelayAt, c.Domain, address, string(s.Folder), quoteWord(string(s.Folder)))
	}
	return running.Wait()
}

// maxPages bounds the connections to a server of short answers; further ones wait.
const maxPages = 256

// page returns a server of short answers.
func page(h http.Handler, log *slog.Logger) *http.Server {
	const limit = 10 * time.Second
	return &http.Server{Handler: h, ReadTimeout: limit, WriteTimeout: limit, IdleTimeout: limit,
		MaxHeaderBytes: 8 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
}

// opener opens listeners until the first error.
type opener struct {
	inherited []net.Listener
	opened    []net.Listener
	err       error
}

// open takes an inherited listener with the port of an address, or opens the address.
func (o *opener) open(address, flag string) net.Listener {
	if o.err != nil {
		return nil
	}
	_, port, _ := net.SplitHostPort(address) //nolint:errcheck // listening fails then
	for _, l := range o.inherited {
		if strconv.Itoa(l.Addr().(*net.TCPAddr).Port) == port {
			return l
		}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		cause, advice := app.ExplainListen(flag, err)
		o.err = i18n.Message("cannot listen on %s: %v. %v").Errorf(address, cause, advice)
		return nil
	}
	o.opened = append(o.opened, l)
	return l
}

func (o *opener) close() {
	for _, l := range append(o.opened, o.inherited...) {
		l.Close() //nolint:errcheck // most are closed already
	}
}

// inheritedListeners returns the sockets that systemd opened (sd_listen_fds(3)). It keeps them open
// between two processes, so that no client is refused.
func inheritedListeners(sh *shell) (list []net.Listener) {
	if pid, err := strconv.Atoi(sh.getenv("LISTEN_PID")); err != nil || pid != os.Getpid() {
		return nil
	}
	n, _ := strconv.Atoi(sh.getenv("LISTEN_FDS")) //nolint:errcheck // none then
	const first, most = 3, 8                      // SD_LISTEN_FDS_START
	for fd := first; fd < first+min(n, most); fd++ {
		f := os.NewFile(uintptr(fd), "LISTEN_FD_"+strconv.Itoa(fd))
		l, err := net.FileListener(f)
		f.Close() //nolint:errcheck // the listener has a copy
		if err != nil {
			continue
		}
		if _, ok := l.Addr().(*net.TCPAddr); !ok {
			l.Close() //nolint:errcheck // it is not ours
			continue
		}
		list = append(list, l)
	}
	return list
}
