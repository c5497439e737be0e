package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	jose "github.com/go-jose/go-jose/v4"
)

// keysAtMost is how often keys are read: a token with an unknown key may be signed with a new one,
// or may be one of many that are forged.
const keysAtMost = time.Minute

// algorithmNames are the accepted signature algorithms, of those that the provider lists.
var algorithmNames = []string{gooidc.RS256, gooidc.RS384, gooidc.RS512, gooidc.ES256, gooidc.ES384, gooidc.ES512,
	gooidc.PS256, gooidc.PS384, gooidc.PS512, gooidc.EdDSA}

// errNoKey means that no key of the provider has made a signature.
var errNoKey = errors.New("no key of the provider has made the signature")

// keySet has the provider's keys. The key set of go-oidc reads them again for every unknown key.
type keySet struct {
	url    string
	client *http.Client
	now    func() time.Time

	mu   sync.Mutex
	keys []jose.JSONWebKey
	read time.Time // last time that they were, or should have been, read
}

// VerifySignature returns the content of a token that the provider has signed.
func (s *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	algs := make([]jose.SignatureAlgorithm, len(algorithmNames))
	for i, name := range algorithmNames {
		algs[i] = jose.SignatureAlgorithm(name)
	}
	signed, err := jose.ParseSignedCompact(token, algs)
	if err != nil {
		return nil, err
	}
	if len(signed.Signatures) != 1 {
		return nil, errNoKey
	}
	keys, err := s.current(ctx, nil)
	if err != nil {
		return nil, err
	}
	if content, ok := verify(signed, keys); ok {
		return content, nil
	}
	if keys, err = s.current(ctx, keys); err != nil {
		return nil, err
	}
	if content, ok := verify(signed, keys); ok {
		return content, nil
	}
	return nil, errNoKey
}

// verify tries the keys that may have made the signature.
func verify(signed *jose.JSONWebSignature, keys []jose.JSONWebKey) ([]byte, bool) {
	head := signed.Signatures[0].Header
	for _, k := range keys {
		if head.KeyID != "" && k.KeyID != head.KeyID || k.Algorithm != "" && k.Algorithm != head.Algorithm ||
			k.Use != "" && k.Use != "sig" {
			continue
		}
		if content, err := signed.Verify(&k); err == nil {
			return content, true
		}
	}
	return nil, false
}

// current returns the keys, and reads them if there are none or those that were tried did not do,
// unless they have just been read.
func (s *keySet) current(ctx context.Context, tried []jose.JSONWebKey) ([]jose.JSONWebKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := keysAtMost
	if len(s.keys) == 0 {
		wait = retryAfter // nothing to go on with: the provider was away
	}
	enough := len(s.keys) > 0 && tried == nil
	if enough || !s.read.IsZero() && s.now().Sub(s.read) < wait {
		if len(s.keys) == 0 {
			return nil, fmt.Errorf("%w: its keys could not be read a moment ago", ErrAway)
		}
		return s.keys, nil
	}
	s.read = s.now()
	keys, err := s.fetch(context.WithoutCancel(ctx))
	if err != nil {
		if len(s.keys) > 0 {
			return s.keys, nil
		}
		return nil, errors.Join(ErrAway, err)
	}
	s.keys = keys
	return keys, nil
}

// fetch reads the keys.
func (s *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the keys of the provider: %s", resp.Status)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return parseKeys(text)
}

// parseKeys parses keys (RFC 7517), and omits those that are not understood, as §5 wants.
func parseKeys(text []byte) ([]jose.JSONWebKey, error) {
	var list struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("the keys of the provider: %w", err)
	}
	var keys []jose.JSONWebKey
	for _, raw := range list.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && k.IsPublic() && k.Valid() {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the provider has no keys for signatures")
	}
	return keys, nil
}
