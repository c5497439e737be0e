package eyeclaw

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/toolbox"
)

// lamp is a tool with one function.
type lamp struct {
	mu    sync.Mutex
	calls []string // arguments
	hold  chan struct{}
}

func (l *lamp) List(context.Context, *talk.Turn) ([]toolbox.Named, error) {
	return []toolbox.Named{{Name: "lamp", Tool: tool.Tool{Name: "lamp", Description: "Turns the lamp",
		Input: json.RawMessage(`{"type":"object","properties":{"on":{"type":"boolean"}}}`)}}}, nil
}

func (l *lamp) Call(ctx context.Context, _ *talk.Turn, _ string, args json.RawMessage,
	_ func(tool.Progress)) (*tool.Result, error) {
	l.mu.Lock()
	l.calls = append(l.calls, string(args))
	l.mu.Unlock()
	select {
	case <-l.hold:
		return tool.Text("it shines"), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *lamp) called() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.calls...)
}

// newConnectorRig is a rig whose bot a connector answers.
func newConnectorRig(t *testing.T, tools toolbox.Tools, change ...func(*Options)) *rig {
	return newRig(t, append([]func(*Options){func(o *Options) {
		o.Registry.(*rig).tokens[goodToken] = Bot{Number: 7, Kind: ConnectorKind}
		o.Tools = func(context.Context, int64) (toolbox.Tools, error) { return tools, nil }
	}}, change...)...)
}

// announced connects as a connector that has not said hello.
func (r *rig) announced() *client {
	r.t.Helper()
	c := r.connect()
	c.ident = `"{\"channel\":\"BotChannel\",\"connector\":1}"`
	c.expect("welcome")
	c.raw(`{"command":"subscribe","identifier":` + c.ident + `}`)
	c.expectMessage("connected")
	c.expect("confirm_subscription")
	return c
}

// connector connects as a connector that works on the given turns.
func (r *rig) connector(sessions ...string) *client {
	r.t.Helper()
	c := r.announced()
	list, _ := json.Marshal(append([]string{}, sessions...))
	c.send(`{"type":"hello","version":"1.0.0","openclaw":"2026.9.6","sessions":%s}`, list)
	c.send(`{"action":"ping"}`)
	c.expectMessage("pong")
	return c
}

// lose ends the connection, and waits until the server knows.
func (r *rig) lose(c *client) {
	r.t.Helper()
	_ = c.ws.CloseNow()
	eventually(r.t, "the connection being gone", func() bool {
		h := r.pluginBot()
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.conns) == 0
	})
}

// acknowledged sends a numbered message and waits for its acknowledgement.
func (c *client) acknowledged(message string) {
	c.t.Helper()
	c.send("%s", message)
	c.expectMessage("chunk_received")
}

// asked starts a turn with a picture from glasses.
func (r *rig) asked(id string) *answer {
	return start(context.Background(), r.attachedBot(), &talk.Turn{ID: id, Bot: 7, Channel: "lingzhu", Person: "p",
		Conversation: "c", Commands: []string{talk.CommandNavigate}, Parts: []talk.Part{{Text: "what is this"},
			{Image: &talk.Image{MIME: "image/png", Data: []byte("png")}}}})
}

func TestConnector_question(t *testing.T) {
	r := newConnectorRig(t, &lamp{})
	c := r.connector()
	a := r.asked("t1")
	m := c.expectMessage("execute_command")
	var got commandMessage
	data, _ := json.Marshal(m)
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	p := got.Params
	if p.Message != "what is this" || len(p.Images) != 1 || p.Images[0].MIME != "image/png" ||
		p.Images[0].Data != base64.StdEncoding.EncodeToString([]byte("png")) {
		t.Errorf("%+v", p)
	}
	if len(p.Functions) != 2 || p.Functions[0].Name != talk.CommandNavigate || !p.Functions[0].Device ||
		p.Functions[1].Name != "lamp" || p.Functions[1].Device {
		t.Errorf("%+v", p.Functions)
	}
	if !strings.HasPrefix(got.Metadata.OpenClawSession, "patchbay-7-lingzhu-") {
		t.Errorf("the session is %q", got.Metadata.OpenClawSession)
	}
	c.acknowledged(`{"type":"stream_chunk","content":"a lamp","session_id":"t1","sequence":0}`)
	c.acknowledged(`{"type":"stream_end","session_id":"t1","sequence":1}`)
	a.ends(t, "a lamp")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limits != [2]int{maxConnectorConcurrent, maxConnectorWaiting} {
		t.Errorf("limits %v", r.limits)
	}
	if s, ok := r.s.Status(7); !ok || s.OpenClaw != "2026.9.6" || s.Connector != "1.0.0" {
		t.Errorf("%+v", s)
	}
}

