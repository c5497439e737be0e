package wire

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]Message{
		`{"session_id":"s","type":"listen","state":"start","mode":"auto"}`:                                                      {Type: TypeListen, SessionID: "s", State: ListenStart, Mode: ModeAuto},
		`{"TYPE":"stt","Text":"hi","session_id":7}`:                                                                             {Type: TypeSTT, Text: "hi"},
		`{"type":"mcp","payload":[1]}`:                                                                                          {Type: TypeMCP},
		`{"type":"mcp","payload":{"id":1}}`:                                                                                     {Type: TypeMCP, Payload: []byte(`{"id":1}`)},
		`{"type":"iot","states":[{}]}`:                                                                                          {Type: TypeIOT, Things: []byte(`[{}]`)},
		`{"type":"notify","audio_url":"u","subtitles":[{"start_ms":5,"text":"a"}]}`:                                             {Type: TypeNotify, AudioURL: "u", Subtitles: []Subtitle{{5, "a"}}},
		`{"session_id":"s","type":"listen","state":"detect","text":"你好 "小智""}`:                                                  {Type: TypeListen, SessionID: "s", State: ListenDetect, Text: `你好 "小智"`, Repaired: true},
		`{"session_id":"","type":"mcp","payload":{"jsonrpc":"2.0","id":2147483647,"error":{"message":"Unknown tool: "x"}}"}}}`:  {Type: TypeMCP, Payload: []byte(`{"jsonrpc":"2.0","id":2147483647,"error":{"message":"Unknown tool: \"x\"}}"}}`), Repaired: true},
		"{\"session_id\":\"s\",\"type\":\"mcp\",\"payload\":{\"jsonrpc\":\"2.0\",\"id\": 7 ,\"error\":{\"message\":\"a\nb\"}}}": {Type: TypeMCP, SessionID: "s", Payload: []byte(`{"jsonrpc":"2.0","id":7,"error":{"message":"a\nb"}}`), Repaired: true},
	} {
		got, err := Parse([]byte(in))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n got %+v, %v\nwant %+v", in, got, err, want)
		}
	}
	for _, in := range []string{
		``, `null`, `[]`, `7`, `"x"`, `{}`, `{"type":7}`, `{"type":"stt"`, `{"type":"stt","text":"a"b"}`,
		`{"session_id":"s","type":"mcp","payload":{"jsonrpc":"2.0","id":x,"error":{"message":"a"b"}}}`,
		`{"session_id":"s","type":"mcp","payload":{"jsonrpc":"2.0","id":1,"result":{"a"b"}}}`,
		`{"session_id":"s","type":"listen","state":"detect","text":"a"b`,
	} {
		if m, err := Parse([]byte(in)); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %+v %v", in, m, err)
		}
	}
}

// What is written is parsed unchanged.
func TestReadBack(t *testing.T) {
	for _, g := range golden() {
		switch {
		case strings.HasPrefix(g[0], "hello of a server"):
			h, err := ParseHello([]byte(g[1]))
			if err != nil || string(h.AppendServer(nil)) != g[1] {
				t.Errorf("%s: %+v %v", g[0], h, err)
			}
		case strings.HasPrefix(g[0], "hello"):
			h, err := ParseHello([]byte(g[1]))
			if err != nil || string(h.AppendBoard(nil)) != g[1] {
				t.Errorf("%s: %+v %v", g[0], h, err)
			}
		case strings.HasPrefix(g[0], "answer"):
			a, err := ParseOTAResponse([]byte(g[1]))
			body, _ := a.Marshal()
			if err != nil || strings.TrimSpace(string(body)) != g[1] {
				t.Errorf("%s: %+v %v", g[0], a, err)
			}
		case g[0] != "detect":
			m, err := Parse([]byte(g[1]))
			if err != nil || string(m.Append(nil)) != g[1] {
				t.Errorf("%s: %+v %v", g[0], m, err)
			}
		}
	}
}

func TestHello(t *testing.T) {
	h, err := ParseHello([]byte(`{"type":"hello","version":"3","transport":5,"audio_params":{"sample_rate":"x","frame_duration":20}}`))
	if err != nil || h.Version != 3 || h.Transport != "" || h.Audio.FrameDuration != 20 || h.Audio.SampleRate != 0 {
		t.Errorf("%+v %v", h, err)
	}
	for _, in := range []string{``, `[]`, `{"type":"tts"}`, `{"type":"hello"`} {
		if _, err := ParseHello([]byte(in)); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %v", in, err)
		}
	}
	if (Audio{SampleRate: 44100, FrameDuration: 60}).Playable() == nil ||
		(Audio{SampleRate: 24000, FrameDuration: 30}).Playable() == nil ||
		(Audio{SampleRate: 24000, FrameDuration: 60}).Playable() != nil {
		t.Error("what boards can play is not known")
	}
}

