package wire

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestNameTools(t *testing.T) {
	refs := []ToolRef{
		{"kitchen", "self.audio_speaker.set_volume"},
		// three with the same name
		{"kitchen", "self.audio.speaker"}, {"kitchen", "self.audio_speaker"}, {"kitchen_self", "audio.speaker"},
		{"厨房", "状态"}, {"厨房", "重启"},
		{"7", "x"}, {"kitchen", strings.Repeat("long.", 20)}, {"kitchen", strings.Repeat("long.", 20) + "er"},
		{"", ""}, {"a", ""}, {"kitchen", "self.audio_speaker.set_volume"},
	}
	n := NewNames(refs)
	if got := n.Name(refs[0]); got != "kitchen_self_audio_speaker_set_volume" {
		t.Errorf("%q is not what OpenClaw's node host makes of it", got)
	}
	seen := map[string]ToolRef{}
	for _, r := range refs {
		name := n.Name(r)
		if !IsValidToolName(name) {
			t.Errorf("%v: %q", r, name)
		}
		if other, ok := seen[name]; ok && other != r {
			t.Errorf("%v and %v are both %q", r, other, name)
		}
		seen[name] = r
		if back, ok := n.Tool(name); !ok || back != r {
			t.Errorf("%v, %q, %v", r, name, back)
		}
	}
	// Tools that are named like the hashes of others.
	evil := slices.Clone(refs)
	for range 5 {
		m := NewNames(evil)
		evil = append(evil, ToolRef{"kitchen", strings.TrimPrefix(m.Name(refs[1]), "kitchen_")})
	}
	m := NewNames(evil)
	if r, _ := m.Tool(m.Name(refs[1])); r != refs[1] || len(m.byName) != len(m.byRef) || len(m.byRef) != len(evil)-1 {
		t.Errorf("%d names of %d tools", len(m.byName), len(evil)-1)
	}
	// The order has no effect.
	for range 20 {
		rand.Shuffle(len(evil), func(i, j int) { evil[i], evil[j] = evil[j], evil[i] })
		again := NewNames(evil)
		for _, r := range evil {
			if again.Name(r) != m.Name(r) {
				t.Fatalf("%v is %q now", r, again.Name(r))
			}
		}
	}
}

func TestLegalName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "A-b_9": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "": false, "9a": false,
		"_a": false, "a.b": false, "é": false, "a\n": false,
	} {
		if IsValidToolName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
