package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/control"
)

// TestAnotherPatchbayByItsDocument adds /api/v1 of another Patchbay by its OpenAPI document, and
// calls its operations.
func TestAnotherPatchbayByItsDocument(t *testing.T) {
	other := withParrot(t)
	far := other.serve()
	var key struct{ Key string }
	other.json(&key, "key", "add", "--name", "o", "--scope", "operator")

	d := withParrot(t)
	d.serve()
	document := far.URL + "/api/v1/openapi.json"
	var added upstreamAdded
	d.json(&added, "upstream", "add", "far", "--openapi", document, "--token", key.Key, "--set", "deny=*Backup*")
	if added.Found == nil || !strings.HasPrefix(added.Found.Protocol, "OpenAPI 3.1") || len(added.Found.Tools) < 50 {
		t.Fatalf("added is %+v", added.Found)
	}
	const name = "far_getBots"
	d.awaitTool(name)
	if got := d.ok("tool", "call", name); !strings.Contains(got, "parrot") {
		t.Errorf("the bots of the other are\n%s", got)
	}
	shown := d.ok("upstream", "show", "far")
	for _, want := range []string{"(OpenAPI 3.1", "Its API: ", "transport = openapi", "token = ••••••"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
	if got := d.ok("upstream", "check", "far"); !strings.Contains(got, "Read the document of ") {
		t.Errorf("the check says\n%s", got)
	}

	// The same document as a file, whose address is given.
	resp, err := http.Get(document)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&text); err != nil {
		t.Fatal(err)
	}
	text["servers"] = []map[string]string{{"url": far.URL}}
	raw, _ := json.Marshal(text)
	file := filepath.Join(t.TempDir(), "api.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	d.ok("upstream", "add", "copy", "--openapi", file, "--token", key.Key)
	var detail control.UpstreamDetail
	d.json(&detail, "upstream", "show", "copy")
	if string(detail.Settings["base_url"]) != `"`+far.URL+`"` || !strings.Contains(string(detail.Settings["document"]), " bytes)") ||
		detail.Where != far.URL {
		t.Errorf("the copy is %+v", detail.Settings)
	}
	d.awaitTool("copy_" + strings.TrimPrefix(name, "far_"))

	// Its secret is for that address alone.
	changed := d.ok("upstream", "set", "copy", "base_url=http://127.0.0.1:1")
	if !strings.Contains(changed, "token") {
		t.Errorf("another address says\n%s", changed)
	}
	d.failing(exitFailed, "", []string{"upstream", "add", "none", "--openapi", filepath.Join(t.TempDir(), "none")},
		"no such file")
	d.failing(exitUsage, "", []string{"upstream", "add", "none", "--openapi", "x", "--url", "y"}, "exactly one of")
}
