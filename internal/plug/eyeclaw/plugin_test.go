package eyeclaw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/eyeclaw/sim"
	"patchbay/internal/talk"
)

func TestPlugin_baseline(t *testing.T) {
	r := newRig(t)
	chats := make(chan sim.Chat, 1)
	p := r.pluginAt(5, func(_ context.Context, c sim.Chat, piece func(string)) error {
		chats <- c
		return pieces("嘿。", "🦞", "怎么样？")(context.Background(), c, piece)
	})
	b := r.plugged()
	if r.limits != [2]int{1, 3} {
		t.Errorf("attached with limits %v, want one at a time and three waiting", r.limits)
	}
	turn := &talk.Turn{ID: "019a-turn", Bot: 7, Door: "lingzhu", Person: "lingzhu:pub:U", Lang: talk.Chinese,
		Parts: []talk.Part{{Text: "帮我看看日程"}}, AgentID: "agent", UserID: "U", Metadata: json.RawMessage(`{"battery":"28"}`)}
	start(t.Context(), b, turn).ends(t, "嘿。🦞怎么样？")

	c := <-chats
	if c.Message != "帮我看看日程" || c.SessionID != "019a-turn" {
		t.Errorf("the plugin was asked %q in session %q", c.Message, c.SessionID)
	}
	var meta struct {
		Source   string           `json:"source"`
		AgentID  string           `json:"agent_id"`
		UserID   string           `json:"user_id"`
		Full     []map[string]any `json:"full_messages"`
		Original map[string]any   `json:"original_metadata"`
		Trace    string           `json:"trace_id"`
	}
	if err := json.Unmarshal(c.Metadata, &meta); err != nil {
		t.Fatal(err)
	}
	if meta.Source != "rokid_lingzhu" || meta.AgentID != "agent" || meta.UserID != "U" || meta.Original["battery"] != "28" {
		t.Errorf("metadata: %s", c.Metadata)
	}
	if len(meta.Trace) != len("trace_")+16 {
		t.Errorf("trace id %q", meta.Trace)
	}
	want := map[string]any{"role": "user", "type": "text", "text": "帮我看看日程", "image_url": nil}
	if len(meta.Full) != 1 || fmt.Sprint(meta.Full[0]) != fmt.Sprint(want) {
		t.Errorf("full_messages: %v", meta.Full)
	}
	if !strings.HasPrefix(c.User, "eyeclaw:7:") || len(c.User) != len("eyeclaw:7:")+16 || strings.Contains(c.User, "pub") {
		t.Errorf("openclaw session %q", c.User)
	}
	if took := p.wait(sim.Answered).After; took >= 10*time.Second {
		t.Errorf("the plugin gave up waiting for acknowledgements after %v", took)
	}
	if n := r.metric("anomalies_total", "") + r.metric("dropped_frames_total", "") + r.metric("compensated_characters_total", ""); n != 0 {
		t.Errorf("%v irregularities in a plain chat", n)
	}
}

func TestQuestion_contextsAreKeptApart(t *testing.T) {
	h := &hub{s: &Server{}, bot: Bot{Number: 7}}
	session := func(change func(*talk.Turn)) string {
		turn := &talk.Turn{ID: "t1", Door: "lingzhu", Person: "p1", Conversation: "c1", Parts: []talk.Part{{Text: "x"}}}
		change(turn)
		return h.question(&conn{}, turn).Metadata.OpenClawSession
	}
	same := session(func(*talk.Turn) {})
	for name, c := range map[string]struct {
		change func(*talk.Turn)
		equal  bool
	}{
		"another turn":                    {func(t *talk.Turn) { t.ID = "t2" }, true},
		"another conversation":            {func(t *talk.Turn) { t.Conversation = "c2" }, true},
		"another person":                  {func(t *talk.Turn) { t.Person = "p2" }, false},
		"nobody in the same conversation": {func(t *talk.Turn) { t.Person = "" }, false},
		"nobody at all":                   {func(t *talk.Turn) { t.Person, t.Conversation = "", "" }, false},
	} {
		if got := session(c.change); (got == same) != c.equal {
			t.Errorf("%s: %s, against %s", name, got, same)
		}
	}
	anon := func(t *talk.Turn) { t.Person = "" }
	if first, second := session(anon), session(anon); first != second {
		t.Error("a conversation of an unknown person loses its context")
	}
}