// What the connector sends again after a lost connection is told once.
func TestConnector_resumes(t *testing.T) {
	r := newConnectorRig(t, &lamp{})
	c := r.connector()
	a := r.asked("t1")
	c.expectMessage("execute_command")
	c.acknowledged(`{"type":"stream_chunk","content":"one ","session_id":"t1","sequence":0}`)
	r.lose(c)
	c = r.connector("t1")
	c.acknowledged(`{"type":"stream_chunk","content":"one ","session_id":"t1","sequence":0}`)
	c.acknowledged(`{"type":"stream_chunk","content":"two","session_id":"t1","sequence":1}`)
	c.acknowledged(`{"type":"stream_end","session_id":"t1","sequence":2}`)
	a.ends(t, "one two")
}

func TestConnector_unwanted(t *testing.T) {
	r := newConnectorRig(t, nil)
	c := r.announced()
	c.send(`{"type":"hello","sessions":["old"]}`)
	if m := c.expectMessage("cancel"); m["session_id"] != "old" {
		t.Errorf("%v", m)
	}
}

// The rest of an answer that was cut off with the server is taken, once.
func TestConnector_cutOff(t *testing.T) {
	var kept strings.Builder
	finished := make(chan error, 1)
	r := newConnectorRig(t, nil, func(o *Options) {
		o.Resume = func(bot int64, turn string) *talk.Cut {
			if bot != 7 || turn != "cut" {
				return nil
			}
			return &talk.Cut{Turn: &talk.Turn{ID: turn, Bot: bot, Person: "p", Parts: []talk.Part{{Text: "count"}}},
				Mark: 3, Keep: func(text string, _ int64) { kept.WriteString(text) },
				End: func(err error) { finished <- err }}
		}
	})
	c := r.announced()
	c.send(`{"type":"hello","sessions":["cut","old"]}`)
	if m := c.expectMessage("cancel"); m["session_id"] != "old" {
		t.Errorf("%v", m)
	}
	c.send(`{"type":"call","session_id":"cut","call_id":"1","name":"light","arguments":"{}"}`)
	if m := c.expectMessage("call_result"); m["is_error"] != true {
		t.Errorf("%v", m)
	}
	c.acknowledged(`{"type":"stream_chunk","content":"one, ","session_id":"cut","sequence":2}`)
	c.acknowledged(`{"type":"stream_chunk","content":"two, ","session_id":"cut","sequence":3}`)
	c.acknowledged(`{"type":"stream_chunk","content":"three.","session_id":"cut","sequence":4}`)
	c.acknowledged(`{"type":"stream_chunk","content":"three.","session_id":"cut","sequence":4}`)
	c.acknowledged(`{"type":"stream_end","session_id":"cut","sequence":5}`)
	if err := <-finished; kept.String() != "two, three." || err != nil {
		t.Errorf("%q, %v", kept.String(), err)
	}
	if n := r.metric("anomalies_total", ""); n != 0 {
		t.Errorf("%v anomalies", n)
	}
}

// A server that stops leaves the rest of an answer that was cut off to the next one.
func TestConnector_cutOffAgain(t *testing.T) {
	var mu sync.Mutex
	var marks []int64
	r := newConnectorRig(t, nil, func(o *Options) {
		o.Resume = func(_ int64, turn string) *talk.Cut {
			return &talk.Cut{Turn: &talk.Turn{ID: turn, Bot: 7, Person: "p", Parts: []talk.Part{{Text: "count"}}},
				Keep: func(_ string, mark int64) {
					mu.Lock()
					defer mu.Unlock()
					marks = append(marks, mark)
				},
				End: func(err error) { t.Errorf("it ended with %v", err) }}
		}
	})
	c := r.connector("cut")
	c.acknowledged(`{"type":"stream_chunk","content":"one, ","session_id":"cut","sequence":0}`)
	if err := r.s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if !slices.Equal(marks, []int64{1}) {
		t.Errorf("%v", marks)
	}
}

