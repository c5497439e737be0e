package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// pairedDevice is a device of the tests that is paired in a role, with its token.
type pairedDevice struct {
	wire.Identity
	hello wire.Connect
	token string
}

// pairedDevice pairs a device of the rig's person with its key.
func (r *rig) pairedDevice(hello wire.Connect) *pairedDevice {
	r.t.Helper()
	d := &pairedDevice{Identity: wire.NewIdentity(), hello: hello}
	o, err := r.dial(hello, &d.Identity)
	must(r.t, err)
	d.token = o.Hello.Auth.DeviceToken
	o.Close()
	if d.token == "" {
		r.t.Fatal("it has no token")
	}
	return d
}

// connect connects the device with its token.
func (r *rig) connect(d *pairedDevice) (*operator, error) {
	hello := d.hello
	hello.Auth = &wire.Auth{DeviceToken: d.token}
	return r.dial(hello, &d.Identity)
}

// refusal returns the code of a refused connection.
func refusal(t *testing.T, err error) string {
	t.Helper()
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		t.Fatalf("it is not refused: %v", err)
	}
	return e.Detail()
}

func nodeHello(auth wire.Auth) wire.Connect {
	return wire.Connect{
		MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, Role: wire.RoleNode,
		Caps: []string{wire.CapMCP}, Commands: []string{"kitchen.echo", "system.run"}, Auth: &auth,
		Client: wire.Client{ID: "node-host", Version: "1", Platform: "linux", DeviceFamily: "Linux", Mode: "node"},
	}
}

func TestDeviceRename(t *testing.T) {
	changed := make(chan gateway.Change, 10)
	r := newRig(t, func(o *gateway.Options) {
		o.OnChange = func(_ context.Context, c gateway.Change) { changed <- c }
	})
	op := r.operator(r.token)
	n := r.node(sim.Options{}, false)
	call[m](op, wire.MethodDeviceRename, m{"deviceId": n.ID(), "label": " Stove "})
	if l := call[wire.DevicePairs](op, wire.MethodDevicePairList, m{}); l.Paired[0].DisplayName != "Stove" {
		t.Errorf("%+v", l.Paired)
	}
	if c := <-changed; c.Person != r.Person.ID || c.Key == "" || c.Method != wire.MethodDeviceRename ||
		c.About != n.ID()+"  Stove " {
		t.Errorf("reported is %+v", c)
	}
	for _, params := range []m{{"deviceId": "nobody", "label": "x"}, {"deviceId": n.ID(), "label": " "},
		{"deviceId": n.ID(), "label": strings.Repeat("x", 65)}} {
		if e := op.refused(wire.MethodDeviceRename, params); e.Code != wire.InvalidRequest {
			t.Error(e)
		}
	}
	if len(changed) > 0 {
		t.Errorf("a refused change is reported: %+v", <-changed)
	}
}

// A replaced token lets its device in, the former one does not, and connections with that end.
// Other roles are not affected.
func TestTokenRotate(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) { o.Timings.RefusalDelay = time.Millisecond })
	boss := r.operator(r.token, wire.ScopePairing, wire.ScopeWrite, wire.ScopeAdmin)
	hello := sim.Operator(r.token, wire.ScopePairing, wire.ScopeWrite)
	hello.Client.DeviceFamily = "Linux"
	d := r.pairedDevice(hello)
	node := nodeHello(wire.Auth{Token: r.token})
	asNode, err := r.dial(node, &d.Identity)
	must(t, err)
	nodeToken := asNode.Hello.Auth.DeviceToken
	asNode.Close()

	other, err := r.connect(d)
	must(t, err)
	rotate := m{"deviceId": d.ID(), "role": wire.RoleOperator}
	out := call[wire.TokenRotated](boss, wire.MethodTokenRotate, rotate)
	if out.Token != "" || out.Delivery != wire.Withheld || !slices.Contains(out.Scopes, wire.ScopeWrite) {
		t.Errorf("%+v", out)
	}
	awaitClose(t, other.Client)
	_, err = r.connect(d)
	if got := refusal(t, err); got != wire.DetailDeviceToken {
		t.Errorf("the former token is refused with %s", got)
	}
	again, err := r.dial(d.hello, &d.Identity) // with the key it gets the new one
	must(t, err)
	former := d.token
	if d.token = again.Hello.Auth.DeviceToken; d.token == former {
		t.Error("the token is the former one")
	}
	again.Close()
	self, err := r.connect(d)
	must(t, err)
	own := call[wire.TokenRotated](self, wire.MethodTokenRotate, m{"deviceId": d.ID(), "role": wire.RoleOperator,
		"scopes": []string{wire.ScopePairing}})
	if own.Delivery != wire.DeliveredInBand || len(own.Token) != 43 ||
		!slices.Equal(own.Scopes, []string{wire.ScopePairing}) {
		t.Errorf("%+v", own)
	}
	awaitClose(t, self.Client)
	d.token, d.hello.Scopes = own.Token, []string{wire.ScopePairing}
	narrow, err := r.connect(d)
	must(t, err)
	narrow.Close()
	d.hello.Scopes = []string{wire.ScopeWrite}
	_, err = r.connect(d)
	if got := refusal(t, err); got != wire.DetailScopeMismatch {
		t.Errorf("more scopes than it has now are refused with %s", got)
	}

	node.Auth = &wire.Auth{DeviceToken: nodeToken}
	asNode, err = r.dial(node, &d.Identity)
	must(t, err)
	asNode.Close()
}

