package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"patchbay/internal/account"
	"patchbay/internal/bus"
	"patchbay/internal/config"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/observe"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/broker"
	"patchbay/internal/plug/xiaozhi/mqtt"
	"patchbay/internal/plug/xiaozhi/udp"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/voice/opus"
)

const (
	// mqttSpread is the time over which a stopping server disconnects boards, so that they do not
	// all reconnect at once.
	mqttSpread = 2 * time.Second
	// boardsFresh is how often an instance polls for boards that were approved, changed or removed
	// by the command line or on another instance.
	boardsFresh = time.Second
)

// voiceBoards has every server that voice boards connect to.
type voiceBoards struct {
	deps
	home     *xiaozhi.Discovery
	boards   *xiaozhi.Boards
	photos   *xiaozhi.Photos
	encoders *opus.EncoderPool
	audio    *udp.Server    // nil: no UDP
	mqtt     *mqtt.Server   // nil: no MQTT server
	broker   *broker.Client // nil: no external broker
	plain    net.Listener   // of MQTT; nil: no port without TLS
	secure   net.Listener
	tls      *tls.Config
	stopped  sync.Once
}

// deps are the dependencies of voice boards and of the OpenClaw gateway.
type deps struct {
	hub       *hub.Hub
	base      *Base
	messages  *bus.Bus
	log       *slog.Logger
	reg       prometheus.Registerer
	guard     *account.Guard
	addresses observe.Addresses
	// dial opens outbound connections; it refuses internal addresses.
	dial func(context.Context, string, string) (net.Conn, error)
	web  net.Addr    // of the HTTP server
	tls  identityTLS // of this server; nil: it speaks http
	// mqttTLS has the certificate for MQTT; nil: there is none.
	mqttTLS identityTLS
	// away has the MQTT connections with TLS that arrive through relays; nil: there are none.
	away    net.Listener
	demo    bool
	speech  *speech
	refuses func() bool // reports whether devices have to connect to another instance
	// changed records what an operator of OpenClaw's has changed.
	changed func(context.Context, gateway.Change)
	// decide decides about a call that waits, as an operator of OpenClaw's wants it.
	decide func(context.Context, gateway.Decision) error
	// origin returns the server's address as a client knows it; empty: unknown.
	origin func(*http.Request) string
}

// newVoiceBoards creates the servers for voice boards and opens their ports.
func newVoiceBoards(ctx context.Context, at deps) (v *voiceBoards, err error) {
	c := at.base.Config
	if c.PublicURL != "" {
		// Other devices may be able to use it, and there may be no boards.
		if err := xiaozhi.CheckPublicURL(c.PublicURL); err != nil {
			at.log.Warn("voice boards cannot use public_url; they are told the address at which they found the server",
				"cause", err)
			boards := *c
			boards.PublicURL = ""
			c = &boards
		}
	}
	if at.reg != nil {
		at.reg.MustRegister(at.base.realtime.tokens)
	}
	v = &voiceBoards{deps: at, encoders: opus.NewEncoderPool(maxEncoders)}
	defer func() {
		if err != nil {
			v.Close()
		}
	}()
	if err := v.listen(c); err != nil {
		return nil, err
	}
	if err := v.register(c); err != nil {
		return nil, err
	}
	v.photos = xiaozhi.NewPhotos(xiaozhi.PhotosOptions{
		Accounts: v.base.Accounts, Logger: v.log, Registerer: v.reg, Address: v.addresses.ClientAddress, Guard: v.guard,
		Describe: v.boards.DescribePhoto, Lang: i18n.Lang(c.Lang),
	})
	if err := v.discovery(ctx, c); err != nil {
		return nil, err
	}
	if v.plain != nil || v.secure != nil {
		v.mqtt = mqtt.New(mqtt.Options{
			Auth: v.admitMQTT, NewSession: func(conn *mqtt.Conn) mqtt.Session { return v.boards.NewMQTTSession(conn) },
			MaxConns: c.XiaoZhi.Boards, Spread: mqttSpread, Logger: v.log, Registerer: v.reg,
		})
	}
	if c.XiaoZhi.Join != "" {
		if err := v.join(c.XiaoZhi); err != nil {
			return nil, err
		}
	}
	return v, v.boards.Refresh(ctx)
}