func TestPlugin_images(t *testing.T) {
	image := func(media string) talk.Part { return talk.Part{Image: &talk.Image{MIME: "image/webp", Media: media}} }
	for _, c := range []struct {
		name   string
		lang   talk.Lang
		public string
		parts  []talk.Part
		want   string // %s is the server's own address
	}{
		{"zh", talk.Chinese, "", []talk.Part{image("abc")}, "用户拍了一张照片：%s/media/abc"},
		{"en", talk.English, "", []talk.Part{image("abc")}, "The user took a photo: %s/media/abc"},
		{"public", talk.Chinese, "https://hub.example/x/", []talk.Part{image("abc")}, "用户拍了一张照片：https://hub.example/x/media/abc"},
		{"text too", talk.Chinese, "", []talk.Part{{Text: "这是什么？"}, image("abc")}, "这是什么？\n用户拍了一张照片：%s/media/abc"},
		{"not stored", talk.English, "", []talk.Part{image("")}, "The user took a photo, but it cannot be passed on."},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.PublicURL = c.public })
			r.plugin(func(_ context.Context, chat sim.Chat, piece func(string)) error {
				piece(chat.Message)
				return nil
			})
			a := start(t.Context(), r.plugged(), &talk.Turn{ID: "t1", Door: "lingzhu", Lang: c.lang, Parts: c.parts})
			a.ends(t, strings.ReplaceAll(c.want, "%s", r.http.URL))
		})
	}
	t.Run("nothing", func(t *testing.T) {
		r := newRig(t)
		r.plugin(pieces("the plugin must not be asked"))
		start(t.Context(), r.plugged(), &talk.Turn{ID: "t1", Parts: []talk.Part{{Text: " \n"}}}).fails(t, talk.Unreadable)
	})
}

// Two chats at once share the plugin's numbers and its collected text.
func TestPlugin_overlap(t *testing.T) {
	r := newRig(t)
	s := newScript("A", "B")
	p := r.plugin(s.up)
	b := r.plugged()
	a1 := r.ask(t.Context(), b, "turn-a", "A")
	s.say("A", "a0 ")
	a1.saying(t, "a0 ")
	a2 := r.ask(t.Context(), b, "turn-b", "B")
	for p.wait(sim.Asked).Detail != "turn-b" {
	}
	for i := range 4 {
		s.say("A", fmt.Sprintf("a%d ", i+1))
		a1.saying(t, "a0 a1 a2 a3 a4 "[:3*(i+2)])
		s.say("B", fmt.Sprintf("b%d ", i))
		a2.saying(t, "b0 b1 b2 b3 "[:3*(i+1)])
	}
	s.end("B")
	a2.ends(t, "b0 b1 b2 b3 ")
	s.end("A")
	a1.ends(t, "a0 a1 a2 a3 a4 ")
	if n := r.metric("anomalies_total", "kind=summary"); n != 2 {
		t.Errorf("%v distrusted summaries, want both", n)
	}
	if n := r.metric("compensated_characters_total", ""); n != 0 {
		t.Errorf("%v characters were taken from mixed summaries", n)
	}
}

// The board gives up a hung turn and sends the next one: chunks of both come,
// and after a drop the mixed summary looks as if it completed the second.
func TestPlugin_overlapAndDrop(t *testing.T) {
	r := newRig(t)
	s := newScript("A", "B")
	p := r.plugin(s.up)
	b := r.plugged()
	ctx, giveUp := context.WithCancelCause(t.Context())
	a1 := r.ask(ctx, b, "turn-a", "A")
	p.wait(sim.Asked)
	giveUp(&talk.Failure{Code: talk.TimedOut})
	if _, err := a1.end(t); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	a2 := r.ask(t.Context(), b, "turn-b", "B")
	s.say("B", "right ")
	a2.saying(t, "right ")
	r.away(p, func() {
		s.say("A", "wrong ")
		s.spoken(t, "A")
	})
	s.end("B")
	a2.ends(t, "right ")
	if n := r.metric("compensated_characters_total", ""); n != 0 {
		t.Errorf("%v characters of another answer were told", n)
	}
}

