package xiaozhi_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/account"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
)

// Boards lose power or network in the middle of an answer, with and without a TCP reset: the server
// notices it, and they can reconnect at once.
func TestVanish(t *testing.T) {
	for _, mqtt := range []bool{false, true} {
		t.Run(fmt.Sprintf("mqtt=%t", mqtt), func(t *testing.T) {
			attacked(t, mqtt, 2*time.Second, func(a *attack) {
				var all sync.WaitGroup
				for i, how := range []sim.Loss{sim.Dropped, sim.Reset, sim.Vanished, sim.Dropped, sim.Reset,
					sim.Vanished} {
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

// untilAnswer asks a board a question, and returns in the middle of the answer.
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

// The newest connection of a board wins, whatever the transports are.
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
		// The end of the previous connection is noticed a moment later.
		for n := a.sum("patchbay_xiaozhi_boards"); n > 2; n = a.sum("patchbay_xiaozhi_boards") {
			if a.ctx.Err() != nil {
				t.Fatalf("%v boards are connected, and there are 2", n)
			}
			runtime.Gosched()
		}
		_ = last.CloseNow()
	})
}

// readUntil reads until an error.
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

// Messages at the wrong time and invalid messages do not end a conversation, unless they cannot be
// frames.
func TestGarbage(t *testing.T) {
	texts := []string{
		"", "{", "[]", "null", `"x"`, "\x00", `{"type":`, `{"type":"listen"}`, `{"type":"listen","state":7}`,
		`{"type":"abort"}`, `{"type":"mcp"}`, `{"type":"mcp","payload":null}`,
		`{"type":"mcp","payload":{"jsonrpc":"2.0","id":1,"result":null}}`,
		`{"type":"mcp","payload":{"jsonrpc":"2.0","id":99999,"error":{"message":"a "quote""}}}`,
		`{"type":"iot","descriptors":[]}`, `{"type":"goodbye"}`, `{"session_id":"no","type":"listen","state":"stop"}`,
		`{"type":"listen","state":"start","mode":"` + strings.Repeat("m", 60000) + `"}`,
		rawHello, `{"type":"listen","state":"detect","text":"` + strings.Repeat("\\u0000", 100) + `"}`,
		strings.Repeat("[", 10000),
	}
	binaries := [][]byte{{}, {0}, {1, 2, 3}, make([]byte, 5000),
		{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0x58}, {0, 0, 255, 255, 0x58}, {0, 0, 0, 1, 0x58},
		{0xff}}
	attacked(t, false, time.Minute, func(a *attack) {
		for framing := 1; framing <= 3; framing++ {
			d := a.approved(fmt.Sprintf("02:00:00:00:01:%02x", framing))
			conn := a.hello(a.ctx, d, framing)
			for _, listening := range []bool{false, true} {
				if listening {
					must(t, conn.Write(a.ctx, websocket.MessageText,
						[]byte(`{"type":"listen","state":"start","mode":"auto"}`)))
				}
				for _, s := range texts {
					must(t, conn.Write(a.ctx, websocket.MessageText, []byte(s)))
				}
				for _, b := range binaries {
					must(t, conn.Write(a.ctx, websocket.MessageBinary, b))
				}
			}
			// The conversation still works.
			must(t, conn.Write(a.ctx, websocket.MessageText, wire.AppendDetect(nil, "", "what is this?")))
			for heard := false; !heard; {
				_, text, err := conn.Read(a.ctx)
				must(t, err)
				m, err := wire.Parse(text)
				heard = err == nil && m.Type == wire.TypeSTT && m.Text == "what is this?"
			}
			// Too long for a frame of a board.
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
		// Instead of a hello.
		conn, err := a.dial(a.ctx, d, a.Accounts.SocketToken(d), 1)
		must(t, err)
		for range 10 {
			_ = conn.Write(a.ctx, websocket.MessageText, []byte("{}"))
		}
		if _, _, err := readUntil(a.ctx, conn); a.ctx.Err() != nil {
			t.Errorf("without a hello: %v", err)
		}
		// Neither WebSocket nor HTTP.
		for _, s := range []string{"\x16\x03\x01\x02\x00", "GET / HTTP/9.9\r\n\r\n",
			"GET " + xiaozhi.SocketPath + " HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"} {
			raw, err := net.Dial("tcp", a.http.Listener.Addr().String())
			must(t, err)
			_, _ = raw.Write([]byte(s))
			_ = raw.(*net.TCPConn).SetLinger(0)
			_ = raw.Close()
		}
	})
}

// The same over MQTT, where any message may precede a hello.
func TestGarbageMQTT(t *testing.T) {
	attacked(t, true, time.Minute, func(a *attack) {
		d := a.approved("02:00:00:00:02:01")
		m, code := a.connect(a.Accounts.MQTTLogin(d, ""))
		if code != 0 {
			t.Fatal("refused", code)
		}
		for _, s := range []string{
			"", "{", "[]", "\x00\xff", `{"type":"listen","state":"start"}`, `{"type":"abort"}`,
			`{"type":"goodbye","session_id":"x"}`, `{"type":"mcp","payload":{}}`,
			rawHello, `{"type":"hello"}`, `{"type":"hello","transport":"udp","version":"x"}`, strings.Repeat("x", 8000),
			strings.Repeat("y", 9000),
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

// A board that stops reading is dropped in time, without effect on others.
func TestSlowBoard(t *testing.T) {
	attacked(t, false, time.Minute, func(a *attack) {
		d := a.approved("02:00:00:00:03:01")
		a.hello(a.ctx, d, 1)
		text := `{"text":"` + strings.Repeat("long ", 99) + `"}`
		for { // the board gets its response a moment before it can be called
			if _, err := a.call(a.ctx, d.Hardware, "show", text); err == nil {
				break
			}
			must(t, a.ctx.Err())
		}
		began := time.Now()
		for {
			if _, err := a.call(a.ctx, d.Hardware, "show", text); err != nil {
				break // it was dropped
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

// Datagrams of unknown sessions, with a wrong key, and garbage.
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
		defer conn.Close() //nolint:errcheck // only written to
		for i := range 20000 {
			var packet []byte
			switch i % 4 {
			case 0: // the session of another board
				packet = wrong.Seal(nil, wire.Header{SSRC: rand.Uint32(), Sequence: uint32(i) + 1}, sim.No()[5])
			case 1: // the own session, with a wrong key
				packet = wrong.Seal(nil, wire.Header{SSRC: binary.BigEndian.Uint32(nonce[4:]), Sequence: uint32(i) + 1},
					sim.No()[5])
			case 2:
				packet = make([]byte, rand.IntN(1400))
			default:
				packet = wrong.Seal(nil, wire.Header{SSRC: rand.Uint32(), Sequence: uint32(i)}, sim.No()[5])[:20]
			}
			if _, err := conn.Write(packet); err != nil && !errors.Is(err, net.ErrClosed) {
				break // the system's buffer is full
			}
			if i%100 == 0 {
				runtime.Gosched()
			}
		}
		must(t, m.Close())
	})
}

// A board that sends one hello after the other over MQTT has one conversation at a time.
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
				if n := a.sum("patchbay_xiaozhi_conversations"); n > 3 { // one may still be ending
					t.Fatalf("%v conversations at a time", n)
				}
			}
		}
		must(t, m.Close())
	})
}

// A board opens many sockets without a hello: only its newest one is kept.
func TestSilentSockets(t *testing.T) {
	attacked(t, false, time.Minute, func(a *attack) {
		d := a.approved("02:00:00:00:06:01")
		token := a.Accounts.SocketToken(d)
		var all sync.WaitGroup
		open := make(chan struct{}, 50) // limits concurrent connects
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

// Ten thousand messages that start, stop and interrupt listening.
func TestListenStorm(t *testing.T) {
	attacked(t, false, time.Minute, func(a *attack) {
		d := a.approved("02:00:00:00:07:01")
		conn := a.hello(a.ctx, d, 1)
		var reading sync.WaitGroup
		reading.Go(func() { _, _, _ = readUntil(a.ctx, conn) })
		for i := range 10000 {
			text := []string{`{"type":"listen","state":"start","mode":"auto"}`, `{"type":"abort"}`,
				`{"type":"listen","state":"stop"}`, `{"type":"listen","state":"detect","text":"你好小智"}`}[i%4]
			must(t, conn.Write(a.ctx, websocket.MessageText, []byte(text)))
		}
		_ = conn.CloseNow()
		reading.Wait()
	})
}

// The credentials of another board are refused.
func TestTokensOfOthers(t *testing.T) {
	attacked(t, true, time.Minute, func(a *attack) {
		one, other := a.approved("02:00:00:00:08:01"), a.approved("02:00:00:00:08:02")
		for _, token := range []string{"", "x", a.Accounts.SocketToken(other),
			a.Accounts.VisionToken(one, "s", time.Hour), a.Accounts.MQTTLogin(one, "").Password,
			strings.Repeat("y", 4000)} {
			if _, err := a.dial(a.ctx, one, token, 1); err == nil || !strings.Contains(err.Error(), "401") {
				t.Errorf("%.20q: %v", token, err)
			}
		}
		mine, theirs := a.Accounts.MQTTLogin(one, ""), a.Accounts.MQTTLogin(other, "")
		for _, l := range []account.MQTTLogin{{ClientID: mine.ClientID, Username: mine.Username},
			{ClientID: mine.ClientID, Username: theirs.Username, Password: theirs.Password},
			{ClientID: "x", Username: mine.Username, Password: mine.Password}} {
			if _, code := a.connect(l); code == 0 {
				t.Errorf("%+v is let in", l)
			}
		}
		// A valid token ends with its board.
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
		if o, _, _ := a.Hub.FindProvider(xiaozhi.ProviderID(other.Number)); o.ID != "" {
			t.Error("a removed board is plugged in")
		}
	})
}
