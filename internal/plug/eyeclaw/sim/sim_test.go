package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const patience = 20 * time.Second

func TestHash(t *testing.T) {
	for text, want := range map[string]string{
		"": "0", "a": "61", "hello": "5e918d2", "嘿。🦞怎么样？": "2ad28fc5", "c0 c1 ": "-545bccc1", "你好，世界": "-7501313b",
	} {
		if got := Hash(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestBackoff(t *testing.T) {
	within := func(got, want time.Duration) {
		t.Helper()
		if got < want*3/4 || got > want*5/4 {
			t.Errorf("waits %v, want %v ± a quarter", got, want)
		}
	}
	b := newReconnects()
	for _, want := range []time.Duration{2, 4, 8, 16, 30, 30} {
		within(b.next(), want*time.Second)
	}
	b.attempts = 0 // a socket opened, which does not shorten the delays
	for range maxAttempts {
		within(b.next(), 30*time.Second)
	}
	if got := b.next(); got < 61*time.Second || got > 63*time.Second {
		t.Errorf("after ten failures it waits %v", got)
	}
	within(b.next(), 4*time.Second)
}

// cable is a server that does exactly what a test says.
type cable struct {
	t     *testing.T
	url   string
	socks chan *serverConn
}

type serverConn struct {
	t      *testing.T
	ws     *websocket.Conn
	req    *http.Request
	frames chan map[string]any
}

func newCable(t *testing.T) *cable {
	c := &cable{t: t, socks: make(chan *serverConn, 10)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		s := &serverConn{t: t, ws: ws, req: r, frames: make(chan map[string]any, 1000)}
		c.socks <- s
		defer close(s.frames)
		for {
			_, data, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			var f map[string]any
			if err := json.Unmarshal(data, &f); err != nil {
				t.Errorf("the plugin says %q", data)
			}
			s.frames <- f
		}
	}))
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

// run starts a plugin and returns its socket after the subscription.
func (c *cable) run(scale float64, up Upstream) (*Plugin, *serverConn, chan Notice) {
	c.t.Helper()
	notices := make(chan Notice, 1000)
	p := New(Options{Server: c.url, Token: "secret", BotID: "7", Upstream: up, Scale: scale,
		Watch: func(n Notice) { notices <- n }})
	ctx, cancel := context.WithCancel(c.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx); !errors.Is(err, context.Canceled) {
			c.t.Errorf("Run returned %v", err)
		}
	})
	c.t.Cleanup(func() { cancel(); wg.Wait() })
	return p, c.accept(), notices
}

func (c *cable) accept() *serverConn {
	c.t.Helper()
	select {
	case s := <-c.socks:
		s.send(`{"type":"welcome"}`)
		f := s.next()
		if f["command"] != "subscribe" || f["identifier"] != `{"channel":"BotChannel","bot_id":"7"}` {
			c.t.Fatalf("got %v", f)
		}
		return s
	case <-time.After(patience):
		c.t.Fatal("the plugin does not come")
		return nil
	}
}

