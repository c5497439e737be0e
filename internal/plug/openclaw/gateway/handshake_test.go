package gateway_test

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/account"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

// raw opens a WebSocket and reads the challenge.
func (r *rig) raw() (*websocket.Conn, wire.Challenge) {
	r.t.Helper()
	c, _, err := websocket.Dial(limited(r.t), r.url, nil)
	must(r.t, err)
	r.t.Cleanup(func() { c.CloseNow() })
	c.SetReadLimit(wire.MaxFrame)
	_, data, err := c.Read(limited(r.t))
	must(r.t, err)
	f, err := wire.Parse(data)
	must(r.t, err)
	ch, err := wire.ParseChallenge(f.Payload)
	must(r.t, err)
	return c, ch
}

// last reads until the connection ends. It returns the last frame and the Close frame.
func last(t testing.TB, c *websocket.Conn) (*wire.Frame, websocket.CloseError) {
	t.Helper()
	var f *wire.Frame
	for {
		_, data, err := c.Read(limited(t))
		if err != nil {
			var e websocket.CloseError
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			return f, e
		}
		got, err := wire.Parse(data)
		must(t, err)
		f = &got
	}
}

// Each refusal has the right error, order of checks and close code.
func TestRefusals(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) { o.Timings.RefusalDelay = time.Millisecond })
	mcp := r.Key(t, account.NewKey{Scopes: []string{account.ScopeMCP}})
	nodeOnly := r.Key(t, account.NewKey{Scopes: []string{account.ScopeNode}})
	other, _ := r.person("bob", account.ScopeMCP)
	bobs := r.Key(t, account.NewKey{Person: other.ID, Scopes: []string{account.ScopeNode}})
	taken := wire.NewIdentity()
	r.node(sim.Options{Identity: taken}, false)
	for name, c := range map[string]struct {
		hello  func(*wire.Connect) // before signing
		spoil  func(*wire.Connect) // after signing
		me     wire.Identity
		nobody bool // without a device
		code   wire.Code
		detail string
		words  string
		close  int
	}{
		"token": {hello: func(c *wire.Connect) { c.Auth.Token = "wrong" }, code: wire.InvalidRequest,
			detail: wire.DetailTokenMismatch, words: "unauthorized: gateway token mismatch"},
		"token, no device": {hello: func(c *wire.Connect) { c.Role, c.Auth.Token = wire.RoleOperator, "wrong" },
			nobody: true, code: wire.InvalidRequest, detail: wire.DetailTokenMismatch,
			words: "unauthorized: gateway token mismatch"},
		"no token": {hello: func(c *wire.Connect) { c.Auth = nil }, code: wire.InvalidRequest,
			detail: wire.DetailTokenMissing, words: "unauthorized: gateway token missing"},
		"device token": {hello: func(c *wire.Connect) { c.Auth = &wire.Auth{DeviceToken: "wrong"} },
			code: wire.InvalidRequest, detail: wire.DetailDeviceToken, words: "unauthorized: device token mismatch"},
		"nothing": {hello: func(c *wire.Connect) { c.Role, c.Auth = wire.RoleOperator, nil }, nobody: true,
			code: wire.NotPaired, detail: wire.DetailIdentity, words: "device identity required"},
		"node, no device": {nobody: true, code: wire.NotPaired, detail: wire.DetailIdentity,
			words: "device identity required"},
		"key's scope": {hello: func(c *wire.Connect) { c.Auth.Token = mcp }, code: wire.InvalidRequest,
			detail: wire.DetailTokenMismatch, words: "unauthorized"},
		"node's key": {hello: func(c *wire.Connect) { c.Role, c.Auth.Token = wire.RoleOperator, nodeOnly },
			code: wire.InvalidRequest, detail: wire.DetailTokenMismatch, words: "unauthorized"},
		"other's device": {hello: func(c *wire.Connect) { c.Auth.Token = bobs }, me: taken, code: wire.NotPaired,
			detail: "AUTH_UNAUTHORIZED", words: "device is paired with another person"},
		"signature": {spoil: func(c *wire.Connect) { c.Device.Signature = strings.Repeat("A", 86) },
			code: wire.InvalidRequest, detail: "DEVICE_AUTH_SIGNATURE_INVALID", words: "device signature invalid"},
		"signature first": {hello: func(c *wire.Connect) { c.Auth.Token = "wrong" },
			spoil: func(c *wire.Connect) { c.Device.Signature = strings.Repeat("A", 86) }, code: wire.InvalidRequest,
			detail: "DEVICE_AUTH_SIGNATURE_INVALID", words: "device signature invalid"},
		"old": {spoil: func(c *wire.Connect) { c.Device.SignedAt -= 2 * wire.MaxClockSkew.Milliseconds() },
			code: wire.InvalidRequest, detail: "DEVICE_AUTH_SIGNATURE_EXPIRED", words: "device signature expired"},
		"nonce": {spoil: func(c *wire.Connect) { c.Device.Nonce = "another" }, code: wire.InvalidRequest,
			detail: "DEVICE_AUTH_NONCE_MISMATCH", words: "device nonce mismatch"},
		"device": {spoil: func(c *wire.Connect) { c.Device.ID = strings.Repeat("0", 64) },
			code: wire.InvalidRequest, detail: "DEVICE_AUTH_DEVICE_ID_MISMATCH", words: "device identity mismatch"},
		"version": {spoil: func(c *wire.Connect) { c.MinProtocol, c.MaxProtocol = 5, 6 },
			code: wire.InvalidRequest, detail: wire.DetailProtocol,
			words: "protocol mismatch", close: wire.CloseProtocol},
		"role": {spoil: func(c *wire.Connect) { c.Role = "cook" }, code: wire.InvalidRequest,
			words: "invalid role"},
		"client": {spoil: func(c *wire.Connect) { c.Client.ID = "patchbay" }, code: wire.InvalidRequest,
			words: "invalid connect params: at /client/id: must be equal to one of the allowed values"},
	} {
		t.Run(name, func(t *testing.T) {
			ws, challenge := r.raw()
			hello := wire.Connect{
				MinProtocol: 4, MaxProtocol: 4, Role: wire.RoleNode, Auth: &wire.Auth{Token: r.token},
				Commands: []string{"kitchen.echo"},
				Client: wire.Client{ID: wire.ClientNode, Mode: wire.ModeNode,
					Version: "1", Platform: "linux", DeviceFamily: "Linux"},
			}
			if c.hello != nil {
				c.hello(&hello)
			}
			if c.me.ID() == "" {
				c.me = wire.NewIdentity()
			}
			if !c.nobody {
				c.me.Sign(&hello, challenge)
			}
			if c.spoil != nil {
				c.spoil(&hello)
			}
			must(t, ws.Write(limited(t), websocket.MessageText,
				wire.AppendRequest(nil, "x", wire.MethodConnect, encode(t, hello))))
			f, e := last(t, ws)
			if f == nil || f.Error == nil || f.ID != "x" || f.Error.Code != c.code || f.Error.Detail() != c.detail ||
				!strings.HasPrefix(f.Error.Message, c.words) {
				t.Fatalf("%+v", f)
			}
			if c.close == 0 {
				c.close = wire.ClosePolicy
			}
			if int(e.Code) != c.close || !strings.HasPrefix(f.Error.Message,
				strings.TrimSuffix(e.Reason, "…")[:min(len(e.Reason), 100)]) {
				t.Errorf("closed with %v", e)
			}
		})
	}
}

