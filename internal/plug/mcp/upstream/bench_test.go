package upstream

import "testing"

// BenchmarkCall measures a call and its round trip, with a server that does nothing.
func BenchmarkCall(b *testing.B) {
	for name, s := range map[string]Settings{
		"streamable": newScriptedServer(b, nil).settings(),
		"command":    command("misc"),
	} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, s, fastTimings()).ready()
			b.ReportAllocs()
			for b.Loop() {
				r.must("do", "{}")
			}
		})
	}
}
