package store_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Concurrent attempts never exceed the limit.
func TestTries(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db, now := storetest.Open(t, o), time.Now()
		var may atomic.Int64
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				ok, err := db.SignIns.Try(ctx, "key", 5, now, now.Add(-time.Hour))
				must(t, err)
				if ok {
					may.Add(1)
				}
			})
		}
		wg.Wait()
		if may.Load() != 5 {
			t.Errorf("%d of 5", may.Load())
		}
		must(t, db.SignIns.GiveBack(ctx, "key"))
		for i, want := range []bool{true, false} {
			if ok, err := db.SignIns.Try(ctx, "key", 5, now, now.Add(-time.Hour)); ok != want || err != nil {
				t.Errorf("%d after one was given back: %t, %v", i, ok, err)
			}
		}
		later := now.Add(time.Hour)
		if ok, err := db.SignIns.Try(ctx, "key", 5, later, later.Add(-time.Hour)); !ok || err != nil {
			t.Errorf("an hour later: %t, %v", ok, err)
		}
		_, err := db.Purge(ctx, store.Limits{Now: later.Add(2 * time.Hour)})
		must(t, err)
	})
}
