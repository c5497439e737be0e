package certs

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/crypto/acme"

	"patchbay/internal/store"
)

// issuedCertificate is the result of an order.
type issuedCertificate struct {
	chain, key string // PEM
	leaf       *x509.Certificate
	root       string // common name of the chain's root
	kind       string // of the challenge that was answered for it
}

// open returns the client of the account at the authority, which is registered if there is none.
// Using the setting means agreement to the authority's terms; the manual says so.
func (m *Manager) open(ctx context.Context) (*acme.Client, error) {
	if m.client != nil {
		return m.client, nil
	}
	url, key, err := m.account(ctx)
	if err != nil {
		return nil, err
	}
	c := &acme.Client{Key: key, DirectoryURL: m.Directory, HTTPClient: m.http, RetryBackoff: retryRequest,
		UserAgent: "patchbay/" + m.Version, KID: acme.KeyID(url)}
	if url == "" {
		a := &acme.Account{ExternalAccountBinding: m.eab}
		if m.Email != "" {
			a.Contact = []string{"mailto:" + m.Email}
		}
		_, err := c.Register(ctx, a, acme.AcceptTOS)
		if err != nil && !errors.Is(err, acme.ErrAccountAlreadyExists) {
			return nil, &accountError{err}
		}
		if err := m.saveAccount(ctx, string(c.KID), key); err != nil {
			return nil, err
		}
	}
	m.client = c
	return c, nil
}

// account returns the stored account, or a new key, which is stored before it is used.
func (m *Manager) account(ctx context.Context) (url string, key crypto.Signer, err error) {
	url, sealed, err := m.Store.Account(ctx, m.Directory)
	if err == nil {
		text, err := m.Box.Open(sealed)
		if err == nil {
			key, err = parseKey(text)
		}
		if err == nil {
			return url, key, nil
		}
		m.Logger.Warn("the key of the account at the certificate authority cannot be read; another one is made",
			"error", err)
	} else if !errors.Is(err, store.ErrNotFound) {
		return "", nil, err
	}
	fresh, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", nil, err
	}
	return "", fresh, m.saveAccount(ctx, "", fresh)
}

func (m *Manager) saveAccount(ctx context.Context, url string, key crypto.Signer) error {
	text, err := keyPEM(key)
	if err != nil {
		return err
	}
	return m.Store.SaveAccount(ctx, m.Directory, url, m.Box.Seal(text))
}

// forgetAccount makes the next order register the key again.
func (m *Manager) forgetAccount(ctx context.Context) error {
	key := m.client.Key
	m.client = nil
	return m.saveAccount(ctx, "", key)
}

// retryRequest returns the delay before a failed request to the authority is repeated; 0: it is
// not. An order that fails is repeated as a whole, later. A wrong nonce is no failure (RFC 8555
// §6.5).
func retryRequest(n int, _ *http.Request, resp *http.Response) time.Duration {
	switch {
	case n > 5 || resp.StatusCode == http.StatusTooManyRequests:
		return 0
	case resp.StatusCode == http.StatusBadRequest:
		return time.Millisecond
	case n > 2:
		return 0
	}
	return time.Second
}

// order gets a certificate for the name of a row.
func (m *Manager) order(ctx context.Context, r store.Certificate, kind string) (got issuedCertificate, err error) {
	c, err := m.open(ctx)
	if err != nil {
		return got, err
	}
	if err := m.removeLeftovers(ctx, r.Name); err != nil {
		return got, err
	}
	if got, err = m.resume(ctx, c, r); !errors.Is(err, errNoOrder) {
		return got, err
	}
	var options []acme.OrderOption
	if m.Profile != "" {
		options = append(options, acme.WithOrderIssuanceProfile(acme.ProfileName(m.Profile)))
	}
	o, err := c.AuthorizeOrder(ctx, acme.DomainIDs(r.Name), options...)
	if err != nil {
		return got, forgotten(err)
	}
	for _, url := range o.AuthzURLs {
		if err := m.authorize(ctx, c, url, r.Name, kind); err != nil {
			return got, err
		}
	}
	if o, err = c.WaitOrder(ctx, o.URI); err != nil {
		return got, err
	}
	p, err := m.newPending(ctx, r.Name, o.URI, kind)
	if err != nil {
		return got, err
	}
	return m.finish(ctx, c, o, p)
}

// forgotten returns [errNoAccount] if the authority does not know the account any more.
func forgotten(err error) error {
	if e, ok := errors.AsType[*acme.Error](err); ok && strings.HasSuffix(e.ProblemType, ":accountDoesNotExist") {
		return errNoAccount
	}
	return err
}

// authorize proves to the authority that a name leads here.
func (m *Manager) authorize(ctx context.Context, c *acme.Client, url, name, kind string) error {
	z, err := c.GetAuthorization(ctx, url)
	if err != nil || z.Status == acme.StatusValid { // a proof is good for some days
		return err
	}
	offered := make([]string, len(z.Challenges))
	for i, challenge := range z.Challenges {
		offered[i] = challenge.Type
		if challenge.Type != kind {
			continue
		}
		remove, err := m.present(ctx, c, name, challenge)
		if err != nil {
			return err
		}
		defer remove()
		if _, err := c.Accept(ctx, challenge); err != nil {
			return err
		}
		_, err = c.WaitAuthorization(ctx, url)
		return err
	}
	return &noChallengeError{kind, offered}
}

// choose takes the chain whose root is the preferred one, or else the authority's first.
func (m *Manager) choose(ctx context.Context, c *acme.Client, got *issuedCertificate, name string,
	first [][]byte, url string, key crypto.Signer) error {
	if err := got.take(name, first, key); err != nil || m.Chain == "" || hasIssuer(first, m.Chain) {
		return err
	}
	others, err := c.ListCertAlternates(ctx, url)
	if err != nil {
		m.Logger.Debug("no other chains", "error", err)
		return nil // the first one is good
	}
	for _, other := range others {
		chain, err := c.FetchCert(ctx, other, true)
		if err == nil && hasIssuer(chain, m.Chain) {
			return got.take(name, chain, key)
		}
	}
	return nil
}

// take checks a chain and makes it that of the certificate.
func (got *issuedCertificate) take(name string, chain [][]byte, key crypto.Signer) error {
	if len(chain) == 0 {
		return errors.New("the authority sent no certificate")
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return fmt.Errorf("the authority's certificate: %w", err)
	}
	if public, ok := leaf.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(key.Public()) {
		return errors.New("the authority's certificate is for another key")
	}
	if err := leaf.VerifyHostname(name); err != nil {
		return fmt.Errorf("the authority's certificate: %w", err)
	}
	var text bytes.Buffer
	for _, der := range chain {
		pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}) //nolint:errcheck // it is in memory
	}
	last, err := x509.ParseCertificate(chain[len(chain)-1])
	if err != nil {
		return fmt.Errorf("the authority's chain: %w", err)
	}
	got.leaf, got.chain, got.root = leaf, text.String(), last.Issuer.CommonName
	return nil
}

// hasIssuer reports whether a certificate of a chain was issued by the holder of a common name.
func hasIssuer(chain [][]byte, name string) bool {
	for _, der := range chain {
		if c, err := x509.ParseCertificate(der); err == nil && c.Issuer.CommonName == name {
			return true
		}
	}
	return false
}

func keyPEM(key crypto.Signer) (string, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
}

func parseKey(text string) (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no private key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("a private key that cannot sign")
	}
	return signer, nil
}
