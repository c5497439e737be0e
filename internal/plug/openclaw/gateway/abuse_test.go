package gateway_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"patchbay/internal/account"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

// A recorded connect request is refused at another connection, during the original one and after
// it.
func TestReplay(t *testing.T) {
	r := newRig(t, nil)
	ws, challenge := r.raw()
	me := wire.NewIdentity()
	hello := sim.Operator(r.token, wire.ScopeRead)
	me.Sign(&hello, challenge)
	overheard := wire.AppendRequest(nil, "1", wire.MethodConnect, encode(t, hello))
	must(t, ws.Write(limited(t), websocket.MessageText, overheard))
	_, data, err := ws.Read(limited(t))
	must(t, err)
	if !strings.Contains(string(data), `"hello-ok"`) {
		t.Fatalf("%s", data)
	}
	replay := func(when string) {
		again, _ := r.raw()
		must(t, again.Write(limited(t), websocket.MessageText, overheard))
		f, e := last(t, again)
		if f == nil || f.Error == nil || f.Error.Detail() != "DEVICE_AUTH_NONCE_MISMATCH" ||
			int(e.Code) != wire.ClosePolicy {
			t.Errorf("%s: %+v, closed with %v", when, f, e)
		}
	}
	replay("beside it")
	must(t, ws.Close(websocket.StatusNormalClosure, ""))
	replay("after it")
}

// A connect request that was changed after it was signed is refused.
func TestTampered(t *testing.T) {
	r := newRig(t, nil)
	admin := r.Key(t, account.NewKey{Scopes: []string{account.ScopeAdmin}})
	for name, spoil := range map[string]func(*wire.Connect){
		"scopes":   func(c *wire.Connect) { c.Scopes = []string{wire.ScopeAdmin} },
		"role":     func(c *wire.Connect) { c.Role, c.Scopes = wire.RoleNode, nil },
		"token":    func(c *wire.Connect) { c.Auth.Token = admin },
		"platform": func(c *wire.Connect) { c.Client.Platform = "darwin" },
		"client":   func(c *wire.Connect) { c.Client.ID = wire.ClientNode },
	} {
		t.Run(name, func(t *testing.T) {
			ws, challenge := r.raw()
			hello := sim.Operator(r.token, wire.ScopeRead)
			wire.NewIdentity().Sign(&hello, challenge)
			hello.Auth = &wire.Auth{Token: r.token}
			spoil(&hello)
			must(t, ws.Write(limited(t), websocket.MessageText,
				wire.AppendRequest(nil, "1", wire.MethodConnect, encode(t, hello))))
			if f, _ := last(t, ws); f == nil || f.Error == nil || f.Error.Detail() != "DEVICE_AUTH_SIGNATURE_INVALID" {
				t.Errorf("%+v", f)
			}
		})
	}
}

// A frame above the limit ends the connection before all of it was read, without effect on others.
func TestTooLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 100 MB")
	}
	r := newRig(t, nil)
	other := r.operator(r.token)
	ws, _ := r.raw()
	must(t, ws.Write(limited(t), websocket.MessageText, wire.AppendRequest(nil, "1", wire.MethodConnect,
		encode(t, sim.Operator(r.token, allScopes...)))))
	_, _, err := ws.Read(limited(t))
	must(t, err)
	// A frame at the limit is read, although it is not a valid request.
	fits := []byte(`{"type":"req","id":"2","method":"what.ever","params":{"x":"` +
		strings.Repeat("a", wire.MaxFrame-100) + `"}}`)
	must(t, ws.Write(limited(t), websocket.MessageText, fits))
	for {
		_, data, err := ws.Read(limited(t))
		must(t, err)
		if bytes.Contains(data, []byte(`"id":"2"`)) {
			break
		}
	}
	// the connection may end before
	_ = ws.Write(limited(t), websocket.MessageText, append(fits, bytes.Repeat([]byte(" "), 200)...))
	if _, e := last(t, ws); int(e.Code) != wire.CloseTooLarge {
		t.Errorf("closed with %v", e)
	}
	// Frames that are not text are ignored.
	must(t, other.Client.Write(limited(t), []byte("\x00\xff{")))
	call[m](other, wire.MethodHealth, m{})
	must(t, eventually(t, func() bool { return r.g.Status().Operators == 1 }))
}