func TestPlugin_errorThenChat(t *testing.T) {
	r := newRig(t)
	s := newScript("bad", "good", "dropped")
	p := r.plugin(s.up)
	b := r.plugged()

	s.say("bad", "c0 ", "c1 ")
	s.fail("bad", "OpenClaw API error: 500 - boom")
	a := r.ask(t.Context(), b, "t1", "bad")
	f := a.fails(t, talk.BotFailed)
	if a.said() != "c0 c1 " || f.Told != sayReported.En && f.Told != sayReported.Zh || f.Cause != "OpenClaw API error: 500 - boom" {
		t.Errorf("said %q, failed with %+v", a.said(), f)
	}
	// The next summary begins with what the failed answer left behind.
	s.say("good", "嘿。", "🦞", "怎么样？")
	s.end("good")
	r.ask(t.Context(), b, "t2", "good").ends(t, "嘿。🦞怎么样？")
	if n := r.metric("anomalies_total", "") + r.metric("compensated_characters_total", ""); n != 0 {
		t.Errorf("%v irregularities", n)
	}
	st, _ := r.s.Status(7)
	if !strings.Contains(st.LastError.In(talk.English), "500 - boom") || st.LastAnswer.Before(st.LastErrorAt) {
		t.Errorf("status: %+v", st)
	}

	// And once more, with a summary that is needed.
	s.say("bad", "c0 ", "c1 ")
	s.fail("bad", "terminated")
	r.ask(t.Context(), b, "t3", "bad").fails(t, talk.BotFailed)
	a = r.ask(t.Context(), b, "t4", "dropped")
	s.say("dropped", "c0 ")
	a.saying(t, "c0 ")
	r.away(p, func() {
		s.say("dropped", "and the rest")
		s.spoken(t, "dropped")
	})
	s.end("dropped")
	a.ends(t, "c0 and the rest")
}

func TestPlugin_hang(t *testing.T) {
	r := newRig(t)
	s := newScript("hung", "next")
	p := r.plugin(s.up)
	b := r.plugged()
	ctx, giveUp := context.WithCancelCause(t.Context())
	hung := r.ask(ctx, b, "t1", "hung")
	p.wait(sim.Asked)
	giveUp(context.DeadlineExceeded)
	if got, err := hung.end(t); got != "" || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %q, %v", got, err)
	}
	a := r.ask(t.Context(), b, "t2", "next")
	p.wait(sim.Asked)
	s.say("hung", "far too late")
	s.end("hung")
	p.wait(sim.Answered)
	s.say("next", "in time")
	s.end("next")
	a.ends(t, "in time")
	if n := r.metric("dropped_frames_total", "reason=late"); n != 2 {
		t.Errorf("%v late frames, want the piece and the end", n)
	}
}

func TestPlugin_empty(t *testing.T) {
	r := newRig(t)
	r.plugin(pieces())
	r.ask(t.Context(), r.plugged(), "t1", "hi").ends(t, "")
}

