package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var (
	ctx = context.Background()
	now = time.Date(2026, 3, 23, 14, 5, 9, 123e6, time.UTC)
)

// seeded opens a database with one person and two bots.
func seeded(t *testing.T, o store.Options) *store.DB {
	t.Helper()
	db := storetest.Open(t, o)
	must(t, db.People.Add(ctx, store.Person{ID: "p1", Name: "ada", Role: "admin", Lang: "en", Created: now}))
	for _, name := range []string{"one", "two"} {
		_, err := db.Bots.Add(ctx, store.Bot{Owner: "p1", Name: name, Kind: "echo", Settings: []byte(`{}`),
			Created: now})
		must(t, err)
	}
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("got error %v, want %v", got, want)
	}
}

func TestPeopleAndKeys(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		wantErr(t, db.People.Add(ctx, store.Person{ID: "p2", Name: "ada", Created: now}), store.ErrExists)
		_, err := db.People.ByName(ctx, "bob")
		wantErr(t, err, store.ErrNotFound)

		k := store.Key{ID: "k1", Person: "p1", Name: "glasses", Scopes: []string{"lingzhu", "mcp"}, Bot: 2,
			Hash: "h1", Hint: "pb_abc", Created: now, Expires: now.Add(time.Hour)}
		must(t, db.Keys.Add(ctx, k))
		wantErr(t, db.Keys.Add(ctx, k), store.ErrExists)
		stranger := k
		stranger.ID, stranger.Hash, stranger.Person = "k2", "h2", "nobody"
		wantErr(t, db.Keys.Add(ctx, stranger), store.ErrNotFound)

		got, err := db.Keys.ByHash(ctx, "h1")
		must(t, err)
		if !slices.Equal(got.Scopes, k.Scopes) || got.Bot != 2 || !got.Expires.Equal(k.Expires) || !got.Used.IsZero() {
			t.Fatalf("read back %+v", got)
		}
		must(t, db.Keys.MarkUsed(ctx, "k1", now))
		must(t, db.Keys.MarkUsed(ctx, "k1", now.Add(30*time.Second))) // within the minute: not written
		got, _ = db.Keys.ByHash(ctx, "h1")
		if !got.Used.Equal(now) {
			t.Fatalf("used at %v, want %v", got.Used, now)
		}
		must(t, db.Keys.Revoke(ctx, "k1", now))
		must(t, db.Keys.Revoke(ctx, "k1", now.Add(time.Hour)))
		got, _ = db.Keys.ByHash(ctx, "h1")
		if !got.Revoked.Equal(now) {
			t.Fatalf("revoked at %v, want the first time %v", got.Revoked, now)
		}
		wantErr(t, db.Keys.Revoke(ctx, "k9", now), store.ErrNotFound)
	})
}

func TestBotNumbersAreNeverGivenTwice(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.Bots.Remove(ctx, 2))
		b, err := db.Bots.Add(ctx, store.Bot{Owner: "p1", Name: "three", Kind: "echo", Settings: []byte(`{}`),
			Created: now})
		must(t, err)
		if b.Number != 3 {
			t.Fatalf("number %d after removing 2, want 3", b.Number)
		}
		_, err = db.Bots.Add(ctx, store.Bot{Owner: "p1", Name: "three", Kind: "echo", Settings: []byte(`{}`),
			Created: now})
		wantErr(t, err, store.ErrExists)
		wantErr(t, db.Bots.Remove(ctx, 2), store.ErrNotFound)
	})
}

