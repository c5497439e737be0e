package upstream

import (
	"log/slog"
	"strings"
	"testing"

	"patchbay/internal/tool"
)

// Logs outside of calls are passed on without secrets, a limited number of them, and not if the
// owner lets none through. While somebody calls, they belong to nobody else.
func TestLogsOutsideOfCalls(t *testing.T) {
	var got []tool.Log
	s := newSession(slog.New(slog.DiscardHandler), func(s string) string { return s }, clientInfo{})
	defer s.close()
	s.onLog = func(l tool.Log) { got = append(got, l) }
	line := func(from int64) {
		s.handle(from, &message{Method: "notifications/message",
			Params: []byte(`{"level":"info","logger":"x","data":{"key":"s3cret-token"}}`)})
	}
	line(0)
	if len(got) > 0 {
		t.Error("it passes though the owner does not let it")
	}
	s.passes = passing{"logging": true}
	one, two := s.newCall("one", false), s.newCall("two", false)
	line(0)
	s.removePending(one)
	line(0)
	s.removePending(two)
	if len(got) > 0 {
		t.Error("it passes during calls")
	}
	line(0)
	line(s.newPending().id)
	if len(got) != 2 {
		t.Fatalf("%d pass, want 2", len(got))
	}

	r := newRig(t, Settings{URL: "http://127.0.0.1:1/", Token: "s3cret-token"}, nil)
	u := newUpstream(r.m, r.spec)
	live := &fakeRegistration{b: r.hub}
	u.live = live
	for range 2 * logBurst {
		u.logged(got[0])
	}
	large := got[0]
	large.Data = []byte(`"` + strings.Repeat("x", maxLogBytes) + `"`)
	u.logLimit = newLogLimit()
	u.logged(large)
	if n := len(live.logs); n < logBurst || n > logBurst+5 {
		t.Errorf("%d of %d pass", n, 2*logBurst)
	}
	if data := string(live.logs[0].Data); data != `{"key":"[secret]"}` {
		t.Errorf("what passes is %s", data)
	}
}
