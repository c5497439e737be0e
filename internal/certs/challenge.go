package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/acme"

	"patchbay/internal/netx"
	"patchbay/internal/store"
)

// ChallengePath is where an authority asks for the answer of an HTTP-01 challenge (RFC 8555 §8.3).
const ChallengePath = "/.well-known/acme-challenge/"

// challengeLife is how long an answer is given. It is longer than any order takes.
const challengeLife = time.Hour

// present makes the answer to a challenge available, and returns what takes it back.
func (m *Manager) present(ctx context.Context, c *acme.Client, name string, challenge *acme.Challenge) (func(), error) {
	answer, err := answerTo(c, name, challenge)
	if err != nil {
		return nil, err
	}
	r := store.ACMEChallenge{Kind: challenge.Type, Token: challenge.Token, Name: name, Sealed: m.Box.Seal(answer),
		Expires: time.Now().Add(challengeLife)}
	if err := m.Store.AddChallenge(ctx, r); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.answers = append(m.answers, r)
	m.mu.Unlock()
	remove := func() {
		m.mu.Lock()
		m.answers = slices.DeleteFunc(m.answers, func(a store.ACMEChallenge) bool { return a == r })
		m.mu.Unlock()
		// If the time is not enough, the next order of the name takes the rest back.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTime+5*time.Second)
		defer cancel()
		if err := m.remove(ctx, r); err != nil {
			m.Logger.Warn("the answer to a challenge could not be removed", "name", name, "error", err)
		}
	}
	if r.Kind != DNS01 {
		return remove, nil
	}
	if err := m.runDNS(ctx, "add", name, answer); err != nil {
		remove()
		return nil, err
	}
	if err := netx.Wait(ctx, m.DNSWait); err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// answerTo returns the answer to a challenge: the content for HTTP-01, the certificate and its key
// for TLS-ALPN-01, the value of the TXT record for DNS-01.
func answerTo(c *acme.Client, name string, challenge *acme.Challenge) (string, error) {
	switch challenge.Type {
	case HTTP01:
		return c.HTTP01ChallengeResponse(challenge.Token)
	case DNS01:
		return c.DNS01ChallengeRecord(challenge.Token)
	}
	pair, err := c.TLSALPN01ChallengeCert(challenge.Token, name)
	if err != nil {
		return "", err
	}
	key, err := keyPEM(pair.PrivateKey.(*ecdsa.PrivateKey)) // it makes P-256 keys
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})) + key, nil
}

// remove takes back the answer to a challenge.
func (m *Manager) remove(ctx context.Context, r store.ACMEChallenge) error {
	if r.Kind == DNS01 {
		value, err := m.Box.Open(r.Sealed)
		if err == nil && len(m.DNSCommand) > 0 {
			err = m.runDNS(ctx, "remove", r.Name, value)
		}
		if err != nil {
			m.Logger.Warn("a TXT record could not be removed", "name", dnsName(r.Name), "error", err)
		}
	}
	return m.Store.RemoveChallenge(ctx, r.Kind, r.Token)
}

// removeLeftovers takes back the answers of an order that a crash interrupted.
func (m *Manager) removeLeftovers(ctx context.Context, name string) error {
	list, err := m.Store.Challenges(ctx, name)
	for _, r := range list {
		err = errors.Join(err, m.remove(ctx, r))
	}
	return err
}

// challengeToken matches tokens of challenges: at least 128 bits in base64url (RFC 8555 §8.3).
var challengeToken = regexp.MustCompile(`^[A-Za-z0-9_-]{16,128}$`)

// ServeHTTP answers HTTP-01 challenges, on whichever instance they arrive.
func (m *Manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.URL.Path, ChallengePath)
	if !challengeToken.MatchString(token) {
		http.NotFound(w, r)
		return
	}
	answer, err := m.answer(r.Context(), func(c store.ACMEChallenge) bool {
		return c.Kind == HTTP01 && c.Token == token
	})
	if err != nil {
		if !errors.Is(err, store.ErrNotFound) {
			m.Logger.Warn("a challenge could not be answered", "error", err)
		}
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream") // RFC 8555 §8.3
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Write([]byte(answer)) //nolint:errcheck // the authority has disconnected
}

// answer returns the answer to a challenge, or [store.ErrNotFound]. Those of this instance's own
// order are in memory.
func (m *Manager) answer(ctx context.Context, is func(store.ACMEChallenge) bool) (string, error) {
	m.mu.Lock()
	all := slices.Clone(m.answers)
	m.mu.Unlock()
	if i := slices.IndexFunc(all, is); i >= 0 {
		return m.Box.Open(all[i].Sealed)
	}
	all, err := m.others.all(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, is)
	if i < 0 {
		return "", store.ErrNotFound
	}
	return m.Box.Open(all[i].Sealed)
}

// challengeCertificate returns the certificate that answers a TLS-ALPN-01 challenge.
func (m *Manager) challengeCertificate(ctx context.Context, name string) (*tls.Certificate, error) {
	answer, err := m.answer(ctx, func(c store.ACMEChallenge) bool { return c.Kind == TLSALPN01 && c.Name == name })
	if err != nil {
		return nil, fmt.Errorf("challenge for %q: %w", name, err)
	}
	pair, err := tls.X509KeyPair([]byte(answer), []byte(answer))
	return &pair, err
}

// selfSigned makes the certificate for clients on this machine before there is a real one. Nobody
// else trusts it.
func selfSigned() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "Patchbay"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
