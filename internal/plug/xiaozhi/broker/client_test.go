package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/mqtt"
)

// Invalid broker URLs are rejected, and the errors contain no secrets.
func TestOptions(t *testing.T) {
	for _, c := range []struct{ url, push, want string }{
		{"mqtt://broker", "", ""}, {"mqtts://broker:1", "", ""}, {"ws://broker/mqtt", "", ""},
		{"wss://[::1]:8084/mqtt", "", ""},
		{"", "", "does not begin"}, {"http://broker", "", "does not begin"}, {"mqtt://", "", "no host"},
		{"mqtt://me:secret@broker", "", "of their own"}, {"mqtt://me:secret@bro ker", "", "not a URL"},
		{"mqtt://broker", "a/+", "beginning"}, {"mqtt://broker", "a/", "beginning"},
	} {
		_, err := New(Options{URL: c.url, PushPrefix: c.push})
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s %s: %v", c.url, c.push, err)
		}
	}
}

// A board that behaves like firmware is found, probed, and answers; over MQTT and over a WebSocket.
func TestBoard(t *testing.T) {
	for _, scheme := range []string{"mqtt", "ws"} {
		t.Run(scheme, func(t *testing.T) {
			h := newFakeBroker(t)
			b := realBoard(t, h.l.Addr().String(), name1, "user", "secret")
			url := h.url()
			if scheme == "ws" {
				url = "ws" + strings.TrimPrefix(h.http.URL, "http") + "/mqtt"
			}
			r := newRig(t, Options{URL: url, ClientIDs: func(context.Context) ([]string,
				error) {
				return []string{name1, name2, "?"}, nil
			}}, nil)
			conn := r.next("connected").conn
			if conn.ID() != mac1 || conn.ClientID() != name1 || time.Since(conn.LastHeard()) > patience {
				t.Errorf("%s, %s, heard at %v", conn.ID(), conn.ClientID(), conn.LastHeard())
			}
			if e := r.next("message"); !strings.Contains(e.text, "not implemented: ping") ||
				!strings.Contains(e.text, "2147483647") {
				t.Errorf("the answer to a knock is %s", e.text)
			}
			const list = `{"session_id":"","type":"mcp","payload":{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}}`
			if err := conn.Push([]byte(list)); err != nil {
				t.Fatal(err)
			}
			if e := r.next("message"); !strings.Contains(e.text, `"id":7`) ||
				!strings.Contains(e.text, "self.audio_speaker.set_volume") {
				t.Errorf("the answer is %s", e.text)
			}
			if err := conn.Push(make([]byte, MaxPush+1)); !errors.Is(err, mqtt.ErrTooLong) {
				t.Errorf("a long push: %v", err)
			}
			b.Notify("notifications/button", []byte(`{}`))
			if e := r.next("message"); !strings.Contains(e.text, "notifications/button") {
				t.Errorf("%s", e.text)
			}
			r.stop()
			if e := r.next("gone"); !errors.Is(e.err, mqtt.ErrShutdown) {
				t.Errorf("gone: %v", e.err)
			}
			if err := conn.Push([]byte("late")); !errors.Is(err, mqtt.ErrClosed) {
				t.Errorf("a late push: %v", err)
			}
			if report := b.Report(); len(report.Violations) > 0 {
				t.Errorf("the board complains: %v", report.Violations)
			}
		})
	}
}

