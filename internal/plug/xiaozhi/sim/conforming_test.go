package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clean fails the test if the board observed a violation.
func clean(t *testing.T, b *Board) Report {
	t.Helper()
	r := b.Report()
	for _, v := range r.Violations {
		t.Errorf("a right server is accused: %v", v)
	}
	return r
}

// listed waits until the server has read all pages of tools.
func (s *server) listed(t *testing.T) []string {
	t.Helper()
	var names []string
	for {
		select {
		case name := <-s.calls:
			if name == "" {
				return names
			}
			names = append(names, name)
		case <-time.After(5 * time.Second):
			t.Fatal("the server never had the whole list")
		}
	}
}

// A conforming server passes with every board.
func TestRight(t *testing.T) {
	type row struct {
		profile Profile
		mqtt    bool
		mode    string
		framing wire.Framing
	}
	var rows []row
	for i, p := range Profiles() {
		rows = append(rows, row{p, false, wire.ModeAuto, wire.Framing(1 + i%3)}, row{p, true, wire.ModeAuto, 1})
	}
	rows = append(rows,
		row{FW242, false, wire.ModeManual, 1}, row{FW242, true, wire.ModeManual, 1},
		row{FW25, false, wire.ModeRealtime, 2}, row{FW25, true, wire.ModeRealtime, 1})
	for _, c := range rows {
		bubble(t, fmt.Sprintf("%s mqtt=%v %s v%d", c.profile.Name, c.mqtt, c.mode, c.framing), func(t *testing.T) {
			ctx := testContext(t)
			s := newServer(t, "", c.mqtt)
			s.plan = c.framing
			b := s.board(Options{Profile: c.profile, Mode: c.mode, Picture: picture, Steady: true, KeepAudio: true})
			must(t, b.Boot(ctx))
			must(t, b.Probe(ctx))
			for range 2 {
				a, err := b.Ask(ctx, GoodMorning())
				must(t, err)
				if a.Transcript != "good morning" || a.Emotion != "happy" ||
					!slices.Equal(a.Sentences, []string{"Good morning."}) || a.Packets != 8 || len(a.Audio) != 8 ||
					a.FirstAudio <= 0 {
					t.Errorf("%+v", a)
				}
			}
			names := s.listed(t)
			if want := len(b.tools()); len(names) != want {
				t.Errorf("%d tools of %d: %s", len(names), want, names)
			}
			r := clean(t, b)
			if r.Received != 16 || r.DroppedState+r.DroppedQueue+r.DroppedReset != 0 || r.Hellos != 1 ||
				r.IllegalStates != 0 || r.Initializes != 1 {
				t.Errorf("%+v", r)
			}
			state := map[string]State{wire.ModeManual: Idle}[c.mode]
			if state == Off {
				state = Listening
			}
			_, err := b.Await(ctx, func(v View) bool { return v.State == state })
			must(t, err)
		})
	}
}

var picture = append([]byte{0xff, 0xd8, 0xff, 0xe0}, bytes.Repeat([]byte("picture "), 500)...)

// conversation opens a conversation and returns the server's end of it.
func conversation(t *testing.T, s *server, opt Options) (*Board, *talker) {
	t.Helper()
	ctx := testContext(t)
	b := s.board(opt)
	must(t, b.Boot(ctx))
	must(t, b.Wake(ctx))
	tk := <-s.talkers
	s.listed(t)
	return b, tk
}

