package engine_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/voice/engine"
)

// narrate has an engine speak texts, and returns its clips as "text=sound".
func narrate(t *testing.T, f engine.SpeakLive, texts ...string) (clips []string, err error) {
	t.Helper()
	s, err := f.Speak(t.Context(), engine.Manner{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	go func() {
		for _, text := range texts {
			if s.Write(text) != nil {
				return
			}
		}
		_ = s.Finish()
	}()
	for {
		clip, err := s.Next()
		if err == io.EOF {
			return clips, nil
		}
		if err != nil {
			return clips, err
		}
		sound, err := io.ReadAll(clip.Sound)
		if err != nil {
			return clips, err
		}
		clip.Sound.Close()
		clips = append(clips, clip.Text+"="+string(sound))
	}
}

// sayAll takes all texts.
func sayAll(ctx context.Context, n *engine.Narration) error {
	for {
		text, err := n.Text(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		n.Saying(text)
	}
}

// first and more are the beginnings of pages of an Ogg stream.
const first, more = "OggS\x00\x02first", "OggS\x00\x00more"

// TestSpeakLive checks which clips an engine's sound becomes.
func TestSpeakLive(t *testing.T) {
	type n = engine.Narration
	for _, c := range []struct {
		name  string
		speak func(n *n) error
		clips []string
		class engine.Class
	}{
		{"marked sentences", func(n *n) error {
			n.Begin("One. ", engine.PCM, 16000)
			err := errors.Join(n.Sound([]byte("a")), n.Sound([]byte("b")))
			n.End()
			n.Begin("Two.", engine.PCM, 16000)
			return errors.Join(err, n.Sound([]byte("c")))
		}, []string{"One. =ab", "Two.=c"}, ""},
		{"no marks", func(n *n) error {
			n.Begin("", engine.PCM, 16000)
			return n.Sound([]byte("abc"))
		}, []string{"One. Two.=abc"}, ""},
		{"marks without texts", func(n *n) error {
			n.Begin("One.", engine.PCM, 16000)
			err := n.Sound([]byte("ab"))
			n.Begin("", engine.PCM, 16000)
			return errors.Join(err, n.Sound([]byte("c")))
		}, []string{"One.=ab", "Two.=c"}, ""},
		{"a sentence without sound", func(n *n) error {
			n.Begin("One.", engine.PCM, 16000)
			n.End()
			n.Begin("Two.", engine.PCM, 16000)
			return n.Sound([]byte("c"))
		}, []string{"One. Two.=c"}, ""},
		{"sound after the end", func(n *n) error {
			n.Begin("One.", engine.PCM, 16000)
			err := n.Sound([]byte("a"))
			n.End()
			return errors.Join(err, n.Sound([]byte("b")))
		}, []string{"One.=a", "=b"}, ""},
		{"one Ogg stream", func(n *n) error {
			n.Begin("One.", engine.OggOpus, 0)
			err := n.Sound([]byte(first))
			n.Begin("Two.", engine.OggOpus, 0)
			return errors.Join(err, n.Sound([]byte(more)))
		}, []string{"One.=" + first + more}, ""},
		{"an Ogg stream for each sentence", func(n *n) error {
			n.Begin("One.", engine.OggOpus, 0)
			err := n.Sound([]byte(first))
			n.Begin("Two.", engine.OggOpus, 0)
			return errors.Join(err, n.Sound([]byte(first)))
		}, []string{"One.=" + first, "Two.=" + first}, ""},
		{"no sound", func(*n) error { return nil }, nil, engine.Broken},
		{"sound of nothing", func(n *n) error { return n.Sound([]byte("a")) }, nil, engine.Broken},
		{"a failure", func(n *n) error {
			n.Begin("One.", engine.PCM, 16000)
			return errors.Join(n.Sound([]byte("a")), engine.Errorf(engine.Quota, "no"))
		}, nil, engine.Quota},
		{"endless sound", func(n *n) error {
			n.Begin("", engine.PCM, 16000)
			for {
				if err := n.Sound([]byte(strings.Repeat("a", 1<<20))); err != nil {
					return err
				}
			}
		}, nil, engine.Broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			clips, err := narrate(t, func(ctx context.Context, _ engine.Manner, n *engine.Narration) error {
				if err := sayAll(ctx, n); err != nil {
					return err
				}
				return c.speak(n)
			}, "One.", "Two.")
			if e := engine.AsError(err); c.class != "" {
				if e == nil || e.Class != c.class {
					t.Errorf("%v, want %s", err, c.class)
				}
				return
			}
			if diff := cmp.Diff(c.clips, clips); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

// A long sound whose sentences the engine does not mark becomes several clips.
func TestSpeakLiveCuts(t *testing.T) {
	clips, err := narrate(t, func(ctx context.Context, _ engine.Manner, n *engine.Narration) error {
		if err := sayAll(ctx, n); err != nil {
			return err
		}
		n.Begin("", engine.PCM, 24000)
		for range 60 {
			if err := n.Sound(make([]byte, 48000)); err != nil {
				return err
			}
		}
		return nil
	}, "One.")
	if err != nil || len(clips) != 2 || !strings.HasPrefix(clips[0], "One.=") || !strings.HasPrefix(clips[1], "=") {
		t.Error(len(clips), err)
	}
}
