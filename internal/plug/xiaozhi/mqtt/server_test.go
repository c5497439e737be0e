package mqtt

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Each CONNECT gets the right return code, and only accepted clients get a session.
func TestConnect(t *testing.T) {
	long := string(make([]byte, maxConnect))
	for _, c := range []struct {
		name string
		send []byte
		code int // -1: closed without a CONNACK
		why  string
	}{
		{"3.1.1", packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "id", "board", "secret")), 0, ""},
		{"3.1", packet(kindConnect, 0, connectBody("MQIsdp", 3, 0xc2, 240, "id", "board", "secret")), 0, ""},
		{"a session that is not clean", packet(kindConnect, 0,
			connectBody("MQTT", 4, 0xc0, 0, "id", "board", "secret")), 0, ""},
		{"a will", packet(kindConnect, 0, connectBody("MQTT", 4, 0xee, 0, "id", "topic", "dead", "board", "secret")), 0,
			""},
		{"5", packet(kindConnect, 0, connectBody("MQTT", 5, 0xc2, 240, "id", "board", "secret")), 1, "version"},
		{"no client id", packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "", "board", "secret")), 2,
			"client_id"},
		{"no database", packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "id", "board", "broken")), 3,
			"unavailable"},
		{"an id for two topics", packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "id", "a/b", "secret")), 3,
			"unavailable"},
		{"a bad password", packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "id", "board", "guess")), 4,
			"credentials"},
		{"nobody", packet(kindConnect, 0, connectBody("MQTT", 4, 0x02, 240, "id")), 4, "credentials"},
		{"forbidden", packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "id", "board", "forbidden")), 5,
			"forbidden"},
		{"a reserved flag", packet(kindConnect, 0, connectBody("MQTT", 4, 0xc3, 240, "id", "board", "secret")), -1,
			"malformed"},
		{"a password without a user", packet(kindConnect, 0, connectBody("MQTT", 4, 0x42, 240, "id", "secret")), -1,
			"malformed"},
		{"a will's flag without a will", packet(kindConnect, 0,
			connectBody("MQTT", 4, 0xe2, 240, "id", "board", "secret")), -1, "malformed"},
		{"too many texts", packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "id", "board", "secret", "more")),
			-1, "malformed"},
		{"too few texts", packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "id", "board")), -1, "malformed"},
		{"no UTF-8", packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "\xff", "board", "secret")), -1,
			"malformed"},
		{"too long", appendHead(nil, kindConnect, 0, maxConnect+1), -1, "malformed"},
		{"long", packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, long[:maxConnect], "board", "secret"))[:5],
			-1, "malformed"},
		{"a ping first", []byte{kindPingReq << 4, 0}, -1, "malformed"},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n"), -1, "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Options{}, nil)
			b := r.dial()
			b.send(c.send)
			switch {
			case c.code < 0:
				b.closed()
			case c.code > 0:
				b.expect([]byte{kindConnAck << 4, 2, 0, byte(c.code)})
				b.closed()
			default:
				b.expect(connAck)
				if e := r.next("connected"); e.conn.ID() != "board" || e.conn.client != "id" ||
					!e.conn.RemoteAddr().IsValid() {
					t.Errorf("id %q, client %q, from %v", e.conn.ID(), e.conn.client, e.conn.RemoteAddr())
				}
				return
			}
			r.untilNone()
			if len(r.events) > 0 {
				t.Errorf("a session: %v", <-r.events)
			}
			if r.count("refused_total", c.why) != 1 {
				t.Errorf("not counted as %s", c.why)
			}
		})
	}
}

// until waits for a condition on state guarded by the server's mutex.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(patience); time.Now().Before(limit); <-tick.C {
		r.s.mu.Lock()
		yes := is()
		r.s.mu.Unlock()
		if yes {
			return
		}
	}
	r.t.Fatalf("not %s", what)
}

func (r *rig) untilNone() {
	r.t.Helper()
	r.until("without connections", func() bool { return len(r.s.conns) == 0 })
}

