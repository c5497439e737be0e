package schedule

import (
	"math"
	"slices"
	"testing"
	"time"

	"patchbay/internal/plug/learn/fsrs"
	"patchbay/internal/store"
)

var home = Calendar{time.UTC, 4 * time.Hour}

// exact returns the default settings without randomness.
func exact() Settings {
	s := Default()
	s.Balance = false
	return s
}

// wholeDays returns exact settings without learning steps.
func wholeDays() Settings {
	s := exact()
	s.Steps, s.Relearn = nil, nil
	return s
}

func next(t testing.TB, card store.Card, s Settings, g store.Grade, at time.Time) store.Card {
	t.Helper()
	card, err := Next(card, s, home, Review{g, at}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	return card
}

// follow reviews a card with the given grades, each when it is due, and returns the wait after
// each.
func follow(t testing.TB, s Settings, grades ...store.Grade) (store.Card, []string) {
	t.Helper()
	var card store.Card
	var waits []string
	at := moment(t, time.UTC, "2026-11-22 12:00:00")
	for _, g := range grades {
		card = next(t, card, s, g, at)
		if wait := card.DueAt.Sub(at); !card.DueAt.IsZero() {
			waits = append(waits, wait.String())
			at = card.DueAt
		} else {
			waits = append(waits, (card.Due.Time().Sub(card.LastDay.Time()) / 24).String())
			at = home.StartOf(card.Due).Add(8 * time.Hour)
		}
	}
	return card, waits
}

const again, hard, good, easy, ungraded = store.Again, store.Hard, store.Good, store.Easy, store.Ungraded

func TestCourses(t *testing.T) {
	one := exact()
	one.Steps = []int{20}
	short := exact()
	short.MaxInterval = 30
	strict := exact()
	strict.Retention = 0.95
	none := exact()
	none.Relearn = nil
	week := exact()
	week.Steps, week.MaxInterval = []int{10080, 10080}, 2
	for _, c := range []struct {
		name   string
		s      Settings
		grades []store.Grade
		want   []string // a day is an hour here
		phase  store.Phase
		step   int
		lapses int
	}{
		{"known", exact(), []store.Grade{good, good, good, good, good, good},
			[]string{"10m0s", "2h0m0s", "11h0m0s", "46h0m0s", "163h0m0s", "498h0m0s"}, store.Review, 0, 0},
		{"known whole days", wholeDays(), []store.Grade{good, good, good, good, good},
			[]string{"3h0m0s", "14h0m0s", "57h0m0s", "196h0m0s", "586h0m0s"}, store.Review, 0, 0},
		{"ungraded counts as good", exact(), []store.Grade{ungraded, ungraded, ungraded},
			[]string{"10m0s", "2h0m0s", "11h0m0s"}, store.Review, 0, 0},
		{"again restarts", exact(), []store.Grade{good, again, good}, []string{"10m0s", "1m0s", "10m0s"},
			store.Learning, 1, 0},
		{"hard on the first of two", exact(), []store.Grade{hard, hard}, []string{"5m30s", "5m30s"}, store.Learning, 0,
			0},
		{"hard repeats the second", exact(), []store.Grade{good, hard}, []string{"10m0s", "10m0s"}, store.Learning, 1,
			0},
		{"hard on the only one", one, []store.Grade{hard}, []string{"30m0s"}, store.Learning, 0, 0},
		{"good after the only one", one, []store.Grade{good}, []string{"2h0m0s"}, store.Review, 0, 0},
		{"easy graduates", exact(), []store.Grade{easy}, []string{"8h0m0s"}, store.Review, 0, 0},
		{"lapse", exact(), []store.Grade{easy, again}, []string{"8h0m0s", "10m0s"}, store.Relearning, 0, 1},
		{"again while relearning is no lapse", exact(), []store.Grade{easy, again, again},
			[]string{"8h0m0s", "10m0s", "10m0s"}, store.Relearning, 0, 1},
		{"hard while relearning", exact(), []store.Grade{easy, again, hard}, []string{"8h0m0s", "10m0s", "15m0s"},
			store.Relearning, 0, 1},
		{"lapse without steps", none, []store.Grade{easy, again}, []string{"8h0m0s", "1h0m0s"}, store.Review, 0, 1},
		{"lapse in whole days", wholeDays(), []store.Grade{good, good, again, good, good},
			[]string{"3h0m0s", "14h0m0s", "2h0m0s", "5h0m0s", "13h0m0s"}, store.Review, 0, 1},
		{"new and again in whole days", wholeDays(), []store.Grade{again}, []string{"1h0m0s"}, store.Review, 0, 0},
		{"the longest interval", short, []store.Grade{good, good, good, good, good},
			[]string{"10m0s", "2h0m0s", "11h0m0s", "30h0m0s", "30h0m0s"}, store.Review, 0, 0},
		{"steps obey it too", week, []store.Grade{good, again}, []string{"48h0m0s", "48h0m0s"}, store.Learning, 0, 0},
		{"higher retention", strict, []store.Grade{good, good, good}, []string{"10m0s", "1h0m0s", "3h0m0s"},
			store.Review, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			card, got := follow(t, c.s, c.grades...)
			if !slices.Equal(got, c.want) {
				t.Errorf("waits %v, not %v", got, c.want)
			}
			if card.Phase != c.phase || card.Step != c.step || card.Lapses != c.lapses || card.Reps != len(c.grades) {
				t.Errorf("card %+v", card)
			}
		})
	}
}