func TestTools(t *testing.T) {
	for _, mqtt := range []bool{false, true} {
		bubble(t, fmt.Sprintf("mqtt=%v", mqtt), func(t *testing.T) {
			s := newServer(t, "", mqtt)
			lamp := Tool{Name: "self.lamp.set", Args: []Arg{{Name: "on", Type: "boolean"},
				{Name: "colour", Type: "string", Default: "white"}},
				Do: func(_ context.Context, a Args) (string, error) {
					if a["colour"] == "plaid" {
						return "", errors.New(`no "plaid"`)
					}
					return fmt.Sprint(a["on"], a["colour"]), nil
				}}
			b, tk := conversation(t, s, Options{Picture: picture, Tools: []Tool{lamp}})
			for i, c := range [][2]string{
				{`"name":"self.audio_speaker.set_volume","arguments":{"volume":33.7}`,
					`"result":{"content":[{"type":"text","text":"true"}],"isError":false}`},
				{`"name":"self.audio_speaker.set_volume","arguments":{"volume":101}`,
					`"error":{"message":"Value exceeds maximum allowed: 100"}`},
				{`"name":"self.audio_speaker.set_volume","arguments":{"volume":-1}`,
					`"error":{"message":"Value is below minimum allowed: 0"}`},
				{`"name":"self.audio_speaker.set_volume","arguments":{"volume":"50"}`,
					`"error":{"message":"Missing valid argument: volume"}`},
				{`"name":"self.lamp.set","arguments":{"on":true,"other":1}`, `"text":"truewhite"`},
				{`"name":"self.lamp.set","arguments":{"on":false,"colour":"plaid"}`,
					`"error":{"message":"no \"plaid\""}`},
				{`"name":"self.nothing"`, `"error":{"message":"Unknown tool: self.nothing"}`},
				{`"name":"self.get_device_status","arguments":{}`, `\"volume\":33`},
				{`"name":"self.camera.take_photo","arguments":{"question":"cat?"}`,
					`{\"success\":true,\"text\":\"a cat?\"}`},
				{`"name":"self.get_system_info"`, `mac_address`},
			} {
				if got := tk.request(100+i, "tools/call", "{"+c[0]+"}"); !strings.Contains(got, c[1]) {
					t.Errorf("%s: %s", c[0], got)
				}
			}
			if got := tk.request(200, "ping", "{}"); !strings.Contains(got, "Method not implemented: ping") {
				t.Errorf("%s", got)
			}
			if b.Volume() != 33 || len(s.photos) != 1 || !bytes.Equal(s.photos[0], picture) {
				t.Errorf("volume %d, %d photos", b.Volume(), len(s.photos))
			}
			if r := clean(t, b); r.Photos != 1 || r.Calls != 6 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// The tools of robots do not fit on one page.
func TestPages(t *testing.T) { synctest.Test(t, testPages) }

func testPages(t *testing.T) {
	var many []Tool
	for i := range 40 {
		many = append(many, Tool{Name: fmt.Sprintf("self.dog.move_%d", i), Description: strings.Repeat("walk ", 100)})
	}
	s := newServer(t, "", false)
	b := s.board(Options{Tools: many})
	ctx := testContext(t)
	must(t, b.Boot(ctx))
	must(t, b.Press(ctx))
	if names := s.listed(t); len(names) != len(b.tools()) {
		t.Errorf("%d tools", len(names))
	}
	if r := clean(t, b); r.Lists < 3 {
		t.Errorf("%d pages", r.Lists)
	}
	for cursor, pages := "", 0; ; pages++ {
		list, next, ok := page(b.tools(), cursor, true)
		if !ok || len(list) > wire.MaxList {
			t.Fatalf("page %d has %d bytes", pages, len(list))
		}
		if cursor = next; next == "" {
			break
		}
	}
	if _, next, ok := page([]Tool{{Name: "self.long", Description: strings.Repeat("x", 8000)}}, "", false); ok ||
		next != "self.long" {
		t.Errorf("a tool that fits into no page: %q", next)
	}
}

// Firmware 2.5 has error codes and other texts, and escapes them.
func TestErrorsOf25(t *testing.T) { synctest.Test(t, testErrorsOf25) }

func testErrorsOf25(t *testing.T) {
	s := newServer(t, "", false)
	_, tk := conversation(t, s, Options{Profile: FW25})
	for i, c := range [][2]string{
		{`"name":"self.audio_speaker.set_volume","arguments":{"volume":"x"}`,
			`"code":-32602,"message":"Invalid type for argument: volume"`},
		{`"name":"self.audio_speaker.set_volume","arguments":{}`, `"message":"Missing required argument: volume"`},
		{`"name":"self.\"quoted\""`, `"code":-32602,"message":"Unknown tool: self.\"quoted\""`},
	} {
		if got := tk.request(100+i, "tools/call", "{"+c[0]+"}"); !strings.Contains(got, c[1]) {
			t.Errorf("%s: %s", c[0], got)
		}
	}
}

func TestFaultsOfTools(t *testing.T) {
	for name, f := range map[string]Faults{"twice": {DuplicateToolResults: true},
		"late": {ToolDelay: 300 * time.Millisecond}} {
		bubble(t, name, func(t *testing.T) {
			s := newServer(t, "", false)
			_, tk := conversation(t, s, Options{Faults: f})
			begin := time.Now()
			if got := tk.request(100, "tools/call", `{"name":"self.get_device_status"}`); !strings.Contains(got,
				"volume") {
				t.Errorf("%s", got)
			}
			if took := time.Since(begin); took < f.ToolDelay {
				t.Errorf("after %v", took)
			}
		})
	}
}

// The button interrupts; the server stops in time.
func TestAbort(t *testing.T) {
	for _, mqtt := range []bool{false, true} {
		for _, by := range []string{"button", "wake word"} {
			bubble(t, fmt.Sprintf("mqtt=%v by %s", mqtt, by), func(t *testing.T) {
				ctx := testContext(t)
				s := newServer(t, "", mqtt)
				s.frames = 100
				b, _ := conversation(t, s, Options{})
				must(t, b.Talk(ctx, GoodMorning()))
				_, err := b.Await(ctx, func(v View) bool {
					return v.State == Speaking &&
						v.Displayed == "Good morning."
				})
				must(t, err)
				if by == "button" {
					must(t, b.Abort(ctx))
				} else {
					must(t, b.Wake(ctx))
				}
				_, err = b.Await(ctx, func(v View) bool { return v.State == Listening && v.Answers == 1 })
				must(t, err)
				if r := clean(t, b); r.Received > 30 {
					t.Errorf("%d packets", r.Received)
				}
			})
		}
	}
}

// After ending a conversation by the button, the board is idle and can begin another.
func TestHangUp(t *testing.T) { synctest.Test(t, testHangUp) }

func testHangUp(t *testing.T) {
	for _, mqtt := range []bool{false, true} {
		ctx := testContext(t)
		s := newServer(t, "", mqtt)
		b, _ := conversation(t, s, Options{})
		must(t, b.Press(ctx))
		if v := b.View(); v.State != Idle || v.SessionID != "" {
			t.Errorf("%+v", v)
		}
		must(t, b.Press(ctx))
		<-s.talkers
		clean(t, b)
	}
}

// The server ends the conversation.
func TestServerEnds(t *testing.T) { synctest.Test(t, testServerEnds) }

func testServerEnds(t *testing.T) {
	for _, mqtt := range []bool{false, true} {
		ctx := testContext(t)
		s := newServer(t, "", mqtt)
		b, tk := conversation(t, s, Options{})
		tk.out.close(tk)
		v, err := b.Await(ctx, func(v View) bool { return v.State == Idle })
		must(t, err)
		if v.Online != mqtt {
			t.Errorf("%+v", v)
		}
		clean(t, b)
		must(t, b.Press(ctx))
	}
}

func TestLose(t *testing.T) {
	for _, mqtt := range []bool{false, true} {
		for _, how := range []Loss{Dropped, Reset, Vanished} {
			bubble(t, fmt.Sprintf("mqtt=%v %d", mqtt, how), func(t *testing.T) {
				ctx := testContext(t)
				s := newServer(t, "", mqtt)
				b, _ := conversation(t, s, Options{})
				must(t, b.Lose(how))
				_, err := b.Await(ctx, func(v View) bool { return v.State == Idle && v.Online == mqtt })
				must(t, err)
				must(t, b.Press(ctx))
				clean(t, b)
			})
		}
	}
}

// Datagrams are lost, duplicated, reordered, and sent from another port.
func TestBadNetwork(t *testing.T) { synctest.Test(t, testBadNetwork) }

func testBadNetwork(t *testing.T) {
	ctx := testContext(t)
	s := newServer(t, "", true)
	s.frames = 30
	b := s.board(Options{Faults: Faults{Loss: 0.05, Duplicate: 0.1, Reorder: 0.1}, Slack: 400 * time.Millisecond})
	must(t, b.Boot(ctx))
	a, err := b.Ask(ctx, GoodMorning())
	must(t, err)
	must(t, b.Rebind(ctx))
	again, err := b.Ask(ctx, GoodMorning())
	must(t, err)
	if a.Packets < 15 || again.Packets < 15 {
		t.Errorf("%d and %d packets", a.Packets, again.Packets)
	}
	clean(t, b)
}

func TestOddThings(t *testing.T) { synctest.Test(t, testOddThings) }

func testOddThings(t *testing.T) {
	for _, mqtt := range []bool{false, true} {
		ctx := testContext(t)
		s := newServer(t, "", mqtt)
		b, _ := conversation(t, s, Options{})
		for _, p := range []string{"", "\x58", "\xff", "nonsense", strings.Repeat("x", 1400)} {
			must(t, b.SendRaw(true, []byte(p)))
		}
		for _, p := range []string{"", "{", `{"type":"unknown"}`, `[]`} {
			must(t, b.SendRaw(false, []byte(p)))
		}
		if _, err := b.Ask(ctx, GoodMorning()); err != nil {
			t.Fatal(err)
		}
		clean(t, b)
	}
}

func TestActivation(t *testing.T) { synctest.Test(t, testActivation) }

func testActivation(t *testing.T) {
	ctx := testContext(t)
	s := newServer(t, "activation", false)
	var codes []string
	b := s.board(Options{Serial: strings.Repeat("S", 32), Key: []byte("k"), OnEvent: func(e Event) {
		if e.Kind == EventCode {
			codes = append(codes, e.Text)
		}
	}})
	must(t, b.Boot(ctx))
	if r := clean(t, b); r.Boots != 1 || !slices.Equal(codes, []string{"123456"}) {
		t.Errorf("%+v %q", r, codes)
	}
}

func TestUpgrade(t *testing.T) { synctest.Test(t, testUpgrade) }

func testUpgrade(t *testing.T) {
	ctx := testContext(t)
	s := newServer(t, "upgrade", false)
	b := s.board(Options{})
	must(t, b.Boot(ctx))
	clean(t, b)
	if got := b.userAgent(); got != "bread-compact-wifi/9.9.9" {
		t.Error(got)
	}
}

// Stored configuration is kept, and a value that does not fit is a crash.
func TestFlash(t *testing.T) {
	b := New(Options{OTA: "http://x/"})
	defer b.Close()
	keep := func(body string) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		_, err := b.applyAnswer([]byte(body))
		return err
	}
	must(t, keep(`{"websocket":{"url":"ws://h/","token":"t","version":3}}`))
	must(t, keep(`{"websocket":{"url":"ws://i/"}}`))
	if p := b.flash.socketPlan(); p != (wire.WebSocketConfig{URL: "ws://i/", Token: "t", Version: 3}) || b.overMQTT {
		t.Errorf("%+v", p)
	}
	must(t, keep(`{"websocket":{"token":""},"mqtt":{"endpoint":"h","keepalive":60}}`))
	if p, m := b.flash.socketPlan(), b.flash.mqttPlan(); p.Token != "" || m.Keepalive != 60 || !b.overMQTT {
		t.Errorf("%+v %+v", p, m)
	}
	for _, body := range []string{`{"mqtt":{"subscribe_topic_":"x"}}`,
		`{"mqtt":{"x":"` + strings.Repeat("x", 4001) + `"}}`,
		`{"websocket":{"url":"ws://h/"},"firmware":{"version":"v","url":"http://x/"}}`} {
		var crash *Crash
		if err := keep(body); !errors.As(err, &crash) {
			t.Errorf("%.50s: %v", body, err)
		}
	}
}

func TestReboot(t *testing.T) { synctest.Test(t, testReboot) }

func testReboot(t *testing.T) {
	ctx := testContext(t)
	s := newServer(t, "", true)
	b, tk := conversation(t, s, Options{})
	tk.say(wire.Message{Type: wire.TypeSystem, Command: wire.CommandReboot})
	if err := b.waitUntil(ctx, func() bool {
		return b.report.Boots == 2 && b.state == Idle &&
			b.mqtt != nil
	}); err != nil {
		t.Fatal(err)
	}
}
