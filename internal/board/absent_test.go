package board_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/board/boardtest"
	"patchbay/internal/bus/bustest"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// What was held by an instance that dies, or that stops, stays listed and is offline, until
// somebody holds it again or two minutes have passed. What was removed is unknown at once.
func TestAbsentStaysListed(t *testing.T) {
	url, folder := bustest.Cluster(t, 1), t.TempDir()
	at := func(name string) *boardtest.Rig {
		return boardtest.New(t, boardtest.Options{DB: store.Options{Folder: folder}, BusURL: url, Name: name})
	}
	near := at("near")
	robot := board.Outlet{ID: "upstream:1", Slug: "robot", Kind: "upstream", Title: "Robot", Held: true}
	lamp := board.Outlet{ID: "board:1", Owner: near.Person.ID, Slug: "lamp", Kind: "k"}
	fine := does(func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("fine"), nil })
	sleeps := does(func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, tool.Fail(tool.Offline, "It sleeps.", nil)
	})
	plug(t, near.Board, lamp, sleeps) // which does not know the tools that it has now
	what := func(name string) string {
		res, err := near.Board.Call(t.Context(), access(near, ""), name, &tool.Call{})
		if e := tool.AsError(err); e != nil {
			return string(e.Code) + ": " + e.Told
		}
		return res.Words()
	}
	is := func(name, want string) func() bool {
		return func() bool { return strings.Contains(what(name), want) }
	}
	both := func(robot, lamp string) {
		t.Helper()
		meets(t, "the tools of both are "+robot, func() bool { return is("robot_do", robot)() && is("lamp_do", lamp)() })
		listed := strings.Contains(names(view(t, near)), "lamp_do robot_do")
		if _, held, _ := near.Board.Plugged("upstream:1"); !listed || held != (robot == "fine") {
			t.Errorf("when they are %s: listed %t, held %t", robot, listed, held)
		}
	}
	hold := func(r *boardtest.Rig) (first, second *board.Socket) {
		o := lamp
		o.Held = true
		return plug(t, r.Board, robot, fine, tool.Tool{Name: "do"}), plug(t, r.Board, o, fine, tool.Tool{Name: "do"})
	}
	const offline = "offline: Robot is not connected at the moment"

	far := at("far")
	hold(far)
	both("fine", "fine")
	far.Board.Bus.Drop() // it dies
	both(offline, "offline: It sleeps.")

	other := at("other")
	first, second := hold(other)
	both("fine", "fine")
	other.Board.Drain(t.Context()) // it stops
	first.Unplug()
	second.Unplug()
	both(offline, "offline: It sleeps.")
	board.Expire(near.Board, time.Now().Add(board.AbsentFor/2))
	both(offline, "offline: It sleeps.")
	board.Expire(near.Board, time.Now().Add(board.AbsentFor+time.Second))
	meets(t, "both are unknown", func() bool { return is("robot_do", "unknown_tool")() && is("lamp_do", "unknown_tool")() })

	third := at("third")
	first, second = hold(third)
	both("fine", "fine")
	second.Hold(false) // its connection breaks
	meets(t, "it is offline", is("lamp_do", "offline: It sleeps."))
	first.Unplug() // it was removed
	second.Unplug()
	meets(t, "both are unknown", func() bool { return is("robot_do", "unknown_tool")() && is("lamp_do", "unknown_tool")() })
}

func view(t *testing.T, r *boardtest.Rig) *board.View {
	t.Helper()
	v, err := r.Board.View(r.Person.ID, "")
	must(t, err)
	return v
}
