package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/voice/engine"
)

// speaker speaks each sentence as its bytes, in clips named by the engine.
func speaker(name string, fail func(text string) error) engine.Speaker {
	return engine.SpeakOnce(func(_ context.Context, text string, _ engine.Manner) (engine.Clip, error) {
		if err := fail(text); err != nil {
			return engine.Clip{}, err
		}
		sound := strings.NewReader(name + ": " + text)
		return engine.Clip{Format: engine.PCM, Rate: 24000, Sound: io.NopCloser(sound)}, nil
	})
}

func always(err error) func(string) error { return func(string) error { return err } }

// speech returns what is heard until the end or the error.
func speech(t *testing.T, s *engine.ChainSpeech) (heard []string, err error) {
	t.Helper()
	for {
		clip, err := s.Next()
		if err != nil {
			return heard, err
		}
		sound, err := io.ReadAll(clip.Sound)
		clip.Sound.Close()
		if err != nil {
			heard = append(heard, string(sound)+"…")
			s.Reject(err)
			continue
		}
		heard = append(heard, string(sound))
	}
}

func say(t *testing.T, s *engine.ChainSpeech, sentences ...string) {
	t.Helper()
	for _, text := range sentences {
		if err := s.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
}

func TestSpeakFailsOver(t *testing.T) {
	var failures []string
	note := func(stage string, err *engine.Error) { failures = append(failures, stage+" "+string(err.Class)) }
	chain := engine.Chain{Links: []engine.Link{
		{Name: "deaf", OnFailure: note, Engine: engine.Engine{Listener: engine.ListenOnce(nil)}},
		{Name: "a", OnFailure: note, Engine: engine.Engine{Speaker: speaker("a", func(text string) error {
			if text == "Two." {
				return engine.Errorf(engine.Quota, "spent")
			}
			return nil
		})}},
		{Name: "b", OnFailure: note, Engine: engine.Engine{Speaker: speaker("b", always(nil))}},
	}}
	s := chain.Speak(t.Context(), engine.Manner{})
	defer s.Close()
	say(t, s, "One.", "…", "Two.", "Three.")
	heard, err := speech(t, s)
	if err != io.EOF {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"a: One.", "b: Two.", "b: Three."}, heard); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"speak quota"}, failures); diff != "" {
		t.Error(diff)
	}
}

// TestSpeakManySentences checks that fail-over does not block when many sentences wait.
// TestSpell checks that an engine gets texts as it needs them, and that their own texts are shown.
func TestSpell(t *testing.T) {
	for name, speaker := range map[string]engine.Speaker{
		"sentences": speaker("a", always(nil)),
		"halves": engine.SpeakLive(func(ctx context.Context, _ engine.Manner, n *engine.Narration) error {
			for {
				text, err := n.Text(ctx)
				if err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				n.Saying(text)
				for _, half := range []string{text[:len(text)/2], text[len(text)/2:]} {
					n.Begin(half, engine.PCM, 24000)
					if err := n.Sound([]byte("a: " + text)); err != nil {
						return err
					}
				}
			}
		}),
	} {
		chain := engine.Chain{Links: []engine.Link{{Name: "a", Engine: engine.Engine{Speaker: speaker},
			Spell: func(text, lang string) string { return strings.ReplaceAll(text, "3", "three-"+lang) }}}}
		s := chain.Speak(t.Context(), engine.Manner{Language: "en"})
		say(t, s, "3 days.", "No numbers.", "3.")
		var shown []string
		for {
			clip, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			sound, err := io.ReadAll(clip.Sound)
			clip.Sound.Close()
			if err != nil || strings.Contains(string(sound), "3") || !strings.HasPrefix(string(sound), "a: ") {
				t.Errorf("%s: %q is spoken: %v", name, sound, err)
			}
			if clip.Text != "" {
				shown = append(shown, clip.Text)
			}
		}
		if diff := cmp.Diff([]string{"3 days.", "No numbers.", "3."}, shown); diff != "" || s.Complete() != 3 {
			t.Errorf("%s: %d sentences\n%s", name, s.Complete(), diff)
		}
		s.Close()
	}
}

