package store_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

var requestIDs int

// wantsIn is a program's request to be let in as a node of p1.
func wantsIn(peer string) store.PeerRequest {
	requestIDs++
	return store.PeerRequest{ID: fmt.Sprint("r", requestIDs), Kind: store.RequestDevice, Peer: peer, Owner: "p1", Address: "192.0.2.7", Refreshed: now,
		Ask: store.PeerAsk{PublicKey: "key of " + peer, Name: "lamp", Platform: "linux", Family: "Linux", ClientID: "node-host", ClientMode: "node", Version: "1.0", Roles: []string{"node"}}}
}

// declares is a peer's request to do something.
func declares(peer string, commands ...string) store.PeerRequest {
	r := wantsIn(peer)
	r.Kind, r.Ask.Roles, r.Ask.Caps, r.Ask.Commands = store.RequestSurface, nil, []string{"mcp"}, commands
	return r
}

// ask makes a request that must be a new one, or not.
func ask(t *testing.T, db *store.DB, r store.PeerRequest, isNew bool) store.PeerRequest {
	t.Helper()
	kept, made, err := db.Peers.Request(ctx, r)
	must(t, err)
	if made != isNew {
		t.Fatalf("made is %v for %+v", made, kept)
	}
	return kept
}

func grant(t *testing.T, db *store.DB, id string) store.Peer {
	t.Helper()
	p, _, err := db.Peers.Approve(ctx, store.PeerDecision{ID: id, At: now})
	must(t, err)
	return p
}

// pair lets a program in.
func pair(t *testing.T, db *store.DB, r store.PeerRequest) store.Peer {
	t.Helper()
	return grant(t, db, ask(t, db, r, true).ID)
}

// same compares what was returned with what is kept.
func same(t *testing.T, got, kept any) {
	t.Helper()
	if !reflect.DeepEqual(got, kept) {
		t.Fatalf("returned\n%+v, kept\n%+v", got, kept)
	}
}

func TestPeerIsLetIn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		want := wantsIn("aa")
		want.Ask.Name, want.Ask.Roles, want.Ask.Scopes = "l\x00mp\xff", []string{"operator", "node", "node"}, []string{"z", "a"}
		r := ask(t, db, want, true)
		if r.ID != want.ID || !r.Created.Equal(now) || r.Ask.Name != "l\ufffdmp\ufffd" || !slices.Equal(r.Ask.Roles, []string{"node", "operator"}) || !slices.Equal(r.Ask.Scopes, []string{"a", "z"}) {
			t.Fatalf("a request: %+v", r)
		}
		kept, err := db.Peers.RequestByID(ctx, r.ID, now)
		must(t, err)
		same(t, r, kept)
		if _, err := db.Peers.ByID(ctx, "aa"); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("before it is approved: %v", err)
		}
		_, _, err = db.Peers.Approve(ctx, store.PeerDecision{ID: r.ID, Owner: "p2", At: now})
		wantErr(t, err, store.ErrNotFound)
		p, done, err := db.Peers.Approve(ctx, store.PeerDecision{ID: r.ID, Owner: "p1", Via: store.ViaSilent, At: now.Add(time.Second)})
		must(t, err)
		same(t, r, done)
		got, err := db.Peers.ByID(ctx, "aa")
		must(t, err)
		same(t, p, got)
		if p.Owner != "p1" || p.PublicKey != "key of aa" || p.Name != "l\ufffdmp\ufffd" || p.Platform != "linux" || p.Family != "Linux" || p.ClientID != "node-host" ||
			p.ClientMode != "node" || p.Version != "1.0" || p.Address != "192.0.2.7" || p.Via != store.ViaSilent || !p.Approved.Equal(now.Add(time.Second)) ||
			!p.Created.Equal(p.Approved) || !slices.Equal(p.Roles, r.Ask.Roles) || !slices.Equal(p.Scopes, r.Ask.Scopes) || p.Surface != "" || len(p.Commands) != 0 ||
			!p.Connected.IsZero() || !p.Seen.IsZero() || string(p.Settings) != "{}" || p.SecretVersion == 0 {
			t.Fatalf("approved: %+v", p)
		}
		_, _, err = db.Peers.Approve(ctx, store.PeerDecision{ID: r.ID, At: now})
		wantErr(t, err, store.ErrNotFound) // a request is decided once

		// With more, it waits again, and keeps what it had. The name is its owner's.
		must(t, db.Peers.Rename(ctx, "aa", "mine"))
		more := wantsIn("aa")
		more.Ask.Scopes, more.Ask.Platform, more.Ask.Version = []string{"m"}, "macos", "2.0"
		p2 := pair(t, db, more)
		if p2.Name != "mine" || p2.Platform != "macos" || p2.Version != "2.0" || p2.Via != store.ViaOwner || !slices.Equal(p2.Roles, []string{"node", "operator"}) ||
			!slices.Equal(p2.Scopes, []string{"a", "m", "z"}) || p2.SecretVersion != p.SecretVersion || !p2.Created.Equal(p.Created) {
			t.Fatalf("approved again: %+v", p2)
		}

		// Nobody else gets it.
		his := wantsIn("aa")
		his.Owner = "p2"
		_, _, err = db.Peers.Request(ctx, his)
		wantErr(t, err, store.ErrOccupied)
		nobodys := wantsIn("bb")
		nobodys.Owner = "nobody"
		_, _, err = db.Peers.Request(ctx, nobodys)
		wantErr(t, err, store.ErrNotFound)
		large := wantsIn("bb")
		large.Ask.PublicKey = strings.Repeat("k", store.MaxPeerAsk)
		_, _, err = db.Peers.Request(ctx, large)
		wantErr(t, err, store.ErrTooLarge)
		_, _, err = db.Peers.Request(ctx, store.PeerRequest{ID: "x", Kind: "other", Peer: "bb", Owner: "p1", Refreshed: now})
		if err == nil {
			t.Fatal("a request of another kind was taken")
		}

		// Removed, it is a stranger, whose secrets are others.
		must(t, db.Peers.Remove(ctx, "aa"))
		p = pair(t, db, his)
		if p.Owner != "p2" || p.Name != "lamp" || len(p.Scopes) != 0 || p.SecretVersion == p2.SecretVersion {
			t.Fatalf("after it was removed: %+v", p)
		}
	})
}

