package schedule

import (
	"testing"
	"time"

	"patchbay/internal/store"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func date(t testing.TB, s string) store.Day {
	t.Helper()
	d, err := store.ParseDay(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// moment parses a time in a zone, or with its own offset.
func moment(t testing.TB, z *time.Location, s string) time.Time {
	t.Helper()
	for _, layout := range []string{"2006-01-02 15:04:05 -07:00", "2006-01-02 15:04:05"} {
		if at, err := time.ParseInLocation(layout, s, z); err == nil {
			return at
		}
	}
	t.Fatalf("%q is no time", s)
	return time.Time{}
}

func TestDay(t *testing.T) {
	const night = 150 * time.Minute // 02:30, which clock changes skip and repeat
	for _, c := range []struct {
		zone  string
		start time.Duration
		at    string
		want  string
	}{
		{"Asia/Shanghai", 4 * time.Hour, "2026-11-22 07:30:00", "2026-11-22"},
		{"Asia/Shanghai", 4 * time.Hour, "2026-11-22 08:30:00", "2026-11-22"},
		{"Asia/Shanghai", 4 * time.Hour, "2026-11-22 03:30:00", "2026-11-21"},
		{"Asia/Shanghai", 4 * time.Hour, "2026-11-22 03:59:59", "2026-11-21"},
		{"Asia/Shanghai", 4 * time.Hour, "2026-11-22 04:00:00", "2026-11-22"},
		{"Asia/Shanghai", 0, "2026-11-22 00:00:00", "2026-11-22"},
		// Spring: the clock jumps from 02:00 to 03:00; the day has 23 hours.
		{"Europe/Berlin", 4 * time.Hour, "2026-03-29 03:59:59", "2026-03-28"},
		{"Europe/Berlin", 4 * time.Hour, "2026-03-29 04:00:00", "2026-03-29"},
		{"Europe/Berlin", night, "2026-03-29 01:59:59", "2026-03-28"},
		{"Europe/Berlin", night, "2026-03-29 03:00:00", "2026-03-29"},
		// Autumn: 02:00 to 03:00 occurs twice; a day that has begun does not end.
		{"Europe/Berlin", 4 * time.Hour, "2026-10-25 03:59:59", "2026-10-24"},
		{"Europe/Berlin", 4 * time.Hour, "2026-10-25 04:00:00", "2026-10-25"},
		{"Europe/Berlin", night, "2026-10-25 02:29:59 +02:00", "2026-10-24"},
		{"Europe/Berlin", night, "2026-10-25 02:30:00 +02:00", "2026-10-25"},
		{"Europe/Berlin", night, "2026-10-25 02:10:00 +01:00", "2026-10-25"},
		{"America/New_York", 4 * time.Hour, "2026-11-01 03:59:59", "2026-10-31"},
		{"America/New_York", 4 * time.Hour, "2026-11-01 04:00:00", "2026-11-01"},
		// Midnight was skipped, and in autumn the last hour before it occurred twice.
		{"America/Sao_Paulo", 0, "2018-11-04 01:00:00", "2018-11-04"},
		{"America/Sao_Paulo", 0, "2018-02-17 23:30:00 -03:00", "2018-02-17"},
		// December 30 was skipped; the rest of the night before it was not.
		{"Pacific/Apia", 0, "2011-12-29 23:59:59", "2011-12-29"},
		{"Pacific/Apia", 0, "2011-12-31 00:00:00", "2011-12-31"},
		{"Pacific/Apia", 4 * time.Hour, "2011-12-31 03:00:00", "2011-12-30"},
		{"Pacific/Apia", 4 * time.Hour, "2011-12-31 04:00:00", "2011-12-31"},
	} {
		cal := Calendar{zone(t, c.zone), c.start}
		if got := cal.Day(moment(t, cal.Zone, c.at)); got != date(t, c.want) {
			t.Errorf("%s, from %v: %s is %v, not %s", c.zone, c.start, c.at, got, c.want)
		}
	}
	if got := (Calendar{}).Day(time.Unix(86400, 0)); got != 1 {
		t.Errorf("without a zone: %v", got)
	}
}

func TestBegins(t *testing.T) {
	for _, c := range []struct {
		zone  string
		start time.Duration
		day   string
		want  string // RFC 3339 in the zone
	}{
		{"Asia/Shanghai", 4 * time.Hour, "2026-11-22", "2026-11-22T04:00:00+08:00"},
		{"Europe/Berlin", 150 * time.Minute, "2026-03-29", "2026-03-29T03:00:00+02:00"},
		{"Europe/Berlin", 150 * time.Minute, "2026-10-25", "2026-10-25T02:30:00+02:00"},
		{"Australia/Lord_Howe", 2 * time.Hour, "2026-10-04", "2026-10-04T02:30:00+11:00"}, // half an hour is skipped
		{"America/Sao_Paulo", 0, "2018-11-04", "2018-11-04T01:00:00-02:00"},
		{"Pacific/Apia", 0, "2011-12-30", "2011-12-31T00:00:00+14:00"},
		{"Pacific/Apia", 0, "2011-12-31", "2011-12-31T00:00:00+14:00"},
		{"Pacific/Apia", 4 * time.Hour, "2011-12-30", "2011-12-31T00:00:00+14:00"},
	} {
		cal := Calendar{zone(t, c.zone), c.start}
		if got := cal.StartOf(date(t, c.day)).Format(time.RFC3339); got != c.want {
			t.Errorf("%s, from %v: %s begins at %s, not %s", c.zone, c.start, c.day, got, c.want)
		}
	}
}

// TestDaysMeet checks over many years that each day begins where the one before ends, that the
// local clock agrees, and that no day repeats.
func TestDaysMeet(t *testing.T) {
	skipped := map[string]bool{"Pacific/Apia 2011-12-30": true, "Pacific/Kwajalein 1993-08-21": true}
	seen := 0
	for _, name := range []string{
		"UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe",
		"America/Sao_Paulo", "America/St_Johns", "Pacific/Kwajalein", "Africa/Casablanca", "Asia/Kathmandu",
	} {
		z := zone(t, name)
		for _, start := range []time.Duration{0, time.Minute, 90 * time.Minute, 2 * time.Hour, 150 * time.Minute,
			4 * time.Hour, 23*time.Hour + 59*time.Minute, 24*time.Hour - 1} {
			cal := Calendar{z, start}
			for d := date(t, "1985-01-01"); d <= date(t, "2040-01-01"); d++ {
				begins := cal.StartOf(d)
				if skipped[name+" "+d.String()] && begins.Equal(cal.StartOf(d+1)) {
					seen++
					continue
				}
				before := d - 1
				if skipped[name+" "+before.String()] && begins.Equal(cal.StartOf(before)) {
					before--
				}
				if got := cal.Day(begins); got != d {
					t.Fatalf("%s, from %v: %v begins at %v, which is on %v", name, start, d, begins, got)
				}
				if got := cal.Day(begins.Add(-1)); got != before {
					t.Fatalf("%s, from %v: %v begins at %v, but before it is %v", name, start, d, begins, got)
				}
				// The clock shows Start, or has just jumped over it.
				wall := func(at time.Time) time.Time {
					_, offset := at.In(z).Zone()
					return at.UTC().Add(time.Duration(offset) * time.Second)
				}
				due := d.Time().Add(start)
				if at := wall(begins); at.Before(due) || !wall(begins.Add(-1)).Before(due) {
					t.Fatalf("%s, from %v: %v begins when the clock shows %v", name, start, d, at)
				}
			}
		}
	}
	if seen != 2 { // once in each calendar whose day begins at midnight
		t.Errorf("only %d of the dates that were left out", seen)
	}
}

func FuzzDay(f *testing.F) {
	zones := []string{"Europe/Berlin", "Pacific/Apia", "America/Sao_Paulo", "Australia/Lord_Howe", "America/St_Johns",
		"Asia/Manila", "America/Juneau"}
	f.Add(int64(1_780_000_000), uint32(14400), byte(0))
	f.Add(int64(-4_000_000_000), uint32(0), byte(6))
	f.Fuzz(func(t *testing.T, at int64, start uint32, i byte) {
		at %= 300_000_000_000 // some 9,500 years
		cal := Calendar{zone(t, zones[int(i)%len(zones)]), time.Duration(start%86400) * time.Second}
		now := time.Unix(at, 0)
		d := cal.Day(now)
		if cal.StartOf(d).After(now) || !cal.StartOf(d+1).After(now) {
			t.Errorf("%v is on %v, from %v to %v", now.In(cal.Zone), d, cal.StartOf(d), cal.StartOf(d+1))
		}
		if next := cal.Day(now.Add(time.Hour)); next < d {
			t.Errorf("%v is on %v, an hour later it is %v", now, d, next)
		}
	})
}

func BenchmarkDay(b *testing.B) {
	b.ReportAllocs()
	cal := Calendar{zone(b, "Europe/Berlin"), 4 * time.Hour}
	at := time.Date(2026, 11, 22, 7, 30, 0, 0, time.UTC)
	for b.Loop() {
		cal.Day(at)
	}
}
