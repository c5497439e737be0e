package udp

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/mqtt"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
)

// home is a minimal server of boards with MQTT and datagrams; it echoes audio.
type home struct {
	t      *testing.T
	audio  *Server
	broker *mqtt.Server
	http   *httptest.Server
	addr   string
	ends   chan error
	heard  chan int // packets of a question
	wg     sync.WaitGroup
}

func newHome(t *testing.T) *home {
	t.Helper()
	h := &home{t: t, ends: make(chan error, 10), heard: make(chan int, 10)}
	audio, err := Listen("127.0.0.1:0", Options{PublicHost: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	h.audio = audio
	h.broker = mqtt.New(mqtt.Options{
		Auth: func(_ context.Context, i mqtt.ConnectInfo) (string, error) {
			if i.Password != "right" {
				return "", mqtt.BadCredentials
			}
			return i.Username, nil
		},
		NewSession: func(c *mqtt.Conn) mqtt.Session { return &talk{h: h, c: c} },
	})
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.addr = l.Addr().String()
	h.wg.Go(func() {
		if err := h.broker.Serve(context.Background(), l, nil); err != nil {
			t.Error(err)
		}
	})
	h.http = httptest.NewServer(http.HandlerFunc(h.call))
	t.Cleanup(func() {
		h.http.Close()
		if err := h.broker.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		h.audio.Close()
		h.wg.Wait()
	})
	return h
}

func (h *home) call(w http.ResponseWriter, r *http.Request) {
	mac := r.Header.Get(wire.HeaderDevice)
	a := wire.OTAResponse{
		Time: &wire.ServerTime{Timestamp: time.Now().UnixMilli()}, Firmware: wire.Firmware{Version: "2.4.2"},
		MQTT: &wire.MQTTConfig{Endpoint: h.addr, ClientID: "c@@@" + mac, Username: mac,
			Password: "right", Publish: "device-server", Subscribe: "null", Keepalive: 240},
	}
	body, err := a.Marshal()
	if err != nil {
		h.t.Error(err)
	}
	_, _ = w.Write(body)
}

// talk is the MQTT session of a board.
type talk struct {
	h *home
	c *mqtt.Conn
	x *Session // of the conversation; its nonce serves as the session id
}

func (k *talk) say(x *Session, m wire.Message) {
	m.SessionID = x.Link().Nonce
	_ = k.c.Push(m.Append(nil))
}

func (k *talk) Message(payload []byte) {
	if hello, err := wire.ParseHello(payload); err == nil {
		k.close()
		k.x, err = k.h.audio.Open(hello.Audio.Frame())
		if err != nil {
			k.h.t.Error(err)
			return
		}
		link := k.x.Link()
		answer := wire.Hello{
			Version: 3, Transport: wire.UDP, SessionID: link.Nonce, Link: &link,
			Audio: wire.Audio{Format: "opus", SampleRate: 16000, Channels: 1, FrameDuration: 60},
		}
		_ = k.c.Push(answer.AppendServer(nil))
		return
	}
	if m, err := wire.Parse(payload); err == nil && m.Type == wire.TypeListen && m.State == wire.ListenStop &&
		k.x != nil {
		x := k.x
		k.h.wg.Go(func() { k.answer(x) })
	}
}

// answer echoes the packets, apart from silence, at playback speed.
func (k *talk) answer(x *Session) {
	var said [][]byte
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond) // for packets in transit
	defer cancel()
	for {
		p, err := x.Receive(ctx, nil)
		if err != nil {
			break
		}
		if len(p.Opus) > 1 {
			said = append(said, p.Opus)
		}
	}
	k.h.heard <- len(said)
	k.say(x, wire.Message{Type: wire.TypeSTT, Text: "good morning"})
	k.say(x, wire.Message{Type: wire.TypeTTS, State: wire.TTSStart})
	<-time.After(60 * time.Millisecond)
	begin := time.Now()
	for i, opus := range said {
		<-time.After(time.Until(begin.Add(time.Duration(i-2) * wire.DownlinkFrame)))
		if err := x.Send(opus, uint32(i)*60); err != nil {
			k.h.t.Error(err)
		}
	}
	<-time.After(time.Until(begin.Add(time.Duration(len(said))*wire.DownlinkFrame + 160*time.Millisecond)))
	k.say(x, wire.Message{Type: wire.TypeTTS, State: wire.TTSStop})
}

func (k *talk) close() {
	if k.x != nil {
		k.x.Close()
	}
}

func (k *talk) Closed(err error) {
	k.close()
	k.h.ends <- err
}

// A board that behaves like firmware observes no violation: it talks, moves to another port, talks
// again, vanishes, and reconnects.
func TestBoard(t *testing.T) {
	h := newHome(t)
	b := sim.New(sim.Options{OTA: h.http.URL + "/xiaozhi/ota/", Mode: wire.ModeManual, Scale: 0.005,
		Slack: 20 * time.Second, KeepAudio: true})
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Boot(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.Probe(ctx); err != nil {
		t.Fatal(err)
	}
	var question [][]byte
	for i := range 10 {
		question = append(question, append([]byte{0x58, byte(i)}, make([]byte, 100)...))
	}
	ask := func() {
		t.Helper()
		a, err := b.Ask(ctx, question)
		if err != nil {
			t.Fatal(err)
		}
		if n := <-h.heard; n < len(question) || a.Transcript != "good morning" || a.Packets != n {
			t.Errorf("%d packets heard, %d played, %q", n, a.Packets, a.Transcript)
		}
		for _, q := range question {
			found := false
			for _, p := range a.Audio {
				found = found || bytes.Equal(p, q)
			}
			if !found {
				t.Errorf("packet %d of the question did not come back", q[1])
			}
		}
	}
	ask()
	if err := b.Rebind(ctx); err != nil {
		t.Fatal(err)
	}
	ask()
	if err := b.Lose(sim.Vanished); err != nil {
		t.Fatal(err)
	}
	if err := <-h.ends; !errors.Is(err, mqtt.ErrTakenOver) { // the board reconnects by itself
		t.Errorf("the old connection: %v", err)
	}
	if _, err := b.Await(ctx, func(v sim.View) bool { return v.Online }); err != nil {
		t.Fatal(err)
	}
	ask()
	report := b.Report()
	for _, v := range report.Violations {
		t.Log(v)
	}
	for _, check := range []string{"C2", "C3", "C6", "C13", "C15", "C16"} {
		if report.Broke(check) {
			t.Errorf("%s is broken", check)
		}
	}
	if report.BadDatagrams > 0 {
		t.Errorf("%d bad datagrams", report.BadDatagrams)
	}
}
