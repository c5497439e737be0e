package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/porttest"
)

// farGateway returns a simulated gateway with the agents main and cook, which sends the given
// responses.
func farGateway(t *testing.T, o clienttest.Options, answers map[string]func(*clienttest.Peer,
	wire.Request)) *clienttest.Gateway {
	t.Helper()
	g := clienttest.Start(t, o)
	g.Serve(func(p *clienttest.Peer, r wire.Request) {
		switch answer := answers[r.Method]; {
		case answer != nil:
			answer(p, r)
		case r.Method == wire.MethodAgentsList:
			p.Answer(r, json.RawMessage(`{"defaultId":"main","agents":[{"id":"main"},{"id":"cook"}]}`))
		default:
			p.Answer(r, json.RawMessage(`{}`))
		}
	})
	return g
}

// Without a server, doctor reports every reason why an agent does not answer, and what to run.
func TestDoctorOnAgents(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	admitAs := func(e *wire.Error) clienttest.Options {
		return clienttest.Options{Admit: func(*wire.Connect) *wire.Error { return e }}
	}
	d := withParrot(t)
	d.env = append(d.env, "PATCHBAY_LISTEN="+free(t))
	d.ok("bot", "add", "--name", "claw", "--kind", "openclaw", "--set", "url=ws://127.0.0.1:1", "--set",
		"token="+clienttest.Token)
	check := func(set, want string) {
		t.Helper()
		d.ok(append([]string{"bot", "set", "claw"}, strings.Fields(set)...)...)
		if got := d.found("bot 2 (claw)"); !strings.HasPrefix(got, want) {
			t.Errorf("with %s the bot is\n%s, want\n%s", set, got, want)
		}
	}
	good := farGateway(t, clienttest.Options{}, nil)
	check("url=ws://"+porttest.Refused(t), "fail The gateway cannot be reached.")
	if got := d.found("bot 2 (claw)"); !strings.HasSuffix(got, "patchbay bot set 2 url=ws://HOST:18789") {
		t.Errorf("the advice is %s", got)
	}
	check("url="+other.URL, "fail What answers at that address is no OpenClaw gateway.")
	check("url="+good.URL+" token="+clienttest.Token, "ok OpenClaw 2026.9.6 lets us in and has the agent main")
	check("agent=Cook", "ok OpenClaw 2026.9.6 lets us in and has the agent Cook")
	check("agent=nobody",
		"fail the gateway has no agent nobody, but main, cook → Choose another: patchbay bot set 2 agent=main")
	check("agent= token=wrong", "fail The gateway does not accept the token.")
	if got := d.found("bot 2 (claw)"); !strings.HasSuffix(got, "patchbay bot set 2 token=@FILE") ||
		strings.Contains(got, "wrong") {
		t.Errorf("the advice is %s", got)
	}
	ids := map[string]bool{}
	for _, c := range good.Attempts() {
		ids[c.Device.ID] = true
	}
	if len(ids) != 1 {
		t.Errorf("the gateway has seen %d devices, want one: the key is not kept", len(ids))
	}
	check("token="+clienttest.Token+" url="+clienttest.Start(t,
		admitAs(wire.PairingRequired(wire.PairNew, "r-1", "d", wire.RoleOperator, true))).URL,
		"fail the gateway's owner has not approved Patchbay yet → Run on the gateway's machine: openclaw devices approve r-1")
	check("token="+clienttest.Token+" url="+clienttest.Start(t,
		clienttest.Options{Hello: func(h *wire.Hello) { h.Auth.Scopes = []string{wire.ScopeRead} }}).URL,
		"fail The gateway does not let Patchbay have operator.write.")
	// This is another gateway, which does not know the device of the first one.
	got := d.found("bot 2 (claw)")
	_, id, advised := strings.Cut(got, "openclaw devices remove ")
	if !advised || ids[id] {
		t.Errorf("the advice is %s", got)
	}
	if o := d.do("", "doctor"); o.code != exitFailed {
		t.Errorf("the exit code is %d", o.code)
	}
	if got := d.do("", "bot", "set", "claw", "url=ftp://x"); got.code != exitUsage && got.code != exitFailed {
		t.Errorf("a wrong address is taken: %+v", got)
	}
}

