package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/acme"

	"patchbay/internal/certs/pebbletest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// get asks a manager for the answer to an HTTP-01 challenge.
func get(t *testing.T, m *Manager, token string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, ChallengePath+token, nil))
	return w
}

// However many strangers ask for answers that there are not, an authority gets those of another
// instance. They cost few looks into the database.
func TestStrangers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, so store.Options) {
		db := storetest.Open(t, so)
		m, err := New(options(t, db, &pebbletest.Pebble{}, HTTP01))
		if err != nil {
			t.Fatal(err)
		}
		var looks atomic.Int64
		read := m.others.read
		m.others.read = func(ctx context.Context) ([]store.ACMEChallenge, error) {
			looks.Add(1)
			return read(ctx)
		}
		began := time.Now()
		var strangers sync.WaitGroup
		for i := range 500 {
			strangers.Go(func() {
				if w := get(t, m, fmt.Sprintf("token-of-a-stranger-%d", i)); w.Code != http.StatusNotFound {
					t.Errorf("a stranger got %d", w.Code)
				}
			})
		}
		for i := range 5 {
			token := fmt.Sprintf("token-of-another-instance-%d", i)
			c := store.ACMEChallenge{Kind: HTTP01, Token: token, Name: "board.example.org",
				Sealed: testBox().Seal("answer"), Expires: time.Now().Add(time.Hour)}
			if err := db.Certificates.AddChallenge(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if w := get(t, m, token); w.Code != http.StatusOK || w.Body.String() != "answer" {
				t.Errorf("the authority got %d %s", w.Code, w.Body)
			}
		}
		strangers.Wait()
		if most := int64(time.Since(began)/lookEvery) + 1; looks.Load() > most {
			t.Errorf("%d looks, more than %d", looks.Load(), most)
		}
	})
}

// The answers of this instance's own order need no database.
func TestOwnAnswers(t *testing.T) {
	db := storetest.SQLite(t)
	m, err := New(options(t, db, &pebbletest.Pebble{}, HTTP01))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const token, name = "token-of-this-instance", "board.example.org"
	var removes []func()
	for _, kind := range []string{HTTP01, TLSALPN01} {
		remove, err := m.present(t.Context(), &acme.Client{Key: key}, name, &acme.Challenge{Type: kind, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		removes = append(removes, remove)
	}
	read := m.others.read
	m.others.read = func(context.Context) ([]store.ACMEChallenge, error) {
		t.Error("the database was asked")
		return nil, store.ErrNotFound
	}
	if w := get(t, m, token); w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), token+".") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if c, err := m.challengeCertificate(t.Context(), name); err != nil {
		t.Error(err)
	} else if err := c.Leaf.VerifyHostname(name); err != nil {
		t.Error(err)
	}
	m.others.read = read
	for _, remove := range removes {
		remove()
	}
	if w := get(t, m, token); w.Code != http.StatusNotFound {
		t.Errorf("an answer was left: %d", w.Code)
	}
}
