package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/gateway"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// rig serves the pages over a simulated gateway whose responses the test sets.
type rig struct {
	*consoletest.Rig
	mu   sync.Mutex
	says map[string]string // responses by request
	acts []control.NodeAction
	sets []control.SettingTexts
	bad  error
}

func newRig(t *testing.T) *rig {
	r := &rig{says: map[string]string{control.PairList: `{"devices":[],"nodes":[]}`,
		control.NodePaired: `{"paired":[]}`}}
	o := control.Options{
		PublicURL: "https://board.example.org",
		Nodes: func(_ context.Context, a control.NodeAction) (json.RawMessage, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.acts = append(r.acts, a)
			if text := r.says[a.Action]; text != "" && (a.Node == "" || a.Node == "abc") {
				return json.RawMessage(text), r.bad
			}
			return nil, &control.NodeError{Status: http.StatusNotFound, Message: "unknown"}
		},
		NodePolicy: control.NodePolicy{Allow: []string{"camera.snap"}, Deny: []string{"sms.send"},
			Dangerous: func(c string) bool { return c == "system.run" }},
		Upstream: func(store.Upstream, string) control.UpstreamHealth {
			return control.UpstreamHealth{State: control.UpstreamFailed,
				Where: "ws://there:18789", Server: "OpenClaw", ServerVersion: "2026.9.6", Nodes: []control.ShimNode{
					{Device: "board:1", Name: "Desk", State: control.UpstreamReady, Tools: 11, Taken: 9},
					{Device: "board:2", Name: "Bed", State: control.NodePairing,
						Message: i18n.Message("It has to be approved first.").With(),
						Command: "openclaw devices approve 1-2"},
					{Device: "board:3", Name: "Hall", State: control.NodeChanged,
						Message:     i18n.Message("It has another one now.").With(),
						Certificate: &control.Certificate{Shown: "0f0f", Pinned: "1e1e"}},
				}}
		},
	}
	o.Upstreams = control.UpstreamActions{
		Save: func(ctx context.Context, p store.Person, u store.Upstream,
			set control.SettingTexts) (control.SavedUpstream, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.sets = append(r.sets, set)
			if r.bad != nil || u.Number != 0 {
				return control.SavedUpstream{Upstream: u}, r.bad
			}
			u.Settings, u.Created = json.RawMessage(`""`), time.Now()
			u, err := r.Store.Upstreams.Add(ctx, u)
			return control.SavedUpstream{Upstream: u}, err
		},
		Shown: func(store.Upstream) (map[string]json.RawMessage, error) {
			return map[string]json.RawMessage{"url": json.RawMessage(`"ws://there:18789"`),
				"token": json.RawMessage(`"••••••"`), "devices": json.RawMessage(`["desk","bed*"]`)}, nil
		},
	}
	r.Rig = consoletest.New(t, consoletest.Options{Control: o},
		func(*consoletest.Rig) []page.Route { return gateway.Routes() })
	return r
}

// last returns the last request to the gateway.
func (r *rig) last() control.NodeAction {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acts[len(r.acts)-1]
}

func (r *rig) say(act, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.says[act] = text
}

func has(t *testing.T, p consoletest.Page, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.Text, text) {
			t.Errorf("%s (%d) has no %q:\n%s", p.Path, p.Status, text, p.Text)
		}
	}
}

func TestOverview(t *testing.T) {
	r := newRig(t)
	ada := r.SignedInAs(r.Person)
	has(t, ada.Get("/gateway"), "Nobody waits", "No nodes yet", "wss://board.example.org",
		"--host board.example.org --port 443 --tls", "/keys/new?scope=node", "camera.snap", "sms.send")
	r.say(control.PairList,
		`{"devices":[{"requestId":"q1","deviceId":"d1","displayName":"<Attic>","platform":"linux","roles":["node"],"scopes":["x"],"remoteIp":"203.0.113.7","isRepair":true,"ts":1795297812247}],
		"nodes":[{"requestId":"q2","nodeId":"abcdefabcdefabcdef","commands":["system.run","system.which"]}]}`)
	r.say(control.NodePaired,
		`{"paired":[{"nodeId":"abc","displayName":"Zed","commands":["a","b"]},{"nodeId":"def","displayName":"Yak","connected":true,"commands":[]}]}`)
	p := ada.Get("/gateway")
	has(t, p, "&lt;Attic&gt;", "wants to connect, as node", "from 203.0.113.7", "It was in before",
		"/gateway/pairs/q1/approve", "/gateway/pairs/q2/reject", "abcdefabcdef<", "reaches deep", "commands: 2",
		"/gateway/nodes/abc")
	if strings.Index(p.Text, ">Yak<") > strings.Index(p.Text, ">Zed<") {
		t.Error("who is connected comes last")
	}
	if a := r.last(); a.Person != r.Person.ID || a.Admin || a.Program != "console" {
		t.Errorf("it was asked as %+v", a)
	}
	has(t, r.SignedInAs(r.Bob).Get("/gateway"), "Gateway")
	if a := r.last(); a.Person != r.Bob.ID {
		t.Errorf("it was asked as %+v", a)
	}
}

