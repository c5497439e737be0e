package store_test

import (
	"testing"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// A sign-in is not overwritten by who has read an older one, and is found by its state.
func TestUpstreamSignIns(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		up, err := db.Upstreams.Add(ctx, store.Upstream{Owner: "p1", Slug: "notion", Kind: "mcp", Settings: []byte(`{}`),
			Created: now})
		must(t, err)
		_, err = db.UpstreamSignIns.Find(ctx, up.Number, "p1")
		wantErr(t, err, store.ErrNotFound)
		first := store.UpstreamSignIn{Upstream: up.Number, Person: "p1", Sealed: "a", State: "s"}
		must(t, db.UpstreamSignIns.Save(ctx, first, false))
		wantErr(t, db.UpstreamSignIns.Save(ctx, first, false), store.ErrExists)
		got, err := db.UpstreamSignIns.ByState(ctx, "s")
		must(t, err)
		version, err := db.ToolsVersion(ctx)
		must(t, err)
		got.Sealed, got.State = "b", ""
		must(t, db.UpstreamSignIns.Save(ctx, got, true))
		wantErr(t, db.UpstreamSignIns.Save(ctx, got, true), store.ErrExists)
		_, err = db.UpstreamSignIns.ByState(ctx, "s")
		wantErr(t, err, store.ErrNotFound)
		got, err = db.UpstreamSignIns.Find(ctx, up.Number, "p1")
		must(t, err)
		list, err := db.Upstreams.ByOwner(ctx, "p1")
		must(t, err)
		if got.Sealed != "b" || list[0].Version != up.Version {
			t.Errorf("%+v of %+v", got, list[0])
		}
		if all, err := db.UpstreamSignIns.Connections(ctx); err != nil || len(all) != 1 || all[0].Told != 1 ||
			all[0].Member {
			t.Errorf("the connections are %+v, %v", all, err)
		}
		if after, err := db.ToolsVersion(ctx); err != nil || after != version+1 {
			t.Errorf("the version is %d after %d, %v", after, version, err)
		}
		must(t, db.Upstreams.Remove(ctx, up.Number))
		wantErr(t, db.UpstreamSignIns.Save(ctx, got, false), store.ErrNotFound)
	})
}

// An upstream is shared with everybody, with some people, or with nobody, and only while its owner
// is an admin. Who it is not shared with can store no sign-in, and a stored one is gone.
func TestSharedUpstream(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		for id, role := range map[string]string{"root": "admin", "root2": "admin", "b": "member", "c": "member"} {
			must(t, db.People.Add(ctx, store.Person{ID: id, Name: id, Role: role, Lang: "en", Created: now}))
		}
		up, err := db.Upstreams.Add(ctx, store.Upstream{Owner: "root", Slug: "notion", Kind: "mcp",
			Settings: []byte(`{}`), Created: now})
		must(t, err)
		save := func(person string) error {
			return db.UpstreamSignIns.Save(ctx, store.UpstreamSignIn{Upstream: up.Number, Person: person, Sealed: "x",
				Connects: true}, true)
		}
		// see checks who may sign in, and who has a connection.
		see := func(what, may, connected string) {
			t.Helper()
			var got, has string
			for _, p := range []string{"b", "c", "root"} {
				list, err := db.Upstreams.SharedWith(ctx, p)
				must(t, err)
				if len(list) > 0 {
					got += p
				}
			}
			all, err := db.UpstreamSignIns.Connections(ctx)
			must(t, err)
			for _, c := range all {
				if c.Member {
					has += c.Person
				}
			}
			if got != may || has != connected {
				t.Errorf("%s: shared with %q, connected %q", what, got, has)
			}
		}
		see("at first", "", "")
		wantErr(t, save("b"), store.ErrNotFound)
		must(t, db.Upstreams.Share(ctx, up.Number, false, []string{"b"}))
		must(t, save("b"))
		must(t, save("root"))
		wantErr(t, save("c"), store.ErrNotFound)
		see("with b", "b", "b")
		must(t, db.Upstreams.Share(ctx, up.Number, true, nil))
		must(t, save("c"))
		see("with everybody", "bc", "bc")
		if n, err := db.Upstreams.SignedIn(ctx); err != nil || n[up.Number] != 2 {
			t.Errorf("%v are signed in, %v", n, err)
		}
		must(t, db.Upstreams.Share(ctx, up.Number, false, []string{"c"}))
		see("with c", "c", "c")
		_, err = db.UpstreamSignIns.Find(ctx, up.Number, "b")
		wantErr(t, err, store.ErrNotFound)
		must(t, db.People.SetRole(ctx, "root", "member", "admin"))
		see("by a member", "", "")
		wantErr(t, db.UpstreamSignIns.Save(ctx, store.UpstreamSignIn{Upstream: up.Number, Person: "c", Sealed: "y",
			Version: 1}, true), store.ErrNotFound)
		must(t, db.People.SetRole(ctx, "root", "admin", "admin"))
		see("by an admin again", "c", "") // c has to sign in again
		must(t, db.People.Remove(ctx, "c", "admin"))
		see("after c has left", "", "")
		if list, err := db.Upstreams.Shares(ctx); err != nil || len(list) != 0 {
			t.Errorf("it is shared with %v, %v", list, err)
		}
		must(t, db.Upstreams.Share(ctx, up.Number, true, nil))
		must(t, db.Upstreams.Share(ctx, up.Number, false, nil))
		see("with nobody", "", "")
		if _, err = db.UpstreamSignIns.Find(ctx, up.Number, "root"); err != nil {
			t.Errorf("the owner's sign-in: %v", err)
		}
		wantErr(t, db.Upstreams.Share(ctx, 99, true, nil), store.ErrNotFound)
	})
}

// In a shared upstream, what one person is offered does not decide about what another one is.
func TestSharedPins(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		up, err := db.Upstreams.Add(ctx, store.Upstream{Owner: "p1", Slug: "notion", Kind: "mcp",
			Settings: []byte(`{}`), Created: now})
		must(t, err)
		must(t, db.Upstreams.Share(ctx, up.Number, true, nil))
		record := func(by string, tools ...string) (told int) {
			t.Helper()
			in := store.PinRecord{Upstream: up.Number, By: by, Removed: "removed", At: now,
				Risk: func(_, _ []byte) string { return "held" }}
			for _, name := range tools {
				in.Forms = append(in.Forms, store.PinForm{PinKey: store.PinKey{Kind: "tool", Name: name[:1]},
					Fingerprint: name, Content: []byte("{}")})
			}
			_, news, err := db.Pins.Record(ctx, in)
			must(t, err)
			return len(news)
		}
		see := func(what, want string) {
			t.Helper()
			marks, err := db.Pins.Marks(ctx, up.Number)
			must(t, err)
			got := ""
			for _, m := range marks {
				got += m.Name + ":" + m.Fingerprint + "/" + m.Pending + " "
			}
			if got != want {
				t.Errorf("%s: %q", what, got)
			}
		}
		record("", "x1", "y1")
		see("of the owner", "x:x1/ y:y1/ ")
		if n := record("b", "x2", "z1"); n != 2 {
			t.Errorf("%d changes are told", n)
		}
		see("of b", "x:x1/x2 y:y1/ z:/z1 ")
		if n := record("", "x1", "y1"); n != 0 {
			t.Errorf("%d changes are told again", n)
		}
		see("of the owner again", "x:x1/x2 y:y1/ z:/z1 ")
		record("b", "x1")
		see("of b, as approved", "x:x1/ y:y1/ ")
	})
}
