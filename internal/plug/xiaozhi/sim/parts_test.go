package sim

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/xiaozhi/wire"
)

func TestPlayback(t *testing.T) {
	t0 := time.Unix(1000, 0)
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	p := playback{frame: 60 * time.Millisecond, cap: 4}
	for i := range 7 { // one plays, two are decoded, four are queued
		if ok, _ := p.take(at(0)); !ok || p.waiting(at(0)) != max(0, i-2) {
			t.Errorf("packet %d: %v, %d wait", i, ok, p.waiting(at(0)))
		}
	}
	if ok, _ := p.take(at(0)); ok {
		t.Error("the queue has no end")
	}
	if ok, gap := p.take(at(60)); !ok || gap != 0 {
		t.Errorf("after one packet there is no room: %v %v", ok, gap)
	}
	if ok, gap := p.take(at(540)); !ok || gap != 60*time.Millisecond {
		t.Errorf("the gap is %v", gap)
	}
	if n := p.reset(at(540)); n != 1 {
		t.Errorf("%d packets are thrown away", n)
	}
	if ok, gap := p.take(at(9000)); !ok || gap != 0 {
		t.Errorf("a new answer begins with a gap of %v", gap)
	}
}

// Times just within the limits, and just beyond.
func TestInspector(t *testing.T) {
	t0 := time.Unix(1000, 0)
	const frame = 60 * time.Millisecond
	type act struct {
		ms   int
		what string
	}
	for _, c := range []struct {
		name, broken string
		ahead        int
		tight, udp   bool
		acts         []act
	}{
		{"right", "", 3, false, false, []act{{0, "start"}, {20, "audio"}, {20, "audio"}, {20, "audio"}, {80, "audio"},
			{260, "stop"}}},
		{"too soon", "C6", 3, false, false, []act{{0, "start"}, {14, "audio"}, {80, "stop"}}},
		{"four ahead", "", 3, false, false, []act{{0, "start"}, {20, "audio"}, {20, "audio"}, {20, "audio"},
			{20, "audio"}, {300, "stop"}}},
		{"five ahead", "C7", 3, false, false, []act{{0, "start"}, {20, "audio"}, {20, "audio"}, {20, "audio"},
			{20, "audio"}, {20, "audio"}, {320, "stop"}}},
		{"two ahead for little memory", "", 2, true, false, []act{{0, "start"}, {20, "audio"}, {20, "audio"},
			{20, "audio"}, {80, "audio"}, {260, "stop"}}},
		{"three ahead for little memory", "C7", 2, true, false,
			[]act{{0, "start"}, {20, "audio"}, {20, "audio"}, {20, "audio"}, {20, "audio"}, {300, "stop"}}},
		{"nothing to play", "C7", 3, false, false, []act{{0, "start"}, {20, "audio"}, {81, "audio"}, {150, "stop"}}},
		{"just in time", "", 3, false, false, []act{{0, "start"}, {20, "audio"}, {80, "audio"}, {140, "stop"}}},
		{"stop too soon", "C8", 3, false, false, []act{{0, "start"}, {20, "audio"}, {69, "stop"}}},
		{"stop too late", "C8", 3, false, false, []act{{0, "start"}, {20, "audio"}, {481, "stop"}}},
		{"stop late", "", 3, false, false, []act{{0, "start"}, {20, "audio"}, {480, "stop"}}},
		{"sentence too soon", "C6", 3, false, false, []act{{0, "start"}, {20, "sentence"}, {221, "audio"},
			{300, "stop"}}},
		{"abort", "", 3, false, false, []act{{0, "start"}, {20, "audio"}, {30, "abort"}, {130, "audio"},
			{230, "stop"}}},
		{"audio after abort", "C9", 3, false, false, []act{{0, "start"}, {20, "audio"}, {30, "abort"}, {131, "audio"},
			{230, "stop"}}},
		{"stop late after abort", "C9", 3, false, false, []act{{0, "start"}, {20, "audio"}, {30, "abort"},
			{231, "stop"}}},
		{"start after abort", "C9", 3, false, false, []act{{0, "start"}, {20, "audio"}, {30, "abort"}, {40, "start"},
			{50, "stop"}}},
		{"audio after stop", "C6", 3, false, false, []act{{0, "start"}, {20, "audio"}, {200, "stop"}, {201, "audio"}}},
		{"overtaken by stop", "", 3, false, true, []act{{0, "start"}, {20, "audio"}, {200, "stop"}, {300, "audio"}}},
		{"no stop at all", "C6", 3, false, false, []act{{0, "start"}, {20, "audio"}, {200, "over"}}},
	} {
		var r Report
		i := inspector{frame: frame, ahead: c.ahead, tight: c.tight, udp: c.udp, steady: true, report: &r,
			violate: r.violate}
		for _, a := range c.acts {
			at := t0.Add(time.Duration(a.ms) * time.Millisecond)
			switch a.what {
			case "start":
				i.start(at)
			case "audio":
				i.audio(at, frame)
			case "sentence":
				i.sentence(at)
			case "abort":
				i.abort(at)
			case "stop":
				i.stop(at)
			case "over":
				i.over()
			}
		}
		switch {
		case c.broken == "" && len(r.Violations) > 0:
			t.Errorf("%s: %v", c.name, r.Violations)
		case c.broken != "" && !r.Broke(c.broken):
			t.Errorf("%s: %v", c.name, r.Violations)
		}
	}
}

