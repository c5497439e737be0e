package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/api"
	"patchbay/internal/plug/openclaw/wire"
)

// simulated is a simulated node that runs in the background.
type simulated struct {
	out, errs safeBuffer
	stop      context.CancelFunc
	ended     chan int
}

// node connects a simulated node until the test ends.
func (d *desk) node(args ...string) *simulated {
	d.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), limit)
	s := &simulated{stop: stop, ended: make(chan int, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ended <- Run(ctx, append([]string{"simulate", "node"}, args...), strings.NewReader(""), &s.out, &s.errs,
			d.env)
	}()
	d.t.Cleanup(func() {
		stop()
		<-done
	})
	return s
}

// A node is paired, approved, called, renamed and removed.
func TestNodeCommands(t *testing.T) {
	d := withParrot(t)
	if got := d.ok("node", "list"); !strings.Contains(got, "no nodes yet") {
		t.Errorf("an empty list is %q", got)
	}
	d.serve("--nodes-approve-local=false", "--nodes-allow=kitchen.echo")
	if got := d.ok("pair", "list"); got != "There are no pending requests.\n" {
		t.Errorf("when nobody waits the list is %q", got)
	}
	s := d.node("--name", "Kitchen", "--tools", "--commands", "system.which,system.run,kitchen.echo")

	first := s.out.await(t, `waiting for approval to connect: patchbay pair approve (\w{8})\n`)
	if got := d.ok("pair", "list"); !strings.Contains(got, first) || !strings.Contains(got, "to connect as node\n") ||
		!strings.Contains(got, "pair reject REQUEST") {
		t.Errorf("who waits is\n%s", got)
	}
	if got := d.ok("pair", "approve", first); !strings.HasPrefix(got, "Kitchen (") ||
		!strings.Contains(got, ") can now connect as node.\n") || !strings.Contains(got, "patchbay pair approve ") {
		t.Errorf("approve says %q", got)
	}
	d.failing(exitFailed, "", []string{"pair", "approve", first}, "no request", "pair list")

	second := s.out.await(t, `its commands are pending approval: patchbay pair approve (\w{8})\n`)
	if got := d.ok("node", "list"); !strings.Contains(got, "connected  pending approval  0 ") ||
		!strings.Contains(got, "approve it: patchbay pair approve "+second) {
		t.Errorf("the list is\n%s", got)
	}
	d.failing(exitFailed, "", []string{"node", "invoke", "Kitchen", "system.which"},
		"approved first: patchbay pair approve "+second)
	if got := d.ok("pair", "list"); !strings.Contains(got,
		"to run the commands kitchen.echo, mcp.tools.call.v1, system.run (dangerous), system.which\n") ||
		!strings.Contains(got, "127.0.0.1") {
		t.Errorf("who waits is\n%s", got)
	}
	if got := d.ok("node", "describe", "kitchen"); !strings.Contains(got, "Node Kitchen: connected\n") ||
		!strings.Contains(got, "no commands that can be called") ||
		!strings.Contains(got, "Pending approval (patchbay pair approve "+second+")\n  kitchen.echo\n") {
		t.Errorf("it is described as\n%s", got)
	}
	var made decision
	d.json(&made, "pair", "approve", "kitchen")
	if made.Decision != wire.DecisionApproved || len(made.Commands) != 4 || len(made.Kept) != 0 ||
		made.Name != "Kitchen" {
		t.Errorf("approved is %+v", made)
	}
	s.out.await(t, `ready, tools accepted: 2;`)

	for _, c := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"", []string{"system.which", `bins=["git"]`}, "{\n  \"bins\": {\n    \"git\": \"/usr/bin/git\"\n  }\n}\n"},
		{`{"bins":["git"]}`, []string{"system.which", "--params", "-"},
			"{\n  \"bins\": {\n    \"git\": \"/usr/bin/git\"\n  }\n}\n"},
		{"", []string{"kitchen.echo", "a=1", "b=two", "--params", `{"c":[],"a":2}`, "--timeout", "1m"},
			"{\n  \"params\": {\n    \"a\": 1,\n    \"b\": \"two\",\n    \"c\": []\n  },\n  \"simulated\": \"kitchen.echo\"\n}\n"},
		{"", []string{"kitchen.echo"}, "{\n  \"params\": null,\n  \"simulated\": \"kitchen.echo\"\n}\n"},
		{"", []string{"kitchen.echo", "--params", `["x"]`},
			"{\n  \"params\": [\n    \"x\"\n  ],\n  \"simulated\": \"kitchen.echo\"\n}\n"},
		{"", []string{"mcp.tools.call.v1", "server=lamp", "tool=set", `arguments={"on":true,"brightness":40}`},
			"The lamp is on, at 40 %.\n"},
	} {
		if o := d.do(c.stdin, append([]string{"node", "invoke", "Kitchen"}, c.args...)...); o.code != exitOK ||
			o.stdout != c.want {
			t.Errorf("%v gives %+v, want %q", c.args, o, c.want)
		}
	}
	var answer struct {
		NodeID  string
		Payload struct{ StructuredContent lamp }
	}
	d.json(&answer, "node", "invoke", "kitchen", "mcp.tools.call.v1", "server=lamp", "tool=get")
	if len(answer.NodeID) != 64 || !answer.Payload.StructuredContent.On ||
		answer.Payload.StructuredContent.Bright != 40 {
		t.Errorf("as JSON it is %+v", &answer)
	}
	if o := d.do("", "node", "invoke", "kitchen", "mcp.tools.call.v1", "server=lamp",
		"tool=fly"); o.code != exitFailed || o.stdout != "the lamp has no tool fly\n" ||
		!strings.Contains(o.stderr, "reported a failure") {
		t.Errorf("a tool that fails gives %+v", o)
	}
	d.failing(exitFailed, "", []string{"node", "invoke", "kitchen", "mcp.tools.call.v1", "server=x", "tool=fly"},
		"MCP_SERVER_UNAVAILABLE", "there is no server x here")
	d.failing(exitFailed, "", []string{"node", "invoke", "kitchen", "camera.snap"}, "camera.snap", "nodes.allow")
	d.failing(exitFailed, "", []string{"node", "invoke", "kitchen", "system.notify"}, "node describe kitchen")
	d.failing(exitFailed, "", []string{"node", "invoke", "kitchen", "kitchen.echo",
		"--out", filepath.Join(d.data, "x")}, "no picture")
	d.failing(exitFailed, "", []string{"node", "invoke", "attic", "system.which"}, `no node "attic"`)
	d.failing(exitFailed, "", []string{"node", "invoke", "kitchen", "kitchen.echo", "--timeout", "11m"}, "600000")

	// The same call with the same idempotency key runs once.
	for range 2 {
		d.ok("node", "invoke", "kitchen", "kitchen.echo", "once=more", "--once", "cake-1")
	}
	if n := strings.Count(s.out.String(), `kitchen.echo {"once":"more"}`); n != 1 {
		t.Errorf("it was carried out %d times", n)
	}

	if got := d.ok("node", "describe", answer.NodeID[:8]); !strings.Contains(got, "system.run (dangerous)\n") ||
		!strings.Contains(got, "lamp/get  Tells whether") || strings.Contains(got, "Pending approval") {
		t.Errorf("it is described as\n%s", got)
	}
	if got := d.ok("node", "rename", "kitchen", "Study"); got != "The node "+answer.NodeID[:12]+
		" is now called Study.\n" {
		t.Errorf("rename says %q", got)
	}
	d.failing(exitFailed, "", []string{"node", "rename", "Bots", "x"}, "plugged in here")
	d.failing(exitFailed, "", []string{"node", "rm", "Learn", "--yes"}, "plugged in here")
	var rows []nodeRow
	d.json(&rows, "node", "list")
	if len(rows) != 3 || rows[2].DisplayName != "Study" || rows[2].Connected == nil || !*rows[2].Connected {
		t.Errorf("the list is %+v", rows)
	}
	if o := d.do("n\n", "node", "rm", "Study"); o.code != exitFailed ||
		!strings.Contains(o.stderr, "Remove the node Study") {
		t.Errorf("rm went on after no: %+v", o)
	}
	d.ok("node", "rm", "Study", "--yes")
	// It reconnects with its key, and must be approved again.
	third := s.out.await(t, `(?s)waiting for approval to connect.*waiting for approval to connect: patchbay pair approve (\w{8})\n`)
	if got := d.ok("pair", "reject", third); !strings.Contains(got, "to connect is rejected") {
		t.Errorf("reject says %q", got)
	}
	s.stop()
	if code := <-s.ended; code != exitOK || s.errs.String() != "" {
		t.Errorf("it ended with %d, %q", code, s.errs.String())
	}
}

