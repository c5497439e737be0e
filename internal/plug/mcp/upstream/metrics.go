package upstream

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are labelled with slugs, as many as owners have added. Upstreams with the same slug
// share their counters, and the counters of a slug that is no longer in use are dropped.
type metrics struct {
	connected  *prometheus.GaugeVec
	held       *prometheus.GaugeVec
	reconnects *prometheus.CounterVec

	mu    sync.Mutex
	users map[string]int
	helds map[string]map[*upstream]int // by slug
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		connected: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "patchbay", Subsystem: "upstream",
			Name: "connected", Help: "Connections to upstream MCP servers that are ready."}, []string{"upstream"}),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "patchbay", Subsystem: "upstream",
			Name: "tools_held", Help: "Tools, prompts, templates and resources that wait for their owner, since their server has changed them."},
			[]string{"upstream"}),
		reconnects: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "patchbay", Subsystem: "upstream",
			Name: "reconnects_total", Help: "Tries to connect to an upstream MCP server after the first."},
			[]string{"upstream"}),
		users: make(map[string]int),
		helds: make(map[string]map[*upstream]int),
	}
	if reg != nil {
		reg.MustRegister(m.connected, m.held, m.reconnects)
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

// setHeld counts what is held back of an upstream: of several with a slug, which may be connections
// of several people to one server, the most.
func (m *metrics) setHeld(u *upstream, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slug := u.spec.Slug
	if m.helds[slug] == nil {
		m.helds[slug] = map[*upstream]int{}
	}
	m.helds[slug][u] = n
	m.held.WithLabelValues(slug).Set(float64(slices.Max(slices.Collect(maps.Values(m.helds[slug])))))
}

func (m *metrics) removeUpstream(u *upstream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slug := u.spec.Slug
	delete(m.helds[slug], u)
	if m.users[slug]--; m.users[slug] > 0 {
		return
	}
	delete(m.users, slug)
	delete(m.helds, slug)
	m.connected.DeleteLabelValues(slug)
	m.held.DeleteLabelValues(slug)
	m.reconnects.DeleteLabelValues(slug)
}
