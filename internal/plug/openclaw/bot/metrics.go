package bot

import (
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/plug/openclaw/client"
)

// metrics complement the hub's own metrics of turns.
type metrics struct {
	connections prometheus.Gauge
	connects    *prometheus.CounterVec
	aborts      *prometheus.CounterVec
}

func newMetrics() *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "patchbay", Subsystem: "openclaw_agent", Name: name, Help: help}
	}
	return &metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts(opts("connections",
			"Connections to OpenClaw gateways whose agents answer."))),
		connects: prometheus.NewCounterVec(prometheus.CounterOpts(opts("connects_total",
			"Connections to OpenClaw gateways whose agents answer: connected, or why there is none, or none any more.")), []string{"outcome"}),
		aborts: prometheus.NewCounterVec(prometheus.CounterOpts(opts("aborts_total",
			"Answers of OpenClaw agents that nobody wanted any more, by whether their gateways were told.")),
			[]string{"outcome"}),
	}
}

// Register registers the metrics.
func (b *Bots) Register(reg prometheus.Registerer) {
	reg.MustRegister(b.metrics.connections, b.metrics.connects, b.metrics.aborts)
}

// changed counts state changes of a connection.
func (m *metrics) changed(was, is client.State) {
	switch {
	case is.Connected && !was.Connected:
		m.connections.Inc()
		m.connects.WithLabelValues("connected").Inc()
	case was.Connected && !is.Connected:
		m.connections.Dec()
	}
	if was.NextTry.IsZero() && !is.NextTry.IsZero() { // it has just failed
		m.connects.WithLabelValues(string(is.Problem.Problem)).Inc()
	}
}

// aborted counts an aborted answer.
func (m *metrics) aborted(err error) {
	outcome := "told"
	if err != nil {
		outcome = "failed"
	}
	m.aborts.WithLabelValues(outcome).Inc()
}
