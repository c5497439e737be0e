package rokid

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// quota counts actions per person and hour.
type quota struct {
	limit int

	mu    sync.Mutex
	since time.Time
	used  map[string]int
}

// maxQuotaPeople is the size limit of the table; beyond it all counts are reset.
const maxQuotaPeople = 50_000

func newQuota(limit int) *quota { return &quota{limit: limit, used: map[string]int{}} }

// allow counts one action and reports whether it is within the limit.
func (q *quota) allow(who string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); now.Sub(q.since) > time.Hour || len(q.used) > maxQuotaPeople {
		q.since = now
		clear(q.used)
	}
	q.used[who]++
	return q.used[who] <= q.limit
}

type metrics struct {
	refused  *prometheus.CounterVec
	bindings *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_lingzhu_refused_total",
			Help: "Requests of the Lingzhu platform that were refused."}, []string{"cause"}),
		bindings: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_bindings_total",
			Help: "Steps of binding a wearer to a bot, by how they ended."}, []string{"outcome"}),
	}
	reg.MustRegister(m.refused, m.bindings)
	return m
}
