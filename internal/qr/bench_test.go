package qr

import (
	"errors"
	"testing"
)

// BenchmarkDecode measures whole photos, like those of the glasses.
func BenchmarkDecode(b *testing.B) {
	busy := scene{turn: 7, pitch: 10, noise: 6, blur: 0.8, bright: 0.7}
	for _, bb := range []struct {
		name string
		s    scene
		want error
	}{
		{"1280x960", busy, nil},
		{"1280x960 dark mode", scene{turn: 7, noise: 6, dark: true}, nil},
		{"1280x960 without a code", scene{turn: 7, noise: 6, side: -400}, ErrNoCode},
		{"12 MP", scene{w: 4000, h: 3000, side: 1200, turn: 7, noise: 6}, nil},
		{"12 MP without a code", scene{w: 4000, h: 3000, side: -1200, turn: 7, noise: 6}, ErrNoCode},
	} {
		b.Run(bb.name, func(b *testing.B) {
			photo := bb.s.photo(b)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decode(b.Context(), b.Context(), photo); !errors.Is(err, bb.want) {
					b.Fatal(err)
				}
			}
		})
	}
}
