package store_test

import (
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// What a key may read is selected in the same way by both databases.
func TestReadable(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		must(t, db.Calls.Add(ctx, []store.Call{
			{ID: "1", At: now, Person: "p1", Key: "a", Tool: "x", Outcome: "done"},
			{ID: "2", At: now.Add(time.Second), Person: "p1", Key: "b", Tool: "x", Outcome: "done"},
			{ID: "3", At: now.Add(time.Minute), Person: "p1", Bot: 12, Tool: "x", Outcome: "done"},
			{ID: "4", At: now.Add(time.Hour), Person: "p2", Key: "a", Bot: 12, Tool: "x", Outcome: "done"},
		}))
		for _, c := range []struct {
			r    store.Readable
			want string
		}{
			{store.Readable{Owner: "p1", All: true}, "321"}, {store.Readable{Owner: "p1", Key: "a"}, "1"},
			{store.Readable{Owner: "p1", Key: "a", Bots: []int64{3, 12}}, "31"},
			{store.Readable{Owner: "p1", Key: "none", Bots: []int64{1, 2, 121}}, ""},
			{store.Readable{Owner: "p1", All: true, Bot: 12}, "3"},
		} {
			list, err := db.Calls.Readable(ctx, &c.r, 10)
			must(t, err)
			got := ""
			for _, call := range list {
				got += call.ID
			}
			if got != c.want {
				t.Errorf("%+v selects %s, want %s", c.r, got, c.want)
			}
			if _, err := db.Traces.Readable(ctx, &c.r, 10); err != nil {
				t.Error(err)
			}
			if _, err := db.Conversations.Readable(ctx, &c.r, now, 10); err != nil {
				t.Error(err)
			}
		}
	})
}