// First frames other than connect.
func TestFirstFrames(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) { o.Timings.Handshake = 300 * time.Millisecond })
	for name, c := range map[string]struct {
		frame  string
		code   int
		reason string
		answer string
	}{
		"no JSON":    {"hello", wire.CloseNormal, "", ""},
		"no request": {`{"type":"event"}`, wire.ClosePolicy, "invalid request frame", ""},
		"not connect": {`{"type":"req","id":"1","method":"health"}`, wire.ClosePolicy, wire.ConnectRequired.Message,
			wire.ConnectRequired.Message},
		"too large": {`{"type":"req","id":"1","method":"connect","params":"` +
			strings.Repeat("a", wire.MaxHandshake) + `"}`, wire.CloseTooLarge, "", ""},
		"nothing": {"", wire.CloseNormal, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ws, _ := r.raw()
			if c.frame != "" {
				must(t, ws.Write(limited(t), websocket.MessageText, []byte(c.frame)))
			}
			f, e := last(t, ws)
			if int(e.Code) != c.code || e.Reason != c.reason && c.code != wire.CloseTooLarge {
				t.Errorf("closed with %v", e)
			}
			if (f != nil) != (c.answer != "") || f != nil && f.Error.Message != c.answer {
				t.Errorf("answered with %+v", f)
			}
		})
	}
}

