package qr

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"
	"testing"
)

// TestPath renders a path and reads the code in it.
func TestPath(t *testing.T) {
	const text = "Zm9vYmFyYmF6cXV4cXV1eA"
	code, err := Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	const scale = 8
	m := image.NewGray(image.Rect(0, 0, code.Side()*scale, code.Side()*scale))
	for i := range m.Pix {
		m.Pix[i] = 255
	}
	for _, run := range strings.SplitAfter(code.Path(), "z") {
		if run == "" {
			continue
		}
		var x, y, wide, back int
		if _, err := fmt.Sscanf(run, "M%d %dh%dv1h-%dz", &x, &y, &wide, &back); err != nil || wide != back {
			t.Fatalf("%q: %v", run, err)
		}
		for px := x * scale; px < (x+wide)*scale; px++ {
			for py := y * scale; py < (y+1)*scale; py++ {
				m.SetGray(px, py, color.Gray{})
			}
		}
	}
	var file bytes.Buffer
	if err := png.Encode(&file, m); err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(t.Context(), file.Bytes()); err != nil || !slices.Equal(got, []string{text}) {
		t.Errorf("read as %q, %v", got, err)
	}
}