func TestTokenRevoke(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) { o.Timings.RefusalDelay = time.Millisecond })
	op, boss := r.operator(r.token), r.operator(r.token, wire.ScopePairing, wire.ScopeAdmin)
	_, key := r.person("bob", account.ScopeOperator)
	bob := r.operator(key, wire.ScopePairing, wire.ScopeAdmin)
	d := r.pairedDevice(nodeHello(wire.Auth{Token: r.token}))
	node, err := r.connect(d)
	must(t, err)
	revoke := m{"deviceId": d.ID(), "role": wire.RoleNode}
	for who, o := range map[string]*operator{"without operator.admin": op, "somebody else": bob} {
		for _, method := range []string{wire.MethodTokenRevoke, wire.MethodTokenRotate} {
			if e := o.refused(method, revoke); !strings.HasSuffix(e.Message, "denied") {
				t.Errorf("%s: %s: %v", who, method, e)
			}
		}
	}
	for _, params := range []m{{"deviceId": d.ID(), "role": wire.RoleOperator}, {"deviceId": "nobody", "role": "node"}} {
		if e := boss.refused(wire.MethodTokenRevoke, params); e.Message != wire.RevocationDenied.Message {
			t.Error(e)
		}
	}
	if out := call[wire.TokenRevoked](boss, wire.MethodTokenRevoke, revoke); out.RevokedAtMS == 0 || out.Role != "node" {
		t.Errorf("%+v", out)
	}
	awaitClose(t, node.Client)
	_, err = r.connect(d)
	if got := refusal(t, err); got != wire.DetailDeviceToken {
		t.Errorf("the token is refused with %s", got)
	}
	if l := call[wire.DevicePairs](boss, wire.MethodDevicePairList, m{}); l.Paired[0].Tokens[0].RevokedAtMS == 0 {
		t.Errorf("%+v", l.Paired)
	}
	if e := boss.refused(wire.MethodTokenRevoke, revoke); e.Message != wire.RevocationDenied.Message {
		t.Errorf("a second time: %v", e)
	}
	if e := boss.refused(wire.MethodTokenRotate, revoke); e.Message != wire.RotationDenied.Message {
		t.Errorf("a revoked token is replaced: %v", e)
	}
	former := d.token
	again, err := r.dial(d.hello, &d.Identity)
	must(t, err)
	if d.token = again.Hello.Auth.DeviceToken; d.token == former || d.token == "" {
		t.Errorf("with its key it gets %q after %q", d.token, former)
	}
}

