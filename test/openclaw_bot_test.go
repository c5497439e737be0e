package test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/plug/openai/openaitest"
)

// doctor checks the diagnosis of healthy and unhealthy bots.
func (o *clawAgent) doctor(t *testing.T) {
	var good, locked, lost addedBot
	add := func(bot *addedBot, name string, set ...string) {
		args := []string{"bot", "add", "--name", name, "--kind", "openclaw", "--set", "url=" + o.gateway.URL}
		for _, s := range set {
			args = append(args, "--set", s)
		}
		o.json(t, bot, args...)
	}
	add(&good, "good", "token="+o.gateway.Token)
	add(&locked, "locked", "token=wrong")
	add(&lost, "lost", "token="+o.gateway.Token, "agent=nobody")
	out, _ := o.command("doctor", "--json").Output() // it fails, because some bots are unhealthy
	var findings []struct{ Check, State, Found, Advice string }
	decodeJSON(t, string(out), &findings)
	for bot, want := range map[int64][2]string{
		o.bot: {"ok", ""}, good.ID: {"ok", ""},
		locked.ID: {"fail", fmt.Sprintf("patchbay bot set %d token=", locked.ID)},
		lost.ID:   {"fail", fmt.Sprintf("patchbay bot set %d agent=main", lost.ID)},
	} {
		found := false
		for _, f := range findings {
			if strings.HasPrefix(f.Check, fmt.Sprintf("bot %d", bot)) {
				if found = true; f.State != want[0] || !strings.Contains(f.Advice, want[1]) {
					t.Errorf("%+v", f)
				}
			}
		}
		if !found {
			t.Errorf("doctor says nothing about bot %d: %+v", bot, findings)
		}
	}
	for _, bot := range []addedBot{good, locked, lost} {
		o.run(t, "bot", "rm", fmt.Sprint(bot.ID), "--yes")
	}
}

// remoteMachine is a proxy to the gateway whose connections appear to come from another machine. It
// can cut them.
type remoteMachine struct {
	*httptest.Server
	mu   sync.Mutex
	open []net.Conn
}

func newRemoteMachine(t *testing.T, port int) *remoteMachine {
	to := &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Set("X-Forwarded-For", "203.0.113.7")
	}}
	f := &remoteMachine{Server: httptest.NewUnstartedServer(proxy)}
	f.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateNew {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.open = append(f.open, c)
		}
	}
	f.Start()
	t.Cleanup(func() {
		f.cut()
		f.Close()
	})
	return f
}

// cut closes all connections and returns how many were made so far.
func (f *remoteMachine) cut() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.open {
		c.Close()
	}
	return len(f.open)
}

func (f *remoteMachine) made() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)
}

// botLetIn asks before the gateway's owner has approved the bot, and afterwards.
func (o *clawAgent) botLetIn(t *testing.T) {
	o.far = newRemoteMachine(o.t, o.gateway.Port)
	var bot addedBot
	o.json(t, &bot, "bot", "add", "--name", "claw", "--kind", "openclaw", "--set", "hangup=cancel",
		"--set", "url="+o.far.URL, "--set", "token="+o.gateway.Token)
	o.bot = bot.ID
	o.reply("who is there", answers(openaitest.Text("It is me.")))
	if a := o.answer(t, "let in", "who is there?"); !strings.Contains(a, "处理出错：OpenClaw 网关的所有者还没有批准我们") {
		t.Errorf("glasses are told %q", a)
	}
	o.obey(t, o.health(t).Command)
	// The bot does not retry at once, but soon and by itself.
	waitWithin(t, 2*time.Minute, "the bot is let in", func() bool {
		return strings.Contains(o.answer(t, "let in",
			"who is there?"), "It is me.")
	})
	if h := o.health(t); h.Connections != 1 || h.Gateway == "" || h.Command != "" {
		t.Errorf("%+v", h)
	}
}

// health returns the state of the bot's connection.
func (o *clawAgent) health(t *testing.T) control.Health {
	t.Helper()
	var all struct{ Bots []control.Health }
	must(t, o.boardServer.ask(ctx, http.MethodGet, "/api/v1/bots", nil, &all))
	if len(all.Bots) != 1 {
		t.Fatalf("%+v", all)
	}
	return all.Bots[0]
}

