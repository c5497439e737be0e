package app

import (
	"testing"

	"patchbay/internal/oidc/oidctest"
	"patchbay/internal/store"
)

// A person who has no password here lets a program in after signing in at the provider.
func TestConsentAtTheProvider(t *testing.T) {
	peer := oidctest.New(t)
	s := newOAuthServerWith(t, Options{}, map[string]string{"oidc.issuer": peer.URL, "oidc.only": "true",
		"oidc.client_id": oidctest.ClientID, "oidc.client_secret": oidctest.Secret})
	must(t, s.base.Accounts.Link(t.Context(), store.Linked{Issuer: peer.URL, Subject: "s-1", Person: s.person}))
	session, err := s.sdk("/mcp", allowAll)
	must(t, err)
	defer session.Close()
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) == 0 {
		t.Fatalf("the program sees %v, %v", tools, err)
	}
	keys, err := s.base.Store.Keys.ByPerson(t.Context(), s.person)
	if err != nil || len(keys) != 1 || keys[0].Client == "" {
		t.Errorf("%+v, %v", keys, err)
	}
	if peer.Seen("/authorize") != 1 {
		t.Errorf("the person was sent to the provider %d times", peer.Seen("/authorize"))
	}
}