// A setup code pairs one node and approves its commands, once.
func TestSetupCode(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) { o.AutoApproveLocal, o.Timings.RefusalDelay = false, time.Millisecond })
	op, boss := r.operator(r.token), r.operator(r.token, wire.ScopePairing, wire.ScopeAdmin)
	ask := m{"bootstrapProfile": "node", "joinUrl": true, "includeQr": false, "publicUrl": "HTTPS://Board.example.org:443/"}
	if e := op.refused(wire.MethodSetupCode, ask); e.Detail() != wire.DetailScope {
		t.Errorf("without operator.admin: %v", e)
	}
	for _, params := range []m{{}, {"bootstrapProfile": "limited"}, {"bootstrapProfile": "node", "publicUrl": "ftp://x"}} {
		if e := boss.refused(wire.MethodSetupCode, params); e.Code != wire.InvalidRequest {
			t.Errorf("%v: %v", params, e)
		}
	}
	code := call[wire.SetupCode](boss, wire.MethodSetupCode, ask)
	join, _ := strings.CutPrefix(code.JoinURL, "https://board.example.org")
	if code.GatewayURL != "wss://board.example.org" || !strings.HasPrefix(join, gateway.JoinPath) {
		t.Fatalf("%+v", code)
	}
	setup := r.join(join, http.StatusOK)
	if setup.Code() != code.SetupCode || setup.URL != code.GatewayURL || setup.ExpiresAtMS != code.ExpiresAtMS {
		t.Errorf("%+v is not %+v", setup, code)
	}
	r.join(join, http.StatusNotFound)
	r.join(gateway.JoinPath+strings.Repeat("a", 22), http.StatusNotFound)

	me, other := wire.NewIdentity(), wire.NewIdentity()
	cancelled := call[wire.SetupCode](boss, wire.MethodSetupCode, ask)
	inside, err := base64.RawURLEncoding.DecodeString(cancelled.SetupCode)
	must(t, err)
	var gone wire.Setup
	must(t, json.Unmarshal(inside, &gone))
	must(t, r.Store.Peers.CancelInvite(t.Context(), cancelled.SetupID))
	r.join(strings.TrimPrefix(cancelled.JoinURL, "https://board.example.org"), http.StatusNotFound)
	_, err = r.dial(nodeHello(wire.Auth{BootstrapToken: gone.BootstrapToken}), &other)
	if got := refusal(t, err); got != wire.DetailSetupCode {
		t.Errorf("with a code that was cancelled, a node is refused with %s", got)
	}
	hello := nodeHello(wire.Auth{BootstrapToken: setup.BootstrapToken})
	n, err := r.dial(hello, &me)
	must(t, err)
	if row := describe(boss, me.ID()); row.Approval != wire.Approved || !slices.Contains(row.Commands, "system.run") {
		t.Errorf("%+v", row)
	}
	if d := call[wire.DevicePairs](boss, wire.MethodDevicePairList, m{}).Paired; d[0].ApprovedVia != store.ViaInvite {
		t.Errorf("%+v", d)
	}
	token := n.Hello.Auth.DeviceToken
	_, err = r.dial(hello, &other)
	if got := refusal(t, err); got != wire.DetailSetupCode {
		t.Errorf("another device is refused with %s", got)
	}
	operator := sim.Operator("", wire.ScopeWrite)
	operator.Auth = hello.Auth
	_, err = r.dial(operator, &me)
	if got := refusal(t, err); got != wire.DetailSetupCode {
		t.Errorf("an operator is refused with %s", got)
	}
	n.Close()

	// More commands than it declared first need approval, even with the code.
	hello.Commands = append(hello.Commands, "system.which")
	n, err = r.dial(hello, &me)
	must(t, err)
	if row := describe(boss, me.ID()); row.Approval != wire.PendingReapproval {
		t.Errorf("%+v", row)
	}
	n.Close()
	hello.Auth = &wire.Auth{DeviceToken: token}
	n, err = r.dial(hello, &me)
	must(t, err)
	call[wire.TokenRevoked](boss, wire.MethodTokenRevoke, m{"deviceId": me.ID(), "role": wire.RoleNode})
	awaitClose(t, n.Client)
	hello.Auth = &wire.Auth{BootstrapToken: setup.BootstrapToken}
	_, err = r.dial(hello, &me)
	if got := refusal(t, err); got != wire.DetailSetupCode {
		t.Errorf("with its code, a device whose token was revoked is refused with %s", got)
	}
}

// A key that expires gives no token, so neither does replacing one, and it makes no setup codes.
func TestKeyThatExpires(t *testing.T) {
	r := newRig(t, nil)
	key := r.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}, Expires: time.Hour})
	me := wire.NewIdentity()
	o, err := r.dial(sim.Operator(key, wire.ScopePairing, wire.ScopeWrite, wire.ScopeAdmin), &me)
	must(t, err)
	if o.Hello.Auth.DeviceToken != "" {
		t.Error("it has a token")
	}
	if e := o.refused(wire.MethodTokenRotate, m{"deviceId": me.ID(), "role": wire.RoleOperator}); e.Message !=
		wire.RotationDenied.Message {
		t.Error(e)
	}
	if e := o.refused(wire.MethodSetupCode, m{"bootstrapProfile": "node", "publicUrl": "ws://127.0.0.1:1"}); !strings.
		Contains(e.Message, "expires") {
		t.Error(e)
	}
}

// A request of a node with a setup code that was merged with one for more waits for its owner.
func TestInvitedWithMore(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) { o.AutoApproveLocal, o.Timings.RefusalDelay = false, time.Millisecond })
	boss := r.operator(r.token, wire.ScopePairing, wire.ScopeAdmin)
	code := call[wire.SetupCode](boss, wire.MethodSetupCode, m{"bootstrapProfile": "node", "joinUrl": true,
		"publicUrl": "ws://127.0.0.1:1"})
	setup := r.join(strings.TrimPrefix(code.JoinURL, "http://127.0.0.1:1"), http.StatusOK)
	me := wire.NewIdentity()
	operator := sim.Operator(r.token, wire.ScopeWrite)
	operator.Client.DeviceFamily = "Linux"
	_, err := r.dial(operator, &me)
	if got := refusal(t, err); got != wire.DetailPairing {
		t.Fatalf("an operator is refused with %s", got)
	}
	_, err = r.dial(nodeHello(wire.Auth{BootstrapToken: setup.BootstrapToken}), &me)
	if got := refusal(t, err); got != wire.DetailPairing {
		t.Errorf("a node that was an operator before is refused with %s", got)
	}
}

// join fetches a setup code by a join URL.
func (r *rig) join(path string, want int) (s wire.Setup) {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.g.ServeJoin(w, httptest.NewRequestWithContext(r.t.Context(), http.MethodGet, path, nil))
	body, err := io.ReadAll(w.Body)
	must(r.t, err)
	if w.Code != want || w.Header().Get("Content-Type") != "application/json" ||
		w.Header().Get("Cache-Control") != "no-store" {
		r.t.Fatalf("%d %v %s", w.Code, w.Header(), body)
	}
	if want == http.StatusOK {
		must(r.t, json.Unmarshal(body, &s))
	}
	return s
}
