package eyeclaw

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/eyeclaw/sim"
	"patchbay/internal/talk"
)

// TestPlugin_dropInMidAnswer loses the socket after 4 of 14 chunks. The plugin finishes on the next
// one.
func TestPlugin_dropInMidAnswer(t *testing.T) {
	r := newRig(t)
	s := newScript("long")
	p := r.plugin(s.up)
	a := r.ask(t.Context(), r.attachedBot(), "t1", "long")
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

// TestPlugin_holeInMidAnswer has a plugin that reconnects during the answer: the lost chunks leave
// a gap, and the following chunks wait for the summary.
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
			r := newRig(t, func(o *Options) { o.Timings.GapWait = c.hold })
			s := newScript("long")
			p := r.plugin(s.up)
			a := r.ask(t.Context(), r.attachedBot(), "t1", "long")
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
			b := r.attachedBot()
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
			if st, ok := r.s.Status(7); !ok || st.Online || st.Connections != 0 || st.Reconnecting ||
				st.LastSeen.IsZero() {
				t.Errorf("status: %+v, %v", st, ok)
			}
		})
	}
}

// TestPlugin_answerLostWhileAway checks that an answer that the plugin sent while it was away, so
// that the rest may never come, does not block the questions behind it.
func TestPlugin_answerLostWhileAway(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Timings.Stall = 50 * time.Millisecond })
	s := newScript("lost", "next")
	p := r.plugin(s.up)
	b := r.attachedBot()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lost := r.ask(ctx, b, "t1", "lost")
	p.wait(sim.Asked)
	r.away(p, func() {
		s.say("lost", "gone")
		s.end("lost")
		p.wait(sim.Answered)
	})
	eventually(t, "the queue being released", func() bool {
		lost.mu.Lock()
		defer lost.mu.Unlock()
		return lost.stalls > 0
	})
	next := r.ask(t.Context(), b, "t2", "next")
	s.say("next", "here again")
	s.end("next")
	next.ends(t, "here again")
	cancel()
	if said, err := lost.end(t); said != "" || !errors.Is(err, context.Canceled) || lost.stalls != 1 {
		t.Errorf("the lost answer: said %q, %v, %d stalls", said, err, lost.stalls)
	}
}

// Whoever waits for a plugin that has gone is told soon, whether it had the question or not.
func TestPlugin_askerIsTold(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Timings.Note = 50 * time.Millisecond })
	s := newScript("begun", "new")
	p := r.plugin(s.up)
	b := r.attachedBot()
	begun := r.ask(t.Context(), b, "t1", "begun")
	p.wait(sim.Asked)
	told := func(a *answer) func() bool {
		return func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return len(a.notes) == 1 && a.notes[0] == talk.MsgReconnecting.In(i18n.Chinese)
		}
	}
	var asked *answer
	r.away(p, func() {
		eventually(t, "the asker being told", told(begun))
		asked = r.ask(t.Context(), b, "t2", "new")
		eventually(t, "the next one being told", told(asked))
	})
	s.say("begun", "still here")
	s.end("begun")
	begun.ends(t, "still here")
	s.say("new", "and this")
	s.end("new")
	asked.ends(t, "and this")
	if !told(begun)() || !told(asked)() {
		t.Errorf("they are told %q and %q", begun.notes, asked.notes)
	}
}

func TestPlugin_askedWhileAway(t *testing.T) {
	r := newRig(t)
	p := r.plugin(pieces("here again"))
	b := r.attachedBot()
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

// TestPlugin_endpointOff checks that the owner learns how to turn on OpenClaw's chat endpoint.
func TestPlugin_endpointOff(t *testing.T) {
	r := newRig(t)
	r.plugin(func(context.Context, sim.Chat, func(string)) error {
		return errors.New("OpenClaw API error: 404 - Not Found")
	})
	f := r.ask(t.Context(), r.attachedBot(), "t1", "hi").fails(t, talk.BotFailed)
	if f.Told != msgReported.In(i18n.English) && f.Told != msgReported.In(i18n.Chinese) ||
		f.Cause != "OpenClaw API error: 404 - Not Found" {
		t.Errorf("the person hears %q", f.Told)
	}
	st, _ := r.s.Status(7)
	if st.LastError.Message != errEndpoint || !strings.Contains(st.Command, "chatCompletions.enabled true") {
		t.Errorf("status: %+v", st)
	}
}

// TestTwoPlugins connects two plugins with one token: the newer one gets the questions, and the
// older one stays and takes over when the newer one has gone.
func TestTwoPlugins(t *testing.T) {
	r := newRig(t)
	older := r.plugin(pieces("older"))
	newer := r.plugin(pieces("newer"))
	b := r.attachedBot()
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
	b := r.attachedBot()
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
