package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
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

// deviceRequest returns a pairing request of a program as a node of p1.
func deviceRequest(peer string) store.PeerRequest {
	requestIDs++
	return store.PeerRequest{ID: fmt.Sprint("r", requestIDs), Kind: store.RequestDevice, Peer: peer,
		Owner: "p1", Address: "192.0.2.7", Refreshed: now,
		Ask: store.PeerAsk{PublicKey: "key of " + peer, Name: "lamp", Platform: "linux", Family: "Linux",
			ClientID: "node-host", ClientMode: "node", Version: "1.0", Roles: []string{"node"}}}
}

// surfaceRequest returns a surface request of a peer for commands.
func surfaceRequest(peer string, commands ...string) store.PeerRequest {
	r := deviceRequest(peer)
	r.Kind, r.Ask.Roles, r.Ask.Caps, r.Ask.Commands = store.RequestSurface, nil, []string{"mcp"}, commands
	return r
}

// ask makes a request and checks whether it is a new one.
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

// pair requests and approves the pairing of a program.
func pair(t *testing.T, db *store.DB, r store.PeerRequest) store.Peer {
	t.Helper()
	return grant(t, db, ask(t, db, r, true).ID)
}

// same compares a returned value with the stored one.
func same(t *testing.T, got, kept any) {
	t.Helper()
	if !reflect.DeepEqual(got, kept) {
		t.Fatalf("returned\n%+v, kept\n%+v", got, kept)
	}
}

func TestPeerIsLetIn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		want := deviceRequest("aa")
		want.Ask.Name, want.Ask.Roles, want.Ask.Scopes = "l\x00mp\xff", []string{"operator", "node",
			"node"}, []string{"z", "a"}
		r := ask(t, db, want, true)
		if r.ID != want.ID || !r.Created.Equal(now) || r.Ask.Name != "l\ufffdmp\ufffd" ||
			!slices.Equal(r.Ask.Roles, []string{"node", "operator"}) ||
			!slices.Equal(r.Ask.Scopes, []string{"a", "z"}) {
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
		p, done, err := db.Peers.Approve(ctx, store.PeerDecision{ID: r.ID, Owner: "p1", Via: store.ViaSilent,
			At: now.Add(time.Second)})
		must(t, err)
		same(t, r, done)
		got, err := db.Peers.ByID(ctx, "aa")
		must(t, err)
		same(t, p, got)
		if p.Owner != "p1" || p.PublicKey != "key of aa" || p.Name != "l\ufffdmp\ufffd" || p.Platform != "linux" ||
			p.Family != "Linux" || p.ClientID != "node-host" ||
			p.ClientMode != "node" || p.Version != "1.0" || p.Address != "192.0.2.7" || p.Via != store.ViaSilent ||
			!p.Approved.Equal(now.Add(time.Second)) ||
			!p.Created.Equal(p.Approved) || !slices.Equal(p.Roles, r.Ask.Roles) ||
			!slices.Equal(p.Scopes, r.Ask.Scopes) || p.Surface != "" || len(p.Commands) != 0 ||
			!p.Connected.IsZero() || !p.Seen.IsZero() || string(p.Settings) != "{}" || p.SecretVersion == 0 {
			t.Fatalf("approved: %+v", p)
		}
		_, _, err = db.Peers.Approve(ctx, store.PeerDecision{ID: r.ID, At: now})
		wantErr(t, err, store.ErrNotFound) // a request can be decided only once

		// A request for more is pending again, and the peer keeps what it had. The owner's name for
		// it wins.
		must(t, db.Peers.Rename(ctx, "aa", "mine"))
		more := deviceRequest("aa")
		more.Ask.Scopes, more.Ask.Platform, more.Ask.Version = []string{"m"}, "macos", "2.0"
		p2 := pair(t, db, more)
		if p2.Name != "mine" || p2.Platform != "macos" || p2.Version != "2.0" || p2.Via != store.ViaOwner ||
			!slices.Equal(p2.Roles, []string{"node", "operator"}) ||
			!slices.Equal(p2.Scopes, []string{"a", "m", "z"}) || p2.SecretVersion != p.SecretVersion ||
			!p2.Created.Equal(p.Created) {
			t.Fatalf("approved again: %+v", p2)
		}

		// Another person cannot pair it.
		his := deviceRequest("aa")
		his.Owner = "p2"
		_, _, err = db.Peers.Request(ctx, his)
		wantErr(t, err, store.ErrOccupied)
		nobodys := deviceRequest("bb")
		nobodys.Owner = "nobody"
		_, _, err = db.Peers.Request(ctx, nobodys)
		wantErr(t, err, store.ErrNotFound)
		large := deviceRequest("bb")
		large.Ask.PublicKey = strings.Repeat("k", store.MaxPeerAsk)
		_, _, err = db.Peers.Request(ctx, large)
		wantErr(t, err, store.ErrTooLarge)
		_, _, err = db.Peers.Request(ctx, store.PeerRequest{ID: "x", Kind: "other", Peer: "bb", Owner: "p1",
			Refreshed: now})
		if err == nil {
			t.Fatal("a request of another kind was taken")
		}

		// After removal it is unknown, and a new pairing has a new secret version.
		must(t, db.Peers.Remove(ctx, "aa"))
		p = pair(t, db, his)
		if p.Owner != "p2" || p.Name != "lamp" || len(p.Scopes) != 0 || p.SecretVersion == p2.SecretVersion {
			t.Fatalf("after it was removed: %+v", p)
		}
	})
}

