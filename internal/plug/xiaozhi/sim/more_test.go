package sim

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// Notifications are played only by boards that support them, while they are idle.
func TestNotify(t *testing.T) {
	for _, c := range []struct {
		profile Profile
		busy    bool
		path    string
		notices int
		wrong   bool
	}{{FW25, false, "/notice.ogg", 1, false}, {FW25, true, "/notice.ogg", 0, false}, {FW242, false, "/notice.ogg", 0,
		false}, {FW25, false, "/vision", 0, true}, {FW25, false, "/firmware", 0, true}} {
		bubble(t, fmt.Sprintf("%s busy=%v %s", c.profile.Name, c.busy, c.path), func(t *testing.T) {
			ctx := testContext(t)
			s := newServer(t, "", true)
			b, tk := conversation(t, s, Options{Profile: c.profile})
			if !c.busy {
				must(t, b.Press(ctx))
			}
			tk.say(wire.Message{Type: wire.TypeNotify, AudioURL: s.http.URL + c.path,
				Subtitles: []wire.Subtitle{{StartMS: 0, Text: "tea"}}})
			err := b.waitUntil(ctx, func() bool {
				time.AfterFunc(20*time.Millisecond, func() { b.update(func() {}) })
				return b.report.Notifications+b.report.Ignored+len(b.report.Violations) > 0
			})
			must(t, err)
			if r := b.Report(); r.Notifications != c.notices || (len(r.Violations) > 0) != c.wrong {
				t.Errorf("%+v", r)
			}
			if c.notices == 1 && b.Displayed() != "tea" {
				t.Errorf("it shows %q", b.Displayed())
			}
		})
	}
}

// While a board takes a photo it sends nothing, and drops old packets. Old firmware runs calls in a
// thread.
func TestPhotoBlocks(t *testing.T) {
	for _, p := range []Profile{FW242, FW194} {
		bubble(t, p.Name, func(t *testing.T) {
			s := newServer(t, "", false)
			b, tk := conversation(t, s, Options{Profile: p, Picture: picture})
			must(t, b.waitUntil(testContext(t), func() bool { return b.report.Sent > 26 }))
			tk.mu.Lock()
			before := tk.packets
			tk.mu.Unlock()
			during := 0
			s.onPhoto = func() {
				tk.mu.Lock()
				defer tk.mu.Unlock()
				during = tk.packets - before
			}
			begin := time.Now()
			tk.request(100, "tools/call", `{"name":"self.camera.take_photo","arguments":{"question":"?"}}`)
			if took := time.Since(begin); took < photoTime*9/10 {
				t.Errorf("a photo takes %v", took)
			}
			if p.Threads != (during > 3) {
				t.Errorf("%d packets during the photo", during)
			}
			clean(t, b)
		})
	}
}

// The user-only tools.
func TestUserTools(t *testing.T) { synctest.Test(t, testUserTools) }

func testUserTools(t *testing.T) {
	ctx := testContext(t)
	s := newServer(t, "", true)
	b, tk := conversation(t, s, Options{})
	u := s.http.URL + "/notice.ogg"
	for i, c := range [][2]string{
		{`"name":"self.screen.snapshot","arguments":{"url":"` + u + `"}`, `"text":"true"`},
		{`"name":"self.screen.snapshot","arguments":{"url":"` + s.http.URL + `/none"}`, `Unexpected status code`},
		{`"name":"self.screen.preview_image","arguments":{"url":"` + u + `"}`, `"text":"true"`},
		{`"name":"self.screen.get_info"`, `320`},
		{`"name":"self.upgrade_firmware"`, `"text":"false"`}, // the default is the description
		{`"name":"self.reboot"`, `"text":"true"`},
	} {
		if got := tk.request(100+i, "tools/call", "{"+c[0]+"}"); !strings.Contains(got, c[1]) {
			t.Errorf("%s: %s", c[0], got)
		}
	}
	must(t, b.waitUntil(ctx, func() bool { return b.report.Boots == 2 && b.state == Idle && b.mqtt != nil }))
}

func TestShown(t *testing.T) { synctest.Test(t, testShown) }

