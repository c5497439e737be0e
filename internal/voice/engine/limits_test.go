package engine_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/voice/engine"
)

const ms = time.Millisecond

// silent is an engine that does nothing, for ever.
func silent(name string) engine.Link {
	return engine.Link{Name: name, Engine: engine.Engine{
		Listener: engine.ListenOnce(func(ctx context.Context, _ []int16, _ engine.Hints) (engine.Transcript, error) {
			<-ctx.Done()
			return engine.Transcript{}, context.Cause(ctx)
		}),
		Speaker: engine.SpeakOnce(func(ctx context.Context, _ string, _ engine.Manner) (engine.Clip, error) {
			<-ctx.Done()
			return engine.Clip{}, context.Cause(ctx)
		})}}
}

// slow is an engine that does its work after a time.
func slow(name string, after time.Duration) engine.Link {
	wait := func(ctx context.Context) error {
		select {
		case <-time.After(after):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return engine.Link{Name: name, Engine: engine.Engine{
		Listener: engine.ListenOnce(func(ctx context.Context, _ []int16, _ engine.Hints) (engine.Transcript, error) {
			return engine.Transcript{Text: name}, wait(ctx)
		}),
		Speaker: engine.SpeakOnce(func(ctx context.Context, text string, _ engine.Manner) (engine.Clip, error) {
			sound := io.NopCloser(strings.NewReader(name + ": " + text))
			return engine.Clip{Format: engine.PCM, Rate: 24000, Sound: sound}, wait(ctx)
		})}}
}

// failing is an engine that fails after a time.
func failing(name string, after time.Duration) engine.Link {
	l := slow(name, after)
	listen, speak := l.Listener.(engine.ListenOnce), l.Speaker.(engine.SpeakOnce)
	no := engine.Errorf(engine.Broken, "no")
	l.Listener = engine.ListenOnce(func(ctx context.Context, s []int16, h engine.Hints) (engine.Transcript, error) {
		_, _ = listen(ctx, s, h)
		return engine.Transcript{}, no
	})
	l.Speaker = engine.SpeakOnce(func(ctx context.Context, text string, m engine.Manner) (engine.Clip, error) {
		_, _ = speak(ctx, text, m)
		return engine.Clip{}, no
	})
	return l
}

// waits is a case of [TestWaits].
type waits struct {
	links []engine.Link
	took  time.Duration
	ok    bool
}

func (c waits) check(t *testing.T, stage string, err error, took time.Duration) {
	t.Helper()
	e := engine.AsError(err)
	if (err == nil) != c.ok || !c.ok && (e == nil || e.Class != engine.Timeout) || took != c.took {
		t.Errorf("%s took %s, %v; want %s", stage, took, err, c.took)
	}
}

// TestWaits checks how long the engines of a stage may take together, for both stages.
func TestWaits(t *testing.T) {
	for name, c := range map[string]waits{
		"one hangs":                   {[]engine.Link{silent("a")}, 6 * time.Second, false},
		"two hang":                    {[]engine.Link{silent("a"), silent("b")}, 6 * time.Second, false},
		"three hang":                  {[]engine.Link{silent("a"), silent("b"), silent("c")}, 9 * time.Second, false},
		"the second one works":        {[]engine.Link{silent("a"), slow("b", 0)}, 3 * time.Second, true},
		"the only one is slow":        {[]engine.Link{slow("a", 5*time.Second)}, 5 * time.Second, true},
		"the first fails at once":     {[]engine.Link{failing("a", 0), slow("b", 5*time.Second)}, 5 * time.Second, true},
		"the last has what is left":   {[]engine.Link{failing("a", time.Second), silent("b")}, 6 * time.Second, false},
		"the last has three at least": {[]engine.Link{silent("a"), slow("b", 2900*ms)}, 5900 * ms, true},
	} {
		t.Run(name, func(t *testing.T) {
			chain := engine.Chain{Links: c.links}
			synctest.Test(t, func(t *testing.T) {
				u := chain.Listen(t.Context(), engine.Hints{})
				defer u.Close()
				began := time.Now()
				_ = u.Finish()
				_, err := u.Next()
				c.check(t, "listening", err, time.Since(began))
			})
			synctest.Test(t, func(t *testing.T) {
				s := chain.Speak(t.Context(), engine.Manner{})
				defer s.Close()
				began := time.Now()
				say(t, s, "One.", "Two.")
				_, err := s.Next()
				c.check(t, "speaking", err, time.Since(began))
				if c.ok {
					return
				}
				var rest []string
				for text, err := s.Unspoken(); err == nil; text, err = s.Unspoken() {
					rest = append(rest, text)
				}
				if diff := cmp.Diff([]string{"One.", "Two."}, rest); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestNextSentenceWaits checks that each sentence has the whole time again.
func TestNextSentenceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := engine.Chain{Links: []engine.Link{failing("a", 2*time.Second), slow("b", 3500*time.Millisecond)}}
		s := chain.Speak(t.Context(), engine.Manner{})
		defer s.Close()
		say(t, s, "One.", "Two.", "Three.")
		heard, err := speech(t, s)
		if diff := cmp.Diff([]string{"b: One.", "b: Two.", "b: Three."}, heard); err != io.EOF || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

// TestHurry checks how long engines may take for what is of use only soon, and that those that were
// late before are left out if there is another one.
func TestHurry(t *testing.T) {
	for name, c := range map[string]struct {
		links []engine.Link
		late  string
		took  time.Duration
		heard []string
	}{
		"in time":               {[]engine.Link{slow("a", 1900*ms)}, "", 1900 * ms, []string{"a: Sorry."}},
		"too late":              {[]engine.Link{silent("a")}, "", 2 * time.Second, nil},
		"all were late":         {[]engine.Link{silent("a"), silent("b")}, "ab", time.Second, nil},
		"late, and in time now": {[]engine.Link{slow("a", 900*ms)}, "a", 900 * ms, []string{"a: Sorry."}},
		"one was late":          {[]engine.Link{silent("a"), slow("b", 999*ms)}, "a", 999 * ms, []string{"b: Sorry."}},
		"two are":               {[]engine.Link{silent("a"), silent("b")}, "", 2 * time.Second, nil},
		"the second one works":  {[]engine.Link{silent("a"), slow("b", 0)}, "", time.Second, []string{"b: Sorry."}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := (&engine.Chain{Links: c.links}).Speak(t.Context(), engine.Manner{})
				defer s.Close()
				s.Hurry(func(id engine.ID) bool { return strings.Contains(c.late, id.Name) })
				began := time.Now()
				say(t, s, "Sorry.")
				heard, _ := speech(t, s)
				if diff := cmp.Diff(c.heard, heard); diff != "" || time.Since(began) != c.took {
					t.Errorf("it took %s, want %s\n%s", time.Since(began), c.took, diff)
				}
			})
		})
	}
}

// TestTimedOut checks that an utterance tells which engines were late.
func TestTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := engine.Chain{Links: []engine.Link{failing("a", 0), silent("b"), silent("c")}}
		u := chain.Listen(t.Context(), engine.Hints{})
		defer u.Close()
		_ = u.Finish()
		if _, err := u.Next(); err == nil {
			t.Error("somebody has listened")
		}
		for name, want := range map[string]bool{"a": false, "b": true, "c": true, "d": false} {
			if got := u.TimedOut(engine.ID{Name: name}); got != want {
				t.Errorf("%s timed out: %v", name, got)
			}
		}
	})
}

// trickle is a speaker whose sound comes in pieces, each after a pause.
func trickle(first, piece int, pause time.Duration) engine.Speaker {
	return engine.SpeakLive(func(ctx context.Context, _ engine.Manner, n *engine.Narration) error {
		text, err := n.Text(ctx)
		if err != nil {
			return err
		}
		n.Saying(text)
		n.Begin("", engine.PCM, 24000)
		for data := make([]byte, first); ; data = make([]byte, piece) {
			if err := n.Sound(data); err != nil {
				return err
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// TestSoundStops checks that the next engine takes over when a sound that has begun does not go on,
// or only drop by drop.
func TestSoundStops(t *testing.T) {
	for name, first := range map[string]engine.Speaker{"it stops": trickle(9000, 2, time.Hour),
		"a byte a second": trickle(9000, 1, time.Second)} {
		for _, other := range []bool{true, false} {
			t.Run(fmt.Sprint(name, other), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					chain := engine.Chain{Links: []engine.Link{{Name: "a", Engine: engine.Engine{Speaker: first}}}}
					limit := 5 * time.Second
					if other {
						chain.Links, limit = append(chain.Links, slow("b", 0)), 3*time.Second
					}
					s := chain.Speak(t.Context(), engine.Manner{})
					defer s.Close()
					began := time.Now()
					say(t, s, "One.")
					heard, err := speech(t, s)
					if took := time.Since(began); took != limit || other != (err == io.EOF) {
						t.Errorf("it took %s, want %s; %v", took, limit, err)
					}
					if other && (len(heard) != 2 || heard[1] != "b: One.") {
						t.Errorf("heard %d clips", len(heard))
					}
				})
			})
		}
	}
}

// TestEndlessSound checks that nobody hears the sound of an engine that does not stop to its end.
func TestEndlessSound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := engine.Chain{Links: []engine.Link{
			{Name: "a", Engine: engine.Engine{Speaker: trickle(9000, 64<<10, time.Millisecond)}}, slow("b", 0)}}
		s := chain.Speak(t.Context(), engine.Manner{})
		defer s.Close()
		say(t, s, "One.")
		clip, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		defer clip.Sound.Close()
		if _, err := io.ReadFull(clip.Sound, make([]byte, 4800)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		rest, err := io.ReadAll(clip.Sound)
		if e := engine.AsError(err); e == nil || e.Class != engine.Broken || len(rest) > 0 {
			t.Errorf("%d bytes more, and %v", len(rest), err)
		}
		s.Reject(err)
		if heard, _ := speech(t, s); !cmp.Equal(heard, []string{"b: One."}) {
			t.Errorf("heard %q", heard)
		}
	})
}
