package certs

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// Status is the state of the certificate of a name.
type Status struct {
	Name string
	// Issued, Expires and Renews are zero before there is one. Issuer is the common name of its
	// issuer, and Root that of its chain's root.
	Issued, Expires, Renews time.Time
	Issuer, Root            string
	// Failures counts the failed attempts since then. Problem says why the last one failed and what
	// to do, and Retry when the next one is made; both are zero if it succeeded, and before the
	// first.
	Failures int
	Problem  i18n.Text
	Retry    time.Time
}

// Status returns the state of each name, as last read from the database.
func (m *Manager) Status() []Status {
	var out []Status
	for _, name := range m.Names() {
		s := statusOf(m.row(name))
		if s.Failures > 0 {
			s.Retry = m.retryAt(m.row(name), time.Now())
		}
		out = append(out, s)
	}
	return out
}

// Stored returns the state of names that another process looks after.
func Stored(ctx context.Context, t store.Certificates, names []string) ([]Status, error) {
	rows, err := t.All(ctx)
	if err != nil {
		return nil, err
	}
	byName := map[string]store.Certificate{}
	for _, r := range rows {
		byName[r.Name] = r
	}
	out := make([]Status, len(names))
	for i, name := range names {
		name = normal(name)
		r := byName[name]
		r.Name = name
		out[i] = statusOf(r)
	}
	return out, nil
}

func statusOf(r store.Certificate) Status {
	s := Status{Name: r.Name, Issued: r.Issued, Expires: r.Expires, Renews: r.Renew, Failures: r.Failures}
	if r.Problem != "" {
		s.Problem, s.Retry = fault{code: r.Problem, detail: r.Detail}.text(r.Name, r.Challenge), r.Retry
	}
	rest := []byte(r.Chain)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return s
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return s
		}
		if s.Root = c.Issuer.CommonName; s.Issuer == "" {
			s.Issuer = s.Root
		}
	}
}

var (
	expiryMetric = prometheus.NewDesc("patchbay_certificate_expiry_timestamp_seconds",
		"When the certificate of a name expires, as seconds since 1970; 0: there is none.", []string{"name"}, nil)
	failureMetric = prometheus.NewDesc("patchbay_certificate_failures",
		"Failed attempts to get the certificate of a name since the last one that succeeded.", []string{"name"}, nil)
)

// register registers the metrics.
func (m *Manager) register(reg prometheus.Registerer) {
	m.results = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_certificate_orders_total",
		Help: "Orders of certificates by this instance, by result: issued, renewed or failed."}, []string{"result"})
	for _, result := range []string{Issued, Renewed, Failed} {
		m.results.WithLabelValues(result)
	}
	reg.MustRegister(m.results, collector{m})
}

// collector reports the state of the certificates.
type collector struct{ *Manager }

// Describe implements [prometheus.Collector].
func (c collector) Describe(out chan<- *prometheus.Desc) {
	out <- expiryMetric
	out <- failureMetric
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.Status() {
		expires := 0.0
		if !s.Expires.IsZero() {
			expires = float64(s.Expires.Unix())
		}
		out <- prometheus.MustNewConstMetric(expiryMetric, prometheus.GaugeValue, expires, s.Name)
		out <- prometheus.MustNewConstMetric(failureMetric, prometheus.GaugeValue, float64(s.Failures), s.Name)
	}
}