// A request keeps its id while it asks for the same, so that nobody can be made to
// agree to more than they have seen.
func TestPeerRequestStaysTheSame(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		first := ask(t, db, wantsIn("aa"), true)
		again := wantsIn("aa")
		again.Refreshed, again.Ask.Version, again.Ask.Name, again.Address = now.Add(4*time.Minute), "1.1", "desk", "198.51.100.1"
		got := ask(t, db, again, false)
		kept, err := db.Peers.RequestOf(ctx, store.RequestDevice, "aa", again.Refreshed)
		must(t, err)
		same(t, got, kept)
		if got.ID != first.ID || !got.Created.Equal(now) || !got.Refreshed.Equal(again.Refreshed) || got.Ask.Version != "1.1" || got.Ask.Name != "desk" || got.Address != "198.51.100.1" {
			t.Fatalf("made again: %+v", got)
		}

		// It lives on from its last attempt, and no longer.
		alive := again.Refreshed.Add(store.PeerRequestLife - time.Millisecond)
		for _, c := range []struct {
			at   time.Time
			want int
		}{{alive, 1}, {alive.Add(time.Millisecond), 0}} {
			list, err := db.Peers.Requests(ctx, store.RequestDevice, "p1", c.at)
			must(t, err)
			_, byID := db.Peers.RequestByID(ctx, first.ID, c.at)
			_, of := db.Peers.RequestOf(ctx, store.RequestDevice, "aa", c.at)
			if len(list) != c.want || (byID == nil) != (c.want == 1) || (of == nil) != (c.want == 1) {
				t.Errorf("at %v: %v, %v, %v", c.at, list, byID, of)
			}
		}
		_, _, err = db.Peers.Approve(ctx, store.PeerDecision{ID: first.ID, At: alive.Add(time.Millisecond)})
		wantErr(t, err, store.ErrNotFound)
		_, err = db.Peers.Reject(ctx, store.PeerDecision{ID: first.ID, At: alive.Add(time.Millisecond)})
		wantErr(t, err, store.ErrNotFound)
		late := wantsIn("aa")
		late.Refreshed = alive.Add(time.Millisecond)
		if got := ask(t, db, late, true); got.ID != late.ID || !got.Created.Equal(late.Refreshed) {
			t.Fatalf("after it expired: %+v", got)
		}

		// In two roles, it waits for both, whichever of the two it tries.
		before := late.ID
		operator := late
		operator.ID, operator.Ask.Roles, operator.Ask.Scopes = "both", []string{"operator"}, []string{"operator.read"}
		got = ask(t, db, operator, true)
		if got.ID != "both" || !slices.Equal(got.Ask.Roles, []string{"node", "operator"}) {
			t.Fatalf("in a second role: %+v", got)
		}
		_, _, err = db.Peers.Approve(ctx, store.PeerDecision{ID: before, At: late.Refreshed})
		wantErr(t, err, store.ErrNotFound)
		for _, r := range []store.PeerRequest{late, operator} {
			r.ID = "other"
			if got := ask(t, db, r, false); got.ID != "both" || len(got.Ask.Roles) != 2 {
				t.Fatalf("in one of its roles: %+v", got)
			}
		}

		// Somebody else's key, another platform: another request.
		for _, change := range []func(*store.PeerRequest){
			func(r *store.PeerRequest) { r.Owner = "p2" },
			func(r *store.PeerRequest) { r.Ask.Platform = "macos" },
			func(r *store.PeerRequest) { r.Ask.Family = "Mac" },
		} {
			change(&late)
			late.ID = fmt.Sprint(late.ID, "'")
			if got := ask(t, db, late, true); got.ID != late.ID || len(got.Ask.Roles) != 1 {
				t.Fatalf("something else: %+v", got)
			}
		}
		list, err := db.Peers.Requests(ctx, store.RequestDevice, "", late.Refreshed)
		if err != nil || len(list) != 1 || list[0].Owner != "p2" {
			t.Fatalf("everybody's: %+v %v", list, err)
		}
		rejected, err := db.Peers.Reject(ctx, store.PeerDecision{ID: late.ID, Owner: "p2", At: late.Refreshed})
		must(t, err)
		same(t, rejected, list[0])
		late.ID = "anew"
		ask(t, db, late, true)
	})
}

