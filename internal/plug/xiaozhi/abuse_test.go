package xiaozhi_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

// attack is a house in which somebody misbehaves while an innocent board talks.
type attack struct {
	*house
	reg    *prometheus.Registry
	ctx    context.Context
	at     string // of MQTT
	victim *sim.Board
}

// attacked runs an attack. While it goes on, an innocent board has one conversation
// after the other, and must have nothing to complain of. Afterwards nothing may be
// left of anybody.
func attacked(t *testing.T, mqtt bool, silence time.Duration, f func(a *attack)) {
	t.Helper()
	ctx := limit(t, 60*time.Second)
	reg, at := prometheus.NewRegistry(), ""
	h := newHouse(t, houseOptions{
		mqtt: mqtt, boards: func(o *xiaozhi.Options) { o.Registerer, o.Silence, o.Linger = reg, silence, silence },
		home: func(o *xiaozhi.DiscoveryOptions) { o.Keepalive, at = 2*time.Second, "127.0.0.1"+o.MQTT },
	})
	http.DefaultClient.CloseIdleConnections()
	base := running()
	a := &attack{house: h, reg: reg, ctx: ctx, at: at, victim: h.device(sim.Options{Steady: true, Profile: sim.FW25})}
	must(t, a.victim.Boot(ctx))
	if _, err := a.victim.Ask(ctx, sim.No()); err != nil {
		t.Fatal(err)
	}
	talking, quiet := context.WithCancel(ctx)
	var talk sync.WaitGroup
	asked := 0
	talk.Go(func() {
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
	talk.Wait()
	clean(t, a.victim)
	a.victim.Close()
	t.Logf("%d questions meanwhile", asked)
	a.settle(base)
}

// settle waits until no board is connected, nobody talks, and nothing runs that did
// not run before.
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
			a.t.Fatalf("%v boards, %v conversations and %d goroutines are left, of which %d were there before\n%s", boards, talks, routines, base, buf[:runtime.Stack(buf, true)])
		}
	}
}

// running is how many goroutines there are, without those of the simulator that look
// at the clock until the test ends.
func running() int {
	buf := make([]byte, 1<<20)
	all := string(buf[:runtime.Stack(buf, true)])
	return strings.Count(all, "\ngoroutine ") - strings.Count(all, "sim.(*Meter).run(")
}

// sum adds up a metric.
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

// approved makes a device of ada's, with nothing behind it yet.
func (h *house) approved(mac string) store.Device {
	h.t.Helper()
	_, code, err := h.Accounts.DeviceSeen(ctx, store.DeviceCall{Kind: xiaozhi.Kind, Hardware: mac, Client: uuid1, Article: "raw", Version: "2.4.2"})
	must(h.t, err)
	d, err := h.Accounts.ApproveShown(ctx, account.NewDevice{Person: h.Person.ID, Code: code, Bot: h.bot.Number})
	must(h.t, err)
	return d
}

// dial opens a WebSocket for a device as it comes, and shows a token.
func (h *house) dial(ctx context.Context, d store.Device, token string, framing int) (*websocket.Conn, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, at string) (c net.Conn, err error) {
		c, err = new(net.Dialer).DialContext(ctx, network, at)
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetReadBuffer(4 << 10)
		}
		return c, err
	}}}
	conn, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(h.http.URL, "http")+xiaozhi.SocketPath, &websocket.DialOptions{
		HTTPClient: client,
		HTTPHeader: http.Header{"Device-Id": {d.Hardware}, "Client-Id": {d.Client}, "Authorization": {"Bearer " + token}, "Protocol-Version": {fmt.Sprint(framing)}},
	})
	if res != nil && err != nil {
		client.CloseIdleConnections()
		err = fmt.Errorf("%s: %w", res.Status, err)
	}
	return conn, err
}

const rawHello = `{"type":"hello","version":1,"transport":"websocket","features":{},"audio_params":{"format":"opus","sample_rate":16000,"channels":1,"frame_duration":60}}`