// answer asks as glasses do and returns the whole answer.
func (o *clawAgent) answer(t *testing.T, session, text string) string {
	t.Helper()
	a, err := o.server.ask(o.glasses, question(fmt.Sprint(o.bot), "U1", session, text), nil)
	if err != nil || !a.done {
		t.Errorf("%q: %+v (%v)", text, a, err)
	}
	return a.text
}

// asking is a question in progress.
type asking struct {
	pieces <-chan string
	hangUp context.CancelFunc
	done   <-chan struct{}
	answer
	err error
}

func (o *clawAgent) begin(t *testing.T, session, text string) *asking {
	t.Helper()
	return o.beginAt(t, o.bot, session, text)
}

func (o *clawAgent) beginAt(t *testing.T, bot int64, session, text string) *asking {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	pieces, done := make(chan string, 1000), make(chan struct{})
	a := &asking{pieces: pieces, hangUp: cancel, done: done}
	go func() {
		defer close(done)
		a.answer, a.err = o.server.askUntil(ctx, o.glasses, question(fmt.Sprint(bot), "U1", session, text),
			func(piece string) { pieces <- piece })
	}()
	return a
}

// hears waits for a piece of the answer.
func (a *asking) hears(t *testing.T, text string) {
	t.Helper()
	for heard := ""; !strings.Contains(heard, text); {
		select {
		case piece := <-a.pieces:
			heard += piece
		case <-a.done:
			t.Fatalf("it has ended with %q (%v) before %q", a.text, a.err, text)
		}
	}
}

// streams has the model reply so slowly that every piece must be delivered before the next one
// exists.
func (o *clawAgent) streams(t *testing.T) {
	two, three := make(chan struct{}), make(chan struct{})
	o.reply("count to three", answers(openaitest.Text("One, "), openaitest.Wait(two), openaitest.Text("two, "),
		openaitest.Wait(three), openaitest.Text("three.")))
	a := o.begin(t, "streams", "count to three")
	a.hears(t, "One,")
	close(two)
	a.hears(t, "two,")
	close(three)
	<-a.done
	if a.err != nil || !a.answer.done || a.text != "One, two, three." {
		t.Errorf("%q (%v)", a.text, a.err)
	}
}

// remembers asks again in the same conversation.
func (o *clawAgent) remembers(t *testing.T) {
	o.reply("what did I say", answers(openaitest.Text("To count.")))
	if got := o.answer(t, "streams", "what did I say?"); got != "To count." {
		t.Errorf("%q", got)
	}
	asked := o.asked("what did I say")
	if len(asked) != 1 || !strings.Contains(string(asked[0].Body), "count to three") ||
		!strings.Contains(string(asked[0].Body), "One, two, three.") {
		t.Errorf("the model was asked %d times, and not told what was before", len(asked))
	}
}

// disconnected disconnects the glasses during an answer, which then stops.
func (o *clawAgent) disconnected(t *testing.T) {
	o.reply("count for ever", answers(openaitest.Text("One, "), openaitest.Wait(t.Context().Done())))
	a := o.begin(t, "disconnected", "count for ever")
	a.hears(t, "One,")
	a.hangUp()
	<-a.done
	asked := o.asked("count for ever")
	if len(asked) != 1 {
		t.Fatalf("the model was asked %d times", len(asked))
	}
	select {
	case <-asked[0].Done():
	case <-time.After(time.Minute):
		t.Fatal("the model is still asked")
	}
	if !asked[0].Disconnected() {
		t.Error("the model has answered to its end")
	}
}

// interrupted asks another question during an answer.
func (o *clawAgent) interrupted(t *testing.T) {
	o.reply("count on", answers(openaitest.Text("One, "), openaitest.Wait(t.Context().Done())))
	a := o.begin(t, "interrupted", "count on")
	a.hears(t, "One,")
	o.reply("what else", answers(openaitest.Text("Nothing else.")))
	if got := o.answer(t, "interrupted", "what else?"); got != "Nothing else." {
		t.Errorf("%q", got)
	}
	<-a.done
	if a.err != nil || !strings.HasPrefix(a.text, "One,") || !strings.Contains(a.text, "回答被中止了") {
		t.Errorf("%q (%v)", a.text, a.err)
	}
}

