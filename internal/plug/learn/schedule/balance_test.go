package schedule

import (
	"testing"
	"time"

	"patchbay/internal/store"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct{ n, most, from, to int }{
		{1, 36500, 1, 1},
		{2, 36500, 2, 2},
		{3, 36500, 3, 4},
		{4, 36500, 3, 5},
		{7, 36500, 5, 9},
		{20, 36500, 17, 23},
		{100, 36500, 93, 107},
		{100, 104, 93, 104},
		{100, 100, 93, 100},
		{36500, 36500, 34673, 36500},
	} {
		if from, to := fuzzRange(c.n, c.most); from != c.from || to != c.to {
			t.Errorf("%d of at most %d: %d to %d, not %d to %d", c.n, c.most, from, to, c.from, c.to)
		}
	}
}

// TestWeekdays compares the weekday names with the calendar.
func TestWeekdays(t *testing.T) {
	for d := store.Day(-800); d < 30000; d += 3 {
		name := weekdays[d.Time().Weekday()]
		s := Settings{EasyDays: map[string]int{name: 7}}
		if s.dayShare(d) != 7 || s.dayShare(d+1) != 100 {
			t.Fatalf("%v is not a %s", d, name)
		}
	}
}

// scatter reviews a thousand cards on one day, each due in about n days, and counts the due cards
// by day.
func scatter(t *testing.T, s Settings, stability float64, known bool) map[store.Day]int {
	t.Helper()
	at := moment(t, time.UTC, "2026-11-23 12:00:00") // a Monday
	counts := map[store.Day]int{}
	load := func(d store.Day) int { return counts[d] }
	if !known {
		load = nil
	}
	for i := range 1000 {
		card := store.Card{Phase: store.Review, Stability: stability, Difficulty: 5, LastDay: home.Day(at)}
		card, err := Next(card, s, home, Review{store.Hard, at}, int64(i), load) // stability stays that of one day
		if err != nil {
			t.Fatal(err)
		}
		counts[card.Due]++
	}
	return counts
}

func TestBalance(t *testing.T) {
	today := date(t, "2026-11-23")
	s := Default()
	from, to := fuzzRange(100, s.MaxInterval)
	for _, known := range []bool{true, false} {
		counts := scatter(t, s, 100, known)
		fewest, most := 1000/(to-from+1), 1000/(to-from+1)+1
		if !known { // random choice only
			fewest, most = fewest/2, most*2
		}
		sum := 0
		for n := from; n <= to; n++ {
			c := counts[today+store.Day(n)]
			sum += c
			if c < fewest || c > most {
				t.Errorf("loads known %v: %d cards in %d days", known, c, n)
			}
		}
		if sum != 1000 {
			t.Errorf("loads known %v: %d cards are out of range", known, 1000-sum)
		}
	}
	if counts := scatter(t, exact(), 100, true); counts[today+100] != 1000 {
		t.Errorf("exact: %v", counts)
	}
	if counts := scatter(t, s, 2, true); counts[today+2] != 1000 {
		t.Errorf("two days: %v", counts)
	}
	s.MaxInterval = 100
	for d := range scatter(t, s, 100, true) {
		if d > today+100 {
			t.Errorf("%v is beyond the longest interval", d)
		}
	}
}

func TestBalanceTakesTheLeast(t *testing.T) {
	today := date(t, "2026-11-23")
	for seed := range uint64(50) {
		load := func(d store.Day) int {
			if d == today+96 {
				return 2
			}
			return 3
		}
		if n := Default().chooseInterval(today, 100, seed, load); n != 96 {
			t.Fatalf("seed %d: %d days", seed, n)
		}
	}
}

func TestEasyDays(t *testing.T) {
	byWeekday := func(counts map[store.Day]int) (n [7]int) {
		for d, c := range counts {
			n[d.Time().Weekday()] += c
		}
		return n
	}
	s := Default()
	s.EasyDays = map[string]int{"sat": 50, "sun": 0}
	// 93 to 107 days contain each weekday two or three times.
	n := byWeekday(scatter(t, s, 100, true))
	if n[time.Sunday] != 0 {
		t.Errorf("sundays have %d", n[time.Sunday])
	}
	if usual := n[time.Friday]; n[time.Saturday] < usual/3 || n[time.Saturday] > usual*2/3+3 {
		t.Errorf("saturdays have %d, fridays %d", n[time.Saturday], usual)
	}

	// If all days are easy, reviews are scheduled all the same.
	for _, d := range weekdays {
		s.EasyDays[d] = 0
	}
	if counts := scatter(t, s, 100, true); len(counts) != 15 {
		t.Errorf("all are easy: %v", counts)
	}

	// Without balance only reviews on an easy day move, to the next day that is not easy.
	s = exact()
	today := date(t, "2026-11-23")
	s.EasyDays = map[string]int{"tue": 100}
	if n := s.chooseInterval(today, 100, 1, nil); n != 100 {
		t.Errorf("no easy day: %d days", n)
	}
	s.EasyDays = map[string]int{"wed": 0} // a Wednesday is 100 days ahead
	sides := map[int]int{}
	for seed := range uint64(100) {
		sides[s.chooseInterval(today, 100, seed, nil)]++
	}
	if sides[99]+sides[101] != 100 || sides[99] < 20 || sides[101] < 20 {
		t.Errorf("away from wednesday: %v", sides)
	}
	s.EasyDays = map[string]int{"wed": 30}
	moved := 0
	for seed := range uint64(1000) {
		if s.chooseInterval(today, 100, seed, nil) != 100 {
			moved++
		}
	}
	if moved < 650 || moved > 750 {
		t.Errorf("%d of 1000 moved away from a day with a share of 30 %%", moved)
	}
	for _, d := range weekdays {
		s.EasyDays[d] = 0
	}
	if n := s.chooseInterval(today, 100, 1, nil); n != 100 {
		t.Errorf("all are easy, no balance: %d days", n)
	}
}
