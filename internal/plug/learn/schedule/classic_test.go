package schedule

import (
	"slices"
	"testing"
	"time"

	"patchbay/internal/store"
)

func TestCourse(t *testing.T) {
	cal := Calendar{zone(t, "Asia/Shanghai"), 4 * time.Hour}
	for _, c := range []struct {
		created string
		want    []string
	}{
		{"2026-11-22 07:30:00", []string{"2026-11-23", "2026-11-29", "2026-12-08", "2026-12-27"}},
		{"2026-11-22 08:30:00", []string{"2026-11-23", "2026-11-29", "2026-12-08", "2026-12-27"}},
		{"2026-11-22 03:30:00", []string{"2026-11-22", "2026-11-28", "2026-12-07", "2026-12-26"}},
	} {
		var got []string
		for _, d := range ClassicDates(cal.Day(moment(t, cal.Zone, c.created))) {
			got = append(got, d.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("created %s: %v, not %v", c.created, got, c.want)
		}
	}
}

func TestResume(t *testing.T) {
	for _, c := range []struct {
		name                 string
		done                 int
		created, last, today store.Day
		want                 []store.Day
	}{
		{"created today", 0, 100, 0, 100, []store.Day{101, 107, 116, 135}},
		{"on its own dates", 1, 100, 101, 103, []store.Day{107, 116, 135}},
		{"the next is today: counted from the last review", 1, 100, 103, 107, []store.Day{109, 118, 137}},
		{"late", 2, 100, 130, 131, []store.Day{139, 158}},
		{"very late: nothing before today, and not all at once", 1, 100, 101, 400, []store.Day{400, 409, 428}},
		{"never reviewed and old", 0, 100, 0, 400, []store.Day{400, 406, 415, 434}},
		{"one left", 3, 100, 116, 120, []store.Day{135}},
		{"one left, late", 3, 100, 200, 201, []store.Day{219}},
		{"over", 4, 100, 135, 136, nil},
		{"long over", 40, 100, 135, 136, nil},
		{"fewer than none", -1, 100, 0, 100, []store.Day{101, 107, 116, 135}},
	} {
		if got := ResumeClassic(c.done, c.created, c.last, c.today); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d, not %d", c.name, got, c.want)
		}
	}
}

// TestResumeOrder checks all small cases.
func TestResumeOrder(t *testing.T) {
	for done := range 5 {
		for last := store.Day(0); last < 60; last++ {
			for today := last; today < 90; today++ {
				days := ResumeClassic(done, 0, last, today)
				if len(days) != 4-done {
					t.Fatalf("%d done: %v", done, days)
				}
				for i, d := range days {
					if d < today || i > 0 && d <= days[i-1] {
						t.Fatalf("%d done, last %d, today %d: %d", done, last, today, days)
					}
				}
			}
		}
	}
}
