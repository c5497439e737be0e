package engine_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"patchbay/internal/voice/engine"
)

// TestListenLive checks pieces of sound, transcripts and endings of an engine that recognises while
// somebody speaks.
func TestListenLive(t *testing.T) {
	var sizes []int
	listener := engine.ListenLive(func(ctx context.Context, h engine.Hints, d *engine.Dictation) error {
		for {
			samples, last, err := d.Piece(ctx, 960)
			if err != nil {
				return err
			}
			if sizes = append(sizes, len(samples)); last {
				break
			}
			if err := d.Publish(engine.Transcript{Text: "what"}); err != nil {
				return err
			}
		}
		return d.Publish(engine.Transcript{Text: h.Language, Final: h.Language != ""})
	})
	for _, c := range []struct {
		name, language string
		samples        int
		class          engine.Class
	}{
		{"some sound", "en", 2000, ""},
		{"whole pieces", "en", 1920, ""},
		{"no sound", "en", 0, ""},
		{"no final transcript", "", 10, engine.Broken},
		{"a long transcript", strings.Repeat("x", engine.MaxTranscript+1), 10, engine.Broken},
	} {
		sizes = nil
		u, err := listener.Listen(t.Context(), engine.Hints{Language: c.language})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(u.Write(make([]int16, c.samples)), u.Finish()); err != nil {
			t.Fatal(err)
		}
		heard := engine.Transcript{}
		for err == nil && !heard.Final {
			heard, err = u.Next()
		}
		if e := engine.AsError(err); e != nil && e.Class != c.class || e == nil && heard.Text != c.language {
			t.Errorf("%s: %+v, %v", c.name, heard, err)
		}
		if _, err := u.Next(); c.class == "" && err != io.EOF {
			t.Errorf("%s: after the final transcript: %v", c.name, err)
		}
		u.Close()
		sum := 0
		for i, n := range sizes {
			if sum += n; n != 960 && i < len(sizes)-1 {
				t.Errorf("%s: pieces of %v samples", c.name, sizes)
			}
		}
		if sum != c.samples {
			t.Errorf("%s: %d samples, want %d", c.name, sum, c.samples)
		}
	}
}
