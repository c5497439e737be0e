package qr

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode/decoder"
	"github.com/makiuchi-d/gozxing/qrcode/detector"
)

// A QR code is found by the three squares in its corners. gozxing knows how to
// check such a square and how to read a code between three of them, but its own
// search compares all squares with all others three deep, and takes one guess.
// Somebody could draw a picture of ten thousand squares, and a page of text and
// icons leads the one guess astray. So the search is ours: bounded, and with
// several guesses.
const (
	// maxCorners bounds the squares that a picture is searched for; each new one
	// is compared with those before it.
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

// readCodes reads the codes in a black and white picture, without repeats. None
// is not an error.
func readCodes(ctx context.Context, m *gozxing.BitMatrix) []string {
	var texts []string
	used := map[*detector.FinderPattern]bool{}
	for _, t := range triples(corners(ctx, m)) {
		if ctx.Err() != nil {
			break
		}
		if used[t.a] || used[t.b] || used[t.c] {
			continue // a square belongs to one code
		}
		if text := t.read(m); text != "" {
			used[t.a], used[t.b], used[t.c] = true, true, true
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// corners are the squares that may be corners of codes: black, white, black,
// white, black in the widths 1:1:3:1:1, in all directions.
func corners(ctx context.Context, m *gozxing.BitMatrix) []*detector.FinderPattern {
	f := detector.NewFinderPatternFinder(m, nil)
	width := m.GetWidth()
	for y := rowStep - 1; y < m.GetHeight(); y += rowStep {
		if y/rowStep%ctxRows == 0 && ctx.Err() != nil {
			break
		}
		cornersInRow(f, m, y, width)
		if len(f.GetPossibleCenters()) >= maxCorners {
			break
		}
	}
	found := f.GetPossibleCenters()
	slices.SortStableFunc(found, func(a, b *detector.FinderPattern) int { return b.GetCount() - a.GetCount() })
	return found[:min(len(found), keptCorners)]
}

// cornersInRow looks at five neighbouring runs of one colour at a time.
func cornersInRow(f *detector.FinderPatternFinder, m *gozxing.BitMatrix, y, width int) {
	var runs [5]int // the last five, the newest at the end
	black := false
	for x := 0; x <= width; x++ {
		now := x < width && m.Get(x, y)
		if now == black && x < width {
			runs[4]++
			continue
		}
		if black && detector.FinderPatternFinder_foundPatternCross(runs[:]) {
			f.HandlePossibleCenter(runs[:], y, x)
		}
		copy(runs[:], runs[1:])
		runs[4] = 1
		black = now
	}
}

// triple is three squares that may belong to one code.
type triple struct {
	a, b, c *detector.FinderPattern // ordered as they came
	odd     float64                 // how far from a right angle with equal legs; 0 is perfect
}

// Bounds of what perspective makes of a code whose corner squares are equal and
// stand at a right angle.
const (
	maxSizeRatio = 2.0 // between the sizes of two squares
	maxOdd       = 1.2
	minModules   = 21 - 7 - 4  // between the middles of two corners of the smallest code
	maxModules   = 177 - 7 + 40 // of the largest
)

// triples are the likeliest combinations, best first.
func triples(found []*detector.FinderPattern) []triple {
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

func similar(a, b *detector.FinderPattern) bool {
	s, t := a.GetEstimatedModuleSize(), b.GetEstimatedModuleSize()
	return s < t*maxSizeRatio && t < s*maxSizeRatio
}

// plausible judges the shape and sets odd.
func (t *triple) plausible() bool {
	size := (t.a.GetEstimatedModuleSize() + t.b.GetEstimatedModuleSize() + t.c.GetEstimatedModuleSize()) / 3
	sides := []float64{squared(t.a, t.b), squared(t.b, t.c), squared(t.c, t.a)}
	slices.Sort(sides)
	short, leg, long := sides[0], sides[1], sides[2]
	if short < square(minModules*size/1.5) || leg > square(maxModules*size) {
		return false
	}
	t.odd = (math.Abs(long-2*leg) + math.Abs(long-2*short)) / long
	return t.odd < maxOdd
}

func square(x float64) float64 { return x * x }

func squared(a, b *detector.FinderPattern) float64 {
	return square(a.GetX()-b.GetX()) + square(a.GetY()-b.GetY())
}

// read is the text of the code between the three squares, or nothing.
func (t *triple) read(m *gozxing.BitMatrix) (text string) {
	// gozxing is a faithful port of a library that relies on exceptions for what
	// lies outside of arrays.
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	bl, tl, tr := gozxing.ResultPoint_OrderBestPatterns(t.a, t.b, t.c)
	found, err := detector.NewDetector(m).ProcessFinderPatternInfo(detector.NewFinderPatternInfo(
		bl.(*detector.FinderPattern), tl.(*detector.FinderPattern), tr.(*detector.FinderPattern)))
	if err != nil {
		return ""
	}
	res, err := decoder.NewDecoder().Decode(found.GetBits(), nil)
	if err != nil {
		return ""
	}
	return res.GetText()
}
