package upstream

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"patchbay/internal/tool"
)

// memberRigs are the connections of two people to a server that is shared with them, of which one
// may be open at a time.
func memberRigs(t *testing.T, on map[string]scriptedHandler, times *timings) (a, b *rig) {
	o := newScriptedServer(t, on)
	a = newRig(t, o.settings(), times)
	hub := a.hub
	a.m.Close()
	a.m = New(Options{Register: hub.register, Logger: a.m.opt.Logger, times: times, MaxMembers: 1})
	t.Cleanup(a.m.Close)
	two := *a
	b = &two
	a.spec.ID, a.spec.Owner, a.spec.SharedBy = "upstream:1:a", "a", "owner"
	b.spec.ID, b.spec.Owner, b.spec.SharedBy = "upstream:1:b", "b", "owner"
	return a, b
}

// With one place for two people, who does not use the connection leaves it to the other; the tools
// of both stay listed. A call brings the connection back.
func TestMembersTakeTurns(t *testing.T) {
	times := fastTimings()
	times.seatInterval, times.yieldAfter, times.idleAfter = 5*time.Millisecond, 20*time.Millisecond, time.Hour
	a, b := memberRigs(t, nil, times)
	a.m.Set([]Spec{a.spec})
	a.tools("a's tools", some)
	a.state(Ready)
	a.m.Set([]Spec{a.spec, b.spec})
	b.tools("b's tools", some)
	a.state(Idle)
	a.tools("a's tools while b is connected", some)
	for range 3 {
		for _, who := range []*rig{a, b} {
			if _, err := who.call(t.Context(), "do", `{}`); err != nil {
				t.Fatalf("a call of %s: %v", who.spec.Owner, err)
			}
		}
	}
}

// A call keeps the connection: who waits for one is told why there is none.
func TestMembersWait(t *testing.T) {
	times := fastTimings()
	times.seatInterval, times.yieldAfter, times.idleAfter = 5*time.Millisecond, 0, time.Hour
	times.callWait = 50 * time.Millisecond
	called, done := make(chan struct{}), make(chan struct{})
	a, b := memberRigs(t, map[string]scriptedHandler{
		"tools/call": func(_ http.ResponseWriter, _ *http.Request, _ *message) string {
			close(called)
			<-done
			return `{"content":[]}`
		},
	}, times)
	a.m.Set([]Spec{a.spec})
	a.tools("a's tools", some)
	a.state(Ready)
	ended := make(chan error, 1)
	release := sync.OnceFunc(func() { close(done) })
	defer release()
	go func() {
		_, err := a.call(t.Context(), "do", `{}`)
		ended <- err
	}()
	<-called
	a.m.Set([]Spec{a.spec, b.spec})
	if st := b.state(Waiting); st.Err == nil || st.Err.Message.Message != msgNoSeat {
		t.Errorf("who waits is told %v", st.Err)
	}
	b.fails(tool.Busy, "do", `{}`)
	release()
	if err := <-ended; err != nil {
		t.Errorf("the call that kept the connection: %v", err)
	}
	b.tools("b's tools", some)
}

// A connection that nobody uses is closed, and is there again for the next call.
func TestMembersRest(t *testing.T) {
	times := fastTimings()
	times.idleAfter = 10 * time.Millisecond
	a, _ := memberRigs(t, nil, times)
	a.m.Set([]Spec{a.spec})
	a.tools("a's tools", some)
	for range 3 {
		a.state(Idle)
		if _, err := a.call(t.Context(), "do", `{}`); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.offers(); n != 1 {
		t.Errorf("the list of tools has changed %d times", n-1)
	}
}
