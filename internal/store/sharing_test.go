package store_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// TestSharedBots checks who may ask a bot: those with whom an administrator shares it.
func TestSharedBots(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := storetest.Open(t, o)
		for _, p := range []store.Person{{ID: "admin", Role: "admin"}, {ID: "kid", Role: "member"}, {ID: "aunt", Role: "member"},
			{ID: "other", Role: "admin"}} {
			p.Name, p.Lang, p.Created = p.ID, "en", now
			must(t, db.People.Add(ctx, p))
		}
		var bots []store.Bot
		for _, name := range []string{"home", "tutor", "own"} {
			b := store.Bot{Owner: "admin", Name: name, Kind: "echo", Settings: []byte(`{}`), Created: now}
			if name == "own" {
				b.Owner = "kid"
			}
			b, err := db.Bots.Add(ctx, b)
			must(t, err)
			bots = append(bots, b)
		}
		usable := func(person string, want ...int64) {
			t.Helper()
			list, err := db.Bots.Usable(ctx, person)
			must(t, err)
			after, err := db.Bots.After(ctx, person, 0, 10)
			must(t, err)
			var got, paged []int64
			for _, b := range list {
				got = append(got, b.Number)
			}
			for _, b := range after {
				paged = append(paged, b.Number)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s may ask %v, want %v", person, got, want)
			}
			slices.Sort(got)
			if !slices.Equal(got, paged) {
				t.Errorf("%s may ask %v, in pages %v", person, got, paged)
			}
			for _, b := range bots {
				may, err := db.Bots.MayAsk(ctx, b.Number, person)
				must(t, err)
				if may != slices.Contains(want, b.Number) {
					t.Errorf("%s may ask bot %d: %v", person, b.Number, may)
				}
			}
		}
		home, tutor, own := bots[0].Number, bots[1].Number, bots[2].Number
		usable("kid", own)
		must(t, db.Bots.Share(ctx, home, true, nil))
		must(t, db.Bots.Share(ctx, tutor, false, []string{"kid"}))
		usable("kid", own, home, tutor)
		usable("aunt", home)
		usable("admin", home, tutor)
		must(t, db.Bots.SetShared(ctx, "aunt", []int64{tutor}))
		usable("aunt", home, tutor)
		usable("kid", own, home, tutor)
		must(t, db.Bots.SetShared(ctx, "kid", nil))
		usable("kid", own, home)
		must(t, db.Bots.Share(ctx, home, false, nil))
		usable("kid", own)
		usable("aunt", tutor)
		// What somebody who is no administrator any more has shared is not.
		must(t, db.People.SetRole(ctx, "admin", "member", "admin"))
		usable("aunt")
	})
}

// TestLimits checks that questions of a day are counted exactly, whoever asks at once.
func TestLimits(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := storetest.Open(t, o)
		must(t, db.People.Add(ctx, store.Person{ID: "kid", Name: "kid", Role: "member", Lang: "en", Created: now}))
		limits := store.PersonLimits{Questions: 5, SharedOnly: true, AllowTools: []string{"a_*"}, DenyTools: []string{"a_b"}}
		must(t, db.People.SetLimits(ctx, "kid", limits))
		people, err := db.People.Restricted(ctx)
		must(t, err)
		if l := people["kid"].Limits; l.Questions != 5 || !l.SharedOnly || !slices.Equal(l.AllowTools, limits.AllowTools) ||
			!slices.Equal(l.DenyTools, limits.DenyTools) {
			t.Fatalf("the limits are %+v", l)
		}
		var taken atomic.Int64
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				ok, err := db.People.TakeQuestion(ctx, "kid", "2026-11-28", 5)
				if err != nil {
					t.Error(err)
				}
				if ok {
					taken.Add(1)
				}
			})
		}
		all.Wait()
		if n, err := db.People.QuestionsAsked(ctx, "kid", "2026-11-28"); taken.Load() != 5 || n != 5 || err != nil {
			t.Errorf("%d questions were taken and %d counted, %v", taken.Load(), n, err)
		}
		if ok, err := db.People.TakeQuestion(ctx, "kid", "2026-11-29", 5); !ok || err != nil {
			t.Errorf("on the next day: %v, %v", ok, err)
		}
		// In another time zone it is the day before still, or again.
		if n, err := db.People.QuestionsAsked(ctx, "kid", "2026-11-28"); n != 1 || err != nil {
			t.Errorf("on the day before %d are counted, %v", n, err)
		}
		for range 4 {
			ok, err := db.People.TakeQuestion(ctx, "kid", "2026-11-28", 5)
			must(t, err)
			if !ok {
				t.Error("a question that is left is refused")
			}
		}
		if ok, err := db.People.TakeQuestion(ctx, "kid", "2026-11-29", 5); ok || err != nil {
			t.Errorf("a change of the time zone begins a new day: %v, %v", ok, err)
		}
		must(t, db.People.SetLimits(ctx, "kid", store.PersonLimits{}))
		if people, err = db.People.Restricted(ctx); len(people) != 0 || err != nil {
			t.Errorf("restricted are %v, %v", people, err)
		}
	})
}

