package qr

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/makiuchi-d/gozxing"
)

// A QR code is found by the squares in three of its corners: black, white, black,
// white, black in the widths 1:1:3:1:1 across the middle, in every direction.
//
// gozxing has a search for them too, but it compares all squares with all others
// three deep (somebody could send a picture of ten thousand squares), takes one
// guess (a page of text and icons leads it astray), and expects a code that is
// seen almost from the front. So the search is ours; reading is gozxing's.
const (
	// maxCorners bounds the squares that are looked for in one picture. Each one
	// that is seen is compared with those known already.
	maxCorners = 300
	// keptCorners bounds the squares that are combined with one another:
	// 40 make 9,880 triples.
	keptCorners = 40
	// maxGuesses bounds the triples that reading is tried with, best first.
	maxGuesses = 12
	// rowStep is the distance of the rows that are searched: the middle of the
	// smallest square that can be read is three pixels high.
	rowStep = 2
	// ctxRows is how many searched rows lie between two looks at the context.
	ctxRows = 64
)

// corner is the middle of a square that may be a corner of a code.
type corner struct {
	x, y   float64
	module float64 // the width of a module there, in pixels; too large if the code is turned
	seen   int     // in how many rows
}

// GetX and GetY make a corner known to gozxing.
func (c *corner) GetX() float64 { return c.x }
func (c *corner) GetY() float64 { return c.y }

// corners are the likeliest ones in a picture, those seen most often first.
func corners(ctx context.Context, m *gozxing.BitMatrix) []*corner {
	var found []*corner
	for y := rowStep - 1; y < m.GetHeight() && len(found) < maxCorners; y += rowStep {
		if y/rowStep%ctxRows == 0 && ctx.Err() != nil {
			break
		}
		found = cornersInRow(found, m, y)
	}
	slices.SortStableFunc(found, func(a, b *corner) int { return b.seen - a.seen })
	return found[:min(len(found), keptCorners)]
}

// cornersInRow looks at five neighbouring runs of one colour at a time.
func cornersInRow(found []*corner, m *gozxing.BitMatrix, y int) []*corner {
	var last runs
	black, width := false, m.GetWidth()
	for x := 0; x <= width; x++ {
		now := x < width && m.Get(x, y)
		if now == black && x < width {
			last[4]++
			continue
		}
		if black && last.square(0.5) {
			middle := x - last[4] - last[3] - (last[2]+1)/2
			if c := confirm(m, middle, y, last.total()); c != nil {
				found = addCorner(found, c)
			}
		}
		copy(last[:], last[1:])
		last[4] = 1
		black = now
	}
	return found
}

// addCorner counts a corner that was seen before, or keeps a new one.
func addCorner(found []*corner, c *corner) []*corner {
	for _, f := range found {
		if math.Abs(f.x-c.x) <= f.module && math.Abs(f.y-c.y) <= f.module &&
			math.Abs(f.module-c.module) <= max(1, f.module/2) {
			n := float64(f.seen)
			f.x, f.y, f.module = (f.x*n+c.x)/(n+1), (f.y*n+c.y)/(n+1), (f.module*n+c.module)/(n+1)
			f.seen++
			return found
		}
	}
	return append(found, c)
}

// confirm looks up and down from a place in the middle of five runs that look
// right from left to right, then from left to right again from the middle of
// what it found, then along a diagonal.
func confirm(m *gozxing.BitMatrix, x, y, across int) *corner {
	const flattest = 2 // how much wider than high a tilted square may look
	down, ok := scanRuns(m, x, y, 0, 1, flattest*across)
	if !ok || !down.square(0.5) || down.total()*flattest < across {
		return nil
	}
	cy := down.middle(y)
	over, ok := scanRuns(m, x, int(cy), 1, 0, flattest*across)
	if !ok || !over.square(0.5) {
		return nil
	}
	cx := over.middle(x)
	falling, ok := scanRuns(m, int(cx), int(cy), 1, 1, flattest*across)
	if !ok || !falling.square(0.75) {
		if rising, ok := scanRuns(m, int(cx), int(cy), 1, -1, flattest*across); !ok || !rising.square(0.75) {
			return nil
		}
	}
	return &corner{x: cx, y: cy, module: float64(over.total()+down.total()) / 14, seen: 1}
}

