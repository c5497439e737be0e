package xiaozhi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/udp"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// strict is a transport and an MQTT connection that reports messages which a server must not send.
type strict struct {
	quiet
	mu       sync.Mutex
	speaking bool
	closed   bool
	wrong    string
}

func (s *strict) complain(format string, args ...any) {
	if s.wrong == "" {
		s.wrong = fmt.Sprintf(format, args...)
	}
}

func (s *strict) Text(text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := wire.Parse(text)
	switch {
	case s.closed:
		return errConversationOver
	case err != nil || !json.Valid(text) || len(text) > wire.MaxText:
		s.complain("%s: %v", text, err)
	case m.Type == wire.TypeTTS && m.State == wire.TTSStart:
		if s.speaking {
			s.complain("start twice")
		}
		s.speaking = true
	case m.Type == wire.TypeTTS && m.State == wire.TTSStop, m.Type == wire.TypeHello:
		s.speaking = false
	}
	return nil
}

func (s *strict) Audio(packet []byte, _ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errConversationOver
	case !s.speaking:
		s.complain("sound without start")
	case len(packet) == 0:
		s.complain("no sound")
	}
	return nil
}

func (s *strict) Close(bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *strict) Push(text []byte) error { return s.Text(text) }

// strictMQTTConn is strict as an [MQTTConn].
type strictMQTTConn struct{ *strict }

func (s strictMQTTConn) Close() { s.strict.Close(true) }

// frames encodes what a board sends: for each frame the kind, its length in two bytes, big-endian,
// and the data.
func frames(parts ...[]byte) (all []byte) {
	for i, p := range parts {
		all = append(all, byte(i), byte(len(p)>>8), byte(len(p)))
		all = append(all, p...)
	}
	return all
}

func eachFrame(all []byte, f func(kind byte, data []byte)) {
	for n := 0; len(all) >= 3 && n < 200; n++ {
		kind, size := all[0], min(int(all[1])<<8|int(all[2]), len(all)-3)
		f(kind, slices.Clip(all[3:3+size]))
		all = all[3+size:]
	}
}