func TestNextKeepsTime(t *testing.T) {
	at := moment(t, time.UTC, "2026-11-22 03:58:00") // still November 21 for the learner
	card := next(t, store.Card{Buried: 7}, exact(), good, at)
	if !card.LastAt.Equal(at) || card.LastDay != date(t, "2026-11-21") || card.Buried != 7 {
		t.Errorf("card %+v", card)
	}
	if !card.DueAt.Equal(at.Add(10*time.Minute)) || card.Due != date(t, "2026-11-22") {
		t.Errorf("due %v at %v", card.Due, card.DueAt)
	}
	card = next(t, card, exact(), easy, card.DueAt)
	if !card.DueAt.IsZero() || card.Due <= card.LastDay {
		t.Errorf("graduated: %+v", card)
	}
}

// TestLate checks that a late review gains more than one in time, and that an early one on the same
// day gains nothing without learning steps.
func TestLate(t *testing.T) {
	start := moment(t, time.UTC, "2026-11-22 12:00:00")
	first := next(t, store.Card{}, wholeDays(), good, start)
	interval := func(days int) store.Day {
		card := next(t, first, wholeDays(), good, start.AddDate(0, 0, days))
		return card.Due - card.LastDay
	}
	if a, b := interval(3), interval(30); b <= a {
		t.Errorf("in time %d days, late %d", a, b)
	}
	card := next(t, first, wholeDays(), good, start.Add(time.Hour))
	if card.Stability != first.Stability {
		t.Errorf("twice on a day: %v after %v", card.Stability, first.Stability)
	}
}