func TestSpeakManySentences(t *testing.T) {
	chain := engine.Chain{Links: []engine.Link{
		{Name: "a", Engine: engine.Engine{Speaker: speaker("a", always(errors.New("broken")))}},
		{Name: "b", Engine: engine.Engine{Speaker: speaker("b", always(nil))}},
	}}
	s := chain.Speak(t.Context(), engine.Manner{})
	defer s.Close()
	var want []string
	written := make(chan error, 1)
	for i := range 200 {
		want = append(want, fmt.Sprintf("b: Sentence %d.", i))
	}
	go func() {
		for i := range 200 {
			if err := s.Write(fmt.Sprintf("Sentence %d.", i)); err != nil {
				written <- err
				return
			}
		}
		written <- s.Finish()
	}()
	heard, err := speech(t, s)
	if err != io.EOF || <-written != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Error(diff)
	}
}

// broken is a sound that fails after its data.
type broken struct {
	io.Reader
	err error
}

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

func (broken) Close() error { return nil }

// TestRejectedClip checks that a sentence whose sound breaks is spoken again by the next engine.
func TestRejectedClip(t *testing.T) {
	chain := engine.Chain{Links: []engine.Link{
		{Name: "a", Engine: engine.Engine{Speaker: engine.SpeakOnce(
			func(_ context.Context, text string, _ engine.Manner) (engine.Clip, error) {
				c := engine.Clip{Format: engine.WAV, Sound: io.NopCloser(strings.NewReader(text))}
				if text == "Two." {
					c.Sound = broken{strings.NewReader("Tw"), engine.Errorf(engine.Closed, "the connection broke")}
				}
				return c, nil
			})}},
		{Name: "b", Engine: engine.Engine{Speaker: speaker("b", always(nil))}},
	}}
	s := chain.Speak(t.Context(), engine.Manner{})
	defer s.Close()
	say(t, s, "One.", "Two.", "Three.")
	heard, err := speech(t, s)
	if err != io.EOF {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"One.", "Tw…", "b: Two.", "b: Three."}, heard); diff != "" {
		t.Error(diff)
	}
}

// TestSlowBot checks that the time limit of an engine does not run while there is no text.
func TestSlowBot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := engine.Chain{Links: []engine.Link{
			{Name: "a", Engine: engine.Engine{Speaker: speaker("a", always(nil))}}}}
		s := chain.Speak(t.Context(), engine.Manner{})
		defer s.Close()
		go func() {
			for _, text := range []string{"One.", "Two."} {
				time.Sleep(time.Minute)
				_ = s.Write(text) // the test fails without it
			}
			_ = s.Finish()
		}()
		heard, err := speech(t, s)
		if err != io.EOF || !cmp.Equal(heard, []string{"a: One.", "a: Two."}) {
			t.Errorf("heard %q, %v", heard, err)
		}
	})
}