// A board gets pushes without a subscription, and is heard on its topic only; requests of other
// clients are answered. Also over TLS.
func TestConversation(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run("tls "+strconv.FormatBool(secure), func(t *testing.T) {
			var conf *tls.Config
			if secure {
				conf = certificate(t)
			}
			r := newRig(t, Options{}, conf)
			b, conn := r.board("aa:bb:cc:dd:ee:ff")
			const topic = "devices/p2p/aa_bb_cc_dd_ee_ff"
			if conn.Topic() != topic {
				t.Errorf("topic %q", conn.Topic())
			}
			for _, n := range []int{0, 1, 100, 200, 20_000, MaxPush} {
				payload := bytes.Repeat([]byte{'p'}, n)
				if err := conn.Push(payload); err != nil {
					t.Fatal(err)
				}
				b.expect(message(topic, string(payload)))
			}
			if err := conn.Push(make([]byte, MaxPush+1)); !errors.Is(err, ErrTooLong) {
				t.Errorf("a long push: %v", err)
			}
			b.send([]byte{kindPingReq << 4, 0})
			b.expect([]byte{kindPingResp << 4, 0})

			b.send(message("device-server", "one"))
			b.send(message("devices/p2p/11_22_33_44_55_66", "for somebody else"))
			b.send(message("device-server", longText))
			b.send(packet(kindPublish, 2, append(appendText(nil, "device-server"), "\x01\x02two"...)))
			b.send(packet(kindPublish, 3, append(appendText(nil, "elsewhere"), "\x01\x03lost"...)))
			b.send(message("device-server", "three"))
			for _, want := range []string{"one", "two", "three"} {
				if e := r.next("message"); e.text != want {
					t.Errorf("message %q, want %q", e.text, want)
				}
			}
			b.expect([]byte{kindPubAck << 4, 2, 1, 2})
			b.expect([]byte{kindPubAck << 4, 2, 1, 3})
			if r.count("dropped_messages_total", "topic") != 2 || r.count("dropped_messages_total", "length") != 1 {
				t.Error("what was dropped is not counted")
			}

			filters := append([]byte{0, 9}, appendText(nil, "#")...)
			filters = append(appendText(append(filters, 0), topic), 1)
			filters = append(appendText(filters, "devices/p2p/+"), 0)
			b.send(packet(kindSubscribe, 2, filters))
			b.expect([]byte{kindSubAck << 4, 5, 0, 9, 0x80, 0, 0x80})
			b.send(packet(kindUnsubscribe, 2, append([]byte{0, 10}, appendText(nil, topic)...)))
			b.expect([]byte{kindUnsubAck << 4, 2, 0, 10})
			b.send(message("device-server", "echo"))
			b.expect(message(topic, "echoed"))
			r.next("message")

			b.send([]byte{kindDisconnect << 4, 0})
			if e := r.next("gone"); e.err != nil {
				t.Errorf("after DISCONNECT: %v", e.err)
			}
			b.closed()
			if err := conn.Push([]byte("late")); !errors.Is(err, ErrClosed) {
				t.Errorf("a push after the end: %v", err)
			}
		})
	}
}

// Packets that are not valid MQTT end the connection.
func TestProtocol(t *testing.T) {
	for name, p := range map[string][]byte{
		"QoS 2":                packet(kindPublish, 4, append(appendText(nil, "device-server"), 0, 1)),
		"QoS 3":                packet(kindPublish, 6, append(appendText(nil, "device-server"), 0, 1)),
		"QoS 1 without an id":  packet(kindPublish, 2, append(appendText(nil, "device-server"), 0, 0)),
		"no topic":             packet(kindPublish, 0, []byte{0, 0, 'x'}),
		"half a topic":         packet(kindPublish, 0, []byte{0, 9, 'x'}),
		"a second CONNECT":     packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, 240, "id", "board", "secret")),
		"a length of 64 KiB":   appendHead(nil, kindPublish, 0, MaxPacket+1),
		"an endless length":    {kindPublish << 4, 0x80, 0x80, 0x80, 0x80, 0x80},
		"an empty PUBLISH":     {kindPublish << 4, 0},
		"a PINGRESP":           {kindPingResp << 4, 0},
		"a strange ping":       {kindPingReq<<4 | 1, 0},
		"an empty SUBSCRIBE":   packet(kindSubscribe, 2, []byte{0, 1}),
		"a strange SUBSCRIBE":  packet(kindSubscribe, 0, []byte{0, 1, 0, 1, 'a', 0}),
		"an empty UNSUBSCRIBE": packet(kindUnsubscribe, 2, []byte{0, 1}),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{}, nil)
			b, _ := r.board("board")
			b.send(p)
			b.closed()
			if e := r.next("gone"); !errors.Is(e.err, ErrProtocol) {
				t.Errorf("gone: %v", e.err)
			}
			if r.count("closed_total", "protocol") != 1 {
				t.Error("not counted")
			}
		})
	}
}