func (s *serverConn) send(frame string) {
	s.t.Helper()
	if err := s.ws.Write(s.t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *serverConn) message(v string, args ...any) {
	s.t.Helper()
	s.send(`{"identifier":"whatever","message":` + fmt.Sprintf(v, args...) + `}`)
}

func (s *serverConn) ask(id string) {
	s.t.Helper()
	s.message(`{"type":"execute_command","command":"chat","params":{"message":%q},"metadata":{"session_id":%q}}`, id,
		id)
}

func (s *serverConn) ack(seq int) {
	s.t.Helper()
	s.message(`{"type":"chunk_received","sequence":%d}`, seq)
}

func (s *serverConn) next() map[string]any {
	s.t.Helper()
	select {
	case f, ok := <-s.frames:
		if !ok {
			s.t.Fatal("the plugin disconnected")
		}
		return f
	case <-time.After(patience):
		s.t.Fatal("the plugin says nothing")
		return nil
	}
}

// expect reads the next message, which must be exactly want.
func (s *serverConn) expect(want string) {
	s.t.Helper()
	f := s.next()
	if f["command"] != "message" || f["identifier"] != `{"channel":"BotChannel","bot_id":"7"}` {
		s.t.Fatalf("got %v", f)
	}
	if f["data"] != want {
		s.t.Fatalf("got  %v\nwant %s", f["data"], want)
	}
}

// stepped returns an upstream that sends one piece per channel value, by question.
func stepped(questions ...string) (map[string]chan string, Upstream) {
	m := map[string]chan string{}
	for _, q := range questions {
		m[q] = make(chan string)
	}
	return m, func(ctx context.Context, c Chat, piece func(string)) error {
		for {
			select {
			case s, ok := <-m[c.Message]:
				if !ok {
					return nil
				}
				if s == "!" {
					return errors.New("boom")
				}
				piece(s)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

func TestPlugin_handshakeAndChat(t *testing.T) {
	c := newCable(t)
	var mu sync.Mutex
	var chat Chat
	_, s, _ := c.run(1, func(_ context.Context, c Chat, piece func(string)) error {
		mu.Lock()
		chat = c
		mu.Unlock()
		piece("嘿。")
		piece("")
		piece("\n\n<&>")
		return nil
	})
	q := s.req.URL.Query()
	if q.Get("sdk_token") != "secret" || q.Get("bot_id") != "7" || s.req.URL.Path != "/cable" {
		t.Errorf("asked for %s", s.req.URL)
	}
	if h := s.req.Header; h.Get("Sec-WebSocket-Protocol") != "" || h.Get("Origin") != "" ||
		h.Get("Sec-WebSocket-Extensions") == "" {
		t.Errorf("headers: %v", h)
	}
	s.send(`no json`)
	s.send(`{"type":"unheard_of"}`)
	s.message(`{"type":"message","content":"ignored"}`)
	s.message(`{"type":"cancel","session_id":"x"}`)
	s.message(`{"type":"execute_command","command":"chat","params":{"message":""},"metadata":{"session_id":"t1","openclaw_session_id":"u","x":1}}`)
	s.expect(`{"type":"stream_chunk","content":"嘿。","session_id":"t1","sequence":0}`)
	s.ack(0)
	s.expect(`{"type":"stream_chunk","content":"\n\n<&>","session_id":"t1","sequence":1}`)
	s.ack(1)
	s.expect(`{"type":"stream_end","session_id":"t1"}`)
	s.expect(`{"type":"stream_summary","session_id":"t1","total_content":"嘿。\n\n<&>","total_chunks":2,"content_hash":"` + Hash("嘿。\n\n<&>") + `"}`)
	want := Chat{Message: "chat", SessionID: "t1", User: "u",
		Metadata: json.RawMessage(`{"session_id":"t1","openclaw_session_id":"u","x":1}`)}
	mu.Lock()
	defer mu.Unlock()
	if !reflect.DeepEqual(chat, want) {
		t.Errorf("upstream got %+v", chat)
	}
}

func TestPlugin_missingSession(t *testing.T) {
	c := newCable(t)
	_, s, _ := c.run(0.01, func(_ context.Context, c Chat, piece func(string)) error {
		piece(c.User)
		return nil
	})
	s.message(`{"type":"chat","params":{"message":"hi"}}`)
	s.expect(`{"type":"stream_chunk","content":"bot_7","sequence":0}`)
	s.expect(`{"type":"stream_end"}`)
}

func TestPlugin_waitsForAcks(t *testing.T) {
	c := newCable(t)
	m, up := stepped("q")
	_, s, notices := c.run(0.1, up)
	s.ask("q")
	m["q"] <- "a"
	m["q"] <- "b"
	close(m["q"])
	s.next()
	s.next()
	s.ack(0)
	s.expect(`{"type":"stream_end","session_id":"q"}`)
	for n := range notices {
		if n.Kind == Answered {
			if n.After < 200*time.Millisecond {
				t.Errorf("it waited only %v for a missing acknowledgement", n.After)
			}
			return
		}
	}
}

func TestPlugin_overlap(t *testing.T) {
	c := newCable(t)
	m, up := stepped("A", "B")
	_, s, notices := c.run(0.01, up)
	asked := func() {
		for n := range notices {
			if n.Kind == Asked {
				return
			}
		}
	}
	s.ask("A")
	asked()
	m["A"] <- "a0"
	m["A"] <- "a1"
	s.expect(`{"type":"stream_chunk","content":"a0","session_id":"A","sequence":0}`)
	s.expect(`{"type":"stream_chunk","content":"a1","session_id":"A","sequence":1}`)
	s.ask("B")
	asked()
	m["B"] <- "b0"
	s.expect(`{"type":"stream_chunk","content":"b0","session_id":"B","sequence":0}`)
	m["A"] <- "a2"
	s.expect(`{"type":"stream_chunk","content":"a2","session_id":"A","sequence":1}`)
	close(m["B"])
	s.expect(`{"type":"stream_end","session_id":"B"}`)
	s.expect(`{"type":"stream_summary","session_id":"B","total_content":"a0a1b0a2","total_chunks":2,"content_hash":"` +
		Hash("a0a1b0a2") + `"}`)
	close(m["A"])
	s.expect(`{"type":"stream_end","session_id":"A"}`)
	s.expect(`{"type":"stream_summary","session_id":"A","total_content":"","total_chunks":0,"content_hash":"0"}`)
}

func TestPlugin_errorLeavesItsText(t *testing.T) {
	c := newCable(t)
	m, up := stepped("bad", "good")
	_, s, _ := c.run(0.01, up)
	s.ask("bad")
	m["bad"] <- "c0 "
	s.next()
	m["bad"] <- "!"
	s.expect(`{"type":"stream_error","error":"boom","session_id":"bad"}`)
	s.ask("good")
	m["good"] <- "x"
	s.expect(`{"type":"stream_chunk","content":"x","session_id":"good","sequence":0}`)
	close(m["good"])
	s.expect(`{"type":"stream_end","session_id":"good"}`)
	s.expect(`{"type":"stream_summary","session_id":"good","total_content":"c0 x","total_chunks":1,"content_hash":"` +
		Hash("c0 x") + `"}`)
}

func TestPlugin_dropInMidAnswer(t *testing.T) {
	c := newCable(t)
	m, up := stepped("q")
	p, s, _ := c.run(0.01, up)
	s.ask("q")
	m["q"] <- "one "
	s.next()
	p.Drop()
	m["q"] <- "two "
	s2 := c.accept()
	m["q"] <- "three"
	s2.expect(`{"type":"stream_chunk","content":"three","session_id":"q","sequence":2}`)
	close(m["q"])
	s2.expect(`{"type":"stream_end","session_id":"q"}`)
	s2.expect(`{"type":"stream_summary","session_id":"q","total_content":"one two three","total_chunks":3,"content_hash":"` + Hash("one two three") + `"}`)
}

func TestPlugin_pings(t *testing.T) {
	c := newCable(t)
	_, s, _ := c.run(0.005, nil) // every 300 ms
	s.send(`{"identifier":"x","type":"confirm_subscription"}`)
	ping := func() {
		t.Helper()
		var data struct{ Action, Timestamp string }
		if err := json.Unmarshal([]byte(s.next()["data"].(string)), &data); err != nil || data.Action != "ping" ||
			data.Timestamp == "" {
			t.Fatalf("got %+v, %v", data, err)
		}
	}
	ping()
	s.send(`{"identifier":"x","type":"confirm_subscription"}`)
	begin := time.Now()
	for range 6 {
		ping()
	}
	if took := time.Since(begin); took > 1400*time.Millisecond {
		t.Errorf("6 pings of two timers took %v", took)
	}
}

func TestPlugin_unauthorizedComesBack(t *testing.T) {
	c := newCable(t)
	_, s, notices := c.run(0.01, func(_ context.Context, c Chat, piece func(string)) error {
		piece(c.Message)
		return nil
	})
	s.send(`{"type":"disconnect","reason":"unauthorized","reconnect":false}`)
	_ = s.ws.Close(websocket.StatusPolicyViolation, "unauthorized")
	s = c.accept()
	s.send(`{"identifier":"x","type":"reject_subscription"}`)
	for n := range notices {
		if n.Kind == Rejected {
			break
		}
	}
	s.ask("still listening")
	s.expect(`{"type":"stream_chunk","content":"still listening","session_id":"still listening","sequence":0}`)
}

func TestRun_badAddress(t *testing.T) {
	p := New(Options{Server: "localhost:3000", Token: "secret"})
	if err := p.Run(t.Context()); err == nil {
		t.Error("no error")
	}
}