// Commands that a node adds later need another approval.
func TestNodeWantsMore(t *testing.T) {
	d := withParrot(t)
	d.serve()
	s := d.node("--name", "Kitchen")
	s.out.await(t, `pending approval: patchbay pair approve (\w{8})\n`)
	if got := d.ok("pair", "reject", "kitchen"); !strings.Contains(got, "to run commands is rejected") {
		t.Errorf("reject says %q", got)
	}
	s.out.await(t, "its commands were rejected")
	d.failing(exitFailed, "", []string{"node", "invoke", "kitchen", "system.which"}, "rejected")
	s.stop()
	<-s.ended

	s = d.node("--name", "Kitchen")
	s.out.await(t, `pending approval: patchbay pair approve (\w{8})\n`)
	d.ok("pair", "approve", "kitchen")
	s.out.await(t, "ready;")
	s.stop()
	<-s.ended
	d.until("the end", func() bool { return strings.Contains(d.ok("node", "list"), "away") })
	d.failing(exitFailed, "", []string{"node", "invoke", "kitchen", "system.which"},
		"Kitchen is not connected; last seen at")

	s = d.node("--name", "Kitchen", "--tools")
	s.out.await(t, `only 0 of its 2 tools were accepted`)
	if got := d.ok("node", "list"); !strings.Contains(got, "requests more commands") {
		t.Errorf("the list is\n%s", got)
	}
	if got := d.ok("pair", "approve", "kitchen"); !strings.Contains(got,
		"mcp.tools.call.v1, system.notify, system.which") {
		t.Errorf("approve says %q", got)
	}
	s.out.await(t, `tools accepted: 2;`)
}