// Silent strangers do not take all connections, and the number of connections is limited.
func TestFull(t *testing.T) {
	r := newRig(t, Options{MaxConns: 3, MaxPending: 1}, nil)
	stranger := r.dial()
	r.until("taken", func() bool { return r.s.pending == 1 })
	r.dial().closed()
	_ = stranger.conn.Close()
	r.untilNone()
	for i := range 3 {
		r.board("board" + strconv.Itoa(i))
	}
	r.dial().closed()
	if r.count("refused_total", "full") != 2 || r.count("connections", "") != 3 {
		t.Errorf("%v refused, %v connections", r.count("refused_total", "full"), r.count("connections", ""))
	}
}

// Silent clients are disconnected after one and a half times the keepalive, and fast ones are read
// at the rate.
func TestClocks(t *testing.T) {
	for _, c := range []struct {
		name  string
		after func(conn io.ReadWriter) // sends something, or nothing
		want  time.Duration            // until the end
		err   error                    // of the session's end; nil: no session
	}{
		{"no CONNECT", func(io.ReadWriter) {}, 10 * time.Second, nil},
		{"half a CONNECT", func(w io.ReadWriter) { send(w, connectFor("a", 60)[:9]) }, 10 * time.Second, nil},
		{"silence", func(w io.ReadWriter) { arrive(w, 60) }, 90 * time.Second, ErrSilent},
		{"no keepalive", func(w io.ReadWriter) { arrive(w, 0) }, time.Hour, ErrSilent},
		{"half a packet", func(w io.ReadWriter) {
			arrive(w, 60)
			send(w, []byte{kindPublish << 4, 100, 0})
		}, 10 * time.Second, ErrSilent},
		{"pings", func(w io.ReadWriter) {
			arrive(w, 60)
			for range 5 {
				time.Sleep(89 * time.Second)
				send(w, []byte{kindPingReq << 4, 0})
				_, _ = io.ReadFull(w, make([]byte, 2))
			}
		}, (5*89 + 90) * time.Second, ErrSilent},
		{"a flood", func(w io.ReadWriter) {
			arrive(w, 60)
			for range 200 + 500 { // the burst, and ten seconds
				send(w, message("device-server", "x"))
			}
			send(w, []byte{kindDisconnect << 4, 0})
		}, 10 * time.Second, errors.New("goodbye")},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				s := New(Options{Auth: byPassword, NewSession: func(*Conn) Session { return ender(ended) }})
				l := newPipes()
				served := make(chan error, 1)
				go func() { served <- s.Serve(t.Context(), l, nil) }()
				conn := l.dial()
				begin := time.Now()
				c.after(conn)
				_, _ = io.ReadAll(conn)
				if took := time.Since(begin); took < c.want-50*time.Millisecond || took > c.want+50*time.Millisecond {
					t.Errorf("it took %v, want %v", took, c.want)
				}
				if c.err != nil {
					if err := <-ended; errors.Is(c.err, ErrSilent) != errors.Is(err, ErrSilent) {
						t.Errorf("gone: %v", err)
					}
				}
				if err := s.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

type ender chan error

func (ender) Message([]byte)     {}
func (e ender) Closed(err error) { e <- err }

func connectFor(id string, keepalive uint16) []byte {
	return packet(kindConnect, 0, connectBody("MQTT", 4, 0xc2, keepalive, "GID", id, "secret"))
}

func send(w io.Writer, p []byte) { _, _ = w.Write(p) }

func arrive(w io.ReadWriter, keepalive uint16) {
	send(w, connectFor("board", keepalive))
	ack := make([]byte, 4)
	if _, err := io.ReadFull(w, ack); err != nil || !bytes.Equal(ack, connAck) {
		panic(fmt.Sprintf("%x %v", ack, err))
	}
}

// Pushing and reading do not allocate. Not tested with the race detector, under which sync.Pool
// drops items.
func TestAllocations(t *testing.T) {
	if raced {
		t.Skip("the race detector is on")
	}
	r := newRig(t, Options{NewSession: func(c *Conn) Session { return echo{c} }, Rate: 1e9, Burst: 1e9}, nil)
	b := r.dial()
	b.send(connectFor("board", 60))
	b.expect(connAck)
	out := message("device-server", "0123456789")
	in := make([]byte, len(message(TopicPrefix+"board", "0123456789")))
	allocs := testing.AllocsPerRun(500, func() {
		b.send(out)
		if _, err := io.ReadFull(b.conn, in); err != nil {
			t.Fatal(err)
		}
	})
	if allocs >= 1 {
		t.Errorf("%v allocations for a message and its answer", allocs)
	}
}

type echo struct{ c *Conn }

func (e echo) Message(p []byte) { _ = e.c.Push(p) }
func (echo) Closed(error)       {}
