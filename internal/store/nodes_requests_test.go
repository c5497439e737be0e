package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// A request keeps its id while it requests the same rights, so that nobody approves more than they
// have seen.
func TestPeerRequestStaysTheSame(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		first := ask(t, db, deviceRequest("aa"), true)
		again := deviceRequest("aa")
		again.Refreshed, again.Ask.Version, again.Ask.Name, again.Address = now.Add(4*time.Minute), "1.1", "desk",
			"198.51.100.1"
		got := ask(t, db, again, false)
		kept, err := db.Peers.RequestOf(ctx, store.RequestDevice, "aa", again.Refreshed)
		must(t, err)
		same(t, got, kept)
		if got.ID != first.ID || !got.Created.Equal(now) || !got.Refreshed.Equal(again.Refreshed) ||
			got.Ask.Version != "1.1" || got.Ask.Name != "desk" || got.Address != "198.51.100.1" {
			t.Fatalf("made again: %+v", got)
		}

		// It is valid for PeerRequestLife after its last attempt.
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
		late := deviceRequest("aa")
		late.Refreshed = alive.Add(time.Millisecond)
		if got := ask(t, db, late, true); got.ID != late.ID || !got.Created.Equal(late.Refreshed) {
			t.Fatalf("after it expired: %+v", got)
		}

		// Requests for two roles are merged, whichever role retries.
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

		// Another person's key or another platform makes it another request.
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

// raw runs a statement directly on the database: filling tables row by row takes too long.
func raw(t *testing.T, o store.Options, query string) {
	t.Helper()
	driver, name := "pgx", o.URL
	if name == "" {
		// The merger of words may be writing.
		driver, name = "sqlite", filepath.Join(o.Folder, store.FileName)+"?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, name)
	must(t, err)
	defer db.Close()
	_, err = db.Exec(query)
	must(t, err)
}

// numbers returns a table expression of 1, 2, 3 … in column n, for either database.
func numbers(upTo int) string {
	return fmt.Sprintf(`(WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < %d) SELECT n FROM c) AS numbers`, upTo)
}

// The number of pending requests is bounded.
func TestPeerRequestsAreBounded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		count := func(owner string) int {
			t.Helper()
			list, err := db.Peers.Requests(ctx, store.RequestDevice, owner, now)
			must(t, err)
			return len(list)
		}
		// Requests of one owner, one millisecond apart.
		flood := func(owner string) {
			raw(t, o,
				fmt.Sprintf(`INSERT INTO peer_requests (id, kind, peer, owner, address, body, created_at, refreshed_at)
				SELECT '%[1]s ' || (1000 + n), 'device', '%[1]s ' || (1000 + n), '%[1]s', '', '{}', %[2]d + n, %[2]d + n FROM `+numbers(store.MaxPeerRequests), owner, now.UnixMilli()))
		}
		one := func(peer, owner string) {
			t.Helper()
			r := deviceRequest(peer)
			r.Owner, r.Refreshed = owner, now.Add(time.Second)
			ask(t, db, r, true)
		}
		old := deviceRequest("old")
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
		ask(t, db, old, false) // a flood of one person does not affect others

		for i := range 4 {
			id := fmt.Sprint("q", i)
			must(t, db.People.Add(ctx, store.Person{ID: id, Name: id, Role: "member", Lang: "en", Created: now}))
			flood(id)
		}
		one("the last", "p1") // 1,001 exist already
		if n := count(""); n != store.MaxAllPeerRequests {
			t.Fatalf("%d wait", n)
		}
		// Concurrent requests of several owners.
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 5 {
					r := store.PeerRequest{ID: fmt.Sprint("x", i, j), Kind: store.RequestDevice,
						Peer: fmt.Sprint("x", i, j), Owner: fmt.Sprint("q", i%2), Refreshed: now.Add(time.Second)}
					if _, made, err := db.Peers.Request(ctx, r); err != nil || !made {
						t.Error(made, err)
					}
				}
			})
		}
		wg.Wait()
		if all, q0, q1 := count(""), count("q0"), count("q1"); all > store.MaxAllPeerRequests ||
			all < store.MaxAllPeerRequests-40 || q0 > store.MaxPeerRequests || q1 > store.MaxPeerRequests {
			t.Errorf("%d wait, %d for q0, %d for q1", all, q0, q1)
		}
		// Only peers request a surface, and such a request evicts none.
		before := count("")
		pair(t, db, deviceRequest("aa"))
		ask(t, db, surfaceRequest("aa", "a"), true)
		if n := count(""); n < before-1 {
			t.Errorf("%d waited, now %d", before, n)
		}
		// Expired requests are deleted, pending ones stay.
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