// A piece is acknowledged when it was emitted, not before.
func TestConnector_acknowledges(t *testing.T) {
	r := newConnectorRig(t, nil)
	c := r.connector()
	listening, emitted := make(chan struct{}), make(chan int64, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- r.attachedBot().Answer(context.Background(), &talk.Turn{ID: "t1", Bot: 7, Person: "p",
			Parts: []talk.Part{{Text: "count"}}}, func(e talk.Event) error {
			<-listening
			emitted <- e.Mark
			return nil
		})
	}()
	c.expectMessage("execute_command")
	c.send(`{"type":"stream_chunk","content":"one ","session_id":"t1","sequence":0}`)
	c.send(`{"type":"stream_chunk","content":"one ","session_id":"t1","sequence":0}`)
	c.send(`{"action":"ping"}`)
	c.expectMessage("pong") // the pieces are received, and nothing is acknowledged
	close(listening)
	if m := c.expectMessage("chunk_received"); m["sequence"] != 0.0 {
		t.Errorf("%v", m)
	}
	c.acknowledged(`{"type":"stream_end","session_id":"t1","sequence":1}`)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if mark, complete := <-emitted, <-emitted; mark != 1 || complete != 0 || len(emitted) != 0 {
		t.Errorf("marks %d and %d, and %d more", mark, complete, len(emitted))
	}
}

// A connector that stops says so by closing its connection, and its answers end at once, though
// another connector is there.
func TestConnector_stops(t *testing.T) {
	r := newConnectorRig(t, &lamp{})
	old := r.connector()
	begun := r.asked("t1")
	old.expectMessage("execute_command")
	old.acknowledged(`{"type":"stream_chunk","content":"one ","session_id":"t1","sequence":0}`)
	silent := r.asked("t2")
	old.expectMessage("execute_command")
	c := r.connector()
	_ = old.ws.Close(websocket.StatusNormalClosure, "")
	begun.fails(t, talk.Lost)
	c.expectMessage("execute_command")
	c.acknowledged(`{"type":"stream_chunk","content":"yes","session_id":"t2","sequence":0}`)
	c.acknowledged(`{"type":"stream_end","session_id":"t2","sequence":1}`)
	silent.ends(t, "yes")
}

// A connector that has restarted is asked again if it had said nothing; otherwise the answer is
// lost.
func TestConnector_restarted(t *testing.T) {
	r := newConnectorRig(t, &lamp{})
	c := r.connector()
	begun, silent := r.asked("t1"), (*answer)(nil)
	c.expectMessage("execute_command")
	c.acknowledged(`{"type":"stream_chunk","content":"one ","session_id":"t1","sequence":0}`)
	silent = r.asked("t2")
	c.expectMessage("execute_command")
	r.lose(c)
	c = r.announced()
	c.send(`{"type":"hello","sessions":[]}`)
	begun.fails(t, talk.Lost)
	m := c.expectMessage("execute_command")
	if m["metadata"].(map[string]any)["session_id"] != "t2" {
		t.Fatalf("%v", m)
	}
	c.acknowledged(`{"type":"stream_chunk","content":"yes","session_id":"t2","sequence":0}`)
	c.acknowledged(`{"type":"stream_end","session_id":"t2","sequence":1}`)
	silent.ends(t, "yes")
}

// Whoever waits for a connector that answers no pings is told before its socket is given up, and
// gets the answer if it goes on.
func TestConnector_quiet(t *testing.T) {
	r := newConnectorRig(t, &lamp{}, func(o *Options) { o.Timings.Ping = 4 * time.Second })
	c := r.connector()
	a := r.asked("t1")
	c.expectMessage("execute_command")
	eventually(t, "the asker being told", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.notes) == 1 && a.notes[0] == talk.MsgReconnecting.In("")
	})
	c.acknowledged(`{"type":"stream_chunk","content":"yes","session_id":"t1","sequence":0}`)
	c.acknowledged(`{"type":"stream_end","session_id":"t1","sequence":1}`)
	a.ends(t, "yes")
}

