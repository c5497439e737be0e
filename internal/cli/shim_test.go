package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/control"
)

// The demo's board joins another Patchbay as it joins an OpenClaw gateway.
func TestShimCommands(t *testing.T) {
	there := withParrot(t)
	var key struct{ Key string }
	there.json(&key, "key", "add", "--name", "n", "--scope", "node")
	gateway := there.serve()
	strict := withParrot(t)
	var other struct{ Key string }
	strict.json(&other, "key", "add", "--name", "n", "--scope", "node")
	closed := strict.serve("--nodes-approve-local=false")

	d := blankDesk(t)
	d.serve("--demo")
	d.env = append(d.env, "PATCHBAY_DATA="+filepath.Join(d.data, "demo"))
	d.env = append(d.env[:1:1], d.env[2:]...) // the first one counts
	if got := d.ok("shim", "list"); !strings.Contains(got, "patchbay shim add --help") {
		t.Errorf("an empty list is %q", got)
	}
	d.awaitTool("desk_status")

	o := d.do(key.Key+"\n", "shim", "add", "home", "--url", gateway.URL, "--token", "@-", "--wait", "1m")
	if o.code != exitOK || !strings.Contains(o.stdout, "The gateway home is added.\n") ||
		!strings.Contains(o.stdout, "pending approval") ||
		!strings.Contains(o.stdout, "must run this on the gateway's machine:\n  openclaw nodes approve ") ||
		!strings.Contains(o.stdout, "patchbay shim status home") {
		t.Errorf("added it says %+v", o)
	}
	d.failing(exitFailed, "", []string{"shim", "add", "home", "--url", gateway.URL}, "called home already")
	there.ok("pair", "approve", "desk")
	d.until("the node", func() bool { return strings.Contains(d.ok("shim", "list"), " 1/1 ") })
	if got := d.ok("shim", "status", "home"); !strings.Contains(got, "Gateway home (of demo): ready") ||
		strings.Contains(got, "openclaw") {
		t.Errorf("its status is\n%s", got)
	}
	if got := there.ok("node", "invoke", "desk", "mcp.tools.call.v1", "server=desk",
		"tool=status"); !strings.Contains(got, `"online":true`) {
		t.Errorf("the board says %q", got)
	}
	var row control.Upstream
	if d.json(&row, "shim", "status", "home"); row.Kind != control.KindShim || len(row.Nodes) != 1 ||
		row.Nodes[0].State != control.UpstreamReady || row.Nodes[0].Taken == 0 {
		t.Errorf("its status is %+v", row)
	}
	if got := d.ok("upstream", "list"); !strings.Contains(got, "home  shim  demo   "+gateway.URL) ||
		!strings.Contains(got, "ready") {
		t.Errorf("among upstreams it is\n%s", got)
	}
	if got := d.ok("upstream", "show", "home"); !strings.Contains(got, "patchbay shim status home") ||
		!strings.Contains(got, "token = ••••••") || strings.Contains(got, key.Key) {
		t.Errorf("as an upstream it is\n%s", got)
	}

	// A gateway without automatic approval; all boards as one node.
	var added shimAdded
	d.json(&added, "shim", "add", "strict", "--url", closed.URL, "--token", other.Key, "--mode", "one", "--title",
		"Boards", "--wait", "1m")
	if len(added.Nodes) != 1 || added.Nodes[0].State != control.NodePairing || added.Nodes[0].Name != "Boards" ||
		!strings.HasPrefix(added.Nodes[0].Command, "openclaw devices approve ") {
		t.Errorf("added is %+v", added)
	}
	if got := d.ok("shim", "status", "strict"); !strings.Contains(got, "Boards  all     ") ||
		!strings.Contains(got, "pairing") || !strings.Contains(got, "\n  "+added.Nodes[0].Command+"\n") {
		t.Errorf("its status is\n%s", got)
	}
	if got := strict.ok("pair", "list"); !strings.Contains(got, "Boards") ||
		!strings.Contains(got, strings.Fields(added.Nodes[0].Command)[3][:8]) {
		t.Errorf("who waits there is\n%s", got)
	}
	d.ok("shim", "set", "strict", "mode=each", "title=", "devices=nothing")
	d.until("the change", func() bool {
		return strings.Contains(d.ok("shim", "status", "strict"),
			"No device has joined")
	})
	d.ok("shim", "set", "strict", "devices=", "token=wrong")
	d.until("the trouble", func() bool {
		return strings.Contains(d.ok("shim", "status", "strict"),
			"does not accept the token")
	})
	d.failing(exitFailed, "", []string{"shim", "set", "strict", "mode=two"}, "each", "one")
	if o := d.do("n\n", "shim", "rm", "strict"); o.code != exitFailed ||
		!strings.Contains(o.stderr, "Remove the gateway strict?") {
		t.Errorf("rm went on after no: %+v", o)
	}
	d.ok("shim", "rm", "strict", "--yes")
	d.ok("shim", "rm", "home", "--yes")
	there.until("the end of the node", func() bool { return strings.Contains(there.ok("node", "list"), "away") })
}

