package fit

import (
	"math"
	"slices"

	"patchbay/internal/plug/learn/fsrs"
)

// Limits of stabilities, in days (S_MIN, S_MAX in fsrs-rs src/simulation.rs, INIT_S_MAX in
// src/parameter_initialization.rs).
const (
	minStability = 0.001
	maxStability = 36500
	maxFirst     = 100
)

// group is the outcome of second reviews after one first grade and one wait.
type group struct {
	wait, recalled, n float64
}

// firstStabilities estimates the stabilities after the first review, w0 to w3, from the reviews on
// the second day of each card (initialize_stability_parameters in fsrs-rs
// src/parameter_initialization.rs). counts are the numbers of cards by first grade. ok is false if
// there are none.
func (s *Set) firstStabilities(items, seconds []item) (first [4]float64, counts [4]int, ok bool) {
	recalled := 0
	for _, it := range items {
		if reviews := s.of(it); reviews[len(reviews)-1].grade > fsrs.Again {
			recalled++
		}
	}
	average := float64(recalled) / float64(max(len(items), 1))
	var groups [4]map[uint16]*group
	for _, it := range seconds {
		reviews := s.of(it)
		i, last := reviews[0].grade-1, reviews[len(reviews)-1]
		if groups[i] == nil {
			groups[i] = map[uint16]*group{}
		}
		g := groups[i][last.elapsed]
		if g == nil {
			g = &group{wait: float64(last.elapsed)}
			groups[i][last.elapsed] = g
		}
		if g.n++; last.grade > fsrs.Again {
			g.recalled++
		}
		counts[i]++
	}
	var known [4]float64
	for i, byWait := range groups {
		if counts[i] == 0 {
			continue
		}
		ok = true
		list := make([]group, 0, len(byWait))
		for _, g := range byWait {
			list = append(list, *g)
		}
		slices.SortFunc(list, func(a, b group) int { return int(a.wait - b.wait) })
		known[i] = searchStability(list, average, fsrs.Published[i])
	}
	return fillStabilities(known, counts), counts, ok
}

// searchStability returns the stability that explains the outcomes best, by ternary search. The
// outcome of a group is pulled towards the average as if that were one more review, and the
// stability slightly towards the usual one (search_parameters and loss in fsrs-rs).
func searchStability(groups []group, average, usual float64) float64 {
	loss := func(s float64) float64 {
		sum := math.Abs(s-usual) / 16
		for _, g := range groups {
			share := (g.recalled + average) / (g.n + 1)
			r := fsrs.Published.Retrievability(g.wait, s)
			sum -= g.n * (share*math.Log(r) + (1-share)*math.Log(1-r))
		}
		return sum
	}
	low, high := minStability, float64(maxFirst)
	for i := 0; i < 1000 && high-low > 1e-12; i++ {
		a, b := low+(high-low)/3, high-(high-low)/3
		if loss(a) < loss(b) {
			high = b
		} else {
			low = a
		}
	}
	return (low + high) / 2
}

// Exponents between neighbouring grades: a missing stability is the weighted geometric mean of
// those beside it (smooth_and_fill in fsrs-rs src/parameter_initialization.rs). With grades 1 to 4,
// S2 = S1^lower · S3^(1−lower) and S3 = S2^(1−upper) · S4^upper.
const (
	lower = 0.41
	upper = 0.54
)

// fillStabilities makes stabilities rise with the grade, and estimates those without reviews, which
// are 0.
func fillStabilities(s [4]float64, counts [4]int) [4]float64 {
	for _, pair := range [][2]int{{0, 1}, {1, 2}, {2, 3}, {0, 2}, {1, 3}, {0, 3}} {
		a, b := pair[0], pair[1]
		if s[a] > 0 && s[b] > 0 && s[a] > s[b] {
			if counts[a] > counts[b] {
				s[b] = s[a]
			} else {
				s[a] = s[b]
			}
		}
	}
	known := 0
	for i := range s {
		if s[i] > 0 {
			known++
		}
	}
	switch known {
	case 0:
		copy(s[:], fsrs.Published[:4])
	case 1:
		i := slices.IndexFunc(s[:], func(x float64) bool { return x > 0 })
		factor := s[i] / fsrs.Published[i]
		for k := range s {
			s[k] = fsrs.Published[k] * factor
		}
	default:
		fillBetween(&s)
	}
	for i := range s {
		s[i] = min(max(s[i], minStability), maxFirst)
	}
	return s
}

// fillBetween fills in missing stabilities when two or more are known: the two equations above have
// one solution for any two of the four.
func fillBetween(s *[4]float64) {
	mix := func(a, b, share float64) float64 { return math.Pow(a, share) * math.Pow(b, 1-share) }
	if s[1] == 0 && s[2] == 0 { // both inner ones, from the outer ones
		both := lower + upper - lower*upper
		s[1], s[2] = mix(s[0], s[3], lower/both), mix(s[0], s[3], 1-upper/both)
		return
	}
	if s[1] == 0 { // from 3, and 1 or 4
		if s[0] > 0 {
			s[1] = mix(s[0], s[2], lower)
		} else {
			s[1] = mix(s[2], s[3], 1/(1-upper))
		}
	}
	if s[2] == 0 { // from 2, and 4 or 1
		if s[3] > 0 {
			s[2] = mix(s[1], s[3], 1-upper)
		} else {
			s[2] = mix(s[1], s[0], 1/(1-lower))
		}
	}
	if s[0] == 0 {
		s[0] = mix(s[1], s[2], 1/lower)
	}
	if s[3] == 0 {
		s[3] = mix(s[2], s[1], 1/upper)
	}
}