// Whatever a board sends in a conversation, over a WebSocket or MQTT, tts start and stop alternate,
// and nothing is left after its end.
func FuzzConversation(f *testing.F) {
	conv := sim.GoodMorning()
	start, stop := []byte(`{"type":"listen","state":"start","mode":"manual"}`),
		[]byte(`{"type":"listen","state":"stop"}`)
	hello := wire.Hello{Version: 3, Transport: wire.UDP, Audio: usualHello.Audio}
	f.Add(frames(start, conv[10], start, conv[11], start, conv[12], stop, conv[13], []byte(`{"type":"abort"}`)),
		byte(0))
	f.Add(frames([]byte(`{"type":"listen","state":"detect","text":"x"}`), nil,
		[]byte(`{"type":"listen","state":"start","mode":"realtime"}`), []byte{0x58},
		[]byte(`{"type":"mcp","payload":{"jsonrpc":"2.0","id":1,"result":{}}}`)), byte(1))
	f.Add(frames(hello.AppendBoard(nil), nil, start, nil, hello.AppendBoard(nil), nil, []byte(`{"type":"goodbye"}`),
		nil, stop), byte(2))
	f.Add(frames([]byte(`{"type":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/x","params":{}}}`),
		[]byte{0, 0, 0, 1, 255}, []byte("{"), []byte{0, 2, 0, 0}, []byte(`[]`)), byte(3))
	audio, err := udp.Listen("127.0.0.1:0", udp.Options{PublicHost: "127.0.0.1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(audio.Close)
	r := hubtest.New(f, hubtest.Options{})
	f.Fuzz(func(t *testing.T, said []byte, carrier byte) {
		defer func(began time.Time) {
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s to end", took)
			}
		}(time.Now())
		h, err := NewBoards(Options{Accounts: r.Accounts, Store: r.Store, Hub: r.Hub,
			Logger: slog.New(slog.DiscardHandler), Voice: EchoVoice{}, Audio: audio,
			PublicURL: "http://board.example.org", WakeWords: []string{"x"}})
		if err != nil {
			t.Fatal(err)
		}
		b := &Board{boards: h, number: 1, mac: mac(1), device: store.Device{Number: 1, Owner: r.Person.ID,
			Hardware: mac(1)}, toolset: emptyToolset}
		b.ctx, b.cancel = context.WithCancelCause(h.ctx)
		h.boards[1], h.byMAC[b.mac] = b, b
		ch := &strict{quiet: quiet{id: b.mac}}
		if carrier%4 == 2 {
			x := h.NewMQTTSession(strictMQTTConn{ch})
			var c *Conversation
			eachFrame(said, func(kind byte, data []byte) {
				if c = x.(*mqttSession).conv; kind%2 == 1 && c != nil {
					c.onAudio(data, time.Now())
					return
				}
				x.Message(data)
			})
			x.Closed(nil)
		} else {
			framing := []wire.Framing{wire.FramingBare, wire.FramingTimed, 0, wire.FramingShort}[carrier%4]
			l, c := talking(t, b, ch)
			c.run()
			eachFrame(said, func(kind byte, data []byte) {
				if kind%2 == 0 {
					h.onSocketMessage(l, c, data)
				} else if packet, _, err := framing.Parse(data); err == nil {
					c.onAudio(packet, time.Now())
				}
			})
			c.end(errBoardDisconnected, kindly(said))
			b.detach(l, errBoardDisconnected)
		}
		if b.conversation() != nil || b.connection() != nil {
			t.Error("a conversation is left")
		}
		h.Close()
		if ch.wrong != "" {
			t.Error(ch.wrong)
		}
	})
}

// kindly reports whether the server ends the conversation.
func kindly(said []byte) bool { return len(said)%2 == 1 }

// Whatever arguments the built-in tools get, asleep or in a conversation, callers get a readable
// result, and the board gets only valid JSON.
func FuzzOwnTools(f *testing.F) {
	for i, args := range []string{
		`{}`, `{"text":"hello","later":true}`, `{"emotion":"happy"}`, `{"title":"a","text":"b","emotion":"sad"}`,
		`{"sound":"UklGRg==","text":"x"}`, `{}`,
		`{"seconds":1,"wait":0}`, `{"action":"start"}`, `{"later":true}`, `{"action":"stop"}`,
		`{"action":"set","sample_rate":16000,"frame_ms":20}`, `{"url":"http://x","later":true}`,
		`null`, `[]`, `{"text":null}`, `{"text":7}`, `{"seconds":-1}`, `{"text":"\ud800\u0000\"}`,
	} {
		f.Add(byte(i), i%2 == 0, []byte(args))
		f.Add(byte(i%9), i%2 == 1, []byte(args))
	}
	ctx := context.Background()
	r := hubtest.New(f, hubtest.Options{})
	d, err := r.Store.Devices.Seen(ctx, store.DeviceCall{Kind: Kind, Hardware: mac(1),
		Client: "c", Version: "2.4.2", At: time.Now()})
	if err == nil {
		err = r.Store.Devices.SetCode(ctx, d, "h", time.Now().Add(time.Minute), time.Now())
	}
	if err == nil {
		d, err = r.Store.Devices.Approve(ctx, store.DeviceApproval{CodeHash: "h", Owner: r.Person.ID,
			Name: "one", At: time.Now()})
	}
	if err != nil {
		f.Fatal(err)
	}
	h, err := NewBoards(Options{Accounts: r.Accounts, Store: r.Store, Hub: r.Hub, Logger: slog.New(slog.DiscardHandler),
		PublicURL: "http://board.example.org"})
	if err == nil {
		err = h.Refresh(ctx)
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(h.Close)
	b := h.find(d.Number)
	_, _, tools := r.Hub.FindProvider(ProviderID(d.Number))
	if b == nil || len(tools) != len(builtinTools) {
		f.Fatalf("%d tools", len(tools))
	}
	f.Fuzz(func(t *testing.T, which byte, talks bool, args []byte) {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		ch := &strict{}
		if talks {
			l, c := talking(t, b, ch)
			defer b.detach(l, errBoardDisconnected)
			defer c.end(errBoardDisconnected, false)
		}
		o := tools[int(which)%len(tools)]
		call := func(via string, res *tool.Result, err error) {
			switch {
			case err == nil && (res == nil || !json.Valid(res.Content) ||
				len(res.Structured) > 0 && !json.Valid(res.Structured)):
				t.Errorf("%s, %s: %+v", via, o.Name, res)
			case err != nil && tool.AsError(err).Told == "":
				t.Errorf("%s, %s: %v says nothing", via, o.Name, err)
			}
		}
		// Without schema validation, as from the outbox, and with it.
		res, err := b.Call(ctx, &tool.Call{Tool: o.Tool.Name, Args: args})
		call("direct", res, err)
		rules := hub.Rules{Dangerous: []string{"*"}}.String()
		res, err = r.Hub.Call(ctx, hub.Access{Caller: tool.Caller{Person: r.Person.ID, Channel: "mcp"}, Rules: rules},
			o.Name, &tool.Call{Args: args})
		call("board", res, err)
		ch.mu.Lock()
		defer ch.mu.Unlock()
		if ch.wrong != "" {
			t.Error(ch.wrong)
		}
	})
}
