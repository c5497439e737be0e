package eyeclaw

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

const (
	goodToken  = "4f1c0b6a9d2e7358c1f0a4b8d6e29753aa10bb20cc30dd40ee50ff6011223344"
	otherToken = "00000000000000000000000000000000000000000000000000000000000000e2"
	patience   = 20 * time.Second // for anything that a test waits for
)

// rig is a server with a registry and a token store that tests inspect.
type rig struct {
	t    *testing.T
	s    *Server
	http *httptest.Server
	reg  *prometheus.Registry

	mu       sync.Mutex
	tokens   map[string]Bot
	lookups  int
	storeErr error
	bot      talk.Bot // the attached bot, or nil
	limits   [2]int
	attached int
	detached int
	renewed  int
	changes  chan struct{}
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{
		t:   t,
		reg: prometheus.NewRegistry(),
		tokens: map[string]Bot{
			goodToken:  {Number: 7, Kind: Kind},
			otherToken: {Number: 8, Kind: "echo"},
		},
		changes: make(chan struct{}, 100),
	}
	opt := Options{Registry: r, Tokens: r, Registerer: r.reg, Grace: patience}
	opt.Timings.Note = patience
	opt.Timings.SettleWait = patience // a busy machine must not change the result
	for _, c := range change {
		c(&opt)
	}
	r.s = New(opt)
	r.http = httptest.NewServer(r.s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		r.http.Close()
		nothingLeft(t)
	})
	return r
}

func (r *rig) BotByToken(ctx context.Context, token string) (Bot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lookups++
	if r.storeErr != nil {
		return Bot{}, r.storeErr
	}
	b, ok := r.tokens[token]
	if !ok {
		return Bot{}, ErrUnknownToken
	}
	return b, nil
}

func (r *rig) Attach(bot int64, b talk.Bot, concurrent, waiting int) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bot, r.limits = b, [2]int{concurrent, waiting}
	r.attached++
	r.changes <- struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bot = nil
		r.detached++
		r.changes <- struct{}{}
	}
}

func (r *rig) Renew(int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewed++
}

