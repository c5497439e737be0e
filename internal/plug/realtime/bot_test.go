package realtime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/talk"
	"patchbay/internal/voice/realtime"
	"patchbay/internal/voice/realtime/realtimetest"
)

// forSpellings runs a test for each spelling.
func forSpellings(t *testing.T, test func(t *testing.T, spelling realtime.Spelling)) {
	for _, s := range spellings {
		t.Run(string(s), func(t *testing.T) { test(t, s) })
	}
}

// A typed question is answered in writing, with the history.
func TestText(t *testing.T) {
	forSpellings(t, func(t *testing.T, spelling realtime.Spelling) {
		r := newRig(t, realtimetest.Options{Spelling: spelling}, nil, nil)
		q := turn(talk.Part{Text: "And now?"})
		q.History = []talk.Message{{Role: talk.RolePerson, Text: "One?"}, {Role: talk.RoleBot, Text: "Two."}}
		var got answered
		must(t, r.Answer(t.Context(), q, got.emit))
		if got.text != "You said: person: And now?" && got.text != "You said: And now?" || got.transcript != "" {
			t.Errorf("%+v", got)
		}
		s := r.server.Sessions()[0]
		all := strings.Join(s.Said, "|") + string(s.Update)
		for _, want := range []string{"One?", "Two.", "Be kind."} {
			if !strings.Contains(all, want) {
				t.Errorf("%q is missing in %s", want, all)
			}
		}
		if u := <-r.usage; u.InputText != 10 || u.OutputAudio != 8 {
			t.Errorf("%+v", u)
		}
		if err := r.Answer(t.Context(), turn(), got.emit); talk.AsFailure(err).Code != talk.Unreadable {
			t.Error(err)
		}
	})
}

// A person talks, is answered, and calls a tool in the same session.
func TestConversation(t *testing.T) {
	forSpellings(t, func(t *testing.T, spelling realtime.Spelling) {
		r := newRig(t, realtimetest.Options{Spelling: spelling,
			Transcript: func([]int16) string { return "Turn it on." },
			Answer: func(q realtimetest.Question) realtimetest.Answer {
				if last := q.Said[len(q.Said)-1]; strings.HasPrefix(last, "result:") {
					return realtimetest.Answer{Text: "It is on: " + last}
				}
				return realtimetest.Answer{Text: "One moment. ", Calls: []realtimetest.Call{
					{ID: "c1", Name: "lamp", Arguments: `{"q":"on"}`}}}
			}}, nil, tools{names: []string{"lamp"}})
		c := r.converse(turn())
		for range 2 {
			p := newPlayback()
			got, err := r.say(t.Context(), c, p)
			must(t, err)
			if got.transcript != "Turn it on." || got.text != `One moment. It is on: result: lamp{"q":"on"}` {
				t.Errorf("%+v", got)
			}
			letters := len("One moment. It is on: result: lamp{q:on}") + 4
			if want := time.Duration(letters) * 100 * time.Millisecond; p.duration() != want {
				t.Errorf("%s of sound, want %s", p.duration(), want)
			}
		}
		if s := r.server.Sessions(); len(s) != 1 || len(s[0].Samples) < 15990 || len(s[0].Samples) > 16010 {
			t.Errorf("%d sessions, %d samples", len(s), len(s[0].Samples))
		}
	})
}

// The voice and the language of a board hold from the next turn, in a session that knows what was
// said. A voice that the service does not have is that of the bot.
func TestManner(t *testing.T) {
	forSpellings(t, func(t *testing.T, spelling realtime.Spelling) {
		r := newRig(t, realtimetest.Options{Spelling: spelling, Voices: []string{"marin", "cedar"}},
			func(s *Settings) { s.Voice = "marin" }, nil)
		c := r.converse(turn())
		for i, m := range []talk.Manner{{}, {Voice: "cedar", Language: "ja-JP", Speed: 2}, {Voice: "cedar", Language: "ja-JP",
			Speed: 2}, {Voice: "af_heart"}} {
			c.Write(make([]int16, talk.HearingRate/2))
			q := turn()
			q.Spoken = &talk.Spoken{Conversation: c, Playback: newPlayback(), Manner: m}
			var got answered
			if err := r.Answer(t.Context(), q, got.emit); err != nil || got.text != "You said: hello" {
				t.Fatalf("%d: %+v, %v", i, got, err)
			}
		}
		all := r.server.Await(t, "three sessions, the last with the voice of the bot", func(all []realtimetest.Session) bool {
			return len(all) == 3 && strings.Contains(string(all[2].Update), `"marin"`)
		})
		for i, want := range [][]string{{`"marin"`}, {`"cedar"`, "ja-JP"}, {`"marin"`}} {
			update := string(all[i].Update)
			if spelling == realtime.OpenAI && i == 1 {
				want = append(want, `"language":"ja"`, `"speed":1.5`)
			}
			for _, w := range want {
				if !strings.Contains(update, w) {
					t.Errorf("session %d lacks %s: %s", i, w, update)
				}
			}
			if told := strings.Join(all[i].Said, "|") + update; i > 0 && strings.Count(told, "You said: hello") < 2 {
				t.Errorf("session %d does not know what was said: %s", i, told)
			}
		}
	})
}

