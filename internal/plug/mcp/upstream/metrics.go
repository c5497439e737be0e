package upstream

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are labelled with slugs, as many as owners have added. Upstreams with the same slug
// share their counters, and the counters of a slug that is no longer in use are dropped.
type metrics struct {
	connected  *prometheus.GaugeVec
	reconnects *prometheus.CounterVec

	mu    sync.Mutex
	users map[string]int
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		connected: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "patchbay", Subsystem: "upstream",
			Name: "connected", Help: "Connections to upstream MCP servers that are ready."}, []string{"upstream"}),
		reconnects: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "patchbay", Subsystem: "upstream",
			Name: "reconnects_total", Help: "Tries to connect to an upstream MCP server after the first."},
			[]string{"upstream"}),
		users: make(map[string]int),
	}
	if reg != nil {
		reg.MustRegister(m.connected, m.reconnects)
	}
	return m
}

func (m *metrics) addUpstream(slug string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users[slug]++
	m.connected.WithLabelValues(slug).Add(0)
	m.reconnects.WithLabelValues(slug).Add(0)
}

func (m *metrics) removeUpstream(slug string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users[slug]--; m.users[slug] > 0 {
		return
	}
	delete(m.users, slug)
	m.connected.DeleteLabelValues(slug)
	m.reconnects.DeleteLabelValues(slug)
}
