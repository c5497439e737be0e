package hub_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/tool"
)

// silentProvider is a provider without tools.
type silentProvider struct{}

func (silentProvider) Call(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }

// next waits for a notice.
func next(t *testing.T, told <-chan hub.Notice) hub.Notice {
	t.Helper()
	select {
	case n := <-told:
		return n
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was told")
	}
	return hub.Notice{}
}

// TestNotices checks that a notice of a provider reaches exactly the permitted subscribers, on all
// instances. A subscriber that does not read misses notices, and delays no one.
func TestNotices(t *testing.T) {
	url := bustest.Cluster(t, 1)
	here := hubtest.New(t, hubtest.Options{BusURL: url, Name: "a"})
	there := hubtest.New(t, hubtest.Options{BusURL: url, Name: "b"})
	mine, err := here.Hub.Register(hub.ProviderRef{ID: "board:1", Owner: "ada", Kind: "xiaozhi", Title: "Kitchen"},
		silentProvider{})
	if err != nil {
		t.Fatal(err)
	}
	others, err := here.Hub.Register(hub.ProviderRef{ID: "board:2", Owner: "bob", Kind: "xiaozhi"}, silentProvider{})
	if err != nil {
		t.Fatal(err)
	}
	near, unsubscribe := here.Hub.SubscribeNotices("ada")
	defer unsubscribe()
	far, forgetFar := there.Hub.SubscribeNotices("ada")
	all, forgetAll := there.Hub.SubscribeNotices("")
	defer forgetAll()
	others.Notify("button", nil)
	mine.Notify("notifications/state_changed", json.RawMessage(`{"on":true}`))
	for name, told := range map[string]<-chan hub.Notice{"here": near, "there": far} {
		n := next(t, told)
		if n.Provider != "board:1" || n.Title != "Kitchen" || n.Method != "notifications/state_changed" ||
			string(n.Params) != `{"on":true}` || n.At.IsZero() {
			t.Errorf("%s: %+v", name, n)
		}
	}
	if n := next(t, all); n.Provider != "board:2" || n.Owner != "bob" {
		t.Errorf("everybody's: %+v", n)
	}
	if n := next(t, all); n.Provider != "board:1" {
		t.Errorf("everybody's: %+v", n)
	}
	forgetFar()
	forgetFar()
	if _, open := <-far; open {
		t.Error("somebody who has stopped to listen hears something")
	}
	// Notices that are too long, and too many.
	mine.Notify("long", json.RawMessage(`"`+strings.Repeat("x", 20<<10)+`"`))
	for range 1000 {
		mine.Notify("many", nil)
	}
	if n := next(t, near); n.Method != "many" {
		t.Errorf("%s was told", n.Method)
	}
	here.Hub.Close()
	for n := range near { // the channel is closed
		if n.Method != "many" {
			t.Errorf("%s was told", n.Method)
		}
	}
	if subscriber, _ := here.Hub.SubscribeNotices("ada"); subscriber != nil {
		if _, open := <-subscriber; open {
			t.Error("a board that stopped tells something")
		}
	}
}
