package app

import (
	"log/slog"
	"strings"
	"testing"

	"patchbay/internal/hub/hubtest"
	"patchbay/internal/problem"
	"patchbay/internal/voice/engines/wyoming/wyomingtest"
)

// TestWyomingHere checks that servers on this machine are found where they are, and that those that
// do not answer are left out.
func TestWyomingHere(t *testing.T) {
	i := newInstance(t, hubtest.Options{})
	i.base.Config = configOf(t, t.TempDir(), "")
	s, err := newSpeech(t.Context(), i.base, slog.New(slog.DiscardHandler), newSpeechMetrics(nil))
	if err != nil {
		t.Fatal(err)
	}
	usual := wyomingHere
	t.Cleanup(func() { wyomingHere = usual })
	wyomingHere = []string{"127.0.0.1:1"}
	if _, err := s.wyoming(t.Context(), nil); !problem.Is(err, problem.NotFound) {
		t.Errorf("without servers: %v", err)
	}
	piper := strings.TrimPrefix(wyomingtest.New(t, wyomingtest.Options{Deaf: true}).Address, "wyoming://")
	wyomingHere = append(wyomingHere, piper)
	found, err := s.wyoming(t.Context(), nil)
	if err != nil || len(found) != 1 || found[0].Address != piper || found[0].Listens || !found[0].Speaks {
		t.Errorf("found %+v, %v", found, err)
	}
	idle := wyomingtest.New(t, wyomingtest.Options{Deaf: true, Mute: true})
	if _, err := s.wyoming(t.Context(), []string{idle.Address}); !problem.Is(err, problem.Invalid) {
		t.Errorf("a server that does nothing: %v", err)
	}
}