// A broker with a private certificate is accepted only if it is trusted.
func TestTLS(t *testing.T) {
	h := newFakeBroker(t)
	secure := httptest.NewUnstartedServer(h.http.Config.Handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: secure.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	h.accept(l)
	trust := secure.Client().Transport.(*http.Transport).TLSClientConfig
	for _, url := range []string{"mqtts://" + l.Addr().String(),
		"wss" + strings.TrimPrefix(secure.URL, "https") + "/mqtt"} {
		t.Run(url[:strings.Index(url, ":")], func(t *testing.T) {
			r := newRig(t, Options{URL: url, TLS: trust}, nil)
			r.until("up", "", 1)
			h.publishText("device-server/"+name1, "hello", false)
			r.next("connected")
			r.next("message")
			r.stop()
			<-r.ended
			var said lockedBuilder
			r = newRig(t, Options{URL: url, Logger: said.logger()}, nil)
			eventually(t, "a try", func() bool { return strings.Contains(said.String(), "certificate") })
			if r.c.IsConnected() {
				t.Error("whoever it is is trusted")
			}
		})
	}
}

// Messages of boards arrive complete and in order; messages on other topics, or too long, are
// dropped.
func TestMessages(t *testing.T) {
	h := newFakeBroker(t)
	r := newRig(t, Options{URL: h.url(), MaxMessage: 1000}, nil)
	h.joined("patchbay", 1)
	r.until("up", "", 1)
	b := dialBoard(t, h.l.Addr().String(), name2, "", "")
	h.publishText("device-server/"+name2, "from yesterday", true)
	b.publish("device-server", "to nobody")
	b.publish("device-server/stranger", "from nobody")
	b.publish("device-server/"+name2+"/x", "deeper") // matches no subscription
	b.say("")
	r.next("connected")
	b.say(strings.Repeat("x", 1001))
	b.say(strings.Repeat("x", 1<<20))
	for i := range 100 {
		b.say(fmt.Sprint(i, strings.Repeat("x", 900)))
		if e := r.next("message"); e.text != fmt.Sprint(i, strings.Repeat("x", 900)) || e.conn.ID() != mac2 {
			t.Fatalf("message %d: %s", i, e.text)
		}
	}
	for reason, want := range map[string]int{"retained": 1, "topic": 1, "length": 2, "empty": 1, "rate": 0} {
		if got := r.count("dropped_messages_total", reason); got != want {
			t.Errorf("%d dropped because of %s, want %d", got, reason, want)
		}
	}
	if in := r.count("messages_total", "in"); in != 100 {
		t.Errorf("%d messages counted", in)
	}
}

// A slow session does not delay other boards, and loses the oldest messages; messages above the
// rate are dropped.
func TestSlow(t *testing.T) {
	h := newFakeBroker(t)
	r := newRig(t, Options{URL: h.url(), Burst: maxQueue + 20, Rate: 0.001}, nil)
	r.until("up", "", 1)
	slow := dialBoard(t, h.l.Addr().String(), name1, "", "")
	quick := dialBoard(t, h.l.Addr().String(), name2, "", "")
	hold := make(chan struct{})
	r.hold = hold
	slow.say("0")
	r.next("connected")
	r.until("messages_total", "in", 1) // the session handles it
	for i := range maxQueue + 30 {
		slow.say(fmt.Sprint(i + 1))
	}
	r.until("dropped_messages_total", "rate", 11)
	r.mu.Lock()
	r.hold = nil
	r.mu.Unlock()
	quick.say("hello")
	r.next("connected")
	if e := r.next("message"); e.text != "hello" {
		t.Errorf("%s", e.text)
	}
	close(hold)
	if e := r.next("message"); e.text != "0" {
		t.Errorf("%s", e.text)
	}
	if e := r.next("message"); e.text != "20" { // the last 64 of 1 to 83
		t.Errorf("the first after those that were dropped is %s", e.text)
	}
	if n := r.count("dropped_messages_total", "slow"); n != 19 {
		t.Errorf("%d dropped", n)
	}
}

// Unapproved boards get no session, and are not looked up each time; a closed board gets a new
// session when it sends something.
func TestStrangers(t *testing.T) {
	h := newFakeBroker(t)
	r := newRig(t, Options{URL: h.url(), MaxConns: 1}, nil)
	r.until("up", "", 1)
	r.mu.Lock()
	r.unknown[mac1] = true
	r.mu.Unlock()
	stranger := dialBoard(t, h.l.Addr().String(), name1, "", "")
	stranger.say("let me in")
	r.until("refused_total", "unknown", 1)
	eventually(t, "the stranger leaves", func() bool {
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		return r.c.connCount == 0
	})
	for range 10 {
		stranger.say("let me in")
	}
	r.until("dropped_messages_total", "unknown", 10)
	if r.lookups != 1 {
		t.Errorf("%d lookups", r.lookups)
	}
	friend := dialBoard(t, h.l.Addr().String(), name2, "", "")
	friend.say("hello")
	first := r.next("connected").conn
	r.next("message")
	other := dialBoard(t, h.l.Addr().String(), "aa_bb_cc_dd_ee_03", "", "")
	other.say("hello")
	r.until("refused_total", "full", 1)
	first.Close()
	if e := r.next("gone"); !errors.Is(e.err, mqtt.ErrClosed) {
		t.Errorf("gone: %v", e.err)
	}
	eventually(t, "it has left", func() bool {
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		return r.c.connCount == 0
	})
	friend.say("again")
	if again := r.next("connected").conn; again == first {
		t.Error("the same Conn")
	}
	r.next("message")
}

// The old session of a board has ended before a new one begins, however long it takes.
func TestTurns(t *testing.T) {
	h := newFakeBroker(t)
	r := newRig(t, Options{URL: h.url()}, nil)
	r.until("up", "", 1)
	hold := make(chan struct{})
	r.hold = hold
	b := dialBoard(t, h.l.Addr().String(), name1, "", "")
	b.say("1")
	first := r.next("connected").conn
	r.until("messages_total", "in", 1)
	first.Close()
	b.say("2")
	eventually(t, "the next one waits", func() bool {
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		return r.c.connCount == 2
	})
	close(hold)
	for _, want := range []string{"message", "gone", "connected", "message"} {
		r.next(want)
	}
}

// A short loss of the connection ends no session, and messages wait meanwhile; a long loss ends all
// sessions.
func TestLoss(t *testing.T) {
	h := newFakeBroker(t)
	r := newRig(t, Options{URL: h.url()}, nil)
	r.until("up", "", 1)
	b := dialBoard(t, h.l.Addr().String(), name1, "", "")
	b.say("hello")
	conn := r.next("connected").conn
	r.next("message")
	h.cut("patchbay")
	h.joined("patchbay", 2)
	r.until("up", "", 1)
	r.next("probe") // after a reconnect, each board is probed
	if err := conn.Push([]byte("still there?")); err != nil {
		t.Fatal(err)
	}
	if text := b.hear(); text != "still there?" {
		t.Errorf("%s", text)
	}

	r.c.mu.Lock()
	r.c.timings.grace = 50 * time.Millisecond
	r.c.mu.Unlock()
	addr := h.l.Addr().String()
	h.close()
	r.until("up", "", 0)
	if err := conn.Push([]byte("to nobody")); err != nil {
		t.Errorf("a push while the broker is away: %v", err)
	}
	if e := r.next("gone"); !errors.Is(e.err, ErrBrokerUnreachable) {
		t.Errorf("gone: %v", e.err)
	}
	if _, waits := r.c.outbox.take(); waits {
		t.Error("what was pushed waits for the next session")
	}
	h.listen(addr)
	r.until("up", "", 1)
	b = dialBoard(t, addr, name1, "", "")
	b.say("hello")
	again := r.next("connected").conn
	r.next("message")
	if err := again.Push([]byte("welcome")); err != nil {
		t.Fatal(err)
	}
	if text := b.hear(); text != "welcome" {
		t.Errorf("%s", text)
	}
}

// A broker that accepts no data causes neither blocking nor unlimited memory.
func TestFull(t *testing.T) {
	r := newRig(t, Options{URL: "mqtt://127.0.0.1:1"}, nil)
	r.c.mu.Lock()
	conn := r.c.connFor(mac1, name1)
	r.c.mu.Unlock()
	r.next("connected")
	var err error
	n := 0
	for ; err == nil && n < 10_000; n++ {
		err = conn.Push(make([]byte, 10_000))
	}
	if !errors.Is(err, mqtt.ErrSlow) || n != maxOutbox/10_000+1 {
		t.Errorf("push %d: %v", n, err)
	}
	if e := r.next("gone"); !errors.Is(e.err, mqtt.ErrSlow) {
		t.Errorf("gone: %v", e.err)
	}
}

// Of several instances one has the lease and the connection, and another one takes over when it
// loses the lease.
func TestHold(t *testing.T) {
	h := newFakeBroker(t)
	var holder atomic.Int32
	holder.Store(1)
	var released atomic.Int32
	instance := func(n int32) *rig {
		return newRig(t, Options{
			URL: h.url(),
			AcquireLease: func(context.Context, time.Duration) (bool, error) {
				return holder.CompareAndSwap(0, n) || holder.Load() == n, nil
			},
			ReleaseLease: func(context.Context) error {
				released.Add(1)
				holder.CompareAndSwap(n, 0)
				return nil
			},
		}, func(c *Client) { c.timings.lease = 30 * time.Millisecond })
	}
	one, two := instance(1), instance(2)
	one.until("up", "", 1)
	b := dialBoard(t, h.l.Addr().String(), name1, "", "")
	b.say("hello")
	one.next("connected")
	one.next("message")
	if two.c.IsConnected() {
		t.Error("both are connected")
	}
	holder.Store(2)
	if e := one.next("gone"); !errors.Is(e.err, ErrOtherInstance) {
		t.Errorf("gone: %v", e.err)
	}
	two.until("up", "", 1)
	b.say("hello")
	two.next("connected")
	two.next("message")
	one.until("up", "", 0)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := two.c.Shutdown(ctx); err != nil || released.Load() != 1 {
		t.Errorf("shutdown: %v, released %d times", err, released.Load())
	}
	if e := two.next("gone"); !errors.Is(e.err, mqtt.ErrShutdown) {
		t.Errorf("gone: %v", e.err)
	}
	one.until("up", "", 1)
	b.say("hello")
	one.next("connected")
	one.stop()
	<-one.ended
}

// Messages that were pushed before the end are sent; Shutdown does not wait for a hanging session
// beyond its context.
func TestShutdown(t *testing.T) {
	h := newFakeBroker(t)
	r := newRig(t, Options{URL: h.url()}, nil)
	r.until("up", "", 1)
	hold := make(chan struct{})
	b := dialBoard(t, h.l.Addr().String(), name1, "", "")
	b.say("hello")
	conn := r.next("connected").conn
	r.next("message")
	r.mu.Lock()
	r.hold = hold
	r.mu.Unlock()
	b.say("hang")
	r.until("messages_total", "in", 2)
	for i := range 500 {
		if err := conn.Push(fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.c.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown with a session that hangs: %v", err)
	}
	close(hold)
	<-r.ended
	if err := r.c.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for i := range 500 {
		if text := b.hear(); text != fmt.Sprint(i) {
			t.Fatalf("%s, want %d", text, i)
		}
	}
	idle, err := New(Options{URL: h.url()})
	if err != nil {
		t.Fatal(err)
	}
	if err := idle.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown before run: %v", err)
	}
	idle.Run(t.Context())
}

// A broker that refuses the subscription to the boards' messages is an error; one that refuses
// presence events is not.
func TestRefusedSubscription(t *testing.T) {
	h := newFakeBroker(t)
	h.refuse = "device-server"
	r := newRig(t, Options{URL: h.url(), Events: true}, nil)
	eventually(t, "two tries", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.joins["patchbay"] >= 2
	})
	if r.c.IsConnected() {
		t.Error("it counts as connected")
	}
	h.mu.Lock()
	h.refuse = "$SYS"
	h.mu.Unlock()
	r.until("up", "", 1)
}

// A broker that accepts a connection and does not respond does not keep Run from ending.
func TestMute(t *testing.T) {
	h := newFakeBroker(t)
	h.mu.Lock()
	h.mute = true
	h.mu.Unlock()
	r := newRig(t, Options{URL: h.url()}, nil)
	eventually(t, "a try", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.joins["patchbay"] > 0
	})
	begin := time.Now()
	r.stop()
	<-r.ended
	if took := time.Since(begin); took > connectTimeout/2 {
		t.Errorf("Run ends after %v", took)
	}
}
