package fsrs

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

type vectors struct {
	Parameters Weights
	Sequences  []struct {
		ShortTerm bool    `json:"short_term"`
		Retention float64 `json:"desired_retention"`
		Steps     []struct {
			Rating     int
			Delta      int `json:"delta_days"`
			Stability  float64
			Difficulty float64
			Intervals  [4]float64 `json:"next_interval_days_again_hard_good_easy"`
		}
	}
}

// TestVectors compares results with those of the reference implementation in Go (go-fsrs), which
// testdata/fsrs6-vectors.json has.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/fsrs6-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if v.Parameters != Published {
		t.Fatalf("weights: %v", v.Parameters)
	}
	near := func(what string, i, j int, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-6*math.Abs(want)) {
			t.Errorf("sequence %d, review %d: %s is %v, not %v", i, j, what, got, want)
		}
	}
	modes := map[bool]int{}
	for i, seq := range v.Sequences {
		var m Memory
		after := func(j, delta, g int) Memory {
			if j == 0 {
				return Published.First(g)
			}
			return Published.Next(m, delta, g, seq.ShortTerm)
		}
		for j, step := range seq.Steps {
			for g := Again; g <= Easy; g++ {
				got := Published.Interval(after(j, step.Delta, g).Stability, seq.Retention)
				near("an interval", i, j, got, step.Intervals[g-1])
			}
			m = after(j, step.Delta, step.Rating)
			near("stability", i, j, m.Stability, step.Stability)
			near("difficulty", i, j, m.Difficulty, step.Difficulty)
			modes[seq.ShortTerm]++
		}
	}
	if modes[true] < 100 || modes[false] < 100 {
		t.Errorf("too few reviews: %v", modes)
	}
}

// TestCourse checks the known intervals of a memory that is always graded good.
func TestCourse(t *testing.T) {
	for _, c := range []struct {
		sameDay bool
		gaps    []int // before each review after the first
		want    []int
	}{
		{false, []int{3, 14, 57, 196}, []int{14, 57, 196, 586}},
		{true, []int{0, 2, 11, 46, 163}, []int{2, 11, 46, 163, 498}},
	} {
		m := Published.First(Good)
		for i, gap := range c.gaps {
			m = Published.Next(m, gap, Good, c.sameDay)
			if got := int(math.Round(Published.Interval(m.Stability, 0.9))); got != c.want[i] {
				t.Errorf("same day %v: interval %d is %d, not %d", c.sameDay, i, got, c.want[i])
			}
		}
	}
}

func TestRetrievability(t *testing.T) {
	for _, s := range []float64{0.001, 0.5, 3, 100, 36500} {
		if r := Published.Retrievability(0, s); r != 1 {
			t.Errorf("stability %v: %v at once", s, r)
		}
		if r := Published.Retrievability(s, s); math.Abs(r-0.9) > 1e-12 {
			t.Errorf("stability %v: %v after as many days", s, r)
		}
		for _, want := range []float64{0.8, 0.9, 0.97} {
			if r := Published.Retrievability(Published.Interval(s, want), s); math.Abs(r-want) > 1e-9 {
				t.Errorf("stability %v: %v after the interval for %v", s, r, want)
			}
		}
		before := 1.0
		for day := 1.0; day < 40000; day *= 2 {
			r := Published.Retrievability(day, s)
			if !(r < before) || r < 0 {
				t.Errorf("stability %v: %v on day %v, %v before", s, r, day, before)
			}
			before = r
		}
	}
}

// TestGrades checks over a grid that a better grade never makes a memory shorter or harder, and
// that forgetting never makes it longer.
func TestGrades(t *testing.T) {
	for _, sameDay := range []bool{false, true} {
		for s := minStability; s <= maxStability; s *= 1.7 {
			for d := 1.0; d <= 10; d += 0.75 {
				for _, elapsed := range []int{0, 1, 2, 7, 30, 365, 20000} {
					before := Memory{}
					for g := Again; g <= Easy; g++ {
						m := Published.Next(Memory{s, d}, elapsed, g, sameDay)
						sane(t, m)
						if m.Stability < before.Stability || g > Again && m.Difficulty > before.Difficulty {
							t.Fatalf("%v after %d days (%v): grade %d gives %v, one less %v", Memory{s, d}, elapsed,
								sameDay, g, m, before)
						}
						if g == Again && elapsed > 0 && m.Stability > s || g > Again && m.Stability < s {
							t.Fatalf("%v after %d days (%v): grade %d gives %v", Memory{s, d}, elapsed, sameDay, g, m)
						}
						before = m
					}
				}
			}
		}
	}
	for g := Hard; g <= Easy; g++ {
		worse, m := Published.First(g-1), Published.First(g)
		if m.Stability <= worse.Stability || m.Difficulty >= worse.Difficulty {
			t.Errorf("first grade %d gives %v, one less %v", g, m, worse)
		}
	}
}