func TestDecision(t *testing.T) {
	r := newRig(t)
	ada := r.SignedInAs(r.Person)
	r.say(control.PairApprove, `{}`)
	if p := ada.Post("/gateway/pairs/q1/approve"); p.Path != "/gateway" || p.Status != http.StatusOK {
		t.Errorf("%d at %s", p.Status, p.Path)
	}
	p := ada.Post("/gateway/pairs/q1/reject")
	if a := r.last(); a.Action != control.PairReject || a.Request != "q1" || p.Status != http.StatusNotFound {
		t.Errorf("%+v, %d", a, p.Status)
	}
	has(t, p, "This request has expired")
}

func TestNode(t *testing.T) {
	r := newRig(t)
	ada := r.SignedInAs(r.Person)
	r.say(control.NodeDescribe,
		`{"nodeId":"abc","displayName":"Zed","commands":["camera.snap","system.run"],"connected":true,"approvalState":"pending-reapproval","pendingRequestId":"q9","pendingDeclaredCommands":["more"],
		"nodePluginTools":[{"name":"lamp_set","description":"Dims"}],"remoteIp":"192.0.2.1"}`)
	has(t, ada.Get("/gateway/nodes/abc"), "Zed", "wants more", "/gateway/pairs/q9/approve", `value="abc"`, "lamp_set",
		"192.0.2.1", "Run: system.run", "data-confirm", "This is no node that was paired")
	if p := ada.Get("/gateway/nodes/other"); p.Status != http.StatusNotFound {
		t.Errorf("%d", p.Status)
	}
	r.say(control.NodeInvoke, `{"ok":true,"payload":{"format":"jpg","base64":"/9j/"}}`)
	has(t, ada.DoHX(http.MethodPost, "/gateway/nodes/abc/invoke", "command", "camera.snap", "params",
		` {"facing":"front"} `), `src="data:image/jpeg;base64,/9j/"`)
	if a := r.last(); a.Command != "camera.snap" || string(a.Params) != `{"facing":"front"}` || !a.Exact {
		t.Errorf("%+v", a)
	}
	r.say(control.NodeInvoke, `{"payload":{"content":[{"type":"text","text":"no <power>"}],"isError":true}}`)
	has(t, ada.Post("/gateway/nodes/abc/invoke", "command", "camera.snap"), "no &lt;power&gt;", "Zed")
	r.say(control.NodeInvoke, `{}`)
	has(t, ada.DoHX(http.MethodPost, "/gateway/nodes/abc/invoke", "command", "camera.snap"), "Done")
	r.bad = &control.NodeError{Status: http.StatusServiceUnavailable, Message: "away"}
	p := ada.DoHX(http.MethodPost, "/gateway/nodes/abc/invoke", "command", "camera.snap")
	has(t, p, "not connected now")
	if strings.Contains(p.Text, "<html") {
		t.Error("the script gets a whole page")
	}
}

