package eyeclaw

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	connections prometheus.Gauge
	framesIn    prometheus.Counter
	framesOut   prometheus.Counter
	dropped     *prometheus.CounterVec
	closed      *prometheus.CounterVec
	compensated prometheus.Counter
	anomalies   *prometheus.CounterVec
	badTokens   prometheus.Counter
}

// newMetrics returns the metrics and registers them if reg is not nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "patchbay", Subsystem: "cable", Name: name, Help: help}
	}
	frames := prometheus.NewCounterVec(counter("frames_total", "Messages over plugin sockets."), []string{"direction"})
	m := &metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "patchbay", Subsystem: "cable",
			Name: "connections", Help: "Open plugin sockets."}),
		framesIn:  frames.WithLabelValues("in"),
		framesOut: frames.WithLabelValues("out"),
		dropped: prometheus.NewCounterVec(counter("dropped_frames_total", "Inbound messages that were of no use."),
			[]string{"reason"}),
		closed: prometheus.NewCounterVec(counter("closed_total", "Plugin sockets that ended."),
			[]string{"reason"}),
		compensated: prometheus.NewCounter(counter("compensated_characters_total",
			"Characters that were lost on the way and taken from a summary.")),
		anomalies: prometheus.NewCounterVec(counter("anomalies_total",
			"Answers whose pieces, numbers and summary did not fit."), []string{"kind"}),
		badTokens: prometheus.NewCounter(counter("bad_tokens_total", "Handshakes without a valid token.")),
	}
	if reg != nil {
		reg.MustRegister(m.connections, frames, m.dropped, m.closed, m.compensated, m.anomalies, m.badTokens)
	}
	return m
}