// brokenModel asks a model that fails, which the gateway retries for a minute. The returned
// function waits until the bot's own deadline has ended the turn, as the message says.
func (o *clawAgent) brokenModel(t *testing.T) func(*testing.T) {
	var bot addedBot
	o.json(t, &bot, "bot", "add", "--name", "hasty", "--kind", "openclaw", "--set", "url="+o.gateway.URL, "--set",
		"token="+o.gateway.Token, "--set", "deadline=10s")
	o.reply("fail with 500", openaitest.Reply{Status: http.StatusInternalServerError, Message: "no"})
	began := time.Now()
	a := o.beginAt(t, bot.ID, "broken", "fail with 500")
	return func(t *testing.T) {
		<-a.done
		if took := time.Since(began); a.err != nil || !strings.Contains(a.text, "请求超时") || took > 3*time.Minute {
			t.Errorf("%q (%v) after %v", a.text, a.err, took)
		}
	}
}

// sees shows the agent a picture.
func (o *clawAgent) sees(t *testing.T) {
	o.reply("what is this", answers(openaitest.Text("A pattern.")))
	body, err := json.Marshal(given{
		"agent_id": fmt.Sprint(o.bot), "user_id": "U1", "message_id": "sees", "message": []given{
			{"role": "user", "type": "text", "text": "what is this?"},
			{"role": "user", "type": "image", "image_url": "data:image/jpeg;base64," +
				base64.StdEncoding.EncodeToString(boardPicture(t))},
		},
	})
	must(t, err)
	a, err := o.server.ask(o.glasses, string(body), nil)
	if err != nil || a.text != "A pattern." {
		t.Errorf("%q (%v)", a.text, err)
	}
	if asked := o.asked("what is this"); len(asked) != 1 || !strings.Contains(string(asked[0].Body), "data:image/") {
		t.Error("the model has not seen it")
	}
}

// slash asks a question that the gateway would take for a command.
func (o *clawAgent) slash(t *testing.T) {
	for _, text := range []string{"/status", "! echo hi", "/exec security=full ask=off hello", "/new", "stop", "暂停。"} {
		word := strings.TrimLeft(strings.Fields(text)[0], "/! ")
		if word == "" {
			word = "echo hi"
		}
		o.reply(word, answers(openaitest.Text("Fine.")))
		if got := o.answer(t, "slash", text); got != "Fine." {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// lineCut cuts the connection to the gateway during an answer, which must arrive complete and
// without repetition.
func (o *clawAgent) lineCut(t *testing.T) {
	more := make(chan struct{})
	o.reply("count to six", answers(openaitest.Text("Four, five, "), openaitest.Wait(more), openaitest.Text("six.")))
	a := o.begin(t, "cut", "count to six")
	a.hears(t, "five,")
	before := o.far.cut()
	waitUntil(t, "the bot connects again", func() bool { return o.far.made() > before })
	close(more)
	<-a.done
	if a.err != nil || a.text != "Four, five, six." {
		t.Errorf("%q (%v)", a.text, a.err)
	}
}

// modelFails has the model refuse, which glasses get as a message. After the last refusal the
// gateway pauses its requests to the model.
func (o *clawAgent) modelFails(t *testing.T) {
	for _, fails := range []struct {
		status int
		words  string
	}{{http.StatusBadRequest, "模型不接受这条消息"}, {http.StatusUnauthorized, "模型拒绝了网关的密钥"}} {
		text := fmt.Sprint("fail with ", fails.status)
		o.reply(text, openaitest.Reply{Status: fails.status, Message: "no"})
		if got := o.answer(t, text, text); !strings.Contains(got, fails.words) {
			t.Errorf("%d: glasses are told %q", fails.status, got)
		}
	}
}