// register creates the registry of all boards.
func (v *voiceBoards) register(c *config.Config) (err error) {
	o := xiaozhi.Options{
		Accounts: v.base.Accounts, Store: v.base.Store, Hub: v.hub, Logger: v.log, Registerer: v.reg, Guard: v.guard,
		Address: v.addresses.ClientAddress,
		Lang:    i18n.Lang(c.Lang), Encoders: v.encoders, Audio: v.audio, PublicURL: c.PublicURL,
		Secure:         v.deps.tls != nil,
		SilenceTimeout: c.XiaoZhi.Silence, ButtonTimeout: c.XiaoZhi.Linger, MaxSockets: c.XiaoZhi.Sockets,
		WakeWords: c.XiaoZhi.WakeWords,
		Fetch:     fetchSound(v.dial), Transport: c.XiaoZhi.Transport, Zone: timerZone(v.base),
	}
	if a, ok := v.web.(*net.TCPAddr); ok {
		o.Port = strconv.Itoa(a.Port)
	}
	o.Voice = v.voice(c)
	v.boards, err = xiaozhi.NewBoards(o)
	return err
}

// admitMQTT authenticates a board that connects to our MQTT server, unless devices have to connect
// to another instance.
func (v *voiceBoards) admitMQTT(ctx context.Context, who mqtt.ConnectInfo) (string, error) {
	if v.refuses() {
		return "", mqtt.Unavailable
	}
	return v.boards.AuthenticateMQTT(ctx, who)
}

// brokerAddr is a board's connection through an external MQTT broker.
type brokerAddr struct{ *broker.Conn }

// LocalAddr implements [xiaozhi.MQTTConn]. It is zero, because the board is not connected to this
// server.
func (brokerAddr) LocalAddr() netip.AddrPort { return netip.AddrPort{} }

// joinLease is the name of the lease that the one instance connected to the broker holds.
const joinLease = "xiaozhi-broker"

// join connects this server to an external broker as a client.
func (v *voiceBoards) join(x config.XiaoZhi) (err error) {
	o := broker.Options{
		URL: x.Join, Username: x.JoinUser, Password: x.JoinPass, ClientID: "patchbay-" + v.base.Installation,
		Events:     x.JoinTells,
		IsApproved: v.boards.IsApprovedMQTT,
		NewSession: func(c *broker.Conn) mqtt.Session { return v.boards.NewMQTTSession(brokerAddr{c}) },
		ClientIDs: func(context.Context) ([]string, error) {
			return v.boards.MQTTClientIDs(x.Transport == store.TransportMQTT), nil
		},
		Auth: v.boards.AuthenticateMQTT, AuthSecret: x.JoinKey, MaxConns: x.Boards, Logger: v.log, Registerer: v.reg,
	}
	if !v.messages.IsStandalone() {
		o.AcquireLease, o.ReleaseLease = leases{v.base.Store.Leases, v.messages.Instance}.named(joinLease)
	}
	if v.broker, err = broker.New(o); err != nil {
		return fmt.Errorf("xiaozhi.join: %w", err)
	}
	return nil
}

// maxEncoders bounds the concurrent encoders. Each takes half a percent of a processor and 128 KB.
const maxEncoders = 64

// listen opens the ports for MQTT and audio.
func (v *voiceBoards) listen(c *config.Config) (err error) {
	x := c.XiaoZhi
	if x.MQTT != "" {
		if v.plain, err = listen(x.MQTT, "--xiaozhi-mqtt"); err != nil {
			return err
		}
	}
	if x.MQTTTLS != "" {
		if v.mqttTLS == nil {
			return errors.New("xiaozhi.mqtt_tls needs a certificate; set tls.cert and tls.key, https.names, or relay.servers")
		}
		v.tls = v.mqttTLS.TLSConfig()
		v.tls.NextProtos = nil // whatever clients offer
		if v.secure, err = listen(x.MQTTTLS, "--xiaozhi-mqtt-tls"); err != nil {
			return err
		}
	}
	if x.Audio != "" {
		v.audio, err = udp.Listen(x.Audio, udp.Options{PublicHost: x.AudioHost, PublicPort: x.AudioPort, Logger: v.log,
			Registerer: v.reg})
		if err != nil {
			return listenError(x.Audio, "--xiaozhi-audio", err)
		}
	}
	return nil
}