// TestTravel travels from Auckland to Honolulu, where it is the day before.
func TestTravel(t *testing.T) {
	there := Calendar{zone(t, "Pacific/Auckland"), 4 * time.Hour}
	here := Calendar{zone(t, "Pacific/Honolulu"), 4 * time.Hour}
	at := moment(t, there.Zone, "2026-11-22 09:00:00")
	card, err := Next(store.Card{}, wholeDays(), there, Review{good, at}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	at = at.Add(12 * time.Hour)
	if here.Day(at) >= card.LastDay {
		t.Fatal("not back over the date line")
	}
	if n := Elapsed(card, here.Day(at)); n != 0 {
		t.Errorf("%d days elapsed", n)
	}
	same, err := Next(card, wholeDays(), here, Review{good, at}, 1, nil)
	if err != nil || same.Stability != card.Stability || same.LastDay != here.Day(at) || same.Due <= same.LastDay {
		t.Errorf("%+v after %+v: %v", same, card, err)
	}
}

func TestNextErrors(t *testing.T) {
	at := moment(t, time.UTC, "2026-11-22 12:00:00")
	bad := exact()
	bad.Retention = 0
	before := store.Card{Due: 5}
	for name, c := range map[string]struct {
		s Settings
		r Review
	}{
		"grade 5":  {exact(), Review{5, at}},
		"grade -1": {exact(), Review{-1, at}},
		"no time":  {exact(), Review{good, time.Time{}}},
		"1969":     {exact(), Review{good, at.AddDate(-57, 0, 0)}},
		"10026":    {exact(), Review{good, at.AddDate(8000, 0, 0)}},
		"settings": {bad, Review{good, at}},
	} {
		if card, err := Next(before, c.s, home, c.r, 1, nil); err == nil || card != before {
			t.Errorf("%s: %+v, %v", name, card, err)
		}
	}
}

func TestClassicNext(t *testing.T) {
	s := exact()
	s.Schedule = Classic
	at := moment(t, time.UTC, "2026-11-22 12:00:00")
	card := store.Card{Due: date(t, "2026-11-22")}
	fsrsCard := card
	for i, g := range []store.Grade{ungraded, good, again, good} {
		card = next(t, card, s, g, at)
		if card.Due != date(t, "2026-11-22") || !card.DueAt.IsZero() || card.Phase != store.Review ||
			card.Reps != i+1 || card.LastDay != home.Day(at) {
			t.Errorf("review %d: %+v", i, card)
		}
		fsrsCard = next(t, fsrsCard, exact(), g, at)
		if card.Stability != fsrsCard.Stability || card.Difficulty != fsrsCard.Difficulty {
			t.Errorf("review %d: the memory is %v, by FSRS %v", i, card, fsrsCard)
		}
		at = at.AddDate(0, 0, 7)
	}
	if card.Lapses != 1 {
		t.Errorf("%d lapses", card.Lapses)
	}
	card.Phase = store.Done
	if card = next(t, card, s, again, at); card.Phase != store.Done || card.Lapses != 2 {
		t.Errorf("after the course: %+v", card)
	}
}

func TestPreview(t *testing.T) {
	s := Default()
	s.EasyDays = map[string]int{"sun": 0}
	at := moment(t, time.UTC, "2026-11-22 12:00:00")
	wait := func(card store.Card, s Settings) (waits [4]time.Duration, days [4]int) {
		for i, c := range Preview(card, s, home, at) {
			waits[i], days[i] = c.Wait, c.Days
			plain := s
			plain.Balance, plain.EasyDays = false, nil
			if after := next(t, card, plain, c.Grade, at); after.Due != c.Due || !after.DueAt.Equal(c.DueAt) ||
				after.Phase != c.Phase || c.Grade != store.Grade(i+1) {
				t.Errorf("choice %+v, card %+v", c, after)
			}
		}
		return waits, days
	}
	waits, days := wait(store.Card{}, s)
	if waits != [4]time.Duration{time.Minute, 330 * time.Second, 10 * time.Minute, 0} || days != [4]int{0, 0, 0, 8} {
		t.Errorf("new: %v %v", waits, days)
	}
	if _, days = wait(store.Card{}, wholeDays()); days != [4]int{1, 2, 3, 8} {
		t.Errorf("new in whole days: %v", days)
	}
	known := store.Card{Phase: store.Review, Stability: 10, Difficulty: 5, LastAt: at.AddDate(0, 0, -10),
		LastDay: home.Day(at) - 10}
	waits, days = wait(known, s)
	if waits != [4]time.Duration{10 * time.Minute, 0, 0, 0} ||
		!(10 < days[1] && days[1] < days[2] && days[2] < days[3]) {
		t.Errorf("known: %v %v", waits, days)
	}
	s.Schedule, known.Due = Classic, home.Day(at)+6
	for i, c := range Preview(known, s, home, at) {
		if c != (Choice{Grade: store.Grade(i + 1), Phase: store.Review, Due: known.Due, Days: 6}) {
			t.Errorf("classic: %+v", c)
		}
	}
}

// TestParted checks that grades lead to separate days, for many memories without learning steps.
func TestParted(t *testing.T) {
	at := moment(t, time.UTC, "2026-11-22 12:00:00")
	today := home.Day(at)
	odd := wholeDays()
	odd.Weights = append([]float64(nil), fsrs.Published[:]...)
	odd.Weights[0], odd.Weights[3] = 90, 1 // again leads furthest
	for _, s := range []Settings{wholeDays(), odd} {
		for stability := 0.001; stability < 5000; stability *= 1.5 {
			for _, gone := range []store.Day{0, 1, 5, 60, 900} {
				card := store.Card{Phase: store.Review, Stability: stability, Difficulty: 6, LastDay: today - gone}
				if gone == 900 {
					card = store.Card{}
				}
				last := 0
				for _, c := range Preview(card, s, home, at) {
					if c.Days <= last || c.Due != today+store.Day(c.Days) || c.Wait != 0 {
						t.Fatalf("stability %v after %d days: %+v after %d", stability, gone, c, last)
					}
					last = c.Days
				}
			}
		}
	}
	if c := Preview(store.Card{}, odd, home, at); c[0].Days != 1 {
		t.Errorf("again: %d days, although easy has 1", c[0].Days)
	}
}

func TestLeech(t *testing.T) {
	for _, c := range []struct {
		leech int
		want  []int // lapses
	}{
		{0, nil},
		{1, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
		{2, []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
		{5, []int{5, 8, 11, 14}},
		{6, []int{6, 9, 12, 15}},
	} {
		var got []int
		for n := 1; n <= 15; n++ {
			s := Settings{Leech: c.leech}
			if BecameLeech(store.Card{Lapses: n - 1}, store.Card{Lapses: n}, s) {
				got = append(got, n)
			}
			if BecameLeech(store.Card{Lapses: n}, store.Card{Lapses: n}, s) {
				t.Errorf("%d lapses before and after", n)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("from %d: %v, not %v", c.leech, got, c.want)
		}
	}
}

func TestTurn(t *testing.T) {
	s := Default()
	never := store.Card{Phase: store.Review, Step: 1, Due: 100, DueAt: time.Unix(1, 0)}
	if card := ToFSRS(never, s); card != (store.Card{Phase: store.New, Due: 100}) {
		t.Errorf("never reviewed: %+v", card)
	}
	done := store.Card{Phase: store.Done, Due: 90, Stability: 57.3, Difficulty: 3, LastDay: 100, Reps: 4}
	want := done
	want.Phase, want.Due = store.Review, 157
	if card := ToFSRS(done, s); card != want {
		t.Errorf("after the course: %+v", card)
	}
	s.MaxInterval = 30
	if card := ToFSRS(done, s); card.Due != 130 {
		t.Errorf("at most 30 days: %+v", card)
	}
}

func TestReplay(t *testing.T) {
	created := moment(t, time.UTC, "2026-11-22 12:00:00")
	var reviews []Review
	var want store.Card
	for i, g := range []store.Grade{good, good, again, good, hard, easy} {
		at := created.AddDate(0, 0, i*i)
		reviews = append(reviews, Review{g, at})
		want = next(t, want, exact(), g, at)
	}
	s := Default() // with balancing
	s.EasyDays = map[string]int{"mon": 0, "tue": 0}
	if card := Replay(s, home, created, reviews); card != want {
		t.Errorf("%+v, not %+v", card, want)
	}
	mixed := slices.Clone(reviews)
	slices.Reverse(mixed)
	mixed = append(mixed, Review{9, created}, Review{good, time.Time{}})
	order := slices.Clone(mixed)
	if card := Replay(s, home, created, mixed); card != want {
		t.Errorf("out of order: %+v, not %+v", card, want)
	}
	if !slices.Equal(mixed, order) {
		t.Error("the caller's reviews were sorted")
	}
	if card := Replay(s, home, created, nil); card != (store.Card{Due: home.Day(created)}) {
		t.Errorf("without reviews: %+v", card)
	}

	s.Schedule = Classic
	course := ClassicDates(home.Day(created))
	for n := range 6 {
		card := Replay(s, home, created, reviews[:n])
		due, phase := course[min(n, 3)], store.Review
		if n == 0 {
			phase = store.New
		} else if n >= 4 {
			phase = store.Done
		}
		if card.Due != due || card.Phase != phase || card.Reps != n || (card.Stability > 0) != (n > 0) {
			t.Errorf("classic, %d reviews: %+v", n, card)
		}
	}
}

func FuzzNext(f *testing.F) {
	zones := []string{"Europe/Berlin", "Pacific/Apia", "America/Sao_Paulo", "Asia/Shanghai"}
	f.Add(int8(0), 0, 0.0, 0.0, int64(0), 0, int8(3), int64(1_780_000_000), byte(0), int64(1))
	f.Add(int8(2), 0, math.NaN(), math.Inf(1), int64(math.MinInt64), 7, int8(1), int64(1), byte(7), int64(-1))
	f.Add(int8(3), -5, math.Inf(1), -1.0, int64(math.MaxInt64), -7, int8(2), int64(249_000_000_000), byte(255),
		int64(0))
	f.Add(int8(2), 0, 8.1, 5.0, int64(20000), 7, int8(4), int64(20030*86400), byte(18), int64(9))
	f.Fuzz(func(t *testing.T, phase int8, step int, stability, difficulty float64, lastDay int64, lapses int, g int8,
		at int64, mode byte, seed int64) {
		s := Default()
		s.Balance = mode&1 == 0
		if mode&2 != 0 {
			s.Steps = nil
		}
		if mode&4 != 0 {
			s.Relearn = []int{60, 10080, 3}
		}
		if mode&8 != 0 {
			s.MaxInterval = 1 + int(mode>>4)*3
		}
		if mode&16 != 0 {
			s.EasyDays = map[string]int{"sat": 30, "sun": 0, "wed": 100}
		}
		if mode&32 != 0 {
			s.Schedule = Classic
		}
		cal := Calendar{zone(t, zones[mode>>6]), time.Duration(mode) * 5 * time.Minute}
		at %= 260_000_000_000 // slightly beyond the allowed years on either side
		g %= 6
		card := store.Card{Phase: store.Phase(phase), Step: step, Stability: stability, Difficulty: difficulty,
			LastDay: store.Day(lastDay), Lapses: lapses}
		r := Review{store.Grade(g), time.Unix(at, 0)}
		load := func(d store.Day) int { return int(mix(uint64(d)) % 5) }
		Preview(card, s, cal, r.At)
		ToFSRS(card, s)
		after, err := Next(card, s, cal, r, seed, load)
		if err != nil {
			if r.validate() == nil {
				t.Errorf("%v: %v", r, err)
			}
			return
		}
		if !(after.Stability > 0 && after.Stability <= 36500 && after.Difficulty >= 1 && after.Difficulty <= 10) {
			t.Errorf("memory %+v", after)
		}
		today := cal.Day(r.At)
		if after.LastDay != today {
			t.Errorf("%+v on %v", after, today)
		}
		if s.Schedule == Classic {
			if after.Due != card.Due {
				t.Errorf("due %v, was %v", after.Due, card.Due)
			}
			return
		}
		if after.Due < today || after.Due > today+store.Day(s.MaxInterval)+1 {
			t.Errorf("on %v, due on %v with at most %d days", today, after.Due, s.MaxInterval)
		}
		if steps := !after.DueAt.IsZero(); steps != (after.Phase != store.Review) ||
			steps && cal.Day(after.DueAt) != after.Due {
			t.Errorf("%+v", after)
		}
		if same, _ := Next(card, s, cal, r, seed, load); same != after {
			t.Errorf("%+v, and then %+v", after, same)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	b.ReportAllocs()
	s := exact()
	at := moment(b, time.UTC, "2026-11-22 12:00:00")
	card := store.Card{Phase: store.Review, Stability: 10, Difficulty: 5, LastDay: home.Day(at) - 10}
	cal := Calendar{zone(b, "Europe/Berlin"), 4 * time.Hour}
	for b.Loop() {
		if _, err := Next(card, s, cal, Review{good, at}, 1, nil); err != nil {
			b.Fatal(err)
		}
	}
}