// An interruption stops the answer and takes back what was not heard; the next turn works.
func TestInterruption(t *testing.T) {
	forSpellings(t, func(t *testing.T, spelling realtime.Spelling) {
		for _, generating := range []bool{true, false} {
			r := newRig(t, realtimetest.Options{Spelling: spelling,
				Answer: func(q realtimetest.Question) realtimetest.Answer {
					return realtimetest.Answer{Text: "A long story.", Hold: generating && len(q.Said) == 1}
				}}, nil, nil)
			c := r.converse(turn())
			ctx, cancel := context.WithCancelCause(t.Context())
			p := newPlayback()
			p.hold, p.played = true, 730*time.Millisecond
			stop := errors.New("stopped")
			go func() {
				for p.duration() < 1300*time.Millisecond {
					<-p.got
				}
				cancel(stop)
			}()
			if _, err := r.say(ctx, c, p); !errors.Is(err, stop) {
				t.Error(err)
			}
			got, err := r.say(t.Context(), c, newPlayback())
			if err != nil || got.text != "A long story." {
				t.Errorf("%+v, %v", got, err)
			}
			s := r.server.Sessions()[0]
			if spelling == realtime.OpenAI && (len(s.Truncations) != 1 || s.Truncations[0].At != 730*time.Millisecond ||
				s.Truncations[0].Had != 1300*time.Millisecond) || spelling == realtime.Qwen && len(s.Truncations) > 0 {
				t.Errorf("%+v", s.Truncations)
			}
			if s.Cancels > 1 || generating && s.Cancels == 0 {
				t.Errorf("%d cancels", s.Cancels)
			}
		}
	})
}

// A call that runs while the person interrupts is canceled, and the model is told.
func TestInterruptedCall(t *testing.T) {
	called := make(chan struct{}, 1)
	r := newRig(t, realtimetest.Options{Spelling: realtime.OpenAI,
		Answer: func(q realtimetest.Question) realtimetest.Answer {
			if len(q.Said) > 1 {
				return realtimetest.Answer{Text: "Fine."}
			}
			called <- struct{}{}
			return realtimetest.Answer{Calls: []realtimetest.Call{{ID: "c1", Name: "slow", Arguments: "{}"}}}
		}}, nil, tools{[]string{"slow"}, true})
	r.limits.note = time.Millisecond
	c := r.converse(turn())
	ctx, cancel := context.WithCancel(t.Context())
	var noted answered
	q := turn()
	q.Spoken = &talk.Spoken{Conversation: c, Playback: newPlayback()}
	c.Write(make([]int16, 8000))
	err := r.Answer(ctx, q, func(e talk.Event) error {
		if e.Kind == talk.KindNote {
			cancel()
		}
		return noted.emit(e)
	})
	if !errors.Is(err, context.Canceled) || noted.notes != "Using slow…" {
		t.Errorf("%+v, %v", noted, err)
	}
	<-called
	if got, err := r.say(t.Context(), c, newPlayback()); err != nil || got.text != "Fine." {
		t.Errorf("%+v, %v", got, err)
	}
	if said := r.server.Sessions()[0].Said; !slices.Contains(said, "result: "+resultInterrupted) {
		t.Error(said)
	}
}

// An error of the service that is about something else does not end the turn.
func TestServerError(t *testing.T) {
	forSpellings(t, func(t *testing.T, spelling realtime.Spelling) {
		r := newRig(t, realtimetest.Options{Spelling: spelling, Error: "server_error"}, nil, nil)
		c := r.converse(turn())
		got, err := r.say(t.Context(), c, newPlayback())
		if err != nil || got.text != "You said: hello" {
			t.Errorf("%+v, %v", got, err)
		}
		if n := len(r.server.Sessions()); n != 1 {
			t.Errorf("%d sessions", n)
		}
	})
}

// A session that has become old, rested or was lost is replaced by one that knows what was said.
func TestRollover(t *testing.T) {
	forSpellings(t, func(t *testing.T, spelling realtime.Spelling) {
		for name, c := range map[string]struct {
			change  func(*limits)
			between func(*rig)
		}{
			"old":  {func(l *limits) { l.age = 50 * time.Millisecond }, nil},
			"idle": {func(l *limits) { l.idle = 50 * time.Millisecond }, nil},
			"lost": {nil, func(r *rig) { r.server.Drop() }},
		} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, realtimetest.Options{Spelling: spelling}, nil, nil)
				if c.change != nil {
					c.change(&r.limits)
				}
				conv := r.converse(turn())
				for i := range 3 {
					got, err := r.say(t.Context(), conv, newPlayback())
					if err != nil || got.text != "You said: hello" {
						t.Fatalf("%d: %+v, %v", i, got, err)
					}
					if c.between != nil {
						c.between(r)
						continue
					}
					r.server.Await(t, "another session", func(all []realtimetest.Session) bool {
						return len(all) > i+1 || name == "idle" && r.server.Open() == 0
					})
				}
				r.server.Await(t, "a session that knows", func(all []realtimetest.Session) bool {
					last := all[len(all)-1]
					told := strings.Join(last.Said, "|") + string(last.Update)
					return len(all) >= 3 && strings.Contains(told, "hello") && strings.Contains(told, "You said: hello")
				})
			})
		}
	})
}

