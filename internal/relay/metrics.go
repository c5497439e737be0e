package relay

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Why connections are refused: the label of patchbay_relay_refused_total.
const (
	refusedHellos   = "hellos"     // too many unfinished hellos
	refusedAddress  = "address"    // too many of one address
	refusedTotal    = "total"      // too many in all
	refusedBroken   = "malformed"  // no TLS, or no valid hello in time
	refusedUnnamed  = "no_name"    // no name in the hello
	refusedUnknown  = "unknown"    // a name of nobody
	refusedOffline  = "offline"    // the home did not come
	refusedRate     = "rate"       // too many new connections to the home
	refusedStreams  = "streams"    // too many connections of the home
	refusedQuota    = "quota"      // the home has used its bytes of the month
	refusedIdentity = "identity"   // a home with an unknown key
	refusedPreamble = "preamble"   // a data connection that is not authentic
	refusedNobody   = "no_website" // the relay's own name without a certificate
)

// metrics are the metrics of a relay.
type metrics struct {
	accepted, in, out prometheus.Counter
	refused           *prometheus.CounterVec
	waited            prometheus.Histogram
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		accepted: prometheus.NewCounter(prometheus.CounterOpts{Name: "patchbay_relay_streams_total",
			Help: "Connections of clients that reached a home."}),
		in: prometheus.NewCounter(prometheus.CounterOpts{Name: "patchbay_relay_in_bytes_total",
			Help: "Bytes from clients to homes."}),
		out: prometheus.NewCounter(prometheus.CounterOpts{Name: "patchbay_relay_out_bytes_total",
			Help: "Bytes from homes to clients."}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_relay_refused_total",
			Help: "Connections that were refused, by reason."}, []string{"reason"}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "patchbay_relay_wait_seconds",
			Help:    "How long clients waited for their home, after their hello.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}),
	}
	s.Registerer.MustRegister(m.accepted, m.in, m.out, m.refused, m.waited,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_relay_homes",
			Help: "Homes that are connected."}, func() float64 { return float64(s.connected()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_relay_streams",
			Help: "Open connections of clients."}, func() float64 { return float64(s.busy.Load()) }))
	return m
}

// connected counts the homes that are connected.
func (s *Server) connected() (n int) {
	for _, h := range s.allHomes() {
		if h.isConnected() {
			n++
		}
	}
	return n
}
