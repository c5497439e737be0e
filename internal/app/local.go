package app

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/api"
	"patchbay/internal/bus"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/oauth"
	"patchbay/internal/observe"
	"patchbay/internal/plug/bots"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/store"
)

// Local has the operations of /api/v1 in this process, for commands on data on which no server
// runs. Devices, plugins and tool servers are not connected to it.
type Local struct {
	handler http.Handler
	key     string
	close   []func()
}

// NewLocal returns the operations on opened data. The caller closes the data after it.
func NewLocal(ctx context.Context, b *Base, log *slog.Logger) (l *Local, err error) {
	l = &Local{}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	messages, err := bus.Open(ctx, bus.Options{})
	if err != nil {
		return l, err
	}
	l.close = append(l.close, messages.Close)
	c, registry := b.Config, prometheus.NewRegistry()
	h, err := hub.New(hub.Options{
		Store: b.Store, Registry: b.Registry, Bus: messages, Logger: log, Registerer: registry,
		FirstPieceTimeout: c.Turn.FirstPiece, IdleTimeout: c.Turn.Idle, HistoryLength: c.History.Turns,
		KeepContent: c.Trace.Content, MaxCalls: c.Limits.Calls, CallRate: c.Limits.CallRate, KeepArgs: c.Audit.Args,
		LateTimeout: -1, // this process cannot deliver late answers
	})
	if err != nil {
		return l, err
	}
	l.close = append(l.close, func() { h.Close() })
	b.tools.hub.Store(h)
	asked := bots.New(bots.Options{Hub: h, Sessions: func(store.Bot) int { return 0 }})
	l.close = append(l.close, func() { asked.Close() })
	points, err := l.register(b, h, asked, log)
	if err != nil {
		return l, err
	}
	guard := account.NewGuard(c.Limits.AuthFailures, nil)
	addresses := observe.Addresses{}
	nodes, err := newGateway(deps{hub: h, base: b, messages: messages, log: log, reg: registry, guard: guard,
		addresses: addresses})
	if err != nil {
		return l, err
	}
	l.close = append(l.close, func() { shutdownNow(nodes) })
	speaking, err := newSpeech(ctx, b, log, newSpeechMetrics(nil))
	if err != nil {
		return l, err
	}
	consents := newOAuth(b, oauth.Options{Logger: log})
	photos, _, err := fetchers(c, log, registry)
	if err != nil {
		return l, err
	}
	signins := newSignIns(b, c.Listen, photos.Dial, messages.Instance, log)
	people := control.New(control.Options{
		OAuth: consents, OIDC: newOIDC(c),
		Hub: h, Accounts: b.Accounts, Logger: log, Version: b.Version, PublicURL: c.PublicURL,
		Instance:   localInstance(b),
		Health:     func(store.Bot) control.Health { return control.Health{} },
		Disconnect: func(int64) {},
		Upstream: func(u store.Upstream, _ string) control.UpstreamHealth {
			return control.UpstreamHealth{Where: b.UpstreamWhere(u)}
		},
		Upstreams:       newUpstreamActions(b, signins, log),
		Registry:        newRegistry(c),
		UpstreamSignIns: b.signInActions(signins),
		Voice:           speaking.actions(),
		Look:            newDiscoverer(speaking, nil, log).look,
		SecretActions:   b.secretActions(),
		Points:          points, ImportSize: int64(c.Learn.ImportSize), Due: dueReviews(points),
		Nodes:      nodeOperations(b, nodes),
		NodePolicy: control.NodePolicy{Allow: c.Nodes.Allow, Deny: c.Nodes.Deny, Dangerous: gateway.IsDangerous},
		Transport:  func(chosen string) string { return BoardTransport(c, chosen) },
		BoardVoice: b.voiceOptions(),
		Retention:  retentionPolicy(c),
	})
	server, err := api.New(api.Options{Control: people, Guard: guard, Logger: log, Address: addresses.ClientAddress})
	if err != nil {
		return l, err
	}
	l.handler, l.key = server, server.Key()
	return l, nil
}

// register registers the providers that need no connection, and returns Learn.
func (l *Local) register(b *Base, h *hub.Hub, asked *bots.Provider, log *slog.Logger) (*learn.Service, error) {
	registration, err := h.Register(bots.ProviderRef(), asked)
	if err != nil {
		return nil, err
	}
	registration.SetTools(bots.Tools())
	options, err := LearnOptions(b, log)
	if err != nil {
		return nil, err
	}
	options.Model, options.Registerer = newModel(h), prometheus.NewRegistry()
	points := learn.New(options)
	if registration, err = h.Register(learn.ProviderRef(), &learn.Provider{Service: points}); err != nil {
		return nil, err
	}
	registration.SetTools(learn.Tools())
	return points, nil
}

// localInstance describes data on which no server runs.
func localInstance(b *Base) control.Instance {
	i := instanceInfo(b, func(context.Context) []string { return []string{"not_running"} }, &storage{}, &handover{}, nil, nil)
	i.Storage, i.Drain, i.Started = nil, nil, time.Time{}
	return i
}

// Client returns a client that calls the operations with the rights of this machine's operator.
func (l *Local) Client(lang i18n.Lang) *api.Client {
	c, wait := api.NewLocalClient(l.handler, l.key, lang)
	l.close = append(l.close, wait)
	return c
}

// Close ends all operations.
func (l *Local) Close() {
	for i := len(l.close) - 1; i >= 0; i-- {
		l.close[i]()
	}
}
