package learn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"patchbay/internal/store"
)

func TestQuantised(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, dims := range []int{1, 3, 256, 1536, 8192} {
		a, b := make([]float32, dims), make([]float32, dims)
		var ab, aa, bb float64
		for i := range a {
			a[i] = float32(r.NormFloat64())
			b[i] = a[i]/2 + float32(r.NormFloat64())
			ab, aa, bb = ab+float64(a[i])*float64(b[i]), aa+float64(a[i])*float64(a[i]), bb+float64(b[i])*float64(b[i])
		}
		x, y := quantize(a), quantize(b)
		got, want := float64(dot(x, y))/float64(length(x)*length(y)), ab/math.Sqrt(aa*bb)
		if math.Abs(got-want) > 0.01 {
			t.Errorf("of %d numbers: %v, want %v", dims, got, want)
		}
	}
	most := slices.Repeat([]float32{-1}, 8192)
	if v := quantize(most); dot(v, v) != 127*127*8192 {
		t.Error("the product overflows")
	}
	for _, v := range [][]float32{nil, {0, 0}, {float32(math.Inf(1)), 1}, {float32(math.NaN()), 1}} {
		if got := quantize(v); got != nil && len(v) > 0 && !math.IsNaN(float64(v[0])) {
			t.Errorf("%v is %v", v, got)
		}
	}
}

// nearest returns the same points as a full comparison.
func TestNear(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	random := func() []int8 {
		v := make([]float32, 16)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return quantize(v)
	}
	at := (&vectorSet{}).appended([]store.Vector{{Point: 1}}, 1) // without a direction
	for i := range 2000 {
		at = at.appended([]store.Vector{{Point: int64(i + 2), Data: packBytes(random())}}, 0)
	}
	at = at.appended([]store.Vector{{Point: 5000, Data: []byte{1}}}, 0)
	for range 20 {
		q := random()
		var want []ranked
		for i, p := range at.points {
			if n := at.norms[i]; n > 0 {
				want = append(want, ranked{p, float64(dot(q, at.data[i*16:(i+1)*16])) / float64(n*length(q))})
			}
		}
		slices.SortFunc(want, func(a, b ranked) int {
			if a.score > b.score {
				return -1
			}
			return 1
		})
		best := want[0].score
		want = slices.DeleteFunc(want, func(r ranked) bool {
			return r.score < minCosine ||
				r.score < best*minShareOfBest
		})
		want = want[:min(len(want), maxNearest)]
		if got := at.nearest(q); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	if got := at.nearest([]int8{1}); got != nil {
		t.Errorf("another length finds %v", got)
	}
}

// A search among 100,000 points.
func BenchmarkNear(b *testing.B) {
	const points, dims = 100_000, 256
	r := rand.New(rand.NewPCG(5, 6))
	more := make([]store.Vector, points)
	for i := range more {
		more[i] = store.Vector{Point: int64(i), Data: make([]byte, dims)}
		for j := range more[i].Data {
			more[i].Data[j] = byte(r.IntN(256))
		}
	}
	at := (&vectorSet{}).appended(more, points)
	q := make([]int8, dims)
	for i := range q {
		q[i] = int8(r.IntN(256) - 128)
	}
	for b.Loop() {
		at.nearest(q)
	}
}
