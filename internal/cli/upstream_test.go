package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/plug/mcp/upstream"
)

func TestUpstreamOverHTTP(t *testing.T) {
	d := withParrot(t)
	if got := d.ok("upstream", "list"); !strings.Contains(got, "no upstreams yet") {
		t.Errorf("an empty list is %q", got)
	}
	address := servePeer(t, "s3cret-token")
	file := filepath.Join(t.TempDir(), "token.txt")
	if err := os.WriteFile(file, []byte("s3cret-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.failing(exitFailed, "", []string{"upstream", "add", "lamp", "--url", address}, "wants a token",
		"Nothing was saved", "--no-check")
	d.failing(exitFailed, "", []string{"upstream", "show", "lamp"}, `no upstream "lamp"`)
	var added upstreamAdded
	d.json(&added, "upstream", "add", "lamp", "--url", address, "--token", "@"+file, "--set", "deny=wait,f*", "--set",
		"timeout=20s")
	if added.ID != 1 || added.Kind != control.KindServer || added.Token != "" || added.Found == nil ||
		added.Found.Server != "lamp" ||
		added.Found.Version != "2.1" || len(added.Found.Tools) != 5 || added.Found.Tools[0] != "lamp_burn" ||
		added.Found.Hidden != 2 {
		t.Errorf("added is %+v with %+v", added, added.Found)
	}
	d.failing(exitFailed, "", []string{"upstream", "add", "lamp", "--url", "http://127.0.0.1:1"},
		"one called lamp already")
	if got := d.ok("upstream", "list"); !strings.Contains(got, "lamp  mcp   ada    "+address+"  –      –") {
		t.Errorf("without a server the list is\n%s", got)
	}

	d.serve()
	d.awaitTool("lamp_set")
	var rows []control.Upstream
	d.json(&rows, "upstream", "list")
	if len(rows) != 1 || rows[0].State != control.UpstreamReady || rows[0].Tools != 5 || rows[0].Hidden != 2 ||
		rows[0].OwnerName != "ada" || rows[0].Where != address {
		t.Errorf("the list is %+v", rows)
	}
	shown := d.ok("upstream", "show", "lamp")
	for _, want := range []string{"Upstream lamp (mcp, of ada): ready", "Its server: lamp 2.1 (MCP ", "Its tools: 5",
		"token = ••••••", `deny = ["wait","f*"]`, "timeout = 20s"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
	if got := d.ok("upstream", "check", "lamp"); !strings.Contains(got, "Connected to lamp 2.1") ||
		!strings.Contains(got, "  lamp_burn\n") || !strings.Contains(got, "deny: 2 more") {
		t.Errorf("the check says\n%s", got)
	}

	// A running server picks up changes.
	d.ok("upstream", "set", "lamp", "deny=", "allow=state, set")
	d.until("the change", func() bool {
		all := d.states("--all")
		return all["lamp_state"].Name != "" && all["lamp_burn"].Name == ""
	})
	d.ok("upstream", "set", "lamp", "token=wrong-token")
	d.until("the trouble", func() bool {
		d.json(&rows, "upstream", "list")
		return rows[0].State == control.UpstreamFailed && strings.Contains(rows[0].Problem, "wants a token")
	})
	if got := d.ok("upstream", "show", "lamp"); !strings.Contains(got, "failed\n") ||
		!strings.Contains(got, "Next attempt at") || strings.Contains(got, "wrong-token") {
		t.Errorf("in trouble it is shown as\n%s", got)
	}
	d.failing(exitFailed, "", []string{"upstream", "check", "lamp"}, "wants a token")

	if o := d.do("n\n", "upstream", "rm", "lamp"); o.code != exitFailed ||
		!strings.Contains(o.stderr, "Remove the upstream lamp?") {
		t.Errorf("rm went on after no: %+v", o)
	}
	d.ok("upstream", "rm", "lamp", "--yes")
	d.until("the end", func() bool { return d.states("--all")["lamp_state"].Name == "" })
}

func TestUpstreamIsACommand(t *testing.T) {
	d := withParrot(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var added upstreamAdded
	text := d.ok("upstream", "add", "lamp", "--json", "--env", peerEnv+"=1", "--env", "API_KEY=s3cret-value",
		"--", self, "-some", "flag,with,commas")
	if err := json.Unmarshal([]byte(text), &added); err != nil {
		t.Fatal(err)
	}
	if added.Found == nil || added.Found.Transport != upstream.Stdio || len(added.Found.Tools) != 7 {
		t.Fatalf("added is %+v with %+v", added, added.Found)
	}
	d.serve()
	d.awaitTool("lamp_set")
	if got := d.ok("tool", "call", "lamp_state"); got != "it is on\n" {
		t.Errorf("it says %q", got)
	}
	var view control.UpstreamDetail
	d.json(&view, "upstream", "show", "lamp")
	var args []string
	if err := json.Unmarshal(view.Settings["args"], &args); err != nil {
		t.Fatal(err)
	}
	if view.State != control.UpstreamReady || view.Transport != upstream.Stdio ||
		strings.Join(view.Stderr, " ") != "the peer begins" ||
		strings.Join(args, " ") != "-some flag,with,commas" || view.Where != self {
		t.Errorf("it is shown as %+v", view)
	}
	if got := d.ok("upstream", "show", "lamp"); strings.Contains(got, "s3cret") || !strings.Contains(got, "API_KEY") ||
		!strings.Contains(got, "Last output of the command\n  the peer begins") {
		t.Errorf("it is shown as\n%s", got)
	}
	d.failing(exitFailed, "", []string{"upstream", "add", "other", "--", filepath.Join(d.data, "nothing")},
		"cannot be started", "--no-check")

	// Members may not run programs on the server's machine.
	d.ok("user", "add", "bob", "--role", "member")
	d.failing(exitFailed, "", []string{"upstream", "add", "x", "--user", "bob", "--no-check", "--", self},
		"only an admin")
	d.ok("upstream", "add", "x", "--user", "bob", "--no-check", "--url", "https://mcp.example.com/mcp")
	d.failing(exitFailed, "", []string{"upstream", "set", "x", "url=", "command=" + self}, "only an admin")
	d.ok("upstream", "add", "x", "--user", "ada", "--no-check", "--url", "https://mcp.example.com/mcp")
	d.failing(exitUsage, "", []string{"upstream", "show", "x"}, "2 people", "--user NAME")
	d.ok("upstream", "show", "x", "--user", "bob")
}

func TestUpstreamThatConnectsHere(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.env = append(d.env, "PATCHBAY_PUBLIC_URL=https://board.example.org")
	var added, rotated upstreamAdded
	d.json(&added, "upstream", "add", "robot", "--endpoint")
	if added.Token == "" || added.URL != "wss://board.example.org/mcp_endpoint/mcp/?token="+added.Token ||
		added.Kind != control.KindDialsIn {
		t.Errorf("added is %+v", added)
	}
	d.json(&rotated, "upstream", "rotate", "robot")
	if rotated.Token == "" || rotated.Token == added.Token {
		t.Errorf("rotated is %+v", rotated)
	}
	if got := d.ok("upstream", "show", "robot") + d.ok("upstream", "list"); strings.Contains(got, rotated.Token) {
		t.Errorf("the token is shown again:\n%s", got)
	}
	if got := d.ok("upstream", "add", "arm", "--endpoint"); !strings.Contains(got, "shown only once") ||
		!strings.Contains(got, "  wss://board.example.org/mcp_endpoint/mcp/?token=pbt_") {
		t.Errorf("it is added with\n%s", got)
	}
	d.ok("upstream", "set", "robot", "timeout=1m", "deny=reset")
	d.failing(exitFailed, "", []string{"upstream", "set", "robot", "url=http://a"}, "url")
	d.failing(exitFailed, "", []string{"upstream", "check", "robot"}, "running server", "upstream list")
}

func TestUpstreamThatCallsOurTools(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	file := filepath.Join(t.TempDir(), "address.txt")
	if err := os.WriteFile(file, []byte("wss://api.example.com/mcp/?token=s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := d.ok("upstream", "add", "cloud", "--cloud", "@"+file, "--tools", "lamp_*,send_message", "--tools", "x",
		"--set", "deny=lamp_burn")
	if !strings.Contains(got,
		"the service at wss://api.example.com/mcp/ can call these tools: lamp_*, send_message, x") ||
		strings.Contains(got, "s3cret") {
		t.Errorf("it is added with %q", got)
	}
	d.ok("upstream", "set", "cloud", "most=8", "allow=lamp_*")
	var view control.UpstreamDetail
	d.json(&view, "upstream", "show", "cloud")
	text, err := json.Marshal(view.Settings)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"allow":["lamp_*"],"deny":["lamp_burn"],"most":8,"url":"wss://api.example.com/mcp/?••••••"}`; string(text) != want {
		t.Errorf("its settings are %s, want %s", text, want)
	}
	b := d.base()
	list, err := b.Store.Upstreams.ByOwner(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var s app.CloudSettings
	if err := b.UpstreamSettings(list[0], &s); err != nil || s.URL != "wss://api.example.com/mcp/?token=s3cret" ||
		s.Most != 8 {
		t.Errorf("kept is %+v (%v)", s, err)
	}
	d.failing(exitFailed, "", []string{"upstream", "set", "cloud", "allow="}, "allow is missing")
}

func TestUpstreamErrors(t *testing.T) {
	d := blankDesk(t)
	d.failing(exitFailed, "", []string{"upstream", "list"}, d.data+" contains no data yet")
	d.ok("user", "add", "ada")
	add := func(args ...string) []string { return append([]string{"upstream", "add"}, args...) }
	for _, c := range []struct {
		code int
		args []string
		want []string
	}{
		{exitUsage, add("x"), []string{"--url", "--endpoint", "--cloud", "-- COMMAND"}},
		{exitUsage, add("x", "--url", "http://a", "--endpoint"), []string{"exactly one"}},
		{exitUsage, add("x", "--url", "http://a", "--", "cat"), []string{"exactly one"}},
		{exitUsage, add("x", "--token", "t", "--", "cat"), []string{"--env"}},
		{exitUsage, add("x", "--url", "http://a", "--env", "A=b"), []string{"--env"}},
		{exitUsage, add("x", "--url", "http://a", "--tools", "b"), []string{"--cloud"}},
		{exitUsage, add("x", "--cloud", "wss://a"), []string{"--tools is missing"}},
		{exitFailed, add("x", "--endpoint", "--set", "url=http://a"), []string{"url"}},
		{exitUsage, add("x", "--url", "http://a", "--header", "nonsense"), []string{"--header", "X-API-Key: value"}},
		{exitUsage, []string{"upstream", "set", "x"}, []string{"<k=v>"}},
		{exitFailed, add("X Y", "--url", "http://a"), []string{`"X Y"`, "small letters"}},
		{exitFailed, add("send", "--url", "http://a"), []string{"taken by Patchbay"}},
		{exitFailed, add("x", "--url", "ftp://a"), []string{"web address"}},
		{exitFailed, add("x", "--url", "http://a", "--set", "speed=1"), []string{`"speed"`, "max_tools"}},
		{exitFailed, add("x", "--url", "http://a", "--set", "timeout=soon"), []string{"timeout", "45s"}},
		{exitFailed, add("x", "--url", "http://a", "--header", "Host: b"), []string{"Host", "cannot be set"}},
		{exitFailed, add("x", "--url", "http://a", "--token", "@/does/not/exist"),
			[]string{"--token", "/does/not/exist"}},
		{exitFailed, add("x", "--cloud", "https://a?token=s3cret", "--tools", "*"), []string{"wss://"}},
		{exitFailed, add("x", "--cloud", "wss://a", "--tools", "a b"), []string{`"a b"`}},
		{exitFailed, []string{"upstream", "check", "x"}, []string{`no upstream "x"`, "upstream list"}},
		{exitFailed, []string{"upstream", "rm", "x"}, []string{`no upstream "x"`}},
		{exitFailed, []string{"upstream", "rotate", "x"}, []string{`no upstream "x"`}},
		{exitFailed, []string{"upstream", "set", "x", "a=b", "--user", "bob"}, []string{`there is no user "bob"`}},
	} {
		d.failing(c.code, "", c.args, c.want...)
	}
	d.ok("upstream", "add", "web", "--url", "http://127.0.0.1:1/mcp", "--no-check", "--header",
		"X-Key: s3cret: with a colon")
	d.failing(exitFailed, "", []string{"upstream", "rotate", "web"}, "no token")
	d.failing(exitFailed, "", []string{"upstream", "rm", "web"}, "nothing was removed", "--yes")
	d.failing(exitFailed, "", []string{"upstream", "set", "web", "url=nonsense"}, "web address")
	b := d.base()
	list, err := b.Store.Upstreams.ByOwner(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var s upstream.Settings
	if err := b.UpstreamSettings(list[0], &s); err != nil || s.Headers["X-Key"] != "s3cret: with a colon" ||
		s.URL != "http://127.0.0.1:1/mcp" {
		t.Errorf("kept is %+v (%v)", s, err)
	}
}

// Details about the server's machine and network are for administrators only.
func TestUpstreamsForMembers(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("user", "add", "bob", "--role", "member")
	for _, name := range []string{"ada", "bob"} {
		d.ok("upstream", "add", "web", "--user", name, "--url", "http://127.0.0.1:1/mcp", "--no-check")
	}
	var member, admin struct{ Key string }
	d.json(&member, "key", "add", "--user", "bob", "--name", "o", "--scope", "operator")
	d.json(&admin, "key", "add", "--user", "ada", "--name", "a", "--scope", "admin")
	s := d.serve()
	list := func(key string) (rows []control.Upstream) {
		d.json(&rows, "upstream", "list", "--server", s.URL, "--key", key)
		return rows
	}
	d.until("the trouble", func() bool {
		rows := list(admin.Key)
		return len(rows) == 2 && rows[0].Problem != "" && rows[0].Cause != "" && rows[1].Problem != ""
	})
	if rows := list(member.Key); len(rows) != 1 || rows[0].OwnerName != "bob" || rows[0].Problem == "" ||
		rows[0].Cause != "" {
		t.Errorf("a member sees %+v", rows)
	}
	// The other commands go to a server elsewhere too, with the rights of the key.
	elsewhere := blankDesk(t)
	at := func(key string, args ...string) []string {
		return append([]string{"upstream", args[0], "--server", s.URL, "--key", key}, args[1:]...)
	}
	for _, args := range [][]string{{"add", "robot", "--endpoint"}, {"show", "robot"}, {"set", "robot", "timeout=1m"},
		{"rotate", "robot"}, {"rm", "robot", "--yes"}} {
		elsewhere.ok(at(member.Key, args...)...)
	}
	elsewhere.failing(exitFailed, "", at(member.Key, "add", "x", "--no-check", "--", "true"), "only an admin")
	elsewhere.failing(exitFailed, "", at(member.Key, "add", "x", "--endpoint", "--user", "ada"), "scope admin")
	elsewhere.failing(exitFailed, "", at(member.Key, "show", "web", "--user", "ada"), "scope admin")
	elsewhere.failing(exitFailed, "", at(member.Key, "check", "web"), "public")
	elsewhere.ok(at(admin.Key, "rm", "web", "--yes", "--user", "bob")...)
}

func TestToolsOverTheAPI(t *testing.T) {
	d, s := withLamp(t)
	var key struct{ Key string }
	d.json(&key, "key", "add", "--name", "o", "--scope", "operator")
	do := func(method, path, secret, body string) (int, string) {
		req, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var text strings.Builder
		if err := resp.Write(&text); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, text.String()
	}
	for _, c := range []struct {
		method, path, key, body string
		status                  int
		want                    string
	}{
		{"GET", "/api/v1/tools", "wrong", "", http.StatusUnauthorized, "a key"},
		{"GET", "/api/v1/tools?name=lamp_set", key.Key, "", http.StatusOK, `"inputSchema":{"type":"object"`},
		{"GET", "/api/v1/tools?schemas=true", key.Key, "", http.StatusOK, `"inputSchema":{"type":"object"`},
		{"POST", "/api/v1/tools/lamp_dim/call", key.Key, `{"arguments":{}}`, http.StatusOK,
			`{"progress":{"progress":1,"total":3,"message":"dimming"}}` + "\n"},
		{"POST", "/api/v1/tools/lamp_state/call", key.Key, "", http.StatusOK,
			`{"end":true,"result":{"content":[{"type":"text","text":"it is on"}]}}` + "\n"},
		{"POST", "/api/v1/tools/lamp_state/call", key.Key, "nonsense", http.StatusBadRequest, "arguments"},
		{"POST", "/api/v1/tools/lamp_state/call", key.Key, `{"user":"bob"}`, http.StatusForbidden, "admin"},
		{"POST", "/api/v1/tools/lamp_state/call", key.Key, strings.Repeat(" ", 5<<20), http.StatusRequestEntityTooLarge,
			"MiB"},
		{"GET", "/api/v1/upstreams", "wrong", "", http.StatusUnauthorized, "a key"},
		{"GET", "/api/v1/calls", "wrong", "", http.StatusUnauthorized, "a key"},
		{"GET", "/api/v1/calls?limit=-1", key.Key, "", http.StatusBadRequest, "limit"},
		{"GET", "/api/v1/calls?before=yesterday", key.Key, "", http.StatusBadRequest, "before"},
		{"GET", "/api/v1/calls?before=2020-01-01T00:00:00Z", key.Key, "", http.StatusOK, `{"calls":[]}`},
	} {
		if status, text := do(c.method, c.path, c.key, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s is answered with %d %s, want %d and %s", c.method, c.path, status, text, c.status, c.want)
		}
	}
}
