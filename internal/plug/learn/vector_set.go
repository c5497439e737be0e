package learn

import (
	"cmp"
	"math"
	"slices"

	"patchbay/internal/store"
)

const (
	// maxNearest is how many points a search by meaning returns at most.
	maxNearest = 50
	// minCosine is the lowest cosine that counts; current models rate unrelated texts below it.
	// Some models rate all texts higher, so a point must also reach minShareOfBest of the best
	// cosine.
	minCosine      = 0.25
	minShareOfBest = 0.75
)

// vectorSet is a set of vectors of one length, by point.
type vectorSet struct {
	dims   int
	points []int64
	data   []int8
	norms  []float32
}

// maxNumber returns the highest point number.
func (v *vectorSet) maxNumber() int64 {
	if len(v.points) == 0 {
		return 0
	}
	return v.points[len(v.points)-1]
}

// appended returns the set with more vectors; expected is the final number of vectors. Vectors of a
// different length than the first count as points without a direction. The spare capacity of a set
// belongs to the next set that is made from it.
func (v *vectorSet) appended(more []store.Vector, expected int) *vectorSet {
	out := *v
	expected = max(expected, len(out.points)+len(more))
	out.points, out.norms, out.data = reserve(out.points, expected), reserve(out.norms, expected), reserve(out.data,
		expected*out.dims)
	for _, m := range more {
		if out.dims == 0 && len(m.Data) > 0 {
			out.dims = len(m.Data)
			out.data = make([]int8, len(out.points)*out.dims, expected*out.dims)
		}
		var norm float32
		if len(m.Data) == out.dims {
			for _, b := range m.Data {
				out.data = append(out.data, int8(b))
			}
			norm = length(out.data[len(out.data)-out.dims:])
		} else {
			out.data = append(out.data, make([]int8, out.dims)...)
		}
		out.points = append(out.points, m.Point)
		out.norms = append(out.norms, norm)
	}
	return &out
}

// reserve grows s to hold n elements, without the spare capacity of append, which for large sets
// would be megabytes.
func reserve[T any](s []T, n int) []T {
	if cap(s) >= n {
		return s
	}
	return append(make([]T, 0, n), s...)
}

// capacity returns how many vectors fit into the given number of bytes.
func (v *vectorSet) capacity(bytes int64) int { return int(bytes / int64(v.dims+12)) }

func (v *vectorSet) bytes() int64 { return int64(cap(v.data) + 8*cap(v.points) + 4*cap(v.norms)) }

// nearest returns the points whose vectors are most similar to the query, best first.
func (v *vectorSet) nearest(query []int8) []ranked {
	norm := length(query)
	if len(query) != v.dims || norm == 0 {
		return nil
	}
	best := make([]ranked, 0, maxNearest+1)
	least := minCosine
	for i, n := range v.norms {
		if n == 0 {
			continue
		}
		score := float64(dot(query, v.data[i*v.dims:(i+1)*v.dims])) / float64(n*norm)
		if score < least {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, score, func(r ranked, s float64) int { return cmp.Compare(s, r.score) })
		best = slices.Insert(best, at, ranked{v.points[i], score})
		least = max(least, best[0].score*minShareOfBest)
		if len(best) > maxNearest {
			best = best[:maxNearest]
			least = max(least, best[maxNearest-1].score)
		}
	}
	for len(best) > 0 && best[len(best)-1].score < best[0].score*minShareOfBest {
		best = best[:len(best)-1]
	}
	return best
}

// dot returns the dot product of two vectors of the same length. For 8,192 numbers it is at most
// 132,128,768, which fits into an int32.
func dot(a, b []int8) int32 {
	var s0, s1, s2, s3 int32
	for len(a) >= 8 && len(b) >= 8 {
		x, y := (*[8]int8)(a), (*[8]int8)(b)
		s0 += int32(x[0])*int32(y[0]) + int32(x[4])*int32(y[4])
		s1 += int32(x[1])*int32(y[1]) + int32(x[5])*int32(y[5])
		s2 += int32(x[2])*int32(y[2]) + int32(x[6])*int32(y[6])
		s3 += int32(x[3])*int32(y[3]) + int32(x[7])*int32(y[7])
		a, b = a[8:], b[8:]
	}
	for i := range a {
		s0 += int32(a[i]) * int32(b[i])
	}
	return s0 + s1 + s2 + s3
}

func length(v []int8) float32 { return float32(math.Sqrt(float64(dot(v, v)))) }

// quantize returns the direction of a vector in the form that [vectors] keep; nil if it has none.
func quantize(v []float32) []int8 {
	var most float64
	for _, x := range v {
		most = max(most, math.Abs(float64(x)))
	}
	if most == 0 || math.IsInf(most, 0) || math.IsNaN(most) {
		return nil
	}
	out := make([]int8, len(v))
	for i, x := range v {
		out[i] = int8(math.Round(float64(x) / most * 127))
	}
	return out
}

func packBytes(v []int8) []byte {
	out := make([]byte, len(v))
	for i, x := range v {
		out[i] = byte(x)
	}
	return out
}
