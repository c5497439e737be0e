package eyeclaw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/internal/i18n"
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
	b := r.attachedBot()
	if r.limits != [2]int{1, 3} {
		t.Errorf("attached with limits %v, want one at a time and three waiting", r.limits)
	}
	turn := &talk.Turn{ID: "019a-turn", Bot: 7, Channel: "lingzhu", Person: "lingzhu:pub:U", Lang: i18n.Chinese,
		Parts: []talk.Part{{Text: "帮我看看日程"}}, AgentID: "agent", UserID: "U",
		Metadata: json.RawMessage(`{"battery":"28"}`)}
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
	if meta.Source != "rokid_lingzhu" || meta.AgentID != "agent" || meta.UserID != "U" ||
		meta.Original["battery"] != "28" {
		t.Errorf("metadata: %s", c.Metadata)
	}
	if len(meta.Trace) != len("trace_")+16 {
		t.Errorf("trace id %q", meta.Trace)
	}
	want := map[string]any{"role": "user", "type": "text", "text": "帮我看看日程", "image_url": nil}
	if len(meta.Full) != 1 || fmt.Sprint(meta.Full[0]) != fmt.Sprint(want) {
		t.Errorf("full_messages: %v", meta.Full)
	}
	if !strings.HasPrefix(c.User, "eyeclaw:7:") || len(c.User) != len("eyeclaw:7:")+16 ||
		strings.Contains(c.User, "pub") {
		t.Errorf("openclaw session %q", c.User)
	}
	if took := p.wait(sim.Answered).After; took >= 10*time.Second {
		t.Errorf("the plugin gave up waiting for acknowledgements after %v", took)
	}
	if n := r.metric("anomalies_total", "") + r.metric("dropped_frames_total",
		"") + r.metric("compensated_characters_total", ""); n != 0 {
		t.Errorf("%v irregularities in a plain chat", n)
	}
}

func TestQuestion_contextsAreKeptApart(t *testing.T) {
	h := &pluginBot{s: &Server{}, info: Bot{Number: 7}}
	session := func(change func(*talk.Turn)) string {
		asked := &talk.Turn{ID: "t1", Channel: "lingzhu", Person: "p1", Conversation: "c1",
			Parts: []talk.Part{{Text: "x"}}}
		change(asked)
		return h.question(&conn{}, &turn{connector: connectorTurn{asked: asked}}).Metadata.OpenClawSession
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
		lang   i18n.Lang
		public string
		parts  []talk.Part
		want   string // %s is the server's own address
	}{
		{"zh", i18n.Chinese, "", []talk.Part{image("abc")}, "用户拍了一张照片：%s/media/abc"},
		{"en", i18n.English, "", []talk.Part{image("abc")}, "The user took a photo: %s/media/abc"},
		{"public", i18n.Chinese, "https://hub.example/x/", []talk.Part{image("abc")},
			"用户拍了一张照片：https://hub.example/x/media/abc"},
		{"text too", i18n.Chinese, "", []talk.Part{{Text: "这是什么？"}, image("abc")}, "这是什么？\n用户拍了一张照片：%s/media/abc"},
		{"not stored", i18n.English, "", []talk.Part{image("")}, "The user took a photo, but it cannot be passed on."},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.PublicURL = c.public })
			r.plugin(func(_ context.Context, chat sim.Chat, piece func(string)) error {
				piece(chat.Message)
				return nil
			})
			a := start(t.Context(), r.attachedBot(), &talk.Turn{ID: "t1", Channel: "lingzhu", Lang: c.lang,
				Parts: c.parts})
			a.ends(t, strings.ReplaceAll(c.want, "%s", r.http.URL))
		})
	}
	t.Run("nothing", func(t *testing.T) {
		r := newRig(t)
		r.plugin(pieces("the plugin must not be asked"))
		start(t.Context(), r.attachedBot(), &talk.Turn{ID: "t1", Parts: []talk.Part{{Text: " \n"}}}).fails(t,
			talk.Unreadable)
	})
}

