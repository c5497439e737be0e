package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"golang.org/x/crypto/acme"

	"patchbay/internal/store"
)

// pending is an order that the authority is asked to issue. It is stored before that, so that a
// certificate that was issued while the server or its database failed is fetched later, instead of
// ordered again: authorities allow few duplicates in a week.
type pending struct {
	Directory string    `json:"directory"`
	Name      string    `json:"name"`
	URL       string    `json:"url"` // of the order
	Key       string    `json:"key"` // PEM, of the certificate
	Kind      string    `json:"kind"`
	Made      time.Time `json:"made"`
}

// pendingLife is how long an order is resumed. Let's Encrypt keeps them for a week; the limit is
// for an order that the authority can neither finish nor refuse.
const pendingLife = 24 * time.Hour

// errNoOrder means that there is no order to resume.
var errNoOrder = errors.New("there is no order to resume")

// newPending makes and stores the key for an order.
func (m *Manager) newPending(ctx context.Context, name, url, kind string) (p pending, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return p, err
	}
	text, err := keyPEM(key)
	if err != nil {
		return p, err
	}
	p = pending{m.Directory, name, url, text, kind, time.Now().UTC()}
	stored, err := json.Marshal(p)
	if err != nil {
		return p, err
	}
	return p, m.Store.SavePending(ctx, name, m.Directory, m.Box.Seal(string(stored)))
}

// resume gets the certificate of the pending order of a row. The error is [errNoOrder] if there is
// none, or if the authority will not issue it.
func (m *Manager) resume(ctx context.Context, c *acme.Client, r store.Certificate) (got issuedCertificate, err error) {
	if r.Pending == "" {
		return got, errNoOrder
	}
	var p pending
	text, err := m.Box.Open(r.Pending)
	if err == nil {
		err = json.Unmarshal([]byte(text), &p)
	}
	if err != nil { // the installation's secret was lost
		m.Logger.Warn("a pending order cannot be read", "name", r.Name, "error", err)
		return got, errNoOrder
	}
	if p.Directory != m.Directory || p.Name != r.Name || time.Since(p.Made).Abs() > pendingLife {
		return got, errNoOrder
	}
	o, err := c.WaitOrder(ctx, p.URL)
	if err == nil {
		got, err = m.finish(ctx, c, o, p)
	}
	if err = forgotten(err); refused(err) {
		m.Logger.Info("a pending order was refused; another one is made", "name", r.Name, "error", err)
		return got, errNoOrder
	}
	return got, err
}

// refused reports whether the authority will answer the same again.
func refused(err error) bool {
	if _, ok := errors.AsType[*acme.OrderError](err); ok {
		return true
	}
	e, ok := errors.AsType[*acme.Error](err)
	return ok && e.StatusCode >= 400 && e.StatusCode < 500 && e.StatusCode != http.StatusTooManyRequests
}

// finish gets the certificate of an order whose name is proved.
func (m *Manager) finish(ctx context.Context, c *acme.Client, o *acme.Order, p pending) (got issuedCertificate,
	err error) {
	key, err := parseKey(p.Key)
	if err != nil {
		return got, err
	}
	got.key, got.kind = p.Key, p.Kind
	url, chain := o.CertURL, [][]byte(nil)
	if o.Status == acme.StatusValid {
		chain, err = c.FetchCert(ctx, url, true)
	} else {
		var csr []byte
		csr, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{p.Name}}, key)
		if err == nil {
			chain, url, err = c.CreateCertFromOrder(ctx, o, csr, true)
		}
	}
	if err != nil {
		return got, err
	}
	err = m.choose(ctx, c, &got, p.Name, chain, url, key)
	return got, err
}
