package account_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// What browsers of one network leave behind is bounded, and others lose nothing by it.
func TestRoundsAreBounded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db, err := store.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		box, err := seal.New(seal.NewSecret())
		if err != nil {
			t.Fatal(err)
		}
		s := account.New(db, box, nil)
		begin := func(state, address string, at time.Time) {
			t.Helper()
			if err := s.BeginRound(t.Context(), store.OIDCRound{Purpose: account.RoundSignIn, Address: address,
				Created: at}, state, "browser"); err != nil {
				t.Fatal(err)
			}
		}
		now := time.Now()
		begin("mine", "192.0.2.7", now.Add(-time.Minute))
		for i := range 60 {
			begin(fmt.Sprint(i), fmt.Sprintf("2001:db8::%x", i), now.Add(time.Duration(i)*time.Millisecond))
		}
		for state, want := range map[string]error{"mine": nil, "59": nil, "10": nil, "9": account.ErrRoundUnknown} {
			if _, err := s.TakeRound(t.Context(), state, "browser"); !errors.Is(err, want) {
				t.Errorf("%s: %v", state, err)
			}
			if _, err := s.TakeRound(t.Context(), state, "browser"); !errors.Is(err, account.ErrRoundUnknown) {
				t.Errorf("%s a second time: %v", state, err)
			}
		}
	})
}

// A person of the provider is one person here, whoever else wants the link.
func TestLinks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db, err := store.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		box, err := seal.New(seal.NewSecret())
		if err != nil {
			t.Fatal(err)
		}
		s := account.New(db, box, nil)
		l := store.Linked{Issuer: "https://id.example", Subject: "s", Label: "label"}
		if _, err := s.AddLinkedPerson(t.Context(), l, []string{"eve"}, "en"); !errors.Is(err, account.ErrNotSetUp) {
			t.Fatalf("the first account: %v", err)
		}
		ada, err := s.AddPerson(t.Context(), "ada", account.RoleAdmin, "en", "")
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.AddLinkedPerson(t.Context(), l, []string{"", "ada"}, "en")
		if err != nil || p.Name != "ada 2" || p.Role != account.RoleMember {
			t.Fatalf("%+v, %v", p, err)
		}
		if _, err := s.AddLinkedPerson(t.Context(), l, []string{"other"}, "en"); !errors.Is(err, store.ErrExists) {
			t.Errorf("a second account: %v", err)
		}
		if people, err := db.People.All(t.Context()); err != nil || len(people) != 2 {
			t.Errorf("%v, %v", people, err)
		}
		l.Person = ada.ID
		if err := s.Link(t.Context(), l); !errors.Is(err, account.ErrLinkedToOther) {
			t.Errorf("somebody else's: %v", err)
		}
		for i := range 11 {
			l.Subject = fmt.Sprint(i)
			var want error
			if i == 10 {
				want = account.ErrLinkedMany
			}
			if err := s.Link(t.Context(), l); !errors.Is(err, want) {
				t.Errorf("link %d: %v", i, err)
			}
		}
	})
}