// 4 of 14 pieces arrive, then the socket is lost, and the plugin finishes on the
// next one.
func TestPlugin_dropInMidAnswer(t *testing.T) {
	r := newRig(t)
	s := newScript("long")
	p := r.plugin(s.up)
	a := r.ask(t.Context(), r.plugged(), "t1", "long")
	var list []string
	for i := range 14 {
		list = append(list, fmt.Sprintf("第%d段。", i))
	}
	s.say("long", list[:4]...)
	a.saying(t, "第0段。第1段。第2段。第3段。")
	r.away(p, func() {
		s.say("long", list[4:]...)
		s.spoken(t, "long")
	})
	s.end("long")
	a.ends(t, strings.Join(list, ""))
	if n := r.metric("compensated_characters_total", ""); n != 6*4+4*5 { // 4…9 and 10…13
		t.Errorf("%v characters compensated", n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attached != 1 || r.detached != 0 {
		t.Errorf("the bot was attached %d times and detached %d times over a reconnect", r.attached, r.detached)
	}
}

// The plugin is back before the answer is over: what was lost with the socket
// leaves a hole, and what follows waits for the summary.
func TestPlugin_holeInMidAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		hold time.Duration
		want string
	}{
		{"filled by the summary", patience, "one two three four five six "},
		{"given up", 10 * time.Millisecond, "one two five six "},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Timings.Hold = c.hold })
			s := newScript("long")
			p := r.plugin(s.up)
			a := r.ask(t.Context(), r.plugged(), "t1", "long")
			s.say("long", "one ", "two ")
			a.saying(t, "one two ")
			r.away(p, func() {
				s.say("long", "three ", "four ")
				s.spoken(t, "long")
			})
			s.say("long", "five ", "six ")
			if c.hold < patience {
				a.saying(t, c.want)
			} else {
				eventually(t, "four pieces", func() bool { st, _ := r.s.Status(7); return st.Totals.Chunks == 4 })
				if got := a.said(); got != "one two " {
					t.Errorf("said %q behind a hole", got)
				}
			}
			s.end("long")
			a.ends(t, c.want)
		})
	}
}

func TestPlugin_neverComesBack(t *testing.T) {
	for _, said := range []bool{true, false} {
		t.Run(fmt.Sprint("said something ", said), func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Grace = 50 * time.Millisecond })
			s := newScript("q")
			p := r.plugin(s.up)
			b := r.plugged()
			a := r.ask(t.Context(), b, "t1", "q")
			p.wait(sim.Asked)
			code := talk.Offline
			if said {
				code = talk.Lost
				s.say("q", "half")
				a.saying(t, "half")
			}
			p.stop()
			a.fails(t, code)
			r.await("the bot being detached", func() bool { return r.detached == 1 })
			r.ask(t.Context(), b, "t2", "q").fails(t, talk.Offline)
			if st, ok := r.s.Status(7); !ok || st.Online || st.Connections != 0 || st.Reconnecting || st.LastSeen.IsZero() {
				t.Errorf("status: %+v, %v", st, ok)
			}
		})
	}
}

func TestPlugin_askedWhileAway(t *testing.T) {
	r := newRig(t)
	p := r.plugin(pieces("here again"))
	b := r.plugged()
	var a *answer
	r.away(p, func() {
		eventually(t, "the socket being gone", func() bool {
			st, _ := r.s.Status(7)
			return st.Connections == 0 && st.Reconnecting && st.Online
		})
		a = r.ask(t.Context(), b, "t1", "are you there?")
	})
	a.ends(t, "here again")

	p.stop()
	eventually(t, "the socket being gone", func() bool { st, _ := r.s.Status(7); return st.Reconnecting })
	ctx, cancel := context.WithCancel(t.Context())
	a = r.ask(ctx, b, "t2", "and now?")
	cancel()
	if _, err := a.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPlugin_whitespace(t *testing.T) {
	r := newRig(t)
	r.plugin(pieces("一。", "\n\n", "   ", "二。", "\n"))
	r.ask(t.Context(), r.plugged(), "t1", "hi").ends(t, "一。\n\n   二。\n")
}

func TestPlugin_burst(t *testing.T) {
	r := newRig(t)
	var list []string
	for i := range 500 {
		list = append(list, fmt.Sprintf("%d🦞", i))
	}
	p := r.pluginAt(5, pieces(list...))
	r.ask(t.Context(), r.plugged(), "t1", "hi").ends(t, strings.Join(list, ""))
	if took := p.wait(sim.Answered).After; took >= 10*time.Second {
		t.Errorf("the plugin gave up waiting for acknowledgements after %v", took)
	}
	if n := r.metric("closed_total", ""); n != 0 {
		t.Errorf("%v sockets closed", n)
	}
}

// A slow asker holds up nobody but himself.
func TestAnswer_slowAsker(t *testing.T) {
	r := newRig(t)
	s := newScript("slow")
	p := r.plugin(s.up)
	b := r.plugged()
	release, taken := make(chan struct{}), make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		done <- b.Answer(t.Context(), &talk.Turn{ID: "t1", Parts: []talk.Part{{Text: "slow"}}}, func(e talk.Event) error {
			taken <- e.Text
			<-release
			return nil
		})
	}()
	s.say("slow", "first ")
	if got := <-taken; got != "first " {
		t.Fatalf("got %q", got)
	}
	for range 50 {
		s.say("slow", "more ")
	}
	s.end("slow")
	p.wait(sim.Answered) // with every piece acknowledged, while the asker still has the first
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	close(taken)
	var rest string
	for s := range taken {
		rest += s
	}
	if want := strings.Repeat("more ", 50); rest != want {
		t.Errorf("got %q", rest)
	}
}

