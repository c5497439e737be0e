package schedule

import (
	"math"
	"time"

	"patchbay/internal/store"
)

// minFuzzInterval is the shortest interval that is moved, and the shortest result, in days. FSRS
// does not fuzz intervals below 2.5 days (py-fsrs fsrs/scheduler.py; package fsrs names the
// revision); here they are whole days.
const minFuzzInterval = 3

// weekdays are the names of [Settings.EasyDays], in the order of [time.Weekday].
var weekdays = [7]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// dayShare returns the part of a usual day's work, in percent, that may fall on d.
func (s Settings) dayShare(d store.Day) int {
	if len(s.EasyDays) == 0 {
		return 100
	}
	const thursday = store.Day(time.Thursday) // 1970-01-01 was a Thursday
	if p, ok := s.EasyDays[weekdays[((d+thursday)%7+7)%7]]; ok {
		return p
	}
	return 100
}

// fuzzRange returns the range of intervals, in days, that are as good as n. To either side it
// extends one day, plus 15 % of the part of n between 2.5 and 7 days, 10 % of the part up to 20
// days and 5 % of the rest (FUZZ_RANGES in py-fsrs fsrs/scheduler.py; package fsrs names the
// revision).
func fuzzRange(n, most int) (from, to int) {
	if n < minFuzzInterval || n > most {
		return n, n
	}
	x, by := float64(n), 1.0
	by += 0.15 * (min(x, 7) - 2.5)
	by += 0.10 * max(min(x, 20)-7, 0)
	by += 0.05 * max(x-20, 0)
	from, to = int(math.Round(x-by)), int(math.Round(x+by))
	return max(from, minFuzzInterval), min(to, most)
}

// chooseInterval chooses, among the intervals that are as good as n, the one that suits the learner
// best. load returns the points due on a day; nil means that nothing is due on any day.
func (s Settings) chooseInterval(today store.Day, n int, seed uint64, load func(store.Day) int) int {
	from, to := fuzzRange(n, s.MaxInterval)
	switch {
	case from == to:
		return n
	case s.Balance:
		return s.leastLoaded(today, from, to, seed, load)
	case len(s.EasyDays) > 0:
		return s.avoidEasyDays(today, n, from, to, seed)
	}
	return n
}

// leastLoaded returns the interval to the day that, with one point more, has the least work
// relative to its share. The seed decides between equals.
func (s Settings) leastLoaded(today store.Day, from, to int, seed uint64, load func(store.Day) int) int {
	best, found, least := from, uint64(0), math.Inf(1)
	for n := from; n <= to; n++ {
		d := today + store.Day(n)
		work := 1.0
		if load != nil {
			work += float64(max(load(d), 0))
		}
		switch p := s.dayShare(d); {
		case p > 0:
			work *= 100 / float64(p)
		default: // days without a share, only if there is no other, by their work
			work *= 1e12
		}
		if work < least {
			least, found = work, 0
		}
		if work == least { // reservoir sampling: every equal has the same chance to win
			found++
			if mix(seed+uint64(n))%found == 0 {
				best = n
			}
		}
	}
	return best
}

// avoidEasyDays moves points away from an easy day, as many as its share requires, to the nearest
// of the days with the greatest share. It ignores what else is due.
func (s Settings) avoidEasyDays(today store.Day, n, from, to int, seed uint64) int {
	share := s.dayShare(today + store.Day(n))
	if int(mix(seed)%100) < share {
		return n
	}
	best, most := n, share
	for away := 1; away <= max(n-from, to-n); away++ {
		sides := [2]int{n - away, n + away}
		if mix(seed)>>32&1 == 1 {
			sides[0], sides[1] = sides[1], sides[0]
		}
		for _, m := range sides {
			if m < from || m > to {
				continue
			}
			if p := s.dayShare(today + store.Day(m)); p > most {
				best, most = m, p
			}
		}
	}
	return best
}

// mix spreads seeds that lie close together (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