// The hello response and the first events, and the errors for invalid requests.
func TestGreeting(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) {
		o.Timings.Tick, o.Timings.Health = 20*time.Millisecond,
			30*time.Millisecond
	})
	op := r.operator(r.token)
	h := op.Hello
	if h.Protocol != 4 || h.Server.Version != "1.2.3" || h.Server.ConnID == "" || h.Auth.Role != wire.RoleOperator ||
		h.Auth.DeviceToken != "" ||
		!slices.Equal(h.Auth.Scopes, allScopes) || h.Policy != (wire.Limits{MaxPayload: wire.MaxFrame,
		MaxBuffered: wire.MaxBuffered, TickIntervalMS: 30000}) {
		t.Errorf("%+v", h)
	}
	for _, method := range h.Features.Methods {
		if e := wire.CheckPermission(method, wire.RoleOperator, []string{wire.ScopeAdmin}); e != nil {
			t.Errorf("%s: %v", method, e)
		}
	}
	op.await(wire.EventTick, nil)
	op.await(wire.EventHealth, nil)
	op.mu.Lock()
	seq := int64(0)
	for _, f := range op.events {
		if f.Seq > 0 && seq > 0 && f.Seq != seq+1 {
			t.Errorf("number %d after %d", f.Seq, seq)
		}
		seq = f.Seq
	}
	op.mu.Unlock()
	for method, want := range map[string]string{"what.ever": "unknown method: what.ever",
		wire.MethodConnect: wire.ConnectTwice.Message} {
		if e := op.refused(method, m{}); e.Code != wire.InvalidRequest || e.Message != want {
			t.Errorf("%s: %v", method, e)
		}
	}
	if e := op.refused(wire.MethodNodeList,
		m{"more": 1}); e.Message != "invalid node.list params: at root: unexpected property 'more'" {
		t.Error(e)
	}
	for _, method := range []string{wire.MethodHealth, wire.MethodStatus, wire.MethodSessionsList} {
		call[m](op, method, m{})
	}
	call[[]any](op, wire.MethodSystemPresence, m{})
	for range wire.MaxUnauthorized + 1 {
		must(t, op.Write(op.ctx, wire.AppendRequest(nil, "n", wire.MethodNodeEvent, []byte(`{"event":"x"}`))))
	}
	if e := awaitClose(t, op.Client); int(e.Code) != wire.ClosePolicy || e.Reason != "repeated unauthorized calls" {
		t.Error(e)
	}
}

