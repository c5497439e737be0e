package qr

import (
	"flag"
	"image"
	"image/color"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "make testdata/*.webp anew with cwebp")

// webps are the files in testdata, because Go has no WebP encoder.
var webps = []struct {
	file   string
	scene  scene
	glass  bool // light pixels are transparent
	option []string
}{
	{"lossy.webp", scene{turn: 12, pitch: 10, noise: 2, side: 300}, false, []string{"-q", "40"}},
	{"lossy_turned_dark.webp", scene{turn: 133, dark: true, bright: 0.2, noise: 1, side: 260}, false,
		[]string{"-q", "50"}},
	{"lossless.webp", scene{w: 640, h: 480, turn: 30, side: 180}, false, []string{"-lossless", "-m", "6"}},
	{"lossy_alpha.webp", scene{w: 640, h: 480, turn: 5, side: 240}, true, []string{"-q", "60", "-alpha_q", "60"}},
	{"lossless_alpha.webp", scene{w: 480, h: 480, turn: 270, side: 200}, true, []string{"-lossless", "-m", "6"}},
}

// onGlass makes dark pixels black and light ones transparent.
func onGlass(m image.Image) image.Image {
	out := image.NewNRGBA(m.Bounds())
	for y := range m.Bounds().Dy() {
		for x := range m.Bounds().Dx() {
			out.SetNRGBA(x, y, color.NRGBA{A: 255 - color.GrayModel.Convert(m.At(x, y)).(color.Gray).Y})
		}
	}
	return out
}

func TestWebP(t *testing.T) {
	for _, tt := range webps {
		t.Run(tt.file, func(t *testing.T) {
			path := filepath.Join("testdata", tt.file)
			if *update {
				m := tt.scene.defaults().render(t)
				if tt.glass {
					m = onGlass(m)
				}
				from := filepath.Join(t.TempDir(), "scene.png")
				if err := os.WriteFile(from, asPNG(t, m), 0o644); err != nil {
					t.Fatal(err)
				}
				args := append([]string{"-quiet"}, tt.option...)
				if out, err := exec.Command("cwebp", append(args, from, "-o", path)...).CombinedOutput(); err != nil {
					t.Fatalf("cwebp: %v\n%s", err, out)
				}
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(t.Context(), data)
			if err != nil || len(got) != 1 || got[0] != sceneText {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