// TestPlugin_overlap runs two chats at once, which share the plugin's counter and collected text.
func TestPlugin_overlap(t *testing.T) {
	r := newRig(t)
	s := newScript("A", "B")
	p := r.plugin(s.up)
	b := r.attachedBot()
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

// TestPlugin_overlapAndDrop gives up a hung turn and starts the next one: chunks of both arrive,
// and after a drop the mixed summary looks as if it completed the second.
func TestPlugin_overlapAndDrop(t *testing.T) {
	r := newRig(t)
	s := newScript("A", "B")
	p := r.plugin(s.up)
	b := r.attachedBot()
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
	b := r.attachedBot()

	s.say("bad", "c0 ", "c1 ")
	s.fail("bad", "OpenClaw API error: 500 - boom")
	a := r.ask(t.Context(), b, "t1", "bad")
	f := a.fails(t, talk.BotFailed)
	if a.said() != "c0 c1 " || f.Told != msgReported.In(i18n.English) && f.Told != msgReported.In(i18n.Chinese) ||
		f.Cause != "OpenClaw API error: 500 - boom" {
		t.Errorf("said %q, failed with %+v", a.said(), f)
	}
	// The next summary begins with the text of the failed answer.
	s.say("good", "嘿。", "🦞", "怎么样？")
	s.end("good")
	r.ask(t.Context(), b, "t2", "good").ends(t, "嘿。🦞怎么样？")
	if n := r.metric("anomalies_total", "") + r.metric("compensated_characters_total", ""); n != 0 {
		t.Errorf("%v irregularities", n)
	}
	st, _ := r.s.Status(7)
	if !strings.Contains(st.LastError.In(i18n.English), "500 - boom") || st.LastAnswer.Before(st.LastErrorAt) {
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
	b := r.attachedBot()
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
	r.ask(t.Context(), r.attachedBot(), "t1", "hi").ends(t, "")
}

func TestPlugin_whitespace(t *testing.T) {
	r := newRig(t)
	r.plugin(pieces("一。", "\n\n", "   ", "二。", "\n"))
	r.ask(t.Context(), r.attachedBot(), "t1", "hi").ends(t, "一。\n\n   二。\n")
}

func TestPlugin_burst(t *testing.T) {
	r := newRig(t)
	var list []string
	for i := range 500 {
		list = append(list, fmt.Sprintf("%d🦞", i))
	}
	p := r.pluginAt(5, pieces(list...))
	r.ask(t.Context(), r.attachedBot(), "t1", "hi").ends(t, strings.Join(list, ""))
	if took := p.wait(sim.Answered).After; took >= 10*time.Second {
		t.Errorf("the plugin gave up waiting for acknowledgements after %v", took)
	}
	if n := r.metric("closed_total", ""); n != 0 {
		t.Errorf("%v sockets closed", n)
	}
}

// TestAnswer_slowAsker checks that a slow asker delays no other turn.
func TestAnswer_slowAsker(t *testing.T) {
	r := newRig(t)
	s := newScript("slow")
	p := r.plugin(s.up)
	b := r.attachedBot()
	release, taken := make(chan struct{}), make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		done <- b.Answer(t.Context(), &talk.Turn{ID: "t1", Parts: []talk.Part{{Text: "slow"}}},
			func(e talk.Event) error {
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
	p.wait(sim.Answered) // with every chunk acknowledged, while the asker still has the first
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
			f := r.ask(t.Context(), r.attachedBot(), "t1", "hi").fails(t, talk.BotFailed)
			for _, want := range []string{text, "2026.3.2", "does not work with"} {
				if !strings.Contains(f.Cause, want) {
					t.Errorf("cause lacks %q: %s", want, f.Cause)
				}
			}
			if strings.Contains(f.Told, "404") || f.Told == "" {
				t.Errorf("the person hears %q", f.Told)
			}
			st, _ := r.s.Status(7)
			if st.LastError.Message != errIncompatible || st.Totals.Failures != 1 {
				t.Errorf("status: %+v", st)
			}
		})
	}
}
