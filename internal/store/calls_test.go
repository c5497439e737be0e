package store_test

import (
	"fmt"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// However many calls are written at once, each is there once, and as it was.
func TestCalls(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := storetest.Open(t, o)
		at := time.Now().Truncate(time.Millisecond).UTC()
		var all []store.Call
		for i := range 100 {
			all = append(all, store.Call{
				ID: fmt.Sprintf("call-%03d", i), At: at.Add(time.Duration(i) * time.Millisecond), Person: "p", Key: "k", Bot: int64(i), Turn: "t", Door: "d",
				Program: "prog", Device: "dev", Provider: "prov", Tool: "tool", Instance: "here", Took: time.Duration(i) * time.Microsecond, Bytes: int64(i),
				Outcome: "done", Code: "c", Cause: "why", Args: []string{"", `{"a":1}`}[i%2],
			})
		}
		for _, some := range [][]store.Call{nil, all[:1], all[:70], all} { // those that are there already are left out
			if err := db.Calls.Add(ctx, some); err != nil {
				t.Fatalf("%d calls: %v", len(some), err)
			}
		}
		got, err := db.Calls.ByTurn(ctx, "t")
		if err != nil || len(got) != len(all) {
			t.Fatalf("%d calls of %d: %v", len(got), len(all), err)
		}
		for i := range all {
			if got[i] != all[i] {
				t.Errorf("call %d is %+v, not %+v", i, got[i], all[i])
			}
		}
	})
}
