package qr

import (
	"image"
	"image/color"
	"math"
	"slices"
)

// grey is a greyscale image, 0 black to 255 white, row by row.
type grey struct {
	w, h int
	pix  []byte
}

func newGrey(w, h int) *grey {
	return &grey{w: w, h: h, pix: make([]byte, w*h)}
}

func (g *grey) row(y int) []byte { return g.pix[y*g.w : (y+1)*g.w] }

// longSide is the length of the longer side.
func (g *grey) longSide() int { return max(g.w, g.h) }

// toGrey converts an image to greyscale. Transparency becomes white.
func toGrey(m image.Image) *grey {
	b := m.Bounds()
	g := newGrey(b.Dx(), b.Dy())
	switch m := m.(type) {
	case *image.YCbCr: // JPEG and lossy WebP
		copyRows(g, m.Y, m.YOffset(b.Min.X, b.Min.Y), m.YStride)
	case *image.Gray:
		copyRows(g, m.Pix, m.PixOffset(b.Min.X, b.Min.Y), m.Stride)
	case *image.NYCbCrA: // lossy WebP with transparency
		copyRows(g, m.Y, m.YOffset(b.Min.X, b.Min.Y), m.YStride)
		for y := range g.h {
			alpha := m.A[m.AOffset(b.Min.X, b.Min.Y+y):]
			for x, v := range g.row(y) {
				g.row(y)[x] = overWhite(uint32(v), uint32(alpha[x]))
			}
		}
	case *image.NRGBA: // lossless WebP, PNG
		for y := range g.h {
			src := m.Pix[m.PixOffset(b.Min.X, b.Min.Y+y):]
			for x := range g.row(y) {
				p := src[4*x : 4*x+4]
				g.row(y)[x] = overWhite(luma(uint32(p[0]), uint32(p[1]), uint32(p[2])), uint32(p[3]))
			}
		}
	case *image.RGBA: // PNG without transparency
		for y := range g.h {
			src := m.Pix[m.PixOffset(b.Min.X, b.Min.Y+y):]
			for x := range g.row(y) {
				p := src[4*x : 4*x+4]
				g.row(y)[x] = byte(luma(uint32(p[0]), uint32(p[1]), uint32(p[2])) + 255 - uint32(p[3]))
			}
		}
	case *image.Paletted: // GIF, PNG
		var shades [256]byte
		for i, c := range m.Palette {
			shades[i] = shade(c)
		}
		for y := range g.h {
			src := m.Pix[m.PixOffset(b.Min.X, b.Min.Y+y):]
			for x := range g.row(y) {
				g.row(y)[x] = shades[src[x]]
			}
		}
	case image.RGBA64Image: // PNG of 16 bits, JPEG with CMYK
		for y := range g.h {
			for x := range g.row(y) {
				c := m.RGBA64At(b.Min.X+x, b.Min.Y+y)
				g.row(y)[x] = byte(luma(uint32(c.R>>8), uint32(c.G>>8), uint32(c.B>>8)) + 255 - uint32(c.A>>8))
			}
		}
	default:
		for y := range g.h {
			for x := range g.row(y) {
				g.row(y)[x] = shade(m.At(b.Min.X+x, b.Min.Y+y))
			}
		}
	}
	return g
}

func copyRows(g *grey, src []byte, offset, stride int) {
	for y := range g.h {
		copy(g.row(y), src[offset+y*stride:])
	}
}

// luma is the luminance of 8-bit RGB, with the weights of JPEG (ITU-R BT.601).
func luma(r, g, b uint32) uint32 { return (299*r + 587*g + 114*b + 500) / 1000 }

func overWhite(v, alpha uint32) byte { return byte((v*alpha + 255*(255-alpha) + 127) / 255) }

func shade(c color.Color) byte {
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	return overWhite(luma(uint32(n.R), uint32(n.G), uint32(n.B)), uint32(n.A))
}

