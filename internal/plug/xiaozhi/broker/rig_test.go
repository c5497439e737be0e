package broker

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/eclipse/paho.mqtt.golang/packets"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/plug/xiaozhi/mqtt"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
)

// patience is the timeout for what happens soon, on a busy machine.
const patience = 20 * time.Second

// Two boards and their client ids.
const (
	mac1  = "aa:bb:cc:dd:ee:01"
	name1 = "GID@@@aa_bb_cc_dd_ee_01@@@11111111-1111-4111-8111-111111111111"
	name2 = "aa_bb_cc_dd_ee_02" // the short form
	mac2  = "aa:bb:cc:dd:ee:02"
)

// fakeBroker is a broker that subscribes boards by itself, as EMQX does, and that tests can make
// fail. TestMosquitto uses a real one.
type fakeBroker struct {
	t    testing.TB
	l    net.Listener
	http *httptest.Server // for MQTT over WebSocket
	mute bool             // CONNECT gets no response
	wg   sync.WaitGroup

	mu      sync.Mutex
	refuse  string // a filter whose subscription is refused
	members map[string]*member
	joins   map[string]int // connections by client id
}

// member is a client of the broker.
type member struct {
	conn    net.Conn
	mu      sync.Mutex // for writes
	filters []string
}

func newFakeBroker(t testing.TB) *fakeBroker {
	t.Helper()
	h := &fakeBroker{t: t, members: map[string]*member{}, joins: map[string]int{}}
	h.listen("127.0.0.1:0")
	h.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mqtt"}})
		if err == nil {
			h.serve(websocket.NetConn(context.Background(), ws, websocket.MessageBinary))
		}
	}))
	t.Cleanup(func() {
		h.close()
		h.http.Close()
	})
	return h
}

func (h *fakeBroker) listen(addr string) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		h.t.Fatal(err)
	}
	h.l = l
	h.accept(l)
}

// accept serves clients until the test ends.
func (h *fakeBroker) accept(l net.Listener) {
	h.t.Cleanup(func() { _ = l.Close() })
	h.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h.wg.Go(func() { h.serve(conn) })
		}
	})
}

// close ends the broker and all connections.
func (h *fakeBroker) close() {
	_ = h.l.Close()
	h.mu.Lock()
	for _, m := range h.members {
		_ = m.conn.Close()
	}
	h.mu.Unlock()
	h.wg.Wait()
}

func (h *fakeBroker) url() string { return "mqtt://" + h.l.Addr().String() }

// cut ends the connection of a client.
func (h *fakeBroker) cut(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.members[name].conn.Close()
}

// joined waits until a client has connected and subscribed a number of times.
func (h *fakeBroker) joined(name string, times int) {
	h.t.Helper()
	eventually(h.t, name+" joins", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		m := h.members[name]
		return h.joins[name] >= times && m != nil && len(m.filters) > 0
	})
}

func (h *fakeBroker) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // the connection has ended
	p, err := packets.ReadPacket(conn)
	if err != nil {
		return
	}
	hello, ok := p.(*packets.ConnectPacket)
	if !ok {
		h.t.Error("no CONNECT")
		return
	}
	name, m := hello.ClientIdentifier, &member{conn: conn}
	h.mu.Lock()
	if old := h.members[name]; old != nil {
		_ = old.conn.Close()
	}
	h.members[name] = m
	h.joins[name]++
	mute := h.mute
	if _, board := identify(name); board {
		m.filters = []string{"devices/p2p/" + name}
	}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		if h.members[name] == m {
			delete(h.members, name)
		}
		h.mu.Unlock()
	}()
	if !mute {
		m.write(packets.NewControlPacket(packets.Connack))
	}
	for {
		p, err := packets.ReadPacket(conn)
		if err != nil {
			return
		}
		switch p := p.(type) {
		case *packets.SubscribePacket:
			ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
			ack.MessageID = p.MessageID
			h.mu.Lock()
			for _, f := range p.Topics {
				if h.refuse != "" && strings.Contains(f, h.refuse) {
					ack.ReturnCodes = append(ack.ReturnCodes, 0x80)
					continue
				}
				m.filters = append(m.filters, f)
				ack.ReturnCodes = append(ack.ReturnCodes, 0)
			}
			h.mu.Unlock()
			m.write(ack)
		case *packets.PublishPacket:
			h.publish(p)
		case *packets.PingreqPacket:
			m.write(packets.NewControlPacket(packets.Pingresp))
		}
	}
}

