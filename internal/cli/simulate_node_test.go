package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Events are available as JSON too; an approved node is recognised again.
func TestSimulateNodeOnce(t *testing.T) {
	d := withParrot(t)
	d.serve("--nodes-approve-local=false")
	file := filepath.Join(t.TempDir(), "me.json")
	args := []string{"--name", "Kitchen", "--identity", file, "--tools", "--json"}
	s := d.node(args...)
	d.ok("pair", "approve", s.out.await(t, `"event":"waits".*"approve":"patchbay pair approve (\w{8})"`))
	d.ok("pair", "approve", s.out.await(t, `"event":"waits-for-commands".*"approve":"patchbay pair approve (\w{8})"`))
	s.out.await(t, `{"event":"ready","tools":2}`)
	d.ok("node", "invoke", "Kitchen", "system.notify", "title=hello")
	s.stop()
	if code := <-s.ended; code != exitOK {
		t.Errorf("it ended with %d: %s", code, s.errs.String())
	}
	var called nodeEvent
	for line := range strings.Lines(s.out.String()) {
		var e nodeEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Event == "call" {
			called = e
		}
	}
	if called.Command != "system.notify" || string(called.Params) != `{"title":"hello"}` ||
		string(called.Result) != `{"ok":true}` {
		t.Errorf("told is %+v", called)
	}
	if got := d.ok("key", "list"); strings.Count(got, "simulated node") != 1 || !strings.Contains(got, "revoked") {
		t.Errorf("the keys are\n%s", got)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its key is kept in %v (%v)", info, err)
	}

	// It has a token of its own now, and needs no key.
	s = d.node(args...)
	s.out.await(t, `{"event":"ready","tools":2}`)
	s.stop()
	<-s.ended
	if got := s.out.String() + d.ok("key", "list"); strings.Contains(got, "waits") ||
		strings.Count(got, "simulated node") != 1 {
		t.Errorf("the second time it was\n%s", got)
	}
	// After its removal it gets a key again.
	d.ok("node", "rm", "Kitchen", "--yes")
	s = d.node(args...)
	s.out.await(t, `"event":"waits"`)
	s.stop()
	if code := <-s.ended; code != exitOK {
		t.Errorf("it ended with %d: %s", code, s.errs.String())
	}
}

func TestSimulateManyNodes(t *testing.T) {
	d := withParrot(t)
	d.serve()
	var f nodeFigures
	for range 2 { // the second time with tokens of their own
		s := d.node("--count", "20", "--ramp", "1000/s", "--for", "2m", "--tools", "--json")
		s.errs.await(t, "connected 20,") // it prints its progress to standard error every five seconds
		s.stop()
		if code := <-s.ended; code != exitOK {
			t.Fatalf("exit code %d: %q, %q", code, s.out.String(), s.errs.String())
		}
		if err := json.Unmarshal([]byte(s.out.String()), &f); err != nil {
			t.Fatalf("%v: %q", err, s.out.String())
		}
		if f.Nodes != 20 || f.Connected != 20 || f.Lost != 0 || f.Seconds <= 0 || f.Error != "" {
			t.Errorf("they are %+v", f)
		}
	}
	var rows []nodeRow
	d.json(&rows, "node", "list")
	if len(rows) != 22 { // including those of the bots and of Learn
		t.Errorf("there are %d nodes", len(rows))
	}
}

func TestSimulateNodeErrors(t *testing.T) {
	d := withParrot(t)
	node := func(args ...string) []string { return append([]string{"simulate", "node"}, args...) }
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.failing(exitFailed, "", node(), "no server runs", "patchbay serve", "--server")
	s := d.serve("--nodes-approve-local=false")
	var glasses struct{ Key string }
	d.json(&glasses, "key", "add", "--name", "g", "--scope", "lingzhu")
	for _, c := range []struct {
		code int
		args []string
		want []string
	}{
		{exitUsage, node("--count", "-1"), []string{"--count"}},
		{exitUsage, node("--ramp", "fast"), []string{"--ramp", "50/s"}},
		{exitUsage, node("--for", "-1s"), []string{"--for"}},
		{exitUsage, node("--platform", "amiga"), []string{"--platform", "linux"}},
		{exitUsage, node("--server", "nonsense"), []string{"--server", "wss://"}},
		{exitUsage, node("--server", s.URL), []string{"--key is missing", "key add"}},
		{exitFailed, node("--key", "@/does/not/exist"), []string{"--key", "/does/not/exist"}},
		{exitFailed, node("--identity", bad), []string{bad, "--identity"}},
		{exitFailed, node("--server", s.URL, "--key", "wrong"), []string{"rejects the key", "--scope node"}},
		{exitFailed, node("--server", s.URL, "--key", glasses.Key), []string{"rejects the key", "--scope node"}},
	} {
		o := d.do("", c.args...)
		if o.code != c.code {
			t.Errorf("%v ends with %d: %s", c.args, o.code, o.stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(o.stderr, want) {
				t.Errorf("%v says %q, which lacks %q", c.args, o.stderr, want)
			}
		}
	}
	if o := d.do("", node("--count", "2", "--for", "1s")...); o.code != exitFailed ||
		!strings.Contains(o.stderr, "2 of 2 nodes are not connected") || !strings.Contains(o.stderr, "pair list") {
		t.Errorf("those that wait end with %+v", o)
	}
	n := d.node("--server", "ws://127.0.0.1:1", "--key", "k")
	n.out.await(t, "cannot connect: .*; retrying")
}

// A server whose certificate names only its public host can still be reached locally.
func TestSimulateNodeOverTLS(t *testing.T) {
	d := withParrot(t)
	cert, key := certificate(t)
	d.env = append(d.env, "PATCHBAY_TLS_CERT="+cert, "PATCHBAY_TLS_KEY="+key)
	d.serve()
	n := d.node()
	n.out.await(t, `→ wss://127\.0\.0\.1:`)
	n.out.await(t, "pending approval")
}
