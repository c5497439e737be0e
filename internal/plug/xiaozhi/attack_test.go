package xiaozhi_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
)

// attack is a server under attack, while a well-behaved board talks to it.
type attack struct {
	*testServer
	reg    *prometheus.Registry
	ctx    context.Context
	at     string // address of the MQTT server
	victim *sim.Board
}

// attacked runs an attack. Meanwhile a well-behaved board has one conversation after the other, and
// must not observe any violation. Afterwards nothing of the boards may be left.
func attacked(t *testing.T, mqtt bool, silence time.Duration, f func(a *attack)) {
	t.Helper()
	ctx := limit(t, 60*time.Second)
	reg, at := prometheus.NewRegistry(), ""
	h := newTestServer(t, testServerOptions{
		mqtt: mqtt, boards: func(o *xiaozhi.Options) {
			o.Registerer, o.SilenceTimeout, o.ButtonTimeout = reg, silence,
				silence
		},
		home: func(o *xiaozhi.DiscoveryOptions) { o.Keepalive, at = 2*time.Second, "127.0.0.1"+o.MQTT },
	})
	http.DefaultClient.CloseIdleConnections()
	base := running()
	a := &attack{testServer: h, reg: reg, ctx: ctx, at: at, victim: h.device(sim.Options{Steady: true,
		Profile: sim.FW25})}
	must(t, a.victim.Boot(ctx))
	if _, err := a.victim.Ask(ctx, sim.No()); err != nil {
		t.Fatal(err)
	}
	talking, quiet := context.WithCancel(ctx)
	var conv sync.WaitGroup
	asked := 0
	conv.Go(func() {
		for talking.Err() == nil {
			if _, err := a.victim.Ask(talking, sim.No()); err != nil && talking.Err() == nil {
				t.Errorf("the innocent board: %v", err)
				return
			}
			asked++
		}
	})
	f(a)
	quiet()
	conv.Wait()
	clean(t, a.victim)
	a.victim.Close()
	t.Logf("%d questions meanwhile", asked)
	a.settle(base)
}

// settle waits until no board is connected, no conversation is active, and no goroutine is left
// that did not run before.
func (a *attack) settle(base int) {
	a.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		http.DefaultClient.CloseIdleConnections()
		boards, talks, routines := a.sum("patchbay_xiaozhi_boards"), a.sum("patchbay_xiaozhi_conversations"), running()
		if boards == 0 && talks == 0 && routines <= base {
			return
		}
		select {
		case <-tick.C:
		case <-a.ctx.Done():
			buf := make([]byte, 1<<20)
			a.t.Fatalf("%v boards, %v conversations and %d goroutines are left, of which %d were there before\n%s",
				boards, talks, routines, base, buf[:runtime.Stack(buf, true)])
		}
	}
}

// running returns the number of goroutines, without the simulator's meters, which run until the
// test ends.
func running() int {
	buf := make([]byte, 1<<20)
	all := string(buf[:runtime.Stack(buf, true)])
	return strings.Count(all, "\ngoroutine ") - strings.Count(all, "sim.(*Meter).run(")
}

// sum returns the sum of a metric over its labels.
func (a *attack) sum(name string) (sum float64) {
	a.t.Helper()
	families, err := a.reg.Gather()
	must(a.t, err)
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// approved makes an approved device of ada's, without a simulated board.
func (h *testServer) approved(mac string) store.Device {
	h.t.Helper()
	_, code, err := h.Accounts.DeviceSeen(ctx, store.DeviceCall{Kind: xiaozhi.Kind, Hardware: mac, Client: uuid1,
		Article: "raw", Version: "2.4.2"})
	must(h.t, err)
	d, err := h.Accounts.ApproveByCode(ctx, account.NewDevice{Person: h.Person.ID, Code: code, Bot: h.bot.Number})
	must(h.t, err)
	return d
}

// dial opens a WebSocket for a device, with a token.
func (h *testServer) dial(ctx context.Context, d store.Device, token string, framing int) (*websocket.Conn, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network,
		at string) (c net.Conn, err error) {
		c, err = new(net.Dialer).DialContext(ctx, network, at)
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetReadBuffer(4 << 10)
		}
		return c, err
	}}}
	conn, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(h.http.URL, "http")+xiaozhi.SocketPath,
		&websocket.DialOptions{
			HTTPClient: client,
			HTTPHeader: http.Header{"Device-Id": {d.Hardware}, "Client-Id": {d.Client},
				"Authorization": {"Bearer " + token}, "Protocol-Version": {fmt.Sprint(framing)}},
		})
	if res != nil && err != nil {
		client.CloseIdleConnections()
		err = fmt.Errorf("%s: %w", res.Status, err)
	}
	return conn, err
}