func TestClamps(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, m := range []Memory{{nan, nan}, {inf, inf}, {-inf, -inf}, {0, 0}, {1e300, 1e300}, {-1, 11}} {
		for g := -1; g <= 6; g++ {
			for _, elapsed := range []int{math.MinInt, -1, 0, 1, math.MaxInt} {
				sane(t, Published.Next(m, elapsed, g, true))
				sane(t, Published.Next(m, elapsed, g, false))
			}
		}
	}
	low := Published
	low[0] = minStability
	if m := low.First(Again); m.Stability != minFirst {
		t.Errorf("a forgotten first review gives %v", m)
	}
	if a, b := Published.First(9), Published.First(Easy); a != b {
		t.Errorf("grade 9 gives %v, not %v", a, b)
	}
}

func TestValidate(t *testing.T) {
	w := Published
	if err := w.Validate(); err != nil {
		t.Error(err)
	}
	for i, b := range bounds {
		for _, bad := range []float64{b[0] - 0.01, b[1] + 0.01, math.NaN(), math.Inf(1), math.Inf(-1)} {
			w = Published
			w[i] = bad
			if err := w.Validate(); err == nil || !strings.HasPrefix(err.Error(), "w") {
				t.Errorf("w%d = %v: %v", i, bad, err)
			}
		}
		for _, good := range b {
			w = Published
			w[i] = good
			if err := w.Validate(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestNoAllocation(t *testing.T) {
	m := Published.First(Good)
	if n := testing.AllocsPerRun(100, func() {
		m = Published.Next(m, 3, Hard, true)
		m.Stability += Published.Interval(m.Stability, Published.Retrievability(2, m.Stability)) * 1e-9
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func sane(t *testing.T, m Memory) {
	t.Helper()
	if !(m.Stability >= minStability && m.Stability <= maxStability && m.Difficulty >= minDifficulty &&
		m.Difficulty <= maxDifficulty) {
		t.Fatalf("out of range: %v", m)
	}
}

// FuzzNext tests any memory, and any weights that pass Validate.
func FuzzNext(f *testing.F) {
	f.Add(2.3, 5.0, 3, 3, true, 0.9, byte(0), 0.2)
	f.Add(math.NaN(), math.Inf(1), -4, 7, false, 0.0, byte(19), 0.8)
	f.Add(0.001, 10.0, math.MaxInt, 1, true, 1.0, byte(20), 0.1)
	f.Fuzz(func(t *testing.T, s, d float64, elapsed, g int, sameDay bool, retention float64, i byte, x float64) {
		w := Published
		w[int(i)%len(w)] = x
		if w.Validate() != nil {
			w = Published
		}
		sane(t, w.First(g))
		m := w.Next(Memory{s, d}, elapsed, g, sameDay)
		sane(t, m)
		if r := w.Retrievability(float64(elapsed), s); !(r >= 0 && r <= 1) {
			t.Errorf("retrievability %v", r)
		}
		if retention >= 0.01 && retention <= 1 {
			if n := w.Interval(m.Stability, retention); !(n >= 0) || math.IsInf(n, 0) {
				t.Errorf("interval %v", n)
			}
		}
		if again := w.Next(Memory{s, d}, elapsed, Again, sameDay); g >= Hard && again.Stability > m.Stability {
			t.Errorf("forgotten %v, recalled %v", again, m)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	b.ReportAllocs()
	m := Published.First(Good)
	for i := 0; b.Loop(); i++ {
		m = Published.Next(m, 1+i%40, 1+i%4, true)
	}
}

func BenchmarkInterval(b *testing.B) {
	b.ReportAllocs()
	var sum float64
	for b.Loop() {
		sum += Published.Interval(2.3065, 0.9)
	}
	_ = sum
}
