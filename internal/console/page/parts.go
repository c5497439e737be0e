package page

import (
	"strconv"
	"time"
)

// When is a time as somebody reads it: how long ago, or the day.
func (v *Visit) When(t time.Time) string {
	if t.IsZero() {
		return v.Say(sayNever)
	}
	now := time.Now()
	switch d := now.Sub(t); {
	case d < -24*time.Hour || d >= 24*time.Hour:
		return v.Date(t)
	case d <= -time.Hour:
		return v.Say(sayInHours, int(-d/time.Hour))
	case d <= -time.Minute:
		return v.Say(sayInMins, int(-d/time.Minute))
	case d < 0:
		return v.Say(sayTomorrow)
	case d < time.Minute:
		return v.Say(sayJustNow)
	case d < time.Hour:
		return v.Say(sayMinutes, int(d/time.Minute))
	default:
		return v.Say(sayHours, int(d/time.Hour))
	}
}

// Date is a time with its day, in the zone of whoever is signed in.
func (v *Visit) Date(t time.Time) string {
	t = t.In(v.Zone())
	layout := "2006-01-02 15:04"
	if t.Year() == time.Now().In(v.Zone()).Year() {
		layout = "01-02 15:04"
	}
	return t.Format(layout)
}

// Clock is a time of a day, to the second.
func (v *Visit) Clock(t time.Time) string { return t.In(v.Zone()).Format("15:04:05") }

// Took is how long something took.
func Took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + " µs"
	case d < 10*time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	default:
		return d.Round(time.Second / 10).String()
	}
}

// Size is how many bytes something has.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	default:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
	}
}

// Number is a number with its thousands apart.
func Number[N int | int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// State is what a light shows.
type State string

// What a [Light] shows.
const (
	On   State = "on"
	Wait State = "wait"
	Off  State = "off"
	Bad  State = "bad"
)