func TestViolationsAreCounted(t *testing.T) {
	var r Report
	r.violate("C7", "the server is %.1f packets ahead", 5.0)
	r.violate("C7", "the server is %.1f packets ahead", 17.3)
	r.violate("C7", "another thing")
	if len(r.Violations) != 2 || r.Violations[0].Times != 2 ||
		r.Violations[0].String() != "C7: the server is 5.0 packets ahead (2 times)" {
		t.Errorf("%v", r.Violations)
	}
	for i := range 2 * maxViolations {
		r.violate("", "%s", strings.Repeat("x", i))
	}
	if len(r.Violations) != maxViolations {
		t.Errorf("%d violations", len(r.Violations))
	}
}

func TestFrames(t *testing.T) {
	for _, n := range []int{0, 125, 126, 65535} {
		data := bytes.Repeat([]byte{7}, n)
		fin, op, got, err := readFrame(bufio.NewReader(bytes.NewReader(appendFrame(nil, opText, data, 0x01020304))))
		if err != nil || !fin || op != opText || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: %v %d %v", n, fin, op, err)
		}
	}
	long := binary.BigEndian.AppendUint64([]byte{0x01, 127}, 3)
	fin, _, got, err := readFrame(bufio.NewReader(bytes.NewReader(append(long, "abc"...))))
	if err != nil || fin || string(got) != "abc" {
		t.Errorf("%v %q %v", fin, got, err)
	}
	for _, bad := range []string{"", "\x81", "\x81\x05abc", "\xc1\x00", "\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
		"\x81\x7e\x00", "\x81\x81\x00"} {
		if _, _, _, err := readFrame(bufio.NewReader(strings.NewReader(bad))); err == nil {
			t.Errorf("%q is a frame", bad)
		}
	}
	s := &webSocket{}
	if err := s.send(opText, make([]byte, wire.MaxText+1)); !errors.Is(err, errTooLong) {
		t.Error(err)
	}
}

func TestPackets(t *testing.T) {
	plan := wire.MQTTConfig{ClientID: "c", Username: "u", Keepalive: 240}
	if got := fmt.Sprintf("%q", appendConnect(nil, plan,
		"p")); got != `"\x10\x13\x00\x04MQTT\x04\xc2\x00\xf0\x00\x01c\x00\x01u\x00\x01p"` {
		t.Error(got)
	}
	for _, n := range []int{0, 127, 128, 16383, 16384, maxPacket} {
		head, body, err := readPacket(bufio.NewReader(bytes.NewReader(append(appendLength([]byte{0x30}, n),
			make([]byte, n)...))))
		if err != nil || head != 0x30 || len(body) != n {
			t.Errorf("%d bytes: %x %d %v", n, head, len(body), err)
		}
	}
	for _, bad := range []string{"", "0", "0\xff\xff\xff\xff\x01", "0\x05abc", "0\xff\xff\xff\x7f"} {
		if _, _, err := readPacket(bufio.NewReader(strings.NewReader(bad))); err == nil {
			t.Errorf("%q is a packet", bad)
		}
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, opText, []byte("hello"), 7))
	f.Add([]byte("\x01\x7f\x00\x00\x00\x00\x00\x00\x00\x01a"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReader(bytes.NewReader(data))
		for {
			if _, _, got, err := readFrame(in); err != nil {
				return
			} else if len(got) > len(data) {
				t.Fatalf("%d bytes out of %d", len(got), len(data))
			}
		}
	})
}

