package app

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/control"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/voice/engines/wyoming/wyomingtest"
)

// What runs on this machine is found with its models and abilities, without this server itself.
func TestDiscoverer(t *testing.T) {
	i := newInstance(t, hubtest.Options{})
	i.base.Config = configOf(t, t.TempDir(), "")
	voice, err := newSpeech(t.Context(), i.base, slog.New(slog.DiscardHandler), newSpeechMetrics(nil))
	if err != nil {
		t.Fatal(err)
	}
	models := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"object":"list","data":[{"id":"nomic-embed-text"},{"id":"qwen3:8b"}]}`)) //nolint:errcheck // the test would fail
	}))
	defer models.Close()
	place := strings.TrimPrefix(models.URL, "http://")
	piper := strings.TrimPrefix(wyomingtest.New(t, wyomingtest.Options{Deaf: true}).Address, "wyoming://")
	s := newDiscoverer(voice, nil, slog.New(slog.DiscardHandler))
	s.models, s.gateways, s.wyoming = []string{place, piper}, []string{place}, []string{place, piper}
	got := s.onMachine(t.Context())
	want := []control.Discovery{
		{Kind: control.FoundModel, Name: place, Address: models.URL + "/v1",
			Models: []string{"nomic-embed-text", "qwen3:8b"}},
		{Kind: control.FoundWyoming, Name: "Wyoming", Address: piper, Speaks: true},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	if kind, set := got[0].BotSettings(); kind != "openai" || set["model"] != "qwen3:8b" {
		t.Errorf("the bot would be %s %v", kind, set)
	}
	own := &net.TCPAddr{Port: 11434}
	if s := newDiscoverer(voice, own, nil); len(s.models) == 0 || strings.Contains(strings.Join(s.models, " "), ":11434") {
		t.Errorf("it looks for models at %v", s.models)
	}
}

// The same gateway is announced in the network and found on this machine: it is listed once.
func TestIsFound(t *testing.T) {
	here := []control.Discovery{{Kind: control.FoundOpenClaw, Address: "ws://127.0.0.1:18789"}}
	for address, want := range map[string]bool{
		"wss://127.0.0.1:18789":                    true,
		"ws://192.0.2.77:18789":                    false, // another machine
		"ws://127.0.0.1:18790":                     false,
		"ws://[fd00::77]:18789":                    false,
		"ws://" + net.JoinHostPort("::1", "18789"): true, // an address of this machine
	} {
		d := control.Discovery{Kind: control.FoundOpenClaw, Address: address, Network: true}
		if got := isFound(here, d); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
