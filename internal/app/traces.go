package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/config"
	"patchbay/internal/tracing"
)

// tracingOptions returns the configured options of traces.
func tracingOptions(c *config.Config) tracing.Options {
	headers, _ := config.ParseHeaders(c.OTLP.Headers) // valid, or the configuration was refused
	return tracing.Options{URL: c.OTLP.URL, Headers: headers, Percent: c.OTLP.Sample}
}

// newTracer returns the tracer of the server; nil: nothing is traced.
func newTracer(b *Base, instance string, log *slog.Logger, reg prometheus.Registerer) *tracing.Tracer {
	o := tracingOptions(b.Config)
	o.Version, o.Instance, o.Logger, o.Registerer = b.Version, instance, log, reg
	return tracing.New(o)
}

// lastTraces is how long the last spans may take to reach the collector when the server stops.
const lastTraces = 3 * time.Second

func closeTracer(t *tracing.Tracer) {
	ctx, cancel := context.WithTimeout(context.Background(), lastTraces)
	defer cancel()
	t.Close(ctx)
}

// checkTraces checks the collector of traces, if there is one.
func (e *examination) checkTraces(ctx context.Context) {
	tracing.Check(ctx, e.Report, tracingOptions(e.settings))
}