func FuzzPacket(f *testing.F) {
	f.Add([]byte("0\x05\x00\x01ax{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReader(bytes.NewReader(data))
		for {
			if _, _, err := readPacket(in); err != nil {
				return
			}
		}
	})
}

// sink is a link that keeps the last message.
type sink struct{ last []byte }

func (s *sink) sendText(text []byte) error   { s.last = text; return nil }
func (*sink) sendAudio([]byte, uint32) error { return nil }
func (*sink) sendRaw(bool, []byte) error     { return nil }
func (*sink) drop(bool)                      {}
func (s *sink) talking() *audioChannel {
	return &audioChannel{link: s, helloed: true, lastData: time.Now()}
}

// Whatever a server sends, the board does not panic, and its replies are valid.
func FuzzServer(f *testing.F) {
	for _, s := range []string{
		`{"type":"tts","state":"start"}`, `{"type":"stt","text":"x"}`,
		`{"type":"alert","status":"a","message":"b","emotion":"c"}`, `{"type":"goodbye"}`,
		`{"type":"mcp","payload":{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"vision":{"url":"http://h/"}}}}}`,
		`{"type":"mcp","payload":{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"","withUserTools":true}}}`,
		`{"type":"mcp","payload":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"self.audio_speaker.set_volume","arguments":{"volume":50}}}}`,
		`{"type":"mcp","payload":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"self.\"x\"","arguments":{}}}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "self.") && (strings.Contains(text, "reboot") || strings.Contains(text, "url") ||
			strings.Contains(text, "snapshot")) || strings.Contains(strings.ToLower(text), "reboot") {
			return // these cause requests to the server
		}
		out := &sink{}
		b := New(Options{OTA: "http://127.0.0.1:1/", Latency: func() time.Duration { return 0 }})
		defer b.Close()
		b.mu.Lock()
		b.state, b.ch = Idle, out.talking()
		b.ch.inspect = inspector{frame: wire.DownlinkFrame, report: &b.report, violate: b.violate}
		b.onText(b.ch, []byte(text), time.Now())
		tasks := b.tasks
		b.tasks = nil
		b.mu.Unlock()
		for _, task := range tasks {
			task(b.ctx)
		}
		b.mu.Lock() // the loop may still send a reply
		last := out.last
		b.mu.Unlock()
		if last == nil {
			return
		}
		m, err := wire.Parse(last)
		if err != nil {
			t.Fatalf("%q: %s", text, last)
		}
		if m.Payload != nil {
			if _, err := jsonrpc.Parse(m.Payload); err != nil || !json.Valid(m.Payload) {
				t.Errorf("%q: %s", text, last)
			}
		}
	})
}

// An idle MQTT board uses little memory, so that many fit into a process.
func TestIdleIsCheap(t *testing.T) {
	broker, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	const n = 500
	var held []net.Conn
	var wg sync.WaitGroup
	wg.Go(func() { // accepts and then sends nothing, so it uses almost no memory
		buf := make([]byte, 1<<10)
		for range n {
			conn, err := broker.Accept()
			if err != nil {
				return
			}
			held = append(held, conn)
			_, _ = conn.Read(buf)
			_, _ = conn.Write([]byte{mqttConnAck << 4, 2, 0, 0})
		}
	})
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a := wire.OTAResponse{MQTT: &wire.MQTTConfig{Endpoint: broker.Addr().String(),
			ClientID: "c", Publish: "device-server"}}
		body, _ := a.Marshal()
		_, _ = w.Write(body)
	}))
	ctx := testContext(t)
	before := measure()
	boards := make([]*Board, n)
	for i := range boards {
		boards[i] = New(Options{OTA: home.URL, Latency: func() time.Duration { return 0 }})
		must(t, boards[i].Boot(ctx))
	}
	home.Close() // frees the server's memory of its clients
	per := float64(measure()-before) / n / 1024
	t.Logf("%.1f KiB for an idle board", per)
	if per > 12 {
		t.Errorf("an idle board costs %.1f KiB", per)
	}
	for _, b := range boards {
		b.Close()
	}
	_ = broker.Close()
	wg.Wait()
	for _, c := range held {
		_ = c.Close()
	}
}

func measure() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