// TestPaused checks that somebody who is not paused can always administer the installation.
func TestPaused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := storetest.Open(t, o)
		for _, id := range []string{"a", "b"} {
			must(t, db.People.Add(ctx, store.Person{ID: id, Name: id, Role: "admin", Lang: "en", Created: now}))
			must(t, db.SignIns.Add(ctx, store.SignIn{ID: "of " + id, Person: id, Created: now, Seen: now, Confirmed: now}, 9))
		}
		must(t, db.People.SetPaused(ctx, "a", now, "admin"))
		p, err := db.People.ByID(ctx, "a")
		if err != nil || !p.Paused.Equal(now) {
			t.Errorf("paused since %v, %v", p.Paused, err)
		}
		if _, err := db.SignIns.ByID(ctx, "of a"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the sign-in of who is paused: %v", err)
		}
		for what, err := range map[string]error{
			"pause":   db.People.SetPaused(ctx, "b", now, "admin"),
			"role":    db.People.SetRole(ctx, "b", "member", "admin"),
			"removal": db.People.Remove(ctx, "b", "admin"),
		} {
			if !errors.Is(err, store.ErrLast) {
				t.Errorf("%s of the last who is not paused: %v", what, err)
			}
		}
		must(t, db.People.SetPaused(ctx, "a", time.Time{}, "admin"))
		must(t, db.People.SetPaused(ctx, "b", now, "admin"))
		must(t, db.People.Remove(ctx, "b", "admin"))
	})
}

// TestInvitations checks that a link is good once, until it expires or is replaced.
func TestInvitations(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := storetest.Open(t, o)
		must(t, db.People.Add(ctx, store.Person{ID: "kid", Name: "kid", Role: "member", Lang: "en", Created: now}))
		must(t, db.SignIns.Add(ctx, store.SignIn{ID: "old", Person: "kid", Created: now, Seen: now, Confirmed: now}, 9))
		save := func(hash string) {
			t.Helper()
			must(t, db.Invitations.Save(ctx, store.Invitation{Person: "kid", Hash: hash, By: "a", Created: now,
				Expires: now.Add(time.Hour)}))
		}
		save("first")
		save("second")
		if err := db.Invitations.Accept(ctx, "first", "x", "", now); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("one that was replaced: %v", err)
		}
		if err := db.Invitations.Accept(ctx, "second", "x", "", now.Add(time.Hour)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("one that has expired: %v", err)
		}
		must(t, db.Invitations.Accept(ctx, "second", "hashed", "Asia/Tokyo", now))
		p, err := db.People.ByID(ctx, "kid")
		if err != nil || p.Password != "hashed" {
			t.Errorf("the password is %q, %v", p.Password, err)
		}
		if _, err := db.SignIns.ByID(ctx, "old"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an older sign-in: %v", err)
		}
		if err := db.Invitations.Accept(ctx, "second", "x", "", now); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("one that was used: %v", err)
		}
		save("third")
		if list, err := db.Invitations.Open(ctx, now); len(list) != 1 || err != nil {
			t.Errorf("open are %v, %v", list, err)
		}
		must(t, db.Invitations.Withdraw(ctx, "kid"))
		must(t, db.People.Add(ctx, store.Person{ID: "a", Name: "a", Role: "admin", Lang: "en", Created: now}))
		must(t, db.People.Add(ctx, store.Person{ID: "b", Name: "b", Role: "admin", Lang: "en", Created: now}))
		for what, end := range map[string]func() error{
			"a password":             func() error { return db.People.SetPassword(ctx, "kid", "x") },
			"a role":                 func() error { return db.People.SetRole(ctx, "kid", "member", "admin") },
			"a pause":                func() error { return db.People.SetPaused(ctx, "kid", now, "admin") },
			"a role of who made it":  func() error { return db.People.SetRole(ctx, "a", "member", "admin") },
			"a pause of who made it": func() error { return db.People.SetPaused(ctx, "a", now, "admin") },
		} {
			save("link")
			must(t, end())
			if _, err := db.Invitations.ByHash(ctx, "link"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s does not end an invitation: %v", what, err)
			}
		}
		if err := db.Invitations.Withdraw(ctx, "kid"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("one that was withdrawn: %v", err)
		}
	})
}