// await waits until cond holds. It calls cond with r.mu held.
func (r *rig) await(what string, cond func() bool) {
	r.t.Helper()
	limit := time.After(patience)
	for {
		r.mu.Lock()
		ok := cond()
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-r.changes:
		case <-limit:
			r.t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// attachedBot waits until the bot is attached.
func (r *rig) attachedBot() talk.Bot {
	r.t.Helper()
	var b talk.Bot
	r.await("the bot being attached", func() bool { b = r.bot; return b != nil })
	return b
}

// pluginBot returns the pluginBot of bot 7.
func (r *rig) pluginBot() *pluginBot {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.bots[7]
}

// eventually waits for a condition that nothing announces.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// metric returns the value of one of the server's metrics. label is "name=value", or empty for the
// sum over all labels.
func (r *rig) metric(name, label string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	var sum float64
	for _, f := range families {
		if f.GetName() != "patchbay_cable_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label == "" || hasLabel(m, label) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func hasLabel(m *dto.Metric, label string) bool {
	for _, l := range m.GetLabel() {
		if l.GetName()+"="+l.GetValue() == label {
			return true
		}
	}
	return false
}

// ask starts a turn and returns at once.
func (r *rig) ask(ctx context.Context, b talk.Bot, id, text string) *answer {
	return start(ctx, b, &talk.Turn{ID: id, Bot: 7, Channel: "lingzhu", Person: "lingzhu:p:u", Lang: i18n.Chinese,
		Parts: []talk.Part{{Text: text}}})
}

// answer is the result of a turn.
type answer struct {
	id   string
	done chan struct{}
	err  error // once done

	mu     sync.Mutex
	text   strings.Builder
	pieces []string
	stalls int
	notes  []string
	// commands is how many commands there were for the device.
	commands int
	news     chan struct{}
}

func start(ctx context.Context, b talk.Bot, turn *talk.Turn) *answer {
	a := &answer{id: turn.ID, done: make(chan struct{}), news: make(chan struct{}, 1)}
	go func() {
		defer close(a.done)
		a.err = b.Answer(ctx, turn, func(e talk.Event) error {
			a.mu.Lock()
			switch e.Kind {
			case talk.KindStalled:
				a.stalls++
			case talk.KindCommand:
				a.commands++
			case talk.KindNote:
				a.notes = append(a.notes, e.Text)
			default:
				a.text.WriteString(e.Text)
				a.pieces = append(a.pieces, e.Text)
			}
			a.mu.Unlock()
			select {
			case a.news <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	return a
}

func (a *answer) said() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.String()
}

// saying waits until the text so far is want.
func (a *answer) saying(t *testing.T, want string) {
	t.Helper()
	limit := time.After(patience)
	for a.said() != want {
		select {
		case <-a.news:
		case <-limit:
			t.Fatalf("turn %s says %q, want %q", a.id, a.said(), want)
		}
	}
}

// end waits for the end and returns the whole text.
func (a *answer) end(t *testing.T) (string, error) {
	t.Helper()
	select {
	case <-a.done:
		return a.said(), a.err
	case <-time.After(patience):
		t.Fatalf("turn %s did not end; said %.300q", a.id, a.said())
		return "", nil
	}
}

// ends waits for a complete answer with that text.
func (a *answer) ends(t *testing.T, want string) {
	t.Helper()
	got, err := a.end(t)
	if err != nil || got != want {
		t.Fatalf("turn %s: got %q, %v; want %q", a.id, got, err, want)
	}
}

// fails waits for a failure with that code.
func (a *answer) fails(t *testing.T, code talk.Code) *talk.Failure {
	t.Helper()
	_, err := a.end(t)
	f, ok := errors.AsType[*talk.Failure](err)
	if !ok || f.Code != code {
		t.Fatalf("turn %s: got error %v, want code %s", a.id, err, code)
	}
	return f
}

// client is a socket that does nothing on its own.
type client struct {
	t      *testing.T
	ws     *websocket.Conn
	ident  string // encoded as a JSON string
	frames chan map[string]any
}

func (r *rig) dial(query string, opt *websocket.DialOptions) (*websocket.Conn, *http.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return websocket.Dial(ctx, "ws"+strings.TrimPrefix(r.http.URL, "http")+"/cable"+query, opt)
}

// connect connects with the valid token and reads all frames.
func (r *rig) connect() *client {
	r.t.Helper()
	ws, _, err := r.dial("?bot_id=1&sdk_token="+goodToken, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	ws.SetReadLimit(4 << 20)
	c := &client{t: r.t, ws: ws, frames: make(chan map[string]any, 4096),
		ident: `"{\"channel\":\"BotChannel\",\"bot_id\":\"7\"}"`}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(c.frames)
		for {
			_, data, err := ws.Read(context.Background())
			if err != nil {
				return
			}
			var f map[string]any
			if err := json.Unmarshal(data, &f); err != nil {
				r.t.Errorf("the server sent no JSON: %q", data)
				return
			}
			if f["type"] != "ping" {
				c.frames <- f
			}
		}
	}()
	r.t.Cleanup(func() { _ = ws.CloseNow(); <-done })
	return c
}

// subscribed is connect with a subscription.
func (r *rig) subscribed() *client {
	r.t.Helper()
	c := r.connect()
	c.expect("welcome")
	c.raw(`{"command":"subscribe","identifier":` + c.ident + `}`)
	c.expectMessage("connected")
	c.expect("confirm_subscription")
	c.send(`{"action":"ping"}`) // it gets questions a moment after the confirmation
	c.expectMessage("pong")
	return c
}

func (c *client) raw(frame string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// send sends a message to the channel; v is JSON.
func (c *client) send(v string, args ...any) {
	c.t.Helper()
	data, _ := json.Marshal(fmt.Sprintf(v, args...))
	c.raw(`{"command":"message","identifier":` + c.ident + `,"data":` + string(data) + `}`)
}

func (c *client) next() map[string]any {
	c.t.Helper()
	select {
	case f, ok := <-c.frames:
		if !ok {
			c.t.Fatal("the socket was closed")
		}
		return f
	case <-time.After(patience):
		c.t.Fatal("nothing came")
		return nil
	}
}

// expect reads the next frame, which must have that type.
func (c *client) expect(typ string) map[string]any {
	c.t.Helper()
	f := c.next()
	if f["type"] != typ {
		c.t.Fatalf("got %v, want a %s", f, typ)
	}
	return f
}

// expectMessage reads the next frame, which must contain a message of that type.
func (c *client) expectMessage(typ string) map[string]any {
	c.t.Helper()
	f := c.next()
	m, _ := f["message"].(map[string]any)
	if m["type"] != typ {
		c.t.Fatalf("got %v, want a message %s", f, typ)
	}
	return m
}

// closed waits until the server has closed the socket, whatever it still sends.
func (c *client) closed() {
	c.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case _, ok := <-c.frames:
			if !ok {
				return
			}
		case <-limit:
			c.t.Fatal("the socket stays open")
		}
	}
}

// nothingLeft fails the test if goroutines of the server or of its sockets still run.
func nothingLeft(t *testing.T) {
	t.Helper()
	var stacks bytes.Buffer
	left := func() bool {
		stacks.Reset()
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
		for _, g := range strings.Split(stacks.String(), "\n\n") {
			if strings.Contains(g, "nothingLeft") {
				continue
			}
			for _, ours := range []string{"eyeclaw.(*Server)", "eyeclaw.(*pluginBot)", "eyeclaw.(*conn)",
				"eyeclaw/sim.", "websocket.(*Conn)"} {
				if strings.Contains(g, ours) {
					return true
				}
			}
		}
		return false
	}
	// A goroutine signals that it is done a moment before it ends.
	for begin := time.Now(); left(); runtime.Gosched() {
		if time.Since(begin) > 5*time.Second {
			t.Errorf("goroutines are left:\n%s", stacks.String())
			return
		}
	}
}
