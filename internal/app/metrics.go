package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"patchbay/internal/api"
	"patchbay/internal/config"
	"patchbay/internal/observe"
)

// metricsHandler serves the metrics to authorized clients.
func metricsHandler(c *config.Config, reg *prometheus.Registry, control *api.Server,
	addresses observe.Addresses) http.Handler {
	numbers := promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case c.Metrics.Listen != "":
			http.NotFound(w, r)
		case c.Metrics.Open, addresses.ClientAddress(r).IsLoopback() && !observe.IsForwarded(r) &&
			observe.IsLocalHost(r), control.AllowsAdmin(r):
			numbers.ServeHTTP(w, r)
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the numbers are for this machine, or for an administrator's key with scope admin",
				http.StatusUnauthorized)
		}
	})
}

// serveMetrics serves the metrics on the address configured for them, if any.
func serveMetrics(ctx context.Context, c *config.Config, reg *prometheus.Registry) error {
	if c.Metrics.Listen == "" {
		<-ctx.Done()
		return nil
	}
	l, err := listen(c.Metrics.Listen, "--metrics-listen")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
