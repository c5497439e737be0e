package udp

import "github.com/prometheus/client_golang/prometheus"

// verdict is the result of checking a datagram; the values are in the order of the checks.
type verdict int

const (
	accepted verdict = iota
	badLength
	badType
	unknown
	replayed
	tooOld
	tooFar
	notOpus
	unexpectedLength // accepted, although its length is not the announced one
	verdictCount
)

// verdictNames are the metric labels.
var verdictNames = [verdictCount]string{"accepted", "length", "type", "unknown", "replayed", "old", "ahead", "opus",
	"unannounced"}

type metrics struct {
	sessions prometheus.Gauge
	verdicts [verdictCount]prometheus.Counter
	dropped  prometheus.Counter
	moved    prometheus.Counter
	sent     prometheus.Counter
	unsent   prometheus.Counter
}

// newMetrics makes the metrics and registers them if reg is not nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "patchbay", Subsystem: "audio", Name: name, Help: help}
	}
	received := prometheus.NewCounterVec(counter("received_datagrams_total",
		"Datagrams that came, by what became of them."), []string{"verdict"})
	sent := prometheus.NewCounterVec(counter("sent_datagrams_total", "Datagrams to voice boards."), []string{"result"})
	m := &metrics{
		sessions: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "patchbay", Subsystem: "audio",
			Name: "sessions", Help: "Conversations whose audio is in datagrams."}),
		dropped: prometheus.NewCounter(counter("dropped_packets_total",
			"Packets of voice boards that were not waited for any more.")),
		moved: prometheus.NewCounter(counter("moved_total",
			"Changes of a voice board's address within a conversation.")),
		sent:   sent.WithLabelValues("sent"),
		unsent: sent.WithLabelValues("failed"),
	}
	for v, name := range verdictNames {
		m.verdicts[v] = received.WithLabelValues(name)
	}
	if reg != nil {
		reg.MustRegister(m.sessions, received, sent, m.dropped, m.moved)
	}
	return m
}