// scaled returns the image scaled so that its longer side has the given length. It averages areas
// to shrink, and interpolates to grow.
func (g *grey) scaled(long int) *grey {
	f := float64(long) / float64(g.longSide())
	w, h := max(1, int(math.Round(float64(g.w)*f))), max(1, int(math.Round(float64(g.h)*f)))
	switch {
	case w == g.w && h == g.h:
		return g
	case f > 1:
		return g.warped(w, h, float64(g.w)/float64(w), 0)
	}
	return g.shrunk(w, h)
}

// shrunk averages areas, for w ≤ g.w and h ≤ g.h. It averages columns first, and weighs a pixel
// that belongs to two areas in 1/256.
func (g *grey) shrunk(w, h int) *grey {
	out := newGrey(w, h)
	xs := shares(g.w, w)
	sums := make([]uint32, w)
	ys := shares(g.h, h)
	line := make([]uint32, w)
	for y := range h {
		clear(sums)
		weight := uint32(0)
		for sy := ys[y].first; sy <= ys[y].last; sy++ {
			k := ys[y].weight(sy)
			weight += k
			g.averageRow(sy, xs, line)
			for x, v := range line {
				sums[x] += v * k
			}
		}
		half := weight / 2
		for x, s := range sums {
			out.pix[y*w+x] = byte((s + half) / weight)
		}
	}
	return out
}

// averageRow shrinks one row into line.
func (g *grey) averageRow(y int, xs []share, line []uint32) {
	row := g.row(y)
	for x, s := range xs {
		sum := uint32(row[s.first])*s.head + uint32(row[s.last])*s.tail
		for _, v := range row[s.first+1 : max(s.first+1, s.last)] {
			sum += uint32(v) << 8
		}
		line[x] = sum / s.total
	}
}

// share is the range of source pixels of a pixel, and their weights.
type share struct {
	first, last int    // the first and last source pixel
	head, tail  uint32 // their weights; those between weigh 256
	total       uint32
}

func (s *share) weight(i int) uint32 {
	switch i {
	case s.first:
		return s.head
	case s.last:
		return s.tail
	}
	return 256
}

func shares(from, to int) []share {
	out := make([]share, to)
	step := float64(from) / float64(to)
	for i := range out {
		start, end := float64(i)*step, float64(i+1)*step
		s := share{first: int(start), last: min(int(math.Ceil(end))-1, from-1)}
		s.last = max(s.first, s.last)
		if s.first == s.last {
			s.head, s.total = 256, 256
		} else {
			s.head = max(1, uint32(math.Round((float64(s.first+1)-start)*256)))
			s.tail = uint32(math.Round((end - float64(s.last)) * 256))
			s.total = s.head + s.tail + 256*uint32(s.last-s.first-1)
		}
		out[i] = s
	}
	return out
}

// rotated returns the image rotated about its centre. New corners repeat the nearest pixel of the
// edge.
func (g *grey) rotated(degrees float64) *grey {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	sin, cos = math.Abs(sin), math.Abs(cos)
	w := int(float64(g.w)*cos + float64(g.h)*sin)
	h := int(float64(g.w)*sin + float64(g.h)*cos)
	return g.warped(max(1, w), max(1, h), 1, degrees)
}

// warped rotates the image about its centre, into one of w×h pixels, each step source pixels wide.
// It interpolates with 8 bits of fraction.
func (g *grey) warped(w, h int, step, degrees float64) *grey {
	out := newGrey(w, h)
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	dx, dy := int(math.Round(step*cos*65536)), int(math.Round(step*sin*65536))
	for y := range h {
		// The source position of the centre of the row's first pixel, minus half a pixel: the point
		// between the four source pixels of the interpolation.
		u, v := (0.5-float64(w)/2)*step, (float64(y)+0.5-float64(h)/2)*step
		fx := int((u*cos - v*sin + float64(g.w)/2 - 0.5) * 65536)
		fy := int((u*sin + v*cos + float64(g.h)/2 - 0.5) * 65536)
		row := out.row(y)
		for x := range row {
			row[x] = g.interpolate(fx, fy)
			fx += dx
			fy += dy
		}
	}
	return out
}

