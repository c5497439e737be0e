package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/fetch"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/wire"
)

// as returns the options of an operator with a device.
func as(g *clienttest.Gateway) client.Options {
	return client.Options{
		URL: g.URL, Token: clienttest.Token, Identity: new(wire.NewIdentity()),
		Connect: wire.Connect{
			Client: wire.Client{ID: wire.ClientGateway, Mode: wire.ModeBackend,
				Version: "1", Platform: "Linux ", DeviceFamily: "Linux"},
			Role: wire.RoleOperator, Scopes: []string{wire.ScopeRead, wire.ScopeWrite},
		},
	}
}

func connect(t *testing.T, o client.Options) *client.Conn {
	t.Helper()
	c, err := client.Connect(t.Context(), &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestParseURL(t *testing.T) {
	for raw, want := range map[string]string{
		"ws://127.0.0.1:18789":        "ws://127.0.0.1:18789",
		" wss://gw.example.com/x ":    "wss://gw.example.com/x",
		"https://gw.example.com":      "wss://gw.example.com",
		"http://192.168.1.5:18789":    "ws://192.168.1.5:18789",
		"ws://[::1]:1":                "ws://[::1]:1",
		"ws://[::ffff:10.0.0.1]:1":    "ws://[::ffff:10.0.0.1]:1",
		"ws://claw.local:1#x":         "ws://claw.local:1",
		"ws://claw.tail1.ts.net":      "ws://claw.tail1.ts.net",
		"ws://localhost:1":            "ws://localhost:1",
		"ws://gw.example.com":         "",
		"ws://8.8.8.8":                "",
		"ws://notlocal":               "",
		"ws://evil.ts.net.example":    "",
		"ftp://127.0.0.1":             "",
		"127.0.0.1:18789":             "",
		"wss://user:pw@gw.example":    "",
		"wss://":                      "",
		"wss://a b":                   "",
		"ws://127.0.0.1.evil.example": "",
	} {
		got, err := client.ParseURL(raw)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v", raw, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("a secret in %v", err)
		}
	}
}

func TestCalls(t *testing.T) {
	var events []string
	came := make(chan struct{})
	g := clienttest.Start(t,
		clienttest.Options{Policy: `{"maxPayload":1000,"attachments":{"maxBytes":7,"maxImageBytes":5}}`})
	o := as(g)
	o.OnEvent = func(c *client.Conn, f wire.Frame) {
		events = append(events, f.Event)
		if f.Event == "last" {
			close(came)
		}
	}
	c := connect(t, o)
	p := g.Peer()
	if h := c.Hello(); h.MaxAttachment != 7 || h.MaxImage != 5 || h.Policy.MaxPayload != 1000 ||
		h.Server.Version != "2026.9.6" {
		t.Errorf("%+v", h)
	}
	// Responses arrive in any order.
	var calls sync.WaitGroup
	for _, method := range []string{"a", "b"} {
		calls.Go(func() {
			payload, err := c.Call(t.Context(), method, map[string]string{"is": method})
			if err != nil || string(payload) != `{"is":"`+method+`"}` {
				t.Errorf("%s: %s, %v", method, payload, err)
			}
		})
	}
	var requests []wire.Request
	for range 2 {
		requests = append(requests, p.NextAny())
	}
	slices.Reverse(requests)
	p.SendRaw(`{"type":"res","id":"nobody's","ok":true}`)
	p.SendRaw(`no JSON`)
	p.SendEvent("first", nil)
	for _, r := range requests {
		p.Answer(r, r.Params)
		p.Answer(r, r.Params) // some requests get two responses
	}
	calls.Wait()
	p.SendEvent("last", nil)
	<-came
	if strings.Join(events, " ") != "first last" {
		t.Errorf("%q", events)
	}

	calls.Go(func() {
		_, err := c.Call(t.Context(), "refused", nil)
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.Forbidden || e.Detail() != wire.DetailScope {
			t.Errorf("%v", err)
		}
	})
	r := p.Next("refused")
	if r.Params != nil {
		t.Errorf("%s", r.Params)
	}
	p.Fail(r, wire.MissingScope(wire.ScopeAdmin))
	calls.Wait()

	if _, err := c.Call(t.Context(), "long", json.RawMessage(`"`+strings.Repeat("x", 1000)+`"`)); !errors.Is(err,
		client.ErrTooLarge) || !p.HasNoRequest() {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls.Go(func() {
		if _, err := c.Call(ctx, "slow", nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	p.Next("slow")
	cancel()
	calls.Wait()

	calls.Go(func() {
		if _, err := c.Call(t.Context(), "lost", nil); !errors.Is(err, client.ErrLost) {
			t.Error(err)
		}
	})
	p.Next("lost")
	p.Close(wire.CloseRestart, "service restart")
	calls.Wait()
	<-c.Done()
	var tr *client.ConnectionError
	if !errors.As(c.Err(), &tr) || tr.Problem != client.Starting || tr.Lasting() {
		t.Errorf("%v", c.Err())
	}
	if _, err := c.Call(t.Context(), "late", nil); !errors.Is(err, client.ErrLost) {
		t.Error(err)
	}
}

// A gateway that announces ticks and sends none counts as disconnected.
func TestTicks(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{Tick: 30 * time.Millisecond, Mute: true})
	c := connect(t, as(g))
	if code := g.Peer().CloseCode(); code != wire.CloseNoTick {
		t.Errorf("closed with %d", code)
	}
	<-c.Done()
	var tr *client.ConnectionError
	if !errors.As(c.Err(), &tr) || tr.Problem != client.Silent {
		t.Errorf("%v", c.Err())
	}

	const tick = 100 * time.Millisecond
	g = clienttest.Start(t, clienttest.Options{Tick: tick})
	c = connect(t, as(g))
	p := g.Peer()
	select {
	case <-c.Done():
		t.Errorf("it ticks: %v", c.Err())
	case <-time.After(5 * tick):
	}
	c.Close()
	if code := p.CloseCode(); code != wire.CloseNormal {
		t.Errorf("closed with %d", code)
	}
}

// Each kind of refusal has a message with a remedy.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		gateway clienttest.Options
		change  func(*client.Options)
		problem client.Problem
		lasting bool
		told    string
	}{
		"pairing": {clienttest.Options{Admit: func(c *wire.Connect) *wire.Error {
			return wire.PairingRequired(wire.PairNew, "c6159fb2-77", c.Device.ID, c.Role, false)
		}}, nil, client.Pairing, true, "openclaw devices approve c6159fb2-77"},
		"pairing with a strange request": {clienttest.Options{Admit: func(c *wire.Connect) *wire.Error {
			return wire.PairingRequired(wire.PairNew, "x; rm -rf ~", c.Device.ID, c.Role, false)
		}}, nil, client.Pairing, true, "machine: openclaw devices list"},
		"token": {clienttest.Options{}, func(o *client.Options) { o.Token = "another" }, client.Token, true,
			"gateway.auth.token"},
		"no token": {clienttest.Options{Admit: refuse(wire.TokenMissing)}, nil, client.Token, true, "wants a token"},
		"rate": {clienttest.Options{Admit: refuse(wire.RateLimited(3 * time.Second))}, nil, client.Starting,
			false, "too many wrong tokens"},
		"scope": {clienttest.Options{Admit: refuse(wire.ScopeMismatch)}, nil, client.Scopes, true, "refused"},
		"no scopes": {clienttest.Options{Hello: func(h *wire.Hello) { h.Auth.Scopes = []string{} }}, nil,
			client.Scopes, true, wire.ScopeRead},
		"identity": {clienttest.Options{Admit: refuse(wire.IdentityRequired)}, nil, client.Identity, true,
			"device identity required"},
		"signature": {clienttest.Options{Admit: refuse(wire.SignatureExpired)}, nil, client.Identity, true, "clocks"},
		"version": {clienttest.Options{Admit: refuse(wire.ProtocolMismatch(4, 4))}, nil, client.Version, true,
			"version"},
		"starting":  {clienttest.Options{Admit: refuse(wire.Starting)}, nil, client.Starting, false, "starting"},
		"otherwise": {clienttest.Options{Admit: refuse(wire.BadRole)}, nil, client.Refused, true, "invalid role"},
		"web page": {clienttest.Options{Status: http.StatusNotFound}, nil, client.NoGateway, true,
			"no OpenClaw gateway"},
		"proxy":      {clienttest.Options{Status: http.StatusForbidden}, nil, client.NoGateway, true, "trustedProxies"},
		"overloaded": {clienttest.Options{Status: http.StatusBadGateway}, nil, client.Starting, false, "starting"},
		"nobody": {clienttest.Options{}, func(o *client.Options) { o.URL = "ws://127.0.0.1:1" }, client.Unreachable,
			false, "cannot be reached"},
		"no TLS": {clienttest.Options{}, func(o *client.Options) {
			o.URL = strings.Replace(o.URL, "ws:",
				"wss:", 1)
		}, client.Insecure, true, "No secure connection"},
		"guarded": {clienttest.Options{}, func(o *client.Options) {
			o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("not there") }
		}, client.Broken, false, "not there"},
		"private": {clienttest.Options{}, func(o *client.Options) { o.Dial = fetch.New(fetch.Options{}).Dial },
			client.Private, true, "private or special network"},
		"no gateway": {clienttest.Options{Raw: func(ws *websocket.Conn) { say(ws, `{"hello":"world"}`) }}, nil,
			client.NoGateway, true, "no OpenClaw gateway"},
		"no nonce": {clienttest.Options{Raw: func(ws *websocket.Conn) {
			say(ws,
				`{"type":"event","event":"connect.challenge","payload":{}}`)
		}},
			nil, client.NoGateway, true, "nonce"},
		"disconnects": {clienttest.Options{Raw: func(ws *websocket.Conn) { ws.Close(wire.CloseStarting, "starting") }},
			nil, client.Starting, false, "starting"},
		"throws out": {clienttest.Options{Raw: func(ws *websocket.Conn) { ws.Close(wire.ClosePolicy, "go away") }}, nil,
			client.Refused, true, "go away"},
	} {
		t.Run(name, func(t *testing.T) {
			o := as(clienttest.Start(t, c.gateway))
			if c.change != nil {
				c.change(&o)
			}
			_, err := client.Connect(t.Context(), &o)
			var tr *client.ConnectionError
			if !errors.As(err, &tr) || tr.Problem != c.problem || tr.Lasting() != c.lasting ||
				!strings.Contains(tr.Error(), c.told) || tr.Message.In(i18n.Chinese) == "" {
				t.Errorf("%+v", err)
			}
			if strings.Contains(err.Error(), clienttest.Token) {
				t.Errorf("a secret in %v", err)
			}
		})
	}
}

func refuse(e *wire.Error) func(*wire.Connect) *wire.Error {
	return func(*wire.Connect) *wire.Error { return e }
}

func say(ws *websocket.Conn, frame string) {
	_ = ws.Write(context.Background(), websocket.MessageText, []byte(frame))
	_, _, _ = ws.Read(context.Background())
}

// The device token is stored, and sent when the shared token is no longer valid.
func TestDeviceToken(t *testing.T) {
	const own = "own-token"
	var saved []string
	g := clienttest.Start(t, clienttest.Options{Hello: func(h *wire.Hello) { h.Auth.DeviceToken = own },
		Admit: func(c *wire.Connect) *wire.Error {
			if k := c.Credential(); k != clienttest.Token && k != own {
				return wire.TokenMismatch(true)
			}
			return nil
		}})
	o := as(g)
	o.LoadToken = func(context.Context) (string, error) {
		if len(saved) == 0 {
			return "", nil
		}
		return saved[len(saved)-1], nil
	}
	o.SaveToken = func(_ context.Context, token string) error {
		saved = append(saved, token)
		return nil
	}
	connect(t, o)
	for _, token := range []string{"rotated", ""} {
		o.Token = token
		connect(t, o)
	}
	if len(saved) != 1 || saved[0] != own {
		t.Errorf("%q were saved", saved)
	}
	var shown []string
	for _, c := range g.Attempts() {
		shown = append(shown, c.Auth.Token+"|"+c.Auth.DeviceToken)
	}
	want := []string{clienttest.Token + "|", "rotated|", own + "|" + own, own + "|" + own}
	if !slices.Equal(shown, want) {
		t.Errorf("%q were shown", shown)
	}
	o.LoadToken = func(context.Context) (string, error) { return "", errors.New("no disk") }
	if _, err := client.Connect(t.Context(), &o); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Error(err)
	}
}