// Without a server, stored nodes and requests can be listed and decided.
func TestNodesWithoutAServer(t *testing.T) {
	d := withParrot(t)
	b := d.base()
	shows(t, b, kitchenMAC, "client-1")
	ask := askingNodes(t, b)
	ask.device("a1", "Desktop")
	if got := d.ok("pair", "list"); !strings.Contains(got, "to connect as node\n") ||
		!strings.Contains(got, "Voice boards that show a pairing code: 1. To approve one: patchbay device approve CODE\n") {
		t.Errorf("who waits is\n%s", got)
	}
	if got := d.ok("pair", "approve", "desktop"); !strings.Contains(got,
		"Desktop (a1a1a1a1a1a1) can now connect as node.") {
		t.Errorf("approve says %q", got)
	}
	ask.surface("a1", "Desktop", "system.which", "system.run", "camera.snap")
	if got := d.ok("node", "list"); !strings.Contains(got,
		"a1a1a1a1a1a1  Desktop  linux     –      pending approval  0 ") ||
		!strings.Contains(got, "approve it: patchbay pair approve") {
		t.Errorf("the list is\n%s", got)
	}
	var p pairing
	if d.json(&p, "pair", "list"); len(p.Devices) != 0 || len(p.Nodes) != 1 || p.Nodes[0].Commands[1] != "system.run" ||
		p.Codes != 1 {
		t.Errorf("who waits is %+v", p)
	}
	got := d.ok("pair", "approve", p.Nodes[0].RequestID)
	if !strings.Contains(got, "can now run these commands: system.run (dangerous), system.which\n") ||
		!strings.Contains(got, "Blocked by the settings nodes.allow and nodes.deny: camera.snap\n") {
		t.Errorf("approve says %q", got)
	}
	d.failing(exitFailed, "", []string{"node", "invoke", "Desktop", "system.which"}, "only while a server runs",
		"patchbay serve")
	if got := d.ok("node", "describe", "a1a1"); !strings.Contains(got, "Node Desktop: –\n") ||
		!strings.Contains(got, "system.run (dangerous)\n") {
		t.Errorf("it is described as\n%s", got)
	}
	d.ok("node", "rename", "a1a1", "Study")
	d.failing(exitFailed, "", []string{"node", "describe", "Desktop"}, `no node "Desktop"`)
	d.failing(exitFailed, "", []string{"node", "rename", "Study", " "}, "empty")
	d.failing(exitFailed, "", []string{"node", "rename", "Bots", "x"}, "plugged in here")
	ask.device("a2", "Study")
	ask.device("b3", "Other")
	d.ok("pair", "approve", "Study")
	d.failing(exitFailed, "", []string{"node", "rm", "study", "--yes"}, `2 nodes may be meant by "study"`)
	d.failing(exitFailed, "", []string{"pair", "approve", "Desktop"}, `no request "Desktop" waits`)
	if got := d.ok("pair", "reject", "Other"); !strings.Contains(got,
		"The request of Other (b3b3b3b3b3b3) to connect is rejected.") {
		t.Errorf("reject says %q", got)
	}
	d.ok("node", "rm", "a1a1", "--yes")
	var rows []nodeRow
	if d.json(&rows, "node", "list"); len(rows) != 1 || rows[0].Connected != nil {
		t.Errorf("the list is %+v", rows)
	}
	// Decisions and changes are admin events.
	events, err := b.Store.AdminEvents.Newest(t.Context(), "", 20)
	if err != nil {
		t.Fatal(err)
	}
	acts := ""
	for _, e := range events {
		acts = e.Action + " " + acts
	}
	if want := "person.added bot.added pair.approved pair.approved node.renamed pair.approved pair.rejected " +
		"node.removed "; acts != want {
		t.Errorf("the admin events are %s, want %s", acts, want)
	}
}

