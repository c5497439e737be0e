package hub_test

import (
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/tool"
)

// TestWaitForCallRecords checks that the call records contain calls that have just ended.
func TestWaitForCallRecords(t *testing.T) {
	for _, folder := range []string{"", t.TempDir()} {
		r := hubtest.New(t, hubtest.Options{Hub: hub.Options{Folder: folder}})
		s, err := r.Hub.Register(hub.ProviderRef{ID: "upstream:1", Kind: "upstream"}, silentProvider{})
		if err != nil {
			t.Fatal(err)
		}
		s.SetTools([]tool.Tool{{Name: "look", Hints: tool.ReadOnlyHints()}, {Name: "do"}})
		for range 20 {
			for _, name := range []string{"look", "do"} {
				r.Hub.Call(t.Context(), hub.Access{Caller: tool.Caller{Person: r.Person.ID}}, name, &tool.Call{}) //nolint:errcheck // it has no result
			}
		}
		r.Hub.WaitForCallRecords(t.Context())
		rows, err := r.Store.Calls.Newest(t.Context(), r.Person.ID, time.Now().Add(time.Minute), 100)
		if err != nil || len(rows) != 40 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	}
}
