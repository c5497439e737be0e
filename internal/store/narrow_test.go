package store_test

import (
	"slices"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Tools once declared destructive are remembered per upstream, once each, up to a limit; and a key
// is revoked with its parent.
func TestWhatKeysAndServersLeave(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := storetest.Open(t, o)
		ctx, now := t.Context(), time.Now()
		if err := db.People.Add(ctx, store.Person{ID: "p", Name: "p", Role: "admin", Lang: "en",
			Created: now}); err != nil {
			t.Fatal(err)
		}
		u, err := db.Upstreams.Add(ctx, store.Upstream{Owner: "p", Slug: "u", Kind: "mcp", Settings: []byte(`{}`),
			Created: now})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct{ now, want []string }{
			{nil, nil}, {[]string{"b", "a"}, []string{"a", "b"}}, {[]string{"a"}, []string{"a", "b"}},
			{[]string{"c", "d"}, []string{"a", "b", "c"}}, {nil, []string{"a", "b", "c"}},
		} {
			if got, err := db.Upstreams.RememberDangerous(ctx, u.Number, step.now, 3); err != nil ||
				!slices.Equal(got, step.want) {
				t.Errorf("with %q there are %q, %v; want %q", step.now, got, err, step.want)
			}
		}
		if err := db.Upstreams.Remove(ctx, u.Number); err != nil {
			t.Fatal(err)
		}
		for _, k := range []struct{ id, parent string }{{"a", ""}, {"b", "a"}, {"c", "b"}, {"d", ""}} {
			if err := db.Keys.Add(ctx, store.Key{ID: k.id, Person: "p", Name: k.id, Hash: k.id, Parent: k.parent,
				Created: now}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Keys.Revoke(ctx, "a", now); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]bool{"a": true, "b": true, "c": true, "d": false} {
			if k, err := db.Keys.ByID(ctx, id); err != nil || k.Revoked.IsZero() == want {
				t.Errorf("%s has ended at %v, %v", id, k.Revoked, err)
			}
		}
	})
}
