package learn

import (
	"cmp"
	"math"
	"slices"

	"patchbay/internal/store"
)

const (
	// maxNear is how many points a search by meaning brings in.
	maxNear = 50
	// leastAlike is the least cosine that counts: below, current models put what has
	// nothing in common. Others crowd everything together higher up, so a point must
	// also have leastShare of the best one's.
	leastAlike = 0.25
	leastShare = 0.75
)

// space is vectors of one length, by point.
type space struct {
	dims   int
	points []int64
	data   []int8
	norms  []float32
}

// last is the highest number.
func (v *space) last() int64 {
	if len(v.points) == 0 {
		return 0
	}
	return v.points[len(v.points)-1]
}

// with is a space with more vectors; expected is how many there will be in the
// end. Those of another length than the first count as points without a direction.
// The room behind a space belongs to the next one that is made of it.
func (v *space) with(more []store.Vector, expected int) *space {
	out := *v
	expected = max(expected, len(out.points)+len(more))
	out.points, out.norms, out.data = reserve(out.points, expected), reserve(out.norms, expected), reserve(out.data, expected*out.dims)
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

// reserve makes room for n, without the room to spare that append would add: of
// the last megabytes it would be many.
func reserve[T any](s []T, n int) []T {
	if cap(s) >= n {
		return s
	}
	return append(make([]T, 0, n), s...)
}

// room is how many vectors fit into so many bytes.
func (v *space) room(bytes int64) int { return int(bytes / int64(v.dims+12)) }

func (v *space) bytes() int64 { return int64(cap(v.data) + 8*cap(v.points) + 4*cap(v.norms)) }

// near finds the points whose vectors are most like the query's, best first.
func (v *space) near(query []int8) []ranked {
	norm := length(query)
	if len(query) != v.dims || norm == 0 {
		return nil
	}
	best := make([]ranked, 0, maxNear+1)
	least := leastAlike
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
		least = max(least, best[0].score*leastShare)
		if len(best) > maxNear {
			best = best[:maxNear]
			least = max(least, best[maxNear-1].score)
		}
	}
	for len(best) > 0 && best[len(best)-1].score < best[0].score*leastShare {
		best = best[:len(best)-1]
	}
	return best
}

// dot is the product of two vectors of one length. Of 8,192 numbers it is
// 132,128,768 at most, which fits.
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

// quantised is the direction of a vector, as [vectors] keep it; nil if it has none.
func quantised(v []float32) []int8 {
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

func packed(v []int8) []byte {
	out := make([]byte, len(v))
	for i, x := range v {
		out[i] = byte(x)
	}
	return out
}
