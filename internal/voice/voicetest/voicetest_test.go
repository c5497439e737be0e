package voicetest

import (
	"testing"

	"patchbay/internal/voice/opus"
)

// Each phrase is recognised as it was spoken, and after a board's encoder; another sound is not.
func TestSpeech(t *testing.T) {
	pool := opus.NewEncoderPool(1)
	defer func() { must(t, pool.Close(t.Context())) }()
	for _, speech := range []func(testing.TB) *Speech{English, Chinese} {
		s := speech(t)
		for _, p := range s.Phrases {
			sound := s.Say(p)
			if got := s.Hear(sound); got != p {
				t.Errorf("%q is heard as %q", p, got)
			}
			if got := s.Hear(Samples(t, Packets(t, pool, sound))); got != p {
				t.Errorf("%q is heard as %q after a board", p, got)
			}
		}
	}
}

func TestTemplatesOfOthers(t *testing.T) {
	s := Chinese(t)
	noise := make([]int16, 2*Rate)
	for i := range noise {
		noise[i] = int16((i * 7919 % 2003) - 1000)
	}
	for name, sound := range map[string][]int16{"nothing": nil, "silence": make([]int16, Rate), "noise": noise,
		"another phrase": s.Say("明天我们一起去北京看长城和故宫博物院吧")} {
		if got := s.Hear(sound); got != "" {
			t.Errorf("%s is heard as %q", name, got)
		}
	}
}