// Everything works remotely too, on one's own nodes.
func TestNodesFromElsewhere(t *testing.T) {
	d := withParrot(t)
	d.ok("user", "add", "bob", "--role", "member")
	var bobs, adas struct{ Key string }
	d.json(&bobs, "key", "add", "--user", "bob", "--name", "o", "--scope", "operator,node")
	d.json(&adas, "key", "add", "--user", "ada", "--name", "o", "--scope", "operator")
	s := d.serve("--nodes-approve-local=false")
	elsewhere := blankDesk(t)
	n := elsewhere.node("--server", s.URL, "--key", bobs.Key, "--name", "Phone", "--platform", "android", "--commands",
		"device.info")
	n.out.await(t, `waiting for approval to connect: patchbay pair approve \w{8} / openclaw devices approve [\w-]{36}\n`)
	at := func(key string, args ...string) []string { return append(args, "--server", s.URL, "--key", key) }
	if got := elsewhere.ok(at(adas.Key, "pair", "list")...); got != "There are no pending requests.\n" {
		t.Errorf("somebody else sees %q", got)
	}
	if got := elsewhere.ok(at(bobs.Key, "pair", "approve", "phone")...); !strings.Contains(got, " --server "+s.URL) {
		t.Errorf("approve says %q", got)
	}
	n.out.await(t, `pending approval: patchbay pair approve \w{8} / openclaw nodes approve`)
	elsewhere.ok(at(bobs.Key, "pair", "approve", "phone")...)
	n.out.await(t, "ready;")
	if got := elsewhere.ok(at(bobs.Key, "node", "invoke", "phone", "device.info")...); !strings.Contains(got,
		`"simulated": "device.info"`) {
		t.Errorf("it says %q", got)
	}
	d.failing(exitFailed, "", at(adas.Key, "node", "invoke", "phone", "device.info"), `no node "phone"`)
	if got := elsewhere.ok(at(bobs.Key, "node", "rename", "phone", "Mobile")...); !strings.Contains(got, "Mobile") {
		t.Errorf("rename says %q", got)
	}
	elsewhere.ok(at(bobs.Key, "node", "rm", "mobile", "--yes")...)
}