// raw writes to a database past its methods: tables that are full take too long to
// fill one by one.
func raw(t *testing.T, o store.Options, query string) {
	t.Helper()
	driver, name := "pgx", o.URL
	if name == "" {
		driver, name = "sqlite", filepath.Join(o.Folder, store.FileName)
	}
	db, err := sql.Open(driver, name)
	must(t, err)
	defer db.Close()
	_, err = db.Exec(query)
	must(t, err)
}

// numbers is a table of 1, 2, 3 … in column n, for either database.
func numbers(upTo int) string {
	return fmt.Sprintf(`(WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < %d) SELECT n FROM c) AS numbers`, upTo)
}

// Whatever is asked for, what waits is bounded.
func TestPeerRequestsAreBounded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		count := func(owner string) int {
			t.Helper()
			list, err := db.Peers.Requests(ctx, store.RequestDevice, owner, now)
			must(t, err)
			return len(list)
		}
		// Programs of one owner, each a millisecond after the one before it.
		flood := func(owner string) {
			raw(t, o, fmt.Sprintf(`INSERT INTO peer_requests (id, kind, peer, owner, address, body, created_at, refreshed_at)
				SELECT '%[1]s ' || (1000 + n), 'device', '%[1]s ' || (1000 + n), '%[1]s', '', '{}', %[2]d + n, %[2]d + n FROM `+numbers(store.MaxPeerRequests), owner, now.UnixMilli()))
		}
		one := func(peer, owner string) {
			t.Helper()
			r := wantsIn(peer)
			r.Owner, r.Refreshed = owner, now.Add(time.Second)
			ask(t, db, r, true)
		}
		old := wantsIn("old")
		ask(t, db, old, true)
		flood("p2")
		for i := range 10 {
			one(fmt.Sprint("one more ", i), "p2")
		}
		if n := count("p2"); n != store.MaxPeerRequests {
			t.Fatalf("%d wait for p2", n)
		}
		for peer, want := range map[string]bool{"p2 1010": false, "p2 1011": true, "one more 0": true} {
			if _, err := db.Peers.RequestOf(ctx, store.RequestDevice, peer, now); (err == nil) != want {
				t.Errorf("%s: %v", peer, err)
			}
		}
		ask(t, db, old, false) // one person's flood is nothing to others

		for i := range 4 {
			id := fmt.Sprint("q", i)
			must(t, db.People.Add(ctx, store.Person{ID: id, Name: id, Role: "member", Lang: "en", Created: now}))
			flood(id)
		}
		one("the last", "p1") // there are 1,001 already
		if n := count(""); n != store.MaxAllPeerRequests {
			t.Fatalf("%d wait", n)
		}
		// Many at once, and of several.
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 5 {
					r := store.PeerRequest{ID: fmt.Sprint("x", i, j), Kind: store.RequestDevice, Peer: fmt.Sprint("x", i, j), Owner: fmt.Sprint("q", i%2), Refreshed: now.Add(time.Second)}
					if _, made, err := db.Peers.Request(ctx, r); err != nil || !made {
						t.Error(made, err)
					}
				}
			})
		}
		wg.Wait()
		if all, q0, q1 := count(""), count("q0"), count("q1"); all > store.MaxAllPeerRequests || all < store.MaxAllPeerRequests-40 || q0 > store.MaxPeerRequests || q1 > store.MaxPeerRequests {
			t.Errorf("%d wait, %d for q0, %d for q1", all, q0, q1)
		}
		// A surface is asked for by peers only, and takes nobody's place.
		before := count("")
		pair(t, db, wantsIn("aa"))
		ask(t, db, declares("aa", "a"), true)
		if n := count(""); n < before-1 {
			t.Errorf("%d waited, now %d", before, n)
		}
		// What has expired goes, and what waits stays.
		before = count("")
		n, err := db.Purge(ctx, store.Limits{Now: now.Add(store.PeerRequestLife + 50*time.Millisecond)})
		must(t, err)
		if left := count(""); n == 0 || left == 0 || int(n)+left != before {
			t.Errorf("of %d, %d went and %d stay", before, n, left)
		}
		if _, err := db.Purge(ctx, store.Limits{Now: now.Add(time.Hour)}); err != nil || count("") != 0 {
			t.Errorf("%d are left: %v", count(""), err)
		}
		if _, err := db.Peers.RequestOf(ctx, store.RequestSurface, "aa", now.Add(time.Hour)); err != nil {
			t.Errorf("the request for a surface: %v", err)
		}
	})
}