func TestListenFailsOver(t *testing.T) {
	got := 0
	chain := engine.Chain{Links: []engine.Link{
		{Name: "mute", Engine: engine.Engine{Speaker: engine.SpeakOnce(nil)}},
		{Name: "a", Engine: engine.Engine{Listener: engine.ListenOnce(
			func(context.Context, []int16, engine.Hints) (engine.Transcript, error) {
				return engine.Transcript{}, engine.Errorf(engine.Busy, "try later")
			})}},
		{Name: "b", Engine: engine.Engine{Listener: engine.ListenOnce(
			func(_ context.Context, samples []int16, h engine.Hints) (engine.Transcript, error) {
				got = len(samples)
				return engine.Transcript{Text: "hello " + h.Language}, nil
			})}},
	}}
	u := chain.Listen(t.Context(), engine.Hints{Language: "en"})
	defer u.Close()
	for range 3 {
		if err := u.Write(make([]int16, 960)); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Finish(); err != nil {
		t.Fatal(err)
	}
	heard, err := u.Next()
	if err != nil || heard.Text != "hello en" || !heard.Final || got != 3*960 {
		t.Errorf("heard %+v of %d samples, %v", heard, got, err)
	}
	if _, err := u.Next(); err != io.EOF {
		t.Errorf("after the final transcript: %v", err)
	}
}

func TestNoEngine(t *testing.T) {
	var chain engine.Chain
	u := chain.Listen(t.Context(), engine.Hints{})
	defer u.Close()
	if _, err := u.Next(); engine.AsError(err) == nil {
		t.Errorf("an utterance without an engine: %v", err)
	}
	s := chain.Speak(t.Context(), engine.Manner{})
	defer s.Close()
	say(t, s, "One.")
	if _, err := s.Next(); engine.AsError(err) == nil {
		t.Errorf("a speech without an engine: %v", err)
	}
}

// TestCircuit checks when an engine that fails is left out.
func TestCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer error
		asked := 0
		chain := engine.Chain{Links: []engine.Link{{Name: "a", Circuit: new(engine.Circuit),
			Engine: engine.Engine{Listener: engine.ListenOnce(
				func(context.Context, []int16, engine.Hints) (engine.Transcript, error) {
					asked++
					return engine.Transcript{}, answer
				})}}}}
		ask := func() bool {
			before := asked
			u := chain.Listen(t.Context(), engine.Hints{})
			defer u.Close()
			if err := u.Finish(); err != nil {
				t.Fatal(err)
			}
			_, _ = u.Next() // asked counts
			return asked > before
		}
		answer = engine.Errorf(engine.Broken, "no")
		for i := range 3 {
			if !ask() {
				t.Errorf("not asked after %d failures", i)
			}
		}
		if ask() {
			t.Error("asked after three failures in a minute")
		}
		time.Sleep(30 * time.Second)
		answer = nil
		for range 2 {
			if !ask() {
				t.Error("not asked after the pause, or after the success that followed")
			}
		}
		answer = &engine.Error{Class: engine.Quota, RetryAfter: 5 * time.Minute, Err: errors.New("wait")}
		ask()
		if time.Sleep(4 * time.Minute); ask() {
			t.Error("asked before Retry-After")
		}
		time.Sleep(time.Minute)
		answer = engine.Errorf(engine.Auth, "wrong key")
		if !ask() {
			t.Error("not asked after Retry-After")
		}
		if time.Sleep(24 * time.Hour); ask() {
			t.Error("asked with a refused key")
		}
	})
}

// TestAbandoned checks that Close ends everything while an engine and a writer wait.
func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := func(ctx context.Context, _ []int16, _ engine.Hints) (engine.Transcript, error) {
			<-ctx.Done()
			return engine.Transcript{}, context.Cause(ctx)
		}
		chain := engine.Chain{Wait: time.Hour, Links: []engine.Link{{Name: "a", Engine: engine.Engine{
			Listener: engine.ListenOnce(deaf),
			Speaker: engine.SpeakOnce(func(ctx context.Context, text string, _ engine.Manner) (engine.Clip, error) {
				return engine.Clip{Sound: io.NopCloser(bytes.NewReader([]byte(text)))}, nil
			})}}}}
		ctx, cancel := context.WithCancel(t.Context())
		s := chain.Speak(ctx, engine.Manner{})
		written := make(chan error, 1)
		go func() {
			for {
				if err := s.Write("More."); err != nil {
					written <- err
					return
				}
			}
		}()
		if _, err := s.Next(); err != nil {
			t.Error(err)
		}
		u := chain.Listen(ctx, engine.Hints{})
		if err := u.Finish(); err != nil {
			t.Error(err)
		}
		heard := make(chan error, 1)
		go func() { _, err := u.Next(); heard <- err }()
		synctest.Wait()
		cancel()
		if err := <-written; !errors.Is(err, context.Canceled) {
			t.Errorf("writing ended with %v", err)
		}
		if err := <-heard; !errors.Is(err, context.Canceled) {
			t.Errorf("listening ended with %v", err)
		}
		s.Close()
		u.Close()
	})
}
