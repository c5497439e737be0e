package mqtt

import (
	"errors"
	"io"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	connections prometheus.Gauge
	received    prometheus.Counter
	pushed      prometheus.Counter
	dropped     *prometheus.CounterVec
	refused     *prometheus.CounterVec
	closed      *prometheus.CounterVec
	throttled   prometheus.Counter
}

// newMetrics makes the metrics and registers them if reg is not nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "patchbay", Subsystem: "mqtt", Name: name, Help: help}
	}
	messages := prometheus.NewCounterVec(counter("messages_total", "Messages of and to voice boards over MQTT."),
		[]string{"direction"})
	m := &metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "patchbay", Subsystem: "mqtt",
			Name: "connections", Help: "Voice boards that are connected over MQTT."}),
		received: messages.WithLabelValues("in"),
		pushed:   messages.WithLabelValues("out"),
		dropped: prometheus.NewCounterVec(counter("dropped_messages_total",
			"Messages of voice boards that were not looked at."), []string{"reason"}),
		refused: prometheus.NewCounterVec(counter("refused_total", "MQTT connections that did not come about."),
			[]string{"reason"}),
		closed: prometheus.NewCounterVec(counter("closed_total", "MQTT connections that ended."),
			[]string{"reason"}),
		throttled: prometheus.NewCounter(counter("throttled_packets_total",
			"Packets that were not read before a while, as too many came.")),
	}
	if reg != nil {
		reg.MustRegister(m.connections, messages, m.dropped, m.refused, m.closed, m.throttled)
	}
	return m
}

// Metric labels of refusals without a return code.
const (
	refusedFull     = "full"      // too many connections, or too many before authentication
	refusedTLS      = "tls"       // the TLS handshake failed
	refusedSilent   = "timeout"   // no complete CONNECT in time
	refusedProtocol = "malformed" // not a valid CONNECT
	refusedLost     = "lost"      // the peer closed the connection
)

// refusalReason returns the metric label of a failed handshake.
func refusalReason(err error) string {
	var code Refusal
	var noTLS tlsError
	switch {
	case errors.As(err, &noTLS):
		return refusedTLS
	case errors.Is(err, ErrTakenOver), errors.Is(err, ErrShutdown):
		return closeReason(err)
	case errors.As(err, &code):
		return code.label()
	case errors.Is(err, ErrProtocol):
		return refusedProtocol
	case timedOut(err):
		return refusedSilent
	}
	return refusedLost
}

// closeReason returns the metric label for the end of a connection.
func closeReason(err error) string {
	for _, e := range []struct {
		err  error
		name string
	}{
		{nil, "disconnect"}, {ErrTakenOver, "taken_over"}, {ErrSlow, "slow"}, {ErrSilent, "silent"},
		{ErrProtocol, "protocol"},
		{ErrShutdown, "shutdown"}, {ErrClosed, "closed"}, {io.EOF, "dropped"},
	} {
		if errors.Is(err, e.err) {
			return e.name
		}
	}
	return "lost"
}
