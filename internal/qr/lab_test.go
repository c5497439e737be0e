package qr

import (
	"context"
	"encoding/gob"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func randomScene(i uint64) scene {
	r := rand.New(rand.NewPCG(i, 99))
	u := func(a, b float64) float64 { return a + (b-a)*r.Float64() }
	logu := func(a, b float64) float64 { return math.Exp(u(math.Log(a), math.Log(b))) }
	s := scene{seed: i}
	switch r.IntN(10) {
	case 0, 1:
		s.w, s.h = 640, 480
	case 2:
		s.w, s.h = 4000, 3000
	case 3:
		s.w, s.h = 2016, 1512
	case 4:
		s.w, s.h = 960, 1280
	default:
		s.w, s.h = 1280, 960
	}
	mods := 33.0
	if r.IntN(3) == 0 {
		s.text = "3qk9VYxT0cM7hJwLr2uZ8A"
		mods = 25
	}
	s.side = logu(3.2*mods, 0.75*float64(min(s.w, s.h)))
	s.turn = u(0, 360)
	if r.IntN(3) == 0 {
		s.turn = u(-8, 8)
	}
	if r.IntN(2) == 0 {
		s.pitch, s.yaw = u(-40, 40), u(-40, 40)
	}
	m := s.side / mods
	lim := float64(min(s.w, s.h))/2 - s.side*0.7
	if lim > 0 {
		s.offX, s.offY = u(-lim, lim), u(-lim, lim)
	}
	s.bright = logu(.12, 1)
	s.black = u(.01, .35)
	s.noise = u(0, 12) * math.Sqrt(s.bright)
	if r.IntN(2) == 0 {
		s.blur = u(0, min(6, .55*m))
	}
	if r.IntN(2) == 0 {
		s.moire = u(0, .35)
	}
	if r.IntN(2) == 0 {
		s.fall = u(0, .7)
	}
	if r.IntN(4) == 0 {
		s.glare = u(0, .8)
	}
	s.dark = r.IntN(4) == 0
	s.encode = asJPEG(30 + r.IntN(60))
	return s
}

type shot struct {
	Desc, Text string
	Data       []byte
}

func TestLabMake(t *testing.T) {
	if os.Getenv("LAB") != "make" {
		t.Skip()
	}
	n, _ := strconv.Atoi(os.Getenv("LABN"))
	off, _ := strconv.Atoi(os.Getenv("LABOFF"))
	var out []shot
	for i := range n {
		s := randomScene(uint64(i + off)).defaults()
		d := s
		d.encode = nil
		out = append(out, shot{fmt.Sprintf("%+v", d), s.text, s.photo(t)})
	}
	f, _ := os.Create(os.Getenv("LABFILE"))
	gob.NewEncoder(f).Encode(out)
	f.Close()
}

func load(t testing.TB) []shot {
	f, err := os.Open(os.Getenv("LABFILE"))
	if err != nil {
		t.Skip()
	}
	var out []shot
	gob.NewDecoder(f).Decode(&out)
	return out
}

func cpu() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func chain(ps ...func(*grey) *grey) func(*grey) *grey {
	return func(g *grey) *grey {
		for _, p := range ps {
			g = p(g)
		}
		return g
	}
}

func blur(r int) func(*grey) *grey { return func(g *grey) *grey { return g.blurred(r) } }

func labSteps() []step {
	var out []step
	preps := []struct {
		n string
		f func(*grey) *grey
	}{{"", nil}, {"blur1", blur(1)}}
	masks := []struct {
		n string
		f masker
	}{{"blocks", byBlocks}, {"hist", byHistogram}, {"mean16/10", byMean(16, 10)}, {"mean24/4", byMean(24, 4)}, {"mean8/4", byMean(8, 4)}}
	for _, side := range []int{400, 640, 1000, 1600, 2400} {
		for _, p := range preps {
			for _, m := range masks {
				out = append(out, step{name: fmt.Sprint(side, " ", p.n, " ", m.n), side: side, prep: p.f, mask: m.f})
			}
		}
	}
	return out
}

func TestLabScore(t *testing.T) {
	if os.Getenv("LAB") != "score" {
		t.Skip()
	}
	shots := load(t)
	steps := labSteps()
	score(t, shots, steps)
}

func score(t *testing.T, shots []shot, steps []step) {
	hit := make([][]bool, len(steps))
	cost := make([]time.Duration, len(steps))
	for i := range hit {
		hit[i] = make([]bool, len(shots))
	}
	any := make([]bool, len(shots))
	for j, s := range shots {
		if j%20 == 0 {
			fmt.Println(j, cpu())
		}
		m, err := unpack(context.Background(), s.Data)
		if err != nil {
			t.Fatal(err)
		}
		g := toGrey(m)
		if len(g.pix) > 4000000 {
			continue
		}
		if strings.Contains(s.Desc, "dark:true") {
			g = g.negative()
		}
		for i, st := range steps {
			start := cpu()
			for _, x := range st.run(context.Background(), g) {
				if x == s.Text {
					hit[i][j] = true
					any[j] = true
				}
			}
			cost[i] += cpu() - start
		}
	}
	total := 0
	for j := range any {
		if any[j] {
			total++
		}
	}
	fmt.Printf("any: %d of %d\n", total, len(shots))
	covered := make([]bool, len(shots))
	for range 30 {
		best, gain, score := -1, 0, 0.0
		for i := range steps {
			n := 0
			for j := range shots {
				if hit[i][j] && !covered[j] {
					n++
				}
			}
			if sc := float64(n) / cost[i].Seconds(); n > 0 && sc > score {
				best, gain, score = i, n, sc
			}
		}
		if best < 0 {
			break
		}
		all := 0
		for j := range shots {
			if hit[best][j] {
				all++
			}
			covered[j] = covered[j] || hit[best][j]
		}
		fmt.Printf("%-28s +%3d (%3d alone) %v\n", steps[best].name, gain, all, (cost[best] / time.Duration(len(shots))).Round(100*time.Microsecond))
	}
	for i := range steps {
		all := 0
		for j := range shots {
			if hit[i][j] {
				all++
			}
		}
		fmt.Printf("   %-28s %3d %v\n", steps[i].name, all, (cost[i] / time.Duration(len(shots))).Round(100*time.Microsecond))
	}
	for j, s := range shots {
		if !any[j] {
			fmt.Println("never:", s.Desc)
		}
	}
}
