package eyeclaw

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/talk"
)

func TestHandshake_subprotocol(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		offered []string
		want    string
	}{
		{nil, ""},
		{[]string{"actioncable-v1-json", "actioncable-unsupported"}, "actioncable-v1-json"},
		{[]string{"actioncable-unsupported"}, ""},
	} {
		ws, resp, err := r.dial("?sdk_token="+goodToken, &websocket.DialOptions{
			Subprotocols: c.offered, CompressionMode: websocket.CompressionContextTakeover})
		if err != nil {
			t.Fatal(err)
		}
		if got, sent := ws.Subprotocol(), resp.Header.Values("Sec-WebSocket-Protocol"); got != c.want ||
			(c.want == "") != (len(sent) == 0) {
			t.Errorf("offered %v: chosen %q, header %q", c.offered, got, sent)
		}
		if ext := resp.Header.Get("Sec-WebSocket-Extensions"); ext != "" {
			t.Errorf("extensions %q", ext)
		}
		_ = ws.CloseNow()
	}
}

func TestHandshake_origin(t *testing.T) {
	r := newRig(t, func(o *Options) { o.PublicURL = "https://hub.example" })
	host := strings.TrimPrefix(r.http.URL, "http://")
	for origin, want := range map[string]int{
		"":                     http.StatusSwitchingProtocols,
		"http://" + host:       http.StatusSwitchingProtocols,
		"https://hub.example":  http.StatusSwitchingProtocols,
		"https://evil.example": http.StatusForbidden,
		"null":                 http.StatusForbidden,
	} {
		h := http.Header{}
		if origin != "" {
			h.Set("Origin", origin)
		}
		ws, resp, err := r.dial("?sdk_token="+goodToken, &websocket.DialOptions{HTTPHeader: h})
		if resp == nil || resp.StatusCode != want {
			t.Errorf("origin %q: %v, %v; want status %d", origin, resp, err, want)
		}
		if ws != nil {
			_ = ws.CloseNow()
		}
	}
	resp, err := http.Get(r.http.URL + "/cable?sdk_token=" + goodToken)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("a plain request got %d", resp.StatusCode)
	}
}

func TestSubscribe(t *testing.T) {
	r := newRig(t)
	c := r.connect()
	c.expect("welcome")

	// Keys, spaces and escapes are the client's choice.
	c.ident = `"{ \"bot_id\":\"999\", \"channel\":\"BotChannel\",\"x\":\"\u4f60\/<\"}"`
	c.raw(`{"command":"subscribe","identifier":` + c.ident + `}`)
	m := c.expectMessage("connected")
	if m["bot_id"] != 7.0 || m["session_id"] == "" || m["message"] != "Successfully connected to EyeClaw" {
		t.Errorf("connected: %v", m)
	}
	var want string
	if err := json.Unmarshal([]byte(c.ident), &want); err != nil {
		t.Fatal(err)
	}
	if got := c.expect("confirm_subscription")["identifier"]; got != want {
		t.Errorf("identifier came back as %q, want %q", got, want)
	}

	c.raw(`{"command":"subscribe","identifier":` + c.ident + `}`) // no answer
	c.raw(`{"command":"subscribe","identifier":"{\"channel\":\"RokidStreamChannel\",\"access_key\":\"ak_x\"}"}`)
	if got := c.expect("reject_subscription")["identifier"]; got != `{"channel":"RokidStreamChannel","access_key":"ak_x"}` {
		t.Errorf("rejected %q", got)
	}
	for i := range maxSubs - 1 {
		c.raw(fmt.Sprintf(`{"command":"subscribe","identifier":"{\"channel\":\"BotChannel\",\"n\":%d}"}`, i))
		c.expectMessage("connected")
		c.expect("confirm_subscription")
	}
	c.raw(`{"command":"subscribe","identifier":"{\"channel\":\"BotChannel\",\"n\":99}"}`)
	c.expect("reject_subscription")

	// One question causes one command, however many subscriptions there are.
	a := r.ask(t.Context(), r.attachedBot(), "t1", "hi")
	if f := c.next(); f["identifier"] != want {
		t.Errorf("the command came as %v", f)
	}
	c.send(`{"type":"stream_end","session_id":"t1"}`)
	c.send(`{"type":"stream_summary","session_id":"t1","total_content":"","total_chunks":0}`)
	a.ends(t, "")
	c.send(`{"action":"ping"}`)
	c.expectMessage("pong")
}

func TestSubscribe_rawBytes(t *testing.T) {
	ident := rawJSON(`"{ \"channel\":\"BotChannel\",\"x\":\"\u4f60\/<\"}"`)
	want := `{"identifier":` + string(ident) + `,"type":"confirm_subscription"}`
	if got := subscriptionFrame(ident, "confirm_subscription"); string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want = `{"identifier":` + string(ident) + `,"message":{"type":"cancel","session_id":"<&>"}}`
	if got := messageFrame(ident, cancelMessage{"cancel", "<&>"}); string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUnsubscribe(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Grace = time.Millisecond })
	c := r.subscribed()
	b := r.attachedBot()
	c.raw(`{"command":"unsubscribe","identifier":` + c.ident + `}`)
	r.await("the bot being detached", func() bool { return r.detached == 1 })
	r.ask(t.Context(), b, "t1", "hi").fails(t, talk.Offline)
	c.raw(`{"command":"subscribe","identifier":` + c.ident + `}`)
	c.expectMessage("connected")
	c.expect("confirm_subscription")
	r.await("the bot being attached again", func() bool { return r.attached == 2 })
}

