package schedule

import (
	"math"
	"time"

	"patchbay/internal/store"
)

// leastSpread is the shortest interval, in days, that is moved: less than half a
// day more or less would be too much for anything shorter. No interval is moved
// below it either.
const leastSpread = 3

// weekdays are the names of [Settings.EasyDays], in the order of [time.Weekday].
var weekdays = [7]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// share is the part of a usual day's work, in percent, that may fall on d.
func (s Settings) share(d store.Day) int {
	if len(s.EasyDays) == 0 {
		return 100
	}
	const thursday = store.Day(time.Thursday) // was 1970-01-01
	if p, ok := s.EasyDays[weekdays[((d+thursday)%7+7)%7]]; ok {
		return p
	}
	return 100
}

// spread is the range of intervals, in days, that are as good as n: a day, and 15 %
// of what lies between 2.5 and 7 days, 10 % up to 20 and 5 % beyond, to either side.
func spread(n, most int) (from, to int) {
	if n < leastSpread || n > most {
		return n, n
	}
	x, by := float64(n), 1.0
	by += 0.15 * (min(x, 7) - 2.5)
	by += 0.10 * max(min(x, 20)-7, 0)
	by += 0.05 * max(x-20, 0)
	from, to = int(math.Round(x-by)), int(math.Round(x+by))
	return max(from, leastSpread), min(to, most)
}

// place chooses among the intervals that are as good as n the one that suits the
// learner best. load may be nil: nothing is due on any day.
func (s Settings) place(today store.Day, n int, seed uint64, load func(store.Day) int) int {
	from, to := spread(n, s.MaxInterval)
	switch {
	case from == to:
		return n
	case s.Balance:
		return s.leastLoaded(today, from, to, seed, load)
	case len(s.EasyDays) > 0:
		return s.offEasyDays(today, n, from, to, seed)
	}
	return n
}

// leastLoaded is the interval to the day that has, with one point more, the least to
// do for its share. The seed decides between equals.
func (s Settings) leastLoaded(today store.Day, from, to int, seed uint64, load func(store.Day) int) int {
	best, found, least := from, uint64(0), math.Inf(1)
	for n := from; n <= to; n++ {
		d := today + store.Day(n)
		work := 1.0
		if load != nil {
			work += float64(max(load(d), 0))
		}
		switch p := s.share(d); {
		case p > 0:
			work *= 100 / float64(p)
		default: // only if there is no other, and then by what there is to do
			work *= 1e12
		}
		if work < least {
			least, found = work, 0
		}
		if work == least { // every equal has the same chance to be the last that wins
			found++
			if mix(seed+uint64(n))%found == 0 {
				best = n
			}
		}
	}
	return best
}

// offEasyDays moves as many points away from an easy day as its share says, to the
// nearest of the days with the greatest share. It does not know what else is due.
func (s Settings) offEasyDays(today store.Day, n, from, to int, seed uint64) int {
	share := s.share(today + store.Day(n))
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
			if p := s.share(today + store.Day(m)); p > most {
				best, most = m, p
			}
		}
	}
	return best
}

// mix scatters seeds that lie close together (this is SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
