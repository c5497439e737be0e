package qr

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/makiuchi-d/gozxing"
)

// A QR code is found by its three finder patterns: black, white, black, white, black in the ratio
// 1:1:3:1:1 across the middle, in every direction (ISO/IEC 18004, "Finder pattern").
//
// gozxing has a finder too, but it compares all triples of patterns, which an image of ten thousand
// patterns makes too slow; it returns one guess, which a page of text and icons misleads; and it
// expects a code that is seen almost from the front. So this package has its own finder, and
// gozxing reads the codes.
const (
	// maxCorners is the maximum number of finder patterns in one image. Each match is compared with
	// the known ones.
	maxCorners = 300
	// keptCorners is the number of finder patterns that are combined: 40 make 9,880 triples.
	keptCorners = 40
	// maxGuesses is the number of triples that are tried, best first.
	maxGuesses = 12
	// rowStep is the distance of the rows that are searched: the centre of the smallest readable
	// finder pattern is three pixels high.
	rowStep = 2
	// ctxRows is the number of searched rows between two checks of the context.
	ctxRows = 64
)

// corner is the centre of a candidate for a finder pattern.
type corner struct {
	x, y   float64
	module float64 // width of a module there, in pixels; too large if the code is rotated
	seen   int     // number of rows in which it was found
}

// GetX and GetY implement gozxing.ResultPoint.
func (c *corner) GetX() float64 { return c.x }
func (c *corner) GetY() float64 { return c.y }

// corners returns the likeliest finder patterns of an image, those found in most rows first.
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

// cornersInRow checks each five consecutive runs of a row.
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

// addCorner adds a new corner, or counts another row of a known one.
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

// confirm checks a candidate that was found in a row: vertically, then horizontally through the new
// centre, and then along a diagonal.
func confirm(m *gozxing.BitMatrix, x, y, across int) *corner {
	const flattest = 2 // maximum ratio of width and height of a tilted pattern
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

// runs are the lengths of five consecutive runs, in pixels. In results of scanRuns, element 5 is
// the part of the middle run before the start.
type runs [6]int

func (r *runs) total() int { return r[0] + r[1] + r[2] + r[3] + r[4] }

// square reports whether the runs have the ratio 1:1:3:1:1. tolerance is a fraction of a module,
// per module of a run.
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

// middle returns the coordinate of the centre, for a scan that started at from.
func (r *runs) middle(from int) float64 {
	return float64(from-r[5]) + float64(r[2])/2
}

// scanRuns measures the five runs along a line, from a black pixel in the middle one. ok is false
// if a run is longer than limit or reaches the edge of the image, or if the pixel is white.
func scanRuns(m *gozxing.BitMatrix, x, y, dx, dy, limit int) (r runs, ok bool) {
	before, ok1 := scanRunsOneWay(m, x-dx, y-dy, -dx, -dy, limit)
	after, ok2 := scanRunsOneWay(m, x, y, dx, dy, limit)
	r = runs{before[2], before[1], before[0] + after[0], after[1], after[2], before[0]}
	return r, ok1 && ok2 && after[0] > 0
}

// scanRunsOneWay measures the rest of the black run, the white run, and the next black one.
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

// triple is three finder patterns that may belong to one code.
type triple struct {
	a, b, c *corner
	odd     float64 // deviation from a right angle with equal legs; 0 is perfect
}

// Bounds for the appearance of a tilted code. Untilted, its finder patterns have equal size and
// form a right angle.
const (
	maxRatio = 2.2 // ratio of the module widths at two corners
	maxOdd   = 1.3 // maximum of triple.odd
	// Distance of two corners of the smallest code, in modules. A rotated code's module looks up to
	// 1.4 times as wide, and a tilted code's legs are shorter.
	minModules = (21 - 7) / 2
	maxModules = (177 - 7) * 13 / 10 // of the largest code
)

// triples returns the likeliest combinations, best first.
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

// plausible reports whether the shape is possible, and sets odd.
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
