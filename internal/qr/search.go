package qr

import (
	"context"
	"image"
)

// step is one attempt to read a photo. It is tried with the image and its inverse.
type step struct {
	parts         int     // the photo is divided into parts×parts overlapping tiles
	side          int     // each tile is scaled so that its longer side has this many pixels
	sharpen       int     // strength of the sharpening; 0 means none
	sharpenRadius int     // radius of the sharpening, in 1/1000 of side
	turn          float64 // rotation in degrees
	mask          masker  // conversion to black and white
}

// maxGrowth is the maximum factor by which a tile is enlarged. A larger factor shows nothing more.
const maxGrowth = 3

// plan is the order of the steps. It was found by trying many steps on a few hundred random scenes
// of TestRandomScenes, and appending, each time, the step that read most of the remaining scenes
// per time:
//   - small images first: they are fast, and averaging removes noise and moiré;
//   - one global threshold reads most codes, adaptive thresholds read gradients and glare;
//   - sharpening undoes blur, at the cost of noise;
//   - tiles last, for codes that are a small part of a large photo.
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

// minSymbolSize is the side of the smallest code, in modules (ISO/IEC 18004, version 1). Smaller
// images are skipped.
const minSymbolSize = 21

// search runs the plan until it finds a code, the plan ends, or one of the contexts ends. The first
// step, which finds most codes, ignores the budget: a busy machine must not make a good photo
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

// photo is an image in several sizes, each half of the one before, so that small versions of a
// large photo do not have to process all of its pixels.
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

// part returns a tile of the photo, its longer side scaled to side pixels.
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