// Frames that are not requests get an error, and the connection stays open.
func TestBadFrames(t *testing.T) {
	r := newRig(t, nil)
	ws, challenge := r.raw()
	_ = challenge
	hello := sim.Operator(r.token, allScopes...)
	must(t, ws.Write(limited(t), websocket.MessageText, wire.AppendRequest(nil, "1", wire.MethodConnect,
		encode(t, hello))))
	read := func() string {
		_, data, err := ws.Read(limited(t))
		must(t, err)
		return string(data)
	}
	if got := read(); !strings.Contains(got, `"hello-ok"`) {
		t.Fatal(got)
	}
	for frame, want := range map[string]string{
		`{"type":"req","id":5,"method":"health"}`: `{"type":"res","id":5,"ok":false,"error":{"code":"INVALID_REQUEST","message":"invalid request frame: at /id: must be string"}}`,
		`{"type":"req","method":"health"}`:        `{"type":"res","id":"invalid","ok":false,"error":{"code":"INVALID_REQUEST","message":"invalid request frame: must have required property 'id'"}}`,
	} {
		must(t, ws.Write(limited(t), websocket.MessageText, []byte("no JSON")))
		must(t, ws.Write(limited(t), websocket.MessageText, []byte(frame)))
		for {
			got := read()
			if strings.Contains(got, `"type":"event"`) {
				continue
			}
			if got != want {
				t.Error(got)
			}
			break
		}
	}
}

// A device reconnects with its device token, in every form in which programs send it.
func TestDeviceToken(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) {
		o.Timings.RefusalDelay, o.Timings.PeerRefresh = time.Millisecond, 10*time.Millisecond
	})
	me := wire.NewIdentity()
	hello := sim.Operator(r.token, wire.ScopeRead)
	first, err := r.dial(hello, &me)
	must(t, err)
	token := first.Hello.Auth.DeviceToken
	if len(token) != 43 || first.Hello.Auth.IssuedAtMS == 0 {
		t.Fatalf("%+v", first.Hello.Auth)
	}
	for name, auth := range map[string]wire.Auth{
		"token": {Token: token}, "device token": {DeviceToken: token}, "both": {Token: token, DeviceToken: token},
		"beside a wrong one": {Token: "wrong", DeviceToken: token},
	} {
		hello.Auth = &auth
		again, err := r.dial(hello, &me)
		if err != nil || again.Hello.Auth.DeviceToken != token {
			t.Errorf("%s: %v", name, err)
		}
	}
	hello.Auth = &wire.Auth{Token: token}
	hello.Scopes = []string{wire.ScopeWrite}
	var e *wire.Error
	if _, err := r.dial(hello, &me); !errors.As(err, &e) || e.Detail() != wire.DetailScopeMismatch {
		t.Error(err)
	}
	stranger := wire.NewIdentity()
	if _, err := r.dial(hello, &stranger); !errors.As(err, &e) || e.Detail() != wire.DetailTokenMismatch {
		t.Error(err)
	}
	hello.Scopes = []string{wire.ScopeRead}
	live, err := r.dial(hello, &me)
	must(t, err)
	must(t, r.Accounts.RotatePeer(t.Context(), me.ID()))
	if e := awaitClose(t, live.Client); int(e.Code) != wire.CloseRemoved || e.Reason != "gateway auth changed" {
		t.Error(e)
	}
	if _, err := r.dial(hello, &me); !errors.As(err, &e) || e.Detail() != wire.DetailTokenMismatch {
		t.Error(err)
	}
	bound := r.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}, Rules: `{"deny":["*"]}`})
	other := wire.NewIdentity()
	o, err := r.dial(sim.Operator(bound, wire.ScopeRead), &other)
	must(t, err)
	if o.Hello.Auth.DeviceToken != "" {
		t.Error("a key with rules got a token without any")
	}
}

// Revoking a key ends the connections that were opened with it.
func TestRevokedKey(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) { o.Timings.Ping = 50 * time.Millisecond })
	k, secret, err := r.Accounts.AddKey(t.Context(), account.NewKey{Person: r.Person.ID,
		Name: "short", Scopes: []string{account.ScopeOperator}})
	must(t, err)
	op := r.operator(secret)
	must(t, r.Store.Keys.Revoke(t.Context(), k.ID, time.Now()))
	if e := awaitClose(t, op.Client); int(e.Code) != wire.CloseRemoved {
		t.Error(e)
	}
}