const rawHello = `{"type":"hello","version":1,"transport":"websocket","features":{},"audio_params":{"format":"opus","sample_rate":16000,"channels":1,"frame_duration":60}}`

// hello opens a WebSocket and sends the hello.
func (h *testServer) hello(ctx context.Context, d store.Device, framing int) *websocket.Conn {
	h.t.Helper()
	conn, err := h.dial(ctx, d, h.Accounts.SocketToken(d), framing)
	must(h.t, err)
	h.t.Cleanup(func() { _ = conn.CloseNow() })
	must(h.t, conn.Write(ctx, websocket.MessageText, []byte(rawHello)))
	_, text, err := conn.Read(ctx)
	must(h.t, err)
	if _, err := wire.ParseHello(text); err != nil {
		h.t.Fatalf("%s: %v", text, err)
	}
	return conn
}

// mqttConn is an MQTT client for attacks.
type mqttConn struct {
	net.Conn
	r *bufio.Reader
}

// connect connects a device to MQTT and returns the CONNACK's code.
func (h *attack) connect(login account.MQTTLogin) (*mqttConn, byte) {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.at)
	must(h.t, err)
	h.t.Cleanup(func() { _ = conn.Close() })
	m := &mqttConn{conn, bufio.NewReader(conn)}
	body := []byte{0, 4, 'M', 'Q', 'T', 'T', 4, 0xc2, 0, 60}
	for _, s := range []string{login.ClientID, login.Username, login.Password} {
		body = append(binary.BigEndian.AppendUint16(body, uint16(len(s))), s...)
	}
	must(h.t, m.packet(0x10, body))
	var ack [4]byte
	if _, err := io.ReadFull(m.r, ack[:]); err != nil {
		h.t.Fatal(err)
	}
	return m, ack[3]
}

func (m *mqttConn) packet(kind byte, body []byte) error {
	head := []byte{kind}
	for n := len(body); ; {
		b := byte(n % 128)
		if n /= 128; n > 0 {
			head = append(head, b|0x80)
			continue
		}
		head = append(head, b)
		break
	}
	_, err := m.Write(append(head, body...))
	return err
}

// say publishes a message.
func (m *mqttConn) say(text string) error {
	const topic = "device-server"
	return m.packet(0x30, append(append([]byte{0, byte(len(topic))}, topic...), text...))
}

// hear returns the next message of the server.
func (m *mqttConn) hear() ([]byte, error) {
	for {
		kind, err := m.r.ReadByte()
		if err != nil {
			return nil, err
		}
		n, err := binary.ReadUvarint(m.r)
		if err != nil {
			return nil, err
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(m.r, body); err != nil {
			return nil, err
		}
		if kind>>4 == 3 {
			return body[2+int(binary.BigEndian.Uint16(body)):], nil
		}
	}
}

// hearEnd reads until the server closes the connection.
func (m *mqttConn) hearEnd() error {
	for {
		if _, err := m.hear(); err != nil {
			return err
		}
	}
}

func udpHello() string {
	h := wire.Hello{Version: 3, Transport: wire.UDP, Audio: wire.Audio{Format: "opus", SampleRate: 16000, Channels: 1,
		FrameDuration: 60}}
	return string(h.AppendBoard(nil))
}
