package shim

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	nodes, connected prometheus.Gauge
	calls            *prometheus.CounterVec
	seconds          prometheus.Histogram
	notices          *prometheus.CounterVec
}

// newMetrics creates the metrics and registers them if reg is not nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "patchbay", Subsystem: "openclaw_shim", Name: name, Help: help}
	}
	m := &metrics{
		nodes: prometheus.NewGauge(prometheus.GaugeOpts(opts("nodes",
			"Nodes that join OpenClaw gateways of others."))),
		connected: prometheus.NewGauge(prometheus.GaugeOpts(opts("connected",
			"Nodes that are connected to OpenClaw gateways of others."))),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts(opts("calls_total",
			"Calls of nodes' commands by OpenClaw gateways of others, by how they ended.")), []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "patchbay", Subsystem: "openclaw_shim", Name: "call_seconds",
			Help:    "How long calls by OpenClaw gateways of others took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 12),
		}),
		notices: prometheus.NewCounterVec(prometheus.CounterOpts(opts("notices_total",
			"What devices told by themselves, by whether OpenClaw gateways of others were told.")),
			[]string{"outcome"}),
	}
	if reg != nil {
		reg.MustRegister(m.nodes, m.connected, m.calls, m.seconds, m.notices)
	}
	return m
}
