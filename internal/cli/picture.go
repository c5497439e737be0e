package cli

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
)

// samplePhoto returns a picture of a sunset over a lake as PNG, for simulated cameras.
func samplePhoto() []byte { return encodePNG(drawSunset()) }

// sampleJPEG returns the same picture as JPEG, the only format of cameras of boards.
func sampleJPEG() []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, drawSunset(), nil); err != nil {
		panic(err) // encoding to memory does not fail
	}
	return b.Bytes()
}

func drawSunset() image.Image {
	const w, h, horizon = 320, 240, 150
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.SetRGBA(x, y, scenery(x, y, horizon))
		}
	}
	return m
}

// scenery returns a pixel of the sky above the horizon, the sun in it, and both reflected in the
// water.
func scenery(x, y, horizon int) color.RGBA {
	up := horizon - y
	water := up < 0
	if water {
		up = -2 * up
	}
	dx, dy := x-160, up-40
	switch {
	case dx*dx+dy*dy < 30*30:
		return color.RGBA{255, 220, 120, 255}
	case water:
		return color.RGBA{uint8(max(20, 120-up)), uint8(max(30, 80-up/3)), uint8(max(60, 140-up/3)), 255}
	}
	return color.RGBA{uint8(max(60, 250-up)), uint8(max(60, 160-up/2)), uint8(min(200, 90+up/2)), 255}
}

// encodePNG encodes an image as PNG.
func encodePNG(m image.Image) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		panic(err) // writing to memory fails only for images without a size
	}
	return b.Bytes()
}
