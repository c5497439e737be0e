package certs

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"patchbay/internal/store"
)

// renewal returns when a certificate is renewed: after two thirds of its lifetime.
func renewal(leaf *x509.Certificate) time.Time {
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 2 / 3)
}

// askDue reports whether the authority should be asked again when to renew a certificate.
func (m *Manager) askDue(r store.Certificate, now time.Time) bool {
	if r.Chain == "" || r.Directory != m.Directory {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.Sub(m.askedAt[r.Name]) >= m.Times.ARI
}

// ask asks the authority when to renew a certificate (RFC 9773), and stores the answer. An
// authority that is about to revoke a certificate answers with a time that has passed. A failure
// changes nothing.
func (m *Manager) ask(ctx context.Context, r *store.Certificate, now time.Time) error {
	m.mu.Lock()
	m.askedAt[r.Name] = now
	m.mu.Unlock()
	at, err := m.suggested(ctx, r.Chain)
	if err != nil {
		m.Logger.Debug("the authority did not say when to renew", "name", r.Name, "error", err)
		return ctx.Err()
	}
	if at.IsZero() || !at.Before(r.Expires) || at.Sub(r.Renew).Abs() < time.Minute {
		return nil
	}
	if r.Renew.After(at) || r.Renew.Before(now) {
		m.Logger.Info("the authority says when to renew", "name", r.Name, "at", at)
	}
	r.Renew = at
	if err := m.Store.SaveAttempt(ctx, *r); err != nil {
		return err
	}
	m.mu.Lock()
	m.rows[r.Name] = *r
	m.mu.Unlock()
	return nil
}

// suggested returns a time in the window that the authority suggests for the renewal of a
// certificate; zero if it has no such service (RFC 9773 §4).
func (m *Manager) suggested(ctx context.Context, chain string) (at time.Time, err error) {
	var directory struct {
		RenewalInfo string `json:"renewalInfo"`
	}
	if err := m.getJSON(ctx, m.Directory, &directory); err != nil || directory.RenewalInfo == "" {
		return at, err
	}
	id, err := renewalID(chain)
	if err != nil {
		return at, err
	}
	var info struct {
		Window struct {
			Start time.Time `json:"start"`
			End   time.Time `json:"end"`
		} `json:"suggestedWindow"`
	}
	if err := m.getJSON(ctx, directory.RenewalInfo+"/"+id, &info); err != nil {
		return at, err
	}
	w := info.Window
	if w.Start.IsZero() || !w.End.After(w.Start) {
		return at, errors.New("its window is empty")
	}
	return w.Start.Add(rand.N(w.End.Sub(w.Start))), nil
}

// renewalID is the id of a certificate in RFC 9773 §4.1: the key of its issuer and its serial
// number, with the byte for the sign.
func renewalID(chain string) (string, error) {
	block, _ := pem.Decode([]byte(chain))
	if block == nil {
		return "", errors.New("no certificate")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	if len(leaf.AuthorityKeyId) == 0 {
		return "", errors.New("a certificate without the key of its issuer")
	}
	serial := leaf.SerialNumber.Bytes()
	if len(serial) > 0 && serial[0]&0x80 != 0 {
		serial = append([]byte{0}, serial...)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode(leaf.AuthorityKeyId) + "." + encode(serial), nil
}

// getJSON gets a small document from the authority.
func (m *Manager) getJSON(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "patchbay/"+m.Version)
	resp, err := m.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", resp.Status)
	}
	const maxDocument = 64 << 10
	return json.NewDecoder(io.LimitReader(resp.Body, maxDocument)).Decode(into)
}
