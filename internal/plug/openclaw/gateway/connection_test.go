package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

// eventually waits for a condition that no event reports.
func eventually(t testing.TB, is func() bool) error {
	t.Helper()
	return eventuallyIn(t, 3*testTimeout, is)
}

func eventuallyIn(t testing.TB, limit time.Duration, is func() bool) error {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// A request through an untrusted proxy does not count as local.
func TestProxies(t *testing.T) {
	r := newRig(t, nil)
	_, res, err := websocket.Dial(limited(t), r.url,
		&websocket.DialOptions{HTTPHeader: http.Header{"X-Forwarded-For": {"1.2.3.4"}}})
	if err == nil || res == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("%v", err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server.URL, nil)
	must(t, err)
	plain, err := http.DefaultClient.Do(req)
	must(t, err)
	plain.Body.Close()
	if plain.StatusCode != http.StatusUpgradeRequired {
		t.Error(plain.Status)
	}
}

// When the gateway stops, all clients are notified, and no goroutine is left.
func TestShutdown(t *testing.T) {
	r := newRig(t, nil)
	began := make(chan struct{}, 1)
	n := r.node(sim.Options{Handler: blocking(began)}, true)
	op := r.operator(r.token)
	answers, stop, err := op.StartRequest(op.ctx, wire.MethodNodeInvoke,
		encode(t, invokeParams(n.ID(), "kitchen.echo", m{})))
	must(t, err)
	defer stop()
	<-began
	ws, _ := r.raw()
	done := make(chan error, 1)
	go func() { done <- r.g.Shutdown(limited(t)) }()
	op.await(wire.EventShutdown, nil)
	if e := awaitClose(t, op.Client); int(e.Code) != wire.CloseRestart || e.Reason != "service restart" {
		t.Error(e)
	}
	if f, e := last(t, ws); f != nil || int(e.Code) != wire.CloseNormal {
		t.Errorf("%+v %v", f, e)
	}
	must(t, <-done)
	_, _ = op.AwaitAnswer(op.ctx, answers) // with or without a response
	if s := r.g.Status(); s != (gateway.Status{}) {
		t.Errorf("%+v is left", s)
	}
	if _, _, err := websocket.Dial(limited(t), r.url, nil); err == nil {
		t.Error("it lets somebody in that stops")
	}
}

// An operator that does not read is disconnected, and finds the reason when it reads again.
func TestSlowConsumer(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 100 MB")
	}
	// a busy machine is slow at moving the data
	r := newRig(t, func(o *gateway.Options) { o.Timings.SlowClientGrace = time.Minute })
	large := json.RawMessage(`"` + strings.Repeat("a", 4<<20) + `"`)
	n := r.node(sim.Options{Handler: func(context.Context, string, json.RawMessage) (json.RawMessage,
		error) {
		return large, nil
	}}, true)
	raw, err := net.Dial("tcp", strings.TrimPrefix(r.server.URL, "http://"))
	must(t, err)
	defer raw.Close()
	hold := &holding{Conn: raw, let: make(chan struct{})}
	ws, _, err := websocket.Dial(limited(t), r.url,
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) { return hold, nil },
		}}})
	must(t, err)
	ws.SetReadLimit(wire.MaxFrame)
	read := func() (string, error) {
		_, data, err := ws.Read(limited(t))
		return string(data[:min(len(data), 200)]), err
	}
	_, err = read()
	must(t, err)
	must(t, ws.Write(limited(t), websocket.MessageText, wire.AppendRequest(nil, "1", wire.MethodConnect,
		encode(t, sim.Operator(r.token, allScopes...)))))
	_, err = read()
	must(t, err)
	hold.held.Store(true)
	for range 20 {
		must(t, ws.Write(limited(t), websocket.MessageText, wire.AppendRequest(nil, "x", wire.MethodNodeInvoke,
			encode(t, invokeParams(n.ID(), "kitchen.echo", nil)))))
	}
	must(t, eventually(t, func() bool { return r.g.Status().Buffered > wire.MaxBuffered }))
	close(hold.let)
	for err == nil {
		_, err = read()
	}
	var e websocket.CloseError
	if !errors.As(err, &e) || int(e.Code) != wire.ClosePolicy || e.Reason != "slow consumer" {
		t.Error(err)
	}
	must(t, eventually(t, func() bool { return r.g.Status().Buffered == 0 }))
}

// holding is a connection on which nothing is read while held is set.
type holding struct {
	net.Conn
	held atomic.Bool
	let  chan struct{}
}

func (h *holding) Read(p []byte) (int, error) {
	if h.held.Load() {
		<-h.let
	}
	return h.Conn.Read(p)
}

// A client that lost its network is disconnected.
func TestSilence(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) { o.Timings.Ping = 100 * time.Millisecond })
	alive := r.operator(r.token)
	raw, err := net.Dial("tcp", strings.TrimPrefix(r.server.URL, "http://"))
	must(t, err)
	defer raw.Close()
	hold := &holding{Conn: raw, let: make(chan struct{})}
	ws, _, err := websocket.Dial(limited(t), r.url,
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) { return hold, nil },
		}}})
	must(t, err)
	defer ws.CloseNow()
	defer close(hold.let)
	must(t, ws.Write(limited(t), websocket.MessageText, wire.AppendRequest(nil, "1", wire.MethodConnect,
		encode(t, sim.Operator(r.token, allScopes...)))))
	must(t, eventually(t, func() bool { return r.g.Status().Operators == 2 }))
	hold.held.Store(true) // from now on it does not answer pings
	must(t, eventually(t, func() bool { return r.g.Status().Operators == 1 }))
	call[m](alive, wire.MethodHealth, m{})
}
