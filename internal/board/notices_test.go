package board_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/board/boardtest"
	"patchbay/internal/bus/bustest"
	"patchbay/internal/tool"
)

// mute is a provider without tools.
type mute struct{}

func (mute) Call(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }

// next waits for a notice.
func next(t *testing.T, told <-chan board.Notice) board.Notice {
	t.Helper()
	select {
	case n := <-told:
		return n
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was told")
	}
	return board.Notice{}
}

// What a provider tells reaches those who may hear it, on all instances, and nobody
// else; who does not read misses some, and holds nobody up.
func TestNotices(t *testing.T) {
	url := bustest.Cluster(t, 1)
	here := boardtest.New(t, boardtest.Options{BusURL: url, Name: "a"})
	there := boardtest.New(t, boardtest.Options{BusURL: url, Name: "b"})
	mine, err := here.Board.Plug(board.Outlet{ID: "board:1", Owner: "ada", Kind: "xiaozhi", Title: "Kitchen"}, mute{})
	if err != nil {
		t.Fatal(err)
	}
	others, err := here.Board.Plug(board.Outlet{ID: "board:2", Owner: "bob", Kind: "xiaozhi"}, mute{})
	if err != nil {
		t.Fatal(err)
	}
	near, forget := here.Board.Notices("ada")
	defer forget()
	far, forgetFar := there.Board.Notices("ada")
	all, forgetAll := there.Board.Notices("")
	defer forgetAll()
	others.Notify("button", nil)
	mine.Notify("notifications/state_changed", json.RawMessage(`{"on":true}`))
	for name, told := range map[string]<-chan board.Notice{"here": near, "there": far} {
		n := next(t, told)
		if n.Outlet != "board:1" || n.Title != "Kitchen" || n.Method != "notifications/state_changed" || string(n.Params) != `{"on":true}` || n.At.IsZero() {
			t.Errorf("%s: %+v", name, n)
		}
	}
	if n := next(t, all); n.Outlet != "board:2" || n.Owner != "bob" {
		t.Errorf("everybody's: %+v", n)
	}
	if n := next(t, all); n.Outlet != "board:1" {
		t.Errorf("everybody's: %+v", n)
	}
	forgetFar()
	forgetFar()
	if _, open := <-far; open {
		t.Error("somebody who has stopped to listen hears something")
	}
	// Too long, and too many.
	mine.Notify("long", json.RawMessage(`"`+strings.Repeat("x", 20<<10)+`"`))
	for range 1000 {
		mine.Notify("many", nil)
	}
	if n := next(t, near); n.Method != "many" {
		t.Errorf("%s was told", n.Method)
	}
	here.Board.Close()
	for n := range near { // and it ends
		if n.Method != "many" {
			t.Errorf("%s was told", n.Method)
		}
	}
	if ear, _ := here.Board.Notices("ada"); ear != nil {
		if _, open := <-ear; open {
			t.Error("a board that stopped tells something")
		}
	}
}