// What a node may run is shown after its commands were approved, and changed there.
func TestRunPolicy(t *testing.T) {
	r := newRig(t)
	ada := r.SignedInAs(r.Person)
	r.say(control.PairList, `{"devices":[],"nodes":[{"requestId":"q2","nodeId":"abc","commands":["system.run","system.execApprovals.get"]}]}`)
	r.say(control.PairApprove, `{}`)
	r.say(control.NodeDescribe, `{"nodeId":"abc","displayName":"Zed","commands":["system.run","system.execApprovals.get"],"connected":true}`)
	r.say(control.NodeGetPolicy, `{"nodeId":"abc","policy":{"hash":"h1","resolvedDefaults":{"security":"full","ask":"off"},
		"file":{"version":1,"agents":{"*":{"allowlist":[{"pattern":"git","argPattern":"^status$"},
		{"pattern":"/usr/bin/<w>","source":"allow-always"}]}}}}}`)
	p := ada.Post("/gateway/pairs/q2/approve")
	if p.Path != "/gateway/nodes/abc/policy" {
		t.Fatalf("%d at %s", p.Status, p.Path)
	}
	has(t, p, "Which programs may run on Zed", "Any program runs without asking", `value="everything" checked`,
		"git ^status$", "/usr/bin/&lt;w&gt;", "allowed for good when you were asked")
	r.say(control.NodeSetPolicy, `{"nodeId":"abc","policy":{"hash":"h2","file":{"version":1}}}`)
	p = ada.Post("/gateway/nodes/abc/policy", "mode", "ask")
	has(t, p, "The computer has the rules")
	r.mu.Lock()
	var set control.NodeAction
	for _, a := range r.acts {
		if a.Action == control.NodeSetPolicy {
			set = a
		}
	}
	r.mu.Unlock()
	if !strings.Contains(string(set.Params), `"ask":"on-miss"`) || set.Once != "h1" {
		t.Errorf("%s is set in place of %s", set.Params, set.Once)
	}
	has(t, ada.Post("/gateway/nodes/abc/policy", "mode", "whatever"), "A mode is nothing, listed")
	has(t, ada.Post("/gateway/nodes/abc/policy", "remove", "nothing"), "No rule of this node is")
	r.say(control.NodeGetPolicy, `{"nodeId":"abc","policy":{"enabled":true,"defaultAction":"prompt"}}`)
	p = ada.Get("/gateway/nodes/abc/policy")
	has(t, p, "operating system")
	if strings.Contains(p.Text, "<form class=\"card") {
		t.Error("what cannot be changed has a form")
	}
	r.bad = &control.NodeError{Status: http.StatusServiceUnavailable, Message: "away"}
	if p := ada.Get("/gateway/nodes/abc/policy"); p.Status != http.StatusServiceUnavailable {
		t.Errorf("%d", p.Status)
	}
}

func TestInvite(t *testing.T) {
	r := newRig(t)
	ada := r.SignedInAs(r.Person)
	has(t, ada.Get("/gateway"), "/gateway/invite")
	r.say(control.PairInvite, `{"setupCode":"eyJ1","joinUrl":"https://board.example.org/j/abc","expiresAtMs":1795297812247}`)
	has(t, ada.Post("/gateway/invite"), "openclaw node run --pair oc-pair://eyJ1",
		"npx openclaw connect https://board.example.org/j/abc", "treat it as a password")
	if a := r.last(); a.Action != control.PairInvite || a.Name != "https://board.example.org" {
		t.Errorf("%+v", a)
	}
	r.say(control.PairInvite, `{"setupCode":"eyJ1","joinUrl":"http://192.0.2.1/j/abc"}`)
	if p := ada.Post("/gateway/invite"); strings.Contains(p.Text, "npx openclaw") {
		t.Error("a join URL is shown that OpenClaw refuses")
	}
}

// Setup codes that are valid are listed without what is secret, and those that no node has used can
// be cancelled by their owner.
func TestSetupCodes(t *testing.T) {
	r := newRig(t)
	ada, bob := r.SignedInAs(r.Person), r.SignedInAs(r.Bob)
	if p := ada.Get("/gateway"); strings.Contains(p.Text, "Setup codes") {
		t.Error("there are setup codes")
	}
	i, err := r.Accounts.InviteNode(t.Context(), r.Person.ID, "", "wss://board.example.org")
	if err != nil {
		t.Fatal(err)
	}
	cancel := "/gateway/invites/" + i.ID + "/cancel"
	p := ada.Get("/gateway")
	has(t, p, "Setup codes", "Not used yet", i.ID[:8], cancel)
	if strings.Contains(p.Text, i.Token) || strings.Contains(p.Text, i.Code) {
		t.Error("the secret is shown")
	}
	if p := bob.Post(cancel); p.Status != http.StatusNotFound {
		t.Errorf("bob gets %d", p.Status)
	}
	if err := r.Accounts.UseInvite(t.Context(), i.ID, "7a7b7c7d7e7f"); err != nil {
		t.Fatal(err)
	}
	if p := ada.Get("/gateway"); !strings.Contains(p.Text, "Used by 7a7b7c7d7e7f") || strings.Contains(p.Text, cancel) {
		t.Error("a code that was used can be cancelled")
	}
	if p := ada.Post(cancel); p.Status != http.StatusConflict {
		t.Errorf("a code that was used: %d", p.Status)
	}
	if i, err = r.Accounts.InviteNode(t.Context(), r.Person.ID, "", "wss://board.example.org"); err != nil {
		t.Fatal(err)
	}
	if p := ada.Post("/gateway/invites/" + i.ID + "/cancel"); p.Path != "/gateway" ||
		strings.Contains(p.Text, i.ID[:8]) {
		t.Errorf("%d at %s", p.Status, p.Path)
	}
}

