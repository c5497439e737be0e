package home_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"patchbay/internal/console/consoletest"
	"patchbay/internal/control"
)

// An administrator sees what was found, and what of it is plugged in already; a member does not.
func TestFound(t *testing.T) {
	r := newRig(t, control.Options{Look: func(context.Context) []control.Discovery {
		return []control.Discovery{
			{Kind: control.FoundModel, Name: "Ollama", Address: "http://127.0.0.1:11434/v1",
				Models: []string{"qwen3:8b", "a", "b", "c"}},
			{Kind: control.FoundOpenClaw, Name: "<studio>", Address: "ws://192.168.1.7:18789", Network: true},
			{Kind: control.FoundWyoming, Name: "Wyoming", Address: "127.0.0.1:10300", Listens: true},
		}
	}})
	ada := r.SignedInAs(r.Person)
	if p := ada.Get("/guide"); !p.Contains(`id="found"`, `hx-sse:connect="/guide/found"`, "Looking around") {
		t.Fatal(p.Text)
	}
	text := firstEvent(t, ada, r.URL+"/guide/found")
	for _, want := range []string{"Ollama", "4 models: qwen3:8b, a, b<", "&lt;studio&gt; (OpenClaw)", "in the network",
		"/bots/new?found=http%3A%2F%2F127.0.0.1%3A11434%2Fv1&amp;kind=openai", "Wyoming: understands speech",
		`name="wyoming" value="127.0.0.1:10300"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	bob := r.SignedInAs(r.Bob)
	if p := bob.Get("/guide"); p.Contains(`id="found"`) {
		t.Error("a member sees what was found")
	}
	if p := bob.Get("/guide/found"); p.Status != http.StatusForbidden {
		t.Errorf("a member gets %d", p.Status)
	}
}

// firstEvent returns the data of a stream's first event.
func firstEvent(t *testing.T, b *consoletest.Browser, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var data strings.Builder
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			data.WriteString(text + "\n")
		} else if lines.Text() == "" && data.Len() > 0 {
			return data.String()
		}
	}
	t.Fatalf("the stream ended with %q", data.String())
	return ""
}
