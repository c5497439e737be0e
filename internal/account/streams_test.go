package account_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/slowtest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// patience is far longer than any step of these tests takes.
const patience = 30 * time.Second

// Streams end when the key or sign-in that opened them is no longer valid, whoever changed it.
// Streams of others continue.
func TestStreamsEnd(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db, elsewhere := storetest.Open(t, o), storetest.Open(t, o)
		s := account.New(db, nil, nil)
		ada, err := s.AddPerson(t.Context(), "ada", account.RoleAdmin, "en", "")
		if err != nil {
			t.Fatal(err)
		}
		bob, err := s.AddPerson(t.Context(), "bob", account.RoleAdmin, "en", "")
		if err != nil {
			t.Fatal(err)
		}
		streams := account.NewStreams(s, account.StreamLimits{Key: 2, Person: 3,
			Widens: func(_, after string) bool { return after == "wider" }})
		db.OnAccess(streams.Changed)
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- streams.Run(ctx, func(err error) { t.Error(err) }) }()
		defer func() { stop(); <-ran }()

		with := func(person store.Person) account.Principal {
			k, _, err := s.AddKey(t.Context(), account.NewKey{Person: person.ID,
				Name: "k", Scopes: []string{account.ScopeMCP}})
			if err != nil {
				t.Fatal(err)
			}
			return account.Principal{Key: k, Person: person}
		}
		enter := func(p account.Principal) (context.Context, func()) {
			in, leave, err := streams.Key(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			return in, leave
		}
		ends := func(what string, in context.Context) {
			t.Helper()
			changed := slowtest.Start(t, 1) // the database, perhaps
			select {
			case <-in.Done():
				changed.Check(t, what, time.Now(), time.Second)
				if context.Cause(in) != account.ErrEnded {
					t.Errorf("%s: the stream ended since %v", what, context.Cause(in))
				}
			case <-time.After(patience):
				t.Errorf("%s: the stream goes on", what)
			}
		}
		stays, leave := enter(with(ada))
		defer leave()

		for what, db := range map[string]*store.DB{"here": db, "elsewhere": elsewhere} {
			revoked := with(ada)
			in, leave := enter(revoked)
			if err := db.Keys.Revoke(t.Context(), revoked.Key.ID, time.Now()); err != nil {
				t.Fatal(err)
			}
			ends("revoked "+what, in)
			leave()
			widened := with(ada)
			goesOn, leaveWidened := enter(widened)
			if err := db.Keys.SetRules(t.Context(), widened.Key.ID, "wider"); err != nil {
				t.Fatal(err)
			}
			narrowed := with(ada)
			in, leave = enter(narrowed)
			if err := db.Keys.SetRules(t.Context(), narrowed.Key.ID, `{"deny":["*"]}`); err != nil {
				t.Fatal(err)
			}
			ends("narrowed "+what, in)
			leave()
			if goesOn.Err() != nil { // the narrowed one was checked after it
				t.Errorf("widened %s: the stream ended", what)
			}
			leaveWidened()
			in, leave = enter(narrowed) // opened with a principal authenticated a moment ago
			ends("late "+what, in)
			leave()
		}
		of := with(bob)
		in, leave := enter(of)
		if err := db.People.SetRole(t.Context(), bob.ID, account.RoleMember, account.RoleAdmin); err != nil {
			t.Fatal(err)
		}
		ends("no administrator any more", in)
		leave()
		if stays.Err() != nil {
			t.Error("a stream ended whose key holds:", context.Cause(stays))
		}
	})
}

// The streams of a key, and of a person, are limited.
func TestStreamsCounted(t *testing.T) {
	s := account.New(nil, nil, nil)
	streams := account.NewStreams(s, account.StreamLimits{Key: 2, Person: 3})
	of := func(key, person string) account.Principal {
		return account.Principal{Key: store.Key{ID: key}, Person: store.Person{ID: person}}
	}
	var leaves []func()
	for _, step := range []struct {
		key, person string
		ok          bool
	}{{"k1", "p1", true}, {"k1", "p1", true}, {"k1", "p1", false}, {"k2", "p1", true}, {"k2", "p1", false}, {"k3",
		"p2", true}} {
		_, leave, err := streams.Key(t.Context(), of(step.key, step.person))
		if (err == nil) != step.ok || err != nil && !errors.Is(err, account.ErrStreams) {
			t.Errorf("%v: %v", step, err)
		}
		leaves = append(leaves, leave)
	}
	for _, leave := range leaves {
		leave()
	}
	if n := streams.Open(); n != 0 {
		t.Errorf("%d streams are open", n)
	}
	if _, leave, err := streams.Key(t.Context(), of("k1", "p1")); err != nil {
		t.Error("a key that has left cannot come again:", err)
	} else {
		leave()
	}
}
