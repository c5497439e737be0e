package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/api"
	"patchbay/internal/control"
)

// withLamp returns a desk with a person, a bot, a running server, and a lamp whose tools are
// connected.
func withLamp(t *testing.T) (*desk, *server) {
	t.Helper()
	d := withParrot(t)
	s := d.serve()
	d.ok("upstream", "add", "lamp", "--url", servePeer(t, ""))
	d.awaitTool("lamp_set")
	return d, s
}

// states returns the tools of a list by name.
func (d *desk) states(args ...string) map[string]control.Tool {
	d.t.Helper()
	var list []control.Tool
	d.json(&list, append([]string{"tool", "list"}, args...)...)
	all := map[string]control.Tool{}
	for _, t := range list {
		all[t.Name] = t
	}
	return all
}

func TestToolsAreKnownToAServer(t *testing.T) {
	d := withParrot(t)
	for _, args := range [][]string{{"tool", "list"}, {"tool", "show", "x"}, {"tool", "call", "x"}} {
		d.failing(exitFailed, "", args, "only while a server runs", "patchbay serve")
	}
}

func TestToolList(t *testing.T) {
	d, s := withLamp(t)
	got := d.states()
	if _, there := got["lamp_burn"]; there || got["lamp_set"].State != control.ToolAllowed ||
		got["send_message"].State != control.ToolAllowed {
		t.Errorf("listed are %+v", got)
	}
	got = d.states("--all")
	lamp := got["lamp_state"]
	if got["lamp_burn"].State != control.ToolDangerous || lamp.OwnerName != "ada" || lamp.Provider != "upstream:1" ||
		lamp.Kind != "upstream" || !lamp.ReadOnly {
		t.Errorf("listed are %+v", got)
	}
	text := d.ok("tool", "list")
	if !strings.Contains(text, "Set the light. …\n") || !strings.Contains(text, "not allowed: 1 more; --all") {
		t.Errorf("the list is\n%s", text)
	}
	d.env = append(d.env, "LANG=zh_CN.UTF-8", "LC_ALL=zh_CN.UTF-8")
	if text := d.ok("tool", "list", "--all"); !strings.Contains(text, "危险，未放行") {
		t.Errorf("the list in Chinese is\n%s", text)
	}
	var key struct{ Key string }
	d.json(&key, "key", "add", "--name", "o", "--scope", "operator")
	elsewhere := blankDesk(t)
	if got := elsewhere.states("--server", s.URL, "--key", key.Key); got["lamp_set"].State != control.ToolAllowed {
		t.Errorf("from elsewhere there are %+v", got)
	}
}

