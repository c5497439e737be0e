package hub_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// TestAbsentStaysListed checks that tools of an instance that dies or stops stay listed and are
// offline, until another instance holds their provider or two minutes have passed. Removed tools
// are unknown at once.
func TestAbsentStaysListed(t *testing.T) {
	url, folder := bustest.Cluster(t, 1), t.TempDir()
	at := func(name string) *hubtest.Rig {
		return hubtest.New(t, hubtest.Options{DB: store.Options{Folder: folder}, BusURL: url, Name: name})
	}
	near := at("near")
	robot := hub.ProviderRef{ID: "upstream:1", Slug: "robot", Kind: "upstream", Title: "Robot", Held: true}
	lamp := hub.ProviderRef{ID: "board:1", Owner: near.Person.ID, Slug: "lamp", Kind: "k"}
	fine := providerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("fine"), nil })
	sleeps := providerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, tool.Fail(tool.Offline, "It sleeps.", nil)
	})
	register(t, near.Hub, lamp, sleeps) // without the tools that it has now
	what := func(name string) string {
		res, err := near.Hub.Call(t.Context(), access(near, ""), name, &tool.Call{})
		if e := tool.AsError(err); e != nil {
			return string(e.Code) + ": " + e.Told
		}
		return res.PlainText()
	}
	is := func(name, want string) func() bool {
		return func() bool { return strings.Contains(what(name), want) }
	}
	both := func(robot, lamp string) {
		t.Helper()
		eventually(t, "the tools of both are "+robot, func() bool {
			return is("robot_do", robot)() &&
				is("lamp_do", lamp)()
		})
		listed := strings.Contains(names(view(t, near)), "lamp_do robot_do")
		if _, held, _ := near.Hub.FindProvider("upstream:1"); !listed || held != (robot == "fine") {
			t.Errorf("when they are %s: listed %t, held %t", robot, listed, held)
		}
	}
	hold := func(r *hubtest.Rig) (first, second *hub.Registration) {
		o := lamp
		o.Held = true
		return register(t, r.Hub, robot, fine, tool.Tool{Name: "do"}),
			register(t, r.Hub, o, fine, tool.Tool{Name: "do"})
	}
	const offline = "offline: Robot is not connected at the moment"

	far := at("far")
	hold(far)
	both("fine", "fine")
	far.Hub.Bus.Abort() // without a leave message
	both(offline, "offline: It sleeps.")

	other := at("other")
	first, second := hold(other)
	both("fine", "fine")
	other.Hub.Drain(t.Context()) // an orderly stop
	first.Unregister()
	second.Unregister()
	both(offline, "offline: It sleeps.")
	hub.Expire(near.Hub, time.Now().Add(hub.AbsentRetention/2))
	both(offline, "offline: It sleeps.")
	hub.Expire(near.Hub, time.Now().Add(hub.AbsentRetention+time.Second))
	eventually(t, "both are unknown", func() bool {
		return is("robot_do", "unknown_tool")() &&
			is("lamp_do", "unknown_tool")()
	})

	third := at("third")
	first, second = hold(third)
	both("fine", "fine")
	second.Hold(false) // its connection breaks
	eventually(t, "it is offline", is("lamp_do", "offline: It sleeps."))
	first.Unregister() // it was removed
	second.Unregister()
	eventually(t, "both are unknown", func() bool {
		return is("robot_do", "unknown_tool")() &&
			is("lamp_do", "unknown_tool")()
	})
}

func view(t *testing.T, r *hubtest.Rig) *hub.View {
	t.Helper()
	v, err := r.Hub.View(r.Person.ID, "")
	must(t, err)
	return v
}