// One person cannot have more and more peers.
func TestPeersAreBounded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		pair(t, db, wantsIn("aa"))
		raw(t, o, `INSERT INTO peers SELECT id || ' ' || n, owner, public_key, name, platform, family, client_id, client_mode, version, address, roles, scopes,
			approved_at, approved_via, secret_version, created_at, connected_at, disconnected_at, seen_at, seen_reason,
			surface_state, surface_at, caps, commands, declared_caps, declared_commands, permissions, path_env, settings FROM peers, `+numbers(store.MaxPeers-2))
		pair(t, db, wantsIn("bb"))
		r := ask(t, db, wantsIn("cc"), true)
		_, _, err := db.Peers.Approve(ctx, store.PeerDecision{ID: r.ID, At: now})
		wantErr(t, err, store.ErrFull)
		his := wantsIn("dd")
		his.Owner = "p2"
		pair(t, db, his)
		must(t, db.Peers.Remove(ctx, "aa 17"))
		grant(t, db, r.ID)
	})
}

// The same program asks at several places at the same moment: there is one request.
func TestPeerRequestsAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		var (
			wg    sync.WaitGroup
			mu    sync.Mutex
			ids   = map[string]int{}
			fresh int
		)
		for i := range 16 {
			r := wantsIn("aa")
			r.ID = fmt.Sprint("one", i)
			wg.Go(func() {
				got, made, err := db.Peers.Request(ctx, r)
				mu.Lock()
				defer mu.Unlock()
				if ids[got.ID]++; made {
					fresh++
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if fresh != 1 || len(ids) != 1 {
			t.Fatalf("%d were made: %v", fresh, ids)
		}
		// And it is approved once.
		var id string
		for id = range ids {
		}
		approved := 0
		for range 8 {
			wg.Go(func() {
				_, _, err := db.Peers.Approve(ctx, store.PeerDecision{ID: id, At: now})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					approved++
				} else if !errors.Is(err, store.ErrNotFound) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if approved != 1 {
			t.Fatalf("approved %d times", approved)
		}
	})
}

// A program looks whether it is paired, and is not; then it is let in; then it asks.
func TestPeerAsksForWhatItHas(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		node := func(p store.Peer) bool { return slices.Contains(p.Roles, "node") }
		waits := func(kind string, want int) {
			t.Helper()
			list, err := db.Peers.Requests(ctx, kind, "", now)
			if err != nil || len(list) != want {
				t.Fatalf("%d %s requests wait, not %d: %+v %v", len(list), kind, want, list, err)
			}
		}
		late := wantsIn("aa")
		kept, made, err := db.Peers.RequestUnless(ctx, late, node)
		if err != nil || !made {
			t.Fatalf("made is %v, %v", made, err)
		}
		if again, made, err := db.Peers.RequestUnless(ctx, wantsIn("aa"), node); err != nil || made || again.ID != kept.ID {
			t.Fatalf("while it waits: %+v %v %v", again, made, err)
		}
		grant(t, db, kept.ID)
		_, _, err = db.Peers.RequestUnless(ctx, late, node)
		wantErr(t, err, store.ErrAgreed)
		waits(store.RequestDevice, 0)
		his := wantsIn("aa")
		his.Owner = "p2"
		_, _, err = db.Peers.RequestUnless(ctx, his, node)
		wantErr(t, err, store.ErrOccupied)
		if _, made, err := db.Peers.RequestUnless(ctx, late, func(store.Peer) bool { return false }); err != nil || !made {
			t.Fatalf("what it has is not enough: %v %v", made, err)
		}
		waits(store.RequestDevice, 1)

		// The same with what it can do.
		wide := declares("aa", "b", "a")
		grant(t, db, ask(t, db, wide, true).ID)
		for _, commands := range [][]string{{"a", "b"}, {"b"}, nil} {
			_, _, err = db.Peers.Request(ctx, declares("aa", commands...))
			wantErr(t, err, store.ErrAgreed)
		}
		waits(store.RequestSurface, 0)
		if p, err := db.Peers.ByID(ctx, "aa"); err != nil || p.Surface != store.SurfaceApproved || !slices.Equal(p.Commands, []string{"a", "b"}) {
			t.Fatalf("after it has asked: %+v %v", p, err)
		}
		ask(t, db, declares("aa", "c"), true)
		waits(store.RequestSurface, 1)
	})
}

func TestPeerSurface(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		_, _, err := db.Peers.Request(ctx, declares("aa", "b", "a"))
		wantErr(t, err, store.ErrNotFound) // only who was let in
		pair(t, db, wantsIn("aa"))
		his := declares("aa", "b", "a")
		his.Owner = "p2"
		_, _, err = db.Peers.Request(ctx, his)
		wantErr(t, err, store.ErrNotFound)
		peer := func(state string, commands, declared string) store.Peer {
			t.Helper()
			p, err := db.Peers.ByID(ctx, "aa")
			must(t, err)
			if p.Surface != state || strings.Join(p.Commands, " ") != commands || strings.Join(p.DeclaredCommands, " ") != declared {
				t.Fatalf("surface %q, may %v, declares %v; want %q, %q, %q", p.Surface, p.Commands, p.DeclaredCommands, state, commands, declared)
			}
			return p
		}
		narrow := func(want error, commands ...string) string {
			t.Helper()
			withdrawn, err := db.Peers.SetSurface(ctx, "aa", []string{"mcp"}, commands)
			if !errors.Is(err, want) {
				t.Fatalf("got %v, want %v", err, want)
			}
			return withdrawn
		}
		narrow(store.ErrWider) // not even nothing, before somebody agrees
		peer("", "", "")
		first := ask(t, db, declares("aa", "b", "a"), true)
		peer(store.SurfacePending, "", "a b")
		if got := ask(t, db, declares("aa", "a", "b", "a"), false); got.ID != first.ID {
			t.Fatalf("in another order: %+v", got)
		}
		second := ask(t, db, declares("aa", "a", "b", "c"), true)
		_, _, err = db.Peers.Approve(ctx, store.PeerDecision{ID: first.ID, At: now})
		wantErr(t, err, store.ErrNotFound)
		_, err = db.Peers.Reject(ctx, store.PeerDecision{ID: second.ID, At: now})
		must(t, err)
		peer(store.SurfaceUnapproved, "", "a b c")
		narrow(store.ErrWider, "a")

		// It waits for years.
		third := ask(t, db, declares("aa", "c", "b", "a"), true)
		peer(store.SurfacePending, "", "a b c")
		years := now.AddDate(3, 0, 0)
		list, err := db.Peers.Requests(ctx, store.RequestSurface, "p1", years)
		if err != nil || len(list) != 1 || list[0].ID != third.ID {
			t.Fatalf("after years: %v %v", list, err)
		}
		_, err = db.Purge(ctx, store.Limits{Now: years})
		must(t, err)
		late := declares("aa", "c", "b", "a")
		late.Refreshed = years
		ask(t, db, late, false)
		p, _, err := db.Peers.Approve(ctx, store.PeerDecision{ID: third.ID, At: years})
		must(t, err)
		same(t, p, peer(store.SurfaceApproved, "a b c", "a b c"))
		if !p.SurfaceAt.Equal(years) || !slices.Equal(p.Caps, []string{"mcp"}) {
			t.Fatalf("approved: %+v", p)
		}

		// Less needs nobody, more does, and what was approved stays in force.
		if w := narrow(nil, "c", "b"); w != "" {
			t.Fatalf("withdrawn %q", w)
		}
		peer(store.SurfaceApproved, "b c", "b c")
		narrow(store.ErrWider, "a", "b", "c")
		wider := ask(t, db, declares("aa", "b", "c", "d"), true)
		peer(store.SurfaceRepending, "b c", "b c d")
		if w := narrow(nil, "b"); w != wider.ID {
			t.Fatalf("withdrawn %q, want %q", w, wider.ID)
		}
		peer(store.SurfaceApproved, "b", "b")
		_, err = db.Peers.RequestByID(ctx, wider.ID, now)
		wantErr(t, err, store.ErrNotFound)
		rejected := ask(t, db, declares("aa", "b", "d"), true)
		_, err = db.Peers.Reject(ctx, store.PeerDecision{ID: rejected.ID, At: now})
		must(t, err)
		peer(store.SurfaceApproved, "b", "b d")
		if w := narrow(nil, "b"); w != "" {
			t.Fatalf("withdrawn %q", w)
		}
		peer(store.SurfaceApproved, "b", "b")
		if _, err := db.Peers.SetSurface(ctx, "aa", []string{"mcp", "talk"}, []string{"b"}); !errors.Is(err, store.ErrWider) {
			t.Fatalf("another cap: %v", err)
		}
		grant(t, db, ask(t, db, declares("aa", "b", "e"), true).ID)
		peer(store.SurfaceApproved, "b e", "b e")
		_, err = db.Peers.SetSurface(ctx, "bb", nil, nil)
		wantErr(t, err, store.ErrNotFound)

		// Requests for a surface are not counted with the others, and go with the peer.
		gone := ask(t, db, declares("aa", "f"), true)
		must(t, db.Peers.Remove(ctx, "aa"))
		_, err = db.Peers.RequestByID(ctx, gone.ID, now)
		wantErr(t, err, store.ErrNotFound)
	})
}

