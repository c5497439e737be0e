package qr

import (
	"context"
	"errors"
	"image"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// FuzzDecode checks that for any data decoding does not panic (Decode would hide it), takes little
// longer than its budget, and returns either texts or an error.
func FuzzDecode(f *testing.F) {
	c, err := Encode("x")
	if err != nil {
		f.Fatal(err)
	}
	small := c.Image(2)
	gray := image.NewGray16(small.Bounds())
	for _, data := range [][]byte{
		asPNG(f, small), asPNG(f, gray), asGIF(f, small), asJPEG(30)(f, small), asPNG(f, onGlass(small)),
		withPNGSize(asPNG(f, small), 4000, 4000),
		[]byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00"),
		[]byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x0f\x00\x00\x0f\x00\x00"),
		endless(f)[:5000],
	} {
		f.Add(data)
	}
	for _, w := range webps {
		data, err := os.ReadFile(filepath.Join("testdata", w.file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// The short timeout is enough for decoding the image; the search is the same for all
		// images.
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		texts, err := decode(ctx, ctx, data)
		if (err == nil) != (len(texts) > 0) {
			t.Fatalf("got %q and %v", texts, err)
		}
		for _, known := range []error{ErrNotImage, ErrTooLarge, ErrNoCode} {
			if errors.Is(err, known) {
				return
			}
		}
		if err != nil {
			t.Errorf("unknown error: %v", err)
		}
		for _, text := range texts {
			if text == "" {
				t.Error("an empty text")
			}
		}
	})
}

// FuzzReadCodes searches black and white images, so that the fuzzer does not have to build a
// container format. w selects the width of the image.
func FuzzReadCodes(f *testing.F) {
	c, err := Encode("x")
	if err != nil {
		f.Fatal(err)
	}
	g := toGrey(c.Image(3))
	bits := make([]byte, (len(g.pix)+7)/8)
	for i, v := range g.pix {
		if v < 128 {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	f.Add(bits, uint16(g.w))
	f.Add(bits, uint16(g.w+8))
	f.Fuzz(func(t *testing.T, bits []byte, w uint16) {
		if w == 0 || len(bits)*8 < int(w) || len(bits) > 1<<16 {
			return
		}
		g := newGrey(int(w), len(bits)*8/int(w))
		for i := range g.pix {
			g.pix[i] = 255
			if bits[i/8]>>(i%8)&1 == 1 {
				g.pix[i] = 0
			}
		}
		for _, text := range readCodes(t.Context(), byMean(1, 0)(g)) {
			if text == "" {
				t.Error("an empty text")
			}
		}
	})
}
