package connector

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// unpack returns the files of an archive.
func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(data)
	}
}

func TestArchive(t *testing.T) {
	archive, err := Archive("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Archive("v1.2.3"); err != nil || !bytes.Equal(again, archive) {
		t.Errorf("the same plugin is other bytes (%v)", err)
	}
	files := unpack(t, archive)
	var about struct {
		Version  string
		OpenClaw struct{ Extensions []string }
	}
	if err := json.Unmarshal([]byte(files["package/package.json"]), &about); err != nil || about.Version != "1.2.3" {
		t.Errorf("package.json says %+v (%v)", about, err)
	}
	for _, entry := range about.OpenClaw.Extensions {
		if files["package/"+strings.TrimPrefix(entry, "./")] == "" {
			t.Errorf("%s is missing", entry)
		}
	}
	// OpenClaw refuses a tool whose name the manifest does not have.
	var manifest struct{ Contracts struct{ Tools []string } }
	if err := json.Unmarshal([]byte(files["package/openclaw.plugin.json"]), &manifest); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"take_photo", "take_navigation", "control_calendar", "notify_agent_off", "patchbay_call"} {
		if !slices.Contains(manifest.Contracts.Tools, name) || !strings.Contains(files["package/tools.js"], name) {
			t.Errorf("%s is not declared", name)
		}
	}
	if odd, err := Archive("(devel)"); err != nil || !strings.Contains(unpack(t, odd)["package/package.json"], `"0.0.0"`) {
		t.Errorf("a version that is none: %v", err)
	}
}

func TestHandler(t *testing.T) {
	h, err := Handler("1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", Path, nil))
	if len(unpack(t, w.Body.Bytes())) < 5 || !strings.Contains(w.Header().Get("Content-Disposition"), FileName) {
		t.Errorf("%v", w.Header())
	}
}

func TestConnection(t *testing.T) {
	for base, want := range map[string]string{
		"https://board.example.org":   "https://abc@board.example.org",
		"http://127.0.0.1:3000/":      "http://abc@127.0.0.1:3000",
		"https://example.org/boards/": "https://abc@example.org/boards",
		"nonsense":                    "nonsense",
	} {
		if got := Connection(base, "abc"); got != want {
			t.Errorf("%s: %s", base, got)
		}
	}
	commands := Commands("https://board.example.org/", "abc")
	if len(commands) != 3 || !strings.HasSuffix(commands[0], " https://board.example.org"+Path) ||
		!strings.HasSuffix(commands[2], " https://abc@board.example.org") {
		t.Errorf("%q", commands)
	}
}