func (h *fakeBroker) publish(p *packets.PublishPacket) {
	h.mu.Lock()
	var to []*member
	for _, m := range h.members {
		if slices.ContainsFunc(m.filters, func(f string) bool { return matches(f, p.TopicName) }) {
			to = append(to, m)
		}
	}
	h.mu.Unlock()
	for _, m := range to {
		m.write(p)
	}
}

// publishText publishes a message without a sender.
func (h *fakeBroker) publishText(topic, payload string, retained bool) {
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.TopicName, p.Payload, p.Retain = topic, []byte(payload), retained
	h.publish(p)
}

func (m *member) write(p packets.ControlPacket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = p.Write(m.conn)
}

func matches(filter, topic string) bool {
	f, t := strings.Split(filter, "/"), strings.Split(topic, "/")
	if len(f) != len(t) {
		return false
	}
	for i := range f {
		if f[i] != "+" && f[i] != t[i] {
			return false
		}
	}
	return true
}

// sessionEvent is a call of a session.
type sessionEvent struct {
	what string // "connected", "message", "probe", "gone"
	conn *Conn
	text string
	err  error
}

// rig is a client at a broker.
type rig struct {
	t      testing.TB
	c      *Client
	reg    *prometheus.Registry
	events chan sessionEvent
	ended  chan struct{}
	stop   context.CancelFunc

	mu      sync.Mutex
	unknown map[string]bool
	lookups int
	hold    chan struct{} // Message waits for it; nil: it does not wait
	bare    bool          // sessions do not implement Prober
}

func newRig(t testing.TB, opt Options, change func(*Client)) *rig {
	t.Helper()
	r := &rig{t: t, reg: prometheus.NewRegistry(), events: make(chan sessionEvent, 10_000), unknown: map[string]bool{}}
	opt.Registerer, opt.NewSession = r.reg, r.connected
	opt.IsApproved = func(_ context.Context, id, _ string) (bool, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lookups++
		return !r.unknown[id], nil
	}
	c, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	c.timings.firstRetry, c.timings.maxRetry = time.Millisecond, 50*time.Millisecond
	if change != nil {
		change(c)
	}
	r.c = c
	r.run()
	return r
}

// run starts the client. It ends with the test, and must leave no goroutine.
func (r *rig) run() {
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.ended = stop, make(chan struct{})
	go func() {
		defer close(r.ended)
		r.c.Run(ctx)
	}()
	r.t.Cleanup(func() {
		stop()
		select {
		case <-r.ended:
		case <-time.After(patience):
			r.t.Error("Run does not end")
			return
		}
		if n := r.c.queuedBytes.Load(); n != 0 {
			r.t.Errorf("%d bytes wait for nobody", n)
		}
		// The goroutines of the MQTT library end a little later.
		eventually(r.t, "the client's goroutines end", func() bool {
			buf := make([]byte, 1<<20)
			stacks := string(buf[:runtime.Stack(buf, true)])
			return !strings.Contains(stacks, "broker.(*C") &&
				!strings.Contains(stacks, "eclipse/paho.mqtt.golang.(*client)")
		})
	})
}

func (r *rig) connected(c *Conn) mqtt.Session {
	r.events <- sessionEvent{what: "connected", conn: c}
	if s := (session{r, c}); !r.bare {
		return prober{s}
	}
	return session{r, c}
}

type session struct {
	r *rig
	c *Conn
}

func (s session) Message(payload []byte) {
	s.r.mu.Lock()
	hold := s.r.hold
	s.r.mu.Unlock()
	if hold != nil {
		<-hold
	}
	s.r.events <- sessionEvent{what: "message", conn: s.c, text: string(payload)}
}

