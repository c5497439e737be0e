package store_test

import (
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// What people have besides the password is counted for one, and for everybody.
func TestSecondSteps(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db, ctx, now := storetest.Open(t, o), t.Context(), time.Now()
		for _, id := range []string{"a", "b", "c"} {
			must(t, db.People.Add(ctx, store.Person{ID: id, Name: id, Role: "member", Created: now}))
		}
		must(t, db.Authenticators.Add(ctx, store.Authenticator{Person: "a", Created: now}, []string{"1", "2"}))
		for _, id := range []string{"k", "l"} {
			_, err := db.Passkeys.Add(ctx, store.Passkey{ID: id, Person: "b", Credential: []byte("{}")}, 9,
				[]string{"3"})
			must(t, err)
		}
		want := map[string]store.SecondSteps{"a": {App: true, Recovery: 2}, "b": {Passkeys: 2, Recovery: 1}, "c": {}}
		got, err := db.Authenticators.SecondSteps(ctx, "")
		must(t, err)
		if len(got) != len(want) {
			t.Errorf("got %+v", got)
		}
		for id, x := range want {
			one, err := db.Authenticators.SecondSteps(ctx, id)
			must(t, err)
			if got[id] != x || len(one) != 1 || one[id] != x || x.Any() != (id != "c") {
				t.Errorf("%s has %+v and %+v, want %+v", id, got[id], one, x)
			}
			has, err := db.Passkeys.Has(ctx, id)
			must(t, err)
			if has != (id == "b") {
				t.Errorf("%s has passkeys: %t", id, has)
			}
		}
		if has, err := db.Passkeys.Has(ctx, ""); err != nil || !has {
			t.Error("nobody has passkeys", err)
		}
	})
}
