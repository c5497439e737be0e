package store_test

import (
	"fmt"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// BenchmarkCallsAdd measures Add with a hundred calls and their links.
func BenchmarkCallsAdd(b *testing.B) {
	run := func(b *testing.B, o store.Options) {
		db := storetest.Open(b, o)
		at := time.Now()
		calls := make([]store.Call, 100)
		for n := 0; b.Loop(); n++ {
			for i := range calls {
				calls[i] = store.Call{
					ID: fmt.Sprintf("0199a1b2-%012d", n*len(calls)+i), At: at,
					Key: "0199a1b2-0000-7000-8000-000000000001", Turn: "0199a1b2-0000-7000-8000-000000000002",
					Channel: "mcp", Program: "claude", Provider: "learn", Tool: "list_due_reviews", Instance: "here",
					Took: time.Millisecond, Bytes: 812, Outcome: "done",
					Address: "192.0.2.17",
				}
			}
			if err := db.Calls.Add(ctx, calls); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("sqlite", func(b *testing.B) { run(b, store.Options{Folder: b.TempDir()}) })
	b.Run("postgres", func(b *testing.B) { run(b, storetest.Postgres(b)) })
}