func TestShims(t *testing.T) {
	r := newRig(t)
	ada, bob := r.SignedInAs(r.Person), r.SignedInAs(r.Bob)
	has(t, ada.Get("/gateway/shims/new"), `name="token" type="password"`)
	p := ada.Post("/gateway/shims", "name", "Home!", "url", "ws://there:18789", "token", "s3cret", "devices",
		"desk\nbed*", "mode", "one", "title", "T", "notices", "1")
	has(t, p, "1 to 32 small letters", `value="ws://there:18789"`, "desk\nbed*", `value="T"`)
	if strings.Contains(p.Text, "s3cret") {
		t.Error("the token comes back")
	}
	p = ada.Post("/gateway/shims", "name", "home", "url", "ws://there:18789", "token", "s3cret", "devices",
		"desk, bed*")
	if p.Path != "/gateway/shims/1" {
		t.Fatalf("%d at %s", p.Status, p.Path)
	}
	if text, _ := json.Marshal(r.sets[0]); string(text) != `{"devices":"[\"desk\",\"bed*\"]","mode":"","notices":"","title":"","tls_fingerprint":"","token":"s3cret","url":"ws://there:18789"}` {
		t.Errorf("it is added with %s", text)
	}
	has(t, p, "home", "ws://there:18789", "OpenClaw 2026.9.6", "tools: 11, taken there: 9", "to be let in there",
		"openclaw devices approve 1-2", "Certificate changed", "It has another one now.", "0f0f", "1e1e",
		"Accept this certificate", "data-confirm")
	has(t, ada.Get("/gateway"), "home", "ready: 1 of 3", "to be let in there")
	has(t, ada.Get("/gateway/shims/1/edit"), "One is kept", "desk\nbed*", `name="untoken"`)
	ada.Post("/gateway/shims/1/change", "url", "ws://there:18789", "mode", "one", "title", "Boards")
	if text, _ := json.Marshal(r.sets[1]); string(text) != `{"devices":"","mode":"one","notices":"","title":"Boards","tls_fingerprint":"","url":"ws://there:18789"}` {
		t.Errorf("it is changed by %s", text)
	}
	ada.Post("/gateway/shims/1/accept", "fingerprint", "0f0f")
	if text, _ := json.Marshal(r.sets[2]); string(text) != `{"tls_fingerprint":"0f0f"}` {
		t.Errorf("the certificate is accepted by %s", text)
	}
	r.bad = control.InputProblem(problem.Invalid, errors.New("use wss://"))
	has(t, ada.Post("/gateway/shims/1/change", "url", "ws://far.example"), "use wss://", `value="ws://far.example"`)
	r.bad = nil
	for _, p := range []consoletest.Page{
		bob.Get("/gateway/shims/1"), bob.Get("/gateway/shims/1/edit"),
		bob.Post("/gateway/shims/1/change", "url", "ws://x"), bob.Post("/gateway/shims/1/remove"),
		bob.Post("/gateway/shims/1/accept", "fingerprint", "0f0f"),
		bob.Get("/gateway/shims/x"),
	} {
		if p.Status != http.StatusNotFound || strings.Contains(p.Text, "there:18789") {
			t.Errorf("%s: %d", p.Path, p.Status)
		}
	}
	if p := ada.Post("/gateway/shims/1/remove"); p.Path != "/gateway" || strings.Contains(p.Text, "there:18789") {
		t.Errorf("%d at %s", p.Status, p.Path)
	}
}
