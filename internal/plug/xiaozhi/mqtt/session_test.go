package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"strconv"
	"testing"
	"time"
)

// The newest connection of a board takes over; its old session has ended before the new one begins,
// even if several connect at once.
func TestTakeOver(t *testing.T) {
	r := newRig(t, Options{}, nil)
	old, oldConn := r.board("board")
	other, otherConn := r.board("other")
	next := r.dial()
	next.send(packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "GID", "board", "secret")))
	next.expect(connAck)
	if e := r.next("gone"); e.conn != oldConn || !errors.Is(e.err, ErrTakenOver) {
		t.Errorf("gone: %v", e.err)
	}
	newConn := r.next("connected").conn
	old.closed()
	if err := oldConn.Push(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a push to the old connection: %v", err)
	}
	for c, b := range map[*Conn]*client{newConn: next, otherConn: other} {
		if err := c.Push([]byte("hello")); err != nil {
			t.Error(err)
		}
		b.expect(message(c.Topic(), "hello"))
	}

	for range 20 {
		r.dial().send(packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "GID", "board", "secret")))
	}
	last := r.dial()
	last.send(packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "GID", "last", "secret")))
	last.expect(connAck)
	alive := newConn
	r.until("at rest", func() bool { return len(r.s.conns) == 3 && r.s.slots["board"].users == 1 })
	r.s.mu.Lock()
	newest := r.s.slots["board"].current
	r.s.mu.Unlock()
	for alive != newest {
		var e event
		select {
		case e = <-r.events:
		case <-time.After(patience):
			t.Fatal("the newest is not the one that is left")
		}
		switch {
		case e.what == "connected" && e.conn.ID() == "last":
		case e.what == "connected" && alive != nil:
			t.Fatal("two sessions at a time")
		case e.what == "connected":
			alive = e.conn
		case e.conn != alive || !errors.Is(e.err, ErrTakenOver):
			t.Fatalf("%s of another: %v", e.what, e.err)
		default:
			alive = nil
		}
	}
	if newest == newConn {
		t.Error("nobody took over")
	}
}

// While the session of a board hangs, its next connection is refused, and the slot is not lost.
func TestTakeOverOfHanging(t *testing.T) {
	r := newRig(t, Options{ConnectTimeout: 200 * time.Millisecond}, nil)
	r.hold = make(chan struct{})
	old, _ := r.board("board")
	old.send(message("device-server", "stuck"))
	<-r.stuck
	next := r.dial()
	next.send(packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "GID", "board", "secret")))
	next.expect([]byte{kindConnAck << 4, 2, 0, byte(Unavailable)})
	close(r.hold)
	r.next("message")
	if e := r.next("gone"); !errors.Is(e.err, ErrTakenOver) {
		t.Errorf("gone: %v", e.err)
	}
	again, _ := r.board("board")
	again.send([]byte{kindPingReq << 4, 0})
	again.expect([]byte{kindPingResp << 4, 0})
}

// A board that does not take what is sent is disconnected, without delaying others.
func TestSlow(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run("tls "+strconv.FormatBool(secure), func(t *testing.T) {
			var conf *tls.Config
			if secure {
				conf = certificate(t)
			}
			r := newRig(t, Options{}, conf)
			_, conn := r.board("board")
			payload := make([]byte, 16<<10)
			pushed := 0
			for ; pushed < 10_000; pushed++ {
				if err := conn.Push(payload); err != nil {
					if !errors.Is(err, ErrSlow) {
						t.Errorf("push: %v", err)
					}
					break
				}
			}
			if pushed == 10_000 {
				t.Fatal("160 MB wait for somebody who takes nothing")
			}
			if e := r.next("gone"); !errors.Is(e.err, ErrSlow) {
				t.Errorf("gone: %v", e.err)
			}
			if r.count("closed_total", "slow") != 1 {
				t.Error("not counted")
			}
		})
	}
}

// Queued bytes for a slow board arrive complete and in order, and the flush goroutine ends.
func TestQueue(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run("tls "+strconv.FormatBool(secure), func(t *testing.T) {
			var conf *tls.Config
			if secure {
				conf = certificate(t)
			}
			r := newRig(t, Options{}, conf)
			b, conn := r.board("board")
			pad := make([]byte, 1000)
			waits := func() bool {
				conn.socket.mu.Lock()
				defer conn.socket.mu.Unlock()
				return conn.socket.waiting > maxQueue/2
			}
			n := 0
			for ; !waits(); n++ {
				if err := conn.Push(append([]byte(strconv.Itoa(n)+" "), pad...)); err != nil {
					t.Fatal(err)
				}
			}
			for i := range n {
				b.expect(message(conn.Topic(), strconv.Itoa(i)+" "+string(pad)))
			}
			if err := conn.Push([]byte("last")); err != nil {
				t.Fatal(err)
			}
			b.expect(message(conn.Topic(), "last"))
		})
	}
}

// Close sends the queue, and NewSession can refuse a connection.
func TestConnClose(t *testing.T) {
	r := newRig(t, Options{}, nil)
	b, conn := r.board("board")
	if err := conn.Push([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	b.expect(message(conn.Topic(), "last words"))
	b.closed()
	if e := r.next("gone"); !errors.Is(e.err, ErrClosed) {
		t.Errorf("gone: %v", e.err)
	}

	declines := newRig(t, Options{NewSession: func(*Conn) Session { return nil }}, nil)
	b = declines.dial()
	b.send(connectFor("board", 60))
	b.expect(connAck)
	b.closed()
	declines.untilNone()
}

// The context of Auth ends when a board has given up.
func TestSlowAuth(t *testing.T) {
	r := newRig(t, Options{ConnectTimeout: 50 * time.Millisecond,
		Auth: func(ctx context.Context, _ ConnectInfo) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}}, nil)
	b := r.dial()
	b.send(connectFor("board", 60))
	b.expect([]byte{kindConnAck << 4, 2, 0, byte(Unavailable)})
	b.closed()
}

// Shutdown sends the queues, ends the sessions and accepts no connections.
func TestShutdown(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run("tls "+strconv.FormatBool(secure), func(t *testing.T) {
			var conf *tls.Config
			if secure {
				conf = certificate(t)
			}
			r := newRig(t, Options{Spread: 20 * time.Millisecond}, conf)
			b, conn := r.board("board")
			r.board("idle")
			r.dial() // sends nothing
			pad := make([]byte, 1000)
			n := 0
			for waits := false; !waits; n++ {
				if err := conn.Push(pad); err != nil {
					t.Fatal(err)
				}
				conn.socket.mu.Lock()
				waits = conn.socket.waiting > 10_000
				conn.socket.mu.Unlock()
			}
			done := make(chan error, 1)
			go func() { done <- r.s.Shutdown(context.Background()) }()
			for range n {
				b.expect(message(conn.Topic(), string(pad)))
			}
			if _, _, err := b.read(); !errors.Is(err, io.EOF) {
				t.Errorf("the end: %v", err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			for range 2 {
				if e := r.next("gone"); !errors.Is(e.err, ErrShutdown) {
					t.Errorf("gone: %v", e.err)
				}
			}
		})
	}
}

// A hanging session delays Shutdown no longer than its context.
func TestShutdownOfHanging(t *testing.T) {
	r := newRig(t, Options{}, nil)
	r.hold = make(chan struct{})
	b, _ := r.board("board")
	b.send(message("device-server", "stuck"))
	<-r.stuck
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := r.s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	close(r.hold)
}