func TestPeerSurface(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		_, _, err := db.Peers.Request(ctx, surfaceRequest("aa", "b", "a"))
		wantErr(t, err, store.ErrNotFound) // only a paired peer
		pair(t, db, deviceRequest("aa"))
		his := surfaceRequest("aa", "b", "a")
		his.Owner = "p2"
		_, _, err = db.Peers.Request(ctx, his)
		wantErr(t, err, store.ErrNotFound)
		peer := func(state string, commands, declared string) store.Peer {
			t.Helper()
			p, err := db.Peers.ByID(ctx, "aa")
			must(t, err)
			if p.Surface != state || strings.Join(p.Commands, " ") != commands ||
				strings.Join(p.DeclaredCommands, " ") != declared {
				t.Fatalf("surface %q, may %v, declares %v; want %q, %q, %q", p.Surface, p.Commands, p.DeclaredCommands,
					state, commands, declared)
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
		narrow(store.ErrExceedsApproval) // even an empty surface needs a first approval
		peer("", "", "")
		first := ask(t, db, surfaceRequest("aa", "b", "a"), true)
		peer(store.SurfacePending, "", "a b")
		if got := ask(t, db, surfaceRequest("aa", "a", "b", "a"), false); got.ID != first.ID {
			t.Fatalf("in another order: %+v", got)
		}
		second := ask(t, db, surfaceRequest("aa", "a", "b", "c"), true)
		_, _, err = db.Peers.Approve(ctx, store.PeerDecision{ID: first.ID, At: now})
		wantErr(t, err, store.ErrNotFound)
		_, err = db.Peers.Reject(ctx, store.PeerDecision{ID: second.ID, At: now})
		must(t, err)
		peer(store.SurfaceUnapproved, "", "a b c")
		narrow(store.ErrExceedsApproval, "a")

		// A surface request never expires.
		third := ask(t, db, surfaceRequest("aa", "c", "b", "a"), true)
		peer(store.SurfacePending, "", "a b c")
		years := now.AddDate(3, 0, 0)
		list, err := db.Peers.Requests(ctx, store.RequestSurface, "p1", years)
		if err != nil || len(list) != 1 || list[0].ID != third.ID {
			t.Fatalf("after years: %v %v", list, err)
		}
		_, err = db.Purge(ctx, store.Limits{Now: years})
		must(t, err)
		late := surfaceRequest("aa", "c", "b", "a")
		late.Refreshed = years
		ask(t, db, late, false)
		p, _, err := db.Peers.Approve(ctx, store.PeerDecision{ID: third.ID, At: years})
		must(t, err)
		same(t, p, peer(store.SurfaceApproved, "a b c", "a b c"))
		if !p.SurfaceAt.Equal(years) || !slices.Equal(p.Caps, []string{"mcp"}) {
			t.Fatalf("approved: %+v", p)
		}

		// Declaring less needs no approval, declaring more does, and the approved surface stays in
		// force.
		if w := narrow(nil, "c", "b"); w != "" {
			t.Fatalf("withdrawn %q", w)
		}
		peer(store.SurfaceApproved, "b c", "b c")
		narrow(store.ErrExceedsApproval, "a", "b", "c")
		wider := ask(t, db, surfaceRequest("aa", "b", "c", "d"), true)
		peer(store.SurfaceRepending, "b c", "b c d")
		if w := narrow(nil, "b"); w != wider.ID {
			t.Fatalf("withdrawn %q, want %q", w, wider.ID)
		}
		peer(store.SurfaceApproved, "b", "b")
		_, err = db.Peers.RequestByID(ctx, wider.ID, now)
		wantErr(t, err, store.ErrNotFound)
		rejected := ask(t, db, surfaceRequest("aa", "b", "d"), true)
		_, err = db.Peers.Reject(ctx, store.PeerDecision{ID: rejected.ID, At: now})
		must(t, err)
		peer(store.SurfaceApproved, "b", "b d")
		if w := narrow(nil, "b"); w != "" {
			t.Fatalf("withdrawn %q", w)
		}
		peer(store.SurfaceApproved, "b", "b")
		if _, err := db.Peers.SetSurface(ctx, "aa", []string{"mcp", "talk"}, []string{"b"}); !errors.Is(err,
			store.ErrExceedsApproval) {
			t.Fatalf("another cap: %v", err)
		}
		grant(t, db, ask(t, db, surfaceRequest("aa", "b", "e"), true).ID)
		peer(store.SurfaceApproved, "b e", "b e")
		_, err = db.Peers.SetSurface(ctx, "bb", nil, nil)
		wantErr(t, err, store.ErrNotFound)

		// Surface requests do not count with the others, and are deleted with the peer.
		gone := ask(t, db, surfaceRequest("aa", "f"), true)
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
			ids = append(ids, pair(t, db, deviceRequest(fmt.Sprintf("peer %03d", i))).ID)
		}
		his := deviceRequest("his")
		his.Owner = "p2"
		pair(t, db, his)
		at := now.Add(time.Minute)
		var wg sync.WaitGroup
		for _, id := range ids {
			wg.Go(func() {
				if err := db.Peers.Connected(ctx, store.PeerConnect{ID: id,
					Version: "2", Address: "203.0.113.9", PathEnv: "/bin",
					Permissions: json.RawMessage(`{"camera":true}`), At: at}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		p, err := db.Peers.ByID(ctx, ids[7])
		must(t, err)
		if !p.Connected.Equal(at) || !p.Seen.Equal(at) || p.SeenReason != "connect" || p.Version != "2" ||
			p.Address != "203.0.113.9" || p.PathEnv != "/bin" ||
			string(p.Permissions) != `{"camera":true}` || p.ClientID != "node-host" || p.ClientMode != "node" ||
			!p.Disconnected.IsZero() {
			t.Fatalf("connected: %+v", p)
		}
		must(t, db.Peers.Connected(ctx, store.PeerConnect{ID: ids[7], ClientID: "cli", ClientMode: "cli", At: at}))
		if q, _ := db.Peers.ByID(ctx, ids[7]); q.ClientID != "cli" || q.Version != "2" || q.PathEnv != "/bin" ||
			string(q.Permissions) != `{"camera":true}` {
			t.Fatalf("connected as an operator: %+v", q)
		}
		later := at.Add(time.Minute)
		must(t, db.Peers.Seen(ctx, ids[3], "node.presence.alive", later.Add(time.Hour)))
		must(t, db.Peers.Disconnected(ctx, ids[2], later))
		for i, want := range map[int]time.Time{2: at, 3: later.Add(time.Hour), 4: at} {
			if p, err := db.Peers.ByID(ctx, ids[i]); err != nil || !p.Seen.Equal(want) ||
				p.Disconnected.IsZero() == (i == 2) {
				t.Errorf("%d: seen %v, disconnected %v, want %v: %v", i, p.Seen, p.Disconnected, want, err)
			}
		}
		if p, _ := db.Peers.ByID(ctx, ids[3]); p.SeenReason != "node.presence.alive" {
			t.Errorf("seen because of %q", p.SeenReason)
		}
		for _, err := range []error{
			db.Peers.Connected(ctx, store.PeerConnect{ID: "gone", At: at}), db.Peers.Disconnected(ctx, "gone", at),
			db.Peers.Seen(ctx, "gone", "", at),
			db.Peers.Rename(ctx, "gone", "x"), db.Peers.Remove(ctx, "gone"), db.Peers.Rotate(ctx, "gone"),
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

func TestPeerTokens(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		p := pair(t, db, deviceRequest("aa"))
		k, err := db.Peers.SetToken(ctx, p, store.PeerToken{Role: "operator", Hash: "h1", Scopes: []string{"b", "a"},
			Created: now}, store.PeerToken{})
		must(t, err)
		got, err := db.Peers.Token(ctx, "aa", "operator")
		must(t, err)
		same(t, k, got)
		if k.Peer != "aa" || !slices.Equal(k.Scopes, []string{"a", "b"}) || !k.Created.Equal(now) || !k.Used.IsZero() {
			t.Fatalf("kept: %+v", k)
		}
		k, err = db.Peers.SetToken(ctx, p, store.PeerToken{Role: "operator", Hash: "h1", Scopes: []string{"c"},
			Created: now.Add(time.Hour)}, k)
		must(t, err)
		if !k.Created.Equal(now) || !slices.Equal(k.Scopes, []string{"c"}) {
			t.Fatalf("the same token: %+v", k)
		}
		k, err = db.Peers.SetToken(ctx, p, store.PeerToken{Role: "operator", Hash: "h2", Created: now.Add(time.Hour)}, k)
		must(t, err)
		if !k.Created.Equal(now.Add(time.Hour)) || len(k.Scopes) != 0 {
			t.Fatalf("another token: %+v", k)
		}
		_, err = db.Peers.SetToken(ctx, p, store.PeerToken{Role: "operator", Hash: "h6", Created: now}, store.PeerToken{})
		wantErr(t, err, store.ErrTokenChanged)
		_, err = db.Peers.SetToken(ctx, p, store.PeerToken{Role: "node", Hash: "h2", Created: now}, store.PeerToken{})
		wantErr(t, err, store.ErrExists)
		_, err = db.Peers.SetToken(ctx, p, store.PeerToken{Role: "node", Hash: "h3", Created: now}, store.PeerToken{})
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
		_, err = db.Peers.SetToken(ctx, p, store.PeerToken{Role: "node", Hash: "h4", Created: now}, store.PeerToken{})
		wantErr(t, err, store.ErrNotFound) // the peer has changed since it was read
		list, err = db.Peers.Tokens(ctx, "aa")
		if err != nil || len(list) != 0 {
			t.Fatalf("after they were ended: %+v %v", list, err)
		}
		after, err := db.Peers.ByID(ctx, "aa")
		must(t, err)
		if after.SecretVersion <= p.SecretVersion {
			t.Fatalf("version %d, then %d", p.SecretVersion, after.SecretVersion)
		}
		_, err = db.Peers.SetToken(ctx, after, store.PeerToken{Role: "node", Hash: "h5", Created: now}, store.PeerToken{})
		must(t, err)
		must(t, db.Peers.Remove(ctx, "aa"))
		_, err = db.Peers.Token(ctx, "aa", "node")
		wantErr(t, err, store.ErrNotFound)
	})
}

// Decisions about a peer increment the peers version, and nothing else does.
func TestPeersVersion(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		d := db.Peers
		p := pair(t, db, deviceRequest("aa"))
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
			{"Request", false, request(deviceRequest("bb"))},
			{"Request again", false, request(deviceRequest("bb"))},
			{"Reject", true, reject},
			{"Request of a surface", false, request(surfaceRequest("aa", "a", "b"))},
			{"Approve", true, approve},
			{"SetSurface of the same", false, surface("b", "a")},
			{"SetSurface of less", true, surface("a")},
			{"Connected", false, func() error { return d.Connected(ctx, store.PeerConnect{ID: "aa", At: now}) }},
			{"Seen", false, func() error { return d.Seen(ctx, "aa", "x", now) }},
			{"Disconnected", false, func() error { return d.Disconnected(ctx, "aa", now) }},
			{"SetToken", false, func() error {
				_, err := d.SetToken(ctx, p, store.PeerToken{Role: "node", Hash: "h", Created: now}, store.PeerToken{})
				return err
			}},
			{"MarkTokenUsed", false, func() error { return d.MarkTokenUsed(ctx, "aa", "node", now) }},
			{"Rename", true, func() error { return d.Rename(ctx, "aa", "hall") }},
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
		for _, err := range []error{d.Remove(ctx, "aa"), d.Rename(ctx, "aa", "x"), d.Rotate(ctx, "aa"), approve(),
			reject()} {
			wantErr(t, err, store.ErrNotFound)
		}
		if after, err := db.PeersVersion(ctx); err != nil || after != before {
			t.Errorf("what was refused counts: %d, then %d: %v", before, after, err)
		}
	})
}