func (s session) Closed(err error) { s.r.events <- sessionEvent{what: "gone", conn: s.c, err: err} }

type prober struct{ session }

func (p prober) Probe() { p.r.events <- sessionEvent{what: "probe", conn: p.c} }

// next returns the next event, which must be what.
func (r *rig) next(what string) sessionEvent {
	r.t.Helper()
	select {
	case e := <-r.events:
		if e.what != what {
			r.t.Fatalf("%s %q %v of %v, want %s", e.what, e.text, e.err, e.conn.ID(), what)
		}
		return e
	case <-time.After(patience):
		r.t.Fatalf("not %s", what)
	}
	return sessionEvent{}
}

// count returns a metric; label is the value of its label, if it has one.
func (r *rig) count(name, label string) int {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "patchbay_broker_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); len(l) == 0 || l[len(l)-1].GetValue() == label {
				return int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			}
		}
	}
	return 0
}

func (r *rig) until(name, label string, want int) {
	r.t.Helper()
	eventually(r.t, name+" "+label, func() bool { return r.count(name, label) == want })
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(patience); time.Now().Before(limit); <-tick.C {
		if is() {
			return
		}
	}
	t.Fatalf("not in time: %s", what)
}

// board is a board connected to the broker, driven by the test.
type board struct {
	t    testing.TB
	conn net.Conn
	name string
}

func dialBoard(t testing.TB, addr, name, user, password string) *board {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(3 * patience))
	p := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	p.ProtocolName, p.ProtocolVersion, p.CleanSession, p.ClientIdentifier, p.Keepalive = "MQTT", 4, true, name, 240
	if user != "" {
		p.UsernameFlag, p.Username, p.PasswordFlag, p.Password = true, user, true, []byte(password)
	}
	if err := p.Write(conn); err != nil {
		t.Fatal(err)
	}
	if ack, err := packets.ReadPacket(conn); err != nil || ack.(*packets.ConnackPacket).ReturnCode != 0 {
		t.Fatalf("CONNACK: %v %v", ack, err)
	}
	return &board{t, conn, name}
}

func (b *board) publish(topic, payload string) {
	b.t.Helper()
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.TopicName, p.Payload = topic, []byte(payload)
	if err := p.Write(b.conn); err != nil {
		b.t.Fatal(err)
	}
}

// say publishes to the board's own topic.
func (b *board) say(payload string) { b.t.Helper(); b.publish("device-server/"+b.name, payload) }

// hear returns the next message to the board.
func (b *board) hear() string {
	b.t.Helper()
	p, err := packets.ReadPacket(b.conn)
	if err != nil {
		b.t.Fatal(err)
	}
	m, ok := p.(*packets.PublishPacket)
	if !ok || m.TopicName != "devices/p2p/"+b.name || m.Qos != 0 || m.Retain {
		b.t.Fatalf("%v", p)
	}
	return string(m.Payload)
}

// realBoard makes a board that behaves like firmware and uses a given broker.
func realBoard(t *testing.T, endpoint, name, user, password string) *sim.Board {
	t.Helper()
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a := wire.OTAResponse{
			Time:     &wire.ServerTime{Timestamp: time.Now().UnixMilli()},
			Firmware: wire.Firmware{Version: "2.4.2"},
			MQTT: &wire.MQTTConfig{Endpoint: endpoint, ClientID: name, Username: user, Password: password,
				Publish: DefaultPublishPrefix + "/" + name, Subscribe: "null",
				Keepalive: int(wire.DefaultKeepalive.Seconds())},
		}
		body, err := a.Marshal()
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(home.Close)
	id, _ := identify(name)
	b := sim.New(sim.Options{OTA: home.URL + "/", MAC: id, Scale: 0.001, Slack: patience})
	t.Cleanup(b.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Boot(ctx); err != nil {
		t.Fatal(err)
	}
	return b
}

// lockedBuilder records log output.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedBuilder) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