func TestSecrets(t *testing.T) {
	good := Link{Server: "h", Port: 1, Key: strings.Repeat("Ab", 16), Nonce: "01" + strings.Repeat("00", 15)}
	if key, nonce, err := good.Secrets(); err != nil || key[0] != 0xab || nonce[0] != 1 {
		t.Errorf("%x %x %v", key, nonce, err)
	}
	for name, spoil := range map[string]func(*Link){
		"server": func(l *Link) { l.Server = "" }, "port": func(l *Link) { l.Port = 65536 },
		"no port": func(l *Link) { l.Port = 0 },
		"key":     func(l *Link) { l.Key = l.Key[:30] }, "nonce": func(l *Link) { l.Nonce += "00" },
		"hex":  func(l *Link) { l.Key = strings.Repeat("xy", 16) },
		"type": func(l *Link) { l.Nonce = strings.Repeat("00", 16) },
	} {
		l := good
		spoil(&l)
		if _, _, err := l.Secrets(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestAddresses(t *testing.T) {
	for in, want := range map[string]Address{
		"ws://192.168.1.5:8000/xiaozhi/v1/": {false, "192.168.1.5", 8000, "/xiaozhi/v1/"},
		"wss://board.example.org/x?a=b":     {true, "board.example.org", 443, "/x?a=b"},
		"wss://board.example.org":           {true, "board.example.org", 443, "/"},
		"ws://h:1/a:b":                      {false, "h", 1, "/a:b"},
	} {
		if got, err := ParseSocketURL(in); err != nil || got != want {
			t.Errorf("%s: %+v %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", "http://h/", "wss:/h/", "wss://", "wss://h:8000", "wss://h/a:b", "wss://h/?t=a:b", "wss://u:p@h/",
		"wss://[::1]:80/", "wss://h:x/", "wss://h:0/",
		"wss://h:70000/", "wss://h/a b", "wss://h?x=1",
	} {
		if got, err := ParseSocketURL(in); err == nil {
			t.Errorf("%s: %+v", in, got)
		}
	}
	if got, err := ParseHTTPURL("http://h/a:b"); err != nil || got != (Address{false, "h", 80, "/a:b"}) {
		t.Errorf("%+v %v", got, err)
	}
	for in, want := range map[string]Address{"h": {true, "h", 8883, ""}, "h:1883": {false, "h", 1883, ""},
		"h:8883": {true, "h", 8883, ""}} {
		if got, err := ParseEndpoint(in); err != nil || got != want {
			t.Errorf("%s: %+v %v", in, got, err)
		}
	}
	for _, in := range []string{"", ":1883", "h:", "h:x", "mqtt://h:1"} {
		if got, err := ParseEndpoint(in); err == nil {
			t.Errorf("%s: %+v", in, got)
		}
	}
}

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		offered, running string
		want             bool
	}{{"2.4.3", "2.4.2", true}, {"2.10.0", "2.9.9", true}, {"2.4.2", "2.4.2", false}, {"2.4",
		"2.4.2", false}, {"2.4.2.1", "2.4.2", true}, {"1.9.9", "2.0", false}} {
		if got, err := Newer(c.offered, c.running); got != c.want || err != nil {
			t.Errorf("%+v: %v %v", c, got, err)
		}
	}
	for _, v := range []string{"", "v2", "2.4.2-rc1", "2..4", "+2"} {
		if _, err := Newer(v, "1.0"); err == nil {
			t.Errorf("%q is taken", v)
		}
	}
}

func TestCheckAnswer(t *testing.T) {
	const socket = `"websocket":{"url":"ws://h/","token":"t"}`
	for in, want := range map[string]string{
		`{` + socket + `}`: "",
		`{"mqtt":{"endpoint":"h:1883","subscribe_topic":"null"}}`: "",
		`{"activation":{"code":"1","challenge":"c"}}`:             "",
		`x`:                                 "no JSON",
		`[]`:                                "no JSON object",
		`{}`:                                "neither",
		`{"websocket":{"url":"http://h/"}}`: "websocket.url",
		`{"mqtt":{"endpoint":""}}`:          "mqtt.endpoint",
		`{"mqtt":{"endpoint":"h","subscribe_topics":"x"}}`: "longer than 15",
		// neither string nor number: not stored
		`{"mqtt":{"endpoint":"h","a_very_long_key_x":true}}`:                          "",
		`{"websocket":{"url":"ws://h/","token":"` + strings.Repeat("x", 4000) + `"}}`: "longer than 3999",
		`{` + socket + `,"firmware":{"version":"v3","url":""}}`:                       "firmware.version",
		`{` + socket + `,"activation":{"code":"1"}}`:                                  "no challenge",
		`{` + socket + `,"x":"` + strings.Repeat("x", 8192) + `"}`:                    "hang",
	} {
		got := strings.Join(CheckOTAResponse([]byte(in)), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%.90s: %s", in, got)
		}
	}
	bad := OTAResponse{WebSocket: &WebSocketConfig{URL: "ws://h:1"}}
	if body, err := bad.Marshal(); err == nil {
		t.Errorf("%s", body)
	}
}

func TestParseBoard(t *testing.T) {
	b := ParseOTARequest([]byte(`{"version":"two","mac_address":"aa:bb","minimum_free_heap_size":"81000","application":{"version":"2.4.2","name":7},"board":{"type":"wifi","rssi":-50}}`))
	if b.MAC != "aa:bb" || b.MinimumHeap != "81000" || b.Application.Version != "2.4.2" || b.Board.RSSI != -50 {
		t.Errorf("%+v", b)
	}
	if b := ParseOTARequest([]byte(`nonsense`)); b.MAC != "" {
		t.Errorf("%+v", b)
	}
}