func TestPlugin_incompatible(t *testing.T) {
	for _, text := range []string{"HTTP error: 404 - Not Found", "HTTP error: 405 - Method Not Allowed"} {
		t.Run(text, func(t *testing.T) {
			r := newRig(t)
			r.plugin(func(context.Context, sim.Chat, func(string)) error { return errors.New(text) })
			f := r.ask(t.Context(), r.plugged(), "t1", "hi").fails(t, talk.BotFailed)
			for _, want := range []string{text, "2026.3.2", "不兼容", "does not work with"} {
				if !strings.Contains(f.Cause, want) {
					t.Errorf("cause lacks %q: %s", want, f.Cause)
				}
			}
			if strings.Contains(f.Told, "404") || f.Told == "" {
				t.Errorf("the person hears %q", f.Told)
			}
			st, _ := r.s.Status(7)
			if st.LastError != errIncompatible || st.Totals.Failures != 1 {
				t.Errorf("status: %+v", st)
			}
		})
	}
}

// OpenClaw's chat endpoint is off until somebody turns it on: its owner is told how.
func TestPlugin_endpointOff(t *testing.T) {
	r := newRig(t)
	r.plugin(func(context.Context, sim.Chat, func(string)) error {
		return errors.New("OpenClaw API error: 404 - Not Found")
	})
	f := r.ask(t.Context(), r.plugged(), "t1", "hi").fails(t, talk.BotFailed)
	if f.Told != sayReported.En && f.Told != sayReported.Zh || f.Cause != "OpenClaw API error: 404 - Not Found" {
		t.Errorf("the person hears %q", f.Told)
	}
	st, _ := r.s.Status(7)
	if st.LastError != errEndpoint || !strings.Contains(st.Command, "chatCompletions.enabled true") {
		t.Errorf("status: %+v", st)
	}
}

// Two plugins with one token: the newer one is asked, the older one is kept, and
// takes over when the newer one is gone.
func TestTwoPlugins(t *testing.T) {
	r := newRig(t)
	older := r.plugin(pieces("older"))
	newer := r.plugin(pieces("newer"))
	b := r.plugged()
	r.ask(t.Context(), b, "t1", "who?").ends(t, "newer")
	if st, _ := r.s.Status(7); st.Connections != 2 || !st.Online {
		t.Errorf("status: %+v", st)
	}
	newer.stop()
	eventually(t, "the newer one being gone", func() bool { st, _ := r.s.Status(7); return st.Connections == 1 })
	r.ask(t.Context(), b, "t2", "who?").ends(t, "older")
	select {
	case n := <-older.notices:
		for n.Kind == sim.Asked || n.Kind == sim.Answered {
			select {
			case n = <-older.notices:
			default:
				return
			}
		}
		t.Errorf("the older plugin was disturbed: %+v", n)
	default:
	}
}

func TestShutdown_midAnswer(t *testing.T) {
	r := newRig(t)
	s := newScript("q")
	p := r.plugin(s.up)
	b := r.plugged()
	a := r.ask(t.Context(), b, "t1", "q")
	s.say("q", "half")
	a.saying(t, "half")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	a.fails(t, talk.Lost)
	if n := p.wait(sim.Closed); n.Detail != "1012 server_restart" {
		t.Errorf("the plugin saw %q", n.Detail)
	}
	if r.detached != 1 {
		t.Error("the bot stayed attached")
	}
	r.ask(t.Context(), b, "t2", "q").fails(t, talk.Offline)
	if n := p.wait(sim.Closed); n.Detail != "503 Service Unavailable" {
		t.Errorf("the plugin came back to %q", n.Detail)
	}
}