// hello opens a WebSocket and a conversation.
func (h *house) hello(ctx context.Context, d store.Device, framing int) *websocket.Conn {
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

// mqttConn speaks as much MQTT as a board that misbehaves needs.
type mqttConn struct {
	net.Conn
	r *bufio.Reader
}

// connect connects a device to MQTT. The code is the server's.
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

// hear is the next message of the server.
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

// hearEnd reads until the server hangs up.
func (m *mqttConn) hearEnd() error {
	for {
		if _, err := m.hear(); err != nil {
			return err
		}
	}
}

func udpHello() string {
	h := wire.Hello{Version: 3, Transport: wire.UDP, Audio: wire.Audio{Format: "opus", SampleRate: 16000, Channels: 1, FrameDuration: 60}}
	return string(h.AppendBoard(nil))
}

// Boards whose power or network fails, in the middle of an answer, with and without a
// word: the server finds out, and they can come back at once.
func TestVanish(t *testing.T) {
	for _, mqtt := range []bool{false, true} {
		t.Run(fmt.Sprintf("mqtt=%t", mqtt), func(t *testing.T) {
			attacked(t, mqtt, 2*time.Second, func(a *attack) {
				var all sync.WaitGroup
				for i, how := range []sim.Loss{sim.Dropped, sim.Reset, sim.Vanished, sim.Dropped, sim.Reset, sim.Vanished} {
					b := a.device(sim.Options{})
					all.Go(func() {
						for round := range 2 {
							if err := b.Boot(a.ctx); err != nil {
								t.Error(how, err)
								return
							}
							begin := b.Wake
							if i > 2 {
								begin = func(ctx context.Context) error { return untilAnswer(ctx, b) }
							}
							if err := errors.Join(begin(a.ctx), b.Lose(how)); err != nil {
								t.Error(how, round, err)
							}
						}
						b.Close()
					})
				}
				all.Wait()
			})
		})
	}
}

// untilAnswer asks a board something, and returns in the middle of the answer.
func untilAnswer(ctx context.Context, b *sim.Board) error {
	if err := b.Wake(ctx); err != nil {
		return err
	}
	if err := b.Talk(ctx, sim.GoodMorning()); err != nil {
		return err
	}
	_, err := b.Await(ctx, func(v sim.View) bool { return v.State == sim.Speaking })
	return err
}

// The newest connection of a board counts, whatever it and the others are.
func TestNewestCounts(t *testing.T) {
	attacked(t, true, time.Minute, func(a *attack) {
		d := a.approved("02:00:00:00:00:01")
		old := a.hello(a.ctx, d, 1)
		next := a.hello(a.ctx, d, 1)
		if _, _, err := readUntil(a.ctx, old); err == nil {
			t.Error("the old connection goes on")
		}
		m, code := a.connect(a.Accounts.MQTTLogin(d, ""))
		if code != 0 {
			t.Fatal("refused", code)
		}
		if _, _, err := readUntil(a.ctx, next); err == nil {
			t.Error("the WebSocket goes on beside MQTT")
		}
		must(t, m.say(udpHello()))
		last := a.hello(a.ctx, d, 1)
		if err := m.hearEnd(); err == nil {
			t.Error("MQTT goes on beside the WebSocket")
		}
		must(t, last.Ping(last.CloseRead(a.ctx)))
		for range 100 {
			last = a.hello(a.ctx, d, 1)
		}
		// The end of the one before is noticed a moment later.
		for n := a.sum("patchbay_xiaozhi_boards"); n > 2; n = a.sum("patchbay_xiaozhi_boards") {
			if a.ctx.Err() != nil {
				t.Fatalf("%v boards are connected, and there are 2", n)
			}
			runtime.Gosched()
		}
		_ = last.CloseNow()
	})
}

// readUntil reads until something is wrong.
func readUntil(ctx context.Context, conn *websocket.Conn) (texts, packets int, err error) {
	for {
		kind, _, err := conn.Read(ctx)
		switch {
		case err != nil:
			return texts, packets, err
		case kind == websocket.MessageText:
			texts++
		default:
			packets++
		}
	}
}

// Nothing that a board may say at the wrong time, or that is no message at all, ends a
// conversation, except for what cannot be a frame.
func TestGarbage(t *testing.T) {
	texts := []string{
		"", "{", "[]", "null", `"x"`, "\x00", `{"type":`, `{"type":"listen"}`, `{"type":"listen","state":7}`, `{"type":"abort"}`, `{"type":"mcp"}`, `{"type":"mcp","payload":null}`,
		`{"type":"mcp","payload":{"jsonrpc":"2.0","id":1,"result":null}}`, `{"type":"mcp","payload":{"jsonrpc":"2.0","id":99999,"error":{"message":"a "quote""}}}`,
		`{"type":"iot","descriptors":[]}`, `{"type":"goodbye"}`, `{"session_id":"no","type":"listen","state":"stop"}`, `{"type":"listen","state":"start","mode":"` + strings.Repeat("m", 60000) + `"}`,
		rawHello, `{"type":"listen","state":"detect","text":"` + strings.Repeat("\\u0000", 100) + `"}`, strings.Repeat("[", 10000),
	}
	binaries := [][]byte{{}, {0}, {1, 2, 3}, make([]byte, 5000), {0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0x58}, {0, 0, 255, 255, 0x58}, {0, 0, 0, 1, 0x58}, {0xff}}
	attacked(t, false, time.Minute, func(a *attack) {
		for framing := 1; framing <= 3; framing++ {
			d := a.approved(fmt.Sprintf("02:00:00:00:01:%02x", framing))
			conn := a.hello(a.ctx, d, framing)
			for _, listening := range []bool{false, true} {
				if listening {
					must(t, conn.Write(a.ctx, websocket.MessageText, []byte(`{"type":"listen","state":"start","mode":"auto"}`)))
				}
				for _, s := range texts {
					must(t, conn.Write(a.ctx, websocket.MessageText, []byte(s)))
				}
				for _, b := range binaries {
					must(t, conn.Write(a.ctx, websocket.MessageBinary, b))
				}
			}
			// It can still be talked with.
			must(t, conn.Write(a.ctx, websocket.MessageText, wire.AppendDetect(nil, "", "what is this?")))
			for heard := false; !heard; {
				_, text, err := conn.Read(a.ctx)
				must(t, err)
				m, err := wire.Parse(text)
				heard = err == nil && m.Type == wire.TypeSTT && m.Text == "what is this?"
			}
			// Too long to be a frame of a board.
			must(t, conn.Write(a.ctx, websocket.MessageBinary, make([]byte, 70000)))
			if _, _, err := readUntil(a.ctx, conn); err == nil || a.ctx.Err() != nil {
				t.Errorf("framing %d: 70,000 bytes: %v", framing, err)
			}
		}
		// Before the hello.
		d := a.approved("02:00:00:00:01:09")
		for _, s := range texts {
			conn, err := a.dial(a.ctx, d, a.Accounts.SocketToken(d), 1)
			must(t, err)
			must(t, conn.Write(a.ctx, websocket.MessageText, []byte(s)))
			must(t, conn.Write(a.ctx, websocket.MessageBinary, []byte{1, 2, 3}))
			must(t, conn.Write(a.ctx, websocket.MessageText, []byte(rawHello)))
			for heard := false; !heard; {
				_, text, err := conn.Read(a.ctx)
				must(t, err)
				_, err = wire.ParseHello(text)
				heard = err == nil
			}
			_ = conn.CloseNow()
		}
		// And instead of one.
		conn, err := a.dial(a.ctx, d, a.Accounts.SocketToken(d), 1)
		must(t, err)
		for range 10 {
			_ = conn.Write(a.ctx, websocket.MessageText, []byte("{}"))
		}
		if _, _, err := readUntil(a.ctx, conn); a.ctx.Err() != nil {
			t.Errorf("without a hello: %v", err)
		}
		// What is no WebSocket, and no HTTP.
		for _, s := range []string{"\x16\x03\x01\x02\x00", "GET / HTTP/9.9\r\n\r\n", "GET " + xiaozhi.SocketPath + " HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"} {
			raw, err := net.Dial("tcp", a.http.Listener.Addr().String())
			must(t, err)
			_, _ = raw.Write([]byte(s))
			_ = raw.(*net.TCPConn).SetLinger(0)
			_ = raw.Close()
		}
	})
}

// The same over MQTT, where everything can come before a hello.
func TestGarbageMQTT(t *testing.T) {
	attacked(t, true, time.Minute, func(a *attack) {
		d := a.approved("02:00:00:00:02:01")
		m, code := a.connect(a.Accounts.MQTTLogin(d, ""))
		if code != 0 {
			t.Fatal("refused", code)
		}
		for _, s := range []string{
			"", "{", "[]", "\x00\xff", `{"type":"listen","state":"start"}`, `{"type":"abort"}`, `{"type":"goodbye","session_id":"x"}`, `{"type":"mcp","payload":{}}`,
			rawHello, `{"type":"hello"}`, `{"type":"hello","transport":"udp","version":"x"}`, strings.Repeat("x", 8000), strings.Repeat("y", 9000),
		} {
			must(t, m.say(s))
		}
		must(t, m.say(udpHello()))
		for heard := false; !heard; {
			text, err := m.hear()
			must(t, err)
			_, err = wire.ParseHello(text)
			heard = err == nil
		}
		if n := a.sum("patchbay_xiaozhi_conversations"); n < 1 {
			t.Errorf("%v conversations", n)
		}
		must(t, m.Close())
	})
}

// A board that does not read any more is dropped in time, and nobody else notices.
func TestSlowBoard(t *testing.T) {
	attacked(t, false, time.Minute, func(a *attack) {
		d := a.approved("02:00:00:00:03:01")
		a.hello(a.ctx, d, 1)
		text := `{"text":"` + strings.Repeat("long ", 99) + `"}`
		for { // the board is answered a moment before it can be called
			if _, err := a.call(a.ctx, d.Hardware, "show", text); err == nil {
				break
			}
			must(t, a.ctx.Err())
		}
		began := time.Now()
		for {
			if _, err := a.call(a.ctx, d.Hardware, "show", text); err != nil {
				break // it is not there any more
			}
			if time.Since(began) > 30*time.Second {
				t.Fatal("a board that reads nothing is told things for ever")
			}
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// Datagrams from nobody, from somebody with the wrong key, and garbage.
func TestDatagramFlood(t *testing.T) {
	attacked(t, true, time.Minute, func(a *attack) {
		d := a.approved("02:00:00:00:04:01")
		m, _ := a.connect(a.Accounts.MQTTLogin(d, ""))
		must(t, m.say(udpHello()))
		var link *wire.Link
		for link == nil {
			text, err := m.hear()
			must(t, err)
			if h, err := wire.ParseHello(text); err == nil {
				link = h.Link
			}
		}
		_, nonce, err := link.Secrets()
		must(t, err)
		wrong, err := wire.NewCipher(make([]byte, 16))
		must(t, err)
		conn, err := net.Dial("udp", net.JoinHostPort(link.Server, fmt.Sprint(link.Port)))
		must(t, err)
		defer conn.Close() //nolint:errcheck // it was only written to
		for i := range 20000 {
			var packet []byte
			switch i % 4 {
			case 0: // somebody else's conversation
				packet = wrong.Seal(nil, wire.Header{SSRC: rand.Uint32(), Sequence: uint32(i) + 1}, sim.No()[5])
			case 1: // one's own, with another key
				packet = wrong.Seal(nil, wire.Header{SSRC: binary.BigEndian.Uint32(nonce[4:]), Sequence: uint32(i) + 1}, sim.No()[5])
			case 2:
				packet = make([]byte, rand.IntN(1400))
			default:
				packet = wrong.Seal(nil, wire.Header{SSRC: rand.Uint32(), Sequence: uint32(i)}, sim.No()[5])[:20]
			}
			if _, err := conn.Write(packet); err != nil && !errors.Is(err, net.ErrClosed) {
				break // the system has no room
			}
			if i%100 == 0 {
				runtime.Gosched()
			}
		}
		must(t, m.Close())
	})
}

// A board that begins one conversation after the other over MQTT has one at a time.
func TestHelloStorm(t *testing.T) {
	attacked(t, true, time.Minute, func(a *attack) {
		d := a.approved("02:00:00:00:05:01")
		m, _ := a.connect(a.Accounts.MQTTLogin(d, ""))
		const storm = 250
		for range storm {
			must(t, m.say(udpHello()))
		}
		seen := map[string]bool{}
		for len(seen) < storm {
			text, err := m.hear()
			must(t, err)
			if h, err := wire.ParseHello(text); err == nil {
				if seen[h.SessionID] {
					t.Fatal("a session twice")
				}
				seen[h.SessionID] = true
				if n := a.sum("patchbay_xiaozhi_conversations"); n > 3 { // one that ends, and the innocent board's
					t.Fatalf("%v conversations at a time", n)
				}
			}
		}
		must(t, m.Close())
	})
}

// Somebody opens sockets, and says nothing: of one board one waits, and the others
// are ended.
func TestSilentSockets(t *testing.T) {
	attacked(t, false, time.Minute, func(a *attack) {
		d := a.approved("02:00:00:00:06:01")
		token := a.Accounts.SocketToken(d)
		var all sync.WaitGroup
		open := make(chan struct{}, 50) // connecting at a time
		ended := make(chan time.Duration, 2000)
		conns := make(chan *websocket.Conn, 2000)
		for range 2000 {
			all.Go(func() {
				open <- struct{}{}
				conn, err := a.dial(a.ctx, d, token, 1)
				<-open
				if err != nil {
					t.Error(err)
					return
				}
				conns <- conn
				began := time.Now()
				_, _, _ = conn.Read(a.ctx)
				ended <- time.Since(began)
			})
		}
		for range 1999 {
			select {
			case took := <-ended:
				if took > wire.HelloTimeout/2 {
					t.Errorf("one was open for %s", took)
				}
			case <-a.ctx.Done():
				t.Fatal("sockets without a word stay open")
			}
		}
		for range 2000 {
			_ = (<-conns).CloseNow()
		}
		all.Wait()
	})
}

// Ten thousand messages that begin, end and interrupt.
func TestListenStorm(t *testing.T) {
	attacked(t, false, time.Minute, func(a *attack) {
		d := a.approved("02:00:00:00:07:01")
		conn := a.hello(a.ctx, d, 1)
		var reading sync.WaitGroup
		reading.Go(func() { _, _, _ = readUntil(a.ctx, conn) })
		for i := range 10000 {
			text := []string{`{"type":"listen","state":"start","mode":"auto"}`, `{"type":"abort"}`, `{"type":"listen","state":"stop"}`, `{"type":"listen","state":"detect","text":"你好小智"}`}[i%4]
			must(t, conn.Write(a.ctx, websocket.MessageText, []byte(text)))
		}
		_ = conn.CloseNow()
		reading.Wait()
	})
}

// What somebody else's board was given lets nobody in.
func TestTokensOfOthers(t *testing.T) {
	attacked(t, true, time.Minute, func(a *attack) {
		one, other := a.approved("02:00:00:00:08:01"), a.approved("02:00:00:00:08:02")
		for _, token := range []string{"", "x", a.Accounts.SocketToken(other), a.Accounts.VisionToken(one, "s", time.Hour), a.Accounts.MQTTLogin(one, "").Password, strings.Repeat("y", 4000)} {
			if _, err := a.dial(a.ctx, one, token, 1); err == nil || !strings.Contains(err.Error(), "401") {
				t.Errorf("%.20q: %v", token, err)
			}
		}
		mine, theirs := a.Accounts.MQTTLogin(one, ""), a.Accounts.MQTTLogin(other, "")
		for _, l := range []account.MQTTLogin{{ClientID: mine.ClientID, Username: mine.Username}, {ClientID: mine.ClientID, Username: theirs.Username, Password: theirs.Password}, {ClientID: "x", Username: mine.Username, Password: mine.Password}} {
			if _, code := a.connect(l); code == 0 {
				t.Errorf("%+v is let in", l)
			}
		}
		// One that was good ends with its board.
		conn := a.hello(a.ctx, one, 1)
		m, _ := a.connect(theirs)
		must(t, a.Store.Devices.Revoke(a.ctx, one.Number))
		must(t, a.Store.Devices.Remove(a.ctx, other.Number))
		must(t, a.boards.Refresh(a.ctx))
		if _, _, err := readUntil(a.ctx, conn); a.ctx.Err() != nil {
			t.Errorf("a revoked board stays: %v", err)
		}
		if err := m.hearEnd(); a.ctx.Err() != nil {
			t.Errorf("a removed board stays: %v", err)
		}
		if o, _, _ := a.Board.Plugged(xiaozhi.OutletOf(other.Number)); o.ID != "" {
			t.Error("a removed board is plugged in")
		}
	})
}
