package xiaozhi

import (
	"testing"
	"time"
)

func TestParseLocal(t *testing.T) {
	zone, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 25, 6, 30, 0, 0, zone)
	for text, want := range map[string]string{
		"07:00": "Wed 2026-11-25 07:00:00", "06:30": "Thu 2026-11-26 06:30:00", " 6:05 ": "Thu 2026-11-26 06:05:00",
		"Tomorrow  07:00": "Thu 2026-11-26 07:00:00", "07:00:30": "Wed 2026-11-25 07:00:30",
		"2026-11-30 07:00": "Mon 2026-11-30 07:00:00", "2026-11-30T07:00:00": "Mon 2026-11-30 07:00:00",
		"2026-11-24 07:00": "", "2036-11-24 07:00": "", "25:00": "", "": "", "soon": "", "tomorrow": "",
		"tomorrow 2026-11-30 07:00": "", "明天 07:00": "Thu 2026-11-26 07:00:00",
		"明日07:00": "Thu 2026-11-26 07:00:00",
		"明天":      "",
		"10分钟后":   "Wed 2026-11-25 06:40:00", "in 10 Minutes": "Wed 2026-11-25 06:40:00", "90 s": "Wed 2026-11-25 06:31:30",
		"2 小时 后": "Wed 2026-11-25 08:30:00", "10分後": "Wed 2026-11-25 06:40:00", "1 h": "Wed 2026-11-25 07:30:00",
		"0 min": "", "9999 hours": "", "10": "", "10 minutes ago": "",
	} {
		at, err := parseLocal(text, now)
		if got := at.Format(localForm); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// FuzzParseLocal checks that a time that is accepted is in the future, also in the hours that a
// change of the clocks repeats or leaves out.
func FuzzParseLocal(f *testing.F) {
	for _, text := range []string{"07:00", "tomorrow 07:00", "2026-11-30 07:00", "2026-11-30T07:00:00", "02:30", "10 分钟后", "in 9999h"} {
		f.Add(text, int64(1_795_000_000))
	}
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, second int64) {
		now := time.Unix(second%(1<<33), 0).In(zone)
		at, err := parseLocal(text, now)
		if err == nil && (!at.After(now) || at.Sub(now) > maxTimerAhead) {
			t.Errorf("%q at %s is %s", text, now.Format(localForm), at.Format(localForm))
		}
	})
}