// With a server, its state counts, and is in the lists too.
func TestDoctorOnAgentsOfAServer(t *testing.T) {
	say := func(p *clienttest.Peer, r wire.Request) {
		var m wire.ChatSend
		if err := json.Unmarshal(r.Params, &m); err != nil {
			t.Error(err)
		}
		p.Answer(r, wire.Run{RunID: m.IdempotencyKey, Status: "started"})
		p.SendEvent(wire.EventChat, wire.ChatEvent{
			RunID: m.IdempotencyKey, SessionKey: m.SessionKey, State: wire.ChatFinal, StopReason: "stop",
			Message: json.RawMessage(`{"role":"assistant","content":[{"type":"text","text":"Soup."}]}`),
		})
	}
	var mu sync.Mutex
	var refuse *wire.Error
	g := farGateway(t, clienttest.Options{Admit: func(*wire.Connect) *wire.Error {
		mu.Lock()
		defer mu.Unlock()
		return refuse
	}}, map[string]func(*clienttest.Peer, wire.Request){wire.MethodChatSend: say})
	d := withParrot(t)
	d.ok("bot", "add", "--name", "claw", "--kind", "openclaw", "--set", "url="+g.URL)
	s := d.serve()
	if got := d.found("bot 2 (claw)"); !strings.HasPrefix(got, "ok OpenClaw 2026.9.6 lets us in") {
		t.Errorf("before a question the bot is %s", got)
	}
	if got := d.ok("ask", "claw", "What is for dinner?"); got != "Soup.\n" {
		t.Fatalf("answered %q", got)
	}
	before := len(g.Attempts())
	if got := d.found("bot 2 (claw)"); !strings.HasPrefix(got, "ok is connected to OpenClaw 2026.9.6") {
		t.Errorf("after a question the bot is %s", got)
	}
	if n := len(g.Attempts()); n != before {
		t.Errorf("the doctor has connected although the server knows")
	}
	var rows []botRow
	d.json(&rows, "bot", "list")
	if r := rows[1]; r.Connections != 1 || r.Since.IsZero() || r.LastSeen.IsZero() || r.Gateway != "2026.9.6" {
		t.Errorf("the bot is listed as %+v", r)
	}
	if got := d.ok("bot", "list"); !strings.Contains(got, "openclaw  ada    online") {
		t.Errorf("the list is\n%s", got)
	}
	if got := d.ok("bot", "show", "claw"); !strings.Contains(got, "OpenClaw 2026.9.6") {
		t.Errorf("the bot is shown as\n%s", got)
	}
	if got := metricsOf(t, s.URL); !strings.Contains(got, "patchbay_openclaw_agent_connections 1") ||
		!strings.Contains(got, `patchbay_openclaw_agent_connects_total{outcome="connected"} 1`) {
		t.Errorf("the numbers are\n%s", got)
	}

	// Another address, which rejects the server. The gateway asks the server to come back in an
	// hour, so that until then only doctor connects.
	mu.Lock()
	refuse = wire.PairingRequired(wire.PairScopes, "r-2", "d", wire.RoleOperator, true)
	refuse.RetryAfter = time.Hour
	mu.Unlock()
	d.ok("bot", "set", "claw", "url="+g.URL+"/other")
	if o := d.do("", "ask", "claw", "again"); o.code != exitFailed {
		t.Errorf("asked without being let in: %+v", o)
	}
	rows = nil
	d.json(&rows, "bot", "list")
	if r := rows[1]; r.Connections != 0 || r.Command != "openclaw devices approve r-2" ||
		!strings.Contains(r.Problem, r.Command) {
		t.Errorf("the bot is listed as %+v", r)
	}
	if got := d.found("bot 2 (claw)"); !strings.HasSuffix(got,
		"Run on the gateway's machine: openclaw devices approve r-2") {
		t.Errorf("the bot is %s", got)
	}
	mu.Lock()
	refuse = nil
	mu.Unlock()
	if got := d.found("bot 2 (claw)"); !strings.HasPrefix(got,
		"warn it can be connected to now, but the server has met this: ") {
		t.Errorf("the bot is %s", got)
	}
}

func metricsOf(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Timeout: limit}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	for buf := make([]byte, 4096); err == nil; {
		var n int
		n, err = resp.Body.Read(buf)
		text.Write(buf[:n])
	}
	return text.String()
}

