package store_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/proxytest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// behindProxy opens a database behind a proxy that can fail, with several connections in use.
func behindProxy(t *testing.T) (*store.DB, *proxytest.Proxy) {
	t.Helper()
	o := storetest.Postgres(t)
	_, rest, _ := strings.Cut(o.URL, "@")
	address, _, _ := strings.Cut(rest, "/")
	p := proxytest.New(t, address)
	o.URL = strings.Replace(o.URL, address, p.Addr(), 1)
	db := storetest.Open(t, o)
	t.Cleanup(p.Pass) // runs before the database is closed
	if errs := manyAtOnce(t.Context(), db); len(errs) > 0 {
		t.Fatal(errs)
	}
	return db, p
}

// manyAtOnce reads and writes with many concurrent connections and returns the errors.
func manyAtOnce(ctx context.Context, db *store.DB) (errs []error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			var err error
			switch i % 5 {
			case 0:
				_, err = db.People.All(ctx)
			case 1:
				err = db.Conversations.Save(ctx, store.Exchange{Turn: time.Now().Format(time.RFC3339Nano),
					At: time.Now()})
			case 2:
				err = db.Leases.Release(ctx, "nothing", "nobody")
			case 3:
				err = db.Learn.SaveTalk(ctx, "asker", "nobody", []byte("{}"), time.Now())
			case 4:
				_, _, err = db.Learn.LearnerWithDecks(ctx, "nobody")
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) { // the row does not exist
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	return errs
}

// whole waits until everything works again and returns how long that took.
func whole(t *testing.T, db *store.DB) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		errs := manyAtOnce(t.Context(), db)
		took := time.Since(began)
		if len(errs) == 0 {
			return took
		}
		if took > 2*time.Minute {
			t.Fatalf("after %v: %v", took, errs[0])
		}
	}
}

// After a failover, existing connections stay silent forever. They are discarded and replaced.
func TestSilentConnections(t *testing.T) {
	db, p := behindProxy(t)
	p.MuteExisting()
	took := whole(t, db)
	t.Logf("after a failover everything worked after %v", took.Round(time.Millisecond))
}

// While the server is silent nobody waits long, and afterwards everything works.
func TestSilentServer(t *testing.T) {
	db, p := behindProxy(t)
	p.Mute()
	for range 2 {
		began := time.Now()
		errs := manyAtOnce(t.Context(), db)
		took := time.Since(began)
		if len(errs) != 40 || took > time.Minute { // on an idle machine the limits are 5 s and 2 s
			t.Errorf("%d of 40 failed, after %v", len(errs), took)
		}
		t.Logf("while the server is silent %d of 40 failed, the last after %v: %v", len(errs),
			took.Round(time.Millisecond), errs[0])
	}
	p.Pass()
	t.Logf("afterwards everything worked after %v", whole(t, db).Round(time.Millisecond))
	p.Cut()
	began := time.Now()
	if errs := manyAtOnce(t.Context(), db); len(errs) != 40 {
		t.Errorf("%d of 40 failed", len(errs))
	}
	t.Logf("without a server the last failed after %v", time.Since(began).Round(time.Millisecond))
	p.Pass()
	whole(t, db)
}