func TestBotsAfter(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.People.Add(ctx, store.Person{ID: "p2", Name: "bob", Role: "member", Created: now}))
		b, err := db.Bots.Add(ctx, store.Bot{Owner: "p2", Name: "three", Kind: "echo", Settings: []byte(`{}`),
			Created: now})
		must(t, err)
		for _, c := range []struct {
			owner string
			after int64
			limit int
			want  []int64
		}{{"p1", 0, 10, []int64{1, 2}}, {"p1", 1, 10, []int64{2}}, {"", 0, 2, []int64{1, 2}}, {"", 2, 2,
			[]int64{3}}, {"p2", 3, 2, nil}} {
			list, err := db.Bots.After(ctx, c.owner, c.after, c.limit)
			must(t, err)
			var got []int64
			for _, b := range list {
				got = append(got, b.Number)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%+v: %v", c, got)
			}
		}

		// Rows that belong to each of them.
		must(t, db.Bindings.AddToken(ctx, store.BindToken{ID: "i", Bot: b.Number,
			TokenHash: "t", CodeHash: "c", Created: now, Expires: now.Add(time.Hour)}))
		must(t, db.Bindings.Redeem(ctx, "i", store.Binding{Publisher: "p2", UserID: "w", Bot: b.Number, Created: now},
			true))
		for owner, want := range map[string]int{"p1": 0, "p2": 1, "": 1} {
			counts, err := db.Bindings.Counts(ctx, owner)
			must(t, err)
			if counts[b.Number] != want || len(counts) != want {
				t.Errorf("%q has the wearers %v", owner, counts)
			}
		}
		must(t, db.Keys.Add(ctx, store.Key{ID: "k1", Person: "p2", Name: "k", Scopes: []string{"lingzhu"},
			Bot: b.Number, Hash: "h1", Created: now}))
		must(t, db.Keys.Add(ctx, store.Key{ID: "k2", Person: "p2", Name: "k", Scopes: []string{"lingzhu"},
			Hash: "h2", Created: now}))
		if keys, err := db.Keys.ByBot(ctx, b.Number); err != nil || len(keys) != 1 || keys[0].ID != "k1" {
			t.Errorf("%v, %v", keys, err)
		}
		for i := range 6 { // two at each time
			turn := fmt.Sprintf("turn-%d", i)
			must(t, db.Traces.Finish(ctx, store.Trace{Turn: turn, Bot: b.Number,
				Owner: "p2", At: now.Add(time.Duration(i/2) * time.Second)}, nil))
			must(t, db.Traces.Finish(ctx, store.Trace{Turn: "other-" + turn, Bot: 1, Owner: "p1", At: now}, nil))
		}
		for _, c := range []struct {
			before time.Time
			turn   string
			want   []string
		}{
			{now.Add(time.Hour), "", []string{"turn-5", "turn-4", "turn-3"}},
			{now.Add(time.Second), "turn-3", []string{"turn-2", "turn-1", "turn-0"}},
			{now, "turn-0", nil},
		} {
			list, err := db.Traces.ByBot(ctx, b.Number, c.before, c.turn, 3)
			must(t, err)
			var got []string
			for _, tr := range list {
				got = append(got, tr.Turn)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("before %s: %v", c.turn, got)
			}
		}
	})
}

func TestConcurrentSavesOfOneBot(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		b, err := db.Bots.ByNumber(ctx, 1)
		must(t, err)
		b.Description = "first"
		must(t, db.Bots.Save(ctx, b))
		b.Description = "second, from a stale copy"
		wantErr(t, db.Bots.Save(ctx, b), store.ErrExists)
		b.Number = 99
		wantErr(t, db.Bots.Save(ctx, b), store.ErrNotFound)
	})
}

func TestRedeem(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		for i := range 3 {
			must(t, db.Bindings.AddToken(ctx, store.BindToken{ID: fmt.Sprint(i), Bot: 1, TokenHash: fmt.Sprint("t", i),
				CodeHash: fmt.Sprint("c", i), Created: now, Expires: now.Add(5 * time.Minute)}))
		}
		wantErr(t, db.Bindings.AddToken(ctx, store.BindToken{ID: "9", Bot: 1,
			TokenHash: "t9", CodeHash: "c0", Created: now, Expires: now}), store.ErrExists)
		byCode, err := db.Bindings.TokenByHash(ctx, "c0")
		must(t, err)
		byToken, err := db.Bindings.TokenByHash(ctx, "t0")
		must(t, err)
		if byCode.ID != byToken.ID {
			t.Fatal("code and token lead to different invitations")
		}
		bind := func(token, user string, alone bool) error {
			return db.Bindings.Redeem(ctx, token, store.Binding{Publisher: "p1", UserID: user, Bot: 1,
				AgentID: "a", Created: now}, alone)
		}
		must(t, bind("0", "U1", true))
		wantErr(t, bind("0", "U2", false), store.ErrExists)  // used already
		wantErr(t, bind("1", "U2", true), store.ErrOccupied) // one wearer at most
		wantErr(t, bind("1", "U1", false), store.ErrExists)  // bound already
		must(t, bind("1", "U2", false))                      // the failed attempts did not use the invitation

		// Of many concurrent redemptions of one invitation one succeeds.
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = bind("2", fmt.Sprint("V", i), false) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				wantErr(t, err, store.ErrExists)
			}
		}
		if won != 1 {
			t.Fatalf("%d of 8 redeemed one invitation", won)
		}
	})
}