// discovery creates the handler of discovery requests.
func (v *voiceBoards) discovery(ctx context.Context, c *config.Config) (err error) {
	x := c.XiaoZhi
	o := xiaozhi.DiscoveryOptions{
		Accounts: v.base.Accounts, Logger: v.log, Registerer: v.reg, PublicURL: c.PublicURL, Lang: i18n.Lang(c.Lang),
		Transport: x.Transport, Framing: wire.Framing(x.Framing), MQTT: v.endpoint(x),
		PerBoardTopics: x.Join != "", Keepalive: x.Keepalive,
		FirmwareFolder: x.Firmware, Address: v.addresses.ClientAddress,
	}
	if x.Zone != "" {
		if o.Zone, err = time.LoadLocation(x.Zone); err != nil {
			return fmt.Errorf("xiaozhi.time_zone: %w", err)
		}
	}
	if v.demo {
		p, err := v.base.Store.People.ByName(ctx, DemoPerson)
		if err != nil {
			return err
		}
		o.AutoOwner, o.AutoBot = p.ID, 1
	}
	v.home, err = xiaozhi.NewDiscovery(o)
	return err
}

// endpoint returns the MQTT address for boards: the configured one, that of the joined broker, or
// the open port on whatever host the boards used.
func (v *voiceBoards) endpoint(x config.XiaoZhi) string {
	if x.Broker != "" {
		return x.Broker
	}
	if u, err := url.Parse(x.Join); x.Join != "" && err == nil {
		switch {
		case u.Port() != "":
			return u.Host
		case u.Scheme == "mqtts" || u.Scheme == "wss":
			return u.Hostname() + ":8883"
		}
		return u.Hostname() + ":1883"
	}
	l := v.plain
	if v.secure != nil {
		l = v.secure
	}
	if l == nil {
		return ""
	}
	return ":" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// Run serves boards until ctx ends.
func (v *voiceBoards) Run(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return v.keepFresh(ctx) })
	running.Go(func() error { return v.boards.RunTimers(ctx) })
	if v.plain != nil {
		running.Go(func() error { return v.mqtt.Serve(ctx, v.plain, nil) })
	}
	if v.secure != nil {
		running.Go(func() error { return v.mqtt.Serve(ctx, v.secure, v.tls) })
	}
	switch {
	case v.away == nil:
	case v.secure != nil:
		running.Go(func() error { return v.mqtt.Serve(ctx, v.away, v.tls) })
	default:
		v.away.Close() //nolint:errcheck // it returns nil
	}
	if v.broker != nil {
		// Drain ends it, after the last messages to the boards have been sent.
		running.Go(func() error { v.broker.Run(context.WithoutCancel(ctx)); return nil })
	}
	return running.Wait()
}

// keepFresh registers boards that were approved, and unregisters boards that were removed.
func (v *voiceBoards) keepFresh(ctx context.Context) error {
	tick := time.NewTicker(boardsFresh)
	defer tick.Stop()
	known := int64(-1)
	for {
		version, err := v.base.Store.DevicesVersion(ctx)
		if err == nil && version != known {
			if err = v.boards.Refresh(ctx); err == nil {
				known = version
			}
		}
		if err != nil && ctx.Err() == nil {
			v.log.Warn("whether boards have changed could not be found out", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Drain ends conversations and connections.
func (v *voiceBoards) Drain(ctx context.Context) {
	v.boards.Drain(ctx)
	if v.broker != nil {
		v.broker.Shutdown(ctx) //nolint:errcheck // the rest ends with the process
	}
	if v.mqtt != nil {
		v.mqtt.Shutdown(ctx) //nolint:errcheck // the rest ends with the process
	}
}

// Close closes everything at once.
func (v *voiceBoards) Close() {
	v.stopped.Do(func() {
		for _, l := range []net.Listener{v.plain, v.secure} {
			if l != nil {
				l.Close() //nolint:errcheck // Serve may have closed it
			}
		}
		if v.boards != nil {
			v.boards.Close()
		}
		if v.audio != nil {
			v.audio.Close()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		v.encoders.Close(ctx) //nolint:errcheck // encoders in use end with the process
	})
}

// fetchSound returns a function that fetches audio from outside addresses through the guarded
// dialer.
func fetchSound(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context,
	string) (*http.Response, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: dial, ResponseHeaderTimeout: 15 * time.Second}}
	return func(ctx context.Context, url string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		return client.Do(r)
	}
}

// BoardTransport returns the transport of a board whose owner chose one, or none ("").
func BoardTransport(c *config.Config, chosen string) string {
	return cmp.Or(chosen, c.XiaoZhi.Transport, store.TransportSocket)
}
