package console

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"os"
	"slices"
	"testing"
)

const (
	// pictureColors is how many colors the pictures of the manual have. They are in the program,
	// and a third as large as with all colors.
	pictureColors = 96
	// exactColors are kept as they are, and others only if they differ from all by colorDistance,
	// the sum of the differences of red, green and blue.
	exactColors, colorDistance = 24, 18
)

// reduceColors rewrites a picture of a page with its most frequent colors.
func reduceColors(t *testing.T, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	full, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	few := image.NewPaletted(full.Bounds(), frequentColors(full))
	near := map[color.RGBA]uint8{}
	eachPixel(full, func(x, y int, c color.RGBA) {
		i, known := near[c]
		if !known {
			i = uint8(few.Palette.Index(c))
			near[c] = i
		}
		few.SetColorIndex(x, y, i)
	})
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func eachPixel(m image.Image, see func(x, y int, c color.RGBA)) {
	b := m.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			see(x, y, color.RGBAModel.Convert(m.At(x, y)).(color.RGBA))
		}
	}
}

// frequentColors returns the most frequent colors of a picture, without those near to others.
func frequentColors(m image.Image) (chosen color.Palette) {
	count := map[color.RGBA]int{}
	eachPixel(m, func(_, _ int, c color.RGBA) { count[c]++ })
	var all []color.RGBA
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	for _, c := range all {
		if len(chosen) == pictureColors {
			break
		}
		if len(chosen) < exactColors || !slices.ContainsFunc(chosen, func(o color.Color) bool { return isNear(o, c) }) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

func isNear(a color.Color, b color.RGBA) bool {
	o := a.(color.RGBA)
	difference := func(x, y uint8) int { return max(int(x)-int(y), int(y)-int(x)) }
	return difference(o.R, b.R)+difference(o.G, b.G)+difference(o.B, b.B) < colorDistance
}
