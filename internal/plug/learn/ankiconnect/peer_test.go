package ankiconnect

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"patchbay/internal/store"
)

// TestPeer lets a client that others wrote add, find, review, change and delete a note. Without it
// the test is skipped, except in continuous integration.
func TestPeer(t *testing.T) {
	missing := func(what string) {
		t.Helper()
		if os.Getenv("CI") == "true" {
			t.Fatal(what)
		}
		t.Skip(what)
	}
	dir, err := filepath.Abs("../../../../test/peers/ankiconnect")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json")); err != nil {
		missing("run `npm ci` in test/peers/ankiconnect to test with a client of AnkiConnect that others wrote")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		missing("node is not installed; it runs the client of test/peers/ankiconnect")
	}
	r := newRig(t, store.Options{})
	at, err := url.Parse(r.url)
	r.must(err)
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(dir, "peer.mjs"), at.Port(), r.key)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaint.Bytes())
	}
	const want = `{"version":6,"decks":["Default","Peer"],"can":[true],` +
		`"again":"cannot create note because it is a duplicate","found":[true],"front":"le chien","answered":[true],` +
		`"reviewed":1,"back":"the hound","media":"dot.gif","left":[]}` + "\n"
	if string(out) != want {
		t.Errorf("got  %s\nwant %s", out, want)
	}
}
