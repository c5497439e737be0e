package xiaozhi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/talk"
)

// page is a web page that stands in for a board and sends typed text.
type page struct {
	t    testing.TB
	conn *websocket.Conn
	id   string
	// faces are the emotions shown so far.
	faces []string
}

// open connects a page with its credentials in the URL's query, as browsers have to.
func (h *testServer) open(ctx context.Context, b *sim.Board) *page {
	h.t.Helper()
	d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
	must(h.t, err)
	url := "ws" + strings.TrimPrefix(h.http.URL, "http") + xiaozhi.SocketPath + "?device-id=" + b.MAC() +
		"&client-id=" + b.UUID() + "&authorization=" + h.Accounts.SocketToken(d)
	conn, _, err := websocket.Dial(ctx, url,
		&websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://elsewhere.example"}}})
	must(h.t, err)
	p := &page{t: h.t, conn: conn}
	hello := wire.Hello{Version: 1, Transport: wire.WebSocket}
	must(h.t, conn.Write(ctx, websocket.MessageText, hello.AppendBoard(nil)))
	_, text, err := conn.Read(ctx)
	must(h.t, err)
	answer, err := wire.ParseHello(text)
	must(h.t, err)
	p.id = answer.SessionID
	h.t.Cleanup(func() { _ = conn.CloseNow() })
	return p
}

func (p *page) says(ctx context.Context, text string) {
	p.t.Helper()
	must(p.t, p.conn.Write(ctx, websocket.MessageText, wire.AppendDetect(nil, p.id, text)))
}

// hears collects what is shown until the answer is over.
func (p *page) hears(ctx context.Context) (heard string, sentences []string) {
	p.t.Helper()
	began := false
	for {
		_, text, err := p.conn.Read(ctx)
		must(p.t, err)
		m, err := wire.Parse(text)
		must(p.t, err)
		switch {
		case m.Type == wire.TypeSTT:
			heard = m.Text
		case m.Type == wire.TypeLLM:
			p.faces = append(p.faces, m.Emotion)
		case m.Type != wire.TypeTTS:
		case m.State == wire.TTSStart:
			began = true
		case m.State == wire.TTSSentenceStart && began:
			sentences = append(sentences, m.Text)
		case m.State == wire.TTSStop:
			return heard, sentences
		}
	}
}

// Typed text goes to the board's bot, and the answer is shown sentence by sentence.
func TestTyped(t *testing.T) {
	h := newTestServer(t, testServerOptions{})
	ctx := limit(t, 30*time.Second)
	bot := h.AddScript(t, nil, hubtest.Func(func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		switch turn.Text() {
		case "fail":
			return talk.Fail(talk.BotFailed, "", nil)
		case "slow":
			if err := emit(talk.Text("One moment. ")); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
		for _, piece := range []string{"It is 3.5 deg", "rees. And it ra", "ins!你好。", "**The", "** [end](https://exam", "ple.org) 😂", "😴"} {
			if err := emit(talk.Text(piece)); err != nil {
				return err
			}
		}
		return nil
	}))
	b := h.device(sim.Options{Lang: "en-US"})
	must(t, b.Boot(ctx))
	d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
	must(t, err)
	must(t, h.Store.Devices.Bind(ctx, d.Number, bot.Number))
	must(t, h.boards.Refresh(ctx))
	p := h.open(ctx, b)
	p.says(ctx, "how is the \\\"weather\\\"?")
	heard, sentences := p.hears(ctx)
	if want := "It is 3.5 degrees.|And it rains!你好。The end"; heard != `how is the "weather"?` ||
		strings.Join(sentences, "|") != want {
		t.Errorf("heard %q, answered %q", heard, sentences)
	}
	if len(p.faces) != 1 || p.faces[0] != "funny" {
		t.Errorf("faces: %q", p.faces)
	}
	p.says(ctx, "fail")
	if _, sentences = p.hears(ctx); len(sentences) != 1 {
		t.Errorf("a failure is told as %q", sentences)
	}
	// An interruption, once the first sentence is shown.
	p.says(ctx, "slow")
	for begun := false; !begun; {
		_, text, err := p.conn.Read(ctx)
		must(t, err)
		begun = strings.Contains(string(text), "One moment.")
	}
	must(t, p.conn.Write(ctx, websocket.MessageText, []byte(`{"session_id":"`+p.id+`","type":"abort"}`)))
	p.hears(ctx)
	// A wake word is not a question.
	p.says(ctx, "你好小智")
	p.says(ctx, "again")
	if heard, _ = p.hears(ctx); heard != "again" {
		t.Errorf("heard %q", heard)
	}
	// No bot answers the board.
	must(t, h.Store.Devices.Bind(ctx, d.Number, 0))
	must(t, h.boards.Refresh(ctx))
	p.says(ctx, "hello")
	if _, sentences = p.hears(ctx); len(sentences) != 1 || sentences[0] != "No bot answers this board yet." {
		t.Errorf("without a bot: %q", sentences)
	}
}
