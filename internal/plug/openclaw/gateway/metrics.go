package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/plug/openclaw/wire"
)

type metrics struct {
	conns             *prometheus.GaugeVec
	refused           *prometheus.CounterVec
	closed            *prometheus.CounterVec
	requests          *prometheus.CounterVec
	invokes           *prometheus.CounterVec
	seconds           prometheus.Histogram
	repeated          prometheus.Counter
	lateResults       prometheus.Counter
	pairings          *prometheus.CounterVec
	runs              *prometheus.CounterVec
	broadcastFailures prometheus.Counter
	operators         prometheus.Gauge
	nodes             prometheus.Gauge
	invoked           [2]prometheus.Counter // successful requests and invokes
}

// newMetrics creates the metrics and registers them if reg is not nil.
func newMetrics(reg prometheus.Registerer, g *Gateway) *metrics {
	name := func(n, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "patchbay", Subsystem: "openclaw", Name: n, Help: help}
	}
	counters := func(n, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(name(n, help)), labels)
	}
	counter := func(n, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(name(n, help)))
	}
	m := &metrics{
		conns: prometheus.NewGaugeVec(prometheus.GaugeOpts(name("connections",
			"Clients of the OpenClaw gateway that are connected, by role.")), []string{"role"}),
		refused: counters("refused_total", "Connections that the OpenClaw gateway refused, by why.", "reason"),
		closed:  counters("closed_total", "Connections of the OpenClaw gateway that ended, by why.", "reason"),
		requests: counters("requests_total", "Requests to the OpenClaw gateway, by method and how they ended.",
			"method", "outcome"),
		invokes: counters("invokes_total", "Calls of nodes' commands by operators, by how they ended.", "outcome"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "patchbay", Subsystem: "openclaw", Name: "node_seconds",
			Help: "How long nodes took for commands.", Buckets: prometheus.ExponentialBuckets(0.0001, 3, 14),
		}),
		repeated: counter("repeated_total",
			"Calls of nodes' commands that were answered with what the same call brought before."),
		lateResults: counter("late_results_total", "Results of nodes that nobody waited for any more."),
		pairings: counters("pairings_total",
			"Programs and nodes that asked to be paired, and what was decided.", "kind", "step"),
		runs: counters("runs_total", "Questions to bots through the OpenClaw gateway, by how they ended.",
			"outcome"),
		broadcastFailures: counter("broadcast_failures_total", "What other instances could not be told."),
	}
	m.operators, m.nodes = m.conns.WithLabelValues(wire.RoleOperator), m.conns.WithLabelValues(wire.RoleNode)
	m.invoked = [2]prometheus.Counter{m.requests.WithLabelValues(wire.MethodNodeInvoke, "ok"),
		m.invokes.WithLabelValues("done")}
	if reg != nil {
		reg.MustRegister(m.conns, m.refused, m.closed, m.requests, m.invokes, m.seconds, m.repeated, m.lateResults,
			m.pairings, m.runs, m.broadcastFailures,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts(name("buffered_bytes",
				"What waits to be sent to clients of the OpenClaw gateway.")),
				func() float64 { return float64(g.buffered.Load()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts(name("half_open",
				"Connections to the OpenClaw gateway that have not said who they are.")),
				func() float64 { return float64(g.Status().HalfOpen) }))
	}
	return m
}