func isConfigured(all []realtimetest.Session) bool { return len(all) == 1 && all[0].Update != nil }

// What the person says while there is no session is not lost.
func TestLostUtterance(t *testing.T) {
	r := newRig(t, realtimetest.Options{Spelling: realtime.OpenAI}, nil, nil)
	c := r.converse(turn())
	c.Write(make([]int16, 8000))
	r.server.Await(t, "a session", isConfigured)
	r.server.Drop()
	got, err := r.say(t.Context(), c, newPlayback())
	if err != nil || got.transcript != "hello" {
		t.Errorf("%+v, %v", got, err)
	}
	all := r.server.Sessions()
	if n := len(all[len(all)-1].Samples); n < 15990 {
		t.Errorf("%d samples", n)
	}
}

// The service can find the turns.
func TestProviderTurns(t *testing.T) {
	forSpellings(t, func(t *testing.T, spelling realtime.Spelling) {
		r := newRig(t, realtimetest.Options{Spelling: spelling},
			func(s *Settings) { s.TurnDetection = DetectServer }, nil)
		heard := make(chan talk.Hearing, 10)
		c := r.Converse(turn(), func(h talk.Hearing) { heard <- h })
		defer c.Close()
		if !c.FindsTurns() {
			t.Error("the bot does not find turns")
		}
		c.Write(make([]int16, 8000))
		r.server.Await(t, "the session", isConfigured)
		r.server.SpeechStarted()
		if h := <-heard; h != talk.SpeechBegan {
			t.Error(h)
		}
		r.server.SpeechStopped()
		if h := <-heard; h != talk.SpeechEnded { // which is when boards ask
			t.Error(h)
		}
		q := turn()
		q.Spoken = &talk.Spoken{Conversation: c, Playback: newPlayback()}
		var got answered
		must(t, r.Answer(t.Context(), q, got.emit))
		if got.text != "You said: hello" {
			t.Errorf("%+v", got)
		}
	})
}

// Each fault ends the turn in time, in words; the next turn works.
func TestFaults(t *testing.T) {
	for _, f := range realtimetest.Faults {
		if f == realtimetest.Refuse {
			continue // it cannot end
		}
		forSpellings(t, func(t *testing.T, spelling realtime.Spelling) {
			t.Run(string(f), func(t *testing.T) {
				t.Parallel()
				testFault(t, spelling, f)
			})
		})
	}
}

func testFault(t *testing.T, spelling realtime.Spelling, f realtimetest.Fault) {
	r := newRig(t, realtimetest.Options{Spelling: spelling, Fault: f}, nil, nil)
	r.options.Timeout = 500 * time.Millisecond
	r.limits.first, r.limits.next, r.limits.grace = 700*time.Millisecond, 700*time.Millisecond, 100*time.Millisecond
	r.limits.sound = 20 * 2 * talk.SpeakingRate
	c := r.converse(turn())
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	_, err := r.say(ctx, c, newPlayback())
	if took := time.Since(begin); took > 6*time.Second {
		t.Errorf("it took %s", took)
	}
	if err != nil && strings.Contains(err.Error(), realtimetest.Key) {
		t.Errorf("the key is shown: %v", err)
	}
	r.server.SetFault(realtimetest.None)
	r.server.Drop()
	got, err := r.say(t.Context(), c, newPlayback())
	for range 20 { // the session before it may have the fault as well, and the limits are short
		if err == nil {
			break
		}
		got, err = r.say(t.Context(), c, newPlayback())
	}
	if err != nil || got.text != "You said: hello" {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
}

func TestCheck(t *testing.T) {
	r := newRig(t, realtimetest.Options{Spelling: realtime.OpenAI}, nil, nil)
	for _, c := range []struct {
		change func(*Settings)
		state  check.State
		want   string
	}{
		{func(*Settings) {}, check.OK, "can be asked"},
		{func(s *Settings) { s.APIKey = "sk-wrong" }, check.Fail, "refused its key"},
		{func(s *Settings) { s.URL = "ws://127.0.0.1:1/" }, check.Fail, "cannot be reached"},
	} {
		s := r.settings
		c.change(&s)
		var report check.Report
		report.Lang = i18n.English
		CheckBot(t.Context(), &report, check.AdviceAsk.With(1, ""), 1, s, Options{})
		if f := report.Findings; len(f) != 1 || f[0].State != c.state || !strings.Contains(f[0].Found, c.want) {
			t.Errorf("%+v, want %q", f, c.want)
		}
	}
}
