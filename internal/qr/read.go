package qr

import (
	"context"
	"math"
	"slices"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode/decoder"
	"github.com/makiuchi-d/gozxing/qrcode/detector"
)

// readCodes reads the codes of a black and white image, without duplicates.
func readCodes(ctx context.Context, m *gozxing.BitMatrix) []string {
	var texts []string
	used := map[*corner]bool{}
	for _, t := range triples(corners(ctx, m)) {
		if ctx.Err() != nil {
			break
		}
		if used[t.a] || used[t.b] || used[t.c] {
			continue // a corner belongs to one code
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

// read returns the text of the code at the three corners, or "".
func (t *triple) read(m *gozxing.BitMatrix) (text string) {
	// gozxing is a port of ZXing, a Java library that relies on exceptions for indexes out of
	// range.
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	bl, tl, tr := gozxing.ResultPoint_OrderBestPatterns(t.a, t.b, t.c)
	f := &frame{m: m, bl: bl.(*corner), tl: tl.(*corner), tr: tr.(*corner)}
	for _, size := range f.sizes() {
		if text := f.readSize(size); text != "" {
			return text
		}
	}
	return ""
}

// frame is three finder patterns with known roles.
type frame struct {
	m          *gozxing.BitMatrix
	bl, tl, tr *corner
}

// maxLegs is the maximum ratio of the module counts along the two sides.
const maxLegs = 1.4

// sizes returns the likeliest numbers of modules along a side, best first.
func (f *frame) sizes() []int {
	right, down := f.modules(f.tl, f.tr), f.modules(f.tl, f.bl)
	if !(right < down*maxLegs && down < right*maxLegs) { // NaN fails too
		return nil
	}
	between := (right + down) / 2
	nearest := 4*int(math.Round((between+7-17)/4)) + 17
	next := nearest + 4
	if between+7 < float64(nearest) {
		next = nearest - 4
	}
	var out []int
	for _, n := range []int{nearest, next} {
		if n >= 21 && n <= 177 {
			out = append(out, n)
		}
	}
	return out
}

// modules returns the number of modules between the centres of two finder patterns. The width of a
// module varies along the way if the code is tilted.
func (f *frame) modules(a, b *corner) float64 {
	wa, wb := f.width(a, b), f.width(b, a)
	switch {
	case math.IsNaN(wa):
		wa = wb
	case math.IsNaN(wb):
		wb = wa
	}
	return distance(a, b) * (7/wa + 7/wb) / 2
}

// width measures the finder pattern around a along the line to b, in pixels.
func (f *frame) width(a, b *corner) float64 {
	d := distance(a, b)
	dx, dy := (b.x-a.x)/d, (b.y-a.y)/d
	return f.edge(a, dx, dy) + f.edge(a, -dx, -dy)
}

// edge returns the distance from the centre of a finder pattern to its outer edge: through black,
// white, black.
func (f *frame) edge(c *corner, dx, dy float64) float64 {
	const step = 0.25
	limit := 8 * c.module
	at := 0.0
	for _, black := range []bool{true, false, true} {
		for f.m.Get(int(c.x+dx*at), int(c.y+dy*at)) == black {
			if at += step; at > limit {
				return math.NaN()
			}
		}
	}
	return at
}

// readSize reads the code, assuming its size. The fourth corner has no finder pattern, but most
// codes have an alignment pattern near it, which shows how the code is tilted. The first match may
// be something else.
func (f *frame) readSize(size int) string {
	tried := map[gozxing.ResultPoint]bool{}
	if size > 21 {
		for _, modules := range []float64{4, 8, 16} {
			p := f.alignment(size, modules)
			if p == nil || tried[*p] {
				continue
			}
			tried[*p] = true
			if text := f.decode(size, p); text != "" {
				return text
			}
		}
	}
	return f.decode(size, nil)
}

// alignment searches the alignment pattern near the fourth corner, within some modules of its place
// in an untilted code.
func (f *frame) alignment(size int, modules float64) *detector.AlignmentPattern {
	// It is three modules closer to the first corner than a finder pattern would be (ISO/IEC 18004,
	// "Alignment pattern").
	part := 1 - 3/float64(size-7)
	x := f.tl.x + part*(f.tr.x+f.bl.x-2*f.tl.x)
	y := f.tl.y + part*(f.tr.y+f.bl.y-2*f.tl.y)
	module := (distance(f.tl, f.tr) + distance(f.tl, f.bl)) / 2 / float64(size-7)
	reach := modules * module
	left, right := max(0, int(x-reach)), min(f.m.GetWidth()-1, int(x+reach))
	top, bottom := max(0, int(y-reach)), min(f.m.GetHeight()-1, int(y+reach))
	if float64(right-left) < 3*module || float64(bottom-top) < 3*module {
		return nil
	}
	p, err := detector.NewAlignmentPatternFinder(f.m, left, top, right-left, bottom-top, module, nil).Find()
	if err != nil {
		return nil
	}
	return p
}

func (f *frame) decode(size int, p *detector.AlignmentPattern) string {
	bits, err := detector.Detector_sampleGrid(f.m, detector.Detector_createTransform(f.tl, f.tr, f.bl, p, size), size)
	if err != nil {
		return ""
	}
	res, err := decoder.NewDecoder().Decode(bits, nil)
	if err != nil {
		return ""
	}
	return res.GetText()
}
