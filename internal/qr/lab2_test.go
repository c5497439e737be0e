package qr

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode/decoder"
	"github.com/makiuchi-d/gozxing/qrcode/detector"
)

func sharp(r, k int) func(*grey) *grey {
	return func(g *grey) *grey {
		b := g.blurred(r)
		out := newGrey(g.w, g.h)
		for i, v := range g.pix {
			out.pix[i] = byte(min(max(int(v)+k*(int(v)-int(b.pix[i])), 0), 255))
		}
		return out
	}
}

func TestLabWhy(t *testing.T) {
	if os.Getenv("LAB") != "why" {
		t.Skip()
	}
	shots := load(t)
	want := strings.Split(os.Getenv("SEEDS"), ",")
	for j, s := range shots {
		ok := false
		for _, w := range want {
			if w == fmt.Sprint(j) {
				ok = true
			}
		}
		if !ok {
			continue
		}
		m, _ := unpack(context.Background(), s.Data)
		g := toGrey(m)
		if strings.Contains(s.Desc, "dark:true") {
			g = g.negative()
		}
		fmt.Println(s.Desc)
		for _, side := range []int{640, 1000, 1600, 2400} {
			for _, p := range []struct {
				n string
				f func(*grey) *grey
			}{{"plain", nil}, {"blur1", blur(1)}, {"sharp2x2", sharp(2, 2)}, {"sharp4x2", sharp(4, 2)}, {"sharp8x2", sharp(8, 2)}, {"sharp4x5", sharp(4, 5)}} {
				x := g.scaled(side)
				if p.f != nil {
					x = p.f(x)
				}
				mask := byMean(8, 4)(x)
				cs := corners(context.Background(), mask)
				ts := triples(cs)
				got := readCodes(context.Background(), mask)
				fmt.Printf("  %d %s: corners %d triples %d read %d", side, p.n, len(cs), len(ts), len(got))
				for _, tr := range ts[:min(3, len(ts))] {
					fmt.Print(" | ", why(&tr, mask))
				}
				fmt.Println()
			}
		}
	}
}

func why(t *triple, m *gozxing.BitMatrix) string {
	bl, tl, tr := gozxing.ResultPoint_OrderBestPatterns(t.a, t.b, t.c)
	found, err := detector.NewDetector(m).ProcessFinderPatternInfo(detector.NewFinderPatternInfo(
		bl.(*detector.FinderPattern), tl.(*detector.FinderPattern), tr.(*detector.FinderPattern)))
	if err != nil {
		return fmt.Sprintf("odd %.2f detect %T", t.odd, err)
	}
	_, err = decoder.NewDecoder().Decode(found.GetBits(), nil)
	return fmt.Sprintf("odd %.2f dim %d al %v %.9T", t.odd, found.GetBits().GetWidth(), len(found.GetPoints()), err)
}