func testShown(t *testing.T) {
	ctx := testContext(t)
	s := newServer(t, "", false)
	b, tk := conversation(t, s, Options{})
	tk.say(wire.Message{Type: wire.TypeAlert, Status: "Battery", Message: "low", Emotion: "sad"})
	tk.say(wire.Message{Type: wire.TypeCustom, Payload: []byte(`{}`)})
	_, err := b.Await(ctx, func(v View) bool { return v.Displayed == "Battery: low" && v.Emotion == "sad" })
	must(t, err)
	b.Notify("notifications/state_changed", []byte(`{"lamp":true}`))
	clean(t, b)
}

func TestPong(t *testing.T) { synctest.Test(t, testPong) }

func testPong(t *testing.T) {
	for _, p := range []Profile{FW242, C3} {
		ctx := testContext(t)
		s := newServer(t, "", false)
		b := s.board(Options{Profile: p})
		must(t, b.Boot(ctx))
		must(t, b.Press(ctx))
		tk := <-s.talkers
		tk.out.(*wsSide).frame(opPing, []byte("?"))
		_, err := b.Ask(ctx, No())
		must(t, err)
		tk.mu.Lock()
		if (tk.pongs == 1) != p.Pong || b.Report().Pings != 1 {
			t.Errorf("%s answers %d pings", p.Name, tk.pongs)
		}
		tk.mu.Unlock()
		clean(t, b)
	}
}

// The same over real sockets.
func TestRealSockets(t *testing.T) {
	for _, mqtt := range []bool{false, true} {
		t.Run(fmt.Sprintf("mqtt=%v", mqtt), func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			s := newServerOn(t, nil, "", mqtt)
			b := s.board(Options{Picture: picture})
			must(t, b.Boot(ctx))
			must(t, b.Probe(ctx))
			a, err := b.Ask(ctx, GoodMorning())
			must(t, err)
			if a.Transcript != "good morning" || a.Packets < 6 {
				t.Errorf("%+v", a)
			}
			s.listed(t)
			must(t, b.Lose(Reset))
			_, err = b.Await(ctx, func(v View) bool { return v.State == Idle && v.Online == mqtt })
			must(t, err)
			_, err = b.Ask(ctx, No())
			must(t, err)
			clean(t, b)
		})
	}
}

func TestTLS(t *testing.T) {
	ctx := testContext(t)
	s := newServerOn(t, nil, "TLS", false)
	b := s.board(Options{TLS: &tls.Config{RootCAs: s.http.Client().Transport.(*http.Transport).
		TLSClientConfig.RootCAs}})
	must(t, b.Boot(ctx))
	_, err := b.Ask(ctx, No())
	must(t, err)
	clean(t, b)
}

// Lost MQTT connections are re-established.
func TestReconnect(t *testing.T) { synctest.Test(t, testReconnect) }

func testReconnect(t *testing.T) {
	ctx := testContext(t)
	s := newServer(t, "", true)
	b := s.board(Options{})
	must(t, b.Boot(ctx))
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	must(t, b.waitUntil(ctx, func() bool { return b.mqtt == nil }))
	_, err := b.Await(ctx, func(v View) bool { return v.Online })
	must(t, err)
	_, err = b.Ask(ctx, No())
	must(t, err)
	clean(t, b)
}

// Invalid actions return errors.
func TestRefusals(t *testing.T) { synctest.Test(t, testRefusals) }

func testRefusals(t *testing.T) {
	ctx := testContext(t)
	s := newServer(t, "", false)
	b := s.board(Options{})
	if b.Wake(ctx) == nil || b.Press(ctx) == nil || b.Abort(ctx) == nil || b.Talk(ctx, No()) == nil ||
		b.SendRaw(true, nil) == nil || b.Lose(Reset) == nil || b.Rebind(ctx) == nil {
		t.Error("a board that is off does things")
	}
	if v := b.View(); v.State != Off {
		t.Errorf("%+v", v)
	}
	b.Close()
	if err := b.Boot(ctx); err == nil {
		t.Error("a closed board boots")
	}
	if _, err := ProfileNamed("fw1"); err == nil {
		t.Error("there is a profile fw1")
	}
	if p, err := ProfileNamed("c3"); err != nil || p != C3 {
		t.Error(err)
	}
	for _, bad := range []string{"\x00", "\x00\x02a"} {
		if _, err := ParseSpeech([]byte(bad)); err == nil {
			t.Errorf("%q is speech", bad)
		}
	}
}
