package eyeclaw

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/talk"
)

func TestOversizeFrame(t *testing.T) {
	r := newRig(t)
	c := r.subscribed()
	c.raw(`{"command":"` + strings.Repeat("x", maxFrame) + `"}`)
	c.closed()
	eventually(t, "the socket being counted", func() bool { return r.metric("closed_total", "reason=oversize") == 1 })
	if st, _ := r.s.Status(7); st.LastError.Message != errOversize {
		t.Errorf("status: %+v", st)
	}
}

// connectDeaf connects with small buffers and never reads.
func (r *rig) connectDeaf() *websocket.Conn {
	r.t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if tc, ok := c.(*net.TCPConn); ok {
			_ = tc.SetReadBuffer(4096)
		}
		return c, err
	}}
	r.t.Cleanup(tr.CloseIdleConnections)
	ws, _, err := r.dial("?sdk_token="+goodToken, &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

func TestSlowConsumer(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Timings.Write = 100 * time.Millisecond })
	r.connectDeaf()
	eventually(t, "the socket", func() bool { return r.metric("connections", "") == 1 })
	c := r.s.openConns()[0]
	frame := messageFrame(rawJSON(`"x"`), logMessage{Message: strings.Repeat("x", 64<<10)})
	limit := time.Now().Add(patience)
	for c.send(outbound{frame: frame}) {
		if time.Now().After(limit) {
			t.Fatal("the server puts up with a client that reads nothing")
		}
	}
	eventually(t, "the socket being gone", func() bool { return r.metric("connections", "") == 0 })
	if n := r.metric("closed_total", "reason=slow_consumer"); n != 1 {
		t.Errorf("%v of %v sockets were closed for being slow", n, r.metric("closed_total", ""))
	}
	if st, _ := r.s.Status(7); st.LastError.Message != errSlow {
		t.Errorf("status: %+v", st)
	}
}

func TestSilentPeer(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Timings.Ping, o.Timings.Probe, o.Timings.ProbeWait = 2*time.Millisecond, 10*time.Millisecond, time.Second
	})
	r.connectDeaf()
	lively := r.connect() // its reader answers pings
	eventually(t, "the silent peer being dropped", func() bool {
		return r.metric("closed_total",
			"reason=pong_timeout") == 1
	})
	lively.raw(`{"command":"subscribe","identifier":` + lively.ident + `}`)
	lively.expect("welcome")
	lively.expectMessage("connected")
	eventually(t, "one socket being left", func() bool { st, _ := r.s.Status(7); return st.Connections == 1 })
}

// TestUnhealthySocketIsPassedOver checks that a newer silent socket gets no questions while there
// is another one.
func TestUnhealthySocketIsPassedOver(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Timings.ProbeWait = patience })
	older, newer := r.subscribed(), r.subscribed()
	b := r.attachedBot()
	h := r.pluginBot()
	h.mu.Lock()
	h.conns[1].pingSentAt.Store(time.Now().Add(-patience / 2).UnixNano())
	h.mu.Unlock()
	a := r.ask(t.Context(), b, "t1", "hi")
	older.expectMessage("execute_command")
	older.send(`{"action":"response","content":"older","session_id":"t1"}`)
	a.ends(t, "older")
	h.mu.Lock()
	h.conns[1].pingSentAt.Store(0)
	h.mu.Unlock()
	a = r.ask(t.Context(), b, "t2", "hi")
	newer.expectMessage("execute_command")
	newer.send(`{"action":"response","content":"newer","session_id":"t2"}`)
	a.ends(t, "newer")
}

// TestCommandIsSentAgain checks that a command that was never written is sent over another socket.
func TestCommandIsSentAgain(t *testing.T) {
	r := newRig(t)
	older, _ := r.subscribed(), r.subscribed()
	h := r.pluginBot()
	var newest *conn
	eventually(t, "both sockets being ready", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		newest = h.conns[1]
		return len(h.subscribedConns()) == 2
	})
	turn := &talk.Turn{ID: "t1", Parts: []talk.Part{{Text: "hi"}}}
	tr, err := h.openTurn(turn)
	if err != nil {
		t.Fatal(err)
	}
	if c, _, err := h.dispatch(t.Context(), tr, nil); c != newest || err != nil {
		t.Fatalf("picked %p, %v", c, err)
	}
	if st := h.next(tr); st.resend || st.done || st.piece != "" {
		t.Fatalf("unexpected %+v", st)
	}
	newest.terminate(endWrite)
	eventually(t, "the command being due again", func() bool { return h.next(tr).resend })
	if err := h.sendQuestion(t.Context(), tr, turn, nil); err != nil {
		t.Fatal(err)
	}
	older.expectMessage("execute_command")
	eventually(t, "the command being written", tr.delivered.Load)
	h.closeTurn(tr)
}

func TestTooManySockets(t *testing.T) {
	r := newRig(t)
	for range maxConns {
		r.connect().expect("welcome")
	}
	c := r.connect()
	if f := c.expect("disconnect"); f["reason"] != "remote" || f["reconnect"] != true {
		t.Errorf("got %v", f)
	}
	c.closed()
	if st, _ := r.s.Status(7); st.Connections != maxConns || st.LastError.Message != errTooMany {
		t.Errorf("status: %+v", st)
	}
	if n := r.metric("connections", ""); n != maxConns {
		t.Errorf("gauge says %v", n)
	}
}

func TestUnplug(t *testing.T) {
	r := newRig(t)
	c := r.subscribed()
	b := r.attachedBot()
	a := r.ask(t.Context(), b, "t1", "hi")
	c.expectMessage("execute_command")
	r.s.DisconnectBot(7)
	a.fails(t, talk.Offline)
	if f := c.expect("disconnect"); f["reason"] != "unauthorized" || f["reconnect"] != false {
		t.Errorf("got %v", f)
	}
	c.closed()
	r.mu.Lock()
	detached := r.detached
	r.mu.Unlock()
	if detached != 1 {
		t.Error("the bot is still attached after Unplug")
	}
	if _, ok := r.s.Status(7); ok {
		t.Error("the bot is still known")
	}
	r.s.DisconnectBot(7)
	r.subscribed() // with a valid token
	r.await("the bot being attached again", func() bool { return r.attached == 2 })
}

func TestShutdown_cutsWhoDoesNotLeave(t *testing.T) {
	r := newRig(t)
	r.connectDeaf()
	eventually(t, "the socket", func() bool { return r.metric("connections", "") == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := r.s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestShutdown_tellsClients(t *testing.T) {
	r := newRig(t)
	c := r.subscribed()
	if err := r.s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f := c.expect("disconnect"); f["reason"] != "server_restart" || f["reconnect"] != true {
		t.Errorf("got %v", f)
	}
	c.closed()
}

// TestClosedWhilePinged has clients close their sockets while the server pings them: that is no
// failure to write, and no missing pong.
func TestClosedWhilePinged(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Timings.Ping, o.Timings.Probe = time.Millisecond, time.Millisecond })
	const sockets = 100
	for i := range sockets {
		c := r.connect()
		if err := c.ws.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the socket being counted", func() bool { return r.metric("closed_total", "") == float64(i+1) })
	}
	if n := r.metric("closed_total", "reason=closed"); n != sockets {
		t.Errorf("%v of %v sockets were closed by the client", n, sockets)
	}
}
