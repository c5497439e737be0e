package upstream

import (
	"encoding/json"
	"strings"
	"testing"
)

// askRoots connects a server that asks for roots after the handshake, outside of a call, and
// returns what it gets.
func askRoots(t *testing.T, settings Settings) string {
	t.Helper()
	_, url := newHost(t, settings, nil)
	got := make(chan json.RawMessage, 1)
	dialInbound(t, url, map[string]inboundHandler{
		"notifications/initialized": func(f *inboundServer, _ *message) string {
			f.write(`{"jsonrpc":"2.0","id":"r1","method":"roots/list"}`)
			return ""
		},
		"": func(_ *inboundServer, m *message) string {
			if string(m.ID) == `"r1"` {
				got <- m.Result
			}
			return ""
		},
	})
	return string(<-got)
}

// A server that asks for roots outside of a call gets those that its owner has granted, or none.
func TestRootsOutsideOfCalls(t *testing.T) {
	granted := []string{"file:///srv/notes", "file:///srv/my%20photos/"}
	for _, c := range []struct {
		settings Settings
		want     string
	}{
		{Settings{}, `{"roots":[]}`},
		{Settings{Roots: granted}, `{"roots":[{"name":"notes","uri":"file:///srv/notes"},` +
			`{"name":"my photos","uri":"file:///srv/my%20photos/"}]}`},
		{Settings{Roots: granted, Pass: []string{"resources"}}, `{"roots":[]}`},
	} {
		var got, want any
		if json.Unmarshal([]byte(askRoots(t, c.settings)), &got) != nil ||
			json.Unmarshal([]byte(c.want), &want) != nil {
			t.Fatal("it gets no JSON")
		}
		a, _ := json.Marshal(got)
		if b, _ := json.Marshal(want); string(a) != string(b) {
			t.Errorf("with %q and %q it gets %s", c.settings.Roots, c.settings.Pass, a)
		}
	}
}

func TestCheckRoots(t *testing.T) {
	for _, bad := range [][]string{{""}, {"/srv"}, {"https://example.com/"}, {"file://host/srv"}, {"file:srv"},
		{"file:///a?b"}, {"file:///" + strings.Repeat("x", maxURI)},
		strings.Split(strings.Repeat("file:///a ", maxRoots)+"file:///b", " ")} {
		if (&Settings{Roots: bad}).checkRoots() == nil {
			t.Errorf("%.60q is taken", bad)
		}
	}
	if err := (&Settings{Roots: []string{"file:///", "file:///C:/notes"}}).checkRoots(); err != nil {
		t.Error(err)
	}
}