func TestTwoWearersAtOnceForOneSeat(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		const n = 6
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			must(t, db.Bindings.AddToken(ctx, store.BindToken{ID: fmt.Sprint(i), Bot: 1, TokenHash: fmt.Sprint("t", i),
				CodeHash: fmt.Sprint("c", i), Created: now, Expires: now.Add(time.Minute)}))
		}
		for i := range n {
			wg.Go(func() {
				errs[i] = db.Bindings.Redeem(ctx, fmt.Sprint(i),
					store.Binding{Publisher: "p1", UserID: fmt.Sprint("U", i), Bot: 1, Created: now}, true)
			})
		}
		wg.Wait()
		bound, err := db.Bindings.ByBot(ctx, 1)
		must(t, err)
		if len(bound) != 1 {
			t.Fatalf("%d wearers on a seat for one: %v", len(bound), errs)
		}
	})
}

func TestConversationsAndTraces(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		var wg sync.WaitGroup
		errs := make([]error, 300) // more than one batch
		for i := range errs {
			wg.Go(func() {
				turn := fmt.Sprintf("turn-%03d", i)
				errs[i] = db.Traces.Finish(ctx, store.Trace{Turn: turn, Bot: 1,
					Owner: "p1", Channel: fmt.Sprintf("channel-%d", i%2), At: now.Add(time.Duration(i) * time.Second),
					Total: time.Millisecond, Outcome: "done"},
					&store.Exchange{Turn: turn, Bot: 1, Person: "x", Conversation: "c",
						At: now.Add(time.Duration(i) * time.Second), Question: "q", Answer: turn})
			})
		}
		wg.Wait()
		must(t, errors.Join(errs...))
		last, err := db.Conversations.Last(ctx, 1, "x", "c", 2)
		must(t, err)
		if len(last) != 2 || last[0].Answer != "turn-298" || last[1].Answer != "turn-299" {
			t.Fatalf("last two: %+v", last)
		}
		if latest, err := db.Conversations.Past(ctx, 1, "x", 1); err != nil || len(latest) != 1 ||
			latest[0].Conversation != "c" {
			t.Errorf("the latest conversation is %v: %v", latest, err)
		}
		if latest, err := db.Conversations.Past(ctx, 1, "y", 1); err != nil || len(latest) != 0 {
			t.Errorf("nobody's latest conversation: %v, %v", latest, err)
		}
		for i, f := range []store.Trace{
			{Person: "x", Conversation: "c", Outcome: "failed"}, {Person: "x", Conversation: "c2", Outcome: "disconnected"},
			{Person: "y", Conversation: "c", Outcome: "failed"}, {Person: "x", Conversation: "c", Outcome: "failed", Bot: 2},
		} {
			f.Turn, f.Owner, f.Bot, f.At = fmt.Sprintf("bad-%d", i), "p1", max(f.Bot, 1), now.Add(time.Duration(i+9)*time.Hour)
			must(t, db.Traces.Finish(ctx, f, nil))
		}
		for conversation, want := range map[string]string{"": "bad-1 bad-0 ", "c": "bad-0 ", "c9": ""} {
			failed, err := db.Traces.FailedOf(ctx, "p1", 1, "x", conversation, 9)
			must(t, err)
			turns := ""
			for _, f := range failed {
				turns += f.Turn + " "
			}
			if turns != want {
				t.Errorf("in conversation %q failed %q", conversation, turns)
			}
		}
		for i, conversation := range []string{"c2", "c3"} {
			must(t, db.Conversations.Save(ctx, store.Exchange{Turn: "u" + conversation, Bot: 1, Person: "x",
				Conversation: conversation, At: now.Add(time.Duration(i+1) * time.Hour), Question: "about " + conversation}))
		}
		must(t, db.Conversations.Save(ctx, store.Exchange{Turn: "aaa", Bot: 1, Person: "x", Conversation: "c3",
			At: now.Add(2*time.Hour + time.Second), Question: "later, whatever its turn is called"}))
		past, err := db.Conversations.Past(ctx, 1, "x", 2)
		if err != nil || len(past) != 2 || past[0].Question != "about c3" || past[1].Conversation != "c2" {
			t.Errorf("the last two conversations: %+v, %v", past, err)
		}
		if past, err = db.Conversations.Past(ctx, 1, "x", 9); err != nil || len(past) != 3 ||
			past[2].Question != "q" || !past[2].Last.Equal(now.Add(299*time.Second)) {
			t.Errorf("all conversations: %+v, %v", past, err)
		}

		must(t, db.Traces.FinishLate(ctx, "turn-299", time.Minute, "",
			"", nil, &store.Exchange{Turn: "turn-299", Bot: 1, Person: "x", Conversation: "c", At: now,
				Answer: "late", Undelivered: true}))
		late, err := db.Conversations.Undelivered(ctx, 1, "x")
		must(t, err)
		if len(late) != 1 || late[0].Answer != "late" {
			t.Fatalf("unheard: %+v", late)
		}
		if e, err := db.Conversations.ByTurn(ctx, "turn-299"); err != nil || e.Answer != "late" || !e.Undelivered ||
			e.Conversation != "c" {
			t.Errorf("by its turn: %+v, %v", e, err)
		}
		if _, err := db.Conversations.ByTurn(ctx, "turn"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("by a turn that never was: %v", err)
		}
		must(t, db.Conversations.MarkDelivered(ctx, "turn-299"))
		if late, _ = db.Conversations.Undelivered(ctx, 1, "x"); len(late) != 0 {
			t.Fatalf("told, but still unheard: %+v", late)
		}
		if through, err := db.Traces.LastOnChannel(ctx, "p1", "channel-0"); err != nil || through.Turn != "turn-298" {
			t.Errorf("the last on that channel is %+v: %v", through, err)
		}
		if _, err := db.Traces.LastOnChannel(ctx, "p2", "channel-0"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("somebody else's: %v", err)
		}
		tr, err := db.Traces.ByTurn(ctx, "turn-299")
		must(t, err)
		if tr.Late != time.Minute || tr.Total != time.Millisecond {
			t.Fatalf("trace %+v", tr)
		}
		n, err := db.Purge(ctx, store.Limits{Traces: now.Add(100 * time.Second), Exchanges: now.Add(-time.Hour),
			Now: now})
		must(t, err)
		if n != 100 {
			t.Fatalf("purged %d rows, want the 100 oldest traces", n)
		}
	})
}

