package qr

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode/decoder"
	"github.com/makiuchi-d/gozxing/qrcode/encoder"
)

// QuietZone is the width of the empty border of a code, in modules (ISO/IEC 18004, "Quiet zone").
const QuietZone = 4

// maxScale is the maximum scale. It keeps the largest code, 185 modules with its border, below 10
// MB.
const maxScale = 16

// ErrNotEncodable means that a text is empty or too long for a code.
var ErrNotEncodable = errors.New("qr: text does not fit into a code")

// Code is a QR code: a square of dark and light modules, without the quiet zone. It is immutable.
type Code struct {
	size int
	dark []bool
}

// Encode returns the smallest code for a text, with error correction level M, which recovers 15 %
// of the codewords. A code holds at most 2,331 bytes (ISO/IEC 18004, capacity of version 40-M). The
// error is or wraps [ErrNotEncodable].
func Encode(text string) (*Code, error) {
	if text == "" {
		return nil, ErrNotEncodable
	}
	hints := map[gozxing.EncodeHintType]any{}
	if !isASCII(text) {
		// The character set (ECI) costs a few bits. ASCII needs none, and some readers do not
		// support it.
		hints[gozxing.EncodeHintType_CHARACTER_SET] = "UTF-8"
	}
	drawn, err := encoder.Encoder_encode(text, decoder.ErrorCorrectionLevel_M, hints)
	if err != nil {
		return nil, fmt.Errorf("%w: %d bytes", ErrNotEncodable, len(text))
	}
	m := drawn.GetMatrix()
	c := &Code{size: m.GetWidth(), dark: make([]bool, m.GetWidth()*m.GetWidth())}
	for i := range c.dark {
		c.dark[i] = m.Get(i%c.size, i/c.size) == 1
	}
	return c, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// Dark reports whether a module is dark. Everything outside of the code is light.
func (c *Code) Dark(x, y int) bool {
	return x >= 0 && y >= 0 && x < c.size && y < c.size && c.dark[y*c.size+x]
}

// Image draws the code in black on white with its quiet zone. scale is the side of a module in
// pixels; it is clamped to 1 to 16.
func (c *Code) Image(scale int) image.Image {
	scale = min(max(scale, 1), maxScale)
	side := (c.size + 2*QuietZone) * scale
	m := image.NewPaletted(image.Rect(0, 0, side, side), color.Palette{color.White, color.Black})
	for y := range side {
		row := m.Pix[y*m.Stride:]
		for x := range side {
			if c.Dark(x/scale-QuietZone, y/scale-QuietZone) {
				row[x] = 1
			}
		}
	}
	return m
}

// PNG writes [Code.Image] as PNG.
func (c *Code) PNG(w io.Writer, scale int) error {
	if err := png.Encode(w, c.Image(scale)); err != nil {
		return fmt.Errorf("qr: writing PNG: %w", err)
	}
	return nil
}