// The number of peers of a person is bounded.
func TestPeersAreBounded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		pair(t, db, deviceRequest("aa"))
		raw(t, o, `INSERT INTO peers SELECT id || ' ' || n, owner, public_key, name, platform, family, client_id, client_mode, version, address, roles, scopes,
			approved_at, approved_via, secret_version, created_at, connected_at, disconnected_at, seen_at, seen_reason,
			surface_state, surface_at, caps, commands, declared_caps, declared_commands, permissions, path_env, settings, token_changes FROM peers, `+numbers(store.MaxPeers-2))
		pair(t, db, deviceRequest("bb"))
		r := ask(t, db, deviceRequest("cc"), true)
		_, _, err := db.Peers.Approve(ctx, store.PeerDecision{ID: r.ID, At: now})
		wantErr(t, err, store.ErrFull)
		his := deviceRequest("dd")
		his.Owner = "p2"
		pair(t, db, his)
		must(t, db.Peers.Remove(ctx, "aa 17"))
		grant(t, db, r.ID)
	})
}

// Concurrent attempts of one program make one request.
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
			r := deviceRequest("aa")
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
		// It can be approved only once.
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

// A program finds itself not paired, is paired meanwhile, and then makes its request.
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
		late := deviceRequest("aa")
		kept, made, err := db.Peers.RequestUnless(ctx, late, node)
		if err != nil || !made {
			t.Fatalf("made is %v, %v", made, err)
		}
		if again, made, err := db.Peers.RequestUnless(ctx, deviceRequest("aa"), node); err != nil || made ||
			again.ID != kept.ID {
			t.Fatalf("while it waits: %+v %v %v", again, made, err)
		}
		grant(t, db, kept.ID)
		_, _, err = db.Peers.RequestUnless(ctx, late, node)
		wantErr(t, err, store.ErrAlreadyApproved)
		waits(store.RequestDevice, 0)
		his := deviceRequest("aa")
		his.Owner = "p2"
		_, _, err = db.Peers.RequestUnless(ctx, his, node)
		wantErr(t, err, store.ErrOccupied)
		if _, made, err := db.Peers.RequestUnless(ctx, late, func(store.Peer) bool { return false }); err != nil ||
			!made {
			t.Fatalf("what it has is not enough: %v %v", made, err)
		}
		waits(store.RequestDevice, 1)

		// The same for a surface.
		wide := surfaceRequest("aa", "b", "a")
		grant(t, db, ask(t, db, wide, true).ID)
		for _, commands := range [][]string{{"a", "b"}, {"b"}, nil} {
			_, _, err = db.Peers.Request(ctx, surfaceRequest("aa", commands...))
			wantErr(t, err, store.ErrAlreadyApproved)
		}
		waits(store.RequestSurface, 0)
		if p, err := db.Peers.ByID(ctx, "aa"); err != nil || p.Surface != store.SurfaceApproved ||
			!slices.Equal(p.Commands, []string{"a", "b"}) {
			t.Fatalf("after it has asked: %+v %v", p, err)
		}
		ask(t, db, surfaceRequest("aa", "c"), true)
		waits(store.RequestSurface, 1)
	})
}
