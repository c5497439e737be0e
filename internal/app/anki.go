package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/observe"
	"patchbay/internal/plug/learn/ankiconnect"
	"patchbay/internal/plug/mcp"
)

// listenAnki opens the port for programs for Anki, or returns nil if there is none.
func listenAnki(c *config.Config) (net.Listener, error) {
	if c.Learn.AnkiListen == "" {
		return nil, nil
	}
	return listen(c.Learn.AnkiListen, "--learn-anki-listen")
}

func newAnkiConnect(people *control.Service, streams *account.Streams, guard *account.Guard,
	addresses observe.Addresses, programs *mcp.Server, c *config.Config, log *slog.Logger,
	reg prometheus.Registerer) *ankiconnect.Server {
	return ankiconnect.New(ankiconnect.Options{Control: people, Streams: streams, Guard: guard, Logger: log,
		Registerer: reg, Address: addresses.ClientAddress, IsKnownHost: programs.IsKnownHost,
		Origins: c.Learn.AnkiOrigins})
}

// ankiListener marks the contexts of requests that came to the port for programs for Anki.
type ankiListener struct{}

// newAnkiServer returns the server of that port. Programs call it by http, at the path /, since
// they expect Anki on this machine. key is for those that send none; empty: they need one.
func newAnkiServer(handler http.Handler, key string, log *slog.Logger) *http.Server {
	s := newServer(handler, log)
	s.BaseContext = func(net.Listener) context.Context {
		return ankiconnect.WithKey(context.WithValue(context.Background(), ankiListener{}, true), key)
	}
	return s
}

// orAnki passes the requests of that port to anki, and others on.
func orAnki(anki, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(ankiListener{}) == nil {
			others.ServeHTTP(w, r)
			return
		}
		r.Pattern = ankiconnect.Path
		anki.ServeHTTP(w, r)
	})
}