// runs are the lengths of five neighbouring runs of one colour, in pixels. In
// what look returns, run 5 is the part of the middle one before the start.
type runs [6]int

func (r *runs) total() int { return r[0] + r[1] + r[2] + r[3] + r[4] }

// square reports whether the runs are in the ratio 1:1:3:1:1, give or take a part
// of a module for each of the five modules' worth.
func (r *runs) square(tolerance float64) bool {
	total := r.total()
	if total < 7 || r[0] == 0 || r[1] == 0 || r[2] == 0 || r[3] == 0 || r[4] == 0 {
		return false
	}
	module := float64(total) / 7
	off := module * tolerance
	near := func(n int, modules float64) bool { return math.Abs(float64(n)-modules*module) < off*modules }
	return near(r[0], 1) && near(r[1], 1) && near(r[2], 3) && near(r[3], 1) && near(r[4], 1)
}

// middle is the coordinate of the middle, when looking started from a pixel.
func (r *runs) middle(from int) float64 {
	return float64(from-r[5]) + float64(r[2])/2
}

// scanRuns measures the five runs along a line, from a black pixel in the middle
// one. It fails beyond limit pixels in a run, at the edge of the picture, or if
// the pixel is white.
func scanRuns(m *gozxing.BitMatrix, x, y, dx, dy, limit int) (r runs, ok bool) {
	before, ok1 := scanRunsOneWay(m, x-dx, y-dy, -dx, -dy, limit)
	after, ok2 := scanRunsOneWay(m, x, y, dx, dy, limit)
	r = runs{before[2], before[1], before[0] + after[0], after[1], after[2], before[0]}
	return r, ok1 && ok2 && after[0] > 0
}

// scanRunsOneWay measures the rest of the black run, the white one, the black one.
func scanRunsOneWay(m *gozxing.BitMatrix, x, y, dx, dy, limit int) (r [3]int, ok bool) {
	w, h := m.GetWidth(), m.GetHeight()
	for i := range r {
		for x >= 0 && y >= 0 && x < w && y < h && m.Get(x, y) == (i != 1) {
			if r[i]++; r[i] > limit {
				return r, false
			}
			x, y = x+dx, y+dy
		}
	}
	return r, r[2] > 0
}

// triple is three corners that may belong to one code.
type triple struct {
	a, b, c *corner
	odd     float64 // how far from a right angle with equal legs; 0 is perfect
}

// Bounds of what a code looks like whose corner squares are equal and stand at a
// right angle, when it is tilted.
const (
	maxRatio = 2.2 // between the widths of modules at two corners
	maxOdd   = 1.3 // of triple.odd
	// between two corners of the smallest code; a turned code's module looks up to 1.4 times its
	// width, a tilted one's legs are shorter
	minModules = (21 - 7) / 2
	maxModules = (177 - 7) * 13 / 10 // of the largest
)

// triples are the likeliest combinations, best first.
func triples(found []*corner) []triple {
	var out []triple
	for i, a := range found {
		for j, b := range found[:i] {
			if !similar(a, b) {
				continue
			}
			for _, c := range found[:j] {
				if !similar(a, c) || !similar(b, c) {
					continue
				}
				if t := (triple{a: a, b: b, c: c}); t.plausible() {
					out = append(out, t)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(s, t triple) int { return cmp.Compare(s.odd, t.odd) })
	return out[:min(len(out), maxGuesses)]
}

func similar(a, b *corner) bool {
	return a.module < b.module*maxRatio && b.module < a.module*maxRatio
}

// plausible judges the shape and sets odd.
func (t *triple) plausible() bool {
	module := (t.a.module + t.b.module + t.c.module) / 3
	sides := []float64{square(distance(t.a, t.b)), square(distance(t.b, t.c)), square(distance(t.c, t.a))}
	slices.Sort(sides)
	short, leg, long := sides[0], sides[1], sides[2]
	if short < square(minModules*module) || leg > square(maxModules*module) {
		return false
	}
	t.odd = (math.Abs(long-2*leg) + math.Abs(long-2*short)) / long
	return t.odd < maxOdd
}

func square(x float64) float64 { return x * x }

func distance(a, b *corner) float64 { return math.Hypot(a.x-b.x, a.y-b.y) }