// A question that the connector never gets is not sent for ever.
func TestConnector_askedAgain(t *testing.T) {
	r := newConnectorRig(t, &lamp{})
	c := r.connector()
	a := r.asked("t1")
	for range maxAskedAgain + 1 {
		c.expectMessage("execute_command")
		r.lose(c)
		c = r.announced()
		c.send(`{"type":"hello","sessions":[]}`)
	}
	a.fails(t, talk.Offline)
}

func TestConnector_calls(t *testing.T) {
	l := &lamp{hold: make(chan struct{})}
	r := newConnectorRig(t, l)
	c := r.connector()
	a := r.asked("t1")
	c.expectMessage("execute_command")
	result := func(id, want string, failed bool) {
		t.Helper()
		m := c.expectMessage("call_result")
		if content, _ := m["content"].(string); m["call_id"] != id || !strings.Contains(content, want) ||
			(m["is_error"] == true) != failed {
			t.Fatalf("%v", m)
		}
	}
	c.send(`{"type":"call","session_id":"t1","call_id":"a","name":"cellar","arguments":{}}`)
	result("a", toolbox.UnknownFunction, true)
	c.send(`{"type":"call","session_id":"t1","call_id":"b","name":"%s","arguments":{"action":"open"}}`, talk.CommandNavigate)
	result("b", "poi_name is missing", true)
	c.send(`{"type":"call","session_id":"t1","call_id":"c","name":"%s","arguments":{"action":"open","poi_name":"Zoo"}}`,
		talk.CommandNavigate)
	result("c", toolbox.SentToDevice, false)
	c.send(`{"type":"call","session_id":"t1","call_id":"d","name":"lamp","arguments":{"on":true}}`)
	eventually(t, "the lamp being called", func() bool { return len(l.called()) == 1 })
	r.lose(c)
	c = r.connector("t1")
	c.send(`{"type":"call","session_id":"t1","call_id":"d","name":"lamp","arguments":{"on":true}}`)
	c.send(`{"action":"ping"}`)
	c.expectMessage("pong")
	close(l.hold)
	result("d", "it shines", false)
	if got := l.called(); len(got) != 1 || got[0] != `{"on":true}` {
		t.Errorf("the lamp was called with %q", got)
	}
	c.acknowledged(`{"type":"stream_end","session_id":"t1","sequence":0}`)
	a.end(t)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.commands != 1 {
		t.Errorf("%d commands", a.commands)
	}
}

// A new question of the same conversation ends the answer that runs.
func TestConnector_interrupted(t *testing.T) {
	r := newConnectorRig(t, nil)
	c := r.connector()
	a := r.asked("t1")
	c.expectMessage("execute_command")
	c.acknowledged(`{"type":"stream_error","session_id":"t1","sequence":0,"error":"interrupted"}`)
	if f := a.fails(t, talk.BotFailed); f.Told == "" {
		t.Errorf("%+v", f)
	}
	if s, _ := r.s.Status(7); !s.LastErrorAt.IsZero() {
		t.Errorf("the owner is told of it: %+v", s)
	}
}

// Each kind of bot is answered by what it is for.
func TestConnector_kinds(t *testing.T) {
	for kind, ident := range map[string]string{
		ConnectorKind: `"{\"channel\":\"BotChannel\",\"bot_id\":\"7\"}"`,
		Kind:          `"{\"channel\":\"BotChannel\",\"connector\":1}"`,
	} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Registry.(*rig).tokens[goodToken] = Bot{Number: 7, Kind: kind} })
			c := r.connect()
			c.expect("welcome")
			c.raw(`{"command":"subscribe","identifier":` + ident + `}`)
			c.expect("reject_subscription")
			if s, _ := r.s.Status(7); s.LastErrorAt.IsZero() {
				t.Error("the owner is not told")
			}
		})
	}
}
