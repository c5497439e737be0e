package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"patchbay/internal/account"
	"patchbay/internal/api"
	"patchbay/internal/backup"
	"patchbay/internal/bus"
	"patchbay/internal/config"
	"patchbay/internal/console"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/oauth"
	"patchbay/internal/observe"
	"patchbay/internal/plug/bots"
	"patchbay/internal/plug/eyeclaw"
	"patchbay/internal/plug/eyeclaw/connector"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/remind"
	"patchbay/internal/plug/mcp"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/store"
)

// Options are the options of [Serve] beside the configuration.
type Options struct {
	Version string
	// Demo adds an echo bot and a publicly known key. The server then has to listen on loopback,
	// and keeps its data apart.
	Demo bool
	// New allows a new installation although the data of the previous one is gone.
	New bool
	// Lang is the language of the person who starts the server, used for the name of the demo's
	// bot. Empty means English.
	Lang i18n.Lang
	// Logs is where log lines are written. Terminal means that it is a terminal.
	Logs     io.Writer
	Terminal bool
	// Ready is called with the server's address once it accepts requests. It may be nil.
	Ready func(url string, b *Base)
	// Stopping is called when the server begins to stop because ctx has ended. It may be nil.
	Stopping func()
	// OnServers is called before Ready with the console and the API server. It is for tests that
	// walk through all of their pages and operations. It may be nil.
	OnServers func(*console.Server, *api.Server)
	// Now is the clock of Learn, and tells for which day it counts what boards use of speech
	// engines. It is for tests; nil means [time.Now].
	Now func() time.Time
	// TokenLife is the lifetime of OAuth access tokens; 0 means an hour. It is for tests.
	TokenLife time.Duration
	// Documents reads the documents of OAuth clients; nil means from public addresses only. It is
	// for tests.
	Documents http.RoundTripper
}

