package qr

import (
	"context"
	"image"
)

type step struct {
	name string
	side int
	part int
	turn float64
	prep func(*grey) *grey
	mask masker
}

var plan = []step{
	{name: "x", side: 1000, mask: byBlocks},
}

func search(ctx context.Context, g *grey) []string {
	for _, s := range plan {
		if t := s.run(ctx, g); len(t) > 0 {
			return t
		}
		if ctx.Err() != nil { return nil }
	}
	return nil
}

func (s step) run(ctx context.Context, g *grey) []string {
	n := max(1, s.part)
	for _, r := range tiles(g.w, g.h, n) {
		p := g
		if n > 1 { p = g.cut(r) }
		if s.side > 0 { p = p.scaled(s.side) }
		if s.turn != 0 { p = p.turned(s.turn) }
		if s.prep != nil { p = s.prep(p) }
		m := s.mask(p)
		if m == nil { continue }
		if t := readCodes(ctx, m); len(t) > 0 { return t }
		if ctx.Err() != nil { return nil }
	}
	return nil
}
var _ image.Image