func TestVocabulary(t *testing.T) {
	r := newRig(t)
	c := r.subscribed()
	for _, x := range []struct{ say, typ, has string }{
		{`{"action":"ping","timestamp":"x"}`, "pong", `"timestamp":"20`},
		{`{"action":"status"}`, "status_response",
			`"active_sessions":1,"online":true,"status":"online","total_sessions":1`},
		{`{"action":"execute_command","command":"restart","params":{},"metadata":null}`, "command_received",
			`"command":"restart","status":"processing"`},
		{`{"action":"log","message":"hello"}`, "log", `"level":"info","message":"hello"`},
		{`{"action":"log","level":"warn","message":"` + strings.Repeat("好", 3000) + `"}`, "log",
			`"level":"warn","message":"` + strings.Repeat("好", maxLogEcho/3) + `"`},
		{`{"action":"response","content":"x","session_id":"s"}`, "response_received",
			`"session_id":"s","status":"success"`},
		{`{"action":"stream_chunk","content":"x","session_id":"s","sequence":3}`, "chunk_received",
			`"sequence":3,"session_id":"s"`},
		{`{"type":"stream_chunk","chunk":"x","session_id":"s","sequence":0}`, "chunk_received",
			`"sequence":0,"session_id":"s"`},
	} {
		c.send("%s", x.say)
		m := c.expectMessage(x.typ)
		if got, _ := json.Marshal(m); !strings.Contains(string(got), x.has) {
			t.Errorf("%s answered by %.300s, without %s", x.say, got, x.has)
		}
	}
	// These get no answer, and what follows only the pong.
	for _, silent := range []string{
		`{"type":"pong"}`, `{"action":"command_result","command":"x","result":{},"error":null}`,
		`{"action":"response","content":"","session_id":"s"}`, `{"type":"stream_chunk","content":"x","session_id":"s"}`,
		`{"type":"stream_chunk","content":"x","session_id":"s","sequence":"1"}`,
		`{"type":"stream_chunk","content":"x","sequence":-1}`,
		`{"type":"stream_chunk","content":"x","sequence":1.5}`, `{"type":"stream_chunk","content":"x","sequence":[{}]}`,
		`{"type":"nonsense"}`, `{"type":"stream_end"}`, `{"type":"stream_error"}`, `{"type":"stream_summary"}`, `{}`,
	} {
		c.send("%s", silent)
	}
	c.send(`{"action":"ping"}`)
	c.expectMessage("pong")
}

func TestGarbage(t *testing.T) {
	r := newRig(t)
	c := r.connect()
	c.expect("welcome")
	for i, frame := range []string{
		``, `x`, `[]`, `null`, `7`, `{"command":7}`, `{"command":"fly"}`, `{"command":"subscribe"}`,
		`{"command":"subscribe","identifier":7}`, `{"command":"subscribe","identifier":"no json"}`,
		`{"command":"subscribe","identifier":"[]"}`,
		`{"command":"subscribe","identifier":"{\"channel\":[]}"}`, `{"command":"unsubscribe","identifier":"{}"}`,
		`{"command":"unsubscribe"}`,
		`{"command":"message","identifier":` + c.ident + `,"data":"{\"action\":\"ping\"}"}`, // not subscribed
		`{"command":"subscribe","identifier":"{\"channel\":\"BotChannel\",\"x\":\"` +
			strings.Repeat("x", maxIdentifier) + `\"}"}`,
		strings.Repeat(`{"command":`, 20000), "{\"command\":\"\xff\xfe\"}",
	} {
		c.raw(frame)
		if n := r.metric("dropped_frames_total", ""); i == 0 && n > 1 {
			t.Fatal(n)
		}
	}
	if err := c.ws.Write(t.Context(), websocket.MessageBinary, []byte{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	c.raw(`{"command":"subscribe","identifier":` + c.ident + `}`)
	c.expectMessage("connected")
	c.expect("confirm_subscription")
	for _, data := range []string{`7`, `"7"`, `"[]"`, `""`, `null`, `"{"`, `"{\"type\":7}"`, `"no json"`} {
		c.raw(`{"command":"message","identifier":` + c.ident + `,"data":` + data + `}`)
	}
	c.raw(`{"command":"message","identifier":` + c.ident + `}`)
	c.raw(`{"command":"message","identifier":` + c.ident + `,"data":{"action":"ping"}}`) // not as a string
	c.expectMessage("pong")
	if n := r.metric("dropped_frames_total", ""); n != 18+1+9 {
		t.Errorf("%v frames dropped", n)
	}
	if n := r.metric("closed_total", ""); n != 0 {
		t.Errorf("%v sockets closed over garbage", n)
	}
}

func TestPing(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Timings.Ping = 5 * time.Millisecond })
	ws, _, err := r.dial("?sdk_token="+goodToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	for i := range 5 {
		_, data, err := ws.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Type    string
			Message int64
		}
		if err := json.Unmarshal(data, &f); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if string(data) != `{"type":"welcome"}` {
				t.Errorf("first came %s", data)
			}
			continue
		}
		if off := time.Since(time.Unix(f.Message, 0)); f.Type != "ping" || off < 0 || off > patience {
			t.Errorf("got %s", data)
		}
	}
}
