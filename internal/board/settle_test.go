package board_test

import (
	"testing"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/board/boardtest"
	"patchbay/internal/tool"
)

// Who looks at the trail finds what was done a moment ago.
func TestSettle(t *testing.T) {
	for _, folder := range []string{"", t.TempDir()} {
		r := boardtest.New(t, boardtest.Options{Board: board.Options{Folder: folder}})
		s, err := r.Board.Plug(board.Outlet{ID: "upstream:1", Kind: "upstream"}, mute{})
		if err != nil {
			t.Fatal(err)
		}
		s.Offer([]tool.Tool{{Name: "look", Hints: tool.Reads()}, {Name: "do"}})
		for range 20 {
			for _, name := range []string{"look", "do"} {
				r.Board.Call(t.Context(), board.Access{Caller: tool.Caller{Person: r.Person.ID}}, name, &tool.Call{}) //nolint:errcheck // it gives no result
			}
		}
		r.Board.Settle(t.Context())
		rows, err := r.Store.Calls.Newest(t.Context(), r.Person.ID, time.Now().Add(time.Minute), 100)
		if err != nil || len(rows) != 40 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	}
}