// Serve runs the server until ctx ends, then drains and stops it.
func Serve(ctx context.Context, c *config.Config, o Options) (err error) {
	format := c.Log.Format
	if o.Terminal && format == "text" {
		format = "terminal"
	}
	log := observe.NewLogger(o.Logs, c.Log.Level, format)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	if o.Demo {
		c = demoConfig(c)
	}
	lock, err := lockFolder(c, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	// Listen before anything else: a taken port is the most common reason for a failed start.
	listener, err := listen(c.Listen, "--listen")
	if err != nil {
		return err
	}
	defer listener.Close()
	plain, err := listenRedirect(c)
	if err != nil {
		return err
	}
	if plain != nil {
		defer plain.Close()
	}
	forAnki, err := listenAnki(c)
	if err != nil {
		return err
	}
	if forAnki != nil {
		defer forAnki.Close()
	}
	if o.Demo {
		if err := demoAllowed(c, listener.Addr()); err != nil {
			return err
		}
	}

	if c.Database.URL == "" {
		kept, err := backup.Swap(c.Data)
		if err != nil {
			return fmt.Errorf("put the restored data in place: %w", err)
		}
		if kept != "" {
			log.Warn("a backup was restored", "before", filepath.Join(c.Data, kept))
		}
	}
	open := OpenBase
	if o.New || o.Demo { // the demo's data may be lost
		open = openBase
	}
	base, err := open(ctx, c, o.Version, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, base.Close()) }()
	base.Agents.Register(registry)
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_secrets",
		Help: "Secrets of the installation that hold."},
		func() float64 { return float64(len(base.Box.Keys())) }))
	if o.Demo {
		if err := seedDemo(ctx, base, o.Lang); err != nil {
			return err
		}
	}

	links, err := openReach(base, log)
	if err != nil {
		return err
	}
	defer links.Close()
	secure := byHTTPS(c) // by http at home, cookies work although the address at the relay is https
	if address := links.publicURL(ctx, c.PublicURL, log); address != c.PublicURL {
		linked := *c
		linked.PublicURL = address
		c, base.Config = &linked, &linked
	}

	messages, err := bus.Open(ctx, busOptions(base, log))
	if err != nil {
		return err
	}
	defer messages.Close()
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "patchbay_bus_refused_total",
		Help: "Messages on the bus that this installation had not signed."},
		func() float64 { return float64(messages.RejectedCount()) }))

	tracer := newTracer(base, messages.Instance, log, registry)
	defer closeTracer(tracer)
	base.tracer = tracer
	h, err := hub.New(hub.Options{
		Tracer: tracer,
		Store:  base.Store, Registry: base.Registry, Bus: messages, Logger: log, Registerer: registry,
		FirstPieceTimeout: c.Turn.FirstPiece, IdleTimeout: c.Turn.Idle, LateTimeout: c.Turn.Late,
		ReconnectGrace: c.Turn.Grace,
		MaxTurns:       c.Limits.Turns, HistoryLength: c.History.Turns, MediaTTL: c.Media.Keep,
		KeepContent:  c.Trace.Content,
		Installation: base.Installation, Folder: c.Data,
		MaxCalls: c.Limits.Calls, CallRate: c.Limits.CallRate, KeepArgs: c.Audit.Args,
	})
	if err != nil {
		return err
	}
	defer h.Close()

	proxies, err := config.ParsePrefixes(c.Proxies)
	if err != nil {
		return err
	}
	addresses := observe.Addresses{Proxies: proxies}
	guard := account.NewGuard(c.Limits.AuthFailures, nil)
	// A separate guard, so that wrong keys of a program do not keep its owner from signing in.
	base.Accounts.Addresses = account.NewGuard(c.Limits.AuthFailures, nil)
	photos, bindingPhotos, err := fetchers(c, log, registry)
	if err != nil {
		return err
	}
	base.dial = photos.Dial

	var people *control.Service // is made below
	own, certificates, err := newIdentity(base, messages, log, registry,
		func(ctx context.Context, event, name string) {
			people.RecordAdminEvent(ctx, control.Caller{Program: "acme"}, certificateEvents[event], name)
		})
	if err != nil {
		return err
	}
	streams, err := newStreams(ctx, base, c, messages, log, registry)
	if err != nil {
		return err
	}
	glasses := rokid.New(rokid.Options{
		Streams: streams, Tracer: tracer,
		Accounts: base.Accounts, Hub: h, Guard: guard, Photos: photos, BindingPhotos: bindingPhotos,
		Logger: log, Registerer: registry, PublicURL: c.PublicURL, Lang: i18n.Lang(c.Lang),
		HTTPErrors: c.Lingzhu.ErrorStyle == "http", QuietStart: c.Lingzhu.QuietStart, Heartbeat: c.Turn.Heartbeat,
		WaitingText: c.Lingzhu.WaitingText, WaitingAfter: c.Lingzhu.WaitingAfter, Binding: c.Lingzhu.Binding,
		ImagesPerHour: c.Lingzhu.ImagesPerHour, MaxBody: int64(c.Limits.Body), MaxImageBody: int64(c.Limits.BodyImages),
		PushURL: c.Lingzhu.PushURL, Address: addresses.ClientAddress,
	})
	cable := eyeclaw.New(eyeclaw.Options{
		Registry: plug{h}, Tokens: tokens{base.Registry}, Logger: log, Registerer: registry, PublicURL: c.PublicURL,
		Grace: c.Turn.Grace, Tools: base.connectorTools, Resume: h.ResumeCut,
		ClientIP: func(r *http.Request) string { return addresses.ClientAddress(r).String() },
	})
	h.OnDisconnectBot(cable.DisconnectBot)

	base.tools.hub.Store(h)
	asked := bots.New(bots.Options{Hub: h, Sessions: func(b store.Bot) int {
		return eyeclawHealth(cable,
			b).Connections
	}})
	defer asked.Close()
	socket, err := h.Register(bots.ProviderRef(), asked)
	if err != nil {
		return err
	}
	socket.SetTools(bots.Tools())
	learning, err := LearnOptions(base, log)
	if err != nil {
		return err
	}
	learning.Model, learning.Registerer = newModel(h), registry
	learning.Now = o.Now
	points := learn.New(learning)
	if socket, err = h.Register(learn.ProviderRef(), &learn.Provider{Service: points}); err != nil {
		return err
	}
	socket.SetTools(learn.Tools())
	registerApprovals(h, base, glasses, log)
	reviews := registerQuiz(h, points, base, glasses, log)
	speaking, err := newSpeech(ctx, base, log, newSpeechMetrics(registry))
	if err != nil {
		return err
	}
	if o.Now != nil {
		speaking.usage.now = o.Now
	}
	defer speaking.usage.finish() // after boards have stopped
	around := deps{
		speech: speaking,
		hub:    h, base: base, messages: messages, log: log, reg: registry, guard: guard, addresses: addresses,
		dial: photos.Dial, web: listener.Addr(), tls: own, mqttTLS: links.identity(own, certificates),
		demo: o.Demo, away: links.mqtt(),
	}
	devices := newHandover(messages, base.Store.Leases, log, registry, defaultHandover)
	around.refuses = devices.refuses
	var consents *oauth.Service // is made below
	around.changed = func(ctx context.Context, c gateway.Change) { operatorChanged(ctx, people, c) }
	around.decide = func(ctx context.Context, d gateway.Decision) error { return operatorDecides(ctx, people, d) }
	around.origin = func(r *http.Request) string { return consents.Origin(r) }
	voices, err := newVoiceBoards(ctx, around)
	if err != nil {
		return err
	}
	defer voices.Close()
	nodes, err := newGateway(around)
	if err != nil {
		return err
	}
	defer shutdownNow(nodes)
	joined := newShims(around)
	defer joined.Close()
	recent := account.NewRecent(base.Accounts)
	streams.OnChange(recent.Forget)
	streams.OnChange(nodes.KeysChanged)
	programs := mcp.New(mcp.Options{
		Metadata: func(r *http.Request, path string) string { return consents.MetadataURL(r, path) },
		Tracer:   tracer,
		Origin:   around.origin,
		Hub:      h, Accounts: recent, Streams: streams, Guard: guard, Box: base.Box, Logger: log, Registerer: registry,
		Address: addresses.ClientAddress, Version: o.Version, PublicURL: c.PublicURL, Hosts: c.MCP.Hosts,
		Origins:     c.MCP.Origins,
		MaxSessions: c.MCP.Sessions, MaxSessionsPerKey: c.MCP.SessionsOfKey, IdleTimeout: c.MCP.Idle,
		HasOpenBots: openBots(base), Relay: newRelay(messages),
		LearnTools: learn.ToolNames(),
	})
	defer programs.Close()
	signins := newSignIns(base, listener.Addr().String(), photos.Dial, messages.Instance, log)
	servers := upstream.New(upstream.Options{
		Register: registerUpstream(h, log), Tracer: tracer,
		Logger: log, Registerer: registry, Dial: photos.Dial, Version: o.Version,
		Installation: base.Installation, Dangerous: base.dangerousTools, Pins: pins{base, log},
		Tokens: tokensOf(signins),
	})
	defer servers.Close()
	clouds := newClouds(base, programs, messages.Instance, photos.Dial)
	defer clouds.Close()
	refresh := reconcile(base, servers, clouds, joined, log)
	if err := h.OnToolsChanged(ctx, refresh); err != nil {
		return err
	}

	var ready atomic.Bool
	ready.Store(true)
	devices.departures = append(devices.departures, cable.DrainFuncs, nodes.DrainFuncs, voices.boards.DrainFuncs,
		servers.DrainFuncs)
	disk := newStorage(base, h, log, registry)
	failing := failing(&ready, base, disk, devices)
	consents = newOAuth(base, oauth.Options{
		IsKnownHost: programs.IsKnownHost, IsListedHost: programs.IsListedHost,
		IsProxy: addresses.IsFromProxy, Address: addresses.ClientAddress, Guard: guard,
		Logger: log, Registerer: registry, AccessLife: o.TokenLife, Documents: o.Documents,
		Reused:  func(ctx context.Context, k store.Key) { people.ProgramEvent(ctx, k, control.EventOAuthReused) },
		Revoked: func(ctx context.Context, k store.Key) { people.ProgramEvent(ctx, k, control.EventOAuthGivenUp) },
	})
	people = control.New(control.Options{
		OAuth: consents, OIDC: newOIDC(c),
		Hub: h, Accounts: base.Accounts, Logger: log, Version: o.Version, PublicURL: c.PublicURL,
		Instance:        instanceInfo(base, failing, disk, devices, certificates, links),
		Health:          botHealth(cable, base),
		Disconnect:      h.DisconnectBot,
		Upstream:        upstreamHealth(base, h, servers, clouds, joined),
		Upstreams:       newUpstreamActions(base, signins, log),
		Registry:        newRegistry(c),
		UpstreamSignIns: base.signInActions(signins),
		Voice:           speaking.actions(),
		Look:            newDiscoverer(speaking, listener.Addr(), log).look,
		SecretActions:   base.secretActions(),
		Listen:          voices.boards.ListenOgg,
		Hear:            voices.boards.ListenWAV,
		Points:          points,
		ImportSize:      int64(c.Learn.ImportSize),
		Due:             dueReviews(points),
		Nodes:           nodeOperations(base, nodes),
		Retention:       retentionPolicy(c),
		Transport:       func(chosen string) string { return BoardTransport(c, chosen) },
		BoardVoice:      base.voiceOptions(),
		NodePolicy:      control.NodePolicy{Allow: c.Nodes.Allow, Deny: c.Nodes.Deny, Dangerous: gateway.IsDangerous},
	})
	channel, err := api.New(api.Options{Control: people, Streams: streams, Guard: guard, Logger: log, Tracer: tracer,
		Address: addresses.ClientAddress})
	if err != nil {
		return err
	}

	browsers := browsersOf(base, photos.Dial, registry, log)
	pages := console.New(console.Options{
		Registerer: registry,
		Accounts:   base.Accounts, Streams: streams, Control: people, Address: addresses.ClientAddress,
		Lang: i18n.Lang(c.Lang), Version: o.Version, Logger: log,
		Learn: points, Push: browsers,
		Secure: secure,
	})

	plugin, err := connector.Handler(o.Version)
	if err != nil {
		return err
	}
	anki := newAnkiConnect(people, streams, guard, addresses, programs, c, log, registry)
	mux := routes(handlers{
		anki:      anki,
		connector: plugin, join: http.HandlerFunc(nodes.ServeJoin),
		lingzhu: glasses, boards: voices, cable: cable, media: http.HandlerFunc(h.ServeMedia), api: channel,
		mcp: programs, oauth: consents, client: serveClient(c),
		endpoint: &endpoint{base: base, servers: servers, refresh: refresh, guard: guard, log: log,
			address: addresses.ClientAddress},
		metrics: metricsHandler(c, registry, channel, addresses), ready: readiness(failing), pages: pages,
	})
	server := newServer(observe.HandleRequests(log, registry, orAnki(refuseWhileDraining(&ready, messages, anki),
		onlyHTTPS(c, refuseWhileDraining(&ready, messages, devices.refuse(orGateway(mux, nodes)))))), log)
	remote := newServer(server.Handler, log) // for clients that come through relays
	cards := newAnkiServer(server.Handler, c.Learn.AnkiKey, log)
	limited := newPerAddressListener(listener, c.Limits.Connections, proxies, registry)
	redirects, err := newRedirects(certificates, c, server.Handler, log)
	if err != nil {
		return err
	}
	url, err := announce(c, listener, channel.Key())
	if err != nil {
		return err
	}
	defer removeControlFile(c)
	if err := lock.Announce(url); err != nil {
		return err
	}

	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	running, stop := errgroup.WithContext(serving)
	var led atomic.Int64 // how long Lead took
	running.Go(func() error {
		defer end()
		select {
		case <-ctx.Done():
			if o.Stopping != nil {
				o.Stopping()
			}
			led.Store(int64(devices.Lead(stop)))
		case <-stop.Done():
		}
		return nil
	})
	running.Go(func() error {
		return serveHTTP(server, limited, own)
	})
	if plain != nil {
		running.Go(func() error { return serveHTTP(redirects, limited.with(plain), nil) })
	}
	if forAnki != nil {
		running.Go(func() error { return serveHTTP(cards, limited.with(forAnki), nil) })
	}
	if certificates != nil {
		running.Go(func() error { return certificates.Run(stop) })
	}
	if links != nil {
		running.Go(func() error { return serveHTTP(remote, links.https(limited), links.identity(own, certificates)) })
		running.Go(func() error { return links.order(stop, certificates) })
	}
	running.Go(func() error {
		return streams.Run(stop, func(err error) {
			log.Warn("whether rights have changed could not be found out",
				"error", err)
		})
	})
	running.Go(func() error { return serveMetrics(stop, c, registry) })
	running.Go(func() error { return announceLocally(stop, c, listener.Addr(), log) })
	running.Go(func() error { return base.Secrets.Run(stop) })
	running.Go(func() error { return disk.run(stop) })
	running.Go(func() error { return devices.Run(stop) })
	running.Go(func() error { return purge(stop, base, points.EmptyTrash, log) })
	running.Go(func() error { return remind.Run(stop, remindersOf(base, points, glasses, browsers, photos.Dial, log)) })
	running.Go(func() error { return reviews.Run(stop) })
	running.Go(func() error { return points.RunFits(stop, recordFits(people)) })
	running.Go(func() error { return voices.Run(stop) })
	running.Go(func() error { return speaking.Run(stop) })
	running.Go(func() error { return people.Count(stop) })
	running.Go(func() error { return base.models.Run(stop) })
	running.Go(func() error { return h.ResumeCuts(stop) })
	running.Go(func() error { return index(stop, points, base.Store, messages.Instance, log) })
	running.Go(func() error {
		<-stop.Done()
		ready.Store(false)
		left := drainLimit - time.Duration(led.Load())
		log.Info("stopping; running turns may end", "limit", left)
		limit, cancel := context.WithTimeout(context.Background(), left)
		defer cancel()
		last, cancel := context.WithTimeout(context.Background(), left+lastWords)
		defer cancel()
		programs.Drain()
		pages.Drain()
		var talking sync.WaitGroup
		talking.Go(func() { voices.Drain(limit) })
		defer talking.Wait()
		h.Drain(limit)
		cable.Shutdown(limit)    //nolint:errcheck // the rest ends with the process
		nodes.Shutdown(limit)    //nolint:errcheck // the rest ends with the process
		redirects.Shutdown(last) //nolint:errcheck // the rest ends with the process
		cards.Shutdown(last)     //nolint:errcheck // the rest ends with the process
		// Shut down last: until then clients get a message that the server is stopping.
		var away sync.WaitGroup
		away.Go(func() {
			if remote.Shutdown(last) != nil {
				remote.Close() //nolint:errcheck // the rest ends with the process
			}
		})
		defer away.Wait()
		if err := server.Shutdown(last); err != nil {
			return server.Close()
		}
		return nil
	})
	about := []any{"url", url, "version", o.Version, "database", base.Store.Dialect(), "instance", messages.Instance}
	if print := ownFingerprint(own); print != "" {
		about = append(about, "certificate", print) // for OpenClaw's --tls-fingerprint
	}
	log.Info("serving", about...)
	if o.OnServers != nil {
		o.OnServers(pages, channel)
	}
	if o.Ready != nil {
		o.Ready(url, base)
	}
	err = running.Wait()
	log.Info("stopped")
	return err
}