// One failing write must not fail the others of its batch.
func TestABadWriteFailsAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		errs := make([]error, 60)
		var wg sync.WaitGroup
		for i := range errs {
			bot := int64(1)
			if i%10 == 3 {
				bot = 77 // no such bot
			}
			wg.Go(func() {
				errs[i] = db.Conversations.Save(ctx, store.Exchange{Turn: fmt.Sprint(i), Bot: bot,
					Person: "x", At: now})
			})
		}
		wg.Wait()
		for i, err := range errs {
			if i%10 == 3 {
				wantErr(t, err, store.ErrNotFound)
			} else {
				must(t, err)
			}
		}
	})
}

func TestClosedDatabaseRefusesWrites(t *testing.T) {
	db, err := store.Open(ctx, store.Options{Folder: t.TempDir()})
	must(t, err)
	must(t, db.Close())
	if err := db.Keys.MarkUsed(ctx, "k", now); err == nil {
		t.Fatal("a write after Close was taken")
	}
}

func TestReopenFindsEverything(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db, err := store.Open(ctx, o)
		must(t, err)
		must(t, db.People.Add(ctx, store.Person{ID: "p1", Name: "ada", Created: now}))
		must(t, db.Close())
		again := storetest.Open(t, o)
		p, err := again.People.ByName(ctx, "ada")
		must(t, err)
		if !p.Created.Equal(now) {
			t.Fatalf("created %v, want %v", p.Created, now)
		}
	})
}

// Several instances may start on an empty database at the same time. The result is what other tests
// get copies of.
func TestBegin(t *testing.T) {
	storetest.EachBlank(t, func(t *testing.T, o store.Options) {
		if empty, err := store.Empty(ctx, o); err != nil || !empty {
			t.Fatalf("empty: %t, %v", empty, err)
		}
		var all sync.WaitGroup
		for range 3 {
			if all.Go(func() {
				db, err := store.Open(ctx, o)
				if err != nil {
					t.Error(err)
					return
				}
				db.Close() //nolint:errcheck // nothing was written
			}); o.URL == "" {
				all.Wait() // a SQLite file is used by one process
			}
		}
		all.Wait()
		db := seeded(t, o)
		must(t, db.Ping(ctx))
	})
}