func TestToolShow(t *testing.T) {
	d, _ := withLamp(t)
	got := d.ok("tool", "show", "lamp_set")
	for _, want := range []string{"lamp_set (allowed, from lamp)", "ada", "Set the light.\nAll of it.",
		"\nArguments\n{\n", `"level": {`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if got := d.ok("tool", "show", "lamp_burn"); !strings.Contains(got, "patchbay tool allow lamp_burn") {
		t.Errorf("a dangerous tool is shown as\n%s", got)
	}
	var shown control.Tool
	d.json(&shown, "tool", "show", "lamp_set")
	if !json.Valid(shown.Input) || shown.Name != "lamp_set" {
		t.Errorf("shown is %+v", shown)
	}
	d.failing(exitFailed, "", []string{"tool", "show", "nothing"}, `"nothing"`, "tool list --all")
}

func TestToolCall(t *testing.T) {
	d, _ := withLamp(t)
	file := filepath.Join(t.TempDir(), "color.txt")
	if err := os.WriteFile(file, []byte("blue\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"lamp_state"}, "it is on\n"},
		{[]string{"lamp_set", "level=5", "color=5", "on=true"}, `{"color":"5","level":5,"on":true}` + "\n"},
		{[]string{"lamp_set", "color=@" + file, `rest={"a":[1,"b"]}`}, `{"color":"blue","rest":{"a":[1,"b"]}}` + "\n"},
		{[]string{"lamp_set", "rest=some words", "on=null"}, `{"on":null,"rest":"some words"}` + "\n"},
		{[]string{"lamp_set", "level=6", "--args", `{"level":5,"color":"red"}`}, `{"color":"red","level":6}` + "\n"},
		{[]string{"send_message", "botId=1", "message=hello"}, "hello\n"},
	} {
		o := d.do("", append([]string{"tool", "call"}, c.args...)...)
		if o.code != exitOK || o.stdout != c.want {
			t.Errorf("%v gives %+v, want %q", c.args, o, c.want)
		}
	}
	if o := d.do(`{"level":7}`, "tool", "call", "lamp_set", "--args", "@-"); o.stdout != `{"level":7}`+"\n" {
		t.Errorf("from standard input it gives %+v", o)
	}
	if o := d.do("", "tool", "call", "lamp_dim"); o.stdout != "dark\n" ||
		o.stderr != "1/3 dimming\n2/3 dimming\n3/3 dimming\n" {
		t.Errorf("with progress it gives %+v", o)
	}
	var line api.ToolLine
	d.json(&line, "tool", "call", "lamp_state")
	if !line.End || line.Result == nil || line.Result.PlainText() != "it is on" {
		t.Errorf("as JSON it is %+v", line)
	}
}

func TestToolCallFails(t *testing.T) {
	d, _ := withLamp(t)
	if o := d.do("", "tool", "call", "lamp_fail"); o.code != exitFailed || o.stdout != "there is no bulb\n" ||
		o.stderr != "patchbay: lamp_fail reported a failure\n" {
		t.Errorf("a tool that fails gives %+v", o)
	}
	if o := d.do("", "tool", "call", "lamp_burn", "--json"); o.code != exitFailed ||
		!strings.Contains(o.stdout, `"code": "denied"`) {
		t.Errorf("a dangerous tool gives %+v", o)
	}
	for _, c := range []struct {
		code int
		args []string
		want []string
	}{
		{exitFailed, []string{"nothing", "a=b"}, []string{"Unknown tool: nothing", "unknown_tool"}},
		{exitFailed, []string{"lamp_burn"}, []string{"dangerous", "patchbay tool allow lamp_burn", "(denied)"}},
		{exitFailed, []string{"lamp_set", "--args", `{"level":"x"}`},
			[]string{"level must be integer", "(bad_arguments)"}},
		{exitFailed, []string{"lamp_set", "--user", "nobody"}, []string{`there is no user "nobody"`}},
		{exitFailed, []string{"lamp_state", "--out", filepath.Join(t.TempDir(), "x.png")}, []string{"no picture"}},
		{exitUsage, []string{"lamp_set", "level=five"}, []string{`level: "five"`, "JSON: integer"}},
		{exitUsage, []string{"lamp_set", "--args", "[]"}, []string{"--args", "JSON object"}},
		{exitUsage, []string{"lamp_set", "--args", "null"}, []string{"--args", "JSON object"}},
		{exitUsage, []string{"lamp_set", "level"}, []string{`"level"`, "name=value"}},
	} {
		d.failing(c.code, "", append([]string{"tool", "call"}, c.args...), c.want...)
	}
}

func TestToolCallSavesPictures(t *testing.T) {
	d, _ := withLamp(t)
	if got := d.ok("tool", "call",
		"lamp_shoot"); got != "two views\n[image/png, 5 bytes; --out FILE saves it]\n[image/png, 6 bytes; --out FILE saves it]\n" {
		t.Errorf("without a file it prints %q", got)
	}
	file := filepath.Join(t.TempDir(), "view.png")
	if o := d.do("", "tool", "call", "lamp_shoot", "--out", file); o.code != exitOK || o.stdout != "two views\n" {
		t.Fatalf("it gives %+v", o)
	}
	for name, want := range map[string]string{file: "first", strings.TrimSuffix(file, ".png") + "-2.png": "second"} {
		if got, err := os.ReadFile(name); string(got) != want {
			t.Errorf("%s holds %q (%v)", name, got, err)
		}
	}
}

// A client that disconnects during a call cancels it.
func TestToolCallIsCalledOff(t *testing.T) {
	d, _ := withLamp(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	var out safeBuffer
	go func() {
		done <- Run(ctx, []string{"tool", "call", "lamp_wait"}, strings.NewReader(""), &out, &out, d.env)
	}()
	<-peerWaits
	cancel()
	<-peerWaits
	if code := <-done; code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, out.String())
	}
	d.until("the record", func() bool {
		var calls []control.Call
		d.json(&calls, "calls")
		return len(calls) == 1 && calls[0].Code == "cancelled" && calls[0].Outcome == "failed"
	})
}

func TestToolRules(t *testing.T) {
	d, _ := withLamp(t)
	if got := d.ok("tool", "rules"); !strings.Contains(got, "no rules") {
		t.Errorf("without rules it says %q", got)
	}
	var set ruleSet
	d.json(&set, "tool", "allow", "lamp_burn")
	if set.User != "ada" || set.Tool != "lamp_burn" || set.Rule != control.RuleAllow || set.Matches == nil ||
		*set.Matches != 1 {
		t.Errorf("set is %+v", set)
	}
	if state := d.states()["lamp_burn"].State; state != control.ToolAllowed { // in effect at once
		t.Errorf("what was just allowed is %q", state)
	}
	if got := d.ok("tool", "call", "lamp_burn"); got != "burnt\n" {
		t.Errorf("it says %q", got)
	}
	d.ok("tool", "deny", "lamp_*")
	d.failing(exitFailed, "", []string{"tool", "call", "lamp_state"}, "not allowed here", "denied")
	if got := d.ok("tool", "allow", "lamp_burn"); !strings.Contains(got, "The rule lamp_* still denies it") ||
		!strings.Contains(got, "tool reset 'lamp_*'") {
		t.Errorf("a tool that stays denied is allowed with %q", got)
	}
	var rows []control.ToolRuleRow
	d.json(&rows, "tool", "rules", "--user", "ada")
	if len(rows) != 2 || rows[0].Tool != "lamp_*" || rows[0].Rule != control.RuleDeny || rows[1].OwnerName != "ada" {
		t.Errorf("the rules are %+v", rows)
	}
	d.ok("tool", "reset", "lamp_*")
	d.ok("tool", "reset", "lamp_burn")
	if state := d.states("--all")["lamp_burn"].State; state != control.ToolDangerous {
		t.Errorf("without a rule it is %q", state)
	}
	d.failing(exitFailed, "", []string{"tool", "reset", "lamp_*"}, "no rule for lamp_*", "tool rules")
	d.failing(exitFailed, "", []string{"tool", "deny", "lamp set"}, `"lamp set"`, "no name of a tool")
	d.failing(exitFailed, "", []string{"tool", "rules", "--user", "bob"}, `there is no user "bob"`)
}

// Rules are set and listed without a server, too, which leaves an admin event. The number of tools
// is not known then.
func TestToolRulesWithoutAServer(t *testing.T) {
	d := withParrot(t)
	d.ok("user", "add", "bob", "--role", "member")
	d.failing(exitFailed, "", []string{"tool", "deny", "lamp_*"}, "2 people")
	d.ok("tool", "deny", "lamp_*", "--user", "bob")
	var set map[string]any
	d.json(&set, "tool", "allow", "lamp_set", "--user", "bob")
	if set["denied_by"] != "lamp_*" || set["user"] != "bob" || set["matches"] != nil {
		t.Errorf("set is %v", set)
	}
	if got := d.ok("tool", "rules", "--user", "ada"); !strings.Contains(got, "no rules") {
		t.Errorf("ada's rules are\n%s", got)
	}
	if got := d.ok("tool", "rules"); !strings.Contains(got, "lamp_*    deny   bob") {
		t.Errorf("the rules are\n%s", got)
	}
	d.failing(exitFailed, "", []string{"tool", "reset", "lamp_dim", "--user", "bob"}, "no rule for lamp_dim")
	d.failing(exitFailed, "", []string{"tool", "reset", "lamp_*", "--user", "eve"}, `there is no user "eve"`)
	acts, err := d.base().Store.AdminEvents.Newest(t.Context(), "", 1)
	if err != nil || len(acts) != 1 || acts[0].About != "bob: lamp_set → allow" {
		t.Errorf("the admin events are %+v, %v", acts, err)
	}
	var key struct{ Key string }
	d.json(&key, "key", "add", "--user", "bob", "--name", "o", "--scope", "operator")
	at := []string{"--server", d.serve().URL, "--key", key.Key}
	elsewhere := blankDesk(t)
	elsewhere.ok(append([]string{"tool", "reset", "lamp_set"}, at...)...)
	var rows []control.ToolRuleRow
	elsewhere.json(&rows, append([]string{"tool", "rules"}, at...)...)
	if len(rows) != 1 || rows[0].Tool != "lamp_*" || rows[0].OwnerName != "bob" {
		t.Errorf("the rules are %+v", rows)
	}
	elsewhere.failing(exitFailed, "", append([]string{"tool", "rules", "--user", "ada"}, at...), "scope admin")
}

// People see only their own tools, except administrators.
func TestToolsOfOthers(t *testing.T) {
	d := withParrot(t)
	d.ok("user", "add", "bob", "--role", "member")
	s := d.serve()
	peer := servePeer(t, "")
	d.ok("upstream", "add", "lamp", "--user", "ada", "--url", peer)
	// members may not use private addresses
	d.ok("upstream", "add", "lamp", "--user", "bob", "--url", peer, "--no-check")
	d.awaitTool("lamp_set")
	d.ok("tool", "deny", "send_message", "--user", "bob")
	var operator, admin, rest struct{ Key string }
	d.json(&operator, "key", "add", "--user", "bob", "--name", "o", "--scope", "operator")
	d.json(&admin, "key", "add", "--user", "ada", "--name", "a", "--scope", "admin")
	d.json(&rest, "key", "add", "--user", "ada", "--name", "r", "--scope", "operator", "--deny-tool", "lamp_*")
	if state := d.states("--all", "--user", "bob")["send_message"].State; state != control.ToolDenied {
		t.Errorf("what was just denied is %q", state)
	}

	key := func(key string, args ...string) []string { return append(args, "--server", s.URL, "--key", key) }
	if got := d.states(key(operator.Key, "--all")...); got["lamp_set"].Name != "" ||
		got["send_message"].State != control.ToolDenied || got["list_bots"].Name == "" {
		t.Errorf("bob sees %+v", got)
	}
	if got := d.states(key(rest.Key, "--all")...); got["lamp_set"].State != control.ToolDenied ||
		got["send_message"].State != control.ToolAllowed {
		t.Errorf("a key with rules sees %+v", got)
	}
	if got := d.states(key(admin.Key)...); got["lamp_set"].State != control.ToolAllowed ||
		got["lamp_set"].OwnerName != "ada" {
		t.Errorf("ada sees %+v", got)
	}
	d.failing(exitFailed, "", key(operator.Key, "tool", "list", "--user", "ada"), "scope admin")
	d.failing(exitFailed, "", key(operator.Key, "tool", "list", "--user", "nobody"), "scope admin")
	d.failing(exitFailed, "", key(operator.Key, "tool", "call", "lamp_state"), "Unknown tool")
	d.failing(exitFailed, "", key(operator.Key, "tool", "call", "lamp_state", "--user", "ada"), "scope admin")
	d.failing(exitFailed, "", key(operator.Key, "calls", "--user", "ada"), "scope admin")
	d.failing(exitFailed, "", key(admin.Key, "tool", "call", "send_message", "--user", "bob", "--args",
		`{"botId":"1","message":"x"}`), "denied")
	d.failing(exitFailed, "", []string{"tool", "call", "lamp_state"}, "2 people", "user")
	if got := d.ok("tool", "call", "lamp_state", "--user", "ada"); got != "it is on\n" {
		t.Errorf("for ada it says %q", got)
	}

	// A tool that everybody has is listed once, and again for each person with a rule about it.
	var all []control.Tool
	d.json(&all, "tool", "list", "--all")
	count := map[string]int{}
	for _, tool := range all {
		count[tool.Name+" "+tool.OwnerName+" "+tool.State]++
	}
	if count["list_bots  allowed"] != 1 || count["send_message  allowed"] != 1 ||
		count["send_message bob denied"] != 1 || count["lamp_set ada allowed"] != 1 {
		t.Errorf("everybody's tools are %v", count)
	}
	d.until("the records", func() bool { // records of read-only tools are written a moment later
		var mine, everybodys []control.Call
		d.json(&mine, key(operator.Key, "calls")...)
		d.json(&everybodys, key(admin.Key, "calls")...)
		return len(mine) == 2 && len(everybodys) == 3 && mine[0].PersonName == "bob"
	})
}

func TestCalls(t *testing.T) {
	d, s := withLamp(t)
	if got := d.ok("calls"); got != "There are none.\n" {
		t.Errorf("without calls it says %q", got)
	}
	var key struct{ Key string }
	d.json(&key, "key", "add", "--name", "laptop", "--scope", "operator", "--keep-args")
	d.do("", "tool", "call", "lamp_fail")
	d.do("", "tool", "call", "nothing")
	d.ok("tool", "call", "lamp_set", "level=3", "--server", s.URL, "--key", key.Key)
	var calls []control.Call
	d.until("the records", func() bool { // the record of a refused call is written a moment later
		calls = nil // omitted fields would keep their values
		d.json(&calls, "calls")
		return len(calls) == 3
	})
	set, nothing, fail := calls[0], calls[1], calls[2]
	if set.Tool != "lamp_set" || set.PersonName != "ada" || set.KeyName != "laptop" || set.Channel != "cli" ||
		set.Outcome != "done" || set.Args != `{"level":3}` {
		t.Errorf("the newest is %+v", set)
	}
	if nothing.Outcome != "refused" || nothing.Code != "unknown_tool" || fail.Outcome != "tool_error" ||
		fail.Cause != "there is no bulb" || fail.Args != "" || fail.Program != "patchbay" || fail.Actor != "-" ||
		set.Actor != "" || set.Address != "127.0.0.1" {
		t.Errorf("there are %+v, %+v and %+v", set, nothing, fail)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "lamp_set nothing lamp_fail"},
		{[]string{"--failed"}, "nothing lamp_fail"},
		{[]string{"--failed", "--limit", "1"}, "nothing"},
		{[]string{"--limit", "2", "--user", "ada"}, "lamp_set nothing"},
		{[]string{"--failed", "--server", s.URL, "--key", key.Key}, "nothing lamp_fail"},
		{[]string{"--limit", "1", "--server", s.URL, "--key", key.Key}, "lamp_set"},
	} {
		d.json(&calls, append([]string{"calls"}, c.args...)...)
		var names []string
		for _, call := range calls {
			names = append(names, call.Tool)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("calls %v lists %q, want %q", c.args, got, c.want)
		}
	}
	table := d.ok("calls")
	for _, want := range []string{"ada/laptop  ", "command line for ada", "cli      127.0.0.1",
		"unknown_tool: Unknown tool: nothing", "there is no bulb"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in\n%s", want, table)
		}
	}
	d.failing(exitUsage, "", []string{"calls", "--limit", "0"}, "--limit is 0")
	d.failing(exitFailed, "", []string{"calls", "--user", "bob"}, `there is no user "bob"`)
}
