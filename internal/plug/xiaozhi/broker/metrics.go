package broker

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/plug/xiaozhi/mqtt"
)

type metrics struct {
	up       prometheus.Gauge
	connects prometheus.Counter
	boards   prometheus.Gauge
	received prometheus.Counter
	pushed   prometheus.Counter
	dropped  *prometheus.CounterVec
	refused  *prometheus.CounterVec
	closed   *prometheus.CounterVec
	probes   prometheus.Counter
	logins   *prometheus.CounterVec
}

// newMetrics makes the metrics and registers them if reg is not nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "patchbay", Subsystem: "broker", Name: name, Help: help}
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "patchbay", Subsystem: "broker", Name: name,
			Help: help})
	}
	messages := prometheus.NewCounterVec(counter("messages_total",
		"Messages of and to voice boards behind an external MQTT broker."), []string{"direction"})
	m := &metrics{
		up: gauge("up", "Whether this instance has the connection to the external MQTT broker."),
		connects: prometheus.NewCounter(counter("connects_total",
			"Connections to the external MQTT broker that came about.")),
		boards:   gauge("boards", "Voice boards that are there behind the external MQTT broker."),
		received: messages.WithLabelValues("in"),
		pushed:   messages.WithLabelValues("out"),
		dropped: prometheus.NewCounterVec(counter("dropped_messages_total",
			"Messages of an external MQTT broker that were not looked at."), []string{"reason"}),
		refused: prometheus.NewCounterVec(counter("refused_total",
			"Voice boards behind an external MQTT broker that were not let in."), []string{"reason"}),
		closed: prometheus.NewCounterVec(counter("closed_total",
			"Voice boards behind an external MQTT broker that are gone."), []string{"reason"}),
		probes: prometheus.NewCounter(counter("probes_total",
			"How often voice boards were asked whether they are there.")),
		logins: prometheus.NewCounterVec(counter("logins_total",
			"Answers to an external MQTT broker that asked who may do what."), []string{"question", "result"}),
	}
	if reg != nil {
		reg.MustRegister(m.up, m.connects, m.boards, messages, m.dropped, m.refused, m.closed, m.probes, m.logins)
	}
	return m
}

// closeReason returns the metric label for the end of a Conn.
func closeReason(err error) string {
	for _, e := range []struct {
		err  error
		name string
	}{
		{nil, "disconnect"}, {mqtt.ErrTakenOver, "taken_over"}, {mqtt.ErrSlow, "slow"}, {mqtt.ErrSilent, "silent"},
		{mqtt.ErrShutdown, "shutdown"}, {mqtt.ErrClosed, "closed"}, {ErrBoardDisconnected, "lost"},
		{ErrOtherInstance, "moved"}, {ErrBrokerUnreachable, "broker"},
	} {
		if errors.Is(err, e.err) {
			return e.name
		}
	}
	return "lost"
}
