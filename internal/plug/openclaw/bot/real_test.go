//go:build openclaw

package bot

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// model is a model for a real gateway, with a fresh script for each answer.
func model(t *testing.T) *openaitest.Server {
	t.Helper()
	m, err := openaitest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func realSettings(m *openaitest.Server) openclawtest.Options {
	type o = map[string]any
	return openclawtest.Options{Model: m.URL, Settings: o{"models": o{"providers": o{"fake": o{"models": []o{{
		"id": "fake-1", "name": "Fake", "reasoning": true, "input": []string{"text", "image"}, "contextWindow": 128000, "maxTokens": 4096,
		"cost": o{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
	}}}}}}}
}

// await waits for the nth request to the model from now on.
func awaitModel(t *testing.T, m *openaitest.Server, before int) *openaitest.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := m.Await(ctx, before+1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRealGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("a real gateway takes 20 seconds to start")
	}
	m := model(t)
	m.Answer = func(*openaitest.Request) openaitest.Reply {
		return openaitest.Reply{Status: int(broken.Load()), Message: "no", Steps: []openaitest.Step{openaitest.Text("Unscripted.")}}
	}
	g := openclawtest.Gateway(t, realSettings(m))
	var kept []string
	w := &wires{}
	bots := New(Options{
		Dial:   func(store.Bot) func(context.Context, string, string) (net.Conn, error) { return w.dial },
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
		Keep: func(_ context.Context, bot int64, secret string) error {
			kept = append(kept, secret)
			return nil
		},
	})
	t.Cleanup(bots.Close)
	b, err := bots.Build(store.Bot{Number: 1}, Settings{URL: g.URL, Token: g.Token, Deadline: board.Duration(10 * time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	h := &realHouse{t, m, g, b, w}

	t.Run("looked at", h.lookedAt)
	t.Run("streams", h.streams)
	t.Run("remembers", h.remembers)
	t.Run("hung up", h.hungUp)
	t.Run("photo", h.photo)
	t.Run("interrupted", h.interrupted)
	t.Run("slash", h.slash)
	t.Run("dropped", h.dropped)
	t.Run("restarted", h.restarted)
	t.Run("errors", h.errors)
	if len(kept) == 0 || !strings.Contains(kept[0], `"device"`) {
		t.Errorf("%d secrets were kept", len(kept))
	}
	if s, ok := bots.Status(1); !ok || !s.Connected || !s.Paired || s.Trouble.En != "" || s.Version == "" || s.Heard.IsZero() {
		t.Errorf("%+v", s)
	}
}

// broken is the status of requests to the model that no answer was written for.
var broken atomic.Int32

type realHouse struct {
	*testing.T
	model *openaitest.Server
	gate  *openclawtest.RealGateway
	bot   *Bot
	wires *wires
}

func (h *realHouse) lookedAt(t *testing.T) {
	bots := New(Options{})
	defer bots.Close()
	for agent, there := range map[string]bool{"": true, "Main": true, "nobody": false} {
		b, err := bots.Build(store.Bot{Number: 1}, Settings{URL: h.gate.URL, Token: h.gate.Token, Agent: agent})
		if err != nil {
			t.Fatal(err)
		}
		if s, err := b.Look(t.Context()); err != nil || s.Agent != there || len(s.Agents) != 1 || s.Version == "" {
			t.Errorf("%q: %+v, %v", agent, s, err)
		}
	}
	b, err := bots.Build(store.Bot{Number: 2}, Settings{URL: h.gate.URL, Token: "wrong"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Look(t.Context())
	if trouble, ok := errors.AsType[*client.Trouble](err); !ok || trouble.Problem != client.Token {
		t.Errorf("with a wrong token: %v", err)
	}
}

func (h *realHouse) streams(t *testing.T) {
	first := make(chan struct{})
	h.model.Script(openaitest.Reply{Steps: []openaitest.Step{openaitest.Text("Good "), openaitest.Wait(first), openaitest.Text("morning.")}})
	a := begin(t, h.bot, said("streams", "hello"))
	a.await("Good")
	close(first)
	if err := a.end(); err != nil || a.text() != "Good morning." {
		t.Errorf("%q, %v", a.text(), err)
	}
}

// Turns of one person and conversation are one conversation at the gateway.
func (h *realHouse) remembers(t *testing.T) {
	n := len(h.model.Requests())
	h.model.Script(openaitest.Reply{Steps: openaitest.Words("It was hello.", 0)})
	a := begin(t, h.bot, said("streams", "what did I say?"))
	if err := a.end(); err != nil || a.text() != "It was hello." {
		t.Errorf("%q, %v", a.text(), err)
	}
	r := awaitModel(t, h.model, n)
	if body := string(r.Body); !strings.Contains(body, "Good morning.") || !strings.Contains(body, "what did I say?") {
		t.Errorf("the model was asked %.3000s", body)
	}
}

func (h *realHouse) hungUp(t *testing.T) {
	n := len(h.model.Requests())
	h.model.Script(openaitest.Reply{Steps: []openaitest.Step{openaitest.Text("One "), openaitest.Wait(t.Context().Done())}})
	a := begin(t, h.bot, said("hangs up", "count"))
	a.await("One")
	r := awaitModel(t, h.model, n)
	a.cancel()
	if err := a.end(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-r.Done():
	case <-time.After(openclawtest.Patience):
		t.Fatal("the model is still asked")
	}
	if !r.HungUp() {
		t.Error("the model has answered to its end")
	}
}

func (h *realHouse) photo(t *testing.T) {
	n := len(h.model.Requests())
	h.model.Script(openaitest.Reply{Steps: openaitest.Words("A square.", 0)})
	turn := said("photo", "what is this?")
	var data bytes.Buffer
	if err := png.Encode(&data, image.NewGray(image.Rect(0, 0, 64, 64))); err != nil {
		t.Fatal(err)
	}
	turn.Parts = append(turn.Parts, talk.Part{Image: &talk.Image{MIME: "image/png", Data: data.Bytes()}})
	a := begin(t, h.bot, turn)
	if err := a.end(); err != nil || a.text() != "A square." {
		t.Errorf("%q, %v", a.text(), err)
	}
	if r := awaitModel(t, h.model, n); !strings.Contains(string(r.Body), "data:image/") {
		t.Errorf("the model has not seen it: %.2000s", r.Body)
	}
}

func (h *realHouse) interrupted(t *testing.T) {
	h.model.Script(openaitest.Reply{Steps: []openaitest.Step{openaitest.Text("One "), openaitest.Wait(t.Context().Done())}})
	a := begin(t, h.bot, said("interrupts", "count"))
	a.await("One")
	h.model.Script(openaitest.Reply{Steps: openaitest.Words("Stopped.", 0)})
	b := begin(t, h.bot, said("interrupts", "what else?"))
	if f := talk.AsFailure(a.end()); f == nil || f.Code != talk.BotFailed || f.Told != sayAborted.En {
		t.Errorf("%+v", f)
	}
	if err := b.end(); err != nil || b.text() != "Stopped." {
		t.Errorf("%q, %v", b.text(), err)
	}
}

// What looks like a command is a question.
func (h *realHouse) slash(t *testing.T) {
	for _, text := range []string{"/status", "tell me /status please", "! echo hi", "/exec security=full ask=off hello", "/new", "stop", "暂停。"} {
		n := len(h.model.Requests())
		h.model.Script(openaitest.Reply{Steps: openaitest.Words("Fine.", 0)})
		a := begin(t, h.bot, said("slash", text))
		if err := a.end(); err != nil || a.text() != "Fine." {
			t.Errorf("%q: %q, %v", text, a.text(), err)
			continue
		}
		word := strings.TrimLeft(strings.Fields(text)[0], "/!")
		if r := awaitModel(t, h.model, n); !strings.Contains(string(r.Body), word) {
			t.Errorf("the model does not hear %q: %.3000s", text, r.Body)
		}
	}
}

// A connection that breaks in mid-answer is made again, and nothing is missing or
// said twice.
func (h *realHouse) dropped(t *testing.T) {
	more := make(chan struct{})
	h.model.Script(openaitest.Reply{Steps: []openaitest.Step{openaitest.Text("One, two, "), openaitest.Wait(more), openaitest.Text("three.")}})
	a := begin(t, h.bot, said("dropped", "count"))
	a.await("two,")
	before := h.connection(t)
	h.wires.cut(true)
	<-before.Done()
	h.connection(t)
	close(more)
	if err := a.end(); err != nil || a.text() != "One, two, three." {
		t.Errorf("%q, %v", a.text(), err)
	}

	// It ends while nobody is connected.
	more = make(chan struct{})
	n := len(h.model.Requests())
	h.model.Script(openaitest.Reply{Steps: []openaitest.Step{openaitest.Text("Four, five, "), openaitest.Wait(more), openaitest.Text("six.")}})
	a = begin(t, h.bot, said("dropped", "go on"))
	a.await("five,")
	r := awaitModel(t, h.model, n)
	h.wires.cut(false)
	close(more)
	<-r.Done()
	h.wires.allow(true)
	if err := a.end(); err != nil || a.text() != "Four, five, six." {
		t.Errorf("%q, %v", a.text(), err)
	}
}

func (h *realHouse) connection(t *testing.T) *client.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), openclawtest.Patience)
	defer cancel()
	c, err := h.bot.line.conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wires are the TCP connections to gateways.
type wires struct {
	mu   sync.Mutex
	no   bool
	to   string // instead of the address; empty: there
	open []net.Conn
}

func (w *wires) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	no, to := w.no, w.to
	w.mu.Unlock()
	if no {
		return nil, syscall.ECONNREFUSED
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, orElse(to, address))
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open = append(w.open, c)
	}
	return c, err
}

// allow says whether there can be new ones.
func (w *wires) allow(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.no = !yes
}

// cut cuts all there are.
func (w *wires) cut(allow bool) {
	w.allow(allow)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.open {
		c.Close()
	}
	w.open = nil
}

// The gateway is killed in mid-answer, and another one, which knows nothing, takes
// its place.
func (h *realHouse) restarted(t *testing.T) {
	h.model.Script(openaitest.Reply{Steps: []openaitest.Step{openaitest.Text("Seven, "), openaitest.Wait(t.Context().Done())}})
	a := begin(t, h.bot, said("restarted", "count"))
	a.await("Seven,")
	h.gate.Stop()
	next := openclawtest.Gateway(h.T, realSettings(h.model)) // for the tests after this one, too
	h.wires.mu.Lock()
	h.wires.to = net.JoinHostPort("127.0.0.1", strconv.Itoa(next.Port))
	h.wires.mu.Unlock()
	f := talk.AsFailure(a.end())
	if f == nil || f.Code != talk.Lost || f.Told != sayVanished.En || a.text() != "Seven," {
		t.Errorf("%q, %+v", a.text(), f)
	}
	h.model.Script(openaitest.Reply{Steps: openaitest.Words("Here again.", 0)})
	b := begin(t, h.bot, said("restarted", "are you there?"))
	if err := b.end(); err != nil || b.text() != "Here again." {
		t.Errorf("%q, %v", b.text(), err)
	}
}

func (h *realHouse) errors(t *testing.T) {
	for _, c := range []struct {
		status int
		told   string
	}{{400, sayRefused.En}, {500, ""}, {401, sayKey.En}} {
		broken.Store(int32(c.status)) // a gateway asks again and again
		b := *h.bot
		b.settings.Deadline = 0
		if c.status == 500 {
			b.settings.Deadline = 10_000_000_000
		}
		began := time.Now()
		a := begin(t, &b, said("errors", "fail with "+time.Duration(c.status).String()))
		f := talk.AsFailure(a.end())
		t.Logf("%d: after %v: %+v", c.status, time.Since(began), f)
		switch {
		case f == nil:
			t.Errorf("%d was answered: %q", c.status, a.text())
		case c.status == 500 && (f.Code != talk.TimedOut || time.Since(began) > 30*time.Second):
			t.Errorf("500: %+v", f)
		case c.status != 500 && (f.Code != talk.BotFailed || f.Told != c.told):
			t.Errorf("%d: %+v", c.status, f)
		}
	}
}

// Who comes from another machine has to be approved by the gateway's owner, with the
// command that ours is told.
func TestRealPairing(t *testing.T) {
	if testing.Short() {
		t.Skip("a real gateway takes 20 seconds to start")
	}
	m := model(t)
	o := realSettings(m)
	o.Settings["gateway"] = map[string]any{"trustedProxies": []string{"127.0.0.1"}}
	g := openclawtest.Gateway(t, o)
	far := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(g.Port))})
		r.Out.Header.Set("X-Forwarded-For", "203.0.113.7")
	}})
	t.Cleanup(far.Close)
	bots := New(Options{})
	t.Cleanup(bots.Close)
	b, err := bots.Build(store.Bot{Number: 1}, Settings{URL: far.URL, Token: g.Token})
	if err != nil {
		t.Fatal(err)
	}
	a := begin(t, b, said("pairing", "hello"))
	if f := talk.AsFailure(a.end()); f == nil || f.Code != talk.Offline || f.Told != sayUnpaired.En {
		t.Fatalf("%q, %+v", a.text(), f)
	}
	s, _ := bots.Status(1)
	command, ok := strings.CutPrefix(s.Command, "openclaw devices approve ")
	if !ok || s.Paired {
		t.Fatalf("%+v", s)
	}
	t.Logf("%s", g.CLI(t, "devices", "approve", command))
	m.Answer = func(*openaitest.Request) openaitest.Reply {
		return openaitest.Reply{Steps: openaitest.Words("Come in.", 0)}
	}
	// It is not tried again at once, but soon, and by itself.
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for late := time.After(time.Minute); b.Check(t.Context()) != nil; {
		select {
		case <-again.C:
		case <-late:
			t.Fatal("it was approved, and is not let in")
		}
	}
	a = begin(t, b, said("pairing", "hello"))
	if err := a.end(); err != nil || a.text() != "Come in." {
		t.Errorf("%q, %v", a.text(), err)
	}
	if s, _ := bots.Status(1); !s.Connected || !s.Paired || s.Trouble.En != "" {
		t.Errorf("%+v", s)
	}
}