func TestPeersComeAndGo(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		const many = 115
		var ids []string
		for i := range many {
			ids = append(ids, pair(t, db, wantsIn(fmt.Sprintf("peer %03d", i))).ID)
		}
		his := wantsIn("his")
		his.Owner = "p2"
		pair(t, db, his)
		at := now.Add(time.Minute)
		var wg sync.WaitGroup
		for _, id := range ids {
			wg.Go(func() {
				if err := db.Peers.Connected(ctx, store.PeerConnect{ID: id, Version: "2", Address: "203.0.113.9", PathEnv: "/bin", Permissions: json.RawMessage(`{"camera":true}`), At: at}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		p, err := db.Peers.ByID(ctx, ids[7])
		must(t, err)
		if !p.Connected.Equal(at) || !p.Seen.Equal(at) || p.SeenReason != "connect" || p.Version != "2" || p.Address != "203.0.113.9" || p.PathEnv != "/bin" ||
			string(p.Permissions) != `{"camera":true}` || p.ClientID != "node-host" || p.ClientMode != "node" || !p.Disconnected.IsZero() {
			t.Fatalf("connected: %+v", p)
		}
		must(t, db.Peers.Connected(ctx, store.PeerConnect{ID: ids[7], ClientID: "cli", ClientMode: "cli", At: at}))
		if q, _ := db.Peers.ByID(ctx, ids[7]); q.ClientID != "cli" || q.Version != "2" || q.PathEnv != "/bin" || string(q.Permissions) != `{"camera":true}` {
			t.Fatalf("connected as an operator: %+v", q)
		}
		later := at.Add(time.Minute)
		must(t, db.Peers.Seen(ctx, ids[3], "node.presence.alive", later.Add(time.Hour)))
		must(t, db.Peers.MarkSeen(ctx, append(ids[:110:110], "gone"), later))
		must(t, db.Peers.MarkDisconnected(ctx, ids[:2], later))
		must(t, db.Peers.Disconnected(ctx, ids[2], later))
		for i, want := range map[int]time.Time{0: later, 3: later.Add(time.Hour), 105: later, 109: later, 110: at} {
			if p, err := db.Peers.ByID(ctx, ids[i]); err != nil || !p.Seen.Equal(want) || p.Disconnected.IsZero() == (i < 3) {
				t.Errorf("%d: seen %v, disconnected %v, want %v: %v", i, p.Seen, p.Disconnected, want, err)
			}
		}
		if p, _ := db.Peers.ByID(ctx, ids[3]); p.SeenReason != "node.presence.alive" {
			t.Errorf("seen because of %q", p.SeenReason)
		}
		for _, err := range []error{
			db.Peers.Connected(ctx, store.PeerConnect{ID: "gone", At: at}), db.Peers.Disconnected(ctx, "gone", at), db.Peers.Seen(ctx, "gone", "", at),
			db.Peers.Rename(ctx, "gone", "x"), db.Peers.Remove(ctx, "gone"), db.Peers.Rotate(ctx, "gone"), db.Peers.SetSettings(ctx, "gone", json.RawMessage(`{}`)),
		} {
			wantErr(t, err, store.ErrNotFound)
		}

		var got []string
		for after := ""; ; {
			page, err := db.Peers.ByOwner(ctx, "p1", after, 100)
			must(t, err)
			if len(page) == 0 {
				break
			}
			for _, p := range page {
				got = append(got, p.ID)
			}
			after = page[len(page)-1].ID
		}
		if !slices.Equal(got, ids) {
			t.Errorf("%d are listed of %d", len(got), many)
		}
		if page, err := db.Peers.ByOwner(ctx, "", "", 10*many); err != nil || len(page) != many+1 {
			t.Errorf("everybody's: %d %v", len(page), err)
		}
	})
}

// Instances mark peers while those come and go.
func TestPeersAreMarkedAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		var ids []string
		for i := range 40 {
			ids = append(ids, pair(t, db, wantsIn(fmt.Sprintf("peer %03d", i))).ID)
		}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				order := slices.Clone(ids)
				if i%2 == 1 {
					slices.Reverse(order)
				}
				for j := range 5 {
					if err := db.Peers.MarkSeen(ctx, order, now.Add(time.Duration(j)*time.Second)); err != nil {
						t.Error(err)
					}
				}
			})
			wg.Go(func() {
				for _, id := range ids {
					if err := db.Peers.Connected(ctx, store.PeerConnect{ID: id, At: now}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestPeerTokens(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		p := pair(t, db, wantsIn("aa"))
		k, err := db.Peers.SetToken(ctx, p, store.PeerToken{Role: "operator", Hash: "h1", Scopes: []string{"b", "a"}, Created: now})
		must(t, err)
		for _, find := range []func() (store.PeerToken, error){
			func() (store.PeerToken, error) { return db.Peers.Token(ctx, "aa", "operator") },
			func() (store.PeerToken, error) { return db.Peers.TokenByHash(ctx, "h1") },
		} {
			got, err := find()
			must(t, err)
			same(t, k, got)
		}
		if k.Peer != "aa" || !slices.Equal(k.Scopes, []string{"a", "b"}) || !k.Created.Equal(now) || !k.Used.IsZero() {
			t.Fatalf("kept: %+v", k)
		}
		k, err = db.Peers.SetToken(ctx, p, store.PeerToken{Role: "operator", Hash: "h1", Scopes: []string{"c"}, Created: now.Add(time.Hour)})
		must(t, err)
		if !k.Created.Equal(now) || !slices.Equal(k.Scopes, []string{"c"}) {
			t.Fatalf("the same token: %+v", k)
		}
		k, err = db.Peers.SetToken(ctx, p, store.PeerToken{Role: "operator", Hash: "h2", Created: now.Add(time.Hour)})
		must(t, err)
		if !k.Created.Equal(now.Add(time.Hour)) || len(k.Scopes) != 0 {
			t.Fatalf("another token: %+v", k)
		}
		_, err = db.Peers.TokenByHash(ctx, "h1")
		wantErr(t, err, store.ErrNotFound)
		_, err = db.Peers.SetToken(ctx, p, store.PeerToken{Role: "node", Hash: "h2", Created: now})
		wantErr(t, err, store.ErrExists)
		_, err = db.Peers.SetToken(ctx, p, store.PeerToken{Role: "node", Hash: "h3", Created: now})
		must(t, err)
		list, err := db.Peers.Tokens(ctx, "aa")
		if err != nil || len(list) != 2 || list[0].Role != "node" || list[1].Role != "operator" {
			t.Fatalf("both: %+v %v", list, err)
		}
		must(t, db.Peers.MarkTokenUsed(ctx, "aa", "node", now))
		must(t, db.Peers.MarkTokenUsed(ctx, "aa", "node", now.Add(30*time.Second))) // within the minute: not written
		if k, _ := db.Peers.Token(ctx, "aa", "node"); !k.Used.Equal(now) {
			t.Fatalf("used at %v", k.Used)
		}

		must(t, db.Peers.Rotate(ctx, "aa"))
		_, err = db.Peers.SetToken(ctx, p, store.PeerToken{Role: "node", Hash: "h4", Created: now})
		wantErr(t, err, store.ErrNotFound) // of a peer as it was before
		list, err = db.Peers.Tokens(ctx, "aa")
		if err != nil || len(list) != 0 {
			t.Fatalf("after they were ended: %+v %v", list, err)
		}
		after, err := db.Peers.ByID(ctx, "aa")
		must(t, err)
		if after.SecretVersion <= p.SecretVersion {
			t.Fatalf("version %d, then %d", p.SecretVersion, after.SecretVersion)
		}
		_, err = db.Peers.SetToken(ctx, after, store.PeerToken{Role: "node", Hash: "h5", Created: now})
		must(t, err)
		must(t, db.Peers.Remove(ctx, "aa"))
		_, err = db.Peers.TokenByHash(ctx, "h5")
		wantErr(t, err, store.ErrNotFound)
	})
}

// What is decided about a peer is counted, and nothing else.
func TestPeersVersion(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		d := db.Peers
		p := pair(t, db, wantsIn("aa"))
		var waits store.PeerRequest
		request := func(r store.PeerRequest) func() error {
			return func() (err error) { waits, _, err = d.Request(ctx, r); return err }
		}
		approve := func() error { _, _, err := d.Approve(ctx, store.PeerDecision{ID: waits.ID, At: now}); return err }
		reject := func() error { _, err := d.Reject(ctx, store.PeerDecision{ID: waits.ID, At: now}); return err }
		surface := func(commands ...string) func() error {
			return func() error { _, err := d.SetSurface(ctx, "aa", []string{"mcp"}, commands); return err }
		}
		for _, c := range []struct {
			what  string
			grows bool
			do    func() error
		}{
			{"Request", false, request(wantsIn("bb"))},
			{"Request again", false, request(wantsIn("bb"))},
			{"Reject", true, reject},
			{"Request of a surface", false, request(declares("aa", "a", "b"))},
			{"Approve", true, approve},
			{"SetSurface of the same", false, surface("b", "a")},
			{"SetSurface of less", true, surface("a")},
			{"Connected", false, func() error { return d.Connected(ctx, store.PeerConnect{ID: "aa", At: now}) }},
			{"Seen", false, func() error { return d.Seen(ctx, "aa", "x", now) }},
			{"MarkSeen", false, func() error { return d.MarkSeen(ctx, []string{"aa"}, now) }},
			{"Disconnected", false, func() error { return d.Disconnected(ctx, "aa", now) }},
			{"SetToken", false, func() error {
				_, err := d.SetToken(ctx, p, store.PeerToken{Role: "node", Hash: "h", Created: now})
				return err
			}},
			{"MarkTokenUsed", false, func() error { return d.MarkTokenUsed(ctx, "aa", "node", now) }},
			{"Rename", true, func() error { return d.Rename(ctx, "aa", "hall") }},
			{"SetSettings", true, func() error { return d.SetSettings(ctx, "aa", json.RawMessage(`{"a":1}`)) }},
			{"Rotate", true, func() error { return d.Rotate(ctx, "aa") }},
			{"Remove", true, func() error { return d.Remove(ctx, "aa") }},
		} {
			before, err := db.PeersVersion(ctx)
			must(t, err)
			if err := c.do(); err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			after, err := db.PeersVersion(ctx)
			must(t, err)
			if (after > before) != c.grows {
				t.Errorf("%s: %d, then %d", c.what, before, after)
			}
		}
		before, err := db.PeersVersion(ctx)
		must(t, err)
		for _, err := range []error{d.Remove(ctx, "aa"), d.Rename(ctx, "aa", "x"), d.Rotate(ctx, "aa"), approve(), reject()} {
			wantErr(t, err, store.ErrNotFound)
		}
		if after, err := db.PeersVersion(ctx); err != nil || after != before {
			t.Errorf("what was refused counts: %d, then %d: %v", before, after, err)
		}
	})
}