// For a gateway that boards join, doctor reports whether it responds, and which boards are
// approved.
func TestDoctorOnShims(t *testing.T) {
	type rule struct {
		admit  *wire.Error
		answer func(*clienttest.Peer, wire.Request) // to the question whether it is approved
		tools  string
	}
	var mu sync.Mutex
	now := rule{admit: wire.PairingRequired(wire.PairNew, "r-1", "d", wire.RoleNode, true)}
	set := func(r rule) {
		mu.Lock()
		defer mu.Unlock()
		now = r
	}
	get := func() rule {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	g := farGateway(t, clienttest.Options{Admit: func(*wire.Connect) *wire.Error { return get().admit }},
		map[string]func(*clienttest.Peer, wire.Request){
			wire.MethodRunnerInventory: func(p *clienttest.Peer, r wire.Request) {
				if get().answer != nil {
					get().answer(p, r)
					return
				}
				p.Answer(r, json.RawMessage(`{}`))
			},
			wire.MethodPluginTools: func(p *clienttest.Peer, r wire.Request) {
				if get().tools != "" {
					p.Answer(r, json.RawMessage(get().tools))
					return
				}
				p.Answer(r, r.Params)
			},
		})
	d, _ := withKitchen(t)
	d.env = append(d.env, "PATCHBAY_LISTEN="+free(t))
	d.ok("shim", "add", "home", "--url", g.URL)
	if got := d.found("gateway home"); !strings.HasPrefix(got,
		"warn a gateway answers; whether devices join it is known only while the server runs → Start it with: patchbay serve") {
		t.Errorf("without a server: %s", got)
	}
	d.ok("shim", "set", "home", "url=ws://"+porttest.Refused(t))
	if got := d.found("gateway home"); !strings.HasPrefix(got, "fail nothing listens there (connection refused)") ||
		!strings.HasSuffix(got, "patchbay shim set home url=ws://HOST:18789") {
		t.Errorf("without a gateway: %s", got)
	}
	d.serve()
	check := "node kitchen at gateway home"
	again := func(r rule, want string) {
		t.Helper()
		set(r)
		d.ok("shim", "set", "home", "url="+g.URL+"/"+strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' {
				return r
			}
			return '-'
		}, want))
		got := ""
		d.until(want, func() bool {
			got = d.found(check)
			return strings.HasPrefix(got, want)
		})
	}
	again(rule{admit: now.admit},
		"fail the gateway's owner has not approved Patchbay yet → Run on the gateway's machine: openclaw devices approve r-1")
	waits := func(p *clienttest.Peer, r wire.Request) { p.Fail(r, wire.SurfacePending("r-2")) }
	again(rule{answer: waits},
		"fail the gateway's owner has not approved what it can do → Run on the gateway's machine: openclaw nodes approve r-2")
	again(rule{tools: `{"tools":[]}`}, "warn the gateway has taken none of its ")
	again(rule{}, "")
	d.until("a node that is ready", func() bool {
		return strings.HasPrefix(d.found("gateway home"), "ok OpenClaw 2026.9.6, nodes: 1, tools: ") &&
			d.found(check) == ""
	})
	d.ok("shim", "set", "home", "devices=nothing*")
	d.until("a gateway without nodes", func() bool {
		return strings.HasPrefix(d.found("gateway home"),
			"warn no device joins it → Approve a device, or choose others: patchbay shim set home devices=")
	})
}

// For the gateway of the server itself, doctor reports its address, the connected nodes and the
// pending requests.
func TestDoctorOnNodes(t *testing.T) {
	d := withParrot(t)
	d.env = append(d.env, "PATCHBAY_LISTEN="+free(t), "PATCHBAY_NODES_ALLOW=camera.snap,lamp.dim")
	check := "OpenClaw nodes"
	if got := d.found(check); !strings.HasPrefix(got, "ok paired nodes: 0, operators: 0") ||
		d.found("nodes.allow") != "" {
		t.Errorf("before the beginning: %s", got)
	}
	var key struct{ Key string }
	d.json(&key, "key", "add", "--name", "node", "--scope", "node", "--scope", "operator")
	s := d.serve()
	address := "ws" + strings.TrimPrefix(s.URL, "http")
	n := sim.NewNode(sim.Options{
		URL: address, Token: key.Key, Name: "study", Commands: []string{"lamp.dim", wire.CommandTool},
		Handler: func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, nil },
	})
	defer n.Close()
	if err := n.AwaitConnected(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := d.found(check)
	for _, want := range []string{
		"ok " + address + "; paired nodes: 1, connected: 1; operators: 0",
		"warn nodes whose commands wait to be approved: 1, such as study → Approve it with: patchbay pair approve ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	command := got[strings.LastIndex(got, "patchbay pair approve"):]
	d.ok(strings.Fields(command)[1:]...)
	d.until("the approval", func() bool { return !strings.Contains(d.found(check), "wait") })
	if got := d.found("nodes.allow"); !strings.HasPrefix(got, "warn no node declares camera.snap → See whether") {
		t.Errorf("nodes.allow is %s", got)
	}

	plain := slices.Clone(d.env)
	d.env = append(plain, "PATCHBAY_PUBLIC_URL=http://board.example.org")
	if got := d.found(check); !strings.Contains(got, "warn http://board.example.org is not encrypted") ||
		!strings.Contains(got, "patchbay serve --public-url https://HOST") {
		t.Errorf("with an address that programs refuse:\n%s", got)
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) })) //nolint:errcheck // the test notices
	defer proxy.Close()
	d.env = append(plain, "PATCHBAY_PUBLIC_URL="+proxy.URL)
	if got := d.found(check); !strings.Contains(got, "warn WebSockets do not get to ws://127.0.0.1") {
		t.Errorf("behind a proxy that passes no WebSockets on:\n%s", got)
	}
	d.env = append(plain, "PATCHBAY_PUBLIC_URL="+s.URL)
	if got := d.found(check); strings.Contains(got, "warn") {
		t.Errorf("with a good address:\n%s", got)
	}
	n.Close()
	d.until("the node to be gone", func() bool { return strings.Contains(d.found(check), "connected: 0") })
}
