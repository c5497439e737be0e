package config

import "testing"

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, _, err := Load(Sources{Env: home}); err != nil {
			b.Fatal(err)
		}
	}
}