func TestShimWithoutAServer(t *testing.T) {
	d := withParrot(t)
	got := d.ok("shim", "add", "home", "--url", "ws://127.0.0.1:18789", "--devices", "kitchen,bed*", "--notices")
	if got != "The gateway home is added.\nPatchbay connects to it as soon as a server runs: patchbay serve\n" {
		t.Errorf("added it says %q", got)
	}
	if got := d.ok("shim", "list"); !strings.Contains(got, "home  ada    ws://127.0.0.1:18789  –      –") {
		t.Errorf("the list is\n%s", got)
	}
	if got := d.ok("shim", "status", "home"); !strings.Contains(got, "known only while a server runs: patchbay serve") {
		t.Errorf("its status is\n%s", got)
	}
	var view control.UpstreamDetail
	if d.json(&view, "upstream", "show", "home"); strings.Join(strings.Fields(string(view.Settings["devices"])),
		"") != `["kitchen","bed*"]` || string(view.Settings["notices"]) != "true" || view.Settings["mode"] != nil {
		t.Errorf("its settings are %s", view.Settings)
	}
	d.ok("upstream", "add", "web", "--url", "http://127.0.0.1:1/mcp", "--no-check")
	d.ok("user", "add", "bob", "--role", "member")
	d.ok("shim", "add", "home", "--user", "bob", "--url", "wss://gateway.example.com")
	for _, c := range []struct {
		code int
		args []string
		want []string
	}{
		{exitUsage, []string{"add", "x"}, []string{"--url"}},
		{exitUsage, []string{"add", "x", "--url", "ws://127.0.0.1:1", "--mode", "two"}, []string{"--mode", "each"}},
		{exitUsage, []string{"add", "x", "--url", "ws://127.0.0.1:1", "--title", "T"},
			[]string{"--title", "--mode one"}},
		{exitFailed, []string{"add", "x", "--url", "ws://127.0.0.1:1"}, []string{"2 people", "user"}},
		{exitUsage, []string{"add", "x", "--url", "ws://127.0.0.1:1", "--wait", "-1s"}, []string{"--wait"}},
		{exitFailed, []string{"add", "X Y", "--user", "ada", "--url", "ws://127.0.0.1:1"}, []string{"small letters"}},
		{exitFailed, []string{"add", "x", "--user", "ada", "--url", "ws://gateway.example.com"}, []string{"use wss://"}},
		{exitFailed, []string{"add", "x", "--user", "ada", "--url", "ws://127.0.0.1:1", "--devices", "a b"},
			[]string{`"a b"`}},
		{exitFailed, []string{"add", "x", "--url", "ws://127.0.0.1:1", "--token", "@/does/not/exist"},
			[]string{"--token", "/does/not/exist"}},
		{exitUsage, []string{"status", "home"}, []string{"2 people", "--user NAME"}},
		{exitUsage, []string{"rm", "home"}, []string{"2 people", "--user NAME"}},
		{exitFailed, []string{"status", "nowhere"}, []string{`"nowhere"`, "shim list"}},
		{exitFailed, []string{"rm", "web"}, []string{"of kind mcp", "upstream show web"}},
		{exitFailed, []string{"set", "web", "url="}, []string{"of kind mcp"}},
		{exitFailed, []string{"set", "home", "speed=1", "--user", "ada"}, []string{`"speed"`}},
	} {
		d.failing(c.code, "", append([]string{"shim"}, c.args...), c.want...)
	}
	if got := d.ok("shim", "status", "home", "--user", "bob"); !strings.Contains(got, "wss://gateway.example.com") {
		t.Errorf("bob's is\n%s", got)
	}
}