// interpolate interpolates at a position in 1/65536 pixels.
func (g *grey) interpolate(fx, fy int) byte {
	x, y := fx>>16, fy>>16
	ax, ay := uint32(fx>>8)&0xff, uint32(fy>>8)&0xff
	x0, x1 := min(max(x, 0), g.w-1), min(max(x+1, 0), g.w-1)
	y0, y1 := min(max(y, 0), g.h-1)*g.w, min(max(y+1, 0), g.h-1)*g.w
	top := uint32(g.pix[y0+x0])*(256-ax) + uint32(g.pix[y0+x1])*ax
	bottom := uint32(g.pix[y1+x0])*(256-ax) + uint32(g.pix[y1+x1])*ax
	return byte((top*(256-ay) + bottom*ay + 1<<15) >> 16)
}

// crop returns a copy of a part of the image; r lies within it.
func (g *grey) crop(r image.Rectangle) *grey {
	out := newGrey(r.Dx(), r.Dy())
	for y := range out.h {
		copy(out.row(y), g.row(r.Min.Y + y)[r.Min.X:])
	}
	return out
}

// negative inverts the image.
func (g *grey) negative() *grey {
	out := newGrey(g.w, g.h)
	for i, v := range g.pix {
		out.pix[i] = 255 - v
	}
	return out
}

// blurred averages each pixel with its neighbours within radius, in both directions.
func (g *grey) blurred(radius int) *grey {
	if g.w <= 2*radius || g.h <= 2*radius {
		return g
	}
	s := g.integral()
	out := newGrey(g.w, g.h)
	for y := range g.h {
		top, bottom := max(y-radius, 0), min(y+radius+1, g.h)
		for x := range g.w {
			left, right := max(x-radius, 0), min(x+radius+1, g.w)
			area := uint32((right - left) * (bottom - top))
			out.pix[y*g.w+x] = byte((s.sum(left, top, right, bottom) + area/2) / area)
		}
	}
	return out
}

// sharpened multiplies the difference of each pixel from its surroundings. A strength of 1 doubles
// it.
func (g *grey) sharpened(radius, strength int) *grey {
	out := g.blurred(radius)
	if out == g {
		return g
	}
	for i, mean := range out.pix {
		v := int(g.pix[i])
		out.pix[i] = byte(min(max(v+strength*(v-int(mean)), 0), 255))
	}
	return out
}

// integralImage is a summed-area table: four reads give the sum of any rectangle.
type integralImage struct {
	stride int
	at     []uint32
}

// integral computes the table. 32 bits are enough for 16.8 million pixels. Beyond that, sums
// overflow, but differences are still correct as long as the sum of one window does not.
func (g *grey) integral() *integralImage {
	s := &integralImage{stride: g.w + 1, at: make([]uint32, (g.w+1)*(g.h+1))}
	for y := range g.h {
		above, line := s.at[y*s.stride:], s.at[(y+1)*s.stride:]
		sum := uint32(0)
		for x, v := range g.row(y) {
			sum += uint32(v)
			line[x+1] = above[x+1] + sum
		}
	}
	return s
}

// sum is the sum over left ≤ x < right, top ≤ y < bottom.
func (s *integralImage) sum(left, top, right, bottom int) uint32 {
	t, b := s.at[top*s.stride:], s.at[bottom*s.stride:]
	return b[right] - b[left] - t[right] + t[left]
}

// tiles divides a w×h area into n×n tiles that overlap by a quarter of their size. The central ones
// come first, because people point the camera at the code.
func tiles(w, h, n int) []image.Rectangle {
	tw, th := 4*w/(3*n+1), 4*h/(3*n+1)
	var out []image.Rectangle
	for j := range n {
		for i := range n {
			x, y := (w-tw)*i/max(1, n-1), (h-th)*j/max(1, n-1)
			out = append(out, image.Rect(x, y, x+tw, y+th))
		}
	}
	off := func(r image.Rectangle) int {
		x, y := r.Min.X+r.Max.X-w, r.Min.Y+r.Max.Y-h
		return x*x + y*y
	}
	slices.SortStableFunc(out, func(a, b image.Rectangle) int { return off(a) - off(b) })
	return out
}
