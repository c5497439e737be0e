package qr

import (
	"github.com/makiuchi-d/gozxing"
)

// masker converts a greyscale image to black and white. It returns nil for an image without
// contrast.
type masker func(*grey) *gozxing.BitMatrix

// byBlocks compares blocks of 8×8 pixels with their surroundings, and treats blocks without
// contrast as background.
func byBlocks(g *grey) *gozxing.BitMatrix {
	m, err := gozxing.NewHybridBinarizer(source{g}).GetBlackMatrix()
	if err != nil {
		return nil
	}
	return m
}

// byHistogram uses one threshold for the whole image.
func byHistogram(g *grey) *gozxing.BitMatrix {
	m, err := gozxing.NewGlobalHistgramBinarizer(source{g}).GetBlackMatrix()
	if err != nil {
		return nil
	}
	return m
}

// byMean compares each pixel with the mean of a square around it, whose side is 1/parts of the
// longer side of the image. A pixel is black if it is darker than the mean by margin percent.
func byMean(parts, margin int) masker {
	return func(g *grey) *gozxing.BitMatrix {
		m, err := gozxing.NewBitMatrix(g.w, g.h)
		if err != nil {
			return nil
		}
		s := g.integral()
		radius := max(4, g.longSide()/parts/2)
		share := uint64(100 - margin)
		for y := range g.h {
			top, bottom := max(y-radius, 0), min(y+radius+1, g.h)
			for x, v := range g.row(y) {
				left, right := max(x-radius, 0), min(x+radius+1, g.w)
				area := uint64((right - left) * (bottom - top))
				if uint64(v)*area*100 < uint64(s.sum(left, top, right, bottom))*share {
					m.Set(x, y)
				}
			}
		}
		return m
	}
}

// source implements gozxing.LuminanceSource for a grey image.
type source struct{ g *grey }

func (s source) GetRow(y int, row []byte) ([]byte, error) {
	return append(row[:0], s.g.row(y)...), nil
}
func (s source) GetMatrix() []byte               { return s.g.pix }
func (s source) GetWidth() int                   { return s.g.w }
func (s source) GetHeight() int                  { return s.g.h }
func (s source) Invert() gozxing.LuminanceSource { return source{s.g.negative()} }
func (s source) String() string                  { return "" }
func (s source) IsCropSupported() bool           { return false }
func (s source) IsRotateSupported() bool         { return false }

func (s source) Crop(int, int, int, int) (gozxing.LuminanceSource, error) {
	return nil, gozxing.NewNotFoundException()
}
func (s source) RotateCounterClockwise() (gozxing.LuminanceSource, error) {
	return nil, gozxing.NewNotFoundException()
}
func (s source) RotateCounterClockwise45() (gozxing.LuminanceSource, error) {
	return nil, gozxing.NewNotFoundException()
}