func TestNodeUsage(t *testing.T) {
	d := withParrot(t)
	for _, c := range []struct {
		code int
		args []string
		want []string
	}{
		{exitUsage, []string{"node", "invoke", "x", "y", "--timeout", "0s"}, []string{"--timeout", "2m"}},
		{exitUsage, []string{"node", "invoke", "x", "y", "--params", "nonsense"},
			[]string{"--params", `{"bins":["git"]}`}},
		{exitUsage, []string{"node", "invoke", "x", "y", "a=b", "--params", "[]"}, []string{"--params", "object"}},
		{exitUsage, []string{"node", "invoke", "x", "y", "a"}, []string{`"a"`, "name=value"}},
		{exitFailed, []string{"node", "invoke", "x", "y", "--params", "@/does/not/exist"},
			[]string{"--params", "/does/not/exist"}},
		{exitFailed, []string{"node", "describe", "x"}, []string{`no node "x"`, "node list"}},
		{exitFailed, []string{"pair", "approve", ""}, []string{`no request ""`}},
		{exitUsage, []string{"pair", "list", "--key", "x"}, []string{"--server"}},
	} {
		d.failing(c.code, "", c.args, c.want...)
	}
	empty := blankDesk(t)
	for _, args := range [][]string{{"node", "list"}, {"pair", "list"}, {"node", "rm", "x"}, {"pair", "approve", "x"},
		{"shim", "list"}} {
		empty.failing(exitFailed, "", args, empty.data+" contains no data yet")
	}
}

// A result is printed according to its type.
func TestShowInvoked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "photo.jpg")
	for _, c := range []struct{ payload, out, want string }{
		{``, "", "Done; the result is empty.\n"},
		{`{"a":1}`, "", "{\n  \"a\": 1\n}\n"},
		{`"text"`, "", "\"text\"\n"},
		{`{"content":"is a text"}`, "", "{\n  \"content\": \"is a text\"\n}\n"},
		{`{"content":[]}`, "", "{\n  \"content\": []\n}\n"},
		{`{"base64":5}`, "", "{\n  \"base64\": 5\n}\n"},
		{`{"content":[{"type":"text","text":"hello"},{"type":"image","mimeType":"image/png","data":"AAAA"}]}`, "",
			"hello\n[image/png, 3 bytes; --out FILE saves it]\n"},
		{`{"content":[],"structuredContent":{"on":true}}`, "", "{\n  \"on\": true\n}\n"},
		{`{"format":"jpg","base64":"/9j/","width":4}`, "", "[image/jpeg, 3 bytes; --out FILE saves it]\n"},
		{`{"format":"jpg","base64":"/9j/","width":4}`, file, ""},
	} {
		var stdout, stderr bytes.Buffer
		sh := newShell(strings.NewReader(""), &stdout, &stderr, nil)
		answer := `{"ok":true}`
		if c.payload != "" {
			answer = `{"ok":true,"payload":` + c.payload + `}`
		}
		if err := sh.showInvoked(json.RawMessage(answer), "x", c.out); err != nil || stdout.String() != c.want {
			t.Errorf("%s is shown as %q (%v), want %q", c.payload, stdout.String(), err, c.want)
		}
	}
	if got, err := os.ReadFile(file); string(got) != "\xff\xd8\xff" {
		t.Errorf("saved is %q (%v)", got, err)
	}
}

// An error response of an older server, without a reason, is printed as it is.
func TestExplained(t *testing.T) {
	c := &nodeInvokeCmd{}
	err := &api.ServerError{Failure: api.Failure{Message: "no"}}
	if got := c.explainError(t.Context(), nil, err); got != error(err) {
		t.Errorf("it is %v", got)
	}
}