// Programs without a device keep the requested scopes if people start them themselves, and no key
// grants more than its own scopes.
func TestScopes(t *testing.T) {
	r := newRig(t, nil)
	hello := sim.Operator(r.token, wire.ScopeRead, wire.ScopeAdmin, wire.ScopeApprovals)
	o, err := r.dial(hello, nil)
	must(t, err)
	if !slices.Equal(o.Hello.Auth.Scopes, hello.Scopes) {
		t.Errorf("an administrator got %v", o.Hello.Auth.Scopes)
	}
	hello.Client.ID, hello.Client.Mode = "openclaw-tui", "ui"
	if o, err = r.dial(hello, nil); err != nil || len(o.Hello.Auth.Scopes) != 0 {
		t.Errorf("%v", err)
	}
	if e := o.refused(wire.MethodNodeList, m{}); e.Code != wire.Forbidden {
		t.Error(e)
	}
	bot := r.AddScript(t, nil, nil)
	bound := r.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}, Bot: bot.Number})
	if o := r.operator(bound); !slices.Equal(o.Hello.Auth.Scopes, []string{wire.ScopeRead, wire.ScopeWrite}) {
		t.Errorf("a key for one bot got %v", o.Hello.Auth.Scopes)
	}
}

// Strangers cannot keep many connections open, and each wrong token is answered later.
func TestStrangers(t *testing.T) {
	var from atomic.Int32
	r := newRig(t, func(o *gateway.Options) {
		o.Guard = account.NewGuard(2, nil)
		o.Timings.RefusalDelay = 10 * time.Millisecond
		o.AutoApproveLocal = false
		o.Address = func(*http.Request) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(from.Load())}) }
	})
	var e *wire.Error
	for i := range 3 {
		began := time.Now()
		me := wire.NewIdentity()
		_, err := r.dial(sim.Operator("wrong", wire.ScopeRead), &me)
		took := time.Since(began)
		switch {
		case !errors.As(err, &e):
			t.Fatal(err)
		case i < 2 && (e.Detail() != wire.DetailTokenMismatch || took < 10*time.Millisecond<<i):
			t.Errorf("attempt %d: %v after %v", i, e, took)
		case i == 2 && (e.Detail() != wire.DetailRateLimited || e.RetryAfter == 0):
			t.Errorf("attempt %d: %v", i, e)
		}
	}
	r.operator(r.token) // a valid one is never delayed
	from.Store(1)
	var open []*websocket.Conn
	const most = 200
	for range most {
		ws, _ := r.raw()
		open = append(open, ws)
	}
	_, res, err := websocket.Dial(limited(t), r.url, nil)
	if err == nil || res == nil || res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more got in: %v", err)
	}
	if s := r.g.Status(); s.HalfOpen != most {
		t.Errorf("%+v", s)
	}
	from.Store(2)
	r.operator(r.token) // from another address
	for _, ws := range open {
		ws.CloseNow()
	}
	must(t, eventually(t, func() bool { return r.g.Status().HalfOpen == 0 }))
}

// The recorded connect requests of OpenClaw's own programs are accepted.
func TestRecordedHello(t *testing.T) {
	data, err := os.ReadFile("testdata/hellos.jsonl")
	must(t, err)
	for in := bufio.NewScanner(bytes.NewReader(data)); in.Scan(); {
		p, e := wire.ParseConnect(in.Bytes())
		if e != nil {
			t.Errorf("%s: %v", in.Bytes(), e)
			continue
		}
		r := newRig(t, nil)
		p.Auth = &wire.Auth{Token: r.token}
		var device *wire.Identity
		if p.Device != nil {
			device, p.Device = new(wire.NewIdentity()), nil
		}
		o, err := r.dial(*p, device)
		if err != nil {
			t.Errorf("%s: %v", in.Bytes(), err)
			continue
		}
		if p.Role == wire.RoleNode && o.Hello.Auth.DeviceToken == "" {
			t.Errorf("%+v", o.Hello.Auth)
		}
	}
}
