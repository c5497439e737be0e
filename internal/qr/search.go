package qr

import (
	"context"
	"image"
)

// step is one way to look at a photo. Each is tried as it is and in negative.
type step struct {
	parts         int     // the photo is cut into parts×parts overlapping parts
	side          int     // each part is scaled to this length of its longer side, in pixels
	sharpen       int     // how strongly; 0 not at all
	sharpenRadius int     // radius of the surroundings that sharpening looks at, in 1/1000 of side
	turn          float64 // degrees
	mask          masker  // tells black from white
}

// maxGrowth is how much larger than it is a part may be made. Beyond that there
// is nothing to be seen any more.
const maxGrowth = 3

// plan is the order in which a photo is looked at. It was found by trying many
// steps on a few hundred random scenes, as TestRandomScenes makes them, and taking
// next, each time, the step that read most of what was left for its time:
//   - small pictures first: they are quick, and averaging removes noise and moiré;
//   - one threshold for all reads most, thresholds that adapt read gradients and
//     glare;
//   - sharpening undoes blur, at the cost of noise;
//   - parts last, for codes that are a small part of a large photo.
var plan = []step{
	{parts: 1, side: 480, mask: byHistogram},
	{parts: 1, side: 480, mask: byBlocks, sharpen: 3, sharpenRadius: 8},
	{parts: 1, side: 800, mask: byBlocks},
	{parts: 1, side: 800, mask: byMean(8, 4)},
	{parts: 1, side: 800, mask: byMean(8, 4), sharpen: 2, sharpenRadius: 5},
	{parts: 1, side: 1200, mask: byMean(8, 4)},
	{parts: 1, side: 1200, mask: byHistogram, sharpen: 4, sharpenRadius: 5},
	{parts: 1, side: 1800, mask: byBlocks},
	{parts: 2, side: 1400, mask: byMean(8, 4)},
	{parts: 1, side: 1800, mask: byMean(8, 4), sharpen: 4, sharpenRadius: 5},
	{parts: 1, side: 1000, mask: byMean(8, 4), turn: 22.5},
	{parts: 1, side: 1000, mask: byMean(8, 4), turn: 45},
	{parts: 3, side: 1400, mask: byBlocks},
	{parts: 2, side: 1400, mask: byHistogram, sharpen: 3, sharpenRadius: 5},
	{parts: 1, side: 1000, mask: byMean(8, 4), sharpen: 6, sharpenRadius: 8},
	{parts: 3, side: 1400, mask: byMean(4, 4)},
}

// minSymbolSize is the side of the smallest code, in modules: nothing smaller than so
// many pixels need be looked at.
const minSymbolSize = 21

// search looks at a photo until it finds a code, the plan ends, or one of the
// contexts does. The first step, which finds most codes, is taken however little
// time is left within the budget: a busy machine must not make a good photo
// unreadable.
func search(ctx, budgetCtx context.Context, g *grey) []string {
	if min(g.w, g.h) < minSymbolSize {
		return nil
	}
	p := newPhoto(g)
	if texts := plan[0].search(ctx, p); len(texts) > 0 {
		return texts
	}
	for _, s := range plan[1:] {
		if budgetCtx.Err() != nil {
			break
		}
		if texts := s.search(budgetCtx, p); len(texts) > 0 {
			return texts
		}
	}
	return nil
}

func (s *step) search(ctx context.Context, p *photo) []string {
	for _, r := range tiles(p.full().w, p.full().h, s.parts) {
		if ctx.Err() != nil {
			return nil
		}
		side := min(s.side, maxGrowth*max(r.Dx(), r.Dy()))
		g := p.part(r, side)
		if s.turn != 0 {
			g = g.rotated(s.turn)
		}
		if s.sharpen > 0 {
			g = g.sharpened(max(1, side*s.sharpenRadius/1000), s.sharpen)
		}
		for _, g := range []*grey{g, g.negative()} {
			m := s.mask(g)
			if m == nil {
				continue
			}
			if texts := readCodes(ctx, m); len(texts) > 0 {
				return texts
			}
		}
	}
	return nil
}

// photo is a picture in several sizes, each half of the one before, so that small
// views of a large photo need not go over all of it.
type photo struct{ levels []*grey }

func newPhoto(g *grey) *photo {
	p := &photo{levels: []*grey{g}}
	for g.longSide() > 2*plan[0].side && min(g.w, g.h) > 1 {
		g = g.shrunk(g.w/2, g.h/2)
		p.levels = append(p.levels, g)
	}
	return p
}

func (p *photo) full() *grey { return p.levels[0] }

// part is a part of the photo, its longer side scaled to side pixels.
func (p *photo) part(r image.Rectangle, side int) *grey {
	n := 0
	for n+1 < len(p.levels) && max(r.Dx(), r.Dy())>>(n+1) >= side && min(r.Dx(), r.Dy())>>(n+1) > 0 {
		n++
	}
	g := p.levels[n]
	r = image.Rect(r.Min.X>>n, r.Min.Y>>n, r.Max.X>>n, r.Max.Y>>n).Intersect(image.Rect(0, 0, g.w, g.h))
	if r.Size() != image.Pt(g.w, g.h) {
		g = g.crop(r)
	}
	return g.scaled(side)
}
